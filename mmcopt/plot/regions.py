"""Pictures of clusters beside their samples: regions and margins, sizes, and the kernel matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.checks import is_sparse, unpacked
from mmcopt.constraints import Sizes
from mmcopt.errors import DataError
from mmcopt.modeling.domain_problem import KernelDomain
from mmcopt.modeling.result import Result
from mmcopt.plot.results import IN_BLOCKS, called, draw_clusters, title
from mmcopt.plot.style import axes_for, ink, legend, palette, plain, shade, tidy
from mmcopt.types import Floats, RowBlocks

GRID = 200  # points a side at which scores are taken
ROOM = 0.08  # of the extent of the data, left free around them
KERNEL_LIMIT = 3000  # samples up to which a kernel matrix is drawn


def plot_regions(result: Result, ax: Any = None) -> Any:
    """Draw where new samples of two features would fall, and the samples themselves.

    Each region has the colour of its cluster, with lines between them. Of margin problems dashed
    lines show where the margin is 1: the best score lies above the next by as much.
    """
    f = result.formulation
    X: Any = getattr(f, "X", None)
    if isinstance(f, KernelDomain):
        raise DataError("plot: a domain is drawn by kind='domain'.")
    if result.labels is None or isinstance(X, RowBlocks) or is_sparse(X) \
            or np.ndim(X) != 2 or np.shape(X)[1] != 2 or not hasattr(f, "kernel"):
        raise DataError("plot: regions are drawn of labels of dense samples with two features; "
                        "kind='clusters' draws the others.")
    made = ax is None
    points = np.asarray(X, dtype=np.float64)
    (ax,) = axes_for(ax)
    _regions(result, points, ax)
    draw_clusters(result, points, ax)
    ax.set_xlabel("feature 1")
    ax.set_ylabel("feature 2")
    ax.set_title(title(result), fontsize=10)
    legend(ax, made, markerscale=1.2)
    tidy(ax, grid="")
    return ax


def _regions(result: Result, points: Floats, ax: Any) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    room = ROOM * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a, b, GRID) for a, b in zip(low - room, high + room, strict=True)]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    scores = result.decision_function(places)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores]) / 2
    values, colours = np.unique(np.asarray(result.labels)), palette(ax)
    codes = np.searchsorted(values, result.predict(places)).reshape(GRID, GRID)
    ax.imshow(np.array(colours)[codes % len(colours)], alpha=0.16, origin="lower", aspect="auto",
              extent=(*sides[0][[0, -1]], *sides[1][[0, -1]]), zorder=0, interpolation="nearest")
    for i in np.unique(codes):
        ax.contour(*sides, codes == i, levels=[0.5], colors=[ink(ax)], linewidths=0.9)
    if hasattr(result.formulation, "margins_of"):
        first, second = np.sort(scores, axis=1)[:, :-3:-1].T
        ax.contour(*sides, (first - second).reshape(GRID, GRID), levels=[1.0],
                   colors=[shade(ax, 0.7)], linewidths=0.9, linestyles="--")
        ax.plot([], [], "--", color=shade(ax, 0.7), linewidth=0.9, label="margin 1")


def plot_sizes(result: Result, ax: Any = None) -> Any:
    """Draw how many samples each cluster has, and how many it may have."""
    if result.labels is None:
        raise DataError("plot: this result has no labels to count.")
    made = ax is None
    (ax,) = axes_for(ax)
    values, counts = np.unique(np.asarray(result.labels), return_counts=True)
    colours = palette(ax)
    bars = ax.bar(range(len(values)), counts, width=0.7,
                  color=[colours[i % len(colours)] for i in range(len(values))])
    ax.bar_label(bars, padding=2, fontsize=9)
    ax.set_xticks(range(len(values)), [plain(called(result, value)) for value in values],
                  **({"rotation": 35, "ha": "right"} if len(values) > NARROW else {}))
    for bound, name in zip(_allowed(result.formulation), ("at least", "at most"), strict=True):
        if bound is not None:
            ax.axhline(bound, color=ink(ax), linestyle="--", linewidth=1.2,
                       label=f"{name} {bound}")
    ax.set_ylabel("samples")
    ax.set_ylim(0, 1.1 * ax.get_ylim()[1])
    ax.set_title(title(result), fontsize=10)
    legend(ax, made)
    tidy(ax, grid="y")
    return ax


NARROW = 5  # clusters up to which their names fit beside each other


def _allowed(f: Any) -> tuple[int | None, int | None]:
    """The least and the largest size that all clusters may have, where they are the same."""
    sizes = getattr(f, "sizes", None)
    if isinstance(sizes, Sizes):
        low, high = sizes.bounds(f.n, f.n_clusters)
        same = len(set(low.tolist())) == 1 and len(set(high.tolist())) == 1
        if same:
            return (int(low[0]) if low[0] > 1 else None), \
                (int(high[0]) if high[0] < f.n else None)
    floor = getattr(f, "least", None)
    return (floor if isinstance(floor, int) and floor > 1 else None), None


def plot_kernel(result: Result, ax: Any = None) -> Any:
    """Draw the kernel matrix as the problem has it, its samples in the order of their clusters.

    Bright squares on the diagonal are clusters whose samples are alike.
    """
    f = result.formulation
    if isinstance(getattr(f, "X", None), RowBlocks):
        raise DataError(f"plot: {IN_BLOCKS}")
    if result.labels is None:
        raise DataError("plot: this result has no labels to order a kernel matrix by.")
    K = _similarities(f)
    (ax,) = axes_for(ax)
    values, codes = np.unique(np.asarray(result.labels), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    K = K[np.ix_(order, order)]
    low, high = np.quantile(K, [0.01, 0.99])  # one pair of copies must not make all others dark
    picture = ax.imshow(K, cmap="cividis", vmin=low, vmax=max(high, low + 1e-12),
                        interpolation="nearest" if f.n < 500 else "antialiased")
    ax.figure.colorbar(picture, ax=ax, label="kernel")
    ends = np.cumsum(np.bincount(codes)) - 0.5
    for end in ends[:-1]:
        ax.axhline(end, color="white", linewidth=0.8)
        ax.axvline(end, color="white", linewidth=0.8)
    middles = (np.r_[-0.5, ends[:-1]] + ends) / 2
    for side in (ax.set_xticks, ax.set_yticks):
        side(middles, [plain(value) for value in values])
    ax.set_xlabel("samples by cluster")
    ax.set_title(title(result), fontsize=10)
    return ax


def _similarities(f: Any) -> Floats:
    """The kernel matrix of a problem, or the products of its features."""
    if f.n > KERNEL_LIMIT:
        raise DataError(f"plot: the kernel matrix of {f.n} samples is too large to draw (at most "
                        f"{KERNEL_LIMIT}); a problem on some of the rows can be drawn.")
    if (fitted := getattr(f, "fitted", None)) is not None:
        return np.asarray(fitted.matrix())
    features = f.embedding()
    if features is None:
        raise DataError(f"plot: {type(f).__name__} has no kernel matrix.")
    return unpacked(features @ features.T)
