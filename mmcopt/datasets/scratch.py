"""Rows made on the way, which are too many for memory: written once, to a file that goes with them.

It lies in the folder for temporary files, which the variable TMPDIR names.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from mmcopt.datasets.blocks import FileBlocks, raw_pieces
from mmcopt.errors import ResourceError
from mmcopt.tables import human
from mmcopt.types import Floats


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
