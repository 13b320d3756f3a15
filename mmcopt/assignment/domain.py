"""The domain of a one-class model, and how low its decision function falls between samples.

f(x) = sum_i a_i k(x_i, x) - 1, and the domain is where f >= 0. For the Gaussian kernel, f changes
over lengths of about 1 / sqrt(gamma): sample points at most `SPACING` of that apart see its minimum
along a segment to within about .002, so the number of points that are tried grows with the length,
up to `MOST`. Longer segments are sampled more thinly, at places without a period of their own, so
that regular data cannot hide a gap from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import is_sparse, unpacked
from mmcopt.errors import DataError
from mmcopt.kernels.neighbors import nearest
from mmcopt.kernels.on_demand import Gaussians
from mmcopt.types import Floats, Ints

SPACING = 0.1  # of two sample points, in units of 1 / sqrt(gamma)
FEWEST, MOST = 3, 50  # sample points of a segment
GOLDEN = 0.6180339887498949
COARSE = 7  # sample points that a long segment is first tried at
POINTS = 200_000  # sample points held at a time
LOW, COMPONENTS, EDGES = 600, 100, 1000  # see `bridges`


@dataclass(frozen=True, eq=False)
class Domain:
    """A solved one-class problem as a set in the space of the data: ``f >= 0``.

    Made by `Domain.of` from a result, or from a problem and its point.
    """

    problem: Any = field(repr=False)
    point: Floats = field(repr=False)
    f: Floats = field(repr=False)  # at the n samples
    places: Floats = field(repr=False)  # (n, d): the samples in coordinates of our own
    shift: Any = field(repr=False)  # original coordinates minus our own
    gamma: float | None  # of a Gaussian kernel
    support: Ints = field(repr=False)  # samples of positive weight

    @classmethod
    def of(cls, given: Any) -> Self:
        """The domain of a `Result`, of a pair (problem, point), or the domain itself."""
        if isinstance(given, cls):
            return given
        problem, point = given if isinstance(given, tuple) else (given.formulation, given.point)
        if not hasattr(problem, "rows") or not hasattr(problem, "scores"):
            raise DataError("clusters are read from the decision function of a one-class problem, "
                            f"such as OneClassHinge; got a solution of {type(problem).__name__}.")
        if point is None:
            raise DataError("this result holds no point, so it has no decision function; its "
                            "message says why.")
        if hasattr(problem, "half_space"):  # the same domain, as a level of w'phi
            problem, point = problem.half_space(point)
        a = np.asarray(point, dtype=np.float64)
        gaussian = problem.rows.gaussian
        if gaussian is None:
            places, shift, gamma = _dense(problem), 0.0, None
        else:
            places = np.ascontiguousarray(gaussian.XT.T)
            shift, gamma = np.asarray(problem.X[0], dtype=np.float64) - places[0], gaussian.gamma
        f = np.asarray(problem.scores(a)) - 1.0
        return cls(problem, a, f, places, shift, gamma, np.flatnonzero(a))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.f)

    @property
    def X(self) -> Any:
        """The samples as they were given."""
        return self.problem.X

    def value(self, points: Any) -> Floats:
        """The value of f at points (m, d) of the original space."""
        return np.asarray(self.problem.decision_function(self.point, points))

    def placed(self, points: Any) -> Floats:
        """Points in the coordinates of ``places``."""
        fitted = self.problem.rows.fitted
        rows = fitted.accept(points)
        if self.gamma is not None:
            return np.asarray(fitted.placed(rows))
        return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)

    def at(self, places: Floats) -> Floats:
        """The value of f at points in the coordinates of ``places``."""
        if self.gamma is None:
            return self.value(places)
        columns = np.ascontiguousarray(places.T)
        weights = np.ascontiguousarray(self.point[self.support])
        return Gaussians(columns, self.gamma).sums(self.places[self.support], weights) - 1.0

    # ------------------------------------------------------------ segments

    def steps(self, length: Floats) -> Ints:
        """How many sample points segments need: one each `SPACING` / sqrt(gamma), 3 to 50.

        Another kernel than the Gaussian has no such length, and gets the 20 of the paper.
        """
        if self.gamma is None:
            return np.full(len(length), 20, dtype=np.int64)
        needed = np.ceil(length * (math.sqrt(self.gamma) / SPACING)) - 1.0
        return np.clip(needed, FEWEST, MOST).astype(np.int64)

    def lowest(self, P: Floats, i: Ints, j: Ints, m: Ints) -> Floats:
        """Least f over m equally spaced points between the places P[i] and P[j]."""
        out, ends = np.empty(len(i)), np.cumsum(m)
        start = 0
        while start < len(i):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + POINTS, side="right")))
            part = slice(start, stop)
            out[part] = self._lowest(P[i[part]], P[j[part]], m[part])
            start = stop
        return out

    def clear(self, P: Floats, i: Ints, j: Ints, length: Floats, level: float) -> NDArray[np.bool_]:
        """Whether f >= level at all sample points of segments; long ones are first tried at few."""
        m = self.steps(length)
        ok = self.lowest(P, i, j, np.minimum(m, COARSE)) >= level
        rest = np.flatnonzero(ok & (m > COARSE))
        ok[rest] = self.lowest(P, i[rest], j[rest], m[rest]) >= level
        return np.asarray(ok)

    def _lowest(self, A: Floats, B: Floats, m: Ints) -> Floats:
        first = np.cumsum(m) - m
        edge = np.repeat(np.arange(len(m)), m)
        place = np.arange(len(edge)) - first[edge] + 1
        t = place / (m[edge] + 1.0)
        long = m[edge] >= MOST  # too few points for the length: at places that fit no lattice
        t[long] = np.modf(place[long] * GOLDEN)[0]
        t = t[:, None]
        return np.asarray(np.minimum.reduceat(self.at(A[edge] * (1 - t) + B[edge] * t), first))

    # ------------------------------------------------------------ equilibria

    def require_gaussian(self, who: str) -> float:
        """Gamma, or an error that says what to do without it."""
        if self.gamma is None:
            raise DataError(f"{who} follows f uphill by the fixed points of the Gaussian kernel; "
                            f"got {self.problem.kernel!r}. Use graph or level_tree, which take "
                            "any kernel.")
        return self.gamma

    def _pulls(self, places: Floats) -> tuple[Floats, Floats]:
        gamma = self.require_gaussian("the fixed point map")
        S = np.ascontiguousarray(self.places[self.support])
        return Gaussians(S.T.copy(), gamma).rows(places) * self.point[self.support], S

    def ascend(self, places: Floats) -> Floats:
        """The fixed point map P(x) = sum_i a_i k(x_i, x) x_i / sum_i a_i k(x_i, x).

        f never falls from x to P(x), and P(x) = x where its gradient is zero. A point so far away
        that all kernel values vanish stays where it is. Works in the coordinates of ``places``.
        """
        pull, S = self._pulls(places)
        total = pull.sum(axis=1, keepdims=True)
        moved = total > 1e-280
        return np.where(moved, (pull @ S) / np.where(moved, total, 1.0), places)

    def gradient(self, points: Any) -> Floats:
        """Gradient of f at points (m, d): 2 gamma sum_i a_i k(x_i, x) (x_i - x)."""
        gamma, x = self.require_gaussian("the gradient"), self.placed(points)
        pull, S = self._pulls(x)
        return 2.0 * gamma * (pull @ S - pull.sum(axis=1, keepdims=True) * x)

    def curvatures(self, points: Any) -> Floats:
        """Eigenvalues of the Hessian of f at points (m, d), ascending.

        An equilibrium is stable, a maximum of f that trajectories run into, when all are negative.
        """
        gamma, x = self.require_gaussian("the Hessian"), self.placed(points)
        pull, S = self._pulls(x)
        out = np.empty(x.shape)
        for row in range(len(x)):
            to = S - x[row]
            H = 4.0 * gamma**2 * (to.T * pull[row]) @ to
            H[np.diag_indices(len(H))] -= 2.0 * gamma * pull[row].sum()
            out[row] = np.linalg.eigvalsh(H)
        return out

    def stable(self, points: Any) -> NDArray[np.bool_]:
        """Whether equilibria are stable: all `curvatures` negative."""
        return np.asarray(self.curvatures(points).max(axis=1) < 0.0)


def _dense(problem: Any) -> Floats:
    if problem.kernel.reads_matrix:
        raise DataError("clusters are parts of the space of the features, which a Precomputed "
                        "kernel does not show; give the features and a kernel of them.")
    return unpacked(problem.X)


# ---------------------------------------------------------------- neighbours


def lengths(P: Floats, i: Ints, j: Ints) -> Floats:
    """Distances between the places P[i] and P[j]."""
    return np.asarray(np.sqrt(np.square(P[i] - P[j]).sum(axis=1)))


def neighbour_edges(P: Floats, k: int) -> tuple[Ints, Ints]:
    """Edges i < j between each point and its k nearest, without repetition."""
    n = len(P)
    near = nearest(P, P, k + 1)
    i, j = np.repeat(np.arange(n), near.shape[1]), near.ravel()
    low, high = np.minimum(i, j), np.maximum(i, j)
    code = np.unique(low[low < high] * n + high[low < high])
    return code // n, code % n


def bridges(P: Floats, f: Floats, parts: Ints) -> tuple[Ints, Ints]:
    """The shortest edges between the parts that a graph of neighbours falls into.

    Neighbours of a sample deep in a large part are all of that part, so a graph of neighbours may
    miss where two parts meet. They meet near the boundary of the domain, so the samples of lowest f
    of each part are compared, about `LOW` in all: each with the nearest of every other part, and of
    these edges the shortest for each two parts, about `EDGES` in all. Of more than `COMPONENTS`
    parts the largest are looked at; small ones have neighbours in others.
    """
    from scipy.spatial.distance import cdist

    sizes = np.bincount(parts)
    if len(sizes) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = np.argsort(-sizes, kind="stable")[:COMPONENTS]
    each = min(max(5, LOW // len(chosen)), 100)
    order = np.lexsort((f, parts))
    rank = np.arange(len(P)) - (np.cumsum(sizes) - sizes)[parts[order]]
    kept = order[(rank < each) & np.isin(parts[order], chosen)]
    D, part, rows, columns = cdist(P[kept], P[kept]), parts[kept], [], []
    for c in chosen:
        here, others = np.flatnonzero(part == c), np.flatnonzero(part != c)
        rows.append(others)
        columns.append(here[np.argmin(D[others, here[0]:here[-1] + 1], axis=1)])
    i, j = np.concatenate(rows), np.concatenate(columns)
    i, j = np.divmod(np.unique(np.minimum(i, j) * len(kept) + np.maximum(i, j)), len(kept))
    pair = part[i] * len(sizes) + part[j]  # kept is sorted by part, so part[i] < part[j]
    order = np.lexsort((D[i, j], pair))
    i, j, pair = i[order], j[order], pair[order]
    new = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
    rank = np.arange(len(pair)) - np.repeat(new, np.diff(np.r_[new, len(pair)]))
    take = rank < max(3, EDGES // len(new))
    i, j = kept[i[take]], kept[j[take]]
    return np.minimum(i, j), np.maximum(i, j)


def joined(n: int, i: Ints, j: Ints) -> Ints:
    """Which connected part of a graph of n vertices each vertex is in."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def by_size(parts: Ints) -> Ints:
    """Number parts from the largest to the smallest; of equal ones the first sample decides."""
    _, first, codes, sizes = np.unique(parts, return_index=True, return_inverse=True,
                                       return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    return rank[codes.reshape(-1)]
