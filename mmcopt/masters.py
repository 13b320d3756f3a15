"""The small quadratic programs behind cutting planes: by our compiled method, or a conic solver.

maximise ``b'a - a'Qa / 2`` over a >= 0 whose first m entries sum to at most 1: the dual over cuts,
of which there are few; further entries are multipliers of constraints without a cap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.linalg import UNIT
from mmcopt.planes import ascend_master

Floats = NDArray[Any]


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


# ---------------------------------------------------------------- conic solvers


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
