"""Kernels: small descriptions that combine with ``+``, ``*`` and a number, and are fitted to data.

>>> kernel = Gaussian(width=0.5) + 0.3 * Polynomial(degree=2)
>>> kernel
Gaussian(width=0.5) + 0.3 * Polynomial(degree=2, coef0=1.0)
>>> fitted = kernel.centered().normalized().fit([[0.0, 1.0], [2.0, 1.0], [4.0, 3.0]])
>>> fitted.matrix().shape, bool(abs(fitted.matrix().trace() - 3) < 1e-12)
((3, 3), True)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, SupportsFloat, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt import checks
from mmcopt.checks import hyper
from mmcopt.errors import DataError, ParameterError

Array = NDArray[np.float64]
_BLOCK, _STRIP = 1024, 16  # rows worked on at a time, in memory and in the cache
_EXACT, _SAMPLE = 10_000, 5_000  # largest n for an exact dmax; rows sampled beyond it
_POSITIVE = checks.real(0, open_low=True)
_TEX = {"x'z": r"x^\top z", "|x-z|": r"\|x-z\|", "|x| |z|": r"\|x\| \|z\|", "exp": r"\exp",
        "dmax": r"d_{\max}", "center": r"\mathrm{center}", "normalize": r"\mathrm{normalize}",
        "nystroem": r"\mathrm{nystroem}", " * ": r" \cdot "}

# ---------------------------------------------------------------- descriptions


@dataclass(frozen=True, repr=False)
class Kernel:
    """A kernel not yet fitted to data: frozen, comparable, hashable, printed as the code it is."""

    __array_ufunc__ = None  # so that np.float64(2) * kernel reaches __rmul__
    _level: ClassVar[int] = 2  # 0 a sum, 1 a product, 2 anything that needs no parentheses
    # Templates of the code (None: the constructor) and of the formula; a dict: one parameter only.
    _styles: ClassVar[Any] = (None, "k(x, z)")

    def __post_init__(self) -> None:
        """Check the parameters and turn NumPy numbers into Python ones."""
        checks.check_fields(self)
        given = self._given()
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Real):
                object.__setattr__(self, f.name, (int if f.type == "int" else float)(float(value)))
        if isinstance(self._styles, dict) and len(given) != 1:
            raise ParameterError(f"{type(self).__name__}: give exactly one of "
                                 f"{', '.join(self._styles)}; got {' and '.join(given) or 'none'}.")

    def __add__(self, other: Kernel) -> Kernel:
        """Add two kernels."""
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | SupportsFloat) -> Kernel:
        """Multiply by a kernel, entry by entry, or by a finite number above 0."""
        return Product(self, other) if isinstance(other, Kernel) else self.__rmul__(other)

    def __rmul__(self, factor: SupportsFloat) -> Kernel:
        """Multiply by a finite number above 0."""
        return Scaled(self, cast(float, factor)) if isinstance(factor, Real) else NotImplemented

    def centered(self) -> Kernel:
        """Subtract the training mean in feature space (after `nystroem`, when n is large)."""
        return Centered(self)

    def normalized(self) -> Kernel:
        """Scale so that the training kernel has mean diagonal 1 (K n / tr K)."""
        return Normalized(self)

    def nystroem(self, rank: int, seed: int = 0) -> Kernel:
        """Approximate by ``rank`` landmark rows, drawn from ``numpy.random.default_rng(seed)``."""
        return Nystroem(self, rank, seed)

    def fit(self, X: Any, *, owner: str = "") -> FittedKernel:
        """Check X (n, d), or the (n, n) matrix for `Precomputed`, and learn what new rows need.

        ``owner`` is the name that error messages begin with. X is viewed, neither copied nor
        changed, so it must not be changed afterwards either.
        """
        owner = owner or type(self).__name__
        given = [isinstance(leaf, Precomputed) for leaf in self._leaves()]
        if any(given) and not all(given):
            raise ParameterError(f"{owner}: Precomputed() reads a kernel matrix and cannot be "
                                 f"combined with kernels that read features; got {self!r}.")
        return _fit(self, _Data(checks.data_matrix(X, owner=owner, sparse=not any(given)), owner))

    def as_dict(self) -> dict[str, Any]:
        """Describe the kernel by names and numbers that JSON can hold."""
        values = {k: v.as_dict() if isinstance(v, Kernel) else v for k, v in self._given().items()}
        return {"kernel": type(self).__name__, **values}

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Kernel:
        """Rebuild a kernel from `as_dict`; names are looked up in a closed table."""
        table = {cls.__name__: cls for cls in _FITTED}
        values = {k: Kernel.from_dict(v) if isinstance(v, dict) else v for k, v in d.items()}
        name = values.pop("kernel", None)
        if not isinstance(name, str) or name not in table:
            raise ParameterError(f"from_dict: kernel must be one of {', '.join(table)}; "
                                 f"got {name!r}.")
        try:
            return table[name](**values)
        except TypeError as e:
            raise ParameterError(f"from_dict: {name} cannot be built from {values} ({e}).") from e

    def __repr__(self) -> str:
        """Print the code that builds the kernel."""
        return self._show(0)

    def _given(self) -> dict[str, Any]:
        named = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in named if value is not None}

    def _inner(self) -> list[Kernel]:
        return [v for v in self._given().values() if isinstance(v, Kernel)]

    def _leaves(self) -> Iterator[Kernel]:
        for part in self._inner():
            yield from part._leaves()
        if not self._inner():
            yield self

    def _show(self, style: int) -> str:
        """Write as code (0) or formula (1), with no more parentheses than are needed."""
        values, styles = self._given(), self._styles
        template = (styles[next(iter(values))] if isinstance(styles, dict) else styles)[style]
        if template is None:
            return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in values.items())})"
        for name, v in values.items():
            if isinstance(v, Kernel):
                need = 0 if style and self._level == 2 else self._level + (name != "left")
                text = v._show(style)
                values[name] = f"({text})" if v._level < min(need, 2) else text
        return str(template % values).replace("+ -", "- ")


_KERNEL = checks.instance(Kernel)


class Linear(Kernel):
    """The inner product x'z."""

    _styles = (None, "x'z")


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """The polynomial (x'z + coef0)^degree, computed in floats for every type of data."""

    degree: int = hyper(3, checks.integer(1), "the exponent")
    coef0: float = hyper(1.0, checks.real(), "the constant; below 0 it may be indefinite")
    _styles = (None, "(x'z + %(coef0)g)^%(degree)d")


@dataclass(frozen=True, repr=False, kw_only=True)
class Gaussian(Kernel):
    """The Gaussian of the distance d, by exactly one of ``gamma``, ``sigma`` and ``width``.

    ``gamma=g`` is exp(-g d^2), ``sigma=s`` exp(-d^2 / (2 s^2)), ``width=w`` exp(-d^2 / (w dmax)^2)
    with dmax the largest distance in the training data (of 5000 sampled rows when n > 10000).
    """

    gamma: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-gamma d^2)")
    sigma: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-d^2 / (2 sigma^2))")
    width: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-d^2 / (width dmax)^2)")
    _styles = {"gamma": (None, "exp(-%(gamma)g |x-z|^2)"),
               "sigma": (None, "exp(-|x-z|^2 / (2 (%(sigma)g)^2))"),
               "width": (None, "exp(-|x-z|^2 / (%(width)g dmax)^2)")}


@dataclass(frozen=True, repr=False, kw_only=True)
class Laplacian(Kernel):
    """The Laplacian of the l1 distance d: exp(-gamma d), or exp(-d / (width dmax)), dmax in l1."""

    gamma: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-gamma d)")
    width: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-d / (width dmax))")
    _styles = {"gamma": (None, "exp(-%(gamma)g |x-z|_1)"),
               "width": (None, "exp(-|x-z|_1 / (%(width)g dmax))")}


class Cosine(Kernel):
    """The cosine of the angle between two rows, none of which may be all zero."""

    _styles = (None, "x'z / (|x| |z|)")


class Precomputed(Kernel):
    """A kernel matrix given in place of the data; new rows are their (m, n) kernel values."""

    _styles = (None, "K[x, z]")


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """The sum of two kernels."""

    left: Kernel = hyper(None, _KERNEL, "first part")
    right: Kernel = hyper(None, _KERNEL, "second part")
    _level, _styles = 0, ("%(left)s + %(right)s",) * 2


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """The product of two kernels, entry by entry."""

    left: Kernel = hyper(None, _KERNEL, "first part")
    right: Kernel = hyper(None, _KERNEL, "second part")
    _level, _styles = 1, ("%(left)s * %(right)s",) * 2


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """A kernel times a finite number above 0."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    factor: float = hyper(1.0, _POSITIVE, "the number")
    _level, _styles = 1, ("%(factor)r * %(inner)s", "%(factor)g %(inner)s")


@dataclass(frozen=True, repr=False)
class Centered(Kernel):
    """A kernel after the training mean is subtracted in feature space."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    _styles = ("%(inner)s.centered()", "center(%(inner)s)")


@dataclass(frozen=True, repr=False)
class Normalized(Kernel):
    """A kernel scaled so that its training matrix has mean diagonal 1."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    _styles = ("%(inner)s.normalized()", "normalize(%(inner)s)")


@dataclass(frozen=True, repr=False)
class Nystroem(Kernel):
    """A kernel seen through ``rank`` landmark rows R: K_nR K_RR^+ K_Rn."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    rank: int = hyper(100, checks.integer(1), "number of landmark rows")
    seed: int = hyper(0, checks.integer(0), "seed of the draw without replacement")
    _styles = ("%(inner)s.nystroem(rank=%(rank)d, seed=%(seed)d)",
               "nystroem(%(inner)s; rank %(rank)d)")


def as_kernel(obj: Any) -> Kernel:
    """Return a kernel as it is, or the kernel of a name: "gaussian" is `Gaussian(width=1)`."""
    names = {"linear": Linear(), "gaussian": Gaussian(width=1), "cosine": Cosine(),
             "precomputed": Precomputed()}
    if isinstance(obj, Kernel):
        return obj
    if isinstance(obj, str) and obj in names:
        return names[obj]
    raise ParameterError("kernel must be a kernel of mmcopt.kernels, such as Gaussian(width=1), or "
                         f"one of {', '.join(map(repr, names))}; got {obj!r}.")


# ---------------------------------------------------------------- data


def _chunks(n: int) -> Iterator[tuple[int, int]]:
    return ((s, min(s + _BLOCK, n)) for s in range(0, n, _BLOCK))


def _mirror(n: int, block: Callable[[int, int], Array]) -> Array:
    """Build a symmetric matrix from ``block(s, t)``, its rows s:t from column s on."""
    K = np.empty((n, n))
    for s, t in _chunks(n):
        K[s:t, s:] = block(s, t)
        i, j = np.tril_indices(t - s, -1)
        K[s + i, s + j] = K[s + j, s + i]
        K[t:, s:t] = K[s:t, t:].T
    return K


def _dot(P: Any, Q: Any) -> Array:
    """Return the inner products of the rows of P and Q, dense or both sparse."""
    return cast(Array, (P @ Q.T).toarray() if checks.is_sparse(P) else P @ Q.T)


def _squares(P: Any) -> Array:
    """Return the squared norm of each row of floats."""
    if checks.is_sparse(P):
        return np.asarray(P.multiply(P).sum(axis=1), dtype=np.float64).ravel()
    return cast(Array, np.einsum("ij,ij->i", P, P))


def _distances(metric: str, P: Any, Q: Any, q: Array) -> Array:
    """Return the squared l2, or the l1, distances between the rows of P and Q; q = |Q|^2."""
    if metric == "l1":
        from scipy.spatial.distance import cdist
        return cast(Array, cdist(P, Q, "cityblock"))
    D, p = _dot(P, Q), _squares(P)
    for s in range(0, len(D), _STRIP):  # a strip of rows that stays in the cache
        strip = D[s:s + _STRIP]
        strip *= -2.0
        strip += q
        strip += p[s:s + _STRIP, None]
        np.maximum(strip, 0.0, out=strip)
    return D


class _Data:
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
        p = _squares(P)
        best = max(float(_distances(metric, P[s:t], P[s:], p[s:]).max())
                   for s, t in _chunks(P.shape[0]))
        return float(np.sqrt(best)) if metric == "l2" else best


# ---------------------------------------------------------------- fitted kernels


class FittedKernel:
    """A kernel with its training rows and all that new rows need; made by `Kernel.fit`."""

    psd: bool  # positive semidefinite by construction; False when it has to be checked
    _explicit: bool  # whether a feature map is cheap

    def __init__(self, kernel: Any, data: _Data) -> None:
        self.kernel: Kernel = kernel
        self.n, self.n_features = data.n, data.d
        self._data, self._phi = data, cast("Array | None", None)
        self._parts = [_fit(part, data) for part in kernel._inner()]
        self.psd = all(part.psd for part in self._parts)
        self._explicit = bool(self._parts) and all(part._explicit for part in self._parts)

    def matrix(self) -> Array:
        """Return the training kernel (n, n), exactly symmetric, in a new array."""
        Phi = self.features()
        if Phi is not None:
            return _mirror(self.n, lambda s, t: Phi[s:t] @ Phi[s:].T)
        X = self._data.X
        return _mirror(self.n, lambda s, t: self._rows(X[s:t], slice(s, None), own=True))

    def cross(self, X_new: Any) -> Array:
        """Return the kernel (m, n) of new rows against the training rows."""
        return self._rows(self._accept(self._data.rows(X_new)))

    def features(self) -> Array | None:
        """Return Phi (n, r) with K = Phi Phi', read-only, or None when none is cheap."""
        if self._phi is None and self._explicit:
            self._phi = checks.read_only(self._features())
        return self._phi

    def new_features(self, X_new: Any) -> Array | None:
        """Return the features (m, r) of new rows, or None when `features` is None."""
        A = self._accept(self._data.rows(X_new))
        return self._mapped(A) if self._explicit else None

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
        if not self._explicit:
            return self._cross(A, R, own)
        if not isinstance(R, slice):
            return self._mapped(A) @ self._mapped(self._data.X[R]).T
        Phi = cast(Array, self.features())[R]
        return (Phi[:A.shape[0]] if own else self._mapped(A)) @ Phi.T

    def _features(self) -> Array:
        return self._mapped(self._data.X)

    def _mapped(self, A: Any) -> Array:
        out = np.empty((0, 0))
        for s, t in _chunks(A.shape[0]):
            F = self._map(A[s:t])
            out = out if s else np.empty((A.shape[0], F.shape[1]))
            out[s:t] = F
        return out

    def _map(self, A: Any) -> Any:
        raise NotImplementedError

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        raise NotImplementedError


class _Leaf(FittedKernel):
    """A kernel of inner products or of distances."""

    def __init__(self, kernel: Any, data: _Data) -> None:
        super().__init__(kernel, data)
        self._metric = {Gaussian: "l2", Laplacian: "l1"}.get(type(kernel), "")
        if self._metric == "l1" and data.sparse:
            raise DataError(f"{data.owner}: the Laplacian kernel does not take sparse X; Linear, "
                            "Polynomial, Gaussian and Cosine do, or pass X.toarray().")
        self.psd = not isinstance(kernel, Polynomial) or kernel.coef0 >= 0
        self._explicit = (isinstance(kernel, Linear | Cosine) and not data.sparse
                          and data.d < data.n)
        self._gamma = getattr(kernel, "gamma", None) or 0.0
        if getattr(kernel, "sigma", None) is not None:
            self._gamma = 0.5 / kernel.sigma**2
        elif getattr(kernel, "width", None) is not None:
            self._gamma = 1 / (kernel.width * data.diameter(self._metric))
            self._gamma **= 2 if self._metric == "l2" else 1
        self._accept(data.X)

    def _accept(self, A: Any) -> Any:
        for s, t in _chunks(A.shape[0]) if isinstance(self.kernel, Cosine) else ():
            zero = np.flatnonzero(_squares(A[s:t].astype(np.float64)) == 0)
            if zero.size:
                raise DataError(f"{self._data.owner}: row {s + zero[0]} of X is all zero, so it "
                                "has no angle to the others (Cosine); drop such rows.")
        return A

    def _map(self, A: Any) -> Any:
        A = A.astype(np.float64, copy=False)
        if self._metric and not self._data.sparse:
            return A - self._data.mean
        if isinstance(self.kernel, Cosine):
            scale = 1 / np.sqrt(_squares(A))[:, None]
            return A.multiply(scale).tocsr() if self._data.sparse else A * scale
        return A

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        Q, out = self._map(self._data.X[R]), np.empty((0, 0))
        q = _squares(Q)
        for s, t in _chunks(A.shape[0]):
            K = self._block(self._map(A[s:t]), Q, q)
            out = out if s else K if t == A.shape[0] else np.empty((A.shape[0], Q.shape[0]))
            out[s:t] = K
        if own and self._metric:
            np.fill_diagonal(out, 1.0)
        return out

    def _block(self, P: Any, Q: Any, q: Array) -> Array:
        if self._metric:
            K = _distances(self._metric, P, Q, q)
            for s in range(0, len(K), _STRIP):
                strip = K[s:s + _STRIP]
                strip *= -self._gamma
                np.exp(strip, out=strip)
            return K
        K = _dot(P, Q)
        if isinstance(self.kernel, Polynomial):
            K += self.kernel.coef0
            base = K.copy()
            for _ in range(self.kernel.degree - 1):
                K *= base
        return K


class _Given(FittedKernel):
    """A kernel matrix that the caller computed."""

    def __init__(self, kernel: Any, data: _Data) -> None:
        super().__init__(kernel, data)
        self.psd, K, owner = False, data.X, data.owner
        if data.n != data.d:
            raise DataError(f"{owner}: a precomputed kernel must be a square matrix; got shape "
                            f"{K.shape}.")
        worst = max(float(np.abs(self._cross(K[s:t]) - K[:, s:t].T).max())
                    for s, t in _chunks(data.n))
        if worst > 1e-8 * max(abs(float(K.max())), abs(float(K.min()))):
            raise DataError(f"{owner}: a precomputed kernel must be symmetric; its largest "
                            f"asymmetry is |K - K'| = {worst:.3g}; pass (K + K.T) / 2.")

    def _cross(self, A: Any, R: Any = slice(None), own: bool = False) -> Array:
        return np.array(A[:, R], dtype=np.float64)


class _Pair(FittedKernel):
    """A sum or a product of two kernels."""

    def __init__(self, kernel: Any, data: _Data) -> None:
        super().__init__(kernel, data)
        self._explicit &= isinstance(kernel, Sum)
        self._join: Any = np.add if isinstance(kernel, Sum) else np.multiply

    def _map(self, A: Any) -> Array:
        return np.hstack([part._map(A) for part in self._parts])

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        left, right = (part._rows(A, R, own) for part in self._parts)
        return cast(Array, self._join(left, right, out=left))


class _Affine(FittedKernel):
    """Scaled, centred or normalised: c (K_ij - h_i - h_j), or the features sqrt(c) (F - h)."""

    _learned: tuple[Any, float, float] | None = None

    def _learn(self, T: Array | None = None) -> tuple[Any, float, float]:
        """Return h, half the mean of K, and c, from the inner training features or matrix T."""
        if self._learned is None and isinstance(self.kernel, Scaled):
            self._learned = 0.0, 0.0, self.kernel.factor
        if self._learned is None:
            inner, explicit = self._parts[0], self._explicit
            if T is None:
                T = inner._features() if explicit else inner.matrix()
            if isinstance(self.kernel, Normalized):
                trace = float(_squares(T).sum() if explicit else np.trace(T))
                if not trace > 0:
                    raise DataError(f"{self._data.owner}: normalized() divides by the trace of the "
                                    f"training kernel, which is {trace:.3g}; it must be above 0.")
                self._learned = 0.0, 0.0, self.n / trace
            else:
                mean = T.mean(axis=0 if explicit else 1)
                half = 0.0 if explicit else float(mean.mean() / 2)
                self._learned = mean - half, half, 1.0
        return self._learned

    def _map(self, A: Any) -> Any:
        h, _, c = self._learn()
        return (self._parts[0]._map(A) - h) * np.sqrt(c)

    def _features(self) -> Array:
        F = self._parts[0]._features()
        h, _, c = self._learn(F)
        F -= h
        F *= np.sqrt(c)
        return F

    def matrix(self) -> Array:
        if self._explicit:
            return super().matrix()
        K = self._parts[0].matrix()
        h, _, c = self._learn(K)
        for s, t in _chunks(self.n):
            if isinstance(self.kernel, Centered):
                K[s:t] -= h[s:t, None] + h  # one symmetric term keeps K exactly symmetric
            K[s:t] *= c
        return K

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        h, half, c = self._learn()
        if not isinstance(self.kernel, Centered):
            K = self._parts[0]._rows(A, R, own)
            K *= c
            return K
        K = self._parts[0]._rows(A)
        for s, t in _chunks(len(K)):
            K[s:t] -= (K[s:t].mean(axis=1) - half)[:, None] + h
        return K[:, R]


class _Landmarks(FittedKernel):
    """The Nystroem features K_xR (K_RR)^(-1/2), without the directions of no weight."""

    def __init__(self, kernel: Any, data: _Data) -> None:
        super().__init__(kernel, data)
        self.psd = self._explicit = True
        if kernel.rank > data.n:
            raise ParameterError(f"{data.owner}: nystroem rank must be at most the {data.n} rows "
                                 f"of X; got {kernel.rank}.")
        draw = np.random.default_rng(kernel.seed).choice(data.n, kernel.rank, replace=False)
        self._R = np.sort(draw)
        K = self._parts[0]._rows(data.X[self._R], self._R)
        w, V = np.linalg.eigh((K + K.T) / 2)
        keep = w > max(w[-1], 0.0) * len(w) * np.finfo(float).eps
        self._root = V[:, keep] / np.sqrt(w[keep])

    def _map(self, A: Any) -> Any:
        return self._parts[0]._rows(A, self._R) @ self._root


def _fit(kernel: Kernel, data: _Data) -> FittedKernel:
    return _FITTED[type(kernel)](kernel, data)


_FITTED: dict[type[Kernel], type[FittedKernel]] = {
    Linear: _Leaf, Polynomial: _Leaf, Gaussian: _Leaf, Laplacian: _Leaf, Cosine: _Leaf,
    Precomputed: _Given, Sum: _Pair, Product: _Pair, Scaled: _Affine, Centered: _Affine,
    Normalized: _Affine, Nystroem: _Landmarks,
}
