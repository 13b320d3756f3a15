"""Finding violated cuts: all triangles by enumeration, cliques greedily."""

from __future__ import annotations

import numpy as np

from mmcopt.bounds.label_lift import NO_SETS, Cuts, Lift
from mmcopt.types import Floats, Ints

STARTS = 5  # searches for odd sets, times the number of nodes
DRAWN = 256  # sets that are drawn at once


def triangles(lift: Lift, X: Floats, most: int, least: float) -> tuple[Ints, Floats]:
    """Up to ``most`` triangles violated by more than ``least``, the most violated first."""
    from mmcopt.compiled.triangles import BINS, collect, histogram

    width = (3.0 * lift.top + 1.0) / BINS
    binary = bool(lift.binary)
    counts = histogram(X, lift.top, binary, least, width)
    beyond = np.cumsum(counts[::-1])[::-1]  # triangles in this bin or a higher one
    enough = np.flatnonzero(beyond >= most)
    # A little below the edge of the bin, on which violations such as 1/2 lie.
    start = least + (width * max(0.0, int(enough[-1]) - 1e-9) if enough.size else 0.0)
    room = int(beyond[enough[-1]] if enough.size else counts.sum())
    room = min(room, 20 * most + 1000)
    out, by = np.empty((room, 4), dtype=np.int64), np.empty(room)
    found = collect(X, lift.top, binary, start, out, by)
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


def odd_sets(lift: Lift, X: Floats, most: int, least: float, draw: int = 0,
             starts: int = STARTS) -> Ints:
    """Up to ``most`` sets of five nodes violated by more than ``least``, found by local search.

    Searches begin with random sets, always the same for so many nodes and a number of a draw.
    """
    from mmcopt.compiled.odd_sets import SIZE, improved

    m = lift.m
    if m < SIZE or most < 1:
        return NO_SETS
    rng = np.random.default_rng([m, draw] if draw else m)
    nodes = _drawn(rng, starts * m, m, SIZE) + 1
    sets = nodes * rng.choice([-1, 1], nodes.shape)
    by = np.empty(len(sets))
    improved(np.ascontiguousarray(X, dtype=np.float64), sets, by)
    order = np.argsort(-by, kind="stable")
    order = order[by[order] > least]
    sets = np.take_along_axis(sets, np.argsort(np.abs(sets), axis=1), axis=1)[order]
    sets = sets * np.sign(sets[:, :1])
    first = np.sort(np.unique(sets, axis=0, return_index=True)[1])
    return np.ascontiguousarray(sets[first[:most]])


def _drawn(rng: np.random.Generator, count: int, m: int, size: int) -> Ints:
    """Sets of nodes, a block at a time: numbers for all of them at once would fill the memory."""
    blocks = (rng.random((min(DRAWN, count - at), m)) for at in range(0, count, DRAWN))
    drawn = (np.argpartition(U, range(size), axis=1)[:, :size].copy() for U in blocks)
    return np.concatenate(list(drawn))


def violated(lift: Lift, X: Floats, most: int, least: float = 0.02) -> Cuts:
    """The most violated cuts at X."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    return Cuts(triangles(lift, X, most, least)[0], cliques(lift, X, most // 4 + 1, least)[0])


def spread(lift: Lift, X: Floats, most: int, least: float) -> Cuts:
    """Cuts violated by more than ``least``, of which no two triangles begin with the same pair.

    So they reach more of X than the most violated ones, and are found in a third of the time.
    """
    from mmcopt.compiled import triangles as loops

    X = np.ascontiguousarray(X)
    room = X.shape[0] * (X.shape[0] - 1) // 2
    out, by = np.empty((room, 4), dtype=np.int32), np.empty(room, dtype=np.float32)
    found = loops.worst_of_pairs(X, X.dtype.type(lift.top), bool(lift.binary), least, out, by)
    order = np.argsort(-by[:found], kind="stable")[:most]
    return Cuts(out[order].astype(np.int64), cliques(lift, X, most // lift.k**2 + 1, least)[0])


def worst(lift: Lift, X: Floats) -> float:
    """Largest violation of a triangle at X, in the units of M, or 0."""
    from mmcopt.compiled import triangles as loops

    X = np.ascontiguousarray(X, dtype=np.float64)
    return float(loops.worst(X, lift.top, bool(lift.binary))) / (lift.top - lift.floor)
