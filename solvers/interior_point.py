"""A primal-dual interior point for max-cut relaxations, with an (m + 1) x (m + 1) system."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.label_lift import Lift, require_room
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real
from mmcopt.errors import BackendError
from mmcopt.linalg import cholesky_succeeds, spd_inverse
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats

BACK = 0.95  # share of the way to the boundary
STEP = 1.1e-10  # seconds for a step, times the cube of the number of nodes, about


@dataclass
class _Iterate:
    """Y psd and its slack s, u, t and Z = P'(Diag u + t bb' - R)P; P spans b's complement or is I.

    ``gap`` is the relative duality gap, ``stuck`` that a step came to nothing.
    """

    Y: Floats
    Z: Floats
    u: Floats
    s: float
    t: float
    P: Floats | None
    mu: float
    gap: float = math.inf
    stuck: bool = False
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class InteriorPoint(Solver):
    """Solve ``max <R, Y>``, diag Y = 1, ``b'Yb <= q``, Y psd, by a primal-dual path.

    The HKM direction leaves a dense positive definite system in (u, t) with
    ``M_uu = Z^-1 o Y``, ``M_ut = Z^-1 b o Y b``, ``M_tt = (b'Z^-1 b)(b'Yb) + s/t``; a step costs a
    few products and Cholesky factorisations of order m. When ``Yb = 0`` for all feasible Y
    (clusters of equal size) the problem is solved on the complement of b, where it has an
    interior. Quadratic memory, 15 to 30 steps. The bound of every iterate is proved from its dual
    point.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> relaxed = mm.formulations.LeastSquares(X, lam=0.5).relax("sdp")
    >>> mm.solve(relaxed, "InteriorPoint").status.name
    'CERTIFIED'
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Lift,)
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-8, real(0, open_low=True), "relative duality gap at which it stops")
    max_steps: int = hyper(100, integer(1), "steps after which it gives up")

    def refuses(self, f: Any) -> str | None:
        return super().refuses(f) or f.offer(Lift).extras

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(Lift)
        m, b = lift.m, lift.b
        require_room(lift, "InteriorPoint", 12, 2e-7 * m**3, "LowRank needs a tenth of that, and "
                     "relax('eig') least.")
        P = None
        if lift.flat:
            P = np.linalg.qr(np.column_stack([b, np.eye(m)[:, 1:]]))[0][:, 1:]
        # Gershgorin: Diag(u) - R is diagonally dominant.
        reach = np.abs(lift.R).sum(axis=1)
        u = 1.1 * np.full(m, float(min(reach.max(), np.linalg.norm(lift.R)))) + 1e-12
        bb = float(b @ b)
        t = 0.0 if lift.flat or lift.square >= m * bb else 0.1 * float(u[0]) / bb
        s = max(lift.square - bb, 0.1 * lift.square) if t else 0.0
        Y = np.eye(m if P is None else m - 1) * lift.top
        state = _Iterate(Y, np.empty(0), u, s, t, P, 0.0)
        state.Z = self._slack(lift, state)
        state.mu = self._complementarity(state) / 2
        return self._progress(f, lift, state)

    def closing(self, state: _Iterate) -> float:
        """What a step takes."""
        return STEP * float(len(state.u)) ** 3

    def step(self, f: Any, state: _Iterate, rng: np.random.Generator) -> Progress:
        lift = f.offer(Lift)
        inverse = _inverse(state.Z)
        du, dt, dY, ds = self._direction(lift, state, inverse)
        dZ = self._linear(lift, state.P, du, dt)
        primal = min(_step_length(state.Y, dY), _scalar_step(state.s, ds))
        dual = min(_step_length(state.Z, dZ), _scalar_step(state.t, dt))
        state.Y = state.Y + primal * dY
        state.Y = (state.Y + state.Y.T) / 2
        state.s += primal * ds
        state.u = state.u + dual * du
        state.t += dual * dt
        state.Z = self._slack(lift, state)
        now = self._complementarity(state)
        # Aim lower the longer the steps are (Helmberg, Rendl, Vanderbei and Wolkowicz).
        state.mu = now * (0.1 if primal + dual > 1.8 else 0.3 if primal + dual > 1.2 else 0.5)
        state.stuck = primal + dual < 1e-4
        state.steps += 1
        return self._progress(f, lift, state)

    def outcome(self, f: Any, state: _Iterate) -> Status | None:
        if state.stuck or abs(state.gap) <= self.tol:
            return Status.CONVERGED
        return Status.ITERATION_LIMIT if state.steps >= self.max_steps else None

    # ------------------------------------------------------------ linear algebra

    @staticmethod
    def _linear(lift: Lift, P: Floats | None, u: Floats, t: float) -> Floats:
        """P'(Diag(u) + t bb')P."""
        if P is not None:
            return np.asarray(P.T @ (u[:, None] * P))
        S = np.diag(u)
        if t:
            S += t * np.outer(lift.b, lift.b)
        return S

    def _slack(self, lift: Lift, state: _Iterate) -> Floats:
        S = self._linear(lift, state.P, state.u, state.t)
        S = S - (lift.R if state.P is None else state.P.T @ lift.R @ state.P)
        return np.asarray((S + S.T) / 2)

    @staticmethod
    def _complementarity(state: _Iterate) -> float:
        size = len(state.Y) + (1 if state.t else 0)
        return float((np.sum(state.Y * state.Z) + state.s * state.t) / size)

    @staticmethod
    def _direction(lift: Lift, state: _Iterate, inverse: Floats) -> tuple[Any, ...]:
        """The HKM direction towards Y Z = mu I, s t = mu."""
        Y, P, mu, t, s = state.Y, state.P, state.mu, state.t, state.s
        full, inv = (Y, inverse) if P is None else (P @ Y @ P.T, P @ inverse @ P.T)
        M, right = inv * full, mu * np.diagonal(inv) - lift.top
        if t:
            Yb, ib = full @ lift.b, inv @ lift.b
            bYb, bib = float(lift.b @ Yb), float(lift.b @ ib)
            column = Yb * ib
            M = np.block([[M, column[:, None]], [column[None], np.array([[bYb * bib + s / t]])]])
            right = np.append(right, mu * bib + mu / t - lift.square)
        d = _solve(M, right)
        du, dt = d[:lift.m], float(d[lift.m]) if t else 0.0
        dZ = InteriorPoint._linear(lift, P, du, dt)
        turn = Y @ dZ @ inverse
        dY = mu * inverse - Y - (turn + turn.T) / 2
        return du, dt, dY, (mu / t - s - s * dt / t if t else 0.0)

    def _progress(self, f: Any, lift: Lift, state: _Iterate) -> Progress:
        X = state.Y if state.P is None else state.P @ state.Y @ state.P.T
        value = lift.objective(X)
        upper = lift.top * float(state.u.sum()) + lift.square * state.t
        dual = lift.base - lift.scale * upper
        state.gap = (value - dual) / max(1.0, abs(value))
        duals = {"u": state.u.copy(), "t": np.array(state.t)}
        bound = lift.lower(duals) if abs(state.gap) <= self.tol or state.stuck else dual
        return Progress(state, X, value, lower_bound=bound, duals=duals,
                        extras={"dual": dual, "mu": state.mu})


def _inverse(Z: Floats) -> Floats:
    return np.asarray(spd_inverse(Z.copy()))


def _solve(M: Floats, right: Floats) -> Floats:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

    try:
        return np.asarray(cho_solve(cho_factor(M), right))
    except LinAlgError:
        return np.asarray(lstsq(M, right)[0])


def _step_length(A: Floats, dA: Floats) -> float:
    """The share of a step that leaves A positive definite, at most 1, by halving Cholesky tests."""
    step = 1.0
    for _ in range(60):
        if cholesky_succeeds(A + step * dA):
            return step if step == 1.0 else BACK * step
        step *= 0.8
    raise BackendError("the interior point left the cone; the problem has no interior.")


def _scalar_step(value: float, change: float) -> float:
    if change >= 0 or value <= 0:
        return 1.0
    return min(1.0, -BACK * value / change)
