"""Stochastic subgradients of the risk of a domain, by counts: `SGD` on one-class problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mmcopt.capabilities import Bounded, DomainRisk
from mmcopt.checks import require_memory
from mmcopt.kernels.on_demand import KernelRows
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.types import Floats, Ints

if TYPE_CHECKING:
    from mmcopt.solvers.sgd import SGD

LEAST_ROUNDS = 256  # rounds of a step

Play = Callable[[Ints, float], None]  # rounds at the samples picked, until one moves w by so little


class DomainDescent:
    """How often each sample has been added, and what the compiled loops keep beside that."""

    def __init__(self, solver: SGD, risk: DomainRisk, init: Any, rng: np.random.Generator) -> None:
        self.solver, self.risk, self.n = solver, risk, risk.kernel.n
        self.counts = np.zeros(self.n, dtype=np.int64)
        self.memory = np.zeros(4)  # see `gaussian_rounds`
        self.play = player(risk.kernel, risk.C, self.counts, self.memory)
        self.end: Status | None = None

    @staticmethod
    def refuses(solver: SGD, risk: DomainRisk) -> str | None:
        """Why the settings of the solver do not fit the samples."""
        if solver.draw == "shuffled" and np.ptp(risk.share) > 0:
            return "draw='shuffled' needs samples of equal weight; use draw='uniform'."
        return None

    @staticmethod
    def prepare(risk: DomainRisk) -> None:
        """Warm the compiled loop."""
        counts = np.zeros(risk.kernel.n, dtype=np.int64)
        player(risk.kernel, risk.C, counts, np.zeros(4))(np.zeros(1, dtype=np.int64), -1.0)

    def start(self) -> Floats:
        """The point 0, whatever was given: the first round multiplies its start by zero."""
        return np.zeros(self.n)

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return int(self.memory[0])

    def _picks(self, rounds: int, rng: np.random.Generator) -> Ints:
        """The samples of some rounds."""
        n, share = self.n, self.risk.share
        if self.solver.draw == "shuffled":
            return np.concatenate([rng.permutation(n) for _ in range(-(-rounds // n))])
        if np.ptp(share) > 0:
            return rng.choice(n, rounds, p=share)
        return rng.integers(n, size=rounds)

    def step(self, f: Any, rng: np.random.Generator) -> Progress:
        """Make a pass over the samples, and prove the gap that it leaves."""
        solver, rounds = self.solver, max(LEAST_ROUNDS, self.n)
        self.play(self._picks(rounds, rng), solver.theta if solver.stop == "paper" else -1.0)
        point = self.risk.C * self.counts / self.rounds
        value, bound = f.objective(point), f.offer(Bounded).bound({"a": point})
        gap = (value - bound) / max(abs(value), 1e-10)
        shortened = self.memory[3] == 1.0
        if shortened or (solver.stop == "gap" and gap <= solver.tol):
            self.end = Status.CONVERGED
        elif solver.max_passes is not None and self.rounds >= solver.max_passes * rounds:
            self.end = Status.ITERATION_LIMIT
        extras = {"gap": gap, "rounds": float(self.rounds),
                  "support": float(np.count_nonzero(self.counts))}
        return Progress(self, point, value, bound, extras, {"a": point})


@dataclass(frozen=True)
class FeatureRounds:
    """Rounds on features, with w itself."""

    Phi: Floats
    C: float
    counts: Ints
    memory: Floats
    v: Floats

    def __call__(self, picks: Ints, theta: float) -> None:
        """Play them."""
        from mmcopt.compiled.gaussian_sums import feature_rounds

        feature_rounds(self.Phi, picks, self.C, theta, self.counts, self.v, self.memory)


@dataclass(frozen=True)
class GaussianRounds:
    """Rounds on a Gaussian kernel, whose values are computed as they are needed."""

    X: Floats
    gamma: float
    C: float
    counts: Ints
    memory: Floats
    place: Ints
    ST: Floats
    raw: Floats

    def __call__(self, picks: Ints, theta: float) -> None:
        """Play them."""
        from mmcopt.compiled.gaussian_sums import gaussian_rounds

        gaussian_rounds(self.X, self.gamma, picks, self.C, theta, self.counts, self.place, self.ST,
                        self.raw, self.memory)


@dataclass(frozen=True)
class MatrixRounds:
    """Rounds on a kernel matrix."""

    K: Floats
    C: float
    counts: Ints
    memory: Floats
    place: Ints
    at: Ints
    raw: Floats

    def __call__(self, picks: Ints, theta: float) -> None:
        """Play them."""
        from mmcopt.compiled.gaussian_sums import matrix_rounds

        matrix_rounds(self.K, picks, self.C, theta, self.counts, self.place, self.at, self.raw,
                      self.memory)


def player(kernel: KernelRows, C: float, counts: Ints, memory: Floats) -> Play:
    """What plays rounds, by the loop that suits the kernel."""
    n = kernel.n
    if kernel.features is not None:
        Phi = np.ascontiguousarray(kernel.features)
        return FeatureRounds(Phi, C, counts, memory, np.zeros(Phi.shape[1]))
    place, raw = np.full(n, -1, dtype=np.int64), np.zeros(n)
    if kernel.gaussian is not None:
        XT, gamma = kernel.gaussian.XT, kernel.gaussian.gamma
        return GaussianRounds(np.ascontiguousarray(XT.T), gamma, C, counts, memory, place,
                              np.empty_like(XT), raw)
    require_memory(8.0 * n * n, f"SGD on a {n} x {n} kernel matrix that is not Gaussian",
                   "use kernel.nystroem(rank), or DualCoordinate.")
    return MatrixRounds(kernel.rows(np.arange(n)), C, counts, memory, place,
                        np.empty(n, dtype=np.int64), raw)
