"""One-flip tabu search."""

import numpy as np

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import SteepestDescent, Tabu

X = np.random.default_rng(0).standard_normal((60, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.2))


def test_it_leaves_local_optima_behind():
    better = 0
    for seed in range(5):
        stuck = mm.solve(F, SteepestDescent(), seed=seed)
        free = mm.solve(F, Tabu(), init=stuck)
        assert free.objective <= stuck.objective + 1e-9
        better += free.objective < stuck.objective - 1e-6
    assert better >= 3


def test_exact_sizes_are_kept_though_it_oversteps_them_between_two_moves():
    f = F.replace(sizes=mm.constraints.Sizes(exact=[10, 20, 30]))
    r = mm.solve(f, Tabu(), seed=0)
    assert sorted(np.bincount(r.labels)) == [10, 20, 30] and r.violation == 0
    assert r.objective < mm.solve(f, SteepestDescent(swaps=False), seed=0).objective


def test_every_hyper_parameter_does_something():
    longer = [mm.solve(F, Tabu(length=n), seed=0).objective for n in (0.1, 20)]
    assert longer[1] < longer[0]
    ends = {mm.solve(F, Tabu(tenure=t, length=0.8, polish=False), seed=0).labels.tobytes()
            for t in (1, 8, 25)}
    assert len(ends) > 1
    raw, polished = (mm.solve(F, Tabu(length=0.1, polish=p), seed=0) for p in (False, True))
    assert polished.objective < raw.objective


def test_one_move_is_a_limit_case():
    r = mm.solve(F, Tabu(length=1e-9, polish=False), init=np.arange(60) % 3)
    assert (r.labels != np.arange(60) % 3).sum() == 1
