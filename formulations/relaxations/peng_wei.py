"""The Peng-Wei relaxation of kernel k-means: it bounds that, not the problem it comes from."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds.labels_from_matrix import kmeans
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import LabelQuadratic, Program
from mmcopt.errors import BackendError, DataError
from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.linalg import UNIT, proved_psd_shift
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

TRIES, ROUNDS = 8, 20  # starts of k-means, and rounds of Lloyd's iteration in feature space


class PengWei(Relaxation):
    """Kernel k-means with a psd matrix Z in the place of ``sum_h z_h z_h' / n_h``.

    Minimise ``tr K - <K, Z>`` over psd Z >= 0 with Ze = e and tr Z = k, K the kernel matrix of the
    problem, centred where that one centres. This is below the k-means cost of all labels,
    `kmeans_cost`, and says *nothing about the objective of the problem*: it is a baseline, and a
    start for searches. Size bounds, known labels and links are left out too; `recover` repairs its
    labels to meet them.

    Any v and N >= 0 give a bound: ``<K, Z> <= 2 e'v + k lambda_max(K - ve' - ev' + N)``.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> relaxed = PengWei(mm.formulations.LeastSquares(X))
    >>> bool(relaxed.bound({}) <= relaxed.kmeans_cost(y))
    True
    """

    kind: ClassVar[str] = "peng-wei"
    dual_names = ("v", "N")
    rank: ClassVar[float] = 70
    paper = "Peng and Wei (2007)"
    tightness: ClassVar[str] = "bounds kernel k-means, not this problem; for starts and comparison"
    bounds_problem: ClassVar[bool] = False

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.offer(LabelQuadratic).kernel is None:
            return f"it needs a kernel matrix, which {type(problem).__name__} does not offer."
        if reason is None and problem.n_clusters < 2:
            return "with one cluster there is one labeling, and nothing to relax."
        return reason

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 8.0 * 40 * float(problem.n) ** 2

    @classmethod
    def seconds(cls, problem: Any) -> float:
        return max(0.01, 1e-6 * float(problem.n) ** 3)

    @cached
    def K(self) -> Any:
        """The kernel matrix of the problem."""
        K = np.asarray(self.problem.offer(LabelQuadratic).kernel(), dtype=np.float64)
        if K.shape != (self.n, self.n):
            raise DataError(f"PengWei: the kernel that {type(self.problem).__name__} offers must "
                            f"have shape ({self.n}, {self.n}), one row a sample; got {K.shape}.")
        return (K + K.T) / 2

    # ------------------------------------------------------------ points and bounds

    def kmeans_cost(self, labels: Ints) -> float:
        """Sum of squared distances in feature space between samples and cluster means."""
        sums = np.eye(self.n_clusters)[np.asarray(labels)]
        sizes = np.maximum(sums.sum(axis=0), 1.0)
        return float(np.trace(self.K) - (np.sum(sums * (self.K @ sums), axis=0) / sizes).sum())

    def objective(self, point: Floats) -> float:
        return float(np.trace(self.K) - np.sum(self.K * np.asarray(point)))

    def uncertainty(self, point: Floats) -> float:
        """Rounding of sums over K, which may cancel."""
        Z = np.asarray(point)
        size = float(np.trace(np.abs(self.K)) + np.sum(np.abs(self.K * Z)))
        return 4.0 * (self.n + 8) * UNIT * size

    def violation(self, point: Floats) -> float:
        Z = np.asarray(point)
        return max(0.0, -float(np.linalg.eigvalsh(Z)[0]), -float(Z.min()),
                   float(np.abs(Z.sum(axis=1) - 1.0).max()),
                   abs(float(np.trace(Z)) - self.n_clusters))

    def from_labels(self, labels: Ints) -> Floats:
        """The Z that the labels give."""
        sums = np.eye(self.n_clusters)[np.asarray(labels)]
        return np.asarray((sums / np.maximum(sums.sum(axis=0), 1.0)) @ sums.T)

    def recover(self, point: Floats) -> Ints:
        from scipy.optimize import linear_sum_assignment

        lq, k, rng = self.problem.offer(LabelQuadratic), self.n_clusters, np.random.default_rng(0)
        w, V = np.linalg.eigh(np.asarray(point))
        V = V[:, -k:] * np.sqrt(np.maximum(w[-k:], 0.0))
        drawn = [self._lloyd(kmeans(V, np.ones(self.n), k, rng)) for _ in range(TRIES)]
        c = lq.reduce(min(drawn, key=self.kmeans_cost))
        held = np.flatnonzero(lq.fixed >= 0)
        agree = np.zeros((k, k))
        np.add.at(agree, (c[held], lq.fixed[held]), 1.0)
        named = linear_sum_assignment(-agree)[1][c]  # so that known labels agree best
        return np.asarray(lq.expand(lq.repair(named.astype(np.int64), rng)))

    def _lloyd(self, c: Ints) -> Ints:
        """Each sample to the nearest mean in feature space, a few times."""
        for _ in range(ROUNDS):
            sums = np.eye(self.n_clusters)[c]
            sizes = sums.sum(axis=0)
            means = sums / np.maximum(sizes, 1.0)
            near = self.K @ means
            far = np.where(sizes > 0, np.sum(means * near, axis=0) - 2.0 * near, np.inf)
            new = far.argmin(axis=1).astype(np.int64)
            if (new == c).all():
                break
            c = new
        return c

    def bound(self, duals: dict[str, Any]) -> float:
        """A lower bound on the k-means cost of all labels, proved, for any duals whatever."""
        K, k, n = self.K, self.n_clusters, self.n
        v, N = self._clean(duals)
        with np.errstate(over="ignore", invalid="ignore"):
            S = K - (v[:, None] + v[None, :]) + N
            rows = np.abs(K).sum(axis=1) + n * np.abs(v) + np.abs(v).sum() + N.sum(axis=1)
        if not (np.isfinite(S).all() and np.isfinite(rows).all()):
            return -math.inf
        try:
            top = float(np.linalg.eigvalsh(S)[-1])
            top += proved_psd_shift(top * np.eye(n) - S, 0.0)
        except (BackendError, np.linalg.LinAlgError):
            return -math.inf
        size = 10 * UNIT * (float(rows.max()) + abs(top))  # bounds the rounding error of S
        twice, trace = 2 * math.fsum(v), math.fsum(np.diagonal(K))
        margin = 8 * UNIT * (abs(trace) + abs(twice) + k * abs(top))
        return float(trace - twice - k * (top + size) - margin)

    def _clean(self, duals: dict[str, Any]) -> tuple[Floats, Floats]:
        """v, and a symmetric N >= 0; what is absent is zero."""
        n = self.n
        v = np.asarray(duals.get("v", np.zeros(n)), dtype=np.float64)
        N = np.asarray(duals.get("N", np.zeros((n, n))), dtype=np.float64)
        if v.shape != (n,) or N.shape != (n, n):
            raise ValueError(f"duals v and N must have shapes ({n},) and ({n}, {n}), "
                             f"got {v.shape} and {N.shape}")
        v, N = (np.nan_to_num(a, nan=0.0, posinf=0.0, neginf=0.0) for a in (v, N))
        N = np.maximum(N, 0.0)
        return v, (N + N.T) / 2

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy, over ``Z``."""
        import cvxpy as cp

        n = self.n
        Z = cp.Variable((n, n), PSD=True, name="Z")
        sums: Any = cp.sum(Z, axis=1) == np.ones(n)
        nonnegative: Any = Z >= 0
        trace: Any = cp.trace(Z) == self.n_clusters
        value = float(np.trace(self.K)) - cp.sum(cp.multiply(self.K, Z))
        problem = cp.Problem(cp.Minimize(value), [sums, nonnegative, trace])

        def point() -> Floats:
            found = np.asarray(Z.value)
            return (found + found.T) / 2

        def duals() -> dict[str, Any]:
            return {"v": np.asarray(sums.dual_value) / 2, "N": np.asarray(nonnegative.dual_value)}

        return Program(problem, point, duals)

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation, literally."""
        import cvxpy as cp

        e = np.ones(self.n)
        Z = cp.Variable((self.n, self.n), symmetric=True, name="Z")
        rows = [Z >> 0, Z >= 0, Z @ e == e, cp.trace(Z) == self.n_clusters]
        return cp.Problem(cp.Minimize(np.trace(self.K) - cp.trace(self.K @ Z)), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        name = type(self.problem).__name__
        return Statement(f"PengWei: a lower bound on kernel k-means, not on {name}", (
            ("minimise", "tr K - <K, Z>",
             r"\operatorname{tr} K - \langle K, Z\rangle"),
            ("over", f"Z, {n} x {n} symmetric", rf"Z \in \mathbb{{S}}^{{{n}}}"),
            ("subject to", f"Z psd, Z >= 0, Ze = e, tr Z = {k}",
             rf"Z \succeq 0,\ Z \ge 0,\ Z e = e,\ \operatorname{{tr}} Z = {k}"),
            ("where", f"K is the kernel matrix of {name}: {self._kernel_words()}", ""),
            ("bounds", "the k-means cost of all labels, without size bounds and links; it says "
             f"nothing about the objective of {name}", ""),
            ("from", str(self.problem), ""),
        ))

    def _kernel_words(self) -> str:
        lq: LabelQuadratic = self.problem.offer(LabelQuadratic)
        return lq.kernel_words() if callable(lq.kernel_words) else lq.kernel_words

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in (*LeastSquares.examples(), *Diffrac.examples()[1:3])]
