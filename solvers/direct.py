"""Convex quadratic problems by one linear solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, LinearSystem
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """Solve A x = b by Cholesky factorisation: the optimum of a convex quadratic problem.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Direct
    >>> X, y = mm.datasets.load("iris")
    >>> mm.solve(LeastSquares(X, 3).restrict(y), Direct()).status.name
    'CERTIFIED'
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (LinearSystem,)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        point = np.zeros(f.offer(LinearSystem).b.shape) if init is None else np.asarray(init)
        return Progress(None, point, f.objective(point))

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        from scipy.linalg import cho_factor, cho_solve

        system = f.offer(LinearSystem)
        point = cho_solve(cho_factor(system.A(), lower=True, overwrite_a=True), system.b)
        return Progress(Status.CONVERGED, point, f.objective(point))

    def outcome(self, f: Any, state: Any) -> Status | None:
        return state if isinstance(state, Status) else None
