"""Simulated annealing by heat bath."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import Annealing
from mmcopt.solvers.annealing import pilot_temperatures

X = np.random.default_rng(0).standard_normal((40, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.3))


def test_a_long_schedule_finds_what_the_best_search_finds():
    best = mm.solve(F, "Memetic", seed=0, restarts=3).objective
    found = mm.solve(F, Annealing(sweeps=2000), seed=0, restarts=3).objective
    assert found <= best + 1e-9


def test_every_hyper_parameter_does_something():
    few, many = (np.mean([mm.solve(F, Annealing(sweeps=n), seed=s).objective for s in range(6)])
                 for n in (1, 1000))
    assert many < few
    r = mm.solve(F, Annealing(sweeps=150, hot=3.0, cold=0.5), seed=0)
    schedule = np.geomspace(3.0, 0.5, 150)
    assert r.history["temperature"].tolist() == [schedule[49], schedule[99], schedule[149]]
    default = mm.solve(F, Annealing(sweeps=150), seed=0).history["temperature"]
    hot, cold = pilot_temperatures(F.offer(mm.LabelQuadratic))
    assert hot > default[0] > default[-1] == pytest.approx(cold)


def test_a_frozen_bath_is_a_descent():
    cold = mm.solve(F, Annealing(sweeps=50, hot=1e-9, cold=1e-9), init=np.arange(40) % 3)
    assert (np.diff(cold.history["objective"]) <= 1e-9).all()
    assert cold.objective < F.objective(np.arange(40) % 3)


def test_pilot_temperatures_are_seeded_and_kept():
    one, two = (F.replace(lam=0.1).offer(mm.LabelQuadratic) for _ in range(2))
    assert pilot_temperatures(one) == pilot_temperatures(two)
    hot, cold = pilot_temperatures(one)
    assert hot > cold > 0
    flat = mm.LabelQuadratic(np.zeros((5, 5)) + np.eye(5), k=2)
    assert all(np.isfinite(pilot_temperatures(flat)))
