"""K-means on what ridge regression makes of the samples: targets of equal length."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mmcopt.capabilities import LabelRatio
from mmcopt.constraints import CannotLinkLike, KnownLike, MustLinkLike, Sizes, SizesLike
from mmcopt.formulations.label_regression import LabelRegression
from mmcopt.kernels import Gaussian, Kernel, Linear
from mmcopt.linalg import roots
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints, Samples


class DiscriminativeKMeans(LabelRegression):
    """Labels whose normalised indicators ridge regression fits best.

    Minimise over labels c, no cluster empty,
    ``Q(c) = sum_h min_f sum_i (p_h(c_i) - f(x_i))^2 + lam |f|^2``, where p_h is 1 / |cluster h|^1/2
    in cluster h and 0 elsewhere. With R = K (K + lam I)^-1 and z_h the indicator of cluster h,
    ``Q(c) = k - sum_h z_h'R z_h / |cluster h|``: k-means with R for the kernel, up to a constant.
    All targets have length 1, so that clusters need not be of like size, as those of `LeastSquares`
    tend to be.

    Parameters
    ----------
    X : array (n, d), sparse matrix, or kernel matrix (n, n) with ``Precomputed()``
        Rows may come in blocks (`mmcopt.datasets.blocks`), with kernels that have features.
    n_clusters : int
    kernel : Kernel, default Gaussian(width=1)
        Centred when ``center`` is true, never rescaled.
    lam : float
        Weight of the norm.
    center : bool
        Centre the kernel, as the paper does.
    sizes, known, must_link, cannot_link
        See `mmcopt.constraints`; plain values are accepted: ``sizes=0.2``, ``known={0: 1}``,
        ``must_link=[(3, 8)]``.

    The trivial bound is 1 for a centred kernel, since then R1 = 0 and 1 is in the span of the
    targets, and 0 otherwise.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> problem = DiscriminativeKMeans(X, 3, kernel=Gaussian(width=0.5))
    >>> round(problem.objective(y), 4)
    1.2172
    """

    paper = "Ye, Zhao and Wu (2007), Discriminative k-means, theorem 2.1"
    default_solver = "Memetic"
    takes_blocks = True

    def __init__(self, X: Samples, n_clusters: int = 2, *,
                 kernel: Kernel | str = Gaussian(width=1.0), lam: float = 0.1,
                 center: bool = True, sizes: SizesLike = None, known: KnownLike = None,
                 must_link: MustLinkLike = None, cannot_link: CannotLinkLike = None) -> None:
        super().__init__(X, n_clusters, kernel=kernel, lam=lam, center=center, scaling="sum",
                         sizes=sizes, known=known, must_link=must_link, cannot_link=cannot_link)

    # ------------------------------------------------------------ capabilities

    @cached
    def _over_labels(self) -> LabelRatio:
        return LabelRatio(
            W=self.over_nodes(self.W), const=float(self.n_clusters), **self.node_rules,
            trivial=self._trivial, rounding=self._ratio_rounding)

    def _trivial(self) -> float:
        return 1.0 if self.center else 0.0

    def _ratio_rounding(self) -> tuple[float, float]:
        """That of targets of length 1."""
        share, part = self.rounding
        return share, self.n_clusters * part

    # ------------------------------------------------------------ points

    def _sizes(self, labels: Ints) -> Floats:
        """The sizes of the clusters."""
        return np.bincount(labels, minlength=self.n_clusters).astype(np.float64)

    def objective(self, point: Ints) -> float:
        labels = np.asarray(point)
        sizes = self._sizes(labels)
        level = float(sizes.sum()) / self.n if self.center else 0.0
        empty = float((sizes == 0.0).sum())  # which labels may not be; each adds 1 to k
        targets = np.diag(1.0 / np.sqrt(np.maximum(sizes, 1.0)))
        return level + empty + self.regression.remains(labels, targets)

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        """How near new samples are to the mean of each cluster in the space of R, up to a constant.

        Twice the fitted indicator by the size of the cluster, less the squared length of the mean.
        """
        labels, k = np.asarray(point), self.n_clusters
        sizes = np.maximum(self._sizes(labels), 1.0)
        near = self._predicted(self._fit(labels, np.eye(k)), X) / sizes
        return np.asarray(2.0 * near - self._within(labels) / sizes**2)

    def _linear(self, point: Ints) -> tuple[Floats, Floats]:
        labels, k = np.asarray(point), self.n_clusters
        sizes = np.maximum(self._sizes(labels), 1.0)
        return 2.0 * self._fit(labels, np.eye(k)) / sizes, -self._within(labels) / sizes**2

    def _within(self, labels: Ints) -> Floats:
        """The entries of R within each cluster; the last ones are kept."""
        last = self._cache.get("within")
        if last is None or not np.array_equal(last[0], labels):
            last = labels.copy(), self.W.within_each(labels, self.n_clusters)
            self._cache["within"] = last
        return np.asarray(last[1])

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        rows = (
            ("minimise", "Q(c) = sum_h min_f sum_i (p_h(c_i) - f(x_i))^2 + lam |f|^2\n"
             "     = k - sum_h z_h'R z_h / |cluster h|",
             r"Q(c) = \sum_h \min_f \sum_i (p_h(c_i)-f(x_i))^2 + \lambda \|f\|^2"),
            ("over", f"c in {{0..{k - 1}}}^{n}; z_h indicates cluster h, p_h = z_h / |z_h|",
             rf"c \in \{{0,\dots,{k - 1}\}}^{{{n}}}"),
            ("subject to", *self._constraint_words()),
            ("where", f"R = K (K + lam I)^-1, lam = {self.lam:g}, "
             f"K {'centred' if self.center else 'not centred'}: {self.kernel_words()}",
             rf"R = K (K + \lambda I)^{{-1}},\ \lambda = {self.lam:g}"),
            ("non-convex", "the labels are discrete; everything else is in closed form", ""),
            ("bound", f"{self._trivial():g} for nothing; eigenvalues of R", ""),
            ("paper", self.paper, ""),
        )
        return Statement(f"DiscriminativeKMeans: {n} samples, {k} clusters", rows)

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer problem, or the convex one for given labels."""
        import cvxpy as cp

        n, k = self.n, self.n_clusters
        K = np.asarray(self.fitted.matrix())
        F = roots(K, lambda w: w > 1e-14 * w[-1])[0]
        A = cp.Variable((n, k), name="A")  # |f|^2 = a'Ka = |F'a|^2
        Z, constraints = self.literal_labels() if labels is None \
            else (cp.Constant(np.eye(k)[np.asarray(labels)]), [])
        # f = |z_h|^-1/2 K a_h: both squares are divided by the size of the cluster.
        terms = [cp.quad_over_lin(Z[:, h] - K @ A[:, h], cp.sum(Z[:, h]))
                 + self.lam * cp.quad_over_lin(F.T @ A[:, h], cp.sum(Z[:, h])) for h in range(k)]
        return cp.Problem(cp.Minimize(sum(terms)), constraints)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * np.arange(9).reshape(-1, 1) // 5
        near = Gaussian(width=0.5)
        return [
            cls(X, 2, kernel=near, lam=0.1),
            cls(X, 3, kernel=near, lam=0.3),
            cls(X, 2, kernel=near, center=False, sizes=Sizes(within=0.2)),
            cls(X, 3, kernel=near, sizes=Sizes(exact=(2, 3, 4)), known={0: 1, 8: 0}),
            cls(X, 3, kernel=near, must_link=[(0, 4), (4, 7)], cannot_link=[(1, 2), (0, 8)]),
            cls(X, 2, kernel=near.nystroem(4)),
            cls(X, 2, kernel=Linear(), lam=0.5),
        ]
