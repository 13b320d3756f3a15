"""Label search on a factor W = Psi Psi' that is too large to be made dense: bounded passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import LowRank
from mmcopt.solving.label_search import LabelSearch, start_labels
from mmcopt.solving.solver import Progress
from mmcopt.solving.states import within
from mmcopt.types import Floats, Ints

FACTOR_FROM = 5_000  # nodes above which a factor is not made dense where it can be helped
WORK = 200_000_000  # multiply-adds of one driver step
PASSES = 12  # over all samples; more while each gains more than the one before, which comes off
LONG = 48  # a saddle: up to so many
RUN = 32  # samples gone through as they lie in memory; one by one takes up to twice as long
SOME = 500  # samples that stand for all when the size of the entries of W is asked


@dataclass
class FactorBoard:
    """Labels with S[h] = Psi'z_h, sizes, objective, and where in the pass the search stands."""

    c: Ints
    S: Floats
    sizes: Ints
    value: float
    order: Ints
    position: int = 0
    passes: int = 0
    pass_gain: float = 0.0
    last_gain: float = 0.0  # of the pass before
    done: bool = False
    rng: Any = None  # of the searches that draw

    def restored(self, roots: Any) -> None:
        """Refuse a board from a file that is none of this problem."""
        lq = roots["LabelQuadratic"]
        within("c", self.c, (lq.n,), 0, lq.k)
        within("order", self.order, (lq.n,), 0, lq.n)
        within("sizes", self.sizes, (lq.k,), 0, int(lq.weights.sum()) + 1)
        if self.S.ndim != 2 or len(self.S) != lq.k or self.S.dtype != lq.dtype:
            raise ValueError(f"S must have {lq.k} rows of {lq.dtype}")

    def progress(self, lq: LabelQuadratic) -> Progress:
        """The state as the driver wants it."""
        return Progress(self, lambda: lq.expand(self.c), self.value)


def on_factor(lq: LabelQuadratic) -> bool:
    """Whether W is the factor of a matrix that would be slower, or too large, when made dense."""
    return lq.n > FACTOR_FROM and isinstance(lq.matrix, LowRank)


@dataclass(frozen=True, kw_only=True)
class FactorSearch(LabelSearch):
    """A label search that works on a factor as well, where W is too large to be made dense."""

    def refuses(self, f: Any) -> str | None:
        lq = f.offer(LabelQuadratic)
        return None if lq is not None and lq.k > 1 and on_factor(lq) else super().refuses(f)

    def prepare(self, f: Any) -> None:
        lq = f.offer(LabelQuadratic)
        if on_factor(lq):
            warm_on_factor(self, lq)
        else:
            super().prepare(f)


def warm_on_factor(search: LabelSearch, lq: LabelQuadratic) -> None:
    """Make the working copy, and compile the loops on a small factor of the same precision."""
    working_factor(lq)
    search.warm_once(lq.dtype, lambda: toy_factor(lq.dtype), "factor")


def toy_factor(dtype: Any) -> LabelQuadratic:
    """Two clusters of random vectors, just many enough that they are searched on the factor."""
    A = np.random.default_rng(0).standard_normal((FACTOR_FROM + 1, 2)) / FACTOR_FROM
    return LabelQuadratic(LowRank(A), k=2, single=dtype == np.float32)


def working_factor(lq: LabelQuadratic) -> Floats:
    """The factor in the precision that the searches work in."""
    return cast(LowRank, lq.matrix).factor_as(lq.dtype)


def factor_board(lq: LabelQuadratic, c: Ints, rng: np.random.Generator) -> FactorBoard:
    """Caches and value for feasible labels, which the board takes over."""
    Psi = working_factor(lq)
    sums = np.array([Psi[c == h].sum(axis=0, dtype=np.float64) for h in range(lq.k)])
    sizes = np.bincount(c, weights=lq.weights, minlength=lq.k).astype(np.int64)
    value = lq.constant - lq.scale * float(np.sum(sums**2))
    return FactorBoard(c, sums.astype(Psi.dtype), sizes, value, random_order(lq.n, rng))


def random_order(n: int, rng: np.random.Generator) -> Ints:
    """All samples, short runs of neighbours at random."""
    order = np.add.outer(RUN * rng.permutation(-(-n // RUN)), np.arange(RUN)).ravel()
    return order[order < n]


def factor_spread(lq: LabelQuadratic) -> float:
    """About the spread of the gains of moves from random labels, a scale of temperatures.

    It is sqrt(2 / k) times the norm of a row of W, here of some samples drawn by a fixed seed.
    """
    rows = np.random.default_rng(0).permutation(lq.n)[:SOME]
    Psi = working_factor(lq)[np.sort(rows)]
    squares = (Psi @ Psi.T).astype(np.float64)**2
    own = np.trace(squares) / len(rows)
    others = (lq.n - 1) * (squares.sum() / len(rows) - own) / (len(rows) - 1)
    return float(np.sqrt(2 / lq.k * (own + others))) or 1.0


def factor_start(lq: LabelQuadratic, init: Any, rng: np.random.Generator) -> Progress:
    """Begin from random labels, the given ones made feasible, or the board of another search."""
    if isinstance(init, FactorBoard):
        fresh = replace(init, position=0, passes=0, pass_gain=0.0, last_gain=0.0, done=False)
        return fresh.progress(lq)
    return factor_board(lq, start_labels(lq, init, rng), rng).progress(lq)


def next_part(lq: LabelQuadratic, board: FactorBoard) -> Ints:
    """The samples that one step goes through, in the order of the board."""
    size = max(1, WORK // (working_factor(lq).shape[1] * lq.k))
    part = board.order[board.position:board.position + size]
    board.position += size
    return part


def factor_step(lq: LabelQuadratic, board: FactorBoard) -> Progress:
    """A bounded part of a pass over all samples; done when a whole pass gains next to nothing.

    The value is recomputed in float64 at the end.
    """
    from mmcopt.compiled import factor_moves

    Psi = working_factor(lq)
    part = next_part(lq, board)
    gain = factor_moves.sweep(Psi, board.c, board.S, board.sizes, lq.rules(), part)
    board.pass_gain += gain
    board.value -= lq.scale * gain
    if board.position >= lq.n:
        board.passes += 1
        little = lq.scale * board.pass_gain <= 1e-5 * max(abs(board.value), 1e-10)
        enough = board.passes >= (PASSES if board.pass_gain <= board.last_gain else LONG)
        board.position, board.pass_gain, board.last_gain = 0, 0.0, board.pass_gain
        if little or enough:
            board.done = True
            board.value = lq.value(board.c)
    return board.progress(lq)
