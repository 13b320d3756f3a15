"""Pictures of grids: a heat map for each figure that the cells have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmcopt.plot.style import PALETTE, axes_for, plain
from mmcopt.types import Floats

WRITTEN = 90  # cells up to which their numbers stand in them


def plot_cells(widths: Sequence[float], lams: Sequence[float], maps: Mapping[str, Floats],
               best: int, ax: Any = None) -> Any:
    """Draw one heat map for each array of figures, widths by lambdas; return the axes.

    Widths and lambdas are in rising order, whatever the order given. ``best`` is the cell, counted
    row by row, that a frame marks.
    """
    axes = axes_for(ax, len(maps))
    up, along = np.argsort(widths, kind="stable"), np.argsort(lams, kind="stable")
    row, column = divmod(best, len(lams))
    frame = int(np.flatnonzero(along == column)[0]), int(np.flatnonzero(up == row)[0])
    for one, (name, values) in zip(axes, maps.items(), strict=True):
        _heat(one, np.asarray(values)[np.ix_(up, along)], frame)
        one.set_title(plain(name), fontsize=10)
        one.set_xticks(range(len(lams)), [f"{lams[i]:.3g}" for i in along])
        one.set_yticks(range(len(widths)), [f"{widths[i]:.3g}" for i in up])
        one.set_xlabel("lambda")
        one.set_ylabel("width of the kernel")
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def _heat(ax: Any, values: Floats, frame: tuple[int, int]) -> None:
    """One heat map: the figures in their cells where there is room, the best one framed."""
    from matplotlib.patches import Rectangle

    picture = ax.imshow(values, origin="lower", aspect="auto", cmap="cividis")
    ax.figure.colorbar(picture, ax=ax)
    if values.size <= WRITTEN:
        for (i, j), value in np.ndenumerate(values):
            dark = picture.norm(value) < 0.5
            ax.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=8,
                    color="white" if dark else "black")
    x, y = frame
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=PALETTE[1],
                           linewidth=2.5, clip_on=False, label="most central"))
