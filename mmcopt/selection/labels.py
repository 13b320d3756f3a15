"""Choosing parameters and partitions without labels.

Objectives of different kernels or lambdas have different units, so *across* cells of a grid they
must never be compared; what helps there is how much a partition agrees with those of the other
cells (`most_central`), or with itself over restarts (`stability`). *Within* one cell the lowest
objective is the best guide there is (`lowest`). None of these is the truth: on data whose clusters
differ widely in size, or have no margin in the kernel, all criteria can agree on a wrong partition.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.bounds.certificates import evaluate
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.checks import integer, optional, real
from mmcopt.compiled.compiling import clock
from mmcopt.errors import DataError, MMCWarning, ParameterError
from mmcopt.kernels import Gaussian
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Result
from mmcopt.registry import formulation, solver
from mmcopt.solving import Budget, cut_short, repr_solver, run, solve, whole
from mmcopt.solving.executors import LostError, Signal, check_executor, team
from mmcopt.types import Samples

LAMS = tuple(10.0**e for e in (-2.5, -2, -1.5, -1, -0.5, 0, 0.5))
MEMBERS = 6  # partitions that follow a path


def lowest(results: Sequence[Result]) -> Result:
    """The feasible result with the lowest objective, of results for one and the same problem."""
    _some("lowest", "results", results)
    if len({r.formulation.fingerprint for r in results}) != 1:
        raise DataError("lowest compares objectives, which only results for one problem share; "
                        "across problems use most_central.")
    return min(results, key=lambda r: (not r.feasible, r.objective))


def centrality(partitions: Sequence[Any]) -> NDArray[np.float64]:
    """Mean adjusted Rand index of each partition to all others; 1 for a single one."""
    m = len(partitions)
    agreement = np.ones((m, m))
    for i in range(m):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = adjusted_rand_index(partitions[i], partitions[j])
    return np.ones(1) if m == 1 else (agreement.sum(axis=1) - 1.0) / (m - 1)


def most_central(results: Sequence[Result]) -> Result:
    """The result whose partition agrees most with those of all others, whatever their problems.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> cells = path(mm.formulations.LeastSquares(X, 3), seed=0)
    >>> round(mm.metrics.adjusted_rand_index(y, most_central(cells).labels), 1)
    0.9
    """
    _some("most_central", "results", results)
    scores = centrality([r.labels for r in results])
    return results[int(np.argmax(scores))]


def stability(problem: Formulation, given: Any = "Tabu", *, runs: int = 6, seed: int = 0) -> float:
    """Mean agreement (adjusted Rand index) between independent runs of a solver on a problem."""
    integer(2).check("stability", "runs", runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MMCWarning)  # no answer comes of it
        labels = [whole(solve(problem, given, seed=seed + i)).labels for i in range(runs)]
    return float(np.mean(centrality(labels)))


def objective_ratio(result: Result, *, draws: int = 20, seed: int = 0) -> float:
    """Objective over the mean objective of random feasible labels: small where structure is."""
    integer(1).check("objective_ratio", "draws", draws)
    f = result.formulation
    lq = f.offer(LabelProblem)
    if lq is None:
        raise DataError(f"objective_ratio needs LabelQuadratic, which {type(f).__name__} does not "
                        "offer.")
    rng = np.random.default_rng(seed)
    return result.objective / float(np.mean([lq.value(lq.random_labels(rng))
                                             for _ in range(draws)]))


def path(problem: Any, lams: Sequence[float] = LAMS, *, members: int = MEMBERS,
         seed: int = 0, time_limit: float | None = None) -> list[Result]:
    """Solve a problem at several lambdas, from the largest down, each from the last one's answers.

    ``members`` partitions follow the path together; each lambda keeps the best of them. Kernel and,
    where it pays, its spectrum are shared. Results come in the order of ``lams``. After the time,
    and after Ctrl-C, what is left begins where the path had come to, and goes no further; after
    Ctrl-C its status says so.
    """
    if not hasattr(problem, "path"):
        raise DataError(f"{type(problem).__name__} has no path of problems to follow; "
                        "LeastSquares has.")
    _some("path", "lams", lams)
    integer(1).check("path", "members", members)
    optional(real(0)).check("path", "time_limit", time_limit)
    return _followed(problem, lams, members, seed, _budget(time_limit))


def _followed(problem: Any, lams: Sequence[float], members: int, seed: int,
              budget: Budget) -> list[Result]:
    """Follow a path within a budget, which Ctrl-C ends."""
    rng = np.random.default_rng(seed)
    cells = problem.path(lams)
    solver("Tabu")().prepare(cells[0])  # what is loaded and compiled for it
    pool: list[Any] = [None] * members
    found: dict[int, Result] = {}
    for i in np.argsort(-np.asarray(lams, dtype=np.float64), kind="stable"):
        search = solver("Tabu")(length=0.5 if found else 2.0, polish=False)
        try:
            found[int(i)] = _member(cells[i], search, pool, rng, budget)
        except KeyboardInterrupt:  # it came between two runs, or before a first point
            budget.stop.set()
            found[int(i)] = _member(cells[i], search, pool, rng, budget)
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


def _some(owner: str, name: str, values: Any) -> None:
    if not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise ParameterError(f"{owner}: {name} must be a list of at least one; got {values!r}.")


def _budget(time_limit: float | None) -> Budget:
    import math

    return Budget(deadline=math.inf if time_limit is None else clock() + time_limit)


@dataclass(frozen=True)
class Grid:
    """Results over kernel widths and lambdas, with the agreement of each with all others."""

    widths: tuple[float, ...]
    lams: tuple[float, ...]
    results: tuple[Result, ...]  # row by row: all lambdas of the first width, then of the next

    @property
    def scores(self) -> NDArray[np.float64]:
        """Centrality of each cell, widths by lambdas."""
        flat = centrality([r.labels for r in self.results])
        return flat.reshape(len(self.widths), len(self.lams))

    @property
    def best(self) -> Result:
        """The most central result."""
        return most_central(self.results)

    def __str__(self) -> str:
        head = "width \\ lam" + "".join(f"{lam:>9.3g}" for lam in self.lams)
        rows = [f"{w:<11.3g}" + "".join(f"{s:>9.3f}" for s in row)
                for w, row in zip(self.widths, self.scores, strict=True)]
        return "\n".join(["agreement of each cell with all others (mean adjusted Rand index)",
                          head, *rows])


@dataclass(frozen=True)
class _Columns:
    """What the columns of a grid, one a width, share."""

    X: Samples
    n_clusters: int
    lams: tuple[float, ...]
    members: int
    seed: int
    options: dict[str, Any]
    stop: Signal = field(default_factory=threading.Event)

    def problem(self, width: float) -> Any:
        """The problem of a width."""
        return formulation("LeastSquares")(self.X, self.n_clusters, kernel=Gaussian(width=width),
                                           **self.options)

    def solved(self, width: float) -> list[Result]:
        """The results of a column."""
        return _followed(self.problem(width), self.lams, self.members, self.seed,
                         Budget(stop=self.stop))

    def serial(self, widths: Sequence[float]) -> dict[float, list[Result]]:
        """The columns, one after another; after Ctrl-C those that were begun."""
        done: dict[float, list[Result]] = {}
        try:
            for width in widths:
                done[width] = self.solved(width)
                if self.stop.is_set():
                    break
        except KeyboardInterrupt:
            if not done:
                raise
        return done

    def shared_out(self, widths: Sequence[float], executor: Any,
                   n_jobs: int | None) -> dict[float, list[Result]]:
        """The same where an executor puts them."""
        done: dict[float, list[Result]] = {}
        with team(executor, n_jobs, len(widths)) as workers:
            columns = replace(self, stop=workers.stop)
            ended = workers.each(_here if workers.here else _elsewhere, columns, widths,
                                 done.__setitem__)
        if isinstance(ended, LostError) or (ended is not None and not done):
            raise ended
        if not workers.here:
            done = {width: self._attached(width, results) for width, results in done.items()}
        return {width: done[width] for width in widths if width in done}

    def _attached(self, width: float, results: list[Result]) -> list[Result]:
        """Results of another process with their problems."""
        problem = self.problem(width)
        return [replace(r, formulation=problem.replace(lam=lam))
                for r, lam in zip(results, self.lams, strict=True)]


def _here(columns: _Columns, width: float) -> list[Result]:
    """Solve a column in a thread of this process."""
    return columns.solved(width)


def _elsewhere(columns: _Columns, width: float) -> list[Result]:
    """Solve a column in a process of its own; the results without their problems."""
    return [replace(r, formulation=None) for r in columns.solved(width)]


def grid(X: Samples, n_clusters: int, *, widths: Sequence[float] = (0.3, 0.5, 1.0),
         lams: Sequence[float] = LAMS, members: int = MEMBERS, seed: int = 0,
         executor: Any = None, n_jobs: int | None = None, **options: Any) -> Grid:
    """Solve `LeastSquares` over Gaussian widths and lambdas; ``options`` go to the formulation.

    ``executor`` is where the widths are solved, as in `mmcopt.solve`, ``n_jobs`` of them at once.
    Ctrl-C ends it with the widths that were begun.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("blobs:n=60,k=3,seed=1")
    >>> cells = grid(X, 3, widths=(0.5, 1.0), lams=(0.1, 1.0))
    >>> cells.scores.shape
    (2, 2)
    """
    _some("grid", "widths", widths)
    _some("grid", "lams", lams)
    integer(1).check("grid", "members", members)
    optional(integer(1)).check("grid", "n_jobs", n_jobs)
    check_executor("grid", executor)
    if {"kernel", "lam"} & set(options):
        raise ParameterError("grid: kernel and lam are what it varies, by widths= and lams=; for "
                             "another kernel follow path(problem, lams).")
    columns = _Columns(X, n_clusters, tuple(map(float, lams)), members, seed, options)
    wanted = list(dict.fromkeys(map(float, widths)))
    done = columns.serial(wanted) if executor is None and n_jobs in (None, 1) else \
        columns.shared_out(wanted, executor or "threads", n_jobs)
    return Grid(tuple(done), columns.lams, tuple(r for column in done.values() for r in column))
