"""Features: products against NumPy, rows that stay sparse, kernels that score new rows alike."""

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array, csr_matrix

import mmcopt as mm
from mmcopt.errors import DataError, ResourceError
from mmcopt.formulations import CPM3C
from mmcopt.kernels import Cosine, Gaussian, Polynomial
from mmcopt.kernels.features import Features, KernelFeatures

RNG = np.random.default_rng(0)
X = np.round(np.maximum(RNG.standard_normal((31, 6)), 0.0) * 20.0) + np.eye(31, 6)
KINDS = {"dense": np.array, "float32": lambda a: a.astype(np.float32), "csr": csr_matrix,
         "csr_array": csr_array, "csr32": lambda a: csr_matrix(a.astype(np.float32)),
         "csr_uint8": lambda a: csr_matrix(a.astype(np.uint8)),
         "uint8": lambda a: a.astype(np.uint8), "int": lambda a: a.astype(np.int64),
         "fortran": np.asfortranarray}


def literal(A, center, normalize):
    """The features in four lines."""
    Phi = A - A.mean(axis=0) if center else A.copy()
    if normalize:
        Phi = Phi / np.sqrt((Phi**2).sum(axis=1).mean())
    return Phi


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_numpy(kind, center, normalize):
    given = KINDS[kind](X)
    f = Features(given, center=center, normalize=normalize, owner="Test")
    Phi, rng = literal(X, center, normalize), np.random.default_rng(1)
    W, A = rng.standard_normal((3, 6)), rng.standard_normal((4, 31))
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(f.scores(W), Phi @ W.T, **close)
    np.testing.assert_allclose(f.sums(A), A @ Phi, **close)
    some = np.array([3, 17, 4])
    np.testing.assert_allclose(f.sums(A[:, :3], some), A[:, :3] @ Phi[some], **close)
    np.testing.assert_allclose(f.sums(A[:, :0], some[:0]), np.zeros((4, 6)), **close)
    np.testing.assert_allclose(f.total(), Phi.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(f.dense(), Phi, **close)
    np.testing.assert_allclose(f.new(given), Phi, **close)
    np.testing.assert_allclose(f.new(given[5:7]), Phi[5:7], **close)
    assert (f.n, f.d) == (31, 6)
    if normalize:
        assert (f.dense()**2).sum() == pytest.approx(31, rel=1e-12)
    again = given.toarray() if hasattr(given, "toarray") else given
    np.testing.assert_array_equal(again, X.astype(again.dtype))  # inputs stay


def test_sparse_rows_are_never_made_dense(monkeypatch):
    def forbid(*args, **kwargs):
        raise AssertionError("made dense")

    wide = np.zeros((40, 3000))  # 40 non-zero columns, so that any dense copy is far too large
    wide[:, ::75] = np.random.default_rng(2).random((40, 40)) * (np.arange(40)[:, None] % 2 + 0.5)
    given = csr_matrix(wide)
    for cls in (csr_matrix, csr_array, csc_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(cls, name, forbid)
    with pytest.raises(AssertionError, match="made dense"):
        given.toarray()
    result = mm.solve(CPM3C(given, 2), "CuttingPlane", seed=0)
    assert result.verify()
    monkeypatch.undo()
    dense = mm.solve(CPM3C(wide, 2), "CuttingPlane", seed=0)
    assert result.objective == pytest.approx(dense.objective, rel=1e-9)


def test_a_dense_copy_of_sparse_rows_asks_for_memory_first():
    f = Features(csr_matrix((10**6, 10**6)), center=True, normalize=False, owner="Test")
    with pytest.raises(ResourceError, match="features made dense needs"):
        f.dense()


@pytest.mark.parametrize("kernel", [
    Gaussian(width=0.5), Gaussian(width=0.5).nystroem(12), Polynomial(2), Cosine(),
    Gaussian(gamma=0.01) + 0.1 * Polynomial(2)], ids=repr)
@pytest.mark.parametrize("center, normalize", [(False, False), (True, True), (True, False)])
def test_kernels_score_training_rows_like_new_rows(kernel, center, normalize):
    f = CPM3C(X, 3, kernel=kernel, center=center, normalize=normalize)
    features = f.features
    assert isinstance(features, KernelFeatures)
    W = np.random.default_rng(3).standard_normal((3, features.d))
    np.testing.assert_allclose(features.scores(W), features.new(X) @ W.T, atol=1e-8)
    np.testing.assert_allclose(f.decision_function(W, X), f.scores(W), atol=1e-8)
    chosen = kernel.centered() if center else kernel
    chosen = chosen.normalized() if normalize else chosen
    K = chosen.fit(X).matrix()
    np.testing.assert_allclose(features.dense() @ features.dense().T, K,
                               atol=1e-8 * np.abs(K).max())
    if center:
        assert np.abs(features.total()).max() < 1e-5
    if normalize:
        assert (features.dense()**2).sum() == pytest.approx(31, rel=1e-9)


def test_a_kernel_between_given_samples_is_one_too():
    from mmcopt.kernels import Precomputed

    K = Gaussian(width=0.5).fit(X).matrix()
    ours = CPM3C(np.array(K), 2, kernel=Precomputed())
    theirs = CPM3C(X, 2, kernel=Gaussian(width=0.5))
    a, b = ours.features.dense(), theirs.features.dense()
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-8)


@pytest.mark.parametrize("value", [0.0, 1.0, 3.5])
@pytest.mark.parametrize("kind", [np.array, csr_matrix])
def test_equal_rows_cannot_be_normalised(kind, value):
    with pytest.raises(DataError, match="all samples are equal"):
        Features(kind(np.full((7, 2), value)), center=True, normalize=True, owner="Test")


@pytest.mark.parametrize("kind", [np.array, csr_matrix])
@pytest.mark.parametrize("value", [0.1, 1e8 + 0.1])
def test_equal_rows_cannot_be_normalised_though_their_mean_is_rounded(kind, value):
    rows = np.full((7, 2), value)
    assert (rows == rows[0]).all()
    with pytest.raises(DataError, match="all samples are equal"):
        Features(kind(rows), center=True, normalize=True, owner="Test")


def test_new_rows_are_checked():
    f = Features(X, center=True, normalize=True, owner="Test")
    with pytest.raises(DataError, match="X has 2 features, but Test is expecting 6"):
        f.new(np.ones((3, 2)))
    with pytest.raises(DataError, match="NaN"):
        f.new(np.full((3, 6), np.nan))
    with pytest.raises(DataError, match="positive semidefinite"):
        from mmcopt.kernels import Precomputed

        CPM3C(-np.eye(4), 2, kernel=Precomputed(), center=False, normalize=False).features.dense()
