"""Regularised least squares with the labels given: what `LeastSquares` becomes when restricted."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import Bounded, ConvexProgram, LinearSystem, Program
from mmcopt.checks import data_matrix, encode_labels, integer, real
from mmcopt.errors import DataError
from mmcopt.kernels import Gaussian, Kernel, as_kernel
from mmcopt.linalg import UNIT, are_largest
from mmcopt.modeling import Formulation, Statement, cached
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints, Labels, Samples


class LeastSquaresFit(Formulation):
    """One-versus-all regularised least squares for given labels, a convex problem.

    Minimise over coefficients A (n x k)
    ``sum_h |p_h - K a_h|^2 + lam a_h'K a_h``, p_h = +1 in cluster h and -1 elsewhere (UMC-RLS
    eq. 4 and 13). The optimum is A = (K + lam I)^-1 P. Any A is also a dual point: with
    D(A) = sum_h 2 lam p_h'a_h - lam a_h'(K + lam I) a_h, the gap is |P - (K + lam I) A|^2.
    """

    paper = "Pahikkala et al., UMC-RLS, eq. 4, 5 and 13"
    default_solver = "Direct"

    def __init__(self, X: Samples, y: Labels, n_clusters: int = 2, *,
                 kernel: Kernel | str = Gaussian(width=1.0),
                 lam: float = 0.1, center: bool = True) -> None:
        owner = type(self).__name__
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        integer(1).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        codes, values = encode_labels(y, self.n, owner=owner)
        self.y = np.array(y, dtype=np.int64) if np.asarray(y).dtype.kind == "i" else codes
        if len(values) > n_clusters or self.y.min() < 0 or self.y.max() >= n_clusters:
            raise DataError(f"{owner}: y must hold labels 0..{n_clusters - 1} (n_clusters is "
                            f"{n_clusters}); got {values[0]} to {values[-1]}.")
        self.kernel = as_kernel(kernel)
        real(0, open_low=True).check(owner, "lam", lam)
        self.lam = float(lam)
        self.center = bool(center)

    @cached
    def fitted(self) -> Any:
        """The kernel fitted to the data, centred when asked."""
        return (self.kernel.centered() if self.center else self.kernel).fit(self.X)

    @cached
    def K(self) -> Floats:
        """The kernel matrix."""
        return np.asarray(self.fitted.matrix())

    @cached
    def P(self) -> Floats:
        """Targets: +1 in the cluster, -1 elsewhere."""
        P = np.full((self.n, self.n_clusters), -1.0)
        P[np.arange(self.n), self.y] = 1.0
        return P

    def statement(self) -> Statement:
        k, n = self.n_clusters, self.n
        return Statement(f"LeastSquaresFit: {n} samples with given labels, {k} clusters", (
            ("minimise", "sum_h |p_h - K a_h|^2 + lam a_h'K a_h",
             r"\sum_h \|p_h - K a_h\|^2 + \lambda a_h^\top K a_h"),
            ("over", f"A = (a_1..a_k), {n} x {k} real", rf"A \in \mathbb{{R}}^{{{n} \times {k}}}"),
            ("where", f"K: {self.fitted.formula()}, lam = {self.lam:g}", ""),
            ("optimum", "A = (K + lam I)^-1 P", r"A = (K + \lambda I)^{-1} P"),
        ))

    def objective(self, point: Floats) -> float:
        KA = self.K @ point
        return float(np.sum((self.P - KA) ** 2) + self.lam * np.sum(point * KA))

    @cached
    def _blur(self) -> float:
        """What rounding may have changed of an entry of Ka, per unit of sum_i |a_i|."""
        error, size = self.fitted.accuracy()
        return float(error + (self.n + 8) * UNIT * max(size, float(np.abs(self.K).max())))

    def _products(self, A: Floats) -> Floats:
        """What rounding may have changed of an entry of KA, by its column."""
        return np.asarray(self._blur * np.abs(A).sum(axis=0))

    def uncertainty(self, point: Floats) -> float:
        """Rounding of the kernel and of its products, in both terms, and that of the sums."""
        A = np.asarray(point, dtype=np.float64)
        off = self._products(A)
        rest = np.abs(self.P - self.K @ A).sum(axis=0)
        felt = 2.0 * rest + self.n * off + self.lam * np.abs(A).sum(axis=0)
        return float(off @ felt) + (self.n + 8) * UNIT * self.objective(A)

    def rough_words(self) -> str:
        # At the optimum `uncertainty` is up to 3 lam blur |a|_1^2 <= 3 n lam blur |a|^2, and the
        # objective lam a'(K + lam I) a >= lam^2 |a|^2.
        least, size = 4.0 * self.n * self._blur / LOST, float(np.abs(self.K).max())
        return (f"lam = {self.lam:g} is too small for this kernel of {self.n} samples, whose "
                f"entries reach {size:.3g}: their rounding counts as much as the objective; give a "
                f"lam of at least {max(least, 2.0 * self.lam):.2g}, or centre and rescale the data")

    def violation(self, point: Floats) -> float:
        return 0.0

    def labels(self, point: Floats) -> Ints:
        return np.argmax(self.K @ point, axis=1)

    def agrees(self, point: Floats, labels: Ints) -> bool:
        """Whether labels are those of a point; where scores are level rounding may decide."""
        size = np.abs(self.K) @ np.abs(point)
        return super().agrees(point, labels) or bool(size.any()) and are_largest(
            self.K @ point, labels, 4 * (self.n + 8) * UNIT * size.max())

    def decision_function(self, point: Floats, X: Samples) -> Floats:
        return np.asarray(self.fitted.cross(X) @ point)

    def offer(self, kind: type[Any]) -> Any:
        if kind is LinearSystem:
            return LinearSystem(self._system, self.P)
        if kind is Bounded:
            return Bounded(self._bound, lambda point: {"A": np.asarray(point)})
        if kind is ConvexProgram:
            return ConvexProgram(self._program)
        return None

    def _system(self) -> Floats:
        A = self.K.copy()
        A[np.diag_indices(self.n)] += self.lam
        return A

    def _program(self, cuts: Any) -> Program:
        problem = self.reference()
        A = problem.variables()[0]
        # At the optimum lam A = P - KA; this dual point is right even where K leaves A open.
        return Program(problem, lambda: np.asarray(A.value),
                       lambda: {"A": (self.P - self.K @ A.value) / self.lam})

    def _bound(self, duals: dict[str, Any]) -> float:
        A = np.asarray(duals["A"], dtype=np.float64)
        rough = self.lam * float(self._products(A) @ np.abs(A).sum(axis=0))
        terms = (2 * self.lam * self.P * A, -self.lam * A * (self.K @ A), -(self.lam * A) ** 2)
        size = math.fsum(float(np.abs(t).sum()) for t in terms)
        return math.fsum(float(t.sum()) for t in terms) - rough - (self.n + 8) * UNIT * size

    def reference(self, labels: Ints | None = None) -> Any:
        import cvxpy as cp

        A = cp.Variable((self.n, self.n_clusters), name="A")
        loss = cp.sum_squares(self.P - self.K @ A)
        penalty = sum(cp.quad_form(A[:, h], cp.psd_wrap(self.K)) for h in range(self.n_clusters))
        return cp.Problem(cp.Minimize(loss + self.lam * penalty))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(0).standard_normal((8, 2))
        return [cls(X, np.arange(8) % 2, 2, lam=0.5), cls(X, np.arange(8) % 3, 3, center=False)]
