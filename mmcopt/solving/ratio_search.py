"""What the searches of k-means and its kin share: their state, and starts far apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from mmcopt.capabilities import Capability, LabelRatio
from mmcopt.capabilities.matrices import LowRank
from mmcopt.modeling.result import Status
from mmcopt.solving.label_search import ONE_LABELING
from mmcopt.solving.runs import run
from mmcopt.solving.solver import Progress, Solver
from mmcopt.solving.states import within
from mmcopt.types import Floats, Ints

BLOCK = 2048  # nodes whose distances to all means are computed together
FEW_NODES = 1000  # of which squared distances are found all at once
LEAST = 1e-12  # of what the terms of the objective come to: gains that count
_warmed: set[tuple[Solver, bool]] = set()


@dataclass
class RatioBoard:
    """Labels, sizes, volumes and value; G[h] = W z_h and z_h'W z_h, or the means of the clusters.

    ``at`` is where in a pass over all nodes the search stands, or how many moves it has made,
    ``gained`` what the pass has gained. Where nodes have vectors, ``calm`` says of each up to which
    ``drift`` of the means it need not be looked at, and ``floor`` down to which volumes.
    """

    c: Ints
    sizes: Ints
    V: Floats
    value: float
    G: Floats | None = None
    q: Floats | None = None
    M: Floats | None = None
    at: int = 0
    gained: float = 0.0
    done: bool = False
    calm: Floats | None = None
    drift: float = 0.0
    floor: float = 0.0

    def restored(self, roots: Any) -> None:
        """Refuse a board from a file that is none of this problem."""
        ratio = roots["LabelProblem"]
        within("c", self.c, (ratio.n,), 0, ratio.k)
        within("sizes", self.sizes, (ratio.k,), 0, int(ratio.weights.sum()) + 1)
        if self.V.shape != (ratio.k,) or ratio.by_rows != (self.M is not None):
            raise ValueError("volumes, or means, are those of another problem")
        if self.calm is not None and self.calm.shape != (ratio.n,):
            raise ValueError(f"calm must have one number for each of {ratio.n} nodes")
        for cache in (self.M,) if ratio.by_rows else (self.G, self.q):
            if cache is None or len(cache) != ratio.k or cache.dtype != np.float64:
                raise ValueError(f"caches must have {ratio.k} rows of floats")

    def progress(self, ratio: LabelRatio) -> Progress:
        """The state as the driver wants it."""
        return Progress(self, lambda: ratio.expand(self.c), self.value)


def board_of(ratio: LabelRatio, c: Ints) -> RatioBoard:
    """The state of feasible labels, which the board takes over."""
    board = RatioBoard(c, np.bincount(c, ratio.weights, ratio.k).astype(np.int64),
                       np.bincount(c, ratio.volumes, ratio.k), 0.0)
    refresh(ratio, board)
    return board


def refresh(ratio: LabelRatio, board: RatioBoard) -> None:
    """Make volumes, caches and value anew from the labels, to all digits."""
    from mmcopt.compiled import label_moves, ratio_moves

    c, k = board.c, ratio.k
    board.V[:] = np.bincount(c, ratio.volumes, k)
    if not ratio.by_rows:
        board.G = label_moves.caches(ratio.matrix.dense(), c, k)
        board.q = ratio_moves.squares(c, board.G)
        board.value = ratio.constant - ratio.scale * float((board.q / board.V).sum())
        return
    board.M = means_of(ratio, c)
    size = np.einsum("ij,ij->i", board.M, board.M)
    board.value = ratio.constant - ratio.scale * float((board.V * size).sum())


def means_of(ratio: LabelRatio, c: Ints) -> Floats:
    """The means of clusters, of problems that go by vectors."""
    from scipy.sparse import csr_matrix

    B = csr_matrix((ratio.volumes, (c, np.arange(ratio.n))), shape=(ratio.k, ratio.n))
    return np.asarray((B @ ratio.means[0]) / np.bincount(c, ratio.volumes, ratio.k)[:, None])


def least_gain(ratio: LabelRatio) -> float:
    """Smallest change of the association that counts as one."""
    return LEAST * max(abs(ratio.constant) / abs(ratio.scale), ratio.mass / ratio.k)


def distances(ratio: LabelRatio, board: RatioBoard, rows: slice | Ints) -> Floats:
    """Squared distances of some nodes to the means of all clusters."""
    if board.M is not None:
        X, xx = ratio.means
        size = np.einsum("ij,ij->i", board.M, board.M)
        D = X[rows] @ board.M.T
        D *= -2.0
        D += size
        D += xx[rows, None]
        return D
    G, q = cast(Floats, board.G), cast(Floats, board.q)
    v = ratio.volumes[rows, None]
    own = ratio.matrix.diagonal()[rows, None] / v**2
    return np.asarray(q / board.V**2 - 2.0 * G[:, rows].T / v / board.V + own)


# ---------------------------------------------------------------- starts


def sown(ratio: LabelRatio, rng: np.random.Generator) -> Ints:
    """Labels by nodes far apart, drawn by their squared distance to those before (k-means++).

    Of a few that are drawn each time the one is taken that leaves the least (Arthur and
    Vassilvitskii, 2007). Rules are met by moves to other clusters.
    """
    from mmcopt.compiled.sowing import draw, nearer, sow

    n, v = ratio.n, ratio.volumes
    u = rng.random((ratio.k, 2 + int(math.log(ratio.k))))
    if n <= FEW_NODES:
        return ratio.repair(sow(ratio.distances, v, u), rng)
    D = apart(ratio, draw(v, np.ones(n), u[0, :1]))[0]
    near = np.zeros(n, dtype=np.int64)
    for h in range(1, ratio.k):
        some = draw(v, D, u[h])
        nearer(apart(ratio, some), np.arange(some.size), some, v, D, near, h)
    return ratio.repair(near, rng)


def apart(ratio: LabelRatio, some: Ints) -> Floats:
    """Squared distances of all nodes to some of them: a row for each of these."""
    if ratio.by_rows:
        X, xx = ratio.means
        D = X[some] @ X.T
        own = xx
    else:
        W, v = ratio.matrix.dense(), ratio.volumes
        D = W[some] / v[some, None] / v
        own = ratio.matrix.diagonal() / v**2
    D *= -2.0
    D += own
    D += own[some, None]
    return np.maximum(D, 0.0, out=D)


# ---------------------------------------------------------------- the base of the searches


def toy_ratio(by_rows: bool) -> LabelRatio:
    """Two clusters of random vectors: by W, with sizes, or just many enough to go by vectors."""
    from mmcopt.capabilities.label_ratio import ROWS_FROM

    A = np.random.default_rng(0).standard_normal((ROWS_FROM + 1 if by_rows else 12, 2))
    const = float((A * A).sum())
    if by_rows:
        return LabelRatio(LowRank(A), const=const, k=2)
    return LabelRatio(A @ A.T, const=const, k=2, low=5, high=7)  # so that nodes are swapped, too


@dataclass(frozen=True, kw_only=True)
class RatioSearch(Solver):
    """Base of the searches of `LabelRatio`: they start from feasible labels and keep them so."""

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelRatio,)

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is not None:
            return reason
        return ONE_LABELING if f.offer(LabelRatio).k == 1 else None

    def prepare(self, f: Any) -> None:
        ratio = f.offer(LabelRatio)
        warm(self, ratio)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        ratio = f.offer(LabelRatio)
        return ratio_start(ratio, init, rng).progress(ratio)

    def outcome(self, f: Any, state: Any) -> Status | None:
        return Status.CONVERGED if state.done else None


def warm(search: Solver, ratio: LabelRatio) -> None:
    """Make what a search works on, and compile its loops on a toy, unless that was done."""
    by_rows = ratio.by_rows
    if by_rows:
        ratio.means  # noqa: B018 (kept)
    else:
        ratio.matrix.dense()
    toy = toy_ratio(by_rows)
    if (search, by_rows) not in _warmed and search.refuses(toy) is None:
        run(search, toy, None, np.random.default_rng(0), max_iter=30)
        _warmed.add((search, by_rows))


def ratio_start(ratio: LabelRatio, init: Any, rng: np.random.Generator) -> RatioBoard:
    """A board for sown labels, or the given ones made feasible, or that of another search."""
    if isinstance(init, RatioBoard):
        init.at, init.gained, init.done, init.calm = 0, 0.0, False, None
        return init
    if init is None:
        return board_of(ratio, sown(ratio, rng))
    return board_of(ratio, ratio.repair(ratio.reduce(np.asarray(init)).copy(), rng))
