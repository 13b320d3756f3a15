"""The eigenvalue relaxation: one scalar dual, the cheapest bound."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds import certificates
from mmcopt.bounds.label_lift import partition_lift
from mmcopt.bounds.labels_from_matrix import rounded
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import Bounded, ConvexProgram, LabelQuadratic, Program
from mmcopt.constraints import square_sums
from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

FAR = 1e6  # the t of clusters of equal size, where the best one is infinite, in eigenvalues of W


class Eigenvalue(Relaxation):
    """Any number of clusters: only the trace of M and the sum of the squared sizes are kept.

    With nodes of weights w, D = diag(w) and n = 1'w, labels give a psd matrix
    ``X = D^1/2 (M - J/k) D^1/2`` of trace n - n/k with w'Mw <= q, q the largest sum of squared
    cluster sizes. Minimise ``a - s <W, M>`` over these X; the diagonal of M is free. The dual has
    one scalar t >= 0, the weight of w'Mw <= q, and a largest eigenvalue:
    ``a - s (1'W1/k + (n - n/k) lambda_max(D^-1/2 W D^-1/2 - t vv') + t (q - n^2/k))``, v = sqrt(w).
    When W is held as a factor, the bound leaves t out and this relaxation w'Mw <= q.

    `recover` takes k-means on the leading eigenvectors of D^-1/2 X D^-1/2.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> problem = mm.formulations.LeastSquares(X, lam=0.5)
    >>> relaxed = Eigenvalue(problem)
    >>> bool(relaxed.bound({"t": 0.01}) <= problem.objective(y))
    True
    """

    kind: ClassVar[str] = "eig"
    dual_names = ("t",)
    rank: ClassVar[float] = 10
    paper = "Donath and Hoffman (1973); Rendl and Wolkowicz (1995)"
    tightness: ClassVar[str] = "one eigenvalue; the gap is often most of the objective"

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.n_clusters < 2:
            return "with one cluster there is one labeling, and nothing to relax."
        return reason

    @classmethod
    def memory(cls, problem: Any) -> float:
        lq = problem.offer(LabelQuadratic)
        n, rank = lq.n, lq.matrix.rank
        return 8.0 * (3 * n * n if rank is None else 2 * n * rank)

    @classmethod
    def seconds(cls, problem: Any) -> float:
        lq = problem.offer(LabelQuadratic)
        rank = lq.matrix.rank
        if rank is None:  # about 28 products or eigenvalues, and a Cholesky factorisation
            return max(0.01, 2e-10 * lq.n**3 + 2e-7 * lq.n**2)
        return max(0.01, 1e-10 * lq.n * rank**2)

    # ------------------------------------------------------------ arrays

    @property
    def lq(self) -> LabelQuadratic:
        """The label problem."""
        return self.problem.offer(LabelQuadratic)

    @cached
    def v(self) -> Any:
        """Square roots of the weights of the nodes."""
        return np.sqrt(self.lq.weights.astype(np.float64))

    @cached
    def E(self) -> Any:
        """D^-1/2 W D^-1/2, so that <W, M> = 1'W1/k + <E, X>."""
        return self.lq.matrix.dense() / np.outer(self.v, self.v)

    @property
    def base(self) -> float:
        """The objective at X = 0."""
        lq = self.lq
        return float(lq.constant - lq.scale * lq.matrix.total() / lq.k)

    @property
    def trace(self) -> float:
        """The trace of X, n - n/k."""
        return self.n_samples * (1.0 - 1.0 / self.lq.k)

    @property
    def n_samples(self) -> float:
        """Number of samples, the sum of the weights."""
        return float(self.lq.weights.sum())

    @property
    def room(self) -> float:
        """The most that v'Xv = w'Mw - n^2/k may be; infinite when W is held as a factor."""
        lq, n = self.lq, self.n_samples
        if not lq.matrix.is_dense:
            return np.inf
        return square_sums(lq.low, lq.high, int(n))[1] - n**2 / lq.k

    # ------------------------------------------------------------ points and bounds

    def objective(self, point: Floats) -> float:
        return float(self.base - self.lq.scale * np.sum(self.E * np.asarray(point)))

    def violation(self, point: Floats) -> float:
        X = np.asarray(point)
        over = (self.v @ X @ self.v - self.room) / max(1.0, self.n_samples)
        return max(0.0, -float(np.linalg.eigvalsh(X)[0]), abs(float(np.trace(X)) - self.trace),
                   float(over))

    def from_labels(self, labels: Ints) -> Floats:
        """The X that the labels give."""
        c = self.lq.reduce(labels)
        M = (c[:, None] == c[None, :]).astype(np.float64)
        return np.asarray((M - 1.0 / self.lq.k) * np.outer(self.v, self.v))

    def recover(self, point: Floats) -> Ints:
        lq = self.lq
        # A lift that merges no nodes: X has one row for each.
        free = partition_lift(dataclasses.replace(lq, fixed=None, apart=None))
        shifted = np.asarray(point) / np.outer(self.v, self.v)
        return lq.expand(rounded(lq, free, shifted, np.random.default_rng(0)))

    def bound(self, duals: dict[str, Any]) -> float:
        return certificates.eig_bound(self.problem, duals)

    def offer(self, kind: type[Any]) -> Any:
        if kind is Bounded:
            return Bounded(self.bound, lambda point: {"t": certificates.best_shift(self.lq)})
        if kind is ConvexProgram:
            return ConvexProgram(lambda cuts: self.program)
        return None

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy, over X."""
        import cvxpy as cp

        v, scale = self.v, self.lq.scale
        X = cp.Variable((v.size, v.size), PSD=True, name="X")
        value = self.base - scale * cp.sum(cp.multiply(self.E, X))
        rows: list[Any] = [cp.trace(X) == self.trace]
        flat = self.room <= 1e-9
        sizes: Any = X @ v == 0 if flat else cp.sum(cp.multiply(np.outer(v, v), X)) <= self.room
        if np.isfinite(self.room):
            rows.append(sizes)

        def point() -> Floats:
            found = np.asarray(X.value)
            return (found + found.T) / 2

        def duals() -> dict[str, Any]:
            if flat:
                return {"t": FAR * float(np.linalg.norm(self.E, 2)) / self.n_samples}
            return {"t": float(sizes.dual_value) / scale if np.isfinite(self.room) else 0.0}

        return Program(cp.Problem(cp.Minimize(value), rows), point, duals)

    @property
    def variables(self) -> dict[str, Any]:
        """``X`` over nodes that share a label, and the expression ``M`` over samples."""
        X = self.program.problem.var_dict["X"]
        groups = self.lq.groups
        M: Any = X / np.outer(self.v, self.v) + 1.0 / self.lq.k
        return {"X": X, "M": M if groups is None else M[groups][:, groups]}

    def to_cvxpy(self) -> Any:
        """Return this relaxation as a cvxpy problem; add constraints on ``variables``."""
        return self.program.problem

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation in M over the nodes, literally."""
        import cvxpy as cp

        lq = self.lq
        w, n = lq.weights.astype(float), self.n_samples
        root = np.diag(np.sqrt(w))
        M = cp.Variable((lq.n, lq.n), symmetric=True, name="M")
        X = root @ (M - np.full((lq.n, lq.n), 1.0 / lq.k)) @ root
        rows = [X >> 0, cp.trace(X) == n - n / lq.k]
        if lq.matrix.is_dense:
            rows.append(w @ M @ w <= square_sums(lq.low, lq.high, int(n))[1])
        value = lq.constant - lq.scale * cp.sum(cp.multiply(lq.matrix.dense(), M))
        return cp.Problem(cp.Minimize(value), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        lq, n, k = self.lq, self.n_samples, self.lq.k
        rows = [
            ("minimise", "a - s <W, M>", r"a - s\,\langle W, M\rangle"),
            ("over", f"M, {lq.n} x {lq.n} symmetric", rf"M \in \mathbb{{S}}^{{{lq.n}}}"),
            ("subject to", f"X = D^1/2 (M - J/{k}) D^1/2 psd, tr X = {self.trace:g}",
             rf"X = D^{{1/2}} (M - J/{k}) D^{{1/2}} \succeq 0,\ "
             rf"\operatorname{{tr}} X = {self.trace:g}")]
        if np.isfinite(self.room):
            q = self.room + n**2 / k
            rows.append(("sizes", f"w'Mw <= {q:g}", rf"w^\top M w \le {q:g}"))
        rows += [("where", f"a = {lq.constant:.6g}, s = {lq.scale:g}, W and weights w of the "
                  "problem below, D = diag(w)", ""),
                 ("relaxes", str(self.problem), "")]
        return Statement(f"Eigenvalue: a lower bound on {type(self.problem).__name__}", tuple(rows))

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in (*LeastSquares.examples(), *Diffrac.examples()[:4])]
