"""A problem at several lambdas, each solved from the answers of the last."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mmcopt.bounds.certificates import evaluate
from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import JOBS, integer, known_keywords, listed, optional, real
from mmcopt.compiled.compiling import clock
from mmcopt.errors import DataError, MMCWarning, ParameterError
from mmcopt.modeling.result import Result, Status
from mmcopt.registry import solver
from mmcopt.selection.labels import some
from mmcopt.solving import Budget, cut_short, repr_solver, run, solve
from mmcopt.solving.executors import check_executor

LAMS = tuple(10.0**e for e in (-2.5, -2, -1.5, -1, -0.5, 0, 0.5))
MEMBERS = 6  # partitions that follow a path
SOLVING = ("solver", "restarts", "n_jobs", "executor", "max_iter", "gap_tol", "callback", "bound")


@known_keywords
def path(problem: Any, lams: Sequence[float] = LAMS, *, members: int = MEMBERS,
         seed: int = 0, time_limit: float | None = None, **options: Any) -> list[Result]:
    """Solve a problem at several lambdas, from the largest down, each from the last one's answers.

    ``members`` partitions follow the path together; each lambda keeps the best of them. Kernel and,
    where it pays, its spectrum are shared. Results come in the order of ``lams``. After the time,
    and after Ctrl-C, what is left begins where the path had come to, and goes no further; after
    Ctrl-C its status says so.

    With any of the options of `mmcopt.solve` (solver, restarts, n_jobs, executor, max_iter,
    gap_tol, callback, bound) each cell is then solved so, from what has followed the path to it;
    the time left is shared out among the cells to come. ``executor`` is where the restarts of a
    cell run: the cells themselves follow one another, as each begins with what the last one found;
    `grid` has paths side by side.
    """
    if not hasattr(problem, "path"):
        raise DataError(f"{type(problem).__name__} has no path of problems to follow; "
                        "LeastSquares has.")
    some("path", "lams", lams)
    odd = [name for name in options if name not in SOLVING]
    if odd:
        raise ParameterError(f"path: no option {odd[0]!r}; beside lams, members, seed and "
                             f"time_limit it takes {listed(SOLVING)}, as mmcopt.solve does.")
    JOBS.check("path", "n_jobs", options.get("n_jobs"))
    check_executor("path", options.get("executor"))
    return followed(problem, lams, members, seed, budget_of("path", members, time_limit), options)


def budget_of(owner: str, members: int, time_limit: float | None) -> Budget:
    """The budget of paths, which Ctrl-C ends."""
    integer(1).check(owner, "members", members)
    optional(real(0)).check(owner, "time_limit", time_limit)
    return Budget(deadline=math.inf if time_limit is None else clock() + time_limit)


def followed(problem: Any, lams: Sequence[float], members: int, seed: int, budget: Budget,
             options: Mapping[str, Any], more: int = 0) -> list[Result]:
    """Follow a path within a budget, in which ``more`` cells of other paths come after it."""
    rng = np.random.default_rng(seed)
    cells = problem.path(lams)
    solver("Tabu")().prepare(cells[0])  # what is loaded and compiled for it
    pool: list[Any] = [None] * members
    found: dict[int, Result] = {}
    for i in map(int, np.argsort(-np.asarray(lams, dtype=np.float64), kind="stable")):
        search = solver("Tabu")(length=0.5 if found else 2.0, polish=False)
        left = len(lams) - len(found) + more
        try:
            found[i] = _member(cells[i], search, pool, rng, budget)
            if options and not budget.stop.is_set():
                found[i] = _solved(cells[i], found[i], seed, budget, left, options)
        except KeyboardInterrupt:  # it came between two runs, or before a first point
            budget.stop.set()
            found[i] = cut_short(found[i]) if i in found \
                else _member(cells[i], search, pool, rng, budget)
        cells[i].forget()  # one R at a time
    return [found[i] for i in range(len(lams))]


def _member(cell: Any, search: Any, pool: list[Any], rng: np.random.Generator,
            budget: Budget) -> Result:
    """Let a pool of partitions go on at one lambda; the best of them."""
    lq = cell.offer(LabelQuadratic)
    runs = [run(search, lq, start, rng, budget) for start in pool]
    pool[:] = [r.point for r in runs]
    best = evaluate(cell, min(runs, key=lambda r: r.value).point, bound=False)
    if budget.stop.is_set():
        return cut_short(replace(best, solver=repr_solver(search)))
    return best


def _solved(cell: Any, start: Result, seed: int, budget: Budget, left: int,
            options: Mapping[str, Any]) -> Result:
    """Solve a cell from where the path has come to, in its share of the time."""
    limit = None if math.isinf(budget.deadline) else max(0.0, budget.deadline - clock()) / left
    with warnings.catch_warnings():  # what one cell lacks others have
        warnings.filterwarnings("ignore", ".*effective_dimension", MMCWarning)
        result = solve(cell, init=start, seed=seed, time_limit=limit, **options)
    if result.status is Status.INTERRUPTED:
        budget.stop.set()
    return result
