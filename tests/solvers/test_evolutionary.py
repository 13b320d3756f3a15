"""EvoMMC and FastEvoMMC."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import Evolutionary

X, Y = mm.datasets.load("gaussians:n=40,distance=4,seed=0")
F = LeastSquares(X, 2, scaling="mean", lam=0.01)


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
def test_two_far_groups_are_found():
    r = mm.solve(F, Evolutionary(), seed=0)
    assert mm.metrics.accuracy(Y, r.labels) == 1.0 and r.status is Status.CONVERGED


def test_equal_labelings_do_not_keep_it_going():
    # Three nodes in three clusters: all labelings are renamings, and equal up to rounding.
    for seed in (5, 8, 13, 18):
        few = np.random.default_rng(seed).standard_normal((6, 2))
        f = LeastSquares(few, 3, kernel=mm.kernels.Linear(), lam=0.05,
                         must_link=[(0, 1), (1, 2), (2, 3)])
        for stop in ("local", "paper"):
            r = mm.solve(f, Evolutionary(stop=stop), seed=0, max_iter=100)
            assert r.status is Status.CONVERGED


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
def test_the_paper_s_stop_waits_for_patience_n_generations():
    short, long = (mm.solve(F, Evolutionary(stop="paper", patience=p), seed=0) for p in (10, 100))
    for r, p in ((short, 10), (long, 100)):
        assert r.status is Status.CONVERGED
        gains = np.flatnonzero(np.diff(r.history["best"]) < 0)
        last = r.history["generation"][gains[-1] + 1] if gains.size else 1
        assert r.history["generation"][-1] - last > p * 40 - 200
    assert len(long.history) > len(short.history)


def test_mu_and_nu_do_something():
    runs = {(mu, nu): mm.solve(F.replace(kernel=mm.kernels.Gaussian(width=0.1)),
                               Evolutionary(mu=mu, nu=nu, stop="paper", patience=1), seed=0)
            for mu, nu in [(1, 1), (1, 10), (10, 1), (10, 10)]}
    assert len({r.history["objective"].tobytes() for r in runs.values()}) == 4


def test_fast_evo_works_on_the_factor_alone(monkeypatch):
    monkeypatch.setattr("mmcopt.solving.label_search.DENSE_LIMIT", 10)
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 10)
    monkeypatch.setattr("mmcopt.capabilities.matrices.LowRank.dense", None)
    f = F.replace(kernel=mm.kernels.Gaussian(width=1.0).nystroem(10), sizes=0.3)
    r = mm.solve(f, Evolutionary(mu=1, nu=1), seed=0)
    assert r.violation == 0 and r.objective == pytest.approx(f.objective(r.labels))
    assert mm.metrics.accuracy(Y, r.labels) > 0.9 and r.status is Status.CONVERGED
    with pytest.raises(IncompatibleError, match="40 x 40 entries of W, which is held as a factor"):
        mm.solve(f, Evolutionary())
