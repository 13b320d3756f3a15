"""Pictures of domains in the plane: contours, segments, trajectories; and trees of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmcopt.assignment import Assignment, graph
from mmcopt.assignment.peaks import Merge
from mmcopt.errors import DataError
from mmcopt.modeling import Result
from mmcopt.modeling.domain_problem import KernelDomain
from mmcopt.plot.style import (
    MARKERS,
    PALETTE,
    axes_for,
    ink,
    legend,
    legible,
    palette,
    paper,
    shade,
    tidy,
)
from mmcopt.types import Floats

GRID = 160  # points a side at which the decision function is drawn
LINKS = 4000  # segments up to which they are drawn
MARGIN = 0.08  # of the extent of the data, left free around them


def plot_domain(result: Result, ax: Any = None) -> Any:
    """Draw the domain of a one-class result, with clusters by `mmcopt.assignment.graph`."""
    if not isinstance(result.formulation, KernelDomain):
        raise DataError("plot: domains are those of one-class problems; this is "
                        f"{type(result.formulation).__name__}.")
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
    made = ax is None
    (ax,) = axes_for(ax)
    _contours(ax, domain, X)
    _segments(ax, clusters, X)
    size, colours = float(np.clip(6000 / len(X), 5, 30)), palette(ax)
    for label in np.unique(clusters.labels):
        own = (clusters.labels == label) & ~clusters.outside
        colour = [shade(ax, 0.6) if label < 0 else colours[label % len(colours)]]
        ax.scatter(*X[own].T, s=size, marker=MARKERS[label % len(MARKERS)], linewidths=0.3,
                   c=colour, edgecolors=[paper(ax)])
        far = (clusters.labels == label) & clusters.outside
        ax.scatter(*X[far].T, s=size, marker="x", linewidths=1.0, c=colour)
    ax.scatter(*X[clusters.boundary].T, s=2.2 * size, facecolors="none", edgecolors=[ink(ax)],
               linewidths=0.6, label="on the boundary")
    if clusters.outside.any():
        ax.scatter([], [], marker="x", c=[shade(ax, 0.6)], label="outside")
    _trajectories(ax, clusters)
    ax.set_xlabel("feature 1")
    ax.set_ylabel("feature 2")
    ax.set_title(f"{clusters}\ngamma {domain.gamma:.4g}, C {domain.problem.C:.4g}", fontsize=10)
    legend(ax, made)
    tidy(ax, grid="")
    return ax


def _contours(ax: Any, domain: Any, X: Floats) -> None:
    low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    room = MARGIN * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a, b, GRID) for a, b in zip(low - room, high + room, strict=True)]
    places = np.stack(np.meshgrid(*sides), axis=-1)
    f = domain.value(places.reshape(-1, 2)).reshape(GRID, GRID)
    top = max(float(f.max()), 0.05)
    ax.contourf(*sides, f, levels=np.linspace(0.0, top, 8)[:-1], colors=[
        (*legible(ax, PALETTE[0]), 0.05 + 0.05 * i) for i in range(8)], extend="max")
    ax.contour(*sides, f, levels=[0.0], colors=[ink(ax)], linewidths=1.1)


def _segments(ax: Any, clusters: Assignment, X: Floats) -> None:
    ends = X if clusters.equilibria is None else clusters.equilibria
    if 0 < len(clusters.links) <= LINKS:
        from matplotlib.collections import LineCollection

        lines = LineCollection(list(ends[clusters.links]), colors=[shade(ax, 0.6)],
                               linewidths=0.7, zorder=1, label="segments inside")
        ax.add_collection(lines)


def _trajectories(ax: Any, clusters: Assignment) -> None:
    for way in clusters.trajectories or ():
        ax.plot(*way.T, color=shade(ax, 0.75), linewidth=0.7, zorder=1)
    if clusters.equilibria is not None:  # in no colour of a cluster
        ax.scatter(*clusters.equilibria.T, marker="*", s=110, c=[ink(ax)], edgecolors=[paper(ax)],
                   linewidths=0.8, zorder=5, label="equilibria")


def plot_dendrogram(clusters: Assignment, ax: Any = None, most: int = 30) -> Any:
    """Draw how the parts of a domain merge as the level falls, and where clusters were cut off.

    A line for each of the ``most`` persistent peaks goes from its height down to where it merges,
    in the colour of its cluster; a cluster's own peak ends at a ring, where it was cut.
    """
    tree = clusters.tree
    if tree is None:
        raise DataError(f"plot: {clusters.method} makes no tree; mmcopt.assignment.level_tree "
                        "does.")
    (ax,) = axes_for(ax)
    merges = tree.merges[:max(0, most - 1)]
    peaks = [tree.root, *(m.peak for m in merges)]
    place = {peak: i for i, peak in enumerate(_in_order(tree.root, merges))}
    f, colours, label = tree.domain.f, palette(ax), clusters.labels
    low = min((m.height for m in merges), default=0.0)
    low -= 0.06 * (float(f[tree.root]) - low)  # the highest peak goes on below all merges
    ends = {tree.root: low, **{m.peak: m.height for m in merges}}
    for i, peak in enumerate(peaks):
        colour = colours[label[peak] % len(colours)] if label[peak] >= 0 else shade(ax, 0.6)
        ax.plot([place[peak]] * 2, [ends[peak], f[peak]], color=colour,
                linewidth=2.4 if i < clusters.n_clusters else 1.2, solid_capstyle="butt")
    for i, m in enumerate(merges, start=1):
        cut = i < clusters.n_clusters
        ax.plot([place[m.peak], place[m.into]], [m.height] * 2, linewidth=1.0,
                color=shade(ax, 0.55), linestyle="--" if cut else "-", zorder=1)
        if cut:
            ax.plot(place[m.peak], m.height, "o", markersize=7, markerfacecolor="none",
                    color=ink(ax))
    ax.set_xticks(range(len(peaks)), [str(peak) for peak in sorted(peaks, key=place.__getitem__)],
                  rotation=90 if len(peaks) > 12 else 0, fontsize=8)
    ax.set_xlabel("peaks, by the number of the sample on top")
    ax.set_ylabel("level of the decision function")
    rings = "; rings: where they were cut off" if clusters.n_clusters > 1 else ""
    ax.set_title(f"{clusters}\ncolours: clusters{rings}", fontsize=10)
    tidy(ax, grid="y")
    return ax


def _in_order(root: int, merges: Sequence[Merge]) -> list[int]:
    """Peaks from left to right so that no lines cross: what merges first is nearest."""
    order: list[int] = []
    ahead = [root]
    while ahead:
        order.append(ahead.pop())
        into = [m for m in merges if m.into == order[-1]]
        ahead += [m.peak for m in sorted(into, key=lambda m: m.height)]
    return order
