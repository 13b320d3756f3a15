"""Stochastic subgradient descent in the primal, by integer counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Bounded, Capability, MarginRisk, Subgradient
from mmcopt.checks import choice, hyper, integer, optional, real, require_memory
from mmcopt.kernels.on_demand import KernelRows
from mmcopt.modeling.result import Status
from mmcopt.solvers import sgd_margins as margins
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats, Ints

LEAST_ROUNDS = 256  # rounds of a step


@dataclass
class _State:
    """How often each sample has been added, and what the compiled loops keep beside that."""

    counts: Ints
    play: Any  # (picks, theta) -> rounds done
    memory: Floats = field(default_factory=lambda: np.zeros(4))  # see `gaussian_rounds`
    end: Status | None = None

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return int(self.memory[0])


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
        if isinstance(offer, MarginRisk):
            return "stop='paper' is a rule of one-class problems; use stop='gap'." \
                if self.stop == "paper" else None
        if self.draw == "shuffled" and np.ptp(offer.share) > 0:
            return "draw='shuffled' needs samples of equal weight; use draw='uniform'."
        return None

    def prepare(self, f: Any) -> None:
        offer = f.offer(Subgradient)
        if isinstance(offer, MarginRisk):  # and its features are made
            return
        state = _State(np.zeros(f.n, dtype=np.int64), None)
        _player(offer.kernel, offer.C, state)(np.zeros(1, dtype=np.int64), -1.0)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(Subgradient)
        if isinstance(offer, MarginRisk):
            walk = margins.new_walk(offer, self.batch, init, rng)
            return Progress(walk, walk.W.copy(), f.objective(walk.W))
        state = _State(np.zeros(f.n, dtype=np.int64), None)
        state.play = _player(offer.kernel, offer.C, state)
        point = np.zeros(f.n)  # the first round multiplies its start by zero
        return Progress(state, point, f.objective(point))

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        if isinstance(state, margins.Walk):
            return self._walk(f, state, rng)
        offer, n = f.offer(Subgradient), f.n
        rounds = max(LEAST_ROUNDS, n)
        if self.draw == "shuffled":
            picks = np.concatenate([rng.permutation(n) for _ in range(-(-rounds // n))])
        elif np.ptp(offer.share) > 0:
            picks = rng.choice(n, rounds, p=offer.share)
        else:
            picks = rng.integers(n, size=rounds)
        state.play(picks, self.theta if self.stop == "paper" else -1.0)
        point = offer.C * state.counts / state.rounds
        value, bound = f.objective(point), f.offer(Bounded).bound({"a": point})
        gap = (value - bound) / max(abs(value), 1e-10)
        shortened = state.memory[3] == 1.0
        if shortened or (self.stop == "gap" and gap <= self.tol):
            state.end = Status.CONVERGED
        elif self.max_passes is not None and state.rounds >= self.max_passes * rounds:
            state.end = Status.ITERATION_LIMIT
        extras = {"gap": gap, "rounds": float(state.rounds),
                  "support": float(np.count_nonzero(state.counts))}
        return Progress(state, point, value, bound, extras, {"a": point})

    def _walk(self, f: Any, walk: margins.Walk, rng: np.random.Generator) -> Progress:
        """A pass over the samples of a problem with weights, and the average it ends with."""
        margins.play(f.offer(Subgradient), walk,
                     margins.batches(f.n, self.batch, self.draw == "shuffled", rng))
        point = walk.mean
        value = f.objective(point)
        walk.end = margins.settled(walk, value, self.tol, self.max_passes)
        return Progress(walk, point, value, extras={"rounds": float(walk.rounds)})

    def outcome(self, f: Any, state: Any) -> Status | None:
        return state.end


def _player(kernel: KernelRows, C: float, state: _State) -> Any:
    """A function that plays rounds, by the loop that suits the kernel."""
    from mmcopt.compiled import gaussian_sums

    n, counts, memory = kernel.n, state.counts, state.memory
    if kernel.features is not None:
        Phi = np.ascontiguousarray(kernel.features)
        v = np.zeros(Phi.shape[1])
        return lambda picks, theta: gaussian_sums.feature_rounds(Phi, picks, C, theta, counts, v,
                                                                 memory)
    place, raw = np.full(n, -1, dtype=np.int64), np.zeros(n)
    if kernel.gaussian is not None:
        XT, gamma = kernel.gaussian.XT, kernel.gaussian.gamma
        X, ST = np.ascontiguousarray(XT.T), np.empty_like(XT)
        return lambda picks, theta: gaussian_sums.gaussian_rounds(X, gamma, picks, C, theta, counts,
                                                                  place, ST, raw, memory)
    require_memory(8.0 * n * n, f"SGD on a {n} x {n} kernel matrix that is not Gaussian",
                   "use kernel.nystroem(rank), or DualCoordinate.")
    K, at = kernel.rows(np.arange(n)), np.empty(n, dtype=np.int64)
    return lambda picks, theta: gaussian_sums.matrix_rounds(K, picks, C, theta, counts, place, at,
                                                            raw, memory)
