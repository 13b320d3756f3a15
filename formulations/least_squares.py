"""The least-squares label problem of UMC-RLS and EvoMMC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import LabelQuadratic, Refit
from mmcopt.capabilities.matrices import Dense, LowRank, Symmetric
from mmcopt.checks import choice, data_matrix, flag, integer, is_sparse, real, require_memory
from mmcopt.constraints import CannotLink, Known, LabelRules, MustLink, Sizes, as_sizes, resolve
from mmcopt.errors import DataError
from mmcopt.formulations.least_squares_fit import LeastSquaresFit
from mmcopt.kernels import Gaussian, Linear, Precomputed, as_kernel
from mmcopt.linalg import require_psd, spd_inverse
from mmcopt.modeling import Formulation, Statement, cached
from mmcopt.types import Floats, Ints

SINGLE = 2.0**-10  # lam per unit of kernel diagonal from which float32 finds the same labels


class LeastSquares(Formulation):
    """Labels whose one-versus-all regularised least-squares fit is best.

    Minimise over labels c, no cluster empty,
    ``Q(c) = sum_h min_f sum_i (p_h(c_i) - f(x_i))^2 + lam |f|^2``, p_h = +1 in cluster h and -1
    elsewhere (UMC-RLS eq. 13). With R = K (K + lam I)^-1 and z_h the indicator of cluster h,
    ``Q(c) = k n + (4 - k) 1'R1 - 4 sum_h z_h'R z_h``; for two clusters Q = 2 F with the paper's F.

    Parameters
    ----------
    X : array (n, d), sparse matrix, or kernel matrix (n, n) with ``Precomputed()``
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

    def __init__(self, X: Any, n_clusters: int = 2, *, kernel: Any = Gaussian(width=1.0),
                 lam: float = 0.1, center: bool = True, scaling: str = "sum", sizes: Any = None,
                 known: Any = None, must_link: Any = None, cannot_link: Any = None) -> None:
        owner = type(self).__name__
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        integer(1).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        self.kernel = as_kernel(kernel)
        real(0, open_low=True).check(owner, "lam", lam)
        self.lam = float(lam)
        flag().check(owner, "center", center)
        self.center = bool(center)
        choice("sum", "mean").check(owner, "scaling", scaling)
        self.scaling = scaling
        self.sizes = as_sizes(sizes)
        self.known = known if known is None or isinstance(known, Known) else Known(known)
        self.must_link = must_link if must_link is None or isinstance(must_link, MustLink) \
            else MustLink(must_link)
        self.cannot_link = cannot_link if cannot_link is None \
            or isinstance(cannot_link, CannotLink) else CannotLink(cannot_link)
        self.rules: LabelRules = resolve(self.n, self.n_clusters, sizes=self.sizes,
                                         known=self.known, must_link=self.must_link,
                                         cannot_link=self.cannot_link)

    # ------------------------------------------------------------ matrices

    @cached
    def fitted(self) -> Any:
        """The kernel fitted to the data, centred when asked."""
        return (self.kernel.centered() if self.center else self.kernel).fit(self.X)

    @property
    def shift(self) -> float:
        """What is added to the diagonal of K: lam, or lam n for the averaged scaling."""
        return self.lam * (self.n if self.scaling == "mean" else 1)

    @property
    def unit(self) -> float:
        """What the objective is divided by: 1, or n for the averaged scaling."""
        return float(self.n if self.scaling == "mean" else 1)

    @cached
    def K(self) -> Floats:
        """The kernel matrix, checked to be positive semidefinite and not constant."""
        require_memory(20.0 * self.n**2, f"the {self.n} x {self.n} kernel matrix and its inverse",
                       "use a low-rank kernel: kernel.nystroem(500).")
        K = np.asarray(self.fitted.matrix())
        spread = float(K.max() - K.min())
        if spread <= 1e-12 * max(1.0, float(np.abs(np.diagonal(K)).max())):
            raise DataError(f"{type(self).__name__}: the kernel matrix is constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            "kernel.")
        if not self.fitted.psd:
            require_psd(K, type(self).__name__)
        return K

    @cached
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of K: worth their price for many values of lam."""
        from scipy.linalg import eigh

        w, V = eigh(self.K, driver="evd")
        return np.maximum(w, 0.0), V

    @cached
    def W(self) -> Symmetric:
        """R = K (K + lam I)^-1: dense, or a factor when the kernel has few features."""
        if self.low_rank:
            return LowRank(self._factor())
        return Dense(n=self.n, build=self._dense)

    @cached
    def low_rank(self) -> bool:
        """Whether R is held as a factor: Nystroem kernels, and others with few features."""
        if not self.fitted.explicit:
            return False
        return "nystroem" in repr(self.kernel) or 4 * self.X.shape[1] < self.n

    def _factor(self) -> Floats:
        """Psi = Phi L^-T with L L' = Phi'Phi + lam I, so that R = Psi Psi'."""
        from scipy.linalg import solve_triangular

        Phi = self.fitted.features()
        if not is_sparse(self.X) and not isinstance(self.kernel, Precomputed) \
                and (self.X == self.X[0]).all():
            raise DataError(f"{type(self).__name__}: all rows of X are identical, so nothing tells "
                            "the samples apart.")
        if float(np.ptp(Phi, axis=0).max(initial=0.0)) <= 1e-12 * float(np.abs(Phi).max(initial=0)):
            raise DataError(f"{type(self).__name__}: the kernel features are constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            "kernel.")
        gram = Phi.T @ Phi
        gram[np.diag_indices(len(gram))] += self.shift
        L = np.linalg.cholesky(gram)
        # Not in place: Phi is kept, and shared by problems at other lam.
        return np.asarray(solve_triangular(L, Phi.T, lower=True).T)

    def _dense(self) -> Floats:
        n, shift = self.n, self.shift
        if "spectrum" in self._cache:
            w, V = self.spectrum
            B = V * np.sqrt(w / (w + shift))
            return np.asarray(B @ B.T)
        K = self.K
        A = K.copy()
        A[np.diag_indices(n)] += shift
        G = spd_inverse(A)
        if shift >= 1e6 * float(np.mean(np.diagonal(K))):
            R = K @ G  # I - lam G would lose the digits of a small R
            return np.asarray((R + R.T) / 2)
        G *= -shift
        G[np.diag_indices(n)] += 1.0
        return G

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Share what the changed arguments leave alone."""
        if changed & {"X", "kernel", "center"}:
            return
        keep = {"fitted", "K", "spectrum", "low_rank"}
        if not changed & {"lam", "scaling"}:
            other._quadratic  # noqa: B018 (made, so that W is shared)
            keep.add("W")
        self._cache.update({k: v for k, v in other._cache.items() if k in keep})

    def path(self, lams: Sequence[float]) -> list[Self]:
        """Return this problem at several lam; kernel and, when there are many, spectrum shared.

        An eigendecomposition costs about as much as 4 Cholesky inverses at n = 1800 and 9 at 4000.
        """
        if not self.low_rank:
            self.K  # noqa: B018
            if len(lams) >= max(4, self.n // 450):
                self.spectrum  # noqa: B018
        return [self.replace(lam=float(lam)) for lam in lams]

    def forget(self) -> None:
        """Drop R, which is rebuilt when it is asked for; the kernel matrix stays."""
        self._cache.pop("W", None)
        self._cache.pop("_quadratic", None)

    # ------------------------------------------------------------ capabilities

    def offer(self, kind: type[Any]) -> Any:
        if kind is LabelQuadratic:
            return self._quadratic
        if kind is Refit and self.n_clusters == 2:
            low, high, lq = self.rules.low, self.rules.high, self._quadratic
            return Refit(lambda v: np.asarray(self.W @ v), self.shift, lambda v, labels: labels,
                         lambda rng: lq.expand(lq.random_labels(rng)),
                         lambda labels, rng: lq.expand(lq.repair(lq.reduce(labels), rng)),
                         max(int(low[1]), self.n - int(high[0])),
                         min(int(high[1]), self.n - int(low[0])))
        return None

    @cached
    def _quadratic(self) -> LabelQuadratic:
        n, k, unit, rules = self.n, self.n_clusters, self.unit, self.rules
        W: Symmetric = self.W
        merged = rules.weights.size < n
        return LabelQuadratic(
            W=Contracted(W, rules.groups, rules.weights.size) if merged else W,
            const=lambda: (k * n + (4 - k) * W.total()) / unit, k=k, weights=rules.weights,
            low=rules.low, high=rules.high, fixed=rules.fixed, apart=rules.apart,
            scale=4.0 / unit, groups=rules.groups if merged else None,
            spread=None if merged else (0.0, 1.0), single=False if merged else lambda: self._single,
            trivial=lambda: (k - 2) ** 2 / k * (n - W.total()) / unit,
            kernel=lambda: self.K, kernel_words=self.kernel_words)

    @property
    def _single(self) -> bool:
        """Whether float32 is precise enough to search with."""
        if self.n <= 64:
            return False  # nothing to gain
        scale = float(np.mean(np.diagonal(self.K))) if not self.low_rank else 1.0
        return self.shift >= SINGLE * scale

    def coefficients(self, labels: Ints) -> Floats:
        """The best model for given labels: one column a cluster.

        Dual coefficients (K + lam I)^-1 P = (P - R P) / lam, or weights of the features when R is
        held as a factor.
        """
        P = np.full((self.n, self.n_clusters), -1.0)
        P[np.arange(self.n), labels] = 1.0
        if self.low_rank:
            Phi = self.fitted.features()
            gram = Phi.T @ Phi
            gram[np.diag_indices(len(gram))] += self.shift
            return np.asarray(np.linalg.solve(gram, Phi.T @ P))
        return np.asarray((P - self.W @ P) / self.shift)

    def decision_function(self, point: Ints, X: Any) -> Floats:
        """f_h(x) of each cluster for new samples; on the training rows it is R P."""
        A = self.coefficients(point)
        rows = self.fitted.new_features(X) if self.low_rank else self.fitted.cross(X)
        return np.asarray(rows @ A)

    def restrict(self, labels: Ints) -> LeastSquaresFit:
        """Return the convex problem that is left when the labels are given (``"sum"`` units)."""
        return LeastSquaresFit(self.X, np.asarray(labels), self.n_clusters, kernel=self.kernel,
                               lam=self.shift, center=self.center)

    # ------------------------------------------------------------ points

    def objective(self, point: Ints) -> float:
        Z = np.zeros((self.n, self.n_clusters))
        Z[np.arange(self.n), point] = 1.0
        k, R = self.n_clusters, self.W
        return (k * self.n + (4 - k) * R.total() - 4 * R.association(Z)) / self.unit

    def violation(self, point: Ints) -> float:
        return self.rules.violation(np.asarray(point))

    def labels(self, point: Ints) -> Ints:
        return np.asarray(point)

    def embedding(self) -> Floats | None:
        if isinstance(self.kernel, Precomputed) or is_sparse(self.X):
            return None
        return np.asarray(self.X, dtype=np.float64)

    # ------------------------------------------------------------ words

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

    def kernel_words(self) -> str:
        """The kernel as a formula."""
        return str(self.fitted.formula())

    def _constraint_words(self) -> tuple[str, str]:
        low, high = self.rules.low, self.rules.high
        one = (low == low[0]).all() and (high == high[0]).all()
        lo, hi = (str(low[0]), str(high[0])) if one else (f"{low.tolist()}", f"{high.tolist()}")
        words = [f"{lo} <= |cluster h| <= {hi}"]
        for given, what in ((self.known, "known labels"), (self.must_link, "must-links"),
                            (self.cannot_link, "cannot-links")):
            if given is not None:
                count = len(given.labels if isinstance(given, Known) else given.pairs)
                words.append(f"{count} {what}")
        tex = rf"{lo} \le |\{{i : c_i = h\}}| \le {hi}" if one else ""
        return ", ".join(words), tex

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer problem, or the convex one for given labels."""
        import cvxpy as cp

        n, k = self.n, self.n_clusters
        K = np.asarray(self.fitted.matrix())
        A = cp.Variable((n, k), name="A")
        constraints = []
        if labels is None:
            Z: Any = cp.Variable((n, k), boolean=True, name="Z")
            sizes = cp.sum(Z, axis=0)
            constraints = [cp.sum(Z, axis=1) == 1, sizes >= self.rules.low,
                           sizes <= self.rules.high]
            node, fixed, apart = self.rules.groups, self.rules.fixed, self.rules.apart
            first = np.unique(node, return_index=True)[1]  # a sample of each must-linked group
            constraints += [Z[i] == Z[first[node[i]]] for i in range(n) if i != first[node[i]]]
            constraints += [Z[first[g], fixed[g]] == 1 for g in np.flatnonzero(fixed >= 0)]
            constraints += [Z[first[a]] + Z[first[b]] <= 1 for a, b in apart]
        else:
            Z = cp.Constant(np.eye(k)[np.asarray(labels)])
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


class Contracted(Dense):
    """B'WB of a matrix that may not be built yet."""

    def __init__(self, W: Symmetric, groups: Ints, m: int) -> None:
        super().__init__(n=m, build=lambda: W.contract(groups, m).dense())
