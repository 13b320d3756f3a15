"""Tables in text: comma, semicolon or tab between the cells, headings or none.

Classes are told by their heading, `CLASSES`, or by the reader's own word, never by their place: a
last column of small integers may be a feature.
"""

from __future__ import annotations

import array
import csv
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mmcopt.checks import plural
from mmcopt.datasets.table import Table, encode
from mmcopt.errors import DataError

CLASSES = ("label", "class", "target", "y")  # headings of classes, the first of them that is there
IDS = ("id", "index", "key", "uuid", "rowid", "row_id", "sample_id")  # of what names the rows
MISSING = ("", "?", "na", "n/a", "nan", "null")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
Column = str | int  # a heading, or a number from 1
Chosen = Column | bool | None


@dataclass(frozen=True)
class Opening:
    """How a table begins: the lines before its rows, and what they say of the cells."""

    skip: int  # lines before the rows
    delimiter: str
    width: int  # cells in each row
    headings: list[str]  # none, or one for each column from ``first`` on
    first: int  # 1 behind the row numbers that pandas writes, else 0

    @property
    def comma(self) -> bool:
        """Whether a comma may stand for the point of a number."""
        return self.delimiter != ","


class Seen:
    """What the choice of columns asks of one, gathered cell by cell."""

    def __init__(self, comma: bool) -> None:
        self.comma, self.text, self.blank, self.whole = comma, False, False, True
        self.hashes = array.array("q")

    def add(self, cells: Iterable[str]) -> None:
        """Look at more of its cells."""
        for cell in cells:
            self.hashes.append(hash(cell))
            value = number_of(cell, self.comma)
            self.text |= value is None
            self.blank |= not cell.strip()
            self.whole &= value is not None and math.isfinite(value) and value == round(value)

    @property
    def classes(self) -> bool:
        """Whether it may hold classes: text without gaps, or whole numbers."""
        return not self.blank if self.text else self.whole

    @property
    def distinct(self) -> bool:
        """Whether no two cells are the same."""
        return len(np.unique(np.asarray(self.hashes))) == len(self.hashes)


class Judged(Protocol):
    """What is known of the cells of a column: `Seen`, or like it."""

    @property
    def classes(self) -> bool:
        """Whether it may hold classes."""
        ...

    @property
    def distinct(self) -> bool:
        """Whether no two cells are the same."""
        ...


def class_column(headings: Sequence[str], seen: Callable[[int], Judged]) -> int | None:
    """The first column that is called so and may hold classes."""
    folded = [heading.casefold() for heading in headings]
    named = [folded.index(name) for name in CLASSES if name in folded]
    return next((j for j in named if len(folded) > 1 and seen(j).classes), None)


def row_names(headings: Sequence[str], at: int | None,
              seen: Callable[[int], Judged]) -> list[int]:
    """The columns beside the classes that name the rows."""
    return [j for j, heading in enumerate(headings)
            if j != at and heading.casefold() in IDS and seen(j).distinct]


def left_out(classes: str | None, names: Sequence[str]) -> list[str]:
    """The sentences on a column of classes, and on columns that name the rows."""
    found = [] if classes is None else [f"column {classes} holds the classes and is left out"]
    return found + [f"column {', '.join(names)} names the rows and is left out"] * bool(names)


def find_column(path: pathlib.Path, wanted: Column, option: str, headings: Sequence[str],
                width: int) -> int:
    """The place of a column that was asked for, by its heading or its number from 1."""
    folded = [heading.casefold() for heading in headings]
    if str(wanted).casefold() in folded:
        return folded.index(str(wanted).casefold())
    if str(wanted).isdigit() and 1 <= int(wanted) <= width:
        return int(wanted) - 1
    known = f"its headings are {', '.join(headings)}" if headings else "it has no headings"
    raise DataError(f"{path}: {option}={wanted!r} is no heading, and no number from 1 to {width}; "
                    f"{known}.")


def opening(path: pathlib.Path, lines: Iterable[str]) -> Opening:
    """Look at the first lines of a table.

    Empty lines and notes (``# ...``) before its rows are passed over; a note that has as many cells
    as the line that follows it, and none of them a number, holds the headings.
    """
    stream, note = enumerate(lines), (0, "")
    for at, line in stream:
        if not line.strip(' \t\r\n,;"'):
            continue
        if not line.lstrip().startswith("#"):
            break
        note = at, line
    else:
        raise DataError(f"{path}: the file is empty.")
    delimiter = max(",;\t", key=line.count)
    reader = split_rows(itertools.chain([line], (rest for _, rest in stream)), delimiter)
    row = next(reader)
    before, skip = at, at + reader.line_num
    other = max(",;\t", key=note[1].count)
    named: list[str] = next(split_rows([note[1]], other), [])
    if len(named) > 1 and len(named) == len(next(split_rows([line], other))) \
            and _is_heading(named, other != ","):
        delimiter, row, skip = other, named, note[0] + 1
    if not _is_heading(row, delimiter != ","):
        return Opening(before, delimiter, len(row), [], 0)
    headings = [cell.strip() for cell in row]
    first = int(len(headings) > 1 and not headings[0])  # the row numbers that pandas writes
    return Opening(skip, delimiter, len(row), headings[first:], first)


def split_rows(lines: Iterable[str], delimiter: str) -> Any:
    """A reader of rows as lists of cells."""
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


def _is_heading(row: Sequence[str], comma: bool) -> bool:
    return all(number_of(cell, comma) is None for cell in row if cell.strip())


def check_width(path: pathlib.Path, where: str, row: Sequence[str], width: int) -> None:
    """Refuse a row that is longer or shorter than the first."""
    if len(row) != width:
        raise DataError(f"{path}: {where} has {plural(len(row), 'cell')} where the first has "
                        f"{width}.")


@dataclass(frozen=True)
class _Cells:
    """The cells by column, and the headings, which may be none."""

    path: pathlib.Path
    columns: list[list[str]]
    headings: list[str]
    comma: bool

    def name(self, j: int) -> str:
        """What a message calls a column."""
        return repr(self.headings[j]) if self.headings else str(j + 1)

    def find(self, wanted: Column, option: str) -> int:
        """The place of a column that was asked for."""
        return find_column(self.path, wanted, option, self.headings, len(self.columns))

    def numbers(self, j: int) -> list[float | None]:
        """A column read as numbers: NaN where it is missing, None where it is text."""
        return [number_of(cell, self.comma) for cell in self.columns[j]]

    def seen(self, j: int) -> Seen:
        """What the choice of columns asks of one."""
        found = Seen(self.comma)
        found.add(self.columns[j])
        return found


def read_text(path: pathlib.Path, labels: Chosen = None,
              columns: Sequence[Column] | None = None) -> Table:
    """Read a table; see `mmcopt.datasets.load` for ``labels`` and ``columns``."""
    cells = _read(path)
    at = _class_column(cells, labels)
    y, classes = (None, []) if at is None else _classes(cells, at)
    if columns is None:
        rest = [j for j in range(len(cells.columns)) if j != at]
        named = row_names(cells.headings, at, cells.seen)
        features = [j for j in rest if j not in named]
    else:
        named, features = [], [cells.find(wanted, "columns") for wanted in columns]
    X = np.empty((len(cells.columns[0]), len(features)))
    for out, j in enumerate(features):
        X[:, out] = _feature(cells, j)
    return Table(X, y, classes, "" if at is None else f"the classes are those of column "
                 f"{cells.name(at)}",
                 "".join(left_out(None, [cells.name(j) for j in named])))


def _read(path: pathlib.Path) -> _Cells:
    """Split a file into cells."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"{path}: not a readable text file in UTF-8 ({e}).") from e
    try:
        lines = text.splitlines()
        found = opening(path, lines)
        rows = [row for row in split_rows(lines[found.skip:], found.delimiter)
                if any(cell.strip() for cell in row)]
    except csv.Error as e:
        raise DataError(f"{path}: not a table in text ({e}).") from e
    for i, row in enumerate(rows, 2 if found.headings else 1):
        check_width(path, f"row {i}", row, found.width)
    if not rows:
        raise DataError(f"{path}: the file has headings but no rows.")
    columns = [list(column) for column in zip(*rows, strict=True)][found.first:]
    return _Cells(path, columns, found.headings, found.comma)


def number_of(cell: str, comma: bool) -> float | None:
    """Read a cell: NaN when it is missing, None when it is text."""
    if comma and DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        return math.nan if cell.strip().casefold() in MISSING else None


def _class_column(cells: _Cells, labels: Chosen) -> int | None:
    """The column of the classes: the one asked for, or one that is called so."""
    if labels is False:
        return None
    if labels is not None and labels is not True:
        return cells.find(labels, "labels")
    found = class_column(cells.headings, cells.seen)
    if labels is True and found is None:
        raise DataError(f"{cells.path}: no column is called {', '.join(CLASSES)}; say which one "
                        "holds the classes.")
    return found


def _encoded(cells: _Cells, j: int) -> tuple[np.ndarray | None, list[str]]:
    """Classes and their names; None where some are missing, and of measured numbers."""
    if not cells.seen(j).classes:
        return None, []
    values = cells.numbers(j)
    if None not in values:
        return encode(values)
    return encode([cell.strip() for cell in cells.columns[j]])


def _classes(cells: _Cells, j: int) -> tuple[np.ndarray, list[str]]:
    y, classes = _encoded(cells, j)
    if y is None:
        raise DataError(f"{cells.path}: column {cells.name(j)} holds measured numbers, or cells "
                        "are missing, so it cannot be the classes.")
    return y, classes


def _feature(cells: _Cells, j: int) -> list[float | None]:
    values = cells.numbers(j)
    if None in values:
        i = values.index(None)
        raise DataError(f"{cells.path}: column {cells.name(j)} holds {cells.columns[j][i]!r} in "
                        f"data row {i + 1}, which is not a number; if it holds the classes, name "
                        "it by labels (--labels), else encode it as numbers first or leave it "
                        "out by columns (--columns).")
    return values
