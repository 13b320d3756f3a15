"""Pictures of results and comparisons; every function returns matplotlib axes and shows nothing.

The first colours are those of Okabe and Ito, which colour-blind readers can tell apart, the others
of Tol; clusters also differ in the shape of their markers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import is_sparse
from mmcopt.comparison import Comparison, is_hit
from mmcopt.errors import BackendError, DataError, ParameterError
from mmcopt.proofs import ProofTree, proof_tree
from mmcopt.result import Result, Rung

__all__ = ["plot_comparison", "plot_history", "plot_ladder", "plot_result", "plot_tree"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5230",
           "#882255", "#999933", "#44AA99", "#888888", "#000000")
MARKERS = "osD^vPX<>*"
GREY = "#666666"
KERNEL_LIMIT = 3000  # samples up to which the kernel matrix is decomposed for a picture
SHORT = 20  # leaves up to which a tree is drawn
WIDE = 20.0  # ratio of largest to smallest objective from which its axis is logarithmic
Floats = NDArray[np.float64]


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as e:
        raise BackendError("drawing needs matplotlib: pip install 'mmcopt[plot]'.") from e
    return plt


def axes_for(ax: Any, count: int = 1) -> list[Any]:
    """Return the axes that were given, or ``count`` new ones side by side."""
    if ax is None:
        plt = _pyplot()
        _, made = plt.subplots(1, count, figsize=(max(6.4, 5.4 * count), 4.4), squeeze=False,
                               layout="constrained")
        return list(made[0])
    given = list(np.ravel(np.array(ax, dtype=object)))
    if len(given) != count:
        raise ParameterError(f"plot: this picture needs {count} axes, one a problem; "
                             f"got {len(given)}. With ax=None they are made.")
    return given


def tidy(ax: Any, grid: bool = True) -> None:
    """Take away the upper and the right side of the frame, and draw a pale grid if wanted."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(True, color="#E3E3E3", linewidth=0.8)
        ax.set_axisbelow(True)


# ---------------------------------------------------------------- results


def draw(result: Result, kind: str, ax: Any = None) -> Any:
    """Draw one of the pictures of a result: clusters, domain, ladder or tree."""
    from mmcopt.plot_domain import plot_domain

    kinds: dict[str, Callable[..., Any]] = {"clusters": plot_result, "domain": plot_domain,
                                            "ladder": plot_ladder, "tree": plot_tree}
    if kind not in kinds:
        raise ParameterError(f"plot: kind must be one of {', '.join(map(repr, kinds))}; "
                             f"got {kind!r}.")
    return kinds[kind](result, ax=ax)


def plot_result(result: Result, ax: Any = None) -> Any:
    """Draw the samples in the plane, one colour and marker a cluster.

    Data with two features are drawn as they are; others by the two leading principal components
    in the feature space of the kernel (up to 3000 samples, or when it has explicit features), else
    of the data.
    """
    if result.labels is None:
        raise DataError("plot: this result has no labels to draw.")
    points, names = _plane(result.formulation)
    (ax,) = axes_for(ax)
    labels = np.asarray(result.labels)
    size = float(np.clip(6000 / len(points), 6, 40))
    for i, value in enumerate(np.unique(labels)):
        inside = labels == value
        ax.scatter(*points[inside].T, s=size, c=PALETTE[i % len(PALETTE)],
                   marker=MARKERS[i % len(MARKERS)], linewidths=0.4, edgecolors="white", alpha=0.85,
                   label=f"cluster {value} ({int(inside.sum())})")
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    ax.set_title(_title(result), fontsize=10)
    ax.legend(fontsize=8, framealpha=0.9, markerscale=1.2)
    tidy(ax, grid=False)
    return ax


def _title(result: Result) -> str:
    head = f"{result.solver} on {type(result.formulation).__name__}"
    if not result.feasible:
        end = f"violation {result.violation:g}, so no gap"
    elif result.lower_bound is None:
        end = "no bound"
    else:
        end = f"bound {result.lower_bound:.6g}, gap {100 * (result.gap or 0.0):.3g} %"
    return f"{head}\nobjective {result.objective:.6g}, {end}"


def _plane(f: Any) -> tuple[Floats, tuple[str, str]]:
    """Return two coordinates of each sample, and what to call them."""
    X, fitted = getattr(f, "X", None), getattr(f, "fitted", None)
    given = "Precomputed" in repr(getattr(f, "kernel", ""))
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
    (ax,) = axes_for(ax)
    seconds, best = _curve(result, None)
    each = result.history["objective"]
    ax.plot(result.history["seconds"], each, ".", color="#B8CFE0", markersize=4, label="each step")
    ax.step(seconds, best, where="post", color=PALETTE[0], linewidth=2, label="best so far")
    ax.plot(seconds[-1:], best[-1:], "o", color=PALETTE[0], markersize=5)
    bounds = [] if result.lower_bound is None else [result.lower_bound]
    _bound_line(ax, bounds)
    _scales(ax, np.concatenate([each, best, np.array(bounds)]))
    ax.set_title(_title(result), fontsize=10)
    ax.legend(fontsize=8)
    tidy(ax)
    return ax


def _curve(result: Result, seconds: float | None) -> tuple[Floats, Floats]:
    """Return times and best-so-far objectives of a run, ending with its result."""
    t, v = result.history["seconds"], result.history["best"]
    order = np.argsort(t, kind="stable")
    end = max(float(t.max(initial=0.0)), seconds or 0.0)
    times = np.append(t[order], end)
    best = np.minimum.accumulate(np.append(v[order], result.objective))
    return np.maximum(times, 1e-6), best


def _bound_line(ax: Any, bounds: Sequence[float]) -> None:
    if bounds:
        ax.axhline(max(bounds), color="black", linestyle="--", linewidth=1.2,
                   label=f"lower bound {max(bounds):.6g}")


def _scales(ax: Any, values: Floats) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("time (seconds)")
    low, high = ax.get_xlim()
    _plain_ticks(ax.xaxis, (1.0,) if high > 300 * low else (1.0, 2.0, 5.0))
    _objective_scale(ax, values)


def _objective_scale(ax: Any, values: Floats) -> None:
    ax.set_ylabel("objective")
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0 and values.max() > WIDE * values.min():
        ax.set_yscale("log")
        _plain_ticks(ax.yaxis, (1.0, 2.0, 5.0))
        ax.set_ylabel("objective (log scale)")


def _plain_ticks(axis: Any, subs: tuple[float, ...]) -> None:
    """Numbers as people write them on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


# ---------------------------------------------------------------- bounds


def plot_ladder(result: Result, ax: Any = None) -> Any:
    """Draw what `Result.certify` knew when: the bound of each level, the best labels, the gap."""
    rungs = [r for r in result.ladder if np.isfinite(r.lower)]
    if not rungs:
        raise DataError("plot: this result has no ladder; result.certify(time_limit=...) climbs "
                        "one.")
    (ax,) = axes_for(ax)
    begun = [r.seconds for r in rungs[1:] if r.seconds > 0]
    first = max(0.5 * min(begun, default=1.0), 1e-3)
    times = np.maximum([r.seconds for r in rungs], first)
    lower = np.array([r.lower for r in rungs])
    upper = np.array([r.upper for r in rungs])
    known = np.isfinite(upper)
    ax.fill_between(times, lower, np.where(known, upper, lower), where=known, step="post",
                    color="#DCDCDC", alpha=0.7, linewidth=0, label=_gap_left(rungs[-1]))
    ax.step(times, np.where(known, upper, np.nan), where="post", color="black", linewidth=1.8,
            label="best labels")
    for level, colour, begin, end in _stretches(rungs):
        until = min(end + 1, len(rungs))  # up to where the next level begins
        ax.step(times[begin:until], lower[begin:until], where="post", color=colour, linewidth=2.4)
        ax.plot(times[begin:end], lower[begin:end], "o", color=colour, markersize=4,
                label=f"{level}: {lower[end - 1]:.6g}")
    if times[-1] > 10 * times[0]:
        ax.set_xscale("log")
        _plain_ticks(ax.xaxis, (1.0,) if times[-1] > 300 * times[0] else (1.0, 2.0, 5.0))
    ax.set_xlabel("seconds")
    ax.set_ylabel("objective")
    ax.set_title(_title(result), fontsize=10)
    ax.legend(fontsize=8, loc="lower right", framealpha=0.9)
    tidy(ax)
    return ax


def _gap_left(last: Rung) -> str:
    gap = (last.upper - last.lower) / max(abs(last.upper), 1e-10)
    return f"gap, {100 * gap:.2g} % in the end" if np.isfinite(gap) else "gap"


def _stretches(rungs: Sequence[Rung]) -> list[tuple[str, str, int, int]]:
    """Levels with a colour, and the first and the next-to-last of their rungs."""
    out: list[tuple[str, str, int, int]] = []
    begin = 0
    for level, group in itertools.groupby(r.level for r in rungs):
        end = begin + len(list(group))
        out.append((level, PALETTE[len(out) % (len(PALETTE) - 1)], begin, end))
        begin = end
    return out


def plot_tree(result: Result, ax: Any = None) -> Any:
    """Draw the tree of a branch and bound: what was decided into each node, and its bound.

    Only trees of up to 20 leaves are drawn; ``print(mmcopt.proofs.proof_tree(result))`` shows any.
    """
    tree = proof_tree(result)
    leaves, depth = tree.leaves, max(node.depth for node in tree.nodes)
    if len(leaves) > SHORT:
        raise DataError(f"plot: the tree has {len(leaves)} leaves, too many to draw (at most "
                        f"{SHORT}); print(mmcopt.proofs.proof_tree(result)) shows it.")
    if ax is None:
        size = (max(6.4, 1.15 * len(leaves)), max(3.2, 0.8 * depth + 1.8))
        ax = _pyplot().subplots(figsize=size, layout="constrained")[1]
    (ax,) = axes_for(ax)
    place = {v: float(i) for i, v in enumerate(leaves)}
    for v in reversed(range(len(tree.nodes))):  # children come after their parents
        if kids := tree.nodes[v].children:
            place[v] = float(np.mean([place[c] for c in kids]))
    looks = {"split": "#E3EEF6", "open": "#F7D9C4"}
    for v, node in enumerate(tree.nodes):
        for c in node.children:
            ax.plot([place[v], place[c]], [-node.depth, -node.depth - 1], color=GREY,
                    linewidth=1.2, zorder=1)
        said = node.text.replace(" together", "\ntogether").replace(" apart", "\napart")
        bound = "" if np.isinf(node.bound) else f"\n{node.bound:.6g}"
        ax.text(place[v], -node.depth, f"{said}{bound}", ha="center", va="center", fontsize=7.5,
                bbox={"boxstyle": "round,pad=0.35", "edgecolor": GREY, "linewidth": 0.8,
                      "facecolor": looks.get(node.end, "#CFE8DC")})
    _tree_legend(ax, tree, looks)
    ax.set_xlim(-0.6, len(leaves) - 0.4)
    ax.set_ylim(-depth - 0.5, 0.5)
    ax.set_axis_off()
    ax.set_title(_title(result), fontsize=10)
    return ax


def _tree_legend(ax: Any, tree: ProofTree, looks: dict[str, str]) -> None:
    for end in dict.fromkeys(node.end for node in tree.nodes):
        ax.plot([], [], "s", markersize=9, markeredgecolor=GREY, label=end,
                color=looks.get(end, "#CFE8DC"))
    ax.legend(fontsize=8, loc="lower left", framealpha=0.9)


# ---------------------------------------------------------------- comparisons


def plot_comparison(comparison: Comparison, kind: str = "time", ax: Any = None) -> Any:
    """Draw a comparison; one axes a problem (an array of them when there are several).

    ``"time"``: objective of the best labels so far against time: each run as a thin line that ends
    in a dot, the median over seeds as a thick one, and the bound dashed.
    ``"box"``: the final objectives of all runs. ``"profile"``: a performance profile over all
    problems and seeds: the share of runs that meet the best known objective within a multiple of
    the time of the fastest solver.

    The legend of ``"time"`` stands beside the picture, or inside when the axes are given.
    """
    kinds: dict[str, Callable[..., None]] = {"time": _plot_time, "box": _plot_box}
    if kind not in (*kinds, "profile"):
        raise ParameterError(f"plot: kind must be one of 'time', 'profile', 'box'; got {kind!r}.")
    if not any(r is not None for r in comparison.results):
        raise DataError("plot: this comparison has no finished run to draw.")
    solvers = list(dict.fromkeys(row["solver"] for row in comparison.rows))
    colours = dict(zip(solvers, itertools.cycle(PALETTE), strict=False))
    if kind == "profile":
        (ax,) = axes_for(ax)
        timed = {row["solver"] for row in comparison.rows if row["seed"] is not None}
        colours = {s: colour for s, colour in colours.items() if s in timed}
        _plot_profile(comparison, colours, ax)
        return ax
    problems = list(dict.fromkeys(row["problem"] for row in comparison.rows))
    axes = axes_for(ax, len(problems))
    for problem, one in zip(problems, axes, strict=True):
        kinds[kind](comparison, problem, colours, one)
        one.set_title(problem, fontsize=10)
        tidy(one)
    if kind == "time":
        _time_legend(comparison, axes, beside=ax is None)
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def _runs(comparison: Comparison, problem: str) -> dict[str, list[tuple[dict[str, Any], Result]]]:
    """Return the finished runs of a problem by solver."""
    out: dict[str, list[tuple[dict[str, Any], Result]]] = {}
    for row, result in zip(comparison.rows, comparison.results, strict=True):
        if row["problem"] == problem and result is not None:
            out.setdefault(row["solver"], []).append((row, result))
    return out


def _bounds(runs: dict[str, list[tuple[dict[str, Any], Result]]]) -> list[float]:
    return [r.lower_bound for group in runs.values() for _, r in group if r.lower_bound is not None]


def _plot_time(comparison: Comparison, problem: str, colours: dict[str, str], ax: Any) -> None:
    runs = _runs(comparison, problem)
    curves = {s: [_curve(r, row["seconds"]) for row, r in group if len(r.history)]
              for s, group in runs.items()}
    bounds = _bounds(runs)
    seen = [np.array(bounds)]
    for solver, group in runs.items():
        colour = colours[solver]
        if curves[solver]:
            seen.append(_median_curve(ax, curves[solver], solver, colour))
        else:  # labels from elsewhere: a level without a history
            value = min(r.objective for _, r in group)
            seen.append(np.array([value]))
            ax.axhline(value, color=colour, linestyle=":", linewidth=1.8, label=solver)
    _bound_line(ax, bounds)
    _scales(ax, np.concatenate(seen))


def _median_curve(ax: Any, curves: list[tuple[Floats, Floats]], solver: str,
                  colour: str) -> Floats:
    """Draw step curves and their median; return all objectives.

    The median counts runs in their first step as infinite, and is drawn from when three in four
    have done that until most have ended: single slow runs would stretch it.
    """
    first, last = sorted(float(t[0]) for t, _ in curves), sorted(float(t[-1]) for t, _ in curves)
    start, end = first[3 * len(curves) // 4], last[len(curves) // 2]
    grid = np.geomspace(start, max(end, start * 1.001), 300)
    values = np.array([np.append(np.inf, v)[np.searchsorted(t, grid, side="right")]
                       for t, v in curves])
    middle = np.sort(values, axis=0)[len(curves) // 2]
    ax.plot(grid, middle, color=colour, linewidth=2.2, label=solver, drawstyle="steps-post",
            zorder=3)
    ax.plot(grid[-1:], middle[-1:], "o", color=colour, markersize=5, zorder=3)
    for t, v in curves if len(curves) > 1 else []:
        ax.step(t, v, where="post", color=colour, linewidth=0.7, alpha=0.7)
        ax.plot(t[-1:], v[-1:], "o", color=colour, markersize=3, alpha=0.7)
    return np.concatenate([v for _, v in curves])


def _time_legend(comparison: Comparison, axes: list[Any], beside: bool) -> None:
    """Say what the lines are: in each axes, or once to the right of the last."""
    if not beside:
        for ax in axes:
            ax.legend(fontsize=8, framealpha=0.9)
        return
    entries: dict[str, Any] = {}
    for ax in axes:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            bound = name.startswith("lower bound ") and len(axes) > 1  # it differs then
            entries.setdefault("lower bound" if bound else name, line)
    most = max(len(group) for p in comparison.problems for group in _runs(comparison, p).values())
    figure = axes[0].figure
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 0.7 + 0.07 * max(map(len, entries)), height)
    axes[-1].legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.02, 1.0),
                    borderaxespad=0.0, frameon=False, fontsize=9, title_fontsize=9,
                    alignment="left", title=f"thick: median of {most} runs\nthin: each run"
                    if most > 1 else None)


def _plot_box(comparison: Comparison, problem: str, colours: dict[str, str], ax: Any) -> None:
    runs = _runs(comparison, problem)
    rng = np.random.default_rng(0)  # the same jitter in every picture
    groups = [np.array([r.objective for _, r in group]) for group in runs.values()]
    places = np.arange(1, len(groups) + 1)
    ax.boxplot(groups, positions=places, widths=0.5, showfliers=False,
               medianprops={"color": "black", "linewidth": 1.6},
               boxprops={"color": GREY}, whiskerprops={"color": GREY}, capprops={"color": GREY})
    for place, solver, values in zip(places, runs, groups, strict=True):
        ax.plot(place + rng.uniform(-0.12, 0.12, values.size), values, "o", markersize=4.5,
                color=colours[solver], alpha=0.8)
    bounds = _bounds(runs)
    _bound_line(ax, bounds)
    if bounds:
        ax.legend(fontsize=8)
    _objective_scale(ax, np.concatenate([*groups, np.array(bounds)]))
    long = max(map(len, runs)) * len(runs) > 60
    ax.set_xticks(places, list(runs), rotation=25 if long else 0, ha="right" if long else "center")


def _plot_profile(comparison: Comparison, colours: dict[str, str], ax: Any) -> None:
    instances = {(row["problem"], row["seed"]) for row in comparison.rows
                 if row["seed"] is not None}
    times = {s: dict.fromkeys(instances, np.inf) for s in colours}
    for row in comparison.rows:
        best, key = comparison.best(row["problem"]), (row["problem"], row["seed"])
        hit = best is not None and row["objective"] is not None and row["violation"] <= 1e-6 \
            and is_hit(row["objective"], best.objective)
        if hit and key in instances and row["time_to_best"] is not None:
            times[row["solver"]][key] = max(row["time_to_best"], 1e-6)
    fastest = {i: min(times[s][i] for s in colours) for i in instances}
    ratios = {s: np.sort([times[s][i] / fastest[i] for i in instances if fastest[i] < np.inf])
              for s in colours if np.isfinite(list(times[s].values())).any()}
    top = max((float(r[np.isfinite(r)].max()) for r in ratios.values()), default=1.0) * 1.5
    for solver, colour in colours.items():
        r = ratios.get(solver, np.array([]))
        r = r[np.isfinite(r)]
        x = np.concatenate([[1.0], r, [top]])
        y = np.concatenate([[0.0], np.arange(1, r.size + 1), [r.size]]) / max(1, len(instances))
        ax.step(x, y, where="post", color=colour, linewidth=2, label=solver)
    ax.set_xscale("log")
    ax.set_xlim(1.0, max(top, 2.0))
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("time to the best known objective, as a multiple of the fastest solver's")
    ax.set_ylabel("share of problems and seeds")
    ax.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.04))
    tidy(ax)
