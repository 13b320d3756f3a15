"""Label generation: exact mixtures, an estimate that falls, and a bound that is proved."""

import numpy as np
import pytest
from relaxed import solved

import mmcopt as mm
from mmcopt.bounds.label_hull import mixture
from mmcopt.formulations import CPM3C
from mmcopt.solvers import CuttingPlane, LabelGeneration
from mmcopt.solvers.label_generation import _climbed

X = mm.datasets.load("digits:3,8")[0]
F = CPM3C(X[np.random.default_rng(0).permutation(len(X))[:40]], 2, beta=0.05)
R = F.relax("lg")


def test_mixtures_are_those_of_a_conic_solver():
    import cvxpy as cp

    rng = np.random.default_rng(0)
    for n, t, size in ((5, 1, 1.0), (6, 4, 1e-3), (20, 7, 1.0), (8, 12, 100.0)):
        roots = rng.standard_normal((t, n, n)) * np.sqrt(size / n)
        roots[:, 0] = 0.0 if n == 6 else roots[:, 0]
        H = roots @ roots.transpose(0, 2, 1)
        value, a, mu = mixture(H)
        b, s = cp.Variable(n), cp.Variable()
        rows = [cp.sum_squares(A.T @ b) <= s for A in roots]
        literal = solved(cp.Problem(cp.Maximize(cp.sum(b) / n - s), [b >= 0, b <= 1, *rows]))
        assert value == pytest.approx(literal, rel=1e-6, abs=1e-7)
        assert a.min() >= 0 and a.max() <= 1 and mu.min() >= 0
        assert mu.sum() == pytest.approx(1.0)
        assert mixture(np.tensordot(mu, H, 1)[None])[0] == pytest.approx(value, rel=1e-8)
        assert value >= a.mean() - np.max(H @ a @ a)


def test_the_estimate_falls_the_labelings_grow_and_the_bound_is_proved():
    result = mm.solve(R)
    h = result.history
    assert result.status.name == "CONVERGED" and result.verify() and result.violation < 1e-9
    assert (np.diff(h["objective"]) <= 1e-9).all() and (np.diff(h["labelings"]) >= 0).all()
    assert (np.diff(h["machine"]) <= 0).all() and h["labelings"][-1] > 2
    assert result.lower_bound == h["dual"].max()
    mmc, joint = (mm.solve(F.relax(kind)).lower_bound for kind in ("mmc", "joint"))
    assert 0.9 * mmc < result.lower_bound <= mmc * (1 + 1e-4)
    assert joint <= result.objective < h["machine"][-1]  # neither bounds what is between


def test_the_best_machine_is_that_of_labels():
    best = mm.solve(F, seed=0, restarts=5, init="kmeans").objective
    machine = mm.solve(R).history["machine"][-1]
    assert machine == pytest.approx(best, rel=0.1)
    c = np.arange(F.n) % 2
    exact = mm.solve(F.restrict(c), CuttingPlane(epsilon=1e-9)).objective
    assert R.hull.machine(R.from_labels(c)) == pytest.approx(exact, rel=1e-7)
    hard = CPM3C(X[::3], 2, beta=0.001)  # squares of very different sizes
    halves = np.arange(hard.n) % 2
    near = mm.solve(hard.restrict(halves), CuttingPlane(epsilon=1e-9))
    found = hard.relax("lg").hull.machine(R.from_labels(halves))
    assert near.lower_bound <= found * (1 + 1e-12) and found <= near.objective * (1 + 1e-7)
    one = mm.solve(R, init=c, max_iter=1)
    assert one.history["machine"][0] <= exact * (1 + 1e-9)


def test_a_search_ends_where_no_flip_helps():
    rng = np.random.default_rng(1)
    for _ in range(20):
        A = rng.standard_normal((9, 9))
        M, y = A @ A.T, np.where(rng.random(9) < 0.5, -1.0, 1.0)
        found = _climbed(M, y)
        assert found[0] == 1.0 and found @ M @ found >= y @ M @ y - 1e-9
        for flip in np.eye(9):
            near = found * (1 - 2 * flip)
            assert near @ M @ near <= found @ M @ found + 1e-9


def test_a_missing_labeling_leaves_the_estimate_too_large():
    short = mm.solve(R, LabelGeneration(starts=1, labels_per_step=1), max_iter=1)
    assert short.objective > mm.solve(R).objective + 1e-4
    assert short.lower_bound <= mm.solve(F.relax("mmc")).lower_bound + 1e-6


def test_hyper_parameters_do_something():
    base = mm.solve(R)
    loose = mm.solve(R, LabelGeneration(tol=0.02))
    assert loose.history["labelings"][-1] < base.history["labelings"][-1]
    assert loose.objective > base.objective
    single = mm.solve(R, LabelGeneration(labels_per_step=1))
    assert len(single.history) > len(base.history)
    assert single.objective == pytest.approx(base.objective, rel=1e-3)
    few = mm.solve(R, LabelGeneration(starts=1), max_iter=1)
    many = mm.solve(R, LabelGeneration(starts=30, labels_per_step=30), max_iter=1)
    assert many.history["labelings"][0] > few.history["labelings"][0]


def test_a_time_limit_ends_it_with_a_bound(ticking):
    r = CPM3C(X[::2], 2, beta=0.02).relax("lg")
    ticking(0.02)
    result = mm.solve(r, LabelGeneration(labels_per_step=1), time_limit=0.3)
    assert result.status.name == "TIME_LIMIT" and result.lower_bound > 0 and result.verify()
