"""Features of rows in blocks: made of some rows at a time, and summed up where the rows are.

A tile of a block becomes `Features` like those of rows in memory, with the mean and the scale of
all rows, so whatever works on features works on a tile. What comes back are sums.
"""

from __future__ import annotations

import copy
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mmcopt.checks import data_matrix, is_sparse, read_only
from mmcopt.datasets.blocks import STRIPS, keeps_nothing
from mmcopt.datasets.scratch import Held
from mmcopt.errors import DataError
from mmcopt.kernels.features import Features, StackedFeatures, columns_of
from mmcopt.linalg import UNIT, one_thread
from mmcopt.types import Floats, RowBlocks

TILE = 2.0**17  # numbers of a tile, which stays in the cache
WAITING = 2.5e7  # bytes of answers as long as the rows that may wait together


@dataclass(frozen=True)
class Scaling:
    """How rows become features: by numbers that are the same for all of them.

    With a ``fitted`` kernel the rows are first turned into its features.
    """

    owner: str
    mean: Floats
    rest: Floats
    scale: float = 1.0
    bias: float = 0.0
    fitted: Any = None

    @functools.cached_property
    def plain(self) -> bool:
        """Whether nothing is taken away or multiplied."""
        return self.scale == 1.0 and not self.mean.any() and not self.rest.any()

    def features(self, X: Any, room: Floats | None = None) -> Features:
        """Features of some rows; dense ones may be written to ``room`` of so many numbers."""
        X = X if self.fitted is None else self.fitted.features_of(X)
        made = Features.__new__(Features)
        made.owner, made.sparse = self.owner, is_sparse(X)
        made.n, made.d = int(X.shape[0]), int(X.shape[1])
        made.mean, made.rest, made.scale = self.mean, self.rest, self.scale
        if made.sparse:
            made.X = X.astype(np.float64)
        else:
            made.X = self._dense(X, None if room is None or X.size > room.size
                                 else room[:X.size].reshape(X.shape))
        made.bias = self.bias
        if self.bias:
            made._append(self.bias)
        made.shift = made.scale * made.mean
        if not made.sparse:
            made.X = read_only(made.X)
        return made

    def _dense(self, X: Any, out: Floats | None) -> Floats:
        """Dense rows less the mean, times the scale."""
        from mmcopt.compiled.rescaling import rescale

        if self.plain and (out is None or X.dtype == np.float64):
            return np.ascontiguousarray(X, np.float64)
        out, d = np.empty(X.shape) if out is None else out, X.shape[1]
        if self.plain:
            out[:] = X
            return out
        rows = np.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)
        rescale(rows, self.mean[:d], self.rest[:d], self.scale, out)
        return out

    def step(self, X: Any) -> int:
        """How many rows of a block are worked on at a time."""
        return STRIPS if self.fitted is not None else max(1, int(TILE / max(1, X.shape[1])))


def _moments(part: Features) -> tuple[Any, ...]:
    """Sums of rows and of their squares, of features not yet scaled."""
    if part.sparse:
        return np.asarray(part.X.sum(axis=0)).ravel(), float(part.X.multiply(part.X).sum())
    return part.X.sum(axis=0), float(np.vdot(part.X, part.X))


def _checked(part: Features) -> tuple[Any, ...]:
    """Sums of rows that are numbers; others are refused, as in memory."""
    data_matrix(part.X, owner=part.owner)
    return (_moments(part)[0], int(part.sparse))


def _listed(X: Any, *given: Any) -> list[Any]:
    """What comes of each tile of a block, with what is its own of an array along the rows.

    A tile is too small for more than one thread.
    """
    with one_thread:
        return list(_of_tiles(X, None, *given))


@keeps_nothing
def _summed(X: Any, *given: Any) -> tuple[Any, ...]:
    """The sums of a block, in the order of the rows."""
    if not hasattr(_kept, "room"):
        _kept.room = np.empty(int(TILE))
    with one_thread:
        return functools.reduce(_both, _of_tiles(X, _kept.room, *given))


_kept = threading.local()  # where tiles lie one after another


def _of_tiles(X: Any, room: Floats | None, *given: Any) -> Iterator[Any]:
    *along, scaling, work, args = given
    step = scaling.step(X)
    for rows in (slice(s, s + step) for s in range(0, X.shape[0], step)):
        yield work(scaling.features(X[rows], room), *(a[rows] for a in along), *args)


def _both(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, eq=False)
class BlockScores:
    """The scores of all rows at W, which nobody holds: they are made again where they are used."""

    W: Floats


class BlockFeatures(Features):
    """Features of rows in blocks, of which only sums are known here."""

    blocked = True

    def __init__(self, X: RowBlocks, *, center: bool, normalize: bool, owner: str,
                 bias: float = 0.0) -> None:
        self.owner, self.source = owner, X
        self.n, self.d = X.shape
        self.X: Any = X
        zero = np.zeros(self.d)
        self.scaling = Scaling(owner, zero, zero)
        sums, sparse = self.total_of(_checked)
        self.sparse = bool(sparse)
        self.mean, self.rest, self.scale = zero, zero, 1.0
        if center:
            self.mean = sums / self.n
        self.scaling = Scaling(owner, zero if self.sparse else self.mean, zero)
        if normalize or center:
            sums, square = self.total_of(_moments)
            square /= self.n
            raw = square + (0.0 if self.sparse else float(self.mean @ self.mean))
            if self.sparse:
                square -= float(self.mean @ self.mean)
            elif center:
                self.rest = sums / self.n
                square -= float(self.rest @ self.rest)
            rounding = 8 * UNIT * raw * (self.n if self.sparse else UNIT * self.n**2)
            if normalize and not square > rounding:
                raise DataError(f"{owner}: all samples are equal to rounding, so there is nothing "
                                "to normalise and nothing to cluster; check for constant columns.")
            self.scale = 1.0 / np.sqrt(square) if normalize else 1.0
        self.scaling = Scaling(owner, self.mean, self.rest, self.scale, bias)
        self._widen(bias)

    @classmethod
    def known(cls, X: RowBlocks, owner: str, *, sparse: bool = False,
              scaling: Scaling | None = None) -> Self:
        """Rows that were looked at before, as they are or scaled by what is known of them."""
        made = cls.__new__(cls)
        zero = np.zeros(X.shape[1])
        made.owner, made.source, made.X, made.sparse = owner, X, X, sparse
        made.scaling = given = Scaling(owner, zero, zero) if scaling is None else scaling
        made.n, made.d = X.shape[0], len(given.mean)
        made.mean, made.rest, made.scale, made.bias = given.mean, given.rest, given.scale, 0.0
        made._widen(given.bias)
        return made

    def _widen(self, bias: float) -> None:
        """One more feature, not centred, where there is a bias."""
        self.bias = bias
        if bias:
            self.d, self.mean = self.d + 1, np.append(self.mean, 0.0)
            self.rest = np.append(self.rest, 0.0)
        self.shift = self.scale * self.mean

    def moved(self, mean: Floats | float, rest: Floats | float, scale: float) -> BlockFeatures:
        """These less a mean, which has lost its ``rest``, times a scale."""
        old, zero = self.scaling, np.zeros(self.d)
        mean, rest = mean + zero, rest + zero
        if old.mean.any() or old.rest.any():
            mean, rest = old.mean, old.rest + (mean + rest) / old.scale
        else:
            mean, rest = mean / old.scale, rest / old.scale
        return BlockFeatures.known(self.source, self.owner, scaling=replace(
            old, mean=mean, rest=rest, scale=scale * old.scale))

    def total_of(self, work: Callable[..., tuple[Any, ...]], *args: Any,
                 along: Any = None) -> tuple[Any, ...]:
        answers = self.source.each(_summed, self.scaling, work, args, along=along)
        return functools.reduce(_both, answers)

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None) -> Iterator[Any]:
        starts = self.source.starts
        longest = max(b - a for a, b in itertools.pairwise(starts))
        at_once = max(1, int(WAITING / (8.0 * self.d * longest)))
        blocks = self.source.each(_listed, self.scaling, work, args, along=along, at_once=at_once)
        return itertools.chain.from_iterable(blocks)

    def gathered(self, work: Callable[..., Any], *args: Any, along: Any = None) -> list[Any]:
        return list(itertools.chain.from_iterable(
            self.source.each(_listed, self.scaling, work, args, along=along)))

    def without_rows(self) -> Self:
        """What makes features of new rows, to be sent elsewhere."""
        made = copy.copy(self)
        made.source = made.X = None  # type: ignore[assignment]
        return made

    @property
    def rows(self) -> Floats | None:
        return None

    def scores(self, W: Floats) -> Any:
        """What stands for the scores at W."""
        return BlockScores(np.array(W, dtype=np.float64))

    def sums(self, A: Floats, rows: Any = slice(None)) -> Floats:
        raise self._refusal()

    @functools.cached_property
    def lengths(self) -> Floats:
        """The length of each column, or more: what rounding of its sums is relative to."""
        return np.asarray(np.sqrt(self.total_of(_squares)[0]))

    @functools.cached_property
    def longest(self) -> float:
        """The squared length of the longest row, or more."""
        return float(max(self.gathered(_longest)))

    @property
    def products(self) -> Floats:  # pyright: ignore
        raise self._refusal()

    def total(self) -> Floats:
        return np.asarray(self.total_of(_total)[0])

    def dense(self) -> Floats:
        raise self._refusal()

    def _refusal(self) -> DataError:
        return all_rows_needed(self.owner, self.n)


class BlockKernelFeatures(BlockFeatures):
    """Features of a kernel of rows in blocks, made of the rows each time they are asked for."""

    def __init__(self, fitted: Any, owner: str, bias: float = 0.0) -> None:
        made = fitted.in_parts()
        scaling = replace(made.scaling, owner=owner, bias=bias)
        vars(self).update(vars(BlockFeatures.known(made.source, owner, scaling=scaling)))
        self.fitted = fitted

    def new(self, X: Any) -> Floats:
        return self._biased(np.asarray(self.fitted.new_features(X)))


@dataclass(frozen=True)
class SideBySide:
    """How rows become features of several kinds."""

    parts: tuple[Scaling, ...]
    owner: str

    def features(self, X: Any, room: Floats | None = None) -> Features:
        """Features of some rows."""
        return StackedFeatures([part.features(X) for part in self.parts], self.owner)

    def step(self, X: Any) -> int:
        """How many rows of a block are worked on at a time."""
        return min(part.step(X) for part in self.parts)


class BlockStackedFeatures(BlockFeatures):
    """Features of rows in blocks side by side: those of several kernels."""

    def __init__(self, parts: Sequence[BlockFeatures], owner: str) -> None:
        self.parts, self.owner = tuple(parts), owner
        self.source = self.X = parts[0].source
        self.n, self.d = parts[0].n, sum(part.d for part in parts)
        self.blocks = columns_of(parts)
        self.sparse, self.bias = any(part.sparse for part in parts), 0.0
        self.scaling: Any = SideBySide(tuple(part.scaling for part in parts), owner)

    @functools.cached_property
    def longest(self) -> float:
        """The squared length of the longest row, or more."""
        return sum(part.longest for part in self.parts)

    def without_rows(self) -> Self:
        made = super().without_rows()
        made.parts = tuple(part.without_rows() for part in self.parts)
        return made

    def new(self, X: Any) -> Floats:
        return np.hstack([part.new(X) for part in self.parts])


class HeldFeatures(BlockFeatures):
    """Dense features in memory, gone through as those of a file are: sums are the same."""

    blocked = False
    source: Held

    def dense(self) -> Floats:
        return np.asarray(self.source.rows)


def held(rows: Floats, owner: str) -> HeldFeatures:
    """Features that are these rows, not copied."""
    return HeldFeatures.known(Held(rows), owner)


def row_sum(part: Features) -> tuple[Any, ...]:
    """The sum of dense rows, as a term of that of all."""
    return (part.X.sum(axis=0),)


def all_rows_needed(owner: str, n: int) -> DataError:
    """What is said of work that cannot be done on blocks."""
    return DataError(f"{owner}: this needs all {n} rows in memory, and they come in blocks; "
                     "CuttingPlane and searches on factors from init='random', predict and verify "
                     "do not. np.asarray(X) reads them all, if they fit.")


def _squares(part: Features) -> tuple[Any, ...]:
    return (part.lengths**2,)


def _longest(part: Features) -> float:
    return part.longest


def _total(part: Features) -> tuple[Any, ...]:
    return (part.total(),)
