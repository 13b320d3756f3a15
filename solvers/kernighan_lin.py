"""Kernighan-Lin / Fiduccia-Mattheyses passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import hyper, integer, optional
from mmcopt.solving import Progress
from mmcopt.solving.label_search import Board, LabelSearch, working_matrix


@dataclass(frozen=True, kw_only=True)
class KernighanLin(LabelSearch):
    """Move every sample once, best first even when it costs, and keep the best prefix.

    Passes go on until one brings nothing; the end is a local optimum of moves and swaps. Cheap and
    strong with many restarts for k = 2. A driver step is one pass, at most n moves of O(n k).

    References
    ----------
    Kernighan and Lin 1970; Fiduccia and Mattheyses 1982.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import KernighanLin
    >>> X, y = mm.datasets.load("moons:n=80,noise=0.05")
    >>> mm.solve(LeastSquares(X, 2), KernighanLin(), restarts=3, seed=0).status.name
    'CONVERGED'
    """

    patience: int | None = hyper(None, optional(integer(1)),
                                 "moves without a new best after which a pass ends; None: n/4 + 20")

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        patience = lq.n // 4 + 20 if self.patience is None else self.patience
        W, rules = working_matrix(lq), lq.rules()
        gain = label_moves.kl_pass(W, state.c, state.G, state.sizes, rules, patience)
        state.done = gain == 0.0
        state.gained(lq, gain)
        return state.progress(lq)

    def finish(self, f: Any, state: Board) -> Progress | None:
        return self.descend(f.offer(LabelQuadratic), state)
