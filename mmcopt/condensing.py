"""A million points as a few thousand weighted ones: cells of even diameter, their means and counts.

A formulation that takes ``sample_weight`` then works on the means, and what it finds for a cell
holds for all members of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import data_matrix, integer, known_keywords, read_only
from mmcopt.datasets.blocks import as_blocks
from mmcopt.datasets.scratch import Held
from mmcopt.errors import DataError
from mmcopt.types import Floats, Ints, RowBlocks, Samples

GRID = 3  # features up to which cells are cubes of a grid
FINEST = 2.0**50  # cubes along the longest side at most
TABLE = 4_000_000  # cubes that are numbered in a table; in more they are hashed and sorted
ODD = np.uint64(0x9E3779B97F4A7C15)  # mixes bits by products modulo 2^64
ROWS = 65_536  # of X that are converted at a time
ENTRIES = 4_000_000  # of a block of distances
TRIES = 24  # sides of a grid
SAMPLE = 4, 16  # points of which landmarks are chosen, in units of cells: at least, at most
CHOICE = 1_000_000  # numbers in those points, between these limits


@dataclass(frozen=True)
class Cells:
    """Weighted representatives of n points.

    ``centres`` (m, d) are the means of the members, ``weights`` (m,) their numbers, and
    ``cell_of`` (n,) says to which cell each point belongs.
    """

    centres: Floats
    weights: Floats
    cell_of: Ints

    def spread(self, values: Any) -> NDArray[Any]:
        """Return one value a point (n,) from one value a cell (m,), such as labels."""
        values = np.asarray(values)
        if values.shape[:1] != self.weights.shape:
            raise DataError(f"Cells: values must hold one entry for each of {len(self.weights)} "
                            f"cells; got shape {values.shape}.")
        return np.asarray(values[self.cell_of])


@known_keywords
def micro_cells(X: Samples, cells: int = 2000, *, seed: int = 0) -> Cells:
    """Condense the rows of X into about ``cells`` groups whose diameters are as even as possible.

    Up to three features the cells are the occupied cubes of a grid, as fine as it can be with at
    most ``cells`` of them: a few per cent fewer, and more than that only where points form a
    lattice. With more features each point belongs to the nearest of ``cells`` landmarks, which are
    spread over a sample of the distinct points. Equal points share a cell, and the order of the
    rows changes no more than the numbering of cells and the rounding of means. ``seed`` draws the
    sample and landmarks; a grid needs none.

    Rows may come in blocks, of which a few are in memory at a time, beside 8 to 40 bytes a row.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=100000,noise=.05,seed=0")
    >>> found = micro_cells(X, 500)
    >>> 480 < len(found.weights) <= 500, found.weights.sum()
    (True, np.float64(100000.0))
    """
    owner = "micro_cells"
    integer(1).check(owner, "cells", cells)
    integer(0).check(owner, "seed", seed)
    rows = as_blocks(X, owner)
    if rows is None:
        rows = Held(data_matrix(X, owner=owner, sparse=False))
    ends = list(rows.each(_range, owner))
    low, high = (np.array(found) for found in zip(*(end[:2] for end in ends), strict=True))
    keys = _grid(rows, low.min(axis=0), high.max(axis=0), int(cells)) \
        if rows.shape[1] <= GRID else _landmarks(rows, int(cells), int(seed))
    cell_of = _numbered(keys)
    counts = np.bincount(cell_of).astype(np.float64)
    origin = ends[0][2]  # sums of differences keep their digits
    sums = sum(rows.each(_cell_sums, origin, len(counts), along=cell_of))
    centres = sums / counts[:, None] + origin
    return Cells(read_only(centres), read_only(counts), read_only(cell_of))


def _range(X: Any, owner: str) -> tuple[Floats, Floats, Floats]:
    """The least and the largest of each column of some rows, which are checked, and the first."""
    X = data_matrix(X, owner=owner, sparse=False)
    return tuple(ends.astype(np.float64) for ends in (X.min(axis=0), X.max(axis=0), X[0]))


def _cell_sums(X: Any, cell_of: Ints, origin: Floats, m: int) -> Floats:
    """The sums of some rows in each of m cells, about an origin."""
    out = np.empty((m, X.shape[1]))
    for q in range(X.shape[1]):
        column = X[:, q].astype(np.float64)
        column -= origin[q]
        out[:, q] = np.bincount(cell_of, weights=column, minlength=m)
    return out


def _numbered(keys: Ints) -> Ints:
    """Keys as 0, 1, ... in their order, without a sort where a table of them is small."""
    top = int(keys.max()) + 1
    if top > TABLE:
        return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    used = np.zeros(top, dtype=bool)
    used[keys] = True
    return np.asarray((np.cumsum(used) - 1)[keys])


# ---------------------------------------------------------------- grid


def _grid(X: RowBlocks, low: Floats, high: Floats, cells: int) -> Ints:
    """Cube of each row, in the finest grid found with no more than ``cells`` cubes in use."""
    extent = float((high - low).max())
    if extent == 0.0 or cells == 1:
        return np.zeros(len(X), dtype=np.int64)
    finest = extent / FINEST
    coarse, fine, before = extent * 1.001, finest, 0
    side = min(max(extent / cells ** (1.0 / X.shape[1]), fine), coarse)
    best = np.zeros(len(X), dtype=np.int64)
    for _ in range(TRIES):
        keys = np.concatenate(list(X.each(_cubes, low, high, side)))
        used = _used(keys)
        if used <= cells:
            best, coarse = keys, side
            if used > 0.97 * cells or side == finest:
                break
        else:
            fine, finest = side, 0.0
        # The number of cubes grows like side^-d near the goal. Where it does not grow, there may
        # be no more points; else half way between the bounds.
        side *= (used / (0.985 * cells)) ** (1.0 / X.shape[1])
        if used == before or not fine < side < coarse:
            side = fine if fine == finest else math.sqrt(fine * coarse)
        before = used
    return best


def _cubes(X: Any, low: Floats, high: Floats, side: float) -> Ints:
    """Key of the cube of each row; rows are converted to float64 in blocks."""
    shape = np.floor((high - low) / side).astype(np.int64) + 1
    small = math.prod(shape.tolist()) <= TABLE
    keys = np.zeros(len(X), dtype=np.int64)
    for s in range(0, len(X), ROWS):
        part = keys[s:s + ROWS]
        for q in range(X.shape[1]):
            place = X[s:s + ROWS, q].astype(np.float64)
            place -= low[q]
            place /= side
            if small:
                part *= shape[q]
                part += place.astype(np.int64)
            else:
                _mix(part.view(np.uint64), place.astype(np.int64).view(np.uint64))
    if not small:
        keys &= np.int64(2**63 - 1)
    return keys


def _mix(hashes: NDArray[np.uint64], values: NDArray[np.uint64]) -> None:
    """Take one more value into each hash, in place."""
    hashes ^= values
    hashes *= ODD
    hashes ^= hashes >> np.uint64(32)


def _used(keys: Ints) -> int:
    """How many different keys there are."""
    top = int(keys.max()) + 1
    if top > TABLE:
        return int(np.unique(keys).size)
    used = np.zeros(top, dtype=bool)
    used[keys] = True
    return int(np.count_nonzero(used))


# ---------------------------------------------------------------- landmarks


def _landmarks(X: RowBlocks, cells: int, seed: int) -> Ints:
    """Number of the nearest landmark of each row; equal rows have the same one."""
    marks = np.concatenate(list(X.each(_hashes, seed)))
    _, first, same = np.unique(marks, return_index=True, return_inverse=True)
    same = same.reshape(-1)
    if len(first) <= cells:
        return same.astype(np.int64, copy=False)
    size = min(max(SAMPLE[0] * cells, CHOICE // X.shape[1]), SAMPLE[1] * cells)
    drawn = _of_rows(X, first[:size], _as_they_are)  # hashes are as good as random
    work = np.float32 if drawn.dtype.itemsize <= 4 else np.float64
    middle = drawn.mean(axis=0, dtype=np.float64)
    sample = (drawn - middle).astype(work)
    chosen = sample[_spread_out(sample, cells, seed)]
    return np.asarray(_of_rows(X, first, _nearest, middle, chosen)[same])


def _of_rows(X: RowBlocks, index: Ints, work: Any, *args: Any) -> Any:
    """What comes of some rows, in the order of their numbers: ``work(rows, *args)``."""
    wanted = np.zeros(len(X), dtype=bool)
    wanted[index] = True
    found = np.concatenate(list(X.each(_wanted, work, args, along=wanted)))
    out = np.empty_like(found)
    out[np.argsort(index)] = found
    return out


def _wanted(X: Any, wanted: Any, work: Any, args: Any) -> Any:
    return work(X[wanted], *args)


def _as_they_are(X: Any) -> Any:
    return X


def _nearest(X: Any, middle: Floats, chosen: Floats) -> Ints:
    """Number of the nearest of the chosen rows of each row, both about a middle."""
    nearest = np.empty(len(X), dtype=np.int64)
    half = 0.5 * np.einsum("ij,ij->i", chosen, chosen)
    step = max(1, ENTRIES // max(chosen.shape))
    for s in range(0, len(X), step):
        part = (X[s:s + step] - middle).astype(chosen.dtype)
        product = part @ chosen.T
        product -= half
        nearest[s:s + step] = np.argmax(product, axis=1)
    return nearest


def _hashes(X: Any, seed: int) -> NDArray[np.uint64]:
    """64 bits for each row, which depend on its values alone: the same for equal rows."""
    start = np.array([seed], dtype=np.uint64)
    _mix(start, np.array([ODD]))
    out = np.repeat(start, len(X))
    for s in range(0, len(X), ROWS):
        for q in range(X.shape[1]):
            column = X[s:s + ROWS, q].astype(np.float64)
            column += 0.0  # -0 is 0
            _mix(out[s:s + ROWS], column.view(np.uint64))
    return out


def _spread_out(sample: Floats, count: int, seed: int) -> Ints:
    """Rows in turn the farthest from those before, or drawn by the square of that distance.

    The farthest alone keep cells small but leave the dense middle of many features to one of them.
    """
    rng = np.random.default_rng(seed)
    squares = np.einsum("ij,ij->i", sample, sample)
    distance = np.full(len(sample), np.inf, dtype=sample.dtype)
    chosen, new = np.zeros(count, dtype=np.int64), 0
    for i in range(count):
        chosen[i] = new
        np.minimum(distance, squares - 2.0 * (sample @ sample[new]) + squares[new], out=distance)
        np.maximum(distance, 0.0, out=distance)
        distance[new] = 0.0
        if i % 2 == 0:
            new = int(np.argmax(distance))
        else:
            sums = np.cumsum(distance, dtype=np.float64)
            new = min(int(np.searchsorted(sums, rng.random() * sums[-1])), len(sample) - 1)
    return chosen
