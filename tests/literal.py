"""Literal convex programs, solved: what the package's answers are judged by.

`conftest.py` makes this module importable as ``literal``.
"""

import warnings

# Clarabel gives up, or ends a little above its tolerance, where rounding is in its way: then it is
# asked again, without scaling, and for a tenth and a hundredth of the accuracy.
ATTEMPTS = ({}, {"equilibrate_enable": False},
            {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7},
            {"tol_gap_abs": 1e-6, "tol_gap_rel": 1e-6, "tol_feas": 1e-6})


def solved(problem):
    """The value of a cvxpy problem by Clarabel."""
    import cvxpy as cp

    for options in ATTEMPTS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            warnings.filterwarnings("ignore", message="divide by zero|invalid value")  # cvxpy's
            try:
                problem.solve(solver="CLARABEL", **options)
            except cp.SolverError:
                continue
        if problem.status == "optimal":
            break
    return float(problem.value)
