"""The shaking search of UMC-RLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import flag, hyper, integer, optional
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.solving.label_search import Board, LabelSearch, working_matrix


@dataclass(frozen=True, kw_only=True)
class Shaking(LabelSearch):
    """Each cluster in turn claims samples from the others, many at first and few in the end.

    In round i cluster d claims alpha = n / (2^i k) + n / k - |cluster d| samples (eq. 14), each the
    one whose change of label costs least, from i = 0 to ``rounds``. Repairs of the printed text:
    alpha is rounded to the nearest integer and a negative one claims nothing; the sample that moves
    is the argmin over those outside d (line 6 reuses its loop variable); no cluster is emptied or
    pushed out of its size bounds. A driver step is the claim of one cluster; a claimed sample costs
    O(n).

    ``polish`` (the default) goes back to the best labels met and ends in a local optimum of moves
    and swaps; for k = 2 it begins at i = 1, because at i = 0 each of two clusters claims every
    sample, which erases the start and makes restarts alike. ``polish=False`` is Algorithm 3 as
    printed: it begins at i = 0 and its answer is the state of the last round, which is balanced but
    no local optimum. The best labels met would be another method there: without centring and size
    bounds the lowest objective belongs to the unbalanced states of the first rounds (iris, mean ARI
    .76 in place of .96). Its history shows the start as ``objective``, the walk as ``shaken``.
    A later ``first`` round keeps more of the start, which makes it a search around given labels.

    References
    ----------
    Pahikkala et al., UMC-RLS, Algorithm 3 and eq. 14.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Shaking
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    >>> result = mm.solve(problem, Shaking(), seed=0)
    >>> mm.metrics.adjusted_rand_index(y, result.labels) > 0.7
    True
    """

    rounds: int = hyper(20, integer(1), "outer rounds s")
    first: int | None = hyper(None, optional(integer(0)), "round to begin with; a later one keeps "
                              "more of the start; None: 0, or 1 as said above")
    polish: bool = hyper(True, flag(), "end in a local optimum of moves and swaps")

    def _first(self, lq: LabelQuadratic) -> int:
        """Number of the first round."""
        first = int(self.polish and lq.k == 2) if self.first is None else self.first
        return min(first, self.rounds)

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        i, d = divmod(state.count, lq.k)
        i += self._first(lq)
        total = float(lq.weights.sum())
        alpha = total / (2.0**i * lq.k) + total / lq.k - float(state.sizes[d])
        claimed = max(0, round(alpha * lq.n / total))
        gain = label_moves.shake(working_matrix(lq), state.c, state.G, state.sizes, lq.rules(), d,
                                 claimed)
        state.count += 1
        if self.polish:
            state.gained(lq, gain)
            return state.progress(lq, round=float(i))
        # The driver keeps the best point it is shown, so it is shown the start until the end.
        state.value -= lq.scale * gain
        return Progress(state, lambda: lq.expand(state.best_c), state.best,
                        extras={"round": float(i), "shaken": state.value})

    def outcome(self, f: Any, state: Board) -> Status | None:
        lq = f.offer(LabelQuadratic)
        rounds = self.rounds + 1 - self._first(lq)  # i = 0..s
        return Status.CONVERGED if state.count >= rounds * lq.k else None

    def finish(self, f: Any, state: Board) -> Progress | None:
        lq = f.offer(LabelQuadratic)
        if self.polish:
            return self.descend(lq, state)
        state.value = lq.value(state.c)
        return state.progress(lq)
