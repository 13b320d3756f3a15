"""Margins with the labels given: what a problem of the hinge family becomes when restricted."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np

from mmcopt.capabilities import Bounded, ConvexProgram, CutRisk, Program
from mmcopt.checks import encode_labels
from mmcopt.constraints import Balance
from mmcopt.errors import DataError
from mmcopt.formulations.margin_problem import MarginProblem
from mmcopt.kernels import Gaussian, Kernel
from mmcopt.kernels.block_features import BlockFeatures
from mmcopt.kernels.features import Features
from mmcopt.linalg import UNIT
from mmcopt.margins import Hinge, Logistic, MarginLoss, SquaredHinge
from mmcopt.margins.block_floors import OwnRows, label_loss, labels_of
from mmcopt.margins.block_label_cuts import BlockLabelCuts
from mmcopt.margins.cut_models import LabelCuts, PairCuts, rivals_of
from mmcopt.modeling import Statement
from mmcopt.types import Floats, Ints, Labels, RowBlocks, Samples

LARGEST = 1e100  # dual weight that is taken as it is


class GivenLabels(MarginProblem):
    """A problem of margins that given labels ``y`` make convex; `_settle` takes them.

    A class of it says what the margin of a sample is (`_margin`), which is concave in the scores,
    and which weights against classes are dual (`_allowed`).
    """

    default_solver = "CuttingPlane"
    takes_blocks = True
    _meaning = "t1 is the score of the given class, t2 that of the best other; convex"

    @classmethod
    @abstractmethod
    def examples(cls) -> list[Self]:
        """Tiny instances; a class without is no problem of its own."""

    def _settle(self, y: Any) -> None:
        owner, k = type(self).__name__, self.n_clusters
        codes, values = encode_labels(y, self.n, owner=owner)
        self.y = np.array(y, dtype=np.int64) if np.asarray(y).dtype.kind in "iu" else codes
        if len(values) > k or self.y.min() < 0 or self.y.max() >= k:
            raise DataError(f"{owner}: y must hold labels 0..{k - 1} (n_clusters is {k}); got "
                            f"{values[0]} to {values[-1]}.")

    def _margin(self, T: Floats) -> Floats:
        """The margins of the samples at scores T."""
        return self.margins_of(T, self.y)

    def objective(self, point: Any) -> float:
        W = self.weights(point)
        if isinstance(self.X, RowBlocks):
            risk = float(self.features.total_of(label_loss, W, None, self.loss,
                                                along=self._own)[0]) / self.n
        else:
            risk = float(self.loss.value(self._margin(self.scores(point))).mean())
        return float(self.scale * (self.regulariser(W) + risk))

    @property
    def _own(self) -> OwnRows:
        """What each row needs to know: its label."""
        return OwnRows(range(self.n), self.y)

    def statement(self) -> Statement:
        return Statement(f"{type(self).__name__}: {self.n} samples with given labels, "
                         f"{self.n_clusters} clusters", (*self.rows(), (
                             "given", f"labels y; {self._meaning}", ""), ("paper", self.paper, "")))

    # ------------------------------------------------------------ offers

    def offer(self, kind: type[Any]) -> Any:
        if kind is CutRisk:
            return self.cut_risk(bound=self._bound)
        if kind is Bounded:
            return Bounded(self._bound, trivial=0.0)
        if kind is ConvexProgram and not isinstance(self.X, RowBlocks):
            return ConvexProgram(self._program)
        return None

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        cuts = BlockLabelCuts if isinstance(self.features, BlockFeatures) else LabelCuts
        made: PairCuts = cuts(self.features, self.n_clusters, self.loss, self.y, None)
        return made

    def _allowed(self, s: Floats) -> Floats:
        """Weights (n, k) moved to where they are dual; `_total` are the sums that the loss sees."""
        s[np.arange(self.n), self.y] = 0.0
        return s

    def _total(self, s: Floats) -> Floats:
        return np.asarray(s.sum(axis=1))

    def _coefficients(self, s: Floats) -> Floats:
        """What each sample's features are counted in each class by, (k, n), for dual weights."""
        out = -s.T
        out[self.y, np.arange(self.n)] += self._total(s)
        return out

    def _weight_sums(self, duals: dict[str, Any]) -> WeightSums:
        """What dual weights, moved to where they are allowed, add up to."""
        phi, loss = self.features, self.loss
        if isinstance(self.X, RowBlocks):
            a, places = _cuts_of(duals, (self.n_clusters, phi.d))
            return WeightSums(*phi.total_of(_weighed_by_cuts, a, places, loss, along=self._own))
        s = self._allowed(_positive(duals["weights"], (self.n, self.n_clusters)))
        s = _within(s, self._total(s), loss)
        return WeightSums(*_summed(phi, self._coefficients(s), self._total(s), loss))

    def _bound(self, duals: dict[str, Any]) -> float:
        """The dual objective of any weights, moved to where they are allowed, less its rounding."""
        n, k, phi = self.n, self.n_clusters, self.features
        sums = self._weight_sums(duals)
        U = sums.rows / n
        # Rounding of each entry of U: relative to a sum of absolute values, by Cauchy and Schwarz.
        off = np.outer(np.sqrt(sums.squares), phi.lengths) / n
        price = 0.0
        if self.balance_rows is not None:
            m, rows = len(self.balance_rows), self.balance_rows
            eta = _positive(duals["balance"], (2 * m,))
            U = U + ((eta[:m] - eta[m:]) @ rows).reshape(U.shape)
            off = off + ((eta[:m] + eta[m:]) @ np.abs(rows)).reshape(U.shape)
            price = float(self.balance or 0.0) * float(eta.sum())
        square = self._square(np.abs(U) + 4 * (n + k + 8) * UNIT * off)
        value = sums.gain / n - price - square / (2.0 * self.beta)
        size = sums.size / n + price + square / self.beta
        value = self.scale * (value - 8 * (n + phi.d) * UNIT * size)
        return float(value) if value == value else -np.inf

    def _square(self, U: Floats) -> float:
        """Twice what the regulariser, at beta = 1, has as its conjugate at U; grows with |U|."""
        return float(np.sum(U * U))

    # ------------------------------------------------------------ cvxpy

    def _rows(self, T: Any, margin: Any) -> list[tuple[Any, Ints, list[int]]]:
        """Constraints that hold margins down: each with its samples and the classes it counts."""
        import cvxpy as cp

        own: Any = cp.sum(cp.multiply(np.eye(self.n_clusters)[self.y], T), axis=1)
        rows = [(q, np.flatnonzero(self.y != q)) for q in range(self.n_clusters)]
        return [(margin[i] <= own[i] - T[i, q], i, [q]) for q, i in rows]

    def _program(self, cuts: Any) -> Program:
        import cvxpy as cp

        n, k = self.n, self.n_clusters
        W, margin = cp.Variable((k, self.features.d), name="W"), cp.Variable(n, name="margin")
        rows = self._rows(self.features.dense() @ W.T, margin)
        limits = [] if self.balance_rows is None else [
            self.balance_rows @ cp.vec(W, order="C") >= -(self.balance or 0.0),
            self.balance_rows @ cp.vec(W, order="C") <= (self.balance or 0.0)]
        first, cone = self.literal_regulariser(W)
        value = first + self.scale * cp.sum(self.loss.atom(margin)) / n

        def duals() -> dict[str, Any]:
            weights = np.zeros((n, k))
            for row, i, classes in rows:
                for q in classes:
                    weights[i, q] += n / self.scale * row.dual_value
            return {"weights": weights, "balance": np.concatenate(
                [np.zeros(0), *(c.dual_value / self.scale for c in limits)])}

        return Program(cp.Problem(cp.Minimize(value), [*(r[0] for r in rows), *limits, *cone]),
                       lambda: np.asarray(W.value), duals)

    def reference(self, labels: Ints | None = None) -> Any:
        return super().reference(self.y)


def _positive(values: Any, shape: tuple[int, ...]) -> Floats:
    """Duals that are finite and at least 0."""
    found = np.asarray(values, dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"duals must have shape {shape}, got {found.shape}")
    found = np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(found, 0.0, LARGEST)


class WeightSums(NamedTuple):
    """Sums over rows by dual weights: of rows, of squared weights, of what the loss gains."""

    rows: Floats  # (k, d)
    squares: Floats  # (k,)
    gain: float
    size: float  # of its absolute values


def _within(s: Floats, total: Floats, loss: MarginLoss) -> Floats:
    """Weights, so that those of no sample come to more than the slopes of the loss."""
    if not np.isfinite(loss.steepest):
        return s
    return np.asarray(s / np.maximum(total / loss.steepest, 1.0)[:, None])


def _summed(part: Features, A: Floats, total: Floats, loss: MarginLoss) -> tuple[Any, ...]:
    """`WeightSums` of some rows with coefficients A (k, number of rows)."""
    gain = loss.conjugate(np.minimum(total, loss.steepest))
    return part.sums(A), (A * A).sum(axis=1), float(gain.sum()), float(np.abs(gain).sum())


def _cuts_of(duals: dict[str, Any], shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Weights that are told by the multipliers of cuts, and the W where these were made."""
    places = np.asarray(duals["places"], dtype=np.float64)
    if places.ndim != 3 or places.shape[1:] != shape or not np.isfinite(places).all():
        raise ValueError(f"places must have shape (cuts, {shape[0]}, {shape[1]}) and be finite")
    return _positive(duals["multipliers"], (len(places),)), places


def _weighed_by_cuts(part: Features, own: OwnRows, a: Floats, places: Floats,
                     loss: MarginLoss) -> tuple[Any, ...]:
    """`WeightSums` of some rows, whose weights are made anew by cuts."""
    k, y, rows = places.shape[1], labels_of(part, own, None), np.arange(part.n)
    T = part.scores(places.reshape(-1, part.d))
    s = np.zeros((part.n, k))
    for j, weight in enumerate(a):
        other, margin = rivals_of(T[:, j * k:(j + 1) * k], y)
        s[rows, other] += weight * np.maximum(-loss.slope(margin), 0.0)
    s = _within(s, s.sum(axis=1), loss)
    A = -s.T
    A[y, rows] += s.sum(axis=1)
    return _summed(part, A, s.sum(axis=1), loss)


class CrammerSinger(GivenLabels):
    """The multi-class machine of Crammer and Singer for given labels y, a convex problem.

    Minimise ``beta/2 sum_p |w_p|^2 + 1/n sum_i l(t_y - max_{q != y} t_q)``, t the scores of sample
    i, with the options of `CPM3C`. Any weights s_iq >= 0 of a sample against the other classes,
    with sum_q s_iq within the slopes of l, prove the bound ``1/n sum_i l*(sum_q s_iq) -
    |sum_iq s_iq (e_y - e_q) x_i'|^2 / (2 beta n^2)``, l*(s) = min_m l(m) + s m. Of rows in blocks
    the weights are told by the multipliers of the cuts and the W where these were made.
    """

    paper = "Crammer and Singer 2001; the problem of Zhao et al., CPM3C, once labels are given"

    def __init__(self, X: Samples, y: Labels, n_clusters: int = 2, *, beta: float = 0.03,
                 loss: MarginLoss | None = None, balance: float | Balance | None = None,
                 kernel: Kernel | str | None = None, center: bool = True,
                 normalize: bool = True, bias: float = 0.0) -> None:
        super().__init__(X, n_clusters, beta=beta, loss=loss, balance=balance, kernel=kernel,
                         center=center, normalize=normalize, bias=bias)
        self._settle(y)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * (np.arange(9).reshape(-1, 1) % 3)
        y = np.arange(9) % 3
        return [cls(X, y, 3, beta=0.05), cls(X, y % 2, 2, loss=SquaredHinge()),
                cls(X, y, 3, loss=Logistic()), cls(X, y % 2, 2, kernel=Gaussian(width=0.5)),
                cls(X + 2.0, y, 3, loss=Hinge(), balance=2.0, center=False),
                cls(X, y, 3, balance=3.0, bias=10.0)]
