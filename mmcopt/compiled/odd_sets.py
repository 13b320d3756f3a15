"""Sets of an odd number of nodes with signs whose inequality a matrix violates, by local search."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.types import Floats, Ints

SWEEPS = 20  # over the nodes of a set, at the most
BLOCK = 128  # numbers looked at together
TINY = 1e-6  # a change that counts for less is rounding


@compiled()
def improved(X: Floats, sets: Ints, by: Floats) -> None:
    """Replace nodes and signs of each set, one at a time, while that violates it more.

    A set of s nodes holds +-(node + 1), and violates ``-sum_{p<q} b_p b_q X_pq <= (s - 1) / 2`` by
    ``by``.
    """
    m, size, h = X.shape[0], sets.shape[1], np.empty(X.shape[0], X.dtype)
    for row in range(sets.shape[0]):
        held, still, p, total = sets[row], 0, 0, 0.0
        for v in range(m):
            h[v] = 0.0
        for q in range(size):
            _add(h, X, held[q])
        while still < size and p < size * SWEEPS:
            at = p % size
            _add(h, X, -held[at])
            best = abs(held[at]) - 1
            most = abs(h[best]) + TINY
            for first in range(0, m, BLOCK):
                block = h[first:first + BLOCK]
                if not _beyond(block, most):
                    continue
                for v in range(first, first + len(block)):
                    if abs(h[v]) > most and not _holds(held, v + 1):
                        best, most = v, abs(h[v])
            now = best + 1 if h[best] <= 0.0 else -best - 1
            still = still + 1 if now == held[at] else 1
            held[at] = now
            _add(h, X, now)
            p += 1
        for p in range(size):
            total += h[held[p] - 1] if held[p] > 0 else -h[-held[p] - 1]
        by[row] = (1.0 - total) / 2


@compiled(**INNER)
def _beyond(h: Floats, most: Any) -> int:
    """How many are beyond it: counted, since that is a few vector instructions."""
    count, limit = np.int32(0), h.dtype.type(most)
    for v in range(len(h)):
        count += np.int32(abs(h[v]) > limit)
    return int(count)


@compiled()
def _add(h: Floats, X: Floats, node: int) -> None:
    """Add the row of a node with its sign."""
    row = X[abs(node) - 1]
    if node > 0:
        for v in range(len(h)):
            h[v] += row[v]
    else:
        for v in range(len(h)):
            h[v] -= row[v]


@compiled()
def _holds(held: Ints, number: int) -> bool:
    for other in held:
        if abs(other) == number:
            return True
    return False
