"""`KernelKMeans`: the inertia of scikit-learn, kernels, weights, and refusals."""

import itertools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.errors import DataError
from mmcopt.formulations import KernelKMeans
from mmcopt.kernels import Gaussian, Linear, Precomputed

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3)) + 3.0 * (np.arange(40) % 4).reshape(-1, 1)


def literal(K, labels, w):
    """The sum of squared distances to the means, sample by sample, by kernel values alone."""
    total = 0.0
    for i, h in enumerate(labels):
        a = np.where(labels == h, w, 0.0) / w[labels == h].sum()
        total += w[i] * (K[i, i] - 2 * K[i] @ a + a @ K @ a)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_linear_is_the_inertia_of_scikit_learn(weighted, far):
    from sklearn.cluster import KMeans

    w = rng.uniform(0.5, 2.0, 40) if weighted else None
    model = KMeans(5, n_init=1, random_state=0).fit(X + far, sample_weight=w)
    f = KernelKMeans(X + far, 5, sample_weight=w)
    assert f.objective(model.labels_) == pytest.approx(model.inertia_, rel=1e-9)


def test_objective_is_the_literal_formula():
    w = rng.uniform(0.5, 2.0, 40)
    for kernel in (Linear(), Gaussian(width=0.5), Gaussian(width=0.5).nystroem(5)):
        K = np.asarray(kernel.fit(X).matrix())
        for weights in (np.ones(40), w):
            f = KernelKMeans(X, 4, kernel=kernel, sample_weight=weights)
            ratio = f.offer(LabelRatio)
            for _ in range(3):
                c = rng.permutation(np.arange(40) % 4)
                assert f.objective(c) == pytest.approx(literal(K, c, weights), rel=1e-9)
                assert ratio.value(c) == pytest.approx(f.objective(c), rel=1e-9)


def test_it_is_a_label_problem_but_no_quadratic_one():
    f = KernelKMeans(X, 4)
    assert f.offer(LabelQuadratic) is None
    assert f.offer(LabelProblem) is f.offer(LabelRatio)


def test_the_kernel_matrix_may_be_given():
    K = X @ X.T
    c = np.arange(40) % 4
    given = KernelKMeans(K, 4, kernel=Precomputed())
    assert given.objective(c) == pytest.approx(KernelKMeans(X, 4).objective(c), rel=1e-9)


def test_weights_are_copies_of_samples():
    """A sample of weight 2 is two samples that are must-linked, in sizes as well but for counts."""
    w = 1.0 + np.arange(8) % 2
    rows = np.repeat(np.arange(8), w.astype(int))
    f = KernelKMeans(X[:8], 3, sample_weight=w)
    copies = KernelKMeans(X[:8][rows], 3)
    for c in itertools.islice(itertools.product(range(3), repeat=8), 0, 6561, 500):
        c = np.array(c)
        assert f.objective(c) == pytest.approx(copies.objective(c[rows]), rel=1e-9)


def test_new_samples_go_to_the_nearest_mean():
    f = KernelKMeans(X, 4)
    c = np.arange(40) % 4
    M = np.stack([X[c == h].mean(axis=0) for h in range(4)])
    new = rng.standard_normal((7, 3))
    squares = ((new[:, None] - M) ** 2).sum(axis=2)
    np.testing.assert_allclose(f.decision_function(c, new), -squares, rtol=1e-9)
    near = KernelKMeans(X @ X.T, 4, kernel=Precomputed())
    rest = near.decision_function(c, X @ X.T) - f.decision_function(c, X)
    assert np.ptp(rest, axis=1).max() <= 1e-9 * np.abs(rest).max()  # k(x, x), of all clusters alike


def test_refusals():
    with pytest.raises(DataError, match="sample_weight must be above 0, because a cluster of "
                                        "samples without weight has no mean; leave out such "
                                        "samples, 2 here"):
        KernelKMeans(X, 2, sample_weight=np.r_[np.zeros(2), np.ones(38)])
    with pytest.raises(DataError, match="sample_weight must hold 40 finite numbers"):
        KernelKMeans(X, 2, sample_weight=np.ones(39))
    with pytest.raises(DataError, match="all rows of X are identical"):
        KernelKMeans(np.ones((5, 2)), 2).offer(LabelRatio).matrix.dense()
    with pytest.raises(DataError, match="not positive semidefinite"):
        KernelKMeans(-X @ X.T, 2, kernel=Precomputed()).offer(LabelRatio).matrix.dense()


def test_saved_and_loaded(tmp_path):
    f = KernelKMeans(X, 3, sample_weight=np.arange(1.0, 41.0), known={0: 1}, must_link=[(3, 7)])
    result = mm.evaluate(f, np.arange(40) % 3)
    result.save(tmp_path / "run.npz")
    again = mm.load(tmp_path / "run.npz")
    assert again.formulation.fingerprint == f.fingerprint and again.objective == result.objective
