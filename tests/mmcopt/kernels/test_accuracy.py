"""Kernel matrices far from zero, and the bounds that they carry on their own rounding."""

import re

import exact
import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import CPM3C, MKC, LeastSquares, OneClassHinge
from mmcopt.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial
from mmcopt.kernels.data import Data, differences

pytestmark = pytest.mark.as_given  # offsets leave the rows but few digits

NEAR = np.random.default_rng(0).standard_normal((12, 2))
SIDES = 1e7 * np.where(np.arange(12) < 6, 1.0, -1.0)[:, None]


def true_matrix(kernel, X):
    with exact.arithmetic():
        return np.array([[float(v) for v in row]
                         for row in exact.matrix(kernel, exact.rows_of(X))])


@pytest.mark.parametrize("kernel", [Gaussian(gamma=1.0), Gaussian(sigma=0.3), Laplacian(gamma=1.0),
                                    Gaussian(width=1e-7), Gaussian(width=0.5)], ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1e7, SIDES], ids=["zero", "far", "two sides"])
def test_distances_keep_their_digits_far_from_zero(kernel, offset):
    X = NEAR + offset
    K = true_matrix(kernel, X)
    np.testing.assert_allclose(kernel.fit(X).matrix(), K, atol=1e-14)
    np.testing.assert_allclose(kernel.fit(X).cross(X[:3]), K[:3], atol=1e-14)
    np.testing.assert_allclose(kernel.centered().fit(X).matrix(),
                               true_matrix(kernel.centered(), X), atol=1e-14)


@pytest.mark.parametrize("form", [csr_matrix, csr_array])
def test_sparse_rows_far_from_zero_have_a_semidefinite_kernel(form):
    X = NEAR + 1e7
    K = Gaussian(gamma=1.0).fit(form(X)).matrix()
    np.testing.assert_allclose(K, true_matrix(Gaussian(gamma=1.0), X), atol=1e-14)
    assert np.linalg.eigvalsh(K)[0] > -1e-14


def test_many_sparse_rows_far_from_zero_too():
    X = np.random.default_rng(0).standard_normal((1500, 3)) + 1e7
    fitted = Gaussian(gamma=1.0).fit(csr_matrix(X))
    dense = Gaussian(gamma=1.0).fit(X)
    np.testing.assert_allclose(fitted.rows([0, 700]), dense.rows([0, 700]), atol=1e-14)


def test_differences_of_sparse_rows_are_those_of_dense_ones():
    rng = np.random.default_rng(0)
    P, Q = (np.where(rng.random((m, 40)) < 0.2, rng.standard_normal((m, 40)), 0.0) for m in (5, 7))
    np.testing.assert_allclose(differences("l2", csr_matrix(P), csr_matrix(Q)),
                               differences("l2", P, Q), atol=1e-13)


def test_diameters_of_rows_close_together_and_far_out():
    for X in (NEAR * 1e-3 + 1e6, NEAR):
        farthest = max(float(np.linalg.norm(x - z)) for x in X for z in X)
        assert Data(X, "Data").diameter("l2") == pytest.approx(farthest, rel=1e-12)
        assert Data(csr_matrix(X), "Data").diameter("l2") == pytest.approx(farthest, rel=1e-12)


@pytest.mark.parametrize("shape", [(12, 3), (6, 9)])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_centred_linear_kernels_keep_their_digits(shape, offset):
    X = np.random.default_rng(1).standard_normal(shape) + offset
    fitted = Linear().centered().fit(X)
    K = true_matrix(Linear().centered(), X)
    np.testing.assert_allclose(fitted.matrix(), K, atol=1e-13)
    np.testing.assert_allclose(fitted.cross(X[:2]), K[:2], atol=1e-13)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, 1e3, 1e90])
@pytest.mark.parametrize("kernel", [
    Linear(), Polynomial(2), Polynomial(3, 0.0), Cosine(), Gaussian(width=0.3),
    Laplacian(width=0.5), Linear() + 0.3 * Gaussian(width=0.5), Cosine() * Gaussian(width=1.0),
    Linear().normalized(), 3.0 * Cosine(), Linear().centered(), Polynomial(2).normalized()],
    ids=repr)
def test_matrices_are_within_the_rounding_that_they_state(kernel, scale):
    for seed, offset in enumerate((0.0, 30.0)):
        X = scale * (np.random.default_rng(seed).standard_normal((6, 3)) + offset)
        try:
            fitted = kernel.fit(X)
        except DataError as refused:
            assert "divide X by" in str(refused)
            continue
        error, size = fitted.accuracy()
        K, found = true_matrix(kernel, X), fitted.matrix()
        assert np.abs(found - K).max() <= error
        assert np.abs(K).max() <= size * (1 + 1e-12)
        assert error <= 1e-13 * size or offset


def test_a_polynomial_far_from_zero_is_refused_or_right():
    labels = np.arange(12) % 2
    problem = LeastSquares(NEAR + 1000.0, 2, kernel=Polynomial(2), lam=0.1)
    with pytest.raises(ParameterError, match=r"entries reach [\d.e+]+: .* give a lam of at least"):
        mm.evaluate(problem, labels)
    with exact.arithmetic():
        for lam in (1e4, 1e6):
            safe = problem.replace(lam=lam)
            true = exact.LabelForm(safe).value(labels)
            assert abs(safe.objective(labels) - true) <= safe.uncertainty(labels) + 1e-12 * true


# ---------------------------------------------------------------- scales


@pytest.mark.parametrize("make", [
    lambda X: LeastSquares(X, 2), lambda X: LeastSquares(X, 2, kernel=Linear()),
    lambda X: CPM3C(X, 2), lambda X: CPM3C(X, 2, normalize=False), lambda X: OneClassHinge(X),
    lambda X: MKC(X, 2), lambda X: OneClassHinge(csr_matrix(X), kernel=Linear())], ids=range(7))
@pytest.mark.parametrize("scale, words", [
    (1e300, r"the entries of X reach [\d.]+e\+300, .* overflow; divide X by \de\+300\."),
    (1e200, r"the entries of X reach [\d.]+e\+200, .* overflow; divide X by \de\+200\."),
    (1e-300, r"no entry of X is larger than [\d.]+e-300, .* underflow; divide X by \de-300\.")])
def test_scales_without_squares_are_refused_by_name(make, scale, words):
    with pytest.raises(DataError, match=words) as refused:
        mm.solve(make(NEAR * scale), seed=0, max_iter=2)
    assert "identical" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("scale", [1e-149, 1e-50, 1e50, 1e149])
def test_scales_with_squares_change_nothing(scale):
    labels = np.arange(12) % 3
    plain = mm.evaluate(LeastSquares(NEAR, 3), labels)
    scaled = mm.evaluate(LeastSquares(NEAR * scale, 3), labels)
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-9) and scaled.verify()
    plain, scaled = (mm.solve(CPM3C(X, 2), seed=0) for X in (NEAR, NEAR * scale))
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-4) and scaled.verify()
    plain, scaled = (mm.solve(OneClassHinge(X), seed=0) for X in (NEAR, NEAR * scale))
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-2) and scaled.verify()


def test_a_power_that_overflows_is_refused_by_name():
    for X in (NEAR * 1e120, NEAR * 1e-120):
        with pytest.raises(DataError, match=r"Polynomial\(degree=3, coef0=0.0\) of rows of length"):
            mm.evaluate(LeastSquares(X, 2, kernel=Polynomial(3, 0.0)), np.arange(12) % 2)


@pytest.mark.parametrize("gamma", [1e-300, 1e-20])
def test_a_gamma_that_sees_no_distance_is_refused_by_name(gamma):
    with pytest.raises(DataError, match=r"Gaussian\(gamma=.*\), whose values agree to the last"):
        mm.evaluate(LeastSquares(NEAR, 2, kernel=Gaussian(gamma=gamma)), np.arange(12) % 2)


@pytest.mark.parametrize("gamma", [1e20, 1e300])
def test_a_gamma_that_sees_nothing_else_is_no_trouble(gamma):
    result = mm.evaluate(LeastSquares(NEAR, 2, kernel=Gaussian(gamma=gamma)), np.arange(12) % 2)
    assert result.verify() and result.objective == pytest.approx(24 / 11)


# ---------------------------------------------------------------- weights


def test_a_weight_that_drowns_in_rounding_is_refused_by_name():
    words = r"MKC: C = 1e\+165 is too large for features of length up to .*; give a C of at most"
    with pytest.raises(ParameterError, match=words):
        mm.solve(MKC(NEAR, 2, C=1e165), seed=0)


@pytest.mark.parametrize("max_iter", [1, None])
@pytest.mark.parametrize("C", [1e12, 1e15, 1e300])
def test_a_domain_of_any_weight_is_right_or_refused_by_name(C, max_iter):
    words = rf"C = {C:g} is too large for 12 samples and kernel values up to 1: .*; give a C of at"
    words = words.replace("+", r"\+")
    try:
        result = mm.solve(OneClassHinge(NEAR, C=C), seed=0, max_iter=max_iter)
    except ParameterError as refused:
        assert re.search(words, str(refused))
        return
    with exact.arithmetic():
        true = exact.domain_value(result.formulation, result.point)
        doubt = result.formulation.uncertainty(result.point)
        assert abs(result.objective - true) <= doubt + 1e-12 * true and doubt <= 1e-3 * true


@pytest.mark.parametrize("C", [1e6, 1e8])
def test_a_large_weight_of_losses_is_a_hard_margin(C):
    result = mm.solve(OneClassHinge(NEAR, C=C, kernel=Gaussian(gamma=1.0)), seed=0)
    assert result.verify()
    with exact.arithmetic():
        true = exact.domain_value(result.formulation, result.point)
        doubt = result.formulation.uncertainty(result.point)
        assert abs(result.objective - true) <= doubt + 1e-12 * true and doubt <= 1e-3 * true
