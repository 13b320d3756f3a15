"""Trees over the labels of samples: what makes one a proof, whatever bounds its leaves.

A node fixes labels. On the way down some are decided by branching, and many more are implied: what
such a sample would otherwise be is a leaf, written as one number beside the dual point that proves
it. `SignTree` and `ClassTree` check that the leaves cover everything and that no dual point counts
on a label that its leaf does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.bounds.decision_tree import families, folded
from mmcopt.types import Floats, Ints


class LabelTree:
    """What the tree of a certificate over n samples holds; a ValueError says where it is none.

    Of each node there are ``parent`` (-1 for the root), the ``sample`` whose label the branch to it
    fixes to ``sign``, the state (dual point) of its parent by which it was ``born``, the state by
    which it is ``closed``, or -1, and ``last``, a sample that is left without labels, or -1; a leaf
    that is open needs the first of these states. Of each state there are its node, the ``owner``,
    and the ``share`` of each sample, one weight or several. ``implied`` are states and ``which``
    say what is ruled out at each.

    A subclass fills the leaves: the ``state`` of each, the sample that it labels beyond those of
    the state (``added``, -1: none) and its ``label``.
    """

    state: Ints
    added: Ints
    label: Ints

    def __init__(self, duals: dict[str, Any], n: int) -> None:
        self.n = n
        self.parent, self.sample, self.sign, self.born, self.closed, self.last = (
            _integers(duals, name) for name in ("parent", "sample", "sign", "born", "closed",
                                                "last"))
        self.owner, self.implied, self.which = (
            _integers(duals, name) for name in ("owner", "implied", "which"))
        self.share = np.asarray(duals["share"], dtype=np.float64)
        self._check_ranges()
        self.families = families(self.parent.tolist())
        order = np.argsort(self.implied, kind="stable")
        self._which, self._ends = self.which[order], np.searchsorted(
            self.implied[order], np.arange(len(self.owner) + 1))
        self._states = np.argsort(self.owner, kind="stable")
        self._first = np.searchsorted(self.owner[self._states], np.arange(len(self.parent) + 1))

    def _check_ranges(self) -> None:
        V, Q, n = len(self.parent), len(self.owner), self.n
        for values in (self.sample, self.sign, self.born, self.closed, self.last):
            require(values.shape == (V,), "the nodes are malformed")
        require(self.implied.shape == self.which.shape, "the implied labels are malformed")
        require(self.share.shape[:2] == (Q, n) and V >= 1, "the dual points are malformed")
        require(bool(np.isfinite(self.share).all()), "a weight is no number")
        require(in_range(self.sample, 0, n), "a branch decides no label of a sample")
        require(in_range(self.owner, 0, V) and in_range(self.implied, 0, Q),
                "a dual point belongs to no node")
        require(in_range(self.closed, -1, Q) and in_range(self.last, -1, n)
                and in_range(self.born, -1, Q), "a node has no dual point")
        done = np.flatnonzero(self.closed >= 0)
        require(bool(np.all(self.owner[self.closed[done]] == done)),
                "a node is closed by the dual point of another")
        given = np.flatnonzero(self.born >= 0)
        require(bool(np.all(self.owner[self.born[given]] == self.parent[given])),
                "a node is born of a dual point that is not its parent's")

    def states_of(self, v: int) -> Ints:
        """The dual points of a node, in the order of the certificate."""
        return np.asarray(self._states[self._first[v]:self._first[v + 1]])

    def implied_at(self, q: int) -> Ints:
        """What is ruled out at a dual point."""
        return np.asarray(self._which[self._ends[q]:self._ends[q + 1]])

    def _open_leaves(self, ended: Any) -> Ints:
        """Leaves that were not visited, but the root; ``ended`` says which nodes are no leaves."""
        self.open = np.flatnonzero(~ended & np.array([not kids for kids in self.families]))
        left = self.open[self.open > 0]
        require(bool(np.all(self.born[left] >= 0)), "a leaf is missing")
        return left

    # ------------------------------------------------------------ bounds

    def bounds(self, values: Floats) -> list[float]:
        """Bounds of all nodes from those of all leaves, in the order of ``state``."""
        m, done, left = self._parts
        V = len(self.parent)
        beside, own, closing = (np.full(V, value) for value in (np.inf, -np.inf, -np.inf))
        np.minimum.at(beside, self.owner[self.implied], values[:m])
        closing[self.last >= 0] = np.inf  # what is beside it and above covers all of it
        closing[done] = values[m:m + len(done)]
        own[left] = values[m + len(done):]
        return folded(self.families, own.tolist(), closing.tolist(), beside.tolist())

    def counts(self) -> Ints:
        """How many labels are implied, or ruled out, at each node."""
        return np.bincount(self.owner[self.implied], minlength=len(self.parent))

    _parts: tuple[int, Ints, Ints]  # numbers of implied leaves; closed nodes; open leaves


def leaf_values(tree: LabelTree, batch: int, bound: Callable[..., Floats]) -> Floats:
    """The bounds of all leaves, ``batch`` dual points at a time.

    ``bound`` gets the points, and of their leaves each one's row in these, its number, and which
    samples leaves add to which point.
    """
    n = tree.n
    values = np.empty(len(tree.state))
    order = np.argsort(tree.state, kind="stable")
    used, first = np.unique(tree.state[order], return_index=True)
    ends = np.append(first, len(order))
    for begin in range(0, len(used), batch):
        states = used[begin:begin + batch]
        leaves = order[ends[begin]:ends[begin + len(states)]]
        row = np.searchsorted(states, tree.state[leaves])
        wanted = np.zeros((len(states), n), dtype=bool)
        wanted[row, np.maximum(tree.added[leaves], 0)] = True
        values[leaves] = bound(states, row, leaves, wanted)
    return values


def _integers(duals: dict[str, Any], name: str) -> Ints:
    values = np.asarray(duals[name])
    require(values.ndim == 1 and values.dtype.kind in "iu", f"{name} must be integers")
    return values.astype(np.int64)


def in_range(values: Ints, low: int, high: int) -> bool:
    """Whether all values are from low to high - 1."""
    return bool(np.all((values >= low) & (values < high)))


def require(ok: bool, what: str) -> None:
    """A ValueError where something is not as a proof needs it."""
    if not ok:
        raise ValueError(f"the tree proves nothing: {what}")


