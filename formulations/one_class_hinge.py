"""The one-class hinge problem: the domain of the data as a half-space of the feature space."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mmcopt.capabilities import (
    Bounded,
    BoxDual,
    ConvexProgram,
    CutRisk,
    DomainRisk,
    Program,
    Subgradient,
)
from mmcopt.checks import data_matrix, plural, real
from mmcopt.errors import DataError
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial
from mmcopt.kernels.features import Features, KernelFeatures
from mmcopt.kernels.on_demand import kernel_root, row_weights
from mmcopt.linalg import UNIT
from mmcopt.margins import Hinge
from mmcopt.margins.cut_models import DomainCuts
from mmcopt.modeling import Statement, cached
from mmcopt.modeling.domain_problem import PLAIN, KernelDomain
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints, Samples

EIGENVECTOR_SAMPLES = 2000  # samples up to which the eigenvectors of a kernel matrix are features
LARGE = 5000  # samples up to which c_min is computed for a warning


class OneClassHinge(KernelDomain):
    """A half-space that holds the data, as far from the origin as the hinge loss allows.

    Minimise ``J(w) = |w|^2 / 2 + C sum_i s_i max(0, 1 - w'phi(x_i))`` with s_i = 1/n, or the share
    of a sample in the sum of ``sample_weight`` (SGD-LMSVC, eq. 1). A point is the vector a of
    w = sum_i a_i phi(x_i); the decision function is f(x) = w'phi(x) - 1, and `labels` are 1 where
    it is not negative (inside the domain) and 0 elsewhere. Clusters are the connected parts of the
    domain: see `mmcopt.assignment`.

    The dual is ``max sum_i a_i - a'Ka / 2`` over 0 <= a_i <= C s_i, so any point, clipped to that
    box, proves a bound. The trivial bound is 0, and w = 0 costs C. Nothing is centred: a domain is
    the part of space that is far from the origin of the feature space.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=200,noise=.05,seed=0")
    >>> problem = OneClassHinge(X, C=1000.0, kernel=Gaussian(gamma=10.0))
    >>> result = mm.solve(problem, seed=0)
    >>> result.gap <= 1e-3, bool(result.verify())
    (True, True)
    """

    paper = "Pham et al., SGD-LMSVC, eq. 1"
    default_solver = "DualCoordinate"
    weighs = real(0, open_low=True)

    def __init__(self, X: Samples, *, C: float = 100.0, kernel: Kernel | str = PLAIN,
                 sample_weight: ArrayLike | None = None) -> None:
        super().__init__(X, C, kernel, sample_weight)

    # ------------------------------------------------------------ the problem

    def statement(self) -> Statement:
        weights = "1/n" if self.sample_weight is None else "share of sample_weight"
        fitted = self.rows.fitted
        return Statement(f"OneClassHinge: {plural(self.n, 'sample')}", (
            ("minimise", "J(w) = |w|^2 / 2 + C sum_i s_i max(0, 1 - w'phi(x_i))",
             r"J(w) = \tfrac12 \|w\|^2 + C \sum_i s_i \max(0, 1 - w^\top \phi(x_i))"),
            ("over", "w = sum_i a_i phi(x_i)", r"w = \sum_i a_i \phi(x_i)"),
            ("dual", "sum_i a_i - a'Ka / 2 over 0 <= a_i <= C s_i",
             r"\max_{0 \le a_i \le C s_i} \mathbf 1^\top a - \tfrac12 a^\top K a"),
            ("where", f"C = {self.C:g}, s_i = {weights}, K: {fitted.formula()}",
             rf"C = {self.C:g}, \quad k(x, z) = {fitted.latex()}"),
            ("domain", "f(x) = w'phi(x) - 1 >= 0; clusters are its connected parts",
             r"f(x) = w^\top \phi(x) - 1 \ge 0"),
            ("convex", "an optimum, and a bound from any a", ""),
            ("paper", self.paper, ""),
        ))

    def objective(self, point: Floats) -> float:
        a, scores = self._point(point), self.scores(point)
        return float(0.5 * (a @ scores) + self.upper @ np.maximum(1.0 - scores, 0.0))

    def uncertainty(self, point: Floats) -> float:
        """Rounding of the scores, where the loss feels it, and of |w|^2."""
        total = float(np.abs(self._point(point)).sum())
        felt = float(self.upper @ (self.scores(point) < 1.0 + self.blur * total))
        return self.blur * total * (felt + total)

    def rough_words(self) -> str:
        error, size = self.rows.fitted.accuracy()
        most = LOST / (4.0 * (error + (self.n + 8) * UNIT * size))
        return (f"C = {self.C:g} is too large for {self.n} samples and kernel values up to "
                f"{size:.3g}: it makes the rounding of scores as large as the objective; give a C "
                f"of at most {most:.2g}")

    def labels(self, point: Floats) -> Ints:
        return (self.scores(point) >= self._edge(point)).astype(np.int64)

    def _edge(self, point: Floats) -> float:
        """Where the domain ends: at 1 but for rounding, as the samples that carry it lie there."""
        return 1.0 - float(self.blur * np.abs(self._point(point)).sum())

    def agrees(self, point: Floats, labels: Ints) -> bool:
        """Whether labels are those of a point; on the edge of the domain rounding may decide."""
        return self.within(self.scores(point) - 1.0, point, labels)

    def caution(self, point: Floats, labels: Ints | None = None,
                value: float | None = None) -> str | None:
        """An empty domain, and the smallest C that gives another."""
        a, top = self._point(point), float(self.scores(point).max())
        if top >= self._edge(a) or not a.any():  # w = 0 is where a solver was stopped at once
            return None
        if self.n > LARGE and not np.allclose(a, self.upper, rtol=1e-9, atol=0.0):
            return ("no sample is inside the domain; problem.c_min() computes the C above which "
                    "there is one.")
        least = self.c_min() if self.n <= LARGE else self.C / top
        if math.isinf(least):
            return "the domain is empty for every C: w = 0 is optimal for this kernel and data."
        if least < self.C:
            return (f"no sample is inside the domain, though domains begin above C = {least:.6g} "
                    f"and C is {self.C:g}: solve to a smaller gap.")
        return (f"the domain is empty: at C = {self.C:g} no sample is inside it, and every a_i is "
                f"at its bound; domains begin above C = {least:.6g}.")

    def c_min(self) -> float:
        """The C up to which the domain is empty: 1 / max_i sum_j K_ij s_j (n^2 kernel values).

        Where that maximum is not positive there is a domain for no C, and this is infinite.
        """
        known, key = self.rows.known.setdefault("c_min", {}), self.share.tobytes()
        if key not in known:
            top = float(self.rows.times(self.share).max())
            # A few ulps of the data, and the rounding of the sums.
            tiny = 4 * (self.n + 8) * UNIT * float(np.abs(self.rows.diagonal).max())
            known[key] = 1.0 / top if top > tiny else math.inf
        return float(known[key])

    @property
    def magnitude(self) -> float:
        """What w = 0 costs."""
        return min(1.0, self.C)

    def nu(self, point: Floats) -> float:
        """The nu of the same domain in scikit-learn's ``OneClassSVM``: sum_i a_i / C."""
        return float(self._point(point).sum() / self.C)

    @classmethod
    def from_one_class_svm(cls, model: Any, X: Any,
                           sample_weight: ArrayLike | None = None) -> tuple[Self, Floats]:
        """The problem that a fitted ``OneClassSVM`` has solved on X, and its point.

        For the kernels "rbf", "linear" and "poly", and with the ``sample_weight`` it was fitted
        with. Its coefficients divided by its offset are the a of the problem with C = sum a / nu.
        """
        X = data_matrix(X, owner=cls.__name__)
        if not hasattr(model, "support_") or model.kernel not in ("rbf", "linear", "poly"):
            raise DataError(f"{cls.__name__}: only a fitted OneClassSVM with an rbf, linear or "
                            f"poly kernel can be converted; got {model!r}.")
        offset = float(np.ravel(model.offset_)[0])
        w = np.ones(X.shape[0]) if sample_weight is None \
            else row_weights(sample_weight, X.shape[0], cls.__name__)
        used = np.flatnonzero(w > 0)  # LIBSVM leaves out the others, and counts without them
        support = used[model.support_] if len(used) > model.support_.max(initial=-1) else used[:0]
        same = X[support].shape == model.support_vectors_.shape \
            and abs(X[support] - model.support_vectors_).max() == 0
        if not same:
            raise DataError(f"{cls.__name__}: this OneClassSVM was not fitted on this X, or with "
                            "other weights; pass the X and the sample_weight of its fit.")
        if not offset > 0.0:
            raise DataError(f"{cls.__name__}: the offset of this OneClassSVM is {offset:g}, so its "
                            "domain is bounded by no level of the decision function.")
        a = np.zeros(X.shape[0])
        a[support] = np.ravel(model.dual_coef_) / offset
        gamma = float(model._gamma)
        kernel = {"rbf": Gaussian(gamma=gamma), "linear": Linear()}.get(model.kernel)
        if kernel is None:  # (gamma x'z + coef0)^degree
            kernel = gamma**model.degree * Polynomial(model.degree, model.coef0 / gamma)
        problem = cls(X, C=float(a.sum() / model.nu), kernel=kernel, sample_weight=sample_weight)
        if (a > problem.upper * (1 + 1e-6)).any():
            raise DataError(f"{cls.__name__}: the coefficients of this OneClassSVM exceed their "
                            "bounds; pass the sample_weight of its fit.")
        return problem, a

    def decision_function(self, point: Floats, X: Samples) -> Floats:
        """w'phi(x) - 1 for new rows; not negative inside the domain."""
        return self.rows.at(self._point(point), X) - 1.0

    # ------------------------------------------------------------ offers

    def offer(self, kind: type[Any]) -> Any:
        if kind is BoxDual:
            return BoxDual(self.upper, self.rows)
        if kind is CutRisk and (self.n <= EIGENVECTOR_SAMPLES or self.rows.features is not None):
            return CutRisk(self.features, 1, 1.0 / self.C, self._cuts, bound=self._bound,
                              point=lambda W, a: a, weights=self._weights, scale=self.C)
        if kind is Subgradient:
            return DomainRisk(self.rows, self.C, self.share)
        if kind is Bounded:
            return Bounded(self._bound, lambda point: {"a": np.asarray(point)}, trivial=0.0)
        if kind is ConvexProgram:
            return ConvexProgram(self._program)
        return None

    @cached
    def features(self) -> Features:
        """The kernel's own features, or those of its matrix."""
        return KernelFeatures(self.rows.fitted, type(self).__name__)

    def _weights(self, point: Floats) -> Floats:
        """W, one row, of a point."""
        return self.features.sums(self._point(point)[None])

    def _cuts(self, W: Floats, kind: str, start: Any) -> DomainCuts:
        a = np.zeros(self.n) if start is None else self._point(start)
        return DomainCuts(self.features, Hinge(), self.share, self.C, a)

    def _bound(self, duals: dict[str, Any]) -> float:
        """The dual objective of a, clipped to the box, less its rounding and that of the kernel."""
        a = np.clip(self._point(np.nan_to_num(duals["a"])), 0.0, self.upper)
        linear, square = float(a.sum()), float(a @ self.scores(a))
        return linear - 0.5 * square - 0.5 * self.entry_error * linear**2 \
            - self.rounding(linear + 0.5 * self.square_rounding(a))

    def _program(self, cuts: Any) -> Program:
        import cvxpy as cp

        L, upper = kernel_root(self.rows.fitted), self.upper
        a = cp.Variable(self.n, name="a")
        dual = cp.sum_squares(L.T @ a) / 2 - cp.sum(a)
        problem = cp.Problem(cp.Minimize(dual), [a >= 0, a <= upper])
        return Program(problem, lambda: np.clip(np.asarray(a.value), 0.0, upper),
                       lambda: {"a": a.value})

    def reference(self, labels: Ints | None = None) -> Any:
        import cvxpy as cp

        L = kernel_root(self.rows.fitted)
        v = cp.Variable(L.shape[1], name="v")
        loss = self.upper @ cp.pos(1 - L @ v)
        return cp.Problem(cp.Minimize(cp.sum_squares(v) / 2 + loss))

    @classmethod
    def examples(cls) -> list[Self]:
        X = cls.clouds()
        return [cls(X, C=5.0, kernel=Gaussian(gamma=0.5)),
                cls(X, C=40.0, kernel=Gaussian(gamma=0.2)),
                cls(X, C=4.0, kernel=Gaussian(gamma=0.5), sample_weight=1.0 + np.arange(10) % 3),
                cls(X + 3.0, C=5.0, kernel=Linear()),
                cls(X, C=8.0, kernel=Polynomial(2)),
                cls(X, C=20.0, kernel=Gaussian(gamma=0.3).nystroem(5))]

