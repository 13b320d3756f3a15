"""The mixing method: max-cut relaxations through a factor of low rank, for many samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.label_lift import Lift
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats

SWEEPS = 5  # sweeps of a driver step
CHECK = 4  # driver steps between two bounds


@dataclass
class _Vectors:
    """Rows v_i of V with |v_i|^2 = top, s = V'b, multipliers u and t, and where t is between."""

    V: Floats
    s: Floats
    u: Floats
    t: float
    low: float = 0.0
    high: float = math.inf
    steps: int = 0
    moved: float = math.inf
    upper: float = math.inf
    duals: Any = None
    done: bool = False


@dataclass(frozen=True, kw_only=True)
class LowRank(Solver):
    """Maximise <R, VV'> over V with rows of fixed length, one row at a time.

    Each row becomes the normalised ``sum_{j != i} (R - t bb')_ij v_j`` (Burer and Monteiro 2003;
    Wang, Chang and Kolter 2018); the multiplier t of the balance is bracketed meanwhile. With
    ``rank`` of sqrt(2m) or more the limit is the optimum of the relaxation as a rule; with fewer it
    may not be, and the bound is valid all the same: u_i = |sum ...| / sqrt(top) + R_ii - t b_i^2
    and t are a dual point, which is proved as any other. A sweep costs m^2 rank operations, the
    memory is that of R, and no eigenvalue decomposition is made but one for each bound.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> relaxed = mm.formulations.LeastSquares(X, lam=0.5).relax("sdp")
    >>> low = mm.solve(relaxed, "LowRank", seed=0).lower_bound
    >>> exact = mm.solve(relaxed, "InteriorPoint").lower_bound
    >>> bool(abs(low - exact) < 1e-4 * exact)
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Lift,)
    keeps_last: ClassVar[bool] = True

    rank: int | None = hyper(None, optional(integer(1)), "columns of V; None takes sqrt(2m) + 1")
    tol: float = hyper(1e-6, real(0), "relative gap between objective and bound at which it stops")
    max_sweeps: int = hyper(20_000, integer(1), "sweeps after which it stops")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f) or f.offer(Lift).extras
        if reason is None and f.offer(Lift).flat:
            return "clusters of equal size leave it no room to move t; InteriorPoint takes them."
        return reason

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(Lift)
        p = self.rank or math.ceil(math.sqrt(2 * lift.m)) + 1
        V = rng.standard_normal((lift.m, p))
        V *= math.sqrt(lift.top) / np.linalg.norm(V, axis=1)[:, None]
        state = _Vectors(V, V.T @ lift.b, np.zeros(lift.m), 0.0)
        if lift.square >= lift.m * float(lift.b @ lift.b):
            state.high = 0.0  # the balance is vacuous
        self._bound(lift, state)
        return self._progress(lift, state)

    def step(self, f: Any, state: _Vectors, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled.row_sweep import sweep

        lift = f.offer(Lift)
        for _ in range(SWEEPS):
            state.moved = sweep(lift.R, lift.b, state.t, lift.top, state.V, state.s, state.u)
        state.s[:] = state.V.T @ lift.b  # without the drift of the updates
        state.steps += 1
        self._balance(lift, state)
        if state.steps % CHECK == 0:
            self._bound(lift, state)
        return self._progress(lift, state)

    def outcome(self, f: Any, state: _Vectors) -> Status | None:
        if state.done:
            return Status.CONVERGED
        return Status.ITERATION_LIMIT if state.steps * SWEEPS >= self.max_sweeps else None

    # ------------------------------------------------------------ pieces

    @staticmethod
    def _balance(lift: Lift, state: _Vectors) -> None:
        """Move t towards b'VV'b = square: up while it is more, down while it is less."""
        if state.high == 0.0:
            return
        excess = float(state.s @ state.s) - lift.square
        unit = float(np.abs(state.u).mean()) / float(lift.b @ lift.b)
        pace = unit / (1 + state.steps) ** 0.7
        size = max(lift.square, 0.01 * float(lift.b @ lift.b))
        state.t = max(0.0, state.t + pace * float(np.clip(excess / size, -1.0, 1.0)))

    def _bound(self, lift: Lift, state: _Vectors) -> None:
        """The bound of the multipliers, and whether it meets the objective."""
        duals = {"u": state.u.copy(), "t": np.array(state.t)}
        upper = lift.upper(duals)
        if upper < state.upper:
            state.upper, state.duals = upper, duals
        value = float(np.sum((lift.R @ state.V) * state.V))
        feasible = float(state.s @ state.s) <= lift.square * (1 + 1e-6) + 1e-9
        scale = max(abs(lift.base - lift.scale * upper), 1e-300)
        state.done = feasible and lift.scale * (state.upper - value) <= self.tol * scale

    @staticmethod
    def _progress(lift: Lift, state: _Vectors) -> Progress:
        value = lift.base - lift.scale * float(np.sum((lift.R @ state.V) * state.V))
        dual = lift.base - lift.scale * state.upper
        return Progress(state, lambda: state.V @ state.V.T, value, lower_bound=dual,
                        duals=state.duals,
                        extras={"dual": dual, "moved": state.moved, "t": state.t})
