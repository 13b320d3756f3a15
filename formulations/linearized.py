"""The convex problem of one step of the concave-convex procedure."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.formulations.crammer_singer import CrammerSinger, GivenLabels
from mmcopt.formulations.multiple_kernel_machine import MultipleKernelMachine
from mmcopt.linalg import UNIT
from mmcopt.margins.cut_models import HeldCuts, PairCuts
from mmcopt.types import Floats, Ints


class _Linearized(GivenLabels):
    """Margins ``2 t_y - t1 - t2``, the concave part of t1 - t2 held at labels y."""

    takes_blocks = False
    paper = "Zhao et al., CPM3C, eq. 18 to 20, with both leading classes kept"
    _meaning = "t1 - t2 is replaced by 2 t_y - t1 - t2, which is at most that; convex"

    def _margin(self, T: Floats) -> Floats:
        leading = np.partition(T, self.n_clusters - 2, axis=1)[:, -2:].sum(axis=1)
        return np.asarray(2.0 * T[np.arange(self.n), self.y] - leading)

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        return HeldCuts(self.features, self.n_clusters, self.loss, self.y)

    def _allowed(self, s: Floats) -> Floats:
        # A sample is held down by pairs of classes: none has more than all others together.
        rest = np.stack([np.delete(s, q, axis=1).sum(axis=1) for q in range(self.n_clusters)], 1)
        return np.minimum(s, rest * (1.0 - 4 * self.n_clusters * UNIT))

    def _total(self, s: Floats) -> Floats:
        return np.asarray(s.sum(axis=1) / 2.0)

    def _coefficients(self, s: Floats) -> Floats:
        out = -s.T
        out[self.y, np.arange(self.n)] += 2.0 * self._total(s)
        return out

    def _rows(self, T: Any, margin: Any) -> list[tuple[Any, Ints, list[int]]]:
        import cvxpy as cp

        own: Any = cp.sum(cp.multiply(np.eye(self.n_clusters)[self.y], T), axis=1)
        return [(margin <= 2 * own - T[:, p] - T[:, q], np.arange(self.n), [p, q])
                for p, q in self.pairs]

    def literal_loss(self, W: Any, labels: Ints | None) -> Any:
        import cvxpy as cp

        T, k = self.features.dense() @ W.T, self.n_clusters
        losses = [self.loss.atom(2 * T[i, int(y)] - cp.sum_largest(T[i, :], min(2, k)))
                  for i, y in enumerate(self.y)]
        return cp.sum(cp.hstack(losses)) / self.n


class LinearizedCPM3C(_Linearized, CrammerSinger):
    """What a step of the concave-convex procedure solves, at labels y: a convex majoriser of CPM3C.

    Minimise ``beta/2 sum_p |w_p|^2 + 1/n sum_i l(2 t_y - t1 - t2)``, t1 >= t2 the two largest
    scores of sample i. As ``2 t_y - t1 - t2 <= t1 - t2``, with equality where t_y is the largest,
    this is nowhere below CPM3C and touches it at every W whose labels are y: its optimum is no
    worse than any of these. `CrammerSinger` is nowhere above it, and the same for two classes.
    Bounds are those of `CrammerSinger`, for weights of a sample against pairs of classes.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:3,8")
    >>> problem = mm.formulations.CPM3C(X)
    >>> point = mm.solve(problem, seed=0).point
    >>> step = problem.linearize(point)
    >>> abs(step.objective(point) - problem.objective(point)) < 1e-12
    True
    >>> bool(mm.solve(step, seed=0).objective <= problem.objective(point) + 0.01)
    True
    """


class LinearizedMKC(_Linearized, MultipleKernelMachine):
    """What a step of the concave-convex procedure solves for `MKC`; see `LinearizedCPM3C`."""

    paper = "Zhao et al., MKC, eq. 2.13, with both leading classes kept"
