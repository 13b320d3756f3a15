"""Rows in blocks: files larger than memory, and arrays of Dask, read a block at a time.

A file is never mapped but read into memory block by block, so that what a process holds is bounded
by its blocks. What says where a block is can be sent to other processes; the rows are not.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import mmap
import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

from mmcopt.checks import integer, is_dask, is_sparse, optional
from mmcopt.datasets.text import CLASSES
from mmcopt.errors import BackendError, DataError
from mmcopt.types import Path, RowBlocks

BYTES = 16e6  # of a block, as floats, where no chunk is asked for
ENDINGS = (".npy", ".csv", ".tsv", ".libsvm", ".svm", ".parquet")
WAY_OUT = "save rows as .npy: numpy.save(path, X)"


def blocks(path: Path, *, chunk: int | None = None) -> RowBlocks:
    """Rows of a file or folder, to be read in blocks of ``chunk`` rows, or of about 16 MB each.

    Taken are .npy, .csv and .tsv with or without headings, .libsvm, .parquet (with pyarrow), and
    folders of .npy or .parquet files, which follow one another by name. Text is looked through once
    to find where blocks begin. Classes, which libsvm files and columns called label, class, target
    or y hold, are left out.

    >>> import tempfile, pathlib, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.npy")
    ...     np.save(path, np.arange(20.0).reshape(10, 2))
    ...     X = blocks(path, chunk=4)
    ...     X, [rows.shape for rows in X.each(np.asarray)]
    (<10 x 2 in blocks: 3>, [(4, 2), (4, 2), (2, 2)])
    """
    optional(integer(1)).check("blocks", "chunk", chunk)
    path = pathlib.Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".parquet"))
        if len({p.suffix for p in files}) != 1:
            raise DataError(f"{path}: the folder must hold .npy files or .parquet files; it holds "
                            f"{'both' if files else 'none'}.")
    pieces = [piece for file in files for piece in _pieces(file, chunk)]
    widths = {piece.columns for piece in pieces}
    if len(widths) > 1:
        raise DataError(f"{path}: the files have {' and '.join(map(str, sorted(widths)))} columns.")
    if not pieces or 0 in widths:
        raise DataError(f"{path}: there are no rows.")
    return FileBlocks(pieces)


def as_blocks(X: Any, owner: str) -> RowBlocks | None:
    """What comes in blocks: those of a file, an array of Dask, or one that is mapped from a file.

    None of anything else.
    """
    if isinstance(X, RowBlocks):
        return X
    if is_dask(X):
        return DaskBlocks(X, owner)
    whole = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap) and X.ndim == 2 \
        and X.flags.c_contiguous and X.mode != "c" and X.dtype.kind in "fiu" and X.size > 0
    if not whole or X.filename is None:
        return None
    n, d = X.shape
    return FileBlocks(_cut(str(X.filename), X.dtype.str, X.offset, n, d, None))


# ---------------------------------------------------------------- pieces of files


class Piece(Protocol):
    """Where a block is: it can be sent, and reads the rows where it is sent to."""

    @property
    def rows(self) -> int:
        """How many."""
        ...

    @property
    def columns(self) -> int:
        """How many."""
        ...

    def read(self) -> Any:
        """The rows, dense or CSR."""


@dataclass(frozen=True)
class RawPiece:
    """Rows of numbers that lie in a file one after another."""

    path: str
    dtype: str
    offset: int
    rows: int
    columns: int

    def read(self) -> Any:
        """The rows."""
        count = self.rows * self.columns
        try:
            found = np.fromfile(self.path, np.dtype(self.dtype), count, offset=self.offset)
        except OSError as e:
            raise DataError(f"{self.path}: cannot be read ({e.strerror or e}).") from e
        if found.size < count:
            raise DataError(f"{self.path}: the file has become shorter since it was opened.")
        return found.reshape(self.rows, self.columns)


@dataclass(frozen=True)
class TextPiece:
    """Lines of a table; ``keep`` are the columns that are features."""

    path: str
    start: int
    stop: int
    rows: int
    delimiter: str
    keep: tuple[int, ...]

    @property
    def columns(self) -> int:
        """How many are kept."""
        return len(self.keep)

    def read(self) -> Any:
        """The rows."""
        try:
            return np.loadtxt(_bytes(self), delimiter=self.delimiter, usecols=self.keep, ndmin=2)
        except ValueError as e:
            raise DataError(f"{self.path}: {' '.join(str(e).split())} of those from byte "
                            f"{self.start} on; {WAY_OUT}.") from e


@dataclass(frozen=True)
class SparsePiece:
    """Lines of a LIBSVM file, whose first feature has the number ``first``."""

    path: str
    start: int
    stop: int
    rows: int
    columns: int
    first: int

    def read(self) -> Any:
        """The rows as CSR."""
        from sklearn.datasets import load_svmlight_file

        return load_svmlight_file(_bytes(self), n_features=self.columns,
                                  zero_based=self.first == 0)[0]


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
        table = _parquet().ParquetFile(self.path).read_row_group(self.group, list(self.names))
        return np.column_stack([np.asarray(c, dtype=np.float64) for c in table.columns])


def _bytes(piece: TextPiece | SparsePiece) -> io.BytesIO:
    with open(piece.path, "rb") as file:
        file.seek(piece.start)
        return io.BytesIO(file.read(piece.stop - piece.start))


def _pieces(path: pathlib.Path, chunk: int | None) -> Sequence[Piece]:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    kind = path.suffix.casefold()
    if kind == ".npy":
        return _of_npy(path, chunk)
    if kind in (".csv", ".tsv"):
        return _of_text(path, chunk)
    if kind in (".libsvm", ".svm"):
        return _of_libsvm(path, chunk)
    if kind == ".parquet":
        return _of_parquet(path)
    raise DataError(f"{path}: blocks are read from {', '.join(ENDINGS)} and folders of them; "
                    f"{WAY_OUT}.")


def _of_npy(path: pathlib.Path, chunk: int | None) -> list[RawPiece]:
    with open(path, "rb") as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except ValueError as e:
            raise DataError(f"{path}: not a .npy file ({e}).") from e
        offset = file.tell()
    if len(shape) != 2 or dtype.kind not in "fiu" or (fortran and 1 not in shape):
        raise DataError(f"{path}: blocks are rows of a 2-D array of numbers in the order of C; got "
                        f"{dtype} of shape {shape}{' in the order of Fortran' * fortran}; save "
                        "numpy.ascontiguousarray(X).")
    return _cut(str(path), dtype.str, offset, *shape, chunk)


def _cut(path: str, dtype: str, offset: int, n: int, d: int, chunk: int | None) -> list[RawPiece]:
    step, width = chunk or _rows_of(d), np.dtype(dtype).itemsize * d
    return [RawPiece(path, dtype, offset + i * width, min(step, n - i), d)
            for i in range(0, n, step)]


def _rows_of(d: int) -> int:
    """Rows of a block, where no other number is asked for."""
    return max(1, int(BYTES / (8 * max(1, d))))


def _lines(path: pathlib.Path, skip: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Where blocks of lines that are not empty begin and end, and how many lines they are."""
    with open(path, "rb") as file:
        for _ in range(skip):
            file.readline()
        start, count = file.tell(), 0
        for line in iter(file.readline, b""):
            count += bool(line.split(b"#")[0].strip())
            if count == step:
                yield start, file.tell(), count
                start, count = file.tell(), 0
        if count:
            yield start, file.tell(), count


def _of_text(path: pathlib.Path, chunk: int | None) -> list[TextPiece]:
    with open(path, encoding="utf-8-sig") as file:
        first = file.readline()
    delimiter = max(",;\t", key=first.count)
    cells = [cell.strip().strip('"') for cell in first.split(delimiter)]
    headed = not any(_is_number(cell) for cell in cells)
    folded = [cell.casefold() for cell in cells]
    classes = next((folded.index(name) for name in CLASSES if headed and name in folded), None)
    keep = tuple(j for j in range(len(cells)) if j != classes)
    return [TextPiece(str(path), start, stop, rows, delimiter, keep)
            for start, stop, rows in _lines(path, int(headed), chunk or _rows_of(len(keep)))]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _of_libsvm(path: pathlib.Path, chunk: int | None) -> list[SparsePiece]:
    """The pieces, after one look at all features: how many there are, and whether one is 0."""
    places, least, most = [], 1, 0
    for start, stop, rows in _lines(path, 0, chunk or 10_000):
        places.append((start, stop, rows))
        text = _bytes(SparsePiece(str(path), start, stop, rows, 0, 0)).getvalue()
        for line in text.splitlines():
            names = [pair.partition(b":")[0] for pair in line.split(b"#")[0].split()[1:]]
            if names:
                try:
                    least, most = min(least, int(names[0])), max(most, int(names[-1]))
                except ValueError as e:
                    raise DataError(f"{path}: not a LIBSVM file ({e}).") from e
    return [SparsePiece(str(path), start, stop, rows, most + 1 - least, least)
            for start, stop, rows in places]


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as e:
        raise BackendError("Parquet files need pyarrow; pip install pyarrow, or "
                           f"{WAY_OUT}.") from e
    return parquet


def _of_parquet(path: pathlib.Path) -> list[ParquetPiece]:
    file = _parquet().ParquetFile(path)
    names = tuple(name for name in file.schema_arrow.names if name.casefold() not in CLASSES)
    return [ParquetPiece(str(path), g, file.metadata.row_group(g).num_rows, names)
            for g in range(file.num_row_groups)]


# ---------------------------------------------------------------- where rows are


def _hash(rows: Any) -> bytes:
    """The hash of a block: of its numbers, and of their type and shape."""
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def _starts(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, itertools.accumulate(counts, initial=0)))


class FileBlocks(RowBlocks):
    """Blocks of files, read one at a time in this process."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.starts = _starts([piece.rows for piece in pieces])
        self.shape = (self.starts[-1], pieces[0].columns)

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None) -> Iterator[Any]:
        for piece, (a, b) in zip(self.pieces, itertools.pairwise(self.starts), strict=True):
            own = () if along is None else (along[a:b],)
            yield work(piece.read(), *own, *args)

    @functools.cached_property
    def fingerprint(self) -> str:
        """The sha256 of those of the blocks."""
        return hashlib.sha256(b"".join(self.each(_hash))).hexdigest()

    def to_dask(self) -> Any:
        """An array of Dask whose blocks are read by the workers, who must find the files."""
        try:
            from dask import array
            from dask.delayed import delayed
        except ImportError as e:
            raise BackendError("to_dask: pip install 'mmcopt[cluster]'.") from e
        read = delayed(_read, pure=True)
        return array.concatenate([
            array.from_delayed(read(piece), (piece.rows, piece.columns), dtype=np.float64)
            for piece in self.pieces])


def _read(piece: Piece) -> Any:
    return piece.read()


class DaskBlocks(RowBlocks):
    """Blocks of an array of Dask: they are worked on where they are."""

    def __init__(self, array: Any, owner: str) -> None:
        if array.ndim != 2 or any(c != c for c in array.chunks[0]):
            raise DataError(f"{owner}: X must be a 2-D array of Dask with known chunks; got shape "
                            f"{array.shape}; X.compute_chunk_sizes() finds them.")
        self.array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        self.starts = _starts(self.array.chunks[0])
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None) -> Iterator[Any]:
        from dask.base import compute
        from dask.delayed import delayed

        call, shared = delayed(_called, pure=False), delayed(args, pure=False)
        cuts = itertools.pairwise(self.starts)
        tasks = [call(block, work, shared, None if along is None else along[a:b])
                 for block, (a, b) in zip(self.array.to_delayed().ravel(), cuts, strict=True)]
        try:
            yield from compute(*tasks)
        except Exception as e:
            if type(e).__module__.partition(".")[0] not in ("distributed", "asyncio", "concurrent"):
                raise
            raise BackendError("the cluster that holds the rows has failed "
                               f"({type(e).__name__}: {' '.join(str(e).split())[:200]}).") from e

    @functools.cached_property
    def fingerprint(self) -> str:
        """The sha256 of those of the blocks."""
        return hashlib.sha256(b"".join(self.each(_hash))).hexdigest()


def _called(block: Any, work: Callable[..., Any], args: Any, own: Any) -> Any:
    return work(block, *(() if own is None else (own,)), *args)

