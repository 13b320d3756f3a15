"""Pictures of domains in the plane: contours, segments, trajectories; and trees of their levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.assignment import Assignment, graph
from mmcopt.errors import DataError
from mmcopt.modeling import Result
from mmcopt.plot.style import GREY, MARKERS, PALETTE, axes_for, tidy
from mmcopt.types import Floats

GRID = 160  # points a side at which the decision function is drawn
LINKS = 4000  # segments up to which they are drawn
MARGIN = 0.08  # of the extent of the data, left free around them


def plot_domain(result: Result, ax: Any = None) -> Any:
    """Draw the domain of a one-class result, with clusters by `mmcopt.assignment.graph`."""
    return plot_assignment(graph(result), ax=ax)


def plot_assignment(clusters: Assignment, ax: Any = None) -> Any:
    """Draw clusters of a one-class model with two features, and what they were made from.

    Shaded is the decision function, its zero level a line: the boundary of the domain. Grey lines
    are segments found inside the domain; of `mmcopt.assignment.equilibrium` the trajectories of the
    band are drawn, when they were kept, with the equilibria they lead to. Rings mark samples on the
    boundary, crosses samples outside.
    """
    domain = clusters.domain
    X = np.asarray(domain.X)
    if X.ndim != 2 or X.shape[1] != 2 or domain.gamma is None:
        raise DataError("plot: domains are drawn for two features and a Gaussian kernel; got "
                        f"{X.shape[1]} features and {domain.problem.kernel!r}.")
    (ax,) = axes_for(ax)
    _contours(ax, domain, X)
    _segments(ax, clusters, X)
    size = float(np.clip(6000 / len(X), 5, 30))
    for label in np.unique(clusters.labels):
        own = (clusters.labels == label) & ~clusters.outside
        ax.scatter(*X[own].T, s=size, marker=MARKERS[label % len(MARKERS)], linewidths=0.3,
                   c=GREY if label < 0 else PALETTE[label % len(PALETTE)], edgecolors="white")
        far = (clusters.labels == label) & clusters.outside
        ax.scatter(*X[far].T, s=size, marker="x", linewidths=1.0,
                   c=GREY if label < 0 else PALETTE[label % len(PALETTE)])
    ax.scatter(*X[clusters.boundary].T, s=2.2 * size, facecolors="none", edgecolors="black",
               linewidths=0.6, label="on the boundary")
    if clusters.outside.any():
        ax.scatter([], [], marker="x", c=GREY, label="outside")
    _trajectories(ax, clusters)
    ax.set_xlabel("feature 1")
    ax.set_ylabel("feature 2")
    ax.set_title(f"{clusters}\ngamma {domain.gamma:.4g}, C {domain.problem.C:.4g}", fontsize=10)
    ax.legend(fontsize=8, framealpha=0.9)
    tidy(ax, grid=False)
    return ax


def _contours(ax: Any, domain: Any, X: Floats) -> None:
    low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    room = MARGIN * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a, b, GRID) for a, b in zip(low - room, high + room, strict=True)]
    places = np.stack(np.meshgrid(*sides), axis=-1)
    f = domain.value(places.reshape(-1, 2)).reshape(GRID, GRID)
    top = max(float(f.max()), 0.05)
    ax.contourf(*sides, f, levels=np.linspace(0.0, top, 8)[:-1], colors=[
        (0.0, 0.447, 0.698, 0.05 + 0.05 * i) for i in range(8)], extend="max")
    ax.contour(*sides, f, levels=[0.0], colors="black", linewidths=1.1)


def _segments(ax: Any, clusters: Assignment, X: Floats) -> None:
    ends = X if clusters.equilibria is None else clusters.equilibria
    if 0 < len(clusters.links) <= LINKS:
        from matplotlib.collections import LineCollection

        lines = LineCollection(list(ends[clusters.links]), colors=GREY, linewidths=0.7, zorder=1,
                               label="segments inside")
        ax.add_collection(lines)


def _trajectories(ax: Any, clusters: Assignment) -> None:
    for way in clusters.trajectories or ():
        ax.plot(*way.T, color="#E69F00", linewidth=0.8, zorder=1)
    if clusters.equilibria is not None:
        ax.scatter(*clusters.equilibria.T, marker="*", s=70, c="#D55E00", edgecolors="white",
                   linewidths=0.5, zorder=5, label="equilibria")


def plot_dendrogram(clusters: Assignment, ax: Any = None, most: int = 30) -> Any:
    """Draw how the peaks of a level tree merge, the ``most`` persistent ones, by SciPy."""
    from scipy.cluster.hierarchy import dendrogram

    tree = clusters.tree
    if tree is None:
        raise DataError(f"plot: {clusters.method} makes no tree; mmcopt.assignment.level_tree "
                        "does.")
    (ax,) = axes_for(ax)
    dendrogram(tree.linkage(), ax=ax, truncate_mode="lastp", p=most,
               color_threshold=0.0, above_threshold_color=PALETTE[0])
    ax.set_xlabel("peaks (with the number of others merged into them, in brackets)")
    ax.set_ylabel("how far the level has fallen below the highest peak")
    ax.set_title(f"{clusters}", fontsize=10)
    tidy(ax)
    return ax
