"""Pictures of results: clusters in the plane, the history of a run, the ladder, the tree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmcopt.bounds.proofs import ProofTree, proof_tree
from mmcopt.checks import is_sparse
from mmcopt.errors import DataError
from mmcopt.modeling.domain_problem import KernelDomain
from mmcopt.modeling.result import Result, Rung
from mmcopt.plot.style import (
    MARKERS,
    axes_for,
    bound_line,
    curve,
    ink,
    legend,
    palette,
    paper,
    plain,
    plain_ticks,
    pyplot,
    shade,
    tidy,
    time_and_objective,
)
from mmcopt.types import Floats, RowBlocks

IN_BLOCKS = ("the rows come in blocks and are not drawn, for that would read all into memory; "
             "a problem on some of the rows can be drawn.")
KERNEL_LIMIT = 3000  # samples up to which the kernel matrix is decomposed for a picture
MANY = 5000  # samples beyond which a page or a PDF holds their pixels, not each of them
FEW = 3  # samples of a cluster that its name would cover
NAMED = 4  # clusters from which their names stand in the picture
SHORT = 20  # leaves up to which a tree is drawn


def called(result: Result, label: Any) -> str:
    """What a label stands for: of a domain it is a side, not a cluster."""
    if isinstance(result.formulation, KernelDomain):
        return "inside" if label == 1 else "outside"
    return f"cluster {label}"


def plot_result(result: Result, ax: Any = None) -> Any:
    """Draw the samples in the plane, one colour and marker a cluster.

    Data with two features are drawn as they are; others by the two leading principal components
    in the feature space of the kernel (up to 3000 samples, or when it has explicit features), else
    of the data.
    """
    if result.labels is None:
        raise DataError("plot: this result has no labels to draw.")
    points, names = _plane(result.formulation)
    made = ax is None
    (ax,) = axes_for(ax)
    draw_clusters(result, points, ax)
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    ax.set_title(title(result), fontsize=10)
    legend(ax, made, markerscale=1.2)
    tidy(ax, grid="")
    return ax


def draw_clusters(result: Result, points: Floats, ax: Any) -> None:
    """Samples at their places, one colour and marker a cluster; of many, with their names."""
    labels, colours = np.asarray(result.labels), palette(ax)
    size = float(np.clip(9000 / len(points), 6, 40))
    values = np.unique(labels)
    for i, value in enumerate(values):
        own = labels == value
        ax.scatter(*points[own].T, s=size, c=[colours[i % len(colours)]],
                   marker=MARKERS[i % len(MARKERS)], linewidths=0.4, edgecolors=[paper(ax)],
                   alpha=0.85, rasterized=len(points) > MANY,
                   label=f"{plain(called(result, value))} ({int(own.sum())})")
    if len(values) >= NAMED:
        for value in values:
            _name(ax, plain(value), points[labels == value])


def _name(ax: Any, name: str, points: Floats) -> None:
    """A cluster's name on the sample in its middle, with paper around it."""
    from matplotlib.patheffects import withStroke

    middle = np.median(points, axis=0)
    place = points[np.argmin(((points - middle) ** 2).sum(axis=1))]
    above = 0 if len(points) > FEW else 9  # points of a page, not to cover all that it names
    ax.annotate(name, place, (0, above), textcoords="offset points", ha="center", va="center",
                fontsize=10, fontweight="bold", zorder=6,
                path_effects=[withStroke(linewidth=3, foreground=paper(ax))])


def title(result: Result) -> str:
    """Who found it, how good it is, and how far from optimal it can be."""
    head = f"{plain(result.solver)} on {type(result.formulation).__name__}"
    if not result.feasible:
        end = f"violation {result.violation:g}, so no gap"
    elif result.lower_bound is None:
        end = "no bound"
    else:
        end = f"bound {result.lower_bound:.6g}, gap {100 * (result.gap or 0.0):.3g} %"
    return f"{head}\nobjective {result.objective:.6g}, {end}"


def _plane(f: Any) -> tuple[Floats, tuple[str, str]]:
    """Return two coordinates of each sample, and what to call them."""
    X, fitted, kernel = (getattr(f, name, None) for name in ("X", "fitted", "kernel"))
    if isinstance(X, RowBlocks):
        raise DataError(f"plot: {IN_BLOCKS}")
    given = kernel is not None and kernel.reads_matrix
    if X is not None and not given and not is_sparse(X) and X.shape[1] == 2:
        return np.asarray(X, dtype=np.float64), ("feature 1", "feature 2")
    kernel_names = ("first kernel principal component", "second kernel principal component")
    n = getattr(f, "n", 0)
    if fitted is not None and n <= KERNEL_LIMIT:
        return _leading(np.asarray(fitted.matrix())), kernel_names
    features = None if fitted is None else fitted.features()
    if features is not None:
        return _components(features), kernel_names
    if X is None or given:
        raise DataError(f"plot: {type(f).__name__} has no data that could be drawn in the plane.")
    return _components(X), ("first principal component", "second principal component")


def _leading(K: Floats) -> Floats:
    """Return the samples in the two leading eigenvectors of the centred kernel."""
    from scipy.linalg import eigh

    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    n = len(K)
    low = max(0, n - 2)
    values, vectors = eigh(K, subset_by_index=[low, n - 1])
    return _oriented((vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])


def _components(X: Any) -> Floats:
    """Return the samples in their two leading principal components, by the small side of X."""
    if is_sparse(X):
        from scipy.sparse import linalg

        sparse: Any = linalg  # whose annotations are in parts wrong
        d, mean = X.shape[1], np.asarray(X.mean(axis=0)).ravel()
        n = X.shape[0]

        def covariance(v: Floats) -> Floats:
            return np.asarray(X.T @ (X @ v)).ravel() - n * mean * float(mean @ v.ravel())

        v0 = np.random.default_rng(0).standard_normal(d)
        operator = sparse.LinearOperator((d, d), matvec=covariance, dtype=np.float64)
        _, vectors = sparse.eigsh(operator, k=min(2, d - 1), which="LA", v0=v0, tol=1e-4)
        return _oriented(np.asarray(X @ vectors[:, ::-1] - mean @ vectors[:, ::-1]))
    A = np.asarray(X, dtype=np.float64) - np.mean(X, axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(A.T @ A)
    return _oriented(A @ vectors[:, :-3:-1])


def _oriented(P: Floats) -> Floats:
    """Two columns whose largest entries are positive, so that pictures do not flip."""
    if P.shape[1] < 2:
        P = np.hstack([P, np.zeros((len(P), 2 - P.shape[1]))])
    signs = np.sign(P[np.argmax(np.abs(P), axis=0), [0, 1]])
    return np.asarray(P * np.where(signs == 0, 1.0, signs))


def plot_history(result: Result, ax: Any = None) -> Any:
    """Draw the objective of the best labels so far against time, with the bound dashed."""
    if not len(result.history):
        raise DataError("plot: this result has no history (it was evaluated, or met no step).")
    made = ax is None
    (ax,) = axes_for(ax)
    seconds, best = curve(result, None)
    each, colour = result.history["objective"], palette(ax)[0]
    ax.plot(result.history["seconds"], each, ".", color=colour, alpha=0.5, markersize=5,
            markeredgewidth=0, label="each step")
    ax.step(seconds, best, where="post", color=colour, linewidth=2, label="best so far")
    ax.plot(seconds[-1:], best[-1:], "o", color=colour, markersize=5)
    bounds = [] if result.lower_bound is None else [result.lower_bound]
    bound_line(ax, bounds)
    time_and_objective(ax, np.concatenate([each, best, np.array(bounds)]))
    ax.set_title(title(result), fontsize=10)
    legend(ax, made)
    tidy(ax)
    return ax


def plot_ladder(result: Result, ax: Any = None) -> Any:
    """Draw what `Result.certify` knew when: the bound of each level, the best labels, the gap."""
    rungs = [r for r in result.ladder if np.isfinite(r.lower)]
    if not rungs:
        raise DataError("plot: this result has no ladder; result.certify(time_limit=...) climbs "
                        "one.")
    made = ax is None
    (ax,) = axes_for(ax)
    begun = [r.seconds for r in rungs[1:] if r.seconds > 0]
    first = max(0.5 * min(begun, default=1.0), 1e-3)
    times = np.maximum([r.seconds for r in rungs], first)
    lower = np.array([r.lower for r in rungs])
    upper = np.array([r.upper for r in rungs])
    known = np.isfinite(upper)
    ax.fill_between(times, lower, np.where(known, upper, lower), where=known, step="post",
                    color=shade(ax, 0.1), linewidth=0, label=_gap_left(rungs[-1]))
    ax.step(times, np.where(known, upper, np.nan), where="post", color=ink(ax), linewidth=1.8,
            label="best labels")
    colours = palette(ax)[:-1]
    for i, (level, begin, end) in enumerate(_stretches(rungs)):
        colour = colours[i % len(colours)]
        until = min(end + 1, len(rungs))  # up to where the next level begins
        ax.step(times[begin:until], lower[begin:until], where="post", color=colour, linewidth=2.4)
        ax.plot(times[begin:end], lower[begin:end], "o", color=colour, markersize=4,
                label=f"{level}: {lower[end - 1]:.6g}")
    if times[-1] > 10 * times[0]:
        ax.set_xscale("log")
        plain_ticks(ax.xaxis, (1.0,) if times[-1] > 300 * times[0] else (1.0, 2.0, 5.0))
    ax.set_xlabel("time (seconds)")
    ax.set_ylabel("objective")
    ax.set_title(title(result), fontsize=10)
    legend(ax, made, inside="lower right")
    tidy(ax)
    return ax


def _gap_left(last: Rung) -> str:
    gap = (last.upper - last.lower) / max(abs(last.upper), 1e-10)
    return f"gap, {100 * gap:.2g} % in the end" if np.isfinite(gap) else "gap"


def _stretches(rungs: Sequence[Rung]) -> list[tuple[str, int, int]]:
    """Levels, and the first and the next-to-last of their rungs."""
    out: list[tuple[str, int, int]] = []
    begin = 0
    for level, group in itertools.groupby(r.level for r in rungs):
        end = begin + len(list(group))
        out.append((level, begin, end))
        begin = end
    return out


def plot_tree(result: Result, ax: Any = None) -> Any:
    """Draw the tree of a branch and bound: what was decided into each node, and its bound.

    Only trees of up to 20 leaves are drawn; ``print(mmcopt.bounds.proof_tree(result))`` shows any.
    """
    tree = proof_tree(result)
    leaves, depth = tree.leaves, max(node.depth for node in tree.nodes)
    if len(leaves) > SHORT:
        raise DataError(f"plot: the tree has {len(leaves)} leaves, too many to draw (at most "
                        f"{SHORT}); print(mmcopt.bounds.proof_tree(result)) shows it.")
    if ax is None:
        size = (max(6.4, 1.15 * len(leaves)), max(3.2, 0.8 * depth + 1.8))
        ax = pyplot().subplots(figsize=size, layout="constrained")[1]
    (ax,) = axes_for(ax)
    place = {v: float(i) for i, v in enumerate(leaves)}
    for v in reversed(range(len(tree.nodes))):  # children come after their parents
        if kids := tree.nodes[v].children:
            place[v] = float(np.mean([place[c] for c in kids]))
    looks = {"split": "#E3EEF6", "open": "#F7D9C4"}
    for v, node in enumerate(tree.nodes):
        for c in node.children:
            ax.plot([place[v], place[c]], [-node.depth, -node.depth - 1], linewidth=1.2, zorder=1,
                    color=shade(ax, 0.6))
        said = node.text.replace(" together", "\ntogether").replace(" apart", "\napart")
        bound = "" if np.isinf(node.bound) else f"\n{node.bound:.6g}"
        ax.text(place[v], -node.depth, f"{said}{bound}", ha="center", va="center", fontsize=7.5,
                color="black",  # for the boxes are bright on any paper
                bbox={"boxstyle": "round,pad=0.35", "edgecolor": "#666666", "linewidth": 0.8,
                      "facecolor": looks.get(node.end, "#CFE8DC")})
    _tree_legend(ax, tree, looks)
    ax.set_xlim(-0.6, len(leaves) - 0.4)
    ax.set_ylim(-depth - 0.5, 0.5)
    ax.set_axis_off()
    ax.set_title(title(result), fontsize=10)
    return ax


def _tree_legend(ax: Any, tree: ProofTree, looks: dict[str, str]) -> None:
    for end in dict.fromkeys(node.end for node in tree.nodes):
        ax.plot([], [], "s", markersize=9, markeredgecolor="#666666", label=end,
                color=looks.get(end, "#CFE8DC"))
    ax.legend(fontsize=8, loc="lower left", framealpha=0.9)
