"""Box-constrained duals by coordinate ascent on working sets, with a certified gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import BoxDual, Capability
from mmcopt.checks import hyper, integer, optional, real, require_memory
from mmcopt.kernels.on_demand import KernelRows
from mmcopt.linalg import UNIT
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver, out_of_time
from mmcopt.types import Floats, Ints

MOST = 3000  # samples of a working set, unless more are asked for
THINNING = 8  # a start is solved on one sample in so many,
SMALLEST = 400  # again and again while there are more than this
ROUGH = 0.02  # relative gap of such a start
STILL = 3  # steps in a row that move nothing, after which it gives up
PASSES = 10  # over a working set at most, times n over its size: as dear as the new gradient
SHARE = 0.05  # of its own gap that is left to a working set
TIGHT = 0.01  # of the dual objective, which is left at most: early gaps are far larger


@dataclass
class _State:
    """A point of the dual, its gradient, and the kernel both belong to.

    ``waiting`` are the samples of finer problems, the finest first, on which this one is to go on;
    empty once it is the problem itself.
    """

    kernel: KernelRows
    upper: Floats
    a: Floats
    g: Floats  # 1 - Ka
    waiting: list[Level] = field(default_factory=list)
    still: int = 0  # steps in a row that moved nothing
    end: Status | None = None

    def survey(self) -> tuple[float, float, Floats]:
        """Primal objective, gap, and the gap of each sample."""
        from mmcopt.compiled.box_ascent import survey

        gaps = np.empty(len(self.a))
        primal, gap, _ = survey(self.a, self.g, self.upper, gaps)
        return primal, gap, gaps

    def stretched(self) -> tuple[float, float, float]:
        """The best s in s a that stays in the box, with its primal objective and gap.

        Where no coordinate is at its bound, a little length trades a share of |w|^2 for all losses.
        """
        from mmcopt.compiled.box_ascent import stretch, survey

        primal, gap, room = survey(self.a, self.g, self.upper, np.empty(len(self.a)))
        if room > 1.0 and gap > 0.0:
            s, longer, wider = stretch(self.a, self.g, self.upper, room)
            if longer < primal:
                return s, longer, wider
        return 1.0, primal, gap


@dataclass
class Level:
    """A problem on some samples, and which of them the coarser one below it has."""

    kernel: KernelRows
    upper: Floats
    some: Ints


@dataclass(frozen=True, kw_only=True)
class DualCoordinate(Solver):
    """Coordinate ascent on the dual of a one-class problem, until the gap is proved to be small.

    A step takes the samples that violate the optimality conditions most, and those between their
    bounds, computes the kernel among them, ascends there, and updates the gradient of all samples
    by the coordinates that have moved. So no more than ``working_set`` squared entries of the
    kernel are held, whatever n is. The start is the solution on a quarter of the samples, itself
    started on a quarter of those: samples that were at their bound there hand it on to those of
    lowest score, the others keep their coefficients.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=300,noise=.05,seed=0")
    >>> problem = mm.formulations.OneClassHinge(X, C=50.0)
    >>> mm.solve(problem, DualCoordinate(tol=1e-4), seed=0).gap <= 1e-4
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (BoxDual,)
    promised_gap: ClassVar[float] = 1e-3
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-3, real(0, open_low=True), "relative gap at which it stops")
    working_set: int | None = hyper(None, optional(integer(2)),
                                    "samples of a step at most; None takes 10 sqrt(n), between 200 "
                                    "and 3000")

    def prepare(self, f: Any) -> None:
        from mmcopt.compiled.box_ascent import ascend, stretch, survey

        f.offer(BoxDual).kernel.rows(np.zeros(1, dtype=np.int64))  # reads the data, compiles
        one = np.ones((1, 1))
        ascend(one, one[0].copy(), one[0].copy(), one[0], 0.0, 1)
        survey(one[0], one[0], one[0], one[0].copy())
        stretch(one[0], one[0], one[0], 1.5)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        dual = f.offer(BoxDual)
        if init is not None:
            f.objective(init)  # which refuses what is no point
            a = np.clip(init, 0.0, dual.upper)
            state = _State(dual.kernel, dual.upper, a, 1.0 - dual.kernel.times(a))
            return self._progress(f, state)
        kernel, upper, waiting = dual.kernel, dual.upper, []
        while kernel.n > SMALLEST:
            some = np.sort(rng.choice(kernel.n, max(SMALLEST, kernel.n // THINNING), replace=False))
            total = upper[some].sum()
            if not total > 0:
                break
            waiting.append(Level(kernel, upper, some))
            kernel, upper = kernel.subset(some), upper[some] * (upper.sum() / total)
        n = kernel.n
        return self._progress(f, _State(kernel, upper, np.zeros(n), np.ones(n), waiting))

    def step(self, f: Any, state: _State, rng: np.random.Generator) -> Progress:
        if state.waiting:
            self._climb(state, rng)
        else:
            state.still = 0 if self._improve(state, rng) else state.still + 1
        return self._progress(f, state)

    def outcome(self, f: Any, state: _State) -> Status | None:
        return state.end

    def finish(self, f: Any, state: _State) -> Progress | None:
        """Where time has run out on a sample: its solution, as a point of the whole problem."""
        if not state.waiting:
            return None
        a = state.a
        for level in reversed(state.waiting):
            spread = np.zeros(level.kernel.n)
            spread[level.some] = np.minimum(a, level.upper[level.some])
            a = spread
        value = f.objective(a)
        return Progress(state, a, value) if value < f.objective(np.zeros(len(a))) else None

    def _progress(self, f: Any, state: _State) -> Progress:
        if state.waiting:  # w = 0, whose objective is known without a look at the kernel
            total = float(state.waiting[0].upper.sum())
            return Progress(state, np.zeros(state.waiting[0].kernel.n), total, extras={"gap": 1.0})
        s, primal, gap = state.stretched()
        zero = float(state.upper.sum())
        if primal > zero:  # worse than w = 0
            s, primal, gap = 0.0, zero, gap - (primal - zero)
        # The certificate takes off rounding in proportion to the sums behind it.
        margin = 16 * (len(state.a) + 8) * UNIT * (primal + float(state.a.sum()))
        if gap + margin <= self.tol * primal:
            state.end = Status.CONVERGED
        elif state.still >= STILL:
            state.end = Status.ITERATION_LIMIT  # no coordinate moves in double precision
        extras = {"gap": gap / max(primal, 1e-10), "support": float(np.count_nonzero(state.a))}
        return Progress(state, lambda: s * state.a, primal, extras=extras)

    # ------------------------------------------------------------ steps

    def _climb(self, state: _State, rng: np.random.Generator) -> None:
        """Solve on the samples at hand, roughly, and hand the solution on to the next finer."""
        still = 0
        while not out_of_time() and still < STILL:
            primal, gap, _ = state.survey()
            if gap <= ROUGH * primal:
                break
            still = 0 if self._improve(state, rng) else still + 1
        level = state.waiting[-1]
        handed = _handed_on(level, state)
        if handed is not None:
            state.waiting.pop()
            state.kernel, state.upper = level.kernel, level.upper
            state.a, state.g = handed

    def _improve(self, state: _State, rng: np.random.Generator) -> int:
        """Ascend on one working set; the number of coordinates that have moved."""
        from mmcopt.compiled.box_ascent import ascend

        primal, gap, gaps = state.survey()
        S = self._working_set(state, gaps, rng)
        if len(S) > MOST:
            require_memory(16.0 * len(S)**2, f"a working set of {len(S)} samples",
                           "choose a smaller working_set.")
        G, a, g = state.kernel.among(S), state.a[S], state.g[S].copy()
        own, dual = float(gaps[S].sum()), primal - gap
        target = SHARE * own if dual <= 0 else min(SHARE * own, TIGHT * dual)
        ascend(G, a, g, state.upper[S], target, max(100, PASSES * state.kernel.n // len(S)))
        change = np.zeros(state.kernel.n)
        change[S] = a - state.a[S]
        moved = int(np.count_nonzero(change))
        if moved:
            state.a[S] = a
            state.g -= state.kernel.times(change)
        return moved

    def _working_set(self, state: _State, gaps: Floats, rng: np.random.Generator) -> Ints:
        """Samples of largest gap, some others that have one, and those between their bounds."""
        a, n = state.a, len(state.a)
        free = np.flatnonzero((a > 0) & (a < state.upper))
        few = 10 * np.sqrt(n)
        most = self.working_set or int(np.clip(few / 2 + max(few / 2, 1.2 * len(free)), 200, MOST))
        if n <= most:
            return np.arange(n)
        violating = np.flatnonzero(gaps > 0)
        chosen = np.zeros(n, dtype=bool)
        half = most // 2 if self.working_set else max(most // 4, int(few / 2))
        if len(violating) > half:
            top = max(1, half // 2)
            chosen[violating[np.argpartition(-gaps[violating], top - 1)[:top]]] = True
            violating = rng.choice(violating, half - top, replace=False)
        chosen[violating] = True
        room = most - int(chosen.sum())
        if len(free) > room:
            free = rng.choice(free, room, replace=False)
        chosen[free] = True
        return np.flatnonzero(chosen)


def _handed_on(level: Level, thin: _State) -> tuple[Floats, Floats] | None:
    """A point of the finer problem and its gradient; None when time has run out before."""
    kernel, upper, some = level.kernel, level.upper, level.some
    coarse = np.zeros(kernel.n)
    coarse[some] = thin.a
    scores = kernel.times(coarse, until=out_of_time)
    if scores is None:
        return None
    bounded = thin.a >= thin.upper * (1 - 1e-9)
    order = np.argsort(scores)
    mass = np.searchsorted(np.cumsum(upper[order]), thin.a[bounded].sum())
    lowest = order[:mass]
    a = np.zeros(kernel.n)
    a[some] = np.where(bounded, 0.0, np.minimum(thin.a, upper[some]))
    lowest = lowest[scores[lowest] < 1.0]
    a[lowest] = upper[lowest]
    change = a - coarse
    near = np.count_nonzero(change) < np.count_nonzero(a)
    product = kernel.times(change if near else a, until=out_of_time)
    if product is None:
        return None
    return a, 1.0 - (scores + product if near else product)
