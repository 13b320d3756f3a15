"""K-means, in the space of any kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from mmcopt.capabilities import LabelRatio
from mmcopt.capabilities.matrices import Dense, Symmetric
from mmcopt.capabilities.tiled_factor import TiledFactor
from mmcopt.checks import is_sparse
from mmcopt.constraints import CannotLinkLike, KnownLike, MustLinkLike, Sizes, SizesLike
from mmcopt.datasets.scratch import Scratch
from mmcopt.errors import DataError
from mmcopt.formulations.kernel_labels import KernelLabels
from mmcopt.kernels import FittedKernel, Gaussian, Kernel, Linear
from mmcopt.kernels.block_features import BlockFeatures, held
from mmcopt.kernels.features import Features
from mmcopt.kernels.on_demand import row_weights
from mmcopt.linalg import UNIT, roots
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints, RowBlocks, Samples


class KernelKMeans(KernelLabels):
    """Labels whose clusters lie closest to their means, in the space of a kernel.

    Minimise over labels c, no cluster empty, ``J(c) = sum_i w_i |phi(x_i) - m_{c_i}|^2``, m_h the
    mean of cluster h by the weights w. With the kernel K, D = diag(w) and z_h the indicator of
    cluster h, ``J(c) = tr D K - sum_h z_h'D K D z_h / w'z_h``. For the linear kernel that is
    k-means itself, and the objective is what scikit-learn calls inertia.

    Parameters
    ----------
    X : array (n, d), sparse matrix, or kernel matrix (n, n) with ``Precomputed()``
        Rows may come in blocks (`mmcopt.datasets.blocks`), with kernels that have features.
    n_clusters : int
    kernel : Kernel, default Linear()
        Where it has few features (`Linear` of dense X, `nystroem`), they are what is worked on, and
        no n x n matrix is made. Centring a kernel moves all means alike: it changes nothing.
    sample_weight : array (n,) of positive numbers, optional
        What samples weigh in the means and in J. Sizes go on to count samples.
    sizes, known, must_link, cannot_link
        See `mmcopt.constraints`; plain values are accepted: ``sizes=0.2``, ``known={0: 1}``,
        ``must_link=[(3, 8)]``.

    The trivial bound is 0.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> problem = KernelKMeans(X, 3)
    >>> round(problem.objective(y), 3)
    89.297
    """

    paper = "MacQueen (1967); Dhillon, Guan and Kulis (2004), kernel k-means, eq. 1"
    default_solver = "Memetic"
    takes_blocks = True

    def __init__(self, X: Samples, n_clusters: int = 2, *, kernel: Kernel | str = Linear(),
                 sample_weight: ArrayLike | None = None, sizes: SizesLike = None,
                 known: KnownLike = None, must_link: MustLinkLike = None,
                 cannot_link: CannotLinkLike = None) -> None:
        super().__init__(X, n_clusters, kernel=kernel, sizes=sizes, known=known,
                         must_link=must_link, cannot_link=cannot_link)
        self.sample_weight = None if sample_weight is None else \
            row_weights(sample_weight, self.n, type(self).__name__)
        if self.sample_weight is not None and not self.sample_weight.min() > 0.0:
            raise DataError(f"{type(self).__name__}: sample_weight must be above 0, because a "
                            "cluster of samples without weight has no mean; leave out such "
                            f"samples, {int((self.sample_weight == 0).sum())} here.")

    # ------------------------------------------------------------ matrices

    @cached
    def volumes(self) -> Floats:
        """What samples weigh."""
        return np.ones(self.n) if self.sample_weight is None else self.sample_weight

    @cached
    def in_parts(self) -> BlockFeatures | None:
        """Vectors of the samples in the space of the kernel, their mean 0, which may be in blocks.

        None if they are not at hand.
        """
        if isinstance(self.X, RowBlocks):
            Phi = self._features()
            return Phi if self.sample_weight is None else Phi.moved(self._moved, 0.0, 1.0)
        return None if self.vectors is None else held(self.vectors, type(self).__name__)

    @cached
    def vectors(self) -> Floats | None:
        """The same in memory."""
        if self.fitted.explicit:
            Phi = np.asarray(self._features().dense())
        elif isinstance(self.kernel, Linear) and not is_sparse(self.X):
            X = np.asarray(self.X)
            Phi = X - np.mean(X, axis=0, dtype=np.float64)
            self._require_differences(held(Phi, type(self).__name__))
        else:
            return None
        return np.asarray(Phi - self.volumes @ Phi / self.volumes.sum())

    @cached
    def _moved(self) -> Floats | float:
        """What was taken from the kernel's own features, so that the mean by weight is 0."""
        if self.sample_weight is None:
            return 0.0
        sums = self.fitted.stored().total_of(_weighted_sum, along=self.volumes)[0]
        return np.asarray(sums / self.volumes.sum())

    @cached
    def W(self) -> Symmetric:
        """The matrix D K D of the samples: a factor when the kernel has few features."""
        w = self.volumes
        if self.in_parts is not None and self.low_rank:
            return TiledFactor(self.in_parts if self.sample_weight is None
                               else self._by_weight(self.in_parts))
        if self.vectors is None:
            return Dense(n=self.n, build=lambda: self.K * w[:, None] * w)
        Psi = self.vectors * w[:, None]
        return Dense(n=self.n, build=lambda: Psi @ Psi.T)

    def _by_weight(self, Phi: BlockFeatures) -> BlockFeatures:
        """Features times the weights of their samples, in a file where they come in blocks."""
        rows, owner = Phi.each(_weighted_rows, along=self.volumes), type(self).__name__
        if not Phi.blocked:
            return held(np.concatenate(list(rows)), owner)
        return BlockFeatures.known(Scratch(rows, (self.n, Phi.d), owner), owner)

    def _constant(self) -> float:
        """The sum of the squared lengths."""
        if self.in_parts is not None:
            return float(self.in_parts.total_of(_spread, along=self.volumes)[0])
        return float(self.volumes @ np.diagonal(self.K))

    @cached
    def rounding(self) -> tuple[float, float]:
        """How far rounding may take the objective by W: a share of it, and an absolute part."""
        terms = self.n + self.X.shape[1] + 16
        error = self.fitted.accuracy()[0] if self.in_parts is None else 0.0
        size = abs(self._over_labels.constant)
        return 0.0, float(2.0 * terms * UNIT * size + 2.0 * self.volumes.sum() * error)

    @property
    def share(self) -> float:
        """What rounding may change of an objective that is summed over vectors: a share of it."""
        return 4.0 * (self.X.shape[1] + 32) * UNIT

    def uncertainty(self, point: Ints) -> float:
        if self.in_parts is not None:
            return self.share * self.objective(point)
        return self.rounding[1]

    def rough_words(self) -> str:
        return ("the clusters are so tight that the rounding of the kernel leaves no digit of the "
                "objective; take fewer clusters, or a kernel of features, such as nystroem")

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Share what the changed arguments leave alone."""
        if not changed & {"X", "kernel"}:
            keep = {"fitted", "K", "low_rank"}
            self._cache.update({k: v for k, v in other._cache.items() if k in keep})

    # ------------------------------------------------------------ capabilities

    def offer(self, kind: type[Any]) -> Any:
        return self._over_labels if kind is LabelRatio else None

    @cached
    def _over_labels(self) -> LabelRatio:
        rules = self.rules
        return LabelRatio(
            W=self.over_nodes(self.W), const=self._constant, **self.node_rules, trivial=0.0,
            rounding=lambda: self.rounding,
            volumes=np.bincount(rules.groups, self.volumes, rules.weights.size))

    # ------------------------------------------------------------ points

    def objective(self, point: Ints) -> float:
        labels, w = np.asarray(point), self.volumes
        sums = np.bincount(labels, w, self.n_clusters)
        sums = np.where(sums > 0.0, sums, 1.0)
        if self.in_parts is None:
            within = self.W.within_each(labels, self.n_clusters)
            return max(0.0, self._constant() - float((within / sums).sum()))
        return float(self.in_parts.total_of(_scatter, self._middles(labels),
                                            along=np.column_stack([labels, w]))[0])

    def _middles(self, labels: Ints) -> Floats:
        """The means of the clusters, of vectors; the last ones are kept."""
        last = self._cache.get("middles")
        if last is None or not np.array_equal(last[0], labels):
            k, w = self.n_clusters, self.volumes
            sums = cast(BlockFeatures, self.in_parts).total_of(
                _class_sums, k, along=np.column_stack([labels, w]))[0]
            counts = np.maximum(np.bincount(labels, w, k), np.finfo(float).tiny)
            last = labels.copy(), sums / counts[:, None]
            self._cache["middles"] = last
        return np.asarray(last[1])

    def means(self, labels: Ints) -> Floats:
        """The means of the clusters as sums of samples: one column of coefficients a cluster."""
        Z = np.zeros((self.n, self.n_clusters))
        Z[np.arange(self.n), labels] = self.volumes
        return np.asarray(Z / np.maximum(Z.sum(axis=0), np.finfo(float).tiny))

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        """How near new samples are to the mean of each cluster: minus the squared distance.

        Without features less k(x, x), which is the same for all clusters.
        """
        if self.fitted.explicit:
            return _nearness(self.fitted, self._middles(np.asarray(point)) + self._moved, X)
        A = self.means(np.asarray(point))
        return np.asarray(2.0 * self.fitted.cross(X) @ A - (A * (self.K @ A)).sum(axis=0))

    def scorer(self, point: Ints) -> Callable[[Samples], Floats]:
        if not isinstance(self.X, RowBlocks):
            return super().scorer(point)
        means = self._middles(np.asarray(point)) + self._moved
        return functools.partial(_nearness, self.fitted, means)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        w, tex = ("", "") if self.sample_weight is None else ("w_i ", "w_i ")
        mean = "sum_{i in h} phi(x_i) / |cluster h|" if self.sample_weight is None \
            else "sum_{i in h} w_i phi(x_i) / sum_{i in h} w_i"
        ratio = "tr K - sum_h z_h'K z_h / |cluster h|" if self.sample_weight is None \
            else "tr D K - sum_h z_h'D K D z_h / w'z_h, D = diag(w)"
        rows = (
            ("minimise", f"J(c) = sum_i {w}|phi(x_i) - m_{{c_i}}|^2\n     = {ratio}",
             rf"J(c) = \sum_i {tex}\|\phi(x_i) - m_{{c_i}}\|^2"),
            ("over", f"c in {{0..{k - 1}}}^{n}; z_h indicates cluster h, m_h = {mean}",
             rf"c \in \{{0,\dots,{k - 1}\}}^{{{n}}}"),
            ("subject to", *self._constraint_words()),
            ("where", f"phi(x)'phi(z) = {self.kernel.fit(self.X).formula()}", ""),
            ("non-convex", "the labels are discrete; everything else is in closed form", ""),
            ("bound", "0 for nothing; eigenvalues of K", ""),
            ("paper", self.paper, ""),
        )
        return Statement(f"KernelKMeans: {n} samples, {k} clusters", rows)

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer problem, or the convex one of means for given labels."""
        import cvxpy as cp

        F = self.vectors
        if F is None:
            F = roots(self.K, lambda w: w > 1e-12 * w[-1])[0]
        M = cp.Variable((self.n_clusters, F.shape[1]), name="M")
        if labels is not None:
            apart = F - M[np.asarray(labels)]
            return cp.Problem(cp.Minimize(self.volumes @ cp.sum(cp.square(apart), axis=1)))
        Z, constraints = self.literal_labels()
        far = 4.0 * float(np.square(F).sum(axis=1).max())  # no sample is farther from a mean
        cost: Any = 0.0
        for h in range(self.n_clusters):
            apart = cp.sum(cp.square(F - np.ones((self.n, 1)) @ M[h:h + 1]), axis=1)
            cost = cost + self.volumes @ cp.pos(apart - far * (1 - Z[:, h]))
        return cp.Problem(cp.Minimize(cost), constraints)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * np.arange(9).reshape(-1, 1) // 5
        near = Gaussian(width=0.5)
        return [
            cls(X, 2),
            cls(X, 3, kernel=near),
            cls(X, 3, sample_weight=1.0 + np.arange(9) % 3),
            cls(X, 3, kernel=near, sizes=Sizes(exact=(2, 3, 4)), known={0: 1, 8: 0}),
            cls(X, 3, must_link=[(0, 4), (4, 7)], cannot_link=[(1, 2), (0, 8)],
                sample_weight=np.linspace(0.5, 2.0, 9)),
            cls(X, 2, kernel=near.nystroem(4), sizes=Sizes(low=3)),
        ]


def _nearness(fitted: FittedKernel, means: Floats, X: Samples) -> Floats:
    """Minus the squared distances of new rows to means of features."""
    Phi = fitted.new_features(X)
    return np.asarray(-np.stack([np.square(Phi - m).sum(axis=1) for m in means], axis=1))


# ---------------------------------------------------------------- of some rows


def _weighted_sum(part: Features, volumes: Floats) -> tuple[Any, ...]:
    """The sum of the rows by weight."""
    return (volumes @ part.X,)


def _weighted_rows(part: Features, volumes: Floats) -> Floats:
    """The rows times their weights."""
    return np.asarray(part.X * volumes[:, None])


def _spread(part: Features, volumes: Floats) -> tuple[Any, ...]:
    """The squared lengths by weight."""
    return (float(volumes @ np.einsum("ij,ij->i", part.X, part.X)),)


def _class_sums(part: Features, given: Floats, k: int) -> tuple[Any, ...]:
    """The sums of the rows of each class by weight, of labels and weights side by side."""
    labels, volumes = given.T
    return (((labels == np.arange(k)[:, None]) * volumes) @ part.X,)


def _scatter(part: Features, given: Floats, means: Floats) -> tuple[Any, ...]:
    """Squared distances to means by weight."""
    total, (labels, volumes) = 0.0, given.T
    for h, mean in enumerate(means):
        mine = labels == h
        rest = part.X[mine] - mean
        total += float(volumes[mine] @ np.einsum("ij,ij->i", rest, rest))
    return (total,)
