"""What the label searches share: the working state `Board` and the base class `LabelSearch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import Capability, LabelProblem, LabelQuadratic
from mmcopt.modeling.result import Status
from mmcopt.solving.graph_search import on_graph, searched, toy_graph
from mmcopt.solving.runs import out_of_time, run, seconds_left
from mmcopt.solving.solver import Progress, Solver
from mmcopt.solving.states import shaped, within
from mmcopt.types import Floats, Ints

ALL_DIGITS = 2000  # nodes up to which the first value of a search is computed in O(n^2)
RATE = 1.5e10  # operations a second that a Cholesky inverse is reckoned with
PART = 100_000_000  # scores looked at in a part of a descent, between two looks at the clock
DENSE_LIMIT = 20_000  # nodes up to which a factor may be made dense for a search
LISTS_FROM = 5_000  # nodes from which a sparse W is never made dense for a search
ONE_LABELING = "with one cluster there is one labeling, and nothing to search."


@dataclass
class Board:
    """State of a label search: labels, caches G[h] = W z_h, sizes, and the objective they have.

    ``value`` follows the gains of the compiled loops; a new best is taken from the caches, and
    from W itself at the end of a search, because gains in float32 drift.
    """

    c: Ints
    G: Floats
    sizes: Ints
    value: float
    best: float
    best_c: Ints
    rng: NDArray[np.uint64]
    count: int = 0
    done: bool = False

    def restored(self, roots: Any) -> None:
        """Refuse a board from a file that is none of this problem."""
        lq = roots["LabelQuadratic"]
        for name in ("c", "best_c"):
            within(name, getattr(self, name), (lq.n,), 0, lq.k)
        shaped("G", self.G, (lq.k, lq.n), lq.dtype)
        shaped("rng", self.rng, (1,), np.uint64)
        within("sizes", self.sizes, (lq.k,), 0, int(lq.weights.sum()) + 1)

    def gained(self, lq: LabelQuadratic, gain: float) -> None:
        """Book a gain of the association A, in the units of the objective."""
        self.value -= lq.scale * gain
        if self.value < self.best:
            self.value = cached_value(lq, self.c, self.G)
            if self.value < self.best:
                self.best = self.value
                self.best_c[:] = self.c

    def settle(self, lq: LabelQuadratic) -> None:
        """Compute the value of the labels in float64, in O(n^2)."""
        self.value = self.best = lq.value(self.c)
        self.best_c[:] = self.c

    def progress(self, lq: LabelQuadratic, **extras: float) -> Progress:
        """The state as the driver wants it; labels are copied only when they are wanted."""
        return Progress(self, lambda: lq.expand(self.c), self.value, extras=extras)


def random_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """A nonzero state for the compiled generator."""
    return np.array([rng.integers(1, 2**63)], dtype=np.uint64)


def working_matrix(lq: LabelQuadratic) -> Floats:
    """W in the precision that the searches work in."""
    return lq.matrix.dense(lq.dtype)


def row_least(lq: LabelQuadratic) -> Floats:
    """The smallest entry of each row of W, which prunes swaps; kept."""
    from mmcopt.compiled import label_moves

    key = ("row least", np.dtype(lq.dtype).name)
    if key not in lq._memo:
        lq._memo[key] = label_moves.row_least(working_matrix(lq))
    return np.asarray(lq._memo[key])


def start_labels(lq: LabelQuadratic, init: Any, rng: np.random.Generator) -> Ints:
    """Feasible node labels: random ones, or the given ones repaired."""
    if init is None:
        return lq.random_labels(rng)
    return lq.repair(lq.reduce(np.asarray(init)), rng)


def cached_value(lq: LabelQuadratic, c: Ints, G: Floats) -> float:
    """Objective of labels with caches G, in O(n), to the digits that the caches have."""
    return lq.constant - lq.scale * float(G[c, np.arange(c.size)].sum(dtype=np.float64))


def new_board(lq: LabelQuadratic, c: Ints, rng: np.random.Generator,
              value: float | None = None) -> Board:
    """Caches for labels, which the board takes over, and their value where it is not known.

    Of many nodes the value is taken from the caches: all digits would cost more than they do.
    """
    from mmcopt.compiled import label_moves

    loops, W, _ = searched(lq)
    G = loops.caches(W, c, lq.k)
    if value is None:
        value = lq.value(c) if lq.n <= ALL_DIGITS else cached_value(lq, c, G)
    sizes = label_moves.cluster_sizes(c, lq.weights, lq.k)
    return Board(c, G, sizes, value, value, c.copy(), random_state(rng))


def too_late(lq: LabelQuadratic) -> bool:
    """Whether the inverse of a smoothed problem, which has no parts, would overrun the deadline."""
    return lq.matrix.is_dense and seconds_left() < 2.0 * lq.n**3 / RATE


_warmed: set[tuple[Solver, Any, str]] = set()


def toy_problem(dtype: Any) -> LabelQuadratic:
    """Two clusters of random vectors, small, with searches that work in ``dtype``."""
    single = dtype == np.float32
    A = np.random.default_rng(0).standard_normal((40 if single else 12, 5)) / 20
    return LabelQuadratic(A @ A.T, k=2, single=single, spread=(0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class LabelSearch(Solver):
    """Base of the searches over labels: they start from feasible labels and keep them feasible."""

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelQuadratic,)
    lists: ClassVar[bool] = False  # whether it works on lists of neighbours, never on a dense W

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is not None:
            return reason
        lq = f.offer(LabelQuadratic)
        if lq.k == 1:
            return ONE_LABELING
        if lq.n > LISTS_FROM and on_graph(lq) and not self.lists:
            return (f"it needs all {lq.n} x {lq.n} entries of W, which is sparse; Memetic, "
                    "Annealing, Tabu and StochasticDescent work on its lists of neighbours.")
        if not lq.matrix.is_dense and lq.n > DENSE_LIMIT:
            return (f"it needs all {lq.n} x {lq.n} entries of W, which is held as a factor; "
                    "Memetic, Annealing, StochasticDescent and Evolutionary(mu=1, nu=1) work on "
                    "the factor.")
        return None

    def prepare(self, f: Any) -> None:
        lq = f.offer(LabelQuadratic)
        if self.lists and on_graph(lq):
            self.warm_once(lq.dtype, lambda: toy_graph(lq.dtype), "graph")
            return
        working_matrix(lq)
        self.warm_once(lq.dtype, lambda: toy_problem(lq.dtype))

    def warm_once(self, dtype: Any, toy: Callable[[], LabelQuadratic], form: str = "dense") -> None:
        """Warm this search for a precision and a form of W, unless that was done before."""
        if (self, dtype, form) not in _warmed:
            self.warm(toy())
            _warmed.add((self, dtype, form))

    def warm(self, toy: LabelQuadratic) -> None:
        """Run once on a toy problem of the same precision, so that all loops are compiled."""
        run(self, toy, None, np.random.default_rng(0), max_iter=30)

    def outcome(self, f: Any, state: Any) -> Status | None:
        return Status.CONVERGED if state.done else None

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        return self.board(lq, init, rng).progress(lq)

    @staticmethod
    def board(lq: LabelQuadratic, init: Any, rng: np.random.Generator) -> Board:
        """A board for a start, or the one that an earlier search on this problem leaves."""
        if isinstance(init, Board):
            init.count, init.done = 0, False
            return init
        return new_board(lq, start_labels(lq, init, rng), rng)

    @staticmethod
    def go_back(lq: LabelQuadratic, board: Board) -> None:
        """Go back to the best labels met."""
        from mmcopt.compiled import label_moves

        if board.value > board.best:
            board.c[:] = board.best_c
            board.value = board.best
            loops, W, _ = searched(lq)
            board.G[:] = loops.caches(W, board.c, lq.k)
            board.sizes[:] = label_moves.cluster_sizes(board.c, lq.weights, lq.k)

    def descend(self, lq: LabelQuadratic, board: Board, last: bool = True) -> Progress:
        """Go back to the best labels met and descend to a local optimum of moves and swaps.

        On lists of neighbours it is one of moves. After the deadline a part of the moves and of the
        swaps is made, about .1 s of each. Where it is not the ``last`` of a search, the value has
        the digits of the caches only.
        """
        from mmcopt.compiled import label_moves

        self.go_back(lq, board)
        if on_graph(lq):
            loops, W, rules = searched(lq)
            while loops.sweep(W, board.c, board.G, board.sizes, rules) > 0.0 and not out_of_time():
                pass
            return self.settled(lq, board)
        state = working_matrix(lq), board.c, board.G, board.sizes, lq.rules()
        moves, swaps = (max(1, PART // (lq.n * m)) for m in (lq.k, lq.n))
        while label_moves.steepest(*state, moves) > 0.0 and not out_of_time():
            pass
        while label_moves.descend(*state, swaps, row_least(lq)) > 0.0 and not out_of_time():
            pass
        if last or lq.n <= ALL_DIGITS:
            board.settle(lq)
        else:
            board.value = board.best = cached_value(lq, board.c, board.G)
            board.best_c[:] = board.c
        return board.progress(lq)

    @staticmethod
    def settled(lq: LabelQuadratic, board: Board) -> Progress:
        """The end of a search that is not polished: its value in all digits."""
        board.settle(lq)
        return board.progress(lq)

    def drift(self, f: Any, objective: float) -> float:
        """Rounding of sums of n terms in the working precision, as they come on average."""
        lq = f.offer(LabelProblem)
        unit = float(np.finfo(lq.dtype).eps)
        size = abs(lq.constant) + abs(lq.constant - objective)
        return unit * float(np.sqrt(lq.n)) * size + super().drift(f, objective)
