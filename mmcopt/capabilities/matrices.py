"""Symmetric matrices behind one face: dense, deferred, low-rank and sparse.

A label search needs rows, a bound needs products, and n = 70000 needs a factor. Each class answers
what it can answer cheaply and refuses, with the size it would take, what it cannot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.checks import is_sparse, require_memory
from mmcopt.errors import DataError
from mmcopt.linalg import same_threads
from mmcopt.types import Floats, Ints

ROWS = 256  # of a matrix that are looked at together
ASYMMETRY = 1e-10  # of two entries of a sparse matrix, as a share of the largest


class Symmetric(ABC):
    """A real symmetric n x n matrix."""

    n: int

    @abstractmethod
    def __matmul__(self, V: Floats) -> Floats:
        """Product with a vector or a matrix of n rows, in float64."""

    @abstractmethod
    def dense(self, dtype: Any = np.float64) -> Floats:
        """All n x n entries, C-contiguous and read-only; copies are kept per dtype."""

    def factor(self) -> Floats | None:
        """Psi (n x r) with W = Psi Psi', when the matrix is held that way."""
        return None

    @property
    def rank(self) -> int | None:
        """How many columns the factor has, where there is one."""
        return None

    @property
    def is_dense(self) -> bool:
        """Whether all n x n entries are held, or will be."""
        return self.rank is None

    def column(self, j: int) -> Floats:
        """Column j."""
        return np.asarray(self.dense()[j])

    @abstractmethod
    def diagonal(self) -> Floats:
        """The n diagonal entries."""

    def beside(self) -> tuple[Floats, Floats]:
        """The entries off the diagonal, perhaps with zeros on it, and their sums by row."""
        off = np.array(self.dense())
        np.fill_diagonal(off, 0.0)
        return off, off.sum(axis=1)

    def first_row(self) -> Floats:
        """The entries of a row off the diagonal: a first look at what numbers there are."""
        return np.asarray(self.dense()[0, 1:])

    def mass(self) -> float:
        """The sum of |W_ij|."""
        W = self.dense()
        return float(sum(np.abs(W[i:i + ROWS]).sum() for i in range(0, len(W), ROWS)))

    @property
    def count(self) -> int:
        """How many entries are not 0."""
        return int(np.count_nonzero(self.dense()))

    @abstractmethod
    def contract(self, groups: Ints, m: int, dtype: Any = np.float64) -> Symmetric:
        """B'WB for the 0/1 matrix B that puts row i into group ``groups[i]``.

        ``dtype`` names the copy of W to read: the working precision of a search is faster.
        """

    @abstractmethod
    def subset(self, rows: Ints) -> Dense:
        """The dense submatrix on the given rows and columns."""

    def association(self, Z: Floats) -> float:
        """Sum over the columns z of Z of z'Wz."""
        return float(np.sum(Z * (self @ Z)))

    def within(self, c: Ints, k: int) -> float:
        """The association of labels c: the sum of the entries within clusters."""
        Z = np.zeros((self.n, k))
        Z[np.arange(self.n), c] = 1.0
        return self.association(Z)

    def within_each(self, c: Ints, k: int) -> Floats:
        """The entries of W within each cluster of labels c, summed."""
        Z = np.zeros((self.n, k))
        Z[np.arange(self.n), c] = 1.0
        return np.asarray((Z * (self @ Z)).sum(axis=0))

    def let_go(self) -> None:
        """Forget copies of what lies in a file, where something does."""
        return

    def total(self) -> float:
        """1'W1."""
        return self.association(np.ones((self.n, 1)))


class Dense(Symmetric):
    """A dense matrix, given at once or built on first use."""

    def __init__(self, array: Floats | None = None, *, n: int | None = None,
                 build: Callable[[], Floats] | None = None) -> None:
        if array is not None:
            array = np.ascontiguousarray(array, dtype=np.float64)
            if array.ndim != 2 or array.shape[0] != array.shape[1]:
                raise DataError(f"W must be a square matrix; got shape {array.shape}.")
            if not np.isfinite(array.sum()):
                raise DataError("W holds NaN or infinite entries.")
            if not np.allclose(array, array.T, rtol=1e-10, atol=1e-12 * np.abs(array).max()):
                raise DataError("W must be symmetric; pass (W + W.T) / 2 if that is what is meant.")
            n = array.shape[0]
        if n is None:
            raise DataError("Dense needs an array, or n and a function that builds it.")
        self.n = n
        self._build = build
        self._own = "float64"  # the precision that it was given in
        self._copies: dict[str, Floats] = {}
        if array is not None:
            self._keep(array)

    @classmethod
    def trusted(cls, array: Floats) -> Dense:
        """Wrap an array that is known to be symmetric and finite, in its own precision."""
        out = cls(n=array.shape[0])
        out._own = array.dtype.name
        out._keep(np.ascontiguousarray(array))
        return out

    def _keep(self, array: Floats) -> None:
        view = array.view()
        view.flags.writeable = False
        self._copies[array.dtype.name] = view

    def _base(self) -> Floats:
        """The entries in the precision they came in, whatever copies there are by now."""
        build = self._build
        if not self._copies and build is not None:
            with same_threads(self.n):
                self._keep(build())
            self._build = None  # it refers to what keeps this
        return self._copies[self._own]

    def dense(self, dtype: Any = np.float64) -> Floats:
        name = np.dtype(dtype).name
        base = self._base()
        if name not in self._copies:
            self._keep(base.astype(dtype))
        return self._copies[name]

    def __matmul__(self, V: Floats) -> Floats:
        return np.asarray(self._base() @ V)

    def within(self, c: Ints, k: int) -> float:
        from mmcopt.compiled.label_moves import (
            association,  # compiled: a sixth of the time of the product
        )

        return float(association(self._base(), c, k))

    def diagonal(self) -> Floats:
        return np.ascontiguousarray(np.diagonal(self._base()))

    def contract(self, groups: Ints, m: int, dtype: Any = np.float64) -> Dense:
        from mmcopt.compiled.label_moves import contract

        return Dense.trusted(contract(self.dense(dtype), groups, m).astype(np.float64))

    def subset(self, rows: Ints) -> Dense:
        return Dense.trusted(self._base()[np.ix_(rows, rows)])


class LowRank(Symmetric):
    """W = Psi Psi' for an n x r factor; never made dense behind the caller's back."""

    def __init__(self, Psi: Floats) -> None:
        self._Psi = {Psi.dtype.name: np.ascontiguousarray(Psi)}
        self._dense: Dense | None = None
        self._spectrum: tuple[Floats, Floats] | None = None
        self.n = Psi.shape[0]

    @property
    def rank(self) -> int:
        return int(self.factor().shape[1])

    def factor(self) -> Floats:
        return next(iter(self._Psi.values()))  # as it was given

    def rows_over(self, volumes: Floats) -> Floats:
        """The rows of Psi, each divided by a number, as floats."""
        return np.array(self.factor() / volumes[:, None], dtype=np.float64, order="C")

    def gram_across(self, root: Floats, u: Floats) -> Floats:
        """F'(I - uu')F of the rows of Psi over ``root``, for a vector u of length 1."""
        F = self.rows_over(root)
        F -= np.outer(u, u @ F)
        return np.asarray(F.T @ F)

    def gram(self) -> Floats:
        """Psi'Psi."""
        Psi = np.asarray(self.factor(), dtype=np.float64)
        return np.asarray(Psi.T @ Psi)

    def factor_as(self, dtype: Any) -> Floats:
        """The factor in another precision; the copy is kept."""
        name = np.dtype(dtype).name
        if name not in self._Psi:
            self._Psi[name] = self.factor().astype(dtype)
        return self._Psi[name]

    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues of W that are not zero, falling, and V with Psi V = U sqrt(eigenvalues)."""
        if self._spectrum is None:
            w, V = np.linalg.eigh(self.gram())
            self._spectrum = np.maximum(w[::-1], 0.0), V[:, ::-1]
        return self._spectrum

    def smoothed(self, t: float, dtype: Any) -> LowRank:
        """S (S + t (I - S))^-1 for S = Psi Psi' <= I, without directions of weight below 1e-3."""
        w, V = self.spectrum()
        weight = 1.0 / (w + t * (1.0 - w))
        keep = w * weight >= 1e-3 * (w * weight).max()
        turn = (V * np.sqrt(weight))[:, keep]
        return LowRank(np.asarray(self.factor_as(dtype) @ turn.astype(dtype)))

    def dense(self, dtype: Any = np.float64) -> Floats:
        if self._dense is None:
            require_memory(8.0 * self.n**2, f"the dense {self.n} x {self.n} matrix of a factor",
                           "use a solver that works on the factor: Memetic, StochasticDescent or "
                           "Evolutionary.")
            Psi = self.factor()
            self._dense = Dense.trusted(Psi @ Psi.T)
        return self._dense.dense(dtype)

    def __matmul__(self, V: Floats) -> Floats:
        Psi = self.factor()
        return np.asarray(Psi @ (Psi.T @ V))

    def mass(self) -> float:
        """A bound on it."""
        sums = np.abs(self.factor()).sum(axis=0, dtype=np.float64)
        return float(np.square(sums).sum())

    def association(self, Z: Floats) -> float:
        S = self.factor().T @ Z
        return float(np.sum(S * S))

    def within(self, c: Ints, k: int) -> float:
        return float(np.sum(np.square(self._sums(c, k))))

    def within_each(self, c: Ints, k: int) -> Floats:
        return np.asarray(np.square(self._sums(c, k)).sum(axis=1))

    def _sums(self, c: Ints, k: int) -> Floats:
        """The sum of the rows of the factor in each cluster."""
        Psi = self.factor()
        return np.array([Psi[c == h].sum(axis=0, dtype=np.float64) for h in range(k)])

    def column(self, j: int) -> Floats:
        Psi = self.factor()
        return np.asarray(Psi @ Psi[j])

    def diagonal(self) -> Floats:
        Psi = self.factor()
        return np.einsum("ij,ij->i", Psi, Psi)

    def contract(self, groups: Ints, m: int, dtype: Any = np.float64) -> LowRank:
        from scipy.sparse import csr_matrix

        ones = np.ones(self.n, dtype=self.factor().dtype)
        B = csr_matrix((ones, (groups, np.arange(self.n))), shape=(m, self.n))
        return LowRank(np.asarray(B @ self.factor(), dtype=np.float64))

    def subset(self, rows: Ints) -> Dense:
        Psi = self.factor()[rows]
        return Dense.trusted(Psi @ Psi.T)


class Sparse(Symmetric):
    """A SciPy sparse matrix, such as a neighbourhood graph."""

    def __init__(self, matrix: Any) -> None:
        self._csr = matrix.tocsr().astype(np.float64)
        self._csr.sum_duplicates()
        self.n = matrix.shape[0]
        if matrix.shape[0] != matrix.shape[1] or \
                abs(self._csr - self._csr.T).max() > ASYMMETRY * abs(self._csr).max():
            raise DataError("W must be a symmetric square matrix; got a sparse one that is not.")
        self._dense: Dense | None = None

    @classmethod
    def trusted(cls, csr: Any) -> Sparse:
        """Hold a matrix of our own, which is symmetric and has no entry twice."""
        made = cls.__new__(cls)
        made._csr, made.n, made._dense = csr, csr.shape[0], None
        return made

    def dense(self, dtype: Any = np.float64) -> Floats:
        if self._dense is None:
            require_memory(8.0 * self.n**2, f"the dense form of the {self.n} x {self.n} graph",
                           "solve a smaller problem.")
            self._dense = Dense.trusted(self._csr.toarray())
        return self._dense.dense(dtype)

    def __matmul__(self, V: Floats) -> Floats:
        return np.asarray(self._csr @ V)

    def diagonal(self) -> Floats:
        return np.asarray(self._csr.diagonal())

    def beside(self) -> tuple[Floats, Floats]:
        coo = self._csr.tocoo()
        off = coo.row != coo.col
        return coo.data[off], np.bincount(coo.row[off], weights=coo.data[off], minlength=self.n)

    def first_row(self) -> Floats:
        return self.beside()[0][:ROWS]

    def lists(self, dtype: Any) -> tuple[Ints, Ints, Floats]:
        """Where the entries of each row begin, their columns, and their values."""
        csr = self._csr
        return csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(dtype)

    def mass(self) -> float:
        return float(np.abs(self._csr.data).sum())

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self._csr.data))

    def within(self, c: Ints, k: int) -> float:
        coo = self._csr.tocoo()
        return float(coo.data[c[coo.row] == c[coo.col]].sum())

    def contract(self, groups: Ints, m: int, dtype: Any = np.float64) -> Sparse:
        from scipy.sparse import coo_matrix

        coo = self._csr.tocoo()
        W = coo_matrix((coo.data, (groups[coo.row], groups[coo.col])), shape=(m, m)).tocsr()
        return Sparse.trusted((W + W.T) / 2)  # its two triangles are rounded apart

    def signed(self, s: Floats) -> Sparse:
        """``s_i W_ij s_j`` for signs s."""
        W = self._csr.copy()
        W.data *= np.repeat(s, np.diff(W.indptr)) * s[W.indices]
        return Sparse.trusted(W)

    def connected(self, groups: Ints) -> Ints:
        """The parts of each group of nodes that entries connect, numbered."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        coo = self._csr.tocoo()
        inside = groups[coo.row] == groups[coo.col]
        edges = (np.ones(int(inside.sum())), (coo.row[inside], coo.col[inside]))
        graph = csr_array(edges, shape=(self.n, self.n))
        return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)

    def subset(self, rows: Ints) -> Dense:
        return Dense.trusted(self._csr[rows][:, rows].toarray())


def as_symmetric(W: Any) -> Symmetric:
    """Wrap an array or a sparse matrix; pass a `Symmetric` through."""
    if isinstance(W, Symmetric):
        return W
    if is_sparse(W):
        return Sparse(W)
    return Dense(np.asarray(W, dtype=np.float64))
