"""Searches that reach tight sizes by way of looser ones."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Memetic, Shaking, memetic
from mmcopt.solvers.loose_sizes import loosened, tightened
from mmcopt.solvers.memetic import _Task

RNG = np.random.default_rng(3)
A = RNG.standard_normal((60, 60))
W = A + A.T


def rough(k=3, **options):
    return LabelQuadratic(W, k=k, **options)


@pytest.mark.parametrize("options", [
    {}, {"low": 1}, {"low": 18, "high": 22}, {"low": 0, "high": 60},
    {"k": 20, "low": 3, "high": 3},
    {"low": 29, "high": 30, "weights": np.repeat([1, 30], [59, 1])}])
def test_sizes_that_are_loose_stay_as_they_are(options):
    lq = rough(**options)
    assert loosened(lq) is lq


@pytest.mark.parametrize(("options", "low", "high"), [
    ({"low": 20, "high": 20}, [18] * 3, [22] * 3),
    ({"low": [18, 20, 22], "high": [18, 20, 22]}, [16] * 3, [24] * 3),
    ({"low": [5, 15, 40], "high": [5, 15, 40]}, [3, 13, 38], [7, 17, 42]),
    ({"low": [1, 19, 40], "high": [1, 19, 40]}, [1, 17, 38], [3, 21, 42]),
    ({"low": [0, 20, 40], "high": [0, 20, 40]}, [0, 18, 38], [2, 22, 42]),
    ({"low": [18, 20, 22], "high": [18, 20, 22], "fixed": np.repeat([0, -1], [1, 59])},
     [16, 18, 20], [20, 22, 24])])
def test_tight_sizes_are_loosened_by_a_tenth_of_a_mean_cluster(options, low, high):
    lq = rough(**options)
    loose = loosened(lq)
    assert loose is loosened(lq) and loose.matrix is lq.matrix
    assert loose.low.tolist() == low and loose.high.tolist() == high
    assert (loose.fixed == lq.fixed).all()


@pytest.mark.parametrize("options", [
    {"low": [18, 20, 22], "high": [18, 20, 22]}, {"low": [5, 15, 40], "high": [5, 15, 40]},
    {"low": [18, 20, 22], "high": [18, 20, 22], "fixed": np.repeat([0, 1, -1], [2, 1, 57])},
    {"low": 20, "high": 20, "apart": [(0, 1), (1, 2), (5, 9)]},
    {"low": 31, "high": 33, "weights": np.repeat([1, 2], [24, 36])}])
def test_labels_of_loose_sizes_are_tightened(options):
    lq, rng = rough(**options), np.random.default_rng(0)
    loose = loosened(lq)
    assert loose is not lq
    for _ in range(20):
        c = loose.random_labels(rng)
        assert lq.violation(tightened(lq, c, rng)) == 0.0


def test_clusters_exchange_their_sizes_where_these_are_alike():
    lq, c = rough(low=[18, 20, 22], high=[18, 20, 22]), np.repeat([0, 1, 2], [22, 18, 20])
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(tightened(lq, c, rng), np.repeat([2, 0, 1], [22, 18, 20]))
    unlike = rough(low=[5, 15, 40], high=[5, 15, 40])
    c = np.repeat([2, 0, 1], [40, 5, 15])
    np.testing.assert_array_equal(tightened(unlike, c, rng), c)


def problem():
    rng = np.random.default_rng(4)
    X = 1.5 * rng.standard_normal((10, 6))[rng.integers(10, size=300)]
    return LeastSquares(X + rng.standard_normal(X.shape), 10, kernel=Gaussian(width=0.5), lam=0.1,
                        sizes=Sizes(exact=(21, 24, 27, 29, 30, 31, 32, 33, 36, 37)))


def test_unequal_exact_sizes_are_met_at_lower_values_by_way_of_looser_ones(monkeypatch):
    by_way = [mm.solve(problem(), seed=s, max_iter=6) for s in range(4)]
    monkeypatch.setattr(memetic, "loosened", lambda lq: lq)
    straight = [mm.solve(problem(), seed=s, max_iter=6) for s in range(4)]
    assert all(r.feasible for r in by_way + straight)
    assert np.mean([r.objective for r in by_way]) < np.mean([r.objective for r in straight])


def test_labels_in_the_making_are_not_lost():
    """The first member is made on looser sizes: stopped there, it is tightened."""
    f, solver, rng = problem(), Memetic(), np.random.default_rng(0)
    good, state = mm.solve(f, seed=0, max_iter=6), solver.begin(f, None, rng).state
    state.task = _Task(good.labels, [(1.0, Shaking()), (1.0, Shaking())])
    state.loose = True
    assert state.value > good.objective and not state.members
    end = solver.finish(f, state)
    assert end.value <= good.objective * (1 + 1e-12)
    assert f.offer(LabelQuadratic).violation(state.best) == 0.0
