"""Side constraints: sizes, known labels and links of label problems, balance of scores."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mmcopt.checks import real, shown, unmasked
from mmcopt.errors import InfeasibleError, ParameterError
from mmcopt.types import Ints


@dataclass(frozen=True)
class Sizes:
    """How many samples a cluster may hold: ``low``/``high``, or ``within`` a share, or ``exact``.

    ``low``, ``high`` and ``exact`` are one integer for all clusters or a list with one a cluster.
    ``within=a`` means floor((1 - a) n / k) to ceil((1 + a) n / k). No cluster is ever empty.

    >>> Sizes(within=0.2).bounds(10, 2)
    (array([4, 4]), array([6, 6]))
    """

    low: int | tuple[int, ...] | None = None
    high: int | tuple[int, ...] | None = None
    within: float | None = None
    exact: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "exact"):
            value = getattr(self, name)
            if value is None:
                continue
            many = isinstance(value, Iterable) and not isinstance(value, str)
            each: tuple[Any, ...] = tuple(value) if many else (value,)
            if not all(map(_whole, each)):
                raise ParameterError(f"Sizes: {name} must be an integer, or one a cluster; "
                                     f"got {shown(value)}.")
            whole = tuple(int(v) for v in each)
            object.__setattr__(self, name, whole if many else whole[0])
        given = [self.low is not None or self.high is not None, self.within is not None,
                 self.exact is not None]
        if sum(given) != 1:
            raise ParameterError("Sizes: give low and/or high, or within, or exact, and one of "
                                 f"these only; got {shown(self)}.")
        if self.within is not None:
            real(0).check("Sizes", "within", self.within)

    def bounds(self, n: int, k: int) -> tuple[Ints, Ints]:
        """Smallest and largest size of each cluster for n samples."""
        if self.within is not None:
            low = np.full(k, math.floor((1 - self.within) * n / k + 1e-9))
            high = np.full(k, math.ceil((1 + self.within) * n / k - 1e-9))
        elif self.exact is not None:
            low = high = self._each(self.exact, k, "exact")
        else:
            low = self._each(1 if self.low is None else self.low, k, "low")
            high = self._each(n if self.high is None else self.high, k, "high")
        return np.maximum(low, 1).astype(np.int64), np.minimum(high, n).astype(np.int64)

    def _each(self, value: int | tuple[int, ...], k: int, name: str) -> Ints:
        if isinstance(value, tuple) and len(value) != k:
            raise ParameterError(f"Sizes: {name} must be one integer or {k}, one a cluster; "
                                 f"got {len(value)}.")
        return np.broadcast_to(np.asarray(value, dtype=np.int64), (k,)).copy()


def _whole(value: Any) -> bool:
    """Whether a value is an integer, of any type but bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) \
        and float(value).is_integer()


@dataclass(frozen=True)
class Balance:
    """How far the sums of scores of two classes may differ: ``limit``, or ``share`` of n.

    >>> Balance(share=0.03).of(100)
    3.0
    """

    limit: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.limit is None) == (self.share is None):
            raise ParameterError("Balance: give a limit, or a share of the samples, and one of "
                                 f"these only; got {shown(self)}.")
        real(0).check("Balance", "limit" if self.share is None else "share",
                      self.limit if self.share is None else self.share)

    def of(self, n: int) -> float:
        """The limit for n samples."""
        return float(self.limit) if self.limit is not None else float(self.share or 0.0) * n


@dataclass(frozen=True)
class Known:
    """Samples whose labels are given: ``{index: label}``, or an array with -1 where unknown."""

    labels: Mapping[int, int] | Sequence[int] | Ints

    def array(self, n: int, k: int) -> Ints:
        """Labels of all n samples, -1 where unknown."""
        out = np.full(n, -1, dtype=np.int64)
        if isinstance(self.labels, Mapping):
            for i, label in self.labels.items():
                if not (_whole(i) and _whole(label)):
                    raise ParameterError("Known: samples and labels must be integers; "
                                         f"got {shown(i)}: {shown(label)}.")
                if not 0 <= i < n:
                    raise ParameterError(f"Known: sample {i} does not exist; "
                                         f"indices run from 0 to {n - 1}.")
                _known_label(label, k)
                out[int(i)] = int(label)
        else:
            given = np.asarray(unmasked(self.labels, "Known", "labels"))
            if given.shape != (n,):
                raise ParameterError(f"Known: an array must hold one label a sample ({n}), with -1 "
                                     f"where unknown; got shape {given.shape}.")
            if not all(map(_whole, given.tolist())):
                raise ParameterError("Known: labels must be integers, -1 where unknown; "
                                     f"got dtype {given.dtype}.")
            for label in given[(given >= k) | (given < -1)][:1]:
                _known_label(label, k)
            out[:] = given
        return out


def _known_label(label: Any, k: int) -> None:
    if not -1 <= label < k:
        raise ParameterError(f"Known: labels must be 0..{k - 1} (or -1 for unknown); "
                             f"got {label:g}.")


@dataclass(frozen=True)
class _Pairs:
    pairs: Any

    def __post_init__(self) -> None:
        try:
            pairs = tuple(map(tuple, self.pairs))
        except TypeError as e:
            raise ParameterError(f"{type(self).__name__}: links must be pairs of sample indices, "
                                 f"such as [(3, 8)]; got {shown(self.pairs)}.") from e
        odd = [p for p in pairs if len(p) != 2 or not all(map(_whole, p))]
        if odd:
            raise ParameterError(f"{type(self).__name__}: each link must be a pair of sample "
                                 f"indices; got {shown(odd[0])}.")
        object.__setattr__(self, "pairs", tuple((int(i), int(j)) for i, j in pairs))

    def array(self, n: int) -> Ints:
        """The pairs as an (m, 2) array, checked against the number of samples."""
        out = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        if out.size and (out.min() < 0 or out.max() >= n):
            bad = out[(out < 0).any(axis=1) | (out >= n).any(axis=1)][0]
            raise ParameterError(f"{type(self).__name__}: pair ({bad[0]}, {bad[1]}) names a sample "
                                 f"that does not exist; indices run from 0 to {n - 1}.")
        return out


@dataclass(frozen=True)
class MustLink(_Pairs):
    """Pairs of samples that share a cluster."""


@dataclass(frozen=True)
class CannotLink(_Pairs):
    """Pairs of samples that may not share a cluster."""


@dataclass(frozen=True)
class LabelRules:
    """All constraints on the labels of n samples, with must-linked samples merged into nodes.

    ``groups`` maps a sample to its node; the other arrays speak of nodes. ``apart`` holds pairs
    (a < b) of nodes that may not share a cluster.
    """

    groups: Ints
    weights: Ints
    low: Ints
    high: Ints
    fixed: Ints
    apart: Ints

    def violation(self, labels: Ints) -> float:
        """Largest violation of any rule by the labels of the samples; 0 when all hold.

        Sizes count in samples, a wrong known label or a broken link counts 1.
        """
        k = self.low.size
        sizes = np.bincount(labels, minlength=k)
        worst = max(0, int((self.low - sizes).max()), int((sizes - self.high).max()))
        node = np.empty(self.weights.size, dtype=np.int64)
        node[self.groups] = labels
        broken = bool((node[self.groups] != labels).any())
        broken |= bool(((self.fixed >= 0) & (node != self.fixed)).any())
        broken |= bool((node[self.apart[:, 0]] == node[self.apart[:, 1]]).any())
        return float(max(worst, int(broken)))


SizesLike: TypeAlias = Sizes | float | tuple[Any, Any] | None
KnownLike: TypeAlias = Known | Mapping[int, int] | Sequence[int] | Ints | None
MustLinkLike: TypeAlias = MustLink | Sequence[tuple[int, int]] | Ints | None
CannotLinkLike: TypeAlias = CannotLink | Sequence[tuple[int, int]] | Ints | None


def as_sizes(value: Any) -> Sizes | None:
    """Accept a `Sizes`, a number a (within=a), a pair (low, high) or None."""
    if value is None or isinstance(value, Sizes):
        return value
    if isinstance(value, float):
        return Sizes(within=value)
    if isinstance(value, tuple) and len(value) == 2:
        return Sizes(low=value[0], high=value[1])
    raise ParameterError("sizes must be Sizes(...), a share such as 0.2, a pair (low, high) or "
                         f"None; got {shown(value)}. For given sizes write Sizes(exact=[...]).")


def resolve(n: int, k: int, *, sizes: Sizes | None, known: Known | None,
            must_link: MustLink | None, cannot_link: CannotLink | None) -> LabelRules:
    """Check the constraints against one another and merge must-linked samples."""
    if n < k:
        raise InfeasibleError(f"{n} samples cannot fill {k} clusters: no cluster may be empty. "
                              f"Ask for at most {n}.")
    low, high = (np.ones(k, np.int64), np.full(k, n - k + 1)) if sizes is None \
        else sizes.bounds(n, k)
    if (low > high).any() or low.sum() > n or high.sum() < n:
        raise InfeasibleError(f"sizes cannot be met: {n} samples in {k} clusters of "
                              f"{_span(low)} to {_span(high)} each. "
                              f"Widen the bounds so that n = {n} fits between {low.sum()} and "
                              f"{high.sum()}.")
    known_labels = np.full(n, -1, np.int64) if known is None else known.array(n, k)
    groups = _components(n, must_link.array(n) if must_link else np.empty((0, 2), np.int64))
    m = int(groups.max()) + 1
    weights = np.bincount(groups, minlength=m).astype(np.int64)
    fixed = _group_labels(groups, m, known_labels)
    apart = _group_apart(groups, fixed, cannot_link.array(n) if cannot_link else None)
    _check_room(weights, low, high, fixed, m, k)
    return LabelRules(groups, weights, low, high, fixed, apart)


def _span(bound: Ints) -> str:
    return f"{bound[0]}" if (bound == bound[0]).all() else str(bound.tolist())


def _components(n: int, pairs: Ints) -> Ints:
    """Number the connected components in the order of their first sample."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not pairs.size:
        return np.arange(n, dtype=np.int64)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    raw = connected_components(graph, directed=False)[1]
    first = np.unique(raw, return_index=True)[1]
    rank = np.empty(first.size, dtype=np.int64)
    rank[raw[np.sort(first)]] = np.arange(first.size)
    return rank[raw]


def _group_labels(groups: Ints, m: int, known: Ints) -> Ints:
    fixed = np.full(m, -1, dtype=np.int64)
    first = np.full(m, -1, dtype=np.int64)
    for i in np.flatnonzero(known >= 0):
        g = groups[i]
        if fixed[g] >= 0 and fixed[g] != known[i]:
            raise InfeasibleError(f"samples {first[g]} and {i} are must-linked but have known "
                                  f"labels {fixed[g]} and {known[i]}; drop the link or a label.")
        fixed[g], first[g] = known[i], i
    return fixed


def _group_apart(groups: Ints, fixed: Ints, pairs: Ints | None) -> Ints:
    if pairs is None or not pairs.size:
        return np.empty((0, 2), dtype=np.int64)
    nodes = np.sort(groups[pairs], axis=1)
    same = np.flatnonzero(nodes[:, 0] == nodes[:, 1])
    if same.size:
        i, j = pairs[same[0]]
        raise InfeasibleError(f"samples {i} and {j} are cannot-linked and also must-linked "
                              "(perhaps through others); drop one of the links.")
    clash = np.flatnonzero((fixed[nodes[:, 0]] >= 0) & (fixed[nodes[:, 0]] == fixed[nodes[:, 1]]))
    if clash.size:
        i, j = pairs[clash[0]]
        raise InfeasibleError(f"samples {i} and {j} are cannot-linked but both have the known "
                              f"label {fixed[nodes[clash[0], 0]]}; drop the link or a label.")
    return np.unique(nodes, axis=0)


def _check_room(weights: Ints, low: Ints, high: Ints, fixed: Ints, m: int, k: int) -> None:
    if weights.max() > high.max():
        raise InfeasibleError(f"{weights.max()} samples are must-linked together, but no cluster "
                              f"may hold more than {high.max()}; drop links or raise high.")
    if m < k:
        raise InfeasibleError(f"must-links leave {m} groups for {k} clusters; drop links.")
    held = np.bincount(fixed[fixed >= 0], weights=weights[fixed >= 0], minlength=k)
    over = np.flatnonzero(held > high)
    if over.size:
        h = int(over[0])
        raise InfeasibleError(f"{int(held[h])} samples are known to be in cluster {h}, which may "
                              f"hold {high[h]}; raise its high bound.")
    lack, free = int(np.maximum(low - held, 0).sum()), int(weights[fixed < 0].sum())
    if lack > free:
        raise InfeasibleError(f"the known labels leave {free} free samples, but the clusters lack "
                              f"{lack} to reach their low bounds; lower these.")


def square_sums(low: Any, high: Any, total: int) -> tuple[float, float]:
    """Bounds on the sum of squared sizes within bounds: from below and from above.

    The least is attained by sizes as even as the bounds allow. For the most, one cluster after
    another is filled to its top: exact when the clusters can be ordered so that low and high both
    fall, because the sizes so filled majorise all others. Otherwise s^2 <= (low + high) s - low
    high is what is maximised.
    """
    low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    order = np.lexsort((-low, -high))
    exact = bool((np.diff(low[order]) <= 0).all())
    sizes, left = low.copy(), total - int(low.sum())
    for h in order if exact else np.argsort(-(low + high)):
        step = min(left, int(high[h] - sizes[h]))
        sizes[h] += step
        left -= step
    squares = sizes * sizes if exact else (low + high) * sizes - low * high
    return _least_square_sum(low, high, total), float(squares.sum())


def _least_square_sum(low: Ints, high: Ints, total: int) -> float:
    """Raise the water to the last level that fits, then one unit to as many as are left."""
    dry, level = 0, int(high.max())
    while dry < level:
        middle = (dry + level + 1) // 2
        if int(np.clip(middle, low, high).sum()) <= total:
            dry = middle
        else:
            level = middle - 1
    sizes = np.clip(dry, low, high)
    raised = np.flatnonzero((sizes == dry) & (sizes < high))[:max(0, total - int(sizes.sum()))]
    sizes[raised] += 1
    return float((sizes * sizes).sum())
