"""Parquet files in blocks: their groups of rows, and which of their columns are features."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.datasets.text import Column, class_column, find_column, left_out, row_names
from mmcopt.errors import BackendError, DataError

WAY_OUT = "save rows as .npy: numpy.save(path, X)"


@dataclass(frozen=True)
class ParquetPiece:
    """A group of rows of a Parquet file; ``names`` are the columns that are features."""

    path: str
    group: int
    rows: int
    names: tuple[str, ...]

    @property
    def columns(self) -> int:
        """How many are kept."""
        return len(self.names)

    def read(self) -> Any:
        """The rows."""
        table = _reader().ParquetFile(self.path).read_row_group(self.group, list(self.names))
        return np.column_stack([np.asarray(table[name], dtype=np.float64) for name in self.names])


def parquet_pieces(files: Sequence[pathlib.Path], columns: Sequence[Column] | None,
                   dropped: list[str]) -> list[ParquetPiece]:
    """The groups of rows of files that follow one another.

    What is said of columns that are left out is added to ``dropped``. Which these are is told by
    the rules of `mmcopt.datasets.load`, from all rows.
    """
    opened = [_opened(path) for path in files]
    schema = opened[0].schema_arrow
    for path, file in zip(files, opened, strict=True):
        if sorted(file.schema_arrow.names) != sorted(schema.names):
            raise DataError(f"{path}: its columns are {', '.join(file.schema_arrow.names)}, and "
                            f"those of {files[0].name} {', '.join(schema.names)}.")
    if columns is None:
        names = _features(files, schema.names, dropped)
    else:
        names = [schema.names[find_column(files[0], wanted, "columns", schema.names,
                                          len(schema.names))] for wanted in columns]
    for name in names:
        _require_numbers(files[0], name, schema.field(name).type)
    return [ParquetPiece(str(path), g, file.metadata.row_group(g).num_rows, tuple(names))
            for path, file in zip(files, opened, strict=True) for g in range(file.num_row_groups)]


def _opened(path: pathlib.Path) -> Any:
    """What a file says of itself, before its rows are read."""
    reader = _reader()
    try:
        return reader.ParquetFile(path)
    except (OSError, ValueError) as e:
        raise DataError(f"{path}: pyarrow cannot read it ({' '.join(str(e).split())}); "
                        f"{WAY_OUT}.") from e


def _reader() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as e:
        raise BackendError("Parquet files need pyarrow; pip install pyarrow, or "
                           f"{WAY_OUT}.") from e
    return parquet


def _features(files: Sequence[pathlib.Path], names: Sequence[str],
              dropped: list[str]) -> list[str]:
    """The columns that neither hold the classes nor name the rows."""
    @functools.cache
    def seen(j: int) -> _Seen:
        return _Seen(files, names[j])

    at = class_column(names, seen)
    named = row_names(names, at, seen)
    dropped += left_out(None if at is None else repr(names[at]), [repr(names[j]) for j in named])
    return [name for j, name in enumerate(names) if j != at and j not in named]


class _Seen:
    """What the choice of columns asks of one, from its values in all files."""

    def __init__(self, files: Sequence[pathlib.Path], name: str) -> None:
        import pyarrow as arrow

        read = _reader().read_table
        self.values = arrow.chunked_array(
            [chunk for path in files for chunk in read(path, columns=[name])[name].chunks])

    @property
    def classes(self) -> bool:
        """Whether it may hold classes: text without gaps, or whole numbers."""
        from pyarrow import types

        if self.values.null_count:
            return False
        if not types.is_floating(self.values.type):
            return not types.is_nested(self.values.type)
        values = np.asarray(self.values)
        return bool((np.isfinite(values) & (values == np.round(values))).all())

    @property
    def distinct(self) -> bool:
        """Whether no two cells are the same."""
        from pyarrow import compute, types

        return not types.is_nested(self.values.type) \
            and compute.count_distinct(self.values, mode="all").as_py() == len(self.values)


def _require_numbers(path: pathlib.Path, name: str, kind: Any) -> None:
    """Refuse a column of something else than numbers."""
    from pyarrow import types

    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            or types.is_decimal(kind)):
        raise DataError(f"{path}: column {name!r} holds {kind}, which are no numbers; encode them "
                        "first, or name the features by columns=.")
