"""One-class duals on a simplex by LIBSVM, as scikit-learn packages it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Bounded, Capability, SimplexDual
from mmcopt.checks import hyper, real
from mmcopt.kernels.on_demand import samples_for_svm
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver


@dataclass(frozen=True, kw_only=True)
class Libsvm(Solver):
    """Sequential minimal optimisation by the LIBSVM that scikit-learn contains.

    The baseline that SGD-LMSVC compares with. It is one call that nothing interrupts; the bound is
    proved from its coefficients, whatever its tolerance means. That is one on gradients, which
    shrink as C grows: 1e-5 is loose where C and gamma are large.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=200,noise=.05,seed=0")
    >>> result = mm.solve(mm.formulations.Hypersphere(X, C=20.0), Libsvm(tol=1e-6))
    >>> result.gap < 1e-4
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (SimplexDual,)
    promised_gap: ClassVar[float] = 1e-4
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-5, real(0, open_low=True), "LIBSVM's tolerance on its gradient")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        upper = f.offer(SimplexDual).upper
        point = upper / upper.sum() if init is None else np.asarray(init, dtype=np.float64)
        return Progress(None, point, f.objective(point))

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        from sklearn.svm import OneClassSVM

        offer = f.offer(SimplexDual)
        n, total = f.n, float(offer.upper.sum())
        if total <= 1.0 + 1e-9:  # the box is one point, on which LIBSVM divides by zero
            point = offer.upper / total
            return self._judged(f, point)
        used = np.flatnonzero(offer.upper)  # it drops the others, and counts without them
        # Its box is the weight, and its coefficients sum to nu times the samples.
        weight = offer.upper[used] * (len(used) / total)
        rows, options = samples_for_svm(offer.kernel, used)
        model = OneClassSVM(nu=1.0 / total, tol=self.tol, **options)
        model.fit(rows, sample_weight=weight)
        point = np.zeros(n)
        point[used[model.support_]] = np.ravel(model.dual_coef_)
        point /= point.sum()
        return self._judged(f, point)

    def _judged(self, f: Any, point: Any) -> Progress:
        return Progress(Status.CONVERGED, point, f.objective(point),
                        f.offer(Bounded).bound({"b": point}), {}, {"b": point})

    def outcome(self, f: Any, state: Any) -> Status | None:
        return state if isinstance(state, Status) else None
