"""The small quadratic programs behind cutting planes, by a compiled active-set method.

maximise ``b'a - a'Qa / 2`` over a >= 0 whose first m entries sum to at most 1: the dual over cuts,
of which there are few; further entries are multipliers of constraints without a cap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mmcopt.linalg import UNIT

F = Any
Floats = NDArray[Any]
RIDGE = 1e-12  # of the largest diagonal: damps steps along directions in which cuts depend
loop = njit(cache=True, nogil=True, error_model="numpy")


@loop
def _newton(M: F, x: F, m: int, ridge: float) -> None:
    """Overwrite x by the solution of (M + ridge I) d = x, and M by its Cholesky factor."""
    for i in range(m):
        for j in range(i):
            for q in range(j):
                M[i, j] -= M[i, q] * M[j, q]
            M[i, j] /= M[j, j]
        total = M[i, i] + ridge
        for q in range(i):
            total -= M[i, q] * M[i, q]
        M[i, i] = np.sqrt(max(total, ridge))
    for i in range(m):
        for q in range(i):
            x[i] -= M[i, q] * x[q]
        x[i] /= M[i, i]
    for i in range(m - 1, -1, -1):
        for q in range(i + 1, m):
            x[i] -= M[q, i] * x[q]
        x[i] /= M[i, i]


@loop
def _face(Q: F, g: F, free: F, m: int, capped: int, pivot: int, M: F, x: F, ridge: float) -> float:
    """Newton step on a face into x (m,); the largest slope on it.

    ``pivot`` >= 0 is the free entry that gives what the other capped ones take, so that their sum
    stays; its own place in x is what it takes.
    """
    left, k = 0.0, 0
    for i in range(m):
        f = free[i]
        if f == pivot:
            continue
        tied = pivot >= 0 and f < capped
        x[k] = g[f] - (g[pivot] if tied else 0.0)
        left = max(left, abs(x[k]))
        q = 0
        for j in range(i + 1):
            h = free[j]
            if h == pivot:
                continue
            value = Q[f, h]
            if tied:
                value -= Q[pivot, h]
            if pivot >= 0 and h < capped:
                value -= Q[f, pivot]
                if tied:
                    value += Q[pivot, pivot]
            M[k, q] = value
            q += 1
        k += 1
    _newton(M, x, k, ridge)
    if pivot >= 0:  # put the steps back in their places
        given, k = 0.0, k - 1
        for i in range(m - 1, -1, -1):
            if free[i] == pivot:
                at = i
                continue
            x[i] = x[k]
            k -= 1
            if free[i] < capped:
                given += x[i]
        x[at] = -given
    return left


@loop
def ascend_master(Q: F, b: F, capped: int, a: F, tol: float, limit: int) -> int:
    """Improve a feasible ``a`` to the optimum, in place; the number of steps taken.

    Free entries take a Newton step, a little damped so that dependent cuts do no harm, cut off
    where one of them, or the slack of the cap, reaches zero. Where nothing is left to gain on the
    face, the entry with the largest gain joins, and where that is below ``tol``, a is optimal.
    """
    n, top = b.size, 1e-100
    for i in range(n):
        top = max(top, Q[i, i])
    is_free = a > 0.0
    used = min(a[:capped].sum(), 1.0)
    tight = used >= 1.0 - 1e-15
    free, g, M, x = np.empty(n, np.int64), np.empty(n), np.empty((n, n)), np.empty(n)
    for it in range(limit):
        m, pivot = 0, -1
        for i in range(n):
            if is_free[i]:
                free[m] = i
                m += 1
                if tight and i < capped and (pivot < 0 or a[i] > a[pivot]):
                    pivot = i
        for i in range(n):
            g[i] = b[i]
            for j in range(m):
                g[i] -= Q[i, free[j]] * a[free[j]]
        if _face(Q, g, free, m, capped, pivot, M, x, RIDGE * top) > tol:
            step, who, slope = 1.0, -1, 0.0
            for i in range(m):
                if free[i] < capped:
                    slope += x[i]
                if x[i] < 0.0 and a[free[i]] + step * x[i] < 0.0:
                    step, who = -a[free[i]] / x[i], i
            if not tight and slope > 0.0 and used + step * slope > 1.0:
                step, who = (1.0 - used) / slope, n
            for i in range(m):
                a[free[i]] = max(a[free[i]] + step * x[i], 0.0)
            if who == n:
                tight = True
            elif who >= 0:
                a[free[who]] = 0.0
                is_free[free[who]] = False
            used = a[:capped].sum()
            if used > 1.0:
                a[:capped] /= used
                used = 1.0
            continue
        price = g[pivot] if tight else 0.0
        if price < -tol:  # the cap holds nothing back
            tight = False
            continue
        best, joins = tol, -1
        for i in range(n):
            if not is_free[i]:
                gain = g[i] - (price if i < capped else 0.0)
                if gain > best:
                    best, joins = gain, i
        if joins < 0:
            return it
        is_free[joins] = True
    return limit


def solve_master(Q: Floats, b: Floats, capped: int, start: Floats | None = None,
                 tol: float = 1e-12) -> Floats:
    """The maximiser of ``b'a - a'Qa / 2`` over a >= 0, the first ``capped`` summing to at most 1.

    >>> solve_master(np.eye(2), np.array([3.0, 1.0]), 2).tolist()
    [1.0, 0.0]
    """
    a = np.zeros(len(b)) if start is None else start.copy()
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    # Slopes are rounded in proportion to Q: below that there is nothing to gain.
    least = max(tol * scale, 8 * UNIT * float(np.abs(Q.diagonal()).max(initial=0.0)))
    ascend_master(np.ascontiguousarray(Q), b, capped, a, least, 50 + 20 * len(b))
    return a


# ---------------------------------------------------------------- several blocks


@loop
def ascend_blocks(Q: F, b: F, capped: int, p: float, a: F, weights: F, tol: float,
                  limit: int) -> tuple[float, float]:
    """Improve ``a`` and the weights of blocks; the primal value and the dual one.

    maximise ``b'a - |(a'Q_m a)_m|_r / 2`` over the set of `ascend_master`, r dual to p: the dual of
    cutting planes whose regulariser is ``min over weights, |weights|_p <= 1, of
    sum_m |v_m|^2 / (2 weights_m)``. The weights are held while a is found, and then follow in
    closed form from v_m = weights_m sum_j a_j g_jm. Ends when the gap is ``tol`` of the value.
    """
    blocks, n = Q.shape[0], b.size
    mixed, moved = np.empty((n, n)), np.empty((blocks, n))
    square, length = np.empty(blocks), np.empty(blocks)
    best, worst = -np.inf, np.inf
    kept_a, kept = a.copy(), weights.copy()
    for _ in range(limit):
        mixed[:] = 0.0
        for m in range(blocks):
            mixed += weights[m] * Q[m]
        ascend_master(mixed, b, capped, a, 1e-13 * max(1.0, np.abs(b).max()), 50 + 20 * n)
        linear = (a * b).sum()
        for m in range(blocks):
            moved[m] = Q[m] @ a
            square[m] = max((a * moved[m]).sum(), 0.0)
            length[m] = weights[m] * np.sqrt(square[m])
        if p == 1.0:
            norm = square.max()
        else:
            r = p / (p - 1.0)
            top = max(square.max(), 1e-300)
            norm = top * (((square / top)**r).sum())**(1.0 / r)
        best = max(best, linear - 0.5 * norm)
        q = 2.0 * p / (p + 1.0)
        high = max(length.max(), 1e-300)
        regular = 0.5 * (high * (((length / high)**q).sum())**(1.0 / q))**2
        slack = 0.0
        for j in range(n):
            reach = b[j]
            for m in range(blocks):
                reach -= weights[m] * moved[m, j]
            slack = max(slack, reach)
        if regular + slack < worst:
            worst = regular + slack
            kept_a[:], kept[:] = a, weights
        if worst - best <= tol * max(abs(worst), 1e-300) or length.max() == 0.0:
            break
        new = (length / high)**(2.0 / (p + 1.0))
        weights[:] = new / ((new**p).sum())**(1.0 / p)
    a[:], weights[:] = kept_a, kept
    return worst, best


TOLERANCES: dict[str, dict[str, Any]] = {
    "ecos": {"abstol": 1e-10, "reltol": 1e-10, "feastol": 1e-10, "max_iters": 500},
    "scs": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 200_000},
    "cvxopt": {"abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9},
    "clarabel": {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11},
    "osqp": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000, "polish": True},
}


def conic_master(Q: Floats, b: Floats, capped: int, p: float,
                 backend: str) -> tuple[Floats, Floats]:
    """The a of `ascend_blocks` and its weights by a conic solver, for reference and comparison."""
    import cvxpy as cp

    from mmcopt.errors import BackendError

    a = cp.Variable(len(b), nonneg=True)
    squares = []
    for block in Q:
        w, V = np.linalg.eigh(block)
        squares.append(cp.sum_squares((V * np.sqrt(np.maximum(w, 0.0))).T @ a))
    dual_p: Any = p / (p - 1.0) if p > 1.0 else np.inf
    norm = squares[0] if len(squares) == 1 else cp.pnorm(cp.hstack(squares), dual_p)
    cap: list[Any] = [cp.sum(a[:capped]) <= 1.0]
    problem = cp.Problem(cp.Maximize(b @ a - norm / 2), cap)
    try:
        problem.solve(solver=backend.upper(), **TOLERANCES[backend])
    except cp.SolverError as e:
        raise BackendError(f"{backend} could not solve a master of {len(b)} cuts ({e}); use "
                           "master='alternating'.") from e
    if a.value is None:
        raise BackendError(f"{backend} ended a master of {len(b)} cuts with status "
                           f"{problem.status!r}; use master='alternating'.")
    found = np.maximum(np.asarray(a.value), 0.0)
    found[:capped] /= max(1.0, float(found[:capped].sum()))
    values = np.maximum(np.einsum("i,mij,j->m", found, Q, found), 0.0)
    if len(Q) == 1 or not values.max() > 0:
        return found, np.full(len(Q), len(Q) ** (-1.0 / p))
    weights = (values / values.max()) ** (1.0 / (p - 1.0))
    return found, weights / np.sum(weights**p) ** (1.0 / p)
