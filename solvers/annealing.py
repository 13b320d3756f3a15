"""Simulated annealing by heat bath."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.solving.factor_search import (
    FactorBoard,
    FactorSearch,
    factor_board,
    factor_spread,
    factor_start,
    next_part,
    on_factor,
    working_factor,
)
from mmcopt.solving.graph_search import entries, row_squares, searched, two_free_sides
from mmcopt.solving.label_search import Board, new_board, random_state
from mmcopt.solving.runs import out_of_time

SWEEPS = 50  # of one driver step, at the most
CHANGES = 100_000_000  # entries of W that one driver step reads, about, while it is hot
PILOT = (20, 30)  # temperatures of the pilot run, and sweeps at each
SMALL = 1500  # samples above which the pilot makes fewer sweeps, in proportion to the square


@dataclass(frozen=True, kw_only=True)
class Annealing(FactorSearch):
    """Draw each label anew from exp(-objective / temperature), sweep by sweep, ever colder.

    The temperatures fall geometrically from ``hot`` to ``cold``, in units of the association
    sum_h z_h'W z_h. Where they are not given, a short pilot run finds where the association is
    gained: ``cold`` where 98.5 % of it is, ``hot`` above it where the gain is still steep. Some
    good basins are reached only in this way, others only by `Continuation`. Ends in a local optimum
    of moves and swaps. A driver step is 50 sweeps of O(n k) plus O(n) a change, or fewer on large
    problems. When W is held as a large factor of rank r, a sweep costs O(n k r), a driver step is a
    part of one, W is never made dense, and the end is the last state. On the lists of a large
    sparse W a change costs the degree of the sample, and the end is an optimum of moves; where two
    clusters may have any sizes, labels change by Metropolis' rule, and temperatures are lower.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Annealing
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    >>> result = mm.solve(problem, Annealing(sweeps=200), seed=0)
    >>> round(mm.metrics.adjusted_rand_index(y, result.labels), 2)
    0.96
    """

    anytime: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    sweeps: int = hyper(1000, integer(1), "sweeps over all samples")
    hot: float | None = hyper(None, optional(real(0, open_low=True)), "first temperature")
    cold: float | None = hyper(None, optional(real(0, open_low=True)), "last temperature")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        self._temperatures(lq)
        if not on_factor(lq):
            return super().begin(f, init, rng)
        progress = factor_start(lq, init, rng)
        progress.state.rng = random_state(rng)
        return progress

    def step(self, f: Any, state: Board | FactorBoard, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        schedule = np.geomspace(*self._temperatures(lq), self.sweeps)
        if isinstance(state, FactorBoard):
            return self._factor_step(lq, state, schedule)
        sweeps = int(np.clip(CHANGES // entries(lq), 1, SWEEPS))
        part = schedule[state.count:state.count + sweeps]
        loops, W, rules = searched(lq)
        gain = loops.anneal(W, state.c, state.G, state.sizes, rules, part, state.rng)
        state.count += sweeps
        state.gained(lq, gain)
        return state.progress(lq, temperature=float(part[-1]))

    def _temperatures(self, lq: LabelQuadratic) -> tuple[float, float]:
        """The first and the last; the pilot is run only where it is asked."""
        if self.hot and self.cold:
            return self.hot, self.cold
        hot, cold = pilot_temperatures(lq)
        return self.hot or hot, self.cold or cold

    def _factor_step(self, lq: LabelQuadratic, state: FactorBoard,
                     schedule: NDArray[np.float64]) -> Progress:
        from mmcopt.compiled import factor_moves

        gain = factor_moves.anneal(working_factor(lq), state.c, state.S, state.sizes, lq.rules(),
                                   next_part(lq, state), schedule[state.passes], state.rng)
        state.value -= lq.scale * gain
        if state.position >= lq.n:
            state.position = 0
            state.passes += 1
            state.done = state.passes == self.sweeps
        if state.done:
            state.value = lq.value(state.c)  # gains in float32 drift
        return state.progress(lq)

    def outcome(self, f: Any, state: Board | FactorBoard) -> Status | None:
        done = state.done if isinstance(state, FactorBoard) else state.count >= self.sweeps
        return Status.CONVERGED if done else None

    def finish(self, f: Any, state: Board | FactorBoard) -> Progress | None:
        lq = f.offer(LabelQuadratic)
        return None if isinstance(state, FactorBoard) else self.descend(lq, state)


def pilot_temperatures(lq: LabelQuadratic) -> tuple[float, float]:
    """Hot and cold temperature of a problem, from a pilot run that is made once and seeded by 0.

    Out of time, they are what the part of the pilot that was run says, and are not kept.
    """
    if "temperatures" in lq._memo:
        return lq._memo["temperatures"]
    temperatures = _pilot(lq)
    return temperatures if out_of_time() else lq._memo.setdefault("temperatures", temperatures)


def _pilot(lq: LabelQuadratic) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    sweeps = max(2, round(PILOT[1] * min(1.0, SMALL**2 / entries(lq))))
    spread, gain = (_on_factor if on_factor(lq) else _on_entries)(lq, sweeps, rng)
    temperatures: NDArray[np.float64] = np.geomspace(6 * spread, 0.05 * spread, PILOT[0])
    reached = [0.0]
    for T in temperatures:
        reached.append(reached[-1] + gain(T))
        if out_of_time():
            break
    gained = np.array(reached[1:])
    steps = np.diff(reached)
    if gained.max() <= 0:  # nothing to gain: any temperatures will do
        return 3 * spread, spread
    cold = float(temperatures[np.argmax(gained >= 0.985 * gained.max())])
    steep = float(temperatures[np.argmax(steps >= 0.5 * steps.max())])
    hot = max(3 * cold, 1.1 * steep)
    if two_free_sides(lq):  # no sizes to get round: colder is better
        return max(3 * cold, hot / 8), cold / 2
    return hot, cold


def _on_entries(lq: LabelQuadratic, sweeps: int,
                rng: np.random.Generator) -> tuple[float, Callable[[float], float]]:
    """The spread of the gains, and a function that anneals at a temperature."""
    loops, W, rules = searched(lq)
    spread = float(np.sqrt(2 / lq.k * np.mean(row_squares(lq)))) or 1.0
    board = new_board(lq, lq.random_labels(rng), rng)

    def gain(T: float) -> float:
        return float(loops.anneal(W, board.c, board.G, board.sizes, rules, np.full(sweeps, T),
                                  random_state(rng)))

    return spread, gain


def _on_factor(lq: LabelQuadratic, sweeps: int,
               rng: np.random.Generator) -> tuple[float, Callable[[float], float]]:
    """The same on a factor."""
    from mmcopt.compiled import factor_moves

    Psi, spread = working_factor(lq), factor_spread(lq)
    board = factor_board(lq, lq.random_labels(rng), rng)
    order = np.arange(lq.n)

    def gain(T: float) -> float:
        state = random_state(rng)
        return sum(float(factor_moves.anneal(Psi, board.c, board.S, board.sizes, lq.rules(),
                                             order, T, state)) for _ in range(sweeps))

    return spread, gain
