"""Kernels against literal NumPy, scikit-learn and explicit feature spaces."""

import json
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

import mmcopt.kernels as kernels
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import (
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Neighbors,
    Polynomial,
    Precomputed,
    as_kernel,
    data,
)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 5)) + 3.0
Z = RNG.normal(size=(11, 5)) + 3.0

PLAIN = [
    Linear(), Polynomial(2, 0.5), Polynomial(), Gaussian(gamma=0.3), Gaussian(sigma=1.7),
    Gaussian(width=0.4), Laplacian(gamma=0.2), Laplacian(width=0.6), Cosine(),
]
COMPOSED = [
    Gaussian(width=0.5) + 0.3 * Polynomial(degree=2),
    2 * (Linear() + Cosine()),
    Linear() * Gaussian(gamma=0.1) * 3,
    Linear() * (Cosine() * Linear()) + Linear(),
    Gaussian(width=1).centered().normalized(),
    Gaussian(width=1).normalized().centered(),
    Linear().centered().normalized(),
    (Linear() + Polynomial(2)).centered(),
    (Linear().centered() + Gaussian(gamma=0.1).nystroem(7)).normalized(),
    Gaussian(gamma=0.1).centered().nystroem(9, seed=3),
    Linear().nystroem(3) * Gaussian(gamma=0.1) + 2 * (3 * Linear()),
    Linear().centered().nystroem(4).centered(),
    (Linear().centered() * Linear().centered()).normalized(),
    Neighbors(), Neighbors(4, "binary", 5).unit().centered(), 0.5 * Neighbors(5) + Linear().unit(),
    Gaussian(width=0.5).random_features(8) + Linear(), Gaussian(gamma=0.2).random_features(6, 1),
    Neighbors().pca(rank=7), (Linear() + Gaussian(gamma=0.1).nystroem(7)).pca().unit(),
]
ALL = PLAIN + COMPOSED


@pytest.fixture(autouse=True, params=[1024, 7])
def block(request, monkeypatch):
    """Every test runs in one block of rows and in many small ones."""
    monkeypatch.setattr(data, "_BLOCK", request.param)


def dmax(X, ord=2):
    return max(np.linalg.norm(x - z, ord) for x in X for z in X)


def literal(kernel, A, B, X):
    """The kernel of A against B in plain loops, for the kernels of PLAIN."""
    wide = getattr(kernel, "width", None)
    top = dmax(X, 1 if isinstance(kernel, Laplacian) else 2) if wide else 0.0

    def k(x, z):
        d2, d1 = np.sum((x - z) ** 2), np.sum(np.abs(x - z))
        match kernel:
            case Linear():
                return x @ z
            case Polynomial():
                return (x @ z + kernel.coef0) ** kernel.degree
            case Cosine():
                return x @ z / np.linalg.norm(x) / np.linalg.norm(z)
            case Laplacian():
                return np.exp(-(d1 / (wide * top) if wide else d1 * kernel.gamma))
        if kernel.sigma:
            return np.exp(-d2 / (2 * kernel.sigma**2))
        return np.exp(-(d2 / (wide * top) ** 2 if wide else d2 * kernel.gamma))

    return np.array([[k(x, z) for z in B] for x in A])


@pytest.mark.parametrize("kernel", PLAIN, ids=repr)
def test_plain_kernels_are_their_formulas(kernel):
    f = kernel.fit(X)
    np.testing.assert_allclose(f.matrix(), literal(kernel, X, X, X), rtol=1e-11)
    np.testing.assert_allclose(f.cross(Z), literal(kernel, Z, X, X), rtol=1e-11)


@pytest.mark.parametrize(("kernel", "ours"), [
    (Polynomial(4, -0.5), lambda a, b: pairwise.polynomial_kernel(a, b, 4, 1.0, -0.5)),
    (Gaussian(gamma=0.2), lambda a, b: pairwise.rbf_kernel(a, b, 0.2)),
    (Laplacian(gamma=0.2), lambda a, b: pairwise.laplacian_kernel(a, b, 0.2)),
    (Cosine(), pairwise.cosine_similarity),
    (Linear(), pairwise.linear_kernel),
], ids=lambda v: repr(v) if isinstance(v, Kernel) else "")
def test_scikit_learn_agrees(kernel, ours):
    f = kernel.fit(X)
    np.testing.assert_allclose(f.matrix(), ours(X, X), rtol=1e-10)
    np.testing.assert_allclose(f.cross(Z), ours(Z, X), rtol=1e-10)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_invariants_of_every_composition(kernel):
    f = kernel.fit(X)
    K = f.matrix()
    assert K.dtype == np.float64 and K.shape == (40, 40) and f.n == 40 and f.n_features == 5
    assert np.array_equal(K, K.T) and K.flags.writeable
    scale = np.abs(K).max()
    np.testing.assert_allclose(f.cross(X), K, rtol=0, atol=1e-12 * max(1, scale))
    assert f.cross(Z).shape == (11, 40)
    assert f.psd and np.linalg.eigvalsh(K).min() > -1e-10 * scale
    K[:] = 0  # a new array each time
    assert np.abs(f.matrix()).max() == scale
    new = kernel.fit(X)  # whatever is asked first, the bytes are the same
    assert np.array_equal(new.cross(Z), f.cross(Z)) and np.array_equal(new.matrix(), f.matrix())


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_features_are_a_factor_of_the_kernel(kernel):
    f = kernel.fit(X)
    Phi, New = f.features(), f.new_features(Z)
    if Phi is None:
        assert New is None
        return
    assert not Phi.flags.writeable
    np.testing.assert_allclose(Phi @ Phi.T, f.matrix(), atol=1e-11 * np.abs(f.matrix()).max())
    np.testing.assert_allclose(New @ Phi.T, f.cross(Z), atol=1e-11 * np.abs(f.matrix()).max())
    np.testing.assert_allclose(f.new_features(X), Phi, atol=1e-11)


def test_which_kernels_have_features():
    assert Linear().fit(X).features().shape == (40, 5)
    assert Linear().fit(X[:5]).features() is None  # d >= n
    assert Linear().fit(sp.csr_matrix(X)).features() is None
    assert Gaussian(gamma=1).fit(X).features() is None
    assert (Linear() * Linear()).fit(X).features() is None
    assert (Linear() + Gaussian(gamma=1)).fit(X).features() is None
    both = (2 * Linear() + Gaussian(gamma=1).nystroem(6)).centered().normalized().fit(X)
    assert both.features().shape == (40, 11)
    assert abs((both.features() ** 2).sum() - 40) < 1e-10
    assert np.abs(both.features().mean(axis=0)).max() < 1e-14


@pytest.mark.as_given
def test_linear_features_are_the_data():
    np.testing.assert_array_equal(Linear().fit(X).features(), X)
    np.testing.assert_allclose(Linear().centered().fit(X).features(), X - X.mean(0), atol=1e-14)


def poly_features(A):
    """Explicit features of (x'z)^2."""
    return np.einsum("ij,ik->ijk", A, A).reshape(len(A), -1)


def test_centring_of_new_rows_uses_the_training_mean():
    f = Polynomial(2, 0.0).centered().fit(X)
    mean = poly_features(X).mean(axis=0)
    F, G = poly_features(X) - mean, poly_features(Z) - mean
    np.testing.assert_allclose(f.matrix(), F @ F.T, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(f.cross(Z), G @ F.T, rtol=1e-9, atol=1e-8)
    assert np.abs(f.matrix().mean(axis=0)).max() < 1e-10 * np.abs(f.matrix()).max()
    # one row at a time gives what many rows give: nothing is learnt from the new rows
    np.testing.assert_allclose(np.vstack([f.cross(z[None]) for z in Z]), f.cross(Z), atol=1e-10)


def test_operations_apply_in_the_order_written():
    K = literal(Gaussian(width=1), X, X, X)
    H = np.eye(40) - 1 / 40
    C = H @ K @ H
    a = Gaussian(width=1).centered().normalized().fit(X)
    b = Gaussian(width=1).normalized().centered().fit(X)
    np.testing.assert_allclose(a.matrix(), C * 40 / np.trace(C), atol=1e-12)
    np.testing.assert_allclose(b.matrix(), C * 40 / np.trace(K), atol=1e-12)
    assert abs(np.trace(a.matrix()) - 40) < 1e-10 and abs(np.trace(b.matrix()) - 40) > 1
    Kz = literal(Gaussian(width=1), Z, X, X)
    want = (Kz - Kz.mean(1)[:, None] - K.mean(0) + K.mean()) * 40 / np.trace(C)
    np.testing.assert_allclose(a.cross(Z), want, atol=1e-12)


def test_sums_products_and_numbers():
    G, P = literal(Gaussian(gamma=0.1), X, X, X), X @ X.T
    k = (Gaussian(gamma=0.1) + np.float64(0.5) * Linear()) * (Linear() * np.int64(2))
    np.testing.assert_allclose(k.fit(X).matrix(), (G + 0.5 * P) * 2 * P, rtol=1e-11)
    assert isinstance(k, Kernel)


def test_gaussian_diagonal_is_one_and_offsets_do_no_harm():
    far = X + 1e6
    K = Gaussian(gamma=1.0).fit(far).matrix()
    assert (np.diag(K) == 1).all() and K.max() <= 1
    np.testing.assert_allclose(K, literal(Gaussian(gamma=1.0), far, far, far), rtol=1e-7)
    np.testing.assert_allclose(Gaussian(gamma=1.0).fit(far).cross(far), K, atol=1e-12)


def test_width_remembers_the_training_diameter():
    f = Gaussian(width=0.5).fit(X)
    far = 100 * Z
    np.testing.assert_allclose(f.cross(far), literal(Gaussian(width=0.5), far, X, X), atol=1e-14)
    relative = np.sqrt(2) * 0.3  # the relative sigma of the UMC-RLS paper
    np.testing.assert_allclose(Gaussian(width=relative).fit(X).matrix(),
                               Gaussian(sigma=0.3 * dmax(X)).fit(X).matrix(), rtol=1e-10)


def test_diameter_of_many_rows_is_sampled_and_deterministic(monkeypatch):
    monkeypatch.setattr(data, "_EXACT", 30)
    monkeypatch.setattr(data, "_SAMPLE", 20)
    rows = np.sort(np.random.default_rng(0).choice(40, 20, replace=False))
    a, b = Gaussian(width=0.5).fit(X), Gaussian(width=0.5).fit(X)
    want = Gaussian(sigma=0.5 * dmax(X[rows]) / np.sqrt(2)).fit(X).matrix()
    np.testing.assert_allclose(a.matrix(), want, rtol=1e-10)
    assert np.array_equal(a.matrix(), b.matrix())
    np.testing.assert_allclose(a.cross(X), a.matrix(), atol=1e-12)


# ---------------------------------------------------------------- nystroem


@pytest.mark.parametrize("kernel", [Gaussian(width=0.3), Linear(), Polynomial(2), Cosine(),
                                    Laplacian(gamma=0.3), Gaussian(width=1).centered()], ids=repr)
def test_nystroem_of_all_rows_is_exact(kernel):
    K = kernel.fit(X).matrix()
    f = kernel.nystroem(40).fit(X)
    np.testing.assert_allclose(f.matrix(), K, atol=1e-10 * np.abs(K).max())
    np.testing.assert_allclose(f.cross(Z), kernel.fit(X).cross(Z), atol=1e-7 * np.abs(K).max())


@pytest.mark.parametrize(("kernel", "sparse"), [
    (Gaussian(width=0.6), False), (Gaussian(width=0.6), True), (Laplacian(gamma=0.1), False)])
def test_random_features_are_the_kernel_in_the_mean(kernel, sparse):
    """By the law of large numbers: an entry is the mean of 20,000 cosines."""
    rows = sp.csr_array(X) if sparse else X
    many = kernel.random_features(40_000, seed=2)
    fitted = many.fit(rows)
    np.testing.assert_allclose(fitted.matrix(), kernel.fit(rows).matrix(), rtol=0, atol=0.03)
    np.testing.assert_allclose(fitted.diagonal(), 1.0)
    assert not np.allclose(many.fit(rows).features(),
                           kernel.random_features(40_000).fit(rows).features())


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Linear().random_features(4), "of a Gaussian or a Laplacian; got Linear.*nystroem"),
    (lambda: Gaussian(width=1).random_features(5), "rank must be an even integer at least 2"),
    (lambda: Gaussian(width=1).random_features(4, -1), "seed must be an integer at least 0")])
def test_random_features_of_what_has_none_are_refused(make, says):
    with pytest.raises(ParameterError, match=says):
        make()


def test_nystroem_is_its_formula_with_seeded_landmarks():
    R = np.sort(np.random.default_rng(5).choice(40, 8, replace=False))
    K = literal(Gaussian(gamma=0.1), X, X, X)
    f = Gaussian(gamma=0.1).nystroem(8, seed=5).fit(X)
    np.testing.assert_allclose(f.matrix(), K[:, R] @ np.linalg.inv(K[np.ix_(R, R)]) @ K[R],
                               atol=1e-11)
    assert f.features().shape == (40, 8)
    again = Gaussian(gamma=0.1).nystroem(8, seed=5).fit(X)
    assert np.array_equal(f.features(), again.features())
    other = Gaussian(gamma=0.1).nystroem(8, seed=6).fit(X)
    assert not np.array_equal(f.features(), other.features())


def test_nystroem_drops_directions_of_no_weight():
    assert Linear().nystroem(20).fit(X).features().shape == (40, 5)
    twice = np.vstack([X, X])
    K = Gaussian(gamma=0.1).fit(twice).matrix()
    f = Gaussian(gamma=0.1).nystroem(80).fit(twice)
    assert f.features().shape[1] <= 40
    np.testing.assert_allclose(f.matrix(), K, atol=1e-9)


def test_nystroem_of_a_precomputed_matrix_is_that_of_the_kernel():
    k = Gaussian(gamma=0.1)
    a, b = k.nystroem(8).fit(X), Precomputed().nystroem(8).fit(k.fit(X).matrix())
    np.testing.assert_allclose(a.matrix(), b.matrix(), atol=1e-10)
    np.testing.assert_allclose(a.cross(Z), b.cross(k.fit(X).cross(Z)), atol=1e-10)
    assert b.psd and not b._parts[0].psd


# ---------------------------------------------------------------- cholesky


@pytest.mark.parametrize("kernel", [Gaussian(width=0.3), Linear(), Polynomial(2), Cosine(),
                                    Laplacian(gamma=0.3), Gaussian(width=1).centered()], ids=repr)
def test_cholesky_of_all_the_trace_is_exact(kernel):
    K = kernel.fit(X).matrix()
    f = kernel.cholesky(1.0).fit(X)
    np.testing.assert_allclose(f.matrix(), K, atol=1e-9 * np.abs(K).max())
    np.testing.assert_allclose(f.cross(Z), kernel.fit(X).cross(Z), atol=1e-6 * np.abs(K).max())


def test_cholesky_keeps_the_share_of_the_trace_with_as_few_pivots_as_it_needs():
    K = Gaussian(width=1).fit(X).matrix()
    ranks = []
    for share in (0.9, 0.99, 0.9999):
        f = Gaussian(width=1).cholesky(share).fit(X)
        left = np.trace(K) - np.trace(f.matrix())
        ranks.append(f.features().shape[1])
        assert -1e-10 <= left <= (1 - share) * np.trace(K) + 1e-10
        assert np.linalg.eigvalsh(K - f.matrix()).min() >= -1e-10
        fewer = Gaussian(width=1).cholesky(1.0, ranks[-1] - 1).fit(X)
        assert np.trace(K) - np.trace(fewer.matrix()) > (1 - share) * np.trace(K)
    assert ranks[0] < ranks[1] < ranks[2] < 40
    assert Linear().cholesky(1.0).fit(X).features().shape == (40, 5)
    assert repr(Linear().cholesky()) == "Linear().cholesky(share=0.999, rank=0)"


def test_cholesky_picks_the_row_that_is_known_least():
    K = Gaussian(gamma=0.1).fit(X).matrix()
    f = Gaussian(gamma=0.1).cholesky(1.0, 5).fit(X)
    R, left = [], K.copy()
    for _ in range(5):  # literally, on the whole matrix
        j = int(np.diagonal(left).argmax())
        R.append(j)
        left = left - np.outer(left[:, j], left[j]) / left[j, j]
    assert f._R.tolist() == R
    np.testing.assert_allclose(K - f.matrix(), left, atol=1e-12)
    a, b = f, Precomputed().cholesky(1.0, 5).fit(K)
    np.testing.assert_allclose(a.matrix(), b.matrix(), atol=1e-12)
    with pytest.raises(DataError, match="positive trace; check for identical rows"):
        Linear().cholesky().fit(np.zeros((5, 2)))


def test_nystroem_makes_no_float_copy_of_the_data(monkeypatch):
    monkeypatch.setattr(data, "_BLOCK", 256)
    big = np.random.default_rng(0).integers(0, 255, (6000, 400), dtype=np.uint8)
    tracemalloc.start()
    Phi = Gaussian(gamma=1e-6).nystroem(20).centered().normalized().fit(big).features()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Phi.shape == (6000, 20)
    assert peak < 0.5 * big.size * 8


# ---------------------------------------------------------------- types of data


@pytest.mark.parametrize("kernel", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_every_type_is_computed_in_float64(kernel, dtype):
    small = RNG.integers(1, 255, (20, 4)).astype(dtype)
    want, got = kernel.fit(small.astype(np.float64)), kernel.fit(small)
    K = want.matrix()
    np.testing.assert_allclose(got.matrix(), K, rtol=1e-12, atol=1e-9 * np.abs(K).max())
    np.testing.assert_allclose(got.cross(small[:6]), want.cross(small[:6].astype(float)),
                               rtol=1e-12, atol=1e-9 * np.abs(K).max())


def test_uint8_does_not_wrap():
    K = Polynomial(3, 1.0).fit(np.full((2, 3), 200, dtype=np.uint8)).matrix()
    assert (K == (3 * 200.0**2 + 1) ** 3).all()


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array, sp.coo_matrix])
@pytest.mark.parametrize("kernel", [
    k for k in ALL if not isinstance(k, Laplacian) and "Neighbors" not in repr(k)], ids=repr)
def test_sparse_equals_dense(kernel, form):
    D = np.where(RNG.random((30, 8)) < 0.5, RNG.normal(size=(30, 8)), 0.0)
    D[:, 0] += 1.0
    dense, sparse = kernel.fit(D), kernel.fit(form(D))
    K = dense.matrix()
    tol = 1e-9 * max(1.0, np.abs(K).max())
    np.testing.assert_allclose(sparse.matrix(), K, atol=tol)
    assert np.array_equal(sparse.matrix(), sparse.matrix().T)
    np.testing.assert_allclose(sparse.cross(form(D)), sparse.matrix(), atol=tol)
    for new in (D[:5], form(D[:5])):  # sparse and dense rows are taken by either
        np.testing.assert_allclose(sparse.cross(new), dense.cross(D[:5]), atol=tol)
        np.testing.assert_allclose(dense.cross(new), dense.cross(D[:5]), atol=tol)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_the_callers_array_is_left_alone(kernel):
    for make in (np.array, np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2]):
        mine = make(X)
        f = kernel.fit(mine)
        f.matrix(), f.features(), f.cross(mine), f.new_features(mine)
        assert mine.flags.writeable and np.array_equal(mine, X)
    frozen = X.copy()
    frozen.flags.writeable = False
    f = kernel.fit(frozen)
    f.matrix(), f.features(), f.cross(frozen)
    np.testing.assert_array_equal(frozen, X)


@pytest.mark.as_given
def test_fit_takes_no_copy_of_floats():
    assert np.shares_memory(Gaussian(width=1).fit(X)._data.X, X)


# ---------------------------------------------------------------- precomputed


@pytest.mark.as_given
def test_precomputed_is_the_matrix():
    K, Kz = X @ X.T, Z @ X.T
    f = Precomputed().fit(K)
    np.testing.assert_array_equal(f.matrix(), K)
    np.testing.assert_array_equal(f.cross(Kz), Kz)
    assert f.n == f.n_features == 40 and not f.psd and f.features() is None
    assert not np.shares_memory(f.matrix(), K) and not np.shares_memory(f.cross(K), K)
    a, b = (Precomputed() * 2).centered().normalized().fit(K), Linear().centered().normalized()
    np.testing.assert_allclose(a.matrix(), b.fit(X).matrix(), atol=1e-10)
    np.testing.assert_allclose(a.cross(Kz), b.fit(X).cross(Z), atol=1e-10)


def test_precomputed_is_made_exactly_symmetric():
    K = X @ X.T
    K[0, 1] += 1e-9 * np.abs(K).max()
    out = Precomputed().fit(K).matrix()
    assert np.array_equal(out, out.T)
    np.testing.assert_allclose(out, K, rtol=1e-7)


# ---------------------------------------------------------------- descriptions


def test_repr_is_the_code():
    k = Gaussian(width=0.5) + 0.3 * Polynomial(degree=2, coef0=1.0)
    assert repr(k) == "Gaussian(width=0.5) + 0.3 * Polynomial(degree=2, coef0=1.0)"
    assert repr(Gaussian(width=1).centered()) == "Gaussian(width=1.0).centered()"
    low = (Linear() + Cosine()).nystroem(5)
    assert repr(low) == "(Linear() + Cosine()).nystroem(rank=5, seed=0)"
    assert repr(np.float64(0.5) * Gaussian(gamma=np.float64(2))) == "0.5 * Gaussian(gamma=2.0)"
    assert "Linear()" in repr(Linear())


@pytest.mark.parametrize(
    "kernel", [*ALL, Precomputed(), Linear() + (Linear() + Cosine())], ids=repr)
def test_code_dict_and_pickle_round_trip(kernel):
    assert eval(repr(kernel), vars(kernels)) == kernel
    d = json.loads(json.dumps(kernel.as_dict()))
    assert Kernel.from_dict(d) == kernel and hash(Kernel.from_dict(d)) == hash(kernel)
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_fitted_kernels_pickle():
    f = pickle.loads(pickle.dumps(Gaussian(width=0.5).nystroem(5).centered().fit(X)))
    np.testing.assert_array_equal(
        f.cross(Z), Gaussian(width=0.5).nystroem(5).centered().fit(X).cross(Z))


@pytest.mark.parametrize(("kernel", "plain", "tex"), [
    (Linear(), "x'z", r"x^\top z"),
    (Polynomial(12, -1), "(x'z - 1)^12", r"(x^\top z - 1)^{12}"),
    (Gaussian(gamma=0.5), "exp(-0.5 |x-z|^2)", r"\exp(-0.5 \|x-z\|^{2})"),
    (Gaussian(sigma=2), "exp(-|x-z|^2 / (2 (2)^2))", r"\exp(-\|x-z\|^{2} / (2 (2)^{2}))"),
    (Gaussian(width=0.5), "exp(-|x-z|^2 / (0.5 dmax)^2)",
     r"\exp(-\|x-z\|^{2} / (0.5 d_{\max})^{2})"),
    (Laplacian(gamma=1), "exp(-1 |x-z|_1)", r"\exp(-1 \|x-z\|_1)"),
    (Laplacian(width=1), "exp(-|x-z|_1 / (1 dmax))", r"\exp(-\|x-z\|_1 / (1 d_{\max}))"),
    (Cosine(), "x'z / (|x| |z|)", r"x^\top z / (\|x\| \|z\|)"),
    (0.3 * (Linear() + Cosine()), "0.3 (x'z + x'z / (|x| |z|))",
     r"0.3 (x^\top z + x^\top z / (\|x\| \|z\|))"),
    ((Linear() * Linear()).centered().normalized(), "normalize(center(x'z * x'z))",
     r"\mathrm{normalize}(\mathrm{center}(x^\top z \cdot x^\top z))"),
    (Neighbors(6).unit(), "unit((I + 100 L)^-1 of 6 neighbours)",
     r"\mathrm{unit}((I + 100 L)^{-1} of 6 neighbours)"),
    (Linear().nystroem(3), "nystroem(x'z; rank 3)", r"\mathrm{nystroem}(x^\top z; rank 3)"),
], ids=repr)
def test_formula_and_latex(kernel, plain, tex):
    f = kernel.fit(X)
    assert f.formula() == plain and f.latex() == tex


def test_precomputed_formula():
    assert Precomputed().fit(np.eye(3)).formula() == "K[x, z]"


def test_kernels_are_frozen_and_comparable():
    assert Gaussian(width=1) == Gaussian(width=1.0) != Gaussian(gamma=1.0)
    assert Linear() + Cosine() != Cosine() + Linear() and Linear() != Cosine()
    assert Linear() + Cosine() != Linear() * Cosine()
    assert len({Linear(), Linear(), Polynomial(), Polynomial(3)}) == 2
    with pytest.raises(AttributeError):
        Polynomial().degree = 4


@pytest.mark.parametrize(("kernel", "psd"), [
    (Polynomial(2, 0.0), True), (Polynomial(2, -1.0), False), (Polynomial(2, -1) + Linear(), False),
    ((2 * Polynomial(2, -1)).centered(), False), (Polynomial(2, -1).nystroem(4), True),
    (Linear() * Gaussian(gamma=1), True)], ids=repr)
def test_psd_is_by_construction(kernel, psd):
    assert kernel.fit(X).psd is psd
    if psd:
        assert np.linalg.eigvalsh(kernel.fit(X).matrix()).min() > -1e-8


def test_as_kernel():
    k = Polynomial()
    assert as_kernel(k) is k
    assert as_kernel("linear") == Linear() and as_kernel("gaussian") == Gaussian(width=1)
    assert as_kernel("cosine") == Cosine() and as_kernel("precomputed") == Precomputed()


# ---------------------------------------------------------------- refusals


def zeros_at(*rows):
    A = X.copy()
    A[list(rows)] = 0
    return A


SYMMETRIC_BUT = X @ X.T
SYMMETRIC_BUT[3, 4] += 0.25

REFUSALS = [
    (lambda: Gaussian(), ParameterError, "exactly one of gamma, sigma, width; got none"),
    (lambda: Gaussian(gamma=1, width=1), ParameterError, "got gamma and width"),
    (lambda: Laplacian(), ParameterError, "Laplacian: give exactly one of gamma, width"),
    (lambda: Gaussian(gamma=0), ParameterError, "gamma must be None or a finite number above 0"),
    (lambda: Gaussian(width=np.inf), ParameterError, "width must be"),
    (lambda: Gaussian(width="a"), ParameterError, "got 'a'"),
    (lambda: Polynomial(0), ParameterError, "degree must be an integer at least 1"),
    (lambda: Polynomial(2.5), ParameterError, "degree must be an integer"),
    (lambda: Polynomial(2, np.nan), ParameterError, "coef0 must be a finite number"),
    (lambda: -1 * Linear(), ParameterError, "factor must be a finite number above 0; got -1"),
    (lambda: Linear() * 0, ParameterError, "finite number above 0; got 0"),
    (lambda: Linear() * np.inf, ParameterError, "finite number above 0"),
    (lambda: np.nan * Linear(), ParameterError, "finite number above 0"),
    (lambda: True * Linear(), ParameterError, "finite number above 0; got True"),
    (lambda: Linear().nystroem(0), ParameterError, "rank must be an integer at least 1"),
    (lambda: Linear().nystroem(41).fit(X), ParameterError, "rank must be at most the 40 rows"),
    (lambda: as_kernel("rbf"), ParameterError,
     "'linear', 'gaussian', 'cosine', 'neighbors', 'precomputed'; got 'rbf'"),
    (lambda: as_kernel(None), ParameterError, "got None"),
    (lambda: as_kernel(["linear"]), ParameterError, "got \\['linear'\\]"),
    (lambda: Kernel.from_dict({"kernel": "os.system"}), ParameterError,
     "one of Linear, Polynomial, .*; got 'os.system'"),
    (lambda: Kernel.from_dict({}), ParameterError, "got None"),
    (lambda: Kernel.from_dict({"kernel": "Linear", "x": 1}), ParameterError, "cannot be built"),
    (lambda: Kernel.from_dict({"kernel": "Centered", "inner": 3}), ParameterError, "inner must be"),
    (lambda: Kernel.from_dict({"kernel": "Sum", "left": {"kernel": "Linear"}}), ParameterError,
     "right must be a Kernel; got None"),
    (lambda: (Precomputed() + Linear()).fit(X), ParameterError, "cannot be combined"),
    (lambda: Laplacian(gamma=1).fit(sp.csr_matrix(X)), DataError,
     "Laplacian .* sparse X; Linear, Polynomial, Gaussian and Cosine do"),
    (lambda: Cosine().fit(zeros_at(9, 30)), DataError, "row 9 of X is all zero"),
    (lambda: Cosine().fit(sp.csr_matrix(zeros_at(9, 30))), DataError, "row 9 of X is all zero"),
    (lambda: (Linear() + Cosine()).fit(X).cross(zeros_at(12)), DataError, "row 12 of X is all"),
    (lambda: Cosine().nystroem(3).fit(X).new_features(zeros_at(12)), DataError, "row 12 of X"),
    (lambda: Gaussian(width=1).fit(np.full((5, 3), 0.1)), DataError,
     "all rows are identical, so a relative width has no scale"),
    (lambda: Gaussian(width=1).fit(sp.csr_matrix(np.full((5, 3), 0.1))), DataError, "identical"),
    (lambda: Laplacian(width=1).fit(X[:1]), DataError, "identical"),
    (lambda: Linear().centered().normalized().fit(np.ones((5, 2))).matrix(), DataError,
     "trace of the training kernel, which is 0; it must be above 0"),
    (lambda: Precomputed().fit(X), DataError, r"must be a square matrix; got shape \(40, 5\)"),
    (lambda: Precomputed().fit(SYMMETRIC_BUT), DataError, r"largest asymmetry is .* = 0\.25"),
    (lambda: Precomputed().fit(sp.csr_matrix(np.eye(3))), DataError, "sparse"),
    (lambda: Precomputed().fit(np.full((3, 3), np.nan)), DataError, "9 NaN"),
    (lambda: Linear().fit([1.0, 2.0]), DataError, "2-D"),
    (lambda: Linear().fit(X).cross(Z[:, :3]), DataError,
     "^X has 3 features, but Linear is expecting 5 features as input.$"),
    (lambda: Linear().fit(X, owner="Me").new_features(Z[:, :3]), DataError, "but Me is expecting"),
    (lambda: Precomputed().fit(np.eye(4)).cross(np.ones((2, 3))), DataError, "X has 3 features"),
    (lambda: Linear().fit(X).cross(Z * np.nan), DataError, "NaN"),
]


@pytest.mark.parametrize(("act", "error", "words"), REFUSALS, ids=[r[2] for r in REFUSALS])
def test_refusals_say_what_is_allowed(act, error, words):
    with pytest.raises(error, match=words):
        act()


def test_positional_bandwidth_and_other_types_are_type_errors():
    for act in (lambda: Gaussian(1.0), lambda: Linear() * "a", lambda: Linear() + 1,
                lambda: np.ones(3) * Linear()):
        with pytest.raises(TypeError):
            act()


def test_import_is_light():
    code = ("import sys, mmcopt.kernels; "
            "print([m for m in ('sklearn', 'numba', 'cvxpy') if m in sys.modules])")
    root = Path(kernels.__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert out.stdout.strip() == "[]", out.stderr
