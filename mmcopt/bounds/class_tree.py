"""Trees over the labels of three classes and more: classes are ruled out, one by one.

A class of a sample that is ruled out is a leaf. A sample with one class left is labelled by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.label_tree import LabelTree, in_range, require
from mmcopt.types import Ints

MOST = 16  # classes, which are bits of a number


class ClassTree(LabelTree):
    """The tree of a certificate over n samples of k classes; a ValueError says where it is none.

    A ``share`` (Q, n, k) are weights against the classes that a label is not. ``which`` is k times
    a sample plus a class that is ruled out at a state. A node whose ``last`` is a sample ends
    there, as no class of that sample is left.

    Classes of no label have no names yet: a permutation of them costs nothing. So a sample can have
    the classes of labels, which are the first ones, and one more that stands for all others: its
    leaf proves them all. Children of a node have each of the classes that a sample has left, once.
    There may be one child, where a sample can only have a class that is new.

    ``at`` (Q, n) and ``final`` (V, n) are the classes that are left at each state and at the end of
    each node, as bits of a number.
    """

    def __init__(self, duals: dict[str, Any], n: int, k: int) -> None:
        require(2 <= k <= MOST, f"there are 2 to {MOST} classes")
        self.k = k
        super().__init__(duals, n)
        self.final = np.zeros((len(self.parent), n), np.int64)
        self.at = np.zeros((len(self.owner), n), np.int64)
        self._walk()
        labels = labels_of(self.at)[:, :, None]
        counts = self.share != 0.0
        require(bool((self.share >= 0.0).all())
                and not (counts & ((labels < 0) | (labels == np.arange(k)))).any(),
                "a dual point counts on a label that is not fixed")
        self._collect()

    def _check_ranges(self) -> None:
        super()._check_ranges()
        require(self.share.shape[2:] == (self.k,), "the dual points are malformed")
        require(in_range(self.sign, 0, self.k), "a branch decides no label of a sample")
        require(in_range(self.which, 0, self.n * self.k), "what is ruled out is of no sample")
        require(not ((self.last >= 0) & (self.closed >= 0)).any(), "a node ends twice")

    def highest(self, v: int) -> int:
        """The last class that labels have at the end of a node."""
        return int(labels_of(self.final[v]).max())

    def _choices(self, left: Ints) -> tuple[int, int]:
        """How many classes labels have, and the bits of those that a sample can have."""
        used = int(labels_of(left).max(initial=-1)) + 1
        return used, (1 << min(used + 1, self.k)) - 1

    def _walk(self) -> None:
        """Rule out and fix from the root down, and check that children cover."""
        everything = (1 << self.k) - 1
        for v, kids in enumerate(self.families):
            left, i = self.final[v], self.sample[v]
            left[:] = self.final[self.parent[v]] if v else everything
            bit = 1 << int(self.sign[v])
            require(bool(left[i] & bit & self._choices(left)[1]) and left[i] != bit,
                    "a label is decided twice")
            left[i] = bit
            for q in self.states_of(v):
                self.at[q] = left
                if len(self.implied_at(q)):
                    self._rule_out(left, self.implied_at(q))
            if kids:
                j = self.sample[kids[0]]
                can = left[j] & self._choices(left)[1]
                bits = 1 << self.sign[kids]
                require(bool((self.sample[kids] == j).all()) and len(set(bits)) == len(kids)
                        and int(bits.sum()) == can and self.closed[v] < 0 and self.last[v] < 0,
                        f"the children of node {v} do not cover it")
        ended = np.flatnonzero(self.last >= 0)
        require(not self.final[ended, self.last[ended]].any(), "a node ends with classes left")

    def _rule_out(self, left: Ints, which: Ints) -> None:
        """Take classes of free samples away: with one of no label, all of these."""
        used, choices = self._choices(left)
        free = labels_of(left) < 0
        rest = (1 << self.k) - (1 << used)
        for i, r in zip(which // self.k, which % self.k, strict=True):
            require(bool(free[i]) and bool(left[i] & choices & (1 << r)),
                    "a label is decided twice")
            left[i] &= ~(rest if r == used else 1 << r)

    def _collect(self) -> None:
        """All leaves: the state of each, the sample that its label adds or -1, and the label."""
        done = np.flatnonzero(self.closed >= 0)
        left = self._open_leaves((self.closed >= 0) | (self.last >= 0))
        none = np.full(len(done), -1)
        self.state = np.concatenate([self.implied, self.closed[done], self.born[left]])
        self.added = np.concatenate([self.which // self.k, none, self.sample[left]])
        self.label = np.concatenate([self.which % self.k, none, self.sign[left]])
        self._parts = len(self.implied), done, left


def labels_of(left: Ints) -> Ints:
    """The only class that is left of each sample, or -1."""
    single = (left > 0) & (left & (left - 1) == 0)
    return np.where(single, np.log2(np.maximum(left, 1)).astype(np.int64), -1)
