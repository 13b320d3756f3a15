"""What `BranchAndBound` does at a node of its tree, for each kind of label problem.

A node is a smaller label problem. Its relaxation is solved a little at a time; the matrix X found
so far is rounded to labels, and names the pair of nodes on which to split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.label_lift import Duals
from mmcopt.bounds.labels_from_matrix import clustered, named, rounded
from mmcopt.capabilities import LabelProblem, LabelRatio
from mmcopt.solvers.factor_dual import FactorDual
from mmcopt.solvers.hartigan import Hartigan
from mmcopt.solvers.regularized_dual import RegularizedDual
from mmcopt.solvers.splitting import Splitting
from mmcopt.solving import Solver, run
from mmcopt.types import Floats, Ints

LITTLE = 0.1  # of what a bound misses: too little to go on for
PATIENT = 3  # times over which projections are judged
JUDGED = 4e-3  # share of the first alpha from which nodes without duals may be judged
LATER = 0.02  # factor of the first alpha at nodes that begin at duals,
LAST, FAR = 4e-3, 0.05  # and at those of a factor, that are near or far
AGAIN = 6  # times over which these are judged
GAIN, TIMES = 0.2, 2  # of free sides: too little to go on for, over so many times,
FRESH = 2  # and as many times more without duals to begin with
FIRST, LATEST = (8, 4), (5, 3)  # of factors: times before they are judged, by the last so many;
NEARBY = 0.1  # of what they missed at first: what they leave where their duals are near
WORTH = 0.8  # of what factors miss: what a finer solver must gain to be the children's, too


class TreeNodes(ABC):
    """How nodes are bounded, rounded and split."""

    @abstractmethod
    def solver(self, target: float, informed: bool) -> Solver:
        """What solves their relaxations until a bound is reached; ``informed`` by duals or not."""

    def finer(self, near: bool) -> TreeNodes | None:
        """What goes on where this gains too little, from its duals; None: a split.

        ``near`` says that of what a fresh node first missed little is left.
        """
        return None

    def handed(self, duals: Duals, X: Floats, state: Any) -> Duals:
        """What the children of a node begin with."""
        return duals

    def followed(self) -> TreeNodes:
        """What bounds the children of a node at which this was worth it."""
        return self

    @abstractmethod
    def precision(self, state: Any) -> float:
        """A number that falls as a solver comes nearer to the relaxation's optimum."""

    @abstractmethod
    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        """Whether the bound gains too little of what it misses to go on.

        ``gains`` are those of each time so far, ``share`` the precision over that of the first;
        ``fresh`` nodes did not begin at duals.
        """

    @abstractmethod
    def labels(self, small: Any, lift: Any, X: Floats, rng: np.random.Generator) -> Ints:
        """Labels of the small problem near X, which may break its rules."""

    @abstractmethod
    def doubts(self, lift: Any, X: Floats) -> Floats:
        """For pairs of nodes of the lift, how little X says of whether they share a cluster."""


class QuadraticNodes(TreeNodes):
    """Nodes of `LabelQuadratic`, with triangles and cliques."""

    def solver(self, target: float, informed: bool) -> Solver:
        start = RegularizedDual().start * (LATER if informed else 1.0)
        return RegularizedDual(start=start, target=target)

    def precision(self, state: Any) -> float:
        return float(state.alpha)

    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        if not fresh:
            return gains[-1] < LITTLE * missing
        # A large alpha says little about what the node can reach.
        return 4 * gains[-1] < LITTLE * missing and share <= JUDGED

    def labels(self, small: Any, lift: Any, X: Floats, rng: np.random.Generator) -> Ints:
        return rounded(small, lift, X, rng, tries=2)

    def doubts(self, lift: Any, X: Floats) -> Floats:
        """How near an entry is to the middle, heavy nodes first."""
        M = (X - lift.floor) / (lift.top - lift.floor)
        heavy = np.sqrt(np.abs(lift.b) / np.abs(lift.b).max(initial=1e-300))
        doubts = 0.2 * np.outer(heavy, heavy) - np.abs(M - 0.5)
        if lift.pairs.size:
            doubts[lift.pairs[:, 0], lift.pairs[:, 1]] = -np.inf
        return np.asarray(doubts)


@dataclass(frozen=True)
class RefinedNodes(QuadraticNodes):
    """Nodes at which factors gained too little, from their duals on."""

    alpha: float  # the first, as a factor of that without duals

    def solver(self, target: float, informed: bool) -> Solver:
        return RegularizedDual(start=self.alpha * RegularizedDual().start, target=target)

    def followed(self) -> TreeNodes:
        return RefinedNodes(LAST)

    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        times = AGAIN if fresh else 1
        return len(gains) >= times and sum(gains[-times:]) < LITTLE * missing


class FactorNodes(QuadraticNodes):
    """Nodes of `LabelQuadratic` as `FactorDual` bounds them, in a tenth of the time.

    What binds sizes it may satisfy too slowly for a gap of 1e-5: its duals then go to
    `RegularizedDual`.
    """

    def finer(self, near: bool) -> TreeNodes | None:
        return RefinedNodes(LAST if near else FAR)

    def solver(self, target: float, informed: bool) -> Solver:
        return FactorDual(target=target, every=1, odd_per_node=4.0, odd_starts=10)

    def precision(self, state: Any) -> float:
        return 1.0

    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        """The bound rises by fits and starts: new cuts must be priced before they tell."""
        times, last = FIRST if fresh else LATEST
        return len(gains) >= times and sum(gains[-last:]) < GAIN * missing


class FreeNodes(FactorNodes):
    """Nodes of two sides of any sizes, as in a cut: the rows of their programs are cuts alone."""

    def finer(self, near: bool) -> TreeNodes | None:
        return None

    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        return len(gains) >= TIMES * (FRESH if fresh else 1) and \
            sum(gains[-TIMES:]) < GAIN * missing


class RatioNodes(TreeNodes):
    """Nodes of `LabelRatio`, with pairs and triangles."""

    def solver(self, target: float, informed: bool) -> Solver:
        return Splitting(target=target)

    def handed(self, duals: Duals, X: Floats, state: Any) -> Duals:
        return {**duals, "X": X, "sigma": state.sigma, "least": state.least}

    def precision(self, state: Any) -> float:
        return float(state.least)

    def slow(self, gains: list[float], missing: float, share: float, fresh: bool) -> bool:
        """Projections come nearer by fits and starts: what counts are the last few times."""
        return len(gains) >= PATIENT and sum(gains[-PATIENT:]) < LITTLE * missing

    def labels(self, small: Any, lift: Any, X: Floats, rng: np.random.Generator) -> Ints:
        c = small.repair(named(clustered(lift, X, rng, tries=2), small.fixed, small.k), rng)
        return np.asarray(small.reduce(run(Hartigan(), small, small.expand(c), rng).point))

    def doubts(self, lift: Any, X: Floats) -> Floats:
        """The lesser of X_ij, 0 of nodes that are apart, and of what tells their rows apart.

        The rule of Piccialli, Sudoso and Wiegele (2022), heavy nodes first.
        """
        r = 1.0 / lift.root
        rows = X * r
        size = np.einsum("ij,ij->i", rows, rows)
        far = size[:, None] + size - 2.0 * rows @ rows.T
        doubts = np.minimum(X, far) * np.outer(r, r)
        if len(lift.apart):
            doubts[lift.apart[:, 0], lift.apart[:, 1]] = -np.inf
        return np.asarray(doubts)


def nodes_of(lq: LabelProblem) -> TreeNodes:
    """What fits a label problem."""
    if isinstance(lq, LabelRatio):
        return RatioNodes()
    if lq.k == 2:
        return FreeNodes() if lq.any_sizes else \
            QuadraticNodes() if (lq.low == lq.high).all() else FactorNodes()
    return FactorNodes()
