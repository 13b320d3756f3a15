"""Clusters told apart by margins, behind ``fit`` and ``predict``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mmcopt.checks import integer, optional, real, seed_of
from mmcopt.estimators.base import Clustering
from mmcopt.kernels import Gaussian, Laplacian, Linear, Polynomial
from mmcopt.kernels.descriptions import as_kernel
from mmcopt.modeling.result import Result
from mmcopt.registry import formulation
from mmcopt.registry import solver as registered
from mmcopt.solving import solve

FLOOR = 0.8  # of n / k, below which no class may fall where there are three or more
LANDMARKED, LANDMARKS = 400, 200  # samples beyond which kernels look at so many of them
KERNELS = (Linear(), Polynomial(2), Gaussian(width=0.5))
WITHOUT_FEATURES = (Polynomial, Gaussian, Laplacian)


def _lighter(kernel: Any, X: Any) -> Any:
    """A kernel as it is used for X: by landmarks where samples are many and it has no features."""
    known = None if kernel is None else as_kernel(kernel)
    if known is None or X.shape[0] <= LANDMARKED or known.reads_matrix \
            or not isinstance(known, WITHOUT_FEATURES) and known.fit(X).explicit:
        return kernel
    return known.nystroem(LANDMARKS)


class _MarginClustering(Clustering):
    """What both estimators share: starts, floors, and the attributes after ``fit``."""

    n_clusters: int
    size_floor: Any
    restarts: int
    time_limit: float | None
    random_state: Any

    def _problem(self, X: Any, floor: float) -> Any:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples in the rows of X; y is ignored."""
        owner = type(self).__name__
        integer(1).check(owner, "n_clusters", self.n_clusters)
        integer(1).check(owner, "restarts", self.restarts)
        optional(real(0)).check(owner, "time_limit", self.time_limit)
        optional(real(0, 1)).check(owner, "size_floor", self.size_floor)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
        k = self.n_clusters
        self.result_: Result | None = None
        self.labels_ = np.zeros(X.shape[0], dtype=np.int64)
        self.objective_: float = 0.0
        self.lower_bound_: float | None = 0.0
        self.gap_: float | None = 0.0
        if k == 1:
            return self
        floor = self.size_floor if self.size_floor is not None else FLOOR if k > 2 else 0.0
        problem = self._problem(X, float(floor))
        solver, init, restarts = self._search(problem)
        result = solve(problem, solver, init=init, restarts=restarts,
                       seed=seed_of(self.random_state, owner), time_limit=self.time_limit)
        self.result_, self.labels_ = result, np.array(result.labels)
        self.objective_ = result.objective
        self.lower_bound_, self.gap_ = result.lower_bound, result.gap
        return self

    def _search(self, problem: Any) -> tuple[Any, str, int]:
        """The solver, its start, and how often it is run."""
        few, count = self.n_clusters == 2, self.restarts
        # Starts by k-means are better than random ones, two classes aside.
        chosen = registered("MarginSearch")(starts=count, patience=count) if few else \
            registered("MarginSearch")(starts=count, patience=0, first="kmeans")
        if chosen.takes(problem):
            return chosen, "random", 1
        return chosen, "random" if few else "kmeans", count

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of samples, one column a class."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)
        if self.result_ is None:
            return np.zeros((X.shape[0], 1))
        return self.result_.decision_function(X)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the class of the largest score for each sample.

        On the training samples this may differ from ``labels_`` where ``size_floor`` holds some in
        a class of a lower score.
        """
        return np.argmax(self.decision_function(X), axis=1)


class MaxMarginClustering(_MarginClustering):
    """Maximum-margin clustering by `MarginSearch` (`mmcopt.formulations.CPM3C`).

    Parameters
    ----------
    n_clusters : int
    beta : float
        Weight of the squared norm against the mean loss.
    kernel : Kernel, name or None
        None separates the features themselves, dense or sparse. Of more than 400 samples
        a kernel without a feature map looks at 200 landmarks among them
        (``kernel.nystroem(200)``).
    size_floor : float or None
        Share of n / k below which no class may fall; None is 0 for two classes and 0.8 for more,
        where classes are otherwise lost.
    restarts : int
        Starts, random ones for two classes and by k-means for more; the lowest objective is kept.
    time_limit : float or None
        Seconds, all of which are spent on further starts.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array (n,)
    objective_, lower_bound_, gap_ : float
    result_ : Result
        Everything else; None for a single cluster.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:3,8")
    >>> model = MaxMarginClustering(2, random_state=0).fit(X)
    >>> mm.metrics.accuracy(y, model.labels_) > 0.95
    True
    """

    def __init__(self, n_clusters: int = 2, *, beta: float = 0.03, kernel: Any = None,
                 size_floor: float | None = None, restarts: int = 10,
                 time_limit: float | None = None, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.beta = beta
        self.kernel = kernel
        self.size_floor = size_floor
        self.restarts = restarts
        self.time_limit = time_limit
        self.random_state = random_state

    def _problem(self, X: Any, floor: float) -> Any:
        return formulation("CPM3C")(X, self.n_clusters, beta=self.beta,
                                    kernel=_lighter(self.kernel, X),
                                    size_floor=floor)


class MultipleKernelClustering(_MarginClustering):
    """Maximum-margin clustering with several weighted kernels (`mmcopt.formulations.MKC`).

    Parameters
    ----------
    n_clusters : int
    kernels : list of Kernel, or "auto"
        "auto" is ``[Linear(), Polynomial(2), Gaussian(width=.5)]``. Of more than 400 samples those
        without a feature map look at 200 landmarks among them (``kernel.nystroem(200)``).
    C : float
        Weight of the mean loss against the squared norm.
    p : float
        The weights s of the kernels have ``|s|_p <= 1``.
    size_floor, restarts, time_limit, random_state
        As in `MaxMarginClustering`.

    Attributes
    ----------
    labels_ : array (n,)
    kernel_weights_ : array
        One weight a kernel, of norm 1; None for a single cluster.
    objective_, lower_bound_, gap_ : float
    result_ : Result

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:1,7")
    >>> model = MultipleKernelClustering(2, restarts=3, random_state=0).fit(X)
    >>> mm.metrics.accuracy(y, model.labels_), model.kernel_weights_.shape
    (1.0, (3,))
    """

    def __init__(self, n_clusters: int = 2, *, kernels: Any = "auto", C: float = 50.0,
                 p: float = 2.0, size_floor: float | None = None, restarts: int = 10,
                 time_limit: float | None = None, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.kernels = kernels
        self.C = C
        self.p = p
        self.size_floor = size_floor
        self.restarts = restarts
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples in the rows of X; y is ignored."""
        super().fit(X)
        self.kernel_weights_ = None if self.result_ is None \
            else self.result_.formulation.kernel_weights(self.result_.point)
        return self

    def _problem(self, X: Any, floor: float) -> Any:
        kernels = KERNELS if isinstance(self.kernels, str) and self.kernels == "auto" \
            else self.kernels
        if isinstance(kernels, list | tuple):  # what else there is, is refused below
            kernels = [_lighter(kernel, X) for kernel in kernels]
        return formulation("MKC")(X, self.n_clusters, kernels=kernels, C=self.C, p=self.p,
                                  size_floor=floor)
