"""Kernels that look at less than all of their data: landmarks, leading directions, columns."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels.data import Data, squares
from mmcopt.kernels.descriptions import (
    Columns,
    Gaussian,
    Nystroem,
    Pivoted,
    Principal,
    RandomFeatures,
    Unit,
    fits,
    fitted,
)
from mmcopt.kernels.features import gram_of
from mmcopt.kernels.fitted import FittedKernel
from mmcopt.linalg import EQUAL, UNIT, roots

Array = NDArray[np.float64]


class _Rooted(FittedKernel):
    """Features K_xR M of the kernel between a row and some rows R."""

    _R: NDArray[np.int64]
    _root: NDArray[Any]  # M

    def _width(self) -> int:
        return int(self._root.shape[1])

    def _map(self, A: Any) -> Any:
        return self._parts[0]._rows(A, self._R) @ self._root


@fits(Nystroem)
class _Landmarks(_Rooted):
    """The Nystroem features K_xR (K_RR)^(-1/2), without the directions of no weight."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self.psd = self.explicit = True
        if kernel.rank > data.n:
            raise ParameterError(f"{data.owner}: nystroem rank must be at most the {data.n} rows "
                                 f"of X; got {kernel.rank}.")
        draw = np.random.default_rng(kernel.seed).choice(data.n, kernel.rank, replace=False)
        self._R = np.sort(draw)
        K = self._parts[0]._rows(data.take(self._R), self._R)
        tiny = len(K) * np.finfo(float).eps
        self._root = roots((K + K.T) / 2, lambda w: w > max(w[-1], 0.0) * tiny)[1]


@fits(RandomFeatures)
class _Waves(FittedKernel):
    """The features cos(w'x) and sin(w'x) for w drawn from the spectrum of the kernel."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self.psd = self.explicit = True
        rng, shape = np.random.default_rng(kernel.seed), (data.d, kernel.rank // 2)
        rate = cast(Any, self._parts[0])._gamma
        self._w = np.sqrt(2.0 * rate) * rng.standard_normal(shape) \
            if isinstance(kernel.inner, Gaussian) else rate * rng.standard_cauchy(shape)

    def _width(self) -> int:
        return 2 * self._w.shape[1]

    def _map(self, A: Any) -> Any:
        angles = np.asarray(A.astype(np.float64) - self._data.mean) @ self._w \
            if not self._data.sparse else np.asarray(A.astype(np.float64) @ self._w)
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(self._w.shape[1])


@fits(Principal)
class _Directions(FittedKernel):
    """The features V sqrt(w) of the leading eigenvectors that hold a share of the trace.

    Of a kernel with features they are found from these.
    """

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self._of_features = self.explicit
        self.psd = self.explicit = True

        def leading(w: Array) -> slice:
            if not w[-1] > 0:
                raise DataError(f"{data.owner}: pca() needs a kernel of positive trace; check for "
                                "identical rows.")
            w = np.maximum(w[::-1], 0.0)
            r = int(np.searchsorted(np.cumsum(w), kernel.share * w.sum() * (1 - 1e-12))) + 1
            while r < len(w) and w[r] > (1.0 - EQUAL) * w[r - 1]:  # equal ones, all or none
                r += 1
            return slice(len(w) - min(r, kernel.rank or r), None)

        if self._of_features:
            gram = self._parts[0].in_parts().total_of(gram_of)[0]
            root = roots(gram, leading)[0][:, ::-1]
            self._root = root / np.linalg.norm(root, axis=0)
        else:
            self._root = roots(self._parts[0].matrix(), leading)[1][:, ::-1]

    def _width(self) -> int:
        return int(self._root.shape[1])

    def _features(self) -> Array:
        if self._of_features:
            return np.asarray(cast(Array, self._parts[0].features()) @ self._root)
        return super()._features()

    def _map(self, A: Any) -> Any:
        inner = self._parts[0]
        return (inner._map(A) if self._of_features else inner._rows(A)) @ self._root


@fits(Pivoted)
class _Pivots(_Rooted):
    """The rows of the incomplete Cholesky factor L, and K_xR L_R^-T for new rows."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self.psd = self.explicit = True
        part, n = self._parts[0], data.n
        most = min(n, kernel.rank or n)
        left = np.array(part.diagonal(), dtype=np.float64)
        trace, tiny = float(left.sum()), float(left.max()) * n * np.finfo(float).eps
        if not trace > 0:
            raise DataError(f"{data.owner}: cholesky() needs a kernel of positive trace; check for "
                            "identical rows.")
        L, pivots = np.zeros((n, min(most, 16))), list[int]()
        while len(pivots) < most and left.sum() > (1.0 - kernel.share) * trace:
            j, r = int(left.argmax()), len(pivots)
            if left[j] <= tiny:
                break
            if r == L.shape[1]:
                L = np.hstack([L, np.zeros((n, min(r, most - r)))])
            column = np.asarray(part._rows(data.X, np.array([j])), dtype=np.float64).ravel()
            L[:, r] = (column - L[:, :r] @ L[j, :r]) / np.sqrt(left[j])
            left = np.maximum(left - L[:, r] ** 2, 0.0)
            left[j] = 0.0
            pivots.append(j)
        self._R = np.array(pivots)
        self._root = np.linalg.inv(L[self._R, :len(pivots)]).T


@fits(Unit)
class _Angles(FittedKernel):
    """K_ij / (K_ii K_jj)^1/2, or the features divided by their lengths."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        lengths = self._parts[0].diagonal()
        self._least = float(lengths.min())
        if not self._least > 0.0:
            raise DataError(f"{data.owner}: row {int(lengths.argmin())} of X has length 0 in the "
                            f"feature space of {kernel.inner!r}, so it has no angle to the others "
                            "(unit); drop such rows.")
        self._roots = np.sqrt(lengths)

    def matrix(self) -> Array:
        if self.explicit:
            return super().matrix()
        K = self._parts[0].matrix()
        K /= self._roots
        K /= self._roots[:, None]
        np.fill_diagonal(K, 1.0)
        return np.asarray((K + K.T) / 2.0)

    def diagonal(self) -> Array:
        return np.ones(self.n)

    def accuracy(self) -> tuple[float, float]:
        if self.explicit:
            return super().accuracy()
        error, _ = self._parts[0].accuracy()
        return 2.0 * error / self._least + 6.0 * UNIT, 1.0

    def feature_error(self) -> float:
        inner = self._parts[0]
        return (2.0 * inner.feature_error() / np.sqrt(self._least)
                + (inner.feature_count or 0) * UNIT)

    def _own(self, A: Any) -> Array:
        return np.ones(A.shape[0])

    def _map(self, A: Any) -> Any:
        F = self._parts[0]._map(A)
        return F / np.sqrt(squares(F))[:, None]

    def _features(self) -> Array:
        return np.asarray(cast(Array, self._parts[0].features()) / self._roots[:, None])

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        inner = self._parts[0]
        K = inner._rows(A, R, own)
        K /= np.sqrt(inner._own(A))[:, None]
        K /= self._roots[R]
        return K


@fits(Columns)
class _View(FittedKernel):
    """A kernel fitted to some of the columns."""

    def _fit_parts(self, kernel: Any, data: Data) -> list[FittedKernel]:
        most = max(kernel.columns)
        if most >= data.d:
            raise DataError(f"{data.owner}: on() names column {most}, and X has {data.d}: 0 to "
                            f"{data.d - 1}.")
        self._columns = list(kernel.columns)
        return [fitted(kernel.inner, data.on(self._columns))]

    def _accept(self, A: Any) -> Any:
        self._parts[0]._accept(A[:, self._columns])
        return A

    def accuracy(self) -> tuple[float, float]:
        return self._parts[0].accuracy()

    def feature_error(self) -> float:
        return self._parts[0].feature_error()

    def _own(self, A: Any) -> Array:
        return self._parts[0]._own(A[:, self._columns])

    def _map(self, A: Any) -> Any:
        return self._parts[0]._map(A[:, self._columns])

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        return self._parts[0]._cross(A[:, self._columns], R, own)
