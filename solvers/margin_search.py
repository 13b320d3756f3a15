"""The default search of margins: many short descents, a pool of the best, and their children."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, CutRisk
from mmcopt.checks import hyper, integer, real
from mmcopt.margins import Hinge
from mmcopt.margins.cut_models import LabelCuts, PairCuts, floored
from mmcopt.modeling.result import Status
from mmcopt.solvers.cutting_plane import CuttingPlane
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats, Ints

WORK = 4_000_000  # products of a step, about
FEWEST = 8  # starts at least, of any number of samples
ROUGH, FINE = 1e-3, 1e-7  # relative gaps to the machine of the labels: of all starts, of members
ROUGH_PASSES, FINE_PASSES = 100, 3000  # at most
LOW, GROW = 0.03, 3.0  # the least sigma that a descent begins with, and how it grows
KICKED = 0.1  # of the samples of a member, at most, that a child has elsewhere
BETTER = 1e-7  # relative: what counts as an improvement
HANDED = CuttingPlane()


@dataclass
class _Member:
    """Where a descent has ended: u, labels, weights of kernels, and the objective times n."""

    U: Floats
    y: Ints
    weights: Floats
    value: float


@dataclass
class _Run:
    """A descent under way."""

    at: Any
    sigma: float
    fine: bool = False
    held: bool = False  # whether labels stay, until their machine is roughly solved
    used: int = 0


@dataclass
class _Pool:
    """Members, the descent under way, and the best point met."""

    machine: Any
    point: Any
    value: float
    start: Ints | None
    members: list[_Member] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)  # labels that members were settled from
    run: _Run | None = None
    begun: int = 0
    idle: int = 0  # children since the last new best


@dataclass(frozen=True, kw_only=True)
class MarginSearch(Solver):
    needs: ClassVar[tuple[type[Capability], ...]] = (CutRisk,)
    anytime: ClassVar[bool] = True

    starts: int = hyper(500, integer(1), "descents from random labels")
    pool: int = hyper(8, integer(2), "members of the pool")
    patience: int = hyper(100, integer(0), "children without a new best after which it stops")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is None and f.offer(CutRisk).bound is not None:
            return "the problem is convex, and a single descent solves it; use CuttingPlane."
        return reason

    def prepare(self, f: Any) -> None:
        if fits(f.offer(CutRisk)) is None:
            HANDED.prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(CutRisk)
        machine = fits(offer)
        if machine is None:
            return HANDED.begin(f, init, rng)
        W = offer.weights(init) if init is not None else np.zeros((offer.k, offer.features.d))
        start = None if init is None else f.labels(init)
        point = offer.point(W, floored(offer.features.scores(W), machine.least)) \
            if init is None else init
        return self._progress(_Pool(machine, point, f.objective(point), start))

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        if not isinstance(state, _Pool):
            return HANDED.step(f, state, rng)
        offer, machine = f.offer(CutRisk), state.machine
        each, done = machine.A.size * (offer.k - 1), 0
        while done < WORK and self.outcome(f, state) is None:
            state.run = state.run or self._next(offer, state, rng)
            done += each * self._advance(state.run, machine, max(1, (WORK - done) // each), state, f)
        return self._progress(state)

    def outcome(self, f: Any, state: Any) -> Status | None:
        if not isinstance(state, _Pool):
            return HANDED.outcome(f, state)
        ended = state.run is None and state.begun >= self._starts(state) \
            and (state.idle >= self._patience(state) or len(state.members) < 2)
        return Status.CONVERGED if ended else None

    def finish(self, f: Any, state: Any) -> Progress | None:
        return None

    # ------------------------------------------------------------ descents

    def _starts(self, state: _Pool) -> int:
        n = len(state.machine.norms)
        return max(FEWEST, min(self.starts, 200 * self.starts // n))

    def _patience(self, state: _Pool) -> int:
        return self._starts(state) * self.patience // self.starts

    def _next(self, offer: CutRisk, state: _Pool, rng: np.random.Generator) -> _Run:
        """Begin the next descent: from the start given, from random labels, or as a child."""
        machine, k, n = state.machine, offer.k, offer.features.n
        index, sigma = state.begun, float(np.exp(rng.uniform(np.log(LOW), 0.0)))
        state.begun += 1
        if index == 0 and state.start is not None:
            return _Run(_at(machine, _spread(state.start, k), state.start), 1.0, held=True)
        if index < self._starts(state):
            y = rng.permutation(np.arange(n) % k) if machine.least else rng.integers(0, k, n)
            return _Run(_at(machine, _spread(y, k), y), sigma)
        state.idle += 1
        U, weights = _child(state.members, rng)
        y = np.ascontiguousarray(U.argmax(axis=0))
        if machine.least:
            y = floored(U.T, machine.least)
        return _Run(_at(machine, U, y, weights), sigma)

    def _advance(self, run: _Run, machine: Any, passes: int, state: _Pool, f: Any) -> int:
        """Take a descent further; how many passes it took."""
        from mmcopt.compiled.margin_search import descend

        most, tol = (FINE_PASSES, FINE) if run.fine else (ROUGH_PASSES, ROUGH)
        run.sigma, value, used, ended = descend(machine, run.at, run.sigma, GROW, not run.held,
                                                min(passes, most - run.used), tol)
        run.used += used
        if not ended and run.used < most:
            return used
        run.used = 0
        if run.held:
            run.held = False
        elif run.fine or not self._promising(run, value, state):
            if run.fine:
                self._arrived(f, state, _Member(run.at.U, run.at.y, run.at.weights, value))
            state.run = None
        else:
            run.fine = True
        return used

    def _promising(self, run: _Run, value: float, state: _Pool) -> bool:
        """Whether a descent that has come so far may become a member."""
        full = len(state.members) == self.pool
        if full and value * (1.0 - 2 * ROUGH) >= max(m.value for m in state.members):
            return False
        key = _canonical(run.at.y).tobytes()
        known = key in state.seen
        state.seen.add(key)
        return not known

    def _arrived(self, f: Any, state: _Pool, member: _Member) -> None:
        """Take a member into the pool, and its point when it is the best so far."""
        offer = f.offer(CutRisk)
        point = offer.point(_weights(offer, member), member.y)
        value = f.objective(point)
        if value < state.value:
            if value < state.value - BETTER * abs(state.value):
                state.idle = 0
            state.point, state.value = point, value
        label = _canonical(member.y)
        alike = [q for q, m in enumerate(state.members) if (_canonical(m.y) == label).all()]
        if not alike and len(state.members) < self.pool:
            state.members.append(member)
            return
        q = max(alike or range(self.pool), key=lambda q: state.members[q].value)
        if member.value < state.members[q].value:
            state.members[q] = member

    @staticmethod
    def _progress(state: _Pool) -> Progress:
        return Progress(state, state.point, state.value,
                        extras={"descents": float(state.begun), "members": float(len(state.members))})


# ---------------------------------------------------------------- between problem and machine


def fits(offer: CutRisk) -> Any:
    """The machine of a problem, or None where there is none."""
    from mmcopt.compiled.margin_search import Machine

    cuts = offer.cuts(np.zeros((offer.k, offer.features.d)), "pair", None)
    if type(cuts) not in (PairCuts, LabelCuts) or type(cuts.loss) is not Hinge \
            or offer.balance is not None or offer.features.sparse:
        return None
    least = cuts.least if isinstance(cuts, LabelCuts) else 0
    n, unit = offer.features.n, offer.beta * offer.features.n
    if offer.blocks:
        kernels = np.stack([X @ X.T for X in (part.dense() for part in offer.features.parts)]) / unit
        return Machine(np.empty((n, n)), np.empty(n), True, kernels, offer.p, least)
    X = offer.features.dense() / np.sqrt(unit)
    norms = np.einsum("ij,ij->i", X, X)
    gram = 3 * X.shape[1] > 2 * n
    return Machine(np.ascontiguousarray(X @ X.T if gram else X), norms, gram, np.empty((0, 0, 0)),
                   offer.p, least)


def _at(machine: Any, U: Floats, y: Ints, weights: Floats | None = None) -> Any:
    """Where a descent begins."""
    from mmcopt.compiled.margin_search import At, gather

    k, M = len(U), max(1, len(machine.kernels))
    weights = np.full(M, M**(-1.0 / machine.p)) if weights is None else weights.copy()
    at = At(np.empty((k - 1, machine.A.shape[1])), U, y.copy(), np.bincount(y, minlength=k), weights)
    gather(machine, at)
    return at


def _weights(offer: CutRisk, member: _Member) -> Floats:
    """W of a member."""
    U, unit = member.U, offer.beta * offer.features.n
    W = offer.features.sums(U) / unit
    for block, weight in zip(offer.blocks, member.weights, strict=False):
        W[:, block] *= weight
    return W


def _spread(y: Ints, k: int) -> Floats:
    """u of the differences between the means of classes."""
    U = np.full((k, len(y)), -1.0 / (k - 1))
    U[y, np.arange(len(y))] = 1.0
    return U


def _canonical(y: Ints) -> Ints:
    """Labels by another name: numbered in the order in which they come."""
    _, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _child(members: list[_Member], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A child of two members, the classes of the second by the names of the first."""
    from scipy.optimize import linear_sum_assignment

    i, j = rng.choice(len(members), 2, replace=False)
    a, b = members[i], members[j]
    k, n = a.U.shape
    kind = rng.integers(0, 3)
    if kind == 0:
        table = np.zeros((k, k))
        np.add.at(table, (a.y, b.y), 1.0)
        order = linear_sum_assignment(-table)[1] if rng.random() < .5 else rng.permutation(k)
        share = rng.uniform(-0.5, 0.5)
        return (1.0 - share) * a.U + share * b.U[order], a.weights
    U = a.U.copy()
    moved = rng.random(n) < rng.uniform(0.0, KICKED if kind == 1 else 0.5)
    U[:, moved] = _spread(rng.integers(0, k, int(moved.sum())), k) if kind == 1 else 0.0
    return U, a.weights
