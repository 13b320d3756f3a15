"""scikit-learn's OneClassSVM as a row of a comparison on `OneClassHinge`.

LIBSVM minimises ``a'Ka / 2`` over 0 <= a_i <= w_i with ``sum a = nu n``, w_i n times the share of
a sample, and finds the offset rho. Divided by rho its coefficients are the optimum of our problem
with ``C = n / rho``. It is therefore asked for the nu at which that is the C of the problem, and
falls as nu grows, from above C at ``nu = 1 / (C max K_ii)``: the sum of the optimal coefficients is
nu C, and no domain has a smaller one than 1 / max K_ii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmcopt.bounds.certificates import cheap_bound
from mmcopt.capabilities import BoxDual
from mmcopt.compiled.compiling import clock
from mmcopt.errors import BackendError
from mmcopt.kernels.on_demand import samples_for_svm
from mmcopt.linalg import one_thread
from mmcopt.modeling.result import Result, Status
from mmcopt.solving.executors import Signal
from mmcopt.types import Floats

TOL = 1e-5  # of LIBSVM, as `Libsvm` has it; less where its gradients, of the size nu n, are small
CLOSE = 1e-6  # of C, relative, at which the search for nu ends
MOST = 60  # fits


def refuses(f: Any) -> str | None:
    """Why OneClassSVM does not solve a problem, in one clause; None where it does."""
    if f.offer(BoxDual) is not None:
        return None
    return f"it solves OneClassHinge, the problem of a domain, and this is {type(f).__name__}."


def wake() -> None:
    """Fit a few samples, since to import scikit-learn takes seconds."""
    from sklearn.svm import OneClassSVM

    OneClassSVM().fit(np.eye(4))


@dataclass
class Search:
    """Fits of OneClassSVM on the way to the nu of a problem, and the best point they gave."""

    f: Any
    stop: Signal
    point: Floats = field(init=False)
    best: float = math.inf
    spent: float = 0.0  # seconds of scikit-learn
    rows: list[dict[str, Any]] = field(default_factory=list)
    cut: bool = False

    def __post_init__(self) -> None:
        upper = self.f.offer(BoxDual).upper
        self.used = np.flatnonzero(upper)  # LIBSVM drops the others, and counts without them
        self.weight = upper[self.used] * (len(self.used) / float(upper.sum()))
        self.samples, self.options = samples_for_svm(self.f.offer(BoxDual).kernel, self.used)

    def run(self) -> None:
        """Look for the nu between its limits by secants that keep a bracket."""
        from scipy.optimize import brentq

        low = 1.0 / (self.f.C * float(np.abs(self.f.offer(BoxDual).kernel.diagonal).max()))
        high = 1.0 - 1e-6
        try:
            if self._off(math.log(high)) < 0.0:  # else the domain is empty: all at their bounds
                brentq(self._off, math.log(low), math.log(high), xtol=1e-12, rtol=CLOSE,
                       maxiter=MOST)
        except BackendError:
            raise
        except (_ReachedError, RuntimeError, ValueError):
            return  # near enough, stopped, or as near as the tolerance of LIBSVM lets C come
        except KeyboardInterrupt:
            if not self.rows:
                raise
            self.cut = True

    def _off(self, log_nu: float) -> float:
        """The log of the C that a nu belongs to, less that of ours."""
        if self.stop.is_set() and self.rows:
            self.cut = True
            raise _ReachedError
        rho, a = self._fitted(math.exp(log_nu))
        if not rho > 0.0:
            return 1.0
        self._judged(a / rho)
        off = math.log(len(self.used) / rho / self.f.C)
        if abs(off) <= CLOSE:
            raise _ReachedError
        return off

    def _fitted(self, nu: float) -> tuple[float, Floats]:
        """The offset and the coefficients of a fit, under the clock."""
        from sklearn.svm import OneClassSVM

        tol = TOL * min(1.0, nu * len(self.used))
        model = OneClassSVM(nu=nu, tol=tol, **self.options)
        started = clock()
        try:
            with one_thread:
                model.fit(self.samples, sample_weight=self.weight)
        except ValueError as e:
            raise BackendError(f"OneClassSVM of scikit-learn gave up: {e}") from e
        self.spent += clock() - started
        a = np.zeros(self.f.n)
        a[self.used[model.support_]] = np.ravel(model.dual_coef_)
        return float(np.ravel(model.offset_)[0]), a

    def _judged(self, a: Floats) -> None:
        """Take down what a fit gave, within the box of the problem."""
        point = np.clip(a, 0.0, self.f.upper)
        value = self.f.objective(point)
        if value < self.best:
            self.point, self.best = point, value
        self.rows.append({"restart": 0, "seconds": self.spent, "iteration": len(self.rows) + 1,
                          "objective": value, "best": self.best})


class _ReachedError(Exception):
    """The search for nu has ended."""


def judged(f: Any, point: Floats) -> Result:
    """A point of a domain as a result, with the bound that it proves."""
    return cheap_bound(Result(f, "evaluate", point, f.labels(point), f.settled(point),
                              f.violation(point), Status.CONVERGED))
