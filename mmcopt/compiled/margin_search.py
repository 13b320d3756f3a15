"""Coordinate ascent on the machines of labels that follow their scores, compiled.

With rows x_i scaled by ``1 / sqrt(beta n)`` the objective of maximum-margin clustering is, times n,
``1/2 sum_p |w_p|^2 + sum_i max(0, 1 - (t1_i - t2_i))``, and the machine of given labels y has
``w_p = sum_i u_ip x_i`` with ``u_ip <= [p = y_i]`` and ``sum_p u_ip = 0``. A pass takes the best u
of one sample after another, and a sample whose score of another class is higher takes that class
first. The sums over classes are zero, so the last class is minus the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.loops import INNER, compiled

F = Any
LEAST_WEIGHT = 1e-12  # of a kernel, which could not come back from zero
MIXED = 4  # passes after which the weights of kernels follow
FEW = 4  # one sample in so many that moved: these are then gone over alone
QUIET = 2  # passes without a change of labels before the gap is looked at
FAST = {"contract", "nsz", "arcp", "reassoc"}
loop = compiled(error_model="numpy", fastmath=FAST)
inner = compiled(error_model="numpy", fastmath=FAST, **INNER)


NO_COLUMNS, NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)


class Machine(NamedTuple):
    """The samples: ``A`` holds their rows, or with ``gram`` all products of rows.

    Of several ``kernels`` (M, n, n), A is the sum with weights of norm ``p``. Of rows with kernels
    side by side, in the columns ``ends[m]`` to ``ends[m + 1]``, each stands there times the root of
    its weight as it is now, in ``mixed``.
    """

    A: F
    norms: F  # products of rows with themselves
    gram: bool
    kernels: F
    p: float
    ends: F = NO_COLUMNS
    mixed: F = NO_WEIGHTS


class At(NamedTuple):
    """Where a descent is: u (k, n), labels, weights of kernels, and sums ``V``.

    ``V[p]`` is ``sum_i u_ip A_i``: weights w_p, or with ``gram`` the scores of all samples.
    """

    V: F
    U: F
    y: F
    weights: F


@inner
def _scores(A: F, V: F, i: int, gram: bool, sigma: float, t: F) -> None:
    """The scores t (k,) of sample i, times sigma."""
    last = 0.0
    for p in range(V.shape[0]):
        total = 0.0
        if gram:
            total = V[p, i]
        else:
            for c in range(V.shape[1]):
                total += A[i, c] * V[p, c]
        t[p] = sigma * total
        last -= t[p]
    t[V.shape[0]] = last


@inner
def _lead(t: F, y: int) -> int:
    """The class of the largest score; y where it is level with that."""
    best = y
    for p in range(t.size):
        if t[p] > t[best]:
            best = p
    return best


@inner
def _rival(t: F, y: int) -> int:
    """The class of the largest score other than y."""
    best = 1 if y == 0 else 0
    for p in range(best + 1, t.size):
        if p != y and t[p] > t[best]:
            best = p
    return best


@inner
def _best(t: F, u: F, y: int, h: float, new: F) -> None:
    """The best u of a sample of label y with scores t, others held; h is its product with itself.

    It is ``C - max(0, z - theta) / h`` with C = [p = y], z = t - h u - C + h C, and theta such that
    it sums to zero: found by leaving out what is below theta until nothing is.
    """
    k = t.size
    rival = _rival(t, y)
    if k == 2 or h <= 0.0:
        step = (1.0 - t[y] + t[rival]) / (2.0 * h) if h > 0.0 else 1.0
        new[:] = 0.0
        new[y] = min(max(u[y] + step, 0.0), 1.0)
        new[rival] = -new[y]
        return
    for p in range(k):
        new[p] = t[p] - h * u[p]
    new[y] += h - 1.0
    top = new.max()  # theta is below it by h at most, which may be far less than z
    for p in range(k):
        new[p] -= top
    theta, before = -np.inf, -1
    for _ in range(k + 1):
        total, m = 0.0, 0
        for p in range(k):
            if new[p] > theta:
                total += new[p]
                m += 1
        if m == before:
            break
        theta, before = (total - h) / m, m
    for p in range(k):
        new[p] = (1.0 if p == y else 0.0) - max(0.0, new[p] - theta) / h


@inner
def _visit(machine: F, at: F, sigma: float, free: bool, busy: F, count: int) -> tuple[int, int]:
    """Give the first ``count`` samples of ``busy`` their labels and best u, one after another.

    How many labels have changed, and how many samples moved: those come first in ``busy`` then.
    """
    A, norms, gram = machine.A, machine.norms, machine.gram
    V, U, y, _ = at
    k = U.shape[0]
    t, u, new = np.empty(k), np.empty(k), np.empty(k)
    flips, moved = 0, 0
    for j in range(count):
        i = busy[j]
        _scores(A, V, i, gram, sigma, t)
        own, still = y[i], True
        if free:
            own = _lead(t, own)
            if own != y[i]:
                y[i] = own
                flips += 1
                still = False
        idle = True
        for p in range(k):
            u[p] = U[p, i]
            idle = idle and u[p] == 0.0
        if not (idle and t[own] - t[_rival(t, own)] >= 1.0):
            _best(t, u, own, sigma * norms[i], new)
            for p in range(k):
                step = new[p] - u[p]
                if step == 0.0:
                    continue
                still = False
                U[p, i] = new[p]
                if p < k - 1:
                    for c in range(V.shape[1]):
                        V[p, c] += step * A[i, c]
        if not still:
            busy[moved] = i
            moved += 1
    return flips, moved


@loop
def sweep(machine: F, at: F, sigma: float, free: bool, busy: F) -> tuple[int, int]:
    """One pass over the samples; how many labels have changed, and how many samples moved.

    Scores count ``sigma`` times, as they would with beta / sigma; labels stay unless ``free``.
    Samples that moved are listed in ``busy`` (n,).
    """
    for i in range(busy.size):
        busy[i] = i
    return _visit(machine, at, sigma, free, busy, busy.size)


@inner
def _again(machine: F, at: F, free: bool, busy: F, count: int) -> int:
    """Go over those that moved, as often as costs one pass, while any moves; label changes."""
    flips, visits = 0, 0
    while 0 < count and visits + count <= busy.size:
        visits += count
        changed, count = _visit(machine, at, 1.0, free, busy, count)
        flips += changed
    return flips


@loop
def judge(machine: F, at: F, free: bool) -> tuple[float, float]:
    """The objective times n, and how far the machine of its labels is from solved.

    The objective is that of the labels, or, when they are ``free``, of the best ones.
    """
    A, gram = machine.A, machine.gram
    V, U, y, _ = at
    k, n = U.shape
    t = np.empty(k)
    square, loss, held, linear = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        _scores(A, V, i, gram, 1.0, t)
        top = _lead(t, y[i])
        loss += max(0.0, 1.0 - t[top] + t[_rival(t, top)])
        held += max(0.0, 1.0 - t[y[i]] + t[_rival(t, y[i])])
        linear += U[y[i], i]
        for p in range(k):
            square += U[p, i] * t[p]
    return 0.5 * square + (loss if free else held), square + held - linear


@loop
def gather(machine: F, at: F) -> None:
    """Mix the kernels by their weights, and sum V anew."""
    A, norms, kernels, ends = machine.A, machine.norms, machine.kernels, machine.ends
    V, U, _, weights = at
    if kernels.shape[0]:
        A[:] = 0.0
        for m in range(kernels.shape[0]):
            A += weights[m] * kernels[m]
        for i in range(norms.size):
            norms[i] = A[i, i]
    for m in range(machine.mixed.size):
        factor = np.sqrt(weights[m] / machine.mixed[m])
        machine.mixed[m] = weights[m]
        for i in range(norms.size):
            square = 0.0
            for c in range(ends[m], ends[m + 1]):
                A[i, c] *= factor
                square += A[i, c] * A[i, c]
            norms[i] = square if m == 0 else norms[i] + square
    np.dot(np.ascontiguousarray(U[:-1]), A, V)


@inner
def _square(machine: F, at: F, m: int) -> float:
    """The squared length of sum_i u_i phi_m(x_i), over all classes."""
    V, U, total = at.V, at.U, 0.0
    if machine.kernels.shape[0]:
        sums = np.dot(np.ascontiguousarray(U[:-1]), machine.kernels[m])
        for i in range(U.shape[1]):
            last = 0.0
            for p in range(V.shape[0]):
                total += U[p, i] * sums[p, i]
                last += sums[p, i]
            total -= U[V.shape[0], i] * last
        return total
    for c in range(machine.ends[m], machine.ends[m + 1]):
        last = 0.0
        for p in range(V.shape[0]):
            total += V[p, c] * V[p, c]
            last += V[p, c]
        total += last * last
    return total / machine.mixed[m]


@inner
def reweigh(machine: F, at: F) -> float:
    """Give the kernels their best weights for w as it is; the largest change of one.

    They go with ``|w_m|^(2/(p+1))``, where w_m is weights_m sum_i u_i phi_m(x_i).
    """
    p, weights = machine.p, at.weights
    new = np.empty(weights.size)
    for m in range(weights.size):
        square = _square(machine, at, m)
        new[m] = (weights[m]**2 * max(square, 0.0))**(1.0 / (p + 1.0))
    top = new.max()
    if top <= 0.0:
        return 0.0
    norm, moved = 0.0, 0.0
    for m in range(new.size):
        norm += (new[m] / top)**p
    norm = top * norm**(1.0 / p)
    for m in range(new.size):
        weight = max(new[m] / norm, LEAST_WEIGHT)
        moved = max(moved, abs(weight - weights[m]))
        weights[m] = weight
    gather(machine, at)
    return moved


@loop
def descend(machine: F, at: F, sigma: float, grow: float, free: bool, passes: int,
            tol: float) -> tuple[float, float, int, bool]:
    """Passes, with sigma growing to 1, until the gap of the labels is ``tol`` of the objective.

    The sigma reached, the objective times n, how many passes, and whether it has ended.
    """
    several = machine.kernels.shape[0] > 0 or machine.mixed.size > 0
    quiet, moved, used = 0, np.inf if several else 0.0, 0  # weights are as they were given
    busy = np.empty(at.y.size, np.int64)
    while used < passes:
        flips, count = sweep(machine, at, sigma, free, busy)
        used += 1
        if several and used % MIXED == 0:
            moved = reweigh(machine, at)
        if sigma < 1.0:
            sigma = min(1.0, grow * sigma)
            continue
        if flips == 0 and not several and FEW * count <= busy.size:
            flips = _again(machine, at, free, busy, count)
        quiet = quiet + 1 if flips == 0 else 0
        if quiet >= QUIET and quiet % QUIET == 0 and moved <= tol:
            value, gap = judge(machine, at, free)
            if gap <= tol * value:
                return sigma, value, used, True
    return sigma, judge(machine, at, free)[0], used, False
