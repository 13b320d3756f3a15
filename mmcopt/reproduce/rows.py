"""The rows of a table: one after another or where an executor puts them, until the time is up.

A row is made of a task that depends on nothing but itself and what all share, so that the table is
the same wherever and in whatever order its rows are done. One that a time limit or Ctrl-C cuts
short is left out: its figures would be of less than was promised.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mmcopt.compiled.compiling import clock
from mmcopt.errors import MMCWarning
from mmcopt.linalg import one_thread
from mmcopt.reproduce.protocol import StoppedError, keeping_of, using
from mmcopt.reproduce.tables import CTRL_C, LOST, TIME, Say
from mmcopt.solving.checkpoints import Checkpoint
from mmcopt.solving.executors import LostError, Signal, Team, team
from mmcopt.solving.runs import Budget, under

Task = TypeVar("Task", bound=Hashable)
Work = Callable[[Any, Any, Say], Any]  # of what all share, of a task, and of who hears of progress


@dataclass
class Place:
    """Where rows are done and until when; ``ended`` says what has cut them off."""

    executor: Any = None
    deadline: float = math.inf
    stop: Signal = field(default_factory=threading.Event)
    ended: str = ""

    def over(self) -> bool:
        """Whether no row is to be begun any more."""
        if not self.ended and clock() >= self.deadline:
            self.ended = TIME
        return bool(self.ended)


_place: ContextVar[Place | None] = ContextVar("place", default=None)


@contextmanager
def placed(executor: Any, time_limit: float | None) -> Iterator[Place]:
    """Let `rows` do its rows at an executor, for so many seconds from now."""
    place = Place(executor, math.inf if time_limit is None else clock() + time_limit)
    token = _place.set(place)
    try:
        yield place
    finally:
        _place.reset(token)


def cut_off() -> str:
    """Why a row is missing that was asked for."""
    place = _place.get()
    return f"{place.ended if place else CTRL_C} before it was done"


def rows(work: Work, shared: Any, tasks: Sequence[Task], say: Say) -> dict[Task, Any]:
    """What the work makes of each task, in their order, without those that were cut off."""
    place = _place.get() or Place()
    found: dict[Task, Any] = {}
    with _quiet():
        if place.executor is None:
            _in_turn(place, work, shared, tasks, say, found)
        else:
            _side_by_side(place, work, shared, tasks, say, found)
    return {task: found[task] for task in tasks if task in found}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what scikit-learn warns of: EM that goes on, graphs in several pieces."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module=r"sklearn\.")
        yield


def _in_turn(place: Place, work: Work, shared: Any, tasks: Sequence[Task], say: Say,
             found: dict[Task, Any]) -> None:
    for task in tasks:
        if place.over():
            return
        try:
            found[task] = _one(work, shared, task, say, Budget(math.inf, place.deadline,
                                                               place.stop))
        except (KeyboardInterrupt, StoppedError) as e:
            by_hand = isinstance(e, KeyboardInterrupt) or place.stop.is_set()
            place.ended = CTRL_C if by_hand else TIME


def _one(work: Work, shared: Any, task: Any, say: Say, budget: Budget) -> Any:
    """A row, by one thread of BLAS: its seconds are those of one core."""
    with under(budget), one_thread, one_thread.openmp_here():
        return work(shared, task, say)


# ---------------------------------------------------------------- side by side


@dataclass(frozen=True)
class _Shared:
    """What all workers are told."""

    work: Work
    shared: Any
    stop: Signal
    say: Say
    file: Checkpoint | None = None


@dataclass(frozen=True)
class _Drawn:
    """A task as a worker gets it."""

    task: Any
    left: float  # seconds to the deadline


@dataclass(frozen=True)
class _Answer:
    """What a worker made of it, what it said, and whether it was cut short."""

    value: Any = None
    lines: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    cut: bool = False


def _side_by_side(place: Place, work: Work, shared: Any, tasks: Sequence[Task], say: Say,
                  found: dict[Task, Any]) -> None:
    def drawn() -> Iterator[_Drawn]:
        for task in tasks:
            if place.over():
                return
            yield _Drawn(task, place.deadline - clock())

    def take(given: _Drawn, answer: _Answer) -> None:
        for line in answer.lines:
            say(line)
        for text in answer.warned:
            warnings.warn(text, MMCWarning, stacklevel=2)
        if not answer.cut:
            found[given.task] = answer.value
        elif not place.ended:
            place.ended = TIME

    with team(place.executor, None, max(1, len(tasks))) as workers:
        ended = _handed_out(workers, work, shared, say, drawn(), take)
    if ended is not None:
        place.ended = LOST if isinstance(ended, LostError) else CTRL_C
        if isinstance(ended, LostError):
            warnings.warn(f"reproduce: {ended} These are the rows that were done.", MMCWarning,
                          stacklevel=2)


def _handed_out(workers: Team, work: Work, shared: Any, say: Say, drawn: Iterator[_Drawn],
                take: Callable[[_Drawn, _Answer], None]) -> BaseException | None:
    here = workers.here
    given = _Shared(work, shared, workers.stop, say, keeping_of()) if here else \
        _Shared(work, shared, workers.stop, _unheard)
    return workers.each(_here if here else _elsewhere, given, drawn, take)


def _unheard(line: str) -> None:
    """Say nothing: what is said elsewhere comes with the answer."""


def _here(given: _Shared, drawn: _Drawn) -> _Answer:
    """A row in a thread of this process, which says at once what it has to say."""
    budget = Budget(math.inf, clock() + drawn.left, given.stop)
    with using(given.file):
        try:
            return _Answer(_one(given.work, given.shared, drawn.task, given.say, budget))
        except StoppedError:
            return _Answer(cut=True)


def _elsewhere(given: _Shared, drawn: _Drawn) -> _Answer:
    """A row in a process of its own."""
    lines: list[str] = []
    budget = Budget(math.inf, clock() + drawn.left, given.stop)
    with _quiet(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", MMCWarning)
        try:
            value = _one(given.work, given.shared, drawn.task, lines.append, budget)
        except StoppedError:
            return _Answer(lines=tuple(lines), cut=True)
    return _Answer(value, tuple(lines), tuple(str(w.message) for w in seen
                                              if issubclass(w.category, MMCWarning)))
