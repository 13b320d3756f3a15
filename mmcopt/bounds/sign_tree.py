"""Trees over the labels of two classes, as signs.

A branch has two children. The other side of a label that is implied is a leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.label_tree import LabelTree, in_range, require


class SignTree(LabelTree):
    """The tree of a certificate over n samples; a ValueError says where it is none.

    Labels are signs. A ``share`` (Q, n) is a weight whose sign is the label that it counts on.
    ``which`` is a sample plus 1 times its sign, for each label that is implied at a state; where
    both signs are, the state closes the node and ``last`` is the sample.

    Labels fixed at a state are those of the branches to its node and those implied at earlier
    states of nodes on that path. The root's own label costs no generality, as w and -w cost the
    same.
    """

    def __init__(self, duals: dict[str, Any], n: int) -> None:
        super().__init__(duals, n)
        self._check_branches()
        self.final = np.zeros((len(self.parent), n), np.int8)  # labels at the end of each node
        self.at = np.zeros((len(self.owner), n), np.int8)  # and at each state
        self._label()
        counted = self.share != 0.0
        require(bool(np.all(~counted | (np.sign(self.share) == self.at))),
               "a dual point counts on a label that is not fixed")
        self._collect()

    def _check_ranges(self) -> None:
        super()._check_ranges()
        require(self.share.ndim == 2, "the dual points are malformed")
        require(bool(np.isin(self.sign, (-1, 1)).all()), "a branch decides no label of a sample")
        require(in_range(np.abs(self.which), 1, self.n + 1), "an implied label is of no sample")

    def _check_branches(self) -> None:
        """Two children of one sample, with both signs; or none."""
        for v, kids in enumerate(self.families):
            if kids:
                require(len(kids) == 2 and self.sample[kids[0]] == self.sample[kids[1]]
                        and self.sign[kids[0]] == -self.sign[kids[1]] and self.closed[v] < 0,
                        f"the children of node {v} do not cover it")

    def _label(self) -> None:
        """Fix labels from the root down; each only once on a path."""
        for v in range(len(self.parent)):
            labels = self.final[v]
            if v:
                labels[:] = self.final[self.parent[v]]
            require(labels[self.sample[v]] == 0, "a label is decided twice")
            labels[self.sample[v]] = self.sign[v]
            for q in self.states_of(v):
                self.at[q] = labels
                new = self.implied_at(q)
                if len(new):
                    i = np.abs(new) - 1
                    require(not labels[i].any() and len(np.unique(i)) == len(i),
                            "a label is decided twice")
                    labels[i] = np.sign(new)

    def _collect(self) -> None:
        """All leaves: the state of each, the sample that its label adds or -1, and the label."""
        both = np.flatnonzero(self.last >= 0)
        require(bool(np.all(self.closed[both] >= 0))
                and not self.at[self.closed[both], self.last[both]].any()
                and bool(self.final[both, self.last[both]].all()),
                "a node is closed on one side only")
        done = np.flatnonzero(self.closed >= 0)
        left = self._open_leaves(self.closed >= 0)
        sign = np.where(self.last[done] >= 0, self.final[done, self.last[done]], 0)
        self.state = np.concatenate([self.implied, self.closed[done], self.born[left]])
        self.added = np.concatenate([np.abs(self.which) - 1, self.last[done], self.sample[left]])
        self.label = np.concatenate([-np.sign(self.which), sign, self.sign[left]])
        self._parts = len(self.implied), done, left
