"""Training rows in blocks, as kernels see them: what is learned of all, and the few that are held.

A kernel works on blocks where its features of a row need no more than that row and what was learned
before: landmarks, means, a scale (`Kernel.blocking`). It can be sent to where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mmcopt.checks import require_memory
from mmcopt.kernels.block_features import BlockFeatures
from mmcopt.kernels.data import Data, drawn
from mmcopt.types import RowBlocks


class BlockData(Data):
    """Training rows in blocks; rows that were taken are kept, and go where the kernel goes."""

    blocked = True

    def __init__(self, X: RowBlocks, owner: str) -> None:
        self.X, self.owner = X, owner
        self.n, self.d = X.shape
        rows = BlockFeatures(X, center=True, normalize=False, owner=owner)
        self.rows_about_mean = rows
        self.sparse = rows.sparse
        self.mean: Any = 0.0 if rows.sparse else rows.mean
        self.rest = rows.rest
        self.fits: dict[Any, Any] = {}
        self._diameter: dict[str, float] = {}
        self._taken: dict[bytes, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What new rows need: not the blocks."""
        return {name: value for name, value in vars(self).items()
                if name not in ("X", "rows_about_mean", "fits")}

    def compressed(self, A: Any) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix(A)

    def take(self, index: Any) -> Any:
        index = np.asarray(index)
        key = index.tobytes()
        if key not in self._taken:
            self._taken[key] = self._read(index)
        return self._taken[key]

    def on(self, columns: list[int]) -> Data:
        return BlockData(ColumnBlocks(self.X, columns), self.owner)

    def sample(self) -> Any:
        index = drawn(self.n)
        require_memory(8.0 * len(index) * self.d, f"{len(index)} rows for the largest distance",
                       "give gamma in place of a width.")
        return self._read(index)

    def _read(self, index: Any) -> Any:
        """Rows of rising numbers, by one pass over all."""
        wanted = np.zeros(self.n, dtype=bool)
        wanted[index] = True
        parts = list(self.X.each(_chosen, along=wanted))
        if not self.sparse:
            return np.concatenate(parts)
        from scipy.sparse import vstack

        return vstack(parts, format="csr")

    @property
    def radius(self) -> float:
        return self.rows_about_mean.longest

    @property
    def largest(self) -> float:
        return BlockFeatures.known(self.X, self.owner, sparse=self.sparse).longest


def _chosen(rows: Any, wanted: Any) -> Any:
    return rows[wanted]


class ColumnBlocks(RowBlocks):
    """Some columns of rows in blocks."""

    def __init__(self, rows: RowBlocks, columns: list[int]) -> None:
        self.whole, self.columns = rows, columns
        self.starts, self.shape = rows.starts, (rows.shape[0], len(columns))

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None,
             at_once: int | None = None) -> Iterator[Any]:
        call = _on_columns if along is None else _along_columns
        return self.whole.each(call, self.columns, work, *args, along=along, at_once=at_once)

    @property
    def fingerprint(self) -> str:
        return f"{self.whole.fingerprint} {self.columns}"


def _on_columns(rows: Any, columns: list[int], work: Callable[..., Any], *args: Any) -> Any:
    return work(rows[:, columns], *args)


def _along_columns(rows: Any, own: Any, columns: list[int], work: Callable[..., Any],
                   *args: Any) -> Any:
    return work(rows[:, columns], own, *args)

