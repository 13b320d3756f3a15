"""What the tests of relaxations share: literal solves, and brute force over labels."""

import functools
import itertools

import numpy as np
import pytest
from literal import solved

import mmcopt as mm
from mmcopt.capabilities import ConvexProgram
from mmcopt.formulations import CPM3C
from mmcopt.kernels import Gaussian
from mmcopt.solvers import CuttingPlane

EXACT = CuttingPlane(epsilon=1e-9)


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


# ---------------------------------------------------------------- hinge problems


def labelings(n, k):
    """All labels, up to the names of the clusters; some clusters may stay empty."""
    return (np.array((0, *c)) for c in itertools.product(range(k), repeat=n - 1)
            if all(h <= max((0, *c)[:i + 1]) + 1 for i, h in enumerate(c)))


@functools.cache
def hinge_optimum(f):
    """The smallest objective of a hinge problem, by its convex problem for all labels.

    On centred features one label for all costs 1, as W = 0 does.
    """
    found = (mm.solve(f.restrict(c), EXACT) for c in labelings(f.n, f.n_clusters)
             if (c.any() or not f.center)
             and np.bincount(c, minlength=f.n_clusters).min() >= f.least)
    return min(1.0, *(r.objective for r in found if r.violation < 1e-7))


def parts(count, quick=1):
    """Numbers 0 .. count - 1 as parameters, of which those after the quick ones are slow tests."""
    return [pytest.param(i, marks=[] if i < quick else pytest.mark.slow) for i in range(count)]


def hinge_problem(seed, k=None, biased=False):
    """A hinge problem of few samples: two or three classes, with and without kernel and balance.

    With ``biased`` half of them have a bias, too.
    """
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2 if k is None else k
    n = int(rng.integers(5, 8)) if k == 2 else int(rng.integers(4, 6))
    X = rng.standard_normal((n, int(rng.integers(1, 9)))) * 10.0 ** rng.uniform(-1, 1)
    X += rng.uniform(0, 3) * (np.arange(n) % k)[:, None]
    center, bias = seed % 3 > 0, (0.0, 0.0, 1.0, 10.0)[seed // 4 % 4] if biased else 0.0
    return CPM3C(X, k, beta=10.0 ** rng.uniform(-2.5, 0.3), center=center, bias=bias,
                 kernel=Gaussian(width=rng.uniform(0.2, 1.0)) if seed % 4 > 1 else None,
                 balance=None if center and not bias else float(rng.choice([0.1, 0.3, 2.0])))
