"""From a relaxed matrix to labels: hyperplanes for two clusters, k-means on its vectors for more.

Every candidate is repaired to meet the constraints and descends to a local optimum.
"""

from __future__ import annotations

import numpy as np

from mmcopt.bounds.label_lift import Lift
from mmcopt.bounds.ratio_lift import RatioLift
from mmcopt.capabilities import LabelQuadratic
from mmcopt.linalg import leading_pairs
from mmcopt.types import Floats, Ints

RANK = 40  # eigenvectors that are used
ROUNDS = 20  # of Lloyd's iteration in feature space


def rounded(lq: LabelQuadratic, lift: Lift, X: Floats, rng: np.random.Generator,
            tries: int = 8) -> Ints:
    """The best feasible node labels found near X."""
    w, V = leading_pairs(X, min(RANK, len(X)))
    V = V[:, ::-1] * np.sqrt(np.maximum(w[::-1], 0.0))
    draw = _signs if lift.binary else _clusters
    found = [descended(lq, lq.repair(draw(lq, lift, V, index, rng), rng)) for index in range(tries)]
    return min(found, key=lq.value)


def descended(lq: LabelQuadratic, c: Ints) -> Ints:
    """The local optimum of moves and swaps that steepest descent reaches from feasible labels."""
    from mmcopt.compiled import label_moves

    W = lq.matrix.dense()
    c = c.copy()
    G, sizes = label_moves.caches(W, c, lq.k), label_moves.cluster_sizes(c, lq.weights, lq.k)
    label_moves.descend(W, c, G, sizes, lq.rules(), 10 * lq.n)
    return c


def _signs(lq: LabelQuadratic, lift: Lift, V: Floats, index: int, rng: np.random.Generator) -> Ints:
    """Signs along the leading eigenvector, then along random directions; the better orientation."""
    direction = np.eye(V.shape[1])[0] if index == 0 else rng.standard_normal(V.shape[1])
    y = lift.signs * np.where(V @ direction >= 0, 1.0, -1.0)[lift.groups]
    c = np.where(y > 0, 0, 1).astype(np.int64)
    return min(c, 1 - c, key=lambda given: _broken(lq, given))


def _broken(lq: LabelQuadratic, c: Ints) -> float:
    """The violation of node labels, those of nodes that no point belongs to included."""
    wrong = bool(((lq.fixed >= 0) & (c != lq.fixed)).any())
    return max(lq.violation(lq.expand(c)), float(wrong))


def _clusters(lq: LabelQuadratic, lift: Lift, V: Floats, index: int,
              rng: np.random.Generator) -> Ints:
    """k-means on the rows of V; clusters are named so that known labels agree best."""
    weights = np.bincount(lift.groups, weights=lq.weights, minlength=lift.m)
    c = kmeans(V[:, :lq.k], weights, lq.k, rng)[lift.groups]
    if (lq.fixed >= 0).any():
        c = named(c, lq.fixed, lq.k)
    elif not lq.symmetric:  # largest clusters where most room is
        rank = np.empty(lq.k, dtype=np.int64)
        sizes = np.bincount(c, weights=lq.weights, minlength=lq.k)
        rank[np.argsort(-sizes)] = np.argsort(-(lq.low + lq.high))
        c = rank[c]
    return c.astype(np.int64)


def kmeans(V: Floats, weights: Floats, k: int, rng: np.random.Generator, rounds: int = 30) -> Ints:
    """Weighted Lloyd iterations from spread-out centres."""
    centres = V[[int(rng.integers(len(V)))]]
    for _ in range(k - 1):
        distance = ((V[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1) * weights
        total = distance.sum()
        p = distance / total if total > 0 else None
        centres = np.vstack([centres, V[[int(rng.choice(len(V), p=p))]]])
    c = np.zeros(len(V), dtype=np.int64)
    for _ in range(rounds):
        new = np.argmin((centres**2).sum(axis=1) - 2 * V @ centres.T, axis=1)
        if (new == c).all():
            break
        c = new
        mass = np.bincount(c, weights=weights, minlength=k)
        sums = np.zeros_like(centres)
        np.add.at(sums, c, V * weights[:, None])
        centres = np.where(mass[:, None] > 0, sums / np.maximum(mass, 1e-300)[:, None], centres)
    return c


# ---------------------------------------------------------------- k-means and its kin


def clustered(lift: RatioLift, X: Floats, rng: np.random.Generator, tries: int = 8) -> Ints:
    """The best labels of the nodes of a lift that k-means on the leading vectors of X leads to."""
    w, V = leading_pairs(np.asarray(X), lift.k)
    V = V * np.sqrt(np.maximum(w, 0.0))
    drawn = [_lloyd(lift, kmeans(V, lift.volumes, lift.k, rng)) for _ in range(tries)]
    return min(drawn, key=lambda c: clusters_cost(lift, c))


def named(c: Ints, fixed: Ints, k: int) -> Ints:
    """The same clusters under the names with which known labels (else -1) agree best."""
    from scipy.optimize import linear_sum_assignment

    held, agree = np.flatnonzero(fixed >= 0), np.zeros((k, k))
    np.add.at(agree, (c[held], fixed[held]), 1.0)
    return np.asarray(linear_sum_assignment(-agree)[1][c], dtype=np.int64)


def indicators(lift: RatioLift, c: Ints) -> tuple[Floats, Floats]:
    """The columns z_h, and the volumes of the clusters; 1 of an empty one."""
    Z = np.eye(lift.k)[c]
    sizes = lift.volumes @ Z
    return Z, np.where(sizes > 0.0, sizes, 1.0)


def clusters_cost(lift: RatioLift, c: Ints) -> float:
    """What is relaxed, for labels of the nodes of the lift."""
    Z, sizes = indicators(lift, c)
    inside = np.sum(Z * (lift.W @ Z), axis=0)
    return float(lift.base - lift.scale * (inside / sizes).sum())


def _lloyd(lift: RatioLift, c: Ints) -> Ints:
    """Each node to the nearest mean in feature space, a few times."""
    W, volumes = lift.W, lift.volumes
    for _ in range(ROUNDS):
        Z, sizes = indicators(lift, c)
        means = Z / sizes
        near = W @ means
        far = np.sum(means * near, axis=0) - 2.0 * near / volumes[:, None]
        new = np.where(Z.any(axis=0), far, np.inf).argmin(axis=1).astype(np.int64)
        if (new == c).all():
            break
        c = new
    return c
