"""The sphere of support vector clustering, and that it is the half-space of SGD-LMSVC."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import Hypersphere
from mmcopt.formulations.hypersphere import into_simplex
from mmcopt.kernels import Gaussian, Laplacian, Linear, Polynomial
from mmcopt.solvers import Conic, DualCoordinate, Libsvm

CLOUDS = np.vstack([np.random.default_rng(0).standard_normal((15, 2)) + c for c in (-2, 2)])


@pytest.mark.parametrize("C", [1.0, 1.5, 6.0, 30.0, 1e4])
@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_it_is_the_half_space_of_the_one_class_hinge_problem(C, gamma):
    sphere = Hypersphere(CLOUDS, C=C, kernel=Gaussian(gamma=gamma))
    result = mm.solve(sphere, Conic("Clarabel"))
    assert result.gap < 1e-6
    problem, a = sphere.half_space(result.point)
    plane = mm.solve(problem, DualCoordinate(tol=1e-10), seed=0)
    assert problem.objective(a) == pytest.approx(plane.objective, rel=1e-5)
    assert problem.nu(a) == pytest.approx(1 / C, rel=1e-6)
    new = CLOUDS + 0.4
    r = 1 / np.abs(a).max() * np.abs(result.point).max()
    np.testing.assert_allclose(result.decision_function(new), 2 * r * problem.decision_function(
        a, new), atol=1e-9)  # R^2 - |phi - c|^2 = 2 (w'phi - r)


@pytest.mark.parametrize("C", [1.0, 2.0, 5.0, 1000.0])
def test_libsvm_and_conic_agree(C):
    sphere = Hypersphere(CLOUDS, C=C, kernel=Gaussian(gamma=0.3))
    ours, theirs = mm.solve(sphere, Libsvm(tol=1e-8)), mm.solve(sphere, Conic("Clarabel"))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
    assert ours.gap < 1e-6 and ours.verify() and theirs.verify()


def test_the_radius_is_the_best_of_all():
    rng = np.random.default_rng(1)
    for weights in (None, rng.integers(1, 4, 30)):
        sphere = Hypersphere(CLOUDS, C=3.7, kernel=Gaussian(gamma=0.3), sample_weight=weights)
        b = rng.uniform(0, 1, 30)
        d = sphere.distances(b)[0]
        values = [R + sphere.upper @ np.maximum(d - R, 0) for R in [0.0, *d]]
        assert sphere.objective(b) == pytest.approx(min(values), rel=1e-12)


def test_labels_on_the_sphere_may_fall_either_way():
    f = Hypersphere(CLOUDS, C=4.0, kernel=Gaussian(gamma=0.3))
    result = mm.solve(f, Conic())
    depth = f.radius(result.point) - f.distances(result.point)[0]
    edge, deep = np.abs(depth) < 1e-10, np.argmax(depth)
    assert edge.any() and result.verify()

    def changed(where):
        return dataclasses.replace(result, labels=np.where(where, 1 - result.labels, result.labels))

    assert changed(edge).verify() and not changed(np.arange(f.n) == deep).verify()


def test_the_centre_of_a_triangle():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, 0.2]])
    result = mm.solve(Hypersphere(X, C=1000.0, kernel=Linear()), Conic("Clarabel"))
    assert result.objective == pytest.approx(1.0, rel=1e-6)  # centre (1, 0), radius 1
    np.testing.assert_allclose(result.point @ X, [1.0, 0.0], atol=1e-4)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(1.0, 20.0))
def test_moving_into_the_simplex(values, C):
    b, upper = np.array(values), np.full(len(values), C / len(values))
    x = into_simplex(b, upper)
    assert (x >= 0).all() and (x <= upper * (1 + 1e-12)).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    for i, j in itertools.permutations(range(len(b)), 2):  # no exchange comes nearer
        step = 1e-4
        if x[i] + step <= upper[i] and x[j] - step >= 0:
            y = x.copy()
            y[i], y[j] = y[i] + step, y[j] - step
            assert np.sum((y - b)**2) >= np.sum((x - b)**2) - 1e-9


def test_bad_input_gets_a_sentence():
    with pytest.raises(ParameterError, match="C must be a finite number at least 1"):
        Hypersphere(CLOUDS, C=0.5)
    with pytest.raises(DataError, match="constant diagonal"):
        Hypersphere(CLOUDS, kernel=Linear()).half_space(np.full(30, 1 / 30))
    with pytest.raises(mm.errors.IncompatibleError, match="SimplexDual"):
        mm.solve(Hypersphere(CLOUDS, kernel=Linear()), "Libsvm")


@pytest.mark.parametrize("kernel", [Linear().centered(), Gaussian(gamma=0.4).centered(),
                                    Polynomial(2).normalized(), Polynomial(2).centered(),
                                    Gaussian(gamma=0.4).nystroem(8), Linear() + Gaussian(gamma=1.0),
                                    2.0 * Laplacian(gamma=1.0)], ids=repr)
def test_decisions_of_any_kernel_are_those_of_the_samples(kernel):
    sphere = Hypersphere(CLOUDS, C=6.0, kernel=kernel)
    b = np.random.default_rng(0).uniform(0, 1, 30)
    b /= b.sum()
    wanted = sphere.radius(b) - sphere.distances(b)[0]
    np.testing.assert_allclose(sphere.decision_function(b, CLOUDS), wanted, atol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(width=1e9), Gaussian(sigma=1e8),
                                    Laplacian(gamma=1e-13)], ids=str)
def test_a_kernel_as_good_as_constant_is_refused_with_one_that_is_not(kernel):
    X = Hypersphere.clouds()
    with pytest.raises(ParameterError, match="reach 1, .* would have to be .*; give a ") as e:
        mm.solve(Hypersphere(X, kernel=kernel))
    name, value = re.search(r"give a (\w+) of (\S+),", str(e.value)).groups()
    assert mm.solve(Hypersphere(X, kernel=type(kernel)(**{name: float(value)}))).verify()


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Polynomial(3)], ids=str)
def test_data_far_from_0_are_solved_as_long_as_rounding_allows_and_then_refused(kernel):
    X = Hypersphere.clouds()
    assert mm.solve(Hypersphere(X + 1e3, kernel=kernel)).status is mm.Status.CERTIFIED
    with pytest.raises(ParameterError, match="the square of the radius, .*; centre the data"):
        mm.solve(Hypersphere(X + 1e8, kernel=kernel))
