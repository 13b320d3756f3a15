"""The one-class hinge problem: the domain of the data as a half-space of the feature space."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import Bounded, BoxDual, ConvexProgram, Program, Subgradient
from mmcopt.checks import data_matrix, plural, read_only, real
from mmcopt.errors import DataError
from mmcopt.kernel_rows import KernelRows, kernel_root, row_weights
from mmcopt.kernels import Gaussian, Linear, Polynomial, as_kernel
from mmcopt.linalg import UNIT, require_psd
from mmcopt.modeling import Formulation, Statement, cached

Floats = NDArray[Any]
Ints = NDArray[np.int64]


class OneClassHinge(Formulation):
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
    n_clusters = 2

    def __init__(self, X: Any, *, C: float = 100.0, kernel: Any = Gaussian(width=0.2),
                 sample_weight: Any = None) -> None:
        owner = type(self).__name__
        self.kernel = as_kernel(kernel)
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        real(0, open_low=True).check(owner, "C", C)
        self.C = float(C)
        self.sample_weight = None if sample_weight is None \
            else row_weights(sample_weight, self.n, owner)

    # ------------------------------------------------------------ data

    @cached
    def rows(self) -> KernelRows:
        """The training kernel, computed a few rows at a time."""
        fitted = self.kernel.fit(self.X, owner=type(self).__name__)
        if not fitted.psd:
            require_psd(fitted.matrix(), type(self).__name__)
        return KernelRows(fitted)

    @cached
    def share(self) -> Floats:
        """Weight of each sample in the mean of the losses."""
        w = self.sample_weight
        return read_only(np.full(self.n, 1.0 / self.n) if w is None else w / w.sum())

    @property
    def upper(self) -> Floats:
        """The box of the dual: C times the share of each sample."""
        return np.asarray(self.C * self.share)

    def scores(self, point: Floats) -> Floats:
        """w'phi(x_i) = (K a)_i for all samples; the last two are kept."""
        a = self._point(point)
        kept = self._cache.setdefault("scores", [])
        for known, value in kept:
            if np.array_equal(known, a):
                return np.asarray(value)
        value = read_only(self.rows.times(a))
        self._cache["scores"] = [*kept[-1:], (a.copy(), value)]
        return np.asarray(value)

    def _point(self, point: Any) -> Floats:
        a = np.asarray(point, dtype=np.float64)
        if a.shape != (self.n,):
            raise DataError(f"{type(self).__name__}: a point holds one number a sample, shape "
                            f"({self.n},); got {a.shape}.")
        return a

    def _adopt(self, other: Self, changed: set[str]) -> None:
        if not changed & {"X", "kernel"}:
            self._cache.update({k: v for k, v in other._cache.items() if k == "rows"})

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

    def violation(self, point: Floats) -> float:
        return 0.0

    def labels(self, point: Floats) -> Ints:
        return (self.scores(point) >= 1.0).astype(np.int64)

    def from_labels(self, labels: Ints) -> Any:
        raise DataError(f"{type(self).__name__}: labels determine no point of this problem; start "
                        "from a vector a of dual weights, or from another Result.")

    def caution(self, point: Floats) -> str | None:
        """An empty domain, and the smallest C that gives another."""
        scores, a = self.scores(point), np.asarray(point)
        top = float(scores.max())
        if top >= 1.0 or not np.allclose(a, self.upper, rtol=1e-9, atol=0.0):
            return None
        return (f"the domain is empty: at C = {self.C:g} no sample is inside it, and every a_i is "
                f"at its bound; domains begin above C = {self.C / top:.6g}.")

    def c_min(self) -> float:
        """The C up to which the domain is empty: 1 / max_i sum_j K_ij s_j (n^2 kernel values).

        Where that maximum is not positive there is a domain for no C, and this is infinite.
        """
        top = float(self.rows.times(self.share).max())
        return 1.0 / top if top > 0 else math.inf

    def nu(self, point: Floats) -> float:
        """The nu of the same domain in scikit-learn's ``OneClassSVM``: sum_i a_i / C."""
        return float(self._point(point).sum() / self.C)

    @classmethod
    def from_one_class_svm(cls, model: Any, X: Any) -> tuple[Self, Floats]:
        """The problem that a fitted ``OneClassSVM(kernel="rbf")`` has solved on X, and its point.

        Its coefficients divided by its offset are the a of the problem with C = sum a / nu.
        """
        offset = abs(float(np.ravel(model.offset_)[0]))
        if model.kernel not in ("rbf", "linear", "poly"):
            raise DataError(f"{cls.__name__}: only OneClassSVM with an rbf, linear or poly kernel "
                            f"can be converted; got kernel={model.kernel!r}.")
        if offset == 0.0:
            raise DataError(f"{cls.__name__}: the offset of this OneClassSVM is 0, so its domain "
                            "is bounded by no level of the decision function.")
        a = np.zeros(len(np.asarray(X)))
        a[model.support_] = np.ravel(model.dual_coef_) / offset
        gamma = float(model._gamma)
        kernel = {"rbf": Gaussian(gamma=gamma), "linear": Linear()}.get(model.kernel)
        if kernel is None:  # (gamma x'z + coef0)^degree
            scaled = Polynomial(model.degree, model.coef0 / gamma)
            kernel = gamma**model.degree * scaled
        return cls(X, C=float(a.sum() / model.nu), kernel=kernel), a

    def decision_function(self, point: Floats, X: Any) -> Floats:
        """w'phi(x) - 1 for new rows; not negative inside the domain."""
        return self.rows.at(self._point(point), X) - 1.0

    # ------------------------------------------------------------ offers

    def offer(self, kind: type[Any]) -> Any:
        if kind is BoxDual:
            return BoxDual(self.upper, self.rows)
        if kind is Subgradient:
            return Subgradient(self.rows, self.C, self.share)
        if kind is Bounded:
            return Bounded(self._bound, lambda point: {"a": np.asarray(point)}, trivial=0.0)
        if kind is ConvexProgram:
            return ConvexProgram(self._program)
        return None

    def _bound(self, duals: dict[str, Any]) -> float:
        """The dual objective of a, clipped to the box, less its rounding."""
        a = np.clip(np.nan_to_num(self._point(duals["a"])), 0.0, self.upper)
        scores = self.scores(a)
        linear, square = float(a.sum()), float(a @ scores)
        size = linear + 0.5 * float(a @ np.abs(scores)) + float(a.sum()**2) * UNIT
        return linear - 0.5 * square - 4 * (self.n + 8) * UNIT * size

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
        rng = np.random.default_rng(0)
        X = np.vstack([rng.standard_normal((5, 2)) - 2, rng.standard_normal((5, 2)) + 2])
        return [cls(X, C=5.0, kernel=Gaussian(gamma=0.5)),
                cls(X, C=40.0, kernel=Gaussian(gamma=0.2)),
                cls(X, C=4.0, kernel=Gaussian(gamma=0.5), sample_weight=1.0 + np.arange(10) % 3),
                cls(X + 3.0, C=5.0, kernel=Linear()),
                cls(X, C=8.0, kernel=Polynomial(2)),
                cls(X, C=20.0, kernel=Gaussian(gamma=0.3).nystroem(5))]

