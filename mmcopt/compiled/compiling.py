"""Time spent compiling: no limit pays for it, and whoever waits is told.

`mmcopt.compiled.loops` reports here when numba begins and ends; nothing else is known of it, so
that the clock can be read without importing numba.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# CPU seconds that a first solve compiles for, by the file of the loop that it begins with.
ABOUT = {"label_moves": 5, "margin_search": 4, "margin_node": 6, "class_tree": 6,
         "cutting_planes": 4, "gaussian_sums": 2, "graph_moves": 6}
LITTLE = 0.5  # seconds of compiling that nobody needs to be told of
EVERY = 0.2  # between two redraws


@dataclass
class Compiling:
    """What this process has compiled so far, and the line that says so."""

    seconds: float = 0.0  # without what is being compiled now
    depth: int = 0  # a loop is compiled while another one is that calls it
    began: float = 0.0
    listeners: int = 0  # solves under way in which somebody waits
    told: float = 0.0  # seconds of compiling before the first of them
    about: int = 0
    collects: bool = True  # whether garbage was collected before
    drawn: float | None = None  # when the line was drawn last; None: there is none
    hushed: bool = False

    def begin(self, module: str) -> None:
        """Numba begins with a loop of a module."""
        if self.depth == 0:
            self.began, self.collects = time.perf_counter(), gc.isenabled()
            gc.disable()  # next to all that numba makes stays, and looking for it takes its time
            if self.drawn is None:
                self.about = ABOUT.get(module.rpartition(".")[2], 3)
        self.depth += 1
        self._tell()

    def end(self) -> None:
        """Numba is done with a loop."""
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.began
            if self.collects:
                gc.enable()
        self._tell()

    def _tell(self) -> None:
        if self.listeners == 0 or self.hushed:
            return
        now = time.perf_counter()
        spent = self.seconds - self.told + (now - self.began if self.depth else 0.0)
        if spent < LITTLE or (self.drawn is not None and now - self.drawn < EVERY):
            return
        terminal = sys.stderr.isatty()
        if self.drawn is None or terminal:
            start = "\r" if terminal else ""
            end = f": {spent:.0f} s " if terminal else "\n"
            sys.stderr.write(f"{start}compiling once (about {self.about} s; mmcopt warmup does it "
                             f"for all solvers){end}")
            sys.stderr.flush()
        self.drawn = now

    def close(self) -> None:
        """End the line, if one was begun."""
        if self.drawn is not None and sys.stderr.isatty():
            sys.stderr.write("\n")
        self.drawn, self.told = None, self.seconds


@dataclass
class Patience:
    """Signals wait while numba is at work: what they raise in a callback of LLVM would be lost."""

    depth: int = 0
    handlers: dict[int, Any] = field(default_factory=dict)
    came: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> None:
        """Numba begins."""
        self.begin()

    def __exit__(self, *error: object) -> None:
        """It is done."""
        self.end()

    def begin(self) -> None:
        """Numba begins; signals come to the main thread only, so others need no patience."""
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth += 1
        if self.depth == 1:
            found = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
            self.handlers = {s: handler for s, handler in found.items() if callable(handler)}
            for number in self.handlers:
                signal.signal(number, self.came.__setitem__)

    def end(self) -> None:
        """Numba is done: what came is handled now."""
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth == 0:
            for number, handler in self.handlers.items():
                signal.signal(number, handler)
            came = dict(self.came)
            self.came.clear()
            for number, frame in came.items():
                self.handlers[number](number, frame)


STATE = Compiling()
PATIENCE = Patience()


def clock() -> float:
    """`time.perf_counter` that stands still while loops are compiled: for limits and timings."""
    return time.perf_counter() - STATE.seconds


@contextmanager
def announced(progress: bool) -> Iterator[None]:
    """Say what takes so long where compiling does: to terminals, and where progress is wanted."""
    told = progress or sys.stderr.isatty() or "ipykernel" in sys.modules
    STATE.listeners += told
    if told and STATE.listeners == 1:
        STATE.told = STATE.seconds
    try:
        yield
    finally:
        STATE.listeners -= told
        if told and STATE.listeners == 0:
            STATE.close()


def hush(quiet: bool = True) -> None:
    """Say nothing in this process: its output is for machines."""
    STATE.hushed = quiet
