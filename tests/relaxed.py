"""What the tests of relaxations share: literal solves, and brute force over labels."""

import functools
import itertools
import warnings

import numpy as np

from mmcopt.capabilities import ConvexProgram


def solved(problem):
    """The value of a cvxpy problem by Clarabel, whose word on accuracy is not asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver="CLARABEL")
    return problem.value


@functools.cache
def program(r):
    """Value, point and duals of the program that a relaxation offers."""
    p = r.offer(ConvexProgram).build(None)
    return solved(p.problem), p.point(), p.duals()


@functools.cache
def optimum(f):
    """The smallest objective of a label problem."""
    points = (np.array(c) for c in itertools.product(range(f.n_clusters), repeat=f.n))
    return min(f.objective(c) for c in points if f.violation(c) == 0.0)


def is_the_literal_program(r):
    """Judge that program, reference and bound agree, below the optimum of the problem."""
    value, point, duals = program(r)
    for other, rel in ((solved(r.reference()), 1e-5), (r.objective(point), 1e-6),
                       (r.bound(duals), 1e-5)):
        assert abs(other - value) <= max(rel * abs(value), 1e-6)
    assert r.violation(point) < 1e-6
    assert r.bound(duals) <= optimum(r.problem)
