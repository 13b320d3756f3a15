"""Training rows as kernels see them: checked, centred for distances, with their diameter."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt import checks
from mmcopt.datasets.blocks import STRIPS
from mmcopt.errors import DataError
from mmcopt.kernels.block_features import held, row_sum

Array = NDArray[np.float64]
_BLOCK, FEW, STRIP = STRIPS, 256, 16  # rows worked on at a time, in memory and in the cache
_EXACT, _SAMPLE = 10_000, 5_000  # largest n for an exact dmax; rows sampled beyond it
LEVEL = 0.01  # of the largest squared norm: distances below it lose digits by products


def chunks(n: int, step: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut n rows into blocks of rows s:t."""
    step = _BLOCK if step is None else step
    return ((s, min(s + step, n)) for s in range(0, n, step))


def same_rows(P: Any, Q: Any) -> bool:
    """Tell whether two matrices are the same, number by number, and held alike."""
    if checks.is_sparse(P) != checks.is_sparse(Q) or P.shape != Q.shape or P.dtype != Q.dtype:
        return False
    return (P != Q).nnz == 0 if checks.is_sparse(P) else np.array_equal(P, Q)


def dot(P: Any, Q: Any) -> Array:
    """Return the inner products of the rows of P and Q, dense or both sparse."""
    return cast(Array, (P @ Q.T).toarray() if checks.is_sparse(P) else P @ Q.T)


def squares(P: Any) -> Array:
    """Return the squared norm of each row of floats."""
    if checks.is_sparse(P):
        return np.asarray(P.multiply(P).sum(axis=1), dtype=np.float64).ravel()
    return cast(Array, np.einsum("ij,ij->i", P, P))


def differences(metric: str, P: Any, Q: Any) -> Array:
    """Return the squared l2, or the l1, distances from the differences of rows: to all digits."""
    from scipy.spatial.distance import cdist

    name: Any = {"l1": "cityblock", "l2": "sqeuclidean"}[metric]
    if not checks.is_sparse(P):
        return cast(Array, cdist(P, Q, name))
    D = np.zeros((P.shape[0], Q.shape[0]))
    P, Q = P.tocsc(), Q.tocsc()
    used = np.flatnonzero(np.diff(P.indptr) + np.diff(Q.indptr))
    for s in range(0, used.size, STRIP):  # a few columns made dense at a time
        part = used[s:s + STRIP]
        D += cdist(P[:, part].toarray(), Q[:, part].toarray(), name)
    return D


def distances(P: Any, Q: Any, q: Array) -> Array:
    """Return the squared l2 distances between the rows of P and Q by products; q = |Q|^2."""
    D, p = dot(P, Q), squares(P)
    for s in range(0, len(D), STRIP):  # a strip of rows that stays in the cache
        strip = D[s:s + STRIP]
        strip *= -2.0
        strip += q
        strip += p[s:s + STRIP, None]
        np.maximum(strip, 0.0, out=strip)
    return D


def drawn(n: int) -> Any:
    """The numbers of the rows of a sample, or of all where they are few."""
    if n <= _EXACT:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _SAMPLE, replace=False))


class Data:
    """The training rows, shared by the parts of a fitted kernel; ``fits`` are known, by kernel."""

    blocked = False  # whether rows come in blocks, and are never all in memory

    def __init__(self, X: Any, owner: str) -> None:
        self.X, self.owner, self.sparse = X, owner, checks.is_sparse(X)
        self.fits: dict[Any, Any] = {}
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        # Distances ignore a shift; taking the mean away saves digits in |x|^2 + |z|^2 - 2 x'z.
        self.mean: Any = 0.0 if self.sparse \
            else held(X, owner).total_of(row_sum)[0] / self.n
        self._diameter: dict[str, float] = {}

    def rows(self, X_new: Any) -> Any:
        """Check new rows, and make them dense or sparse as the training rows are."""
        A = checks.data_matrix(X_new, owner=self.owner)
        if A.shape[1] != self.d:
            raise DataError(f"X has {A.shape[1]} features, but {self.owner} is expecting "
                            f"{self.d} features as input.")
        if self.sparse:
            return A if checks.is_sparse(A) else self.compressed(A)
        return A.toarray() if checks.is_sparse(A) else A

    @functools.cached_property
    def rest(self) -> Array:
        """Return what `mean` has lost of the mean of dense rows, which counts far from zero."""
        return cast(Array, sum((self.X[s:t] - self.mean).sum(axis=0)
                               for s, t in chunks(self.n)) / self.n)

    @functools.cached_property
    def radius(self) -> float:
        """Return the largest squared norm of a row, the mean taken away from dense ones."""
        blocks = (self.X[s:t].astype(np.float64) for s, t in chunks(self.n))
        return max(float(squares(A if self.sparse else A - self.mean).max()) for A in blocks)

    @functools.cached_property
    def largest(self) -> float:
        """Return the largest squared norm of a row as it is."""
        return max(float(squares(self.X[s:t].astype(np.float64)).max())
                   for s, t in chunks(self.n))

    def compressed(self, A: Any) -> Any:
        """Return dense rows as sparse ones of the kind of the training rows."""
        return type(self.X)(A)

    def take(self, index: Any) -> Any:
        """Return some rows."""
        return self.X[index]

    def on(self, columns: list[int]) -> Data:
        """Return some columns of all rows."""
        seen = self.X[:, columns]
        return Data(seen if self.sparse else checks.read_only(seen), self.owner)

    def sample(self) -> Any:
        """Return the rows whose distances are looked at: up to 10,000 all of them."""
        return self.X if self.n <= _EXACT else self.X[drawn(self.n)]

    def diameter(self, metric: str) -> float:
        """Return the largest distance, exact up to 10,000 rows and of a sample beyond."""
        if metric not in self._diameter:
            X = self.sample()
            low, high = X.min(axis=0), X.max(axis=0)
            same = (low != high).nnz == 0 if self.sparse else np.array_equal(low, high)
            self._diameter[metric] = 0.0 if same else self._farthest(X, metric)
        if not self._diameter[metric] > 0:
            raise DataError(f"{self.owner}: all rows are identical, so a relative width has no "
                            "scale; give gamma instead.")
        return self._diameter[metric]

    def _farthest(self, X: Any, metric: str) -> float:
        P = X.astype(np.float64) if self.sparse else X - self.mean
        p = squares(P)
        if metric == "l1":
            return max(float(differences(metric, P[s:t], P[s:]).max())
                       for s, t in chunks(P.shape[0], FEW))
        best = max(float(distances(P[s:t], P[s:], p[s:]).max())
                   for s, t in chunks(P.shape[0], FEW))
        if best < LEVEL * float(p.max()):  # rows that are far out and close together
            best = max(float(differences(metric, P[s:t], P[s:]).max())
                       for s, t in chunks(P.shape[0], FEW))
        return float(np.sqrt(best))
