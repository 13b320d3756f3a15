"""Types that signatures name: arrays as we hold them, and what callers may give in their place."""

import os
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


class Frame(Protocol):
    """A data frame of pandas or polars."""

    def to_numpy(self) -> Any:
        """Its values."""


Samples: TypeAlias = ArrayLike | SparseRows | Frame  # rows (n, d), or a kernel matrix (n, n)
Labels: TypeAlias = ArrayLike  # one value a sample, of any kind
Seed: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
Path: TypeAlias = str | os.PathLike[str]
