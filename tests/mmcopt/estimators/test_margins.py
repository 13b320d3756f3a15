"""Margins between clusters as scikit-learn sees them."""

import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mmcopt as mm
from mmcopt.checks import seed_of
from mmcopt.errors import ParameterError
from mmcopt.estimators import MaxMarginClustering, MultipleKernelClustering
from mmcopt.kernels import Gaussian, Linear
from mmcopt.metrics import accuracy


@pytest.mark.filterwarnings("ignore:CPM3C", "ignore:MKC")
@parametrize_with_checks([MaxMarginClustering(), MultipleKernelClustering(restarts=2)])
def test_check_estimator(estimator, check):  # no exclusions
    check(estimator)


@pytest.mark.parametrize("model", [MaxMarginClustering(2), MultipleKernelClustering(2, restarts=3),
                                   MaxMarginClustering(2, kernel=Gaussian(width=0.5), restarts=3)],
                         ids=lambda m: type(m).__name__)
def test_digits_are_told_apart_unseen(model):
    X, y = mm.datasets.load("digits:1,7")
    model.set_params(random_state=0).fit(X)
    assert accuracy(y, model.labels_) >= 0.99 and model.result_.verify()
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.decision_function(X).shape == (361, 2)
    assert model.lower_bound_ <= model.objective_
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.labels_)


def test_no_class_is_lost_among_several():
    X, y = mm.datasets.load("digits:0,6,8,9")
    model = MaxMarginClustering(4, restarts=5, random_state=0).fit(X)
    assert np.bincount(model.labels_, minlength=4).min() >= 0.8 * len(y) / 4 - 1
    assert accuracy(y, model.labels_) > 0.93


def test_weights_say_which_kernel_helps():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 200)
    r = np.repeat([1.0, 4.0], 100)
    X = np.c_[r * np.cos(t), r * np.sin(t)] + 0.1 * rng.standard_normal((200, 2))
    model = MultipleKernelClustering(2, kernels=[Linear(), Gaussian(gamma=0.2)], restarts=10,
                                     random_state=0).fit(X)
    assert accuracy(r > 2, model.labels_) > 0.95
    assert model.kernel_weights_[1] > 2 * model.kernel_weights_[0]
    assert np.linalg.norm(model.kernel_weights_) == pytest.approx(1.0)


def test_sparse_rows_and_one_cluster():
    from scipy.sparse import csr_matrix

    X, _ = mm.datasets.load("digits:3,8")
    dense = MaxMarginClustering(2, restarts=2, random_state=0).fit(X)
    sparse = MaxMarginClustering(2, restarts=2, random_state=0).fit(csr_matrix(X))
    _, init, restarts = sparse._search(sparse.result_.formulation)
    same = mm.solve(dense.result_.formulation, "CuttingPlane", init=init, restarts=restarts,
                    seed=seed_of(0, "test"))
    assert sparse.objective_ == pytest.approx(same.objective, rel=1e-9)
    assert dense.objective_ <= sparse.objective_  # sparse rows are left to cutting planes
    assert np.array_equal(sparse.predict(csr_matrix(X)), sparse.labels_)
    single = MaxMarginClustering(1).fit(X)
    assert not single.labels_.any() and not single.predict(X).any() and single.result_ is None
    assert MultipleKernelClustering(1).fit(X).kernel_weights_ is None


@pytest.mark.parametrize("model, words", [
    (MaxMarginClustering(0), "n_clusters must be an integer at least 1"),
    (MaxMarginClustering(beta=0.0), "beta must be a finite number above 0"),
    (MaxMarginClustering(size_floor=2.0), "size_floor must be None or a finite number"),
    (MultipleKernelClustering(kernels=[]), "kernels must be a list of at least one kernel"),
    (MultipleKernelClustering(C=-1.0), "C must be a finite number above 0"),
    (MultipleKernelClustering(p=0.5), "p must be a finite number at least 1")])
def test_bad_parameters_get_a_sentence(model, words):
    with pytest.raises(ParameterError, match=words):
        model.fit(np.random.default_rng(0).standard_normal((20, 3)))


@pytest.mark.filterwarnings("ignore:CPM3C", "ignore:MKC")
def test_kernels_of_many_samples_look_at_landmarks(monkeypatch):
    from mmcopt.estimators import margins

    X, y = mm.datasets.load("digits:1,7")
    monkeypatch.setattr(margins, "LANDMARKED", 300)
    model = MultipleKernelClustering(2, random_state=0).fit(X)
    ranks = [getattr(kernel, "rank", None) for kernel in model.result_.formulation.kernels]
    assert ranks == [None, margins.LANDMARKS, margins.LANDMARKS]
    assert accuracy(y, model.labels_) >= 0.99 and model.result_.verify()
    assert np.array_equal(model.predict(X), model.labels_)
    given = Gaussian(width=0.5).nystroem(50)
    for kernel, rank in ((given, 50), ("gaussian", margins.LANDMARKS)):
        one = MaxMarginClustering(2, kernel=kernel, random_state=0).fit(X)
        assert one.result_.formulation.kernel.rank == rank
