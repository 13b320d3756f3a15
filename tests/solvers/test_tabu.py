"""One-flip tabu search."""

import itertools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration
from mmcopt.capabilities import LabelRatio
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import DiscriminativeKMeans, KernelKMeans, LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Hartigan, SteepestDescent, Tabu

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


# ---------------------------------------------------------------- k-means and its kin


def of_means(seed):
    """Problems with every kind of rule, small enough to be enumerated."""
    rng = np.random.default_rng([7, seed])
    n, k = int(rng.integers(7, 10)), 2 + seed % 2
    points = rng.standard_normal((n, 2))
    exact = tuple(np.bincount(np.arange(n) % k).tolist())
    options = ({}, {"sizes": Sizes(exact=exact)}, {"known": {0: 1, n - 1: 0}},
               {"must_link": [(0, 1), (1, 4)], "sizes": Sizes(low=2)},
               {"cannot_link": [(0, 1), (2, 5)]})[seed % 5]
    if seed % 4 == 1:
        return DiscriminativeKMeans(points, k, kernel=Gaussian(width=0.4), **options)
    weights = rng.uniform(0.5, 2.0, n) if seed % 3 == 2 else None
    return KernelKMeans(points, k, sample_weight=weights, **options)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 240), marks=pytest.mark.slow)],
                         ids=["few", "many"])
def test_it_ends_in_local_optima_of_k_means_and_mostly_in_the_best_one(seeds):
    met = 0
    for seed in seeds:
        f = of_means(seed)
        best = enumeration.minimum(f.offer(LabelRatio))[0]
        found = mm.solve(f, Tabu(), seed=seed, bound=False)
        assert found.violation == 0.0 and found.objective >= best - 1e-9 * abs(best)
        again = mm.solve(f, Hartigan(), init=found, bound=False)
        assert again.objective >= found.objective - 1e-9 * abs(best)
        met += found.objective <= best + 1e-9 * abs(best)
    assert met >= 0.9 * len(seeds)


def test_moves_of_k_means_are_counted_to_the_digit():
    f = KernelKMeans(X, 4, sizes=Sizes(exact=15))
    start = np.arange(60) % 4
    for length in (0.2, 1.0, 5.0):
        r = mm.solve(f, Tabu(length=length, polish=False), init=start, bound=False)
        assert np.bincount(r.labels).tolist() == [15] * 4  # though only two moves keep them
        assert r.history["best"][-1] == pytest.approx(r.objective, rel=1e-12)
        assert r.objective < f.objective(start)


def test_a_move_of_k_means_is_the_best_one():
    f, start = KernelKMeans(X[:12], 3), np.arange(12) % 3
    moved = mm.solve(f, Tabu(length=1e-9, polish=False), init=start, bound=False)
    others = []
    for j, h in itertools.product(range(12), range(3)):
        c = start.copy()
        c[j] = h
        others.append(f.objective(c))
    assert moved.objective == pytest.approx(min(others), rel=1e-12)


def test_it_goes_uphill_and_comes_back():
    f, seen = KernelKMeans(X, 8), []
    for seed in range(6):
        stuck = mm.solve(f, Hartigan(), seed=seed, bound=False)
        free = mm.solve(f, Tabu(), init=stuck, seed=seed, bound=False)
        assert free.objective <= stuck.objective * (1 + 1e-12)
        seen.append(free.objective < stuck.objective * (1 - 1e-6))
    assert any(seen)


def test_samples_with_features_beyond_some_are_refused():
    f = KernelKMeans(np.random.default_rng(0).standard_normal((1600, 2)), 3)
    with pytest.raises(IncompatibleError, match="Tabu cannot solve KernelKMeans: it needs all 1600"
                       " x 1600 entries of W, which is held as a factor; Memetic, Hartigan and"):
        mm.solve(f, Tabu())
