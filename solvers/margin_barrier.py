"""An interior point for the lifted margin, whose every iterate is a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.weight_lift import MarginLift
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real
from mmcopt.linalg import UNIT
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats

DIRECT = 1000  # samples up to which Newton systems are factorised, beyond which they are iterated
BACK = 0.95  # share of the way to the boundary of the cone
ROUNDS = 3  # of a start within a balance
ENOUGH = 1e-3  # relative gap at which steps that rounding stops are no failure
LEADING, LOOSE, MOST = 30, 1e-3, 100  # eigenvectors, tolerance, and steps of iterated systems


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
    W: Floats
    room: Floats
    gap: float = math.inf
    steps: int = 0
    stuck: bool = False
    point: Floats = field(default_factory=lambda: np.empty(0))
    value: float = math.inf
    bound: float = -math.inf

    def slack(self, x: Floats) -> Floats:
        """S at a vector."""
        return np.asarray(self.fixed + self.rows.T @ ((self.sign * x)[:, None] * self.rows))


def smooth_psi(g: Floats, weight: float) -> tuple[Floats, Floats]:
    """The first derivative of psi with a barrier inside, and minus its second.

    That is the maximum over 0 < a < 1 of ``a - a^2 / (4g) + weight (log a + log(1 - a))``, found by
    bisection; psi itself at weight 0.
    """
    low, high = np.zeros(len(g)), np.ones(len(g))
    for _ in range(54):
        a = 0.5 * (low + high)
        rising = (1.0 - a / (2 * g)) * a * (1.0 - a) + weight * (1.0 - 2 * a) > 0
        low, high = np.where(rising, a, low), np.where(rising, high, a)
    a, rest = np.maximum(a, 1e-300), np.maximum(1.0 - a, 1e-16)
    pull = weight * (1.0 / a**2 + 1.0 / rest**2)
    # a' = a / (2 g^2) / (1 / (2g) + pull), and psi'' = a / (2 g^2) (a' - a / g).
    curve = a / (2 * g**2) * (a / g) * (2 * g * pull / (1.0 + 2 * g * pull))
    return np.square(a / (2 * g)), curve


@dataclass(frozen=True, kw_only=True)
class MarginBarrier(Solver):
    """Maximise ``1/n sum_i psi(g_i) - q t`` where ``c I + t ss' - 1/n sum_i g_i x_i x_i'`` is psd.

    A primal-dual path (the HKM direction): psd matrices W and S of the smaller of the numbers of
    samples and features as their order, one scalar g_i a sample, whose psi is smoothed by a barrier
    of the same falling weight, and t with the room that the balance has left. The Newton system is
    ``(X S^-1 X') o (X W X')`` plus a diagonal, of the order n; above 1000 samples conjugate
    gradients solve it. 20 to 30 steps. Every iterate lies within the dual cone and so proves a
    bound, and W, stretched, is a primal point.

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

    tol: float = hyper(1e-6, real(0, open_low=True), "relative duality gap at which it stops")
    max_steps: int = hyper(200, integer(1), "steps after which it gives up")

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
        state = _Dual(rows, sign, fixed, n, lift.square if priced else 0.0, x, t, 1.0, fixed,
                      np.full(x.size - n, lift.square))
        inverse = np.linalg.inv(state.slack(x))
        for _ in range(ROUNDS if priced and lift.square > 0.0 else 0):
            # A tight balance begins within its limit, and the rest where that leaves it room.
            reach = float(s @ inverse @ s)
            mass = max(float(np.sum((rows[:n] @ inverse) * rows[:n])), 1e-300)
            x[n] = max(x[n], x[n] + (20.0 * reach / (mass * lift.square) - 1.0) / reach)
            root = np.linalg.cholesky(np.linalg.inv(fixed + x[n] * np.outer(s, s)))
            x[:n] = 0.5 / max(float(np.linalg.norm(rows[:n] @ root, 2)) ** 2, 1e-300)
            inverse = np.linalg.inv(state.slack(x))
        # Squared margins of 10 on average: W must not come near the boundary too soon.
        state.mu = 10.0 / max(float(np.sum((rows[:n] @ inverse) * rows[:n])), 1e-300)
        state.W = state.mu * inverse
        state.room = np.maximum(lift.square - s @ state.W @ s, 0.1 * state.room)
        return self._progress(f, lift, state)

    def step(self, f: Any, state: _Dual, rng: np.random.Generator) -> Progress:
        state.steps += 1
        lengths = self._newton(state)
        state.stuck = sum(lengths) < 1e-6
        # Aim lower the longer the steps are; after short ones, at the centre of where it is.
        now = max(float(np.sum(state.W * state.slack(state.x))) / len(state.W), 1e-300)
        least = min(lengths)
        state.mu = min(state.mu, now) * 0.2 if least > 0.7 else now * (0.5 if least > 0.3 else 1.0)
        return self._progress(f, f.offer(MarginLift), state)

    def outcome(self, f: Any, state: _Dual) -> Status | None:
        if state.gap <= self.tol or (state.stuck and state.gap <= ENOUGH):
            return Status.CONVERGED
        if state.stuck:
            return Status.FAILED
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
                        {"dual": bound, "mu": state.mu}, duals)

    def _newton(self, state: _Dual) -> tuple[float, float]:
        """One step towards the centre of the weight mu; its lengths in W and in the duals."""
        x, n, mu = state.x, state.n, state.mu
        w, U = np.linalg.eigh(state.slack(x))
        if not w[0] > 0.0:  # as near to the boundary as rounding allows
            return 0.0, 0.0
        half = (U / np.sqrt(w)).T  # half S half' = I
        Z = half @ state.rows.T
        turned = (U * np.sqrt(w)).T @ state.W @ (U * np.sqrt(w))
        gradient, curve = mu * state.sign * np.square(Z).sum(axis=0), np.empty_like(x)
        first, second = smooth_psi(x[:n], len(w) * mu)
        gradient[:n] += first / n
        curve[:n] = second / n
        gradient[n:] += mu / x[n:] - state.square
        curve[n:] = state.room / x[n:]
        solve = _direct if n <= DIRECT else _iterated
        step = solve(Z, turned, curve, gradient, state.sign)
        M = (Z * (state.sign * step)) @ Z.T
        dual = _reach(min(float(np.min(step / x)), float(np.linalg.eigvalsh(M)[0])))
        move = turned @ M
        move = mu * np.eye(len(M)) - turned - (move + move.T) / 2
        ease = mu / x[n:] - state.room * (1.0 + step[n:] / x[n:])
        primal = _reach(float(np.min(np.append(ease / state.room, _least(move, turned)))))
        state.room = state.room + primal * ease
        state.x = x + dual * step
        W = half.T @ (turned + primal * move) @ half
        state.W = (W + W.T) / 2
        return primal, dual


def _reach(least: float) -> float:
    """The length of a step, 1 or short of the boundary, from its least relative change."""
    return 1.0 if least >= -BACK else -BACK / least


def _least(move: Floats, at: Floats) -> float:
    """The least eigenvalue of a change relative to a positive definite matrix."""
    from scipy.linalg import LinAlgError, eigh

    try:
        return float(eigh(move, at, eigvals_only=True, subset_by_index=[0, 0])[0])
    except LinAlgError:
        return -math.inf


def _direct(Z: Floats, turned: Floats, curve: Floats, gradient: Floats, sign: Floats) -> Floats:
    """The step by Cholesky: Z'Z times Z'WZ, entry by entry and with signs, plus the diagonal."""
    from scipy.linalg import cho_factor, cho_solve

    H = (Z.T @ Z) * (Z.T @ turned @ Z) * np.outer(sign, sign)
    H[np.diag_indices(len(H))] += curve
    unit = 1.0 / np.sqrt(np.diagonal(H))
    H *= np.outer(unit, unit)
    H[np.diag_indices(len(H))] += len(H) * 4 * UNIT  # against its rounding
    return np.asarray(unit * cho_solve(cho_factor((H + H.T) / 2), unit * gradient))


def _iterated(Z: Floats, turned: Floats, curve: Floats, gradient: Floats, sign: Floats) -> Floats:
    """The step by conjugate gradients.

    The rows of Z belong to the eigenvectors of S, smallest first. Near the boundary the first few
    make up most of the matrix, which then has few columns: its inverse preconditions.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse.linalg import LinearOperator, cg

    few, w = Z[:LEADING], np.diagonal(turned)
    a, b = np.triu_indices(len(few))
    Q = few[a] * few[b] * sign * np.sqrt(np.where(a == b, w[a], w[a] + w[b]))[:, None]
    square = np.square(Z)
    D = curve + (w @ square) * square.sum(axis=0) - np.square(Q).sum(axis=0)
    D = np.maximum(D, 1e-12 * (curve + np.square(Q).sum(axis=0)))
    unit = 1.0 / np.sqrt(D)  # so that residuals of g and t, of different units, compare
    Q *= unit
    core = cho_factor(Q @ Q.T + np.eye(len(Q)))

    def product(p: Floats) -> Floats:
        v = unit * np.ravel(p)
        M = turned @ ((Z * (sign * v)) @ Z.T)
        out = curve * v + sign * np.einsum("ij,ij->j", Z, (M + M.T) / 2 @ Z)
        return np.asarray(unit * out)

    def inverse(p: Floats) -> Floats:
        v = np.ravel(p)
        return np.asarray(v - Q.T @ cho_solve(core, Q @ v))

    shape = (len(curve), len(curve))
    H = LinearOperator(shape, matvec=product, dtype=np.float64)
    P = LinearOperator(shape, matvec=inverse, dtype=np.float64)
    return np.asarray(unit * cg(H, unit * gradient, rtol=LOOSE, maxiter=MOST, M=P)[0])
