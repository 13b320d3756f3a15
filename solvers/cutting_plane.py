"""Cutting planes around a concave-convex procedure, with a compiled master."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, CutRisk
from mmcopt.checks import choice, hyper, integer, real
from mmcopt.kernels.features import Features
from mmcopt.margins import Hinge, SquaredHinge
from mmcopt.margins.cut_models import PairCuts, balanced
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.tolerances import FEASIBLE, RISE
from mmcopt.types import Floats

MASTERS = ("ecos", "scs", "cvxopt", "clarabel", "osqp", "daqp")
SPENT = 1e-3  # of the violation at which it ends, at which cuts have no more to say
INNER_GAP, INNER_STEPS = 1e-10, 500  # of a master with blocks


@dataclass
class _State:
    """The cuts, the point, what the masters have said, and the best point so far."""

    cuts: Any
    W: Floats
    T: Floats
    a: Floats  # multipliers of cuts, then of the balance
    weights: Floats  # of blocks of columns, where there are some
    gap: float = 0.0  # the largest of a master with blocks, relative
    masters: int = 0
    rises: int = 0
    held: bool = False  # whether the labels of the anchor stay until their problem is solved
    anchored: float = np.inf  # the objective where the anchor was moved to last
    best: tuple[float, Floats, Floats, Any] | None = None  # objective, W, T, labels
    since: int = 0  # cuts since that one
    rows: Floats = field(default_factory=lambda: np.empty((0, 0)))  # of the balance, to scale
    unit: Floats = field(default_factory=lambda: np.empty(0))  # what they were divided by
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class CuttingPlane(Solver):
    """Cutting planes outside, a concave-convex procedure inside (CPM3C, Algorithm 1, section 3.3).

    A step adds the most violated cut at the current point and then solves masters: quadratic
    programs over the cuts linearised at the last point, one after another, until their objective
    falls by less than ``alpha`` relatively. Ends when no cut is violated by more than ``epsilon``:
    the loss is then within ``epsilon`` of what the cuts say. Where three classes and more have
    little that tells them apart it may wander: after ``patience`` cuts without a lower objective it
    goes back to the best W and on with ``order="cccp"``, which ends.

    Masters are solved by our own active-set method, "alternating" with the weights of kernels where
    there are some, or handed to a conic solver or, of one kernel, to OSQP or DAQP (pip install
    'mmcopt[qp]'): the same W up to their tolerance, and slower.

    ``cut="pair"`` keeps both leading classes of a sample, so that over given cuts the objective
    cannot rise; ``cut="paper"`` is eq. 11 as printed, with which it does: ``rises`` in the history
    counts how often.

    ``order="cccp"`` changes the loops: the labels of the anchor are held until their convex problem
    (`CPM3C.linearize`) is solved to ``epsilon``, and only then move; it ends when that lowers the
    objective by less than ``alpha``. Convex problems have one loop only, and are solved to a
    relative gap of ``epsilon``, which is proved.
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (CutRisk,)
    promised_gap: ClassVar[float] = 1e-6

    cut: str = hyper("pair", choice("pair", "paper"), "which cuts")
    order: str = hyper("planes", choice("planes", "cccp"), "which loop is the outer one")
    epsilon: float = hyper(0.01, real(0, open_low=True), "violation of a cut that ends it")
    master: str = hyper("alternating", choice("alternating", *MASTERS), "what solves the masters")
    alpha: float = hyper(1e-4, real(0), "relative fall of the objective that ends the masters")
    max_cuts: int = hyper(300, integer(1), "cuts after which it gives up")
    max_masters: int = hyper(3, integer(1), "masters of one step at most")
    patience: int = hyper(25, integer(1), "cuts without a lower objective that hold the labels")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is None and self.cut not in f.offer(CutRisk).kinds:
            return (f"cut={self.cut!r} is not stated for this {type(f).__name__}; use one of "
                    f"{', '.join(map(repr, f.offer(CutRisk).kinds))}.")
        if reason is None and self.order == "cccp" and self.cut == "paper":
            return "order='cccp' asks for a majoriser, which cut='paper' is not; use cut='pair'."
        if reason is None and self.master != "alternating":
            offer = f.offer(CutRisk)
            if offer.p == 1.0 and offer.blocks:
                return "conic masters do not tell the weights at p = 1; use master='alternating'."
            if self.master in ("osqp", "daqp") and len(offer.blocks) > 1:
                return (f"{self.master.upper()} takes no cone, which masters with several kernels "
                        "need; use 'alternating', 'ecos', 'scs', 'cvxopt' or 'clarabel'.")
        return reason

    def prepare(self, f: Any) -> None:
        offer = f.offer(CutRisk)
        if offer.blocks:
            _compile(np.float64, True)
        elif not offer.features.blocked:
            cuts = offer.cuts(np.zeros((offer.k, offer.features.d)), "pair", None)
            if cuts.compiled:
                _compile(cuts.precision, False)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(CutRisk)
        k, d = offer.k, offer.features.d
        W = np.zeros((k, d))  # any start will do where the problem is convex
        if init is not None:
            W = np.array(offer.weights(init), dtype=np.float64)
        elif offer.bound is None:
            W = 1e-3 * rng.standard_normal((k, d))
        if init is None and offer.features.bias:
            W[:, -1] = 0.0  # or one class were ahead for all samples
        W = balanced(W, offer.balance, offer.limit)
        T = offer.features.scores(W)
        cuts = offer.cuts(W, self.cut, init)
        m = 0 if offer.balance is None else 2 * len(offer.balance)
        count = max(1, len(offer.blocks))
        state = _State(cuts, W, T, np.zeros(m), np.full(count, count ** (-1.0 / offer.p)),
                       held=self.order == "cccp", unit=np.ones(m))
        return self._progress(offer, state, cuts.risk(T))

    def step(self, f: Any, state: _State, rng: np.random.Generator) -> Progress:
        offer, cuts = f.offer(CutRisk), state.cuts
        if not len(cuts):
            cuts.anchor(state.T, state.W)
        cuts.add(state.T, held=state.held)
        j = len(cuts) - 1
        state.a = np.concatenate((state.a[:j], [0.0], state.a[j:]))
        if j == 0:
            _scale(offer, state)
        if state.held:
            self._master(offer, state)
            reached = cuts.value(state.W)
        else:
            reached = self._masters(offer, state)
        risk = cuts.risk(state.T)
        violation = (cuts.held_risk(state.T) if state.held else risk) - reached
        progress = self._progress(offer, state, risk, {
            "cuts": float(len(cuts)), "masters": float(state.masters),
            "violation": violation, "rises": float(state.rises), "inner_gap": state.gap})
        enough = self._enough(offer, progress.value)
        if violation <= enough and (not state.held or self._settled(offer, state, risk)):
            broken = self._broken(offer, progress)
            if not broken or violation <= SPENT * enough:
                state.end = Status.FAILED if broken else Status.CONVERGED
        if state.end is None and len(cuts) >= self.max_cuts:
            state.end = Status.ITERATION_LIMIT
        elif state.end is None and not state.held and offer.bound is None and self.cut == "pair":
            self._hold(state, progress.value)
        return progress

    def _broken(self, offer: CutRisk, progress: Progress) -> bool:
        """Whether rounding has spoilt the end: a gap that is not there, or a broken balance."""
        W, value = offer.weights(progress.point), progress.value
        if offer.balance is not None:
            over = float(np.abs(offer.balance @ W.ravel()).max()) - offer.limit
            if over > FEASIBLE * offer.features.n:
                return True
        return progress.lower_bound is not None and \
            value - progress.lower_bound > self.epsilon * max(value, progress.lower_bound)

    def _hold(self, state: _State, value: float) -> None:
        """Go back to the best W, and hold its labels, once nothing better has come for long."""
        if state.best is None or value < state.best[0] - self.alpha * abs(state.best[0]):
            state.best, state.since = (value, state.W, state.T, state.cuts.top), 0
            return
        state.since += 1
        if state.since >= self.patience:
            state.anchored, state.W, state.T, top = state.best
            state.cuts.relabel(top)
            state.held = True

    def _progress(self, offer: CutRisk, state: _State, risk: float,
                  extras: dict[str, float] | None = None) -> Progress:
        point = offer.point(state.W, state.cuts.beside(state.a))
        value = offer.objective(state.W, risk)
        a = state.a.copy()
        a[len(state.cuts):] /= state.unit
        duals = state.cuts.duals(a) if offer.bound is not None else None
        if duals is None or offer.bound is None:
            return Progress(state, point, value, extras=extras or {})
        return Progress(state, point, value, offer.bound(duals), extras or {}, duals)

    def outcome(self, f: Any, state: _State) -> Status | None:
        return state.end

    def _masters(self, offer: CutRisk, state: _State) -> float:
        """Solve masters until they have converged; the largest cut at the last W."""
        cuts, before, reached = state.cuts, np.inf, 0.0
        if cuts.compiled and not offer.blocks and self.master == "alternating":
            state.W, state.T = np.empty_like(state.W), np.empty_like(state.T)
            count, rises, reached = cuts.descend(
                offer.beta, state.rows, -offer.limit / state.unit, self.alpha, self.max_masters,
                state.W, state.T, state.a)
            state.masters, state.rises = state.masters + count, state.rises + rises
            return float(reached)
        for _ in range(self.max_masters):
            self._master(offer, state)
            moved, reached = cuts.anchor(state.T, state.W), cuts.value(state.W)
            now = offer.objective(state.W, reached)
            state.rises += now > before + RISE * (1.0 + abs(before))
            if moved == 0 or before - now <= self.alpha * abs(now):
                break
            before = now
        return float(reached)

    def _enough(self, offer: CutRisk, value: float) -> float:
        """The violation at which it ends; that of a convex problem is its gap, and relative."""
        return self.epsilon if offer.bound is None \
            else self.epsilon * min(1.0, value / offer.scale)

    def _settled(self, offer: CutRisk, state: _State, risk: float) -> bool:
        """Move the anchor to W; whether there is nothing more to gain from that."""
        now, before = offer.objective(state.W, risk), state.anchored
        state.anchored = now
        return state.cuts.anchor(state.T, state.W) == 0 or before - now <= self.alpha * abs(now)

    def _master(self, offer: CutRisk, state: _State) -> None:
        """Solve the master over the cuts as they are linearised now."""
        cuts = state.cuts
        rows = np.vstack([cuts.G, state.rows])
        b = np.concatenate([cuts.b, -offer.limit / state.unit])
        if offer.blocks or self.master != "alternating":
            W = self._blocks(offer, state, rows, b)
        else:
            from mmcopt.margins.master_problems import solve_master

            state.a = solve_master(rows @ rows.T / offer.beta, b, len(cuts), state.a)
            W = (state.a @ rows / offer.beta).reshape(state.W.shape)
        state.W, state.T = W, offer.features.scores(W)
        state.masters += 1

    def _blocks(self, offer: CutRisk, state: _State, rows: Floats, b: Floats) -> Floats:
        """Solve a master with weighted blocks of columns; its W."""
        from mmcopt.compiled.cutting_planes import ascend_blocks
        from mmcopt.margins.master_problems import conic_master

        shaped = rows.reshape(len(rows), offer.k, -1)
        blocks = offer.blocks or (slice(None),)
        parts = [shaped[:, :, block].reshape(len(rows), -1) for block in blocks]
        Q = np.stack([part @ part.T for part in parts]) / offer.beta
        if self.master == "alternating":
            worst, best = ascend_blocks(Q, b, len(state.cuts), offer.p, state.a, state.weights,
                                        INNER_GAP, INNER_STEPS)
            state.gap = max(state.gap, (worst - best) / max(abs(worst), 1e-300))
        else:
            state.a, state.weights = conic_master(Q, b, len(state.cuts), offer.p, self.master)
        W = np.zeros((offer.k, shaped.shape[2]))
        for part, block, weight in zip(parts, blocks, state.weights, strict=True):
            W[:, block] = (weight / offer.beta) * (state.a @ part).reshape(offer.k, -1)
        return W


def _scale(offer: CutRisk, state: _State) -> None:
    """Bring the rows of the balance to the length of those of the cuts, both ways."""
    if offer.balance is None:
        state.rows = np.empty((0, state.cuts.G.shape[1]))
        return
    length = np.linalg.norm(offer.balance, axis=1) / (np.linalg.norm(state.cuts.G[0]) or 1.0)
    state.unit = np.tile(np.where(length > 0.0, length, 1.0), 2)
    state.rows = np.vstack([offer.balance, -offer.balance]) / state.unit[:, None]


@functools.cache
def _compile(dtype: Any, blocks: bool) -> None:
    """Compile the loops of a step, on two samples."""
    if blocks:
        from mmcopt.compiled.cutting_planes import ascend_blocks

        ascend_blocks(np.ones((1, 1, 1)), np.ones(1), 1, 2.0, np.zeros(1), np.ones(1), 1e-9, 1)
        return
    T, rows = np.eye(2), Features(np.eye(2), center=False, normalize=False, owner="")
    cuts = PairCuts(rows, 2, Hinge() if dtype == np.float32 else SquaredHinge(), np.arange(2))
    cuts.add(T)
    cuts.descend(1.0, np.empty((0, 4)), np.empty(0), 0.0, 1, np.eye(2), T, np.zeros(1))
