"""What problems over labels share: their rules, and everything that does not ask what is summed."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.capabilities.base import Capability
from mmcopt.capabilities.feasible_labels import find_labels
from mmcopt.capabilities.matrices import Symmetric, as_symmetric
from mmcopt.errors import DataError, InfeasibleError, ParameterError
from mmcopt.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class LabelProblem(Capability):
    """Minimise ``const - scale * association(c)`` over labels c; a matrix W says what that is.

    Every formulation that offers `LabelQuadratic` or `LabelRatio` offers this too.

    W is an n x n symmetric array (dense, sparse, or a `LowRank` factor); ``weights`` counts the
    samples that a node stands for, ``low`` and ``high`` bound the weight of each cluster, which
    may be empty where a ``low`` of 0 is given, ``fixed`` holds given labels (-1: free), ``apart``
    the pairs of nodes that may not share a cluster. ``groups`` maps the points of whoever made the
    offer to nodes, when the two differ; nodes that no point belongs to have given labels.
    ``spread`` bounds the eigenvalues of W from below and above; ``trivial`` is a lower bound that
    costs nothing; ``single`` says that float32 is precise enough for searching. ``rounding`` says
    how far the objective by W and that of the exact data may be apart: a share of it, and an
    absolute part.
    """

    may_be_empty: ClassVar[bool] = True  # clusters whose low is 0

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

    def __post_init__(self) -> None:
        W, name = as_symmetric(self.W), type(self).__name__
        n, k = W.n, self.k
        put = functools.partial(object.__setattr__, self)
        put("W", W)
        weights = ints(self.weights, n, 1)
        put("weights", weights)
        put("low", np.maximum(ints(self.low, k, 1), 0 if self.may_be_empty else 1))
        put("high", ints(self.high, k, int(weights.sum())))
        put("fixed", ints(self.fixed, n, -1))
        apart = np.empty((0, 2), np.int64) if self.apart is None else np.asarray(self.apart)
        put("apart", apart.astype(np.int64).reshape(-1, 2))
        put("_cache", {})
        fixed = np.asarray(self.fixed)
        wrong = fixed[(fixed < -1) | (fixed >= k)]
        if wrong.size:
            raise ParameterError(f"{name}: fixed must hold labels 0..{k - 1}, or -1 where "
                                 f"free; got {wrong[0]}.")
        pairs = np.asarray(self.apart)
        odd = pairs[((pairs < 0) | (pairs >= n)).any(axis=1) | (pairs[:, 0] == pairs[:, 1])]
        if odd.size:
            raise ParameterError(f"{name}: apart must hold pairs of different nodes "
                                 f"0..{n - 1}; got ({odd[0, 0]}, {odd[0, 1]}).")
        if weights.min() < 1:
            raise ParameterError(f"{name}: weights must be at least 1; got {weights.min()}.")
        if n < self.least_nodes:
            raise InfeasibleError(f"{n} nodes cannot fill {self.least_nodes} clusters.")

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.W.n)

    @property
    def least_nodes(self) -> int:
        """Nodes that it takes to fill the clusters that may not be empty."""
        return int((self.low > 0).sum())

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

    def let_go(self) -> None:
        """Forget copies of rows that lie in a file; the next search reads them again."""
        self.matrix.let_go()

    @property
    def trivial_bound(self) -> float | None:
        """A lower bound that needs no computation, or None."""
        return self.trivial() if callable(self.trivial) else self.trivial

    @property
    def mass(self) -> float:
        """Bound on the sum of the terms of the association, to which its rounding is relative."""
        raise NotImplementedError

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

    @property
    def any_sizes(self) -> bool:
        """Whether clusters may have any size, none included."""
        return bool(self.low.max() <= 0 and self.high.min() >= self.weights.sum())

    # ------------------------------------------------------------ values

    def safe(self, bound: float) -> float:
        """A lower bound of the problem by W less the rounding of W: a bound for the exact data."""
        if self.rounding is None or not math.isfinite(bound):
            return bound
        share, part = self.rounding()
        return bound - share * abs(bound) - part

    def association(self, c: Ints) -> float:
        """What the objective rewards in node labels, in float64."""
        raise NotImplementedError

    def associations(self, rows: Ints) -> Floats:
        """The same for many labelings, one a row: for few nodes."""
        raise NotImplementedError

    def value(self, c: Ints) -> float:
        """Objective of node labels, in float64."""
        return self.constant - self.scale * self.association(np.asarray(c, dtype=np.int64))

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
        """Node labels -> labels of the points of whoever made the offer.

        Where a node that no point belongs to has another label than it should, clusters are named
        anew so that it has the right one.
        """
        if self.groups is None:
            return c.copy()
        if "hidden" not in self._memo:
            self._memo["hidden"] = np.setdiff1d(np.arange(self.n), self.groups)
        out = c[self.groups]
        for node in self._memo["hidden"][:1]:
            now, right = c[node], self.fixed[node]
            if now != right:
                out = np.where(out == now, right, np.where(out == right, now, out))
        return out

    def reduce(self, labels: Ints) -> Ints:
        """Labels of the points -> node labels (that of the first point of each node)."""
        labels = np.asarray(labels, dtype=np.int64)
        if self.groups is None:
            if labels.shape != (self.n,):
                raise DataError(f"labels must have shape ({self.n},); got {labels.shape}.")
            return labels
        c = self.fixed.copy()
        c[self.groups[::-1]] = labels[::-1]
        return c

    def random_labels(self, rng: np.random.Generator) -> Ints:
        """Random feasible node labels."""
        return find_labels(self.weights, self.low, self.high, self.fixed, self.apart, rng)

    def repair(self, c: Ints, rng: np.random.Generator) -> Ints:
        """Feasible node labels near ``c``: moves that lose least, else a fresh random start."""
        c = np.where(self.fixed >= 0, self.fixed, c).astype(np.int64)
        if self.violation(self.expand(c)) == 0.0 or self._mended(c):
            return c
        return find_labels(self.weights, self.low, self.high, self.fixed, self.apart, rng, start=c)

    def _mended(self, c: Ints) -> bool:
        """Make the labels feasible in place by moves that lose least, if that is known how to."""
        return False

    def rules(self) -> Any:
        """The constraints as the tuple of arrays that the compiled loops take."""
        if "rules" not in self._memo:
            from mmcopt.compiled.label_rules import Rules

            both = np.concatenate([self.apart, self.apart[:, ::-1]])
            both = both[np.argsort(both[:, 0], kind="stable")]
            counts = np.bincount(both[:, 0], minlength=self.n)
            ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            plain = int((self.weights == 1).all() and not len(self.apart))
            self._memo["rules"] = Rules(self.weights, self.low, self.high, self.fixed, ptr,
                                        np.ascontiguousarray(both[:, 1]), plain)
        return self._memo["rules"]

    # ------------------------------------------------------------ other problems

    def contract(self, groups: Ints, dtype: Any = np.float64) -> Self:
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
            **self._merged(groups, m))

    def _merged(self, groups: Ints, m: int) -> dict[str, Any]:
        """What else a contraction changes."""
        return {}


def ints(value: Any, size: int, default: int) -> Ints:
    """One integer, or one an entry, as a new array; where None is given, the default."""
    out = np.full(size, default) if value is None else np.broadcast_to(np.asarray(value), (size,))
    # A copy of our own: read-only arrays would compile every loop a second time.
    return np.array(out, dtype=np.int64, order="C")
