"""Finding labels that satisfy sizes, given labels and cannot-links, before any optimisation."""

from __future__ import annotations

import numpy as np

from mmcopt.errors import InfeasibleError
from mmcopt.types import Ints

TRIES = 50
NODES = 200_000  # of the exhaustive search that follows when the random one fails


def find_labels(weights: Ints, low: Ints, high: Ints, fixed: Ints, apart: Ints,
                rng: np.random.Generator, start: Ints | None = None) -> Ints:
    """Random labels within the constraints, near ``start`` when one is given.

    Without cannot-links and with unit weights this is uniform labels followed by random moves out
    of clusters that are too large. Otherwise nodes are placed one by one, heavy and much-linked
    ones first, several times over, and at last by backtracking.
    """
    k, total = low.size, int(weights.sum())
    low = np.maximum(low, np.bincount(fixed[fixed >= 0], weights[fixed >= 0], k).astype(np.int64))
    if low.sum() > total:
        raise InfeasibleError("the known labels leave too few free samples to meet the sizes; "
                              "widen the sizes.")
    if (low > high).any() or high.sum() < total:
        raise InfeasibleError(f"clusters of {low.tolist()} (known labels included) to "
                              f"{high.tolist()} samples cannot hold {total}; widen the sizes.")
    if (fixed[apart[:, 0]] == fixed[apart[:, 1]])[fixed[apart[:, 0]] >= 0].any():
        raise InfeasibleError("two samples with one known label are cannot-linked.")
    if not len(apart) and (weights == 1).all():
        c = rng.integers(k, size=weights.size) if start is None else start.copy()
        return _balance(np.where(fixed >= 0, fixed, c), low, high, fixed, rng)
    neighbours = _adjacency(weights.size, apart)
    for attempt in range(TRIES):
        hint = start if attempt == 0 else None
        placed = _place(weights, low, high, fixed, neighbours, rng, hint, attempt % 2 == 1)
        if placed is not None:
            return placed
    found = _backtrack(weights, low, high, fixed, neighbours)
    if found is None:
        raise InfeasibleError(
            f"no labels were found that meet all sizes, known labels and links at once ({TRIES} "
            f"random tries and {NODES} steps of backtracking); loosen sizes or drop links.")
    return found


def _balance(c: Ints, low: Ints, high: Ints, fixed: Ints, rng: np.random.Generator) -> Ints:
    k = low.size
    sizes = np.bincount(c, minlength=k)
    # Targets: clip the sizes into their bounds, then spread what is left over or missing.
    target = np.clip(sizes, low, high)
    while (excess := int(target.sum() - c.size)) != 0:
        room = target - low if excess > 0 else high - target
        h = rng.choice(np.flatnonzero(room > 0))
        step = min(abs(excess), int(room[h]), max(1, abs(excess) // k))
        target[h] -= step if excess > 0 else -step
    order = rng.permutation(np.flatnonzero(fixed < 0))
    surplus = sizes - target
    moved = []
    for i in order:
        if surplus[c[i]] > 0:
            surplus[c[i]] -= 1
            moved.append(i)
    goals = np.repeat(np.arange(k), np.maximum(-surplus, 0))
    c = c.astype(np.int64)
    c[np.array(moved, dtype=np.int64)] = rng.permutation(goals)
    return c


def _adjacency(n: int, apart: Ints) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in apart.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    return neighbours


def _place(weights: Ints, low: Ints, high: Ints, fixed: Ints, neighbours: list[list[int]],
           rng: np.random.Generator, hint: Ints | None, eager: bool) -> Ints | None:
    """Place the nodes one by one; ``eager`` fills the clusters that lack members first.

    That is the surer way where sizes are tight, but it does not reach all feasible labels.
    """
    k = low.size
    c = fixed.copy()
    sizes = np.bincount(fixed[fixed >= 0], weights=weights[fixed >= 0], minlength=k).astype(int)
    degree = np.array([len(a) for a in neighbours])
    free = np.flatnonzero(fixed < 0)
    urgency = np.maximum(weights[free], 1) * (1 + degree[free]) * rng.uniform(0.5, 1.5, free.size)
    remaining = int(weights[free].sum())
    for i in free[np.argsort(-urgency)]:
        w = int(weights[i])
        taken = {int(c[j]) for j in neighbours[i]}
        allowed = [h for h in range(k) if h not in taken and sizes[h] + w <= high[h]]
        missing = int(np.maximum(low - sizes, 0).sum())
        if missing and (eager or missing > remaining - w):
            allowed = [h for h in allowed if sizes[h] < low[h]] or allowed
        if not allowed:
            return None
        h = int(hint[i]) if hint is not None and hint[i] in allowed else int(rng.choice(allowed))
        c[i] = h
        sizes[h] += w
        remaining -= w
    return c if (sizes >= low).all() and (sizes <= high).all() else None


def _backtrack(weights: Ints, low: Ints, high: Ints, fixed: Ints,
               neighbours: list[list[int]]) -> Ints | None:
    k = low.size
    c = fixed.copy()
    sizes = np.bincount(fixed[fixed >= 0], weights=weights[fixed >= 0], minlength=k).astype(int)
    free = sorted(np.flatnonzero(fixed < 0).tolist(),
                  key=lambda i: (-len(neighbours[i]), -int(weights[i])))
    tail = np.concatenate([np.cumsum(weights[free][::-1])[::-1], [0]]) if free else np.zeros(1)
    nodes = 0
    choice = [-1] * len(free)
    depth = 0
    while 0 <= depth < len(free) and nodes < NODES:
        i, w = free[depth], int(weights[free[depth]])
        if c[i] >= 0:
            sizes[c[i]] -= w
            c[i] = -1
        choice[depth] += 1
        if choice[depth] == k:
            choice[depth] = -1
            depth -= 1
            continue
        h = choice[depth]
        nodes += 1
        if sizes[h] + w > high[h] or any(c[j] == h for j in neighbours[i]):
            continue
        sizes[h] += w
        c[i] = h
        if np.maximum(low - sizes, 0).sum() <= tail[depth + 1]:
            depth += 1
    done = depth == len(free) and (sizes >= low).all() and (sizes <= high).all()
    return c if done else None
