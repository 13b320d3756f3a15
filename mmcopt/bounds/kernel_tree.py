"""The bound of a tree over labels of two classes in several kernels, recomputed from its leaves.

For weights s of the kernels and labels y, the signs of the scores, the hinge of a sample costs at
least ``min(a, 1) - a y t`` for any a >= 0, so that the objective over ``scale`` is at least
``mean of min(a, 1) - sum_m s_m u'K_m u / (4 c n^2)``, u_i = a_i y_i, c = beta / 4. The least of it
over s >= 0 with |s|_p <= 1 is, with 1/p + 1/q = 1,

    mean of min(a, 1) - | (u'K_m u / (4 c n^2))_m |_q.

Samples without a label have no weight. A leaf adds one label to a dual point, with the weight that
is best; any would do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.label_tree import leaf_values
from mmcopt.bounds.margin_metric import sample_rows
from mmcopt.bounds.multi_kernel_lift import norms
from mmcopt.bounds.sign_tree import SignTree
from mmcopt.capabilities import KernelMargin
from mmcopt.linalg import UNIT, one_thread
from mmcopt.types import Floats

BATCH = 4e6  # numbers in an array of several points at a time
HALVINGS = 40  # of the interval of a weight


class KernelProof:
    """A certificate over a problem: the tree, and the bounds of its nodes, recomputed."""

    def __init__(self, margin: KernelMargin, duals: dict[str, Any]) -> None:
        if margin.k != 2:
            raise ValueError("a tree of margins bounds hinge problems of two classes only")
        self.n = n = margin.parts[0].n
        self.tree = SignTree(duals, n)
        c = margin.beta / 4.0
        rows = [sample_rows(part) for part in margin.parts]
        with one_thread:
            self.K = np.stack([X @ X.T / (4.0 * c * n**2) for X in rows])
        self.own = np.einsum("mii->mi", self.K)
        self.lengths = np.sqrt(self.own)
        self.rounding = 8 * (n + max(X.shape[1] for X in rows) + 32) * UNIT
        self.power = np.inf if margin.p == 1.0 else margin.p / (margin.p - 1.0)
        with one_thread:
            values = leaf_values(self.tree, max(1, int(BATCH / (len(rows) * n))), self._batch)
        self.values = margin.scale * values
        self.bounds = [margin.scale * bound for bound in self.tree.bounds(values)]

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        tree, n = self.tree, self.n
        share = tree.share[states]
        t = np.einsum("bi,mij->bmj", share, self.K, optimize=True)
        square = np.einsum("bmj,bj->bm", t, share)
        linear = np.minimum(np.abs(share), 1.0).sum(axis=1) / n
        mass = np.abs(share) @ self.lengths.T  # (B, M)
        i, label = np.maximum(tree.added[leaves], 0), tree.label[leaves]
        slope = 2.0 * label[:, None] * t[row, :, i]
        own, square, mass = self.own[:, i].T, square[row], mass[row]
        z = self._weights(square, slope, own) * (tree.added[leaves] >= 0)
        both = [linear[row] + np.minimum(w, 1.0) / n - self._norm(
            square + w[:, None] * (slope + w[:, None] * own),
            mass + w[:, None] * self.lengths[:, i].T) for w in (z, np.zeros_like(z))]
        value = np.maximum(*both)
        return value - 4 * (n + 16) * UNIT * (linear[row] + 1.0 / n)

    def _norm(self, square: Floats, mass: Floats) -> Floats:
        """The norm of squares that rounding has made no smaller than they are."""
        square = np.maximum(square, 0.0) + self.rounding * mass**2
        return norms(square, self.power) * (1.0 + 64 * UNIT)

    def _weights(self, square: Floats, slope: Floats, own: Floats) -> Floats:
        """About the best weights >= 0 of the samples that leaves add, by halving."""
        def rise(z: Floats) -> Floats:
            """The slope of the norm."""
            now = np.maximum(square + z[:, None] * (slope + z[:, None] * own), 0.0)
            top = np.maximum(norms(now, self.power), 1e-300)[:, None]
            share = (now >= top * (1.0 - 1e-12)).astype(float) if np.isinf(self.power) \
                else (now / top) ** (self.power - 1.0)
            return np.asarray((share * (slope + 2.0 * z[:, None] * own)).sum(axis=1))

        low, high = np.zeros(len(square)), np.ones(len(square))
        for _ in range(30):  # beyond 1 the weight is worth no more
            high = np.where(rise(high) < np.where(high <= 1.0, 1.0 / self.n, 0.0), 2 * high, high)
        for _ in range(HALVINGS):
            z = 0.5 * (low + high)
            less = rise(z) < np.where(z < 1.0, 1.0 / self.n, 0.0)
            low, high = np.where(less, z, low), np.where(less, high, z)
        return 0.5 * (low + high)
