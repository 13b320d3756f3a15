"""Training rows as kernels see them: checked, centred for distances, with their diameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt import checks
from mmcopt.errors import DataError

Array = NDArray[np.float64]
_BLOCK, STRIP = 1024, 16  # rows worked on at a time, in memory and in the cache
_EXACT, _SAMPLE = 10_000, 5_000  # largest n for an exact dmax; rows sampled beyond it


def chunks(n: int) -> Iterator[tuple[int, int]]:
    """Cut n rows into blocks of rows s:t."""
    return ((s, min(s + _BLOCK, n)) for s in range(0, n, _BLOCK))


def dot(P: Any, Q: Any) -> Array:
    """Return the inner products of the rows of P and Q, dense or both sparse."""
    return cast(Array, (P @ Q.T).toarray() if checks.is_sparse(P) else P @ Q.T)


def squares(P: Any) -> Array:
    """Return the squared norm of each row of floats."""
    if checks.is_sparse(P):
        return np.asarray(P.multiply(P).sum(axis=1), dtype=np.float64).ravel()
    return cast(Array, np.einsum("ij,ij->i", P, P))


def distances(metric: str, P: Any, Q: Any, q: Array) -> Array:
    """Return the squared l2, or the l1, distances between the rows of P and Q; q = |Q|^2."""
    if metric == "l1":
        from scipy.spatial.distance import cdist
        return cast(Array, cdist(P, Q, "cityblock"))
    D, p = dot(P, Q), squares(P)
    for s in range(0, len(D), STRIP):  # a strip of rows that stays in the cache
        strip = D[s:s + STRIP]
        strip *= -2.0
        strip += q
        strip += p[s:s + STRIP, None]
        np.maximum(strip, 0.0, out=strip)
    return D


class Data:
    """The training rows, shared by the parts of a fitted kernel."""

    def __init__(self, X: Any, owner: str) -> None:
        self.X, self.owner, self.sparse = X, owner, checks.is_sparse(X)
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        # Distances ignore a shift; taking the mean away saves digits in |x|^2 + |z|^2 - 2 x'z.
        self.mean = 0.0 if self.sparse else X.mean(axis=0, dtype=np.float64)
        self._diameter: dict[str, float] = {}

    def rows(self, X_new: Any) -> Any:
        """Check new rows, and make them dense or sparse as the training rows are."""
        A = checks.data_matrix(X_new, owner=self.owner)
        if A.shape[1] != self.d:
            raise DataError(f"X has {A.shape[1]} features, but {self.owner} is expecting "
                            f"{self.d} features as input.")
        if self.sparse:
            return A if checks.is_sparse(A) else type(self.X)(A)
        return A.toarray() if checks.is_sparse(A) else A

    def diameter(self, metric: str) -> float:
        """Return the largest distance, exact up to 10,000 rows and of a sample beyond."""
        if metric not in self._diameter:
            X = self.X
            if self.n > _EXACT:
                X = X[np.sort(np.random.default_rng(0).choice(self.n, _SAMPLE, replace=False))]
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
        best = max(float(distances(metric, P[s:t], P[s:], p[s:]).max())
                   for s, t in chunks(P.shape[0]))
        return float(np.sqrt(best)) if metric == "l2" else best
