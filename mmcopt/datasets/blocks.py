"""Rows in blocks: files larger than memory, and arrays of Dask, read a block at a time.

A file is never mapped but read into memory block by block, so that what a process holds is bounded
by its blocks. What says where a block is can be sent to other processes; the rows are not.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import itertools
import mmap
import os
import pathlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.lib import format as npy

from mmcopt.checks import Rule, integer, is_dask, is_sparse, optional, require_memory
from mmcopt.datasets.archives import BROKEN
from mmcopt.datasets.parquet import WAY_OUT, parquet_pieces
from mmcopt.datasets.text import (
    CLASSES,
    IDS,
    Column,
    Opening,
    Seen,
    check_width,
    class_column,
    find_column,
    left_out,
    number_of,
    opening,
    row_names,
    split_rows,
)
from mmcopt.errors import BackendError, DataError, MMCWarning
from mmcopt.types import Path, RowBlocks

BYTES = 16e6  # of a block, as floats, where no chunk is asked for
LETS_GO = "keeps_nothing"  # says of a function that what it gives holds no views of its rows
KEPT = 2  # blocks of that length for which a thread keeps room
TASKS = 4  # of a pass, for each thread of a cluster
STRIPS = 1024  # rows that kernels work on at a time
ENDINGS = (".npy", ".csv", ".tsv", ".libsvm", ".svm", ".parquet")
COLUMNS = Rule("a list of at least one heading or number from 1", lambda v: isinstance(
    v, Sequence) and not isinstance(v, str) and len(v) > 0 and all(
        isinstance(c, str | int) and not isinstance(c, bool) for c in v))


def blocks(path: Path, *, chunk: int | None = None,
           columns: Sequence[Column] | None = None) -> RowBlocks:
    """Rows of a file or folder, to be read in blocks of ``chunk`` rows, or of about 16 MB each.

    Taken are .npy, .csv and .tsv with or without headings, .libsvm, .parquet (with pyarrow), and
    folders of .npy or .parquet files, which follow one another by name. Text is looked through once
    to find where blocks begin. Blocks of Parquet are its groups of rows, whatever ``chunk`` is.

    ``columns`` names the features, by heading or by number from 1. Without it all columns are
    features, but for those of text and Parquet that are none to `load` either, of which a warning
    says so: the classes, and what names the rows.

    >>> import tempfile, pathlib, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.npy")
    ...     np.save(path, np.arange(20.0).reshape(10, 2))
    ...     X = blocks(path, chunk=4)
    ...     X, [rows.shape for rows in X.each(np.asarray)]
    (<10 x 2 in blocks: 3>, [(4, 2), (4, 2), (2, 2)])
    """
    optional(integer(1)).check("blocks", "chunk", chunk)
    optional(COLUMNS).check("blocks", "columns", columns)
    path = pathlib.Path(path).expanduser().absolute()  # the folder may change before rows are read
    files, dropped = [path], list[str]()
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".parquet"))
        if len({p.suffix for p in files}) != 1:
            raise DataError(f"{path}: the folder must hold .npy files or .parquet files; it holds "
                            f"{'both' if files else 'none'}.")
    pieces = _pieces(files, chunk, columns, dropped)
    for words in dropped:
        warnings.warn(f"{path}: {words}; columns= keeps it.", MMCWarning, stacklevel=2)
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
    return FileBlocks(raw_pieces(str(X.filename), X.dtype.str, X.offset, n, d, None))


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
        return self.read_into(np.empty(self.size, np.uint8))

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self.rows * self.columns * np.dtype(self.dtype).itemsize

    def read_into(self, buffer: Any) -> Any:
        """The rows, as a view of bytes that they are written over."""
        room = buffer[:self.size]
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                count = file.readinto(room.data)
        except OSError as e:
            raise DataError(f"{self.path}: cannot be read ({e.strerror or e}).") from e
        if count < self.size:
            raise DataError(f"{self.path}: the file has become shorter since it was opened.")
        return room.view(self.dtype).reshape(self.rows, self.columns)


@dataclass(frozen=True)
class TextPiece:
    """Lines of a table; ``keep`` are the columns that are features."""

    path: str
    start: int
    stop: int
    rows: int
    delimiter: str
    keep: tuple[int, ...]
    line: int  # the number of the first

    @property
    def columns(self) -> int:
        """How many are kept."""
        return len(self.keep)

    def read(self) -> Any:
        """The rows."""
        source = _bytes(self)
        try:
            rows = np.loadtxt(source, delimiter=self.delimiter, usecols=self.keep, ndmin=2,
                              comments=None, quotechar='"')
        except ValueError:  # cells that are missing, decimal commas, or no numbers
            source.seek(0)
            rows = self._by_cells(source.getvalue().decode())
        if rows.shape != (self.rows, self.columns):
            raise DataError(f"{self.path}: the file has changed since it was opened.")
        return rows

    def _by_cells(self, text: str) -> Any:
        """The rows, each cell by the rules of `mmcopt.datasets.load`."""
        rows = np.empty((self.rows, self.columns))
        reader, at = split_rows(text.splitlines(), self.delimiter), 0
        for row in reader:
            if at < self.rows and any(cell.strip() for cell in row):
                for out, j in enumerate(self.keep):
                    value = number_of(row[j], self.delimiter != ",") if j < len(row) else None
                    if value is None:
                        raise DataError(
                            f"{self.path}: column {j + 1} holds {row[j:j + 1]} in line "
                            f"{self.line + reader.line_num - 1}, which is not a number; encode it "
                            f"as numbers first, or {WAY_OUT}.")
                    rows[at, out] = value
                at += 1
        return rows[:at]


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
class PartPiece:
    """Some columns of another piece."""

    whole: Piece
    keep: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many."""
        return self.whole.rows

    @property
    def columns(self) -> int:
        """How many are kept."""
        return len(self.keep)

    def read(self) -> Any:
        """The rows."""
        return self.whole.read()[:, list(self.keep)]


def _bytes(piece: TextPiece | SparsePiece) -> io.BytesIO:
    try:
        with open(piece.path, "rb") as file:
            file.seek(piece.start)
            found = file.read(piece.stop - piece.start)
    except OSError as e:
        raise DataError(f"{piece.path}: cannot be read ({e.strerror or e}).") from e
    if len(found) < piece.stop - piece.start:
        raise DataError(f"{piece.path}: the file has become shorter since it was opened.")
    return io.BytesIO(found)


def _pieces(files: Sequence[pathlib.Path], chunk: int | None, columns: Sequence[Column] | None,
            dropped: list[str]) -> list[Piece]:
    """The pieces of files; what is said of columns that are left out is added to ``dropped``."""
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise DataError(f"{missing}: there is no such file.")
    kinds = {path.suffix.casefold() for path in files}
    if kinds == {".parquet"}:
        return list(parquet_pieces(files, columns, dropped))
    return [piece for path in files for piece in _of_file(path, chunk, columns, dropped)]


def _of_file(path: pathlib.Path, chunk: int | None, columns: Sequence[Column] | None,
             dropped: list[str]) -> Sequence[Piece]:
    """The pieces of a file that is not of Parquet."""
    kind = path.suffix.casefold()
    if kind in (".csv", ".tsv"):
        return _of_text(path, chunk, columns, dropped)
    if kind == ".npy":
        whole: Sequence[Piece] = _of_npy(path, chunk)
    elif kind in (".libsvm", ".svm"):
        whole = _of_libsvm(path, chunk)
    else:
        raise DataError(f"{path}: blocks are read from {', '.join(ENDINGS)} and folders of them; "
                        f"{WAY_OUT}.")
    if columns is None or not whole:
        return whole
    keep = tuple(find_column(path, wanted, "columns", [], whole[0].columns) for wanted in columns)
    return [PartPiece(piece, keep) for piece in whole]


def _of_npy(path: pathlib.Path, chunk: int | None) -> list[RawPiece]:
    with open(path, "rb") as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except BROKEN as e:
            words = " ".join(str(e).split())
            raise DataError(f"{path}: not a .npy file ({words}).") from e
        offset = file.tell()
    if len(shape) != 2 or dtype.kind not in "fiu" or (fortran and 1 not in shape):
        raise DataError(f"{path}: blocks are rows of a 2-D array of numbers in the order of C; got "
                        f"{dtype} of shape {shape}{' in the order of Fortran' * fortran}; save "
                        "numpy.ascontiguousarray(X).")
    if min(shape) < 0 or offset + shape[0] * shape[1] * dtype.itemsize > path.stat().st_size:
        raise DataError(f"{path}: the file is shorter than its shape {shape} needs.")
    return raw_pieces(str(path), dtype.str, offset, *shape, chunk)


def raw_pieces(path: str, dtype: str, offset: int, n: int, d: int,
               chunk: int | None) -> list[RawPiece]:
    """The pieces of rows that lie in a file one after another."""
    step, width = chunk or _rows_of(d), np.dtype(dtype).itemsize * d
    return [RawPiece(path, dtype, offset + i * width, min(step, n - i), d)
            for i in range(0, n, step)]


def _rows_of(d: int) -> int:
    """Rows of a block, where no other number is asked for; many are a multiple of `STRIPS`."""
    rows = max(1, int(BYTES / (8 * max(1, d))))
    return rows - rows % STRIPS if rows > STRIPS else rows


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


def _decoded(path: pathlib.Path, file: Any) -> Iterator[str]:
    """The lines of a file that is open as bytes."""
    for number, line in enumerate(iter(file.readline, b""), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as e:
            raise DataError(f"{path}: line {number} is not text in UTF-8 ({e}); save the file in "
                            f"UTF-8, or {WAY_OUT}.") from e


def _of_text(path: pathlib.Path, chunk: int | None, columns: Sequence[Column] | None,
             dropped: list[str]) -> list[TextPiece]:
    """The pieces, after one look at all cells: their number, and those that columns hang on."""
    try:
        with open(path, "rb") as file:
            begin = opening(path, _decoded(path, file))
        seen = {j: Seen(begin.comma) for j, heading in enumerate(begin.headings)
                if columns is None and heading.casefold() in (*CLASSES, *IDS)}
        places = list(_places(path, begin, seen, chunk or _rows_of(begin.width)))
    except csv.Error as e:
        raise DataError(f"{path}: not a table in text ({e}).") from e
    width = begin.width - begin.first
    if columns is None:
        chosen = _features(begin, seen, dropped if places else [])
    else:
        chosen = [find_column(path, wanted, "columns", begin.headings, width)
                  for wanted in columns]
    keep = tuple(j + begin.first for j in chosen)
    return [TextPiece(str(path), start, stop, rows, begin.delimiter, keep, line)
            for start, stop, rows, line in places]


def _features(begin: Opening, seen: dict[int, Seen], dropped: list[str]) -> list[int]:
    """The columns of a table that neither hold the classes nor name the rows."""
    headings = begin.headings
    at = class_column(headings, seen.__getitem__)
    names = row_names(headings, at, seen.__getitem__)
    dropped += left_out(None if at is None else repr(headings[at]),
                        [repr(headings[j]) for j in names])
    return [j for j in range(begin.width - begin.first) if j != at and j not in names]


def _places(path: pathlib.Path, begin: Opening, seen: dict[int, Seen],
            step: int) -> Iterator[tuple[int, int, int, int]]:
    """Where blocks of rows begin and end, how many rows they are, and the line of the first."""
    with open(path, "rb") as file:
        lines = _decoded(path, file)
        for _ in range(begin.skip):
            next(lines)
        start, count, line = file.tell() or 3 * file.read(3).startswith(b"\xef\xbb\xbf"), 0, 0
        file.seek(start)
        reader = split_rows(lines, begin.delimiter)
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            check_width(path, f"line {begin.skip + reader.line_num}", row, begin.width)
            for j, column in seen.items():
                column.add((row[j + begin.first],))
            line, count = line or begin.skip + reader.line_num, count + 1
            if count == step:
                yield start, file.tell(), count, line
                start, count, line = file.tell(), 0, 0
        if count:
            yield start, file.tell(), count, line


def _of_libsvm(path: pathlib.Path, chunk: int | None) -> list[SparsePiece]:
    """The pieces, after one look at all features: how many there are, and whether one is 0."""
    from sklearn.datasets import load_svmlight_file

    places, least, most = [], 1, 0
    for start, stop, rows in _lines(path, 0, chunk or 10_000):
        places.append((start, stop, rows))
        source = _bytes(SparsePiece(str(path), start, stop, rows, 0, 0))
        try:
            X = load_svmlight_file(source, zero_based=True)[0]
        except (ValueError, OverflowError) as e:
            raise DataError(f"{path}: not a LIBSVM file: {_wrong_line(path, start)} (" +
                            " ".join(str(e).split()) + "); its lines are 'number index:value "
                            "...' with rising indices.") from e
        least, most = min(least, int(X.indices.min(initial=1))), max(most, X.shape[1] - 1)
    require_memory(8.0 * most, f"{path}: a feature has the number {most}, and a row of so many",
                   "number the features from 1 on without gaps.")
    return [SparsePiece(str(path), start, stop, rows, most + 1 - least, least)
            for start, stop, rows in places]


def _wrong_line(path: pathlib.Path, start: int) -> str:
    """The first line from a place on that cannot be read by itself."""
    from sklearn.datasets import load_svmlight_file

    with open(path, "rb") as file:
        number = sum(1 for _ in iter(lambda: file.tell() < start and file.readline(), False)) + 1
        for line in iter(file.readline, b""):
            try:
                if line.split(b"#")[0].strip():
                    load_svmlight_file(io.BytesIO(line), zero_based=True)
            except (ValueError, OverflowError):
                return f"line {number} is {line[:60].decode(errors='replace').strip()!r}"
            number += 1
    return f"the lines from byte {start} on"


# ---------------------------------------------------------------- where rows are


def block_hash(rows: Any) -> bytes:
    """The hash of a block: of its numbers, and of their type and shape."""
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def _starts(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, itertools.accumulate(counts, initial=0)))


def keeps_nothing(work: W) -> W:
    """Say that what work gives holds no views of its rows, so that others may take their place.

    Memory that is new costs more than the sums: in workers of Dask, which give all of it back at
    once, three times as much.
    """
    setattr(work, LETS_GO, True)
    return work


_NONE = np.empty(0, np.uint8)
W = TypeVar("W", bound=Callable[..., Any])


_kept = threading.local()


def _room(size: int) -> Any:
    """So many bytes, where blocks lie one after another; those of a few blocks are kept."""
    if size > KEPT * BYTES:
        return np.empty(size, np.uint8)
    if getattr(_kept, "room", _NONE).size < size:
        _kept.room = np.empty(size, np.uint8)
    return _kept.room


def _in_turn(pieces: Sequence[Piece], work: Callable[..., Any], args: Any,
             along: Any) -> Iterator[Any]:
    """What comes of each of some pieces, one of which is in memory at a time."""
    ends = _starts([piece.rows for piece in pieces])
    sizes = [piece.size for piece in pieces if isinstance(piece, RawPiece)]
    buffer = _room(max(sizes, default=0)) if getattr(work, LETS_GO, False) else None
    for piece, (a, b) in zip(pieces, itertools.pairwise(ends), strict=True):
        rows = piece.read() if buffer is None or not isinstance(piece, RawPiece) \
            else piece.read_into(buffer)
        yield work(rows, *(() if along is None else (along[a:b],)), *args)


class FileBlocks(RowBlocks):
    """Blocks of files, read one at a time in this process."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.starts = _starts([piece.rows for piece in pieces])
        self.shape = (self.starts[-1], pieces[0].columns)

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None,
             at_once: int | None = None) -> Iterator[Any]:
        return _in_turn(self.pieces, work, args, along)

    @functools.cached_property
    def fingerprint(self) -> str:
        """The sha256 of those of the blocks."""
        return hashlib.sha256(b"".join(self.each(block_hash))).hexdigest()

    def to_dask(self) -> Any:
        """An array of Dask whose blocks are read by the workers, who must find the files."""
        try:
            from dask import array
            from dask.delayed import delayed
        except ImportError as e:
            raise BackendError("to_dask: pip install 'mmcopt[cluster]'.") from e
        read = delayed(_read, pure=True)
        made = array.concatenate([
            array.from_delayed(read(piece), (piece.rows, piece.columns), dtype=np.float64)
            for piece in self.pieces])
        _MADE[made.name] = len(made.dask), self.pieces
        return made


def _read(piece: Piece) -> Any:
    return piece.read()


# Of arrays that `FileBlocks.to_dask` made, by name: how many tasks they are, and the pieces.
_MADE: dict[str, tuple[int, tuple[Piece, ...]]] = {}


def _pieces_behind(array: Any) -> tuple[Piece, ...]:
    """The pieces of files that an array is made of; none where it is held, or made otherwise."""
    count, pieces = _MADE.get(array.name, (0, ()))
    return pieces if count == len(array.dask) else ()  # what is held has fewer tasks


class DaskBlocks(RowBlocks):
    """Blocks of an array of Dask: they are worked on where they are.

    A task costs milliseconds. So where blocks are read from files, a task takes many in turn.
    """

    def __init__(self, array: Any, owner: str) -> None:
        if array.ndim != 2 or any(c != c for c in array.chunks[0]):
            raise DataError(f"{owner}: X must be a 2-D array of Dask with known chunks; got shape "
                            f"{array.shape}; X.compute_chunk_sizes() finds them.")
        self.array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        self.pieces = _pieces_behind(array)
        self.starts = _starts(self.array.chunks[0])
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def each(self, work: Callable[..., Any], *args: Any, along: Any = None,
             at_once: int | None = None) -> Iterator[Any]:
        from dask.base import compute

        try:
            tasks = self._tasks(work, args, along, bool(self.pieces) and at_once is None)
            step = at_once or len(tasks)
            for start in range(0, len(tasks), step):
                for answers in compute(*tasks[start:start + step]):
                    yield from answers
        except Exception as e:  # errors of a cluster have no base of their own, only a module
            if type(e).__module__.partition(".")[0] not in ("distributed", "asyncio", "concurrent"):
                raise
            raise BackendError("the cluster that holds the rows has failed "
                               f"({type(e).__name__}: {' '.join(str(e).split())[:200]}).") from e

    def _tasks(self, work: Callable[..., Any], args: Any, along: Any, together: bool) -> list[Any]:
        """What is to be done, a block a task or many ``together``, in the order of the rows."""
        from dask.delayed import delayed

        call = delayed(_read_in_turn if together else _called, pure=False)
        shared, count = delayed(args, pure=False), len(self.starts) - 1
        size = -(-count // (TASKS * _hands())) if together else 1
        sources = [self.pieces[i:i + size] for i in range(0, count, size)] if together \
            else self.array.to_delayed().ravel()
        ends = [*self.starts[:-1:size], self.starts[-1]]
        return [call(source, work, shared, None if along is None else along[a:b])
                for source, (a, b) in zip(sources, itertools.pairwise(ends), strict=True)]

    @functools.cached_property
    def fingerprint(self) -> str:
        """The sha256 of those of the blocks."""
        return hashlib.sha256(b"".join(self.each(block_hash))).hexdigest()


def _hands() -> int:
    """How many threads work: those of the cluster, where there is one, or of this machine."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with contextlib.suppress(ValueError, OSError, AttributeError):  # there is none, or no more
            return max(1, sum(distributed.default_client().nthreads().values()))
    return os.cpu_count() or 1


def _called(block: Any, work: Callable[..., Any], args: Any, own: Any) -> list[Any]:
    return [work(block, *(() if own is None else (own,)), *args)]


def _read_in_turn(pieces: Sequence[Piece], work: Callable[..., Any], args: Any,
                  own: Any) -> list[Any]:
    return list(_in_turn(pieces, work, args, own))

