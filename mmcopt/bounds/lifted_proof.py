"""What trees of hinge problems have in common: the g of the root, and parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from mmcopt.bounds.label_tree import LabelTree, leaf_values
from mmcopt.bounds.margin_metric import MarginMetric, Squares, sample_rows
from mmcopt.capabilities import MarginRisk
from mmcopt.kernels.features import Features
from mmcopt.linalg import one_thread
from mmcopt.margins import Hinge
from mmcopt.tolerances import LEVELS
from mmcopt.types import Floats

T = TypeVar("T", bound=LabelTree)


class LiftedProof(Generic[T]):
    """A certificate over a problem: the tree, and the bounds of its nodes, recomputed.

    For the features of each kernel ``S = c I - spread/n sum_i g_i x_i x_i'`` is proved to be
    positive definite for the g of the root. Each dual point has parts of these, so that it is so
    everywhere.
    """

    def __init__(self, tree: T, parts: Sequence[Features], c: float, duals: dict[str, Any],
                 spread: float = 1.0) -> None:
        n = parts[0].n
        self.tree, self.spread = tree, spread
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
            self.metrics = [MarginMetric(sample_rows(part), c, spread * self.root)
                            for part in parts]
            if not all(metric.definite for metric in self.metrics):
                raise ValueError("the tree proves nothing: S is not positive definite")
            batch = min(metric.batch for metric in self.metrics)
            self.values = leaf_values(tree, batch, self._batch)
        self.bounds = tree.bounds(self.values)

    def _batch(self, states: Any, row: Any, leaves: Any, wanted: Any) -> Floats:
        """Bounds of some leaves; see `leaf_values`."""
        raise NotImplementedError

    def _at(self, states: Any, weights: Floats, wanted: Any) -> tuple[Floats, list[Squares]]:
        """The g of dual points, and inner products there, of each kernel."""
        g = self.root * self.levels[states] / LEVELS
        drop = self.spread * np.maximum(self.root - g, 0.0)
        return g, [metric.at(drop, weights, wanted) for metric in self.metrics]


def hinge_margin(risk: MarginRisk | None) -> MarginRisk:
    """A margin problem as a tree bounds it, or a ValueError."""
    if risk is None or type(risk.loss) is not Hinge:
        raise ValueError("a tree of margins bounds hinge problems only, without an active balance "
                         "or a floor on sizes")
    return risk
