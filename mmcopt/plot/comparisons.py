"""Pictures of comparisons: every run against time, boxes of final objectives, profiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.comparing.table import Comparison, is_hit
from mmcopt.errors import DataError, ParameterError
from mmcopt.modeling.result import Result
from mmcopt.plot.domains import Floats
from mmcopt.plot.style import (
    GREY,
    PALETTE,
    axes_for,
    bound_line,
    curve,
    objective_axis,
    plain,
    tidy,
    time_and_objective,
)


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
        one.set_title(plain(problem), fontsize=10)
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
    curves = {s: [curve(r, row["seconds"]) for row, r in group if len(r.history)]
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
            ax.axhline(value, color=colour, linestyle=":", linewidth=1.8, label=plain(solver))
    bound_line(ax, bounds)
    time_and_objective(ax, np.concatenate(seen))


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
    ax.plot(grid, middle, color=colour, linewidth=2.2, label=plain(solver),
            drawstyle="steps-post", zorder=3)
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
    bound_line(ax, bounds)
    if bounds:
        ax.legend(fontsize=8)
    objective_axis(ax, np.concatenate([*groups, np.array(bounds)]))
    long = max(map(len, runs)) * len(runs) > 60
    ax.set_xticks(places, [plain(solver) for solver in runs], rotation=25 if long else 0,
                  ha="right" if long else "center")


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
        ax.step(x, y, where="post", color=colour, linewidth=2, label=plain(solver))
    ax.set_xscale("log")
    ax.set_xlim(1.0, max(top, 2.0))
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("time to the best known objective, as a multiple of the fastest solver's")
    ax.set_ylabel("share of problems and seeds")
    ax.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.04))
    tidy(ax)
