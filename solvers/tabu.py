"""One-flip tabu search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.checks import flag, hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solvers.hartigan import Hartigan
from mmcopt.solving import Progress, out_of_time
from mmcopt.solving.graph_search import searched
from mmcopt.solving.label_search import ONE_LABELING, LabelSearch, random_state
from mmcopt.solving.ratio_search import RatioBoard, board_of, least_gain, ratio_start, warm

WORK = 100_000_000  # scores looked at in one driver step; the next one starts from the best state


@dataclass(frozen=True, kw_only=True)
class Tabu(LabelSearch):
    """Always take the best move, even uphill; a sample that moved must rest for a while.

    ``length`` n moves in all, then, with ``polish``, a descent to a local optimum of moves and
    swaps. A sample may move before its rest is over when that beats the best value met. Tight sizes
    are overstepped by one sample between two moves. A move costs O(n k); a driver step is
    1e8 / (n k) moves and begins at the best labels met. On the lists of a large sparse W a move
    costs O(n) plus O(k) a neighbour, and sizes are kept to; the end is an optimum of moves. On
    k-means and its kin the descent is that of `Hartigan`; it needs all of W there, too, and so is
    for up to 1,500 samples with features.

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

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelProblem,)
    anytime: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    length: float = hyper(20.0, real(0, open_low=True), "moves, as a multiple of n")
    tenure: int | None = hyper(None, optional(integer(1)), "steps of rest; None: n/8 + 2, <= 20")
    polish: bool = hyper(True, flag(), "end in a local optimum of moves and swaps")

    def refuses(self, f: Any) -> str | None:
        ratio = f.offer(LabelRatio)
        if ratio is None:
            return super().refuses(f)
        if ratio.k == 1:
            return ONE_LABELING
        if ratio.by_rows:
            return (f"it needs all {ratio.n} x {ratio.n} entries of W, which is held as a factor; "
                    "Memetic, Hartigan and Lloyd work on the factor.")
        return None

    def prepare(self, f: Any) -> None:
        ratio = f.offer(LabelRatio)
        if ratio is None:
            super().prepare(f)
        else:
            warm(self, ratio)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        ratio = f.offer(LabelRatio)
        return super().begin(f, init, rng) if ratio is None \
            else ratio_start(ratio, init, rng).progress(ratio)

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        lp = f.offer(LabelProblem)
        done = state.at if isinstance(state, RatioBoard) else state.count
        steps = max(1, min(max(50, WORK // (lp.n * lp.k)), self._moves(lp) - done))
        tenure = min(20, lp.n // 8 + 2) if self.tenure is None else self.tenure
        walk = self._by_ratio if isinstance(lp, LabelRatio) else self._by_quadratic
        return walk(lp, state, steps, tenure, rng)

    @staticmethod
    def _by_quadratic(lq: Any, state: Any, steps: int, tenure: int,
                      rng: np.random.Generator) -> Progress:
        loops, W, rules = searched(lq)
        gain = loops.tabu(W, state.c, state.G, state.sizes, rules, steps, tenure, state.rng)
        state.count += steps
        state.gained(lq, gain)
        return state.progress(lq)

    @staticmethod
    def _by_ratio(ratio: Any, state: RatioBoard, steps: int, tenure: int,
                  rng: np.random.Generator) -> Progress:
        from mmcopt.compiled.ratio_moves import matrix_tabu

        matrix_tabu(ratio.matrix.dense(), state.c, state.G, state.q, state.sizes, state.V,
                    ratio.volumes, ratio.rules(), least_gain(ratio), steps, tenure,
                    random_state(rng))
        best = board_of(ratio, state.c)
        best.at = state.at + steps
        return best.progress(ratio)

    def _moves(self, lp: LabelProblem) -> int:
        return max(1, round(self.length * lp.n))

    def outcome(self, f: Any, state: Any) -> Status | None:
        done = state.at if isinstance(state, RatioBoard) else state.count
        return Status.CONVERGED if done >= self._moves(f.offer(LabelProblem)) else None

    def finish(self, f: Any, state: Any) -> Progress | None:
        ratio = f.offer(LabelRatio)
        if ratio is not None:
            rng, descent = np.random.default_rng(0), Hartigan()
            state.at = 0
            while self.polish and not state.done and not out_of_time():
                descent.step(ratio, state, rng)
            return Progress(state, ratio.expand(state.c), state.value)
        end = self.descend if self.polish else self.settled
        return end(f.offer(LabelQuadratic), state)
