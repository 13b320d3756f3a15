"""What all pictures share: colours, markers, axes, frames, legends, and scales to be read.

The first colours are those of Okabe and Ito, which colour-blind readers can tell apart, the others
of Tol; clusters also differ in the shape of their markers. Lines and words take the colour that
stands out from the paper, so that pictures survive a dark one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mmcopt.errors import BackendError, ParameterError
from mmcopt.modeling.result import Result
from mmcopt.types import Floats

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5230",
           "#882255", "#999933", "#44AA99", "#888888", "#000000")
MARKERS = "osD^vPX<>p"
CONTRAST = 4.5  # of a colour to dark paper, as WCAG measures it, below which it is made lighter
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


def tidy(ax: Any, grid: str = "both") -> None:
    """Take away the upper and the right side of the frame, and draw a pale grid if wanted."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(True, axis=grid, color=shade(ax, 0.11), linewidth=0.8)
        ax.set_axisbelow(True)


# ---------------------------------------------------------------- colours on their paper

Colour: TypeAlias = tuple[float, float, float]


def paper(ax: Any) -> Colour:
    """The colour behind the axes, white where nothing is."""
    from matplotlib.colors import to_rgba

    behind = np.ones(3)
    for face in (ax.figure.get_facecolor(), ax.get_facecolor()):
        *rgb, alpha = to_rgba(face)
        behind = alpha * np.array(rgb) + (1 - alpha) * behind
    return _rgb(behind)


def ink(ax: Any) -> Colour:
    """Black or white, whichever stands out from the paper."""
    return (1.0, 1.0, 1.0) if _luminance(paper(ax)) < 0.18 else (0.0, 0.0, 0.0)


def shade(ax: Any, share: float) -> Colour:
    """So much ink on the paper: of 0 nothing is seen, 1 is the ink itself."""
    return _rgb(share * np.array(ink(ax)) + (1 - share) * np.array(paper(ax)))


def legible(ax: Any, colour: str) -> Colour:
    """A colour as it is on bright paper, and on dark paper as light as it must be to be seen."""
    from matplotlib.colors import to_rgb

    behind = paper(ax)
    found = np.array(to_rgb(colour))
    if ink(ax) == (1.0, 1.0, 1.0):
        while (_luminance(found) + 0.05) / (_luminance(behind) + 0.05) < CONTRAST:
            found = 0.9 * found + 0.1
    return _rgb(found)


def palette(ax: Any) -> list[Colour]:
    """The colours of clusters and solvers on this paper."""
    return [legible(ax, colour) for colour in PALETTE]


def _rgb(values: Any) -> Colour:
    red, green, blue = (float(v) for v in values)
    return red, green, blue


def _luminance(rgb: Any) -> float:
    """How bright a colour is for the eye, from 0 to 1, as WCAG defines it."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


# ---------------------------------------------------------------- legends


def legend(ax: Any, made: bool, entries: Mapping[str, Any] | None = None, inside: str = "best",
           **kwargs: Any) -> None:
    """Say what is what: to the right of axes that were made here, so that it covers nothing.

    In axes that somebody gave there is no such room: it stands inside, where it covers least.
    """
    lines, names = ax.get_legend_handles_labels() if entries is None else \
        (list(entries.values()), list(entries))
    if not names:
        return
    if not made:
        ax.legend(lines, names, loc=inside, fontsize=8, framealpha=0.9, **kwargs)
        return
    width, height = ax.figure.get_size_inches()
    room = 0.7 + 0.07 * max(map(len, names))
    ax.figure.set_size_inches(width + room, max(height, 0.22 * len(names) + 1.0))
    ax.legend(lines, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0,
              frameon=False, fontsize=9, title_fontsize=9, alignment="left", **kwargs)


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
        ax.axhline(max(bounds), color=ink(ax), linestyle="--", linewidth=1.2,
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
