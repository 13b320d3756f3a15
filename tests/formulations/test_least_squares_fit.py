"""The convex problem that is left when the labels are given."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import LeastSquares, LeastSquaresFit
from mmcopt.kernels import Gaussian, Linear
from mmcopt.modeling.result import Status

RNG = np.random.default_rng(0)
X = RNG.standard_normal((10, 2))
Y = np.arange(10) % 3
F = LeastSquaresFit(X, Y, 3, kernel=Gaussian(width=0.6), lam=0.4)


def test_the_optimum_is_the_solution_of_the_normal_equations():
    r = mm.solve(F)
    assert r.solver == "Direct" and r.status is Status.CERTIFIED
    np.testing.assert_allclose((F.K + 0.4 * np.eye(10)) @ r.point, F.P, atol=1e-10)
    for _ in range(50):
        near = r.point + 10.0 ** RNG.uniform(-6, 0) * RNG.standard_normal(r.point.shape)
        assert F.objective(near) > r.objective


def test_the_objective_is_the_definition():
    A = RNG.standard_normal((10, 3))
    total = 0.0
    for h in range(3):
        p = np.where(h == Y, 1.0, -1.0)
        total += np.sum((p - F.K @ A[:, h]) ** 2) + 0.4 * A[:, h] @ F.K @ A[:, h]
    assert F.objective(A) == pytest.approx(total)
    assert F.violation(A) == 0.0


def test_one_sample_in_each_cluster_by_hand():
    f = LeastSquaresFit([[-1.0], [1.0]], [0, 1], 2, kernel=Linear(), lam=0.5, center=False)
    r = mm.solve(f)
    np.testing.assert_allclose(r.point, np.linalg.inv([[1.5, -1], [-1, 1.5]]) @ [[1, -1], [-1, 1]])
    assert r.objective == pytest.approx(0.8)


def test_the_bound_is_quadratically_close_and_never_above():
    best = mm.solve(F)
    M = F.K + 0.4 * np.eye(10)
    for _ in range(200):
        A = best.point + 10.0 ** RNG.uniform(-9, 3) * RNG.standard_normal((10, 3))
        bound = F._bound({"A": A})
        assert bound <= best.objective
        gap = np.sum((F.P - M @ A) ** 2)
        value = F.objective(A)
        assert value - bound == pytest.approx(gap, rel=1e-6, abs=1e-9 * abs(value))


def test_unfinished_points_have_an_honest_gap():
    r = mm.solve(F, init=np.zeros((10, 3)), time_limit=0.0)
    assert r.status is Status.TIME_LIMIT and r.gap > 0.1 and r.verify()


def test_it_is_what_is_left_of_the_label_problem():
    whole = LeastSquares(X, 3, kernel=Gaussian(width=0.6), lam=0.4)
    rest = whole.restrict(Y)
    assert rest.fingerprint == F.fingerprint
    assert mm.solve(rest).objective == pytest.approx(whole.objective(Y), rel=1e-10)
    mean = LeastSquares(X, 3, kernel=Gaussian(width=0.6), lam=0.04, scaling="mean").restrict(Y)
    assert mean.lam == pytest.approx(0.4)


def test_predictions_are_those_of_the_label_problem():
    r = mm.solve(F)
    whole = LeastSquares(X, 3, kernel=Gaussian(width=0.6), lam=0.4)
    new = RNG.standard_normal((5, 2))
    np.testing.assert_allclose(r.decision_function(new), whole.decision_function(Y, new), atol=1e-9)
    assert r.predict(new).shape == (5,)


@pytest.mark.parametrize("y, k, error, words", [
    (Y[:9], 3, DataError, "LeastSquaresFit: labels must have shape (10,), one a sample; got (9,)."),
    (Y, 2, DataError, "LeastSquaresFit: y must hold labels 0..1 (n_clusters is 2); got 0 to 2."),
    (Y + 1, 3, DataError,
     "LeastSquaresFit: y must hold labels 0..2 (n_clusters is 3); got 1 to 3."),
    (Y - 1, 3, DataError,
     "LeastSquaresFit: y must hold labels 0..2 (n_clusters is 3); got -1 to 1."),
    (Y, 2.5, ParameterError,
     "LeastSquaresFit: n_clusters must be an integer at least 1; got 2.5."),
])
def test_bad_labels_are_refused_in_words(y, k, error, words):
    with pytest.raises(error) as e:
        LeastSquaresFit(X, y, k)
    assert str(e.value) == words


def test_names_of_clusters_are_coded():
    f = LeastSquaresFit(X, np.array(["a", "b", "c"])[Y], 3)
    assert f.y.tolist() == Y.tolist()


def test_labels_of_the_caller_are_not_shared():
    y = Y.copy()
    f = LeastSquaresFit(X, y, 3)
    y[0] = 2
    assert f.y[0] == 0
