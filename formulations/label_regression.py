"""Labels as targets of a ridge regression on a kernel: what problems of that kind share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.capabilities import LabelQuadratic, Refit
from mmcopt.capabilities.matrices import Dense, Symmetric
from mmcopt.checks import choice, data_matrix, flag, integer, is_sparse, real, require_memory
from mmcopt.constraints import (
    CannotLink,
    CannotLinkLike,
    Known,
    KnownLike,
    LabelRules,
    MustLink,
    MustLinkLike,
    SizesLike,
    as_sizes,
    resolve,
)
from mmcopt.errors import DataError
from mmcopt.formulations.regression_matrix import (
    DenseRegression,
    FactorRegression,
    RegressionMatrix,
)
from mmcopt.kernels import Kernel, as_kernel
from mmcopt.linalg import require_psd
from mmcopt.modeling import Formulation, cached
from mmcopt.types import Floats, Ints, Samples

SUMS = 1e-9  # share of an objective that its sums may lose
SINGLE = 2.0**-10  # lam per unit of kernel diagonal from which float32 finds the same labels


class LabelRegression(Formulation):
    """Labels c with rules, a kernel K, and R = K (K + lam I)^-1; a point is the labels."""

    negligible = 0.0
    flat: ClassVar[float] = 0.0  # W = R + flat J / n is what the objective is made of

    def __init__(self, X: Samples, n_clusters: int, *, kernel: Kernel | str, lam: float,
                 center: bool, scaling: str, sizes: SizesLike, known: KnownLike,
                 must_link: MustLinkLike, cannot_link: CannotLinkLike) -> None:
        owner = type(self).__name__
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        integer(1).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        self.kernel = as_kernel(kernel)
        real(0, open_low=True).check(owner, "lam", lam)
        self.lam = float(lam)
        flag().check(owner, "center", center)
        self.center = bool(center)
        choice("sum", "mean").check(owner, "scaling", scaling)
        self.scaling = scaling
        self.sizes = as_sizes(sizes)
        self.known = known if known is None or isinstance(known, Known) else Known(known)
        self.must_link = must_link if must_link is None or isinstance(must_link, MustLink) \
            else MustLink(must_link)
        self.cannot_link = cannot_link if cannot_link is None \
            or isinstance(cannot_link, CannotLink) else CannotLink(cannot_link)
        self.rules: LabelRules = resolve(self.n, self.n_clusters, sizes=self.sizes,
                                         known=self.known, must_link=self.must_link,
                                         cannot_link=self.cannot_link)

    # ------------------------------------------------------------ matrices

    @cached
    def fitted(self) -> Any:
        """The kernel fitted to the data, centred when asked."""
        return (self.kernel.centered() if self.center else self.kernel).fit(self.X)

    @property
    def _rows_agree(self) -> bool:
        """Whether all rows of X, not sparse, are one."""
        return not is_sparse(self.X) and bool((self.X == self.X[0]).all())

    @property
    def shift(self) -> float:
        """What is added to the diagonal of K: lam, or lam n for the averaged scaling."""
        return self.lam * (self.n if self.scaling == "mean" else 1)

    @property
    def unit(self) -> float:
        """What the objective is divided by: 1, or n for the averaged scaling."""
        return float(self.n if self.scaling == "mean" else 1)

    @cached
    def K(self) -> Floats:
        """The kernel matrix, checked to be positive semidefinite and not constant."""
        require_memory(20.0 * self.n**2, f"the {self.n} x {self.n} kernel matrix and its inverse",
                       "use a low-rank kernel: kernel.nystroem(500).")
        K = np.asarray(self.fitted.matrix())
        if float(K.max() - K.min()) <= 8 * self.fitted.accuracy()[0]:
            close = "" if self._rows_agree else f" {self.kernel!r}, whose values agree to the " \
                "last digit on these rows: rescale X, give a smaller width or a larger gamma"
            raise DataError(f"{type(self).__name__}: the kernel matrix is constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            f"kernel{close}.")
        if not self.fitted.psd:
            require_psd(K, type(self).__name__)
        return K

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

    @cached
    def low_rank(self) -> bool:
        """Whether R is held as a factor: where it takes no more room than a triangle of R."""
        count = self.fitted.feature_count
        return count is not None and 2 * count <= self.n + 1

    def _features(self) -> Floats:
        """Phi with K = Phi Phi', checked to tell the samples apart."""
        Phi = self.fitted.features()
        if not self.kernel.reads_matrix and self._rows_agree:
            raise DataError(f"{type(self).__name__}: all rows of X are identical, so nothing tells "
                            "the samples apart.")
        if float(np.ptp(Phi, axis=0).max(initial=0.0)) <= 1e-12 * float(np.abs(Phi).max(initial=0)):
            raise DataError(f"{type(self).__name__}: the kernel features are constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            "kernel.")
        return np.asarray(Phi)

    @property
    def rounding(self) -> tuple[float, float]:
        """How far rounding may take the objective by W: a share of it, and an absolute part."""
        return self.regression.rounding

    def uncertainty(self, point: Ints) -> float:
        return self.rounding[0] * abs(self.objective(point))

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Share what the changed arguments leave alone."""
        if changed & {"X", "kernel", "center"}:
            return
        keep = {"fitted", "K", "spectrum", "low_rank"}
        if not changed & {"lam", "scaling"}:
            other._quadratic  # noqa: B018 (made, so that W is shared)
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
        self._cache.pop("_quadratic", None)
        self._cache.pop("offers", None)

    # ------------------------------------------------------------ capabilities

    def offer(self, kind: type[Any]) -> Any:
        if kind is LabelQuadratic:
            return self._quadratic
        if kind is Refit and self.n_clusters == 2:
            low, high, lq = self.rules.low, self.rules.high, self._quadratic
            return Refit(lambda v: np.asarray(self.W @ v), self.shift, lambda v, labels: labels,
                         lambda rng: lq.expand(lq.random_labels(rng)),
                         lambda labels, rng: lq.expand(lq.repair(lq.reduce(labels), rng)),
                         max(int(low[1]), self.n - int(high[0])),
                         min(int(high[1]), self.n - int(low[0])))
        return None

    @property
    @abstractmethod
    def _quadratic(self) -> LabelQuadratic:
        """The objective as a quadratic of the labels."""

    # ------------------------------------------------------------ models of given labels

    @property
    def _single(self) -> bool:
        """Whether float32 is precise enough to search with."""
        if self.n <= 64:
            return False  # nothing to gain
        scale = float(np.mean(np.diagonal(self.K))) if not self.low_rank else 1.0
        return self.shift >= SINGLE * scale

    def coefficients(self, labels: Ints) -> Floats:
        """The best model for given labels: one column a cluster.

        Dual coefficients (K + lam I)^-1 P = (P - R P) / lam, or weights of the features when R is
        held as a factor.
        """
        P = np.full((self.n, self.n_clusters), -1.0)
        P[np.arange(self.n), labels] = 1.0
        if self.low_rank:
            Phi = self.fitted.features()
            gram = Phi.T @ Phi
            gram[np.diag_indices(len(gram))] += self.shift
            return np.asarray(np.linalg.solve(gram, Phi.T @ P))
        return np.asarray((P - self.W @ P) / self.shift)

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        """f_h(x) of each cluster for new samples; on the training rows it is R P."""
        A = self.coefficients(point)
        rows = self.fitted.new_features(X) if self.low_rank else self.fitted.cross(X)
        return np.asarray(rows @ A)

    def literal_labels(self) -> tuple[Any, list[Any]]:
        """The indicators Z of labels as cvxpy variables, and the rules as their constraints."""
        import cvxpy as cp

        Z: Any = cp.Variable((self.n, self.n_clusters), boolean=True, name="Z")
        sizes = cp.sum(Z, axis=0)
        constraints = [cp.sum(Z, axis=1) == 1, sizes >= self.rules.low, sizes <= self.rules.high]
        node, fixed, apart = self.rules.groups, self.rules.fixed, self.rules.apart
        first = np.unique(node, return_index=True)[1]  # a sample of each must-linked group
        constraints += [Z[i] == Z[first[node[i]]] for i in range(self.n) if i != first[node[i]]]
        constraints += [Z[first[g], fixed[g]] == 1 for g in np.flatnonzero(fixed >= 0)]
        constraints += [Z[first[a]] + Z[first[b]] <= 1 for a, b in apart]
        return Z, constraints

    # ------------------------------------------------------------ points

    def violation(self, point: Ints) -> float:
        return self.rules.violation(np.asarray(point))

    def labels(self, point: Ints) -> Ints:
        return np.asarray(point)

    def embedding(self) -> Floats | None:
        if self.kernel.reads_matrix or is_sparse(self.X):
            return None
        return np.asarray(self.X, dtype=np.float64)

    # ------------------------------------------------------------ words

    def kernel_words(self) -> str:
        """The kernel as a formula."""
        return str(self.fitted.formula())

    def _constraint_words(self) -> tuple[str, str]:
        low, high = self.rules.low, self.rules.high
        one = (low == low[0]).all() and (high == high[0]).all()
        lo, hi = (str(low[0]), str(high[0])) if one else (f"{low.tolist()}", f"{high.tolist()}")
        words = [f"{lo} <= |cluster h| <= {hi}"]
        for given, what in ((self.known, "known labels"), (self.must_link, "must-links"),
                            (self.cannot_link, "cannot-links")):
            if given is not None:
                count = len(given.labels if isinstance(given, Known) else given.pairs)
                words.append(f"{count} {what}")
        tex = rf"{lo} \le |\{{i : c_i = h\}}| \le {hi}" if one else ""
        return ", ".join(words), tex


class Contracted(Dense):
    """B'WB of a matrix that may not be built yet."""

    def __init__(self, W: Symmetric, groups: Ints, m: int) -> None:
        super().__init__(n=m, build=lambda: W.contract(groups, m).dense())
