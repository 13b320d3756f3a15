"""The bound of a tree over labels of two classes in several kernels, recomputed from its leaves.

With w_m = s_m v_m the objective over ``scale`` is ``c sum_m s_m |v_m|^2`` plus the mean of
``(1 - |t_i|)_+``, c = beta / 4, ``t_i = sum_m s_m v_m'x_mi``. As in `mmcopt.bounds.margin_tree`
some samples have labels y_i, the signs of t_i, and a loss of at least ``min(a, 1/n) - a y t``, the
others one of ``psi(g) - g t^2``. Weights s >= 0 with |s|_p <= 1 sum to at most ``spread``, which is
M^(1 - 1/p), so that

    t^2 = (sum_m s_m v_m'x_m)^2 <= spread sum_m s_m (v_m'x_m)^2.

What is left is a sum over kernels, each times its s_m. Where all ``S_m = c I - spread/n sum_i g_i
x_mi x_mi'`` are positive definite its least value over v is ``- sum_m s_m q_m'S_m^-1 q_m / 4``,
``q_m = sum_i a_i y_i x_mi``, and the least of that over s is a norm. So every point of these labels
costs at least, with 1/p + 1/q = 1,

    1/n sum_i psi(g_i) + sum_i min(a_i, 1/n) - | (q_m'S_m^-1 q_m / 4)_m |_q.

A leaf adds one label to a dual point: g of that sample goes to 0, as there, and its weight is about
the best; any would do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.lifted_proof import LiftedProof
from mmcopt.bounds.multi_kernel_lift import norms
from mmcopt.bounds.sign_tree import SignTree
from mmcopt.bounds.weight_lift import psi
from mmcopt.capabilities import KernelMargin
from mmcopt.linalg import UNIT
from mmcopt.types import Floats

HALVINGS = 40  # of the interval of a weight


def most_weight(kernels: int, p: float) -> float:
    """The largest sum of weights s >= 0 of so many kernels with |s|_p <= 1, and no less."""
    return 1.0 if p == 1.0 else float(kernels ** (1.0 - 1.0 / p)) * (1.0 + 16 * UNIT)


class KernelProof(LiftedProof[SignTree]):
    """A certificate over a problem of two classes in several kernels."""

    def __init__(self, margin: KernelMargin, duals: dict[str, Any]) -> None:
        if margin.k != 2:
            raise ValueError("a tree of margins bounds hinge problems of two classes only")
        self.power = np.inf if margin.p == 1.0 else margin.p / (margin.p - 1.0)
        super().__init__(SignTree(duals, margin.parts[0].n), margin.parts, margin.beta / 4, duals,
                         most_weight(len(margin.parts), margin.p))
        self.values = margin.scale * self.values
        self.bounds = [margin.scale * bound for bound in self.bounds]

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        tree, n = self.tree, self.tree.n
        share, at = tree.share[states], tree.added[leaves]
        g, found = self._at(states, share / n, wanted)
        i, label = np.maximum(at, 0), tree.label[leaves]
        gain = psi(g).sum(axis=1) / n + np.minimum(np.abs(share), 1.0).sum(axis=1) / n
        gain *= 1.0 - 4 * (n + 16) * UNIT
        square = np.stack([of.square for of in found], axis=1)
        without = gain - self._norm(square)
        own, scores = (np.stack([getattr(of, name)[row, i] for of in found], axis=1)
                       for name in ("own", "scores"))
        eta, lost = self.spread * g[row, i, None] / n, psi(g[row, i]) / n
        f = 1.0 + eta * own
        fall, slope, curve = eta * scores**2 / f, label[:, None] * scores / f, 0.25 * own / f
        z = self._weights(square[row] - fall, slope, curve)
        terms = square[row] + fall, z[:, None] * np.abs(slope), z[:, None] ** 2 * curve
        size = terms[0] + terms[1] + terms[2]
        after = square[row] - fall + z[:, None] * slope + terms[2] + 64 * UNIT * size
        gained = np.minimum(z, 1.0 / n) * (1.0 - 4 * UNIT) - lost * (1.0 + 8 * UNIT)
        both = gain[row] + gained - self._norm(after)
        both -= 8 * UNIT * (gain[row] + np.abs(gained))
        # Without its own label, and where that gains nothing, a leaf has the bound of its state.
        return np.where(at >= 0, np.maximum(both, without[row]), without[row])

    def _norm(self, square: Floats) -> Floats:
        """The norm of squares, no smaller for rounding."""
        return norms(np.maximum(square, 0.0), self.power) * (1.0 + 64 * UNIT)

    def _weights(self, square: Floats, slope: Floats, curve: Floats) -> Floats:
        """About the best weights >= 0 of the samples that leaves add, by halving."""
        unit = 1.0 / self.tree.n

        def rise(z: Floats) -> Floats:
            """The slope of the norm."""
            now = np.maximum(square + z[:, None] * (slope + z[:, None] * curve), 0.0)
            top = np.maximum(norms(now, self.power), 1e-300)[:, None]
            each = slope + 2.0 * z[:, None] * curve
            if np.isinf(self.power):  # that of the largest, of those the steepest
                return np.asarray(np.where(now >= top * (1.0 - 1e-12), each, -np.inf).max(axis=1))
            return np.asarray(((now / top) ** (self.power - 1.0) * each).sum(axis=1))

        low, high = np.zeros(len(square)), np.full(len(square), unit)
        for _ in range(30):  # beyond 1/n the weight is worth no more
            high = np.where(rise(high) < np.where(high <= unit, 1.0, 0.0), 2 * high, high)
        for _ in range(HALVINGS):
            z = 0.5 * (low + high)
            less = rise(z) < np.where(z < unit, 1.0, 0.0)
            low, high = np.where(less, z, low), np.where(less, high, z)
        return np.asarray(0.5 * (low + high))
