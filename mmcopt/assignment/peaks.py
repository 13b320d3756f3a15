"""The tree of superlevel sets of a decision function: peaks, the heights at which they meet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mmcopt.assignment.domain import Domain, bridges, by_size, joined, lengths, neighbour_edges
from mmcopt.checks import integer, plural
from mmcopt.errors import ParameterError
from mmcopt.types import Floats, Ints

FLOOR = -1.0  # f infinitely far from all samples, for kernels that vanish there
BUMP = 0.01  # persistence from which a peak is listed
NOTHING = 0.1  # persistence up to which a second peak is no reason for two clusters


def least_size(n: int) -> int:
    """Samples that a part needs to be a cluster: 1.5 %, and 2 where there are more than 3."""
    return max(2 if n > 3 else 1, round(0.015 * n))


@dataclass(frozen=True)
class Merge:
    """Two peaks meet: the lower one ends, as a branch of its own, at ``height``."""

    peak: int  # the sample on top of the branch that ends
    into: int  # the sample on top of the branch that goes on
    height: float
    persistence: float  # f(peak) - height
    size: int  # samples of the branch that ends, as high as that


@dataclass(frozen=True, eq=False)
class LevelTree:
    """How the parts of ``f >= level`` merge as the level falls.

    ``merges`` holds the peaks that end, most persistent first; the highest peak ends never, or at
    -1, the value of f infinitely far away. Two branches count as merging peaks only when each holds
    ``min_size`` samples; smaller ones are noise that the other absorbs.
    """

    domain: Domain = field(repr=False)
    root: int
    merges: tuple[Merge, ...]
    min_size: int
    edges: Ints = field(repr=False)  # (n - 1, 2): a spanning tree of highest edges
    heights: Floats = field(repr=False)  # of these edges
    ends: Ints = field(repr=False)  # the merge that happens at an edge, or -1

    @property
    def persistence(self) -> Floats:
        """Persistence of all peaks, largest first; that of the highest peak ends at -1."""
        low = float(self.heights.min(initial=FLOOR))
        top = float(self.domain.f[self.root]) - low
        return np.array([top, *(m.persistence for m in self.merges)])

    def drop(self, n_clusters: int) -> float:
        """How much more the last of so many peaks persists than the next one, or than nothing.

        Of several models of the same data, that with the largest drop shows this number of clusters
        most clearly. 0 where there are not so many peaks.
        """
        p = np.r_[self.persistence, 0.0]
        integer(1).check("drop", "n_clusters", n_clusters)
        return float(p[n_clusters - 1] - p[n_clusters]) if n_clusters < len(p) else 0.0

    def suggested(self) -> int:
        """The number of clusters before the largest drop in persistence, from 2 on.

        1 only where no second peak persists by `NOTHING`: a single cluster often has a few shallow
        peaks, so look at the tree before believing in a small number.
        """
        p = self.persistence
        if len(p) < 2 or p[1] <= NOTHING:
            return 1
        return 2 + int(np.argmax([self.drop(k) for k in range(2, len(p) + 1)]))

    def labels(self, n_clusters: int | None = None) -> Ints:
        """Clusters of the samples: the branches of the most persistent peaks, largest first.

        A sample lower than the merge of two branches follows the edges of the tree uphill.
        """
        k = self.suggested() if n_clusters is None else n_clusters
        integer(1).check("labels", "n_clusters", k)
        if k > len(self.merges) + 1:
            raise ParameterError(
                f"labels: n_clusters must be at most {len(self.merges) + 1}, the number of peaks "
                f"with at least {plural(self.min_size, 'sample')}; got {k}. A larger gamma or a "
                "smaller min_size gives more.")
        kept = (self.ends < 0) | (self.ends >= k - 1)
        return by_size(joined(self.domain.n, *self.edges[kept].T))

    def linkage(self) -> Floats:
        """The tree over its peaks for ``scipy.cluster.hierarchy.dendrogram``.

        Leaf 0 is the highest peak, leaf q the peak of ``merges[q - 1]``. A distance is the drop
        from the highest peak to the height of the merge; the last column counts peaks.
        """
        leaf = {self.root: 0} | {m.peak: q + 1 for q, m in enumerate(self.merges)}
        cluster, count = {v: v for v in leaf.values()}, {v: 1 for v in leaf.values()}
        above = {v: v for v in leaf.values()}
        top, rows = float(self.domain.f[self.root]), []
        for m in sorted(self.merges, key=lambda m: -m.height):
            low, high = leaf[m.peak], leaf[m.into]
            while above[high] != high:
                high = above[high]
            above[low] = high
            count[high] += count[low]
            rows.append([cluster[low], cluster[high], top - m.height, count[high]])
            cluster[high] = len(leaf) + len(rows) - 1
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def __str__(self) -> str:
        listed = [m for m in self.merges if m.persistence >= BUMP]
        more = len(self.merges) - len(listed)
        f = self.domain.f
        lines = [f"LevelTree: {plural(self.domain.n, 'sample')}, "
                 f"{plural(len(listed) + 1, 'peak')} that persist"
                 + (f", {more} below {BUMP:g}" if more else "")
                 + f"; suggested: {plural(self.suggested(), 'cluster')}",
                 "  peak      f   merges at  persistence  samples  into",
                 f"{self.root:>6} {f[self.root]:>6.3f} {'-':>11} {self.persistence[0]:>12.3f}"
                 f"{self.domain.n:>9}"]
        lines += [f"{m.peak:>6} {f[m.peak]:>6.3f} {m.height:>11.3f} {m.persistence:>12.3f}"
                  f"{m.size:>9}{m.into:>6}" for m in listed]
        return "\n".join(lines)


def build(domain: Domain, neighbours: int, min_size: int, eps: float) -> LevelTree:
    """The level tree on the graph of neighbours; copies of a sample hang on the first."""
    _, first, group = np.unique(domain.places, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    P, f = domain.places[first], domain.f[first]
    i, j, h = _heights(domain, P, f, neighbours, eps)
    order = np.lexsort((lengths(P, i, j), -h))
    weight = np.bincount(group)
    tree = _kruskal(f, weight, i[order], j[order], h[order], min_size)
    edges, heights, merges, at, root = tree
    rank = sorted(range(len(merges)), key=lambda q: (-merges[q].persistence, first[merges[q].peak]))
    new = np.empty(len(merges) + 1, dtype=np.int64)
    new[rank] = np.arange(len(merges))
    new[-1] = -1
    named = tuple(Merge(int(first[merges[q].peak]), int(first[merges[q].into]), merges[q].height,
                        merges[q].persistence, merges[q].size) for q in rank)
    copies = np.setdiff1d(np.arange(domain.n), first)
    pairs = np.vstack([first[edges], np.column_stack([copies, first[group[copies]]])])
    return LevelTree(domain, int(first[root]), named, min_size, pairs.astype(np.int64),
                     np.r_[heights, domain.f[copies]],
                     np.r_[new[at], np.full(len(copies), -1, dtype=np.int64)])


def _heights(domain: Domain, P: Floats, f: Floats, k: int,
             eps: float) -> tuple[Ints, Ints, Floats]:
    """Edges with the least f along each; parts that nothing joins meet at -1."""
    def high(i: Ints, j: Ints) -> Floats:
        inner = domain.lowest(P, i, j, domain.steps(lengths(P, i, j)))
        return np.asarray(np.minimum(inner, np.minimum(f[i], f[j])))

    i, j = neighbour_edges(P, k)
    h = high(i, j)
    for level in (-eps, -np.inf):  # parts of the domain, then those the graph itself falls into
        more = bridges(P, f, joined(len(P), i[h >= level], j[h >= level]))
        i, j, h = np.r_[i, more[0]], np.r_[j, more[1]], np.r_[h, high(*more)]
    parts = joined(len(P), i, j)
    heads = np.unique(parts, return_index=True)[1]
    i, j = np.r_[i, np.full(len(heads) - 1, heads[0])], np.r_[j, heads[1:]]
    return i, j, np.r_[h, np.full(len(heads) - 1, min(FLOOR, float(f.min())))]


def _kruskal(f: Floats, weight: Ints, i: Ints, j: Ints, h: Floats,
             min_size: int) -> tuple[Ints, Floats, list[Merge], Ints, int]:
    """The spanning tree of highest edges, from the top down, and the peaks that end on the way."""
    above, peak = np.arange(len(f)).tolist(), np.arange(len(f)).tolist()
    size, values = weight.tolist(), f.tolist()

    def find(v: int) -> int:
        while above[v] != v:
            above[v] = above[above[v]]
            v = above[v]
        return v

    used: list[int] = []
    at: list[int] = []
    other_name = list(range(len(f)))  # of a peak whose branch a higher, smaller one has taken over
    merges: list[Merge] = []
    for e, (p, q, level) in enumerate(zip(i.tolist(), j.tolist(), h.tolist(), strict=True)):
        p, q = find(p), find(q)
        if p == q:
            continue
        if values[peak[p]] < values[peak[q]]:
            p, q = q, p
        used.append(e)
        at.append(-1)
        if min(size[p], size[q]) >= min_size and values[peak[q]] > level:
            at[-1] = len(merges)
            merges.append(Merge(peak[q], peak[p], level, values[peak[q]] - level, size[q]))
        else:
            other_name[peak[q]] = peak[p]
        above[q] = p
        size[p] += size[q]
    for e, m in enumerate(merges):
        into = m.into
        while other_name[into] != into:
            into = other_name[into]
        merges[e] = replace(m, into=into)
    index = np.asarray(used, dtype=np.int64)
    root = peak[find(0)]
    return (np.column_stack([i[index], j[index]]), h[index], merges,
            np.asarray(at, dtype=np.int64), root)
