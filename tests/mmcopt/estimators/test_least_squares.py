"""The scikit-learn face: the whole of check_estimator, and what a user of scikit-learn tries."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mmcopt as mm
from mmcopt.constraints import Sizes
from mmcopt.errors import (
    DataError,
    IncompatibleError,
    InfeasibleError,
    MMCError,
    ParameterError,
)
from mmcopt.estimators import LeastSquaresClustering
from mmcopt.kernels import Gaussian, Linear, Polynomial, Precomputed
from mmcopt.selection import LAMS, path, resolving


@parametrize_with_checks([LeastSquaresClustering()])  # no exclusions
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return mm.datasets.load("iris")


@pytest.fixture(scope="module")
def fitted(iris):
    return LeastSquaresClustering(3, random_state=0).fit(iris[0])


# ---------------------------------------------------------------- what fit leaves behind


def test_the_attributes_are_those_of_the_result(iris, fitted):
    r = fitted.result_
    assert fitted.labels_ is r.labels and set(fitted.labels_) == {0, 1, 2}
    assert fitted.labels_.shape == (150,) and fitted.labels_.dtype == np.int64
    assert fitted.objective_ == r.objective == r.formulation.objective(fitted.labels_)
    assert fitted.lower_bound_ == r.lower_bound <= fitted.objective_
    assert fitted.gap_ == r.gap == (r.objective - r.lower_bound) / r.objective
    assert fitted.n_features_in_ == 4 and not hasattr(fitted, "feature_names_in_")
    assert fitted.kernel_ == resolving(iris[0], 3) == Gaussian(width=0.524)
    assert fitted.lam_ in LAMS
    assert r.verify()
    assert adjusted_rand_score(iris[1], fitted.labels_) > 0.9


def test_automatic_lambda_is_the_most_central_of_the_path(iris, fitted):
    problem = mm.formulations.LeastSquares(iris[0], 3, kernel=fitted.kernel_)
    assert fitted.lam_ == mm.selection.most_central(path(problem, seed=0)).formulation.lam
    given = LeastSquaresClustering(3, lam=0.1, random_state=0).fit(iris[0])
    assert given.lam_ == 0.1
    alone = mm.solve(problem, seed=0)
    assert given.objective_ == pytest.approx(alone.objective, rel=1e-12)
    assert np.array_equal(given.labels_, alone.labels)


def test_large_data_get_landmarks_and_a_plain_lambda(monkeypatch, iris):
    monkeypatch.setattr("mmcopt.estimators.least_squares.DENSE_LIMIT", 100)
    monkeypatch.setattr("mmcopt.estimators.least_squares.RANK", 30)
    monkeypatch.setattr("mmcopt.estimators.least_squares.PATH_LIMIT", 100)
    model = LeastSquaresClustering(3, random_state=0).fit(iris[0])
    assert model.kernel_ == resolving(iris[0], 3).nystroem(30)
    assert model.lam_ == 0.1
    assert not model.result_.formulation.W.is_dense
    assert model.predict(iris[0]).shape == (150,)


def test_same_random_state_same_labels(iris, fitted):
    for state in (0, np.int64(0)):
        again = LeastSquaresClustering(3, random_state=state).fit(iris[0])
        assert np.array_equal(again.labels_, fitted.labels_)
    a, b = (LeastSquaresClustering(3, lam=0.1, random_state=np.random.RandomState(4)).fit(iris[0])
            for _ in range(2))
    assert np.array_equal(a.labels_, b.labels_) and a.result_.seed == b.result_.seed
    assert fitted.result_.seed == 0


def test_one_cluster_has_one_labeling_which_is_certified(iris):
    model = LeastSquaresClustering(1, random_state=0).fit(iris[0])
    assert model.result_.status is mm.Status.CERTIFIED and model.gap_ < 1e-9
    assert not model.labels_.any()
    assert model.lam_ == 0.1
    assert model.decision_function(iris[0]).shape == (150, 1)
    assert not model.predict(iris[0]).any()


def test_restarts_and_time_reach_the_solver(iris, ticking):
    once = LeastSquaresClustering(3, lam=0.1, random_state=0).fit(iris[0])
    thrice = LeastSquaresClustering(3, lam=0.1, restarts=3, random_state=0).fit(iris[0])
    assert set(once.result_.history["restart"]) == {0}
    assert set(thrice.result_.history["restart"]) == {0, 1, 2}
    ticking(1e-3)
    timed = LeastSquaresClustering(3, lam=0.1, time_limit=0.3, random_state=0).fit(iris[0])
    assert timed.result_.history["restart"].max() > 0  # it uses all of its time
    assert timed.objective_ == pytest.approx(once.objective_, rel=1e-9)


# ---------------------------------------------------------------- input


def test_data_frames_and_their_names(iris, fitted):
    pd = pytest.importorskip("pandas")
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pd.DataFrame(iris[0], columns=names)
    model = LeastSquaresClustering(3, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == names
    assert np.array_equal(model.labels_, fitted.labels_)
    assert np.array_equal(model.predict(frame), fitted.predict(iris[0]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[names[::-1]])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
def test_sparse_input_gives_the_labels_of_dense_input(iris, fitted, kind):
    model = LeastSquaresClustering(3, random_state=0).fit(kind(iris[0]))
    assert model.objective_ == pytest.approx(fitted.objective_, rel=1e-9)
    assert np.array_equal(model.labels_, fitted.labels_)
    assert np.array_equal(model.predict(kind(iris[0])), fitted.predict(iris[0]))


def test_float32_and_lists_are_taken(iris):
    X = iris[0]
    for given in (X.astype(np.float32), X.tolist(), np.asfortranarray(X)):
        model = LeastSquaresClustering(3, lam=0.1, random_state=0).fit(given)
        assert model.objective_ == pytest.approx(92.59598, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
@pytest.mark.parametrize("kernel, meant", [
    ("linear", Linear()), ("gaussian", Gaussian(width=1)), (Gaussian(gamma=0.2), None),
    (Gaussian(width=0.5) + 0.3 * Polynomial(2), None), (Gaussian(width=1).nystroem(30), None)])
def test_kernels_by_name_and_composed(iris, kernel, meant):
    model = LeastSquaresClustering(3, kernel=kernel, lam=0.1, random_state=0).fit(iris[0])
    assert model.kernel_ == (kernel if meant is None else meant)
    scores = model.decision_function(iris[0][:7])
    assert scores.shape == (7, 3)
    assert np.array_equal(model.predict(iris[0][:7]), scores.argmax(axis=1))


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 2.0 * Precomputed(),
                                    Precomputed().centered()])
def test_precomputed_kernels(iris, kernel):
    K = iris[0] @ iris[0].T
    model = LeastSquaresClustering(3, kernel=kernel, lam=0.1, random_state=0)
    assert model.__sklearn_tags__().input_tags.pairwise  # splits take rows and columns
    model.fit(K)
    assert model.n_features_in_ == 150
    assert model.predict(K[:5]).shape == (5,)
    assert not LeastSquaresClustering().__sklearn_tags__().input_tags.pairwise
    if repr(kernel) in ("Precomputed()", "'precomputed'"):
        linear = LeastSquaresClustering(3, kernel="linear", lam=0.1, random_state=0).fit(iris[0])
        assert model.objective_ == pytest.approx(linear.objective_, rel=1e-6)


@pytest.mark.parametrize("sizes, low, high", [
    (0.0, 50, 50), (0.2, 40, 60), (Sizes(low=45), 45, 60), (Sizes(exact=50), 50, 50)])
def test_sizes_hold(iris, sizes, low, high):
    model = LeastSquaresClustering(3, sizes=sizes, random_state=0).fit(iris[0])
    counts = np.bincount(model.labels_)
    assert counts.min() >= low and counts.max() <= high
    assert model.result_.feasible


# ---------------------------------------------------------------- new samples


def test_predict_and_scores_of_new_samples(iris):
    X, y = iris
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    model = LeastSquaresClustering(3, random_state=0).fit(X[train])
    assert model.decision_function(X[test]).shape == (75, 3)
    assert model.predict(X[test[:1]]).shape == (1,)
    assert adjusted_rand_score(y[test], model.predict(X[test])) > 0.7
    assert np.mean(model.predict(X[train]) == model.labels_) > 0.95
    assert np.array_equal(model.predict(X[test]), model.result_.predict(X[test]))
    assert np.array_equal(LeastSquaresClustering(3, random_state=0).fit_predict(X[train]),
                          model.labels_)


@pytest.mark.parametrize("kernel", ["auto", "linear", Gaussian(width=1).nystroem(20)])
@pytest.mark.parametrize("lam", ["auto", 0.1])
def test_scores_of_the_training_samples_are_those_of_the_fit(iris, kernel, lam):
    X = iris[0]
    model = LeastSquaresClustering(3, kernel=kernel, lam=lam, random_state=0).fit(X)
    P = 2.0 * np.eye(3)[model.labels_] - 1.0
    K = (model.kernel_.centered()).fit(X).matrix()
    fit = K @ np.linalg.solve(K + model.lam_ * np.eye(150), P)
    np.testing.assert_allclose(model.decision_function(X), fit, atol=1e-6)
    assert model.result_.verify()
    np.testing.assert_allclose(model.result_.formulation.X, X, rtol=1e-14)


def test_clone_parameters_pipeline_and_pickle(iris, fitted):
    params = dict(n_clusters=3, kernel=Gaussian(width=0.5), lam=0.1, sizes=Sizes(within=0.3),
                  known={0: 1}, must_link=[(3, 8)], cannot_link=[(0, 5)], solver="Tabu",
                  model="auto", restarts=2, time_limit=5.0, random_state=7)
    model = LeastSquaresClustering(**params)
    assert model.get_params() == params
    copy = clone(model)
    assert copy is not model and copy.get_params() == params
    assert copy.set_params(lam=1.0).lam == 1.0 and model.lam == 0.1
    assert repr(LeastSquaresClustering(3)) == "LeastSquaresClustering(n_clusters=3)"
    line = make_pipeline(StandardScaler(), LeastSquaresClustering(3, random_state=0))
    assert line.fit_predict(iris[0]).shape == (150,)
    assert line.predict(iris[0][:4]).shape == (4,)
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.predict(iris[0]), fitted.predict(iris[0]))
    assert back.result_.verify()


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("options, words", [
    ({"n_clusters": 0}, "LeastSquaresClustering: n_clusters must be an integer at least 1; got 0."),
    ({"n_clusters": 2.5},
     "LeastSquaresClustering: n_clusters must be an integer at least 1; got 2.5."),
    ({"lam": 0}, "LeastSquaresClustering: lam must be a finite number above 0; got 0."),
    ({"lam": True}, "LeastSquaresClustering: lam must be a finite number above 0; got True."),
    ({"lam": "small"},
     "LeastSquaresClustering: lam must be 'auto' or a number above 0; got 'small'."),
    ({"restarts": 0}, "LeastSquaresClustering: restarts must be an integer at least 1; got 0."),
    ({"time_limit": -1},
     "LeastSquaresClustering: time_limit must be None or a finite number at least 0; got -1."),
    ({"random_state": -1},
     "LeastSquaresClustering: random_state must be an integer at least 0; got -1."),
    ({"kernel": "rbf"},
     "kernel must be a kernel of mmcopt.kernels, such as Gaussian(width=1), or one of 'linear', "
     "'gaussian', 'cosine', 'neighbors', 'precomputed'; got 'rbf'. Did you mean 'gaussian'?"),
])
def test_parameters_are_refused_by_fit_in_words(iris, options, words):
    model = LeastSquaresClustering(**options)  # scikit-learn: the constructor only stores
    with pytest.raises(ParameterError) as e:
        model.fit(iris[0])
    assert str(e.value) == words


def test_impossible_requests_are_refused_in_words(iris):
    with pytest.raises(InfeasibleError) as e:
        LeastSquaresClustering(151).fit(iris[0])
    assert str(e.value) == ("150 samples cannot fill 151 clusters: no cluster may be empty. "
                            "Ask for at most 150.")
    with pytest.raises(InfeasibleError) as e:
        LeastSquaresClustering(2, sizes=Sizes(low=100)).fit(iris[0])
    assert str(e.value).startswith("sizes cannot be met: 150 samples in 2 clusters of 100 to 150")
    with pytest.raises(DataError, match="all rows are identical"):
        LeastSquaresClustering(2).fit(np.ones((10, 2)))
    for bad in (np.nan, np.inf):
        X = iris[0].copy()
        X[3, 1] = bad
        with pytest.raises(ValueError, match="Input X contains"):
            LeastSquaresClustering(3).fit(X)


def test_use_before_fit_and_with_other_features(iris, fitted):
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(LeastSquaresClustering(3), method)(iris[0])
        with pytest.raises(ValueError, match="X has 2 features, but LeastSquaresClustering"):
            getattr(fitted, method)(iris[0][:, :2])


def test_a_failed_fit_leaves_the_parameters_as_they_were(iris):
    model = LeastSquaresClustering(3, lam=-1)
    with pytest.raises(MMCError):
        model.fit(iris[0])
    assert model.get_params()["lam"] == -1 and not hasattr(model, "labels_")


def test_what_is_known_of_labels_holds(iris):
    X, _ = iris
    free = LeastSquaresClustering(3, lam=0.1, random_state=0).fit(X)
    (a, b), (c, d) = (np.flatnonzero(free.labels_ == v)[:2] for v in (0, 1))

    def labels(**rules):
        model = LeastSquaresClustering(3, lam=0.1, random_state=0, **rules).fit(X)
        assert model.objective_ > free.objective_ and model.result_.verify()
        return model.labels_

    apart = labels(cannot_link=[(a, b), (c, d)])
    assert apart[a] != apart[b] and apart[c] != apart[d]
    joined = labels(must_link=[(a, c)])
    assert joined[a] == joined[c]
    known = labels(known={a: 2, c: 2, b: 1, d: 0})
    assert known[[a, c, b, d]].tolist() == [2, 2, 1, 0]


def test_the_solver_is_the_one_asked_for(iris):
    X, _ = iris
    model = LeastSquaresClustering(3, lam=0.1, solver="KernighanLin", random_state=0).fit(X)
    assert model.result_.solver == "KernighanLin"
    with pytest.raises(IncompatibleError, match="BruteForce cannot solve LeastSquares"):
        LeastSquaresClustering(3, lam=0.1, solver="BruteForce").fit(X)
