"""The label problem of DIFFRAC: least squares on the indicators of the clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import real
from mmcopt.constraints import CannotLinkLike, KnownLike, MustLinkLike, Sizes, SizesLike
from mmcopt.formulations.kernel_labels import Contracted
from mmcopt.formulations.label_regression import LabelRegression
from mmcopt.kernels import Gaussian, Kernel, Linear
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints, Samples


class Diffrac(LabelRegression):
    """Labels whose indicators ridge regression with a free bias fits best.

    Minimise over labels c, no cluster empty,
    ``min_{w, b} (1/n) |Z - Phi w - 1b'|^2 + kappa |w|^2 = sum_h z_h'A z_h``, z_h the columns of the
    indicator matrix Z, ``A = kappa Pi (Pi K Pi + n kappa I)^-1 Pi`` and Pi = I - J/n. With the
    ``R`` of `LeastSquares` at lam = n kappa, the kernel centred, ``A = (I - J/n - R) / n``, so that
    the objective is ``1 - (1/n) sum_h z_h'W z_h`` with W = R + J/n between 0 and I.

    Hence it is a quarter of the centred, averaged `LeastSquares`, plus a constant, less
    ``sum_h (n_h / n)^2``. For given cluster sizes the two are the same problem. For free sizes this
    one prefers uneven clusters: a single one costs nothing at all, since A1 = 0, and a tiny cluster
    beside a big one next to nothing. Pass ``sizes``, as the paper does.

    Parameters
    ----------
    X : array (n, d), sparse matrix, or kernel matrix (n, n) with ``Precomputed()``
        Rows may come in blocks (`mmcopt.datasets.blocks`), with kernels that have features.
    n_clusters : int
    kernel : Kernel, default Gaussian(width=1)
        The free bias centres it.
    kappa : float
        Weight of the norm. The default, 1e-3, is lam = n kappa = 0.1 at n = 100, where the default
        of `LeastSquares` is 0.1 for every n: here the loss is a mean, so that what counts against
        the kernel grows with n.
    sizes, known, must_link, cannot_link
        See `mmcopt.constraints`; the default says only that no cluster is empty.

    The trivial bound is 0: A is positive semidefinite.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> problem = Diffrac(X, 3, kernel=Gaussian(width=0.5), sizes=0.2)
    >>> round(problem.objective(y), 4)
    0.0781
    """

    paper = "Bach and Harchaoui (2007), DIFFRAC, section 2"
    flat = 1.0
    default_solver = "Memetic"
    takes_blocks = True

    def __init__(self, X: Samples, n_clusters: int = 2, *,
                 kernel: Kernel | str = Gaussian(width=1.0), kappa: float = 1e-3,
                 sizes: SizesLike = None, known: KnownLike = None,
                 must_link: MustLinkLike = None, cannot_link: CannotLinkLike = None) -> None:
        real(0, open_low=True).check(type(self).__name__, "kappa", kappa)
        self.kappa = float(kappa)
        super().__init__(X, n_clusters, kernel=kernel, lam=self.kappa, center=True, scaling="mean",
                         sizes=sizes, known=known, must_link=must_link, cannot_link=cannot_link)

    # ------------------------------------------------------------ matrices

    @property
    def _named(self) -> tuple[str, float]:
        return "kappa", float(self.n)

    def _adopt(self, other: Self, changed: set[str]) -> None:
        super()._adopt(other, changed | {"lam"} if "kappa" in changed else changed)

    def path(self, lams: Sequence[float]) -> list[Self]:
        """Return this problem at several kappa, which share what those of `LeastSquares` do."""
        return self._along("kappa", lams)

    # ------------------------------------------------------------ capabilities

    @cached
    def _over_labels(self) -> LabelQuadratic:
        n, rules, W = self.n, self.rules, self.W
        merged = rules.weights.size < n
        return LabelQuadratic(
            W=Contracted(W, rules.groups, rules.weights.size) if merged else W, const=1.0,
            scale=1.0 / n, **self.node_rules, spread=None if merged else (0.0, 1.0),
            single=False if merged else lambda: self._single, trivial=0.0,
            rounding=lambda: (self.rounding[0], self.rounding[1] / n),
            kernel=lambda: self.K, kernel_words=self.kernel_words)

    def coefficients(self, labels: Ints) -> Floats:
        """The best w for given labels: one column a cluster, of samples or of features.

        Targets 2 Z - 1 have twice the w of Z, because the bias takes the constant.
        """
        return super().coefficients(labels) / 2

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        """The fitted indicator of each cluster for new samples."""
        return super().decision_function(point, X) + self._shares(point)

    def _shares(self, point: Ints) -> Floats:
        """The share of each cluster: the bias."""
        return np.asarray(np.bincount(point, minlength=self.n_clusters) / self.n)

    def _linear(self, point: Ints) -> tuple[Floats, Floats]:
        return self.coefficients(point), self._shares(point)

    # ------------------------------------------------------------ points

    def objective(self, point: Ints) -> float:
        return self.regression.remains(np.asarray(point), np.eye(self.n_clusters)) / self.n

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        rows = [
            ("minimise", "min_{w, b} (1/n) |Z - Phi w - 1b'|^2 + kappa |w|^2 = sum_h z_h'A z_h",
             r"\min_{w,b} \tfrac1n \|Z - \Phi w - 1b^\top\|^2 + \kappa \|w\|^2"
             r" = \sum_h z_h^\top A z_h"),
            ("over", f"c in {{0..{k - 1}}}^{n}; Z = (z_1..z_{k}), z_h indicates cluster h",
             rf"c \in \{{0,\dots,{k - 1}\}}^{{{n}}}"),
            ("subject to", *self._constraint_words()),
            ("where", "A = kappa Pi (Pi K Pi + n kappa I)^-1 Pi, Pi = I - J/n, "
             f"kappa = {self.kappa:g}, Pi K Pi: {self.kernel_words()}",
             r"A = \kappa \Pi (\Pi K \Pi + n \kappa I)^{-1} \Pi,\ \Pi = I - J/n,\ "
             rf"\kappa = {self.kappa:g}"),
            ("non-convex", "the labels are discrete; everything else is in closed form", ""),
            ("bound", "0 for nothing; eigenvalues of A", ""),
            ("paper", self.paper, ""),
        ]
        if self.sizes is None and k > 1:
            rows.insert(3, ("note", "without sizes the best is often one big cluster beside tiny "
                            "ones, since A1 = 0", ""))
        return Statement(f"Diffrac: {n} samples, {k} clusters", tuple(rows))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer problem, or the convex one for given labels."""
        import cvxpy as cp

        n, k = self.n, self.n_clusters
        Z, constraints = self.literal_labels() if labels is None \
            else (cp.Constant(np.eye(k)[np.asarray(labels)]), [])
        K = np.asarray(self.kernel.fit(self.X).matrix())  # not centred: the bias does that
        V, b = cp.Variable((n, k), name="V"), cp.Variable((1, k), name="b")
        loss = cp.sum_squares(Z - K @ V - np.ones((n, 1)) @ b)  # Phi w = K V
        penalty = sum(cp.quad_form(V[:, h], cp.psd_wrap(K)) for h in range(k))
        return cp.Problem(cp.Minimize(loss / n + self.kappa * penalty), constraints)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * np.arange(9).reshape(-1, 1) // 5
        near = Gaussian(width=0.5)
        return [
            cls(X, 2, kernel=near, kappa=0.01),
            cls(X, 2, kernel=near, kappa=0.01, sizes=0.2),
            cls(X, 3, kernel=near, kappa=0.03, sizes=Sizes(exact=(2, 3, 4)), known={0: 1, 8: 0}),
            cls(X, 3, kernel=near, sizes=0.5, must_link=[(0, 4), (4, 7)],
                cannot_link=[(1, 2), (0, 8)]),
            cls(X, 3, kernel=near.nystroem(5), kappa=0.01, sizes=Sizes(exact=3)),
            cls(X, 2, kernel=near + 0.3 * Linear(), kappa=0.1, sizes=0.2),
        ]
