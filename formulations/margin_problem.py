"""What the problems of margins share: samples with features, scores of classes, a balance."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.capabilities import CutRisk
from mmcopt.checks import data_matrix, instance, integer, optional, plural, real, require_memory
from mmcopt.constraints import Balance
from mmcopt.datasets.blocks import as_blocks
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import Kernel, Linear, as_kernel
from mmcopt.kernels.block_features import BlockFeatures, BlockKernelFeatures
from mmcopt.kernels.features import Features, KernelFeatures
from mmcopt.linalg import UNIT
from mmcopt.margins import Hinge, MarginLoss
from mmcopt.margins.cut_models import PairCuts, balanced, top_two
from mmcopt.modeling import Formulation, cached
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints, RowBlocks, Samples

LEVEL = 1e-9  # of the largest score: by less, scores are level but for rounding
Row = tuple[str, str, str]  # of a statement: label, text, LaTeX


class MarginProblem(Formulation):
    """Scores of k classes, linear in features; a point is W = (w_1..w_k), one row a class.

    The first term of the objective is ``beta/2 sum_p |w_p|^2``, the second the mean loss of
    margins between scores; which margins, a subclass says. For all pairs of classes
    ``|sum_i (w_p - w_q)'x_i| <= l``, on which centred features leave nothing to hold.
    """

    negligible = 0.0
    takes_blocks = False  # whether rows may come in blocks
    p = 2.0  # of the ball of kernel weights, where there are several kernels

    def __init__(self, X: Samples, n_clusters: int, *, beta: float, loss: MarginLoss | None,
                 balance: float | Balance | None, kernel: Kernel | str | None, center: bool,
                 normalize: bool,
                 bias: float) -> None:
        owner = type(self).__name__
        blocks = as_blocks(X, owner) if self.takes_blocks else None
        self.X = data_matrix(X, owner=owner) if blocks is None else blocks
        self.n = int(self.X.shape[0])
        integer(2).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        if self.n < self.n_clusters:
            raise DataError(f"{owner}: {plural(self.n, 'sample')} cannot fill "
                            f"{self.n_clusters} clusters.")
        real(0, open_low=True).check(owner, "beta", beta)
        if isinstance(balance, Balance):
            balance = balance.of(self.n)
        optional(real(0)).check(owner, "balance", balance)
        optional(instance(MarginLoss)).check(owner, "loss", loss)
        self.beta = float(beta)
        self.loss = Hinge() if loss is None else loss
        self.balance = None if balance is None else float(balance)
        self.kernel = None if kernel is None else as_kernel(kernel)
        self.center, self.normalize = bool(center), bool(normalize)
        real(0).check(owner, "bias", bias)
        if bias and balance is None:
            raise ParameterError(f"{owner}: a bias without a balance puts all samples into one "
                                 "class; give a balance, such as .1 times the number of samples, "
                                 "or bias=0.")
        self.bias = float(bias)
        if blocks is not None and self.kernel is not None:
            self.kernel.require_blocks(owner)

    # ------------------------------------------------------------ data

    @cached
    def features(self) -> Features:
        """The features, centred and scaled as asked."""
        owner = type(self).__name__
        if self.kernel is None or isinstance(self.kernel, Linear):
            made = BlockFeatures if isinstance(self.X, RowBlocks) else Features
            return made(self.X, center=self.center, normalize=self.normalize, owner=owner,
                        bias=self.bias)
        kernel = self.kernel.centered() if self.center else self.kernel
        kernel = kernel.normalized() if self.normalize else kernel
        of_kernel = BlockKernelFeatures if isinstance(self.X, RowBlocks) else KernelFeatures
        return of_kernel(kernel.fit(self.X, owner=owner), owner, self.bias)

    def rough_words(self) -> str:
        # A margin of 1 takes |W| >= 1 / (2 |x|), so that beta/2 |W|^2 >= beta |W| / (4 |x|), and
        # margins are rounded by `_blur` |W| |x|.
        least = 4.0 * _blur(self.features.d) * self.features.longest / LOST
        name, value, word, safe = self._weighed(least)
        return (f"{name} = {value:g} is too {word} for features of length up to "
                f"{np.sqrt(self.features.longest):.3g}: the rounding of margins counts as much as "
                f"the objective; give a {name} of at {safe}"
                + ("" if self.normalize else ", or normalize=True"))

    def _weighed(self, least: float) -> tuple[str, float, str, str]:
        """The parameter behind beta: its name and value, and how far it may go."""
        return "beta", self.beta, "small", f"least {least:.2g}"

    def uncertainty(self, point: Any) -> float:
        """Rounding of the margins, where the loss feels it, and of the first term."""
        W = self.weights(point)
        blur = _blur(self.features.d) * float(np.linalg.norm(W)) * np.sqrt(self.features.longest)
        felt = float(self.features.total_of(_steepness, W, self.loss, blur)[0]) / self.n
        return self.scale * (blur * felt + 4.0 * (W.size + 8) * UNIT * self.regulariser(W))

    @property
    def magnitude(self) -> float:
        """What all samples cost at W = 0, about."""
        return min(1.0, self.scale)

    def share_features(self, other: MarginProblem) -> None:
        """Take over the features of a problem with the same data, kernel and scaling."""
        self._cache["features"] = other.features

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Columns of W that have a weight of their own; none but for several kernels."""
        return ()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes."""
        return list(itertools.combinations(range(self.n_clusters), 2))

    @cached
    def balance_rows(self) -> Floats | None:
        """Rows r with r W the sums of ``(w_p - w_q)'x_i``; None where the balance holds anyway."""
        if self.balance is None or (self.center and not self.bias):
            return None
        total, d = self.features.total(), self.features.d
        require_memory(24.0 * len(self.pairs) * self.n_clusters * d,
                       f"the balance of {len(self.pairs)} pairs of classes over {d} features",
                       "centre the features, which makes it empty.")
        rows = np.zeros((len(self.pairs), self.n_clusters, d))
        for row, (p, q) in zip(rows, self.pairs, strict=True):
            row[p], row[q] = total, -total
        return rows.reshape(len(rows), -1)

    # ------------------------------------------------------------ points

    def weights(self, point: Any) -> Floats:
        """W of a point."""
        try:
            W = np.asarray(point, dtype=np.float64)
        except (TypeError, ValueError):  # what is no array of numbers
            W = np.empty(0)
        if W.shape != (self.n_clusters, self.features.d) or not np.isfinite(W).all():
            raise DataError(f"{type(self).__name__}: a point is W, finite and of shape "
                            f"({self.n_clusters}, {self.features.d}){self._beside}; "
                            f"got {shown(point)}.")
        return W

    _beside = ""  # what a point holds beside W, in words

    def scores(self, point: Any) -> Floats:
        """Scores (n, k) of the samples."""
        return self.features.scores(self.weights(point))

    def labels(self, point: Any) -> Ints:
        parts = self.features.gathered(_tops, self.weights(point))
        return np.concatenate(parts).astype(np.int64, copy=False)

    def agrees(self, point: Any, labels: Ints) -> bool:
        """Whether labels are those of a point; where scores are level rounding may decide."""
        if super().agrees(point, labels):
            return True
        labels, k = np.asarray(labels), self.n_clusters
        if labels.shape != (self.n,) or labels.dtype.kind not in "iu" or labels.min() < 0 \
                or labels.max() >= k:
            return False
        parts = self.features.gathered(_behind, self.weights(point), along=labels)
        behind, largest = np.max(parts, axis=0)
        return bool(largest > 0.0 and behind <= LEVEL * largest)

    def violation(self, point: Any) -> float:
        if self.balance_rows is None:
            return 0.0
        sums = np.abs(self.balance_rows @ self.weights(point).ravel())
        return max(0.0, (float(sums.max()) - float(self.balance or 0.0)) / self.n)

    def decision_function(self, point: Any, X: Samples) -> Floats:
        return np.asarray(self.features.new(X) @ self.weights(point).T)

    def scorer(self, point: Any) -> Callable[[Samples], Floats]:
        if not isinstance(self.X, RowBlocks):
            return super().scorer(point)
        return functools.partial(_new_scores, self.features.without_rows(), self.weights(point))

    def embedding(self) -> Floats | None:
        return self.features.X if self.features.sparse else self.features.dense()

    def from_labels(self, labels: Ints) -> Any:
        """Class means as scores, as long as the objective likes them best."""
        k = self.n_clusters
        sums = np.sum(self.features.gathered(_class_sums, k, along=np.asarray(labels)), axis=0)
        means = sums / np.maximum(np.bincount(labels, minlength=k), 1.0)[:, None]
        return self.stretched(means - means.mean(axis=0))

    def stretched(self, W: Floats) -> Floats:
        """W at the length that the objective likes best, of many and its own, and balanced."""
        if not W.any():
            return W
        square = self.regulariser(W)
        lengths = np.geomspace(1e-3, 1e3, 61) / max(float(np.linalg.norm(W)), 1e-300)
        lengths = np.append(lengths, 1.0)
        losses = self.features.total_of(_losses, W, self.loss, lengths)[0] / self.n
        values = lengths * lengths * square + losses
        return balanced(W * lengths[int(np.argmin(values))], self.balance_rows, self.balance or 0.0)

    # ------------------------------------------------------------ the objective

    @property
    def scale(self) -> float:
        """What the objective is, beside regulariser and mean loss, a multiple of."""
        return 1.0

    def regulariser(self, W: Floats) -> float:
        """beta/2 |W|^2, in units of the mean loss."""
        return float(0.5 * self.beta * np.sum(W * W))

    def margins_of(self, T: Floats, y: Ints) -> Floats:
        """How far the scores T of the labels y are above the best others."""
        rows, rest = np.arange(self.n), T.copy()
        rest[rows, y] = -np.inf
        return np.asarray(T[rows, y] - rest.max(axis=1))

    def cut_risk(self, **more: Any) -> CutRisk:
        """The problem by its cuts."""
        return CutRisk(self.features, self.n_clusters, self.beta, self._cuts,
                       balance=self.balance_rows, limit=float(self.balance or 0.0),
                       regulariser=self.regulariser, scale=self.scale, blocks=self.blocks,
                       p=self.p, **more)

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        """An empty set of cuts with its anchor at W."""
        raise NotImplementedError

    # ------------------------------------------------------------ in words and in cvxpy

    def rows(self) -> list[Row]:
        """What is minimised, over what, and where, as rows of a statement."""
        k, d = self.n_clusters, self.X.shape[1]
        rows = [
            ("minimise", f"beta/2 sum_p |w_p|^2 + 1/n sum_i l(t1_i - t2_i),  l(m) = "
             f"{self.loss.formula()}",
             r"\tfrac\beta2 \sum_p \|w_p\|^2 + \tfrac1n \sum_i \ell(t^1_i - t^2_i)"),
            ("over", f"w_1..w_{k} in R^{d}; t1 >= t2 the largest of w_p'x_i",
             rf"w_1, \dots, w_{k}"),
        ]
        if self.balance is not None:
            rows.append(("balance", f"|sum_i (w_p - w_q)'x_i| <= {self.balance:g}"
                         + self._emptied(),
                         rf"|\sum_i (w_p - w_q)^\top x_i| \le {self.balance:g}"))
        how = [word for word, on in (("centred", self.center), ("of mean square 1", self.normalize))
               if on]
        rows.append(
            ("where", f"beta = {self.beta:g}; x " + (f"of the kernel {self.kernel!r}"
             if self.kernel is not None else "the features") + (", " if how else "")
             + " and ".join(how) + (f", and a constant one of value {self.bias:g}"
                                    if self.bias else ""), ""))
        return rows

    def _emptied(self) -> str:
        return ", which centring makes empty" if self.balance_rows is None else ""

    def reference(self, labels: Ints | None = None) -> Any:
        """The convex problem of given labels."""
        import cvxpy as cp

        W = cp.Variable((self.n_clusters, self.features.d), name="W")
        first, limits = self.literal_regulariser(W)
        if self.balance_rows is not None:
            limits.append(cp.abs(self.balance_rows @ cp.vec(W, order="C")) <= self.balance)
        return cp.Problem(cp.Minimize(first + self.scale * self.literal_loss(W, labels)), limits)

    def literal_regulariser(self, W: Any) -> tuple[Any, list[Any]]:
        """The first term for a cvxpy variable, and the constraints it needs."""
        import cvxpy as cp

        return self.beta / 2 * cp.sum_squares(W), []

    def literal_loss(self, W: Any, labels: Ints | None) -> Any:
        """The mean loss of a cvxpy variable for given labels, class by class."""
        import cvxpy as cp

        if labels is None:
            raise DataError(f"{type(self).__name__}: the problem is not convex; give the labels "
                            "whose convex problem is meant.")
        T, k, y = self.features.dense() @ W.T, self.n_clusters, np.asarray(labels)
        losses = []
        for p in range(k):
            own = np.flatnonzero(y == p)
            if len(own):
                rest = cp.max(cp.vstack([T[own, q] for q in range(k) if q != p]), axis=0)
                losses.append(cp.sum(self.loss.atom(T[own, p] - rest)))
        return cp.sum(cp.hstack(losses)) / self.n


# ---------------------------------------------------------------- of some rows


def _new_scores(features: Features, W: Floats, X: Samples) -> Floats:
    """Scores of new rows."""
    return np.asarray(features.new(X) @ W.T)


def _tops(part: Features, W: Floats) -> Any:
    """The top classes, in few bytes."""
    return top_two(part.scores(W))[0].astype(np.int16)


def loss_sum(part: Features, W: Floats, loss: MarginLoss) -> tuple[Any, ...]:
    """The sum of the losses of margins between the two largest scores."""
    return (float(loss.value(top_two(part.scores(W))[2]).sum()),)


def _losses(part: Features, W: Floats, loss: MarginLoss, lengths: Floats) -> tuple[Any, ...]:
    """Sums of losses, at multiples of W."""
    margin = top_two(part.scores(W))[2]
    return (np.array([loss.value(s * margin).sum() for s in lengths]),)


def _steepness(part: Features, W: Floats, loss: MarginLoss, blur: float) -> tuple[Any, ...]:
    """The sum of the slopes, at margins that are smaller by rounding."""
    return (float(np.abs(loss.slope(top_two(part.scores(W))[2] - blur)).sum()),)


def _behind(part: Features, labels: Ints, W: Floats) -> tuple[float, float]:
    """How far scores of labels are behind the largest at most, and the largest size of a score."""
    T = part.scores(W)
    own = T[np.arange(part.n), labels]
    return float((T.max(axis=1) - own).max()), float(np.abs(T).max())


def _class_sums(part: Features, labels: Ints, k: int) -> Floats:
    """The sums of the rows of each class, (k, d)."""
    return part.sums((labels == np.arange(k)[:, None]).astype(np.float64))


def _blur(d: int) -> float:
    """What a margin may be off by rounding, per length of W and of a row of d features."""
    return 4.0 * (d + 10) * UNIT


def shown(point: Any) -> str:
    """A point that is none, for a message."""
    if isinstance(point, np.ndarray):
        return f"an array of shape {point.shape}" \
            + (" with NaN or infinity" if point.dtype.kind == "f" and not np.isfinite(point).all()
               else "")
    if isinstance(point, tuple | list):
        return f"a {type(point).__name__} of {', '.join(shown(part) for part in point[:3])}" \
            + (" ..." if len(point) > 3 else "")
    return type(point).__name__
