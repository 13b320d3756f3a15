"""An interior point for the lifted hinge problem of several kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.multi_kernel_lift import KernelLift, correlation, norm
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real, require_memory
from mmcopt.linalg import UNIT, spd_inverse
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver, out_of_time
from mmcopt.types import Floats

CENTRED = 1e-3  # Newton decrement, over the root of the weight, at which the weight falls
NEAR = 0.1  # the same, below which whole steps are taken, as values differ by rounding alone
LEAST_BARRIER = 1e-13  # weight of the barrier below which nothing is gained


@dataclass
class _Dual:
    """Shares a and duals g (M, n), strictly inside; the barrier's weight; what is best."""

    a: Floats
    g: Floats
    mu: float
    bound: float = -math.inf
    gap: float = math.inf
    stuck: bool = False
    steps: int = 0


@dataclass(frozen=True)
class _Barrier:
    """The function that is minimised for one weight mu of the barrier.

    ``-mean a + |v|_q - mu (sum_m log det S_m + sum_i log a_i (1 - a_i))`` with v_m the mean of
    ``a^2 / (4 g_m)`` and ``S_m = c_m I - F_m' Diag(g_m) F_m``, F_m over n^1/2 the features.
    """

    roots: tuple[Floats, ...]
    c: float
    q: float
    mu: float

    def slack(self, m: int, g: Floats) -> Floats:
        """S_m."""
        F = self.roots[m]
        S = self.c * np.eye(F.shape[1]) - F.T @ (g[:, None] * F)
        return np.asarray((S + S.T) / 2)

    def value(self, a: Floats, g: Floats) -> float:
        """The function; infinite outside."""
        if not (a > 0).all() or not (a < 1).all() or not (g > 0).all():
            return math.inf
        total = -float(a.mean()) + self.length((a * a / (4 * g)).mean(axis=1))[0]
        total -= self.mu * float(np.log(a).sum() + np.log1p(-a).sum())
        for m, row in enumerate(g):
            try:
                L = np.linalg.cholesky(self.slack(m, row))
            except np.linalg.LinAlgError:
                return math.inf
            total -= 2 * self.mu * float(np.log(np.diagonal(L)).sum())
        return total

    def length(self, v: Floats) -> tuple[float, Floats, Floats]:
        """|v|_q, its derivatives and their matrix; the largest, with a barrier, for q = inf."""
        if math.isinf(self.q):
            # The least t - mu sum log(t - v_m), where the mu / (t - v_m) sum to 1.
            low, high = float(v.max()) + self.mu, float(v.max()) + self.mu * len(v)
            for _ in range(60):
                t = (low + high) / 2
                low, high = (t, high) if (self.mu / (t - v)).sum() > 1 else (low, t)
            s = self.mu / (high - v)
            square = s * s
            B = (np.diag(square) - np.outer(square, square) / square.sum()) / self.mu
            return high - self.mu * float(np.log(high - v).sum()), s, B
        length = norm(v, self.q)
        parts = v / length
        s = parts ** (self.q - 1)
        B = (self.q - 1) / length * (np.diag(parts ** (self.q - 2)) - np.outer(s, s))
        return length, s, B


@dataclass(frozen=True, kw_only=True)
class KernelBarrier(Solver):
    """Maximise ``mean a - |(mean of a^2 / (4 g_m))_m|_q`` over 0 <= a <= 1 and g_m in a cone each.

    ``u_m = a^2 / (4 n g_m)`` turns the linear rows ``c I - 1/n sum_i g_mi x_mi x_mi'`` psd into
    those of `KernelLift`, ``Diag(u_m) - Q_m o aa'`` psd, whatever a is; and a^2 / g is convex in
    both. Newton's method centres with a logarithmic barrier, whose weight then falls: matrices of
    the order of the features, or samples, of each kernel, and one inverse of order n for each; a
    takes another system of order n, and the norm couples the kernels by a matrix of their number.
    5 to 15 Newton steps a weight. Every step proves a bound, and the inverses of the matrices,
    scaled to a diagonal of s_m, are a point.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=30,distance=3,seed=0")
    >>> relaxed = mm.formulations.MKC(X, C=5.0).relax("mkc")
    >>> bool(mm.solve(relaxed, "KernelBarrier").gap < 1e-4)
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (KernelLift,)
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-6, real(0, open_low=True), "relative duality gap at which it stops")
    shrink: float = hyper(0.15, real(0, 0.9, open_low=True),
                          "factor of the weight from step to step")
    newton: int = hyper(40, integer(1), "Newton steps for one weight")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(KernelLift)
        n, M = lift.n, len(lift.joints)
        require_memory(8.0 * (4 * M + 6) * n * n, f"KernelBarrier on {M} matrices of order {n}",
                       "use fewer samples or kernels.")
        barrier = _barrier(lift, 1.0)
        tops = [max(float(np.linalg.norm(F, 2)) ** 2, 1e-300) for F in barrier.roots]
        g = np.repeat(0.5 * barrier.c / np.array(tops), n).reshape(M, n)
        length = barrier.length((0.25 / g).mean(axis=1))[0]
        a = np.full(n, min(0.5, 0.5 / length))
        state = _Dual(a, g, 1.0 / (2 * n + sum(F.shape[1] for F in barrier.roots)))
        return self._progress(f, lift, state)

    def step(self, f: Any, state: _Dual, rng: np.random.Generator) -> Progress:
        lift = f.offer(KernelLift)
        barrier = _barrier(lift, state.mu)
        value, moved = barrier.value(state.a, state.g), 0
        for moved in range(self.newton):  # noqa: B007
            da, dg, decrement = _newton(barrier, state.a, state.g)
            if decrement <= CENTRED**2 * state.mu:
                break
            length = _reach(state.a, state.g, da, dg)
            while length > 1e-10:
                new = barrier.value(state.a + length * da, state.g + length * dg)
                near = decrement <= NEAR**2 * state.mu and new < math.inf
                if near or new <= value - 0.1 * length * decrement:
                    break
                length /= 2
            if length <= 1e-10 or out_of_time():
                break
            state.a, state.g, value = state.a + length * da, state.g + length * dg, new
        state.steps += moved
        progress = self._progress(f, lift, state)
        state.mu *= self.shrink
        state.stuck = state.mu < LEAST_BARRIER / lift.n
        return progress

    def outcome(self, f: Any, state: _Dual) -> Status | None:
        return Status.CONVERGED if state.stuck or state.gap <= self.tol else None

    def _progress(self, f: Any, lift: KernelLift, state: _Dual) -> Progress:
        barrier, a, g = _barrier(lift, state.mu), state.a, state.g
        s = barrier.length((a * a / (4 * g)).mean(axis=1))[1]
        s = s / max(norm(s, lift.p), 1.0)
        point = np.stack([s[m] * correlation(F @ np.linalg.solve(barrier.slack(m, g[m]), F.T))
                          for m, F in enumerate(barrier.roots)])
        duals = {"a": a.copy(), "u": a * a / (4 * lift.n * g)}
        value, bound = f.objective(point), lift.lower(duals)
        state.bound = max(state.bound, bound)
        state.gap = (value - state.bound) / max(abs(value), 1e-300)
        return Progress(state, point, value, bound,
                        {"dual": state.bound, "mu": state.mu, "newton": float(state.steps)}, duals)


def _barrier(lift: KernelLift, mu: float) -> _Barrier:
    margins = [joint.margin for joint in lift.joints]
    return _Barrier(tuple(m.root / math.sqrt(lift.n) for m in margins), margins[0].c, lift.power,
                    mu)


def _reach(a: Floats, g: Floats, da: Floats, dg: Floats) -> float:
    """The length of a step, 1 or short of the bounds."""
    least = min(float((da / a).min()), float((-da / (1 - a)).min()), float((dg / g).min()))
    return 1.0 if least >= -0.95 else -0.95 / least


def _newton(barrier: _Barrier, a: Floats, g: Floats) -> tuple[Floats, Floats, float]:
    """The Newton step and the square of its decrement, for relative changes of a and g.

    The matrix is, for each m, a block G_m of g_m and a diagonal E_m beside a; a's own diagonal; and
    J'BJ, J the derivatives of v and B the matrix of the norm, which few unknowns take out.
    """
    from scipy.linalg import cho_factor, cho_solve

    M, n, mu = len(g), len(a), barrier.mu
    v = a * a / (4 * n * g)
    s, B = barrier.length(v.sum(axis=1))[1:]
    sv, rest = s[:, None] * v, 1.0 - a
    ja, jg = 2 * v, -v  # of v, relative
    A = 2 * sv.sum(axis=0) + mu * (1.0 + (a / rest) ** 2)
    right_a = np.column_stack([a / n + mu * (1.0 - a / rest) - 2 * sv.sum(axis=0), ja.T])
    schur, inverses, right_g = np.diag(A), [], []
    for m in range(M):
        F = barrier.roots[m] * g[m][:, None] ** 0.5
        P = F @ np.linalg.solve(barrier.slack(m, g[m]), F.T)
        G = mu * P * P
        G[np.diag_indices(n)] += 2 * sv[m]
        unit = 1.0 / np.sqrt(np.diagonal(G))
        G *= np.outer(unit, unit)
        G[np.diag_indices(n)] += n * 4 * UNIT
        if not np.isfinite(G).all():
            raise np.linalg.LinAlgError("a matrix of the barrier is no longer finite")
        inverse = spd_inverse((G + G.T) / 2) * np.outer(unit, unit)
        right = np.zeros((n, M + 1))
        right[:, 0], right[:, m + 1] = sv[m] - mu * np.diagonal(P), jg[m]
        E = -2 * sv[m]
        schur -= E[:, None] * inverse * E
        right_a -= E[:, None] * (inverse @ right)
        inverses.append(inverse)
        right_g.append(right)
    unit = 1.0 / np.sqrt(np.maximum(np.diagonal(schur), 1e-15 * A))
    schur = schur * np.outer(unit, unit) + n * 4 * UNIT * np.eye(n)
    x = unit[:, None] * cho_solve(cho_factor((schur + schur.T) / 2), unit[:, None] * right_a)
    y = np.stack([inverse @ (right + 2 * sv[m][:, None] * x)
                  for m, (inverse, right) in enumerate(zip(inverses, right_g, strict=True))])
    # (H + J'BJ)^-1 r = y - H^-1 J' B (I + J H^-1 J' B)^-1 J y
    Jy = ja @ x + np.einsum("mi,mik->mk", jg, y)
    k = B @ np.linalg.solve(np.eye(M) + Jy[:, 1:] @ B, Jy[:, 0])
    da, dg = x[:, 0] - x[:, 1:] @ k, y[:, :, 0] - y[:, :, 1:] @ k
    slope = np.array([r[:, 0] for r in right_g])
    first = a / n + mu * (1.0 - a / rest) - 2 * sv.sum(axis=0)
    return a * da, g * dg, float(first @ da + np.sum(slope * dg))
