"""A tree over the labels of two classes, compiled: which nodes are visited, implied, split, closed.

What a node is, and how its bound is raised, is in `mmcopt.compiled.margin_node`.
`mmcopt.bounds.margin_tree` checks what is found here, and says why it is a proof.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.compiled.margin_node import (
    Node,
    all_fixed,
    bounded,
    fix,
    gained,
    objective,
    score,
    set_squares,
)

F = Any
Power = Any  # float or None
BALANCED = 1e-4  # of the target: what a branching sample should gain on its worse side
door = compiled(error_model="numpy")
loop = compiled(error_model="numpy", **INNER)


class Book(NamedTuple):
    """The proof so far: nodes, states (dual points) and labels that are implied at states.

    ``count`` are the numbers of nodes, states and implied labels, and of nodes that were bounded.
    """

    parent: F
    sample: F
    sign: F
    born: F  # the state of the parent that bounds a node at its birth
    closed: F  # the state that closes a node, or -1
    last: F  # the implied sample whose other side that state closes too, or -1
    bound: F
    waits: F  # 1 of a node that was not visited yet
    owner: F  # node of a state
    label: F  # labels at a state
    share: F  # its weights, n times u
    level: F
    implied: F  # state of an implied label
    which: F  # its sample plus 1, times its sign
    count: F


class Stack(NamedTuple):
    """Nodes that wait in the midst of a subtree."""

    node: F
    y: F
    u: F
    level: F
    t: F
    K: F


@loop
def _state(book: Book, node: Node, at: int) -> int:
    """Write a dual point down."""
    q = book.count[1]
    book.owner[q] = at
    for i in range(len(node.u)):
        book.label[q, i], book.level[q, i] = int(node.y[i]), int(node.level[i])
        book.share[q, i] = node.u[i] * len(node.u)
    book.count[1] = q + 1
    return q


@loop
def _best_split(node: Node, power: Power, bound: float, target: float) -> tuple[int, bool]:
    """The free sample to branch on, and whether any side of any is closed at once."""
    free, most, hit = -1, -1.0, False
    for i in range(len(node.u)):
        if node.y[i] == 0.0:
            a, b = max(gained(node, power, i, 1.0), 0.0), max(gained(node, power, i, -1.0), 0.0)
            hit = hit or bound + max(a, b) >= target
            worth = (min(a, b) + BALANCED * target) * max(a, b)
            if worth > most:
                free, most = i, worth
    return free, hit


@loop
def _implied(book: Book, node: Node, power: Power, at: int, bound: float, target: float) -> bool:
    """Fix all labels whose other side is proved; whether both sides of one are."""
    q, first = _state(book, node, at), book.count[2]
    for i in range(len(node.u)):
        if node.y[i] == 0.0:
            up = bound + gained(node, power, i, 1.0) >= target
            down = bound + gained(node, power, i, -1.0) >= target
            if up or down:
                book.implied[book.count[2]] = q
                book.which[book.count[2]] = -(i + 1) if up else i + 1
                book.count[2] += 1
            if up and down:
                book.closed[at], book.last[at], book.bound[at] = q, i, target
                return True
    for j in range(first, book.count[2]):  # which changes what the gains were read from
        i = int(np.int64(abs(book.which[j]) - 1))
        fix(node, power, i, 1.0 if book.which[j] > 0 else -1.0)
    return False


@loop
def _split(book: Book, node: Node, power: Power, at: int, i: int, bound: float) -> int:
    """Two children; the number of the first."""
    q, v = _state(book, node, at), book.count[0]
    for c in range(2):
        s = 1.0 if c == 0 else -1.0
        book.parent[v + c], book.sample[v + c], book.sign[v + c] = at, i, int(s)
        book.born[v + c], book.closed[v + c], book.last[v + c] = q, -1, -1
        book.bound[v + c], book.waits[v + c] = bound + max(gained(node, power, i, s), 0.0), 1
    book.count[0] = v + 2
    return v


@loop
def _visit(book: Book, node: Node, power: Power, at: int, target: float, near: float,
           least: float, tol: float, best: F, found: F) -> int:
    """Bound a node, imply labels, and close or split it: the first of its children, or -1."""
    book.count[3] += 1
    book.waits[at] = 0
    while True:
        bound = bounded(node, power, target, near, least, tol)
        now = objective(node, power)
        if now < best[0]:
            best[0] = now
            for i in range(len(found)):
                found[i] = score(node, i)
        if bound >= target or all_fixed(node):
            book.closed[at], book.bound[at] = _state(book, node, at), bound
            return -1
        free, hit = _best_split(node, power, bound, target)
        if not hit:
            return _split(book, node, power, at, free, bound)
        if _implied(book, node, power, at, bound, target):
            return -1


@door
def room(book: Book, n: int) -> bool:
    """Whether another node can be written down."""
    return book.count[0] + 2 <= len(book.parent) and book.count[1] + n + 2 <= len(book.owner) \
        and book.count[2] + n <= len(book.which)


@loop
def _store(stack: Stack, depth: int, node: Node) -> None:
    n = len(node.u)
    for i in range(n):
        stack.y[depth, i], stack.u[depth, i] = node.y[i], node.u[i]
        stack.level[depth, i] = node.level[i]
        for m in range(len(node.square)):
            stack.t[depth, m, i] = node.t[m, i]
            for j in range(stack.K.shape[3]):  # without g they stay as they are
                stack.K[depth, m, i, j] = node.K[m, i, j]


@loop
def _restore(stack: Stack, depth: int, node: Node) -> None:
    n = len(node.u)
    for i in range(n):
        node.y[i], node.u[i] = stack.y[depth, i], stack.u[depth, i]
        node.level[i] = stack.level[depth, i]
        for m in range(len(node.square)):
            node.t[m, i] = stack.t[depth, m, i]
            for j in range(stack.K.shape[3]):
                node.K[m, i, j] = stack.K[depth, m, i, j]


@door
def explore(book: Book, node: Node, power: Power, stack: Stack, at: int, upto: float,
            target: float, most: int, near: float, least: float, tol: float, best: F,
            found: F) -> None:
    """Visit a node and, depth first, those below it whose bound is at most ``upto``.

    ``most`` bounds the visits. ``best`` is the lowest objective of any w on the way, ``found`` its
    scores. Nodes that are neither closed nor split are open.
    """
    free, n = len(stack.node), len(node.u)  # places of the stack
    last = book.count[3] + most
    while room(book, n):
        v = _visit(book, node, power, at, target, near, least, tol, best, found)
        if v >= 0:
            low, high = (v, v + 1) if book.bound[v] <= book.bound[v + 1] else (v + 1, v)
            if book.bound[high] <= upto and free > 0:
                free -= 1
                stack.node[free] = high
                _store(stack, free, node)
            if book.bound[low] <= upto and book.count[3] < last:
                at = low
                fix(node, power, int(np.int64(book.sample[at])), float(book.sign[at]))
                continue
        if free == len(stack.node) or book.count[3] >= last:
            return
        at = stack.node[free]
        _restore(stack, free, node)
        free += 1
        set_squares(node)
        fix(node, power, int(np.int64(book.sample[at])), float(book.sign[at]))
