"""Starting points: random, k-means, spectral, labels, results."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Precomputed
from mmcopt.solving.starts import starting_point

X = np.vstack([np.random.default_rng(0).standard_normal((10, 2)) + c for c in (0, 8, 16)])
TRUTH = np.repeat(np.arange(3), 10)
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))


def rng():
    return np.random.default_rng(0)


def same(a, b):
    return mm.metrics.adjusted_rand_index(a, b) == 1.0


def test_random_starts_are_left_to_the_solver():
    assert starting_point(F, None, rng()) is None and starting_point(F, "random", rng()) is None


def test_named_starts_find_well_separated_clusters():
    for name in ("kmeans", "spectral"):
        assert same(starting_point(F, name, rng()), TRUTH), name


def test_named_starts_without_features_use_eigenvectors():
    G = LeastSquares(F.fitted.matrix(), 3, kernel=Precomputed())
    assert same(starting_point(G, "kmeans", rng()), TRUTH)
    wide = LeastSquares(np.vstack([X] * 4) + 1e-3 * rng().standard_normal((120, 2)), 3)
    assert same(starting_point(wide, "spectral", rng()), np.tile(TRUTH, 4))


def test_named_starts_are_made_feasible_by_the_solver():
    f = F.replace(sizes=mm.constraints.Sizes(exact=[8, 10, 12]), known={0: 2})
    for name in ("kmeans", "spectral"):
        assert mm.solve(f, "Shaking", init=name, seed=0, max_iter=1).violation == 0.0


def test_labels_keep_their_values_when_these_are_clusters():
    assert F.coded_labels(TRUTH).tolist() == TRUTH.tolist()
    assert F.coded_labels(np.where(TRUTH == 0, 2, 1)).tolist() == np.where(TRUTH == 0, 2,
                                                                           1).tolist()
    assert F.coded_labels(TRUTH + 1).tolist() == TRUTH.tolist()
    assert F.coded_labels(np.array(["c", "b", "a"])[TRUTH]).tolist() == (2 - TRUTH).tolist()


def test_results_of_the_same_and_of_other_problems_are_starts():
    done = mm.solve(F, "Tabu", seed=0)
    assert starting_point(F, done, rng()) is done.point
    other = F.replace(lam=0.5)
    assert starting_point(other, done, rng()).tolist() == done.labels.tolist()
    named = done.with_labels(["x", "y", "z"])
    assert starting_point(other, named, rng()).tolist() == done.labels.tolist()


def test_bad_starts_are_refused_in_words():
    with pytest.raises(DataError, match=r"LeastSquares: labels must have shape \(30,\)"):
        mm.solve(F, "Tabu", init=np.zeros(29, int))
    with pytest.raises(DataError, match="the labels name 4 clusters, but n_clusters is 3; merge"):
        mm.solve(F, "Tabu", init=np.arange(30) % 4)
    with pytest.raises(ParameterError, match="init must be 'random', 'kmeans', 'spectral', 'sdp',"):
        mm.solve(F, "Tabu", init="spectrum")
    with pytest.raises(DataError, match="labels contains 30 NaN"):
        mm.solve(F, "Tabu", init=np.full(30, np.nan))


def test_labels_with_fractions_are_names_of_clusters():
    assert starting_point(F, TRUTH + 0.5, rng()).tolist() == TRUTH.tolist()


@pytest.mark.parametrize("init", ["spectral", "sdp"])
def test_margins_start_from_their_features_and_their_relaxation(init):
    X = np.random.default_rng(0).standard_normal((60, 3)) + 6.0 * np.eye(3)[np.arange(60) % 3]
    y = np.arange(60) % 3
    for f in (mm.formulations.CPM3C(X, 3), mm.formulations.MKC(X, 3, C=20.0)):
        c = f.labels(starting_point(f, init, rng()))
        assert mm.metrics.accuracy(y, c) > 0.9
    if init == "spectral":  # few samples, and sparse ones
        few = mm.formulations.CPM3C(X[:7], 3)
        assert len(np.unique(few.labels(starting_point(few, init, rng())))) > 1
        thin = mm.formulations.CPM3C(csr_array(X), 3)
        assert mm.metrics.accuracy(y, thin.labels(starting_point(thin, init, rng()))) > 0.9
