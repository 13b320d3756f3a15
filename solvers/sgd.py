"""Stochastic subgradient descent in the primal, of domains and of margins between classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, DomainRisk, MarginRisk, Subgradient
from mmcopt.checks import choice, hyper, integer, optional, real
from mmcopt.modeling.result import Status
from mmcopt.solvers.sgd_domains import DomainDescent
from mmcopt.solvers.sgd_margins import MarginDescent
from mmcopt.solving import Progress, Solver

Descent = DomainDescent | MarginDescent
DESCENTS: dict[type[Subgradient], Any] = {DomainRisk: DomainDescent, MarginRisk: MarginDescent}


@dataclass(frozen=True, kw_only=True)
class SGD(Solver):
    """Stochastic subgradients in the primal: SGD-LMSVC (Algorithm 1, eq. 2), and class margins.

    On a one-class problem round t draws a sample i and sets
    ``w <- (1 - 1/t) w + (C/t) [w'phi_i < 1] phi_i``. So after t rounds w is C/t times the sum of
    the phi_i added, each as often as it was drawn and violated the margin: integer counts that
    nothing has to rescale. A step is a pass of n rounds (256 at least), after which objective and
    gap are computed.

    ``stop="paper"`` ends at the first round that moves w by at most ``theta``, and answers with the
    last w; that is after about 100 |w| rounds at theta = .01, however many samples there are, so it
    may be far from the optimum: see the gap. ``stop="gap"`` ends when the gap is proved to be at
    most ``tol``, or after ``max_passes``, and answers with the best w. ``draw="shuffled"`` draws
    every sample once in a pass (equal weights only): the gap then falls much faster.

    On weights W of several classes (`MarginRisk`) a round takes a subgradient at ``batch`` samples
    with the step ``1 / (beta (t + t0))``, t0 such that the first one is stable. A step of the
    driver is a pass, of 64 rounds at least; its point is the average of W over the last half of the
    rounds. There is no gap to prove: it ends when twice the passes have lowered the objective by at
    most ``tol``, relatively. The problem is not convex, so starts differ: restart, or start from
    ``init="kmeans"``. A pass costs O(nkd), and O(kd) a round; sparse rows stay sparse.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=300,noise=.05,seed=0")
    >>> problem = mm.formulations.OneClassHinge(X, C=20.0)
    >>> mm.solve(problem, SGD(tol=0.05), seed=0).gap <= 0.05
    True
    >>> classes = mm.formulations.CPM3C(X, 2)
    >>> mm.solve(classes, SGD(), init="kmeans", seed=0).objective < 0.5
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Subgradient,)
    promised_gap: ClassVar[float] = 1e-2

    stop: str = hyper("gap", choice("gap", "paper"), "what ends a run")
    tol: float = hyper(1e-2, real(0, open_low=True), "relative gap, or fall, that ends it")
    theta: float = hyper(1e-2, real(0), "length of a move at which stop='paper' ends")
    draw: str = hyper("uniform", choice("uniform", "shuffled"), "how samples are drawn")
    max_passes: int | None = hyper(200, optional(integer(1)), "passes after which it gives up")
    batch: int = hyper(32, integer(1), "samples of a round on weights of several classes")

    def refuses(self, f: Any) -> str | None:
        reason, offer = super().refuses(f), f.offer(Subgradient)
        if reason is not None:
            return reason
        descent = _descent(offer)
        if descent is None:
            return f"it knows no way to descend on a {type(offer).__name__}, only on " \
                   f"{' and '.join(risk.__name__ for risk in DESCENTS)}."
        return descent.refuses(self, offer)

    def prepare(self, f: Any) -> None:
        offer = f.offer(Subgradient)
        _descent(offer).prepare(offer)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(Subgradient)
        state = _descent(offer)(self, offer, init, rng)
        point = state.start()
        return Progress(state, point, f.objective(point))

    def step(self, f: Any, state: Descent, rng: np.random.Generator) -> Progress:
        return state.step(f, rng)

    def outcome(self, f: Any, state: Descent) -> Status | None:
        return state.end


def _descent(offer: Any) -> Any:
    """The method that suits an offer, which its class says; None where there is none."""
    return next((found for risk, found in DESCENTS.items() if isinstance(offer, risk)), None)
