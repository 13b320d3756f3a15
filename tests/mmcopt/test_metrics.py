"""The metrics against scikit-learn, brute force and hand-made cases."""

import itertools

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mmcopt import metrics
from mmcopt.errors import DataError

OF_DATA = [metrics.compactness, metrics.davies_bouldin_index]
ALL = [metric for metric in (getattr(metrics, name) for name in metrics.__all__)
       if metric not in OF_DATA and metric is not metrics.contingency]
PAIRED = [
    (metrics.adjusted_rand_index, reference.adjusted_rand_score),
    (metrics.rand_index, reference.rand_score),
    (metrics.normalized_mutual_information, reference.normalized_mutual_info_score),
]
small = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


@pytest.mark.nojit
@given(small)
def test_agrees_with_sklearn(pair):
    y, labels = pair
    for ours, theirs in PAIRED:
        assert ours(y, labels) == pytest.approx(theirs(y, labels), abs=1e-12), ours.__name__
    table = metrics.contingency(y, labels)
    np.testing.assert_array_equal(table, reference.cluster.contingency_matrix(y, labels))


@given(small)
def test_accuracy_is_the_best_of_all_matchings(pair):
    y, labels = (np.array(a) for a in pair)
    best = max(
        np.mean(np.array(names)[labels] == y) for names in itertools.permutations(range(5))
    )
    assert metrics.accuracy(y, labels) == pytest.approx(best)
    assert metrics.clustering_error(y, labels) == pytest.approx(1 - best)
    assert metrics.purity(y, labels) >= metrics.accuracy(y, labels) - 1e-15


@given(small)
def test_names_of_the_values_do_not_matter(pair):
    y, labels = pair
    words = ["zero", "one", None, "three", "four"]
    for metric in ALL:
        renamed = metric(np.array(y) * 1.5 - 2, [words[c] for c in labels])
        assert renamed == pytest.approx(metric(y, labels), abs=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_equal_groupings_score_best(y):
    for metric in ALL:
        best = 0.0 if metric is metrics.clustering_error else 1.0
        assert metric(y, y) == pytest.approx(best, abs=1e-12)


def test_more_clusters_than_classes():
    y, labels = [0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3]
    assert metrics.accuracy(y, labels) == pytest.approx(4 / 6)
    assert metrics.purity(y, labels) == 1.0


def test_contingency_by_hand():
    table = metrics.contingency([True, False, True], ["x", "y", "y"])
    np.testing.assert_array_equal(table, [[0, 1], [1, 1]])
    assert table.dtype == np.int64


def test_large_counts_do_not_overflow():
    n = 400_000  # products of pair counts reach 1e21
    y = np.arange(n) % 2
    labels = np.where(np.arange(n) < n // 4, y, 1 - y)
    expected = reference.adjusted_rand_score(y, labels)
    assert metrics.adjusted_rand_index(y, labels) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", [*ALL, metrics.contingency])
def test_refusals(metric):
    with pytest.raises(DataError, match="y has 3 entries and labels 2; they must match"):
        metric([0, 1, 1], [0, 1])
    with pytest.raises(DataError, match=r"labels must be 1-D with at least one label; got shape"):
        metric([0, 1], [[0], [1]])
    with pytest.raises(DataError, match=r"y must be 1-D with at least one label"):
        metric([], [])
    with pytest.raises(DataError, match="1 NaN"):
        metric([0, 1], [0.0, np.nan])


# ---------------------------------------------------------------- without classes


@pytest.mark.parametrize("seed", range(6))
def test_davies_bouldin_agrees_with_sklearn(seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.standard_normal((40, 1 + seed)) * 3 + 50, rng.integers(0, 2 + seed, 40)
    assert metrics.davies_bouldin_index(X, labels) == pytest.approx(
        reference.davies_bouldin_score(X, labels), rel=1e-9)


@pytest.mark.as_given
def test_davies_bouldin_without_two_clusters_or_spread():
    X = [[0.0], [4.0], [1.0], [3.0]]
    assert np.isnan(metrics.davies_bouldin_index(X, [1, 1, 1, 1]))
    assert metrics.davies_bouldin_index(X, [0, 1, 2, 3]) == 0.0
    assert metrics.davies_bouldin_index(X, [0, 0, 1, 1]) == np.inf  # both means are 2
    assert metrics.davies_bouldin_index([[1.0], [1.0]], [0, 1]) == 0.0


def test_compactness_by_hand():
    X = np.array([[0.0, 0], [2, 0], [10, 0], [12, 0], [6, 0]])
    # distances to the means of the clusters 1, 1, 1, 1, 0; to the mean of all 6, 4, 4, 6, 0
    assert metrics.compactness(X, list("aabbc")) == pytest.approx(4 / 20)
    assert metrics.compactness(X, np.zeros(5)) == pytest.approx(1.0)
    assert metrics.compactness(X, np.arange(5)) == 0.0
    assert metrics.compactness(np.ones((3, 2)), [0, 0, 1]) == 0.0


@pytest.mark.parametrize("metric", OF_DATA)
def test_metrics_of_data(metric):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((30, 2)), rng.integers(0, 3, 30)
    turned = 7.0 * X @ np.array([[0.6, 0.8], [-0.8, 0.6]]) + 100.0
    words = np.array(["x", "y", "z"])[labels]
    assert metric(turned, words) == pytest.approx(metric(X, labels), rel=1e-12)
    with pytest.raises(DataError, match=f"{metric.__name__}: X has 30 rows and labels 2"):
        metric(X, [0, 1])
    with pytest.raises(DataError, match="X must be 2-D"):
        metric(X[:, 0], labels)
    with pytest.raises(DataError, match="sparse, which is not supported"):
        metric(csr_array(X), labels)
