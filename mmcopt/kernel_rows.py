"""A training kernel that is too large for memory: its rows and products, computed on demand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import read_only
from mmcopt.errors import DataError
from mmcopt.kernel_fits import FittedKernel
from mmcopt.linalg import UNIT
from mmcopt.matrices import require_memory

Floats = NDArray[Any]
Ints = NDArray[np.int64]
ENTRIES = 2_000_000  # of a block of rows that is held at a time


class Gaussians:
    """The Gaussian kernel between points that are the columns of ``XT`` (d, n) and others."""

    def __init__(self, XT: Floats, gamma: float) -> None:
        self.XT, self.gamma = XT, gamma
        self._squares: Floats | None = None

    def rows(self, points: Floats) -> Floats:
        """The kernel of points (m, d) against the columns: one by one, or by products."""
        from mmcopt.gaussians import SMALL, exp_negative, gaussian_rows

        d, n = self.XT.shape
        if d <= SMALL:
            out = np.empty((len(points), n))
            gaussian_rows(self.XT, np.ascontiguousarray(points), self.gamma, out)
            return out
        if self._squares is None:
            self._squares = np.einsum("ij,ij->j", self.XT, self.XT)
        out = points @ self.XT
        out *= -2.0
        out += self._squares
        out += np.einsum("ij,ij->i", points, points)[:, None]
        np.maximum(out, 0.0, out=out)
        out *= -self.gamma
        buffer = np.empty(n)
        for row in out:
            exp_negative(row, buffer)
        return out

    def sums(self, points: Floats, a: Floats) -> Floats:
        """sum_i a_i k(point_i, x) for each column x."""
        from mmcopt.gaussians import SMALL, gaussian_sums

        n = self.XT.shape[1]
        out = np.zeros(n)
        if self.XT.shape[0] <= SMALL:
            gaussian_sums(self.XT, np.ascontiguousarray(points), a, self.gamma, out)
            return out
        chunk = max(1, ENTRIES // n)
        for s in range(0, len(points), chunk):
            out += a[s:s + chunk] @ self.rows(points[s:s + chunk])
        return out


class KernelRows:
    """Rows of the n x n kernel of a `FittedKernel`, its diagonal, and products with vectors.

    One of three ways to the same numbers: ``gaussian`` where compiled loops are fastest,
    ``features`` Phi with K = Phi Phi', or else whatever the kernel computes.
    """

    def __init__(self, fitted: FittedKernel) -> None:
        self.fitted, self.n = fitted, fitted.n
        given = fitted.gaussian()
        self.gaussian = None if given is None else Gaussians(*given)
        self.features = fitted.features() if given is None else None
        self._index: Ints | None = None  # of the training rows that a subset stands for
        self._diagonal: Floats | None = None

    def subset(self, index: Ints) -> KernelRows:
        """The kernel of some of the training rows alone."""
        new = copy.copy(self)
        new.n, new._diagonal = len(index), None
        new._index = index if self._index is None else self._index[index]
        if self.gaussian is not None:
            given = self.gaussian
            new.gaussian = Gaussians(np.ascontiguousarray(given.XT[:, index]), given.gamma)
        elif self.features is not None:
            new.features = self.features[index]
        return new

    @property
    def diagonal(self) -> Floats:
        """The n diagonal entries."""
        if self._diagonal is None:
            if self.gaussian is not None:
                self._diagonal = np.ones(self.n)
            else:
                whole = self.fitted.diagonal()
                self._diagonal = whole if self._index is None else whole[self._index]
        return self._diagonal

    def rows(self, index: Ints) -> Floats:
        """Rows of the kernel, (len(index), n)."""
        if self.gaussian is not None:
            return self.gaussian.rows(self.gaussian.XT[:, index].T)
        if self.features is not None:
            return np.asarray(self.features[index] @ self.features.T)
        if self._index is None:
            return self.fitted.rows(index)
        return self.fitted.rows(self._index[index], self._index)

    def among(self, index: Ints) -> Floats:
        """The kernel between some of the training rows."""
        if self.gaussian is not None or self.features is not None:
            part = self.subset(index)
            return part.rows(np.arange(len(index)))
        own = index if self._index is None else self._index[index]
        return self.fitted.rows(own, own)

    def times(self, a: Floats) -> Floats:
        """K a; zeros of a cost nothing."""
        used = np.flatnonzero(a)
        if self.gaussian is not None:
            return self.gaussian.sums(self.gaussian.XT[:, used].T, a[used])
        if self.features is not None:
            return np.asarray(self.features @ (a @ self.features))
        out, chunk = np.zeros(self.n), max(1, ENTRIES // self.n)
        for s in range(0, len(used), chunk):
            some = used[s:s + chunk]
            out += a[some] @ self.rows(some)
        return out

    def at(self, a: Floats, X: Any) -> Floats:
        """sum_i a_i k(x_i, x) for each new row x of X, over all training rows."""
        if self.features is not None:
            new = np.asarray(self.fitted.new_features(X))
            return np.asarray(new @ (a @ self.features))
        points, used = self.fitted.accept(X), np.flatnonzero(a)
        if self.gaussian is not None:
            columns = np.ascontiguousarray(self.fitted.placed(points).T)
            theirs = self.gaussian.XT[:, used].T
            return Gaussians(columns, self.gaussian.gamma).sums(theirs, a[used])
        chunk = max(1, ENTRIES // max(len(used), 1))
        parts = [self.fitted.against(points[s:s + chunk], used) @ a[used]
                 for s in range(0, points.shape[0], chunk)]
        return np.concatenate(parts)


def kernel_root(fitted: FittedKernel) -> Floats:
    """L with K = L L', without directions of no weight: for programs that are written out."""
    require_memory(24.0 * fitted.n**2, f"the {fitted.n} x {fitted.n} kernel matrix and its root",
                   "use a solver that computes a few rows at a time, such as DualCoordinate.")
    w, V = np.linalg.eigh(fitted.matrix())
    keep = w > max(w[-1], 0.0) * fitted.n * UNIT
    return np.asarray(V[:, keep] * np.sqrt(w[keep]))


def row_weights(given: Any, n: int, owner: str) -> Floats:
    """Check the weights of samples."""
    w = np.asarray(given, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        least = f" with minimum {w.min():g}" if w.size else ""
        raise DataError(f"{owner}: sample_weight must hold {n} finite numbers, none negative and "
                        f"not all zero; got shape {w.shape}{least}.")
    return read_only(w)
