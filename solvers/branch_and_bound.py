"""Branch and bound on pairs of samples, with semidefinite bounds: proofs of optimality."""

from __future__ import annotations

import dataclasses
import heapq
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmcopt import enumeration
from mmcopt.branching import Decision, decided, inherited, lift_of
from mmcopt.capabilities import Capability, LabelQuadratic
from mmcopt.checks import hyper, integer, real
from mmcopt.errors import InfeasibleError
from mmcopt.labelsearch import start_labels
from mmcopt.lifting import Duals, Lift
from mmcopt.matrices import require_memory
from mmcopt.result import Certificate, Status
from mmcopt.rounding import rounded
from mmcopt.solvers.memetic import Memetic
from mmcopt.solvers.regularized_dual import RegularizedDual
from mmcopt.solving import Progress, Run, Solver, out_of_time, run

Ints = NDArray[np.int64]
CHUNK = 4  # steps of the inner solver between two looks at the bound


@dataclass
class _Tree:
    """Nodes in the order they were made; the open ones by bound; the best labels."""

    best: Ints
    value: float
    parent: list[int] = field(default_factory=lambda: [-1])
    pair: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    same: list[bool] = field(default_factory=lambda: [True])
    duals: list[Duals | None] = field(default_factory=lambda: [None])
    bounds: list[float] = field(default_factory=lambda: [-math.inf])
    open: list[tuple[float, int]] = field(default_factory=lambda: [(-math.inf, 0)])
    closed: float = math.inf  # smallest bound of the leaves that are done
    starts: dict[int, tuple[Lift, Duals]] = field(default_factory=dict)

    @property
    def lower(self) -> float:
        """The bound of the whole tree."""
        return min(self.closed, self.open[0][0] if self.open else math.inf)

    def path(self, node: int) -> list[Decision]:
        """The decisions that lead to a node."""
        out: list[Decision] = []
        while node > 0:
            out.append((*self.pair[node], self.same[node]))
            node = self.parent[node]
        return out[::-1]

    def certificate(self) -> dict[str, Any]:
        """What `mmcopt.branching.tree_bound` re-checks."""
        return {"parent": np.array(self.parent), "pair": np.array(self.pair),
                "same": np.array(self.same), "duals": list(self.duals)}


@dataclass(frozen=True, kw_only=True)
class BranchAndBound(Solver):
    """Prove that labels are optimal, or how far from it they can be.

    `Memetic` finds labels. Then the open node of lowest bound is taken (best first): its
    semidefinite relaxation with cuts is solved by `RegularizedDual`, beginning at its parent's
    duals, and stopped as soon as it reaches the value to beat; its X is rounded to labels. What is
    left is split on the pair of nodes about which X is least decided: together (a contraction) or
    apart (a cannot-link). Nodes of at most ``enumerate`` labelings are enumerated. The certificate
    is the tree with the duals of its nodes. A driver step does one node; memory grows with the
    number of nodes. Practical up to about 100 samples, and beyond where the root nearly closes.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=16,distance=3,seed=0")
    >>> result = mm.solve(mm.formulations.LeastSquares(X, lam=0.5), "BranchAndBound", seed=0)
    >>> result.status.name, bool(result.verify())
    ('CERTIFIED', True)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelQuadratic,)

    gap: float = hyper(1e-5, real(0), "relative gap below which a node is closed")
    enumerate: int = hyper(64, integer(1, 20_000), "labelings up to which a node is enumerated")
    root_rounds: int = hyper(30, integer(1), "rounds of bounding the root, of 4 steps each")
    node_rounds: int = hyper(6, integer(1), "the same for other nodes")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is None and not f.offer(LabelQuadratic).matrix.is_dense \
                and f.offer(LabelQuadratic).n > 5000:
            return "it needs all entries of W, and this W is held as a factor of many rows."
        return reason

    def prepare(self, f: Any) -> None:
        lq = f.offer(LabelQuadratic)
        require_memory(8.0 * 40 * lq.n**2, f"branch and bound on {lq.n} samples",
                       "use mm.solve(problem) and its eigenvalue bound.")
        if lq.k > 1:
            Memetic().prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        c = start_labels(lq, init, rng)
        if lq.k > 1:
            found = run(Memetic(), lq, lq.expand(c), rng)
            c = lq.reduce(found.point)
        return self._progress(lq, _Tree(c, lq.value(c)))

    def step(self, f: Any, state: _Tree, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        bound, node = heapq.heappop(state.open)
        try:
            self._process(lq, state, node, bound, rng)
        except (Exception, KeyboardInterrupt):
            heapq.heappush(state.open, (bound, node))
            raise
        return self._progress(lq, state)

    def outcome(self, f: Any, state: _Tree) -> Status | None:
        if not state.open or state.lower >= self._cutoff(state):
            return Status.CONVERGED
        return None

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The tree."""
        if run.duals is None:
            return None
        return Certificate("branch-and-bound", {}, run.duals, f.fingerprint)

    # ------------------------------------------------------------ one node

    def _cutoff(self, state: _Tree) -> float:
        return state.value - self.gap * abs(state.value)

    def _process(self, lq: LabelQuadratic, state: _Tree, node: int, bound: float,
                 rng: np.random.Generator) -> None:
        try:
            small = decided(lq, state.path(node))
            few = enumeration.count_labelings(small) <= self.enumerate
            lift = None if few else lift_of(small)
        except InfeasibleError:
            state.duals[node] = {}
            return
        if lift is None:
            self._enumerate(lq, state, node, small)
            return
        whole = dataclasses.replace(lift, groups=lift.groups[small.groups],
                                    signs=lift.signs[small.groups])
        X = self._bound(lift, whole, state, node, rng)
        self._improve(lq, state, small, lift, X, rng)
        bound = state.bounds[node]
        if bound >= self._cutoff(state):
            state.closed = min(state.closed, bound)
        elif out_of_time():
            heapq.heappush(state.open, (bound, node))
            state.starts[node] = whole, state.duals[node] or {}
        else:
            self._branch(state, node, whole, X)

    def _enumerate(self, lq: LabelQuadratic, state: _Tree, node: int,
                   small: LabelQuadratic) -> None:
        value, c = enumeration.minimum(small)
        if c is not None:
            self._adopt(lq, state, small.expand(c))
        state.duals[node], state.bounds[node] = {"enumerated": np.array(1)}, value
        state.closed = min(state.closed, value)

    def _bound(self, lift: Lift, whole: Lift, state: _Tree, node: int,
               rng: np.random.Generator) -> Any:
        """Raise the bound of a node until it is closed, stalls, or its rounds are used up."""
        duals: Duals = {}
        if node in state.starts:
            above, given = state.starts.pop(node)
            duals = inherited(above, whole, given) if given else {}
        start = RegularizedDual().start * (1.0 if node == 0 else 0.02)
        X, best = None, -math.inf
        for _ in range(self.root_rounds if node == 0 else self.node_rounds):
            cutoff = self._cutoff(state)
            inner = RegularizedDual(start=start, target=cutoff + 0.1 * self.gap * abs(cutoff))
            out = run(inner, lift, duals or None, rng, max_iter=CHUNK)
            X, duals, start = out.point, out.duals, max(start * inner.shrink**CHUNK, inner.floor)
            proved = lift.lower(duals)
            gain, best = proved - best, max(best, proved)
            if proved > state.bounds[node]:
                state.bounds[node], state.duals[node] = proved, duals
            hopeless = gain * (1 if node else 4) < 0.1 * (cutoff - best)
            if best >= cutoff or out_of_time() or (hopeless and gain < math.inf):
                break
        return X

    def _improve(self, lq: LabelQuadratic, state: _Tree, small: LabelQuadratic, lift: Lift,
                 X: Any, rng: np.random.Generator) -> None:
        try:
            c = rounded(small, lift, X, rng, tries=2)
        except InfeasibleError:
            return
        self._adopt(lq, state, small.expand(c))

    @staticmethod
    def _adopt(lq: LabelQuadratic, state: _Tree, c: Ints) -> None:
        if lq.violation(lq.expand(c)) == 0.0 and (value := lq.value(c)) < state.value:
            state.best, state.value = c, value

    def _branch(self, state: _Tree, node: int, lift: Lift, X: Any) -> None:
        """Split on the pair whose entry of X is nearest to the middle; heavy nodes first."""
        M = (X - lift.floor) / (lift.top - lift.floor)
        score = np.abs(M - 0.5) - 0.2 * np.sqrt(np.outer(np.abs(lift.b), np.abs(lift.b))) \
            / np.abs(lift.b).max()
        score[np.tril_indices(lift.m)] = np.inf
        if lift.pairs.size:
            score[lift.pairs[:, 0], lift.pairs[:, 1]] = np.inf
        a, b = np.unravel_index(int(np.argmin(score)), score.shape)
        first = np.unique(lift.groups, return_index=True)[1]
        pair = (int(first[a]), int(first[b]))
        for same in (True, False):
            state.parent.append(node)
            state.pair.append(pair)
            state.same.append(same)
            state.duals.append(None)
            state.bounds.append(state.bounds[node])
            child = len(state.parent) - 1
            state.starts[child] = lift, state.duals[node] or {}
            heapq.heappush(state.open, (state.bounds[node], child))

    def _progress(self, lq: LabelQuadratic, state: _Tree) -> Progress:
        lower = min(state.lower, state.value)
        return Progress(state, lambda: lq.expand(state.best), state.value,
                        lower_bound=lower if lower > -math.inf else None,
                        extras={"lower": lower, "nodes": float(len(state.parent)),
                                "open": float(len(state.open))},
                        duals=state.certificate() if lower > -math.inf else None)
