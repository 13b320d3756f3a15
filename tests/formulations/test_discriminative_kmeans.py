"""`DiscriminativeKMeans` against its definition, and against k-means with R for the kernel."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic, LabelRatio, Refit
from mmcopt.formulations import DiscriminativeKMeans, KernelKMeans
from mmcopt.kernels import Gaussian, Precomputed

rng = np.random.default_rng(0)
X = rng.standard_normal((20, 2)) + 3.0 * (np.arange(20) % 2).reshape(-1, 1)


@pytest.mark.parametrize("center", [True, False])
def test_objective_is_what_ridge_regression_leaves_of_targets_of_length_one(center):
    f = DiscriminativeKMeans(X, 3, kernel=Gaussian(width=0.5), lam=0.3, center=center)
    K = np.asarray(f.fitted.matrix())
    for _ in range(5):
        c, total = rng.permutation(np.arange(20) % 3), 0.0
        for h in range(3):
            p = (c == h) / np.sqrt((c == h).sum())
            a = np.linalg.solve(K + 0.3 * np.eye(20), p)
            total += np.sum((p - K @ a) ** 2) + 0.3 * a @ K @ a
        assert f.objective(c) == pytest.approx(total, rel=1e-9)
        assert f.offer(LabelRatio).value(c) == pytest.approx(total, rel=1e-9)


def test_it_is_k_means_with_another_kernel():
    f = DiscriminativeKMeans(X, 3, kernel=Gaussian(width=0.5), lam=0.3)
    R = np.array(f.W.dense())
    other = KernelKMeans(R, 3, kernel=Precomputed())
    for _ in range(5):
        c = rng.permutation(np.arange(20) % 3)
        assert f.objective(c) - 3.0 == pytest.approx(other.objective(c) - np.trace(R), rel=1e-9)


def test_what_it_offers():
    f = DiscriminativeKMeans(X, 2)
    assert f.offer(LabelQuadratic) is None and f.offer(Refit) is None
    assert f.offer(LabelRatio).trivial_bound == 1.0
    assert DiscriminativeKMeans(X, 2, center=False).offer(LabelRatio).trivial_bound == 0.0


def test_scores_of_the_training_samples_are_those_of_k_means_in_the_space_of_R():
    f = DiscriminativeKMeans(X, 2, kernel=Gaussian(width=0.5))
    c, R = np.arange(20) % 2, np.array(f.W.dense())
    Z = np.eye(2)[c] / 10.0
    expected = 2.0 * R @ Z - np.einsum("ih,ij,jh->h", Z, R, Z)
    np.testing.assert_allclose(f.decision_function(c, X), expected, atol=1e-10)


def test_a_result_is_saved_and_loaded(tmp_path):
    f = DiscriminativeKMeans(X, 2, sizes=0.2, known={0: 1})
    mm.evaluate(f, np.arange(20) % 2).save(tmp_path / "run.npz")
    assert mm.load(tmp_path / "run.npz").formulation.fingerprint == f.fingerprint
