"""Choosing gamma and C of one-class models without labels: a rule, and criteria to look at.

The rule. Let r be the median distance of a sample to its 7th nearest (copies of a point count
once): the scale of the gaps within clusters. Lengths over which the kernel falls are of that order,
gamma = `TREE` / r^2 (see `mmcopt.assignment.neighbour_gamma`), and C counts from the c_min at which
domains begin: a level tree reads the heights of f, which a soft margin, C = `SOFT` c_min, keeps
apart. A graph sees f at one level only, so no rule of that kind suits all data: `agreeing_graph`
solves a small grid and takes the model whose connected parts agree most with the level tree of the
rule. With the number of clusters given, `given_number` takes the model of such a grid in which that
many peaks are clearest. The constants were chosen on seven sets of the literature with their
classes in view; on others, on clusters that overlap above all, the number found may be wrong.

No single number says which model is right. `domains` shows three that mean different things, side
by side: they may disagree, and on clusters that touch, or have no gap in the data, all may err.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.assignment import (
    Assignment,
    Domain,
    clearest,
    graph,
    level_tree,
    neighbour_gamma,
)
from mmcopt.assignment.peaks import least_size
from mmcopt.checks import choice, integer, known_keywords, listed
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import Gaussian
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling.result import Result
from mmcopt.registry import formulation
from mmcopt.solving import solve, whole
from mmcopt.tables import text_table
from mmcopt.types import Samples, Seed

TREE, SOFT = 0.85, 1.3
SCALES, MARGINS = (0.7, 1.0, 1.4, 2.0), (1.3, 2.0, 5.0, np.inf)  # what `given_number` tries
GRAPH_SCALES, GRAPH_MARGINS = (0.35, 0.7, 1.4, 2.8), (2.0, 5.0, np.inf)  # and `agreeing_graph`
ALIKE = 0.02  # of the adjusted Rand index: then the domain that holds more samples is taken

_METHOD = choice("graph", "level_tree")


def auto_problem(X: Samples, *, gamma: Any = "auto", C: Any = "auto",
                 sample_weight: Any = None) -> Any:
    """The one-class problem of the rule above, for a level tree; numbers given are kept."""
    if isinstance(gamma, str):
        gamma = _gammas(X, [TREE])[0]
    f = formulation("OneClassHinge")(X, C=1.0, kernel=Gaussian(gamma=float(gamma)),
                                     sample_weight=sample_weight)
    return f.replace(C=_margin(f, SOFT) if isinstance(C, str) else float(C))


def _gammas(X: Samples, scales: Sequence[float]) -> list[float]:
    """The gamma of the rule, times scales; samples that are all equal have no scale: 1."""
    if (np.asarray(X) == np.asarray(X)[0]).all():
        return [1.0]
    base = neighbour_gamma(X, 1.0)
    return [base * s for s in scales]


def _margin(f: Any, times: float) -> float:
    """So many times c_min; at most the hard margin, C = n, but always a domain."""
    least = f.c_min()
    return float(max(min(times * least, f.n), 1.05 * least))


def given_number(X: Samples, n_clusters: int, *, gamma: Any = "auto", C: Any = "auto",
                 sample_weight: Any = None, seed: Seed = 0) -> tuple[Result, Assignment]:
    """The model, of a small grid around the rule, whose tree shows this number of peaks best.

    See `mmcopt.assignment.clearest`. Numbers given for gamma or C are kept. Where no tree has so
    many peaks, single samples count as peaks too, and then narrower kernels are tried.
    """
    integer(1).check("given_number", "n_clusters", n_clusters)
    distinct = len(np.unique(np.asarray(X), axis=0))
    if distinct < n_clusters:
        raise DataError(f"n_clusters={n_clusters} asks for more clusters than there are distinct "
                        f"samples: {distinct}.")
    for least, narrower in ((None, 1.0), (1, 1.0), (1, 4.0), (1, 16.0), (1, 64.0), (1, 1e6)):
        results = [_solved(f, seed) for f in _grid(X, gamma, C, sample_weight,
                                                      [narrower * s for s in SCALES], MARGINS)]
        try:
            clusters = clearest(results, n_clusters, min_size=least)
        except ParameterError:  # fewer peaks than that
            continue
        return next(r for r in results if r.formulation is clusters.domain.problem), clusters
    raise DataError(f"no model with gamma = {gamma} and C = {C} has {n_clusters} peaks; leave them "
                    "to 'auto', or ask for fewer clusters.")


def agreeing_graph(X: Samples, *, gamma: Any = "auto", C: Any = "auto", sample_weight: Any = None,
                   seed: Seed = 0) -> tuple[Result, Assignment]:
    """The model of a small grid whose graph agrees most with the level tree of the rule.

    Of models that agree as much, that which holds most samples. Numbers given are kept.
    """
    tree = level_tree(_solved(auto_problem(X, gamma=gamma, sample_weight=sample_weight), seed))
    found = []
    for f in _grid(X, gamma, C, sample_weight, GRAPH_SCALES, GRAPH_MARGINS):
        result = _solved(f, seed)
        clusters = parts_of(result, least_size(f.n) if sample_weight is None else 1)
        if clusters is not None:
            found.append((adjusted_rand_index(tree.labels, clusters.labels),
                          -float(clusters.outside.mean()), result, clusters))
    if not found:
        least = min(f.c_min() for f in _grid(X, gamma, C, sample_weight, GRAPH_SCALES,
                                             GRAPH_MARGINS))
        raise DataError(f"no sample is inside a domain with C = {C}: domains begin above "
                        f"C = {least:.6g}; give a larger C, or C='auto'.")
    best = max(score for score, *_ in found)
    _, _, result, clusters = max((row for row in found if row[0] >= best - ALIKE),
                                 key=lambda row: row[1])
    return result, clusters


def parts_of(result: Any, least: int, outliers: str = "nearest") -> Assignment | None:
    """Parts of at least so many samples, or all where none is; None of an empty domain."""
    domain = Domain.of(result)
    for size in (least, 1):
        try:
            return graph(domain, min_size=size, outliers=outliers)
        except ParameterError:  # every part is smaller
            continue
        except DataError:
            return None
    return None


def _grid(X: Samples, gamma: Any, C: Any, sample_weight: Any, scales: Sequence[float],
          margins: Sequence[float]) -> Iterator[Any]:
    gammas = _gammas(X, scales) if isinstance(gamma, str) else [float(gamma)]
    for g in gammas:
        f = formulation("OneClassHinge")(X, C=1.0, kernel=Gaussian(gamma=g),
                                         sample_weight=sample_weight)
        yield from (f.replace(C=_margin(f, t)) for t in margins) if isinstance(C, str) \
            else [f.replace(C=float(C))]


# ---------------------------------------------------------------- criteria side by side


@dataclass(frozen=True, eq=False)
class Candidates:
    """Models of one set, each with its clusters and three criteria; printed as a table.

    silhouette   mean silhouette of the clusters, -1 to 1: compact and apart; unfair to curved ones
    persistence  by how much the last of so many peaks persists beyond the next; 0 of one cluster
    stability    mean adjusted Rand index with the clusters of halves of the data, 1: the same
    inside       share of the samples inside the domain
    clusters     their number; all is blank where the domain is empty
    """

    rows: tuple[dict[str, Any], ...]
    results: tuple[Result, ...]
    clusters: tuple[Assignment | None, ...]

    COLUMNS = ("gamma", "C", "clusters", "inside", "silhouette", "persistence", "stability")

    def best(self, criterion: str) -> int:
        """The row that a criterion likes most."""
        if criterion not in self.COLUMNS[4:]:
            raise ParameterError(f"best: criterion must be one of {listed(self.COLUMNS[4:])}; "
                                 f"got {criterion!r}.")
        values = [row[criterion] for row in self.rows]
        if all(v is None for v in values):
            raise DataError(f"best: no model has a {criterion}; all found one cluster or none.")
        return int(np.argmax([-np.inf if v is None else v for v in values]))

    def __str__(self) -> str:
        return text_table(self.rows, self.COLUMNS)


@known_keywords
def domains(X: Any, *, gammas: Sequence[float] | None = None, Cs: Sequence[float] | None = None,
            method: str = "graph", halves: int = 4, seed: int = 0) -> Candidates:
    """Solve a grid of one-class models and show what three criteria say of each.

    Parameters
    ----------
    X
        Samples, dense.
    gammas, Cs
        The grid; by default a quarter of, half, once, twice and four times the gamma of the rule,
        and 1.3 c_min, 5 c_min and the hard margin of each gamma.
    method
        ``"graph"`` or ``"level_tree"``: how clusters are read from a model.
    halves
        Random halves of the data behind ``stability``.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=200,noise=.05,seed=0")
    >>> table = mm.selection.domains(X)
    >>> len(table.rows), table.rows[table.best("persistence")]["clusters"]
    (15, 2)
    """
    _METHOD.check("domains", "method", method)
    integer(1).check("domains", "halves", halves)
    for name, given in (("gammas", gammas), ("Cs", Cs)):
        if given is not None and not len(given):
            raise ParameterError(f"domains: {name} must hold at least one number; got none.")
    rng = np.random.default_rng(seed)
    n = len(X)
    parts = [np.sort(rng.choice(n, (n + 1) // 2, replace=False)) for _ in range(halves)]
    rows, results, found = [], [], []
    for gamma in _gammas(X, (0.25, 0.5, 1.0, 2.0, 4.0)) if gammas is None else gammas:
        f = formulation("OneClassHinge")(X, C=1.0, kernel=Gaussian(gamma=float(gamma)))
        margins = [_margin(f, t) for t in (SOFT, 5.0, np.inf)] if Cs is None else Cs
        for C in margins:
            result = _solved(f.replace(C=float(C)), seed)
            clusters = _clusters(result, method)
            rows.append(_row(result, clusters, method, parts, seed))
            results.append(result)
            found.append(clusters)
    return Candidates(tuple(rows), tuple(results), tuple(found))


def _solved(f: Any, seed: Seed) -> Result:
    """A solution; that its domain is empty is said in the table, not in a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the domain is empty")
        return whole(solve(f, seed=seed))


def _clusters(result: Result, method: str) -> Assignment | None:
    """Clusters without parts too small to count; None of an empty domain."""
    return parts_of(result, least_size(result.formulation.n)) if method == "graph" \
        else level_tree(result)


def _row(result: Result, clusters: Assignment | None, method: str, parts: Sequence[Any],
         seed: int) -> dict[str, Any]:
    f = result.formulation
    row: dict[str, Any] = dict.fromkeys(Candidates.COLUMNS)
    row |= {"gamma": f.kernel.gamma, "C": f.C}
    if clusters is None:
        return row
    k = clusters.n_clusters
    tree = clusters.tree or level_tree(clusters.domain).tree
    row |= {"clusters": k, "inside": 1.0 - float(clusters.outside.mean()),
            "persistence": tree.drop(k) if tree is not None and k > 1 else 0.0}
    if 1 < k < f.n:
        from sklearn.metrics import silhouette_score

        some = min(f.n, 2000)
        row["silhouette"] = float(silhouette_score(f.X, clusters.labels, sample_size=some,
                                                   random_state=0))
    scores = []
    for part in parts:
        half = f.replace(X=np.asarray(f.X)[part])
        other = _clusters(_solved(half, seed), method)
        if other is not None:
            scores.append(adjusted_rand_index(clusters.labels[part], other.labels))
    row["stability"] = float(np.mean(scores)) if scores else None
    return row
