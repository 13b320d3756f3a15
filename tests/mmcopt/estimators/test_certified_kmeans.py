"""`CertifiedKMeans` in place of scikit-learn's `KMeans`."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

import mmcopt as mm
from mmcopt.errors import MMCError
from mmcopt.estimators import CertifiedKMeans


@parametrize_with_checks([CertifiedKMeans()])  # no exclusions
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return mm.datasets.load("iris")[0]


def test_the_attributes_are_those_of_scikit_learn(iris):
    ours = CertifiedKMeans(3, random_state=0).fit(iris)
    theirs = KMeans(3, init=ours.cluster_centers_, n_init=1).fit(iris)  # goes on from there
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9)
    mine = ours.cluster_centers_
    near = theirs.cluster_centers_[np.lexsort(theirs.cluster_centers_.T[::-1])]
    np.testing.assert_allclose(mine, near, rtol=1e-9)
    assert ours.labels_.dtype == theirs.labels_.dtype
    assert np.array_equal(ours.predict(iris), ours.labels_)
    assert np.array_equal(ours.transform(iris).argmin(axis=1), ours.labels_)
    assert ours.score(iris) == pytest.approx(-ours.inertia_)
    assert list(ours.get_feature_names_out()) == [f"certifiedkmeans{h}" for h in range(3)]
    assert 0.0 < ours.lower_bound_ <= ours.inertia_ and 0.0 <= ours.gap_ < 1.0
    assert ours.result_.verify()


def test_weights_are_those_of_scikit_learn(iris):
    w = np.random.default_rng(0).uniform(0.0, 2.0, 150)
    w[::7] = 0.0
    ours = CertifiedKMeans(3, random_state=0).fit(iris, sample_weight=w)
    theirs = KMeans(3, init=ours.cluster_centers_, n_init=1).fit(iris, sample_weight=w)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9)
    assert np.array_equal(ours.labels_, ours.predict(iris))
    double = CertifiedKMeans(3, random_state=0).fit(iris, sample_weight=np.full(150, 2.0))
    plain = CertifiedKMeans(3, random_state=0).fit(iris)
    assert double.inertia_ == pytest.approx(2.0 * plain.inertia_)
    assert double.lower_bound_ == pytest.approx(2.0 * plain.lower_bound_)


def test_few_samples_are_certified():
    X = np.random.default_rng(0).standard_normal((9, 2))
    model = CertifiedKMeans(3, certify=5, random_state=0).fit(X)
    assert model.gap_ <= 1e-4 and model.result_.status is mm.Status.CERTIFIED
    assert CertifiedKMeans(1).fit(X).inertia_ == pytest.approx(9 * X.var(axis=0).sum())


def test_sparse_samples(iris):
    dense, sparse = (CertifiedKMeans(3, random_state=0).fit(X) for X in (iris, sp.csr_array(iris)))
    np.testing.assert_allclose(sparse.cluster_centers_, dense.cluster_centers_)
    assert np.array_equal(sparse.predict(sp.csr_array(iris)), dense.labels_)


@pytest.mark.parametrize("options, words", [
    ({"n_clusters": 0}, "n_clusters must be"), ({"certify": -1.0}, "certify must be"),
    ({"n_clusters": 200}, "150 samples cannot fill 200 clusters")])
def test_refusals(iris, options, words):
    with pytest.raises(MMCError, match=words):
        CertifiedKMeans(**options).fit(iris)
