"""A tree over the labels of three classes and more, compiled: bounds of nodes, classes ruled out.

A node rules out classes of samples; a sample with one class left is labelled. Its dual point is a
row ``u_i`` of labelled samples, ``A_i`` for the class of the label and ``-a_iq`` for each other, of
sum 0 with a_iq >= 0, and a level l_i of 0 to `TOP` of all. With ``g_i = l_i / TOP`` times that of
the root and ``S = c I - 1/n sum_i g_i x_i x_i'``, c = beta (k - 1) / (2k), all weights W whose
largest scores are those of the labels cost at least ``1/n sum_i psi(g_i) + sum_i min(A_i, 1/n) -
(k - 1)/(4k) sum_p q_p'S^-1 q_p``, q_p = sum_i u_ip x_i. All that is needed of the features are
``K = X S^-1 X'`` and ``t = (k - 1)/(2k) u'K``, the scores of the W that is best at the node.

`mmcopt.bounds.class_margin_tree` checks what is found here, and says why it is a proof.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.compiled.margin_node import psi
from mmcopt.compiled.margin_tree import Book
from mmcopt.tolerances import LEVELS as TOP

F = Any
SWEEPS, SLOW = 30, 0.02  # of coordinate ascent at a node, and the share of what is missing to go on
STUBBORN, STILL = 20_000, 1e-15  # sweeps of a machine, and a relative gain that is rounding
BALANCED = 1e-4  # of the target: what a branching sample should gain for its worst class
door = compiled(error_model="numpy")
loop = compiled(error_model="numpy", **INNER)
# Sums in any order, so that they are done several terms at a time.
sums = compiled(error_model="numpy", fastmath={"reassoc", "contract"}, **INNER)


class Node(NamedTuple):
    """What is known at a node: the classes that are left, rows u, levels, scores and K."""

    left: F  # (n,) a bit for each class
    u: F  # (n, k)
    level: F
    t: F  # (k, n)
    K: F
    root: F  # the g of the root
    row: F  # (n,) and two of (k,), to work with
    costs: F
    best: F


class Stack(NamedTuple):
    """Nodes that wait in the midst of a subtree."""

    node: F
    left: F
    u: F
    level: F
    t: F
    K: F


@loop
def _label(left: int) -> int:
    """The only class that is left, or -1."""
    if left <= 0 or left & (left - 1):
        return -1
    label = 0
    while left > 1:
        left >>= 1
        label += 1
    return label


@loop
def _used(node: Node) -> int:
    """The number of classes that labels have; they are the first ones."""
    used = 0
    for left in node.left:
        used = max(used, _label(left) + 1)
    return used


@loop
def _g(node: Node, i: int) -> float:
    return node.root[i] * node.level[i] / TOP


@loop
def _half(node: Node) -> float:
    """What scores are for each unit of K and u."""
    return (len(node.t) - 1.0) / (2.0 * len(node.t))


@sums
def _squares(node: Node) -> float:
    """(k - 1)/(4k) sum_p q_p'S^-1 q_p."""
    total = 0.0
    for p in range(len(node.t)):
        for i in range(len(node.u)):
            total += node.u[i, p] * node.t[p, i]
    return 0.5 * total


@sums
def _length(node: Node, i: int) -> float:
    """The square of the scores of a sample that its margin is at most the root of."""
    total = 0.0
    for p in range(len(node.t)):
        total += node.t[p, i] * node.t[p, i]
    return total / (2.0 * _half(node))


@loop
def value(node: Node) -> float:
    """The bound of the dual point."""
    n, gain, linear = len(node.u), 0.0, 0.0
    for i in range(n):
        gain += psi(_g(node, i))
        label = _label(node.left[i])
        if label >= 0:
            linear += min(node.u[i, label], 1.0 / n)
    return gain / n + linear - _squares(node)


@loop
def objective(node: Node) -> float:
    """The objective of the W of these scores."""
    n, rest = len(node.u), 0.0
    for i in range(n):
        first, second = -np.inf, -np.inf
        for p in range(len(node.t)):
            t = node.t[p, i]
            if t > first:
                first, second = t, first
            elif t > second:
                second = t
        rest += _g(node, i) * _length(node, i) + max(0.0, 1.0 - (first - second))
    return _squares(node) + rest / n


# ---------------------------------------------------------------- the row of a sample


@loop
def _threshold(c: F, r: int, own: float, right: float) -> float:
    """Theta with ``own theta + sum over q but r of (theta - c_q)_+ = right``, for right >= 0."""
    theta = right
    if own == 0.0:
        for q in range(len(c)):
            if q != r:
                theta = max(theta, c[q] + right)
    for _ in range(2 * len(c) + 2):  # Newton's steps from above, each below another c_q
        excess, slope = own * theta - right, own
        for q in range(len(c)):
            if q != r and theta > c[q]:
                excess += theta - c[q]
                slope += 1.0
        if slope == 0.0 or theta - excess / slope >= theta:
            break
        theta -= excess / slope
    return theta


@loop
def best_row(c: F, r: int, h: float, unit: float, a: F) -> float:
    """The row a >= 0 of most ``min(A, unit) - c'a - h/2 (A^2 + |a|^2)``, A their sum; the most.

    With A = (sum of all but r) and a_r = 0. The best is ``a_q = (theta - c_q)_+ / h``, theta +
    h A the slope of min(A, unit): 1 below the unit, 0 above, and between them on it.
    """
    total = 0.0
    if h <= 0.0:  # a sample of zeros, whose loss is 1
        for q in range(len(c)):
            a[q] = 0.0
        a[1 if r == 0 else 0] = unit
        return unit
    for part in range(3):
        if part < 2:
            theta = _threshold(c, r, 1.0, 1.0 - part)
        else:
            theta = _threshold(c, r, 0.0, h * unit)
        total = 0.0
        for q in range(len(c)):
            a[q] = (theta - c[q]) / h if q != r and theta > c[q] else 0.0
            total += a[q]
        if (part == 0 and total <= unit) or (part == 1 and total >= unit):
            break
    return worth(c, r, h, unit, a)


@loop
def worth(c: F, r: int, h: float, unit: float, a: F) -> float:
    """``min(A, unit) - c'a - h/2 (A^2 + |a|^2)`` of a row."""
    total, linear, square = 0.0, 0.0, 0.0
    for q in range(len(c)):
        if q != r:
            total += a[q]
            linear += c[q] * a[q]
            square += a[q] * a[q]
    return min(total, unit) - linear - 0.5 * h * (total * total + square)


@sums
def _shift(node: Node, i: int, change: F) -> None:
    """Add to a row, and to the scores."""
    half = _half(node)
    for p in range(len(node.t)):
        node.u[i, p] += change[p]
        s = half * change[p]
        if s != 0.0:
            for j in range(len(node.u)):
                node.t[p, j] += s * node.K[i, j]


@loop
def _move(node: Node, i: int, label: int) -> float:
    """Move the row of a labelled sample to where it is best; what the bound gains."""
    k, unit, c, a = len(node.t), 1.0 / len(node.u), node.costs, node.best
    h = _half(node) * node.K[i, i]
    for p in range(k):  # the scores without its own row
        c[p] = (node.t[label, i] - h * node.u[i, label]) - (node.t[p, i] - h * node.u[i, p])
        a[p] = -node.u[i, p]
    before = worth(c, label, h, unit, a)
    gain, total = best_row(c, label, h, unit, a) - before, 0.0
    for p in range(k):
        if p != label:
            total += a[p]
            c[p] = -a[p] - node.u[i, p]
    c[label] = total - node.u[i, label]
    _shift(node, i, c)
    return gain


@sums
def _set_level(node: Node, i: int, level: float) -> None:
    """Lower a g: S gains eta x_i x_i'."""
    K, row, n = node.K, node.row, len(node.u)
    eta = node.root[i] * (node.level[i] - level) / TOP / n
    node.level[i] = level
    f = 1.0 + eta * K[i, i]
    for r in range(n):
        row[r] = K[i, r]
    for p in range(len(node.t)):
        s = eta * node.t[p, i] / f
        for r in range(n):
            node.t[p, r] -= s * row[r]
    for r in range(n):
        s = eta * row[r] / f
        for j in range(n):
            K[r, j] -= s * row[j]


@loop
def _gain(node: Node, i: int, r: int) -> float:
    """What the bound gains when a sample without a row gets a label: its g to 0, its row best."""
    n, k, g = len(node.u), node.K[i, i], _g(node, i)
    eta = g / n
    f = 1.0 + eta * k
    for p in range(len(node.t)):
        node.costs[p] = (node.t[r, i] - node.t[p, i]) / f
    lost = eta * _length(node, i) / f - psi(g) / n
    return lost + best_row(node.costs, r, _half(node) * k / f, 1.0 / n, node.best)


# ---------------------------------------------------------------- bounds


@loop
def _ascend(node: Node, target: float, sweeps: int, slow: float) -> float:
    """Coordinate ascent over the rows of labelled samples; the bound."""
    bound = value(node)
    for _ in range(sweeps):
        gain = 0.0
        for i in range(len(node.u)):
            label = _label(node.left[i])
            if label >= 0 and node.level[i] == 0.0:
                gain += _move(node, i, label)
        bound += gain
        if bound >= target or gain <= slow * (target - bound):
            break
    return value(node)


@loop
def _solve(node: Node, tol: float) -> float:
    """The machine of all labels, at levels of 0, to a relative gap of ``tol``; its objective."""
    now = objective(node)
    for _ in range(STUBBORN):
        gain = 0.0
        for i in range(len(node.u)):
            gain += _move(node, i, _label(node.left[i]))
        now = objective(node)
        if now - value(node) <= tol * now or gain <= STILL * now:
            break
    return now


@loop
def _labelled(node: Node, i: int) -> None:
    """Give a row to a sample whose label is known, unless its g is worth more."""
    label = _label(node.left[i])
    if node.level[i] == 0.0 or _gain(node, i, label) > 0.0:
        if node.level[i] > 0.0:
            _set_level(node, i, 0.0)
        _move(node, i, label)


@door
def fix(node: Node, i: int, label: int) -> None:
    """Fix a label."""
    node.left[i] = 1 << label
    _labelled(node, i)


@loop
def _lower(node: Node, least: float) -> bool:
    """Lower single g where the bound gains ``least`` or more; whether any was."""
    n, any_lower = len(node.u), False
    for i in range(n):
        if node.level[i] == 0.0:
            continue
        label = _label(node.left[i])
        if label >= 0:
            if _gain(node, i, label) > least:
                _labelled(node, i)
                any_lower = True
            continue
        g, square, k = _g(node, i), _length(node, i), node.K[i, i]
        if square <= (1.0 if g <= 0.5 else 0.25 / (g * g)):  # the slope of psi
            continue
        best, at = least, -1.0
        for q in range(int(node.level[i])):
            new = node.root[i] * q / TOP
            d = (g - new) / n
            gain = d * square / (1.0 + d * k) - (psi(g) - psi(new)) / n
            if gain > best:
                best, at = gain, float(q)
        if at >= 0.0:
            _set_level(node, i, at)
            any_lower = True
    return any_lower


@loop
def _full(node: Node) -> bool:
    """Whether every sample is labelled."""
    for left in node.left:
        if _label(left) < 0:
            return False
    return True


@loop
def _bounded(node: Node, target: float, near: float, least: float, tol: float) -> float:
    """Raise the bound of a node, up to the target, or its gap to ``tol`` where no label is free."""
    bound = _ascend(node, target, SWEEPS, SLOW)
    if bound < target and target - bound < near * target \
            and _lower(node, least * (target - bound)):
        bound = _ascend(node, target, SWEEPS, SLOW)
    if bound < target and _full(node):
        for i in range(len(node.u)):  # nothing is left to split: to its own gap
            if node.level[i] > 0.0:
                _set_level(node, i, 0.0)
        _solve(node, tol)
        bound = value(node)
    return bound


# ---------------------------------------------------------------- the tree


@loop
def _state(book: Book, node: Node, at: int) -> int:
    """Write a dual point down."""
    q, n = book.count[1], len(node.u)
    book.owner[q] = at
    for i in range(n):
        book.label[q, i], book.level[q, i] = node.left[i], int(node.level[i])
        label = _label(node.left[i])
        for p in range(len(node.t)):
            book.share[q, i, p] = 0.0 if p == label else -node.u[i, p] * n
    book.count[1] = q + 1
    return q


@loop
def _choices(node: Node, used: int) -> int:
    """Classes that a sample can have, up to names of those that no label has: a bit for each."""
    return (1 << min(used + 1, len(node.t))) - 1


@loop
def _best_split(node: Node, bound: float, target: float) -> tuple[int, bool]:
    """The sample to branch on, and whether a class of any is ruled out at once.

    A sample with one class to choose comes first: all that it can be is a class that none has yet.
    """
    free, most, hit, choices = -1, -1.0, False, _choices(node, _used(node))
    for i in range(len(node.u)):
        if _label(node.left[i]) >= 0:
            continue
        low, high, count = np.inf, 0.0, 0
        for r in range(len(node.t)):
            if node.left[i] & choices & (1 << r):
                gain = max(_gain(node, i, r), 0.0)
                hit = hit or bound + gain >= target
                low, high, count = min(low, gain), max(high, gain), count + 1
        worth_of = np.inf if count == 1 else (low + BALANCED * target) * high
        if worth_of > most:
            free, most = i, worth_of
    return free, hit


@loop
def _ruled_out(book: Book, node: Node, at: int, bound: float, target: float) -> bool:
    """Rule out all classes that are proved to cost too much; whether a sample has none left."""
    q, used, k = _state(book, node, at), _used(node), len(node.t)
    choices, rest = _choices(node, used), (1 << k) - (1 << used)  # rest: classes of no label
    for i in range(len(node.u)):
        if _label(node.left[i]) >= 0:
            continue
        for r in range(k):
            if node.left[i] & choices & (1 << r) and bound + _gain(node, i, r) >= target:
                book.implied[book.count[2]], book.which[book.count[2]] = q, i * k + r
                book.count[2] += 1
                node.left[i] &= ~(rest if r == used else 1 << r)
        if node.left[i] == 0:
            book.last[at], book.bound[at] = i, target
            return True
    for i in range(len(node.u)):  # which changes what the gains were read from
        if _label(node.left[i]) >= 0 and _label(book.label[q, i]) < 0:
            _labelled(node, i)
    return False


@loop
def _split(book: Book, node: Node, at: int, i: int, bound: float) -> tuple[int, int]:
    """A child for each class that is left; the number of the first, and behind the last."""
    q, v = _state(book, node, at), book.count[0]
    choices = _choices(node, _used(node))
    for r in range(len(node.t)):
        if node.left[i] & choices & (1 << r):
            book.parent[v], book.sample[v], book.sign[v] = at, i, r
            book.born[v], book.closed[v], book.last[v] = q, -1, -1
            book.bound[v], book.waits[v] = bound + max(_gain(node, i, r), 0.0), 1
            v += 1
    first, book.count[0] = book.count[0], v
    return first, v


@loop
def _visit(book: Book, node: Node, at: int, target: float, near: float, least: float, tol: float,
           best: F, found: F) -> tuple[int, int]:
    """Bound a node, rule out classes, and close or split it: its children, if any."""
    book.count[3] += 1
    book.waits[at] = 0
    while True:
        bound = _bounded(node, target, near, least, tol)
        now = objective(node)
        if now < best[0]:
            best[0] = now
            for p in range(len(node.t)):
                for i in range(len(node.u)):
                    found[p, i] = node.t[p, i]
        if bound >= target or _full(node):
            book.closed[at], book.bound[at] = _state(book, node, at), bound
            return 0, 0
        free, hit = _best_split(node, bound, target)
        if not hit:
            return _split(book, node, at, free, bound)
        if _ruled_out(book, node, at, bound, target):
            return 0, 0


@door
def room(book: Book, n: int) -> bool:
    """Whether another node can be written down."""
    k = book.share.shape[2]
    return book.count[0] + k <= len(book.parent) and book.count[1] + n * k + 2 <= len(book.owner) \
        and book.count[2] + n * k <= len(book.which)


@loop
def _copy(stack: Stack, at: int, node: Node, store: bool) -> None:
    """Put a node on the stack, or take it from there."""
    for i in range(len(node.u)):
        if store:
            stack.left[at, i], stack.level[at, i] = node.left[i], node.level[i]
        else:
            node.left[i], node.level[i] = stack.left[at, i], stack.level[at, i]
        for p in range(len(node.t)):
            if store:
                stack.u[at, i, p], stack.t[at, p, i] = node.u[i, p], node.t[p, i]
            else:
                node.u[i, p], node.t[p, i] = stack.u[at, i, p], stack.t[at, p, i]
        for j in range(len(node.u)):
            if store:
                stack.K[at, i, j] = node.K[i, j]
            else:
                node.K[i, j] = stack.K[at, i, j]


@loop
def _enter(book: Book, node: Node, at: int) -> None:
    fix(node, int(np.int64(book.sample[at])), int(np.int64(book.sign[at])))


@door
def explore(book: Book, node: Node, stack: Stack, at: int, upto: float, target: float, most: int,
            near: float, least: float, tol: float, best: F, found: F) -> None:
    """Visit a node and, depth first, those below it whose bound is at most ``upto``.

    ``most`` bounds the visits. ``best`` is the lowest objective of any W on the way, ``found`` its
    scores. Nodes that are neither closed nor split are open.
    """
    free, last = len(stack.node), book.count[3] + most  # places of the stack
    while room(book, len(node.u)):
        first, end = _visit(book, node, at, target, near, least, tol, best, found)
        low = -1
        for v in range(first, end):
            if low < 0 or book.bound[v] < book.bound[low]:
                low = v
        for v in range(first, end):
            if v != low and book.bound[v] <= upto and free > 0:
                free -= 1
                stack.node[free] = v
                _copy(stack, free, node, True)
        if low >= 0 and book.bound[low] <= upto and book.count[3] < last:
            at = low
            _enter(book, node, at)
            continue
        if free == len(stack.node) or book.count[3] >= last:
            return
        at = stack.node[free]
        _copy(stack, free, node, False)
        free += 1
        _enter(book, node, at)


# ---------------------------------------------------------------- labels


@door
def descend(node: Node, tol: float, rounds: int) -> float:
    """The machine of labels and the labels of its scores by turns, at levels of 0; the objective.

    Machines are solved to a relative gap of ``tol``.
    """
    now, k = np.inf, len(node.t)
    for _ in range(rounds):
        last, now = now, _solve(node, tol)
        if now >= last * (1.0 - 1e-9):
            break
        for i in range(len(node.u)):
            top = 0
            for p in range(k):
                if node.t[p, i] > node.t[top, i]:
                    top = p
            if node.left[i] != 1 << top:
                node.left[i] = -(1 << top)  # until all labels are read
        for i in range(len(node.u)):
            if node.left[i] < 0:
                node.left[i] = -node.left[i]
                for p in range(k):
                    node.costs[p] = -node.u[i, p]
                _shift(node, i, node.costs)
    return now
