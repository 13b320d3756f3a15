"""Solvers side by side on problems: one row a run, each with its bound and its time.

Kernels, offers and compiled loops are made before any clock starts, so that the seconds of a row
are those of its search. What is to be done is a `Plan`, which can grow: only what is missing of it
is done.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import JOBS, integer, known_keywords, optional, real
from mmcopt.comparing.asked import Rival, named_problems, named_solvers, seeds_of, truth_of
from mmcopt.comparing.baselines import Baseline
from mmcopt.comparing.table import Comparison, Plan, Row
from mmcopt.compiled.compiling import announced, clock
from mmcopt.errors import BackendError, IncompatibleError, MMCWarning, ParameterError
from mmcopt.linalg import one_thread
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Result, Status
from mmcopt.solving import solve
from mmcopt.solving.checkpoints import Checkpoint, Place
from mmcopt.solving.executors import LostError, Signal, check_executor, check_written_here, team
from mmcopt.types import Path, Seed


class Watch:
    """What a comparison reports while it runs; override what is of interest.

    Calls may come from several threads.
    """

    def preparing(self, problem: str, solver: str) -> None:
        """Hear that the kernel, offer and compiled loops of a pair are about to be made."""

    def begin(self, runs: int) -> None:
        """Hear, once, how many runs follow."""

    def stepped(self, problem: str, solver: str, seed: Seed, row: dict[str, float]) -> None:
        """Hear each row of the history of each run."""

    def finished(self, row: Row) -> None:
        """Hear each new row of the table."""

    def close(self) -> None:
        """Hear that all is over."""


class _Line(Watch):
    """One line on standard error, redrawn in place."""

    def __init__(self) -> None:
        self.done = self.runs = 0

    def begin(self, runs: int) -> None:
        self.runs = runs

    def finished(self, row: Row) -> None:
        self.done += 1
        sys.stderr.write(f"\rcompare: {self.done} of {self.runs} runs, last {row['solver']} on "
                         f"{row['problem']}, seed {row['seed']}   ")
        sys.stderr.flush()

    def close(self) -> None:
        if self.done:
            sys.stderr.write("\n")


# ---------------------------------------------------------------- running


@dataclass(frozen=True)
class _Task:
    problem: str
    solver: str
    seed: Seed


class _Runs:
    """The runs of one comparison, one after another or where an executor puts them."""

    def __init__(self, table: Comparison, plan: Plan, watch: Watch,
                 file: Checkpoint | None) -> None:
        self.table, self.solvers, self.limits = table, plan.solvers, plan.limits
        self.watch, self.file = watch, file
        self.prepared: dict[tuple[str, str], float] = {}
        self.stop: Signal = threading.Event()
        self.lock = threading.Lock()

    def prepare(self, todo: list[_Task]) -> None:
        """Build offers and warm solvers; what the solvers of a problem share is charged to each."""
        wanted = {(task.problem, task.solver) for task in todo}
        for name, problem in self.table.problems.items():
            fitting = [s for s in self.solvers if (name, s) in wanted]
            shared = clock()
            offer = problem.offer(LabelQuadratic) if fitting else None
            if offer is not None and offer.matrix.is_dense:
                offer.matrix.dense(offer.dtype)
            shared = clock() - shared
            for s in fitting:
                self.watch.preparing(name, s)
                started = clock()
                self.solvers[s].prepare(problem)
                self.prepared[name, s] = shared + clock() - started

    def one(self, task: _Task) -> None:
        """Do one run and add its row."""
        def step(row: dict[str, float]) -> bool:
            self.watch.stepped(task.problem, task.solver, task.seed, row)
            return self.stop.is_set()

        problem, solver = self.table.problems[task.problem], self.solvers[task.solver]
        where = (task.problem, task.solver, task.seed)
        try:
            place = self._place(where)
            if isinstance(solver, Baseline):
                result = solver.solve(problem, task.seed, self.limits["budget"], self.stop, place)
            else:
                result = solve(problem, solver, seed=task.seed, callback=step, checkpoint=place,
                               **self.limits)
        except BackendError as e:
            self._failed(task, e)
        else:
            self._ended(task, result)

    def _failed(self, task: _Task, error: BackendError) -> None:
        """Add the row of a run that broke down."""
        with self.lock:
            self.watch.finished(self.table.fail(task.problem, task.solver, task.seed, error))

    def _ended(self, task: _Task, result: Result) -> None:
        """Add the row of a run."""
        spent = sum(result.timing.get(phase, 0.0) for phase in ("begin", "steps", "finish"))
        with self.lock:
            row = self.table.append(task.problem, task.solver, task.seed, result,
                                    self.prepared[task.problem, task.solver], spent)
            self.watch.finished(row)
        if result.status is Status.INTERRUPTED:
            self.stop.set()

    def _place(self, where: tuple[Any, ...]) -> Place | None:
        """Where a run keeps what it reaches; its time counts on."""
        return None if self.file is None else Place(self.file, " | ".join(map(str, where)), True)

    def serial(self, tasks: list[_Task]) -> None:
        """Do the runs one after another."""
        for task in tasks:
            if self.stop.is_set():
                break
            self.one(task)

    def shared_out(self, tasks: list[_Task], executor: Any, n_jobs: int | None) -> None:
        """Do the runs where an executor puts them, each with one BLAS thread."""
        def drawn() -> Iterator[_Task]:
            for task in tasks:
                if self.stop.is_set():
                    return
                yield task

        with team(executor, n_jobs, len(tasks)) as workers:
            self.stop = workers.stop
            if workers.here:
                ended = workers.each(_here, self, drawn(), lambda task, answer: None)
            else:
                shared = _Elsewhere(self.table.problems, self.solvers, self.limits, workers.stop)
                ended = workers.each(_elsewhere, shared, drawn(), self._arrived)
        if isinstance(ended, LostError):
            if not len(self.table):
                raise ended
            warnings.warn(f"compare: {ended} These are the {len(self.table)} runs that were done.",
                          MMCWarning, stacklevel=4)
        if ended is not None:
            self.stop.set()

    def _arrived(self, task: _Task, answer: _Answer) -> None:
        """Take in a run of another process."""
        for text in answer.warned:
            warnings.warn(text, MMCWarning, stacklevel=6)
        if answer.failed is not None:
            self._failed(task, answer.failed)
            return
        result = cast(Result, answer.result)
        problem, proof = self.table.problems[task.problem], result.certificate
        if proof is not None:
            proof = replace(proof, of=problem)
        for row in result.history.rows():
            self.watch.stepped(task.problem, task.solver, task.seed, row)
        self._ended(task, replace(result, formulation=problem, certificate=proof))


def _here(runs: _Runs, task: _Task) -> None:
    """Do a run in a thread of this process."""
    if not runs.stop.is_set():
        runs.one(task)


# ---------------------------------------------------------------- other processes


@dataclass(frozen=True)
class _Elsewhere:
    """What runs in other processes share: it is sent once to each."""

    problems: dict[str, Formulation]
    solvers: dict[str, Rival]
    limits: dict[str, Any]
    stop: Signal


@dataclass(frozen=True)
class _Answer:
    """How a run ended, without the problem, and what was said of it."""

    result: Result | None
    failed: BackendError | None
    warned: list[str]


def _elsewhere(shared: _Elsewhere, task: _Task) -> _Answer:
    """Do a run in a process of its own."""
    problem, solver = shared.problems[task.problem], shared.solvers[task.solver]
    result, failed = None, None
    with one_thread, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", MMCWarning)
        try:
            result = solver.solve(problem, task.seed, shared.limits["budget"], shared.stop) \
                if isinstance(solver, Baseline) else \
                solve(problem, solver, seed=task.seed,
                      callback=lambda row: shared.stop.is_set(), **shared.limits)
        except BackendError as e:
            failed = e
    if result is not None:
        proof = result.certificate
        result = replace(result, formulation=None,
                         certificate=None if proof is None else replace(proof, of=""))
    return _Answer(result, failed, [str(w.message) for w in seen])


@known_keywords
def compare(problems: Any, solvers: Any, *, seeds: int | Sequence[Any],
            time_limit: float | None = None, budget: float | None = None, y: Any = None,
            n_jobs: int | None = None, max_iter: int | None = None, init: Any = None,
            executor: Any = None, progress: bool | Watch = False, columns: Sequence[str] = (),
            checkpoint: Path | None = None) -> Comparison:
    """Run every solver on every problem from every seed.

    Parameters
    ----------
    problems : Formulation, list, or dict of names
    solvers : Solver or name, list, or dict of names
        Beside solvers also "kmeans", "spectral", "gmm", "ward" and "OneClassSVM": see `Baseline`.
    seeds : int or list
        An integer stands for 0 .. seeds - 1. A generator in a list stands for the next number that
        it draws.
    time_limit, max_iter
        Limits of each run, as in `mmcopt.solve`.
    budget : float
        Seconds of search that each run has, the same for all: a solver that is done earlier is
        restarted until they are spent, and the best of its restarts counts.
    init : "kmeans" or another start of `mmcopt.solve`
        Where every run begins; at random when it is None.
    y : labels, or dict of problem name -> labels
        Known classes, for the adjusted Rand index.
    n_jobs : int
        Runs at once, with one BLAS thread each, -1 for as many as there are cores; in threads where
        no ``executor`` is named.
    executor : None, "threads", "processes", Executor or Client
        Where the runs are done, as in `mmcopt.solve`: the table is the same but for its seconds.
    progress : bool or Watch
        Show a progress line, or report to an object.
    columns : list of names
        What the summary shows; by default what suits the limits and the classes that were given.
    checkpoint : path
        A file to which the comparison is written about once a second: the same call goes on where
        a killed one was, with the runs that it had done and the state of the one at work.

    Returns
    -------
    Comparison
        Pairs that do not fit are left out and listed with their reasons; Ctrl-C returns the runs
        that are done. `Comparison.extend` adds solvers, seeds and problems later.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> X, y = mm.datasets.load("gaussians:n=10,distance=4,seed=0")
    >>> table = mm.compare(LeastSquares(X), ["BruteForce", "Direct"], seeds=1, y=y)
    >>> [(row["solver"], row["status"], row["ari"]) for row in table.rows]
    [('BruteForce', 'certified', 1.0)]
    >>> table.refused
    [('LeastSquares', 'Direct', 'it needs LinearSystem, which this LeastSquares does not offer.')]
    """
    optional(integer(1)).check("compare", "max_iter", max_iter)
    optional(real(0)).check("compare", "time_limit", time_limit)
    optional(real(0)).check("compare", "budget", budget)
    if budget is not None and time_limit is not None:
        raise ParameterError("compare: time_limit and budget are two limits of the same clock; "
                             "give budget to restart every solver until it is spent.")
    named = named_problems(problems)
    table = Comparison(named, truth_of(named, y), columns=columns)
    table.plan = Plan(named_solvers(solvers), list(dict.fromkeys(seeds_of(seeds))), {
        "time_limit": time_limit, "max_iter": max_iter, "init": init, "budget": budget})
    file = _opened(n_jobs, executor, checkpoint)
    return complete(table, file, n_jobs, executor, progress)


def extend(table: Comparison, solvers: Any, seeds: Any, problems: Any, y: Any, *,
           n_jobs: int | None, executor: Any, progress: bool | Watch,
           checkpoint: Path | None) -> Comparison:
    """Do what is missing of a comparison that is asked for more: see `Comparison.extend`."""
    if table.plan is None:
        raise ParameterError("extend: this Comparison was not made by mmcopt.compare, so nothing "
                             "says how its runs were done; make one with mmcopt.compare.")
    new = {} if problems is None else named_problems(problems, table.problems)
    wanted = seeds_of(seeds) if seeds is not None else []
    rivals = {} if solvers is None else named_solvers(solvers, table.plan.solvers)
    truth = truth_of({**table.problems, **new}, y, new)
    file = _opened(n_jobs, executor, checkpoint)  # nothing that is asked for is refused from here
    table.problems.update(new)
    table.know(truth)
    table.plan.solvers.update(rivals)
    table.plan.seeds[:] = dict.fromkeys([*table.plan.seeds, *wanted])
    return complete(table, file, n_jobs, executor, progress)


def _opened(n_jobs: int | None, executor: Any, checkpoint: Path | None) -> Checkpoint | None:
    """Check where runs are to be done, and open the file that they are written to."""
    JOBS.check("compare", "n_jobs", n_jobs)
    check_executor("compare", executor)
    if checkpoint is None:
        return None
    check_written_here("compare", executor)
    return Checkpoint(checkpoint, "comparison")


def complete(table: Comparison, file: Checkpoint | None, n_jobs: int | None, executor: Any,
             progress: bool | Watch) -> Comparison:
    """Do the runs of a comparison's plan that it has not done, and sort its rows."""
    watch = progress if isinstance(progress, Watch) else (_Line() if progress else Watch())
    plan = cast(Plan, table.plan)
    runs = _Runs(table, plan, watch, file)
    tasks = _tasks(table, plan, runs.prepared)
    todo = _undone(table, tasks)
    told = nullcontext() if isinstance(progress, Watch) else announced(bool(progress))
    try:
        with one_thread, told:  # one whatever n_jobs is
            runs.prepare(todo)
            watch.begin(len(todo))
            if executor is None and n_jobs in (None, 1):
                runs.serial(todo)
            else:
                runs.shared_out(todo, executor or "threads", n_jobs)
    except KeyboardInterrupt:
        runs.stop.set()
    finally:
        watch.close()
    if file is not None:
        file.write()
        table.checkpoint = file
    table.interrupted = runs.stop.is_set()
    _sort(table, tasks)
    table.share_bounds()
    return table


def _undone(table: Comparison, tasks: list[_Task]) -> list[_Task]:
    """The runs that have no row, or one that Ctrl-C cut short, which is dropped."""
    whole = [row["status"] != str(Status.INTERRUPTED) for row in table.rows]
    table.results[:] = [r for r, keep in zip(table.results, whole, strict=True) if keep]
    table.rows[:] = [row for row, keep in zip(table.rows, whole, strict=True) if keep]
    done = {(row["problem"], row["solver"], str(row["seed"])) for row in table.rows}
    return [t for t in tasks if (t.problem, t.solver, str(t.seed)) not in done]


def _tasks(table: Comparison, plan: Plan, fitting: dict[tuple[str, str], float]) -> list[_Task]:
    """The runs of all pairs that fit; those that do not are listed with the reason."""
    table.refused.clear()
    for p, problem in table.problems.items():
        for s, solver in plan.solvers.items():
            reason = solver.refuses(problem)
            if reason is None:
                fitting[p, s] = 0.0
            else:
                table.refused.append((p, s, reason))
    if not fitting:
        reasons = "\n".join(f"  {s} on {p}: {why}" for p, s, why in table.refused)
        raise IncompatibleError(f"compare: no solver fits any problem.\n{reasons}\n"
                                "  mmcopt.fits(problem) lists those that do.")
    return [_Task(p, s, seed) for p in table.problems for seed in plan.seeds
            for s in plan.solvers if (p, s) in fitting]


def _sort(table: Comparison, tasks: list[_Task]) -> None:
    """Order the rows by problem, solver and seed, whatever the order of the runs."""
    place = {(t.problem, t.solver): i for i, t in reversed(list(enumerate(tasks)))}
    seeds = {str(t.seed): i for i, t in reversed(list(enumerate(tasks)))}

    def order(both: tuple[Row, Result | None]) -> tuple[int, int]:
        row = both[0]  # labels that were added stand at the end
        return (place.get((row["problem"], row["solver"]), len(tasks)),
                seeds.get(str(row["seed"]), len(tasks)))

    both = sorted(zip(table.rows, table.results, strict=True), key=order)
    table.rows[:] = [row for row, _ in both]
    table.results[:] = [result for _, result in both]
