"""Compiled loops of starts far apart: nodes drawn by their squared distance to those before.

T holds squared distances of some nodes to all, v what nodes weigh, u uniform random numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import compiled

F = Any  # float64 array
N = Any  # int64 array


@compiled()
def draw(v: F, D: F, u: F) -> N:
    """Nodes drawn by v D, or by v where all of that is 0: one for each number of u."""
    n, total, mass = v.size, 0.0, 0.0
    upto, out = np.empty(n), np.empty(u.size, np.int64)
    for j in range(n):
        mass += v[j] * D[j]
    for j in range(n):
        total += v[j] * D[j] if mass > 0.0 else v[j]
        upto[j] = total
    for t in range(u.size):
        low, high = 0, n - 1  # the first whose sum is above the number drawn
        while low < high:
            middle = (low + high) // 2
            if upto[middle] > u[t] * total:
                high = middle
            else:
                low = middle + 1
        out[t] = low
    return out


@compiled()
def nearer(T: F, rows: N, some: N, v: F, D: F, near: N, h: int) -> None:
    """Of a few nodes the one that leaves the least sum of distances becomes the h-th.

    Row ``rows[t]`` of T is that of node ``some[t]``. D and near, the distance to the nearest of
    those taken and which that is, follow in place.
    """
    least, best = np.inf, 0
    for t in range(rows.size):
        row, total = T[rows[t]], 0.0
        for j in range(D.size):
            total += v[j] * min(row[j], D[j])
        if total < least:
            least, best = total, t
    row = T[rows[best]]
    for j in range(D.size):
        if row[j] < D[j]:
            D[j], near[j] = row[j], h
    near[some[best]] = h


@compiled()
def sow(T: F, v: F, u: F) -> N:
    """Labels by the nearest of as many nodes as u has rows, a few drawn for each; T has all."""
    near, D = np.zeros(v.size, np.int64), np.ones(v.size)
    first = draw(v, D, u[0, :1])[0]
    for j in range(v.size):
        D[j] = T[first, j]
    for h in range(1, u.shape[0]):
        some = draw(v, D, u[h])
        nearer(T, some, some, v, D, near, h)
    return near
