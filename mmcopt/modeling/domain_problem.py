"""What the one-class problems share: samples, kernel, weights, and vectors a as points."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.checks import Rule, data_matrix, is_sparse, read_only
from mmcopt.errors import DataError
from mmcopt.kernels import Gaussian, as_kernel
from mmcopt.kernels.on_demand import KernelRows, row_weights
from mmcopt.linalg import UNIT, are_largest, require_psd
from mmcopt.modeling.formulation import Formulation, cached
from mmcopt.types import Floats, Ints, Samples

EDGE = 1e-9  # depth in a domain that is on its edge, as objectives are compared


class KernelDomain(Formulation):
    """A problem whose point is a vector a, of w = sum_i a_i phi(x_i), and whose answer is a domain.

    ``C`` weighs the mean of the losses, in which a sample counts by its share of ``sample_weight``.
    """

    negligible = 0.0
    n_clusters: int = 2
    weighs: ClassVar[Rule]  # what C may be

    def __init__(self, X: Samples, C: float, kernel: Any, sample_weight: Any) -> None:
        owner = type(self).__name__
        self.kernel = as_kernel(kernel)
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        self.weighs.check(owner, "C", C)
        self.C = float(C)
        self.sample_weight = None if sample_weight is None \
            else row_weights(sample_weight, self.n, owner)

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

    def within(self, depth: Floats, point: Floats, labels: Ints) -> bool:
        """Whether labels say where ``depth`` is not negative, but for its rounding.

        The samples that carry a domain lie on its edge, where their depth is 0 but for rounding.
        """
        length = np.sqrt(np.maximum(self.rows.diagonal, 0.0))
        total = float(np.abs(self._point(point)) @ length)
        slack = EDGE * self.depth + self.rounding(4.0 * total * (length + total))
        return are_largest(np.column_stack([-depth, depth]) / 2, labels, slack)

    @property
    def entry_error(self) -> float:
        """What rounding may have changed of an entry of the kernel."""
        return float(self.rows.fitted.accuracy()[0])

    @cached
    def blur(self) -> float:
        """What rounding may add to a score, per unit of sum_i |a_i|."""
        error, size = self.rows.fitted.accuracy()
        return float(error + (self.n + 8) * UNIT * size)

    @property
    def depth(self) -> float:
        """The unit in which depths in the domain are counted."""
        return 1.0

    def square_rounding(self, a: Floats) -> float:
        """What the rounding of a'Ka is relative to: a bound on sum_ij |a_i K_ij a_j|."""
        if self.rows.gaussian is not None:  # no entry is negative
            return float(np.abs(a) @ np.abs(self.scores(np.abs(a))))
        return float(np.abs(a) @ np.sqrt(np.maximum(self.rows.diagonal, 0.0)))**2

    def rounding(self, size: float) -> float:
        """Bound on the rounding of sums over the samples whose terms come to ``size``."""
        return 4 * (self.n + 8) * UNIT * size

    def _point(self, point: Any) -> Floats:
        a = np.asarray(point, dtype=np.float64)
        if a.shape != (self.n,) or not np.isfinite(a).all():
            raise DataError(f"{type(self).__name__}: a point holds one finite number a sample, "
                            f"shape ({self.n},); got shape {a.shape}"
                            + (" with NaN or infinity." if a.shape == (self.n,) else "."))
        return a

    def _adopt(self, other: Self, changed: set[str]) -> None:
        if not changed & {"X", "kernel"}:
            self._cache.update({k: v for k, v in other._cache.items() if k == "rows"})

    def violation(self, point: Floats) -> float:
        return 0.0

    def embedding(self) -> Floats | None:
        return None if is_sparse(self.X) else np.asarray(self.X, dtype=np.float64)

    def from_labels(self, labels: Ints) -> Any:
        raise DataError(f"{type(self).__name__}: labels determine no point of this problem, which "
                        "is a vector of one number a sample: pass one, or a Result, as init; "
                        "mm.solve(problem, init=a, max_iter=1) evaluates one of yours.")

    @staticmethod
    def clouds() -> Floats:
        """Ten samples for the examples."""
        rng = np.random.default_rng(0)
        return np.vstack([rng.standard_normal((5, 2)) - 2, rng.standard_normal((5, 2)) + 2])


PLAIN = Gaussian(width=0.2)
