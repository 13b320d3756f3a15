"""Algorithm 3 of UMC-RLS, raw and polished."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import Shaking

X = np.random.default_rng(0).standard_normal((30, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.3))


def literal(f, c, rounds):
    """Algorithm 3 with the repairs of the docstring, objective by objective: its values."""
    n, k, values_met = f.n, f.n_clusters, []
    for i in range(rounds + 1):
        for d in range(k):
            alpha = round(n / (2.0**i * k) + n / k - (c == d).sum())
            for _ in range(max(0, alpha)):
                values = {}
                for j in np.flatnonzero(c != d):
                    near = c.copy()
                    near[j] = d
                    if f.violation(near) == 0:
                        values[j] = f.objective(near)
                if not values:
                    break
                c = c.copy()
                c[min(values, key=values.get)] = d
            values_met.append(f.objective(c))
    return c, values_met


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"center": False, "sizes": 0.3}])
def test_the_raw_search_is_the_paper_s_loop(k, options):
    f = LeastSquares(X, k, kernel=mm.kernels.Gaussian(width=0.4), **options)
    for shift in (0, 7):
        start = np.roll(np.arange(30) % k, shift)
        labels, values = literal(f, start, 8)
        r = mm.solve(f, Shaking(rounds=8, polish=False), init=start)
        np.testing.assert_allclose(r.history["shaken"], values, rtol=1e-9)
        assert r.labels.tolist() == labels.tolist() and values[-1] < f.objective(start)


def test_restarts_are_of_use_for_two_clusters():
    f = LeastSquares(X, 2, kernel=mm.kernels.Gaussian(width=0.2))
    ends = [{mm.solve(f, Shaking(polish=p), seed=s).labels.tobytes() for s in range(10)}
            for p in (True, False)]
    assert len(ends[0]) > len(ends[1])


def test_polish_and_rounds_do_something():
    raw, polished = (mm.solve(F, Shaking(polish=p, rounds=3), seed=0) for p in (False, True))
    assert polished.objective < raw.objective
    for rounds in (1, 5, 20):
        r = mm.solve(F, Shaking(rounds=rounds), seed=0)
        assert len(r.history) == (rounds + 1) * 3  # i = 0..s, a step a cluster
    two = LeastSquares(X, 2)
    assert len(mm.solve(two, Shaking(rounds=5), seed=0).history) == 5 * 2  # i = 1..s
    assert len(mm.solve(two, Shaking(rounds=5, polish=False), seed=0).history) == 6 * 2


def test_as_many_clusters_as_samples_is_a_limit_case():
    r = mm.solve(LeastSquares(X[:4], 4), Shaking(), seed=0)
    assert sorted(r.labels) == [0, 1, 2, 3]


def test_a_later_first_round_keeps_more_of_the_start():
    D, _ = mm.datasets.load("blobs:n=90,k=3,seed=1,sd=3.0")
    f = LeastSquares(D, 3, kernel=mm.kernels.Gaussian(width=0.3))
    start = np.arange(90) % 3
    kept = []
    for first in (0, 2, 4, 20):  # in the last rounds clusters of like size claim nothing
        r = mm.solve(f, Shaking(first=first, polish=False), init=start, seed=0)
        assert len(r.history) == (21 - first) * 3
        kept.append(int((r.labels == start).sum()))
    assert kept[0] < kept[1] < kept[2] < kept[3] == 90
    assert len(mm.solve(f, Shaking(first=30), init=start).history) == 3  # the last round at least
    with pytest.raises(mm.errors.ParameterError, match="first"):
        Shaking(first=-1)
