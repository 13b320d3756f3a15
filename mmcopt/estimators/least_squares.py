"""scikit-learn estimators: the same problems and solvers behind ``fit`` and ``predict``."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mmcopt.checks import choice, integer, optional, real, seed_of
from mmcopt.errors import MMCWarning, ParameterError
from mmcopt.estimators.base import Clustering
from mmcopt.kernels import Kernel, as_kernel
from mmcopt.modeling.result import Result, Status
from mmcopt.registry import formulation
from mmcopt.selection import by_graph, most_central, path, resolving
from mmcopt.solving import solve

PLAIN_LAM = 0.1
PATH_LIMIT = 4000  # samples up to which lam="auto" follows a path
DENSE_LIMIT = 10_000  # samples up to which kernel="auto" is not approximated
RANK = 500  # of the approximation beyond


class LeastSquaresClustering(Clustering):
    """Maximum-margin clustering with the least-squares loss (`mmcopt.formulations.LeastSquares`).

    Parameters
    ----------
    n_clusters : int
    kernel : "auto", Kernel or name
        "auto" is a Gaussian kernel, the widest up to ``width=1`` that tells so many clusters apart
        (`mmcopt.selection.resolving`), approximated by 500 landmarks beyond 10,000 samples. Do not
        standardise the features first unless their units differ.
    lam : "auto" or float
        "auto" follows a path of seven values from 10^-2.5 to 10^0.5 and takes the one whose
        partition agrees most with those of the others (`mmcopt.selection.most_central`); beyond
        4000 samples it is 0.1.
    sizes : Sizes, share or None
        Bounds on the cluster sizes, as in `mmcopt.constraints.Sizes`.
    known, must_link, cannot_link
        What is known of some labels, as in `mmcopt.constraints`: ``{0: 1}``, ``[(3, 8)]``,
        ``[(0, 5)]``, by the rows of X.
    solver : Solver, name or None
        What solves the problem at the parameters chosen; None is the default, `Memetic`. With
        ``model="auto"`` it solves those on the graph, too, if it fits them.
    model : "least-squares" or "auto"
        "auto" solves `LeastSquares` and `KernelKMeans` on a graph of neighbours, too, and takes
        one of these where it cuts far fewer edges (`mmcopt.selection.by_graph`).
    restarts : int
        Runs of the solver at the parameters chosen, of which the best is kept.
    time_limit : float or None
        Seconds for the solver at the parameters chosen; it then uses all of them.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array (n,)
    objective_, lower_bound_, gap_ : float
        The objective, a certified lower bound, and the relative gap between them.
    result_ : Result
        Everything else: history, certificate, ``verify``, ``certify``, ``plot``.
    kernel_, lam_ : Kernel, float
        The parameters used; no lam where ``model="auto"`` took `KernelKMeans`.

    Notes
    -----
    Clusters of very different sizes and two-dimensional shapes are known failures of the defaults:
    give ``sizes``, or ``model="auto"``, or solve `DiscriminativeKMeans`, or `KernelKMeans` on the
    kernel `Neighbors`.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:3,8")
    >>> model = LeastSquaresClustering(2, random_state=0).fit(X)
    >>> mm.metrics.accuracy(y, model.labels_) > 0.98
    True
    """

    def __init__(self, n_clusters: int = 2, *, kernel: Any = "auto", lam: Any = "auto",
                 sizes: Any = None, known: Any = None, must_link: Any = None,
                 cannot_link: Any = None, model: str = "least-squares", solver: Any = None,
                 restarts: int = 1, time_limit: float | None = None,
                 random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.lam = lam
        self.sizes = sizes
        self.known = known
        self.must_link = must_link
        self.cannot_link = cannot_link
        self.model = model
        self.solver = solver
        self.restarts = restarts
        self.time_limit = time_limit
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed" if isinstance(self.kernel, str) \
            else isinstance(self.kernel, Kernel) and self.kernel.reads_matrix
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples in the rows of X; y is ignored."""
        self._check_parameters()
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
        seed = seed_of(self.random_state, type(self).__name__)
        kernel = self._kernel(X)
        problem = formulation("LeastSquares")(X, self.n_clusters, kernel=kernel, lam=PLAIN_LAM,
                                              sizes=self.sizes, known=self.known,
                                              must_link=self.must_link,
                                              cannot_link=self.cannot_link)
        start = None
        if not isinstance(self.lam, str):
            problem = problem.replace(lam=float(self.lam))
        elif X.shape[0] <= PATH_LIMIT and self.n_clusters > 1:
            start = most_central(path(problem, seed=seed))
            problem = start.formulation
        if start is not None and start.status is Status.INTERRUPTED:
            self.result_ = start
        else:
            self.result_ = self._solved(problem, start, seed)
        if self.model == "auto" and self.n_clusters > 1 \
                and self.result_.status is not Status.INTERRUPTED:
            self.result_ = by_graph(self.result_, seed=seed, time_limit=self.time_limit,
                                    solver=self.solver)
            problem = self.result_.formulation
        self.kernel_, self.lam_ = problem.kernel, getattr(problem, "lam", None)
        self.labels_ = self.result_.labels
        self.objective_ = self.result_.objective
        self.lower_bound_ = self.result_.lower_bound
        self.gap_ = self.result_.gap
        return self

    def _solved(self, problem: Any, start: Result | None, seed: int) -> Result:
        # One cluster leaves one labeling, which enumeration certifies.
        given = "BruteForce" if self.n_clusters == 1 else self.solver
        with warnings.catch_warnings():
            if self._automatic:  # to take another kernel is no advice to who has not named one
                warnings.filterwarnings("ignore", ".*effective_dimension", MMCWarning)
            return solve(problem, given, init=None if start is None else start.point,
                         restarts=self.restarts, seed=seed, time_limit=self.time_limit)

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        integer(1).check(owner, "n_clusters", self.n_clusters)
        integer(1).check(owner, "restarts", self.restarts)
        optional(real(0)).check(owner, "time_limit", self.time_limit)
        choice("least-squares", "auto").check(owner, "model", self.model)
        if not (isinstance(self.lam, str) and self.lam == "auto"):
            if isinstance(self.lam, str):
                raise ParameterError(f"{owner}: lam must be 'auto' or a number above 0; "
                                     f"got {self.lam!r}.")
            real(0, open_low=True).check(owner, "lam", self.lam)

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "auto"

    def _kernel(self, X: Any) -> Kernel:
        if not self._automatic:
            return as_kernel(self.kernel)
        lam = PLAIN_LAM if isinstance(self.lam, str) else float(self.lam)
        plain = resolving(X, self.n_clusters, lam=lam)
        return plain if X.shape[0] <= DENSE_LIMIT else plain.nystroem(RANK)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of samples, one column a cluster."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)
        return self.result_.decision_function(X)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the cluster with the largest score for each sample.

        On the training samples this may differ from ``labels_``, which are the optimum of a
        problem in which every label influences all scores.
        """
        return np.argmax(self.decision_function(X), axis=1)
