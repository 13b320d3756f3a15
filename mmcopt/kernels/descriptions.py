"""Descriptions of kernels: frozen, combined with ``+``, ``*`` and a number, printed as code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt import checks
from mmcopt.checks import hyper
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels.block_data import BlockData
from mmcopt.kernels.data import Data
from mmcopt.types import RowBlocks, Samples

if TYPE_CHECKING:
    from mmcopt.kernels.fitted import FittedKernel

Array = NDArray[np.float64]
_POSITIVE = checks.real(0, open_low=True)

# ---------------------------------------------------------------- descriptions


@dataclass(frozen=True, repr=False)
class Kernel:
    """A kernel not yet fitted to data: frozen, comparable, hashable, printed as the code it is."""

    __array_ufunc__ = None  # so that np.float64(2) * kernel reaches __rmul__
    _level: ClassVar[int] = 2  # 0 a sum, 1 a product, 2 anything that needs no parentheses
    # Templates of the code (None: the constructor) and of the formula; a dict: one parameter only.
    _styles: ClassVar[Any] = (None, "k(x, z)")
    _pairwise: ClassVar[bool] = False  # whether a value hangs on two rows and constants alone
    _mapped: ClassVar[str] = ""  # what features of a row are made of: it "alone", or of "inner"

    def __post_init__(self) -> None:
        """Check the parameters and turn NumPy numbers into Python ones."""
        checks.check_fields(self)
        given = self._given()
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Real) and not isinstance(value, bool):
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

    @checks.known_keywords
    def nystroem(self, rank: int, seed: int = 0) -> Kernel:
        """Approximate by ``rank`` landmark rows, drawn from ``numpy.random.default_rng(seed)``."""
        return Nystroem(self, rank, seed)

    def unit(self) -> Kernel:
        """Scale every sample to length 1 in feature space, which leaves the angles."""
        return Unit(self)

    def random_features(self, rank: int, seed: int = 0) -> Kernel:
        """Approximate a Gaussian or Laplacian kernel by ``rank`` random cosines and sines."""
        return RandomFeatures(self, rank, seed)

    def pca(self, share: float | None = None, rank: int = 0) -> Kernel:
        """Keep the leading eigenvectors of the training kernel that hold ``share`` of its trace.

        That is .95, or, where a ``rank`` above 0 says how many at most, all of it.
        """
        return Principal(self, (1.0 if rank else 0.95) if share is None else share, rank)

    def cholesky(self, share: float = 0.999, rank: int = 0) -> Kernel:
        """Approximate by an incomplete Cholesky factor that holds ``share`` of the trace."""
        return Pivoted(self, share, rank)

    def on(self, columns: Sequence[int]) -> Kernel:
        """Look at some columns of X only: a view of the data."""
        return Columns(self, tuple(int(c) for c in columns))

    def fit(self, X: Samples, *, owner: str = "", like: FittedKernel | None = None
            ) -> FittedKernel:
        """Check X (n, d), or the (n, n) matrix for `Precomputed`, and learn what new rows need.

        ``owner`` is the name that error messages begin with. X is viewed, neither copied nor
        changed, so it must not be changed afterwards either; rows in blocks stay where they are. Of
        ``like``, a kernel fitted to the same X, the parts are taken over that belong to this one,
        too.
        """
        owner = owner or type(next(iter(self._leaves()))).__name__  # the one that was written
        given = [isinstance(leaf, Precomputed) for leaf in self._leaves()]
        if any(given) and not all(given):
            raise ParameterError(f"{owner}: Precomputed() reads a kernel matrix and cannot be "
                                 f"combined with kernels that read features; got {self!r}.")
        if isinstance(X, RowBlocks):
            return self._fit_blocks(X, owner)
        data = Data(checks.data_matrix(X, owner=owner, sparse=not any(given)), owner)
        if like is not None:
            data.fits = like.parts_on(data.X)
        return fitted(self, data)

    def _fit_blocks(self, X: RowBlocks, owner: str) -> FittedKernel:
        """The same of rows in blocks."""
        self.require_blocks(owner)
        made = fitted(self, BlockData(X, owner))
        if not made.explicit:
            raise DataError(f"{owner}: {self!r} has features of its own where rows are dense and "
                            f"more than the columns; these come in blocks, {X.shape[0]} x "
                            f"{X.shape[1]}, and are not; {WAY_OUT}.")
        return made

    def require_blocks(self, owner: str) -> None:
        """Refuse rows in blocks where some part needs all of them at once."""
        wrong = self.blocking()
        if wrong is not None:
            raise DataError(f"{owner}: {wrong!r} needs all rows at once, and they come in blocks; "
                            f"{WAY_OUT}.")

    def blocking(self) -> Kernel | None:
        """The part whose features of a row hang on all others, so that rows must not be in blocks.

        None where there is none: means and landmarks are learned by looks at all blocks.
        """
        if self._mapped == "alone":
            return None
        parts = [part.blocking() for part in self._inner()] if self._mapped else [self]
        return next((part for part in parts if part is not None), None)

    @property
    def reads_matrix(self) -> bool:
        """Whether the data it is fitted to are a kernel matrix."""
        return any(isinstance(leaf, Precomputed) for leaf in self._leaves())

    def as_dict(self) -> dict[str, Any]:
        """Describe the kernel by names and numbers that JSON can hold."""
        values = {k: v.as_dict() if isinstance(v, Kernel) else v for k, v in self._given().items()}
        return {"kernel": type(self).__name__, **values}

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Kernel:
        """Rebuild a kernel from `as_dict`; names are looked up in a closed table."""
        table = {cls.__name__: cls for cls in _FITS}
        values = {k: Kernel.from_dict(v) if isinstance(v, dict) else v for k, v in d.items()}
        name = values.pop("kernel", None)
        if not isinstance(name, str) or name not in table:
            raise ParameterError(f"from_dict: kernel must be one of {', '.join(table)}; "
                                 f"got {checks.shown(name)}.")
        try:
            return table[name](**values)
        except TypeError as e:
            raise ParameterError(f"from_dict: {name} cannot be built from "
                                 f"{checks.shown(values)} ({e}).") from e

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

    def _within(self) -> Iterator[Kernel]:
        """What it is made of, without itself."""
        for part in self._inner():
            yield part
            yield from part._within()

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
_FITS: dict[type[Kernel], Callable[[Any, Data], FittedKernel]] = {}
F = TypeVar("F", bound="type[FittedKernel]")
WAY_OUT = ("take landmarks, kernel.nystroem(500), or Linear(), or solve on a sample of rows and "
           "predict the blocks")


def fits(*kinds: type[Kernel]) -> Callable[[F], F]:
    """Say which kernels a class of fitted ones is for; `mmcopt.kernels` imports them all."""
    def register(cls: F) -> F:
        _FITS.update(dict.fromkeys(kinds, cls))
        return cls

    return register


def fitted(kernel: Kernel, data: Data) -> FittedKernel:
    """Fit a kernel to checked data, unless its fit is known."""
    known: FittedKernel | None = data.fits.get(kernel)
    return _FITS[type(kernel)](kernel, data) if known is None else known


class Linear(Kernel):
    """The inner product x'z."""

    _pairwise, _mapped = True, "alone"
    _styles = (None, "x'z")


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """The polynomial (x'z + coef0)^degree, computed in floats for every type of data."""

    degree: int = hyper(3, checks.integer(1), "the exponent")
    coef0: float = hyper(1.0, checks.real(), "the constant; below 0 it may be indefinite")
    _pairwise = True
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
    _pairwise = True
    _styles = {"gamma": (None, "exp(-%(gamma)g |x-z|^2)"),
               "sigma": (None, "exp(-|x-z|^2 / (2 (%(sigma)g)^2))"),
               "width": (None, "exp(-|x-z|^2 / (%(width)g dmax)^2)")}


@dataclass(frozen=True, repr=False, kw_only=True)
class Laplacian(Kernel):
    """The Laplacian of the l1 distance d: exp(-gamma d), or exp(-d / (width dmax)), dmax in l1."""

    gamma: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-gamma d)")
    width: float | None = hyper(None, checks.optional(_POSITIVE), "exp(-d / (width dmax))")
    _pairwise = True
    _styles = {"gamma": (None, "exp(-%(gamma)g |x-z|_1)"),
               "width": (None, "exp(-|x-z|_1 / (%(width)g dmax))")}


class Cosine(Kernel):
    """The cosine of the angle between two rows, none of which may be all zero."""

    _pairwise, _mapped = True, "alone"
    _styles = (None, "x'z / (|x| |z|)")


@dataclass(frozen=True, repr=False)
class Neighbors(Kernel):
    """What a graph of nearest neighbours connects: (I + t L)^-1, L its normalised Laplacian.

    An edge joins two samples of which one is among the ``n_neighbors`` nearest of the other. Its
    weight is exp(-d^2 / (s s')), s the distance of a sample to its 7th neighbour, or 1. Clusters of
    any shape come out best with `unit` and the objective of `KernelKMeans`. Beyond 5,000 samples
    the kernel is held by 100 leading directions; new samples are means of their neighbours.
    """

    n_neighbors: int = hyper(10, checks.integer(1), "neighbours of a sample")
    weights: str = hyper("self-tuning", checks.choice("self-tuning", "binary"), "of the edges")
    t: float = hyper(100.0, _POSITIVE, "how far the kernel reaches: steps between neighbours")
    _styles = (None, "(I + %(t)g L)^-1 of %(n_neighbors)d neighbours")


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """A kernel matrix given in place of the data; new rows are their (m, n) kernel values.

    With ``clip`` negative eigenvalues of the training matrix are set to zero; new rows stay as they
    are.
    """

    clip: bool = hyper(False, checks.flag(), "set negative eigenvalues to zero")
    _styles = (None, "K[x, z]")


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """The sum of two kernels."""

    left: Kernel = hyper(None, _KERNEL, "first part")
    right: Kernel = hyper(None, _KERNEL, "second part")
    _pairwise, _mapped = True, "inner"
    _level, _styles = 0, ("%(left)s + %(right)s",) * 2


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """The product of two kernels, entry by entry."""

    left: Kernel = hyper(None, _KERNEL, "first part")
    right: Kernel = hyper(None, _KERNEL, "second part")
    _pairwise = True
    _level, _styles = 1, ("%(left)s * %(right)s",) * 2


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """A kernel times a finite number above 0."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    factor: float = hyper(1.0, _POSITIVE, "the number")
    _pairwise, _mapped = True, "inner"
    _level, _styles = 1, ("%(factor)r * %(inner)s", "%(factor)g %(inner)s")


@dataclass(frozen=True, repr=False)
class Centered(Kernel):
    """A kernel after the training mean is subtracted in feature space."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    _mapped = "inner"
    _styles = ("%(inner)s.centered()", "center(%(inner)s)")


@dataclass(frozen=True, repr=False)
class Normalized(Kernel):
    """A kernel scaled so that its training matrix has mean diagonal 1."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    _mapped = "inner"
    _styles = ("%(inner)s.normalized()", "normalize(%(inner)s)")


@dataclass(frozen=True, repr=False)
class Unit(Kernel):
    """A kernel after every sample is scaled to length 1 in feature space: cosines of angles."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    _styles = ("%(inner)s.unit()", "unit(%(inner)s)")


@dataclass(frozen=True, repr=False)
class Nystroem(Kernel):
    """A kernel seen through ``rank`` landmark rows R: K_nR K_RR^+ K_Rn."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    rank: int = hyper(100, checks.integer(1), "number of landmark rows")
    seed: int = hyper(0, checks.integer(0), "seed of the draw without replacement")
    _styles = ("%(inner)s.nystroem(rank=%(rank)d, seed=%(seed)d)",
               "nystroem(%(inner)s; rank %(rank)d)")

    def blocking(self) -> Kernel | None:
        return next((part for part in self._within() if not part._pairwise), None)


@dataclass(frozen=True, repr=False)
class RandomFeatures(Kernel):
    """A Gaussian or Laplacian kernel through cosines and sines of w'x, half of the ``rank`` each.

    The w are drawn so that the mean of such products is the kernel (Rahimi and Recht, 2007). They
    look at no rows, but need more features than landmarks do for the same error.
    """

    inner: Kernel = hyper(None, _KERNEL, "a Gaussian or Laplacian")
    rank: int = hyper(100, checks.Rule("an even integer at least 2", lambda v: checks.integer(
        2).accepts(v) and v % 2 == 0), "number of features")
    seed: int = hyper(0, checks.integer(0), "seed of the draw")
    _mapped = "alone"
    _styles = ("%(inner)s.random_features(rank=%(rank)d, seed=%(seed)d)",
               "random(%(inner)s; %(rank)d features)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Gaussian | Laplacian):
            raise ParameterError("random_features() are of a Gaussian or a Laplacian; got "
                                 f"{self.inner!r}; nystroem({self.rank}) takes any kernel.")


@dataclass(frozen=True, repr=False)
class Principal(Kernel):
    """A kernel through the leading eigenvectors that hold a share of its trace: kernel PCA.

    A ``rank`` above 0 limits how many.
    """

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    share: float = hyper(0.95, checks.real(0, 1, open_low=True), "of the trace that is kept")
    rank: int = hyper(0, checks.integer(0), "eigenvectors at most; 0 for no limit")
    _mapped = "inner"
    _styles = ("%(inner)s.pca(share=%(share)r, rank=%(rank)d)",
               "pca(%(inner)s; %(share)g of the trace)")


@dataclass(frozen=True, repr=False)
class Pivoted(Kernel):
    """A kernel through its Cholesky factor with pivots, as many as hold a share of its trace.

    The next pivot is the row that those before say least about, so it is Nystroem's approximation
    on chosen landmarks, with a known error: the trace of what is left. A ``rank`` above 0 limits
    how many.
    """

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    share: float = hyper(0.999, checks.real(0, 1, open_low=True), "of the trace that is kept")
    rank: int = hyper(0, checks.integer(0), "pivots at most; 0 for no limit")
    _styles = ("%(inner)s.cholesky(share=%(share)r, rank=%(rank)d)",
               "cholesky(%(inner)s; %(share)g of the trace)")


@dataclass(frozen=True, repr=False)
class Columns(Kernel):
    """A kernel of some columns of the data."""

    inner: Kernel = hyper(None, _KERNEL, "the kernel")
    columns: tuple[int, ...] = hyper((), checks.Rule(
        "one or more column numbers from 0", lambda v: len(v) > 0 and min(v) >= 0), "the columns")
    _pairwise, _mapped = True, "inner"
    _styles = ("%(inner)s.on(%(columns)r)", "%(inner)s of columns %(columns)r")

    def __post_init__(self) -> None:
        """Turn what JSON holds back into a tuple."""
        object.__setattr__(self, "columns", tuple(int(c) for c in self.columns))
        super().__post_init__()


# What other packages call it.
ELSEWHERE = {"rbf": "'gaussian'", "RBF": "'gaussian'", "poly": "Polynomial(3)",
             "polynomial": "Polynomial(3)", "laplacian": "Laplacian(width=1)"}


def as_kernel(obj: Any) -> Kernel:
    """Return a kernel as it is, or the kernel of a name: "gaussian" is `Gaussian(width=1)`."""
    names = {"linear": Linear(), "gaussian": Gaussian(width=1), "cosine": Cosine(),
             "neighbors": Neighbors(), "precomputed": Precomputed()}
    if isinstance(obj, Kernel):
        return obj
    if isinstance(obj, str) and obj in names:
        return names[obj]
    hint = ""
    if isinstance(obj, str) and obj in ELSEWHERE:
        hint = f" Did you mean {ELSEWHERE[obj]}?"
    elif getattr(obj, "ndim", 0) == 2:
        hint = (" For a matrix of kernel values pass that as X and Precomputed() as the kernel.")
    raise ParameterError("kernel must be a kernel of mmcopt.kernels, such as Gaussian(width=1), or "
                         f"one of {', '.join(map(repr, names))}; got {checks.shown(obj)}.{hint}")
