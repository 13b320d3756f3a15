"""The shaking search of UMC-RLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import flag, hyper, integer
from mmcopt.labelsearch import Board, LabelSearch, working_matrix
from mmcopt.result import Status
from mmcopt.solving import Progress


@dataclass(frozen=True, kw_only=True)
class Shaking(LabelSearch):
    """Each cluster in turn claims samples from the others, many at first and few in the end.

    In round i cluster d claims alpha = n / (2^i k) + n / k - |cluster d| samples (eq. 14), each the
    one whose change of label costs least. ``polish=False`` is Algorithm 3 with these repairs: alpha
    is rounded to the nearest integer and a negative one claims nothing; the sample that moves is
    the argmin over those outside d (line 6 of the printed loop reuses its variable); no cluster is
    emptied or pushed out of its size bounds; for k = 2 the rounds start at i = 1, because at i = 0
    each cluster would claim every sample and erase the start; the best labels met are kept. The end
    of the raw search is no local optimum; ``polish`` makes it one. A driver step is the claim of
    one cluster; a claimed sample costs O(n).

    References
    ----------
    Pahikkala et al., UMC-RLS, Algorithm 3 and eq. 14.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Shaking
    >>> X, y = mm.datasets.load("iris")
    >>> result = mm.solve(LeastSquares(X, 3), Shaking(), seed=0)
    >>> mm.metrics.adjusted_rand_index(y, result.labels) > 0.7
    True
    """

    rounds: int = hyper(20, integer(1), "outer rounds s")
    polish: bool = hyper(True, flag(), "end in a local optimum of moves and swaps")

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        from mmcopt import search

        lq = f.offer(LabelQuadratic)
        i, d = divmod(state.count, lq.k)
        i += int(lq.k == 2)
        total = float(lq.weights.sum())
        alpha = total / (2.0**i * lq.k) + total / lq.k - float(state.sizes[d])
        claimed = max(0, round(alpha * lq.n / total))
        gain = search.shake(working_matrix(lq), state.c, state.G, state.sizes, lq.rules(), d,
                            claimed)
        state.count += 1
        state.gained(lq, gain)
        return state.progress(lq, round=float(i))

    def outcome(self, f: Any, state: Board) -> Status | None:
        rounds = self.rounds + 1 - int(f.offer(LabelQuadratic).k == 2)  # i = 0..s
        return Status.CONVERGED if state.count >= rounds * f.offer(LabelQuadratic).k else None

    def finish(self, f: Any, state: Board) -> Progress | None:
        return self.descend(f.offer(LabelQuadratic), state) if self.polish else None
