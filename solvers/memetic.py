"""The default search: a pool from a path of smoothed problems, improved by combining members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds import enumeration
from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import hyper, integer, real
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers.annealing import Annealing
from mmcopt.solvers.continuation import Continuation
from mmcopt.solvers.stochastic_descent import StochasticDescent
from mmcopt.solvers.tabu import Tabu
from mmcopt.solving import Progress, Run, run
from mmcopt.solving.label_search import ONE_LABELING, LabelSearch, new_board, start_labels
from mmcopt.types import Ints

SIMILAR = 0.99  # adjusted Rand index above which two members count as the same
SMOOTHED = 0.5  # share of the children that begin on a smoothed level
BLOCK_STARTS = 3  # random starts of the search over blocks, besides the better parent
TINY = 4 * enumeration.CHUNK  # labelings up to which all of them are tried
BETTER = 1e-9  # relative: what counts as an improvement
LARGE_STAGES = 3  # levels of the path that a problem on a large factor follows
LARGE_MEMBERS = 3  # samples solved at the first of them, and combined there


@dataclass
class _Pool:
    """Members and their objectives; the best labels met; generations since the last improvement."""

    best: Ints
    value: float
    start: Ints | None
    members: list[Ints] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    idle: int = 0
    special: str = ""  # "large" or "tiny" problems take one step, then "done"


@dataclass(frozen=True, kw_only=True)
class Memetic(LabelSearch):
    """Build a pool of good partitions and combine pairs of them, block by block.

    Most members follow the path of `Continuation`, each from a random level; the others are
    annealed, because some basins are reached only from one of the two. A child is made from two
    members whose clusters intersect in a few dozen blocks: one-flip searches agree on such
    micro-groups and err in assembling them, so the blocks are contracted to single nodes and the
    tiny problem is searched by `Tabu`. Half of the children are assembled on a smoothed level and
    follow the path down from there, the others on the problem itself; both are polished. A child
    replaces the member it resembles (adjusted Rand index > .99), or the worst one, when it is
    better. The search stops after ``patience`` children without a new best; within a time limit it
    begins again with a new pool until the time is up.

    Problems of at most 16,384 labelings are enumerated, which proves the answer. Problems of more
    than ``large`` samples are solved on a random ``sample`` first; the others join the cluster that
    gains most, and the whole is polished. When W is held as a factor this happens at a smoothed
    level of the path, which is then followed down by passes over the factor. Ends in a local
    optimum of moves and swaps (of moves, on a factor). A driver step makes one member or one child.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    >>> result = mm.solve(problem, seed=0)
    >>> result.solver, round(mm.metrics.adjusted_rand_index(y, result.labels), 2)
    ('Memetic', 0.96)
    """

    anytime: ClassVar[bool] = True

    pool: int = hyper(8, integer(2), "members of the pool")
    path_share: float = hyper(0.75, real(0, 1), "share of the members made by Continuation")
    sweeps: int = hyper(200, integer(1), "sweeps of the annealed members")
    patience: int = hyper(12, integer(1), "children without a new best after which it stops")
    large: int = hyper(4000, integer(10), "samples above which a random sample is solved first")
    sample: int = hyper(1500, integer(10), "size of that sample")

    def refuses(self, f: Any) -> str | None:
        # A factor of any size is fine: only samples of it are made dense.
        lq = f.offer(LabelQuadratic)
        if lq is not None and lq.k == 1:
            return ONE_LABELING
        return super(LabelSearch, self).refuses(f)

    def prepare(self, f: Any) -> None:
        if f.offer(LabelQuadratic).n <= self.large:
            super().prepare(f)

    def warm(self, toy: LabelQuadratic) -> None:
        super().warm(toy)
        # Members of so small a problem are alike and have no children: make one of strangers.
        rng = np.random.default_rng(0)
        combine(toy, toy.random_labels(rng), toy.random_labels(rng), rng)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        c = start_labels(lq, init, rng)
        state = _Pool(c, lq.value(c), None if init is None else c)
        if lq.n > self.large:
            state.special = "large"
        elif enumeration.count_labelings(lq) <= TINY:
            state.special = "tiny"
        return self._progress(lq, state)

    def step(self, f: Any, state: _Pool, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        if state.special == "large":
            self._large_step(lq, state, rng)
            state.special = "done"
        elif state.special == "tiny":
            nodes = enumeration.minimum(lq)[1]
            self._seen(lq, state, state.best if nodes is None else nodes)
            state.special = "done"
        elif len(state.members) < self.pool:
            c = self._member(lq, state, rng)
            state.members.append(c)
            state.values.append(self._seen(lq, state, c))
        else:
            self._child(lq, state, rng)
        return self._progress(lq, state)

    def outcome(self, f: Any, state: _Pool) -> Status | None:
        alike = len(state.members) == self.pool and self._spread(state) == 0.0
        done = state.idle >= self.patience or alike or state.special == "done"
        return Status.CONVERGED if done else None

    def finish(self, f: Any, state: _Pool) -> Progress | None:
        lq = f.offer(LabelQuadratic)
        if state.special or not state.members:
            return None
        # The best label met is a local optimum of moves; it is made one of swaps as well.
        board = new_board(lq, state.best.copy(), np.random.default_rng(0))
        self.descend(lq, board)
        self._seen(lq, state, board.c)
        return self._progress(lq, state)

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The enumeration of a tiny problem, when it was done."""
        lq = f.offer(LabelQuadratic)
        if run.status is not Status.CONVERGED or enumeration.count_labelings(lq) > TINY:
            return None
        return Certificate("enumeration", {}, {}, f)

    # ------------------------------------------------------------ members and children

    def _member(self, lq: LabelQuadratic, state: _Pool, rng: np.random.Generator) -> Ints:
        index = len(state.members)
        if index == 0 and state.start is not None:
            return self._polished(lq, state.start, rng)
        if index < round(self.path_share * self.pool):
            path = Continuation(opening=_tabu(lq, 2.0), inner=_tabu(lq, 0.5))
            return lq.reduce(run(path, lq, None, rng).point)
        annealed = run(Annealing(sweeps=self.sweeps), lq, None, rng).point
        return self._polished(lq, lq.reduce(annealed), rng)

    def _polished(self, lq: LabelQuadratic, c: Ints, rng: np.random.Generator) -> Ints:
        return lq.reduce(run(_tabu(lq, 0.5), lq, lq.expand(c), rng).point)

    def _child(self, lq: LabelQuadratic, state: _Pool, rng: np.random.Generator) -> None:
        state.idle += 1
        i, j = rng.choice(self.pool, 2, replace=False)
        if state.values[j] < state.values[i]:
            i, j = j, i
        path: list[float] = []  # values of t that the child follows down to 1
        if rng.random() < SMOOTHED:
            path = Continuation().levels(lq)[:-1]
            path = path[int(rng.integers(len(path))):]
        c = combine(lq.smooth(path[0]) if path else lq, state.members[i], state.members[j], rng)
        if c is None:
            return
        before = state.value
        for t in path:
            c = self._polished(lq.smooth(t), c, rng)
        c = self._polished(lq, c, rng)
        value = self._seen(lq, state, c)
        if state.value < before - BETTER * abs(before):
            state.idle = 0
        alike = [q for q, m in enumerate(state.members) if adjusted_rand_index(m, c) > SIMILAR]
        q = max(alike or range(self.pool), key=lambda q: state.values[q])
        if value < state.values[q] - BETTER * abs(value):
            state.members[q], state.values[q] = c, value

    @staticmethod
    def _seen(lq: LabelQuadratic, state: _Pool, c: Ints) -> float:
        value = lq.value(c)
        if value < state.value:
            state.best, state.value = c.copy(), value
        return value

    @staticmethod
    def _spread(state: _Pool) -> float:
        return max(state.values) - min(state.values)

    # ------------------------------------------------------------ large problems

    def _large_step(self, lq: LabelQuadratic, state: _Pool, rng: np.random.Generator) -> None:
        if lq.matrix.is_dense:
            c = state.best if state.start is not None else self._extended(lq, rng)
            polish: LabelSearch = _tabu(lq, 0.5)
        else:
            c = state.best if state.start is not None else self._followed(lq, rng)
            polish = StochasticDescent()
        self._seen(lq, state, lq.reduce(run(polish, lq, lq.expand(c), rng).point))

    def _followed(self, lq: LabelQuadratic, rng: np.random.Generator) -> Ints:
        """Solve samples of the smoothed problem, combine them, and follow the best path down."""
        path = Continuation(stages=LARGE_STAGES)
        levels = path.levels(lq)
        top = lq.smooth(levels[0])
        members = [_descended(top, self._extended(top, rng), rng) for _ in range(LARGE_MEMBERS)]
        for _ in range(LARGE_MEMBERS - 1):
            i, j = rng.choice(LARGE_MEMBERS, 2, replace=False)
            child = combine(top, members[i], members[j], rng)
            if child is not None:
                members.append(_descended(top, child, rng))
        c = min(members, key=top.value)
        for t in levels[1:-1]:
            c = _descended(lq.smooth(t), c, rng)
        return c

    def _extended(self, lq: LabelQuadratic, rng: np.random.Generator) -> Ints:
        """Solve a sample, then let every node join the cluster with which it gains most."""
        m = min(self.sample, lq.n)
        held = np.flatnonzero(lq.fixed >= 0)[:m // 2]
        others = rng.permutation(np.setdiff1d(np.arange(lq.n), held))
        rows = np.sort(np.concatenate([held, others[:m - held.size]]))
        inner = Memetic(pool=4, path_share=1.0, patience=self.patience // 3 + 1, large=max(m, 10))
        part = run(inner, lq.subset(rows), None, rng).point
        Z = np.zeros((lq.n, lq.k), dtype=lq.dtype)
        Z[rows, part] = 1.0
        c = np.argmax(lq.matrix @ Z, axis=1)
        c[rows] = part
        return lq.repair(c, rng)

    @staticmethod
    def _progress(lq: LabelQuadratic, state: _Pool) -> Progress:
        return Progress(state, lambda: lq.expand(state.best), state.value,
                        extras={"members": float(len(state.members)), "idle": float(state.idle)})


def _descended(lq: LabelQuadratic, c: Ints, rng: np.random.Generator) -> Ints:
    return lq.reduce(run(StochasticDescent(), lq, lq.expand(c), rng).point)


def _tabu(lq: LabelQuadratic, length: float) -> Tabu:
    return Tabu(length=length, tenure=max(5, lq.n // 50), polish=False)


def combine(lq: LabelQuadratic, a: Ints, b: Ints, rng: np.random.Generator) -> Ints | None:
    """The best partition found whose clusters are unions of intersections of those of ``a``, ``b``.

    None when the two partitions are the same.
    """
    groups = np.unique(a * lq.k + b, return_inverse=True)[1].astype(np.int64).reshape(-1)
    m = int(groups.max()) + 1
    if m <= lq.k:
        return None
    small = lq.contract(groups, lq.dtype)
    search = Tabu(length=20.0, tenure=m // 8 + 2, polish=False)
    starts = [a] + [None] * BLOCK_STARTS
    tries = [run(search, small, start, rng) for start in starts]
    return np.asarray(min(tries, key=lambda r: r.value).point)
