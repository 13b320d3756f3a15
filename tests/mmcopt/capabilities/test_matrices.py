"""Dense, deferred, low-rank and sparse matrices say the same things."""

import numpy as np
import pytest
import scipy.sparse as sp

from mmcopt import checks, tables
from mmcopt.capabilities.matrices import Dense, LowRank, Sparse, as_symmetric
from mmcopt.errors import DataError, ResourceError

PSI = np.random.default_rng(0).standard_normal((7, 3))
A = PSI @ PSI.T
KINDS = {"dense": lambda: Dense(A), "deferred": lambda: Dense(n=7, build=lambda: A.copy()),
         "trusted": lambda: Dense.trusted(A.copy()), "factor": lambda: LowRank(PSI),
         "sparse": lambda: Sparse(sp.csr_matrix(A))}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers_alike(kind):
    M, rng = KINDS[kind](), np.random.default_rng(1)
    V = rng.standard_normal((7, 2))
    np.testing.assert_allclose(M @ V, A @ V)
    np.testing.assert_allclose(M @ V[:, 0], A @ V[:, 0])
    np.testing.assert_allclose(M.dense(), A)
    np.testing.assert_allclose(M.diagonal(), np.diagonal(A))
    np.testing.assert_allclose(M.column(3), A[3])
    assert M.association(V) == pytest.approx(np.trace(V.T @ A @ V))
    assert M.total() == pytest.approx(A.sum())
    groups = np.array([0, 1, 0, 2, 2, 1, 0])
    B = np.eye(3)[groups]
    np.testing.assert_allclose(M.contract(groups, 3).dense(), B.T @ A @ B)
    rows = np.array([1, 4, 5])
    np.testing.assert_allclose(M.subset(rows).dense(), A[np.ix_(rows, rows)])
    assert M.is_dense == (M.factor() is None) == (kind != "factor")
    assert as_symmetric(M) is M


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_read_only_and_kept_for_each_precision(kind):
    M = KINDS[kind]()
    for dtype in (np.float64, np.float32):
        D = M.dense(dtype)
        assert D.dtype == dtype and D.flags.c_contiguous and not D.flags.writeable
        assert M.dense(dtype) is D


def test_arrays_of_the_caller_keep_their_flags():
    mine = A.copy()
    Dense(mine)
    assert mine.flags.writeable


def test_a_deferred_matrix_is_built_once():
    built = []
    M = Dense(n=7, build=lambda: built.append(1) or A.copy())
    assert not built
    M.dense(), M.diagonal(), M.total()
    assert len(built) == 1


def test_too_little_memory_is_said_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(checks, "available_memory", lambda: 100)
    for M in (LowRank(PSI), Sparse(sp.csr_matrix(A))):
        with pytest.raises(ResourceError, match=r"7 x 7 .* needs 392 B, and 100 B are free"):
            M.dense()
    with pytest.raises(ResourceError) as e:
        checks.require_memory(3e9, "the thing", "do less.")
    assert str(e.value) == "the thing needs 2.79 GiB, and 100 B are free; do less."
    assert isinstance(e.value, MemoryError)


def test_sizes_are_printed_for_people():
    assert [tables.human(s) for s in (5, 2048, 3e9, 5e15)] == [
        "5 B", "2 KiB", "2.79 GiB", "4.55e+03 TiB"]
    assert checks.available_memory() > 1 << 20


def test_dense_needs_something_to_hold():
    with pytest.raises(DataError, match="Dense needs an array, or n and a function"):
        Dense()


def test_symmetry_of_a_sparse_matrix_is_relative_to_its_entries():
    A = np.random.default_rng(2).standard_normal((5, 5))
    for scale in (1e-20, 1.0, 1e20):
        almost = scale * (A + A.T)
        almost[0, 1] *= 1 + 1e-13
        assert Sparse(sp.csr_matrix(almost)).n == 5
        with pytest.raises(DataError, match="symmetric"):
            Sparse(sp.csr_matrix(scale * A))


def test_groups_of_a_sparse_matrix_are_symmetric_to_the_bit():
    A = np.random.default_rng(3).standard_normal((40, 40)) * 1e9
    small = Sparse(sp.csr_matrix(A + A.T)).contract(np.arange(40) % 7, 7).dense()
    assert np.array_equal(small, small.T)
