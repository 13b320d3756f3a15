"""Work that a solver hands out within a step: to the workers of the solve around it, if any."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mmcopt.compiled.compiling import clock
from mmcopt.errors import MMCWarning
from mmcopt.linalg import one_thread
from mmcopt.solving.executors import LostError, Signal, Team, Work
from mmcopt.solving.runs import Budget, out_of_time, seconds_left, under

_lent = threading.local()  # the workers that a solver in this thread may use


@contextmanager
def lending(workers: Team) -> Iterator[None]:
    """Let the solver that runs here use these workers."""
    _lent.workers = workers
    try:
        yield
    finally:
        _lent.workers = None


@dataclass(frozen=True)
class _Shared:
    """What the tasks of a step share."""

    work: Work
    shared: Any
    stop: Signal


@dataclass(frozen=True)
class _Drawn:
    """A task as a worker gets it."""

    task: Any
    left: float  # seconds to the deadline


def side_by_side(work: Work, shared: Any, tasks: Sequence[Any],
                 take: Callable[[Any, Any], None]) -> None:
    """Do tasks that do not know of each other, and give each with its answer to ``take``.

    Workers that are lent do them at once, and without any they are done here, one by one. Each sees
    the time that is left (`mmcopt.solving.out_of_time`), and the signal to stop; none is begun when
    time is up. Ctrl-C is raised once what is done has been taken; where the workers are lost, what
    is left is done here.
    """
    workers: Team | None = getattr(_lent, "workers", None)
    left = list(tasks)
    if workers is not None and len(left) > 1:
        def drawn() -> Iterator[_Drawn]:
            for task in tasks:
                if out_of_time():
                    return
                yield _Drawn(task, seconds_left())

        def taken(given: _Drawn, answer: Any) -> None:
            left[:] = [other for other in left if other is not given.task]
            take(given.task, answer)

        ended = workers.each(_there, _Shared(work, shared, workers.stop), drawn(), taken)
        if ended is not None and not isinstance(ended, LostError):
            raise ended
        if ended is not None:
            _lent.workers = None
            warnings.warn(f"{ended} The rest is done in this process.", MMCWarning, stacklevel=2)
    for task in left:
        if out_of_time():
            return
        take(task, work(shared, task))


def _there(given: _Shared, drawn: _Drawn) -> Any:
    """A task at a worker, under the limits of the run that it is a part of."""
    with under(Budget(deadline=clock() + drawn.left, stop=given.stop)), one_thread:
        return given.work(given.shared, drawn.task)
