"""One pass over a stream: the domain of the data, held by a bounded number of support vectors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mmcopt.assignment import Assignment, graph
from mmcopt.checks import data_matrix, integer, read_only, real
from mmcopt.errors import DataError
from mmcopt.kernels import Gaussian
from mmcopt.kernels.on_demand import Gaussians
from mmcopt.modeling import Formulation
from mmcopt.registry import formulation
from mmcopt.types import Floats

ROWS = 65_536  # of the stream that are converted at a time
STEPS = 3  # of the fixed-point map, from the border of the domain to its inside


class BudgetedDomain:
    """The problem `OneClassHinge` with a Gaussian kernel on a stream that is seen once.

    Round t of stochastic subgradient (SGD-LMSVC, Algorithm 1) takes the next row x of the stream
    and goes from w to ``(1 - 1/t) w + (C/t) [w'phi(x) < 1] phi(x)``. So w = C/t times a sum of
    counts of margin violations, and nothing has to be rescaled. Where that sum outgrows
    ``budget``, the vector of least count is merged with the one that changes w least, into a point
    between them; nothing is dropped. The result depends on the order of the rows, which should be
    as good as random (a stream sorted by cluster forgets the first), but not on how they are cut
    into chunks, and on no seed.

    C means what it means in `OneClassHinge`, |w|^2 / 2 + C times the mean loss, and so needs no
    number of samples: a share of about |w|^2 / C of the stream stays outside the domain. Steps are
    C/t long, so that a domain has settled after some 100 C rounds, and a larger C has more noise:
    after 1e6 rows of two moons the objective is .03, .3 and 1 % above its minimum for C = 100, 1000
    and 3000, and 22, 2.7 and 1 % of the rows are outside (gamma = 20). The default of 1000 suits
    streams of 1e5 rows and more; for shorter ones take less.

    Parameters
    ----------
    gamma : float
        The kernel exp(-gamma |x - z|^2), in the units of the data.
    C : float
        Weight of the mean loss.
    budget : int
        Support vectors at most. `kept` tells whether they are enough.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("moons:n=20000,noise=.05,seed=0")
    >>> domain = BudgetedDomain(gamma=20.0, C=300.0, budget=100)
    >>> for chunk in np.array_split(X, 7):
    ...     domain = domain.partial_fit(chunk)
    >>> domain.rounds, len(domain.weights)
    (20000, 100)
    >>> mm.metrics.adjusted_rand_index(y, domain.clusters().predict(X))
    1.0
    """

    def __init__(self, gamma: float, C: float = 1000.0, *, budget: int = 200) -> None:
        owner = type(self).__name__
        real(0, open_low=True).check(owner, "gamma", gamma)
        real(0, open_low=True).check(owner, "C", C)
        integer(1).check(owner, "budget", budget)
        self.gamma, self.C, self.budget = float(gamma), float(C), int(budget)
        self._memory = np.zeros(3)  # rounds done, vectors held, margin violations
        self._raw = np.zeros(self.budget + 1)  # counts
        self._columns: Floats | None = None  # (d, budget + 1)

    # ------------------------------------------------------------ the stream

    def __repr__(self) -> str:
        return f"BudgetedDomain(gamma={self.gamma:g}, C={self.C:g}, budget={self.budget})"

    def partial_fit(self, X: Any) -> Self:
        """Go on with the rows of X, one round each, in their order."""
        from mmcopt.compiled.gaussian_sums import budgeted_rounds

        X = self._rows(X)
        if self._columns is None:
            self._columns = np.zeros((X.shape[1], self.budget + 1))
        for s in range(0, len(X), ROWS):
            part = np.array(X[s:s + ROWS], dtype=np.float64, order="C")  # writable
            budgeted_rounds(part, self.gamma, self.C, self._columns, self._raw, self._memory)
        return self

    def _rows(self, X: Any) -> Floats:
        owner = type(self).__name__
        X = data_matrix(X, owner=owner, sparse=False)
        if self._columns is not None and X.shape[1] != len(self._columns):
            raise DataError(f"{owner}: X has {X.shape[1]} features, but the stream began with "
                            f"{len(self._columns)}.")
        return np.asarray(X)

    def _begun(self) -> Floats:
        if self._columns is None:
            raise DataError(f"{type(self).__name__} has seen no data; call partial_fit(X) first.")
        return self._columns[:, :int(self._memory[1])]

    @property
    def rounds(self) -> int:
        """Rows seen."""
        return int(self._memory[0])

    @property
    def support_vectors(self) -> Floats:
        """Points (m, d) on which w is a sum, m <= budget; merged ones are rows of no stream."""
        return read_only(np.ascontiguousarray(self._begun().T))

    @property
    def weights(self) -> Floats:
        """The m coefficients of w, all above 0: C / rounds times counts of margin violations."""
        held = self._begun().shape[1]
        return read_only(self.C * self._raw[:held] / self._memory[0])

    @property
    def kept(self) -> float:
        """Share of all counts that merging has kept, at most 1.

        Near 1 the budget is enough. Where it is not, points that are far apart for this gamma had
        to be merged, and the domain is smaller than without a budget.
        """
        held = self._begun().shape[1]
        return float(self._raw[:held].sum() / self._memory[2])

    def decision_function(self, X: Any) -> Floats:
        """w'phi(x) - 1 for the rows of X; not negative inside the domain."""
        S, a = self.support_vectors, self.weights
        X = self._rows(X)
        out = np.empty(len(X))
        for s in range(0, len(X), ROWS):
            columns = np.ascontiguousarray(X[s:s + ROWS].T, dtype=np.float64)
            out[s:s + ROWS] = Gaussians(columns, self.gamma).sums(S, a)
        return out - 1.0

    # ------------------------------------------------------------ clusters

    def inner_points(self) -> Floats:
        """The support vectors (m, d), moved uphill from the border of the domain to its inside.

        Three steps of the fixed-point map z = sum_i a_i k(z, s_i) s_i / sum_i a_i k(z, s_i), along
        which the decision function never falls.
        """
        S, a = self.support_vectors, self.weights
        gaussians, points = Gaussians(np.ascontiguousarray(S.T), self.gamma), S
        for _ in range(STEPS):
            K = gaussians.rows(points) * a
            points = K @ S / K.sum(axis=1)[:, None]
        return np.asarray(points)

    def problem(self) -> tuple[Formulation, Floats]:
        """A small `OneClassHinge` and a point of its dual box with this decision function.

        Its 2 m samples are the support vectors and, with coefficient 0, their `inner_points`. It
        stands in for the stream where clusters are sought; its objective is not that of the stream.
        """
        S, a = self.support_vectors, self.weights
        both = np.concatenate([a, np.zeros(len(a))])
        build = formulation("OneClassHinge")
        made = build(np.vstack([S, self.inner_points()]), C=self.C,
                     kernel=Gaussian(gamma=self.gamma), sample_weight=both)
        return made, both

    def clusters(self, **options: Any) -> Assignment:
        """Connected parts of the domain: `mmcopt.assignment.graph` of `problem`, to predict by.

        ``options`` are those of `graph`. The first m labels are those of the support vectors.
        """
        return graph(self.problem(), **options)
