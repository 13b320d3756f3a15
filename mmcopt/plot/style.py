"""What all pictures share: colours, markers, axes, frames, and scales that people can read.

The first colours are those of Okabe and Ito, which colour-blind readers can tell apart, the others
of Tol; clusters also differ in the shape of their markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmcopt.errors import BackendError, ParameterError
from mmcopt.modeling.result import Result
from mmcopt.types import Floats

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5230",
           "#882255", "#999933", "#44AA99", "#888888", "#000000")
MARKERS = "osD^vPX<>*"
GREY = "#666666"
WIDE = 20.0  # ratio of largest to smallest objective from which its axis is logarithmic


def plain(name: object) -> str:
    """A name for matplotlib: a dollar begins no formula, and _ hides no line of a legend."""
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def pyplot() -> Any:
    """Import matplotlib, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as e:
        raise BackendError("drawing needs matplotlib: pip install 'mmcopt[plot]'.") from e
    return plt


def axes_for(ax: Any, count: int = 1) -> list[Any]:
    """Return the axes that were given, or ``count`` new ones side by side."""
    if ax is None:
        plt = pyplot()
        _, made = plt.subplots(1, count, figsize=(max(6.4, 5.4 * count), 4.4), squeeze=False,
                               layout="constrained")
        return list(made[0])
    given = list(np.ravel(np.array(ax, dtype=object)))
    if len(given) != count:
        raise ParameterError(f"plot: this picture needs {count} axes; "
                             f"got {len(given)}. With ax=None they are made.")
    return given


def tidy(ax: Any, grid: bool = True) -> None:
    """Take away the upper and the right side of the frame, and draw a pale grid if wanted."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(True, color="#E3E3E3", linewidth=0.8)
        ax.set_axisbelow(True)


def curve(result: Result, seconds: float | None) -> tuple[Floats, Floats]:
    """Return times and best-so-far objectives of a run, ending with its result."""
    t, v = result.history["seconds"], result.history["best"]
    order = np.argsort(t, kind="stable")
    end = max(float(t.max(initial=0.0)), seconds or 0.0)
    times = np.append(t[order], end)
    best = np.minimum.accumulate(np.append(v[order], result.objective))
    return np.maximum(times, 1e-6), best


def bound_line(ax: Any, bounds: Sequence[float]) -> None:
    """Draw the best of some lower bounds as a dashed line."""
    if bounds:
        ax.axhline(max(bounds), color="black", linestyle="--", linewidth=1.2,
                   label=f"lower bound {max(bounds):.6g}")


def time_and_objective(ax: Any, values: Floats) -> None:
    """Seconds, by their logarithm, against an objective."""
    ax.set_xscale("log")
    ax.set_xlabel("time (seconds)")
    low, high = ax.get_xlim()
    plain_ticks(ax.xaxis, (1.0,) if high > 300 * low else (1.0, 2.0, 5.0))
    objective_axis(ax, values)


def objective_axis(ax: Any, values: Floats) -> None:
    """Name the axis of the objective; logarithmic where the values range widely."""
    ax.set_ylabel("objective")
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0 and values.max() > WIDE * values.min():
        ax.set_yscale("log")
        plain_ticks(ax.yaxis, (1.0, 2.0, 5.0))
        ax.set_ylabel("objective (log scale)")


def plain_ticks(axis: Any, subs: tuple[float, ...]) -> None:
    """Numbers as people write them on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())
