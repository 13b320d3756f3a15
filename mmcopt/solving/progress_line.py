"""The progress line of a long solve, and the log of one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 0.1  # seconds between two redraws
LINES = 0.5  # seconds between two lines of a log, but for those of better labels
SOONER = 0.05  # seconds between these
HEAD = f"{'seconds':>9} {'restart':>8} {'step':>8} {'objective':>14} {'best':>14}"


class Meter:
    """One line on standard error that is redrawn in place, at most ten times a second."""

    def __init__(self, name: str, time_limit: float | None) -> None:
        self.name, self.time_limit = name, time_limit
        self.started = self.drawn = time.perf_counter()
        self.steps = 0

    def update(self, row: dict[str, float], best: float) -> None:
        """Take one row of the history."""
        self.steps += 1
        now = time.perf_counter()
        if now - self.drawn >= EVERY:
            self.drawn = now
            self._draw(now, row, best)

    def _draw(self, now: float, row: dict[str, float], best: float) -> None:
        limit = f" of {self.time_limit:g}" if self.time_limit is not None else ""
        sys.stderr.write(f"\r{self.name}: {now - self.started:5.1f}{limit} s, {self.steps} steps, "
                         f"restart {int(row['restart'])}, best {best:.6g}   ")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line, if one was begun."""
        if self.drawn > self.started:
            sys.stderr.write("\n")


class Log(Meter):
    """Lines on standard error as optimisers print them: the first step, better ones, the last."""

    def __init__(self, name: str, time_limit: float | None) -> None:
        super().__init__(name, time_limit)
        limit = "" if time_limit is None else f", at most {time_limit:g} s"
        sys.stderr.write(f"{name}{limit}\n")
        self.known = self.printed = float("inf")
        self.last = ""

    def update(self, row: dict[str, float], best: float) -> None:
        self.steps += 1
        now = time.perf_counter()
        waited = now - self.drawn
        self.known = min(self.known, best)
        self.last = (f"{row['seconds']:9.2f} {int(row['restart']):8d} {int(row['iteration']):8d} "
                     f"{row['objective']:14.8g} {self.known:14.8g}\n")
        if self.steps == 1:
            sys.stderr.write(HEAD + "\n")
        if self.steps == 1 or waited >= LINES or (self.known < self.printed and waited >= SOONER):
            self._print(now)

    def _print(self, now: float) -> None:
        sys.stderr.write(self.last)
        sys.stderr.flush()
        self.drawn, self.printed, self.last = now, self.known, ""

    def close(self) -> None:
        if self.last:
            self._print(self.drawn)


@contextmanager
def meter(line: bool, log: bool, name: str, time_limit: float | None) -> Iterator[Meter | None]:
    """Give a `Log` or a `Meter` when one is wanted, else None."""
    shown = Log(name, time_limit) if log else Meter(name, time_limit) if line else None
    try:
        yield shown
    finally:
        if shown is not None:
            shown.close()
