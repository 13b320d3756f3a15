"""Compiled loops of the label searches on lists of neighbours: a change costs a node's degree.

As in `label_moves`, all MAXIMISE the association A(c) = sum_h z_h' W z_h, and the state is the
labels c (n,), the caches G (k, n), G[h] = W z_h, and the sizes (k,), updated in place. Here W is
held as an `Adjacency`, every node counts for one, and the only rules are sizes and given labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.label_rules import drawn, uniform
from mmcopt.compiled.loops import INNER, compiled

F = Any  # float32 or float64 array
N = Any  # int64 array
BIG = 1e30  # stands for infinity
NEVER = 25.0  # losses, in temperatures, beyond which no move is made
TRIES = 64  # moves that sizes forbid, one after another, until a step of tabu search is given up
loop = compiled()
inner = compiled(**INNER)


class Adjacency(NamedTuple):
    """A symmetric sparse W: the entries of row j are ``values[ptr[j]:ptr[j + 1]]``."""

    ptr: N  # (n + 1,)
    neighbours: N
    values: F
    diagonal: F  # (n,), whose entries are in the lists as well


class Bounds(NamedTuple):
    """What labels must obey."""

    low: N  # (k,)
    high: N  # (k,)
    fixed: N  # (n,) the label a node must keep, or -1


@inner
def _add_rows(A: Adjacency, c: N, G: F) -> None:
    """Add each row of W to that of G which is of its cluster."""
    for i in range(c.size):
        for p in range(A.ptr[i], A.ptr[i + 1]):
            G[c[i], A.neighbours[p]] += A.values[p]


@loop
def caches(A: Adjacency, c: N, k: int) -> F:
    """G with G[h] = W z_h."""
    G = np.zeros((k, c.size), A.values.dtype)
    _add_rows(A, c, G)
    return G


@inner
def _move(A: Adjacency, c: N, G: F, sizes: N, j: int, d: int) -> float:
    """Put j into cluster d; the change of A."""
    a = c[j]
    gain = 2.0 * (np.float64(G[d, j]) - np.float64(G[a, j]) + np.float64(A.diagonal[j]))
    for p in range(A.ptr[j], A.ptr[j + 1]):
        G[a, A.neighbours[p]] -= A.values[p]
        G[d, A.neighbours[p]] += A.values[p]
    sizes[a] -= 1
    sizes[d] += 1
    c[j] = d
    return gain


@inner
def _free(c: N, sizes: N, rules: Bounds, j: int, d: int) -> bool:
    """Whether j may move to d."""
    a = c[j]
    return rules.fixed[j] < 0 and sizes[a] > rules.low[a] and sizes[d] < rules.high[d]


@inner
def _between(A: Adjacency, i: int, j: int) -> float:
    """W_ij."""
    for p in range(A.ptr[i], A.ptr[i + 1]):
        if A.neighbours[p] == j:
            return np.float64(A.values[p])
    return 0.0


@loop
def sweep(A: Adjacency, c: N, G: F, sizes: N, rules: Bounds) -> float:
    """Each node to its best feasible cluster; 0 in a local optimum of moves."""
    total, unit = 0.0, 4e-6 if G.itemsize == 4 else 1e-12
    for j in range(c.size):
        a, to = c[j], -1
        best = unit * (abs(np.float64(G[a, j])) + abs(np.float64(A.diagonal[j])))
        for d in range(sizes.size):
            gain = np.float64(G[d, j]) - np.float64(G[a, j]) + np.float64(A.diagonal[j])
            if d != a and gain > best and _free(c, sizes, rules, j, d):
                best, to = gain, d
        if to >= 0:
            total += _move(A, c, G, sizes, j, to)
    return total


@inner
def _rate(A: Adjacency, c: N, G: F, rules: Bounds, j: int, score: F, dest: N) -> None:
    """Half the gain of the best move of j, and where it leads."""
    score[j], dest[j] = -BIG, -1
    if rules.fixed[j] >= 0:
        return
    for d in range(G.shape[0]):
        gain = G[d, j] - G[c[j], j] + A.diagonal[j]
        if d != c[j] and gain > score[j]:
            score[j], dest[j] = gain, d


@loop
def tabu(
    A: Adjacency, c: N, G: F, sizes: N, rules: Bounds, steps: int, tenure: int, rng: Any
) -> float:
    """One-flip tabu search for `steps` moves; ends in the best state met, returns its gain.

    A moved node rests for tenure .. 1.5 tenure steps, unless its move beats the best value. A step
    looks at n scores; after a move those of the neighbours are computed again.
    """
    n, value, best, back = c.size, 0.0, 0.0, 0
    score, dest = np.empty(n, np.float64), np.empty(n, np.int64)
    until, nodes, left = np.zeros(n, np.int64), np.empty(steps, np.int64), np.empty(steps, np.int64)
    tol = 1e-9
    for j in range(n):
        _rate(A, c, G, rules, j, score, dest)
    for t in range(steps):
        i = -1
        for _ in range(TRIES):
            top, i, wish = -BIG, -1, best - value + tol
            for j in range(n):
                if score[j] > top and (until[j] <= t or 2.0 * score[j] > wish):
                    top, i = score[j], j
            if i < 0 or _free(c, sizes, rules, i, dest[i]):
                break
            score[i], until[i], i = -BIG, t + 1, -1  # what sizes forbid; rated again below
        if i >= 0:
            nodes[back], left[back] = i, c[i]
            value += _move(A, c, G, sizes, i, dest[i])
            until[i] = t + 1 + tenure + int(uniform(rng) * (tenure // 2 + 1))
            back = 0 if value > best + tol else back + 1
            best = value if back == 0 else best
            for p in range(A.ptr[i], A.ptr[i + 1]):
                _rate(A, c, G, rules, A.neighbours[p], score, dest)
            _rate(A, c, G, rules, i, score, dest)
        for j in range(n if i < 0 or t % TRIES == 0 else 0):
            _rate(A, c, G, rules, j, score, dest)
    for q in range(back - 1, -1, -1):
        _move(A, c, G, sizes, nodes[q], left[q])
    return best


@inner
def _free_sides(c: N, sizes: N, rules: Bounds) -> bool:
    """Whether there are two clusters, of any sizes."""
    if sizes.size != 2 or rules.low[0] > 0 or rules.low[1] > 0:
        return False
    return rules.high[0] >= c.size and rules.high[1] >= c.size


@inner
def _flip(A: Adjacency, c: N, gain: F, j: int) -> float:
    """Node j changes sides; the change of A. The gains of such changes, halved, follow."""
    a, change = c[j], 2.0 * gain[j]
    for p in range(A.ptr[j], A.ptr[j + 1]):
        i, twice = A.neighbours[p], 2.0 * np.float64(A.values[p])
        gain[i] += twice if c[i] == a else -twice
    gain[j] = -0.5 * change
    c[j] = 1 - a
    return change


@inner
def _anneal_sides(
    A: Adjacency, c: N, G: F, sizes: N, rules: Bounds, temperatures: F, rng: Any
) -> float:
    """The same by Metropolis' rule, for two clusters of any sizes, in a small part of the time."""
    total, gain = 0.0, np.empty(c.size, np.float64)
    for j in range(c.size):
        gain[j] = np.float64(G[1 - c[j], j]) - np.float64(G[c[j], j]) + np.float64(A.diagonal[j])
    for T in temperatures:
        scale = -2.0 / T
        for j in range(c.size):
            loss = scale * gain[j]
            if loss > NEVER or rules.fixed[j] >= 0:
                continue
            if loss > 0.0:
                u = uniform(rng)  # exp is dear: the start of its series says no to most
                if u * (1.0 + loss * (1.0 + loss * (0.5 + loss / 6.0))) > 1.0 or u > np.exp(-loss):
                    continue
            total += _flip(A, c, gain, j)
    sizes[0] = sizes[1] = 0
    for j in range(c.size):
        sizes[c[j]] += 1
        G[0, j] = G[1, j] = 0.0
    _add_rows(A, c, G)
    return total


@loop
def anneal(
    A: Adjacency, c: N, G: F, sizes: N, rules: Bounds, temperatures: F, rng: Any
) -> float:
    """Heat bath on exp(A / T), one sweep over the nodes per temperature; ends in the last state.

    A node draws its cluster among the feasible ones; where some are not, it proposes a swap.
    """
    if _free_sides(c, sizes, rules):
        return _anneal_sides(A, c, G, sizes, rules, temperatures, rng)
    total, u = 0.0, np.empty(sizes.size, np.float64)
    for T in temperatures:
        for j in range(c.size):
            if rules.fixed[j] >= 0:
                continue
            a, tight = c[j], False
            stay = np.float64(G[a, j]) - np.float64(A.diagonal[j])
            top = stay
            for h in range(sizes.size):
                u[h] = stay if h == a else np.float64(G[h, j])
                if h != a and not _free(c, sizes, rules, j, h):
                    u[h], tight = -BIG, True
                top = u[h] if u[h] > top else top
            d = drawn(u, top, T, rng)
            if d != a and u[d] > 0.0:
                total += _move(A, c, G, sizes, j, d)
            i = int(uniform(rng) * c.size) if tight else j
            if c[i] != c[j] and rules.fixed[i] < 0:
                a, d = c[i], c[j]
                gain = 2.0 * (np.float64(G[d, i]) - np.float64(G[a, i]) + np.float64(A.diagonal[i])
                              + np.float64(G[a, j]) - np.float64(G[d, j])
                              + np.float64(A.diagonal[j])) - 4.0 * _between(A, i, j)
                if gain >= 0.0 or uniform(rng) < np.exp(gain / T):
                    total += _move(A, c, G, sizes, i, d) + _move(A, c, G, sizes, j, a)
    return total
