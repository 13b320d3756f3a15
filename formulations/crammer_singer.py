"""Multi-class margins with the labels given: what `CPM3C` becomes when restricted."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import Bounded, ConvexProgram, Program, Separation
from mmcopt.checks import encode_labels
from mmcopt.cuts import LabelCuts, PairCuts
from mmcopt.errors import DataError
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.kernels import Gaussian
from mmcopt.linalg import UNIT
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.modeling import Statement

Floats = NDArray[Any]
Ints = NDArray[np.int64]


class CrammerSinger(CPM3C):
    """The multi-class machine of Crammer and Singer for given labels y, a convex problem.

    Minimise ``beta/2 sum_p |w_p|^2 + 1/n sum_i l(t_y - max_{q != y} t_q)``, t the scores of sample
    i, with the options of `CPM3C`. Any weights s_iq >= 0 of a sample against the other classes,
    with sum_q s_iq within the slopes of l, prove the bound ``1/n sum_i l*(sum_q s_iq) -
    |sum_iq s_iq (e_y - e_q) x_i'|^2 / (2 beta n^2)``, l*(s) = min_m l(m) + s m.
    """

    paper = "Crammer and Singer 2001; the problem of Zhao et al., CPM3C, once labels are given"

    def __init__(self, X: Any, y: Any, n_clusters: int = 2, *, beta: float = 0.03, loss: Any = None,
                 balance: float | None = None, kernel: Any = None, center: bool = True,
                 normalize: bool = True) -> None:
        super().__init__(X, n_clusters, beta=beta, loss=loss, balance=balance, kernel=kernel,
                         center=center, normalize=normalize)
        owner = type(self).__name__
        codes, values = encode_labels(y, self.n, owner=owner)
        self.y = np.array(y, dtype=np.int64) if np.asarray(y).dtype.kind in "iu" else codes
        if len(values) > n_clusters or self.y.min() < 0 or self.y.max() >= n_clusters:
            raise DataError(f"{owner}: y must hold labels 0..{n_clusters - 1} (n_clusters is "
                            f"{n_clusters}); got {values[0]} to {values[-1]}.")

    def statement(self) -> Statement:
        rows = [row for row in super().statement().rows if row[0] not in ("non-convex", "over")]
        rows.insert(1, ("over", f"w_1..w_{self.n_clusters}; t1 the score of the given class, t2 "
                        "that of the best other", ""))
        return Statement(f"CrammerSinger: {self.n} samples with given labels, {self.n_clusters} "
                         "clusters", tuple(rows))

    def objective(self, point: Any) -> float:
        W, T = self.weights(point), self.scores(point)
        return float(self.regulariser(W) + self.loss.value(self._margins(T, self.y)).mean())

    def caution(self, point: Any, labels: Ints | None = None,
                value: float | None = None) -> str | None:
        return None

    def offer(self, kind: type[Any]) -> Any:
        if kind is Separation:
            return Separation(self.features, self.n_clusters, self.beta, self._cuts,
                              balance=self.balance_rows, limit=float(self.balance or 0.0),
                              bound=self._bound)
        if kind is Bounded:
            return Bounded(self._bound, trivial=0.0)
        if kind is ConvexProgram:
            return ConvexProgram(self._program)
        return None

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        return LabelCuts(self.features, self.n_clusters, self.loss, self.y, None)

    def _bound(self, duals: dict[str, Any]) -> float:
        """The bound above, for weights moved to where they are allowed."""
        s = np.maximum(np.nan_to_num(np.asarray(duals["weights"], dtype=np.float64)), 0.0)
        s[np.arange(self.n), self.y] = 0.0
        total = s.sum(axis=1)
        if np.isfinite(self.loss.steepest):
            s /= np.maximum(total / self.loss.steepest, 1.0)[:, None]
            total = np.minimum(s.sum(axis=1), self.loss.steepest)
        coefficients = -s.T
        coefficients[self.y, np.arange(self.n)] += total
        U = self.features.sums(coefficients) / self.n
        price = 0.0
        if self.balance_rows is not None:
            m = len(self.balance_rows)
            eta = np.maximum(np.nan_to_num(np.asarray(duals["balance"], dtype=np.float64)), 0.0)
            U = U + ((eta[:m] - eta[m:]) @ self.balance_rows).reshape(U.shape)
            price = float(self.balance or 0.0) * float(eta.sum())
        gain, square = float(self.loss.conjugate(total).mean()), float(np.sum(U * U))
        value = gain - price - square / (2.0 * self.beta)
        size = float(np.abs(self.loss.conjugate(total)).mean()) + price + square / self.beta
        return value - 8 * (self.n + self.features.d) * UNIT * size

    def _program(self, cuts: Any) -> Program:
        import cvxpy as cp

        Phi, k, n = self.features.dense(), self.n_clusters, self.n
        W, margin = cp.Variable((k, Phi.shape[1]), name="W"), cp.Variable(n, name="margin")
        T = Phi @ W.T
        own: Any = cp.sum(cp.multiply(np.eye(k)[self.y], T), axis=1)
        others = [np.flatnonzero(self.y != q) for q in range(k)]
        above = [margin[i] <= own[i] - T[i, q] for q, i in enumerate(others)]
        limits = [] if self.balance_rows is None else [
            self.balance_rows @ cp.vec(W, order="C") >= -(self.balance or 0.0),
            self.balance_rows @ cp.vec(W, order="C") <= (self.balance or 0.0)]
        value = self.beta / 2 * cp.sum_squares(W) + cp.sum(self.loss.atom(margin)) / n

        def duals() -> dict[str, Any]:
            weights = np.zeros((n, k))
            for q, i in enumerate(others):
                weights[i, q] = n * above[q].dual_value
            return {"weights": weights,
                    "balance": np.concatenate([np.zeros(0), *(c.dual_value for c in limits)])}

        return Program(cp.Problem(cp.Minimize(value), [*above, *limits]),
                       lambda: np.asarray(W.value), duals)

    def reference(self, labels: Ints | None = None) -> Any:
        return super().reference(self.y)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * (np.arange(9).reshape(-1, 1) % 3)
        y = np.arange(9) % 3
        return [cls(X, y, 3, beta=0.05), cls(X, y % 2, 2, loss=SquaredHinge()),
                cls(X, y, 3, loss=Logistic()), cls(X, y % 2, 2, kernel=Gaussian(width=0.5)),
                cls(X + 2.0, y, 3, loss=Hinge(), balance=2.0, center=False)]
