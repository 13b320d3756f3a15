"""Pictures of comparisons: runs against time in bands, boxes of final objectives, profiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mmcopt.comparing.statistics import HIT, performance_ratios, sorted_times, times_by_solver
from mmcopt.comparing.table import Comparison
from mmcopt.errors import DataError, ParameterError
from mmcopt.modeling.result import Result
from mmcopt.plot.style import (
    Colour,
    axes_for,
    bound_line,
    curve,
    ink,
    legend,
    objective_axis,
    palette,
    plain,
    plain_ticks,
    shade,
    tidy,
    time_and_objective,
)
from mmcopt.types import Floats


def plot_comparison(comparison: Comparison, kind: str = "time", ax: Any = None, *,
                    within: float = HIT) -> Any:
    """Draw a comparison; one axes a problem (an array of them when there are several).

    ``"time"``: objective of the best labels so far against time: the median over seeds as a line,
    the band around it from the quartile of the better runs to that of the worse, and the bound
    dashed. ``"box"``: the final objectives of all runs.

    Over all problems and seeds, for targets ``within`` a relative distance of the best known
    objective: ``"data"``, a data profile: the share of runs that have met the target by a time;
    ``"profile"``, a performance profile: the share that meets it within a multiple of the time of
    the fastest solver.

    The legend of ``"time"`` stands beside the picture, or inside when the axes are given.
    """
    kinds: dict[str, Callable[..., None]] = {"time": _plot_time, "box": _plot_box}
    profiles: dict[str, Callable[..., None]] = {"profile": _plot_profile, "data": _plot_data}
    if kind not in (*kinds, *profiles):
        raise ParameterError("plot: kind must be one of 'time', 'box', 'profile', 'data'; "
                             f"got {kind!r}.")
    if not any(r is not None for r in comparison.results):
        raise DataError("plot: this comparison has no finished run to draw.")
    solvers = list(dict.fromkeys(row["solver"] for row in comparison.rows))
    if kind in profiles:
        runs = list(zip(comparison.rows, comparison.results, strict=True))
        times = times_by_solver(runs, comparison.targets(within))
        if not times:
            raise DataError("plot: no run of this comparison kept the constraints, so that there "
                            "is no target to reach; kind='box' shows their objectives.")
        (one,) = axes_for(ax)
        profiles[kind](times, _colours(solvers, one), one)
        _profile_axes(one, made=ax is None)
        return one
    problems = list(dict.fromkeys(row["problem"] for row in comparison.rows))
    axes = axes_for(ax, len(problems))
    for problem, one in zip(problems, axes, strict=True):
        kinds[kind](comparison, problem, _colours(solvers, one), one)
        one.set_title(plain(problem), fontsize=10)
        tidy(one, grid="y" if kind == "box" else "both")
    if kind == "time":
        _time_legend(comparison, axes, beside=ax is None)
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


Colours: TypeAlias = dict[str, Colour]


def _colours(solvers: list[str], ax: Any) -> Colours:
    return dict(zip(solvers, itertools.cycle(palette(ax)), strict=False))


def _runs(comparison: Comparison, problem: str) -> dict[str, list[tuple[dict[str, Any], Result]]]:
    """Return the finished runs of a problem by solver."""
    out: dict[str, list[tuple[dict[str, Any], Result]]] = {}
    for row, result in zip(comparison.rows, comparison.results, strict=True):
        if row["problem"] == problem and result is not None:
            out.setdefault(row["solver"], []).append((row, result))
    return out


def _bounds(runs: dict[str, list[tuple[dict[str, Any], Result]]]) -> list[float]:
    return [r.lower_bound for group in runs.values() for _, r in group if r.lower_bound is not None]


def _plot_time(comparison: Comparison, problem: str, colours: Colours, ax: Any) -> None:
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
                  colour: Colour) -> Floats:
    """Draw the median of step curves and the band of their quartiles; return all objectives.

    Runs in their first step count as infinite. The median is drawn from when three in four have
    done that until most have ended: single slow runs would stretch it.
    """
    count = len(curves)
    first, last = sorted(float(t[0]) for t, _ in curves), sorted(float(t[-1]) for t, _ in curves)
    start, end = first[3 * count // 4], last[count // 2]
    grid = np.geomspace(start, max(end, start * 1.001), 300)
    values = np.sort([np.append(np.inf, v)[np.searchsorted(t, grid, side="right")]
                      for t, v in curves], axis=0)
    low, middle, high = (values[i] for i in ((count - 1) // 4, count // 2, -1 - (count - 1) // 4))
    ax.plot(grid, middle, color=colour, linewidth=2.2, label=plain(solver),
            drawstyle="steps-post", zorder=3)
    ax.plot(grid[-1:], middle[-1:], "o", color=colour, markersize=5, zorder=3)
    there = np.isfinite(high)
    ax.fill_between(grid[there], low[there], high[there], step="post", color=colour, alpha=0.18,
                    linewidth=0.0)
    return np.concatenate([v for _, v in curves])


def _time_legend(comparison: Comparison, axes: list[Any], beside: bool) -> None:
    """Say what the lines are: in each axes, or once to the right of the last."""
    if not beside:
        for ax in axes:
            legend(ax, made=False)
        return
    entries: dict[str, Any] = {}
    for ax in axes:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            bound = name.startswith("lower bound ") and len(axes) > 1  # it differs then
            entries.setdefault("lower bound" if bound else name, line)
    most = max(len(group) for p in comparison.problems for group in _runs(comparison, p).values())
    title = f"line: median of {most} runs\nband: {quartiles(most)}" if most > 1 else None
    legend(axes[-1], made=True, entries=entries, title=title)


def quartiles(count: int) -> str:
    """What the band around a median of so many runs holds, in words."""
    return "all of them" if count < 5 else "the middle half"


def _plot_box(comparison: Comparison, problem: str, colours: Colours, ax: Any) -> None:
    runs = _runs(comparison, problem)
    rng = np.random.default_rng(0)  # the same jitter in every picture
    groups = [np.array([r.objective for _, r in group]) for group in runs.values()]
    places = np.arange(1, len(groups) + 1)
    ax.boxplot(groups, positions=places, widths=0.5, showfliers=False,
               medianprops={"color": ink(ax), "linewidth": 1.6},
               **{part: {"color": shade(ax, 0.6)} for part in ("boxprops", "whiskerprops",
                                                               "capprops")})
    for place, solver, values in zip(places, runs, groups, strict=True):
        ax.plot(place + rng.uniform(-0.12, 0.12, values.size), values, "o", markersize=4.5,
                color=colours[solver], alpha=0.8)
    bounds = _bounds(runs)
    bound_line(ax, bounds)
    _bound_words(ax)
    objective_axis(ax, np.concatenate([*groups, np.array(bounds)]))
    long = max(map(len, runs)) * len(runs) > 60
    ax.set_xticks(places, [plain(solver) for solver in runs], rotation=25 if long else 0,
                  ha="right" if long else "center")


def _bound_words(ax: Any) -> None:
    """The bound's name below its line, where no run can be."""
    for line in ax.get_lines():
        if str(line.get_label()).startswith("lower bound"):
            ax.annotate(line.get_label(), (0.01, line.get_ydata()[0]), (0, -3), fontsize=8,
                        xycoords=("axes fraction", "data"), textcoords="offset points", va="top")
            ax.margins(y=0.12)


Times = dict[str, dict[Any, float]]


def _plot_profile(times: Times, colours: Colours, ax: Any) -> None:
    ratios = performance_ratios(times)
    _shares(ratios, colours, ax, start=1.0)
    ax.set_xlabel("time to the target, as a multiple of the fastest solver's")


def _plot_data(times: Times, colours: Colours, ax: Any) -> None:
    every = sorted_times(times)
    reached = [t for own in every.values() for t in own if t < np.inf]
    _shares(every, colours, ax, start=0.7 * min(reached, default=1.0))
    ax.set_xlabel("time (seconds)")


def _shares(values: dict[str, Floats], colours: Colours, ax: Any, start: float) -> None:
    """Of each solver the share of runs that have reached the target by a value, as steps."""
    finite = {solver: own[np.isfinite(own)] for solver, own in values.items()}
    top = 1.5 * max((float(own.max(initial=start)) for own in finite.values()), default=start)
    for solver, own in finite.items():
        x = np.concatenate([[start], own, [top]])
        y = np.concatenate([[0.0], np.arange(1, own.size + 1), [own.size]])
        ax.step(x, y / max(1, values[solver].size), where="post", color=colours[solver],
                linewidth=2, label=plain(solver))
    ax.set_xscale("log")
    ax.set_xlim(start, max(top, 2.0 * start))
    plain_ticks(ax.xaxis, (1.0,) if top > 300 * start else (1.0, 2.0, 5.0))


def _profile_axes(ax: Any, made: bool) -> None:
    """What profiles share: a scale of shares, and a legend beside the picture."""
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("share of runs that reached the target")
    legend(ax, made, inside="lower right")
    tidy(ax)
