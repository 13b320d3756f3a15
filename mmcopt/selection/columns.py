"""The columns of a grid, one a kernel width, solved here or where an executor puts them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mmcopt.compiled.compiling import clock
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Result
from mmcopt.registry import formulation
from mmcopt.selection.paths import followed
from mmcopt.solving import Budget
from mmcopt.solving.executors import Signal, team, warn_if_lost
from mmcopt.types import Samples


@dataclass(frozen=True)
class Columns:
    """What the columns of a grid share: data, lambdas, options of the path and of the problem."""

    X: Samples
    n_clusters: int
    lams: tuple[float, ...]
    members: int
    seed: int
    options: dict[str, Any]
    solving: dict[str, Any]
    seconds: float = math.inf  # for all columns; of other processes for one round of them
    until: float = math.inf  # by the clock on the wall, which processes share
    stop: Signal = field(default_factory=threading.Event)

    def problem(self, width: float) -> Any:
        """The problem of a width."""
        return formulation("LeastSquares")(self.X, self.n_clusters, kernel=Gaussian(width=width),
                                           **self.options)

    def solved(self, width: float, budget: Budget, more: int = 0) -> list[Result]:
        """The results of a column, after which so many others come within the budget."""
        return followed(self.problem(width), self.lams, self.members, self.seed, budget,
                        self.solving, more=len(self.lams) * more)

    def serial(self, widths: Sequence[float]) -> dict[float, list[Result]]:
        """The columns, one after another; after Ctrl-C those that were begun."""
        done: dict[float, list[Result]] = {}
        budget = Budget(deadline=clock() + self.seconds, stop=self.stop)
        try:
            for i, width in enumerate(widths, 1):
                done[width] = self.solved(width, budget, len(widths) - i)
                if self.stop.is_set():
                    break
        except KeyboardInterrupt:
            if not done:
                raise
        return done

    def shared_out(self, widths: Sequence[float], executor: Any,
                   n_jobs: int | None) -> dict[float, list[Result]]:
        """The same where an executor puts them, in rounds that share the time."""
        done: dict[float, list[Result]] = {}
        with team(executor, n_jobs, len(widths)) as workers:
            rounds = math.ceil(len(widths) / workers.count)
            columns = replace(self, stop=workers.stop, seconds=self.seconds / rounds,
                              until=time.time() + self.seconds)
            ended = workers.each(_here if workers.here else _elsewhere, columns, widths,
                                 done.__setitem__)
        if ended is not None and not done:
            raise ended
        warn_if_lost("grid", ended, f"{len(done)} of {len(widths)} widths")
        if not workers.here:
            done = {width: self._attached(width, results) for width, results in done.items()}
        return {width: done[width] for width in widths if width in done}

    def _attached(self, width: float, results: list[Result]) -> list[Result]:
        """Results of another process with their problems."""
        problem = self.problem(width)
        return [replace(r, formulation=problem.replace(lam=lam))
                for r, lam in zip(results, self.lams, strict=True)]


def _here(columns: Columns, width: float) -> list[Result]:
    """Solve a column in a thread of this process."""
    seconds = min(columns.seconds, columns.until - time.time())
    return columns.solved(width, Budget(deadline=clock() + seconds, stop=columns.stop))


def _elsewhere(columns: Columns, width: float) -> list[Result]:
    """Solve a column in a process of its own; the results without their problems."""
    return [replace(r, formulation=None) for r in _here(columns, width)]
