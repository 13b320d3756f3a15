"""Trees over the labels of two classes: what makes one a proof, whatever bounds its leaves.

A node fixes labels. On the way down some are decided by branching, with two children, and many more
are implied: the other side of such a label is a leaf, written as one number beside the dual point
that proves it. Here is checked that the leaves cover everything and that no dual point counts on a
label that its leaf does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.bounds.decision_tree import families, folded
from mmcopt.types import Floats, Ints


class SignTree:
    """The tree of a certificate over n samples; a ValueError says where it is none.

    Of each node there are ``parent`` (-1 for the root), the ``sample`` whose label the branch to it
    fixes to ``sign``, the state (dual point) of its parent by which it was ``born``, and the state
    by which it is ``closed``, or -1; a leaf that is open needs the former. Of each state there are
    its node, the ``owner``, and the ``share`` (n,) of each sample, a weight whose sign is the label
    that it counts on. ``implied`` are states and ``which`` a sample plus 1 times its sign, for each
    label that is implied at a state; where both signs are, the state closes the node and ``last``
    is the sample, -1 otherwise.

    Labels fixed at a state are those of the branches to its node and those implied at earlier
    states of nodes on that path. The root's own label costs no generality, as w and -w cost the
    same.
    """

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
        self._check_branches()
        self.final = np.zeros((len(self.parent), n), np.int8)  # labels at the end of each node
        self.at = np.zeros((len(self.owner), n), np.int8)  # and at each state
        self._label()
        counted = self.share != 0.0
        _require(bool(np.all(~counted | (np.sign(self.share) == self.at))),
                 "a dual point counts on a label that is not fixed")
        self._collect()

    # ------------------------------------------------------------ checks

    def _check_ranges(self) -> None:
        V, Q, n = len(self.parent), len(self.owner), self.n
        for values in (self.sample, self.sign, self.born, self.closed, self.last):
            _require(values.shape == (V,), "the nodes are malformed")
        _require(self.implied.shape == self.which.shape, "the implied labels are malformed")
        _require(self.share.shape == (Q, n) and V >= 1, "the dual points are malformed")
        _require(bool(np.isfinite(self.share).all()), "a weight is no number")
        _require(_within(self.sample, 0, n) and bool(np.isin(self.sign, (-1, 1)).all()),
                 "a branch decides no label of a sample")
        _require(_within(self.owner, 0, V) and _within(self.implied, 0, Q),
                 "a dual point belongs to no node")
        _require(_within(self.closed, -1, Q) and _within(self.last, -1, n)
                 and _within(self.born, -1, Q), "a node has no dual point")
        _require(_within(np.abs(self.which), 1, n + 1), "an implied label is of no sample")
        done = np.flatnonzero(self.closed >= 0)
        _require(bool(np.all(self.owner[self.closed[done]] == done)),
                 "a node is closed by the dual point of another")
        given = np.flatnonzero(self.born >= 0)
        _require(bool(np.all(self.owner[self.born[given]] == self.parent[given])),
                 "a node is born of a dual point that is not its parent's")

    def _check_branches(self) -> None:
        """Two children of one sample, with both signs; or none."""
        for v, kids in enumerate(self.families):
            if kids:
                _require(len(kids) == 2 and self.sample[kids[0]] == self.sample[kids[1]]
                         and self.sign[kids[0]] == -self.sign[kids[1]] and self.closed[v] < 0,
                         f"the children of node {v} do not cover it")

    def _label(self) -> None:
        """Fix labels from the root down; each only once on a path."""
        order = np.argsort(self.implied, kind="stable")
        which, ends = self.which[order], np.searchsorted(self.implied[order],
                                                         np.arange(len(self.owner) + 1))
        states = np.argsort(self.owner, kind="stable")
        first = np.searchsorted(self.owner[states], np.arange(len(self.parent) + 1))
        for v in range(len(self.parent)):
            labels = self.final[v]
            if v:
                labels[:] = self.final[self.parent[v]]
            _require(labels[self.sample[v]] == 0, "a label is decided twice")
            labels[self.sample[v]] = self.sign[v]
            for q in states[first[v]:first[v + 1]]:
                self.at[q] = labels
                new = which[ends[q]:ends[q + 1]]
                if len(new):
                    i = np.abs(new) - 1
                    _require(not labels[i].any() and len(np.unique(i)) == len(i),
                             "a label is decided twice")
                    labels[i] = np.sign(new)

    def _collect(self) -> None:
        """All leaves: the state of each, the sample that its label adds or -1, and the label."""
        both = np.flatnonzero(self.last >= 0)
        _require(bool(np.all(self.closed[both] >= 0))
                 and not self.at[self.closed[both], self.last[both]].any()
                 and bool(self.final[both, self.last[both]].all()),
                 "a node is closed on one side only")
        done = np.flatnonzero(self.closed >= 0)
        is_open = (self.closed < 0) & np.array([not kids for kids in self.families])
        self.open = np.flatnonzero(is_open)
        left = self.open[self.open > 0]
        _require(bool(np.all(self.born[left] >= 0)), "a leaf is missing")
        sign = np.where(self.last[done] >= 0, self.final[done, self.last[done]], 0)
        self.state = np.concatenate([self.implied, self.closed[done], self.born[left]])
        self.added = np.concatenate([np.abs(self.which) - 1, self.last[done], self.sample[left]])
        self.label = np.concatenate([-np.sign(self.which), sign, self.sign[left]])
        self._parts = len(self.implied), done, left

    # ------------------------------------------------------------ bounds

    def bounds(self, values: Floats) -> list[float]:
        """Bounds of all nodes from those of all leaves, in the order of ``state``."""
        m, done, left = self._parts
        V = len(self.parent)
        beside, own, closing = (np.full(V, value) for value in (np.inf, -np.inf, -np.inf))
        np.minimum.at(beside, self.owner[self.implied], values[:m])
        closing[done] = values[m:m + len(done)]
        own[left] = values[m + len(done):]
        return folded(self.families, own.tolist(), closing.tolist(), beside.tolist())

    def counts(self) -> Ints:
        """How many labels are implied at each node."""
        return np.bincount(self.owner[self.implied], minlength=len(self.parent))


def leaf_values(tree: SignTree, batch: int, bound: Callable[..., Floats]) -> Floats:
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
    _require(values.ndim == 1 and values.dtype.kind in "iu", f"{name} must be integers")
    return values.astype(np.int64)


def _within(values: Ints, low: int, high: int) -> bool:
    return bool(np.all((values >= low) & (values < high)))


def _require(ok: bool, what: str) -> None:
    if not ok:
        raise ValueError(f"the tree proves nothing: {what}")


