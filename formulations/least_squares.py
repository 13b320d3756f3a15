"""The least-squares label problem of UMC-RLS and EvoMMC."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import Symmetric
from mmcopt.constraints import CannotLinkLike, KnownLike, MustLinkLike, Sizes, SizesLike
from mmcopt.formulations.kernel_labels import Contracted
from mmcopt.formulations.label_regression import SUMS, LabelRegression
from mmcopt.formulations.least_squares_fit import LeastSquaresFit
from mmcopt.kernels import Gaussian, Kernel, Linear
from mmcopt.modeling import Statement, cached
from mmcopt.types import Ints, Samples


class LeastSquares(LabelRegression):
    """Labels whose one-versus-all regularised least-squares fit is best.

    Minimise over labels c, no cluster empty,
    ``Q(c) = sum_h min_f sum_i (p_h(c_i) - f(x_i))^2 + lam |f|^2``, p_h = +1 in cluster h and -1
    elsewhere (UMC-RLS eq. 13). With R = K (K + lam I)^-1 and z_h the indicator of cluster h,
    ``Q(c) = k n + (4 - k) 1'R1 - 4 sum_h z_h'R z_h``; for two clusters Q = 2 F with the paper's F.

    Parameters
    ----------
    X : array (n, d), sparse matrix, or kernel matrix (n, n) with ``Precomputed()``
        Rows may come in blocks (`mmcopt.datasets.blocks`), with kernels that have features.
    n_clusters : int
    kernel : Kernel, default Gaussian(width=1)
        Centred when ``center`` is true, never rescaled.
    lam : float
        Weight of the norm. With ``scaling="mean"`` the loss is the mean over samples as in the Evo
        paper (eq. 4): R is taken at ``lam * n`` and the objective divided by n.
    center : bool
        Centre the kernel: an unpenalised bias together with balanced outputs. Without it, or size
        bounds, one big cluster is usually optimal.
    sizes, known, must_link, cannot_link
        See `mmcopt.constraints`; plain values are accepted: ``sizes=0.2``, ``known={0: 1}``,
        ``must_link=[(3, 8)]``.

    The trivial bound, behind ``Result.closed``, is ``(k - 2)^2 / k (n - 1'R1)``: F is convex and
    sum_h p_h = (2 - k) 1 whatever the labels.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> problem = LeastSquares(X, 3, kernel=Gaussian(width=0.5), lam=0.1)
    >>> round(problem.objective(y), 2)
    93.43
    """

    paper = "Pahikkala et al., UMC-RLS, eq. 7 and 13; Gieseke et al., EvoMMC, eq. 7"
    default_solver = "Memetic"
    takes_blocks = True

    def __init__(self, X: Samples, n_clusters: int = 2, *,
                 kernel: Kernel | str = Gaussian(width=1.0), lam: float = 0.1,
                 center: bool = True, scaling: str = "sum", sizes: SizesLike = None,
                 known: KnownLike = None, must_link: MustLinkLike = None,
                 cannot_link: CannotLinkLike = None) -> None:
        super().__init__(X, n_clusters, kernel=kernel, lam=lam, center=center, scaling=scaling,
                         sizes=sizes, known=known, must_link=must_link, cannot_link=cannot_link)

    # ------------------------------------------------------------ capabilities

    @cached
    def _over_labels(self) -> LabelQuadratic:
        unit, rules = self.unit, self.rules
        W: Symmetric = self.W
        merged = rules.weights.size < self.n
        return LabelQuadratic(
            W=Contracted(W, rules.groups, rules.weights.size) if merged else W,
            const=self._constant, scale=4.0 / unit, **self.node_rules,
            spread=None if merged else (0.0, 1.0), single=False if merged else lambda: self._single,
            trivial=self._trivial, rounding=lambda: self._scaled_rounding,
            kernel=lambda: self.K, kernel_words=self.kernel_words)

    def _constant(self) -> float:
        """The constant k n + (4 - k) 1'R1, where R1 = 0 when the kernel is centred."""
        total = 0.0 if self.center else self.W.total()
        return (self.n_clusters * self.n + (4 - self.n_clusters) * total) / self.unit

    def _trivial(self) -> float:
        """(k - 2)^2 / k (n - 1'R1), rounded down."""
        n, k = self.n, self.n_clusters
        if self.center:
            value = (k - 2) ** 2 * n / k
            return math.nextafter(value, 0.0) / self.unit if (k - 2) ** 2 * n % k else \
                value / self.unit
        everywhere = np.zeros(n, dtype=np.int64), np.ones((1, 1))
        rest = self.regression.remains(*everywhere) * (1.0 - self.rounding[0] - SUMS)
        return (k - 2) ** 2 / k * rest / self.unit

    @property
    def _scaled_rounding(self) -> tuple[float, float]:
        share, part = self.rounding
        return share, 4.0 * part / self.unit

    def restrict(self, labels: Ints) -> LeastSquaresFit:
        """Return the convex problem that is left when the labels are given (``"sum"`` units)."""
        return LeastSquaresFit(self.X, np.asarray(labels), self.n_clusters, kernel=self.kernel,
                               lam=self.shift, center=self.center)

    # ------------------------------------------------------------ points and words

    def objective(self, point: Ints) -> float:
        c = np.asarray(point)
        sums = 2.0 * np.bincount(c, minlength=self.n_clusters) - self.n
        level = float(np.square(sums).sum()) / self.n if self.center else 0.0
        return (level + self.regression.remains(c, self.targets)) / self.unit

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        mean = self.scaling == "mean"
        loss = "(1/n) " if mean else ""
        formula = f"k n + {4 - k} 1'R1 - 4 sum_h z_h'R z_h" if k != 4 else "k n - 4 sum_h z_h'R z_h"
        shift, tex = ("lam n", r"\lambda n") if mean else ("lam", r"\lambda")
        average = r"\tfrac1n" if mean else ""
        rows = [
            ("minimise", f"Q(c) = sum_h min_f {loss}sum_i (p_h(c_i) - f(x_i))^2 + lam |f|^2\n"
             f"     = {'(' + formula + ') / n' if mean else formula}",
             rf"Q(c) = \sum_h \min_f {average}\sum_i (p_h(c_i)-f(x_i))^2"
             r" + \lambda \|f\|^2"),
            ("over", f"c in {{0..{k - 1}}}^{n}; z_h indicates cluster h, p_h = 2 z_h - 1",
             rf"c \in \{{0,\dots,{k - 1}\}}^{{{n}}}"),
            ("subject to", *self._constraint_words()),
            ("where", f"R = K (K + {shift} I)^-1, lam = {self.lam:g}, "
             f"K {'centred' if self.center else 'not centred'}: {self.kernel_words()}",
             rf"R = K (K + {tex} I)^{{-1}},\ \lambda = {self.lam:g}"),
            ("non-convex", "the labels are discrete; everything else is in closed form", ""),
            ("bound", "(k - 2)^2 / k (n - 1'R1) for nothing; eigenvalues of R", ""),
            ("paper", self.paper, ""),
        ]
        return Statement(f"LeastSquares: {n} samples, {k} clusters", tuple(rows))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer problem, or the convex one for given labels."""
        import cvxpy as cp

        n, k = self.n, self.n_clusters
        K = np.asarray(self.fitted.matrix())
        A = cp.Variable((n, k), name="A")
        Z, constraints = self.literal_labels() if labels is None \
            else (cp.Constant(np.eye(k)[np.asarray(labels)]), [])
        loss = cp.sum_squares(2 * Z - 1 - K @ A)
        penalty = sum(cp.quad_form(A[:, h], cp.psd_wrap(K)) for h in range(k))
        return cp.Problem(cp.Minimize((loss + self.shift * penalty) / self.unit), constraints)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * np.arange(9).reshape(-1, 1) // 5
        near = Gaussian(width=0.5)
        return [
            cls(X, 2, kernel=near, lam=0.1),
            cls(X, 3, kernel=near, lam=0.3),
            cls(X, 2, kernel=near, lam=0.1, center=False, sizes=Sizes(within=0.2)),
            cls(X, 3, kernel=near, lam=0.1, sizes=Sizes(exact=(2, 3, 4))),
            cls(X, 2, kernel=near + 0.3 * Linear(), scaling="mean", lam=0.01, known={0: 1, 8: 0}),
            cls(X, 3, kernel=near, must_link=[(0, 4), (4, 7)], cannot_link=[(1, 2), (0, 8)]),
            cls(X, 2, kernel=near.nystroem(5), lam=0.1),
            cls(X, 2, kernel=Linear(), lam=0.5),
        ]
