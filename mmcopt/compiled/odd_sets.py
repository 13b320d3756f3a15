"""Sets of five nodes with signs whose inequality a matrix violates, by local search."""

from __future__ import annotations

import numpy as np

from mmcopt.compiled.loops import compiled
from mmcopt.types import Floats, Ints

SIZE = 5
SWEEPS = 20  # over the nodes of a set, at the most


@compiled()
def improved(X: Floats, sets: Ints, by: Floats) -> None:
    """Replace nodes and signs of each set, one at a time, while that violates it more.

    A set holds +-(node + 1), and violates ``-sum_{p<q} b_p b_q X_pq <= (SIZE - 1) / 2`` by ``by``.
    """
    m, h = X.shape[0], np.empty(X.shape[0])
    for row in range(sets.shape[0]):
        held, still, p, total = sets[row], 0, 0, 0.0
        while still < SIZE and p < SIZE * SWEEPS:
            at = p % SIZE
            for v in range(m):
                h[v] = 0.0
            for q in range(SIZE):
                if q != at:
                    node = abs(held[q]) - 1
                    sign = 1.0 if held[q] > 0 else -1.0
                    for v in range(m):
                        h[v] += sign * X[node, v]
            for q in range(SIZE):
                if q != at:
                    h[abs(held[q]) - 1] = 0.0  # not once more
            best = abs(held[at]) - 1
            for v in range(m):
                if abs(h[v]) > abs(h[best]) + 1e-9:
                    best = v
            now = best + 1 if h[best] <= 0.0 else -best - 1
            still = still + 1 if now == held[at] else 1
            held[at] = now
            p += 1
        for p in range(SIZE):
            for q in range(p):
                sign = 1.0 if (held[p] > 0) == (held[q] > 0) else -1.0
                total += sign * X[abs(held[p]) - 1, abs(held[q]) - 1]
        by[row] = -total - (SIZE - 1) / 2
