"""Features of samples, centred and scaled: the linear side of the hinge problems.

Dense features are centred and scaled once; sparse ones are never made dense, their centring is an
offset of every product instead. A kernel gives its own features where it has cheap ones, and the
eigenvectors of its matrix otherwise.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mmcopt.checks import data_matrix, is_sparse, read_only, require_memory
from mmcopt.errors import DataError
from mmcopt.linalg import UNIT, require_psd, roots
from mmcopt.types import Floats, Ints

# So few columns at most, of rows of so many bytes at least: products one at a time are faster.
FEW_COLUMNS, CACHED_BYTES = 3, 2**20


class Features:
    """Rows phi_i = scale (x_i - mean), of which only products are needed; x dense or CSR.

    A ``bias`` is one more column of that value.
    """

    def __init__(self, X: Any, *, center: bool, normalize: bool, owner: str,
                 bias: float = 0.0) -> None:
        self.owner = owner
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        self.sparse = is_sparse(X)
        self.X: Any = X.astype(np.float64) if self.sparse else X
        mean = np.zeros(self.d)
        if center:
            mean = np.asarray(self.X.mean(axis=0, dtype=np.float64)).ravel()
        self.mean, self.scale = mean, 1.0
        self.rest = np.zeros(self.d)  # what the mean has lost of its digits, far from zero
        if self.sparse:
            raw = float(self.X.multiply(self.X).sum()) / self.n
            square, rounding = raw - float(mean @ mean), 8 * UNIT * self.n * raw
        else:
            self.X = np.subtract(X, mean, dtype=np.float64, order="C")
            if center:
                self.rest = self.X.mean(axis=0)
                self.X -= self.rest
            square = float(np.vdot(self.X, self.X)) / self.n
            raw = square + float(mean @ mean)
            rounding = 8 * (UNIT * self.n)**2 * raw
        if normalize:
            if not square > rounding:
                raise DataError(f"{owner}: all samples are equal to rounding, so there is nothing "
                                "to normalise and nothing to cluster; check for constant columns.")
            self.scale = 1.0 / np.sqrt(square)
        if not self.sparse:
            self.X *= self.scale
        self.bias = bias
        if bias:
            self._append(bias)
        if not self.sparse:
            self.X = read_only(self.X)
        self.shift = self.scale * self.mean  # what products of sparse rows are corrected by

    def _append(self, bias: float) -> None:
        """One more column, not centred, which is ``bias`` after scaling."""
        self.d, self.mean = self.d + 1, np.append(self.mean, 0.0)
        if self.sparse:
            from scipy.sparse import hstack

            self.X = hstack([self.X, np.full((self.n, 1), bias / self.scale)], format="csr")
        else:
            self.X = np.column_stack([self.X, np.full(self.n, bias)])

    blocked = False  # whether rows come in blocks, and are never all in memory

    def total_of(self, work: Callable[..., tuple[Any, ...]], *args: Any,
                 along: Any = None) -> tuple[Any, ...]:
        """The sums over all rows in which ``work(features of some rows, *args)`` adds up.

        ``along`` has an entry for each row; those of the rows come before the args.
        """
        return work(self, *(() if along is None else (along,)), *args)

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None) -> Iterator[Any]:
        """``work(features of some rows, *args)`` for all rows, some at a time, in their order."""
        yield work(self, *(() if along is None else (along,)), *args)

    def gathered(self, work: Callable[..., Any], *args: Any, along: Any = None) -> list[Any]:
        """All of `each`, where they are small."""
        return list(self.each(work, *args, along=along))

    @property
    def rows(self) -> Floats | None:
        """The rows as one array in the order of C, as compiled loops read it; None of others."""
        return None if self.sparse or not self.X.flags.c_contiguous else self.X

    def scores(self, W: Floats) -> Floats:
        """Inner products with the rows of W (k, d): (n, k)."""
        if not self.sparse:
            if len(W) > FEW_COLUMNS or self.X.nbytes > CACHED_BYTES:
                return np.asarray(self.X @ W.T)
            T = np.empty((self.n, len(W)))
            for q, w in enumerate(W):
                T[:, q] = self.X @ w
            return T
        return np.asarray(self.X @ (self.scale * W.T) - W @ self.shift)

    def row_scores(self, W: Floats) -> Floats:
        """`scores`, those of a row the same to the last bit whichever rows stand beside it."""
        if self.sparse:
            return self.scores(W)
        from mmcopt.compiled.row_labels import row_scores

        T = np.empty((self.n, len(W)))
        row_scores(np.ascontiguousarray(self.X), np.ascontiguousarray(W), T)
        return T

    def sums(self, A: Floats, rows: Any = slice(None)) -> Floats:
        """Sums of rows with the weights A (m, number of rows): (m, d)."""
        X = self.X[rows]
        if not self.sparse:
            return np.asarray(A @ X)
        return np.asarray(self.scale * (A @ X) - A.sum(axis=1)[:, None] * self.shift)

    @functools.cached_property
    def lengths(self) -> Floats:
        """The length of each column, or more: what rounding of its sums is relative to."""
        if not self.sparse:
            return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.X, self.X)))
        squares = np.asarray(self.X.multiply(self.X).sum(axis=0)).ravel()
        return self.scale * np.sqrt(squares) + np.abs(self.shift) * np.sqrt(self.n)

    @functools.cached_property
    def longest(self) -> float:
        """The squared length of the longest row, or more."""
        if not self.sparse:
            return float(np.einsum("ij,ij->i", self.X, self.X).max())
        own = float(np.asarray(self.X.multiply(self.X).sum(axis=1)).max())
        return float((self.scale * np.sqrt(own) + np.linalg.norm(self.shift))**2)

    @functools.cached_property
    def products(self) -> Floats:
        """All inner products of rows, (n, n)."""
        require_memory(8.0 * self.n**2, f"all products of {self.n} rows", "use fewer samples.")
        rows = self.dense()
        return read_only(rows @ rows.T)

    def of(self, rows: Ints) -> Features:
        """The features of some rows."""
        made = copy.copy(self)
        for name in ("lengths", "longest", "products"):
            vars(made).pop(name, None)
        made.X = self.X[rows]
        made.n = len(rows)
        return made

    def total(self) -> Floats:
        """The sum of all rows: zero, up to rounding, when they are centred."""
        return self.sums(np.ones((1, self.n)))[0]

    def new(self, X: Any) -> Floats:
        """Features of new rows, dense."""
        A = data_matrix(X, owner=self.owner)
        known = self.d - (1 if self.bias else 0)
        if A.shape[1] != known:
            raise DataError(f"X has {A.shape[1]} features, but {self.owner} is expecting {known} "
                            "features as input.")
        A = A.toarray() if is_sparse(A) else A
        rows = np.asarray(A, dtype=np.float64) - self.mean[:known] - self.rest[:known]
        return self._biased(self.scale * rows)

    def _biased(self, rows: Floats) -> Floats:
        """Rows with the bias behind them."""
        return np.column_stack([rows, np.full(len(rows), self.bias)]) if self.bias else rows

    def dense(self) -> Floats:
        """All rows as an array (n, d)."""
        if not self.sparse:
            return np.asarray(self.X)
        require_memory(8.0 * self.n * self.d, f"{self.n} x {self.d} sparse features made dense",
                       "use a solver that works on sparse rows.")
        return np.asarray(self.scale * self.X.toarray() - self.shift)


def gram_of(part: Features) -> tuple[Any, ...]:
    """Inner products of the columns of dense features, as a term of a sum."""
    return (np.asarray(part.X.T @ part.X),)


def columns_of(parts: Sequence[Features]) -> tuple[slice, ...]:
    """The columns of each of some features that stand side by side."""
    ends = np.cumsum([0, *(part.d for part in parts)])
    return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))


class StackedFeatures(Features):
    """Features side by side: those of several kernels; ``blocks`` are their columns."""

    def __init__(self, parts: Sequence[Features], owner: str) -> None:
        self.parts, self.owner = tuple(parts), owner
        self.n, self.d = parts[0].n, sum(part.d for part in parts)
        self.blocks = columns_of(parts)
        self.sparse = any(part.sparse for part in parts)
        self.bias = 0.0
        self.X = parts[0].X

    @property
    def rows(self) -> Floats | None:
        return None

    def of(self, rows: Ints) -> StackedFeatures:
        return StackedFeatures([part.of(rows) for part in self.parts], self.owner)

    def scores(self, W: Floats) -> Floats:
        return np.asarray(sum(part.scores(W[:, block])
                              for part, block in zip(self.parts, self.blocks, strict=True)))

    def row_scores(self, W: Floats) -> Floats:
        return np.asarray(sum(part.row_scores(W[:, block])
                              for part, block in zip(self.parts, self.blocks, strict=True)))

    def sums(self, A: Floats, rows: Any = slice(None)) -> Floats:
        return np.hstack([part.sums(A, rows) for part in self.parts])

    @functools.cached_property
    def lengths(self) -> Floats:
        """Those of the columns of all parts."""
        return np.concatenate([part.lengths for part in self.parts])

    @functools.cached_property
    def longest(self) -> float:
        """The squared length of the longest row, or more."""
        return sum(part.longest for part in self.parts)

    def new(self, X: Any) -> Floats:
        return np.hstack([part.new(X) for part in self.parts])

    def dense(self) -> Floats:
        return np.hstack([part.dense() for part in self.parts])


class KernelFeatures(Features):
    """Features of a fitted kernel: its own, or V sqrt(w) of the eigenvectors of its matrix."""

    def __init__(self, fitted: Any, owner: str, bias: float = 0.0) -> None:
        self.fitted = fitted
        self._map: Floats | None = None
        Phi = fitted.features()
        if Phi is None:
            require_memory(24.0 * fitted.n**2, f"the {fitted.n} x {fitted.n} kernel matrix and its "
                           "eigenvectors", "use kernel.nystroem(rank).")
            K = fitted.matrix()
            if not fitted.psd:
                require_psd(K, owner)
            Phi, self._map = roots(K, lambda w: w > max(w[-1], 0.0) * fitted.n * 8 * UNIT)
        super().__init__(Phi, center=False, normalize=False, owner=owner, bias=bias)

    def new(self, X: Any) -> Floats:
        if self._map is None:
            return self._biased(np.asarray(self.fitted.new_features(X)))
        return self._biased(np.asarray(self.fitted.cross(X) @ self._map))
