"""A node of a tree over the labels of two classes, compiled: its dual point, bound and machine.

A node fixes the labels y of some samples. Its dual point is a weight u_i of the sign y_i for each
of them, and a level l_i of 0 to `TOP`. With ``g_i = l_i / TOP`` times that of the root and
``S = c I - 1/n sum_i g_i x_i x_i'`` all weights w of those labels cost at least
``1/n sum_i psi(g_i) + sum_i min(|u_i|, 1/n) - q'S^-1 q / 4``, q = sum_i u_i x_i, where g_i is 0
once u_i is not. All that is needed of the features are ``K = X S^-1 X'`` and ``t = K u / 2``, the
scores of the w that is best at the node; a change of one g_i changes K by a matrix of rank one.

Several kernels have an S, a K and scores each, and ``q'S^-1 q / 4`` is the norm of theirs, see
`mmcopt.bounds.kernel_tree`. Its ``power`` is None for one kernel, for which the loops then are
compiled without what several need. All get 64-bit numbers, so that none is compiled twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.tolerances import LEVELS as TOP

F = Any
Power = Any  # float or None
SWEEPS, SLOW = 30, 0.02  # of coordinate ascent at a node, and the share of what is missing to go on
HALVINGS = 60  # at most, of the step to the best weight of a sample in several kernels
STUBBORN, STILL = 20_000, 1e-15  # sweeps of a machine, and a relative gain that is rounding
TURNS = 1000  # moves at most of weights of kernels
LONGER, BEYOND = 2.0, 0.5  # than the last step at most; and the slope there, of that it began with
QUICK, QUICKEST = 0.5, 50.0  # powers of the squares by which weights of kernels move
LEAST_WEIGHT = 1e-12  # of a kernel, which could not come back from zero
door = compiled(error_model="numpy")
loop = compiled(error_model="numpy", **INNER)
# Sums in any order, so that they are done several terms at a time.
sums = compiled(error_model="numpy", fastmath={"reassoc", "contract"}, **INNER)


class Node(NamedTuple):
    """What is known at a node: labels y (0: free), weights u, levels, t and K of each kernel."""

    y: F
    u: F
    level: F
    t: F  # (M, n)
    K: F  # (M, n, n)
    square: F  # (M,) of q'S^-1 q / 4
    weight: F  # (M,) of the kernels
    root: F  # the g of the root
    spare: F
    line: F  # (3, M): of one sample, see `_along`
    toll: float  # what a g of 1 takes from S, times x x': 1/n, or more of several kernels
    most: float  # of a weight: 1/n for machines, any in a tree, whose labels are those of w


@loop
def psi(g: float) -> float:
    """The minimum over v >= 0 of (1 - sqrt v)_+ + g v."""
    return g if g <= 0.5 else 1.0 - 0.25 / g


@loop
def all_fixed(node: Node) -> bool:
    """Whether every label is fixed."""
    for label in node.y:
        if label == 0.0:
            return False
    return True


@loop
def _g(node: Node, i: int) -> float:
    return node.root[i] * node.level[i] / TOP


@loop
def _norm(square: F, power: Power) -> float:
    """The norm of the squares of kernels; of one, itself."""
    if power is None:
        return float(square[0])
    top, total = 0.0, 0.0
    for m in range(len(square)):
        top = max(top, square[m])
    if top <= 0.0 or power == np.inf:
        return top
    for m in range(len(square)):
        share = max(square[m], 0.0) / top
        total += share * share if power == 2.0 else share**power
    return top * np.sqrt(total) if power == 2.0 else top * total ** (1.0 / power)


@sums
def set_squares(node: Node) -> None:
    """The squares of the kernels, from weights and scores."""
    for m in range(len(node.square)):
        total = 0.0
        for i in range(len(node.u)):
            total += node.u[i] * node.t[m, i]
        node.square[m] = 0.5 * total


@loop
def value(node: Node, power: Power) -> float:
    """The bound of the dual point."""
    n, gain, linear = len(node.u), 0.0, 0.0
    set_squares(node)
    for i in range(n):
        gain += psi(_g(node, i))
        linear += min(abs(node.u[i]), 1.0 / n)
    return gain / n + linear - _norm(node.square, power)


@loop
def weigh(node: Node, power: Power) -> None:
    """The weights of the kernels that are best at the node; of one, 1.

    Where the norm is the largest square they are not those of u, and `_reweigh` looks for them.
    """
    if power is None:
        node.weight[0] = 1.0
        return
    if power == np.inf:
        return
    total = _norm(node.square, power)
    for m in range(len(node.square)):
        node.weight[m] = 0.0 if total <= 0.0 \
            else (max(node.square[m], 0.0) / total) ** (power - 1.0)


@loop
def _reweigh(node: Node, square: F, quick: float) -> None:
    """Weights of sum 1 that are nearer to the best, where the norm is the largest square.

    The best u for these weights has equal squares where weights are above 0, and none above them.
    """
    top, total = 0.0, 0.0
    for m in range(len(square)):
        top = max(top, square[m])
    if top <= 0.0:
        return
    for m in range(len(square)):
        share = max(square[m], 0.0) / top
        node.weight[m] = max(node.weight[m] * share**quick, LEAST_WEIGHT)
        total += node.weight[m]
    for m in range(len(square)):
        node.weight[m] /= total


@loop
def score(node: Node, i: int) -> float:
    """The score of a sample by those weights."""
    total = 0.0
    for m in range(len(node.weight)):
        total += node.weight[m] * node.t[m, i]
    return total


@loop
def objective(node: Node, power: Power) -> float:
    """The objective of the w of these scores: c |w|^2 is the squares plus ``toll`` g t^2."""
    n, loss, lifted = len(node.u), 0.0, 0.0
    set_squares(node)
    weigh(node, power)
    for i in range(n):
        loss += max(0.0, 1.0 - abs(score(node, i)))
        if node.level[i] > 0.0:
            lifted += _g(node, i) * _lifted(node, i, 0.0)
    return _mean(node) + node.toll * lifted + loss / n


@loop
def _mean(node: Node) -> float:
    """The squares of the kernels by their weights."""
    total = 0.0
    for m in range(len(node.square)):
        total += node.weight[m] * node.square[m]
    return total


@loop
def _lifted(node: Node, i: int, eta: float) -> float:
    """The squared scores of a sample by those weights, once S gains eta x x' on one side of it."""
    total = 0.0
    for m in range(len(node.weight)):
        total += node.weight[m] * node.t[m, i] ** 2 / (1.0 + eta * node.K[m, i, i])
    return total


# ---------------------------------------------------------------- changes of a dual point


@sums
def _set_level(node: Node, i: int, level: float) -> None:
    """Lower a g: S gains eta x_i x_i'."""
    row, n = node.spare, len(node.u)
    eta = node.toll * node.root[i] * (node.level[i] - level) / TOP
    node.level[i] = level
    for m in range(len(node.square)):
        K, t = node.K[m], node.t[m]
        f, ti = 1.0 + eta * K[i, i], t[i]
        node.square[m] -= eta * ti * ti / f
        for r in range(n):
            row[r] = K[i, r]
        for r in range(n):
            s = eta * row[r] / f
            t[r] -= s * ti
            for j in range(n):
                K[r, j] -= s * row[j]


@loop
def _best_weight(k: float, t: float, old: float, n: int, most: float) -> float:
    """The best weight a >= 0 of a sample whose score, times its label, is t at the weight ``old``.

    The bound gains ``min(a, 1/n)``, and its slope falls by ``t + (a - old) k / 2``.
    """
    if k <= 0.0:
        return 1.0 / n if t < 1.0 else old
    new = max(old + 2.0 * (1.0 - t) / k, 0.0)
    if new <= 1.0 / n:
        return new
    return min(max(old - 2.0 * t / k, 1.0 / n), most)


@loop
def _along(node: Node, i: int, s: float, eta: float) -> None:
    """What the squares of several kernels are made of along the weight of a sample of label s.

    The rows of ``line`` are the squares, their slopes, and four times their curvature's half, once
    S has gained eta x x'.
    """
    for m in range(len(node.square)):
        f = 1.0 + eta * node.K[m, i, i]
        node.line[0, m] = node.square[m] - eta * node.t[m, i] ** 2 / f
        node.line[1, m], node.line[2, m] = s * node.t[m, i] / f, node.K[m, i, i] / f


@loop
def _moved(node: Node, power: Power, d: float) -> float:
    """The norm after a change by d along that line; its squares in `spare`."""
    M = len(node.square)
    for m in range(M):
        node.spare[m] = node.line[0, m] + d * (node.line[1, m] + 0.25 * d * node.line[2, m])
    return _norm(node.spare[:M], power)


@loop
def _slope(node: Node, power: Power, d: float) -> float:
    """The slope of that norm."""
    total, slope = _moved(node, power, d), 0.0
    if total <= 0.0:
        return 0.0
    if power == np.inf:
        for m in range(len(node.square)):
            if node.spare[m] == total:
                slope = max(slope, node.line[1, m] + 0.5 * d * node.line[2, m])
        return slope
    for m in range(len(node.square)):
        share = max(node.spare[m], 0.0) / total
        share = share if power == 2.0 else share ** (power - 1.0)
        slope += share * (node.line[1, m] + 0.5 * d * node.line[2, m])
    return slope


@loop
def _crossing(node: Node, power: Power, old: float, low: float, top: float,
              level: float) -> float:
    """The weight between low and high, which is found, at which that slope comes to a level."""
    high = max(2.0 * low, top)
    while _slope(node, power, high - old) < level and high < 1e6 * top:
        low, high = high, 4.0 * high
    for _ in range(HALVINGS):
        a = _slope(node, power, low - old) - level
        b = _slope(node, power, high - old) - level
        if a >= 0.0:
            return low
        mid = low - a * (high - low) / (b - a) if b > a else 0.5 * (low + high)
        mid = min(max(mid, 0.98 * low + 0.02 * high), 0.02 * low + 0.98 * high)
        c = _slope(node, power, mid - old) - level
        if abs(c) <= 1e-9:
            return mid
        if c < 0.0:
            low = mid
        else:
            high = mid
    return 0.5 * (low + high)


@loop
def _best_of_several(node: Node, power: Power, old: float) -> float:
    """The best weight of a sample along its line, where there are several kernels."""
    unit = 1.0 / len(node.u)
    if _slope(node, power, -old) >= 1.0:
        return 0.0
    if _slope(node, power, unit - old) >= 1.0:
        return _crossing(node, power, old, 0.0, unit, 1.0)
    if node.most <= unit or _slope(node, power, unit - old) >= 0.0:
        return unit
    return min(_crossing(node, power, old, unit, unit, 0.0), node.most)


@sums
def _shift(node: Node, i: int, change: float) -> None:
    """Add to a weight, with its sign, and to the scores."""
    node.u[i] += change
    for m in range(len(node.square)):
        node.square[m] += change * (node.t[m, i] + 0.25 * change * node.K[m, i, i])
        for j in range(len(node.u)):
            node.t[m, j] += 0.5 * change * node.K[m, i, j]


@loop
def _move(node: Node, power: Power, i: int, s: float) -> float:
    """Move the weight of a sample of label s to where it is best; what the bound gains."""
    unit, old = 1.0 / len(node.u), s * node.u[i]
    if power is None:
        k, t = node.K[0, i, i], s * node.t[0, i]
        new = _best_weight(k, t, old, len(node.u), node.most)
        d = new - old
        if d == 0.0:
            return 0.0
        gain = min(new, unit) - min(old, unit) + (-d * t - 0.25 * d * d * k)
    elif power == np.inf:  # the best for the weights as they are: the bound may fall
        k, t = 0.0, s * score(node, i)
        for m in range(len(node.square)):
            k += node.weight[m] * node.K[m, i, i]
        new = _best_weight(k, t, old, len(node.u), node.most)
        d = new - old
        if d == 0.0:
            return 0.0
        gain = min(new, unit) - min(old, unit) + (-d * t - 0.25 * d * d * k)
    else:
        _along(node, i, s, 0.0)
        new = _best_of_several(node, power, old)
        d = new - old
        if d == 0.0:
            return 0.0
        gain = min(new, unit) - min(old, unit) \
            + (_norm(node.square, power) - _moved(node, power, d))
        if gain <= 0.0:
            return 0.0
    _shift(node, i, s * d)
    return gain


@loop
def _ascend(node: Node, power: Power, target: float, sweeps: int, slow: float) -> float:
    """Coordinate ascent over the weights of fixed samples; the bound."""
    if power is not None and power == np.inf:
        return _climb(node, target, sweeps, slow)
    bound = value(node, power)
    for _ in range(sweeps):
        gain = 0.0
        for i in range(len(node.u)):
            if node.y[i] != 0.0 and node.level[i] == 0.0:
                gain += _move(node, power, i, node.y[i])
        bound += gain
        if bound >= target or gain <= slow * (target - bound):
            break
    return value(node, power)


@loop
def _swept(node: Node) -> float:
    """A sweep at the weights of the kernels as they are; what the bound of these gains."""
    gain = 0.0
    for i in range(len(node.u)):
        if node.y[i] != 0.0 and node.level[i] == 0.0:
            gain += _move(node, np.inf, i, node.y[i])
    return gain


@loop
def _climb(node: Node, target: float, sweeps: int, slow: float) -> float:
    """The ascent where the norm is the largest square: sweeps and weights of kernels by turns."""
    bound, quick = value(node, np.inf), QUICK
    for _ in range(sweeps):
        gain, before = _swept(node), bound
        bound = value(node, np.inf)
        if bound >= target:
            break
        ahead = bound + _norm(node.square, np.inf) - _mean(node)  # what other weights may reach
        if ahead < target and gain <= slow * (target - ahead) \
                and ahead - bound <= slow * (target - bound):
            break
        quick = min(quick * 1.3, QUICKEST) if bound > before else max(0.5 * quick, QUICK)
        _reweigh(node, node.square, quick)
    return bound


@loop
def _solve(node: Node, power: Power, tol: float) -> float:
    """The machine of all labels, at levels of 0, to a relative gap of ``tol``; its objective."""
    bound, now = value(node, power), objective(node, power)
    if power is not None and power == np.inf:
        return _solve_largest(node, tol)
    for _ in range(STUBBORN):
        gain = 0.0
        for i in range(len(node.u)):
            gain += _move(node, power, i, node.y[i])
        bound += gain
        now = objective(node, power)
        if now - bound <= tol * now or gain <= STILL * now:
            break
    return now


@loop
def _solve_largest(node: Node, tol: float) -> float:
    """The machine of all labels where the norm is the largest square.

    As a function of the weights of the kernels its objective is convex, and the squares are minus
    its slopes. A step is as long as the slopes at both ends of the last say; one that has gone far
    beyond the minimum on its way is taken back.
    """
    M, now, quick = len(node.square), 0.0, QUICK
    weight, square = node.line[0], node.line[1]
    square[0] = -1.0  # nothing there yet
    for _ in range(TURNS):
        now = _held(node, tol)
        if now - value(node, np.inf) <= tol * now:
            break
        fall, left = 0.0, 0.0  # of the objective along the last step, by the slopes at its ends
        for m in range(M):
            step = node.weight[m] - weight[m]
            fall, left = fall + step * square[m], left + step * node.square[m]
        back = square[0] >= 0.0 and left < -BEYOND * fall
        if square[0] >= 0.0:
            quick *= min(max(fall / (fall - left) if fall > left else LONGER, 0.1), LONGER)
            quick = min(quick, QUICKEST)
        if quick < STILL:
            break
        for m in range(M):
            if back:
                node.weight[m] = weight[m]
            else:
                weight[m], square[m] = node.weight[m], node.square[m]
        _reweigh(node, square, quick)
    return now


@loop
def _held(node: Node, tol: float) -> float:
    """The machine of all labels at the weights of kernels as they are; its objective."""
    now = np.inf
    for _ in range(STUBBORN):
        gain = _swept(node)
        now = objective(node, np.inf)
        uneven = _norm(node.square, np.inf) - _mean(node)  # what is left to the weights
        if now - value(node, np.inf) - uneven <= 0.1 * tol * now or gain <= STILL * now:
            break
    return now


@loop
def gained(node: Node, power: Power, i: int, s: float) -> float:
    """What the bound gains when a sample without weight is fixed to s: its g to 0, its u best."""
    n, g = len(node.u), _g(node, i)
    eta = node.toll * g
    if power is None:
        k, t = node.K[0, i, i], node.t[0, i]
        f = 1.0 + eta * k
        k, r = k / f, s * t / f
        z = _best_weight(k, r, 0.0, n, node.most)
        return eta * t * t / f - psi(g) / n + min(z, 1.0 / n) - z * r - 0.25 * z * z * k
    _along(node, i, s, eta)
    z = _best_of_several(node, power, 0.0)
    return min(z, 1.0 / n) - psi(g) / n + _norm(node.square, power) - _moved(node, power, z)


@door
def fix(node: Node, power: Power, i: int, s: float) -> None:
    """Fix a label; the g of the sample stays where it is worth more than a weight."""
    node.y[i] = s
    if node.level[i] == 0.0 or gained(node, power, i, s) > 0.0:
        if node.level[i] > 0.0:
            _set_level(node, i, 0.0)
        _move(node, power, i, s)


@loop
def _lower(node: Node, power: Power, least: float) -> bool:
    """Lower single g where the bound gains ``least`` or more; whether any was."""
    n, any_lower = len(node.u), False
    weigh(node, power)
    for i in range(n):
        if node.level[i] == 0.0:
            continue
        if node.y[i] != 0.0:
            if gained(node, power, i, node.y[i]) > least:
                fix(node, power, i, node.y[i])
                any_lower = True
            continue
        g = _g(node, i)
        if node.toll * n * _lifted(node, i, 0.0) <= (1.0 if g <= 0.5 else 0.25 / (g * g)):
            continue  # the slope of psi
        best, at = least, -1.0
        for q in range(int(node.level[i])):
            new = node.root[i] * q / TOP
            eta = node.toll * (g - new)
            gain = eta * _lifted(node, i, eta) - (psi(g) - psi(new)) / n
            if gain > best:
                best, at = gain, float(q)
        if at >= 0.0:
            _set_level(node, i, at)
            any_lower = True
    return any_lower


@loop
def bounded(node: Node, power: Power, target: float, near: float, least: float,
             tol: float) -> float:
    """Raise the bound of a node, up to the target, or its gap to ``tol`` where no label is free."""
    bound = _ascend(node, power, target, SWEEPS, SLOW)
    if bound < target and target - bound < near * target \
            and _lower(node, power, least * (target - bound)):
        bound = _ascend(node, power, target, SWEEPS, SLOW)
    if bound < target and all_fixed(node):
        for i in range(len(node.u)):  # nothing is left to split: to its own gap
            if node.level[i] > 0.0:
                _set_level(node, i, 0.0)
        _solve(node, power, tol)
        bound = value(node, power)
    return bound


# ---------------------------------------------------------------- labels


@door
def descend(node: Node, power: Power, tol: float, rounds: int) -> float:
    """The machine of labels and the labels of its scores by turns, at levels of 0; the objective.

    Machines are solved to a relative gap of ``tol``.
    """
    n, now, last = len(node.u), np.inf, np.inf
    for _ in range(rounds):
        last, now = now, _solve(node, power, tol)
        if now >= last * (1.0 - 1e-9):
            break
        for i in range(n):  # the weights of kernels are those of the objective
            s = 1.0 if score(node, i) >= 0.0 else -1.0
            if s != node.y[i]:
                node.spare[i], node.y[i] = node.u[i], s
            else:
                node.spare[i] = 0.0
        for i in range(n):
            if node.spare[i] != 0.0:
                _shift(node, i, -node.spare[i])
    return now
