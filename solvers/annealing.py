"""Simulated annealing by heat bath."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.solving.label_search import Board, LabelSearch, new_board, random_state, working_matrix

SWEEPS = 50  # of one driver step
PILOT = (20, 30)  # temperatures of the pilot run, and sweeps at each


@dataclass(frozen=True, kw_only=True)
class Annealing(LabelSearch):
    """Draw each label anew from exp(-objective / temperature), sweep by sweep, ever colder.

    The temperatures fall geometrically from ``hot`` to ``cold``, in units of the association
    sum_h z_h'W z_h. Where they are not given, a short pilot run finds where the association is
    gained: ``cold`` where 98.5 % of it is, ``hot`` above it where the gain is still steep. Some
    good basins are reached only in this way, others only by `Continuation`. Ends in a local optimum
    of moves and swaps. A driver step is 50 sweeps of O(n k) plus O(n) a change.

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

    sweeps: int = hyper(1000, integer(1), "sweeps over all samples")
    hot: float | None = hyper(None, optional(real(0, open_low=True)), "first temperature")
    cold: float | None = hyper(None, optional(real(0, open_low=True)), "last temperature")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        pilot_temperatures(f.offer(LabelQuadratic))
        return super().begin(f, init, rng)

    def step(self, f: Any, state: Board, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        hot, cold = pilot_temperatures(lq)
        schedule = np.geomspace(self.hot or hot, self.cold or cold, self.sweeps)
        part = schedule[state.count:state.count + SWEEPS]
        gain = label_moves.anneal(working_matrix(lq), state.c, state.G, state.sizes, lq.rules(),
                                  part, state.rng)
        state.count += SWEEPS
        state.gained(lq, gain)
        return state.progress(lq, temperature=float(part[-1]))

    def outcome(self, f: Any, state: Board) -> Status | None:
        return Status.CONVERGED if state.count >= self.sweeps else None

    def finish(self, f: Any, state: Board) -> Progress | None:
        return self.descend(f.offer(LabelQuadratic), state)


def pilot_temperatures(lq: LabelQuadratic) -> tuple[float, float]:
    """Hot and cold temperature of a problem, from a pilot run that is made once and seeded by 0."""
    if "temperatures" not in lq._memo:
        lq._memo["temperatures"] = _pilot(lq)
    return lq._memo["temperatures"]


def _pilot(lq: LabelQuadratic) -> tuple[float, float]:
    from mmcopt.compiled import label_moves

    W, rng = working_matrix(lq), np.random.default_rng(0)
    spread = float(np.sqrt(2 / lq.k * np.mean(np.einsum("ij,ij->i", W, W))))
    board = new_board(lq, lq.random_labels(rng), rng)
    temperatures: NDArray[np.float64] = np.geomspace(6 * spread, 0.05 * spread, PILOT[0])
    reached = [0.0]
    for T in temperatures:
        gain = label_moves.anneal(W, board.c, board.G, board.sizes, lq.rules(), np.full(PILOT[1],
                                                                                        T),
                                  random_state(rng))
        reached.append(reached[-1] + gain)
    gained = np.array(reached[1:])
    steps = np.diff(reached)
    if gained.max() <= 0:  # nothing to gain: any temperatures will do
        return 3 * spread, spread
    cold = float(temperatures[np.argmax(gained >= 0.985 * gained.max())])
    steep = float(temperatures[np.argmax(steps >= 0.5 * steps.max())])
    return max(3 * cold, 1.1 * steep), cold
