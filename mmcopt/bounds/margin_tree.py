"""The bound of a tree over labels of a hinge problem of two classes, recomputed from its leaves.

With w = w_1 - w_2, which are w / 2 and - w / 2 without loss, the objective is
``c |w|^2 + 1/n sum_i (1 - |w'x_i|)_+``, c = beta / 4. Let some samples have labels y_i, the signs
of w'x_i. Then ``1/n (1 - y w'x)_+ >= min(a, 1/n) - a y w'x`` for any a_i >= 0, and for any g_i >= 0
``(1 - |w'x|)_+ >= psi(g) - g (w'x)^2``, whatever the label. With one of the two for each sample and
``S = c I - 1/n sum_i g_i x_i x_i'`` positive definite, every w of these labels costs at least

    1/n sum_i psi(g_i) + sum_i min(a_i, 1/n) - q'S^-1 q / 4,    q = sum_i a_i y_i x_i,

psi as in `MarginLift`. Weights above 1/n price signs that w would like to have otherwise. Without
them and with g = 0 it is the machine on the labelled samples (Chapelle, Sindhwani and Keerthi
2006), without labels the lifted margin. The g of all nodes are parts of those of the root, so that
S is definite everywhere once it is there, which `MarginMetric` proves.

A leaf adds one label to a dual point. Then q gains ``z y x`` and, as g of that sample goes to 0, S
gains ``eta x x'``, eta = g / n: all that changes follows from q'S^-1 q, x'S^-1 q and x'S^-1 x, and
z is where the bound is largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.class_margin_tree import ClassProof
from mmcopt.bounds.kernel_tree import KernelProof
from mmcopt.bounds.lifted_proof import LiftedProof, hinge_margin
from mmcopt.bounds.sign_tree import SignTree
from mmcopt.bounds.weight_lift import psi
from mmcopt.capabilities import KernelMargin, MarginRisk
from mmcopt.linalg import UNIT
from mmcopt.types import Floats


class MarginProof(LiftedProof[SignTree]):
    """A certificate over a problem of two classes."""

    def __init__(self, risk: MarginRisk | None, duals: dict[str, Any]) -> None:
        risk = hinge_margin(risk)
        if risk.k != 2:
            raise ValueError("a tree of signs bounds hinge problems of two classes only")
        super().__init__(SignTree(duals, risk.features.n), [risk.features], risk.beta / 4, duals)

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        tree, n = self.tree, self.tree.n
        share = tree.share[states]
        g, [found] = self._at(states, share / n, wanted)
        gain = psi(g).sum(axis=1) / n + np.minimum(np.abs(share), 1.0).sum(axis=1) / n
        base = gain - found.square - 4 * (n + 16) * UNIT * (gain + found.square)
        i, label = np.maximum(tree.added[leaves], 0), tree.label[leaves]
        more = _gained(g[row, i] / n, psi(g[row, i]) / n, found.own[row, i], found.scores[row, i],
                       label, n)
        # Without its own label, and where that gains nothing, a leaf has the bound of its state.
        return base[row] + np.where(tree.added[leaves] >= 0, np.maximum(more, 0.0), 0.0)


def _gained(eta: Floats, lost: Floats, own: Floats, score: Floats, label: Any, n: int) -> Floats:
    """What one more label gains: its g, worth ``lost``, to 0 and its weight z to the best."""
    f = 1.0 + eta * own
    k, r = np.maximum(own / f, 1e-300), label * score / f
    z = np.maximum(2.0 * (1.0 - r) / k, 0.0)
    z = np.where(z <= 1.0 / n, z, np.maximum(-2.0 * r / k, 1.0 / n))
    terms = eta * score**2 / f, np.minimum(z, 1.0 / n), z * r, 0.25 * z * z * k
    return terms[0] + terms[1] - terms[2] - terms[3] - lost - 64 * UNIT * (
        terms[0] + terms[1] + np.abs(terms[2]) + terms[3] + lost)


def margin_proof(f: Any, duals: dict[str, Any]) -> MarginProof | ClassProof | KernelProof:
    """The certificate of a problem of two classes, of more, or of several kernels."""
    several, risk = f.offer(KernelMargin), f.offer(MarginRisk)
    if several is not None:
        return KernelProof(several, duals)
    return (MarginProof if risk is None or risk.k == 2 else ClassProof)(risk, duals)


def tree_bound(f: Any, duals: dict[str, Any]) -> float:
    """The bound that a tree proves for a problem; never below 0."""
    return max(0.0, margin_proof(f, duals).bounds[0])
