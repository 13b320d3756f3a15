"""The ladder of bounds on the command line: as it climbs, and as a table afterwards."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

from mmcopt import registry
from mmcopt.cli.console import console, note, show_table, table_of
from mmcopt.modeling.result import ClimbEnd, Result, Rung
from mmcopt.tables import cell

MEANING = {
    "cheap": "no bound yet",
    "trivial": "what holds without any work",
    "own": "a bound of the problem's own",
    "eig": "eigenvalue of W",
    "sdp": "max-cut relaxation",
    "sdp+cuts": "max-cut relaxation with triangle cuts",
    "partition": "partition relaxation",
    "partition+cuts": "partition relaxation with triangle and clique cuts",
    "branch-and-bound": "branch and bound",
    "enumeration": "enumeration of all labelings",
}
STARTS = ("cheap", "trivial", "own", "eig")  # levels that every climb begins with
COLUMNS = ("level", "seconds", "lower_bound", "gap", "what it is")
EVERY = 2.0  # seconds between lines of one level where there is no terminal
KEPT = 50  # rungs in JSON


def meaning(level: str) -> str:
    """What a level is, in one clause; relaxations defined elsewhere speak for themselves."""
    if level in MEANING:
        return MEANING[level]
    cls = registry.relaxations().get(level)
    return "" if cls is None else cls.tightness.partition(";")[0]


def gap_of(rung: Rung) -> float | None:
    """The gap at a rung; None without labels or without a bound."""
    if not (math.isfinite(rung.upper) and math.isfinite(rung.lower)):
        return None
    return (rung.upper - rung.lower) / max(abs(rung.upper), 1e-10)


def level_rows(ladder: Sequence[Rung]) -> list[dict[str, Any]]:
    """One row a level: what was known when it ended."""
    rows: list[dict[str, Any]] = []
    for level, group in itertools.groupby(ladder, key=lambda rung: rung.level):
        last = list(group)[-1]
        lower = last.lower if math.isfinite(last.lower) else None
        known = not rows and level not in STARTS
        rows.append({"level": level, "seconds": last.seconds, "lower_bound": lower,
                     "gap": gap_of(last),
                     "what it is": ("known before: " if known else "") + meaning(level)})
    return rows


def thinned(ladder: Sequence[Rung], most: int = KEPT) -> list[list[Any]]:
    """Rungs as lists for JSON: the last of each level, and about ``most`` in all."""
    ends = {i for i, rung in enumerate(ladder)
            if i + 1 == len(ladder) or ladder[i + 1].level != rung.level}
    rest = [i for i in range(len(ladder)) if i not in ends]
    room = max(0, min(most - len(ends), len(rest)))
    kept = ends | {rest[(j * len(rest)) // room] for j in range(room)}
    return [[r.level, r.seconds, r.lower, r.upper] for r in map(ladder.__getitem__, sorted(kept))]


def show_ladder(ladder: Sequence[Rung]) -> None:
    """Print what each level brought; nothing when no level was climbed."""
    if ladder:
        show_table(level_rows(ladder), COLUMNS)


class LadderWatch:
    """The ladder while it climbs: on a terminal a table that grows, otherwise lines, on stderr.

    Call it with each `Rung`, inside a ``with`` block.
    """

    def __init__(self, seconds: float, *, quiet: bool = False) -> None:
        self.limit, self.quiet = seconds, quiet
        self.rungs: list[Rung] = []
        self.started = time.perf_counter()
        self.said: Rung | None = None
        self.out = console(error=True)
        self.live: Any = None

    def __enter__(self) -> LadderWatch:
        if not self.quiet and self.out.is_terminal:
            from rich.live import Live

            self.live = Live(get_renderable=self._table, console=self.out, refresh_per_second=8,
                             transient=True)
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()
        elif self.rungs and not self.quiet:
            self._say(self.rungs[-1])

    def __call__(self, rung: Rung) -> None:
        """Take a rung."""
        before = self.rungs[-1] if self.rungs else rung
        self.rungs.append(rung)
        if self.quiet or self.live is not None:
            return
        if before.level != rung.level:  # what the level that ended has reached
            self._say(before)
        elif rung.seconds - (self.said.seconds if self.said else 0.0) >= EVERY:
            self._say(rung)

    def _say(self, rung: Rung) -> None:
        if rung is self.said:
            return
        self.said = rung
        share = "" if gap_of(rung) is None else f", gap {cell('gap', gap_of(rung))}"
        note(f"  {rung.seconds:6.1f} s  {rung.level:<16}  bound {rung.lower:.6g}, objective "
             f"{rung.upper:.6g}{share}")

    def _table(self) -> Any:
        """Drawn anew some times a second, so the clock runs while a level is silent."""
        spent = time.perf_counter() - self.started
        rows = level_rows(tuple(self.rungs))
        return table_of(rows, COLUMNS, f"raising the bound: {spent:.1f} of {self.limit:g} s "
                                       "(Ctrl-C keeps the best so far)")


def climb(result: Result, seconds: float, *, quiet: bool,
          checkpoint: str | None = None, executor: Any = None) -> tuple[Result, bool]:
    """Raise the bound of a result before the reader's eyes; also whether Ctrl-C ended it."""
    with LadderWatch(seconds, quiet=quiet) as watch:
        try:
            tight = result.certify(time_limit=seconds, progress=watch, executor=executor,
                                   checkpoint=checkpoint)
        except KeyboardInterrupt:  # before the first level; nothing found so far is lost
            return result, True
    return tight, interrupted(tight)


def interrupted(result: Result) -> bool:
    """Whether Ctrl-C ended the climb of a certified result."""
    return result.climb_end is ClimbEnd.INTERRUPTED
