"""All triangles of a matrix: how many are violated by how much, and which."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.types import Floats, Ints

BINS = 512
FAST: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nnan"}}


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


@compiled(**FAST)
def worst(X: Floats, top: float, binary: bool) -> float:
    """The largest violation of a triangle, or 0."""
    m = X.shape[0]
    most = np.full(m, top, X.dtype)  # by last node
    for i in range(m):
        for j in range(i + 1, m):
            _raise(most[j + 1:], X[i, j], X[i, j + 1:], X[j, j + 1:], binary)
    return most.max() - top


@compiled(**INNER, **FAST)
def _raise(most: Floats, a: float, x: Floats, y: Floats, binary: bool) -> None:
    """Raise numbers to what triangles of one pair and each other node come to.

    Slices of rows in a loop of their own are what the compiler makes vector instructions of.
    """
    if binary:
        for h in range(len(most)):
            b, c = x[h], y[h]
            most[h] = max(most[h], max(abs(b + c) - a, a + abs(b - c)))
    else:
        for h in range(len(most)):
            b, c = x[h], y[h]
            most[h] = max(most[h], max(b + c - a, a + abs(b - c)))


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


@compiled(**FAST)
def worst_of_pairs(X: Floats, top: float, binary: bool, least: float, out: Any,
                   by: Floats) -> int:
    """Write, for each two nodes, the worst triangle with one between them, if beyond ``least``."""
    m, found = X.shape[0], 0
    most, which = np.empty(m, X.dtype), np.empty(m, np.int32)
    for i in range(m):
        most[:] = top
        for j in range(i + 1, m):
            _choose(most[j + 1:], which[j + 1:], j, X[i, j], X[i, j + 1:], X[j, j + 1:], binary)
        for h in range(i + 2, m):
            if most[h] - top <= least:
                continue
            if found == len(by):
                return found
            j = which[h]
            a, b, c = X[i, j], X[i, h], X[j, h]
            low = min(a, min(b, c))
            odd = binary and -a - b - c > a + b + c - 2 * low
            out[found, 0], out[found, 1], out[found, 2] = i, j, h
            out[found, 3] = 0 if odd else 1 if low == c else 2 if low == b else 3
            by[found] = most[h] - top
            found += 1
    return found


@compiled(**INNER, **FAST)
def _choose(most: Floats, which: Any, j: int, a: float, x: Floats, y: Floats,
            binary: bool) -> None:
    """`_raise`, which also says where the pair is better than those before it."""
    for h in range(len(most)):
        b, c = x[h], y[h]
        v = max(abs(b + c) - a if binary else b + c - a, a + abs(b - c))
        which[h] = j if v > most[h] else which[h]
        most[h] = max(v, most[h])
