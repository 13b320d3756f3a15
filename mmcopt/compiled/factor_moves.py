"""Compiled loops of the label searches on a factor: W = Psi Psi', and W itself is never made.

As in `mmcopt.compiled.label_moves`, but for the caches: they are the sums S[h] = Psi'z_h (k, r) of
the rows of each cluster, so that a move costs O(k r) and not O(n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.label_rules import (
    BIG,
    Rng,
    Rules,
    conflicts,
    drawn,
    mutate,
    relabel,
)
from mmcopt.compiled.loops import INNER, compiled

F = Any  # float32 or float64 array, as Psi; checkers cannot tell its items from its slices
N = Any  # int64 array
loop = compiled()
inner = compiled(**INNER)


@inner
def _carry(S: F, a: int, d: int, x: F) -> None:
    """Take a point from one row of sums to another: `+=` compiles its error message for long."""
    for j in range(x.size):
        S[a, j] -= x[j]
        S[d, j] += x[j]


@compiled(fastmath=True)
def _dot(x: F, y: F) -> float:
    """Inner product in the dtype of the vectors; fastmath lets the sum vectorise."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] * y[j]
    return np.float64(total)


@loop
def evolve(
    Psi: F, c: N, S: F, sizes: N, rules: Rules, t: int, generations: int, rng: Rng
) -> float:
    """FastEvoMMC (1+1): W = Psi Psi', S[h] = Psi'z_h (k, r); O((s + k) r) each; the gain."""
    total, D, deck = 0.0, np.zeros_like(S), np.arange(c.size)
    spots, old = deck.copy(), deck.copy()
    for g in range(t, t + generations):
        m = mutate(c, sizes, rules, max(1, c.size // (g + 1)), deck, spots, old, rng)
        gain, D[:] = 0.0, 0
        for q in range(m):
            _carry(D, old[q], c[spots[q]], Psi[spots[q]])
        for h in range(sizes.size):
            gain += 2.0 * _dot(D[h], S[h]) + _dot(D[h], D[h])
        if gain >= 0.0:
            total += gain
            for h in range(sizes.size):
                for p in range(S.shape[1]):
                    S[h, p] += D[h, p]
        for q in range(m if gain < 0.0 else 0):
            relabel(c, sizes, rules, spots[q], old[q])
    return total


@loop
def sweep(Psi: F, c: N, S: F, sizes: N, rules: Rules, order: N) -> float:
    """Each point of `order` to its best feasible cluster; W = Psi Psi', S[h] = Psi'z_h; O(nkr)."""
    total, u = 0.0, np.zeros(sizes.size)
    for j in order:
        x, a, to, w = Psi[j], c[j], -1, rules.weights[j]
        if rules.fixed[j] >= 0 or sizes[a] - w < rules.low[a]:
            continue
        for d in range(sizes.size):
            u[d] = _dot(S[d], x)
        square = _dot(x, x)
        best = 1e-6 * (square + abs(u[a]))
        for d in range(sizes.size):  # a call of `feasible_move` takes longer than a product
            gain = 2.0 * (u[d] - u[a] + square)
            if gain > best and d != a and sizes[d] + w <= rules.high[d] \
                    and (rules.plain or conflicts(c, rules, j, d) == 0):
                best, to = gain, d
        if to >= 0:
            total += best
            _carry(S, a, to, x)
            sizes[a] -= rules.weights[j]
            sizes[to] += rules.weights[j]
            c[j] = to
    return float(total)


@loop
def anneal(
    Psi: F, c: N, S: F, sizes: N, rules: Rules, order: N, temperature: float, rng: Rng
) -> float:
    """`label_moves.anneal` at one temperature over the points of `order`; O(nkr), no swaps."""
    total, u, weight = 0.0, np.zeros(sizes.size), np.zeros(sizes.size)
    for j in order:
        x, a, w = Psi[j], c[j], rules.weights[j]
        if rules.fixed[j] >= 0:
            continue
        u[a] = top = _dot(S[a], x) - _dot(x, x)
        stays = sizes[a] - w < rules.low[a]
        for h in range(sizes.size):
            if h != a and (stays or sizes[h] + w > rules.high[h]
                           or (not rules.plain and conflicts(c, rules, j, h) > 0)):
                u[h] = -BIG
            elif h != a:
                u[h] = _dot(S[h], x)
                top = max(top, u[h])
        weight[:] = u
        d = drawn(weight, top, temperature, rng)
        if d != a and weight[d] > 0.0:
            total += 2.0 * (u[d] - u[a])
            _carry(S, a, d, x)
            relabel(c, sizes, rules, j, d)
    return float(total)
