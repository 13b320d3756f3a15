"""Graduated non-convexity: from a smooth version of the problem to the problem itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import hyper, instance, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solvers.tabu import Tabu
from mmcopt.solving import Progress, Solver, run
from mmcopt.solving.label_search import LabelSearch, start_labels, too_late
from mmcopt.solving.states import within


@dataclass
class _Path:
    c: NDArray[np.int64]
    value: float
    levels: list[float]
    stage: int
    best: float
    best_c: NDArray[np.int64]
    opening: bool = True

    def restored(self, roots: Any) -> None:
        """Refuse labels from a file that are none of this problem."""
        lq = roots["LabelQuadratic"]
        for c in (self.c, self.best_c):
            within("c", c, (lq.n,), 0, lq.k)


@dataclass(frozen=True, kw_only=True)
class Continuation(LabelSearch):
    """Solve the problem at large lambda first and follow the answer down to the lambda wanted.

    The levels are W_t of `LabelQuadratic.smooth`, that is lambda t, with t falling geometrically
    to 1 in ``stages`` steps. The first t leaves 2 k + 20 directions of W more than half alive;
    each restart begins at one of the levels before the last, at random. ``opening`` runs at that
    level, ``inner`` at the others; both are any label searches. Each level costs one Cholesky
    inverse, made once for all restarts. A driver step is one level. Ends as ``inner`` does.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Continuation, KernighanLin
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    >>> result = mm.solve(problem, Continuation(inner=KernighanLin()), seed=0)
    >>> round(mm.metrics.adjusted_rand_index(y, result.labels), 2)
    0.96
    """

    anytime: ClassVar[bool] = True

    inner: Solver = hyper(Tabu(length=0.5), instance(Solver), "search run at each level")
    opening: Solver = hyper(Tabu(length=2.0), instance(Solver), "search run at the first level")
    stages: int = hyper(4, integer(1), "levels before the problem itself")
    start: float | None = hyper(None, optional(real(1)), "first t; None: from the spectrum of W")

    def levels(self, lq: LabelQuadratic) -> list[float]:
        """The values of t, falling to 1."""
        top = lq.smoothing(2 * lq.k + 20) if self.start is None else self.start
        return [float(t) for t in np.geomspace(top, 1.0, self.stages + 1)]

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        c = start_labels(lq, init, rng)
        skip = int(rng.integers(self.stages))
        if too_late(lq):
            skip, levels = self.stages, [1.0] * (self.stages + 1)
        else:
            levels = self.levels(lq)
        value = lq.value(c)
        return self._progress(lq, _Path(c, value, levels, skip, value, c))

    def step(self, f: Any, state: _Path, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        if too_late(lq):
            state.stage = self.stages  # straight to the problem itself
        t = state.levels[state.stage]
        level = lq.smooth(t) if state.stage < self.stages else lq
        search = self.opening if state.opening else self.inner
        state.c = lq.reduce(run(search, level, lq.expand(state.c), rng).point)
        state.opening = False
        state.stage += 1
        self._seen(lq, state)
        return self._progress(lq, state, t)

    def finish(self, f: Any, state: _Path) -> Progress | None:
        """Run ``inner`` from the labels of an earlier level when they were better than the last."""
        if state.best >= state.value:
            return None
        lq = f.offer(LabelQuadratic)
        rng = np.random.default_rng(0)
        state.c = lq.reduce(run(self.inner, lq, lq.expand(state.best_c), rng).point)
        self._seen(lq, state)
        return self._progress(lq, state)

    @staticmethod
    def _seen(lq: LabelQuadratic, state: _Path) -> None:
        state.value = lq.value(state.c)
        if state.value < state.best:
            state.best, state.best_c = state.value, state.c

    def outcome(self, f: Any, state: _Path) -> Status | None:
        return Status.CONVERGED if state.stage > self.stages else None

    @staticmethod
    def _progress(lq: LabelQuadratic, state: _Path, t: float = np.nan) -> Progress:
        return Progress(state, lambda: lq.expand(state.c), state.value, extras={"t": t})
