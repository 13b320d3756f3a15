"""Working sets: precision, starts, large and degenerate problems, memory."""

import time
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import BoxDual
from mmcopt.compiled.box_ascent import ascend
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling.result import Status
from mmcopt.solvers import DualCoordinate

MOONS = mm.datasets.load("moons:n=1500,noise=.1,seed=0")[0]


def kkt(f, a):
    """Largest violation of the optimality conditions."""
    g, u = 1 - f.scores(a), f.offer(BoxDual).upper
    return max(np.where(a < u, g, 0).max(), np.where(a > 0, -g, 0).max())


@pytest.mark.parametrize("C", [20.0, 100.0, 1500.0, 1e6])
@pytest.mark.parametrize("kernel", [Gaussian(gamma=10.0), Gaussian(gamma=0.5)], ids=repr)
def test_the_gap_falls_to_any_tolerance(C, kernel):
    f = OneClassHinge(MOONS, C=C, kernel=kernel)
    values = []
    for tol in (1e-1, 1e-3, 1e-6):
        result = mm.solve(f, DualCoordinate(tol=tol), seed=0)
        assert result.gap <= tol and result.verify()
        assert result.history["gap"][-1] <= tol if len(result.history) else True
        values.append(result.objective)
    assert values[2] <= min(values) + 1e-9
    assert result.lower_bound <= values[2]


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Gaussian(gamma=5.0).nystroem(60),
                                    Gaussian(gamma=5.0) + 0.1 * Polynomial(2)], ids=repr)
def test_any_kernel(kernel):
    f = OneClassHinge(MOONS + 3.0, C=200.0, kernel=kernel)
    assert mm.solve(f, DualCoordinate(tol=1e-4), seed=0).gap <= 1e-4


@pytest.mark.parametrize("most", [2, 10, 100])
def test_small_working_sets_come_to_the_same_optimum(most):
    f = OneClassHinge(MOONS[:450], C=60.0, kernel=Gaussian(gamma=5.0))
    small = mm.solve(f, DualCoordinate(tol=1e-3, working_set=most), seed=0)
    assert small.gap <= 1e-3
    assert small.objective == pytest.approx(mm.solve(f, seed=1).objective, rel=2e-3)


def test_a_start_is_used():
    f = OneClassHinge(MOONS, C=100.0, kernel=Gaussian(gamma=10.0))
    good = mm.solve(f, DualCoordinate(tol=1e-6), seed=0)
    again = mm.solve(f, DualCoordinate(tol=1e-5), init=good)
    assert len(again.history) == 0 and again.objective == pytest.approx(good.objective, rel=1e-9)
    other = mm.solve(f.replace(C=110.0), DualCoordinate(tol=1e-5), init=good.point, seed=0)
    assert other.gap <= 1e-5


def test_limits_and_the_best_so_far():
    f = OneClassHinge(MOONS, C=1500.0, kernel=Gaussian(gamma=10.0))
    cut = mm.solve(f, DualCoordinate(tol=1e-9), seed=0, max_iter=1)
    assert cut.status is Status.ITERATION_LIMIT and cut.verify()
    late = mm.solve(f, DualCoordinate(tol=1e-9), seed=0, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and late.verify()
    assert late.objective <= f.objective(np.zeros(f.n))
    sampled = mm.solve(f, DualCoordinate(tol=1e-9), seed=0, max_iter=1)
    assert sampled.objective < 0.5 * f.C  # what was found on a sample is the answer


def test_a_large_problem_keeps_its_time_limit(ticking):
    X = mm.datasets.load("moons:n=60000,noise=.1,seed=0")[0]
    f = OneClassHinge(X, C=8.0, kernel=Gaussian(gamma=10.0))
    ticking(0.1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no sample is inside yet
        late = mm.solve(f, seed=0, time_limit=0.5)
    assert late.status is Status.TIME_LIMIT
    assert time.perf_counter() - start < 3.0  # thirty looks at the clock


def test_no_matrix_of_all_samples_is_made(monkeypatch):
    from mmcopt.kernels.on_demand import KernelRows

    largest, rows = [], KernelRows.rows
    monkeypatch.setattr(KernelRows, "rows", lambda self, index: (
        largest.append(len(index) * self.n), rows(self, index))[1])
    f = OneClassHinge(MOONS, C=1500.0, kernel=Gaussian(gamma=10.0))
    mm.solve(f, seed=0)
    assert max(largest) <= 400**2  # 10 sqrt(n), or the smallest start


@pytest.mark.nojit
def test_ascending_is_exact_on_two_coordinates():
    G = np.array([[1.0, 0.5], [0.5, 1.0]])
    for upper in ([10.0, 10.0], [0.1, 10.0], [0.1, 0.2]):
        u, a, g = np.array(upper), np.zeros(2), np.ones(2)
        ascend(G, a, g, u, 1e-12, 1000)
        grid = [np.array([x, y]) for x in np.linspace(0, min(u[0], 2), 201)
                for y in np.linspace(0, min(u[1], 2), 201)]
        best = max(x.sum() - 0.5 * x @ G @ x for x in grid)
        assert a.sum() - 0.5 * a @ G @ a >= best - 1e-12
        np.testing.assert_allclose(g, 1 - G @ a, atol=1e-14)


def test_conditions_hold_at_the_optimum():
    f = OneClassHinge(MOONS[:300], C=40.0, kernel=Gaussian(gamma=3.0))
    result = mm.solve(f, DualCoordinate(tol=1e-10), seed=0)
    assert kkt(f, result.point) < 1e-4
