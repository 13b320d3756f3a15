"""Branch and bound on the labels of two classes told apart by a margin: proofs of optimality."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.margin_metric import MarginMetric, sample_rows
from mmcopt.bounds.margin_tree import margin_proof
from mmcopt.bounds.multi_kernel_lift import norm
from mmcopt.bounds.weight_lift import margin_lift
from mmcopt.capabilities import Capability, LiftedMargin, MarginRisk
from mmcopt.checks import hyper, integer, real, require_memory
from mmcopt.compiled.compiling import clock
from mmcopt.margins import Hinge
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers.margin_barrier import MarginBarrier
from mmcopt.solving.runs import Run, out_of_time, run
from mmcopt.solving.solver import Progress, Proved, Solver
from mmcopt.solving.states import within
from mmcopt.tolerances import LEVELS
from mmcopt.types import Floats

LARGEST = 2000  # samples whose dense matrices are at hand
CHUNK = 1e7  # numbers that a driver step may touch for each number in a row
POPS = 100  # open nodes that a step may go on from
DEPTH, STACKED = 64, 2**28  # nodes that wait in the midst of a subtree, and bytes for them
MEMORY = 2**30  # bytes that dual points may take
ROUGH, EXACT, TURNS = 1e-2, 1e-7, 50  # relative gaps of machines, at starts and at the end
PROVING = 2.0  # about how long a proof takes at most, in the time of the steps that found it
BEYOND = 1.0 + 1e-9  # a machine is stretched to its margins, and beyond what is rounded


@dataclass
class Tree:
    """The proof so far, what it is built from, and the best labels; arrays of each kernel."""

    rows: list[Floats]
    scale: float  # of the objective
    power: float  # of the norm of the squares of several kernels
    toll: float  # what a g of 1 takes from S, times x x'
    g: Floats  # of the root
    K: Floats  # (M, n, n): X S^-1 X' there
    plain: Floats  # (M, n, n): X X' / c
    book: Any
    stack: Any
    best: float
    u: Floats  # weights of the best labels
    weight: Floats  # and of the kernels
    open: list[tuple[float, int]]
    k: int = 2  # classes
    stubborn: float = math.inf  # the least bound of a node that nothing is left of and that is open
    ends: Floats = field(default_factory=lambda: np.empty(0))  # of a tree that was read: of leaves
    grown: float = 0.0  # seconds of its steps

    def restored(self, roots: Any) -> None:
        """Refuse a tree from a file whose nodes, states and samples are not there."""
        n, book = roots["problem"].n, self.book
        nodes, states, implied = len(book.parent), len(book.owner), len(book.which)
        ranges = {"parent": (nodes, nodes), "sample": (nodes, n), "sign": (nodes, max(2, self.k)),
                  "born": (nodes, states), "closed": (nodes, states), "last": (nodes, n),
                  "waits": (nodes, 2), "owner": (states, nodes), "implied": (implied, states)}
        for name, (size, high) in ranges.items():
            within(name, getattr(book, name), (size,), -1, high)
        within("label", book.label, (states, n), -1, 2 if self.k == 2 else 1 << self.k)
        within("which", book.which, (implied,), -n, n + 1 if self.k == 2 else n * self.k)
        within("count", book.count, (4,), 0, 1 << 53)
        if (book.count[:3] > (nodes, states, implied)).any():
            raise ValueError("its counts must be those of what it holds")
        within("node", self.stack.node, (len(self.stack.level),), -1, nodes)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.g)

    @property
    def norm(self) -> float | None:
        """The power, which compiled loops get of several kernels only, so as to be short of one."""
        return self.power if len(self.K) > 1 else None

    def node(self, K: Floats, level: float, most: float) -> Any:
        """A node without labels, whose weights are at most ``most``."""
        from mmcopt.compiled.margin_node import Node

        n, M = self.n, len(K)
        weight = np.full(M, 1.0 / M if math.isinf(self.power) else 1.0)
        return Node(np.zeros(n), np.zeros(n), np.full(n, level), np.zeros((M, n)), K, np.zeros(M),
                    weight, self.g, np.empty(max(n, M)), np.empty((3, M)), self.toll, most)


@dataclass(frozen=True, kw_only=True)
class MarginTree(Solver):
    """Prove that labels of two classes have the largest margin, or how far from it they can be.

    A node fixes labels. Its bound combines the machine on the labelled samples with the lifted
    margin on the others, for weights g of the others that one `MarginBarrier` finds at the root:
    then a label more changes all that is needed by a matrix of rank one, and a node takes .1 ms for
    100 samples. Labels whose other side is proved to cost more than the best ones known are
    implied; the sample to branch on is the one that gains most on both sides. Nodes are taken by
    their bounds, the lowest first and depth first within ``dive`` of what is missing, so that the
    tree proves something whenever it is stopped. See `mmcopt.bounds.margin_tree` for the bound.

    Labels to begin with come from machines and their labels by turns from ``starts`` random
    directions; w of every node are further candidates. Two-class hinge problems without an active
    balance or a floor on sizes, for any kernel; about 200 samples are proved in seconds, of more
    those with a kernel or a large beta.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=40,distance=2,seed=0")
    >>> result = mm.solve(mm.formulations.CPM3C(X, beta=0.1), "MarginTree", seed=0)
    >>> result.status.name, bool(result.verify())
    ('CERTIFIED', True)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (MarginRisk,)

    gap: float = hyper(5e-5, real(0, open_low=True), "relative gap below which a node is closed")
    starts: int = hyper(200, integer(1), "random directions from which labels are looked for")
    share: float = hyper(0.97, real(0, 0.999, open_low=True),
                         "how near to the boundary the g of the root are")
    dive: float = hyper(0.3, real(0, 1), "share of what is missing within which it goes deep first")
    near: float = hyper(3.0, real(0), "relative gap of a node from which single g are lowered")
    least: float = hyper(0.01, real(0, open_low=True), "share of that gap which this must gain")

    def refuses(self, f: Any) -> str | None:
        if super().refuses(f) is not None:
            return (f"it needs MarginRisk, which this {type(f).__name__} does not offer: a margin "
                    "problem of one kernel, without an active balance or a floor on sizes.")
        risk = f.offer(MarginRisk)
        if risk.k != 2:
            return (f"its tree is over labels of two classes, and there are {risk.k}; ClassTree is "
                    "for more.")
        return unfit(risk)

    def prepare(self, f: Any) -> None:
        kernels = self.kernels(f)
        self._require_memory(f)
        tree = planted([np.ones((2, 1))] * kernels, 1.0, np.zeros(2), 2.0, 1.0)  # compile
        self._improve(tree, np.ones(2), ROUGH)
        self._visit(tree, 1)

    def _require_memory(self, f: Any) -> None:
        require_memory(8.0 * f.n**2 * (3 + 3 * self.kernels(f)) + STACKED + MEMORY / 8,
                       f"a tree over {f.n} samples", "use fewer samples, or certify.")

    def kernels(self, f: Any) -> int:
        """How many kernels the problem has."""
        return 1

    # ------------------------------------------------------------ the loop

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        if isinstance(init, Proved):
            tree = _regrown(self.root(f, rng, init.duals), margin_proof(f, init.duals), init.duals)
            self._improve(tree, self.scores(f, init.point), EXACT)
            return self._progress(f, self._judged(tree))
        tree = self.root(f, rng)
        if init is not None:
            self._improve(tree, self.scores(f, init), EXACT)
        self._search(f, tree, init, rng)
        return self._progress(f, tree)

    def _search(self, f: Any, tree: Tree, init: Any, rng: np.random.Generator) -> None:
        """Labels to begin with: machines and their labels by turns, from random directions."""
        begun: set[bytes] = set()  # labels, the first sample on the positive side
        for _ in range(self.starts):
            if begun and out_of_time():
                return
            scores = np.sum([X @ rng.standard_normal(X.shape[1]) for X in tree.rows], axis=0)
            sides = ((scores >= 0.0) == (scores[0] >= 0.0)).tobytes()
            if sides not in begun:
                begun.add(sides)
                self._improve(tree, scores, ROUGH)
        self._improve(tree, np.tensordot(tree.weight, tree.plain, 1) @ tree.u, EXACT)

    def goes_on(self, kind: str) -> bool:
        return kind == "margin-tree"

    def _judged(self, tree: Tree) -> Tree:
        """A tree that was read, with its nodes that nothing is left of taken for what they are."""
        target = self._target(tree)
        weak = tree.ends[tree.ends < target]
        tree.stubborn = float(weak.min(initial=math.inf))
        return tree

    def root(self, f: Any, rng: np.random.Generator, duals: Any = None) -> Tree:
        """The tree of its root, with the g of the lifted margin there, or those of a proof."""
        risk = f.offer(MarginRisk)
        k, X = risk.k, sample_rows(risk.features)
        c = risk.beta * (k - 1) / (2 * k)
        if duals is not None:
            return planted([X], c, np.array(duals["g"], dtype=np.float64), 1.0, 1.0, k)
        lift = margin_lift(LiftedMargin(risk.features, k, risk.beta))
        multiple, g, _ = lift.multiple(run(MarginBarrier(), lift, None, rng).duals or {})
        g = self.share * multiple * g
        while not MarginMetric(X, c, g).definite:  # as where rounding is larger than 1 - share
            g = 0.5 * g
        return planted([X], c, g, 1.0, 1.0, k)

    def scores(self, f: Any, point: Any) -> Floats:
        """The scores of a point: of two classes, what the first has more than the second."""
        T = np.asarray(f.offer(MarginRisk).features.scores(np.asarray(point, dtype=np.float64)))
        return np.asarray(T[:, 0] - T[:, 1])

    def point(self, f: Any, tree: Tree) -> Any:
        """W of the best labels: w = X'u / (2c), half of it for one class and half against it."""
        risk = f.offer(MarginRisk)
        half = risk.features.sums(tree.u[None, :] / risk.beta)
        return np.concatenate([half, -half])

    def step(self, f: Any, state: Tree, rng: np.random.Generator) -> Progress:
        began = clock()
        last, pops = int(state.book.count[3]) + max(20, int(CHUNK / state.n**2)), POPS
        while state.open and state.open[0][0] < self._target(state):
            left = last - int(state.book.count[3])
            pops -= 1
            if left <= 0 or pops < 0 or not self._grown(state):
                break
            self._visit(state, left)
        state.grown += clock() - began
        return self._progress(f, state)

    def closing(self, state: Tree) -> float:
        return PROVING * state.grown

    def outcome(self, f: Any, state: Tree) -> Status | None:
        if not state.open or state.open[0][0] >= self._target(state):
            return Status.CONVERGED
        return None if self._grown(state) else Status.ITERATION_LIMIT

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The tree."""
        return None if run.duals is None else Certificate("margin-tree", {}, _duals(run.duals), f)

    def _target(self, state: Tree) -> float:
        return state.best * (1.0 - self.gap)

    def _progress(self, f: Any, state: Tree) -> Progress:
        top = state.open[0][0] if state.open else math.inf
        lower = state.scale * max(0.0, min(top, state.stubborn, self._target(state)))
        count = state.book.count
        return Progress(state, lambda: self.point(f, state), state.scale * state.best, lower,
                        {"lower": lower, "nodes": float(count[3]), "open": float(len(state.open)),
                         "leaves": float(count[2])}, state)

    # ------------------------------------------------------------ labels

    def _improve(self, state: Tree, scores: Floats, tol: float) -> None:
        """Machines and labels by turns from the signs of scores."""
        from mmcopt.compiled.margin_node import descend

        node = state.node(state.plain, 0.0, 1.0 / state.n)
        node.y[:] = np.where(scores >= 0.0, 1.0, -1.0)
        node.u[:] = 0.5 * node.y / state.n
        node.t[:] = 0.5 * (state.plain @ node.u)
        descend(node, state.norm, tol, TURNS)
        node.t[:] = 0.5 * (state.plain @ node.u)  # without the rounding of so many changes
        margin = np.abs(node.weight @ node.t)
        loss = float(np.maximum(1.0 - margin, 0.0).mean())
        squares = np.maximum(0.5 * (node.t @ node.u), 0.0)
        # c |w|^2 at the best weights of kernels for this w, should its own be less than that.
        first = norm(node.weight * np.sqrt(squares), 2.0 / (2.0 - 1.0 / state.power)) ** 2
        value, s = first + loss, 1.0
        if 0.0 < loss and margin.min() > 0.5:  # where no margin is violated but by rounding
            s = BEYOND / float(margin.min())
            value, s = min((value, 1.0), (first * s * s, s))
        if value < state.best:
            state.best, state.u, state.weight = value, s * node.u, node.weight.copy()

    # ------------------------------------------------------------ nodes

    def _visit(self, state: Tree, most: int) -> None:
        """Take the open node of least bound, and what lies below it, for up to ``most`` visits."""
        bound, v = heapq.heappop(state.open)
        book, target, first = state.book, self._target(state), int(state.book.count[0])
        upto = bound + self.dive * (target - bound)
        best, found = self._explored(state, v, upto, most)
        new = np.append(np.arange(first, int(book.count[0])), v)
        for w in new[book.waits[new] == 1]:
            heapq.heappush(state.open, (float(book.bound[w]), int(w)))
        ended = new[(book.closed[new] >= 0) & (book.bound[new] < target)]
        if len(ended):
            state.stubborn = min(state.stubborn, float(book.bound[ended].min()))
        if best < state.best:
            self._improve(state, found, EXACT)

    def _explored(self, state: Tree, v: int, upto: float, most: int) -> tuple[float, Floats]:
        """Visit a node and those below it up to a bound; the best objective met and its scores."""
        from mmcopt.compiled.margin_node import fix
        from mmcopt.compiled.margin_tree import explore

        book, node = state.book, self._restored(state, int(state.book.born[v]))
        fix(node, state.norm, int(book.sample[v]), float(book.sign[v]))
        best, found = np.array([state.best]), np.zeros(state.n)
        explore(book, node, state.norm, state.stack, v, upto, self._target(state), most, self.near,
                self.least, 0.1 * self.gap, best, found)
        return float(best[0]), found

    def _restored(self, state: Tree, q: int) -> Any:
        """The node of a dual point that was written down; without one, the root."""
        book, n = state.book, state.n
        lifted = bool(state.g.any())
        node = state.node(state.K.copy() if lifted else state.K, LEVELS * float(lifted), math.inf)
        if q < 0:
            return node
        node.y[:], node.level[:] = book.label[q], book.level[q]
        node.u[:] = book.share[q] / np.float64(n)
        for K in node.K:
            lowered(K, state.toll * state.g, node.level)
        node.t[:] = 0.5 * (node.K @ node.u)
        node.square[:] = 0.5 * (node.t @ node.u)
        return node

    def _grown(self, state: Tree) -> bool:
        """Make room for another node; whether there is any."""
        while not self._room(state):
            states = 2 * len(state.book.owner)
            if states * state.n * (6 if state.k == 2 else 4 * state.k + 5) > MEMORY:
                return False
            state.book = _book(state.n, states, state.k, state.book)
        return True

    def _room(self, state: Tree) -> bool:
        """Whether another node can be written down."""
        from mmcopt.compiled.margin_tree import room

        return bool(room(state.book, state.n))


def unfit(risk: Any) -> str | None:
    """Why no tree of ours is for a problem, whatever the number of its classes."""
    if type(risk.loss) is not Hinge:
        return f"its bounds are those of the hinge, and the loss is {risk.loss.formula()}."
    if risk.features.n > LARGEST:
        return f"it keeps dense matrices of {risk.features.n} samples; use certify instead."
    return None


def lowered(K: Floats, eta: Floats, level: Floats) -> None:
    """K at lower levels of what the root takes from S, times x x', in place."""
    from scipy.linalg import cho_factor, cho_solve

    low = np.flatnonzero((level < LEVELS) & (eta > 0.0))
    if len(low):
        root = np.sqrt(eta[low] * (1.0 - level[low] / LEVELS))
        half = K[low] * root[:, None]
        middle = half[:, low] * root
        middle[np.diag_indices(len(low))] += 1.0
        K -= half.T @ cho_solve(cho_factor(middle), half)


def planted(rows: list[Floats], c: float, g: Floats, power: float, scale: float,
            k: int = 2, spread: float = 1.0) -> Tree:
    """A tree of its root, with the label of the longest sample, which costs no generality.

    The g take ``spread`` times what they do for one kernel.
    """
    n, M = len(g), len(rows)
    plain = np.stack([X @ X.T / c for X in rows])
    toll = spread / n
    K = np.stack([_metric(X, c, toll * g) for X in rows]) if g.any() else plain
    book = _book(n, 1000, k)
    book.parent[0], book.sign[0] = -1, 1 if k == 2 else 0
    book.sample[0] = int(np.argmax(np.einsum("mii->i", plain)))
    book.born[0], book.closed[0], book.last[0], book.waits[0] = -1, -1, -1, 1
    book.count[0] = 1
    u, stack = (np.zeros(n), _stack(n, M, bool(g.any()))) if k == 2 \
        else (np.zeros((n, k)), _class_stack(n, k))
    return Tree(rows, scale, power, toll, g, K, plain, book, stack, math.inf, u, np.ones(M),
                [(0.0, 0)], k)


def _metric(X: Floats, c: float, eta: Floats) -> Floats:
    """X S^-1 X' where S is c I less what the g take."""
    S = c * np.eye(X.shape[1]) - X.T @ (eta[:, None] * X)
    K = X @ np.linalg.solve(S, X.T)
    return np.asarray((K + K.T) / 2)


def _regrown(tree: Tree, proof: Any, duals: dict[str, Any]) -> Tree:
    """The tree of a proof: its nodes and dual points, with the bounds that were recomputed."""
    signs, n = proof.tree, tree.n
    V, Q, m = len(signs.parent), len(signs.owner), len(signs.implied)
    book = _book(n, max(1000, Q + V + m // 30 + 2 * n), tree.k)
    for name in ("parent", "sample", "sign", "born", "closed", "last"):
        getattr(book, name)[:V] = getattr(signs, name)
    book.owner[:Q], book.share[:Q], book.label[:Q] = signs.owner, signs.share, signs.at
    book.level[:Q] = duals["level"]
    book.implied[:m], book.which[:m] = signs.implied, signs.which
    bounds = np.array(proof.bounds) / tree.scale
    book.bound[:V] = np.minimum(bounds, np.finfo(np.float64).max)
    book.waits[signs.open] = 1
    book.count[:] = V, Q, m, V - len(signs.open)
    tree.book, tree.open = book, [(float(bounds[v]), int(v)) for v in signs.open]
    heapq.heapify(tree.open)
    tree.ends = proof.values[:len(proof.values) - len(signs.open[signs.open > 0])] / tree.scale
    return tree


def _book(n: int, states: int, k: int, old: Any = None) -> Any:
    """Empty arrays for so many dual points, or with the beginning of others."""
    from mmcopt.compiled.margin_tree import Book

    nodes, implied = k * states + 4, max(30 * states, 2 * k * n)
    states = max(states, k * n + 8)
    share = (states, n) if k == 2 else (states, n, k)
    sizes = {"share": share, "label": (states, n), "level": (states, n), "owner": (states,),
             "implied": (implied,), "which": (implied,), "count": (4,)}
    types = {"share": np.float32, "label": np.int8 if k == 2 else np.int32, "level": np.uint8,
             "sign": np.int8, "waits": np.int8, "bound": np.float64, "count": np.int64}
    made = Book(*(np.zeros(sizes.get(name, (nodes,)), types.get(name, np.int32))
                  for name in Book._fields))
    if old is not None:
        for new, before in zip(made, old, strict=True):
            new[:len(before)] = before
    return made


def _stack(n: int, kernels: int, lifted: bool) -> Any:
    from mmcopt.compiled.margin_tree import Stack

    size = n if lifted else 0  # without g all K stay as they are
    depth = max(1, min(DEPTH, n, STACKED // (8 * n * (kernels * (size + 1) + 4))))
    y, u, level = (np.empty((depth, n)) for _ in range(3))
    return Stack(np.zeros(depth, np.int64), y, u, level, np.empty((depth, kernels, n)),
                 np.empty((depth, kernels, n, size)))


def _class_stack(n: int, k: int) -> Any:
    from mmcopt.compiled.class_tree import Stack

    depth = max(1, min(DEPTH, k * n, STACKED // (8 * n * (n + 2 * k + 2))))
    return Stack(np.zeros(depth, np.int64), np.zeros((depth, n), np.int64), np.empty((depth, n, k)),
                 np.empty((depth, n)), np.empty((depth, k, n)), np.empty((depth, n, n)))


def _duals(state: Tree) -> dict[str, Any]:
    """What `mmcopt.bounds.margin_tree` checks: the tree with the dual points that it uses."""
    book = state.book
    V, _, m, _ = map(int, book.count)
    nodes = {name: getattr(book, name)[:V] for name in ("parent", "sample", "sign", "born",
                                                        "closed", "last")}
    nodes["born"] = np.where(book.waits[:V] == 1, nodes["born"], -1)
    used = np.unique(np.concatenate([nodes["born"], nodes["closed"], book.implied[:m]]))
    used = used[used >= 0]
    place = np.full(int(used[-1]) + 2 if len(used) else 1, -1, np.int32)
    place[used] = np.arange(len(used))
    return {"g": state.g.copy(), **{name: values.copy() for name, values in nodes.items()},
            "born": place[nodes["born"]], "closed": place[nodes["closed"]],
            "owner": book.owner[used], "share": book.share[used], "level": book.level[used],
            "implied": place[book.implied[:m]], "which": book.which[:m].copy()}
