"""Lloyd's method, by which k-means is known: all samples to the nearest mean, and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import LabelRatio
from mmcopt.solving import Progress
from mmcopt.solving.ratio_search import BLOCK, RatioBoard, RatioSearch, distances, refresh
from mmcopt.types import Floats, Ints

LITTLE = 1e-14  # relative: a fall of the objective that is rounding


@dataclass(frozen=True, kw_only=True)
class Lloyd(RatioSearch):
    """Assign all samples to the nearest mean, take the means anew, until nothing changes.

    With a kernel means and distances are those of its space. A cluster that would be left empty
    takes the sample that is farthest from its mean. Begins with samples far apart, as k-means++
    does. Known labels and must-links are kept; with sizes or cannot-links use `Hartigan`.

    Ends where every sample is in the cluster of its nearest mean, which need not be a local optimum
    of moves: `Hartigan` goes on from there. A driver step is one round, O(n k d) with features,
    O(n^2) without.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import KernelKMeans
    >>> from mmcopt.solvers import Lloyd
    >>> X, y = mm.datasets.load("iris")
    >>> round(mm.solve(KernelKMeans(X, 3), Lloyd(), seed=0, restarts=10).objective, 4)
    78.8514
    """

    anytime: ClassVar[bool] = True

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is None and f.offer(LabelRatio).ruled:
            return "it takes no notice of sizes and cannot-links; Hartigan and Memetic do."
        return reason

    def step(self, f: Any, state: RatioBoard, rng: np.random.Generator) -> Progress:
        ratio = f.offer(LabelRatio)
        before, value = state.c.copy(), state.value
        nearest, far = np.empty(ratio.n, dtype=np.int64), np.empty(ratio.n)
        for s in range(0, ratio.n, BLOCK):
            D = distances(ratio, state, slice(s, s + BLOCK))
            nearest[s:s + BLOCK] = D.argmin(axis=1)
            far[s:s + BLOCK] = D.min(axis=1)
        _fill(ratio, nearest, far)
        state.c[:] = nearest
        refresh(ratio, state)
        state.done = np.array_equal(before, nearest) or value - state.value <= LITTLE * abs(value)
        if state.value > value:  # by rounding alone
            state.c[:] = before
            refresh(ratio, state)
        state.sizes[:] = np.bincount(state.c, ratio.weights, ratio.k)
        return state.progress(ratio)


def _fill(ratio: LabelRatio, c: Ints, far: Floats) -> None:
    """Keep known labels; give each empty cluster the node that adds most where it is."""
    c[ratio.fixed >= 0] = ratio.fixed[ratio.fixed >= 0]
    counts = np.bincount(c, minlength=ratio.k)
    order = np.argsort(-far * ratio.volumes, kind="stable")
    for h in np.flatnonzero(counts == 0):
        j = next(j for j in order if ratio.fixed[j] < 0 and counts[c[j]] > 1)
        counts[c[j]] -= 1
        c[j], counts[h] = h, 1
