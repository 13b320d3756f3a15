"""A barrier method on the dual of the lifted margin, whose every iterate is a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real
from mmcopt.linalg import UNIT
from mmcopt.margin_lift import MarginLift, psi
from mmcopt.result import Status
from mmcopt.solving import Progress, Solver, out_of_time

Floats = NDArray[Any]
DIRECT = 1000  # samples up to which Newton systems are factorised, beyond which they are iterated
FALL = 0.2  # of the barrier's weight from step to step
BACK = 0.95  # share of the way to the boundary of the cone
CENTRED = 0.1  # squared Newton decrement, over the weight, at which a centre is near enough


@dataclass
class _Dual:
    """Duals x = (g, t), with t only if there is a balance to price, and the barrier's weight.

    ``rows`` are x_i / sqrt(n) and s, ``sign`` is -1 for the former: the dual matrix is
    ``S = fixed + sum_j sign_j x_j rows_j rows_j'``.
    """

    rows: Floats
    sign: Floats
    fixed: Floats
    n: int
    square: float
    x: Floats
    t: float
    mu: float
    gap: float = math.inf
    steps: int = 0
    newtons: int = 0
    stuck: bool = False
    W: Floats = field(default_factory=lambda: np.empty(0))
    point: Floats = field(default_factory=lambda: np.empty(0))
    value: float = math.inf
    bound: float = -math.inf

    def slack(self, x: Floats) -> Floats:
        """S at a vector."""
        return np.asarray(self.fixed + self.rows.T @ ((self.sign * x)[:, None] * self.rows))

    def gain(self, x: Floats) -> float:
        """The dual objective with the barriers of the scalars."""
        value = smooth_psi(x[:self.n], self.n * self.mu)[0].mean()
        return float(value + (self.mu * np.log(x[self.n:]) - self.square * x[self.n:]).sum())


def smooth_psi(g: Floats, weight: float) -> tuple[Floats, Floats, Floats]:
    """Psi with a barrier inside, its first derivative, and minus its second.

    The maximum over 0 < a < 1 of ``a - a^2 / (4g) + weight (log a + log(1 - a))``, by bisection;
    psi itself at weight 0.
    """
    low, high = np.zeros(len(g)), np.ones(len(g))
    for _ in range(54):
        a = 0.5 * (low + high)
        rising = (1.0 - a / (2 * g)) * a * (1.0 - a) + weight * (1.0 - 2 * a) > 0
        low, high = np.where(rising, a, low), np.where(rising, high, a)
    a, rest = np.maximum(a, 1e-300), np.maximum(1.0 - a, 1e-16)
    value = a - a * a / (4 * g) + weight * (np.log(a) + np.log(rest))
    pull = weight * (1.0 / a**2 + 1.0 / rest**2)
    # a' = a / (2 g^2) / (1 / (2g) + pull), and psi'' = a / (2 g^2) (a' - a / g).
    curve = a / (2 * g**2) * (a / g) * (2 * g * pull / (1.0 + 2 * g * pull))
    return value, np.square(a / (2 * g)), curve


@dataclass(frozen=True, kw_only=True)
class MarginBarrier(Solver):
    """Maximise ``1/n sum_i psi(g_i) - q t`` where ``c I + t ss' - 1/n sum_i g_i x_i x_i'`` is psd.

    Newton's method on the dual with logarithmic barriers, whose weight falls from step to step; the
    variables are one scalar a sample. The matrix has the smaller of the numbers of samples and
    features as its order; the Newton system has the order n, and above 1000 samples is solved by
    conjugate gradients. Every iterate lies within the cone and so proves a bound; the weight times
    the inverse matrix estimates the primal point, from which labels are rounded.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=40,distance=3,seed=0")
    >>> relaxed = mm.formulations.CPM3C(X, beta=0.3).relax("lifted")
    >>> bool(mm.solve(relaxed, "MarginBarrier").gap < 1e-4)
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (MarginLift,)
    keeps_last: ClassVar[bool] = True
    small_matrices: ClassVar[bool] = True

    tol: float = hyper(1e-6, real(0, open_low=True), "relative duality gap at which it stops")
    max_steps: int = hyper(60, integer(1), "steps after which it gives up")
    newton: int = hyper(40, integer(1), "Newton steps for one weight of the barrier")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(MarginLift)
        F, n, s = lift.root, lift.n, lift.total
        priced, t = lift.balanced and not lift.level, 0.0
        fixed = lift.c * np.eye(F.shape[1])
        if lift.level:
            t = lift.far
            fixed += t * np.outer(s, s)
        rows, sign = F / math.sqrt(n), -np.ones(n)
        if priced:
            rows, sign, t = np.vstack([rows, s]), np.append(sign, 1.0), 0.1 * lift.c / float(s @ s)
        top = float(np.linalg.norm(rows[:n], 2)) ** 2
        x = np.full(n, 0.5 * lift.c / max(top, 1e-300))
        x = np.append(x, t) if priced else x
        state = _Dual(rows, sign, fixed, n, lift.square if priced else 0.0, x, t, 0.0)
        state.mu = max(float(psi(x[:n]).mean()), 1e-300) / (n + F.shape[1])
        state.W = state.mu * np.linalg.inv(state.slack(x))
        return self._progress(f, lift, state)

    def step(self, f: Any, state: _Dual, rng: np.random.Generator) -> Progress:
        state.steps += 1
        before = state.x
        for _ in range(self.newton):
            state.newtons += 1
            if self._newton(state) <= CENTRED * state.mu or out_of_time():
                break
        done = state.mu * (len(state.fixed) + 2 * state.n) <= 0.01 * self.tol * abs(state.value)
        state.stuck = state.steps > 1 and bool(done or (state.x == before).all())
        progress = self._progress(f, f.offer(MarginLift), state)
        state.mu *= FALL
        return progress

    def outcome(self, f: Any, state: _Dual) -> Status | None:
        if state.stuck or state.gap <= self.tol:
            return Status.CONVERGED
        return Status.ITERATION_LIMIT if state.steps >= self.max_steps else None

    def _progress(self, f: Any, lift: MarginLift, state: _Dual) -> Progress:
        x, n = state.x, state.n
        duals = {"g": x[:n].copy(), "t": np.array(x[n] if x.size > n else state.t)}
        W = state.W
        if lift.level:
            unit = lift.total / np.linalg.norm(lift.total)
            W = W - np.outer(W @ unit, unit)
            W = W - np.outer(unit, unit @ W)
        point = lift.stretched(lift.from_root((W + W.T) / 2))
        value, bound = lift.objective(point), lift.lower(duals)
        if value <= state.value:
            state.point, state.value = point, value
        state.bound = max(state.bound, bound)
        state.gap = (state.value - state.bound) / max(abs(state.value), 1e-300)
        return Progress(state, state.point, state.value, bound,
                        {"dual": bound, "newton": float(state.newtons)}, duals)

    @staticmethod
    def _primal(L: Floats, M: Floats, mu: float) -> Floats:
        from scipy.linalg import solve_triangular

        half = solve_triangular(L, np.eye(len(L)), lower=True)
        return np.asarray(mu * half.T @ (np.eye(len(L)) - M) @ half)

    def _newton(self, state: _Dual) -> float:
        """One damped Newton step; the squared decrement."""
        x, n, mu = state.x, state.n, state.mu
        from scipy.linalg import solve_triangular

        try:
            L = np.linalg.cholesky(state.slack(x))
        except np.linalg.LinAlgError:  # as near to the boundary as rounding allows
            return 0.0
        Z = solve_triangular(L, state.rows.T, lower=True)
        gradient, curve = mu * state.sign * np.square(Z).sum(axis=0), np.empty_like(x)
        _, first, second = smooth_psi(x[:n], n * mu)
        gradient[:n] += first / n
        curve[:n] = second / n
        gradient[n:] += mu / x[n:] - state.square
        curve[n:] = mu / x[n:] ** 2
        step = _direct(Z, curve, gradient, state) if n <= DIRECT else \
            _iterated(Z, curve, gradient, state)
        decrement = float(gradient @ step)
        # Along the step S is L (I + length M) L', M of these eigenvalues.
        M = (Z * (state.sign * step)) @ Z.T
        w = np.linalg.eigvalsh(M)
        # The primal point mu S^-1, moved along with the step where that leaves it psd.
        state.W = self._primal(L, M if w[-1] < 1.0 else 0.0 * M, mu)
        reach = float(min(np.min(step / x), w[0], -1e-300))
        length, here = min(1.0, -BACK / reach), state.gain(x)
        for _ in range(40):
            there = state.gain(x + length * step) + mu * float(np.log1p(length * w).sum())
            if there >= here + 0.1 * length * decrement - 1e-13 * abs(here):
                state.x = x + length * step
                return decrement
            length *= 0.5
        return 0.0


def _direct(Z: Floats, curve: Floats, gradient: Floats, state: _Dual) -> Floats:
    """The Newton step by Cholesky: mu (sign Z'Z sign)^2, entry by entry, plus the diagonal."""
    from scipy.linalg import cho_factor, cho_solve

    B = Z.T @ Z
    H = state.mu * np.square(B) * np.outer(state.sign, state.sign)
    H[np.diag_indices(len(H))] += curve
    unit = 1.0 / np.sqrt(np.diagonal(H))
    H *= np.outer(unit, unit)
    H[np.diag_indices(len(H))] += len(H) * 4 * UNIT  # against its rounding
    return np.asarray(unit * cho_solve(cho_factor(H, overwrite_a=True), unit * gradient))


def _iterated(Z: Floats, curve: Floats, gradient: Floats, state: _Dual) -> Floats:
    """The Newton step by conjugate gradients with the diagonal as preconditioner."""
    from scipy.sparse.linalg import LinearOperator, cg

    mu, sign = state.mu, state.sign
    unit = 1.0 / np.sqrt(curve + mu * np.square(np.square(Z).sum(axis=0)))

    def product(p: Floats) -> Floats:
        v = unit * np.ravel(p)
        M = (Z * (sign * v)) @ Z.T
        return np.asarray(unit * (curve * v + mu * sign * np.einsum("ij,ij->j", Z, M @ Z)))

    H = LinearOperator((len(curve), len(curve)), matvec=product, dtype=np.float64)
    return np.asarray(unit * cg(H, unit * gradient, rtol=1e-2, maxiter=200)[0])
