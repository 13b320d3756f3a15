"""The smallest sphere around the data in feature space: the domain of support vector clustering."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mmcopt.capabilities import Bounded, ConvexProgram, Program, SimplexDual
from mmcopt.checks import plural, real
from mmcopt.errors import DataError
from mmcopt.formulations.one_class_hinge import OneClassHinge
from mmcopt.kernels import Gaussian, Kernel, Linear
from mmcopt.kernels.on_demand import kernel_root
from mmcopt.linalg import UNIT
from mmcopt.modeling import Statement
from mmcopt.modeling.domain_problem import PLAIN, KernelDomain
from mmcopt.modeling.formulation import cached
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints, Samples

SOME = 200  # samples that show which kernel would do
DECADES = 40  # by which its width may be smaller


class Hypersphere(KernelDomain):
    """A sphere that holds the data, as small as the hinge loss allows.

    Minimise ``R^2 + C sum_i s_i max(0, |phi(x_i) - c|^2 - R^2)`` over a centre c and R^2 >= 0, with
    s_i = 1/n or the share of a sample in the sum of ``sample_weight`` (Ben-Hur et al. 2001, eq. 2,
    whose C is C s_i here). A point is the vector b of c = sum_i b_i phi(x_i); the best R^2 for a
    centre is found by sorting. `labels` are 1 inside the sphere and 0 outside.

    The dual is ``max sum_i b_i K_ii - b'Kb`` over 0 <= b_i <= C s_i with sum 1. For a kernel of
    constant diagonal the optimal sphere is the optimal half-space of `OneClassHinge` at C / r, with
    r = w'phi on its margin: see `half_space`. It is the baseline that SGD-LMSVC compares with.
    """

    paper = "Ben-Hur et al., support vector clustering, eq. 2; the baseline of SGD-LMSVC"
    default_solver = "Conic"
    weighs = real(1)  # below 1 every sample is an outlier

    def __init__(self, X: Samples, *, C: float = 10.0, kernel: Kernel | str = PLAIN,
                 sample_weight: ArrayLike | None = None) -> None:
        super().__init__(X, C, kernel, sample_weight)

    def distances(self, point: Floats) -> tuple[Floats, float]:
        """Squared distances of the samples from the centre, and its squared norm."""
        b = self._point(point)
        inner = self.scores(b)
        square = float(b @ inner)
        if self.one_place:
            return np.zeros(self.n), square
        return np.maximum(self.rows.diagonal - 2.0 * inner + square, 0.0), square

    @cached
    def one_place(self) -> bool:
        """Whether all samples are the same, so that their distances are 0 without any rounding."""
        return bool(abs(self.X.max(axis=0) - self.X.min(axis=0)).max() == 0.0)

    def radius(self, point: Floats) -> float:
        """The best R^2 for a centre: the distance that C s_i weighs to 1 from the far end."""
        d, _ = self.distances(point)
        order = np.argsort(-d)
        outside = int(np.searchsorted(np.cumsum(self.upper[order]), 1.0 - 1e-12))
        return float(d[order[min(outside, self.n - 1)]])

    def statement(self) -> Statement:
        fitted = self.rows.fitted
        return Statement(f"Hypersphere: {plural(self.n, 'sample')}", (
            ("minimise", "R^2 + C sum_i s_i max(0, |phi(x_i) - c|^2 - R^2)",
             r"R^2 + C \sum_i s_i \max(0, \|\phi(x_i) - c\|^2 - R^2)"),
            ("over", "c = sum_i b_i phi(x_i), R^2 >= 0", r"c = \sum_i b_i \phi(x_i),\ R^2 \ge 0"),
            ("dual", "sum_i b_i K_ii - b'Kb over 0 <= b_i <= C s_i, sum_i b_i = 1",
             r"\max \textstyle\sum_i b_i K_{ii} - b^\top K b,\ 0 \le b_i \le C s_i,\ "
             r"\textstyle\sum_i b_i = 1"),
            ("where", f"C = {self.C:g}, K: {fitted.formula()}",
             rf"C = {self.C:g}, \quad k(x, z) = {fitted.latex()}"),
            ("domain", "R^2 - |phi(x) - c|^2 >= 0; clusters are its connected parts",
             r"R^2 - \|\phi(x) - c\|^2 \ge 0"),
            ("paper", self.paper, ""),
        ))

    def objective(self, point: Floats) -> float:
        d, radius = self.distances(point)[0], self.radius(point)
        return float(radius + self.upper @ np.maximum(d - radius, 0.0))

    def uncertainty(self, point: Floats) -> float:
        """Rounding of the distances: the weights of the losses and of R^2 come to 1."""
        total = float(np.abs(self._point(point)).sum())
        value = self.objective(point)
        if self.one_place:
            return 0.0
        return self.blur * (1.0 + total) ** 2 + 2.0 * (self.n + 8) * UNIT * value

    def rough_words(self) -> str:
        top = float(np.abs(self.rows.diagonal).max())
        value, least = self.objective(np.full(self.n, 1.0 / self.n)), 4.0 * self.blur / LOST
        return (f"rounding changes the values of this kernel, which reach {top:.3g}, as much as "
                f"the square of the radius, which is up to {value:.2g} and would have to be "
                f"{least:.2g}; {self._safer(least)}")

    def _safer(self, least: float) -> str:
        """What makes the square of the radius ``least``: of a kernel of distances, a width."""
        kernel = self.kernel
        some = self.X[np.random.default_rng(0).permutation(self.n)[:SOME]]
        for name, factor in (("width", 0.1), ("sigma", 0.1), ("gamma", 10.0)):
            given: float | None = getattr(kernel, name, None)
            tried = [] if given is None else [given * factor**j for j in range(1, DECADES)]
            for value in tried:
                K = dataclasses.replace(kernel, **{name: value}).fit(some).matrix()
                if float(np.diagonal(K).mean() - K.mean()) >= least:
                    return f"give a {name} of {value:.0e}, or rescale the data"
        return "centre the data, so that the values are no larger than the squares of distances"

    def labels(self, point: Floats) -> Ints:
        return (self.distances(point)[0] <= self.radius(point)).astype(np.int64)

    def agrees(self, point: Floats, labels: Ints) -> bool:
        """Whether labels are those of a point; on the sphere itself rounding may decide."""
        return self.within(self.radius(point) - self.distances(point)[0], point, labels)

    @property
    def depth(self) -> float:
        """The largest square of a length: depths are differences of such."""
        return min(1.0, float(np.abs(self.rows.diagonal).max()))

    @property
    def magnitude(self) -> float:
        """The largest square of a length."""
        return self.depth

    def decision_function(self, point: Floats, X: Samples) -> Floats:
        """R^2 - |phi(x) - c|^2 for new rows; not negative inside the sphere."""
        own = self.rows.fitted.self_values(X)
        b = self._point(point)
        return self.radius(b) - (own - 2.0 * self.rows.at(b, X) + self.distances(b)[1])

    def half_space(self, point: Floats) -> tuple[OneClassHinge, Floats]:
        """The one-class hinge problem of the same domain, and the point of that domain.

        On the margin |phi - c|^2 = R^2, so w'phi = r = (K_ii + |c|^2 - R^2) / 2 for w = c, and
        a = b / r has margin 1. Its optimality needs K_ii to be the same for all i.
        """
        diagonal = self.rows.diagonal
        if np.ptp(diagonal) > 1e-12 * diagonal[0]:
            raise DataError(f"{type(self).__name__}: only a kernel of constant diagonal, such as "
                            f"the Gaussian, has a half-space; got {self.kernel!r}.")
        square = self.distances(point)[1]
        r = (float(diagonal[0]) + square - self.radius(point)) / 2
        problem = OneClassHinge(self.X, C=self.C / r, kernel=self.kernel,
                                sample_weight=self.sample_weight)
        return problem, np.asarray(point) / r

    # ------------------------------------------------------------ offers

    def offer(self, kind: type[Any]) -> Any:
        if kind is Bounded:
            return Bounded(self._bound, lambda point: {"b": np.asarray(point)}, trivial=0.0)
        if kind is ConvexProgram:
            return ConvexProgram(self._program)
        if kind is SimplexDual and np.ptp(self.rows.diagonal) <= 1e-12 * self.rows.diagonal[0]:
            return SimplexDual(self.upper, self.rows)
        return None

    def _bound(self, duals: dict[str, Any]) -> float:
        """The dual objective of b, moved into the simplex and the box, less all rounding."""
        b = into_simplex(self._point(np.nan_to_num(duals["b"])), self.upper)
        linear, square = float(b @ self.rows.diagonal), float(b @ self.scores(b))
        size = float(b @ np.abs(self.rows.diagonal)) + self.square_rounding(b)
        # The entries of b sum to 1 up to rounding, by which the bound has to be scaled.
        off = abs(float(b.sum()) - 1.0) * (size + float(np.abs(self.rows.diagonal).max()))
        total = float(b.sum())
        return linear - square - self.entry_error * total * (1.0 + total) \
            - self.rounding(size) - 2 * off

    def _program(self, cuts: Any) -> Program:
        import cvxpy as cp

        self.settled(np.full(self.n, 1.0 / self.n))  # or it says what to change
        L, upper = kernel_root(self.rows.fitted), self.upper
        L = L - L.mean(axis=0)  # spheres move with the data, and grow with it
        L = L / max(float(np.linalg.norm(L, axis=1).max()), 1e-300)
        b = cp.Variable(self.n, name="b")
        value = cp.sum_squares(L.T @ b) - np.square(L).sum(axis=1) @ b
        limits: list[Any] = [b >= 0, b <= upper, cp.sum(b) == 1]
        problem = cp.Problem(cp.Minimize(value), limits)
        return Program(problem, lambda: np.asarray(b.value), lambda: {"b": b.value})

    def reference(self, labels: Ints | None = None) -> Any:
        import cvxpy as cp

        L = kernel_root(self.rows.fitted)
        c, radius = cp.Variable(L.shape[1], name="c"), cp.Variable(nonneg=True, name="R2")
        far = [cp.sum_squares(row - c) - radius for row in L]
        return cp.Problem(cp.Minimize(radius + self.upper @ cp.pos(cp.hstack(far))))

    @classmethod
    def examples(cls) -> list[Self]:
        X = cls.clouds()
        return [cls(X, C=3.0, kernel=Gaussian(gamma=0.5)),
                cls(X, C=20.0, kernel=Gaussian(gamma=0.2)),
                cls(X, C=4.0, kernel=Linear()),
                cls(X, C=2.5, kernel=Gaussian(gamma=0.5), sample_weight=1.0 + np.arange(10) % 3)]


def into_simplex(b: Floats, upper: Floats) -> Floats:
    """The nearest vector of entries from 0 to ``upper`` that sum to 1, by bisection on a shift."""
    b = np.nan_to_num(b)
    low, high = float((-b).min()) - 1.0, float((upper - b).max()) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if np.clip(b + middle, 0.0, upper).sum() < 1.0:
            low = middle
        else:
            high = middle
    out = np.clip(b + high, 0.0, upper)
    return np.asarray(out / out.sum() if out.sum() > 1.0 else out)
