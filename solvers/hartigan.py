"""Hartigan's method for k-means and its kin: single moves with the exact change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from mmcopt.capabilities import LabelRatio
from mmcopt.solving import Progress
from mmcopt.solving.ratio_search import (
    BLOCK,
    RatioBoard,
    RatioSearch,
    distances,
    least_gain,
    refresh,
)
from mmcopt.types import Floats

WORK = 100_000_000  # multiply-adds of one driver step, about
SLIP = 1e-7  # of the longest vector: what distances may be off, from differences of squares


@dataclass(frozen=True, kw_only=True)
class Hartigan(RatioSearch):
    """Move one sample after another to the cluster where the objective falls most.

    The change of the objective is exact: the means of both clusters follow the sample. So its local
    optima are local optima of `Lloyd`, and better ones as a rule. Begins with samples far apart, as
    k-means++ does. Honours sizes, known labels and links.

    Ends in a local optimum of moves; where sizes or cannot-links are given, of swaps as well, up to
    5,000 samples. A driver step is a pass over all samples, O(n k d) with features and O(n k)
    without, and O(n) a move there; or a part of one.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import KernelKMeans
    >>> from mmcopt.solvers import Hartigan
    >>> X, y = mm.datasets.load("iris")
    >>> round(mm.solve(KernelKMeans(X, 3), Hartigan(), seed=0, restarts=10).objective, 4)
    78.8514
    """

    anytime: ClassVar[bool] = True

    def step(self, f: Any, state: RatioBoard, rng: np.random.Generator) -> Progress:
        ratio = f.offer(LabelRatio)
        if state.M is not None:
            _by_vectors(ratio, state)
        else:
            _by_matrix(ratio, state)
        return state.progress(ratio)

    def finish(self, f: Any, state: RatioBoard) -> Progress | None:
        if state.done:
            return None
        ratio = f.offer(LabelRatio)
        refresh(ratio, state)
        return state.progress(ratio)


def _by_vectors(ratio: LabelRatio, board: RatioBoard) -> None:
    """A part of a pass over all nodes; a pass without a gain is the last.

    Nodes are left out that no gain can have come to since they were looked at: a mean draws nearer
    by no more than it has moved (Hamerly, 2010).
    """
    from mmcopt.compiled.ratio_moves import vector_moves

    X, xx = ratio.means
    tol, rules, longest = least_gain(ratio), ratio.rules(), math.sqrt(float(xx.max()))
    if board.calm is None or board.V.min() < board.floor:
        board.calm, board.drift, board.floor = np.full(ratio.n, -np.inf), 0.0, board.V.min() / 2
    last = min(ratio.n, board.at + max(BLOCK, WORK // (X.shape[1] * ratio.k)))
    looked = board.at + np.flatnonzero(board.calm[board.at:last] < board.drift)
    gained = 0.0
    for first in range(0, looked.size, BLOCK):
        some, before = looked[first:first + BLOCK], cast(Floats, board.M).copy()
        gained += vector_moves(X, some, distances(ratio, board, some), board.c, board.M,
                               board.sizes, board.V, ratio.volumes, rules, tol, board.calm,
                               board.floor)
        board.calm[some] += board.drift - SLIP * longest
        went = cast(Floats, board.M) - before
        board.drift += math.sqrt(float(np.einsum("ij,ij->i", went, went).max()))
    board.at, board.gained = last, board.gained + gained
    board.value -= ratio.scale * gained
    if last == ratio.n:
        board.done = board.gained == 0.0
        board.at, board.gained = 0, 0.0
        if board.done:
            refresh(ratio, board)  # sums of many steps drift


def _by_matrix(ratio: LabelRatio, board: RatioBoard) -> None:
    """A pass of moves; when it gains nothing, a part of a pass of swaps, where these are needed."""
    from mmcopt.compiled import ratio_moves

    W, tol, n = ratio.matrix.dense(), least_gain(ratio), ratio.n
    state = W, board.c, board.G, board.q, board.sizes, board.V, ratio.volumes, ratio.rules(), tol
    gained = ratio_moves.matrix_moves(*state)
    board.value -= ratio.scale * gained
    if gained > 0.0:
        board.at = 0
        return
    if not ratio.ruled:
        board.done = True
        refresh(ratio, board)
        return
    last = min(n, board.at + max(1, WORK // n))
    gained = ratio_moves.matrix_swaps(*state, board.at, last)
    board.value -= ratio.scale * gained
    board.at = 0 if gained > 0.0 else last
    board.done = gained == 0.0 and last == n
    if board.done:
        refresh(ratio, board)

