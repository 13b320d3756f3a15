"""Literal convex programs, solved: what the package's answers are judged by.

`conftest.py` makes this module importable as ``literal``.
"""

import warnings

# A few programs of the examples, and some of jittered ones, end a little above the tolerance of
# 1e-8: where the optimum is a labeling, most constraints hold with equality, and multipliers are
# many. Shorter steps and other scaling mend most; at last 1e-7 is asked for, and values are
# compared to 1e-5. Nothing less accurate is taken. Each begins anew: an attempt that goes on from
# a failed one is worse than the first.
SHORT, SHORTER, PLAIN = ({"max_step_fraction": 0.9}, {"max_step_fraction": 0.8},
                         {"equilibrate_enable": False})
COARSE = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7}
ATTEMPTS = ({}, SHORT, SHORTER, PLAIN, COARSE, SHORT | COARSE)


def solved(problem):
    """The value of a cvxpy problem by Clarabel."""
    import cvxpy as cp

    for options in ATTEMPTS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            warnings.filterwarnings("ignore", message="divide by zero|invalid value")  # cvxpy's
            try:
                problem.solve(solver="CLARABEL", warm_start=False, **options)
            except cp.SolverError:
                continue
        if problem.status == "optimal":
            return float(problem.value)
    raise AssertionError(f"Clarabel does not solve this program to 1e-7: {problem.status}")
