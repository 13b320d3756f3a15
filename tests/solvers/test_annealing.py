"""Simulated annealing by heat bath."""

import numpy as np
import pytest
from scipy.sparse import diags_array

import mmcopt as mm
from mmcopt.capabilities.matrices import LowRank
from mmcopt.compiled import factor_moves
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import Annealing
from mmcopt.solvers.annealing import pilot_temperatures
from mmcopt.solving.factor_search import factor_board
from mmcopt.solving.label_search import random_state

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


def test_two_free_sides_of_a_graph_are_annealed_at_lower_temperatures():
    graph = diags_array([1.0, -1.0, -1.0, 1.0], offsets=[-7, -1, 1, 7], shape=(300, 300)).tocsr()
    free, bound = (mm.LabelQuadratic(graph, k=2, low=low) for low in (0, 1))
    for lower, higher in zip(pilot_temperatures(free), pilot_temperatures(bound), strict=True):
        assert lower < 0.7 * higher


@pytest.mark.parametrize("nystroem", [False, True])
def test_given_temperatures_need_no_pilot(nystroem, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 50)
    monkeypatch.setattr("mmcopt.solvers.annealing._pilot", None)
    kernel = mm.kernels.Gaussian(width=0.5)
    f = LeastSquares(np.random.default_rng(0).standard_normal((60, 2)), 3,
                     kernel=kernel.nystroem(10) if nystroem else kernel)
    assert mm.solve(f, Annealing(sweeps=5, hot=1.0, cold=0.1), seed=0).verify()


def test_annealing_a_factor_keeps_its_books_and_the_rules():
    rng = np.random.default_rng(0)
    Psi = rng.standard_normal((60, 5))
    fixed = np.where(np.arange(60) < 3, np.arange(60), -1)
    lq = mm.LabelQuadratic(LowRank(Psi), k=3, low=15, high=25, fixed=fixed, apart=[(4, 5), (6, 7)])
    board = factor_board(lq, lq.random_labels(rng), rng)
    args = Psi, board.c, board.S, board.sizes, lq.rules()
    for T in (50.0, 5.0, 0.01):
        before = lq.value(board.c)
        gain = factor_moves.anneal(*args, np.arange(60), T, random_state(rng))
        assert before - gain == pytest.approx(lq.value(board.c))
        assert lq.violation(board.c) == 0.0
        np.testing.assert_allclose(board.S, [Psi[board.c == h].sum(axis=0) for h in range(3)])
        assert board.sizes.tolist() == np.bincount(board.c).tolist()
    for _ in range(30):  # when frozen it is a descent over moves
        factor_moves.anneal(*args, np.arange(60), 1e-9, random_state(rng))
    assert factor_moves.sweep(*args, np.arange(60)) == 0.0


def test_a_draw_on_a_factor_has_the_heat_bath_distribution():
    Psi = np.array([[1.0, 0.0], [0.6, 0.0], [0.0, 1.0], [0.5, 0.4]])
    lq = mm.LabelQuadratic(LowRank(Psi), k=2, fixed=[0, 0, 1, -1])
    rng, T, count = np.random.default_rng(1), 0.7, 0
    board, state = factor_board(lq, np.array([0, 0, 1, 1]), rng), random_state(rng)
    args = Psi, board.c, board.S, board.sizes, lq.rules()
    for _ in range(20_000):
        factor_moves.anneal(*args, np.arange(4), T, state)
        count += board.c[3]
    gap = lq.value(np.array([0, 0, 1, 1])) - lq.value(np.array([0, 0, 1, 0]))
    assert count / 20_000 == pytest.approx(1 / (1 + np.exp(gap / T)), abs=0.015)


def test_large_factors_are_annealed_as_they_are(monkeypatch):
    D, _ = mm.datasets.load("blobs:n=150,k=3,seed=1")
    f = LeastSquares(D, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(20))
    dense = mm.solve(f, Annealing(sweeps=100), seed=0)
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 50)
    monkeypatch.setattr("mmcopt.solving.factor_search.WORK", 20 * 3 * 40)  # a sweep in parts
    f = LeastSquares(D, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(20))
    held = mm.solve(f, Annealing(sweeps=100), seed=0)
    assert f.W._dense is None and held.verify()
    assert held.objective == pytest.approx(dense.objective, rel=1e-3)
