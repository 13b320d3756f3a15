"""Bounds of lifted programs by an augmented Lagrangian over a factor, with cutting planes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import Duals, Lift, require_room
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.compiled.compiling import clock
from mmcopt.linalg import proved_largest_eigenvalue
from mmcopt.modeling.result import Status
from mmcopt.solvers.factor_cuts import CutSearch
from mmcopt.solvers.factor_lagrangian import FactorLagrangian, Priced, Prices
from mmcopt.solving import Progress, Proved, Solver, out_of_time
from mmcopt.solving.runs import seconds_left
from mmcopt.types import Floats

MEMORY = 8  # pairs of the quasi-Newton matrix
SINGLE = 400  # nodes from which sums are done in float32
TINY = 1e-3  # share of the largest eigenvalue of V'V below which a direction of V is dropped
NEW = 0.03  # length of new directions of V, in those of its rows
NEAR = 0.02  # gap and violation (part of the diagonal) of an X that is said to have converged
SOON = 0.05  # gap at which cuts are first sought, in what the largest eigenvalue leaves
PRICED = 2.0  # times the seconds between two searches that new cuts need to raise the bound
EIGENVECTORS = 4e-11  # seconds for the lowest of S, times the cube of the number of nodes, about
LONGEST = 8  # steps between two searches for cuts, at the most


@dataclass
class _Factor:
    """The factor and the prices of the Lagrangian; the best duals; the search for cuts."""

    lagrangian: FactorLagrangian
    V: Floats
    prices: Prices
    trivial: float  # the bound by the largest eigenvalue of R
    upper: float
    duals: Duals
    search: CutSearch
    pause: int  # steps between two searches
    value: float = math.inf
    steps: int = 0
    idle: int = 0
    ready: bool = False  # whether cuts are worth seeking
    next: int = 0  # step from which they are sought again
    added: int = 0
    searched: float = 0.0  # when that was last begun
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class FactorDual(Solver):
    """Maximise <R, VV'> over V with few columns, the rows of the program in the objective.

    The augmented Lagrangian of `FactorLagrangian` is minimised over V by L-BFGS on rows of fixed
    length (Burer and Monteiro 2003): an evaluation is a few products of matrices with as many
    columns as X has rank, and needs no eigenvalue. The prices of the rows, among them those of all
    pairs and of cuts, follow in closed form. Once a step the lowest eigenvectors of S are computed:
    they prove the bound of the prices, and where an eigenvalue is negative they are new columns of
    V, along which the objective falls. Directions that V no longer uses are dropped.

    A driver step is one minimisation of ``evaluations`` L-BFGS iterations, and a change of prices;
    every ``every`` steps, and more seldom where few are found, once X is near an optimum of the
    program without cuts, those of price 0 are dropped and violated ones added (`CutSearch`). The
    bound is proved as that of any other duals. For some hundred nodes and more it is ten times
    faster than `RegularizedDual`, which is more exact.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> problem = mm.formulations.LeastSquares(X, lam=0.5)
    >>> result = mm.solve(problem.relax("sdp+cuts"), "FactorDual", seed=0)
    >>> round(result.lower_bound / mm.solve(problem, seed=0).objective, 3)
    1.0
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Lift,)
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-6, real(0), "relative improvement of the bound that counts")
    evaluations: int = hyper(20, integer(1), "iterations of L-BFGS a step")
    weight: float = hyper(3.0, real(0, open_low=True), "of penalties, times |R|_F / m")
    every: int = hyper(2, integer(1), "steps between two searches for cuts, at first")
    cuts_per_node: float = hyper(8.0, real(0), "cuts added at a time, times the number of nodes")
    odd_per_node: float = hyper(0.0, real(0), "cuts of odd sets of a size added, in the same way")
    odd_starts: int = hyper(80, integer(1), "searches for odd sets of a size at a time, at the "
                            "most, times the number of nodes")
    least: float = hyper(3e-3, real(0), "violations below this part of the diagonal are left, at "
                         "first those below .02; less proves more of many nodes, and later")
    patience: int = hyper(20, integer(1), "steps without improvement after which it stops")
    target: float | None = hyper(None, optional(real()), "a lower bound at which it stops at once")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(Lift)
        if isinstance(init, _Factor):
            init.searched = 0.0  # of another run, whose clock was another
            return self._progress(lift, init)
        require_room(lift, "FactorDual", 12, 2e-8 * lift.m**3, "relax('eig') needs least.")
        given = init.duals if isinstance(init, Proved) else init
        duals = dict(given) if isinstance(given, dict) else {}
        dtype = np.float32 if lift.m >= SINGLE else np.float64
        size = float(np.linalg.norm(lift.R)) / lift.m or 1.0
        unit = 2.0 ** round(math.log2(size))  # which rounds nothing
        lagrangian = FactorLagrangian(lift, self.weight * size / unit, dtype,
                                      lift.clean(duals)[1], unit)
        V = rng.standard_normal((lift.m, min(lift.m, math.ceil(math.sqrt(2 * lift.m)) + 1)))
        top = proved_largest_eigenvalue(lift.R)
        trivial, none = lift.clean({"u": np.full(lift.m, top)})
        state = _Factor(lagrangian, lagrangian.factor(V.astype(dtype)), lagrangian.priced(duals),
                        lift.trace * top, lift.trace * top, {**trivial, **none.by_name},
                        CutSearch(max(10, int(self.cuts_per_node * lift.m)),
                                  int(self.odd_per_node * lift.m), self.odd_starts, self.least),
                        self.every)
        if duals:
            state.upper, state.duals = lift.upper(duals), duals
        self._book(lift, state, lagrangian.at(state.V, state.prices))
        return self._progress(lift, state)

    def goes_on(self, kind: str) -> bool:
        return kind in ("sdp", "sdp+cuts", "partition", "partition+cuts")

    def closing(self, state: _Factor) -> float:
        """What the eigenvectors of a step take, without which it proves nothing."""
        return EIGENVECTORS * float(len(state.V)) ** 3

    def step(self, f: Any, state: _Factor, rng: np.random.Generator) -> Progress:
        lift, before, state.added = f.offer(Lift), state.upper, 0
        here = self._descend(state)
        self._book(lift, state, here)
        state.prices = here.prices
        state.steps += 1
        if lift.cuts and state.ready and state.steps >= state.next \
                and state.search.time_for_triangles(lift) and self._pays(state):
            state.searched = clock()
            state.added = self._recut(lift, state)
            many = state.added > lift.m
            state.pause = self.every if many else min(state.pause + 1, LONGEST)
            state.next = state.steps + state.pause
        gain = lift.scale * (before - state.upper)
        small = not lift.cuts or state.ready and state.search.through
        worth = self.tol * abs(lift.base - lift.scale * state.upper)
        state.idle = state.idle + 1 if small and gain <= worth and state.added <= lift.m else 0
        if self._reached(lift, state):
            state.end = Status.CONVERGED
        elif state.idle >= self.patience:
            near = self._off(lift, state) <= NEAR
            state.end = Status.CONVERGED if near else Status.ITERATION_LIMIT
        return self._progress(lift, state)

    def outcome(self, f: Any, state: _Factor) -> Status | None:
        return state.end

    # ------------------------------------------------------------ pieces

    def _descend(self, state: _Factor) -> Priced:
        """L-BFGS over rows of fixed length; the last point, which is that of the state."""
        function, V, old = state.lagrangian, state.V, state.prices
        here, pairs = function.at(V, old), list[tuple[Floats, Floats]]()
        noise = 8 * float(np.finfo(V.dtype).eps)
        for _ in range(self.evaluations):
            slope = here.slope
            d = _direction(pairs, slope)
            d -= V * (np.einsum("ij,ij->i", d, V) / V.dtype.type(function.lift.top))[:, None]
            fall = float(np.vdot(slope, d))
            if not fall > 0.0:
                break
            length = 1.0
            while True:
                new = function.factor(V - V.dtype.type(length) * d)
                there = function.at(new, old)
                if there.value <= here.value - 1e-4 * length * fall + noise * abs(here.value):
                    break
                length *= 0.4
                if length < 1e-3 or out_of_time():
                    state.V = V
                    return here
            s, y = new - V, there.slope - slope
            if float(np.vdot(s, y)) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                pairs.append((s, y))
                del pairs[:-MEMORY]
            V, here = new, there
            if out_of_time():
                break
        state.V = V
        return here

    def _book(self, lift: Lift, state: _Factor, here: Priced) -> None:
        """The bound of the new prices; and columns of V by what S says of them."""
        function = state.lagrangian
        values, vectors = function.lowest(here)
        upper = function.upper(here, float(values[0]))
        if upper < state.upper:
            state.upper, state.duals = upper, function.duals(here)
        X = state.V.astype(np.float64)
        state.value = float(np.sum((lift.R @ X) * X))
        state.ready |= abs(upper - state.value) <= SOON * abs(state.trivial - state.value)
        state.V = function.factor(_columns(state.V, vectors[:, values < 0.0]))

    def _recut(self, lift: Lift, state: _Factor) -> int:
        """Drop cuts of price 0, add violated ones; the number of cuts added."""
        function, free = state.lagrangian, state.lagrangian.free
        g, X = state.prices.entries[free:], state.V @ state.V.T
        old = function.cuts.take(g > 0.0)
        cuts = old.join(state.search.found(lift, X, old))
        function.adopt(cuts)
        kept = old.carry(g[g > 0.0], cuts).astype(g.dtype)
        state.prices.entries = np.concatenate([state.prices.entries[:free], kept])
        return len(cuts) - len(old)

    @staticmethod
    def _pays(state: _Factor) -> bool:
        """Whether the deadline leaves new cuts time to be priced: at first they lower the bound."""
        return not state.searched or seconds_left() > PRICED * (clock() - state.searched)

    def _reached(self, lift: Lift, state: _Factor) -> bool:
        return self.target is not None and lift.base - lift.scale * state.upper >= self.target

    def _off(self, lift: Lift, state: _Factor) -> float:
        """What X lacks of an optimum: its gap, or its largest violation."""
        X = state.V.astype(np.float64)
        X = X @ X.T
        dual, value = lift.base - lift.scale * state.upper, lift.objective(X)
        violation = lift.violation(X)
        if lift.cuts:
            violation = max(violation, violated_cuts.worst(lift, X))
        return max(abs(value - dual) / max(abs(value), abs(dual), 1e-300),
                   violation / (lift.top - lift.floor))

    @staticmethod
    def _progress(lift: Lift, state: _Factor) -> Progress:
        V = state.V.astype(np.float64)
        value = lift.base - lift.scale * float(np.sum((lift.R @ V) * V))
        dual = lift.base - lift.scale * state.upper
        return Progress(state, lambda: V @ V.T, value, lower_bound=dual, duals=state.duals,
                        extras={"dual": dual, "rank": float(V.shape[1]),
                                "added": float(state.added),
                                "cuts": float(len(state.lagrangian.cuts))})


def _direction(pairs: list[tuple[Floats, Floats]], slope: Floats) -> Floats:
    """The inverse Hessian of the stored pairs times the slope, by the two loops of L-BFGS."""
    q, held = slope.copy(), []
    one = slope.dtype.type
    for s, y in reversed(pairs):
        a = float(np.vdot(s, q)) / float(np.vdot(s, y))
        q -= one(a) * y
        held.append((s, y, a))
    if held:
        s, y, _ = held[0]
        q *= one(float(np.vdot(s, y)) / float(np.vdot(y, y)))
    else:
        q *= one(0.1 / max(float(np.abs(slope).max()), 1e-30))
    for s, y, a in reversed(held):
        q += one(a - float(np.vdot(y, q)) / float(np.vdot(s, y))) * s
    return q


def _columns(V: Floats, new: Floats) -> Floats:
    """V in its principal axes, without those it hardly uses, and with short new columns."""
    w, Q = np.linalg.eigh((V.T @ V).astype(np.float64))
    kept = (V @ Q[:, w > TINY].astype(V.dtype))
    if not new.shape[1]:
        return np.asarray(kept)
    length = NEW * math.sqrt(float(w.sum()) / new.shape[1])
    return np.hstack([kept, (length * new).astype(V.dtype)])
