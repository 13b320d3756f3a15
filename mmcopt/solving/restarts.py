"""The restarts of one solve: one after another, in threads, or in other processes.

Each restart depends on its number, its seed and the problem alone, so where it runs makes no
difference to what it finds, and one that was lost is done again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmcopt.compiled.compiling import clock
from mmcopt.errors import DataError, IncompatibleError, MMCError
from mmcopt.linalg import one_thread, same_threads
from mmcopt.modeling.result import MALFORMED, Result, Status
from mmcopt.solving.checkpoints import AGAIN, Section, proves_by_state, roots_of
from mmcopt.solving.executors import LostError, Signal, Team, team, warn_if_lost
from mmcopt.solving.runs import Budget, Run, run
from mmcopt.solving.shared_work import lending
from mmcopt.solving.solver import Proved, Solver
from mmcopt.solving.starts import starting_point
from mmcopt.solving.states import UnwritableError, decode, encode

ENDS = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.FAILED)  # of all restarts, not of one


@dataclass
class Job:
    """All that the restarts of one `solve` share."""

    problem: Any
    solver: Solver
    budget: Budget
    restarts: int
    endless: bool
    init: Any
    callback: Callable[[dict[str, float]], bool | None] | None
    progress: Any
    origin: float
    section: Section | None = None
    executor: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    best: float = math.inf
    interrupted: bool = False

    def over(self, index: int) -> bool:
        """Whether a limit keeps restart ``index`` from being begun; a stop signal is taken down."""
        if self.section is not None and str(index) in self.section.stored.parts:
            return False
        limit = self.budget.spent(0)
        self.interrupted = self.interrupted or limit is Status.INTERRUPTED
        return limit is not None

    def hear(self, row: dict[str, float]) -> None:
        """Show a row of the history to whoever looks on."""
        with self.lock:
            self.best = min(self.best, row["best"])
            if self.progress is not None:
                self.progress.update(row, self.best)
            if self.callback is not None and self.callback(row):
                self.budget.stop.set()

    def one(self, index: int, seed: np.random.SeedSequence) -> Run:
        """Run restart ``index``; only restart 0 uses the caller's start."""
        keeper = None if self.section is None else self.section.restart(index)
        if keeper is not None and keeper.ended is not None:
            return keeper.ended
        rng = np.random.default_rng(seed)
        start = self.init if index == 0 or isinstance(self.init, str) else None
        resumed = keeper is not None and keeper.start is not None
        point = None if resumed else starting_point(self.problem, start, rng)
        if isinstance(start, Result) and start.certificate is not None \
                and start.certificate.fingerprint == self.problem.fingerprint \
                and self.solver.goes_on(start.certificate.kind):
            point = Proved(point, start.certificate.duals)
        rows: list[dict[str, float]] = [] if keeper is None else keeper.rows
        given = point.point if isinstance(point, Proved) else point

        def record(row: dict[str, float]) -> None:
            row = {"restart": index, "seconds": clock() - self.origin, **row}
            if rows and rows[-1]["iteration"] == row["iteration"]:  # what `finish` made of it
                rows[-1] = rows[-1] | row
                return
            rows.append(row)
            self.hear(row)

        try:
            out = run(self.solver, self.problem, point, rng, self.budget, record, keeper=keeper)
        except KeyboardInterrupt:
            if given is None:
                raise
            self.interrupted = True  # before the first point of its own: the start is the best
            out = Run(self.problem.objective(given), given, Status.INTERRUPTED, 0)
        except MALFORMED as e:
            if not resumed or isinstance(e, MMCError) or self.section is None:
                raise
            raise DataError(f"{self.section.file.path} holds a state from which "
                            f"{type(self.solver).__name__} cannot go on ({type(e).__name__}: {e}). "
                            f"{AGAIN}") from e
        out.rows = rows
        return out


def all_restarts(job: Job, root: np.random.SeedSequence, n_jobs: int | None) -> list[Run]:
    """Do them all; those that were done before Ctrl-C, or before the workers were lost, stay."""
    runs: list[Run] = []
    try:
        _repeat(job, root, n_jobs, runs)
    except (KeyboardInterrupt, LostError) as e:  # no restart has a point yet: earlier ones stay
        if not runs:
            raise
        warn_if_lost("solve", e, f"the {len(runs)} restarts")
        job.interrupted = True
    return runs


def _repeat(job: Job, root: np.random.SeedSequence, n_jobs: int | None, runs: list[Run]) -> None:
    place = job.executor or (None if n_jobs in (None, 1) else "threads")
    if job.restarts == 1 and place is not None and job.solver.hands_out() > 1:
        with team(place, n_jobs, job.solver.hands_out()) as workers, lending(workers):
            _in_turn(job, root, None, runs)
    else:
        _in_turn(job, root, n_jobs, runs)


def _in_turn(job: Job, root: np.random.SeedSequence, n_jobs: int | None, runs: list[Run]) -> None:
    alone = job.restarts == 1 or (job.executor is None and n_jobs in (None, 1))
    while not runs or (job.endless and not job.over(len(runs))):
        first = len(runs)
        if alone:
            for i in range(job.restarts):
                if runs and job.over(first + i):
                    break
                runs.append(job.one(first + i, root.spawn(1)[0]))
        else:
            with team(job.executor or "threads", n_jobs, job.restarts) as workers:
                runs.extend(_shared_out(job, root, first, workers))
        proved = job.solver.certificate(job.problem, runs[-1]) is not None
        if proved or job.interrupted or (job.endless and runs[-1].status in ENDS):
            return
        if job.endless:
            _forget(runs)


def _forget(runs: list[Run]) -> None:
    """Of restarts without end keep the best whole, and of the others their history."""
    best = min(runs, key=lambda r: r.value)
    for done in runs:
        if done is not best:
            done.point = done.state = done.duals = None


@dataclass(frozen=True)
class Restart:
    """One restart as a worker is told of it."""

    index: int
    seed: np.random.SeedSequence
    elapsed: float  # seconds since the first one began,
    left: float  # and until the deadline


def _shared_out(job: Job, root: np.random.SeedSequence, first: int, workers: Team) -> list[Run]:
    """Let workers do the restarts from number ``first`` on, in the order of their numbers."""
    done: dict[int, Run] = {}
    job.budget.stop = workers.stop

    def tasks() -> Iterator[Restart]:  # drawn as workers come free, each with the seed of its place
        for i in range(first, first + job.restarts):
            if i > first and job.over(i):
                return
            seed, now = root.spawn(1)[0], clock()
            keeper = None if job.section is None else job.section.restart(i)
            if keeper is not None and keeper.ended is not None:
                done[i] = keeper.ended
            else:
                yield Restart(i, seed, now - job.origin, job.budget.deadline - now)

    def take(restart: Restart, answer: Any) -> None:
        done[restart.index] = answer if workers.here else _arrived(job, restart.index, answer)
        for row in () if workers.here else done[restart.index].rows:
            job.hear(row)

    if workers.here:
        ended = workers.each(_here, job, tasks(), take)
    else:
        shared = Elsewhere(job.problem, job.solver, job.init, job.budget.max_iter, workers.stop)
        ended = workers.each(_elsewhere, shared, tasks(), take)
    if ended is not None:
        if not done:
            raise ended
        warn_if_lost("solve", ended, f"the {len(done)} restarts")
        job.interrupted = True
    return [done[i] for i in sorted(done)]


def _here(job: Job, restart: Restart) -> Run:
    """Do a restart in a thread of this process."""
    return job.one(restart.index, restart.seed)


# ---------------------------------------------------------------- other processes


@dataclass(frozen=True)
class Elsewhere:
    """What restarts in other processes share: it is sent once to each."""

    problem: Any
    solver: Solver
    init: Any
    max_iter: float
    stop: Signal


def _elsewhere(shared: Elsewhere, restart: Restart) -> Any:
    """Do a restart in a process of its own; how it ended, as states are written."""
    problem, solver = shared.problem, shared.solver
    with same_threads(getattr(problem, "n", 0)):
        solver.prepare(problem)
    now = clock()
    budget = Budget(shared.max_iter, now + restart.left, shared.stop)
    job = Job(problem, solver, budget, 1, False, shared.init, None, None, now - restart.elapsed)
    with one_thread:
        out = job.one(restart.index, restart.seed)
    if not proves_by_state(solver):
        out.state = None
    arrays: dict[str, Any] = {}
    try:
        return encode(out, roots_of(problem, solver), arrays), arrays
    except UnwritableError as e:
        raise IncompatibleError(f"{type(solver).__name__} holds {e}, which other processes cannot "
                                "hand over; use executor='threads'.") from e


def _arrived(job: Job, index: int, answer: Any) -> Run:
    """A restart as another process has written it, taken down."""
    node, arrays = answer
    out: Run = decode(node, roots_of(job.problem, job.solver), arrays)
    if job.section is not None:
        keeper = job.section.restart(index)
        keeper.rows = out.rows
        keeper.end(out)
    return out
