"""Kernels fitted to data: training matrices, features, and the values of new rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt import checks
from mmcopt.datasets.scratch import Scratch
from mmcopt.errors import DataError
from mmcopt.kernels.block_features import (
    BlockFeatures,
    Scaling,
    all_rows_needed,
    held,
    row_sum,
)
from mmcopt.kernels.data import STRIP, Data, chunks, differences, distances, dot, same_rows, squares
from mmcopt.kernels.descriptions import (
    Centered,
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Normalized,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    Sum,
    fits,
    fitted,
)
from mmcopt.kernels.features import Features
from mmcopt.linalg import UNIT, mirror_lower

Array = NDArray[np.float64]
BAND = 128  # rows of a dense kernel at a time: the fewer, the less of a mirrored half is computed
CHEAP = 1e7  # operations up to which distances are computed from differences whatever it brings
RANGE = 300.0  # decimal exponents of entries of a kernel
FAR = 900.0  # gamma |x - mean|^2 from which products lose digits of distances that count
_TEX = {"x'z": r"x^\top z", "|x-z|": r"\|x-z\|", "|x| |z|": r"\|x\| \|z\|", "exp": r"\exp",
        "dmax": r"d_{\max}", "center": r"\mathrm{center}", "normalize": r"\mathrm{normalize}",
        "nystroem": r"\mathrm{nystroem}", "unit": r"\mathrm{unit}", "^-1": "^{-1}",
        "cholesky": r"\mathrm{cholesky}", " * ": r" \cdot "}


def _mirror(n: int, block: Callable[[int, int], Array], step: int | None = BAND) -> Array:
    """Build a symmetric matrix from ``block(s, t)``, its rows s:t from column s on."""
    K = np.empty((n, n))
    for s, t in chunks(n, step):
        K[s:t, s:] = block(s, t)
        mirror_lower(K[s:t, s:t].T)
        K[t:, s:t] = K[s:t, t:].T
    return K


def _array_of(part: Features) -> Array:
    return np.asarray(part.X)


def _square(part: Features) -> tuple[Any, ...]:
    return (float(squares(part.X).sum()),)


def _sum_about(part: Features, mean: Array) -> tuple[Any, ...]:
    return ((part.X - mean).sum(axis=0),)


# ---------------------------------------------------------------- fitted kernels


class FittedKernel:
    """A kernel with its training rows and all that new rows need; made by `Kernel.fit`."""

    psd: bool  # positive semidefinite by construction; False when it has to be checked
    explicit: bool  # whether a feature map is cheap

    def __init__(self, kernel: Any, data: Data) -> None:
        self.kernel: Kernel = kernel
        self.n, self.n_features = data.n, data.d
        self._data, self._phi = data, cast("Array | None", None)
        self._in_parts: BlockFeatures | None = None
        self._is_stored = False
        self._parts = self._fit_parts(kernel, data)
        self.psd = all(part.psd for part in self._parts)
        self.explicit = bool(self._parts) and all(part.explicit for part in self._parts)

    def __getstate__(self) -> dict[str, Any]:
        """All but features, which are made again where they are asked for."""
        return {**vars(self), "_phi": None, "_in_parts": None, "_is_stored": False}

    def _fit_parts(self, kernel: Any, data: Data) -> list[FittedKernel]:
        return [fitted(part, data) for part in kernel._inner()]

    def parts_on(self, X: Any) -> dict[Kernel, FittedKernel]:
        """Of the kernels that this one is made of those fitted to these rows."""
        return {leaf.kernel: leaf for leaf in self.leaves() if same_rows(leaf._data.X, X)}

    def leaves(self) -> Iterator[Any]:
        """The fitted kernels that this one is made of."""
        for part in self._parts:
            yield from part.leaves()
        if not self._parts:
            yield self

    @property
    def feature_count(self) -> int | None:
        """How many explicit features there are; None where a feature map is not cheap."""
        return self._width() if self.explicit else None

    def _width(self) -> int:
        """How many features there are, where nothing that is learned of all rows changes that."""
        counts = [part.feature_count for part in self._parts if part.explicit]
        return sum(cast("list[int]", counts)) or int(self._map(self._data.take([0])).shape[1])

    def matrix(self) -> Array:
        """Return the training kernel (n, n), exactly symmetric, in a new array."""
        self._require_rows()
        Phi = self.features()
        if Phi is not None:
            return _mirror(self.n, lambda s, t: Phi[s:t] @ Phi[s:].T)
        X, step = self._data.X, None if self._data.sparse else BAND
        return _mirror(self.n, lambda s, t: self._rows(X[s:t], slice(s, None), own=True), step)

    def cross(self, X_new: Any) -> Array:
        """Return the kernel (m, n) of new rows against the training rows."""
        self._require_rows()
        return self._rows(self._accept(self._data.rows(X_new)))

    def features(self) -> Array | None:
        """Return Phi (n, r) with K = Phi Phi', read-only, or None when none is cheap."""
        self._require_rows()
        if self._phi is None and self.explicit:
            self._phi = checks.read_only(self._features())
        return self._phi

    def in_parts(self) -> BlockFeatures:
        """Return the features of an explicit kernel, which come in blocks where the rows do.

        Those are made of the rows where they are, each time they are asked for, unless `stored`.
        """
        if self._in_parts is None:
            self._in_parts = self._blocked_features() if self._data.blocked \
                else held(cast(Array, self.features()), self._data.owner)
        return self._in_parts

    def stored(self) -> BlockFeatures:
        """Return the same, after features of blocks were written to a file."""
        if self._data.blocked and not self._is_stored:
            self._is_stored, self._in_parts = True, None
            self._store()
        return self.in_parts()

    def features_of(self, rows: Any) -> Array:
        """Return the features of rows that were checked."""
        return self._mapped(self._accept(rows))

    def _blocked_features(self) -> BlockFeatures:
        zero = np.zeros(cast(int, self.feature_count))
        scaling = Scaling(self._data.owner, zero, zero, fitted=self)
        return BlockFeatures.known(self._data.X, self._data.owner, scaling=scaling)

    def _store(self) -> None:
        """Let the features of blocks be rows of a file."""
        made, owner = self._blocked_features(), self._data.owner
        rows = Scratch(made.each(_array_of), (self.n, made.d), owner)
        self._in_parts = BlockFeatures.known(rows, owner)

    def _require_rows(self) -> None:
        """Refuse what needs all rows where they come in blocks."""
        if self._data.blocked:
            raise all_rows_needed(self._data.owner, self.n)

    def new_features(self, X_new: Any) -> Array | None:
        """Return the features (m, r) of new rows, or None when `features` is None."""
        A = self._accept(self._data.rows(X_new))
        return self._mapped(A) if self.explicit else None

    def accuracy(self) -> tuple[float, float]:
        """Return bounds on the rounding of an entry of the training kernel, and on an entry.

        To first order in the unit round-off. A common error of all entries of a row or column, as
        of a mean that is taken away, is left out of what is centred: centring takes it away again.
        Of an approximation, such as by landmarks, the features as computed are the kernel.
        """
        largest = float(np.abs(self.diagonal()).max())
        count = self.feature_count if self.explicit else self.n
        return ((float(count or 1) + 2.0) * UNIT * largest
                + 2.0 * np.sqrt(largest) * self.feature_error()), largest

    def feature_error(self) -> float:
        """Return a bound on the error of a row of features, beyond the rounding of its entries."""
        return 0.0

    def rows(self, index: Any, columns: Any = slice(None)) -> Array:
        """Return some rows of the training kernel, or of some of its columns."""
        self._require_rows()
        return self._rows(self._data.X[index], columns)

    def diagonal(self) -> Array:
        """Return the diagonal of the training kernel."""
        self._require_rows()
        if self.explicit:
            return squares(cast(Array, self.features()))
        X, out = self._data.X, np.empty(self.n)
        for s in range(0, self.n, STRIP):
            part = slice(s, min(s + STRIP, self.n))
            out[part] = np.diagonal(self._rows(X[part], part))
        return out

    def self_values(self, X_new: Any) -> Array:
        """Return k(x, x) for new rows."""
        return self._own(self.accept(X_new))

    def _own(self, A: Any) -> Array:
        """k(x, x) for checked rows."""
        return squares(self._mapped(A))

    def accept(self, X_new: Any) -> Any:
        """Check new rows, for `against` and `placed`."""
        return self._accept(self._data.rows(X_new))

    def against(self, A: Any, index: Any) -> Array:
        """Return the kernel of accepted rows against some of the training rows."""
        return self._rows(A, index)

    def gaussian(self) -> tuple[Array, float] | None:
        """Return the points as columns (d, n) and gamma, for a Gaussian kernel of dense rows."""
        return None

    def placed(self, A: Any) -> Array:
        """Return accepted rows in the coordinates of `gaussian`."""
        return cast(Array, self._map(A))

    def formula(self) -> str:
        """Return the kernel of x and z as plain mathematics."""
        return self.kernel._show(1)

    def latex(self) -> str:
        """Return the kernel of x and z in LaTeX."""
        text = re.sub(r"\^(\d+)", r"^{\1}", self.formula())
        for plain, tex in _TEX.items():
            text = text.replace(plain, tex)
        return text

    def _accept(self, A: Any) -> Any:
        """Let every part refuse rows it cannot take."""
        for part in self._parts:
            part._accept(A)
        return A

    def _rows(self, A: Any, R: Any = slice(None), own: bool = False) -> Array:
        """Return checked rows against the training rows R; ``own``: R starts with these rows."""
        if not self.explicit:
            return self._cross(A, R, own)
        if not isinstance(R, slice):
            return self._mapped(A) @ self._mapped(self._data.take(R)).T
        Phi = cast(Array, self.features())[R]
        return (Phi[:A.shape[0]] if own else self._mapped(A)) @ Phi.T

    def _features(self) -> Array:
        return self._mapped(self._data.X)

    def _mapped(self, A: Any) -> Array:
        out = np.empty((0, 0))
        for s, t in chunks(A.shape[0]):
            F = self._map(A[s:t])
            out = out if s else np.empty((A.shape[0], F.shape[1]))
            out[s:t] = F
        return out

    def _map(self, A: Any) -> Any:
        raise NotImplementedError

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        raise NotImplementedError


@fits(Linear, Polynomial, Gaussian, Laplacian, Cosine)
class _Leaf(FittedKernel):
    """A kernel of inner products or of distances."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self._metric = {Gaussian: "l2", Laplacian: "l1"}.get(type(kernel), "")
        if self._metric == "l1" and data.sparse:
            raise DataError(f"{data.owner}: the Laplacian kernel does not take sparse X; Linear, "
                            "Polynomial, Gaussian and Cosine do, or pass X.toarray().")
        self.psd = not isinstance(kernel, Polynomial) or kernel.coef0 >= 0
        self.explicit = (isinstance(kernel, Linear | Cosine) and not data.sparse
                          and data.d < data.n)
        self._gamma = self._rate(kernel, data) if self._metric else 0.0
        self._apart = self._metric == "l1" or (self._metric == "l2" and (
            float(data.n) ** 2 * data.d <= CHEAP * (0.01 if data.sparse else 1.0)
            or self._gamma * data.radius >= FAR))
        if not data.blocked:  # of blocks each is looked at in its turn
            self._accept(data.X)
        if isinstance(kernel, Polynomial):
            self._require_range(kernel)

    def _require_range(self, kernel: Polynomial) -> None:
        """Refuse rows of which the power is no float."""
        size, power = self._data.largest + abs(kernel.coef0), kernel.degree
        exponent = power * float(np.log10(size)) if size > 0.0 else 0.0
        if abs(exponent) > RANGE:
            raise DataError(f"{self._data.owner}: the kernel {self.kernel!r} of rows of length "
                            f"{np.sqrt(self._data.largest):.3g} has entries of about "
                            f"1e{exponent:.0f}, which {'over' if exponent > 0 else 'under'}flow; "
                            f"divide X by {np.sqrt(self._data.largest):.0e}.")

    def accuracy(self) -> tuple[float, float]:
        kernel, d = self.kernel, self._data.d
        if self._metric:  # x e^-x <= .37, and gamma itself is rounded
            products = 0.0 if self._apart else 4 * self._gamma * self._data.radius
            return UNIT * (1 + 0.37 * (3 * d + 14) + (d + 6) * products), 1.0
        if isinstance(kernel, Cosine):
            return UNIT * (2 * d + 6), 1.0
        size, power = self._data.largest, 1
        if isinstance(kernel, Polynomial):
            size, power = size + abs(kernel.coef0), kernel.degree
        return power * (d + 4) * UNIT * size**power, size**power

    def _rate(self, kernel: Any, data: Data) -> float:
        """Gamma of a Gaussian or Laplacian kernel, however it was given."""
        if kernel.gamma is not None:
            return float(kernel.gamma)
        with np.errstate(over="ignore", divide="ignore"):
            if kernel.width is None:
                rate = float(0.5 / np.float64(kernel.sigma)**2)
            else:
                power = 2 if self._metric == "l2" else 1
                rate = float(1 / np.float64(kernel.width * data.diameter(self._metric))**power)
        if not 0.0 < rate < np.inf:
            raise DataError(f"{data.owner}: {kernel!r} is of a scale whose square no float holds; "
                            "give a width between .01 and 100, or a sigma near the distances in X.")
        return rate

    def _accept(self, A: Any) -> Any:
        for s, t in chunks(A.shape[0]) if isinstance(self.kernel, Cosine) else ():
            zero = np.flatnonzero(squares(A[s:t].astype(np.float64)) == 0)
            if zero.size:
                row = "a row" if self._data.blocked else f"row {s + zero[0]}"
                raise DataError(f"{self._data.owner}: {row} of X is all zero, so it has no angle "
                                "to the others (Cosine); drop such rows.")
        return A

    def _map(self, A: Any) -> Any:
        A = A.astype(np.float64, copy=False)
        if self._metric and not self._data.sparse and not self._apart:
            return A - self._data.mean
        if isinstance(self.kernel, Cosine):
            scale = 1 / np.sqrt(squares(A))[:, None]
            return A.multiply(scale).tocsr() if self._data.sparse else A * scale
        return A

    def _blocked_features(self) -> BlockFeatures:
        if isinstance(self.kernel, Linear):
            return BlockFeatures.known(self._data.X, self._data.owner)
        return super()._blocked_features()

    def _store(self) -> None:
        if not isinstance(self.kernel, Linear):  # whose features are the rows
            super()._store()

    def feature_error(self) -> float:
        return (self._data.d + 4) * UNIT if isinstance(self.kernel, Cosine) else 0.0

    def _own(self, A: Any) -> Array:
        if self._metric or isinstance(self.kernel, Cosine):
            return np.ones(A.shape[0])
        own = squares(A.astype(np.float64))
        if isinstance(self.kernel, Polynomial):
            own = (own + self.kernel.coef0)**self.kernel.degree
        return own

    def gaussian(self) -> tuple[Array, float] | None:
        if not isinstance(self.kernel, Gaussian) or self._data.sparse:
            return None
        return np.ascontiguousarray(self._map(self._data.X).T), self._gamma

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        Q, out = self._map(self._data.take(R)), np.empty((0, 0))
        q = squares(Q)
        for s, t in chunks(A.shape[0]):
            K = self._block(self._map(A[s:t]), Q, q)
            out = out if s else K if t == A.shape[0] else np.empty((A.shape[0], Q.shape[0]))
            out[s:t] = K
        if own and self._metric:
            np.fill_diagonal(out, 1.0)
        return out

    def _block(self, P: Any, Q: Any, q: Array) -> Array:
        if self._metric:
            K = differences(self._metric, P, Q) if self._apart else distances(P, Q, q)
            with np.errstate(over="ignore", under="ignore"):  # far apart is 0
                for s in range(0, len(K), STRIP):
                    strip = K[s:s + STRIP]
                    strip *= -self._gamma
                    np.exp(strip, out=strip)
            return K
        K = dot(P, Q)
        if isinstance(self.kernel, Polynomial):
            K += self.kernel.coef0
            base = K.copy()
            for _ in range(self.kernel.degree - 1):
                K *= base
        return K


@fits(Precomputed)
class _Given(FittedKernel):
    """A kernel matrix that the caller computed."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self.psd, K, owner = bool(kernel.clip), data.X, data.owner
        if data.n != data.d:
            raise DataError(f"{owner}: a precomputed kernel must be a square matrix; got shape "
                            f"{K.shape}. Give the matrix of kernel values as X, such as X @ X.T.")
        worst = max(float(np.abs(self._cross(K[s:t]) - K[:, s:t].T).max())
                    for s, t in chunks(data.n))
        if worst > 1e-8 * max(abs(float(K.max())), abs(float(K.min()))):
            raise DataError(f"{owner}: a precomputed kernel must be symmetric; its largest "
                            f"asymmetry is |K - K'| = {worst:.3g}; pass (K + K.T) / 2.")

    def matrix(self) -> Array:
        K = super().matrix()
        if not cast(Precomputed, self.kernel).clip:
            return K
        w, V = np.linalg.eigh(K)
        root = V * np.sqrt(np.maximum(w, 0.0))
        return np.asarray(root @ root.T)

    def accuracy(self) -> tuple[float, float]:
        largest = max(abs(float(self._data.X.max())), abs(float(self._data.X.min())))
        clipped = 8 * self.n * UNIT * largest if cast(Precomputed, self.kernel).clip else 0.0
        return clipped, largest

    def _own(self, A: Any) -> Array:
        raise DataError(f"{self._data.owner}: rows of a precomputed kernel do not hold k(x, x) of "
                        "new samples, which this needs; use a kernel of features.")

    def _cross(self, A: Any, R: Any = slice(None), own: bool = False) -> Array:
        return np.array(A[:, R], dtype=np.float64)


@fits(Sum, Product)
class _Pair(FittedKernel):
    """A sum or a product of two kernels."""

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        self.explicit &= isinstance(kernel, Sum)
        self._join: Any = np.add if isinstance(kernel, Sum) else np.multiply

    def accuracy(self) -> tuple[float, float]:
        (e, a), (f, b) = (part.accuracy() for part in self._parts)
        if isinstance(self.kernel, Sum):
            return e + f + UNIT * (a + b), a + b
        return e * b + f * a + UNIT * a * b, a * b

    def feature_error(self) -> float:
        return sum(part.feature_error() for part in self._parts)

    def _map(self, A: Any) -> Array:
        return np.hstack([part._map(A) for part in self._parts])

    def _own(self, A: Any) -> Array:
        left, right = (part._own(A) for part in self._parts)
        return cast(Array, self._join(left, right))

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        left, right = (part._rows(A, R, own) for part in self._parts)
        return cast(Array, self._join(left, right, out=left))


@fits(Scaled, Centered, Normalized)
class _Affine(FittedKernel):
    """Scaled, centred or normalised: c (K_ij - h_i - h_j), or the features sqrt(c) (F - h)."""

    _learned: tuple[Any, float, float] | None = None
    _rest: Any = 0.0  # what the mean of features has lost of its digits, far from zero

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        # The linear kernel of centred rows keeps the digits that K_ij - h_i - h_j loses.
        self._plain = isinstance(kernel, Centered) and isinstance(kernel.inner, Linear) \
            and not data.sparse and not self.explicit

    def _moved(self, A: Any) -> Array:
        """Rows less the mean of the training rows."""
        return np.asarray(A, dtype=np.float64) - self._data.mean - self._data.rest

    def _learn(self, T: Array | None = None) -> tuple[Any, float, float]:
        """Return h, half the mean of K, and c, from the inner training features or matrix T."""
        if self._learned is None and isinstance(self.kernel, Scaled):
            self._learned = 0.0, 0.0, self.kernel.factor
        if self._learned is None:
            inner, explicit = self._parts[0], self.explicit
            if explicit:
                parts = inner.in_parts() if T is None else held(T, self._data.owner)
                self._learned = self._learn_from(parts)
                return self._learned
            T = inner.matrix() if T is None else T
            if isinstance(self.kernel, Normalized):
                self._learned = 0.0, 0.0, self.n / self._positive(float(np.trace(T)))
            else:
                mean = T.mean(axis=1)
                half = float(mean.mean() / 2)
                self._learned = mean - half, half, 1.0
        return self._learned

    def _learn_from(self, inner: BlockFeatures) -> tuple[Any, float, float]:
        """The same from features."""
        if isinstance(self.kernel, Normalized):
            return 0.0, 0.0, self.n / self._positive(float(inner.total_of(_square)[0]))
        mean = inner.total_of(row_sum)[0] / self.n
        self._rest = inner.total_of(_sum_about, mean)[0] / self.n
        return mean, 0.0, 1.0

    def _positive(self, trace: float) -> float:
        """The trace of the training kernel, which is divided by."""
        if not trace > 0:
            raise DataError(f"{self._data.owner}: normalized() divides by the trace of the "
                            f"training kernel, which is {trace:.3g}; it must be above 0.")
        return trace

    def _blocked_features(self) -> BlockFeatures:
        h, _, c = self._learn()
        return self._parts[0].in_parts().moved(h, self._rest, float(np.sqrt(c)))

    def _store(self) -> None:
        self._parts[0].stored()

    def accuracy(self) -> tuple[float, float]:
        if self.explicit and isinstance(self.kernel, Centered):  # before its entries cancel
            return super().accuracy()
        if self._plain:
            largest = max(float(squares(self._moved(self._data.X[s:t])).max())
                          for s, t in chunks(self.n))
            return (self._data.d + 4) * UNIT * largest, largest
        error, size = self._parts[0].accuracy()
        if isinstance(self.kernel, Centered):
            return error + (2 * np.log2(self.n) + 8) * UNIT * size, 4 * size
        c = self._learn()[2]
        if isinstance(self.kernel, Normalized):  # the trace has the error of its entries
            error += (error * c + 4 * UNIT) * size
        return c * error + 2 * UNIT * c * size, c * size

    def feature_error(self) -> float:
        error = 2.0 * float(np.sqrt(self._learn()[2])) * self._parts[0].feature_error()
        if isinstance(self.kernel, Centered):
            return error
        return error + 2.0 * UNIT * float(np.sqrt(self.in_parts().longest))

    def _map(self, A: Any) -> Any:
        h, _, c = self._learn()
        return (self._parts[0]._map(A) - h - self._rest) * np.sqrt(c)

    def _features(self) -> Array:
        F = self._parts[0]._features()
        h, _, c = self._learn(F)
        F -= h
        F -= self._rest
        F *= np.sqrt(c)
        return F

    def _own(self, A: Any) -> Array:
        if self.explicit:
            return super()._own(A)
        (inner,), (_, half, c) = self._parts, self._learn()
        if not isinstance(self.kernel, Centered):
            return c * inner._own(A)
        mean = np.concatenate([inner._rows(A[s:t]).mean(axis=1) for s, t in chunks(A.shape[0])])
        return inner._own(A) - 2.0 * mean + 2.0 * half

    def matrix(self) -> Array:
        if self.explicit:
            return super().matrix()
        if self._plain:
            F = self._moved(self._data.X)
            return _mirror(self.n, lambda s, t: F[s:t] @ F[s:].T)
        K = self._parts[0].matrix()
        h, _, c = self._learn(K)
        for s, t in chunks(self.n):
            if isinstance(self.kernel, Centered):
                K[s:t] -= h[s:t, None] + h  # one symmetric term keeps K exactly symmetric
            K[s:t] *= c
        return K

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        if self._plain:
            return np.asarray(self._moved(A) @ self._moved(self._data.X[R]).T)
        h, half, c = self._learn()
        if not isinstance(self.kernel, Centered):
            K = self._parts[0]._rows(A, R, own)
            K *= c
            return K
        K = self._parts[0]._rows(A)
        for s, t in chunks(len(K)):
            K[s:t] -= (K[s:t].mean(axis=1) - half)[:, None] + h
        return K[:, R]
