"""Labels as targets of a ridge regression on a kernel: what problems of that kind share."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.capabilities import LabelProblem, LabelQuadratic, LabelRatio, Refit
from mmcopt.capabilities.matrices import Symmetric
from mmcopt.checks import choice, flag, real
from mmcopt.constraints import CannotLinkLike, KnownLike, MustLinkLike, SizesLike
from mmcopt.formulations.kernel_labels import KernelLabels
from mmcopt.formulations.regression_matrix import (
    DenseRegression,
    FactorRegression,
    RegressionMatrix,
)
from mmcopt.kernels import FittedKernel, Gaussian, Kernel
from mmcopt.modeling import cached
from mmcopt.types import Floats, Ints, RowBlocks, Samples

SUMS = 1e-9  # share of an objective that its sums may lose
FEW, EACH = 2.0, 20  # directions a cluster, and samples, of which a fit that is poor is cautioned
WELL = 0.9  # share of what labels differ by that a good fit follows
SINGLE = 2.0**-10  # lam per unit of kernel diagonal from which float32 finds the same labels


class LabelRegression(KernelLabels):
    """Labels c with rules, a kernel K, and R = K (K + lam I)^-1; a point is the labels."""

    flat: ClassVar[float] = 0.0  # W = R + flat J / n is what the objective is made of

    def __init__(self, X: Samples, n_clusters: int, *, kernel: Kernel | str, lam: float,
                 center: bool, scaling: str, sizes: SizesLike, known: KnownLike,
                 must_link: MustLinkLike, cannot_link: CannotLinkLike) -> None:
        super().__init__(X, n_clusters, kernel=kernel, sizes=sizes, known=known,
                         must_link=must_link, cannot_link=cannot_link)
        owner = type(self).__name__
        real(0, open_low=True).check(owner, "lam", lam)
        self.lam = float(lam)
        flag().check(owner, "center", center)
        self.center = bool(center)
        choice("sum", "mean").check(owner, "scaling", scaling)
        self.scaling = scaling

    # ------------------------------------------------------------ matrices

    @cached
    def fitted(self) -> Any:
        """The kernel fitted to the data, centred when asked."""
        return (self.kernel.centered() if self.center else self.kernel).fit(self.X)

    @property
    def shift(self) -> float:
        """What is added to the diagonal of K: lam, or lam n for the averaged scaling."""
        return self.lam * (self.n if self.scaling == "mean" else 1)

    @property
    def unit(self) -> float:
        """What the objective is divided by: 1, or n for the averaged scaling."""
        return float(self.n if self.scaling == "mean" else 1)

    @cached
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of K: worth their price for many values of lam."""
        from scipy.linalg import eigh

        w, V = eigh(self.K, driver="evd")
        return w, V

    @cached
    def regression(self) -> RegressionMatrix:
        """R = K (K + lam I)^-1 and what it leaves: dense, or of a factor of few features."""
        owner = type(self).__name__
        if self.low_rank:
            return FactorRegression(owner, self._features(), self.fitted.feature_error(),
                                    self.shift, self._named, self.center, self.flat)
        spectrum = (lambda: self.spectrum) if self._cache.get("by_spectrum", False) else None
        return DenseRegression(owner, self.n, self._entries, self.shift, self._named, self.center,
                               self.flat, spectrum)

    def _entries(self) -> tuple[Floats, float, float]:
        """The kernel matrix, the error of an entry, and how large entries are."""
        error, size = self.fitted.accuracy()
        return self.K, error, max(float(np.abs(np.diagonal(self.K)).max()), size / 4)

    @property
    def _named(self) -> tuple[str, float]:
        """The parameter that makes the shift, and what one unit of it adds."""
        return "lam", float(self.n if self.scaling == "mean" else 1)

    @property
    def W(self) -> Symmetric:
        """R + flat J / n: dense, or a factor when the kernel has few features."""
        return self.regression.matrix

    @property
    def rounding(self) -> tuple[float, float]:
        """How far rounding may take the objective by W: a share of it, and an absolute part."""
        return self.regression.rounding

    @cached
    def effective_dimension(self) -> float:
        """The trace of R: how many directions fits follow, those of eigenvalues of K above lam."""
        return float(self.W.diagonal().sum()) - self.flat

    def caution(self, point: Any, labels: Ints | None = None,
                value: float | None = None) -> str | None:
        k = self.n_clusters
        if k == 1 or self.n < EACH * k or not isinstance(self.kernel, Gaussian) \
                or self.effective_dimension >= FEW * k:
            return None
        c = np.asarray(point)
        each = self.W.within_each(c, k) / np.maximum(np.bincount(c, minlength=k), 1)
        followed = float(each.sum() - self.flat) / (k - self.center)
        if followed >= WELL:
            return None
        return (f"the fits follow {self.effective_dimension:.3g} directions (effective_dimension), "
                f"few for {k} clusters, and {max(followed, 0.0):.0%} of what these differ by; a "
                "narrower kernel follows more, such as "
                f"mmcopt.selection.resolving(X, {k}), and so does a smaller lam")

    def uncertainty(self, point: Ints) -> float:
        return self.rounding[0] * abs(self.objective(point))

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Share what the changed arguments leave alone."""
        if changed & {"X", "kernel", "center"}:
            return
        keep = {"fitted", "K", "spectrum", "low_rank"}
        if not changed & {"lam", "scaling"}:
            other._over_labels  # noqa: B018 (made, so that W is shared)
            keep.add("regression")
        self._cache.update({k: v for k, v in other._cache.items() if k in keep})

    def path(self, lams: Sequence[float]) -> list[Self]:
        """Return this problem at several lam; kernel and, when there are many, spectrum shared.

        An eigendecomposition costs about as much as 4 Cholesky inverses at n = 1800 and 9 at 4000.
        """
        return self._along("lam", lams)

    def _along(self, name: str, values: Sequence[float]) -> list[Self]:
        many = len(values) >= max(4, self.n // 450)
        if not self.low_rank:
            self.spectrum if many else self.K  # noqa: B018
        cells = [self.replace(**{name: float(value)}) for value in values]
        for cell in cells:  # said here, so that R does not depend on what else was asked before
            cell._cache["by_spectrum"] = many
        return cells

    def forget(self) -> None:
        """Drop R, which is rebuilt when it is asked for; the kernel matrix stays."""
        self._cache.pop("regression", None)
        self._cache.pop("_over_labels", None)
        self._cache.pop("offers", None)

    # ------------------------------------------------------------ capabilities

    def offer(self, kind: type[Any]) -> Any:
        if kind is LabelQuadratic or kind is LabelRatio:
            return self._over_labels if isinstance(self._over_labels, kind) else None
        lq = self._over_labels if kind is Refit else None
        if self.n_clusters == 2 and isinstance(lq, LabelQuadratic):
            low, high = self.rules.low, self.rules.high
            return Refit(lambda v: np.asarray(self.W @ v), self.shift, lambda v, labels: labels,
                         lambda rng: lq.expand(lq.random_labels(rng)),
                         lambda labels, rng: lq.expand(lq.repair(lq.reduce(labels), rng)),
                         max(int(low[1]), self.n - int(high[0])),
                         min(int(high[1]), self.n - int(low[0])))
        return None

    @property
    @abstractmethod
    def _over_labels(self) -> LabelProblem:
        """The objective as a function of the labels and one matrix."""

    # ------------------------------------------------------------ models of given labels

    @property
    def _single(self) -> bool:
        """Whether float32 is precise enough to search with."""
        if self.n <= 64:
            return False  # nothing to gain
        scale = float(np.mean(np.diagonal(self.K))) if not self.low_rank else 1.0
        return self.shift >= SINGLE * scale

    @property
    def targets(self) -> Floats:
        """What samples of each cluster are fitted to, one row a cluster."""
        return 2.0 * np.eye(self.n_clusters) - 1.0

    def coefficients(self, labels: Ints) -> Floats:
        """The best model for given labels: one column a cluster.

        Dual coefficients (K + lam I)^-1 P = (P - R P) / lam, or weights of the features when R is
        held as a factor.
        """
        return self._fit(labels, self.targets)

    def _fit(self, labels: Ints, targets: Floats) -> Floats:
        """The best model for the targets of labels, in the coefficients that `coefficients` has.

        The last one is kept: blocks are predicted one after another.
        """
        labels, last = np.array(labels), self._cache.get("model")
        if last is not None and np.array_equal(last[0], labels) \
                and np.array_equal(last[1], targets):
            return np.asarray(last[2])
        if isinstance(self.regression, FactorRegression):
            A = self.regression.weights(labels, targets)
        else:
            P = targets[labels]
            A = np.asarray((P - self.W @ P) / self.shift)
        self._cache["model"] = labels, targets, A
        return A

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        """f_h(x) of each cluster for new samples; on the training rows it is R P."""
        return self._predicted(self.coefficients(point), X)

    def scorer(self, point: Ints) -> Callable[[Samples], Floats]:
        if not isinstance(self.X, RowBlocks):
            return super().scorer(point)
        return functools.partial(_fitted_scores, self.fitted, *self._linear(point))

    def _linear(self, point: Ints) -> tuple[Floats, Floats]:
        """Weights of the features, and an offset: the decision function where R is a factor."""
        return self.coefficients(point), np.zeros(self.n_clusters)

    def _predicted(self, A: Floats, X: Samples) -> Floats:
        """The values of models at new samples."""
        rows = self.fitted.new_features(X) if self.low_rank else self.fitted.cross(X)
        return np.asarray(rows @ A)


def _fitted_scores(fitted: FittedKernel, A: Floats, offset: Floats, X: Samples) -> Floats:
    """Scores of new rows, linear in their features."""
    return np.asarray(np.asarray(fitted.new_features(X)) @ A + offset)
