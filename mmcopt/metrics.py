"""How well a clustering agrees with known classes, by the contingency table, or fits its data.

Labels may be any values (numbers, text, None). The names of the clusters never matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmcopt.checks import data_matrix, encode_labels
from mmcopt.errors import DataError
from mmcopt.types import Floats, Ints

__all__ = [
    "accuracy",
    "adjusted_rand_index",
    "clustering_error",
    "compactness",
    "contingency",
    "davies_bouldin_index",
    "normalized_mutual_information",
    "purity",
    "rand_index",
]


def _codes(labels: ArrayLike, name: str) -> NDArray[np.int64]:
    a = np.asarray(labels)
    if a.ndim != 1 or a.size == 0:
        raise DataError(f"metrics: {name} must be 1-D with at least one label; "
                        f"got shape {a.shape}.")
    if a.dtype.kind == "O":  # values that cannot be sorted, such as None among text
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(v, len(seen)) for v in a.tolist()], dtype=np.int64)
    if a.dtype.kind in "SMm":  # bytes and times, which have an order
        return np.unique(a, return_inverse=True)[1].astype(np.int64)
    return encode_labels(a, a.size, owner=f"metrics ({name})")[0]


def contingency(y: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Count the samples of each class (rows) in each cluster (columns), both in sorted order.

    Values that cannot be sorted come in the order of their first appearance.

    Examples
    --------
    >>> contingency(["a", "a", "b", "b"], [1, 1, 1, 0])
    array([[0, 2],
           [1, 1]])
    """
    rows, columns = _codes(y, "y"), _codes(labels, "labels")
    if rows.size != columns.size:
        raise DataError(f"metrics: y has {rows.size} entries and labels {columns.size}; "
                        "they must match.")
    k_rows, k_columns = int(rows.max()) + 1, int(columns.max()) + 1
    counts = np.bincount(rows * k_columns + columns, minlength=k_rows * k_columns)
    return counts.reshape(k_rows, k_columns).astype(np.int64)


def accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of samples that agree when clusters are matched to classes at best.

    The matching is one to one: samples of a cluster beyond the number of classes count as wrong.

    Examples
    --------
    >>> accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    table = contingency(y, labels)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def clustering_error(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of samples that disagree under the best matching (1 - accuracy).

    Examples
    --------
    >>> clustering_error([0, 0, 1, 1], [1, 1, 0, 1])
    0.25
    """
    from scipy.optimize import linear_sum_assignment

    table = contingency(y, labels)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float((table.sum() - table[rows, columns].sum()) / table.sum())


def purity(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of samples that belong to the largest class of their cluster.

    Unlike `accuracy`, several clusters may stand for the same class.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [0, 1, 2, 3])
    1.0
    """
    table = contingency(y, labels)
    return float(table.max(axis=0).sum() / table.sum())


def _pairs(table: NDArray[np.int64]) -> tuple[int, int, int, int]:
    """Count pairs: together in both, in the classes, in the clusters; and all of them.

    Python integers, because products of pair counts leave 64 bits at 100,000 samples.
    """

    def chosen(counts: NDArray[np.int64]) -> int:
        return int((counts * (counts - 1) // 2).sum())

    n = int(table.sum())
    return chosen(table), chosen(table.sum(axis=1)), chosen(table.sum(axis=0)), n * (n - 1) // 2


def rand_index(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of pairs of samples that both groupings treat alike.

    Examples
    --------
    >>> rand_index([0, 0, 1, 1], [0, 0, 1, 2])  # 5 of 6 pairs
    0.8333333333333334
    """
    both, in_classes, in_clusters, total = _pairs(contingency(y, labels))
    return 1.0 if total == 0 else (total + 2 * both - in_classes - in_clusters) / total


def adjusted_rand_index(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the Rand index corrected for chance: 1 for equal groupings, about 0 for random ones.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    both, in_classes, in_clusters, total = _pairs(contingency(y, labels))
    if both == in_classes == in_clusters:  # the same grouping, trivial ones included
        return 1.0
    above = 2 * (both * total - in_classes * in_clusters)
    below = (in_classes + in_clusters) * total - 2 * in_classes * in_clusters
    return above / below


def normalized_mutual_information(y: ArrayLike, labels: ArrayLike) -> float:
    """Return the mutual information divided by the mean of the two entropies, in [0, 1].

    Two groupings of one single cluster each agree perfectly: 1.

    Examples
    --------
    >>> normalized_mutual_information([0, 0, 1, 1], [0, 1, 0, 1])
    0.0
    """
    table = contingency(y, labels)
    p = table / table.sum()
    p_rows, p_columns = p.sum(axis=1), p.sum(axis=0)
    # Every class and every cluster has a sample, so the marginals are positive.
    entropies = -float(p_rows @ np.log(p_rows)) - float(p_columns @ np.log(p_columns))
    if max(table.shape) == 1:
        return 1.0
    i, j = np.nonzero(p)
    information = float(p[i, j] @ np.log(p[i, j] / (p_rows[i] * p_columns[j])))
    score = 2.0 * information / entropies
    return 0.0 if score < 1e-14 else min(1.0, score)


# ---------------------------------------------------------------- without classes


def _scatter(X: Any, labels: ArrayLike, owner: str) -> tuple[Floats, Floats, Floats, Ints]:
    """The samples less their mean, distances from the mean of the own cluster, means, codes."""
    A = np.asarray(data_matrix(X, owner=owner, sparse=False), dtype=np.float64)
    codes = _codes(labels, "labels")
    if len(A) != codes.size:
        raise DataError(f"{owner}: X has {len(A)} rows and labels {codes.size}; they must match.")
    A = A - A.mean(axis=0)
    means = np.zeros((int(codes.max()) + 1, A.shape[1]))
    np.add.at(means, codes, A)
    means /= np.bincount(codes)[:, None]
    return A, np.sqrt(np.square(A - means[codes]).sum(axis=1)), means, codes


def compactness(X: Any, labels: ArrayLike) -> float:
    """Return the mean distance to the mean of the own cluster over that to the mean of all.

    Lower is more compact: 1 for a single cluster, 0 for clusters of one sample each (and for data
    that are all equal), so it compares clusterings of about as many clusters. There is no standard
    definition; this one is ours and does not change when data are moved, turned or scaled.

    Examples
    --------
    >>> compactness([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    0.2
    """
    A, distance, _, _ = _scatter(X, labels, "compactness")
    whole = float(np.sqrt(np.square(A).sum(axis=1)).sum())
    return float(distance.sum()) / whole if whole > 0 else 0.0


def davies_bouldin_index(X: Any, labels: ArrayLike) -> float:
    """Return the mean over clusters of the largest (s_i + s_j) / d_ij: LOWER is better.

    s_i is the mean distance of the samples of cluster i from its mean, d_ij the distance of two
    means (Davies and Bouldin 1979). NaN for a single cluster, infinite where two means are equal
    (unless both clusters are without spread).

    Examples
    --------
    >>> davies_bouldin_index([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    0.2
    """
    _, distance, means, codes = _scatter(X, labels, "davies_bouldin_index")
    k = len(means)
    if k < 2:
        return float("nan")
    from scipy.spatial.distance import cdist

    spread = np.bincount(codes, weights=distance) / np.bincount(codes)
    both, between = spread[:, None] + spread, cdist(means, means)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(both > 0, both / between, 0.0)
    np.fill_diagonal(ratio, 0.0)
    return float(ratio.max(axis=1).mean())
