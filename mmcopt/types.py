"""Types that signatures name: arrays as we hold them, and what callers may give in their place."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[Any]  # float64; float32 where a search works on copies
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class SparseRows(Protocol):
    """A SciPy sparse matrix or array."""

    shape: tuple[int, ...]

    def tocsr(self) -> Any:
        """Its compressed rows."""


class RowBlocks(ABC):
    """Rows that stay where they are, and are read a block at a time: `mmcopt.datasets.blocks`."""

    shape: tuple[int, int]
    starts: tuple[int, ...]  # the first row of each block, and behind them all the number of rows

    @abstractmethod
    def each(self, work: Callable[..., Any], *args: Any, along: Any = None,
             at_once: int | None = None) -> Iterator[Any]:
        """Give ``work(rows, *args)`` of every block in turn, done where its rows are.

        ``along`` is an array with an entry for each row, of which a block's come first of its args.
        Where answers are as long as the rows, ``at_once`` says of how many blocks they may wait.
        """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The sha256 of those of the blocks."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """All rows in memory."""
        rows = np.concatenate(list(self.each(_dense)))
        return rows if dtype is None else rows.astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.shape[0]} x {self.shape[1]} in blocks: {len(self.starts) - 1}>"


def _dense(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "toarray") else rows


class Frame(Protocol):
    """A data frame of pandas or polars."""

    def to_numpy(self) -> Any:
        """Its values."""


# Rows (n, d), or a kernel matrix (n, n).
Samples: TypeAlias = ArrayLike | SparseRows | Frame | RowBlocks
Labels: TypeAlias = ArrayLike  # one value a sample, of any kind
Seed: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
Path: TypeAlias = str | os.PathLike[str]
