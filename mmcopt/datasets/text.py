"""Tables in text: comma, semicolon or tab between the cells, headings or none.

Classes are told by their heading, `CLASSES`, or by the reader's own word, never by their place: a
last column of small integers may be a feature.
"""

from __future__ import annotations

import csv
import math
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
        folded = [h.casefold() for h in self.headings]
        if str(wanted).casefold() in folded:
            return folded.index(str(wanted).casefold())
        if str(wanted).isdigit() and 1 <= int(wanted) <= len(self.columns):
            return int(wanted) - 1
        known = f"; its headings are {', '.join(self.headings)}" if self.headings else \
            "; it has no headings"
        raise DataError(f"{self.path}: {option}={wanted!r} is no heading, and no number from 1 to "
                        f"{len(self.columns)}{known}.")

    def numbers(self, j: int) -> list[float | None]:
        """A column read as numbers: NaN where it is missing, None where it is text."""
        return [_number(cell, self.comma) for cell in self.columns[j]]


def read_text(path: pathlib.Path, labels: Chosen = None,
              columns: Sequence[Column] | None = None) -> Table:
    """Read a table; see `mmcopt.datasets.load` for ``labels`` and ``columns``."""
    cells = _read(path)
    at = _class_column(cells, labels)
    y, classes = (None, []) if at is None else _classes(cells, at)
    if columns is None:
        rest = [j for j in range(len(cells.columns)) if j != at]
        named = [j for j in rest if cells.headings and cells.headings[j].casefold() in IDS
                 and len(set(cells.columns[j])) == len(cells.columns[j])]
        features = [j for j in rest if j not in named]
    else:
        named, features = [], [cells.find(wanted, "columns") for wanted in columns]
    X = np.empty((len(cells.columns[0]), len(features)))
    for out, j in enumerate(features):
        X[:, out] = _feature(cells, j)
    dropped = ", ".join(cells.name(j) for j in named)
    return Table(X, y, classes, "" if at is None else f"the classes are those of column "
                 f"{cells.name(at)}",
                 dropped and f"column {dropped} names the rows and is left out")


def _read(path: pathlib.Path) -> _Cells:
    """Split a file into cells."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"{path}: not a readable text file in UTF-8 ({e}).") from e
    delimiter = max(",;\t", key=text.lstrip().partition("\n")[0].count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter, skipinitialspace=True)
    rows = [row for row in reader if any(cell.strip() for cell in row)]
    if not rows:
        raise DataError(f"{path}: the file is empty.")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DataError(f"{path}: row {i + 1} has {plural(len(row), 'cell')} where the "
                            f"first has {len(rows[0])}.")
    headings: list[str] = []
    if all(_number(cell, delimiter != ",") is None for cell in rows[0] if cell.strip()):
        headings, rows = [cell.strip() for cell in rows[0]], rows[1:]
        if not rows:
            raise DataError(f"{path}: the file has headings but no rows.")
    columns = [list(column) for column in zip(*rows, strict=True)]
    if len(headings) > 1 and not headings[0]:  # the row numbers that pandas writes
        headings, columns = headings[1:], columns[1:]
    return _Cells(path, columns, headings, delimiter != ",")


def _number(cell: str, comma: bool) -> float | None:
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
    folded = [h.casefold() for h in cells.headings]
    named = [folded.index(name) for name in CLASSES if name in folded]
    able = [j for j in named if len(folded) > 1 and _encoded(cells, j)[0] is not None]
    if labels is True and not able:
        raise DataError(f"{cells.path}: no column is called {', '.join(CLASSES)}; say which one "
                        "holds the classes.")
    return able[0] if able else None


def _encoded(cells: _Cells, j: int) -> tuple[np.ndarray | None, list[str]]:
    """Classes and their names; None where some are missing, and of measured numbers."""
    values = cells.numbers(j)
    if None not in values:
        return encode(values)
    if any(not cell.strip() for cell in cells.columns[j]):
        return None, []
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
