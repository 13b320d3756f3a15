"""The default search of margins: many short descents, a pool of the best, and their children."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, CutRisk
from mmcopt.checks import choice, hyper, integer
from mmcopt.kernels.features import StackedFeatures
from mmcopt.margins import Hinge
from mmcopt.margins.cut_models import LabelCuts, PairCuts, floored
from mmcopt.modeling.result import Status
from mmcopt.solvers.cutting_plane import CuttingPlane
from mmcopt.solving import Progress, Solver
from mmcopt.solving.starts import kmeans_labels
from mmcopt.types import Floats, Ints

WORK = 10_000_000  # products of a step, about
FEWEST = 4  # starts at least, of problems of any size
MANY_SAMPLES, MANY_PRODUCTS = 100_000, 100_000_000  # in the first pass of all starts together
LARGEST = 2500  # samples of which all products are held
# Relative gaps to the machine of the labels: of all starts, of members, of what may be the best.
ROUGH, CLOSE, FINE = 1e-3, 1e-4, 1e-7
UNWEIGHED = 1e-2  # what better weights of kernels may give beyond the gap, relative
ROUGH_PASSES, FINE_PASSES = 100, 3000  # at most
FINE_PRODUCTS = 100_000_000  # at most, in the passes of a member
ROUND, SLOW = 4, 1e-3  # passes between moves of labels that keep a floor, or a step's, at least;
# and the fall of the objective that ends these moves
LOW, GROW = 0.03, 3.0  # the least sigma that a descent begins with, and how it grows
KICKED, FORGOTTEN = 0.1, 0.5  # of the samples of a member, at most, that a child has otherwise
AGREED, ALIKE = 3, 30  # starts by k-means that were known, and random ones that all end alike
FINALISTS = 3  # starts that are solved to the end where there are no children
KMEANS = 10  # passes that a start by k-means counts as
STRANGE = 0.5  # of the mixtures, those by names drawn at random
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
    gap: float = ROUGH  # to the machine of the labels, at which it has ended
    held: bool = False  # whether labels stay, until their machine is roughly solved
    used: int = 0
    before: float = np.inf  # the objective when labels that keep a floor were last moved
    value: float = np.inf  # the objective times n


@dataclass
class _Pool:
    """Members, the descent under way, and the best point met."""

    machine: Any
    point: Any
    value: float
    start: Ints | None
    starts: int
    least: int  # samples that a class must have
    members: list[_Member] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)  # labels that members were settled from
    run: _Run | None = None
    begun: int = 0
    idle: int = 0  # children since the last new best
    drawn: set[bytes] = field(default_factory=set)  # labels by k-means that descents began with
    known: int = 0  # starts by k-means that were among them
    waiting: list[_Run] = field(default_factory=list)  # the best starts, where these are solved


@dataclass(frozen=True, kw_only=True)
class MarginSearch(Solver):
    """Many short descents from random labels, a pool of the best, and children of its members.

    A descent goes over the samples, and over again: each takes the class of its largest score, and
    then the best multipliers that its machine (Crammer and Singer's, of the labels) can have while
    the others hold theirs. So labels and machine settle together, in tenths of a millisecond on
    hundreds of samples. Most descents begin with a larger beta, by up to 1 / .03, where few basins
    are left, and come down. What ends near the best is solved to a relative gap of 1e-4 to the
    machine of its labels, what may be the best itself to 1e-7, and joins the pool. Children mix two
    members, the classes of one by the names of the other, or have part of the samples of one
    elsewhere; the search stops after ``patience`` of them without a new best. Within a time limit
    it begins again until the time is up. With a floor on sizes labels move all at once, after every
    fourth pass, and half of the descents hold theirs until their machine is roughly solved.

    It stops earlier where it has nothing to choose from: after thirty starts that all end with the
    same labels, or three by k-means that give what an earlier one gave. Without ``patience`` for
    children only the three best starts are solved to the end.

    Large problems take fewer starts and children, no fewer than four. The hinge loss on dense
    features, of one kernel or several, without an active balance; and at most 2,500 samples where
    all products between samples have to be held: more features than two thirds of the samples,
    such as those of kernels without landmarks. All else it hands over to `CuttingPlane`.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import CPM3C
    >>> X, y = mm.datasets.load("digits:3,8")
    >>> result = mm.solve(CPM3C(X[:100], 2, beta=0.1), seed=0)
    >>> result.solver, round(result.objective, 4)
    ('MarginSearch', 0.1997)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (CutRisk,)
    anytime: ClassVar[bool] = True

    starts: int = hyper(500, integer(1), "descents from random labels")
    pool: int = hyper(8, integer(2), "members of the pool")
    patience: int = hyper(100, integer(0), "children without a new best after which it stops")
    first: str = hyper("random", choice("random", "kmeans"), "labels that descents begin with")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is None and f.offer(CutRisk).bound is not None:
            return "it searches among labels, and here they are given; use CuttingPlane."
        return reason

    def takes(self, f: Any) -> bool:
        """Whether it searches by itself, and does not hand over to `CuttingPlane`."""
        return machine_of(f.offer(CutRisk)) is not None

    def prepare(self, f: Any) -> None:
        if self.takes(f):
            _compile()
        else:
            HANDED.prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(CutRisk)
        machine = machine_of(offer)
        if machine is None:
            return HANDED.begin(f, init, rng)
        start = None
        if init is not None:
            W = offer.weights(init)
            start = offer.cuts(W, "pair", init).top  # which keep a floor
            point = offer.point(W, start)
        else:
            point = f.from_labels(rng.permutation(f.n) % offer.k)
        return self._progress(_Pool(machine, point, f.objective(point), start,
                                    self._starts(machine, offer.k), least_of(offer)))

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        if not isinstance(state, _Pool):
            return HANDED.step(f, state, rng)
        offer, machine = f.offer(CutRisk), state.machine
        each, done = _products(machine, offer.k), 0
        while done < WORK and self.outcome(f, state) is None:
            state.run = state.run or self._next(f, state, rng)
            if state.run is None:
                done += KMEANS * each
            else:
                done += each * self._advance(f, state, state.run, max(ROUND, (WORK - done) // each))
        if state.run is not None and not state.run.held:
            self._met(f, state, state.run)
        return self._progress(state)

    def outcome(self, f: Any, state: Any) -> Status | None:
        if not isinstance(state, _Pool):
            return HANDED.outcome(f, state)
        ended = state.run is None and not state.waiting and state.begun >= state.starts \
            and (state.idle * self.starts >= self.patience * state.starts
                 or len(state.members) < 2)
        return Status.CONVERGED if ended else None

    # ------------------------------------------------------------ descents

    def _starts(self, machine: Any, k: int) -> int:
        """How many starts a problem of this size takes."""
        most = min(self.starts, MANY_SAMPLES // len(machine.norms),
                   MANY_PRODUCTS // _products(machine, k))
        return max(most, min(self.starts, FEWEST))

    def _next(self, f: Any, state: _Pool, rng: np.random.Generator) -> _Run | None:
        """Begin the next descent: from the start given, a new one, or as a child.

        None where k-means gave labels that have been descended from.
        """
        machine, k, n = state.machine, f.offer(CutRisk).k, f.n
        index, sigma = state.begun, float(np.exp(rng.uniform(np.log(LOW), 0.0)))
        if index >= state.starts and state.waiting:
            return state.waiting.pop(0)
        state.begun += 1
        if index == 0 and state.start is not None:
            return _Run(_at(machine, _spread(state.start, k), state.start), 1.0, held=True)
        if index < state.starts and self.first == "kmeans":
            return self._by_kmeans(f, state, rng)
        if index < state.starts:
            y = rng.integers(0, k, n - k * state.least)
            if not state.least:
                return _Run(_at(machine, _spread(y, k), y), sigma)
            y = rng.permutation(np.append(y, np.repeat(np.arange(k), state.least)))
            held = index % 2 == 1  # or labels that move all at once miss the smallest basins
            return _Run(_at(machine, _spread(y, k), y), 1.0 if held else sigma, held=held)
        state.idle += 1
        U, weights = _child(state.members, rng)
        y = np.ascontiguousarray(U.argmax(axis=0))
        if state.least:
            y = floored(U.T, state.least)
        return _Run(_at(machine, U, y, weights), sigma)

    @staticmethod
    def _by_kmeans(f: Any, state: _Pool, rng: np.random.Generator) -> _Run | None:
        """A descent from labels by k-means, held until their machine is roughly solved."""
        offer, machine = f.offer(CutRisk), state.machine
        y = kmeans_labels(f, rng)
        key = _canonical(y).tobytes()
        if key in state.drawn:
            state.known += 1
            if state.known == AGREED:
                state.begun = state.starts
            return None
        state.drawn.add(key)
        if np.bincount(y, minlength=offer.k).min() < state.least:
            y = floored(offer.features.scores(offer.weights(f.from_labels(y))), state.least)
        return _Run(_at(machine, _spread(y, offer.k), y), 1.0, held=True)

    def _advance(self, f: Any, state: _Pool, run: _Run, passes: int) -> int:
        """Take a descent further; how many passes it took."""
        from mmcopt.compiled.margin_search import descend

        rough = run.gap == ROUGH
        most = max(ROUGH_PASSES if rough else self._most_fine(state), run.used + 1)
        free = not (run.held or state.least)
        allowed = ROUND if state.least and rough else most
        run.sigma, run.value, used, ended = descend(state.machine, run.at, run.sigma, GROW, free,
                                                    min(passes, allowed, most - run.used), run.gap)
        run.used += used
        if state.least and not run.held and (ended or rough) and run.used < most \
                and self._relabelled(state, run, run.value):
            return int(used)
        settled = ended or (state.least and rough and run.sigma == 1.0)
        if settled or run.used >= most:
            self._settle(f, state, run)
        return int(used)

    def _settle(self, f: Any, state: _Pool, run: _Run) -> None:
        """Decide how a descent goes on that is solved as far as was asked, or can be."""
        run.used, run.before = 0, np.inf
        if run.held:
            run.held = False
            return
        self._met(f, state, run)
        if run.gap == CLOSE and self._may_lead(f, state, run):
            run.gap = FINE
            return
        if run.gap < ROUGH:
            self._join(state, _Member(run.at.U, run.at.y.copy(), run.at.weights, run.value))
        elif self._promising(run, state):
            run.gap = CLOSE
            if self.patience:
                return
            state.waiting = sorted([*state.waiting, run], key=lambda r: r.value)[:FINALISTS]
        state.run = None

    @staticmethod
    def _may_lead(f: Any, state: _Pool, run: _Run) -> bool:
        """Whether the machine of a descent may yet turn out better than the best point."""
        doubt = UNWEIGHED if f.offer(CutRisk).blocks else CLOSE
        return bool((1.0 - doubt) * f.offer(CutRisk).scale * run.value < state.value * f.n)

    def _most_fine(self, state: _Pool) -> int:
        """Passes of a member at most."""
        each = _products(state.machine, len(state.run.at.U)) if state.run else 1
        return min(FINE_PASSES, max(ROUND, FINE_PRODUCTS // each))

    @staticmethod
    def _relabelled(state: _Pool, run: _Run, value: float) -> bool:
        """Give samples the classes of their largest scores, but for the floor; whether to go on."""
        if run.sigma == 1.0 and value > (1.0 - (SLOW if run.gap == ROUGH else FINE)) * run.before:
            return False
        run.before = value if run.sigma == 1.0 else np.inf
        V = np.vstack([run.at.V, -run.at.V.sum(axis=0)])
        y = floored(V.T if state.machine.gram else state.machine.A @ V.T, state.least)
        moved = bool((y != run.at.y).any())
        run.at.y[:] = y
        return moved or run.sigma < 1.0

    @staticmethod
    def _met(f: Any, state: _Pool, run: _Run) -> None:
        """Take the point where a descent is as the best so far, if it is."""
        offer = f.offer(CutRisk)
        if not offer.scale * run.value / offer.features.n < state.value:
            return
        point = offer.point(_weights(offer, run.at), run.at.y.copy())
        value = f.objective(point)
        if value < state.value - BETTER * abs(state.value):
            state.idle = 0
        if value < state.value:
            state.point, state.value = point, value

    def _promising(self, run: _Run, state: _Pool) -> bool:
        """Whether a descent that has come so far may join the pool."""
        if len(state.members) == self.pool and run.value * (1.0 - 2 * ROUGH) \
                >= max(m.value for m in state.members):
            return False
        key = _canonical(run.at.y).tobytes()
        known = key in state.seen
        state.seen.add(key)
        if state.begun == ALIKE and len(state.seen) == 1:
            state.starts = ALIKE
        return not known

    def _join(self, state: _Pool, member: _Member) -> None:
        """Take a member into the pool: for the one of the same labels, or the worst."""
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
        return Progress(state, state.point, state.value, extras={
            "descents": float(state.begun), "members": float(len(state.members))})


# ---------------------------------------------------------------- between problem and machine


def machine_of(offer: CutRisk) -> Any:
    """The machine of a problem, or None where there is none."""
    from mmcopt.compiled.margin_search import Machine

    rows, n = offer.features, offer.features.n
    if rows.blocked:
        return None
    cuts = offer.cuts(np.zeros((offer.k, rows.d)), "pair", None)
    gram = 3 * rows.d > 2 * n
    if type(cuts) not in (PairCuts, LabelCuts) or type(cuts.loss) is not Hinge \
            or offer.balance is not None or rows.sparse or (gram and n > LARGEST):
        return None
    unit = offer.beta * n
    none = np.empty((0, 0, 0))
    if gram and isinstance(rows, StackedFeatures):
        kernels = np.stack([part.products for part in rows.parts]) / unit
        return Machine(np.empty((n, n)), np.empty(n), True, kernels, offer.p)
    if gram:
        A = rows.products / unit
        return Machine(A, A.diagonal().copy(), True, none, offer.p)
    A = np.ascontiguousarray(rows.dense() / np.sqrt(unit))
    norms = np.einsum("ij,ij->i", A, A)
    if not isinstance(rows, StackedFeatures):
        return Machine(A, norms, False, none, offer.p)
    ends = np.array([0, *(block.stop for block in rows.blocks)])
    return Machine(A, norms, False, none, offer.p, ends, np.ones(len(rows.parts)))


def least_of(offer: CutRisk) -> int:
    """Samples that a class must have; 0 where labels are those of the scores."""
    cuts = offer.cuts(np.zeros((offer.k, offer.features.d)), "pair", None)
    return (cuts.least or 0) if isinstance(cuts, LabelCuts) else 0


def _products(machine: Any, k: int) -> int:
    """Products in a pass over all samples, at most."""
    return int(machine.A.size) * (k - 1 + len(machine.kernels) + (len(machine.mixed) > 0))


@functools.cache
def _compile() -> None:
    """Compile the loops of a step, on two samples."""
    from mmcopt.compiled.margin_search import Machine, descend

    machine = Machine(np.eye(2), np.ones(2), False, np.empty((0, 0, 0)), 2.0)
    y = np.arange(2)
    descend(machine, _at(machine, _spread(y, 2), y), 0.5, GROW, True, 1, ROUGH)


def _at(machine: Any, U: Floats, y: Ints, weights: Floats | None = None) -> Any:
    """Where a descent begins."""
    from mmcopt.compiled.margin_search import At, gather

    k, M = len(U), max(1, len(machine.kernels), len(machine.mixed))
    weights = np.full(M, M**(-1.0 / machine.p)) if weights is None else weights.copy()
    V = np.empty((k - 1, machine.A.shape[1]))
    at = At(V, U, y.copy(), weights)
    gather(machine, at)
    return at


def _weights(offer: CutRisk, at: Any) -> Floats:
    """W of where a descent is."""
    unit = offer.beta * offer.features.n
    W = offer.features.sums(at.U) / unit
    for block, weight in zip(offer.blocks, at.weights, strict=False):
        W[:, block] *= weight
    return W


def _spread(y: Ints, k: int) -> Floats:
    """Multipliers for the differences between the means of classes."""
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
    kind = rng.integers(3)
    if kind == 0:  # a mixture
        table = np.zeros((k, k))
        np.add.at(table, (a.y, b.y), 1.0)
        order = rng.permutation(k) if rng.random() < STRANGE \
            else linear_sum_assignment(-table)[1]
        share = rng.uniform(-0.5, 0.5)
        return (1.0 - share) * a.U + share * b.U[order], a.weights
    U = a.U.copy()
    if kind == 1:  # some samples elsewhere
        moved = rng.random(n) < rng.uniform(0.0, KICKED)
        U[:, moved] = _spread(rng.integers(0, k, int(moved.sum())), k)
    else:  # the machine of some of the samples
        U[:, rng.random(n) < rng.uniform(0.0, FORGOTTEN)] = 0.0
    return U, a.weights
