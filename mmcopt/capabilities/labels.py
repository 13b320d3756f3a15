"""The capability of label problems that are quadratic: most of the searches and bounds need it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities.base import Capability
from mmcopt.capabilities.feasible_labels import find_labels
from mmcopt.capabilities.matrices import Dense, LowRank, Symmetric, as_symmetric
from mmcopt.errors import DataError, InfeasibleError, ParameterError
from mmcopt.linalg import largest_eigenvalue, smallest_eigenvalue, spd_inverse
from mmcopt.types import Floats, Ints

FLAT = 1e-12  # relative: a spread of eigenvalues that is rounding
ROWS = 256  # of a matrix that are looked at together
SINGLE_FROM = 1000  # nodes above which smoothed problems are made in the working precision


@dataclass(frozen=True, eq=False)
class LabelQuadratic(Capability):
    """Minimise ``const - scale * sum_h z_h' W z_h`` over labels, z_h the indicator of cluster h.

    W is an n x n symmetric array (dense, sparse, or a `LowRank` factor); ``weights`` counts the
    samples that a node stands for, ``low`` and ``high`` bound the weight of each cluster,
    ``fixed`` holds given labels (-1: free), ``apart`` the pairs of nodes that may not share a
    cluster. ``groups`` maps the points of whoever made the offer to nodes, when the two differ.
    ``spread`` bounds the eigenvalues of W from below and above; ``trivial`` is a lower bound that
    costs nothing; ``single`` says that float32 is precise enough for searching. ``kernel`` makes
    the kernel matrix of the points, where there is one, for methods that compare with k-means.
    ``rounding`` says how far the objective by W and that of the exact data may be apart: a share of
    it, and an absolute part.

    >>> import numpy as np
    >>> lq = LabelQuadratic(np.array([[2., 1., 0.], [1., 2., 0.], [0., 0., 1.]]), const=9.0, k=2)
    >>> lq.value(np.array([0, 0, 1]))
    2.0
    """

    W: Any
    const: float | Callable[[], float] = 0.0
    k: int = 2
    weights: Any = None
    low: Any = None
    high: Any = None
    fixed: Any = None
    apart: Any = None
    scale: float = 1.0
    groups: Any = None
    spread: tuple[float, float] | None = None
    trivial: float | Callable[[], float] | None = None
    single: bool | Callable[[], bool] = False
    rounding: Callable[[], tuple[float, float]] | None = None
    kernel: Callable[[], Floats] | None = None
    kernel_words: str | Callable[[], str] = "as given"

    def __post_init__(self) -> None:
        W = as_symmetric(self.W)
        n, k = W.n, self.k
        put = functools.partial(object.__setattr__, self)
        put("W", W)
        weights = _ints(self.weights, n, 1)
        put("weights", weights)
        put("low", np.maximum(_ints(self.low, k, 1), 1))
        put("high", _ints(self.high, k, int(weights.sum())))
        put("fixed", _ints(self.fixed, n, -1))
        apart = np.empty((0, 2), np.int64) if self.apart is None else np.asarray(self.apart)
        put("apart", apart.astype(np.int64).reshape(-1, 2))
        put("_cache", {})
        fixed = np.asarray(self.fixed)
        wrong = fixed[(fixed < -1) | (fixed >= k)]
        if wrong.size:
            raise ParameterError(f"LabelQuadratic: fixed must hold labels 0..{k - 1}, or -1 where "
                                 f"free; got {wrong[0]}.")
        pairs = np.asarray(self.apart)
        odd = pairs[((pairs < 0) | (pairs >= n)).any(axis=1) | (pairs[:, 0] == pairs[:, 1])]
        if odd.size:
            raise ParameterError("LabelQuadratic: apart must hold pairs of different nodes "
                                 f"0..{n - 1}; got ({odd[0, 0]}, {odd[0, 1]}).")
        if weights.min() < 1:
            raise ParameterError("LabelQuadratic: weights must be at least 1; "
                                 f"got {weights.min()}.")
        if n < k:
            raise InfeasibleError(f"{n} nodes cannot fill {k} clusters.")

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.W.n)

    @property
    def matrix(self) -> Symmetric:
        """W behind its common face."""
        return self.W

    @property
    def constant(self) -> float:
        """The constant of the objective, as a number."""
        if "const" not in self._memo:
            self._memo["const"] = self.const() if callable(self.const) else float(self.const)
        return float(self._memo["const"])

    @property
    def trivial_bound(self) -> float | None:
        """A lower bound that needs no computation, or None."""
        return self.trivial() if callable(self.trivial) else self.trivial

    @property
    def mass(self) -> float:
        """Bound on the sum of |W_ij|, to which the rounding of sums over W is relative."""
        if "mass" not in self._memo:
            Psi = self.matrix.factor()
            if Psi is not None:
                size = float(np.square(np.abs(Psi).sum(axis=0, dtype=np.float64)).sum())
            else:
                W = self.matrix.dense()
                size = float(sum(np.abs(W[i:i + ROWS]).sum() for i in range(0, len(W), ROWS)))
            self._memo["mass"] = size
        return float(self._memo["mass"])

    @property
    def magnitude(self) -> float:
        """What the terms of the objective come to, at the most."""
        return abs(self.constant) + abs(self.scale) * self.mass

    @property
    def _memo(self) -> dict[Any, Any]:
        return self.__dict__["_cache"]

    @property
    def dtype(self) -> Any:
        """Working precision of the searches."""
        if "dtype" not in self._memo:
            single = self.single() if callable(self.single) else self.single
            self._memo["dtype"] = np.float32 if single else np.float64
        return self._memo["dtype"]

    @property
    def symmetric(self) -> bool:
        """Whether renaming the clusters changes nothing."""
        return bool((self.low == self.low[0]).all() and (self.high == self.high[0]).all()
                    and (self.fixed < 0).all())

    # ------------------------------------------------------------ values

    def safe(self, bound: float) -> float:
        """A lower bound of the problem by W less the rounding of W: a bound for the exact data."""
        if self.rounding is None or not math.isfinite(bound):
            return bound
        share, part = self.rounding()
        return bound - share * abs(bound) - part

    def value(self, c: Ints) -> float:
        """Objective of node labels, in float64."""
        c = np.asarray(c, dtype=np.int64)
        return self.constant - self.scale * self.matrix.within(c, self.k)

    def objective(self, point: Ints) -> float:
        """Objective of a point of whoever made the offer."""
        return self.value(self.reduce(point))

    def labels(self, point: Ints) -> Ints:
        """The labels of a point: themselves."""
        return point

    def violation(self, point: Ints) -> float:
        """Largest violation of a constraint by a point; sizes count in samples."""
        c = self.reduce(point)
        sizes = np.bincount(c, weights=self.weights, minlength=self.k)
        worst = max(0.0, float((self.low - sizes).max()), float((sizes - self.high).max()))
        broken = bool(((self.fixed >= 0) & (c != self.fixed)).any())
        broken |= bool((c[self.apart[:, 0]] == c[self.apart[:, 1]]).any())
        broken |= bool((self.expand(c) != point).any())
        return max(worst, float(broken))

    # ------------------------------------------------------------ labels

    def expand(self, c: Ints) -> Ints:
        """Node labels -> labels of the points of whoever made the offer."""
        return c.copy() if self.groups is None else c[self.groups]

    def reduce(self, labels: Ints) -> Ints:
        """Labels of the points -> node labels (that of the first point of each node)."""
        labels = np.asarray(labels, dtype=np.int64)
        if self.groups is None:
            if labels.shape != (self.n,):
                raise DataError(f"labels must have shape ({self.n},); got {labels.shape}.")
            return labels
        c = np.empty(self.n, dtype=np.int64)
        c[self.groups[::-1]] = labels[::-1]
        return c

    def random_labels(self, rng: np.random.Generator) -> Ints:
        """Random feasible node labels."""
        return find_labels(self.weights, self.low, self.high, self.fixed, self.apart, rng)

    def repair(self, c: Ints, rng: np.random.Generator) -> Ints:
        """Feasible node labels near ``c``: moves that lose least, else a fresh random start."""
        from mmcopt.compiled import label_moves

        c = np.where(self.fixed >= 0, self.fixed, c).astype(np.int64)
        if self.violation(self.expand(c)) == 0.0:
            return c
        if self.matrix.is_dense:
            W = self.matrix.dense(self.dtype)
            G = label_moves.caches(W, c, self.k)
            sizes = label_moves.cluster_sizes(c, self.weights, self.k)
            if label_moves.repair(W, c, G, sizes, self.rules()):
                return c
        return find_labels(self.weights, self.low, self.high, self.fixed, self.apart, rng, start=c)

    def rules(self) -> Any:
        """The constraints as the tuple of arrays that the compiled loops take."""
        if "rules" not in self._memo:
            from mmcopt.compiled.label_moves import Rules

            both = np.concatenate([self.apart, self.apart[:, ::-1]])
            both = both[np.argsort(both[:, 0], kind="stable")]
            counts = np.bincount(both[:, 0], minlength=self.n)
            ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            plain = int((self.weights == 1).all() and not len(self.apart))
            self._memo["rules"] = Rules(self.weights, self.low, self.high, self.fixed, ptr,
                                        np.ascontiguousarray(both[:, 1]), plain)
        return self._memo["rules"]

    # ------------------------------------------------------------ other problems

    def contract(self, groups: Ints, dtype: Any = np.float64) -> LabelQuadratic:
        """The same problem with the nodes of each group merged into one.

        Merged nodes share a label, so must-links, intersections of partitions and micro-cells are
        all contractions. Groups must not hold two different fixed labels or a cannot-link.
        ``dtype`` names the copy of W to read, and the working precision of the result.
        """
        groups = np.asarray(groups, dtype=np.int64)
        m = int(groups.max()) + 1
        fixed = np.full(m, -1, dtype=np.int64)
        held = self.fixed >= 0
        fixed[groups[held]] = self.fixed[held]
        if (fixed[groups[held]] != self.fixed[held]).any():
            raise InfeasibleError("a group to merge holds two different fixed labels.")
        apart = np.unique(np.sort(groups[self.apart], axis=1), axis=0)
        if (apart[:, 0] == apart[:, 1]).any():
            raise InfeasibleError("a group to merge holds a cannot-link.")
        weights = np.bincount(groups, weights=self.weights, minlength=m).astype(np.int64)
        return dataclasses.replace(
            self, W=self.matrix.contract(groups, m, dtype), const=self.constant, weights=weights,
            fixed=fixed, apart=apart, groups=groups, spread=None, single=dtype == np.float32,
            kernel=None)

    def subset(self, rows: Ints) -> LabelQuadratic:
        """The problem on some of the nodes, size bounds scaled with their share of the weight.

        W is not recomputed: for R = K (K + lam I)^-1 its submatrix is, up to a factor and the
        sampling of rows, that of the smaller problem at lam m / n.
        """
        weights = self.weights[rows]
        share = weights.sum() / self.weights.sum()
        place = np.full(self.n, -1, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        apart = place[self.apart]
        return dataclasses.replace(
            self, W=self.matrix.subset(rows), const=0.0, weights=weights, groups=None,
            low=np.maximum(1, np.floor(share * self.low)).astype(np.int64),
            high=np.ceil(share * self.high).astype(np.int64), fixed=self.fixed[rows],
            apart=apart[(apart >= 0).all(axis=1)], trivial=None, kernel=None)

    def smooth(self, t: float) -> LabelQuadratic:
        """The problem with W replaced by W_t = S (S + t (I - S))^-1, S = W scaled into [0, I].

        For W = K (K + lam I)^-1 this is the problem at ``t * lam``: larger t keeps fewer
        directions of W alive, and the landscape has fewer local optima (graduated
        non-convexity). One Cholesky inverse: W_t = (t A^-1 - I) / (t - 1), A = t I - (t - 1) S.
        Held in the working precision, and kept.
        """
        if t <= 1.0:
            return self
        if ("smooth", t) in self._memo:
            return self._memo["smooth", t]
        if isinstance(self.matrix, LowRank):
            out = dataclasses.replace(self, W=self.matrix.smoothed(t, self.dtype), trivial=None)
            self._memo["smooth", t] = out
            return out
        # Single precision where it is enough for searching and saves time worth speaking of.
        W = self.matrix.dense(self.dtype if self.n > SINGLE_FROM else np.float64)
        low, high = self.spread or (smallest_eigenvalue(W), largest_eigenvalue(W))
        if high - low <= FLAT * max(abs(low), abs(high)):  # a multiple of I has no directions
            return self
        A = W * (-(t - 1.0) / (high - low))
        diagonal = np.diag_indices(self.n)
        A[diagonal] += t + (t - 1.0) * low / (high - low)
        Wt = spd_inverse(A)
        Wt *= t / (t - 1.0)
        Wt[diagonal] -= 1.0 / (t - 1.0)
        out = dataclasses.replace(self, W=Dense.trusted(Wt.astype(self.dtype)), spread=(0.0, 1.0),
                                  trivial=None)
        self._memo["smooth", t] = out
        return out

    def smoothing(self, alive: int) -> float:
        """The t at which about ``alive`` eigenvalues of W_t are above one half; at least 2.

        Read off the spectrum of W_t at t = 1e4, whose leading eigenvalues are well apart even when
        those of W crowd at 1, by subspace iteration.
        """
        key = ("smoothing", alive)
        if key not in self._memo:
            if isinstance(self.matrix, LowRank):
                return _half(self.matrix.spectrum()[0], alive, 1.0)
            far = 1e4
            smoothed = self.smooth(far)
            if smoothed is self:
                return 2.0
            W = smoothed.matrix.dense(self.dtype)
            j = min(self.n - 1, alive)
            X = np.random.default_rng(0).standard_normal((self.n, min(self.n, j + 10)))
            for _ in range(4):
                X = np.linalg.qr(W @ X.astype(W.dtype))[0]
            w = np.sort(np.linalg.eigvalsh((X.T @ (W @ X)).astype(np.float64)))[::-1]
            self._memo[key] = _half(w, j, far)
            self._memo.pop(("smooth", far), None)  # another thread may have been faster
        return float(self._memo[key])


def _half(w: Floats, j: int, t: float) -> float:
    """Where eigenvalue j of W_t, which is w_j here at ``t``, falls to one half; at least 2."""
    at = float(np.clip(w[min(j, w.size - 1)], 1e-12, 1 - 1e-12))
    return max(2.0, t * at / (1.0 - at))


def _ints(value: Any, size: int, default: int) -> Ints:
    out = np.full(size, default) if value is None else np.broadcast_to(np.asarray(value), (size,))
    # A copy of our own: read-only arrays would compile every loop a second time.
    return np.array(out, dtype=np.int64, order="C")
