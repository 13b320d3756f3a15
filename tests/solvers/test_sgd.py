"""Stochastic subgradient: the recursion itself, its two rules for stopping, its draws."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling.result import Status
from mmcopt.solvers import SGD, DualCoordinate

X = mm.datasets.load("moons:n=300,noise=.05,seed=0")[0]


def literal(f, C, picks):
    """Algorithm 1 as printed."""
    K, a = f.kernel.fit(f.X).matrix(), np.zeros(f.n)
    for t, i in enumerate(picks, start=1):
        violated = a @ K[i] < 1
        a *= 1 - 1 / t
        a[i] += C / t * violated
    return a


@pytest.mark.parametrize("kernel", [Gaussian(gamma=4.0), Linear(), Polynomial(2),
                                    Gaussian(gamma=4.0).nystroem(30)], ids=repr)
def test_points_are_those_of_the_recursion_as_printed(kernel):
    f = OneClassHinge(X, C=25.0, kernel=kernel)
    seed = np.random.SeedSequence(7)
    rng = np.random.default_rng(seed.spawn(1)[0])
    picks = np.concatenate([rng.integers(300, size=300) for _ in range(3)])
    solver = SGD(tol=1e-12)
    points = [literal(f, 25.0, picks[:300 * m]) for m in (1, 2, 3)]
    result = mm.solve(f, solver, seed=7, max_iter=3)
    assert result.history["rounds"].tolist() == [300, 600, 900]
    values = [f.objective(p) for p in points]
    np.testing.assert_allclose(result.history["objective"], values, rtol=1e-9)
    best = points[int(np.argmin(values))]
    np.testing.assert_allclose(result.point, best, rtol=1e-12, atol=1e-12)


def test_the_rule_of_the_paper_stops_early_and_far_away():
    f = OneClassHinge(X, C=200.0, kernel=Gaussian(gamma=4.0))
    early = mm.solve(f, SGD(stop="paper"), seed=0)
    assert early.status is Status.CONVERGED
    best = mm.solve(f, DualCoordinate(tol=1e-6), seed=0)
    assert early.objective > 1.5 * best.objective and early.gap > 0.3
    assert early.history["rounds"][-1] < 100 * np.sqrt(2 * best.objective) * 20
    assert early.verify()


@pytest.mark.parametrize("draw", ["uniform", "shuffled"])
def test_the_gap_is_reached(draw):
    f = OneClassHinge(X, C=20.0, kernel=Gaussian(gamma=4.0))
    result = mm.solve(f, SGD(tol=0.03, draw=draw), seed=0)
    assert result.gap <= 0.03 and result.status is Status.CONVERGED and result.verify()


def test_drawing_every_sample_once_keeps_the_point_in_the_box():
    f = OneClassHinge(X, C=20.0, kernel=Gaussian(gamma=4.0))
    shuffled = mm.solve(f, SGD(draw="shuffled", tol=1e-9), seed=0, max_iter=5)
    assert (shuffled.point <= f.upper * (1 + 1e-12)).all()
    uniform = mm.solve(f, SGD(tol=1e-9), seed=0, max_iter=5)
    assert shuffled.gap < uniform.gap


def test_weights_are_chances():
    w = np.where(np.arange(300) < 10, 20.0, 1.0)
    f = OneClassHinge(X, C=0.5, kernel=Gaussian(gamma=4.0), sample_weight=w)
    with pytest.warns(UserWarning, match="domain is empty"):
        best = mm.solve(f, seed=0)
    with pytest.warns(UserWarning, match="domain is empty"):  # every draw is counted at this C
        result = mm.solve(f, SGD(tol=1e-9), seed=0, max_iter=60)
    np.testing.assert_allclose(result.point[:10].sum(), best.point[:10].sum(), rtol=0.1)
    with pytest.raises(IncompatibleError, match="equal weight"):
        mm.solve(f, SGD(draw="shuffled"))


def test_it_gives_up_after_max_passes():
    f = OneClassHinge(X, C=200.0, kernel=Gaussian(gamma=4.0))
    result = mm.solve(f, SGD(tol=1e-9, max_passes=2), seed=0)
    assert result.status is Status.ITERATION_LIMIT and result.history["rounds"][-1] == 600
