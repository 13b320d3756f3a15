"""Support vector clustering as scikit-learn sees it."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mmcopt as mm
from mmcopt.errors import MMCError, ParameterError
from mmcopt.estimators import SupportVectorClustering
from mmcopt.metrics import adjusted_rand_index as ari

MOONS, WHICH = mm.datasets.load("moons:n=240,noise=.06,seed=2")


@pytest.mark.filterwarnings("ignore:OneClassHinge")
@parametrize_with_checks([SupportVectorClustering(), SupportVectorClustering(
    assignment="level_tree")])  # no exclusions
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("options", [{}, {"assignment": "level_tree"}, {"n_clusters": 2},
                                     {"gamma": 30.0, "C": 240.0}])
def test_moons_are_found_unseen(options):
    model = SupportVectorClustering(random_state=0, **options).fit(MOONS)
    assert model.n_clusters_ == 2 and ari(WHICH, model.labels_) == 1.0
    assert model.gap_ <= 1e-3 and model.lower_bound_ <= model.objective_
    assert model.result_.verify()
    assert np.array_equal(model.predict(MOONS), model.labels_)
    assert model.decision_function(MOONS).shape == (240,)
    assert model.gamma_ == model.result_.formulation.kernel.gamma
    again = clone(model).fit(MOONS)
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(MOONS), model.labels_)


def test_outliers_may_be_marked():
    X = np.vstack([MOONS, [[50.0, 50.0]]])
    model = SupportVectorClustering(gamma=30.0, C=60.0, outliers="mark").fit(X)
    assert model.labels_[-1] == -1 and (model.predict([[80.0, -3.0]]) == -1).all()
    assert np.array_equal(model.labels_ == -1, model.assignment_.outside)
    assert SupportVectorClustering(gamma=30.0, C=60.0).fit(X).labels_.min() == 0


def test_the_equilibria_of_the_paper_are_at_hand():
    X, y = mm.datasets.load("blobs:n=90,k=3,sd=.4,seed=1")
    model = SupportVectorClustering(assignment="equilibrium", gamma=1.0, C=90.0).fit(X)
    assert model.assignment_.equilibria is not None and ari(y, model.labels_) == 1.0


def test_many_samples_are_condensed_first():
    X, y = mm.datasets.load("moons:n=3100,noise=.05,seed=0")
    model = SupportVectorClustering(random_state=0).fit(X)
    assert model.labels_.shape == (3100,) and ari(y, model.labels_) == 1.0
    assert model.cells_.weights.sum() == 3100 and model.result_.formulation.n <= 2000
    assert ari(y[:500], model.predict(X[:500])) == 1.0
    marked = SupportVectorClustering(gamma=100.0, C=500.0, outliers="mark").fit(X)
    assert np.array_equal(marked.predict(X), marked.labels_)
    assert marked.labels_.shape == (3100,) and set(marked.labels_) <= {-1, 0, 1}


@pytest.mark.parametrize("options, words", [
    ({"gamma": 0.0}, "gamma must be a finite number above 0"),
    ({"C": "some"}, "C must be 'auto' or a number above 0"),
    ({"n_clusters": 0}, "n_clusters must be None or an integer at least 1"),
    ({"assignment": "magic"}, "assignment must be one of 'graph', 'level_tree', 'equilibrium'"),
    ({"outliers": "drop"}, "outliers must be one of")])
def test_bad_parameters_get_a_sentence(options, words):
    with pytest.raises(ParameterError, match=words):
        SupportVectorClustering(**options).fit(MOONS)


@pytest.mark.parametrize("gamma", [1e-9, 1e9])
def test_absurd_widths_have_an_answer(gamma):
    model = SupportVectorClustering(gamma=gamma).fit(MOONS)
    assert model.labels_.shape == (240,)
    assert (model.n_clusters_ == 1) == (gamma < 1)


def test_features_of_very_different_units_are_no_error():
    X = MOONS * [1.0, 1e6]
    assert SupportVectorClustering().fit(X).labels_.shape == (240,)


@pytest.mark.parametrize("X", [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]], [[0.0], [1.0]]])
def test_one_and_two_samples(X):
    model = SupportVectorClustering().fit(X)
    assert model.labels_.shape == (len(X),)
    with pytest.raises((MMCError, ValueError), match="NaN"):
        SupportVectorClustering().fit([[np.nan, 1.0]])


@pytest.mark.parametrize("assignment", ["graph", "level_tree", "equilibrium"])
def test_sparse_samples_are_taken(assignment, monkeypatch):
    X = MOONS[::4]
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    options = {"assignment": assignment, "random_state": 0}
    dense, model = SupportVectorClustering(**options).fit(X), SupportVectorClustering(**options)
    assert np.array_equal(model.fit(sparse).labels_, dense.labels_)
    assert np.array_equal(model.predict(sparse), dense.predict(X))
    assert np.array_equal(model.decision_function(sparse), dense.decision_function(X))
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 100)
    with pytest.raises(MMCError, match="the features as a dense array needs .* by TruncatedSVD"):
        model.fit(sparse)
