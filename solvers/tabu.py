"""One-flip tabu search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import flag, hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.solving.graph_search import searched
from mmcopt.solving.label_search import Board, LabelSearch

WORK = 100_000_000  # scores looked at in one driver step; the next one starts from the best state


@dataclass(frozen=True, kw_only=True)
class Tabu(LabelSearch):
    """Always take the best move, even uphill; a sample that moved must rest for a while.

    ``length`` n moves in all, then, with ``polish``, a descent to a local optimum of moves and
    swaps. A sample may move before its rest is over when that beats the best value met. Tight sizes
    are overstepped by one sample between two moves. A move costs O(n k); a driver step is
    1e8 / (n k) moves and begins at the best labels met. On the lists of a large sparse W a move
    costs O(n) plus O(k) a neighbour, and sizes are kept to; the end is an optimum of moves.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Tabu
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    >>> result = mm.solve(problem, Tabu(), seed=0)
    >>> round(mm.metrics.adjusted_rand_index(y, result.labels), 2)
    0.96
    """

    anytime: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    length: float = hyper(20.0, real(0, open_low=True), "moves, as a multiple of n")
    tenure: int | None = hyper(None, optional(integer(1)), "steps of rest; None: n/8 + 2, <= 20")
    polish: bool = hyper(True, flag(), "end in a local optimum of moves and swaps")

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        tenure = min(20, lq.n // 8 + 2) if self.tenure is None else self.tenure
        steps = max(1, min(max(50, WORK // (lq.n * lq.k)), self._moves(lq) - state.count))
        loops, W, rules = searched(lq)
        gain = loops.tabu(W, state.c, state.G, state.sizes, rules, steps, tenure, state.rng)
        state.count += steps
        state.gained(lq, gain)
        return state.progress(lq)

    def _moves(self, lq: LabelQuadratic) -> int:
        return max(1, round(self.length * lq.n))

    def outcome(self, f: Any, state: Board) -> Status | None:
        done = state.count >= self._moves(f.offer(LabelQuadratic))
        return Status.CONVERGED if done else None

    def finish(self, f: Any, state: Board) -> Progress | None:
        end = self.descend if self.polish else self.settled
        return end(f.offer(LabelQuadratic), state)
