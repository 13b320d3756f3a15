"""Support vector clustering behind ``fit`` and ``predict``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mmcopt.assignment import Assignment, equilibrium, level_tree
from mmcopt.assignment.peaks import least_size
from mmcopt.checks import choice, integer, optional, real, seed_of, unpacked
from mmcopt.condensing import Cells, micro_cells
from mmcopt.errors import ParameterError
from mmcopt.estimators.base import Clustering
from mmcopt.modeling.result import Result
from mmcopt.selection import one_class as selection
from mmcopt.solving import solve

METHODS = ("graph", "level_tree", "equilibrium")
CONDENSED = 3000  # samples beyond which they are condensed first, into so many cells at most:
CELLS = 2000


class SupportVectorClustering(Clustering):
    """Clusters as the connected parts of the domain of the data: one-class margins.

    The problem is `mmcopt.formulations.OneClassHinge`, the way to clusters `mmcopt.assignment`.

    Parameters
    ----------
    n_clusters : int or None
        None: as many as the domain has parts. A number: the most persistent peaks of the decision
        function (`mmcopt.assignment.level_tree`), whatever ``assignment`` says.
    gamma, C : "auto" or float
        "auto" is the rule of `mmcopt.selection.domains`: gamma from the distances of nearest
        neighbours, C from the least one that gives a domain; with ``n_clusters``, the model of a
        small grid in which that many clusters are clearest. Features are used as they are: scale
        them first when their units differ.
    assignment : "graph", "level_tree" or "equilibrium"
        How clusters are read from the domain. Where clusters touch, as in the set Flame, a graph
        joins them and the level tree does not.
    outliers : "nearest" or "mark"
        "mark" labels samples outside the domain -1.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array (n,)
        Clusters, numbered from the largest to the smallest.
    n_clusters_ : int
    gamma_, C_ : float
        The parameters used.
    objective_, lower_bound_, gap_ : float
        Of the one-class problem: its objective, a certified bound and the relative gap.
    result_ : Result
        The solution, of the cells where the samples were condensed.
    assignment_ : Assignment
        What the clusters were made from; ``boundary``, ``outside``, ``tree`` and more.
    cells_ : Cells or None
        More than 3000 samples are condensed into about 2000 weighted cells first.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=300,noise=.05,seed=0")
    >>> model = SupportVectorClustering(random_state=0).fit(X)
    >>> model.n_clusters_, mm.metrics.adjusted_rand_index(y, model.labels_)
    (2, 1.0)
    """

    def __init__(self, n_clusters: int | None = None, *, gamma: Any = "auto", C: Any = "auto",
                 assignment: str = "graph", outliers: str = "nearest",
                 random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.gamma = gamma
        self.C = C
        self.assignment = assignment
        self.outliers = outliers
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples in the rows of X, which may be sparse; y is ignored."""
        self._check_parameters()
        X = samples = self._rows(X)
        seed = seed_of(self.random_state, type(self).__name__)
        self.cells_: Cells | None = None
        weight = None
        if X.shape[0] > CONDENSED:
            self.cells_ = micro_cells(X, CELLS, seed=seed)
            X, weight = self.cells_.centres, self.cells_.weights
        self.result_, self.assignment_ = self._clusters(X, weight, seed)
        labels = self.assignment_.labels
        if self.cells_ is not None:  # cells have no outliers of their own
            labels = self.assignment_.predict(samples) if self.outliers == "mark" \
                else self.cells_.spread(labels)
        self.labels_ = labels
        self.n_clusters_ = self.assignment_.n_clusters
        f = self.result_.formulation
        self.gamma_, self.C_ = f.kernel.gamma, f.C
        self.objective_ = self.result_.objective
        self.lower_bound_ = self.result_.lower_bound
        self.gap_ = self.result_.gap
        return self

    def _rows(self, X: Any, *, reset: bool = True) -> NDArray[np.float64]:
        """The samples, checked; clusters are parts of the space of the features, so dense ones."""
        return unpacked(validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=reset))

    def _clusters(self, X: NDArray[Any], weight: Any, seed: int) -> tuple[Result, Assignment]:
        options = {"gamma": self.gamma, "C": self.C, "sample_weight": weight}
        if self.n_clusters is not None:
            result, clusters = selection.given_number(X, self.n_clusters, seed=seed, **options)
            return result, level_tree(clusters.domain, self.n_clusters, outliers=self.outliers)
        if self.assignment == "graph":
            result, clusters = selection.agreeing_graph(X, seed=seed, **options)
            least = least_size(len(X)) if weight is None else 1
            return result, selection.parts_of(clusters.domain, least, self.outliers) or clusters
        result = solve(selection.auto_problem(X, **options), seed=seed)
        if self.assignment == "level_tree":
            return result, level_tree(result, outliers=self.outliers)
        return result, equilibrium(result, outliers=self.outliers)

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        optional(integer(1)).check(owner, "n_clusters", self.n_clusters)
        choice(*METHODS).check(owner, "assignment", self.assignment)
        choice("nearest", "mark").check(owner, "outliers", self.outliers)
        for name in ("gamma", "C"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ParameterError(f"{owner}: {name} must be 'auto' or a number above 0; "
                                     f"got {value!r}.")
            if not isinstance(value, str):
                real(0, open_low=True).check(owner, name, value)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The decision function f of the domain: not negative inside."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        return self.result_.decision_function(X)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Clusters of samples: that of the nearest sample inside, or -1 for marked outliers."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        return self.assignment_.predict(X)
