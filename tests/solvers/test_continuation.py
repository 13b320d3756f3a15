"""From smooth problems to the problem itself."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import Continuation, KernighanLin, Shaking, SteepestDescent, Tabu

X = np.random.default_rng(0).standard_normal((60, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.2), lam=0.01)


def mean(solver, seeds=5):
    return np.mean([mm.solve(F, solver, seed=s).objective for s in range(seeds)])


def test_the_path_makes_a_weak_search_better():
    assert mean(Continuation(inner=SteepestDescent(), opening=SteepestDescent())) < \
        mean(SteepestDescent()) - 0.1


def test_levels_fall_geometrically_to_the_problem_itself():
    lq = F.offer(mm.LabelQuadratic)
    levels = Continuation(stages=4, start=100.0).levels(lq)
    np.testing.assert_allclose(levels, [100, 100**0.75, 10, 100**0.25, 1])
    assert Continuation(stages=3).levels(lq)[-1] == 1.0
    r = mm.solve(F, Continuation(stages=4, start=100.0), seed=0)
    seen = r.history["t"][np.isfinite(r.history["t"])]
    assert set(np.round(seen, 6)) <= set(np.round(levels, 6)) and seen[-1] == 1.0


def test_every_hyper_parameter_does_something():
    rugged = LeastSquares(np.random.default_rng(1).standard_normal((150, 4)), 5,
                          kernel=mm.kernels.Gaussian(width=0.1), lam=0.01)
    base = mm.solve(rugged, Continuation(), seed=3).history["objective"].tobytes()
    for changed in (Continuation(inner=KernighanLin()), Continuation(opening=Shaking()),
                    Continuation(stages=2), Continuation(start=3.0)):
        assert mm.solve(rugged, changed, seed=3).history["objective"].tobytes() != base, changed


def test_no_smoothing_at_all_is_a_limit_case():
    r = mm.solve(F, Continuation(start=1.0, stages=1), init=np.arange(60) % 3)
    assert r.objective <= F.objective(np.arange(60) % 3)


def test_the_end_is_as_good_as_the_best_level_and_polished():
    for seed in range(20):
        g = LeastSquares(X[:12], 2, lam=0.05, sizes=mm.constraints.Sizes(exact=[5, 7]))
        r = mm.solve(g, Continuation(), seed=seed)
        assert r.objective <= r.history["best"].min() + 1e-12
        again = mm.solve(g, SteepestDescent(), init=r)
        assert again.objective == pytest.approx(r.objective, rel=1e-9)


def test_inner_searches_keep_their_own_parameters():
    c = Continuation(inner=Tabu(length=0.25))
    assert c.inner.length == 0.25 and hash(c) == hash(Continuation(inner=Tabu(length=0.25)))
