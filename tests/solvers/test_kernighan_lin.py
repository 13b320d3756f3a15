"""Passes that move every sample once and keep the best prefix."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import KernighanLin, SteepestDescent

X = np.random.default_rng(0).standard_normal((60, 2))
F = LeastSquares(X, 2, kernel=mm.kernels.Gaussian(width=0.2))


def test_moons_are_split_as_the_optimum_of_many_restarts():
    M, _ = mm.datasets.load("moons:n=60,noise=0.05")
    f = LeastSquares(M, 2)
    best = min(mm.solve(f, "Tabu", seed=s).objective for s in range(3))
    assert mm.solve(f, KernighanLin(), restarts=5, seed=0).objective == pytest.approx(best)


def test_a_pass_climbs_over_small_hills():
    better = 0
    for seed in range(8):
        stuck = mm.solve(F, SteepestDescent(), seed=seed)
        free = mm.solve(F, KernighanLin(), init=stuck)
        assert free.objective <= stuck.objective + 1e-9 and free.status is Status.CONVERGED
        better += free.objective < stuck.objective - 1e-6
    assert better >= 2


def test_patience_does_something():
    ends = [np.mean([mm.solve(F, KernighanLin(patience=p), seed=s).objective for s in range(8)])
            for p in (1, 60)]
    assert ends[1] < ends[0]


def test_nothing_free_to_move_is_a_limit_case():
    f = LeastSquares(X[:6], 2, known=dict(enumerate([0, 1, 0, 1, 0, 1])))
    r = mm.solve(f, KernighanLin(), seed=0)
    assert r.labels.tolist() == [0, 1, 0, 1, 0, 1] and r.status is Status.CONVERGED
