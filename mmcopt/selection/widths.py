"""How wide a Gaussian kernel may be and still tell so many clusters apart.

Ridge regression on a kernel is a smoother: R = K (K + lam I)^-1 keeps the directions whose
eigenvalue in K is above lam, and tr R, the effective dimension, is how many these are. A partition
can only be fitted as far as they reach. Of k clusters along a line one direction each is enough; in
the plane they take about 1.5 along each axis, in space as many along each of three, and so
`RESOLVING` = 1.5^3, about 3.5, directions a cluster do for clusters that fill up to three
dimensions (seen on rows and lattices of round clusters: with fewer directions neighbours are
merged). Data of more dimensions have many more directions at any width. A kernel that is narrower
than it must be sees the noise within clusters, so of all widths up to 1 the largest is taken.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigvalsh

from mmcopt.checks import integer, real
from mmcopt.kernels import Gaussian
from mmcopt.types import Floats, Samples

RESOLVING = 3.5  # directions a cluster
SAMPLE, EACH = 500, 10  # rows that are looked at, and at least so many a cluster
NARROWEST, HALVINGS = 2.0**-8, 10


def resolving(X: Samples, n_clusters: int, *, lam: float = 0.1) -> Gaussian:
    """The widest Gaussian kernel, up to ``width=1``, that tells so many clusters apart.

    The effective dimension tr R at ``lam`` (see `LeastSquares`) is then at least 3.5 a cluster, or,
    where copies leave less than twice as many, half of what there is. It is estimated from 500 rows
    of large data. Clusters of very different sizes fare better by a wider kernel, or by
    `DiscriminativeKMeans`.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> resolving(X, 3), resolving(X, 30)
    (Gaussian(width=0.524), Gaussian(width=0.101))
    """
    integer(1).check("resolving", "n_clusters", n_clusters)
    real(0, open_low=True).check("resolving", "lam", lam)
    unit = Gaussian(width=1.0).fit(X, owner="resolving")
    count = min(unit.n, max(SAMPLE, EACH * n_clusters))
    rows = np.sort(np.random.default_rng(0).choice(unit.n, count, replace=False))
    K, share = unit.rows(rows, rows), lam * count / unit.n  # eigenvalues grow with the rows
    goal = min(RESOLVING * n_clusters, effective_dimension(K, NARROWEST, share) / 2)
    if effective_dimension(K, 1.0, share) >= goal:
        return Gaussian(width=1.0)
    low, high = math.log(NARROWEST), 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = effective_dimension(K, math.exp(middle), share) >= goal
        low, high = (middle, high) if enough else (low, middle)
    digits = 2 - math.floor(low / math.log(10.0))  # behind the point, to have three that count
    return Gaussian(width=round(math.exp(low) - 0.5 * 10.0**-digits, digits))


def effective_dimension(K: Floats, width: float, lam: float) -> float:
    """Trace of R of a centred Gaussian kernel, given the one of width 1, which is a power of it."""
    K = K ** (width**-2)
    mean = K.mean(axis=0)
    w = np.maximum(eigvalsh(K - mean - mean[:, None] + mean.mean()), 0.0)
    return float((w / (w + lam)).sum())
