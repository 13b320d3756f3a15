"""Rows made on the way: in memory, or written once to a file that goes with them.

It lies in the folder for temporary files, which the variable TMPDIR names. Both are cut alike.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mmcopt.checks import give_back
from mmcopt.datasets.blocks import FileBlocks, block_hash, raw_pieces
from mmcopt.errors import ResourceError
from mmcopt.tables import human
from mmcopt.types import Floats, RowBlocks


class Held(RowBlocks):
    """Rows in memory, in the blocks in which a file of them is read."""

    def __init__(self, rows: Floats) -> None:
        self.rows, self.shape = rows, (rows.shape[0], rows.shape[1])
        pieces = raw_pieces("", rows.dtype.str, 0, *self.shape, None)
        self.starts = (*(piece.offset // max(1, rows.dtype.itemsize * self.shape[1])
                         for piece in pieces), self.shape[0])

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None,
             at_once: int | None = None) -> Iterator[Any]:
        for a, b in itertools.pairwise(self.starts):
            yield work(self.rows[a:b], *(() if along is None else (along[a:b],)), *args)

    @property
    def fingerprint(self) -> str:
        return block_hash(self.rows).hex()


class Scratch(FileBlocks):
    """Rows in a file of their own, which goes when they do."""

    def __init__(self, parts: Iterable[Floats], shape: tuple[int, int], owner: str,
                 dtype: Any = np.float64) -> None:
        size, folder = float(shape[0]) * shape[1] * np.dtype(dtype).itemsize, tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        words = f"{owner}: {shape[0]} rows of {shape[1]} features need {human(size)} in {folder}"
        way_out = "name another folder in TMPDIR, or take a kernel of fewer features."
        if size > free:
            raise ResourceError(f"{words}, and {human(free)} are free; {way_out}")
        handle, self.path = tempfile.mkstemp(prefix="mmcopt-", suffix=".rows", dir=folder)
        weakref.finalize(self, _remove, self.path, os.getpid())
        with os.fdopen(handle, "wb") as file:
            try:
                for part in parts:
                    file.write(np.ascontiguousarray(part, dtype).data)
            except OSError as e:
                raise ResourceError(f"{words}, which cannot be written there ({e.strerror or e}); "
                                    f"{way_out}") from e
        give_back()
        self.dtype = np.dtype(dtype)
        super().__init__(raw_pieces(self.path, self.dtype.str, 0, *shape, None))

    def mapped(self) -> Floats:
        """The rows as an array that the system reads and forgets as it likes."""
        # As a plain array that may be written to: loops are compiled for no other.
        return np.asarray(np.memmap(self.path, self.dtype, "c", shape=self.shape))


def _remove(path: str, owner: int) -> None:
    """Remove the file, unless this is another process that has inherited the rows."""
    if os.getpid() == owner:
        pathlib.Path(path).unlink(missing_ok=True)
