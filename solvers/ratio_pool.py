"""How `Memetic` combines partitions of k-means and its kin."""

from __future__ import annotations

import numpy as np

from mmcopt.capabilities import LabelRatio
from mmcopt.solvers.hartigan import Hartigan
from mmcopt.solving import run
from mmcopt.solving.ratio_search import apart, board_of, distances
from mmcopt.types import Floats, Ints

STARTS = 10  # sown starts of the search over blocks, besides the better parent
MIXED = 0.5  # share of the children that take means of both parents


def child(ratio: LabelRatio, parents: list[Ints], rng: np.random.Generator) -> Ints:
    """Labels made of those of one parent or more, to be polished."""
    made = None if rng.random() < MIXED else assembled(ratio, parents, rng)
    return mixed(ratio, parents[0], parents[-1], rng) if made is None else made


def assembled(ratio: LabelRatio, parents: list[Ints], rng: np.random.Generator) -> Ints | None:
    """The best partition found whose clusters are unions of intersections of the parents' ones.

    None when the parents are the same.
    """
    groups = intersections(parents, ratio.k)
    if groups.max() < ratio.k:
        return None
    small = ratio.contract(groups)
    starts = [parents[0]] + [None] * STARTS
    best = min((run(Hartigan(), small, start, rng) for start in starts), key=lambda r: r.value)
    return np.asarray(best.point)


def intersections(parents: list[Ints], k: int) -> Ints:
    """Which intersection of the parents' clusters each node is in."""
    groups = parents[0]
    for other in parents[1:]:
        groups = np.unique(groups * k + other, return_inverse=True)[1].reshape(-1)
    return groups.astype(np.int64)


def mixed(ratio: LabelRatio, first: Ints, second: Ints, rng: np.random.Generator) -> Ints:
    """Nodes with the nearest of means that either parent gives; one mean is drawn anew.

    Clusters of the parents are paired by what they share, and each pair gives one mean (Gribel and
    Vidal, 2019).
    """
    from scipy.optimize import linear_sum_assignment

    n, k = ratio.n, ratio.k
    shared = np.zeros((k, k))
    np.add.at(shared, (first, second), ratio.volumes)
    mine, theirs = linear_sum_assignment(-shared)
    D, other = (distances(ratio, board_of(ratio, c.copy()), slice(None)) for c in (first, second))
    taken = rng.random(k) < 0.5
    D[:, mine[taken]] = other[:, theirs[taken]]
    D[:, int(rng.integers(k))] = _drawn(ratio, D, rng)
    c = D.argmin(axis=1)
    for h in np.setdiff1d(np.arange(k), c):
        c[int(rng.integers(n))] = h
    return ratio.repair(c, rng)


def _drawn(ratio: LabelRatio, D: Floats, rng: np.random.Generator) -> Floats:
    """Squared distances to a node that is drawn by its own to the nearest mean."""
    from mmcopt.compiled.sowing import draw

    near = np.maximum(D.min(axis=1), 0.0)
    return np.asarray(apart(ratio, draw(ratio.volumes, near, rng.random(1)))[0])
