"""Branch and bound on pairs of samples, with semidefinite bounds: proofs of optimality."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from mmcopt.bounds import enumeration
from mmcopt.bounds.decision_tree import (
    ENUMERATED,
    Decision,
    covering,
    decided,
    families,
    inherited,
    leaf_bound,
    lift_of,
)
from mmcopt.bounds.label_lift import Duals, Lift
from mmcopt.bounds.ratio_lift import RatioLift
from mmcopt.capabilities import Capability, LabelProblem, LabelQuadratic
from mmcopt.checks import hyper, integer, real, require_memory
from mmcopt.errors import InfeasibleError
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers.memetic import Memetic
from mmcopt.solvers.tree_nodes import NEARBY, WORTH, TreeNodes, nodes_of
from mmcopt.solving import Progress, Proved, Run, Solver, run
from mmcopt.solving.label_search import start_labels
from mmcopt.solving.runs import ends_late, seconds_left
from mmcopt.solving.shared_work import side_by_side
from mmcopt.solving.states import within
from mmcopt.types import Ints

CHUNK = 4  # steps of the inner solver in a step of this one
SHARP, ROUNDING = 1e-6, 1e-9  # of a step, and of a value: what is surely above the next lower one
# Seconds, times the cube of the number of nodes, about: of the first step of a relaxation, of
# labels near a matrix, and of a proof, which takes some time for small ones, too.
FIRST_STEP, LABELS, PROOF, AT_LEAST = 3e-10, 2e-10, 1.5e-10, 3e-4

# Of a node: the lift that duals belong to, the duals, and what bounds it.
_Start: TypeAlias = tuple[Lift | RatioLift, Duals, TreeNodes]


@dataclass
class _Active:
    """The node at work: its problem, its lift (also over all nodes), duals, and the last X.

    ``kind`` bounds it, ``fresh`` if without duals to begin with; ``missed`` is how much it missed
    when a finer one took over.
    """

    node: int
    bound: float
    kind: TreeNodes
    small: Any = None
    lift: Any = None
    whole: Any = None
    duals: Duals = field(default_factory=dict)
    state: Any = None
    first: float = 0.0  # precision
    proved: float = -math.inf
    gains: list[float] = field(default_factory=list)  # of each time the solver went on
    X: Any = None
    fresh: bool = True
    missed: float | None = None

    def refined(self, missing: float) -> bool:
        """Go on with a finer solver, where there is one."""
        first = missing + sum(self.gains[1:])
        finer = self.kind.finer(not self.fresh or missing <= NEARBY * first)
        if finer is None:
            return False
        self.kind, self.state, self.first, self.gains = finer, None, 0.0, []
        self.missed = missing
        return True

    def bequeathed(self, first: TreeNodes, missing: float) -> TreeNodes:
        """What bounds the children: that which was worth it here, or ``first``."""
        useful = self.missed is None or missing < (1.0 - WORTH) * self.missed
        return self.kind.followed() if useful else first


@dataclass
class _Tree:
    """Nodes in the order they were made; the open ones by bound; the best labels."""

    best: Ints
    value: float
    parent: list[int] = field(default_factory=lambda: [-1])
    pair: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    same: list[bool] = field(default_factory=lambda: [True])
    duals: list[Duals | None] = field(default_factory=lambda: [None])
    open: list[tuple[float, int]] = field(default_factory=lambda: [(-math.inf, 0)])
    children: dict[int, int] = field(default_factory=dict)  # the first of two neighbours
    closed: float = math.inf  # smallest bound of the leaves that are done
    active: _Active | None = None
    starts: dict[int, _Start] = field(default_factory=dict)

    def restored(self, roots: Any) -> None:
        """Refuse a tree from a file that is none of this problem."""
        lq = roots["LabelProblem"]
        within("best", self.best, (lq.n,), 0, lq.k)
        within("pairs", np.array(self.pair), (len(self.parent), 2), 0, lq.n)

    @property
    def lower(self) -> float:
        """The bound of the whole tree."""
        return min(self.closed, self.open[0][0] if self.open else math.inf,
                   math.inf if self.active is None else self.active.bound)

    def reopen(self) -> None:
        """Put the node at work back."""
        if self.active is not None:
            heapq.heappush(self.open, (self.active.bound, self.active.node))
            self.active = None

    def split(self, node: int, bound: float, pair: tuple[int, int], start: _Start) -> None:
        """Replace the node at work by two children that decide a pair, and where they begin."""
        self.children[node] = len(self.parent)
        for same in (True, False):
            self.parent.append(node)
            self.pair.append(pair)
            self.same.append(same)
            self.duals.append(None)
            child = len(self.parent) - 1
            self.starts[child] = start
            heapq.heappush(self.open, (bound, child))
        self.active = None

    def prove(self, node: int, duals: Duals) -> None:
        """Book duals of a node; a parent whose children both have better ones needs none."""
        self.duals[node] = duals
        first = self.children.get(self.parent[node])
        if first is not None:
            above = self.parent[node]
            if self.duals[first] is not None and self.duals[first + 1] is not None:
                self.duals[above] = None

    def alone(self, node: int, bound: float) -> _Tree:
        """A tree of the path to an open node and nothing else."""
        chain = [node]
        while chain[-1] > 0:
            chain.append(self.parent[chain[-1]])
        chain.reverse()
        last = len(chain) - 1
        starts = {last: self.starts[node]} if node in self.starts else {}
        return _Tree(self.best, self.value, list(range(-1, last)), [self.pair[v] for v in chain],
                     [self.same[v] for v in chain], [None] * len(chain), [(bound, last)],
                     starts=starts)

    def take(self, node: int, done: _Done) -> None:
        """Book what the work on a node has come to."""
        self.starts.pop(node, None)
        if done.value < self.value:
            self.best, self.value = done.best, done.value
        if done.duals is not None:
            self.prove(node, done.duals)
        if done.pair is not None:
            self.split(node, done.bound, done.pair, (done.whole, done.start, done.kind))
        elif done.open:
            heapq.heappush(self.open, (done.bound, node))
            if done.whole is not None and done.start:
                self.starts[node] = done.whole, done.start, done.kind
        else:
            self.closed = min(self.closed, done.closed)

    def path(self, node: int) -> list[Decision]:
        """The decisions that lead to a node."""
        out: list[Decision] = []
        while node > 0:
            out.append((*self.pair[node], self.same[node]))
            node = self.parent[node]
        return out[::-1]

    def certificate(self) -> dict[str, Any]:
        """What `mmcopt.bounds.decision_tree.tree_bound` re-checks."""
        return {"parent": np.array(self.parent), "pair": np.array(self.pair),
                "same": np.array(self.same), "duals": list(self.duals)}


@dataclass
class _Done:
    """What the work on a node has come to; ``open`` where there was no time to end it."""

    best: Ints
    value: float
    bound: float
    duals: Duals | None
    closed: float
    pair: tuple[int, int] | None
    open: bool
    whole: Any  # the lift, and duals that its children, or itself later, begin with
    start: Duals
    kind: TreeNodes


@dataclass(frozen=True, kw_only=True)
class BranchAndBound(Solver):
    """Prove that labels are optimal, or how far from it they can be.

    `Memetic` finds labels. Then the open node of lowest bound is taken (best first): its
    semidefinite relaxation with cuts is solved by `FactorDual`, and where that gains too little by
    `RegularizedDual`, which alone bounds two clusters of exact sizes. It begins at its parent's
    duals, and is stopped as soon as it reaches the value to beat; its X is rounded to labels. What
    is left is split on the pair of nodes about which X is least decided: together (a contraction)
    or apart (a cannot-link). Nodes of at most ``enumerate`` labelings are enumerated. The
    certificate is the tree with the duals of its nodes. A driver step is a few steps of a node's
    relaxation; memory grows with the number of leaves. Practical up to about 100 samples, and
    beyond that where the root nearly closes the gap.

    Where several nodes are open, ``batch`` of them are worked on in turn, or side by side where
    `mmcopt.solve` is given an ``executor``; the tree is the same.

    On k-means and its kin the relaxation is that of Peng and Wei with cuts, by `Splitting`; its
    root closes the gap more often, for some hundreds of samples.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=16,distance=3,seed=0")
    >>> result = mm.solve(mm.formulations.LeastSquares(X, lam=0.5), "BranchAndBound", seed=0)
    >>> result.status.name, bool(result.verify())
    ('CERTIFIED', True)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelProblem,)

    gap: float = hyper(1e-5, real(0), "relative gap below which a node is closed")
    enumerate: int = hyper(64, integer(1, 20_000), "labelings up to which a node is enumerated")
    root_rounds: int = hyper(60, integer(1), "steps of a solver that may be spent on the root")
    node_rounds: int = hyper(6, integer(1), "the same on another node")
    batch: int = hyper(8, integer(1), "open nodes that are taken at a time")

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        lq = f.offer(LabelProblem)
        if reason is None and not lq.matrix.is_dense and lq.n > 5000:
            return "it needs all entries of W, and this W is held as a factor of many rows."
        return reason

    def prepare(self, f: Any) -> None:
        lq = f.offer(LabelProblem)
        require_memory(8.0 * 40 * lq.n**2, f"branch and bound on {lq.n} samples",
                       "use mm.solve(problem) and its eigenvalue bound.")
        if lq.k > 1:
            Memetic().prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        if isinstance(init, Proved):
            tree = _regrown(lq, start_labels(lq, init.point, rng), init.duals)
            return self._progress(lq, self._pruned(lq, tree))
        c = start_labels(lq, init, rng)
        if lq.k > 1:
            found = run(Memetic(), lq, lq.expand(c), rng)
            c = lq.reduce(found.point)
        return self._progress(lq, _Tree(c, lq.value(c)))

    def goes_on(self, kind: str) -> bool:
        return kind in ("branch-and-bound", "sdp+cuts", "partition+cuts")  # or those of a root

    def hands_out(self) -> int:
        return self.batch

    def closing(self, state: _Tree) -> float:
        """What the proof of the leaves takes, and at the root what comes before one."""
        cube = float(len(state.best)) ** 3
        if state.active is None and len(state.parent) == 1 and state.duals[0] is None:
            return (FIRST_STEP + PROOF) * cube
        return PROOF * cube + (PROOF * cube + AT_LEAST) * (len(state.parent) + 1) / 2

    def step(self, f: Any, state: _Tree, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        if state.active is None and self.batch > 1 and len(state.open) > 1:
            self._several(lq, state, rng)
            return self._progress(lq, state)
        if state.active is None:
            bound, node = heapq.heappop(state.open)
            state.active = _Active(node, bound, nodes_of(lq))
        try:
            self._work(lq, state, state.active, rng)
        except KeyboardInterrupt:
            state.reopen()
            raise
        return self._progress(lq, state)

    def outcome(self, f: Any, state: _Tree) -> Status | None:
        lq = f.offer(LabelProblem)
        done = not state.open and state.active is None  # what is left of the gap is rounding
        return Status.CONVERGED if done or state.lower >= self._cutoff(lq, state) else None

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The tree."""
        if run.duals is None:
            return None
        return Certificate("branch-and-bound", {}, run.duals, f)

    # ------------------------------------------------------------ several nodes

    def _several(self, lq: LabelProblem, state: _Tree, rng: np.random.Generator) -> None:
        """Take some of the open nodes, and close, bound or split each: none knows of the others."""
        cutoff = self._cutoff(lq, state)
        tasks: list[tuple[int, _Tree, int]] = []
        bounds: dict[int, float] = {}
        while state.open and len(tasks) < self.batch and \
                (not tasks or state.open[0][0] < cutoff):
            bound, node = heapq.heappop(state.open)
            tasks.append((node, state.alone(node, bound), int(rng.integers(2**63))))
            bounds[node] = bound
        done: dict[int, _Done] = {}
        try:
            side_by_side(_finished, (self, lq), tasks,
                         lambda task, answer: done.update({task[0]: answer}))
        finally:  # also after Ctrl-C; in the order of the nodes, whatever that of the answers
            for node, bound in bounds.items():
                if node in done:
                    state.take(node, done[node])
                else:
                    heapq.heappush(state.open, (bound, node))

    def _ended(self, lq: LabelProblem, alone: _Tree, seed: int) -> _Done:
        """Work on the node of a tree of its path alone, until it is done or time is up."""
        rng = np.random.default_rng(seed)
        bound, node = alone.open.pop()
        at = alone.active = _Active(node, bound, nodes_of(lq))
        self._work(lq, alone, at, rng)
        while alone.active is not None and not _late(lq):
            self._work(lq, alone, at, rng)
        pair, kind = None, at.kind
        if node in alone.children:
            pair, kind = alone.pair[-1], alone.starts[alone.children[node]][2]
        return _Done(alone.best, alone.value, at.bound, alone.duals[node], alone.closed, pair,
                     alone.active is not None, at.whole, at.duals, kind)

    # ------------------------------------------------------------ one node

    def _pruned(self, lq: LabelProblem, state: _Tree) -> _Tree:
        """The tree without open nodes that nothing is left of."""
        done = [(bound, v) for bound, v in state.open if bound >= self._cutoff(lq, state)]
        state.open = [item for item in state.open if item not in done]
        heapq.heapify(state.open)
        state.closed = min([state.closed, *(bound for bound, _ in done)])
        for _, v in done:
            state.starts.pop(v, None)
        return state

    def _cutoff(self, lq: LabelProblem, state: _Tree) -> float:
        """A bound that closes a node: near the best value, or above all lower ones there can be."""
        near = state.value - self.gap * abs(state.value)
        grid = lq.grid if isinstance(lq, LabelQuadratic) else None
        if grid is None:
            return near
        step = float(grid[1])
        return min(near, state.value - step + max(SHARP * step, ROUNDING * abs(state.value)))

    def _work(self, lq: LabelProblem, state: _Tree, at: _Active,
              rng: np.random.Generator) -> None:
        """Begin a node, or go on with it: enumerate, bound, close or split it."""
        if at.lift is None:
            try:
                at.small = decided(lq, state.path(at.node))
                if enumeration.count_labelings(at.small) <= self.enumerate:
                    self._enumerate(lq, state, at)
                    return
                at.lift = lift_of(at.small)
            except InfeasibleError:
                state.prove(at.node, {})
                state.active = None
                return
            at.whole = at.lift.over(at.small.groups)
            above, given, at.kind = state.starts.pop(at.node, (None, None, at.kind))
            if above is not None and given:
                at.duals = inherited(above, at.whole, given)
            at.fresh = not at.duals
        self._bound(lq, state, at, rng)
        if len(at.gains) == 1:
            self._improve(lq, state, at, rng)
        cutoff = self._cutoff(lq, state)
        if at.bound >= cutoff:
            state.closed, state.active = min(state.closed, at.bound), None
            return
        root, kind, missing = at.node == 0, at.kind, cutoff - at.bound
        share = 0.0 if at.state is None else kind.precision(at.state) / at.first
        slow = kind.slow(at.gains, missing, share, at.fresh)
        limit = self.root_rounds if root else self.node_rounds
        if _late(lq) or slow and at.refined(missing):
            return
        if slow or len(at.gains) >= limit:
            self._improve(lq, state, at, rng)
            pair = _undecided(lq, at)
            if pair is not None:
                if at.state is not None:
                    at.duals = kind.handed(at.duals, at.X, at.state)
                kind = at.bequeathed(nodes_of(lq), missing)
                state.split(at.node, at.bound, pair, (at.whole, at.duals, kind))
            elif enumeration.count_labelings(at.small) <= ENUMERATED:
                self._enumerate(lq, state, at)
            else:
                state.closed, state.active = min(state.closed, at.bound), None

    def _enumerate(self, lq: LabelProblem, state: _Tree, at: _Active) -> None:
        value, c = enumeration.minimum(at.small)
        if c is not None:
            self._adopt(lq, state, at.small.expand(c))
        state.prove(at.node, {"enumerated": np.array(1)})
        state.closed, state.active = min(state.closed, value), None

    def _bound(self, lq: LabelProblem, state: _Tree, at: _Active,
               rng: np.random.Generator) -> None:
        """Raise the bound of the node by some steps of its relaxation."""
        cutoff, kind = self._cutoff(lq, state), at.kind
        inner = kind.solver(cutoff + 0.1 * self.gap * abs(cutoff), not at.fresh)
        out = run(inner, at.lift, at.state or at.duals or None, rng, max_iter=CHUNK,
                  time_limit=seconds_left() - 2 * PROOF * lq.n**3)  # here, and of the tree
        at.X, at.duals, at.state = out.point, out.duals, out.state
        if at.state is not None:  # which it is where Ctrl-C or a breakdown came in between
            at.first = at.first or kind.precision(at.state)
        proved = at.lift.lower(at.duals)
        at.gains.append(proved - at.proved)
        at.proved = max(at.proved, proved)
        if proved > at.bound:
            at.bound = proved
            state.prove(at.node, at.duals)

    def _improve(self, lq: LabelProblem, state: _Tree, at: _Active,
                 rng: np.random.Generator) -> None:
        if ends_late((LABELS + PROOF) * lq.n**3):
            return
        try:
            c = at.kind.labels(at.small, at.lift, at.X, rng)
        except InfeasibleError:
            return
        self._adopt(lq, state, at.small.expand(c))

    @staticmethod
    def _adopt(lq: LabelProblem, state: _Tree, c: Ints) -> None:
        if lq.violation(lq.expand(c)) == 0.0 and (value := lq.value(c)) < state.value:
            state.best, state.value = c, value

    def _progress(self, lq: LabelProblem, state: _Tree) -> Progress:
        lower = min(state.lower, state.value)
        return Progress(state, lambda: lq.expand(state.best), state.value,
                        lower_bound=lower if lower > -math.inf else None,
                        extras={"lower": lower, "nodes": float(len(state.parent)),
                                "open": float(len(state.open))},
                        duals=state.certificate() if lower > -math.inf else None)


def _late(lq: LabelProblem) -> bool:
    """Whether there is no time for more than the proofs of what is known."""
    return ends_late(2 * PROOF * lq.n**3)


def _finished(shared: Any, task: Any) -> _Done:
    """The work on a node, wherever it is done."""
    solver, lq = shared
    _, alone, seed = task
    done: _Done = solver._ended(lq, alone, seed)
    return done


def _regrown(lq: LabelProblem, c: Ints, proof: dict[str, Any]) -> _Tree:
    """The tree of a certificate, whose open leaves begin at the duals that they have or inherit.

    Duals of a relaxation with cuts are a tree of one node.
    A certificate of another form is no tree to go on from, and one node is.
    """
    tree = _Tree(c, lq.value(c))
    if "parent" not in proof:
        proof = {"parent": [-1], "pair": [(0, 0)], "same": [True], "duals": [proof]}
    parent = [int(p) for p in proof["parent"]]
    pair = [(int(i), int(j)) for i, j in np.asarray(proof["pair"]).reshape(-1, 2)]
    same, duals = [bool(s) for s in proof["same"]], list(proof["duals"])
    children = families(parent)
    if covering(children, pair, same) != children or \
            any(kids and kids[1] != kids[0] + 1 for kids in children):
        return tree
    tree.parent, tree.pair, tree.same, tree.duals = parent, pair, same, duals
    tree.children = {v: kids[0] for v, kids in enumerate(children) if kids}
    tree.open, bounds = [], [-math.inf] * len(parent)
    for v, kids in enumerate(children):
        given, path = duals[v], tree.path(v)
        own = -math.inf if given is None else leaf_bound(lq, path, given)
        bounds[v] = max(own, bounds[parent[v]] if v else -math.inf)
        if kids:
            continue
        if own == math.inf or (given is not None and "enumerated" in given):
            tree.closed = min(tree.closed, own)
            continue
        tree.open.append((bounds[v], v))
        source = v if given is not None else parent[v]
        if source >= 0 and duals[source]:
            tree.starts[v] = _whole(lq, tree.path(source)), duals[source], nodes_of(lq)
    return tree


def _whole(lq: LabelProblem, path: list[Decision]) -> Lift | RatioLift:
    """The lift of a node, over all nodes."""
    small = decided(lq, path)
    return lift_of(small).over(small.groups)


def _undecided(lq: LabelProblem, at: _Active) -> tuple[int, int] | None:
    """The pair of which X says least, by nodes of the whole problem; None when all are set."""
    doubts = at.kind.doubts(at.whole, at.X)
    doubts[np.tril_indices(len(doubts))] = -np.inf
    i, j = np.unravel_index(int(np.argmax(doubts)), doubts.shape)
    if not np.isfinite(doubts[i, j]):
        return None
    first = np.unique(at.whole.groups, return_index=True)[1]
    return int(first[i]), int(first[j])
