"""All labelings of a small label problem, in NumPy alone: the judge of everything else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelProblem
from mmcopt.compiled.compiling import clock
from mmcopt.linalg import UNIT
from mmcopt.types import Ints

CHUNK = 4096
LIMIT = 20_000_000  # labelings


def count_labelings(lq: LabelProblem) -> int:
    """How many labelings `chunks` goes through (before the constraints are applied)."""
    free = int((lq.fixed < 0).sum())
    return int(lq.k) ** max(0, free - int(lq.symmetric and free > 0))


def chunk(lq: LabelProblem, index: int) -> Ints:
    """Chunk number ``index`` of all labelings, one a row.

    The first free node keeps label 0 when renaming the clusters changes nothing.
    """
    total = count_labelings(lq)
    codes = np.arange(index * CHUNK, min(total, (index + 1) * CHUNK), dtype=np.int64)
    free = np.flatnonzero(lq.fixed < 0)
    out = np.tile(lq.fixed, (codes.size, 1))
    if lq.symmetric and free.size:
        out[:, free[0]] = 0
        free = free[1:]
    for j in free:
        out[:, j] = codes % lq.k
        codes //= lq.k
    return out


def feasible_rows(lq: LabelProblem, rows: Ints) -> NDArray[np.bool_]:
    """Which rows meet sizes and cannot-links."""
    ok = np.ones(len(rows), dtype=bool)
    for h in range(lq.k):
        size = (rows == h) @ lq.weights
        ok &= (size >= lq.low[h]) & (size <= lq.high[h])
    for i, j in lq.apart:
        ok &= rows[:, i] != rows[:, j]
    return ok


def values(lq: LabelProblem, rows: Ints) -> NDArray[np.float64]:
    """Objective of each row."""
    return np.asarray(lq.constant - lq.scale * lq.associations(rows))


def chunks(lq: LabelProblem) -> Iterator[Ints]:
    """All feasible labelings, chunk by chunk."""
    for index in range(-(-count_labelings(lq) // CHUNK)):
        rows = chunk(lq, index)
        yield rows[feasible_rows(lq, rows)]


def minimum(lq: LabelProblem, deadline: float = np.inf) -> tuple[float, Ints | None]:
    """The smallest objective over all feasible labelings, and one that attains it.

    Minus infinity, with the best labels so far, when ``deadline`` (of `clock`) passes.
    """
    best, labels = np.inf, None
    for rows in chunks(lq):
        if clock() > deadline:
            return -np.inf, labels
        if not len(rows):
            continue
        v = values(lq, rows)
        i = int(np.argmin(v))
        if v[i] < best:
            best, labels = float(v[i]), rows[i]
    return best, labels


def rounding(lq: LabelProblem) -> float:
    """Bound on the rounding error of an objective value."""
    total = float(np.abs(lq.matrix.dense()).sum())
    return (lq.n + 4) * UNIT * (abs(lq.constant) + lq.scale * total)


def lower(lq: LabelProblem, most: int) -> float:
    """The minimum less its rounding: a bound, minus infinity beyond ``most`` labelings."""
    return -np.inf if count_labelings(lq) > most else minimum(lq)[0] - rounding(lq)
