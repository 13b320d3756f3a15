"""All triangles of a matrix: how many are violated by how much, and which."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import compiled
from mmcopt.types import Floats, Ints

BINS = 512


@compiled()
def histogram(X: Floats, top: float, binary: bool, least: float, width: float) -> Ints:
    """Count triangles by violation, in bins of ``width`` from ``least`` on."""
    m = X.shape[0]
    counts = np.zeros(BINS, dtype=np.int64)
    for i in range(m):
        for j in range(i + 1, m):
            a = X[i, j]
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                # Of the types 1 to 3 at most one is violated: their violations sum to less than 0.
                total = a + b + c
                v = total - 2.0 * min(a, b, c) - top
                if binary:
                    v = max(v, -total - top)
                if v > least:
                    counts[min(BINS - 1, int((v - least) / width))] += 1
    return counts


@compiled(error_model="numpy", fastmath={"reassoc", "contract", "nnan"})
def worst(X: Floats, top: float, binary: bool) -> float:
    """The largest violation of a triangle, or 0."""
    m, found = X.shape[0], top
    for i in range(m):
        for j in range(i + 1, m):
            a, here = X[i, j], top
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                total = a + b + c
                v = total - 2 * min(a, min(b, c))
                here = max(here, max(v, -total) if binary else v)
            found = max(found, here)
    return found - top


@compiled()
def collect(X: Floats, top: float, binary: bool, least: float, out: Ints, by: Floats) -> int:
    """Write triangles violated by more than ``least``, as many as there is room for."""
    m, found = X.shape[0], 0
    for i in range(m):
        for j in range(i + 1, m):
            a = X[i, j]
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                total = a + b + c
                low = min(a, b, c)
                v = total - 2.0 * low - top
                if binary:
                    v = max(v, -total - top)
                if v > least:  # seldom: what is asked once for each triangle is kept short
                    if found == len(by):
                        return found
                    kind = 1 if low == c else 2 if low == b else 3
                    if binary and -total - top > total - 2.0 * low - top:
                        kind = 0
                    out[found, 0], out[found, 1], out[found, 2], out[found, 3] = i, j, h, kind
                    by[found] = v
                    found += 1
    return found


@compiled(error_model="numpy", fastmath={"reassoc", "contract", "nnan"})
def worst_of_pairs(X: Floats, top: float, binary: bool, least: float, out: Any,
                   by: Floats) -> int:
    """Write, for each two nodes, the worst triangle with a later one, if beyond ``least``."""
    m, found = X.shape[0], 0
    for i in range(m):
        for j in range(i + 1, m):
            a, most = X[i, j], -4.0 * X[i, i]
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                total = a + b + c
                v = total - 2 * min(a, min(b, c))
                most = max(most, max(v, -total) if binary else v)
            if most - top <= least or found == len(by):
                continue
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                total, low = a + b + c, min(a, min(b, c))
                v = total - 2 * low
                odd = binary and -total > v
                if max(v, -total) >= most - 1e-6 if odd else v >= most - 1e-6:
                    kind = 1 if low == c else 2 if low == b else 3
                    out[found, 0], out[found, 1], out[found, 2] = i, j, h
                    out[found, 3] = 0 if odd else kind
                    by[found] = most - top
                    found += 1
                    break
    return found
