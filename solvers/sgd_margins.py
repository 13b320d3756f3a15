"""Stochastic subgradients of the risk of a margin: what `SGD` does where there are weights W."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mmcopt.capabilities import MarginRisk
from mmcopt.margins.cut_models import top_two
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress
from mmcopt.types import Floats, Ints

if TYPE_CHECKING:
    from mmcopt.solvers.sgd import SGD

LEAST_ROUNDS = 64  # rounds of a step
FIRST = 2.0  # over the first step, for rows of length 1
BURN = 4  # times the delay, rounds before which nothing counts as settled


@dataclass
class Walk:
    """W, and the sum of all W so far with the sums at two marks, from which averages follow."""

    W: Floats
    delay: float  # t0: the step of round t is 1 / (beta (t + t0))
    total: Floats
    marks: Floats  # (2, k, d): the sum at the older mark, and at the younger one
    marked: tuple[int, int] = (0, 0)  # rounds at the marks
    rounds: int = 0
    passes: int = 0
    checked: float = math.inf  # the objective at the younger mark

    @property
    def mean(self) -> Floats:
        """The average of W over the last half of the rounds, or up to three quarters of them."""
        return np.asarray((self.total - self.marks[0]) / (self.rounds - self.marked[0]))

    def mark(self) -> None:
        """Let the average begin at what is the younger mark, and set a new one here."""
        self.marks[0], self.marks[1] = self.marks[1].copy(), self.total
        self.marked = (self.marked[1], self.rounds)


def delay(risk: MarginRisk, batch: int) -> float:
    """The t0 at which the first step is stable, for a squared hinge and the lengths of rows."""
    phi = risk.features
    if phi.sparse:
        square = np.asarray(phi.X.multiply(phi.X).sum(axis=1)).ravel()
        square += phi.mean @ phi.mean - 2.0 * (phi.X @ phi.mean)
        square *= phi.scale**2
    else:
        square = np.einsum("ij,ij->i", phi.X, phi.X)
    return FIRST * max(float(square.mean()), float(square.max()) / batch) / risk.beta


def new_walk(risk: MarginRisk, batch: int, init: Any, rng: np.random.Generator) -> Walk:
    """Start at given weights, or near 0, where every class has the same score."""
    shape = (risk.k, risk.features.d)
    W = 1e-3 * rng.standard_normal(shape) if init is None else np.array(init, dtype=np.float64)
    return Walk(W, delay(risk, batch), np.zeros(shape), np.zeros((2, *shape)))


def gradient(risk: MarginRisk, W: Floats, rows: Ints) -> Floats:
    """A subgradient of ``beta/2 |W|^2 + mean of l(t1 - t2)`` over some rows.

    That of a sample with the leading classes p and r is ``l'(t_p - t_r) (e_p - e_r) x'``: where p
    leads by less than the loss asks for, it shall lead by more.
    """
    phi, m = risk.features, len(rows)
    X = phi.X[rows]
    T = X @ (phi.scale * W.T) - W @ phi.shift if phi.sparse else X @ W.T
    first, second, margin = top_two(np.asarray(T))
    slope = risk.loss.slope(margin) / m
    A = np.zeros((risk.k, m))
    A[first, np.arange(m)], A[second, np.arange(m)] = slope, -slope
    G = phi.scale * (A @ X) - A.sum(axis=1)[:, None] * phi.shift if phi.sparse else A @ X
    return np.asarray(risk.beta * W + G)


def play(risk: MarginRisk, walk: Walk, batches: Ints) -> None:
    """Rounds ``W <- W - g / (beta (t + t0))``, one a row of ``batches``."""
    if walk.passes & (walk.passes - 1) == 0:  # 0, 1, 2, 4, ...
        walk.mark()
    for rows in batches:
        walk.rounds += 1
        walk.W -= gradient(risk, walk.W, rows) / (risk.beta * (walk.rounds + walk.delay))
        walk.total += walk.W
    walk.passes += 1


def batches(n: int, size: int, shuffled: bool, rng: np.random.Generator) -> Ints:
    """The rows of each round of a pass, of which there are `LEAST_ROUNDS` at least."""
    size = min(size, n)
    rounds = max(LEAST_ROUNDS, -(-n // size))
    if not shuffled:
        return rng.integers(n, size=(rounds, size))
    orders = [rng.permutation(n) for _ in range(-(-rounds * size // n))]
    return np.concatenate(orders)[:rounds * size].reshape(rounds, size)


def settled(walk: Walk, value: float, tol: float, most: int | None) -> Status | None:
    """Whether twice the passes have lowered the objective by at most ``tol``, relatively."""
    if walk.passes & (walk.passes - 1) == 0:
        before, walk.checked = walk.checked, value
        if before - value <= tol * abs(value) and walk.rounds >= BURN * walk.delay:
            return Status.CONVERGED
    return Status.ITERATION_LIMIT if most is not None and walk.passes >= most else None


class MarginDescent:
    """A walk over weights, by the settings of the solver."""

    def __init__(self, solver: SGD, risk: MarginRisk, init: Any, rng: np.random.Generator) -> None:
        self.solver, self.risk = solver, risk
        self.walk = new_walk(risk, solver.batch, init, rng)
        self.end: Status | None = None

    @staticmethod
    def refuses(solver: SGD, risk: MarginRisk) -> str | None:
        """Why the settings of the solver do not fit weights of classes."""
        return "stop='paper' is a rule of one-class problems; use stop='gap'." \
            if solver.stop == "paper" else None

    @staticmethod
    def prepare(risk: MarginRisk) -> None:
        """Nothing is compiled, and with the risk its features are made."""

    def start(self) -> Floats:
        """The weights that the walk begins with."""
        return self.walk.W.copy()

    def step(self, f: Any, rng: np.random.Generator) -> Progress:
        """Make a pass over the samples; its point is the average that it ends with."""
        solver, walk = self.solver, self.walk
        play(self.risk, walk, batches(f.n, solver.batch, solver.draw == "shuffled", rng))
        point = walk.mean
        value = f.objective(point)
        self.end = settled(walk, value, solver.tol, solver.max_passes)
        return Progress(self, point, value, extras={"rounds": float(walk.rounds)})
