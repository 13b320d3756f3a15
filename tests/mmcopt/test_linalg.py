"""Inverses, eigenvalues, proofs of semidefiniteness, and threads of BLAS."""

import threading

import numpy as np
import pytest

from mmcopt import linalg
from mmcopt.errors import BackendError
from mmcopt.linalg import one_thread

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7, 600])
@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-9), (np.float32, 1e-3)])
def test_the_inverse_of_a_positive_definite_matrix(n, dtype, tol):
    B = RNG.standard_normal((n, n)) / np.sqrt(n)
    A = (B @ B.T + np.eye(n)).astype(dtype)
    inverse = linalg.spd_inverse(A.copy())
    np.testing.assert_allclose(inverse @ A, np.eye(n), atol=tol)
    assert np.array_equal(inverse, inverse.T) and inverse.flags.c_contiguous


def test_an_indefinite_matrix_has_no_cholesky_inverse():
    with pytest.raises(BackendError, match="Cholesky failed at column 2: the matrix is not posit"):
        linalg.spd_inverse(np.diag([1.0, -1.0]))


@pytest.mark.parametrize("n", [1, 5, 450])
def test_extreme_eigenvalues(n):
    A = RNG.standard_normal((n, n))
    A = A + A.T
    w = np.linalg.eigvalsh(A)
    assert linalg.smallest_eigenvalue(A) == pytest.approx(w[0])
    assert linalg.largest_eigenvalue(A) == pytest.approx(w[-1])


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("n", [1, 2, 6, 40])
def test_a_proved_shift_is_enough_and_not_wasteful(n, scale):
    for trial in range(20):
        A = RNG.standard_normal((n, n)) * scale
        A = A + A.T if trial % 2 else A @ A.T / scale
        if trial % 5 == 0:
            A -= np.linalg.eigvalsh(A)[0] * np.eye(n)  # singular up to rounding
        least = np.linalg.eigvalsh(A)[0]
        size = np.abs(A).max() * n
        guess = max(0.0, -least * (1 - 1e-6))
        d = linalg.proved_psd_shift(A, guess)
        assert d >= -least - 1e-14 * size
        assert d <= max(0.0, -least) * (1 + 1e-5) + 1e-11 * size + 1e-280


@pytest.mark.parametrize("S", [np.zeros((1, 1)), np.zeros((4, 4)), np.array([[0.0, 1], [1, 0]])])
def test_a_matrix_without_a_trace_can_be_shifted_as_well(S):
    d = linalg.proved_psd_shift(S, 0.0)
    assert -np.linalg.eigvalsh(S)[0] <= d <= 2.1


@pytest.mark.parametrize("w, psd", [([1, 2, 3], True), ([0, 0, 1], True), ([-1e-3, 1, 1], False),
                                    ([-1e-15, 1, 1], True), ([-0.05, 1, 2], False)])
def test_semidefiniteness_is_judged_by_the_smallest_eigenvalue(w, psd):
    Q = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    assert linalg.is_psd((Q * w) @ Q.T) == psd


@pytest.mark.parametrize("least", [-0.5, -1e-9, 0.0, 0.3])
def test_indefiniteness_is_what_the_smallest_eigenvalue_lacks(least):
    Q = np.linalg.qr(RNG.standard_normal((40, 40)))[0]
    K = (Q * np.linspace(least, 2.0, 40)) @ Q.T
    K = (K + K.T) / 2
    assert linalg.indefiniteness(K) == pytest.approx(max(0.0, -least), abs=1e-13)
    assert np.array_equal(K, K.T)  # it is left as it was


def test_rounding_makes_nothing_indefinite():
    V = RNG.standard_normal((300, 5))
    assert linalg.indefiniteness(V @ V.T) == 0.0


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_semidefinite(entry):
    K = np.eye(4)
    K[1, 2] = K[2, 1] = entry
    assert linalg.indefiniteness(K) == np.inf
    assert linalg.indefiniteness(np.diag([1.0, entry, 1.0])) == np.inf


def test_mirroring_copies_the_lower_triangle():
    A = RNG.standard_normal((1100, 1100))
    expected = np.tril(A) + np.tril(A, -1).T
    assert np.array_equal(linalg.mirror_lower(A), expected)


def test_one_eigenvalue_is_found_where_almost_all_are_equal(monkeypatch):
    import scipy.linalg

    def failing(*args, **options):
        raise np.linalg.LinAlgError("Internal Error.")

    K = np.diag([1.0, 2.0, 5.0])
    monkeypatch.setattr(scipy.linalg, "eigh", failing)
    assert linalg.largest_eigenvalue(K) == 5.0 and linalg.smallest_eigenvalue(K) == 1.0
    value, vector = linalg.leading_dense(K)
    assert value == 5.0 and np.abs(vector).tolist() == [0.0, 0.0, 1.0]


def test_the_largest_row_sum_is_no_less_than_the_spectral_norm():
    rng = np.random.default_rng(0)
    for n in (1, 3, 700):
        A = rng.standard_normal((n, n))
        A += A.T
        assert linalg.row_sum_norm(A) == pytest.approx(np.abs(A).sum(axis=1).max())
        assert linalg.row_sum_norm(A) >= np.linalg.norm(A, 2) * (1 - 1e-12)


# ---------------------------------------------------------------- threads


def test_one_thread_is_kept_in_every_thread_and_given_back():
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()}

    def inside():
        with one_thread, one_thread.openmp_here():
            seen.append({count for _, count in threads()})

    seen: list[set[int]] = []
    with threadpool_limits(2):
        before = threads()
        with one_thread:
            inside()
            other = threading.Thread(target=inside)
            other.start()
            other.join()
            inside()
        assert threads() == before
    assert seen == [{1}] * 3


def test_roots_are_roots_and_do_not_depend_on_who_found_the_eigenvectors(monkeypatch):
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    w = np.array([1e-20, 0.5, 0.5, 0.5, 0.9, 0.9 + 1e-9, 0.9003, 1.5, 2.0, 2.0, 7.0, 9.0])
    K, found = (Q * w) @ Q.T, []
    K, eigh = (K + K.T) / 2, np.linalg.eigh

    def turned(A):
        w, V = eigh(A)
        for pair in ([1, 2, 3], [4, 5], [8, 9]):
            V[:, pair] = V[:, pair] @ np.linalg.qr(rng.standard_normal((len(pair),) * 2))[0]
        return w, V * rng.choice([-1.0, 1.0], 12)

    for solver in (eigh, turned, turned):
        monkeypatch.setattr(np.linalg, "eigh", solver)
        found.append(linalg.roots(K, lambda w: w > 1e-9))
    for F, M in found:
        assert F.shape == (12, 11)
        np.testing.assert_allclose(F @ F.T, K, atol=1e-14)
        np.testing.assert_allclose(K @ M, F, atol=1e-14)
        np.testing.assert_allclose(F, found[0][0], atol=1e-9)
        np.testing.assert_allclose(M, found[0][1], atol=1e-9)


@pytest.mark.parametrize("steps", [5, 30, 50])
def test_one_krylov_space_serves_all_shifts(steps):
    rng = np.random.default_rng(0)
    A, v = rng.standard_normal((30, 30)), rng.standard_normal(30)
    S = A + A.T
    T, first = linalg.krylov(S, v, steps)
    assert len(T) == min(steps, 30) and np.array_equal(T, T.T)
    for t in (0.0, 0.3, 2.0):
        all_of_it = np.linalg.eigvalsh(S - t * np.outer(v, v))
        part = np.linalg.eigvalsh(T - t * np.outer(first, first))
        assert part[-1] <= all_of_it[-1] + 1e-9
        if steps >= 30:
            np.testing.assert_allclose(part, all_of_it, atol=1e-9)


def test_a_krylov_space_ends_where_nothing_new_comes():
    T, first = linalg.krylov(np.diag([3.0, 3.0, 5.0, 5.0]), np.array([1.0, 1.0, 2.0, 0.0]), 9)
    np.testing.assert_allclose(np.linalg.eigvalsh(T), [3.0, 5.0])
    np.testing.assert_allclose(first, [6**0.5, 0.0])
