"""K-means that says how far from optimal it can be, in place of scikit-learn's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mmcopt.checks import integer, is_sparse, optional, real, seed_of
from mmcopt.estimators.base import Clustering
from mmcopt.kernels.data import differences
from mmcopt.kernels.on_demand import row_weights
from mmcopt.modeling.result import Result, Status
from mmcopt.registry import formulation
from mmcopt.solving import solve
from mmcopt.types import Floats, Ints


class CertifiedKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Clustering):
    """A drop-in for scikit-learn's ``KMeans`` that searches better and bounds the optimum.

    It solves `mmcopt.formulations.KernelKMeans` by `mmcopt.solvers.Memetic`: by `Hartigan` from
    several starts, whose clusters are then recombined.

    Parameters
    ----------
    n_clusters : int
    certify : float or None
        Seconds in which to raise the bound until it meets the inertia; what is found better on the
        way is taken over. None leaves it at the bound by eigenvalues, which costs next to nothing.
    restarts : int
        Runs of the whole search, of which the best is kept.
    time_limit : float or None
        Seconds for the search; it then uses all of them.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array (n,)
        Clusters are numbered by their centers, in the order of the first feature.
    cluster_centers_ : array (n_clusters, d)
    inertia_ : float
        The (weighted) sum of squared distances to the centers.
    lower_bound_, gap_ : float or None
        No clustering at all has an inertia below the bound; the gap is relative to `inertia_`.
    result_ : Result
        Everything else: history, certificate, ``verify``, ``certify``. Where samples have weight 0
        it is about the others.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> model = CertifiedKMeans(3, random_state=0).fit(X)
    >>> round(model.inertia_, 4), model.lower_bound_ <= model.inertia_
    (78.8514, True)
    """

    def __init__(self, n_clusters: int = 8, *, certify: float | None = None, restarts: int = 1,
                 time_limit: float | None = None, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.certify = certify
        self.restarts = restarts
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Cluster the samples in the rows of X; y is ignored."""
        self._check_parameters()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32],
                          ensure_min_samples=2)
        w = self._weights(sample_weight, X.shape[0])
        used = np.flatnonzero(w > 0.0)
        self.result_ = self._solved(X[used], None if (w[used] == w[used[0]]).all() else w[used])
        unit = 1.0 if self.result_.formulation.sample_weight is not None else float(w[used[0]])
        self._describe(X, used, unit)
        return self

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        integer(1).check(owner, "n_clusters", self.n_clusters)
        integer(1).check(owner, "restarts", self.restarts)
        optional(real(0)).check(owner, "time_limit", self.time_limit)
        optional(real(0)).check(owner, "certify", self.certify)

    def _weights(self, given: ArrayLike | None, n: int) -> Floats:
        return np.ones(n) if given is None else row_weights(given, n, type(self).__name__)

    def _solved(self, X: Any, w: Floats | None) -> Result:
        problem = formulation("KernelKMeans")(X, self.n_clusters, sample_weight=w)
        seed = seed_of(self.random_state, type(self).__name__)
        # One cluster leaves one labeling, which enumeration certifies.
        given = "BruteForce" if self.n_clusters == 1 else None
        result = solve(problem, given, restarts=self.restarts, seed=seed,
                       time_limit=self.time_limit)
        if self.certify is None or result.status is Status.INTERRUPTED:
            return result
        return result.certify(time_limit=self.certify, improve=True)

    def _describe(self, X: Any, used: Ints, unit: float) -> None:
        """Set what is known of the answer; ``unit`` is what each sample weighs, if all the same."""
        problem, labels = self.result_.formulation, np.asarray(self.result_.point)
        A = problem.means(labels)
        centers = np.asarray(X[used].T @ A).T
        order = np.lexsort(centers.T[::-1])
        self.cluster_centers_ = np.ascontiguousarray(centers[order])
        self.labels_ = np.empty(X.shape[0], dtype=np.int32)
        self.labels_[used] = np.argsort(order)[labels]
        rest = np.setdiff1d(np.arange(X.shape[0]), used)
        if rest.size:
            self.labels_[rest] = self._nearest(X[rest])
        self.inertia_ = unit * self.result_.objective
        bound = self.result_.lower_bound
        self.lower_bound_ = None if bound is None else unit * bound
        self.gap_ = self.result_.gap

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _nearest(self, X: Any) -> NDArray[np.int32]:
        return np.asarray(np.argmin(self._squares(X), axis=1), dtype=np.int32)

    def _squares(self, X: Any) -> Floats:
        """Squared distances of checked samples to the centers, to all digits."""
        centers: Any = self.cluster_centers_
        return differences("l2", X, csr_array(centers) if is_sparse(X) else centers)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32],
                             reset=False)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the cluster whose center is nearest, for each sample."""
        return self._nearest(self._rows(X))

    def fit_predict(self, X: Any, y: Any = None,
                    sample_weight: ArrayLike | None = None) -> NDArray[np.int32]:
        """Cluster the samples and return their labels."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> Floats:
        """Return the distance of each sample to each center."""
        return np.sqrt(self._squares(self._rows(X)))

    def fit_transform(self, X: Any, y: Any = None,
                      sample_weight: ArrayLike | None = None) -> Floats:
        """Cluster the samples and return their distances to the centers."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the inertia of these samples by the centers found."""
        X = self._rows(X)
        w = self._weights(sample_weight, X.shape[0])
        return -float(w @ self._squares(X).min(axis=1))
