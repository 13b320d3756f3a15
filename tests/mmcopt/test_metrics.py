"""The metrics against scikit-learn, brute force and hand-made cases."""

import itertools

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st

from mmcopt import metrics
from mmcopt.errors import DataError

ALL = [getattr(metrics, name) for name in metrics.__all__ if name != "contingency"]
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
