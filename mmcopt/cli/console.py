"""What the command line prints: rich tables, progress, and JSON."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from mmcopt.comparing import Watch
from mmcopt.tables import Row, as_json, cell, numeric
from mmcopt.types import Seed

HEADINGS = {"runs": "runs", "best": "best obj.", "mean": "mean obj.", "hits": "hit best",
            "seconds": "seconds", "bound": "lower bound", "gap": "gap", "ari": "ARI",
            "time_to_best": "s to best", "objective": "objective",
            "lower_bound": "lower bound"}


def console(*, error: bool = False) -> Any:
    """Return a rich console; what is piped gets room for a whole table."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else 140
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=True)


def say(*lines: Any) -> None:
    """Print lines to standard output as they are."""
    print(*lines, sep="\n", flush=True)


def note(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the texts of warnings, each once, which would be printed with paths and code."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.filterwarnings("always", category=UserWarning)
        yield texts
    texts.extend(dict.fromkeys(str(w.message) for w in seen))


def show_json(value: Any) -> None:
    """Print one JSON document to standard output."""
    print(as_json(value), flush=True)


GAP, WRAP = 3, 24  # letters between columns, and of a column of words
WRAPPED = ("problem", "solver", "allowed", "meaning", "what it is")  # words, not numbers


def table_of(rows: Sequence[Row], columns: Sequence[str], title: str | None = None) -> Any:
    """Rows as a rich table."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold",
                  pad_edge=False)
    for c in columns:
        table.add_column(HEADINGS.get(c, c), justify="right" if numeric(rows, c) else "left",
                         no_wrap=c == columns[0] or c not in WRAPPED)
    for row in rows:
        table.add_row(*(cell(c, row.get(c)) for c in columns))
    return table


def show_table(rows: Sequence[Row], columns: Sequence[str], title: str | None = None) -> None:
    """Print rows as rich tables: more than one, each with the first column, where it is narrow."""
    out = console()
    for i, part in enumerate(parts(rows, columns, out.width)):
        out.print(table_of(rows, part, None if i else title))


def parts(rows: Sequence[Row], columns: Sequence[str], width: int) -> list[list[str]]:
    """The columns in parts that fit a width; all begin with the first, so that rows have names."""
    first, *others = columns
    found, used = [[first]], [_room(rows, first, whole=True)]
    for c in others:
        room = _room(rows, c)
        if used[-1] + room > width and len(found[-1]) > 1:
            found.append([first])
            used.append(_room(rows, first, whole=True))
        found[-1].append(c)
        used[-1] += room
    return found


def _room(rows: Sequence[Row], c: str, *, whole: bool = False) -> int:
    """The letters that a column takes, with the space beside it; words are wrapped."""
    longest = max(len(text) for text in [HEADINGS.get(c, c), *(cell(c, r.get(c)) for r in rows)])
    return GAP + (longest if whole or c not in WRAPPED else min(longest, WRAP))


class LiveWatch(Watch):
    """Progress of a comparison: a bar on a terminal, otherwise a line a run, on standard error."""

    def __init__(self) -> None:
        self.out = console(error=True)
        self.bar: Any = None
        self.task: Any = None
        self.lock = threading.Lock()
        self.drawn = 0.0
        self.best: dict[str, float] = {}

    def preparing(self, problem: str, solver: str) -> None:
        self._start()
        if self.bar is not None:
            self.bar.update(self.task, description=f"preparing {solver} (kernel, compiled loops)")
        else:
            note(f"  preparing {solver} ...")

    def _start(self) -> None:
        if self.bar is None and self.out.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.progress import TimeElapsedColumn as Elapsed

            self.bar = Progress(BarColumn(24), MofNCompleteColumn(), Elapsed(),
                                TextColumn("{task.description}", markup=False), console=self.out,
                                transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=None)

    def begin(self, runs: int) -> None:
        self._start()
        if self.bar is not None:
            self.bar.update(self.task, total=runs)

    def stepped(self, problem: str, solver: str, seed: Seed, row: dict[str, float]) -> None:
        now = time.perf_counter()
        with self.lock:
            if self.bar is None or now - self.drawn < 0.1:
                return
            self.drawn = now
        self.bar.update(self.task, description=f"{solver}, seed {seed}: "
                        f"{row['seconds']:.1f} s, best {row['best']:.6g}")

    def finished(self, row: Row) -> None:
        if self.bar is not None:
            self.bar.advance(self.task)
            return
        gap = "" if row["gap"] is None else f", gap {cell('gap', row['gap'])}"
        seconds = cell("seconds", row["seconds"])
        note(f"  {row['solver']}, seed {row['seed']}: objective "
             f"{cell('objective', row['objective'])}{gap}, {row['status']}, {seconds} s")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
