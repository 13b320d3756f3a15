"""Box-constrained duals by coordinate ascent on working sets, with a certified gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mmcopt.capabilities import BoxDual, Capability
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.kernel_rows import KernelRows
from mmcopt.result import Status
from mmcopt.solving import Progress, Solver, out_of_time

Floats = NDArray[Any]
Ints = NDArray[np.int64]
THINNING = 4  # a start is solved on one sample in so many,
SMALLEST = 400  # again and again while there are more than this
ROUGH = 0.02  # relative gap of such a start
PASSES = 10  # over a working set at most, times n over its size: as dear as the new gradient
SHARE = 0.05  # of its own gap that is left to a working set
TIGHT = 0.01  # of the dual objective, which is left at most: early gaps are far larger
# Contraction and reordering of sums only: NaN and infinity keep their meaning.
loop = njit(cache=True, nogil=True, error_model="numpy",
            fastmath={"contract", "nsz", "arcp", "reassoc"})


@loop
def ascend(G: Any, a: Any, g: Any, upper: Any, target: float, passes: int) -> int:
    """Ascend on a set until its gap is at most ``target``; the number of passes taken.

    ``g = 1 - Ka`` on the set, G the kernel within it; both vectors change in place. A pass takes an
    exact step on one coordinate after another; coordinates that cannot move cost next to nothing.
    """
    n = a.size
    for p in range(passes):
        gap = 0.0
        for i in range(n):
            gap += upper[i] * max(g[i], 0.0) - a[i] * g[i]
        if gap <= target:
            return p
        for i in range(n):
            step = min(max(a[i] + g[i] / G[i, i], 0.0), upper[i]) - a[i]
            if step != 0.0:
                a[i] += step
                row = G[i]
                for j in range(n):
                    g[j] -= step * row[j]
    return passes


@dataclass
class _State:
    """A point of the dual, its gradient, and the kernel both belong to."""

    kernel: KernelRows
    upper: Floats
    a: Floats
    g: Floats  # 1 - Ka
    end: Status | None = None

    def values(self) -> tuple[float, float]:
        """Primal objective and gap of the point as it is."""
        square = float(self.a @ (1.0 - self.g))
        primal = 0.5 * square + float(self.upper @ np.maximum(self.g, 0.0))
        return primal, primal - (float(self.a.sum()) - 0.5 * square)

    def stretched(self) -> tuple[float, float, float]:
        """The best s in s a that stays in the box, with its primal objective and gap.

        Where no coordinate is at its bound, a little length trades a share of |w|^2 for all losses.
        """
        primal, gap = self.values()
        short = self.g > 0
        positive = self.a > 0
        if not short.any() or not positive.any():
            return 1.0, primal, gap
        linear, square = float(self.a.sum()), float(self.a @ (1.0 - self.g))
        f, u = 1.0 - self.g[short], self.upper[short]
        low, high = 1.0, min(float((self.upper[positive] / self.a[positive]).min()), 2.0)
        for _ in range(40):  # J(s) = s^2 square / 2 + sum u max(0, 1 - s f) is convex
            s = (low + high) / 2
            slope = s * square - float(u @ (f * (s * f < 1.0)))
            low, high = (s, high) if slope < 0 else (low, s)
        value = 0.5 * high**2 * square + float(u @ np.maximum(1.0 - high * f, 0.0))
        if value >= primal:
            return 1.0, primal, gap
        return high, value, value - (high * linear - 0.5 * high**2 * square)


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
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-3, real(0, open_low=True), "relative gap at which it stops")
    working_set: int | None = hyper(None, optional(integer(2)),
                                    "samples of a step at most; None takes 10 sqrt(n), between 200 "
                                    "and 3000")

    def prepare(self, f: Any) -> None:
        f.offer(BoxDual).kernel.times(np.zeros(f.n))  # reads the data
        one = np.ones((1, 1))
        ascend(one, one[0].copy(), one[0].copy(), one[0], 0.0, 1)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        dual = f.offer(BoxDual)
        if init is None:
            state = self._start(dual.kernel, dual.upper, rng)
        else:
            a = np.clip(np.asarray(init, dtype=np.float64), 0.0, dual.upper)
            state = _State(dual.kernel, dual.upper, a, 1.0 - dual.kernel.times(a))
        return self._progress(state, self.tol)

    def step(self, f: Any, state: _State, rng: np.random.Generator) -> Progress:
        moved = self._improve(state, rng, self.tol)
        return self._progress(state, self.tol, stuck=moved == 0)

    def outcome(self, f: Any, state: _State) -> Status | None:
        return state.end

    # ------------------------------------------------------------ the start

    def _start(self, kernel: KernelRows, upper: Floats, rng: np.random.Generator) -> _State:
        """Begin at the solution on a sample; small problems begin at zero."""
        n = kernel.n
        if n <= SMALLEST:
            return _State(kernel, upper, np.zeros(n), np.ones(n))
        some = np.sort(rng.choice(n, max(SMALLEST, n // THINNING), replace=False))
        total = upper[some].sum()
        if not total > 0:
            return _State(kernel, upper, np.zeros(n), np.ones(n))
        thin = self._start(kernel.subset(some), upper[some] * (upper.sum() / total), rng)
        while not self._progress(thin, ROUGH).state.end and not out_of_time():
            if self._improve(thin, rng, ROUGH) == 0:
                break
        return _handed_on(kernel, upper, some, thin)

    # ------------------------------------------------------------ one step

    def _improve(self, state: _State, rng: np.random.Generator, tol: float) -> int:
        """Ascend on one working set; the number of coordinates that have moved."""
        primal, gap = state.values()
        S = self._choose(state, rng)
        G, a, g = state.kernel.among(S), state.a[S], state.g[S].copy()
        own = float(state.upper[S] @ np.maximum(g, 0.0) - a @ g)
        target = min(SHARE * own, max(TIGHT * (primal - gap), 0.0) or own)
        passes = max(100, PASSES * state.kernel.n // len(S))
        ascend(G, a, g, state.upper[S], target, passes)
        change = np.zeros(state.kernel.n)
        change[S] = a - state.a[S]
        moved = int(np.count_nonzero(change))
        if moved:
            state.a[S] = a
            state.g -= state.kernel.times(change)
        return moved

    def _choose(self, state: _State, rng: np.random.Generator) -> Ints:
        """Samples of largest gap, some others that have one, and those between their bounds."""
        a, upper = state.a, state.upper
        n = len(a)
        most = self.working_set or int(np.clip(10 * np.sqrt(n), 200, 3000))
        if n <= most:
            return np.arange(n)
        gaps = upper * np.maximum(state.g, 0.0) - a * state.g
        violating = np.flatnonzero(gaps > 0)
        half = most // 2
        if len(violating) > half:
            top = max(1, half // 2)
            worst = violating[np.argpartition(-gaps[violating], top - 1)[:top]]
            violating = np.union1d(worst, rng.choice(violating, half - top, replace=False))
        free = np.flatnonzero((a > 0) & (a < upper))
        room = most - len(violating)
        if len(free) > room:
            free = rng.choice(free, room, replace=False)
        return np.union1d(free, violating)

    def _progress(self, state: _State, tol: float, stuck: bool = False) -> Progress:
        s, primal, gap = state.stretched()
        # A little below tol, for the rounding that the certificate takes off.
        if gap <= tol * (1 - 1e-6) * primal or stuck:
            state.end = Status.CONVERGED
        extras = {"gap": gap / max(primal, 1e-10), "support": float(np.count_nonzero(state.a))}
        return Progress(state, lambda: s * state.a, primal, extras=extras)


def _handed_on(kernel: KernelRows, upper: Floats, some: Ints, thin: _State) -> _State:
    """All samples, from the solution on some of them."""
    coarse = np.zeros(kernel.n)
    coarse[some] = thin.a
    scores = kernel.times(coarse)
    bounded = thin.a >= thin.upper * (1 - 1e-9)
    order = np.argsort(scores)
    mass = np.searchsorted(np.cumsum(upper[order]), thin.a[bounded].sum())
    lowest = order[:mass]
    a = np.zeros(kernel.n)
    a[some] = np.where(bounded, 0.0, np.minimum(thin.a, upper[some]))
    lowest = lowest[scores[lowest] < 1.0]
    a[lowest] = upper[lowest]
    change = a - coarse
    if np.count_nonzero(change) < np.count_nonzero(a):
        return _State(kernel, upper, a, 1.0 - scores - kernel.times(change))
    return _State(kernel, upper, a, 1.0 - kernel.times(a))
