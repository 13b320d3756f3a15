"""Steepest descent over single moves (Steep-RLS), and over swaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import flag, hyper
from mmcopt.solving import Progress
from mmcopt.solving.label_search import Board, LabelSearch, working_matrix


@dataclass(frozen=True, kw_only=True)
class SteepestDescent(LabelSearch):
    """Always take the one move that lowers the objective most; stop where none does.

    Ends in a local optimum of single moves and, with ``swaps``, of exchanges of two samples, which
    tight sizes make necessary. ``swaps=False`` is the paper's Algorithm 2. A driver step is n/8
    moves; a move costs O(n k).

    References
    ----------
    Pahikkala et al., UMC-RLS, Algorithm 2.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import SteepestDescent
    >>> X, y = mm.datasets.load("blobs:n=60,k=3,seed=1")
    >>> mm.solve(LeastSquares(X, 3), SteepestDescent(), restarts=5, seed=0).status.name
    'CONVERGED'
    """

    swaps: bool = hyper(True, flag(), "also exchange pairs of samples at the end")

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        gain = label_moves.steepest(working_matrix(lq), state.c, state.G, state.sizes, lq.rules(),
                                    lq.n // 8 + 8)
        state.done = gain == 0.0
        state.gained(lq, gain)
        return state.progress(lq)

    def finish(self, f: Any, state: Board) -> Progress | None:
        end = self.descend if self.swaps else self.settled
        return end(f.offer(LabelQuadratic), state)
