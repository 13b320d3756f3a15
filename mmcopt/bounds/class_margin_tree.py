"""The bound of a tree over labels of a hinge problem of k classes, recomputed from its leaves.

The objective is ``beta/2 sum_p |w_p|^2 + 1/n sum_i (1 - (t_1 - t_2))_+``, t_1 >= t_2 the two
largest scores of a sample; the w_p sum to 0 without loss. Let some samples have labels y_i, the
classes of their largest scores. Then for any a_iq >= 0 of sum A_i, as ``t_1 - t_2`` is the least
of ``(w_y - w_q)'x`` and that is >= 0,

    1/n (1 - (t_1 - t_2))_+ >= min(A_i, 1/n) - sum_q a_iq (w_y - w_q)'x_i,

and for any g_i >= 0, whatever the label, ``(1 - (t_1 - t_2))_+ >= psi(g) - g k/(k-1) sum_p
(w_p'x)^2``, psi as in `MarginLift`, as the square of the margin is at most that sum. With one of
the two for each sample and ``S = c I - 1/n sum_i g_i x_i x_i'`` positive definite, c = beta (k - 1)
/ (2k), every W of these labels costs at least

    1/n sum_i psi(g_i) + sum_i min(A_i, 1/n) - (k - 1)/(4k) sum_p q_p'S^-1 q_p,

``q_p = sum_i u_ip x_i``, where u_ip is A_i for the label and -a_ip for other classes. For k = 2 it
is the bound of `mmcopt.bounds.margin_tree`.

A leaf adds one label to a dual point: q gains a row times x, and S gains ``eta x x'``, eta = g / n,
as g of that sample goes to 0. All that changes follows from q_p'S^-1 q_p, x'S^-1 q_p and x'S^-1 x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.bounds.class_tree import ClassTree, labels_of
from mmcopt.bounds.lifted_proof import LiftedProof, hinge_margin
from mmcopt.bounds.weight_lift import psi
from mmcopt.capabilities import MarginRisk
from mmcopt.linalg import UNIT
from mmcopt.types import Floats


class ClassProof(LiftedProof[ClassTree]):
    """A certificate over a problem of k classes."""

    def __init__(self, risk: MarginRisk | None, duals: dict[str, Any]) -> None:
        risk = hinge_margin(risk)
        super().__init__(ClassTree(duals, risk.features.n, risk.k), [risk.features],
                         risk.beta * (risk.k - 1) / (2 * risk.k), duals)

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        tree, n = self.tree, self.tree.n
        part, share = (tree.k - 1) / tree.k, tree.share[states]
        total = share.sum(axis=2)  # (B, n)
        classes = np.arange(tree.k)
        u = np.where(labels_of(tree.at[states])[:, :, None] == classes, total[:, :, None], -share)
        g, [found] = self._at(states, np.ascontiguousarray(u.transpose(0, 2, 1)) / n, wanted)
        gain = psi(g).sum(axis=1) / n + np.minimum(total, 1.0).sum(axis=1) / n
        square = part * found.square.sum(axis=1)
        base = gain - square - 4 * (n + tree.k + 16) * UNIT * (gain + square)
        i, label = np.maximum(tree.added[leaves], 0), np.maximum(tree.label[leaves], 0)
        more = _gained(g[row, i] / n, psi(g[row, i]) / n, found.own[row, i],
                       found.scores[row, :, i], label, n)
        # Without its own label, and where that gains nothing, a leaf has the bound of its state.
        return base[row] + np.where(tree.added[leaves] >= 0, np.maximum(more, 0.0), 0.0)


def _gained(eta: Floats, lost: Floats, own: Floats, scores: Floats, label: Any, n: int) -> Floats:
    """What one more label gains: its g, worth ``lost``, to 0 and its row the best, or any other."""
    k = scores.shape[1]
    part, f = (k - 1) / k, 1.0 + eta * own
    scores, own = scores / f[:, None], own / f
    at = np.arange(len(label)), label
    costs = part * (scores[at][:, None] - scores)
    a = best_rows(costs, label, 0.5 * part * own, 1.0 / n)
    total = a.sum(axis=1)
    row = -a
    row[at] = total
    linear = part * (row * scores).sum(axis=1)
    terms = part * eta * f * (scores**2).sum(axis=1), np.minimum(total, 1.0 / n), linear, \
        0.25 * part * own * (row**2).sum(axis=1)
    rough = part * (np.abs(row) * np.abs(scores)).sum(axis=1)
    return terms[0] + terms[1] - terms[2] - terms[3] - lost - 16 * (k + 8) * UNIT * (
        terms[0] + terms[1] + rough + terms[3] + lost)


def best_rows(costs: Floats, label: Any, h: Floats, unit: float) -> Floats:
    """Rows a >= 0 of most ``min(A, unit) - c'a - h/2 (A^2 + |a|^2)``, A their sum, a_label = 0.

    They are ``(theta - c)_+ / h`` with theta + h A the slope of min(A, unit). Costs (B, k) are 0 at
    the labels.
    """
    costs = costs.copy()
    costs[np.arange(len(label)), label] = np.inf
    c, h = np.sort(costs, axis=1)[:, :-1], np.maximum(h, 1e-300)
    free, priced = _thresholds(c, 1.0, np.ones_like(h)), _thresholds(c, 1.0, np.zeros_like(h))
    theta = _thresholds(c, 0.0, h * unit)
    sums = [np.maximum(x[:, None] - c, 0.0).sum(axis=1) / h for x in (free, priced)]
    theta = np.where(sums[0] <= unit, free, np.where(sums[1] >= unit, priced, theta))
    return np.asarray(np.minimum(np.maximum(theta[:, None] - costs, 0.0) / h[:, None], 1e150))


def _thresholds(c: Floats, own: float, right: Floats) -> Floats:
    """Theta with ``own theta + sum_q (theta - c_q)_+ = right``, for sorted rows c.

    It is the least of those with the first one, two, ... of them in the sum.
    """
    count = np.arange(1, c.shape[1] + 1)
    theta = (right[:, None] + np.cumsum(c, axis=1)) / (own + count)
    least = theta.min(axis=1)
    return np.asarray(np.minimum(least, right / own) if own else least)
