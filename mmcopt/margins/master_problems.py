"""The small quadratic programs behind cutting planes: by our compiled method, or other solvers.

maximise ``b'a - a'Qa / 2`` over a >= 0 whose first m entries sum to at most 1: the dual over cuts,
of which there are few; further entries are multipliers of constraints without a cap.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mmcopt.compiled.cutting_planes import ascend_master
from mmcopt.errors import BackendError
from mmcopt.types import Floats


def solve_master(Q: Floats, b: Floats, capped: int, start: Floats | None = None,
                 tol: float = 1e-12) -> Floats:
    """The maximiser of ``b'a - a'Qa / 2`` over a >= 0, the first ``capped`` summing to at most 1.

    >>> solve_master(np.eye(2), np.array([3.0, 1.0]), 2).tolist()
    [1.0, 0.0]
    """
    a = np.zeros(len(b)) if start is None else start.copy()
    ascend_master(np.ascontiguousarray(Q), b, capped, a, tol, 50 + 20 * len(b))
    return a


# ---------------------------------------------------------------- other solvers

ACCURATE = 1e-3  # gap, relative, up to which the answer of another solver is taken

LOOSER = 100.0  # than these, for a solver that gives up
TOLERANCES: dict[str, dict[str, Any]] = {
    "ecos": {"abstol": 3e-11, "reltol": 3e-11, "feastol": 1e-10, "max_iters": 500},
    "scs": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 200_000},
    "cvxopt": {"abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9},
    "clarabel": {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11},
    "osqp": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000},
}


def conic_master(Q: Floats, b: Floats, capped: int, p: float,
                 backend: str) -> tuple[Floats, Floats]:
    """The a of `ascend_blocks` and its weights by another solver, for reference and comparison."""
    if len(Q) == 1 and backend in QUADRATIC:
        found, weights = _feasible(QUADRATIC[backend](Q[0], b, capped), capped), np.ones(1)
    else:
        found, weights = _by_cone(Q, b, capped, p, backend)
    off = _gap(np.einsum("m,mij->ij", weights, Q), b, capped, found)
    if off > ACCURATE:
        raise _failed(backend, len(b), f"inaccurate, by {off:.1g}")
    return found, weights


def _gap(Q: Floats, b: Floats, capped: int, a: Floats) -> float:
    """The gap of an answer for given weights, or what its W breaks constraints by; relative."""
    slopes = b - Q @ a
    square = float(a @ Q @ a)
    slack = max(0.0, float(slopes[:capped].max(initial=0.0)))
    value = float(b @ a) - square / 2
    unit = max(1e-3, abs(value), square / 2 + slack)
    over = float(slopes[capped:].max(initial=0.0)) / max(1.0, float(np.abs(b).max()))
    return max((square / 2 + slack - value) / unit, over)


def _by_cone(Q: Floats, b: Floats, capped: int, p: float,
             backend: str) -> tuple[Floats, Floats]:
    """The a of `ascend_blocks` and its weights by a cone, through cvxpy."""
    import cvxpy as cp

    a = cp.Variable(len(b), nonneg=True)
    squares = []
    for block in Q:
        w, V = np.linalg.eigh(block)
        squares.append(cp.sum_squares((V * np.sqrt(np.maximum(w, 0.0))).T @ a))
    dual_p: Any = p / (p - 1.0) if p > 1.0 else np.inf
    norm = squares[0] if len(squares) == 1 else cp.pnorm(cp.hstack(squares), dual_p)
    cap: list[Any] = [cp.sum(a[:capped]) <= 1.0]
    problem = cp.Problem(cp.Maximize(b @ a - norm / 2), cap)
    for looser in (1.0, LOOSER):
        options = {name: v * looser if isinstance(v, float) else v
                   for name, v in TOLERANCES[backend].items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # see `_gap`
            try:
                problem.solve(solver=backend.upper(), **options)
            except (cp.SolverError, ArithmeticError) as e:
                if looser == LOOSER:
                    raise _failed(backend, len(b), str(e)) from e
                continue
        if a.value is not None:
            break
    if a.value is None:
        raise _failed(backend, len(b), problem.status)
    found = _feasible(np.asarray(a.value), capped)
    values = np.maximum(np.einsum("i,mij,j->m", found, Q, found), 0.0)
    if len(Q) == 1 or not values.max() > 0:
        return found, np.full(len(Q), len(Q) ** (-1.0 / p))
    weights = (values / values.max()) ** (1.0 / (p - 1.0))
    return found, weights / np.sum(weights**p) ** (1.0 / p)


def cvxopt_master(Q: Floats, b: Floats, capped: int) -> Floats:
    """The a of `solve_master` by the quadratic program of CVXOPT: closer than by a cone."""
    from cvxopt import matrix, solvers

    n = len(b)
    A = np.vstack([-np.eye(n), np.arange(n) < capped])
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}
    try:
        found = solvers.qp(matrix(Q), matrix(-b), matrix(A), matrix(np.append(np.zeros(n), 1.0)),
                           kktsolver="ldl", options=options)
    except (ArithmeticError, ValueError) as e:
        raise _failed("cvxopt", n, str(e)) from e
    if found["status"] != "optimal":
        raise _failed("cvxopt", n, found["status"])
    return np.asarray(found["x"]).ravel()


def daqp_master(Q: Floats, b: Floats, capped: int) -> Floats:
    """The a of `solve_master` by the dual active-set method of DAQP; Q may be singular."""
    try:
        import daqp
    except ImportError as e:
        raise BackendError("master='daqp' needs DAQP: pip install 'mmcopt[qp]'.") from e
    n = len(b)
    a, _, flag, _ = daqp.solve(
        np.ascontiguousarray(Q), -b, (np.arange(n) < capped).astype(np.float64)[None],
        np.append(np.full(n, np.inf), 1.0), np.append(np.zeros(n), -np.inf),
        primal_tol=1e-10, eta_prox=1e-9)
    if flag <= 0:
        raise _failed("daqp", n, flag)
    return np.asarray(a)


QUADRATIC = {"cvxopt": cvxopt_master, "daqp": daqp_master}  # of one block of columns


def _feasible(a: Floats, capped: int) -> Floats:
    """The answer of a solver, moved by its tolerance to where it is feasible."""
    a = np.maximum(a, 0.0)
    a[:capped] /= max(1.0, float(a[:capped].sum()))
    return a


def _failed(backend: str, n: int, status: Any) -> BackendError:
    return BackendError(f"{backend} ended a master of {n} cuts with status {status!r}; use "
                        "master='alternating'.")
