"""Branch and bound on the labels of three classes and more, told apart by margins: proofs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.class_tree import MOST
from mmcopt.capabilities import MarginRisk
from mmcopt.checks import hyper, integer, real
from mmcopt.solvers.margin_search import MarginSearch
from mmcopt.solvers.margin_tree import (
    BEYOND,
    EXACT,
    ROUGH,
    TURNS,
    MarginTree,
    Tree,
    lowered,
    planted,
    unfit,
)
from mmcopt.solving.runs import out_of_time, run
from mmcopt.tolerances import LEVELS
from mmcopt.types import Floats

DIRECTIONS = 20  # random ones, whose labels it begins with


@dataclass(frozen=True, kw_only=True)
class ClassTree(MarginTree):
    """Prove that labels of three classes or more have the largest margin, or how far they can be.

    As `MarginTree`, with the lifted margin of k classes on the samples without labels and Crammer
    and Singer's machine on the others; see `mmcopt.bounds.class_margin_tree`. A node rules out the
    classes of samples that are proved to cost more than the best labels known, and branches on a
    sample with a child for each class that it has left. Classes that no label has are the same but
    for their names, so that one of them stands for all. Labels to begin with are those of
    `MarginSearch`, with ``starts`` starts. Sixty samples of three classes are proved in
    hundredths of a second.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:0,1,6")
    >>> result = mm.solve(mm.formulations.CPM3C(X[:30], 3, beta=0.05), "ClassTree", seed=0)
    >>> result.status.name, bool(result.verify())
    ('CERTIFIED', True)
    """

    dive: float = hyper(0.6, real(0, 1), "share of what is missing within which it goes deep first")
    starts: int = hyper(100, integer(1), "random labels from which it searches for better ones")

    def refuses(self, f: Any) -> str | None:
        risk = f.offer(MarginRisk)
        if risk is None:
            return super().refuses(f)
        if not 3 <= risk.k <= MOST:
            return f"its tree is over labels of 3 to {MOST} classes, and there are {risk.k}."
        return unfit(risk)

    def prepare(self, f: Any) -> None:
        self._require_memory(f)
        MarginSearch().prepare(f)
        tree = planted([np.ones((2, 1))], 1.0, np.zeros(2), 2.0, 1.0, 3)  # compile
        self._improve(tree, np.ones((2, 3)), EXACT)
        self._visit(tree, 1)

    def scores(self, f: Any, point: Any) -> Floats:
        return np.asarray(f.offer(MarginRisk).features.scores(np.asarray(point, dtype=np.float64)))

    def point(self, f: Any, tree: Tree) -> Any:
        """W of the best labels: w_p = sum_i u_ip x_i / beta."""
        risk = f.offer(MarginRisk)
        return risk.features.sums(np.ascontiguousarray(tree.u.T) / risk.beta)

    def _search(self, f: Any, tree: Tree, init: Any, rng: np.random.Generator) -> None:
        for _ in range(DIRECTIONS):  # what is there if the search is stopped at once
            X = tree.rows[0]
            self._improve(tree, X @ rng.standard_normal((X.shape[1], tree.k)), ROUGH)
            scores = tree.plain[0] @ tree.u
            if out_of_time() and len(np.unique(scores.argmax(axis=1))) == tree.k:
                return
        self._improve(tree, scores, EXACT)
        found = run(MarginSearch(starts=self.starts), f, init, rng)
        self._improve(tree, self.scores(f, found.point), EXACT)

    def _improve(self, state: Tree, scores: Floats, tol: float) -> None:
        """Machines and labels by turns from the labels of scores."""
        from mmcopt.compiled.class_tree import descend

        labels, each = scores.argmax(axis=1), np.arange(state.n)
        node = self._node(state, state.plain[0], 0.0)
        node.left[:] = 1 << labels
        node.u[:] = -1.0 / (2 * state.n * (state.k - 1))
        node.u[each, labels] = 0.5 / state.n
        self._rescored(node)
        descend(node, tol, TURNS)
        self._rescored(node)  # without the rounding of so many changes
        margin = -np.diff(np.sort(node.t, axis=0)[:-3:-1], axis=0)[0]
        loss = float(np.maximum(1.0 - margin, 0.0).mean())
        value, s = 0.5 * float(np.sum(node.u * node.t.T)) + loss, 1.0
        if 0.0 < loss and margin.min() > 0.5:  # where no margin is violated but by rounding
            s = BEYOND / float(margin.min())
            value, s = min((value, 1.0), ((value - loss) * s * s, s))
        if value < state.best:
            state.best, state.u = value, s * node.u

    @staticmethod
    def _node(state: Tree, K: Floats, level: float) -> Any:
        """A node of which nothing is ruled out."""
        from mmcopt.compiled.class_tree import Node

        n, k = state.n, state.k
        return Node(np.full(n, (1 << k) - 1), np.zeros((n, k)), np.full(n, level), np.zeros((k, n)),
                    K, state.g, np.empty(n), np.empty(k), np.empty(k))

    @staticmethod
    def _rescored(node: Any) -> None:
        k = len(node.t)
        node.t[:] = (k - 1) / (2 * k) * (node.K @ node.u).T

    def _explored(self, state: Tree, v: int, upto: float, most: int) -> tuple[float, Floats]:
        from mmcopt.compiled.class_tree import explore, fix

        book, node = state.book, self._restored(state, int(state.book.born[v]))
        fix(node, int(book.sample[v]), int(book.sign[v]))
        best, found = np.array([state.best]), np.zeros((state.k, state.n))
        explore(book, node, state.stack, v, upto, self._target(state), most, self.near, self.least,
                0.1 * self.gap, best, found)
        return float(best[0]), found.T

    def _room(self, state: Tree) -> bool:
        from mmcopt.compiled.class_tree import room

        return bool(room(state.book, state.n))

    def _restored(self, state: Tree, q: int) -> Any:
        book, each = state.book, np.arange(state.n)
        node = self._node(state, state.K[0].copy(), float(LEVELS))
        if not state.g.any():
            node.level[:] = 0.0
        if q < 0:
            return node
        node.left[:], node.level[:] = book.label[q], book.level[q]
        single = np.flatnonzero(node.left & (node.left - 1) == 0)
        share = book.share[q].astype(np.float64) / state.n
        node.u[:] = -share
        labels = np.log2(node.left[single]).astype(np.int64)
        node.u[each[single], labels] = share[single].sum(axis=1)
        lowered(node.K, state.toll * state.g, node.level)
        self._rescored(node)
        return node
