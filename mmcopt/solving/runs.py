"""One restart of a solver: the loop, its limits, and the best that it leaves behind."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mmcopt.compiled.compiling import clock
from mmcopt.errors import BackendError, by_ctrl_c
from mmcopt.modeling.result import Status
from mmcopt.solving.solver import Progress, Solver

if TYPE_CHECKING:
    from mmcopt.solving.checkpoints import Keeper
    from mmcopt.solving.executors import Signal


@dataclass
class Budget:
    """Limits of a run, shared with the runs inside it: steps, a deadline, and a stop signal."""

    max_iter: float = math.inf
    deadline: float = math.inf
    stop: Signal = field(default_factory=threading.Event)

    def within(self, max_iter: float, time_limit: float = math.inf) -> Budget:
        """A budget of at most ``max_iter`` steps and as many seconds under the same signal."""
        return Budget(max_iter, min(self.deadline, clock() + time_limit), self.stop)

    def spent(self, steps: int, closing: float = 0.0) -> Status | None:
        """The limit that has been reached, if any, where the end takes some seconds more."""
        if self.stop.is_set():
            return Status.INTERRUPTED
        if steps >= self.max_iter:
            return Status.ITERATION_LIMIT
        if clock() + closing >= self.deadline:
            return Status.TIME_LIMIT
        return None


@dataclass
class Run:
    """The best of one restart, and the state it ended in, from which some solvers can go on."""

    value: float
    point: Any
    status: Status
    steps: int
    lower_bound: float | None = None
    duals: Any = None
    rows: list[dict[str, float]] = field(default_factory=list)
    begin_seconds: float = 0.0
    finish_seconds: float = 0.0
    state: Any = None


Record = Callable[[dict[str, float]], None]  # of a step; what follows of the same one amends it


_enclosing = threading.local()  # the budget of the run that this thread is in


def out_of_time() -> bool:
    """Whether the run that this thread is in must stop: for steps that take long."""
    budget: Budget | None = getattr(_enclosing, "budget", None)
    return budget is not None and budget.spent(-1) is not None


def seconds_left() -> float:
    """Time to the deadline of the run that this thread is in: for work that has no parts."""
    budget: Budget | None = getattr(_enclosing, "budget", None)
    return math.inf if budget is None else budget.deadline - clock()


def ends_late(seconds: float) -> bool:
    """Whether work without parts, which takes so many seconds, would end after the deadline."""
    return out_of_time() or seconds_left() < seconds


@contextmanager
def under(budget: Budget) -> Iterator[None]:
    """Work in this thread within a budget."""
    outer: Budget | None = getattr(_enclosing, "budget", None)
    _enclosing.budget = budget
    try:
        yield
    finally:
        _enclosing.budget = outer


def run(solver: Solver, f: Any, init: Any, rng: np.random.Generator, budget: Budget | None = None,
        record: Record | None = None, *, max_iter: float = math.inf,
        time_limit: float = math.inf, keeper: Keeper | None = None) -> Run:
    """Run one restart of a solver to its end: the loop behind `solve`, and for inner solvers.

    Without a budget of its own a run takes up to ``max_iter`` steps in ``time_limit`` seconds, and
    one inside a step shares the deadline and the stop signal of the run around it. At least `begin`
    is always done. A ``keeper`` takes down where the run is, and begins it there when it was
    killed.

    Ctrl-C sets the stop signal, so that every run under it ends with its best point. Where nobody
    else holds that signal, a part would pass for the whole: KeyboardInterrupt goes on to the
    caller.
    """
    outer: Budget | None = getattr(_enclosing, "budget", None)
    alone = budget is None and outer is None
    if budget is None:
        budget = (outer or Budget()).within(max_iter, time_limit)
    with under(budget):
        done = _loop(solver, f, init, rng, budget, record, keeper)
    if alone and done.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return done


def _loop(solver: Solver, f: Any, init: Any, rng: np.random.Generator, budget: Budget,
          record: Record | None, keeper: Keeper | None) -> Run:
    best = Run(math.inf, None, Status.CONVERGED, 0)
    started = clock()
    try:
        if keeper is not None and keeper.start is not None:
            best, rng = keeper.start["run"], keeper.start["rng"]
            progress = Progress(keeper.start["state"], best.point, best.value)
        else:
            progress = solver.begin(f, init, rng)
            best.begin_seconds = clock() - started
            _keep(best, progress, solver.keeps_last)
        while True:
            # A solver that is done stays done; the limit matters only to one that is not.
            status = solver.outcome(f, progress.state) \
                or budget.spent(best.steps, solver.closing(progress.state))
            if status is not None:
                break
            progress = solver.step(f, progress.state, rng)
            best.steps += 1
            _keep(best, progress, solver.keeps_last)
            if record is not None:
                record({"iteration": best.steps, "objective": progress.value,
                        "best": best.value, **progress.extras})
            if keeper is not None:
                keeper.keep(best, progress.state, rng)
        if keeper is not None:
            keeper.keep(best, progress.state, rng, now=True)
        best.status = status
    except (KeyboardInterrupt, ImportError, np.linalg.LinAlgError) as e:
        if by_ctrl_c(e):
            budget.stop.set()
        elif isinstance(e, ImportError):
            raise
        best.status = Status.INTERRUPTED if budget.stop.is_set() else Status.FAILED
        if best.point is not None:
            return best  # the step may have left its state half changed, so nothing is built on it
        if isinstance(e, ImportError):
            raise KeyboardInterrupt from e
        raise
    try:
        _close(best, solver, f, progress.state, record, keeper)
    except KeyboardInterrupt:  # what was found stays
        budget.stop.set()
        best.status, best.state = Status.INTERRUPTED, None
    return best


def _close(best: Run, solver: Solver, f: Any, state: Any, record: Record | None,
           keeper: Keeper | None) -> None:
    """Let a solver finish, and take down how it ended; a better end is the last step's."""
    started = clock()
    best.state, before = state, best.value
    last = solver.finish(f, state)
    if last is not None:
        _keep(best, last, solver.keeps_last)
    if record is not None and best.steps and best.value < before:
        record({"iteration": best.steps, "best": best.value})
    if callable(best.point):
        best.point = best.point()
    best.finish_seconds = clock() - started
    if keeper is not None:
        keeper.end(best)


def _keep(best: Run, progress: Progress, last: bool = False) -> None:
    if not math.isfinite(progress.value):
        raise BackendError("the solver's objective is no longer finite; its last step broke down.")
    if last or best.point is None or progress.value < best.value:
        best.value = progress.value
        # A lazy point may change with the state, so it is read now.
        best.point = progress.point() if callable(progress.point) else progress.point
    if progress.lower_bound is not None:
        known = -math.inf if best.lower_bound is None else best.lower_bound
        if progress.lower_bound > known or best.lower_bound is None:
            best.lower_bound, best.duals = progress.lower_bound, progress.duals
