"""The interior point of the lifted margin: optimal, always a bound, and the same by any system."""

import numpy as np
import pytest
from relaxed import hinge_problem

import mmcopt as mm
from mmcopt.formulations import CPM3C
from mmcopt.solvers import MarginBarrier, margin_barrier

X = mm.datasets.load("digits:3,8")[0][5::7]
F = CPM3C(X, 2, beta=0.1).relax("lifted")
BALANCED = CPM3C(X, 3, beta=0.1, center=False, balance=0.5).relax("lifted")


@pytest.mark.parametrize("f", [F, BALANCED], ids=["centred", "balanced"])
def test_it_ends_at_the_tolerance_with_a_bound_at_every_step(f):
    seen = []
    out = mm.solve(f, MarginBarrier(tol=1e-7), gap_tol=1e-12,
                   callback=lambda row: seen.append((row["objective"], row["dual"])) and None)
    objectives, bounds = np.array(seen).T
    assert out.feasible and 0.0 <= out.gap <= 1e-6
    assert (bounds <= out.objective + 1e-12).all() and (np.diff(objectives) <= 0).all()
    assert out.lower_bound == bounds.max()
    assert out.verify()


@pytest.mark.parametrize("f", [F, BALANCED], ids=["centred", "balanced"])
def test_conjugate_gradients_reach_what_factors_do(f, monkeypatch):
    direct = mm.solve(f, MarginBarrier(tol=1e-5), gap_tol=1e-12)
    monkeypatch.setattr(margin_barrier, "DIRECT", 0)
    iterated = mm.solve(f, MarginBarrier(tol=1e-5), gap_tol=1e-12)
    assert iterated.lower_bound == pytest.approx(direct.lower_bound, rel=2e-5)


def test_large_problems_take_conjugate_gradients():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2500, 6)) + 3.0 * (np.arange(2500) % 2)[:, None]
    f = CPM3C(A, 2, beta=0.1)
    sure = mm.solve(f, seed=0).certify(time_limit=20, improve=False)
    assert sure.verify() and sure.gap < 0.02


def test_hyper_parameters_do_something():
    few, many = (mm.solve(F, MarginBarrier(max_steps=k), gap_tol=0.0) for k in (3, 12))
    assert few.status.name == "ITERATION_LIMIT" and len(few.history) == 3
    assert few.lower_bound < many.lower_bound
    loose, tight = (mm.solve(F, MarginBarrier(tol=t), gap_tol=0.0) for t in (1e-2, 1e-6))
    assert len(loose.history) < len(tight.history) and loose.gap <= 1e-2


@pytest.mark.parametrize("weight", [1e-9, 1e-4, 0.1])
def test_the_smoothed_slope_is_that_of_its_own_maximum(weight):
    g = np.geomspace(1e-3, 1e3, 25)
    a = np.linspace(0, 1, 200001)[1:-1]

    def value(at):
        return np.array([(a - a * a / (4 * v) + weight * np.log(a * (1 - a))).max() for v in at])

    slope, curve = margin_barrier.smooth_psi(g, weight)
    h = 1e-4 * g
    np.testing.assert_allclose(slope, (value(g + h) - value(g - h)) / (2 * h), rtol=1e-3, atol=1e-9)
    higher = margin_barrier.smooth_psi(g * (1 + 1e-6), weight)[0]
    np.testing.assert_allclose(-curve, (higher - slope) / (1e-6 * g), rtol=1e-2,
                               atol=1e-4 * float(curve.max()))


@pytest.mark.parametrize("seed", [8, 12, 24, 28, 44])
def test_a_large_bias_within_a_balance_is_no_obstacle(seed):
    f = hinge_problem(seed, k=2, biased=True)
    assert f.bias > 0.0
    result = mm.solve(f.relax("lifted"))
    assert result.gap <= 1e-4 and result.verify()
