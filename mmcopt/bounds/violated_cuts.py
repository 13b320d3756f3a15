"""Finding violated cuts: all triangles by enumeration, cliques greedily. Compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mmcopt.bounds.label_lift import Cuts, Lift

Floats = NDArray[Any]
Ints = NDArray[np.int64]
BINS = 512


@njit(cache=True, nogil=True)
def _histogram(X: Floats, top: float, binary: bool, least: float, width: float) -> Ints:
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


@njit(cache=True, nogil=True)
def _collect(X: Floats, top: float, binary: bool, least: float, out: Ints, by: Floats) -> int:
    """Write triangles violated by more than ``least``, as many as there is room for."""
    m, found = X.shape[0], 0
    for i in range(m):
        for j in range(i + 1, m):
            a = X[i, j]
            for h in range(j + 1, m):
                b, c = X[i, h], X[j, h]
                total = a + b + c
                low = min(a, b, c)
                v, kind = total - 2.0 * low - top, 1
                if low == b:
                    kind = 2
                elif low == a:
                    kind = 3
                if low == c:
                    kind = 1
                if binary and -total - top > v:
                    v, kind = -total - top, 0
                if v > least and found < len(by):
                    out[found, 0], out[found, 1], out[found, 2], out[found, 3] = i, j, h, kind
                    by[found] = v
                    found += 1
    return found


def triangles(lift: Lift, X: Floats, most: int, least: float) -> tuple[Ints, Floats]:
    """Up to ``most`` triangles violated by more than ``least``, the most violated first."""
    width = (3.0 * lift.top + 1.0) / BINS
    binary = bool(lift.binary)
    counts = _histogram(X, lift.top, binary, least, width)
    beyond = np.cumsum(counts[::-1])[::-1]  # triangles in this bin or a higher one
    enough = np.flatnonzero(beyond >= most)
    # A little below the edge of the bin, on which violations such as 1/2 lie.
    start = least + (width * max(0.0, int(enough[-1]) - 1e-9) if enough.size else 0.0)
    room = int(beyond[enough[-1]] if enough.size else counts.sum())
    room = min(room, 20 * most + 1000)
    out, by = np.empty((room, 4), dtype=np.int64), np.empty(room)
    found = _collect(X, lift.top, binary, start, out, by)
    order = np.argsort(-by[:found], kind="stable")[:most]
    return out[order], by[order]


def cliques(lift: Lift, X: Floats, most: int, least: float) -> tuple[Ints, Floats]:
    """Sets of k + 1 nodes of which no two are together, grown greedily from every node."""
    size, m = lift.k + 1, lift.m
    if lift.binary or m < size:
        return np.empty((0, 0), dtype=np.int64), np.empty(0)
    M = (X - lift.floor) / (lift.top - lift.floor)
    np.fill_diagonal(M, np.inf)
    members = np.arange(m)[:, None]
    total, weight = np.zeros(m), M.copy()
    for _ in range(size - 1):
        new = np.argmin(weight, axis=1)
        total += weight[np.arange(m), new]
        members = np.column_stack([members, new])
        weight = weight + M[new]
    violation = 1.0 - total
    members = np.sort(members, axis=1)
    keep = np.flatnonzero(violation > least)
    keep = keep[np.argsort(-violation[keep], kind="stable")]
    first = np.sort(np.unique(members[keep], axis=0, return_index=True)[1])
    keep = keep[first][:most]
    return members[keep].astype(np.int64), violation[keep]


def violated(lift: Lift, X: Floats, most: int, least: float = 0.02) -> Cuts:
    """The most violated cuts at X."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    return Cuts(triangles(lift, X, most, least)[0], cliques(lift, X, most // 4 + 1, least)[0])


def worst(lift: Lift, X: Floats) -> float:
    """Largest violation of a triangle at X, in the units of M, or 0."""
    found = triangles(lift, np.ascontiguousarray(X, dtype=np.float64), 1, 0.0)[1]
    return float(found[0]) / (lift.top - lift.floor) if found.size else 0.0
