"""From the decision function of a one-class problem to clusters: the connected parts of its domain.

`graph` tests short edges between neighbours (default); `level_tree` also takes the number of
clusters; `equilibrium` is Algorithm 2 of SGD-LMSVC as printed, and `complete` the test of all pairs
of samples, slow and literal.

Levels. A solution is optimal up to a gap only, so support vectors have f = 0 up to a small number
of either sign. Hence a sample is inside the domain, and a sample point of a segment is, when
f >= -eps, with the eps = .01 of the paper: 1 % of the distance of the half-space from the origin.
One level for both: with samples let in at -eps and segments held to 0, a sample of f = -.001 could
be joined to none. Use results with a certified gap; a looser one needs a larger eps.

Parameters without labels. Distances between neighbours set the scale: gamma = s / (median distance
to the 7th nearest)^2, see `neighbour_gamma`, and C is a multiple of the problem's ``c_min()``. For
`level_tree` with an unknown number of clusters s = .85 and C = 1.3 c_min: so near to it f follows
the density of the samples, and touching clusters have peaks of their own. `graph` wants the whole
domain, C >= 5 c_min up to the hard margin C = n, with s from .2 (gaps between clusters) to 1.4
(clusters that nearly touch). Where the number K is known, take of a few s from .7 to 2 and C from
1.3 c_min to n the tree of largest ``tree.drop(K)``, the one that shows K clusters most clearly
(`clearest`). Nothing here is proof of clusters: look at ``print(tree)`` and at other settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from mmcopt.assignment.domain import (
    Domain,
    bridges,
    by_size,
    joined,
    lengths,
    neighbour_edges,
)
from mmcopt.assignment.peaks import LevelTree, build, least_size
from mmcopt.checks import choice, data_matrix, flag, integer, optional, plural, real
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels.neighbors import nearest
from mmcopt.modeling import Formulation, Result
from mmcopt.types import Bools, Floats, Ints, Samples

NEIGHBOURS = 10
STEPS, STILL, SAME = 5000, 1e-9, 1e-3  # of trajectories, the lengths in units of 1 / sqrt(gamma)
SAMPLE = 5000  # samples whose neighbours tell a gamma
PAIRS_HELD = 1_000_000  # pairs of samples that `complete` looks at at a time

_EPS = real(0)
_COUNT = integer(1)
_OUTLIERS = choice("nearest", "mark")


Source: TypeAlias = Result | Domain | tuple[Formulation, Floats]  # or a problem with a point


@dataclass(frozen=True, eq=False)
class Assignment:
    """Clusters of the samples, and what is needed to assign more.

    ``labels`` are numbered from the largest cluster to the smallest, -1 for outliers that are
    marked. ``outside`` marks samples with f < -eps, the bounded support vectors, ``boundary`` those
    with |f| <= eps. Each sample that is no anchor has the label of the nearest anchor, and so do
    new ones.
    """

    domain: Domain = field(repr=False)
    method: str
    labels: Ints = field(repr=False)
    outside: Bools = field(repr=False)
    boundary: Bools = field(repr=False)
    links: Ints = field(repr=False)  # (m, 2) samples, or equilibria, whose segment is inside
    anchors: Ints = field(repr=False)  # samples that others are compared with
    anchor_labels: Ints = field(repr=False)
    eps: float = 0.01
    outliers: str = "nearest"
    equilibria: Floats | None = field(default=None, repr=False)
    trajectories: tuple[Floats, ...] | None = field(default=None, repr=False)
    tree: LevelTree | None = field(default=None, repr=False)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.anchor_labels.max()) + 1

    def predict(self, X: Samples) -> Ints:
        """Clusters of new samples (m, d): that of the nearest anchor.

        With ``outliers="mark"``, -1 where f < -eps.
        """
        places = self.domain.placed(X)
        far = self.domain.value(X) < -self.eps if self.outliers == "mark" else None
        return _followed(self.domain, self.anchors, self.anchor_labels, places, far)

    def plot(self, ax: Any = None, *, kind: str = "domain") -> Any:
        """Draw the ``"domain"`` with what the clusters were made from, or the ``"tree"`` of levels.

        Returns the matplotlib axes.
        """
        from mmcopt.plot.domains import plot_assignment, plot_dendrogram

        choice("domain", "tree").check("plot", "kind", kind)
        return plot_assignment(self, ax) if kind == "domain" else plot_dendrogram(self, ax)

    def __str__(self) -> str:
        inside = len(self.labels) - int(self.outside.sum())
        return (f"{self.method}: {plural(self.n_clusters, 'cluster')}; {inside} of "
                f"{plural(len(self.labels), 'sample')} inside, {int(self.boundary.sum())} on the "
                "boundary")


def _followed(domain: Domain, anchors: Ints, labels: Ints, places: Floats,
              far: Bools | None) -> Ints:
    """Labels of the nearest anchors, -1 where ``far``."""
    found = labels[nearest(domain.places[anchors], places)[:, 0]]
    return found if far is None else np.where(far, -1, found)


def _assignment(domain: Domain, method: str, anchors: Ints, parts: Ints, eps: float,
                outliers: str, **more: Any) -> Assignment:
    """Extend the parts of the anchors to all samples and number them by size."""
    outside = domain.f < -eps
    everyone = _followed(domain, anchors, parts, domain.places, None)
    everyone[anchors] = parts
    marked = (outside & (outliers == "mark")) | (everyone < 0)
    labels = np.full(domain.n, -1, dtype=np.int64)
    table = np.full(int(parts.max()) + 1, -1, dtype=np.int64)
    order = by_size(everyone[everyone >= 0])
    table[everyone[everyone >= 0]] = order
    labels[~marked] = table[everyone[~marked]]
    named = np.where(parts >= 0, table[parts], -1)
    return Assignment(domain, method, labels, outside, np.abs(domain.f) <= eps,
                      anchors=anchors, anchor_labels=named, eps=eps, outliers=outliers, **more)


def neighbour_gamma(X: Samples, scale: float = 0.85, *, neighbours: int = 7) -> float:
    """Gamma of a Gaussian kernel as wide as neighbourhoods are: scale / median(d)^2.

    d are the distances of samples, copies left out, to their ``neighbours``-th nearest; of more
    than `SAMPLE` samples, those of every second, third, ... one to all.
    """
    real(0, open_low=True).check("neighbour_gamma", "scale", scale)
    _COUNT.check("neighbour_gamma", "neighbours", neighbours)
    A = np.asarray(data_matrix(X, owner="neighbour_gamma", sparse=False), dtype=np.float64)
    P = np.unique(A - A.mean(axis=0), axis=0)
    with np.errstate(over="ignore"):
        spread = float(np.square(np.ptp(P, axis=0)).sum())
    if len(P) > 1 and not 1e-280 < spread < 1e280:
        raise DataError(f"neighbour_gamma: the samples spread over {np.sqrt(spread):.3g}, whose "
                        "square is beyond double precision; rescale the features.")
    if len(P) < 2:
        raise DataError("neighbour_gamma: all samples are equal, so their distances set no scale; "
                        "choose gamma yourself, any above 0 does.")
    some = P[::-(-len(P) // SAMPLE)]
    far = nearest(P, some, neighbours + 1)[:, -1]
    return float(scale / np.median(np.square(some - P[far]).sum(axis=1)))


# ---------------------------------------------------------------- graphs of samples


def graph(result: Source, *, neighbours: int = NEIGHBOURS, eps: float = 0.01,
          outliers: str = "nearest", min_size: int = 1) -> Assignment:
    """Connected parts of the domain by a graph of neighbours.

    Samples inside the domain are joined along segments on which f >= -eps. Tried are the edges to
    the ``neighbours`` nearest, the shortest first and only those between parts not joined yet, then
    the shortest edges between the parts that are left. The number of sample points grows with
    the length of an edge (`Domain.steps`).

    Parameters
    ----------
    result
        A solution of `OneClassHinge`, a pair (problem, point), or a `Domain`.
    neighbours
        Nearest samples that each is compared with.
    eps
        Samples and segments count as inside where f >= -eps.
    outliers
        ``"nearest"`` gives samples outside, and of parts that are too small, the label of the
        nearest one inside; ``"mark"`` gives -1.
    min_size
        Samples (copies count) that make a part a cluster.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import OneClassHinge
    >>> X, y = mm.datasets.load("moons:n=200,noise=.05,seed=0")
    >>> problem = OneClassHinge(X, C=1000.0, kernel=mm.kernels.Gaussian(gamma=10.0))
    >>> clusters = graph(mm.solve(problem, seed=0))
    >>> clusters.n_clusters, mm.metrics.adjusted_rand_index(y, clusters.labels)
    (2, 1.0)
    """
    _check("graph", eps, outliers, min_size)
    _COUNT.check("graph", "neighbours", neighbours)
    domain = Domain.of(result)
    inside, first, group = _inside(domain, "graph", eps)
    P, f = domain.places[inside[first]], domain.f[inside[first]]
    parts, links = np.arange(len(P)), np.empty((0, 2), dtype=np.int64)
    if len(P) > 1:
        parts, links = _linked(domain, P, neighbour_edges(P, neighbours), parts, eps)
        parts, more = _linked(domain, P, bridges(P, f, parts), parts, eps)
        links = np.vstack([links, more])
    return _grown(domain, "graph", inside, parts[group], inside[first][links], eps, outliers,
                  min_size)


def complete(result: Source, *, m: int = 20, eps: float = 0.01, outliers: str = "nearest",
             min_size: int = 1) -> Assignment:
    """Connected parts of the domain by a test of all pairs of samples inside, each at m points.

    Literal and slow: about n^2 m / 2 values of f. For comparisons; use `graph`.
    """
    _check("complete", eps, outliers, min_size)
    _COUNT.check("complete", "m", m)
    domain = Domain.of(result)
    inside, first, group = _inside(domain, "complete", eps)
    P, found = domain.places[inside[first]], []
    rows = max(1, PAIRS_HELD // len(P))
    for s in range(0, len(P), rows):
        i, j = np.nonzero(np.arange(len(P))[None, :] > np.arange(s, min(s + rows, len(P)))[:, None])
        i += s
        ok = domain.lowest(P, i, j, np.full(len(i), m)) >= -eps
        found.append(np.column_stack([i[ok], j[ok]]))
    links = np.vstack(found)
    parts = joined(len(P), links[:, 0], links[:, 1])
    return _grown(domain, "complete", inside, parts[group], inside[first][links], eps, outliers,
                  min_size)


def _check(owner: str, eps: float, outliers: str, min_size: int) -> None:
    _EPS.check(owner, "eps", eps)
    _OUTLIERS.check(owner, "outliers", outliers)
    _COUNT.check(owner, "min_size", min_size)


def _inside(domain: Domain, owner: str, eps: float) -> tuple[Ints, Ints, Ints]:
    """Samples inside; of these the first of each place, and which of them each one copies."""
    inside = np.flatnonzero(domain.f >= -eps)
    if not len(inside):
        raise DataError(f"{owner}: the domain holds no sample: the largest f is "
                        f"{domain.f.max():.3g}, below -eps = {-eps:g}; raise C (domains begin at "
                        "the c_min() of the problem) or solve to a smaller gap.")
    _, first, group = np.unique(domain.places[inside], axis=0, return_index=True,
                                return_inverse=True)
    return inside, first, group.reshape(-1)


def _linked(domain: Domain, P: Floats, edges: tuple[Ints, Ints], parts: Ints,
            eps: float) -> tuple[Ints, Ints]:
    """Join parts along edges inside the domain; also the edges that were accepted.

    In rounds, each part tries its shortest edges to other parts, ever more of them: few batches,
    and little that a union-find over single edges would have skipped.
    """
    i, j = edges
    length = lengths(P, i, j)
    order = np.lexsort((j, i, length))
    i, j, length = i[order], j[order], length[order]
    accepted, take = [np.empty((0, 2), dtype=np.int64)], 1
    while True:
        open_ = parts[i] != parts[j]
        i, j, length = i[open_], j[open_], length[open_]
        if not len(i):
            return parts, np.vstack(accepted)
        first = _first(parts[i], parts[j], take)
        a, b = i[first], j[first]
        ok = domain.clear(P, a, b, length[first], -eps)
        accepted.append(np.column_stack([a[ok], b[ok]]))
        parts = joined(int(parts.max()) + 1, parts[a[ok]], parts[b[ok]])[parts]
        i, j, length = i[~first], j[~first], length[~first]
        take *= 4


def _first(a: Ints, b: Ints, take: int) -> Bools:
    """Which edges, sorted by length, are among the first ``take`` of the part at either end."""
    ends = np.concatenate([a, b])
    at = np.concatenate([np.arange(len(a)), np.arange(len(a))])
    order = np.lexsort((at, ends))
    ends = ends[order]
    start = np.flatnonzero(np.r_[True, ends[1:] != ends[:-1]])
    rank = np.arange(len(ends)) - np.repeat(start, np.diff(np.r_[start, len(ends)]))
    out = np.zeros(len(a), dtype=bool)
    out[at[order[rank < take]]] = True
    return out


def _grown(domain: Domain, method: str, inside: Ints, parts: Ints, links: Ints, eps: float,
           outliers: str, min_size: int) -> Assignment:
    """Drop parts that are too small and let the others grow over all samples."""
    sizes = np.bincount(parts)
    large = sizes[parts] >= min_size
    if not large.any():
        raise ParameterError(f"{method}: min_size={min_size} leaves no cluster: the largest part "
                             f"of the domain holds {plural(int(sizes.max()), 'sample')}.")
    if outliers == "nearest":
        inside, parts = inside[large], parts[large]
    else:
        parts = np.where(large, parts, -1)
    return _assignment(domain, method, inside, parts, eps, outliers, links=links)


# ---------------------------------------------------------------- a given number of clusters


def level_tree(result: Source, n_clusters: int | None = None, *, neighbours: int = NEIGHBOURS,
               min_size: int | None = None, eps: float = 0.01,
               outliers: str = "nearest") -> Assignment:
    """Clusters by persistence: the most prominent peaks of f, or as many as there seem to be.

    On the graph of neighbours, an edge is as high as the least f along it. As the level falls from
    the highest peak, parts appear and merge; how far f falls from the lower of two peaks to where
    they merge is its persistence. The ``n_clusters`` most persistent are the clusters; when it is
    not given, those before the largest drop in persistence. The tree is ``tree`` of the result.

    Parameters
    ----------
    result
        A solution of `OneClassHinge`, a pair (problem, point), or a `Domain`.
    n_clusters
        Number of clusters.
    neighbours
        Nearest samples that each is compared with.
    min_size
        Samples that a branch needs to count as one; by default 1.5 % of the samples, at least 2
        where there are more than 3.
    eps
        ``outside`` and ``boundary`` are told from f by it.
    outliers
        ``"mark"`` gives samples outside the domain -1.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import OneClassHinge
    >>> X, y = mm.datasets.load("blobs:n=90,k=3,sd=.5,seed=1")
    >>> problem = OneClassHinge(X, C=20.0, kernel=mm.kernels.Gaussian(gamma=1.0))
    >>> clusters = level_tree(mm.solve(problem, seed=0), 3)
    >>> mm.metrics.adjusted_rand_index(y, clusters.labels)
    1.0
    """
    _check("level_tree", eps, outliers, 1)
    optional(_COUNT).check("level_tree", "n_clusters", n_clusters)
    optional(_COUNT).check("level_tree", "min_size", min_size)
    _COUNT.check("level_tree", "neighbours", neighbours)
    domain = Domain.of(result)
    least = least_size(domain.n) if min_size is None else min_size
    tree = build(domain, neighbours, least, eps)
    return _assignment(domain, "level_tree", np.arange(domain.n), tree.labels(n_clusters), eps,
                       outliers, links=tree.edges[tree.heights >= -eps], tree=tree)


def clearest(results: Sequence[Any], n_clusters: int, **options: Any) -> Assignment:
    """The `level_tree` clusters of the result, of several for one set of samples, that fits best.

    That is where the last of ``n_clusters`` peaks persists longest beyond the next one:
    ``tree.drop(n_clusters)`` is largest. ``options`` are those of `level_tree`.
    """
    _COUNT.check("clearest", "n_clusters", n_clusters)
    found = [level_tree(r, **options).tree for r in results]
    if not found:
        raise ParameterError("clearest: results must be a list of at least one; got none.")
    trees = [t for t in found if t is not None]
    best = max(trees, key=lambda t: t.drop(n_clusters))
    return level_tree(best.domain, n_clusters, **options)


# ---------------------------------------------------------------- Algorithm 2


def equilibrium(result: Source, *, eps: float = 0.01, m: int = 20, outliers: str = "nearest",
                trajectories: bool = False) -> Assignment:
    """Clusters by the equilibrium points of the boundary (SGD-LMSVC, Algorithm 2, as printed).

    Each sample of the band |f| <= eps follows the fixed point map to an equilibrium; equilibria are
    joined when f >= -eps at m points between them, for all pairs. Samples of the band take the
    cluster of their equilibrium, all others that of the nearest sample of the band. Curved clusters
    may break, since a segment between two equilibria leaves them: see `graph`.

    ``trajectories=True`` keeps the way of each sample of the band, (steps + 1, d), in the order of
    ``anchors``; ``links`` are pairs of rows of ``equilibria``.
    """
    _check("equilibrium", eps, outliers, 1)
    _COUNT.check("equilibrium", "m", m)
    flag().check("equilibrium", "trajectories", trajectories)
    domain = Domain.of(result)
    gamma = domain.require_gaussian("equilibrium")
    band = np.flatnonzero(np.abs(domain.f) <= eps)
    if not len(band):
        raise DataError(f"equilibrium: no sample has |f| <= eps = {eps:g}; the smallest |f| is "
                        f"{np.abs(domain.f).min():.3g}. Raise eps, solve to a smaller gap, raise C "
                        "if the domain is empty, or use graph, which needs no band.")
    ends, ways = _climbed(domain, domain.places[band], trajectories)
    which, E = _merged(ends, SAME / np.sqrt(gamma))
    i, j = np.triu_indices(len(E), 1)
    ok = domain.lowest(E, i, j, np.full(len(i), m)) >= -eps
    parts = joined(len(E), i[ok], j[ok])[which]
    return _assignment(domain, "equilibrium", band, parts, eps, outliers,
                       links=np.column_stack([i[ok], j[ok]]), equilibria=E + domain.shift,
                       trajectories=ways)


def _climbed(domain: Domain, start: Floats, keep: bool) -> tuple[Floats, Any]:
    """Where the fixed point map leads from each point, and, if asked, the ways there."""
    x, still = start.copy(), STILL / np.sqrt(domain.require_gaussian("equilibrium"))
    moving = np.arange(len(x))
    ways = [[p] for p in start] if keep else None
    for _ in range(STEPS):
        new = domain.ascend(x[moving])
        moved = np.abs(new - x[moving]).max(axis=1) > still
        x[moving] = new
        if ways is not None:
            for q, p in zip(moving.tolist(), new, strict=True):
                ways[q].append(p)
        moving = moving[moved]
        if not len(moving):
            break
    return x, None if ways is None else tuple(np.array(w) + domain.shift for w in ways)


def _merged(ends: Floats, tol: float) -> tuple[Ints, Floats]:
    """Equilibria closer than ``tol`` are one: which one each end is, and one point of each."""
    from scipy.spatial import cKDTree

    pairs = cKDTree(ends).query_pairs(tol, output_type="ndarray")
    which = joined(len(ends), pairs[:, 0], pairs[:, 1])
    return which, ends[np.unique(which, return_index=True)[1]]
