"""First-improvement descent over single moves (Stoc-RLS), dense or on a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import flag, hyper
from mmcopt.solving import Progress
from mmcopt.solving.factor_search import (
    FactorBoard,
    FactorSearch,
    factor_start,
    factor_step,
    on_factor,
)
from mmcopt.solving.graph_search import searched
from mmcopt.solving.label_search import Board


@dataclass(frozen=True, kw_only=True)
class StochasticDescent(FactorSearch):
    """Go through the samples in turn and give each its best cluster, until nothing changes.

    Ends in a local optimum of single moves and, with ``swaps``, of exchanges; ``swaps=False`` is
    the paper's Algorithm 1. A driver step is one pass, O(n k) plus O(n) a move. When W is held as a
    large factor of rank r, a step is a part of a pass, O(r k) a sample, and W is never made dense
    (no swaps then, nor on the lists of a large sparse W, where a move costs a sample's degree).

    References
    ----------
    Pahikkala et al., UMC-RLS, Algorithm 1.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import StochasticDescent
    >>> X, y = mm.datasets.load("blobs:n=60,k=3,seed=1")
    >>> result = mm.solve(LeastSquares(X, 3), StochasticDescent(), restarts=20, seed=0)
    >>> mm.metrics.adjusted_rand_index(y, result.labels) > 0.9
    True
    """

    lists: ClassVar[bool] = True

    swaps: bool = hyper(True, flag(), "also exchange pairs of samples at the end")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        return factor_start(lq, init, rng) if on_factor(lq) else super().begin(f, init, rng)

    def step(self, f: Any, state: Board | FactorBoard, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        if isinstance(state, FactorBoard):
            return factor_step(lq, state)
        loops, W, rules = searched(lq)
        gain = loops.sweep(W, state.c, state.G, state.sizes, rules)
        state.done = gain == 0.0
        state.gained(lq, gain)
        return state.progress(lq)

    def finish(self, f: Any, state: Board | FactorBoard) -> Progress | None:
        if isinstance(state, FactorBoard):
            return None
        end = self.descend if self.swaps else self.settled
        return end(f.offer(LabelQuadratic), state)
