"""Cutting planes on dense rows, compiled: cuts, their linear parts, and the masters of a step.

The same as `mmcopt.margins.cut_models` says in NumPy for rows of any kind, at a tenth of the time
on small data; a test holds the two equal. Functions that call one another share this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.linalg import UNIT
from mmcopt.tolerances import RISE, WORSE

F = Any
RIDGE = 1e-12  # of the largest diagonal: damps steps along directions in which cuts depend
EXACT = 1e-12  # slope below which a master is solved, of the largest b of a cut
REVIVED, LEAST_WEIGHT = 0.05, 1e-14  # at p = 1: share of equal weights at the start, and a floor
PAIR, LABEL = 0, 1  # a cut between the two leading classes, or between the own and the best other
FEW_CLASSES = 8  # classes up to which one pass over the rows is faster than a product of matrices
loop = compiled(error_model="numpy")
inner = compiled(error_model="numpy", **INNER)
# Sums in any order, so that they are done several terms at a time.
sums = compiled(error_model="numpy", fastmath={"reassoc", "contract"})


# ---------------------------------------------------------------- masters


@inner
def _copy(source: F, target: F) -> None:
    """Copy a vector to the front of one: assigning to a slice compiles its error for a second."""
    for j in range(source.size):
        target[j] = source[j]


@inner
def _newton(M: F, x: F, m: int, ridge: float) -> None:
    """Overwrite x by the solution of (M + ridge I) d = x, and M by its Cholesky factor."""
    for i in range(m):
        for j in range(i):
            for q in range(j):
                M[i, j] -= M[i, q] * M[j, q]
            M[i, j] /= M[j, j]
        total = M[i, i] + ridge
        for q in range(i):
            total -= M[i, q] * M[i, q]
        M[i, i] = np.sqrt(max(total, ridge))
    for i in range(m):
        for q in range(i):
            x[i] -= M[i, q] * x[q]
        x[i] /= M[i, i]
    for i in range(m - 1, -1, -1):
        for q in range(i + 1, m):
            x[i] -= M[q, i] * x[q]
        x[i] /= M[i, i]


@inner
def _face(Q: F, g: F, free: F, m: int, capped: int, pivot: int, M: F, x: F, ridge: float) -> float:
    """Newton step on a face into x (m,); the largest slope on it.

    ``pivot`` >= 0 is the free entry that gives what the other capped ones take, so that their sum
    stays; its own place in x is what it takes.
    """
    left, k = 0.0, 0
    for i in range(m):
        f = free[i]
        if f == pivot:
            continue
        tied = pivot >= 0 and f < capped
        x[k] = g[f] - (g[pivot] if tied else 0.0)
        left = max(left, abs(x[k]))
        q = 0
        for j in range(i + 1):
            h = free[j]
            if h == pivot:
                continue
            value = Q[f, h]
            if tied:
                value -= Q[pivot, h]
            if pivot >= 0 and h < capped:
                value -= Q[f, pivot]
                if tied:
                    value += Q[pivot, pivot]
            M[k, q] = value
            q += 1
        k += 1
    _newton(M, x, k, ridge)
    if pivot >= 0:  # put the steps back in their places
        given, k = 0.0, k - 1
        for i in range(m - 1, -1, -1):
            if free[i] == pivot:
                at = i
                continue
            x[i] = x[k]
            k -= 1
            if free[i] < capped:
                given += x[i]
        x[at] = -given
    return left


@inner
def _stepped(a: F, is_free: F, x: F, free: F, capped: int, used: float,
             tight: bool) -> tuple[float, bool]:
    """Take a step x of the free entries, cut off where one of them or the slack of the cap is zero.

    What the capped entries sum to then, and whether that is all they may.
    """
    step, who, slope = 1.0, -1, 0.0
    for i in range(free.size):
        if free[i] < capped:
            slope += x[i]
        if x[i] < 0.0 and a[free[i]] + step * x[i] < 0.0:
            step, who = -a[free[i]] / x[i], i
    if not tight and slope > 0.0 and used + step * slope > 1.0:
        step, who, tight = (1.0 - used) / slope, -1, True
    for i in range(free.size):
        a[free[i]] = max(a[free[i]] + step * x[i], 0.0)
    if who >= 0:
        a[free[who]] = 0.0
        is_free[free[who]] = False
    used = a[:capped].sum()
    if used > 1.0:
        for i in range(capped):
            a[i] /= used
        used = 1.0
    return used, tight


@loop
def ascend_master(Q: F, b: F, capped: int, a: F, tol: float, limit: int) -> int:
    """Improve a feasible ``a`` to the optimum, in place; the number of steps taken.

    Free entries take a Newton step, a little damped so that dependent cuts do no harm. Where
    nothing is left to gain on the face, the entry with the largest gain joins, and where that is
    below ``tol`` of the largest b of a cut, or below the rounding of the slopes, a is optimal.
    """
    n, top, unit = b.size, 1e-100, 1.0
    for i in range(n):
        top = max(top, Q[i, i])
        if i < capped:
            unit = max(unit, abs(b[i]))
    is_free = a > 0.0
    used = min(a[:capped].sum(), 1.0)
    tight = used >= 1.0 - 1e-15
    free, g, M, x = np.empty(n, np.int64), np.empty(n), np.empty((n, n)), np.empty(n)
    for it in range(limit):
        m, pivot, mass = 0, -1, 0.0
        for i in range(n):
            if is_free[i]:
                free[m] = i
                m += 1
                mass += a[i]
                if tight and i < capped and (pivot < 0 or a[i] > a[pivot]):
                    pivot = i
        least = max(tol * unit, 8 * UNIT * top * mass)
        for i in range(n):
            g[i] = b[i]
            for j in range(m):
                g[i] -= Q[i, free[j]] * a[free[j]]
        if _face(Q, g, free, m, capped, pivot, M, x, RIDGE * top) > least:
            used, tight = _stepped(a, is_free, x, free[:m], capped, used, tight)
            continue
        price = g[pivot] if tight else 0.0
        if price < -least:  # the cap holds nothing back
            tight = False
            continue
        best, joins = least, -1
        for i in range(n):
            if not is_free[i]:
                gain = g[i] - (price if i < capped else 0.0)
                if gain > best:
                    best, joins = gain, i
        if joins < 0:
            return it
        is_free[joins] = True
    return limit


@loop
def ascend_blocks(Q: F, b: F, capped: int, p: float, a: F, weights: F, tol: float,
                  limit: int) -> tuple[float, float]:
    """Improve ``a`` and the weights of blocks; the primal value and the dual one.

    maximise ``b'a - |(a'Q_m a)_m|_r / 2`` over the set of `ascend_master`, r dual to p: the dual of
    cutting planes whose regulariser is ``min over weights, |weights|_p <= 1, of
    sum_m |v_m|^2 / (2 weights_m)``. The weights are held while a is found, and then follow in
    closed form from v_m = weights_m sum_j a_j g_jm. Ends when the gap is ``tol`` of the value.

    For p = 1 a weight may have to go to zero, or to come back from there: none is left at zero, and
    they move by powers of ``a'Q_m a`` that grow as long as the value falls.
    """
    blocks, n = Q.shape[0], b.size
    mixed, moved = np.empty((n, n)), np.empty((blocks, n))
    square, length = np.empty(blocks), np.empty(blocks)
    best, worst = -np.inf, np.inf
    kept_a, kept, power = a.copy(), weights.copy(), 0.5
    if p == 1.0:
        _copy((1.0 - REVIVED) * weights + REVIVED / blocks, weights)
    for _ in range(limit):
        mixed[:] = 0.0
        for m in range(blocks):
            mixed += weights[m] * Q[m]
        ascend_master(mixed, b, capped, a, 1e-13, 50 + 20 * n)
        linear = (a * b).sum()
        for m in range(blocks):
            np.dot(Q[m], a, moved[m])
            square[m] = max((a * moved[m]).sum(), 0.0)
            length[m] = weights[m] * np.sqrt(square[m])
        if p == 1.0:
            norm = square.max()
        else:
            r = p / (p - 1.0)
            top = max(square.max(), 1e-300)
            norm = top * (((square / top)**r).sum())**(1.0 / r)
        best = max(best, linear - 0.5 * norm)
        q = 2.0 * p / (p + 1.0)
        high = max(length.max(), 1e-300)
        regular = 0.5 * (high * (((length / high)**q).sum())**(1.0 / q))**2
        slack = 0.0
        for j in range(capped):  # further entries are constraints, which hold where a is optimal
            reach = b[j]
            for m in range(blocks):
                reach -= weights[m] * moved[m, j]
            slack = max(slack, reach)
        falls = regular + slack < worst
        if falls:
            worst = regular + slack
            _copy(a, kept_a)
            _copy(weights, kept)
        if worst - best <= tol * max(abs(worst), 1e-300) or length.max() == 0.0:
            break
        if p == 1.0:
            power = min(1.5 * power, 8.0) if falls else max(0.5 * power, 0.5)
            new = np.maximum(weights * (square / max(norm, 1e-300))**power, LEAST_WEIGHT)
        else:
            new = (length / high)**(2.0 / (p + 1.0))
        _copy(new / ((new**p).sum())**(1.0 / p), weights)
    _copy(kept_a, a)
    _copy(kept, weights)
    return worst, best


# ---------------------------------------------------------------- samples and their classes


@loop
def leaders(T: F, first: F, second: F, margin: F) -> None:
    """The two largest classes of each row of scores, the first of equal ones, and t1 - t2."""
    n, k = T.shape
    for i in range(n):
        p, r = 0, 1
        if T[i, 1] > T[i, 0]:
            p, r = 1, 0
        for q in range(2, k):
            if T[i, q] > T[i, p]:
                p, r = q, p
            elif T[i, q] > T[i, r]:
                r = q
        first[i], second[i], margin[i] = p, r, T[i, p] - T[i, r]


@loop
def rivals(T: F, y: F, other: F, margin: F) -> None:
    """The best class other than y of each row of scores, and how far that of y is above it."""
    n, k = T.shape
    for i in range(n):
        r = 1 if y[i] == 0 else 0
        for q in range(r + 1, k):
            if q != y[i] and T[i, q] > T[i, r]:
                r = q
        other[i], margin[i] = r, T[i, y[i]] - T[i, r]


@loop
def tops(T: F, y: F) -> None:
    """The largest class of each row of scores into y, the first of equal ones."""
    n, k = T.shape
    for i in range(n):
        p = 0
        for q in range(1, k):
            if T[i, q] > T[i, p]:
                p = q
        y[i] = p


@loop
def fill_classes(T: F, least: int, y: F) -> None:
    """Move samples of the labels y until no class has fewer than ``least``.

    Classes that are short take, the shortest first, the samples whose score falls least by the
    move, from classes that have some to spare: a greedy repair, not always the best labels.
    """
    n, k = T.shape
    count = np.zeros(k)  # as numbers like the losses, so that one sorting is compiled
    for i in range(n):
        count[y[i]] += 1
    if count.min() >= least:
        return
    loss, place, order = np.empty(n), np.empty(n, np.int64), np.argsort(count, kind="mergesort")
    for s in range(k):
        p, m = order[s], 0
        for i in range(n if count[p] < least else 0):
            if y[i] != p and count[y[i]] > least:
                loss[m], place[m] = T[i, y[i]] - T[i, p], i
                m += 1
        nearest = np.argsort(loss[:m], kind="mergesort")
        for j in range(m):
            i = place[nearest[j]]
            if count[p] < least and count[y[i]] > least:
                count[y[i]] -= 1
                count[p] += 1
                y[i] = p


@sums
def _classify_two(X: F, w: F, t: F, y: F) -> None:
    """The halves t = Xw of the scores of two classes, and the top ones."""
    n, d = X.shape
    for i in range(n):
        total = 0.0
        for c in range(d):
            total += X[i, c] * w[c]
        t[i] = total
        y[i] = 1 if total > 0.0 else 0


@sums
def _classify_few(X: F, W: F, T: F, y: F) -> None:
    """The scores T = XW' of a few classes, and the top ones, in one pass over the rows."""
    n, d = X.shape
    for i in range(n):
        p = 0
        for q in range(W.shape[0]):
            total = 0.0
            for c in range(d):
                total += X[i, c] * W[q, c]
            T[i, q] = total
            if total > T[i, p]:
                p = q
        y[i] = p


@loop
def classify(X: F, W: F, T: F, t: F, y: F) -> None:
    """The top classes y of the scores XW', which go to T; of two classes only half into t."""
    k = T.shape[1]
    if k == 2:
        _classify_two(X, 0.5 * (W[1] - W[0]), t, y)
    elif k <= FEW_CLASSES:
        _classify_few(X, W, T, y)
    else:
        np.dot(X, W.T, T)
        tops(T, y)


# ---------------------------------------------------------------- cuts


@inner
def _add_row(g: F, q: int, w: float, X: F, i: int) -> None:
    """Add a multiple of row i to class q of a linear part (k d), but for the last: see `_close`."""
    d = X.shape[1]
    if (q + 1) * d < g.size:
        for c in range(d):
            g[q * d + c] += w * X[i, c]


@inner
def _close(g: F, d: int) -> None:
    """The part of the last class: the classes sum to zero."""
    last = g.size - d
    for c in range(d):
        total = 0.0
        for q in range(0, last, d):
            total += g[q + c]
        g[last + c] = -total


@loop
def cut(X: F, top: F, first: F, second: F, weight: F, kind: int, g: F) -> None:
    """Write the linear part (k, d) of a new cut of these weights, with labels ``top``, into g."""
    n, d = X.shape
    g[:] = 0.0
    flat = g.reshape(g.size)
    for i in range(n):
        w = weight[i] / n
        if w == 0.0:
            continue
        y, p, r = top[i], first[i], second[i]
        if kind == LABEL or p == y:  # y - r, which 2 y - p - r is here too
            _add_row(flat, y, w, X, i)
            _add_row(flat, r, -w, X, i)
        else:
            _add_row(flat, y, 2.0 * w, X, i)
            _add_row(flat, p, -w, X, i)
            _add_row(flat, r, -w, X, i)
    _close(flat, d)


@loop
def relinearise(X: F, G: F, weights: F, pairs: F, kind: int, rows: F, old: F, new: F) -> None:
    """Give samples other labels at the anchor in the linear parts of all cuts."""
    n = X.shape[0]
    for j in range(G.shape[0]):
        for i in rows:
            w = weights[j, i] / n
            if w == 0.0:
                continue
            if kind == PAIR:
                _add_row(G[j], new[i], 2.0 * w, X, i)
                _add_row(G[j], old[i], -2.0 * w, X, i)
                continue
            p, r = pairs[j, 0, i], pairs[j, 1, i]
            _add_row(G[j], new[i], w, X, i)
            _add_row(G[j], p if r == new[i] else r, -w, X, i)
            _add_row(G[j], old[i], -w, X, i)
            _add_row(G[j], p if r == old[i] else r, w, X, i)
        _close(G[j], X.shape[1])


@inner
def _reached(G: F, b: F, w: F) -> float:
    """The largest linearised cut at w, or 0."""
    return max(0.0, (b - np.dot(G, w)).max())


@inner
def _move(X: F, T: F, w: F, G: F, b: F, weights: F, pairs: F, kind: int, least: int, top: F,
          new: F, rows: F) -> tuple[int, float]:
    """Move the anchor to w and the labels ``new``; how many changed, and `_reached` after it.

    T are the scores, and ``rows`` is room for n indices.
    """
    if kind == LABEL:
        fill_classes(T, least, new)
    m = 0
    for i in range(new.size):
        if new[i] != top[i]:
            rows[m] = i
            m += 1
    if m == 0:
        return 0, _reached(G, b, w)
    if kind == PAIR:
        relinearise(X, G, weights, pairs, kind, rows[:m], top, new)
        _copy(new, top)
        return m, _reached(G, b, w)
    kept, before = G.copy(), _reached(G, b, w)
    relinearise(X, G, weights, pairs, kind, rows[:m], top, new)
    after = _reached(G, b, w)
    if after > before + WORSE:
        # The repair is greedy, and these labels cost more.
        _copy(kept.reshape(G.size), G.reshape(G.size))
        return 0, before
    _copy(new, top)
    return m, after


class CutArrays(NamedTuple):
    """A set of cuts: linear parts, what they say at W = 0, weights and pairs of the samples."""

    G: F
    b: F
    weights: F
    pairs: F
    kind: int  # PAIR or LABEL
    least: int  # samples that a class must have, of LABEL


class At(NamedTuple):
    """Where a step is: the labels of the anchor, W with its scores T, and the multipliers."""

    top: F
    W: F
    T: F
    a: F


@loop
def descend(X: F, beta: float, cuts: CutArrays, fixed: F, limits: F, alpha: float, most: int,
            at: At) -> tuple[int, int, float]:
    """Masters over the cuts, one after another, until the objective falls by less than alpha.

    ``fixed`` and ``limits`` are the rows of constraints. Where it is moves in place; how many
    masters, how many rises of the objective, and the largest cut at W, linearised there.
    """
    G, b, weights, pairs, kind, least = cuts
    top, W, T, a = at
    J, (n, k) = G.shape[0], T.shape
    t, new, changed = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    rows, value = np.concatenate((G, fixed)), np.concatenate((b, limits))
    before, rises, reached, done = np.inf, 0, 0.0, 0
    while done < most:
        _copy(G.reshape(G.size), rows.reshape(rows.size))
        Q = np.dot(rows, rows.T) / beta
        ascend_master(Q, value, J, a, EXACT, 50 + 20 * value.size)
        w = np.dot(a, rows) / beta
        _copy(w, W.reshape(W.size))
        classify(X, W, T, t, new)
        if k == 2 and kind == LABEL:
            _halves(t, T)
        moved, reached = _move(X, T, w, G, b, weights, pairs, kind, least, top, new, changed)
        now = 0.5 * beta * np.dot(w, w) + reached
        rises += now > before + RISE * (1.0 + abs(before))
        done += 1
        if moved == 0 or before - now <= alpha * abs(now):
            break
        before = now
    if k == 2:
        _halves(t, T)
    return done, rises, reached


@inner
def _halves(t: F, T: F) -> None:
    """The scores of two classes, which sum to 0."""
    for i in range(t.size):
        T[i, 0], T[i, 1] = -t[i], t[i]
