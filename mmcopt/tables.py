"""Rows of dictionaries as text, Markdown, HTML, JSON and frames; sizes and times as people say."""

from __future__ import annotations

import enum
import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mmcopt.errors import BackendError

Row = Mapping[str, Any]
ABSENT = "-"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value == 0 or abs(value) >= 1e-3 else f"{100 * value:.2g} %"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


# How the numbers of a column are printed; all others with six digits.
FORMATS: dict[str, Callable[[float], str]] = {
    "gap": _percent, "hits": _share, "seconds": _seconds, "prepare": _seconds,
    "time_to_best": _seconds, "median": _seconds, "expected": _seconds,
    "reached": _share, "restarts": "{:.0f}".format, "p": "{:.2g}".format,
    "ari": "{:.3f}".format, "accuracy": _percent,
}


def cell(column: str, value: Any) -> str:
    """One entry as a reader wants it: a dash where there is no number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, bool | str | enum.Enum) or not isinstance(value, int | float | np.number):
        return str(value)
    if column in FORMATS:
        return FORMATS[column](float(value))
    return str(value) if isinstance(value, int | np.integer) else f"{value:.6g}"


def _cells(rows: Sequence[Row], columns: Sequence[str]) -> list[list[str]]:
    return [[cell(c, row.get(c)) for c in columns] for row in rows]


def numeric(rows: Sequence[Row], column: str) -> bool:
    """Whether a column holds numbers, and so is aligned to the right."""
    return not any(isinstance(row.get(column), str) for row in rows)


def text_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns under their names.

    >>> print(text_table([{"solver": "Tabu", "best": 1.5}, {"solver": "Shaking"}],
    ...                  ["solver", "best"]))
    solver   best
    -------  ----
    Tabu      1.5
    Shaking     -
    """
    body = _cells(rows, columns)
    widths = [max(len(r[j]) for r in [list(columns), *body]) for j in range(len(columns))]
    right = [numeric(rows, c) for c in columns]

    def line(cells: Sequence[str]) -> str:
        parts = [c.rjust(w) if r else c.ljust(w)
                 for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(columns), "  ".join("-" * w for w in widths), *map(line, body)])


def markdown_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return a Markdown table; numbers are aligned to the right."""
    marks = ["---:" if numeric(rows, c) else "---" for c in columns]
    lines = [list(columns), marks, *_cells(rows, columns)]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in lines)


def html_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """A table in HTML; numbers are aligned to the right and carry their value for sorting."""
    right = [numeric(rows, c) for c in columns]
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    lines = []
    for row, texts in zip(rows, _cells(rows, columns), strict=True):
        cells = "".join(
            f'<td data-value="{html.escape(str(row.get(c)))}" style="text-align:right">'
            f"{html.escape(text)}</td>" if number else f"<td>{html.escape(text)}</td>"
            for c, text, number in zip(columns, texts, right, strict=True))
        lines.append(f"<tr>{cells}</tr>")
    return (f"<table><thead><tr>{head}</tr></thead><tbody>" + "\n".join(lines)
            + "</tbody></table>")


def as_frame(rows: Sequence[Row], columns: Sequence[str] | None = None) -> Any:
    """Rows as a pandas DataFrame."""
    try:
        import pandas
    except ImportError as e:
        raise BackendError("to_frame() needs pandas: pip install pandas. Without it, the rows are "
                           "there as plain dictionaries (.rows, .to_dict()).") from e
    return pandas.DataFrame(list(rows), columns=None if columns is None else list(columns))


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold: NaN and infinities become null.

    >>> plain({"gap": float("nan"), "labels": np.array([0, 1])})
    {'gap': None, 'labels': [0, 1]}
    """
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def as_json(value: Any, indent: int | None = None) -> str:
    """Write one JSON document without NaN."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)


def human(size: float) -> str:
    """``human(3e9)`` is "2.8 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def spoken(seconds: float) -> str:
    """``spoken(90)`` is "2 min"."""
    if seconds < 60:
        return f"{max(seconds, 0.01):.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
