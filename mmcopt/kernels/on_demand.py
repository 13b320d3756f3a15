"""A training kernel that is too large for memory: its rows and products, computed on demand."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, overload

import numpy as np

from mmcopt.checks import read_only, require_memory, shown, unmasked
from mmcopt.errors import DataError
from mmcopt.kernels.fitted import FittedKernel
from mmcopt.linalg import UNIT
from mmcopt.types import Floats, Ints

ENTRIES = 2_000_000  # of a block of rows that is worked on at a time
PATIENCE = 50_000_000  # entries between two looks at the clock
HELD = 2.5e8  # bytes of rows that are kept, of kernels that are dear to compute
TOGETHER = 16  # rows of a product of matrices
CHEAP = 4  # features up to which a row of Gaussians is computed as fast as it is read


class Gaussians:
    """The Gaussian kernel between points that are the columns of ``XT`` (d, n) and others."""

    def __init__(self, XT: Floats, gamma: float) -> None:
        self.XT, self.gamma = XT, gamma
        self._squares: Floats | None = None

    @property
    def by_products(self) -> bool:
        """Whether |x|^2 + |z|^2 - 2 x'z is the faster way to distances, and precise enough."""
        from mmcopt.compiled.gaussian_sums import FEW_FEATURES

        if self.XT.shape[0] <= FEW_FEATURES:
            return False
        if self._squares is None:
            self._squares = np.einsum("ij,ij->j", self.XT, self.XT)
        farthest = float(np.asarray(self._squares).max(initial=0.0))
        return self.gamma * farthest * UNIT < 1e-13

    def rows(self, points: Floats) -> Floats:
        """The kernel of points (m, d) against the columns: one by one, or by products."""
        from mmcopt.compiled.gaussian_sums import exp_rows, gaussian_rows

        n = self.XT.shape[1]
        if not self.by_products:
            out = np.empty((len(points), n))
            gaussian_rows(self.XT, np.ascontiguousarray(points), self.gamma, out)
            return out
        out = points @ self.XT
        out *= -2.0
        out += np.asarray(self._squares)
        out += np.einsum("ij,ij->i", points, points)[:, None]
        np.maximum(out, 0.0, out=out)
        out *= -self.gamma
        exp_rows(out)
        return np.asarray(out)

    def sums(self, points: Floats, a: Floats) -> Floats:
        """sum_i a_i k(point_i, x) for each column x."""
        from mmcopt.compiled.gaussian_sums import gaussian_sums

        n = self.XT.shape[1]
        out = np.zeros(n)
        if not self.by_products:
            gaussian_sums(self.XT, np.ascontiguousarray(points), a, self.gamma, out)
            return out
        chunk = max(1, ENTRIES // n)
        for s in range(0, len(points), chunk):
            out += a[s:s + chunk] @ self.rows(points[s:s + chunk])
        return out


class KernelRows:
    """Rows of the n x n kernel of a `FittedKernel`, its diagonal, and products with vectors.

    One of three ways to the same numbers: ``gaussian`` where compiled loops are fastest,
    ``features`` Phi with K = Phi Phi', or else whatever the kernel computes. Rows that are dear are
    kept, up to `HELD` bytes, and may be asked for by many threads at a time: what is kept changes
    how long an answer takes, and not a bit of it.
    """

    def __init__(self, fitted: FittedKernel) -> None:
        self.fitted, self.n = fitted, fitted.n
        given = fitted.gaussian()
        self.gaussian = None if given is None else Gaussians(*given)
        self.features = fitted.features() if given is None else None
        self._index: Ints | None = None  # of the training rows that a subset stands for
        self._diagonal: Floats | None = None
        self.known: dict[str, Any] = {}  # what problems that share this kernel have found out
        self._keep_none()

    def _keep_none(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0  # of rows that are kept
        self._rows = np.empty((0, self.n))
        self._slot = self._free = np.empty(0, dtype=np.int64)  # of samples, or -1; of no sample

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_lock", "_readers", "_rows", "_slot", "_free")
        return {name: value for name, value in self.__dict__.items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._keep_none()

    def subset(self, index: Ints) -> KernelRows:
        """The kernel of some of the training rows alone."""
        new = copy.copy(self)
        new.n, new._diagonal, new.known = len(index), None, {}
        new._keep_none()
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

    @property
    def dear(self) -> bool:
        """Whether rows are worth keeping."""
        if self.features is not None:
            return False
        return self.gaussian is None or self.gaussian.XT.shape[0] > CHEAP

    @contextmanager
    def kept(self, index: Ints) -> Iterator[tuple[Floats, Ints] | None]:
        """Rows that are kept, and where those of some samples stand; None if that is too much."""
        most = min(self.n, int(HELD / (8.0 * self.n)))
        if len(index) > most:
            yield None
            return
        with self._lock:
            if not len(self._slot):
                self._rows, self._free = np.empty((most, self.n)), np.arange(most)
                self._slot = np.full(self.n, -1, dtype=np.int64)
            new = index[self._slot[index] < 0]
        rows = self._one_by_one(new)  # by several threads, it may be: they are the same
        with self._lock:
            missing = index[self._slot[index] < 0]
            found = None
            if np.isin(missing, new).all():  # another thread has not made room meanwhile
                self._add(index, new, rows)
                found = self._rows, np.asarray(self._slot[index])
            self._readers += 1
        try:
            yield (self._one_by_one(index), np.arange(len(index))) if found is None else found
        finally:
            with self._lock:
                self._readers -= 1

    def _one_by_one(self, index: Ints) -> Floats:
        """Rows that depend on nothing but their sample.

        BLAS adds up in an order that hangs on how many rows there are and on the place of a row
        among them. So products are of `TOGETHER` rows, and the number of a sample is its place.
        """
        if self.gaussian is not None and not self.gaussian.by_products:
            return self.rows(index)
        out = np.empty((len(index), self.n))
        place = index % TOGETHER
        order = np.argsort(place, kind="stable")
        turn = np.empty(len(index), dtype=np.int64)  # the product in which each row is computed
        turn[order] = np.arange(len(index)) - np.searchsorted(place[order], place[order])
        for t in range(int(turn.max(initial=-1)) + 1):
            mine = np.flatnonzero(turn == t)
            filled = np.full(TOGETHER, index[mine[0]])
            filled[place[mine]] = index[mine]
            out[mine] = self.rows(filled)[place[mine]]
        return out

    def _add(self, index: Ints, new: Ints, rows: Floats) -> None:
        """Keep new rows; where there is no room, beside those of ``index`` alone."""
        fresh = self._slot[new] < 0
        if not fresh.all():  # another thread was faster
            new, rows = new[fresh], rows[fresh]
        if len(new) > len(self._free):
            if self._readers:  # of rows that will be written over
                self._rows = self._rows.copy()
            held = self._slot[index]
            self._slot[~np.isin(self._slot, held[held >= 0])] = -1
            self._free = np.setdiff1d(np.arange(len(self._rows)), held)
        taken, self._free = self._free[:len(new)], self._free[len(new):]
        self._rows[taken] = rows
        self._slot[new] = taken

    def among(self, index: Ints) -> Floats:
        """The kernel between some of the training rows: the same bits, whatever rows are kept."""
        if self.gaussian is not None or self.features is not None:
            part = self.subset(index)
            return part.rows(np.arange(len(index)))
        own = index if self._index is None else self._index[index]
        return self.fitted.rows(own, own)

    @overload
    def times(self, a: Floats) -> Floats: ...

    @overload
    def times(self, a: Floats, until: Callable[[], bool]) -> Floats | None: ...

    def times(self, a: Floats, until: Callable[[], bool] | None = None) -> Floats | None:
        """K a; zeros of a cost nothing. None as soon as ``until`` says so, asked now and then."""
        used = np.flatnonzero(a)
        if self.features is not None:
            return np.asarray(self.features @ (a @ self.features))
        if self.dear:
            from mmcopt.compiled.gaussian_sums import combined

            with self.kept(used) as found:
                if found is not None:
                    return np.asarray(combined(*found, a[used]))
        out, chunk = np.zeros(self.n), max(1, PATIENCE // self.n)
        for s in range(0, len(used), chunk):
            if until is not None and until():
                return None
            some = used[s:s + chunk]
            out += self.gaussian.sums(self.gaussian.XT[:, some].T, a[some]) \
                if self.gaussian is not None else a[some] @ self.rows(some)
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
    given = unmasked(given, owner, "sample_weight")
    try:
        w = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"{owner}: sample_weight must hold {n} numbers; got {shown(given)}.") from e
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        least = f" with minimum {w.min():g}" if w.size else ""
        raise DataError(f"{owner}: sample_weight must hold {n} finite numbers, none negative and "
                        f"not all zero; got shape {w.shape}{least}.")
    return read_only(w)


def samples_for_svm(kernel: KernelRows, used: Ints) -> tuple[Floats, dict[str, Any]]:
    """Some samples as LIBSVM takes them, and the options that say which kernel it computes."""
    if kernel.gaussian is not None:
        return kernel.gaussian.XT[:, used].T, {"gamma": kernel.gaussian.gamma}
    n = len(used)
    require_memory(16.0 * n * n, f"LIBSVM on a {n} x {n} kernel that is not Gaussian",
                   "use a Gaussian kernel, of which it computes rows.")
    return kernel.among(used), {"kernel": "precomputed"}
