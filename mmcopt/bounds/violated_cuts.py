"""Finding violated cuts: all triangles by enumeration, cliques greedily."""

from __future__ import annotations

import numpy as np

from mmcopt.bounds.label_lift import Cuts, Lift
from mmcopt.types import Floats, Ints

STARTS = 5  # searches for odd sets, times the number of nodes
SINGLE = 1000  # nodes from which the largest violation is found in float32


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


def odd_sets(lift: Lift, X: Floats, most: int, least: float, draw: int = 0, starts: int = STARTS,
             size: int = 5, known: Ints | None = None) -> Ints:
    """Up to ``most`` sets of ``size`` nodes violated by more than ``least``, by local search.

    Searches begin with random sets, always the same for so many nodes and a number of a draw; half
    of them with nodes of the ``known`` sets among them, where there are any.
    """
    from mmcopt.compiled.odd_sets import improved

    m = lift.m
    if m < size or most < 1:
        return np.empty((0, size), dtype=np.int64)
    rng = np.random.default_rng([m, draw] if draw else m)
    sets = _drawn(rng, starts * m, m, size) + 1
    sets *= rng.choice([-1, 1], sets.shape)
    if known is not None and len(known):
        half = len(sets) // 2
        begun = rng.permuted(known[rng.integers(len(known), size=half)], axis=1)
        sets[:half] = _completed(begun[:, :size - 1], sets[:half])
    by = np.empty(len(sets))
    improved(np.ascontiguousarray(X), sets, by)
    order = np.argsort(-by, kind="stable")
    order = order[by[order] > least]
    sets = np.take_along_axis(sets, np.argsort(np.abs(sets), axis=1), axis=1)[order]
    sets = sets * np.sign(sets[:, :1])
    first = np.sort(np.unique(sets, axis=0, return_index=True)[1])
    return np.ascontiguousarray(sets[first[:most]])


def _completed(begun: Ints, sets: Ints) -> Ints:
    """Sets that begin with these nodes in place of their own, where no node comes twice."""
    out = np.hstack([begun, sets[:, begun.shape[1]:]])
    twice = (np.diff(np.sort(np.abs(out), axis=1), axis=1) == 0).any(axis=1)
    return np.where(twice[:, None], sets, out)


def _drawn(rng: np.random.Generator, count: int, m: int, size: int) -> Ints:
    """Sets of nodes that differ: each new one is a place among those that are left."""
    out = np.empty((count, size), dtype=np.int64)
    for p in range(size):
        new = rng.integers(m - p, size=count)
        for other in np.sort(out[:, :p], axis=1).T:
            new += new >= other
        out[:, p] = new
    return out


def violated(lift: Lift, X: Floats, most: int, least: float = 0.02) -> Cuts:
    """The most violated cuts at X."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    return Cuts(triangles(lift, X, most, least)[0], cliques(lift, X, most // 4 + 1, least)[0])


def spread(lift: Lift, X: Floats, most: int, least: float) -> Cuts:
    """Cuts violated by more than ``least``; no two triangles have the same first and last node.

    So they reach more of X than the most violated ones, and are found in a tenth of the time.
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

    X = np.ascontiguousarray(X, dtype=np.float32 if lift.m >= SINGLE else np.float64)
    by = loops.worst(X, X.dtype.type(lift.top), bool(lift.binary))
    return float(by) / (lift.top - lift.floor)
