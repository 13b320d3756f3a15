"""`solve`: the one driver that owns clock, limits, restarts, seeds, history and Ctrl-C.

A solver says how to begin and how to take one step; everything else happens here, once.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mmcopt.bounds.certificates import bound_seconds, cheap_bound
from mmcopt.capabilities import Bounded
from mmcopt.checks import FUNCTION, JOBS, flag, integer, known_keywords, optional, real
from mmcopt.compiled.compiling import STATE, announced, clock
from mmcopt.errors import BackendError, MMCWarning, ParameterError
from mmcopt.linalg import one_thread, same_threads
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import History, Result, Status
from mmcopt.solving.agreement import disagreement
from mmcopt.solving.checkpoints import Place, section_of
from mmcopt.solving.executors import check_executor
from mmcopt.solving.pairing import check_pair, resolve_solver
from mmcopt.solving.progress_line import meter
from mmcopt.solving.restarts import Job, all_restarts
from mmcopt.solving.runs import Budget, Run
from mmcopt.solving.solver import Proved, Solver
from mmcopt.solving.starts import not_again
from mmcopt.tolerances import CERTIFIED_GAP
from mmcopt.types import Path, Seed

MEASURED = 0.05  # seconds of CPU that say how busy the machine is: of less a pause makes much

Start: TypeAlias = Result | Proved | ArrayLike | str | None  # a result, labels, a point, or a name


@known_keywords
def solve(problem: Formulation, solver: Solver | str | None = None, *, init: Start = None,
          restarts: int = 1, seed: Seed = None, n_jobs: int | None = None,
          max_iter: int | None = None, time_limit: float | None = None,
          budget: float | None = None, gap_tol: float = CERTIFIED_GAP,
          callback: Callable[[dict[str, float]], bool | None] | None = None,
          progress: bool = False, verbose: bool = False, bound: bool = True, executor: Any = None,
          checkpoint: Path | Place | None = None) -> Result:
    """Solve a problem and return the best point found, with a bound on how far it can be off.

    Parameters
    ----------
    problem : Formulation
    solver : Solver, name or None
        None takes the problem's ``default_solver``.
    init : "random", "kmeans", "spectral", "sdp", Result, labels (n,) or a point
        Starts restart 0; the later ones are random (or drawn anew for the named starts). Solvers
        that make a tree go on with that of a result.
    restarts : int
        The whole solver is repeated and the best kept.
    seed : int, Generator or SeedSequence
        Same seed, same bytes, for any ``n_jobs`` and ``executor``, when no time limit cuts in; up
        to 1500 samples also for any number of BLAS threads, since one is used there.
    n_jobs : int
        Restarts that run at once, -1 for as many as there are cores; in threads where no
        ``executor`` is named.
    max_iter : int
        Steps of each restart.
    time_limit : float
        Seconds in all, preparation, restarts and the bound included, but not what is compiled,
        once for all. Solvers that are ``anytime`` spend all of it. Of a search, a bound that would
        take more than a third of it is left to `certify`; what a relaxation has come to is proved.
    budget : float
        Seconds of search, in place of ``time_limit``: the solver is restarted until they are spent
        or its answer is proved, and the best counts. Preparation and the bound come on top, so
        that solvers which share a budget have the same.
    gap_tol : float
        Relative gap at or below which the status is CERTIFIED.
    callback : callable
        Called with each row of the history; a true return value stops the run. From other
        processes the rows of a restart come together, when it has ended.
    progress : bool
        Show a progress line.
    verbose : bool
        Print a log instead: seconds, restart, step, objective and the best so far, a line for what
        is better and at least two a second; in the end the result.
    bound : bool
        Attach a bound also where the solver has proved none; False leaves it to `certify`.
    executor : None, "threads", "processes", Executor or Client
        Where restarts run: one after another here, in threads, in processes of this machine, or
        where a `concurrent.futures.Executor` or a `dask.distributed.Client` puts them. Workers
        read the problem from a file, or are sent it. The restart of a worker that died is done
        again by processes of this machine and by a cluster; another executor is lost with it.
    checkpoint : path
        A file to which the run is written about once a second; of restarts in other processes the
        ended ones. The same call with a file of an
        earlier, killed or stopped run goes on where that was, with the seed of that run where none
        is given, and ends as it would have ended; limits may be raised, and time counts on.
    """
    integer(1).check("solve", "restarts", restarts)
    optional(integer(1)).check("solve", "max_iter", max_iter)
    optional(real(0)).check("solve", "time_limit", time_limit)
    _check_budget(budget, time_limit)
    real(0).check("solve", "gap_tol", gap_tol)
    JOBS.check("solve", "n_jobs", n_jobs)
    flag().check("solve", "bound", bound)
    flag().check("solve", "verbose", verbose)
    optional(FUNCTION).check("solve", "callback", callback)
    check_executor("solve", executor)
    origin = clock()
    spent = 0.0 if time_limit is None else time.process_time()  # which takes a while to ask
    if not isinstance(problem, Formulation):
        raise ParameterError("solve: problem must be a Formulation such as LeastSquares(X); "
                             f"got {type(problem).__name__}.")
    chosen = resolve_solver(solver, problem)
    check_pair(problem, chosen)
    root = _seed_sequence(seed)
    section = section_of(checkpoint, problem, chosen, init, None if seed is None else root)
    root = root if section is None else section.root
    before = 0.0 if section is None else section.before
    compiled = STATE.seconds
    with same_threads(getattr(problem, "n", 0)), announced(progress or verbose):
        chosen.prepare(problem)
        prepared = clock()
        deadline = math.inf if time_limit is None else origin - before + time_limit
        attach, reserve = _Bound(bound, bound), 0.0
        if bound and time_limit is not None:
            wall = prepared - origin + STATE.seconds - compiled
            attach, reserve = _reserved(problem, time_limit, wall, time.process_time() - spent)
        if budget is not None:
            deadline = prepared - before + budget
        limits = Budget(math.inf if max_iter is None else max_iter, deadline - reserve)
        spends = chosen.anytime and time_limit is not None and max_iter is None
        # Restarts may share the cores among them, and must not differ when they do.
        threads = one_thread if restarts > 1 else nullcontext()
        seconds = time_limit if budget is None else budget
        with threads, meter(progress, verbose, type(chosen).__name__, seconds) as shown:
            job = Job(problem, chosen, limits, restarts, spends or budget is not None, init,
                      callback, shown, prepared - before, section, executor)
            runs = all_restarts(job, root, n_jobs)
        stepped = clock()
        if section is not None:
            section.close()
        result = _finish(problem, chosen, runs, gap_tol, attach, init, job.interrupted)
    timing = {"prepare": prepared - origin, **_shares(runs, stepped - prepared + before),
              "bound": clock() - stepped, "compile": STATE.seconds - compiled}
    result = replace(result, timing=timing, seed=root.entropy)
    if verbose:
        sys.stderr.write(f"{result}\n")
    return result


def _check_budget(budget: float | None, time_limit: float | None) -> None:
    optional(real(0)).check("solve", "budget", budget)
    if budget is not None and time_limit is not None:
        raise ParameterError("solve: time_limit and budget are two limits of the same clock; give "
                             "budget to restart until it is spent, time_limit to stop at it.")


def _shares(runs: list[Run], wall: float) -> dict[str, float]:
    """The seconds of all restarts by phase; of those in threads, which overlap, their shares."""
    begin = sum(r.begin_seconds for r in runs)
    finish = sum(r.finish_seconds for r in runs)
    scale = min(1.0, wall / (begin + finish)) if begin + finish > 0 else 0.0
    steps = max(0.0, wall - (begin + finish) * scale)  # rounding
    return {"begin": begin * scale, "finish": finish * scale, "steps": steps}


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):  # a fresh one: spawning would change the caller's
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key,
                                      pool_size=seed.pool_size)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    optional(integer(0)).check("solve", "seed", seed)
    return np.random.SeedSequence(seed)


@dataclass(frozen=True)
class _Bound:
    """Which bounds to attach: any at all, and the one of an eigenvalue."""

    any: bool
    eigenvalue: bool


def _reserved(problem: Any, time_limit: float, wall: float, own: float) -> tuple[_Bound, float]:
    """The bound that a time limit leaves room for, and the seconds to be kept for it.

    So far ``wall`` seconds have gone by for ``own`` ones of CPU: there may be other work on the
    machine. What a relaxation has come to is proved in any case.
    """
    alone = bound_seconds(problem)
    reserve = alone * max(1.0, wall / own if own > MEASURED else 1.0)
    if problem.offer(Bounded) is not None:
        return _Bound(True, True), min(reserve, max(alone, time_limit / 3))
    attach = _Bound(True, 3 * reserve <= time_limit)
    return attach, reserve if attach.eigenvalue else 0.0


def _finish(problem: Any, solver: Solver, runs: list[Run], gap_tol: float,
            attach: _Bound, init: Any, interrupted: bool) -> Result:
    """Judge the best run by the formulation's own objective, attach the bound, and name the end."""
    best = min(runs, key=lambda r: r.value)
    objective = problem.settled(best.point)
    if abs(objective - best.value) > solver.agreement(problem, objective, best.point):
        wrong = disagreement(problem, best.point)
        if wrong is not None:
            name = type(problem).__name__
            raise ParameterError(f"{name}: {wrong}. mmcopt.check({name}) looks at all of it.")
        raise BackendError(f"{type(solver).__name__} reports {best.value!r} for a point whose "
                           f"objective is {objective!r}; its bookkeeping is wrong.")
    rows = [row for r in runs for row in r.rows]
    ends = [Status.INTERRUPTED] if interrupted else [r.status for r in runs]
    status = Status.INTERRUPTED if Status.INTERRUPTED in ends else next(
        (end for end in ends if end is not Status.CONVERGED), Status.CONVERGED)
    labels = problem.labels(best.point)
    result = Result(problem, repr_solver(solver), best.point, labels, objective,
                    problem.violation(best.point), status, history=History(rows), gap_tol=gap_tol)
    try:
        proof = solver.certificate(problem, best)
        if attach.any or proof is not None:
            result = cheap_bound(result, proof, eigenvalue=attach.eigenvalue)
    except KeyboardInterrupt:  # the point is there, and `certify` makes up for its bound
        result = replace(result, status=Status.INTERRUPTED)
    caution = problem.caution(best.point, labels, objective)
    if caution is not None:
        caution = not_again(caution, init)
        warnings.warn(f"{type(problem).__name__}: {caution}", MMCWarning, stacklevel=4)
    return result.closing(caution=caution)


def whole(result: Result) -> Result:
    """A result that is a means to an end: what Ctrl-C cut short goes on to the caller as such."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def cut_short(result: Result) -> Result:
    """A result as what Ctrl-C left of a search that would have gone on."""
    return replace(result, status=Status.INTERRUPTED, message="").closing()


def repr_solver(solver: Solver) -> str:
    """Name of a solver with the hyper-parameters that differ from their defaults."""
    import dataclasses

    changed = [f"{f.name}={getattr(solver, f.name)!r}" for f in dataclasses.fields(solver)
               if getattr(solver, f.name) != f.default]
    return f"{type(solver).__name__}({', '.join(changed)})" if changed else type(solver).__name__
