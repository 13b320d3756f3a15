"""The progress line of a long solve."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 0.1  # seconds between two redraws


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


@contextmanager
def meter(wanted: bool, name: str, time_limit: float | None) -> Iterator[Meter | None]:
    """Give a `Meter` when one is wanted, else None."""
    shown = Meter(name, time_limit) if wanted else None
    try:
        yield shown
    finally:
        if shown is not None:
            shown.close()
