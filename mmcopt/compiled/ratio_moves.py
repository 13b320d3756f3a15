"""Compiled loops of k-means and its kin: single moves and swaps with the exact change.

All MAXIMISE the association A(c) = sum_h q_h / V_h, q_h = z_h' W z_h and V_h = v'z_h. There are two
forms of the state beside the labels c (n,), the volumes V (k,) and the sizes (k,), all updated in
place. By W (n, n): the caches G (k, n), G[h] = W z_h, and q (k,). By vectors x (n, r) of the nodes,
W_ij = v_i v_j x_i'x_j: the means M (k, r) of the clusters and their squared lengths; there the
change is in squared distances, v V_a / (V_a - v) d_a - v V_d / (V_d + v) d_d for j from a to d.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mmcopt.compiled.label_rules import (
    NONE,
    Rng,
    conflicts,
    excess,
    feasible_move,
    feasible_swap,
    relabel,
    uniform,
)
from mmcopt.compiled.loops import INNER, compiled

F = Any  # float64 array
N = Any  # int64 array
loop = compiled()
inner = compiled(**INNER)
quick = compiled(fastmath=True, **INNER)


@inner
def _relabel(c: N, sizes: N, V: F, v: F, rules: Any, j: int, d: int) -> None:
    """Give j the label d."""
    a = relabel(c, sizes, rules, j, d)
    V[a] -= v[j]
    V[d] += v[j]


# ---------------------------------------------------------------- by W


@loop
def squares(c: N, G: F) -> F:
    """The entries of W within each cluster, summed, from the caches."""
    q = np.zeros(G.shape[0])
    for j in range(c.size):
        q[c[j]] += G[c[j], j]
    return q


@inner
def _move(W: F, c: N, G: F, q: F, sizes: N, V: F, v: F, rules: Any, j: int, d: int) -> None:
    a, row = c[j], W[j]
    q[a] += row[j] - 2.0 * G[a, j]
    q[d] += row[j] + 2.0 * G[d, j]
    loser, winner = G[a], G[d]
    for i in range(row.size):
        loser[i] -= row[i]
    for i in range(row.size):
        winner[i] += row[i]
    _relabel(c, sizes, V, v, rules, j, d)


@inner
def _left(W: F, G: F, q: F, V: F, v: F, j: int, a: int) -> float:
    """What the term of its cluster a changes by when j leaves it."""
    return (q[a] - 2.0 * G[a, j] + W[j, j]) / (V[a] - v[j]) - q[a] / V[a]


@inner
def _joined(W: F, G: F, q: F, V: F, v: F, j: int, d: int) -> float:
    """What the term of another cluster d changes by when j joins it."""
    return (q[d] + 2.0 * G[d, j] + W[j, j]) / (V[d] + v[j]) - q[d] / V[d]


@loop
def matrix_moves(W: F, c: N, G: F, q: F, sizes: N, V: F, v: F, rules: Any, tol: float) -> float:
    """One pass: each node to its best cluster, where that gains more than ``tol``."""
    total = 0.0
    for j in range(c.size):
        a = c[j]
        if V[a] - v[j] <= 0.0:
            continue
        left = _left(W, G, q, V, v, j, a)
        best, to = tol, -1
        for d in range(V.size):
            if d == a:
                continue
            gain = left + _joined(W, G, q, V, v, j, d)
            if gain > best and feasible_move(c, sizes, rules, j, d):
                best, to = gain, d
        if to >= 0:
            _move(W, c, G, q, sizes, V, v, rules, j, to)
            total += best
    return total


@loop
def matrix_swaps(W: F, c: N, G: F, q: F, sizes: N, V: F, v: F, rules: Any, tol: float,
                 first: int, last: int) -> float:
    """Nodes first..last change places with whichever node gains most, where that is above tol."""
    total = 0.0
    for i in range(first, last):
        a, best, other = c[i], tol, -1
        for j in range(c.size):
            d = c[j]
            if d == a:
                continue
            Va, Vd = V[a] - v[i] + v[j], V[d] + v[i] - v[j]
            apart = W[i, i] + W[j, j] - 2.0 * W[i, j]
            qa = q[a] + apart + 2.0 * (G[a, j] - G[a, i])
            qd = q[d] + apart + 2.0 * (G[d, i] - G[d, j])
            gain = qa / Va - q[a] / V[a] + qd / Vd - q[d] / V[d]
            if gain > best and feasible_swap(c, sizes, rules, i, j):
                best, other = gain, j
        if other >= 0:
            d = c[other]
            _move(W, c, G, q, sizes, V, v, rules, i, d)
            _move(W, c, G, q, sizes, V, v, rules, other, a)
            total += best
    return total


@inner
def _open(c: N, sizes: N, rules: Any, j: int, d: int, slack: int, now: int) -> bool:
    """Tell whether j may move to d, where bounds may be overstepped by ``slack`` for a while.

    ``now`` is by how much they are: then only what lessens it is open.
    """
    a, w = c[j], rules.weights[j]
    if sizes[a] - w < max(1, rules.low[a] - slack) or sizes[d] + w > rules.high[d] + slack:
        return False
    if now > 0 and excess(sizes, rules, a, d, w) >= now:
        return False
    return rules.plain == 1 or conflicts(c, rules, j, d) == 0


@loop
def matrix_tabu(W: F, c: N, G: F, q: F, sizes: N, V: F, v: F, rules: Any, tol: float,
                steps: int, tenure: int, rng: Rng) -> float:
    """The best move each time, uphill or not; a node that moved rests for tenure .. 1.5 tenure.

    It moves all the same where that beats the best value. Ends with the best labels met, and the
    rest of the state as it was at last; returns their gain.
    """
    n, slack, total, top = c.size, rules.weights.max(), 0.0, 0.0
    until, kept = np.zeros(n, np.int64), c.copy()
    for t in range(steps):
        now, best, to, chosen = excess(sizes, rules, NONE, NONE, NONE), -np.inf, -1, -1
        for j in range(n):
            a = c[j]
            if rules.fixed[j] >= 0 or V[a] - v[j] <= 0.0:
                continue
            left = _left(W, G, q, V, v, j, a)
            for d in range(V.size):
                if d == a:
                    continue
                gain = left + _joined(W, G, q, V, v, j, d)
                if gain <= best or not _open(c, sizes, rules, j, d, slack, now):
                    continue
                if until[j] <= t or (total + gain > top + tol
                                     and excess(sizes, rules, a, d, rules.weights[j]) == 0):
                    best, to, chosen = gain, d, j
        if chosen < 0:
            continue
        _move(W, c, G, q, sizes, V, v, rules, chosen, to)
        total += best
        until[chosen] = t + 1 + tenure + int(uniform(rng) * (tenure // 2 + 1))
        if total > top + tol and excess(sizes, rules, NONE, NONE, NONE) == 0:
            top = total
            for j in range(n):
                kept[j] = c[j]
    for j in range(n):
        c[j] = kept[j]
    return top


# ---------------------------------------------------------------- by vectors


@quick
def _distance(x: F, m: F) -> float:
    """The squared distance of two vectors."""
    total = 0.0
    for t in range(x.size):
        total += (x[t] - m[t]) * (x[t] - m[t])
    return total


@quick
def _pull(m: F, x: F, share: float) -> None:
    """Draw a mean to a vector by a share of the way, or away from it."""
    for t in range(x.size):
        m[t] += share * (x[t] - m[t])


@loop
def vector_moves(X: F, some: N, D: F, c: N, M: F, sizes: N, V: F, v: F, rules: Any,
                 tol: float, calm: F, floor: float) -> float:
    """Move some nodes to their best clusters.

    ``D`` has their squared distances to all means as they were before: it tells which to look at.
    Of each is noted how far all means may go before it must be looked at again, while no volume
    falls below ``floor``: (f |x - m_d| - g |x - m_a|) / (f + g) for the nearest other mean m_d, f
    and g the roots of floor / (floor + v) and floor / (floor - v).
    """
    total, known, share, f, g = 0.0, -1.0, np.empty(V.size), 1.0, 1.0
    for i in range(D.shape[0]):
        j = some[i]
        a = c[j]
        calm[j] = -np.inf
        if V[a] - v[j] <= 0.0:
            continue
        if v[j] != known:  # the shares are those of nodes of this volume
            known = v[j]
            for d in range(V.size):
                share[d] = V[d] / (V[d] + known)
            if floor > known:
                f, g = math.sqrt(floor / (floor + known)), math.sqrt(floor / (floor - known))
        here, promising, near = D[i, a] * V[a] / (V[a] - v[j]), False, np.inf
        for d in range(V.size):
            if d != a:
                promising |= D[i, d] * share[d] < here
                near = min(near, D[i, d])
        if not promising:
            if floor > known:
                calm[j] = (f * math.sqrt(max(near, 0.0)) - g * math.sqrt(max(D[i, a], 0.0))) \
                    / (f + g)
            continue
        x = X[j]
        here = v[j] * V[a] / (V[a] - v[j]) * _distance(x, M[a])
        best, to = tol, -1
        for d in range(V.size):
            if d != a:
                gain = here - v[j] * V[d] / (V[d] + v[j]) * _distance(x, M[d])
                if gain > best and feasible_move(c, sizes, rules, j, d):
                    best, to = gain, d
        if to >= 0:
            _pull(M[a], x, -v[j] / (V[a] - v[j]))
            _pull(M[to], x, v[j] / (V[to] + v[j]))
            _relabel(c, sizes, V, v, rules, j, to)
            known = -1.0
            total += best
    return total
