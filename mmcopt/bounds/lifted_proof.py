"""What trees of hinge problems of one kernel have in common: the g of the root, and parts of it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from mmcopt.bounds.label_tree import LabelTree, leaf_values
from mmcopt.bounds.margin_metric import MarginMetric, Squares, sample_rows
from mmcopt.capabilities import MarginRisk
from mmcopt.linalg import one_thread
from mmcopt.margins import Hinge
from mmcopt.tolerances import LEVELS
from mmcopt.types import Floats

T = TypeVar("T", bound=LabelTree)


class LiftedProof(Generic[T]):
    """A certificate over a problem: the tree, and the bounds of its nodes, recomputed.

    ``S = c I - 1/n sum_i g_i x_i x_i'``, c = beta (k - 1) / (2k), is proved to be positive definite
    for the g of the root. Each dual point has parts of these, so that it is so everywhere.
    """

    tree: T

    def __init__(self, risk: MarginRisk | None, duals: dict[str, Any]) -> None:
        if risk is None or type(risk.loss) is not Hinge:
            raise ValueError("a tree of margins bounds hinge problems only, without an active "
                             "balance or a floor on sizes")
        n = risk.features.n
        self.tree = tree = self._grown(risk, duals)
        self.root = np.asarray(duals["g"], dtype=np.float64)
        levels = np.asarray(duals["level"])
        if self.root.shape != (n,) or not (np.isfinite(self.root) & (self.root >= 0.0)).all():
            raise ValueError("the tree proves nothing: the g of the root are not numbers >= 0")
        counts = tree.share != 0.0
        counts = counts.any(axis=2) if counts.ndim == 3 else counts
        if levels.shape != counts.shape or levels.dtype.kind not in "iu" \
                or not ((levels >= 0) & (levels <= LEVELS)).all() \
                or (levels.astype(bool) & counts).any():
            raise ValueError("the tree proves nothing: a sample has no part of the root's g, or "
                             "beside it a weight")
        self.levels = levels
        with one_thread:  # matrices are small
            self.metric = MarginMetric(sample_rows(risk.features),
                                       risk.beta * (risk.k - 1) / (2 * risk.k), self.root)
            if not self.metric.definite:
                raise ValueError("the tree proves nothing: S is not positive definite")
            self.values = leaf_values(tree, self.metric.batch, self._batch)
        self.bounds = tree.bounds(self.values)

    def _grown(self, risk: MarginRisk, duals: dict[str, Any]) -> T:
        """The tree, or a ValueError."""
        raise NotImplementedError

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        """Bounds of some leaves; see `leaf_values`."""
        raise NotImplementedError

    def _at(self, states: Any, weights: Floats, wanted: Any) -> tuple[Floats, Squares]:
        """The g of dual points, and inner products there."""
        g = self.root * self.levels[states] / LEVELS
        return g, self.metric.at(np.maximum(self.root - g, 0.0), weights, wanted)
