"""Two classes by regression: how iterative support vector regression sees a problem of margins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mmcopt.capabilities import Refit
from mmcopt.types import Floats, Ints

if TYPE_CHECKING:
    from mmcopt.formulations.cpm3c import CPM3C


def refit(f: CPM3C) -> Refit:
    """Labels from the regression of a problem, which is factorised when it is first asked."""
    def point(v: Floats, labels: Ints) -> Floats:
        """W of the regression on targets v."""
        w = f.ridge.weights(v) / 2.0
        return f.stretched(np.stack([-w, w]))

    def halves(rng: np.random.Generator) -> Ints:
        """The two halves of the samples along a random direction."""
        along = f.features.scores(rng.standard_normal((1, f.features.d)))[:, 0]
        return (along > np.median(along)).astype(np.int64)

    return Refit(lambda v: f.ridge.values(v), f.shift, point, halves,
                 lambda labels, rng: labels, restrict=f.restrict)
