"""The default search: a pool of partitions from several searches, improved by combining members."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from mmcopt.bounds import enumeration
from mmcopt.capabilities import Capability, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.checks import hyper, integer, optional, real
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers import label_pool, ratio_pool
from mmcopt.solvers.annealing import Annealing, pilot_temperatures
from mmcopt.solvers.continuation import Continuation
from mmcopt.solvers.hartigan import Hartigan
from mmcopt.solvers.loose_sizes import loosened, tightened
from mmcopt.solvers.shaking import Shaking
from mmcopt.solvers.stochastic_descent import StochasticDescent
from mmcopt.solvers.tabu import Tabu
from mmcopt.solving import Progress, Run, Solver
from mmcopt.solving.factor_search import (
    PASSES,
    factor_board,
    factor_spread,
    on_factor,
    warm_on_factor,
)
from mmcopt.solving.graph_search import on_graph, two_free_sides
from mmcopt.solving.label_search import (
    ONE_LABELING,
    Board,
    LabelSearch,
    new_board,
    start_labels,
    too_late,
    toy_problem,
    working_matrix,
)
from mmcopt.solving.ratio_search import board_of, ratio_start, warm
from mmcopt.solving.states import within
from mmcopt.types import Ints

SIMILAR = 0.99  # adjusted Rand index above which two members count as the same
SAME = 1 - 1e-12  # and above which they are
SMOOTHED = 0.5  # share of the children that begin on a smoothed level
TINY = 4 * enumeration.CHUNK  # labelings up to which all of them are tried
BETTER = 1e-9  # relative: what counts as an improvement
WAYS = "assembled", "shaken"  # how children are made
FIRST = "shaken", "shaken", "walked"  # kinds of the first members; then an annealed one
SECOND = "descended"  # kind of one more, of more than two clusters: of two, these are poor
AMONG = 4  # members of a small smoother of which one is walked at least; the others follow paths
LONG = 20.0  # moves of such a walk, as a multiple of n: some basins are reached by long ones only
LEVELS = 0.16  # work of making the levels of a path, as a multiple of n
MORE = 2  # times as many members there
SHARE = 0.625  # of the other members that are made by paths, by default
FEW = 64  # intersections that members must be able to have before they are combined early
SHORT = 0.5  # share of the walks with the rest that `Tabu` takes by default
WALK = 1.5  # moves from random labels, as a multiple of n
WORK = 400_000_000  # about, scores looked at in a driver step
QUICK = 1000  # samples up to which members are made so fast that children can wait,
QUICK_PATHS = 500  # also where they follow paths
FRESH = 3  # children without a new best before a member is renewed, where that is done
EARLY = 2  # children without a new best before the next member, while the pool grows
QUICK_CHILDREN = 4  # times as many without a new best, where a child is a few passes
QUICK_UP_TO = 2000  # nodes, beyond which there are fewer of them
LONGER = 3  # times that the sweeps double where annealing does better than paths
MANY = 4  # times the sweeps on long lists of neighbours, where they are quick
DEEPER = 4  # times that children are polished twice as long before patience ends
MOVES = 2000  # of a last polish at least: fewer take no less time
LITTLE = 0.01  # of what members differ by: a gain after which the pool grows as after none
CLAIMS = 8.0  # work of `Shaking`, in entries of W
DEAR = 0.5  # share of the work so far that an annealed member of a large problem may take
ROUGH, HOT, COLD = 8, 2.5, 0.15  # sweeps on a factor at least; temperatures, over the spread
SLIGHT = 0.3  # as LITTLE, on a factor, where a new member takes hardly longer than a child
CHANGED = 0.7  # of the labels that a sweep of an annealed member draws, where k is large


Stage: TypeAlias = tuple[float, Solver]  # a search, and the level t that it works on


@dataclass
class _Task:
    """Labels in the making: the searches still to run, each at its level t, and their state."""

    c: Ints
    stages: list[Stage]
    child: bool = False
    kind: str = ""  # of a member: by what it is made
    value: float | None = None  # of c, where it is known
    state: Any = None  # of the search under way
    board: Any = None  # what the last search on this level left


@dataclass
class _Pool:
    """Members and their objectives; the best labels met; what is under way."""

    best: Ints
    value: float
    start: Any  # the board of the labels that the first member begins with
    given: bool  # whether the caller gave them
    members: list[Ints] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    loose: bool = False  # whether all searches of the task but the last work on loosened sizes
    new: bool = False  # whether the last member has no child yet
    made: int = 0  # members made, those that were made twice included
    lowest: dict[str, float] = field(default_factory=dict)  # value of the members of each kind
    anneals: int = 0  # members annealed
    last: bool = False  # whether the last of them, when children failed, was made
    idle: int = 0  # children assembled since the last new best
    stale: int = 0  # the same since the last that was better by more than a little
    spread: float = 0.0  # of the values, when a member came last
    tried: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 2))  # of children
    good: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 1))  # much better ones
    work: float = 0.0  # done so far, about, in passes over W
    dear: float = 0.0  # the share of annealed members in that
    task: _Task | None = None
    tiny: bool = False
    done: bool = False

    def restored(self, roots: Any) -> None:
        """Refuse a pool from a file that is none of this problem."""
        lq = roots["LabelProblem"]
        for c in (self.best, *self.members, *([] if self.task is None else [self.task.c])):
            within("members", c, (lq.n,), 0, lq.k)


@dataclass(frozen=True, kw_only=True)
class Memetic(LabelSearch):
    """Build a pool of good partitions and combine some of them, block by block.

    The first members are made by `Shaking`, a `Tabu` walk from random labels and `Annealing`, which
    are quick, as is `StochasticDescent`, of which one comes second where many samples make more
    than two clusters; most of the others follow the path of `Continuation`, each from a random
    level, unless annealing does better. Some basins are reached only from one of these. Where W is
    the smoother of a regression on up to 1,000 samples, there are twice as many members, and most
    follow paths, which find more in less time; every fourth is walked, and more where that is
    better. A child is made from two or more members whose clusters intersect in a few dozen to a
    few hundred blocks: one-flip searches agree on such micro-groups and err in assembling them, so
    the blocks are contracted to single nodes and the small problem is searched by `Tabu`. Half of
    the children are assembled on a smoothed level and follow the path down from there, the others
    on the problem itself. After one that was not better the next may be the best labels, of which
    `Shaking` claims a share anew; either way is taken as often as it was good so far. All are
    polished, the longer the longer nothing new was found. A child replaces the member it resembles
    (adjusted Rand index > .99), or the worst one, when it is better. The search stops after
    ``patience`` assembled children without a new best; within a time limit it begins again with a
    new pool until the time is up.

    On problems of more than 1,000 samples, of 500 where members follow paths, they are followed by
    children as soon as their clusters have enough intersections, until these are little better.
    Beyond 1,000 members are annealed in at most half of the work done by then, and one more where
    children fail. A path costs some Cholesky factorisations, so there the first one waits likewise,
    and above ``large`` samples, and where the time left is too short, there are none. When W is
    held as a factor of more than 5,000 rows, two members descend on the factor, and the others are
    annealed there, in half as many sweeps as there were passes of descent, up to ``sweeps``. On the
    lists of a large sparse W, which is never made dense, members are annealed or walked. Where
    its two clusters may have any sizes, blocks are connected and annealed as well, and so is a
    child, from a middle temperature, before it is polished; later members replace the worst.
    Problems of at most 16,384 labelings are enumerated, which proves the answer.

    Where sizes are tight, every other member and child is made on looser ones, up to its last
    polish, which begins with the moves that tighten them.

    On `LabelRatio`, k-means and its kin, members and children are polished by `Hartigan`. Members
    begin with samples far apart; half of the children are blocks assembled, the others begin with
    means of two parents, or of one, of which one is drawn anew. Four times ``patience`` children
    must fail, fewer beyond 2,000 samples.

    Ends in a local optimum of moves and swaps (of moves, on a large factor). A driver step makes
    one member or one child, or a part of one where that takes long.

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

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelProblem,)
    anytime: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    pool: int = hyper(8, integer(2), "members of the pool")
    path_share: float | None = hyper(None, optional(real(0, 1)), "share of the members made by "
                                     "Continuation; None: by the problem")
    sweeps: int = hyper(200, integer(1), "sweeps of the annealed members")
    patience: int = hyper(12, integer(1), "children without a new best after which it stops")
    large: int = hyper(2500, integer(10), "samples above which no path is followed")

    def refuses(self, f: Any) -> str | None:
        lq = f.offer(LabelProblem)
        if isinstance(lq, LabelRatio) or (lq is not None and on_factor(lq)):  # of any size
            return ONE_LABELING if lq.k == 1 else None
        return super().refuses(f)

    def prepare(self, f: Any) -> None:
        lq = f.offer(LabelProblem)
        if isinstance(lq, LabelRatio):
            warm(Hartigan(), lq)
        elif on_factor(lq):
            warm_on_factor(self, lq)
        elif self._by_paths(lq) or on_graph(lq):
            super().prepare(f)
        else:
            working_matrix(lq)
            self.warm_once(lq.dtype, lambda: rough(toy_problem(lq.dtype)), "rough")

    def warm(self, toy: LabelQuadratic) -> None:
        super().warm(toy)
        # Members of so small a problem are alike and have no children: make one of strangers.
        rng = np.random.default_rng(0)
        label_pool.combine(toy, [toy.random_labels(rng), toy.random_labels(rng)], rng)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        board = ratio_start(lq, init, rng) if isinstance(lq, LabelRatio) \
            else _board(lq, start_labels(lq, init, rng), None, rng)
        state = _Pool(board.c.copy(), board.value, board, init is not None)
        state.tiny = enumeration.count_labelings(lq) <= TINY
        return self._progress(lq, state)

    def step(self, f: Any, state: _Pool, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        if state.tiny:
            nodes = enumeration.minimum(lq)[1]
            self._seen(lq, state, state.best if nodes is None else nodes)
            state.done = True
            return self._progress(lq, state)
        if state.task is None:
            state.loose = self._loosens(lq, state)
            make = self._member if self._grows(lq, state) else self._child
            state.task = make(lq, state, rng)
        for _ in range(max(1, WORK // (lq.n * lq.n * lq.k))):
            if state.task is None or self._advance(lq, state, state.task, rng):
                break
        return self._progress(lq, state)

    @staticmethod
    def _loosens(lq: Any, state: _Pool) -> bool:
        """Whether the next labels are made on loosened sizes: every other ones of tight sizes."""
        return isinstance(lq, LabelQuadratic) and not on_factor(lq) and not on_graph(lq) \
            and (state.made + sum(state.tried.values())) % 2 == 0 and loosened(lq) is not lq

    def _grows(self, lq: Any, state: _Pool) -> bool:
        """Whether a member is due: where that takes long each is followed by children at once."""
        few = 2 if on_factor(lq) else math.log(FEW) / math.log(lq.k)  # members are dear there
        early = lq.n > (QUICK_PATHS if self._by_paths(lq) else QUICK) and len(state.members) >= few
        enough = min(EARLY, len(state.members) - 1)  # two have one child
        if state.made < self._members(lq):
            return not early or state.stale >= enough
        if self._fails(lq, state):
            return self._owes(lq, state)
        return self._renewed(lq) and state.stale >= FRESH

    def _renewed(self, lq: Any) -> bool:
        """Whether new members replace the worst: where they cost little more than children.

        The basin of a few members is soon searched, and another may be better.
        """
        if not isinstance(lq, LabelQuadratic) or on_factor(lq):
            return False
        return two_free_sides(lq) if on_graph(lq) else lq.n > QUICK or self._by_paths(lq)

    def _owes(self, lq: Any, state: _Pool) -> bool:
        """Whether an annealed member is still to come, however dear: it is the last resort."""
        return isinstance(lq, LabelQuadratic) and not state.last and lq.n > QUICK \
            and not on_factor(lq) and not (on_graph(lq) and "annealed" in state.lowest)

    def _patience(self, lq: Any) -> int:
        """Children without a new best after which it stops: more where they are quick."""
        if not isinstance(lq, LabelRatio):
            return self.patience
        return round(self.patience * QUICK_CHILDREN * min(1.0, math.sqrt(QUICK_UP_TO / lq.n)))

    def _exhausted(self, lq: Any, state: _Pool) -> bool:
        if state.made < self._members(lq):
            return False
        return self._fails(lq, state) and not self._owes(lq, state)

    def _fails(self, lq: Any, state: _Pool) -> bool:
        """Whether children are no longer better, or cannot be."""
        same = max(state.values) == min(state.values) and not isinstance(lq, LabelRatio) \
            and not two_free_sides(lq)  # whose members often differ where their values do not
        return state.idle >= self._patience(lq) or same

    def outcome(self, f: Any, state: _Pool) -> Status | None:
        ends = state.task is None and self._exhausted(f.offer(LabelProblem), state)
        return Status.CONVERGED if state.done or ends else None

    def finish(self, f: Any, state: _Pool) -> Progress | None:
        lq = f.offer(LabelProblem)
        if state.tiny:
            return None
        if isinstance(lq, LabelRatio) or on_factor(lq):
            self._seen(lq, state, state.best)  # the value in all digits
            return self._progress(lq, state)
        if state.task is not None and state.loose and not state.members:
            under_way = state.task if state.task.state is None else state.task.state
            self._seen(lq, state, tightened(lq, under_way.c, np.random.default_rng(0)))
        # The best label met is a local optimum of moves; it is made one of swaps as well.
        board = new_board(lq, state.best.copy(), np.random.default_rng(0))
        self.descend(lq, board)
        self._seen(lq, state, board.c, board.value)
        return self._progress(lq, state)

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The enumeration of a tiny problem, when it was done."""
        lq = f.offer(LabelProblem)
        if run.status is not Status.CONVERGED or enumeration.count_labelings(lq) > TINY:
            return None
        return Certificate("enumeration", {}, {}, f)

    # ------------------------------------------------------------ members and children

    def _member(self, lq: Any, state: _Pool, rng: np.random.Generator) -> _Task:
        """Labels to begin with, and the searches that make a member of them."""
        if isinstance(lq, LabelRatio):
            sown, state.start = state.start or ratio_start(lq, None, rng), None
            return _Task(sown.c, [(1.0, Hartigan())], kind="sown", board=sown)
        polish = (1.0, _polish(lq, max(0.5, MOVES / lq.n), rng))
        board, state.start = state.start, None
        if board is not None and state.given:
            return _Task(board.c, [polish], board=board)
        c = lq.random_labels(rng) if board is None else board.c
        kind = self._kind(lq, state)
        self._count(lq, state, kind)
        if kind == "path":
            levels = Continuation().levels(lq)
            levels = levels[int(rng.integers(len(levels) - 1)):]
            return _Task(c, [(levels[0], _polish(lq, 2.0, rng)),
                             *((t, _polish(lq, 0.5, rng)) for t in levels[1:])], kind=kind)
        if kind == "annealed" and on_factor(lq):
            return _Task(c, [(1.0, self._cooling(lq, state)), polish], kind=kind, board=board)
        if kind == "annealed":
            grows = "path" in state.lowest or on_graph(lq)
            sweeps = self.sweeps * 2 ** min(state.anneals, LONGER) if grows else self.sweeps
            sweeps *= MANY if two_free_sides(lq) or (on_graph(lq) and lq.n > QUICK) else 1
            state.anneals += 1
            return _Task(c, [(1.0, Annealing(sweeps=sweeps)), polish], kind=kind, board=board)
        if on_factor(lq):
            return _Task(c, [polish], kind=kind, board=board)
        first = self._first(lq, state, kind, rng)
        return _Task(c, [(1.0, first), polish], kind=kind, board=board)

    def _first(self, lq: Any, state: _Pool, kind: str, rng: np.random.Generator) -> LabelSearch:
        """The search that makes a member of one of the quick kinds, before it is polished."""
        if kind == SECOND:
            return StochasticDescent(swaps=False)
        if kind == "walked":
            return self._walk(lq, state, rng)
        return self._shake(lq, state, rng)

    def _cooling(self, lq: LabelQuadratic, state: _Pool) -> Annealing:
        """Of few sweeps at first and then of more, at temperatures that need no pilot run."""
        sweeps, spread = max(ROUGH, round(DEAR * state.work)), factor_spread(lq)
        return Annealing(sweeps=min(sweeps, self.sweeps), hot=HOT * spread, cold=COLD * spread)

    def _count(self, lq: Any, state: _Pool, kind: str) -> None:
        """Count the work of making a member or a child."""
        cost = self._cost(lq, kind)
        state.work += cost
        state.dear += cost if kind == "annealed" else 0.0

    def _walk(self, lq: Any, state: _Pool, rng: np.random.Generator) -> LabelSearch:
        """A short walk at first; among paths, which are quick, the others are long ones."""
        if state.made and self._by_paths(lq):
            return Tabu(length=LONG, polish=False)
        return _polish(lq, WALK, rng)

    @staticmethod
    def _shake(lq: Any, state: _Pool, rng: np.random.Generator) -> LabelSearch:
        """Of two clusters each claims all samples first, which makes members good, but alike.

        So half of the later ones keep more of what they begin with.
        """
        keeps = lq.k == 2 and state.made > 0 and rng.random() < SHORT
        return Shaking(first=int(keeps))

    def _kind(self, lq: Any, state: _Pool) -> str:
        """By what the next member is made: shaken first, and then as has turned out well."""
        index, quick = state.made, self._quick(lq)
        if on_graph(lq):  # where annealing is by far the quickest
            return "walked" if index % 4 == 3 else "annealed"
        if on_factor(lq):  # shaken there means descended
            return "shaken" if index < 2 else "annealed"
        path, walked, annealed = (state.lowest.get(kind, math.inf)
                                  for kind in ("path", "walked", "annealed"))
        if self._by_paths(lq):
            walks = index % AMONG == 0 or (index > AMONG and walked < path) or too_late(lq)
            return "walked" if walks else "path"
        if index >= self._members(lq) and self._fails(lq, state):
            return "annealed"
        first: tuple[str, ...] = FIRST if lq.k == 2 else (FIRST[0], SECOND, *FIRST[1:])
        first = first[max(0, len(first) + 1 - quick):] + ("annealed",)
        if not self._affords(lq, state, "annealed"):
            first = first[:-1] or FIRST[:1]
        follows = index >= quick and quick < self._members(lq) and not too_late(lq) \
            and self._affords(lq, state, "path")
        if follows and not annealed < path < math.inf:
            return "path"
        due = follows or (lq.n > QUICK and annealed == math.inf and index >= len(first) - 1)
        if due and "annealed" in first:  # where it is better than paths, or was too dear before
            return "annealed"
        # In turn, then one of what did best and one of the others.
        known = {kind: value for kind, value in state.lowest.items() if kind in first}
        if index < len(first) or index % 2 == 1 or not known:
            return first[index % len(first)]
        return min(known, key=lambda kind: known[kind])

    def _affords(self, lq: Any, state: _Pool, kind: str) -> bool:
        """Whether a member of a large problem takes little of the work done so far.

        Annealed ones do together, and of paths the first, which makes the levels of all.
        """
        if lq.n <= QUICK or (kind == "path" and "path" in state.lowest):
            return True
        return state.dear + self._cost(lq, kind) <= DEAR * state.work

    def _members(self, lq: Any) -> int:
        """How many members there are to be."""
        return self.pool * (MORE if self._by_paths(lq) else 1)

    def _by_paths(self, lq: LabelProblem) -> bool:
        """Whether W is the smoother of a regression, of few samples, and nothing else is asked."""
        return isinstance(lq, LabelQuadratic) and self.path_share is None \
            and lq.spread is not None and lq.n <= min(QUICK, self.large) and not on_factor(lq)

    def _cost(self, lq: Any, kind: str) -> float:
        """About the work of making and polishing a member, or a child, in passes over W.

        On a factor it is that of descending, from which the sweeps of annealed members follow.
        """
        if on_factor(lq):
            return PASSES
        polish = 0.5 * (lq.k + 3)
        make = {"shaken": CLAIMS, "walked": WALK * (lq.k + 3),
                "annealed": self.sweeps * (CHANGED * (1 - 1 / lq.k) + 12.0 * lq.k / lq.n),
                "path": LEVELS * lq.n}
        return polish + make.get(kind, 3.0)

    def _quick(self, lq: LabelQuadratic) -> int:
        """Number of the members that follow no path; they come first."""
        share = SHARE if self.path_share is None else self.path_share
        members = self._members(lq)
        return members - (round(share * members) if lq.n <= self.large else 0)

    def _child(self, lq: Any, state: _Pool, rng: np.random.Generator) -> _Task | None:
        if self._way(lq, state, rng) == "shaken":
            return self._shaken(lq, state, rng)
        state.idle += 1
        state.stale += 1
        most = max(2, int(math.log(label_pool.BLOCKS) / math.log(lq.k)))
        count = min(int(rng.integers(2, most + 1)), len(state.members))
        parents = rng.choice(len(state.members), count, replace=False).tolist()
        if state.new and len(state.members) - 1 not in parents:
            parents[0] = len(state.members) - 1  # a new member has a child first
        state.new = False
        parents.sort(key=lambda q: state.values[q])
        if isinstance(lq, LabelRatio):
            made = ratio_pool.child(lq, [state.members[q] for q in parents], rng)
            return _Task(made, [(1.0, Hartigan())], child=True, kind="assembled")
        path: list[float] = []  # values of t that the child follows down to 1
        if "path" in state.lowest and rng.random() < SMOOTHED and not too_late(lq):
            path = Continuation().levels(lq)[:-1]
            path = path[int(rng.integers(len(path))):]
        first = lq.smooth(path[0]) if path else lq
        first = loosened(first) if state.loose else first
        found = label_pool.combine(first, [state.members[q] for q in parents], rng)
        if found is None:
            return None
        self._count(lq, state, "child")
        if state.loose:
            path.append(1.0)
        stages: list[Stage] = [*((t, _polish(lq, 0.5, rng)) for t in path),
                               (1.0, _polish(lq, self._length(lq, state), rng))]
        if two_free_sides(lq):
            hot, cold = pilot_temperatures(lq)
            warm = Annealing(sweeps=self.sweeps, hot=math.sqrt(hot * cold), cold=cold)
            stages.insert(0, (1.0, warm))
        return _Task(found[0], stages, child=True, kind="assembled", value=found[1])

    def _way(self, lq: Any, state: _Pool, rng: np.random.Generator) -> str:
        """How the next child is made: assembled, or each way as often as it was good.

        That is asked after a child that was not better, where there is another way.
        """
        if isinstance(lq, LabelRatio) or on_factor(lq) or on_graph(lq) or self._by_paths(lq) \
                or state.idle == 0:
            return "assembled"
        hope = {way: state.good[way] / state.tried[way] for way in WAYS}
        return "shaken" if rng.random() * sum(hope.values()) < hope["shaken"] else "assembled"

    def _shaken(self, lq: LabelQuadratic, state: _Pool, rng: np.random.Generator) -> _Task:
        """The best labels, of which a share is claimed anew: 1/2, 1/4, .. or one sample of each."""
        self._count(lq, state, "child")
        last = max(2, round(math.log2(lq.n / lq.k)))
        shake = Shaking(first=int(rng.integers(1, last + 1)))
        stages: list[Stage] = [(1.0, shake), (1.0, _polish(lq, self._length(lq, state), rng))]
        return _Task(state.best.copy(), stages, child=True, kind="shaken", value=state.value)

    def _length(self, lq: LabelQuadratic, state: _Pool) -> float:
        """Moves that polish a child, as a multiple of n: more after many that gave nothing."""
        doubled = max(0, state.idle - 1) * DEEPER // self._patience(lq)
        return max(0.5, MOVES / lq.n) * 2.0**doubled

    def _advance(self, lq: Any, state: _Pool, task: _Task,
                 rng: np.random.Generator) -> bool:
        """A step of the search under way; True when it was the last of the last one."""
        if task.state is None and task.stages[0][0] > 1.0 and too_late(lq):
            task.stages = task.stages[-1:]  # straight to the problem itself
            task.board = task.value = None
        t, search = task.stages[0]
        level = lq.smooth(t) if t > 1.0 else lq
        if state.loose and len(task.stages) > 1:
            level = loosened(level)
        elif state.loose and task.state is None:
            task.c, task.board, task.value = tightened(lq, task.c, rng), None, None
        if task.state is None:
            start = task.board or _board(level, task.c, task.value, rng)
            task.state = search.begin(level, start, rng).state
        elif search.outcome(level, task.state) is None:
            task.state = search.step(level, task.state, rng).state
            if level is lq and task.state.value < state.value:
                state.best, state.value = task.state.c.copy(), task.state.value
        if search.outcome(level, task.state) is None:
            return False
        if isinstance(task.state, Board):
            # The next search polishes; swaps, and a value in all digits, are for good labels.
            rounding = self.drift(lq, task.state.value)
            good = len(task.stages) == 1 and task.state.value <= state.value + rounding
            if good:
                self.descend(level, task.state, last=False)
            else:
                self.go_back(level, task.state)
        task.board, task.c, task.value = task.state, task.state.c, task.state.value
        task.state = None
        task.stages.pop(0)
        if task.stages and task.stages[0][0] != t:
            task.board = task.value = None
        if not task.stages:
            self._enter(lq, state, task)
        return not task.stages

    def _enter(self, lq: Any, state: _Pool, task: _Task) -> None:
        """Take the finished labels into the pool, where they belong there."""
        state.task = None
        c = task.c.copy()
        known = min(state.values, default=math.inf)
        value = self._seen(lq, state, c, task.value)
        if task.child:
            better = value < known - BETTER * abs(known)
            little = SLIGHT if on_factor(lq) else LITTLE
            much = better and value < known - little * state.spread
            state.idle = 0 if better else state.idle
            state.stale = 0 if much else state.stale
            state.tried[task.kind] += 1
            state.good[task.kind] += much
        likeness = [adjusted_rand_index(m, c) for m in state.members]
        if not task.child:
            full = state.made >= self._members(lq)
            state.last = state.last or (full and self._fails(lq, state))
            renewed = full and not self._fails(lq, state)
            state.made += 1
            state.stale = 0
            state.idle = state.idle if renewed else 0
            state.lowest[task.kind] = min(value, state.lowest.get(task.kind, math.inf))
            if max(likeness, default=0.0) < SAME:
                if renewed:
                    worst = state.values.index(max(state.values))
                    del state.members[worst], state.values[worst]
                state.new = True
                state.members.append(c)
                state.values.append(value)
            state.spread = max(state.values) - min(state.values)
            return
        alike = [q for q, a in enumerate(likeness) if a > SIMILAR]
        q = max(alike or range(len(state.members)), key=lambda q: state.values[q])
        if value < state.values[q] - BETTER * abs(value):
            state.members[q], state.values[q] = c, value

    @staticmethod
    def _seen(lq: Any, state: _Pool, c: Ints, value: float | None = None) -> float:
        found = float(lq.value(c) if value is None else value)
        if found < state.value or np.array_equal(c, state.best):
            state.best, state.value = c.copy(), found
        return found

    @staticmethod
    def _progress(lq: Any, state: _Pool) -> Progress:
        return Progress(state, lambda: lq.expand(state.best), state.value,
                        extras={"members": float(state.made), "idle": float(state.idle)})


def rough(lq: LabelQuadratic) -> LabelQuadratic:
    """The same problem, of which nobody knows that W is a smoother."""
    return replace(lq, spread=None)


def _board(lq: Any, c: Ints, value: float | None, rng: np.random.Generator) -> Any:
    if isinstance(lq, LabelRatio):
        return board_of(lq, c)
    if on_factor(lq):
        return factor_board(lq, c, rng)
    return new_board(lq, lq.repair(c.copy(), rng), rng, value)


def _polish(lq: LabelQuadratic, length: float, rng: np.random.Generator) -> LabelSearch:
    """A short walk, with the rest that it takes by default or one in proportion to n.

    On large smooth problems only the first gets out of the basin, on others the second.
    """
    if on_factor(lq):
        return StochasticDescent()
    tenure = None if rng.random() < SHORT else max(5, lq.n // 50)
    return Tabu(length=length, tenure=tenure, polish=False)
