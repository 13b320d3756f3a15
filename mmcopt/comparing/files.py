"""Tables of results on disk: what comparisons and grids share."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mmcopt.errors import ParameterError
from mmcopt.tables import as_json
from mmcopt.types import Path

SUFFIXES = (".csv", ".json", ".md")


def check_suffix(path: Path) -> pathlib.Path:
    """Return a path that a table can be saved to."""
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ParameterError(f"save: the file name must end in {', '.join(SUFFIXES)}; "
                             f"got {str(path)!r}.")
    return path


def save_table(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str],
               everything: Callable[[], Any], markdown: Callable[[], str]) -> None:
    """Write rows to .csv, everything to .json, or Markdown to .md."""
    path = check_suffix(path)
    if path.suffix == ".csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    else:
        text = as_json(everything(), indent=1) if path.suffix == ".json" else markdown()
        path.write_text(text + "\n", encoding="utf-8")
