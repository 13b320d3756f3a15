"""The lifted margin of several kernels: a psd matrix in the place of the weights for each."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

import numpy as np

from mmcopt.bounds.multi_kernel_lift import KernelLift, correlation, kernel_lift, norm
from mmcopt.capabilities import Capability, CutRisk, KernelMargin, Program
from mmcopt.formulations.mkc import MKC
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints


class MKCLift(Lifted):
    """Several kernels, any number of clusters: W_m psd in the place of s_m yy' for each kernel.

    With K_m the kernels, K the number of clusters, ``Q_m = K/(K-1) K_m / (2 n^2)``, minimise over
    W_1..W_M psd with diag W_m = s_m, s >= 0, |s|_p <= 1, the dual of the machine in W,
    ``max over 0 <= a <= C of mean a - sum_m a'(Q_m o W_m)a``; for K = 2, W_m stands for s_m yy', y
    the signs of the scores. In place of a maximum the program has a psd V_m for each kernel and
    ``C/n sum_i max(0, 1 - sum_m (s_m x_mi'V_m x_mi)^1/2)``, x_m the features. Of one kernel, or
    for p = 1, that is "lifted" of that kernel, or of the one that does best; else, beside the rank,
    it is lost that y is the same for all kernels, which is little. Any a and u give a bound, see
    `KernelLift`. A floor on sizes takes points away, and is left out. A point is W, (M, n, n).

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=30,distance=3,seed=0")
    >>> problem = mm.formulations.MKC(X, C=5.0)
    >>> relaxed = mm.solve(problem.relax("mkc"))
    >>> bool(0 < relaxed.lower_bound <= mm.solve(problem, seed=0).objective)
    True
    """

    kind: ClassVar[str] = "mkc"
    dual_names = ("a", "u")
    rank: ClassVar[float] = 100
    of: ClassVar[type[Capability]] = KernelMargin
    paper = "ours; for one kernel the value of Lifted"
    tightness: ClassVar[str] = "the lifted margin of several kernels; tight for small C"
    default_solver: ClassVar[str] = "KernelBarrier"
    arrays: ClassVar[type[Capability] | None] = KernelLift

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        cuts = problem.offer(CutRisk)
        if problem.offer(cls.of) is None and cuts is not None and cuts.blocks:
            return ("it is for the hinge loss and scores without a balance of their own: use "
                    "loss=None and center=True.")
        return super().refuses(problem)

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 8.0 * float(problem.n) ** 2 * (8 * len(problem.offer(KernelMargin).parts) + 6)

    @classmethod
    def seconds(cls, problem: Any) -> float:
        sizes = [min(problem.n, part.d) for part in problem.offer(KernelMargin).parts]
        return float(max(0.05, sum(4e-9 * (3 * problem.n**3 + 8 * m**3) for m in sizes)))

    @cached
    def lift(self) -> Any:
        """The arrays of the program."""
        return kernel_lift(self.problem.offer(KernelMargin))

    # ------------------------------------------------------------ points and bounds

    def objective(self, point: Floats) -> float:
        return float(self.lift.machine(np.asarray(point))[0])

    def violation(self, point: Floats) -> float:
        return float(self.lift.violation(np.asarray(point)))

    def from_labels(self, labels: Ints) -> Floats:
        """The W that the labels give, by the best weights of the kernels."""
        same = np.equal.outer(labels, labels)
        return np.asarray(self.lift.point(np.where(same, 1.0, -1.0 / (self.n_clusters - 1))))

    def recover(self, point: Floats) -> Ints:
        """The best of the signs of the leading directions, or of several k-means on all of them."""
        w, V = np.linalg.eigh(np.asarray(point).sum(axis=0))
        return self.rounded((V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1])

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy: weights ``s``; ``V0``, ``V1``.. over as few columns as can be."""
        import cvxpy as cp

        lift, n = self.lift, self.n
        roots = [joint.margin.root for joint in lift.joints]
        s = cp.Variable(len(roots), nonneg=True, name="s")
        total = cp.Variable(n, name="margins")
        Vs, margins, cones = [], [], []
        for m, F in enumerate(roots):
            V = cp.Variable((F.shape[1], F.shape[1]), PSD=True, name=f"V{m}")
            square = cp.sum(cp.multiply(F @ V, F), axis=1)
            margin = cp.Variable(n)  # margin^2 <= s_m square
            cones.append(cp.SOC(square + s[m], cp.vstack([2 * margin, square - s[m]]), axis=0))
            Vs.append(V)
            margins.append(margin)
        above: Any = total <= cast(Any, sum(margins))
        value = lift.joints[0].margin.c * sum(cp.trace(V) for V in Vs) \
            + cp.sum(cp.pos(1 - total)) / n
        ball: Any = cp.pnorm(s, lift.p) <= 1 if lift.p > 1 else cp.sum(s) <= 1

        def point() -> Floats:
            weights = np.maximum(np.asarray(s.value), 0.0)
            weights = weights / max(norm(weights, lift.p), 1.0)
            return np.stack([weight * correlation(F @ _psd(V.value) @ F.T)
                             for weight, F, V in zip(weights, roots, Vs, strict=True)])

        def duals() -> dict[str, Any]:
            u = []
            for cone in cones:  # the dual of s_m in each row
                first, rest = cone.dual_value
                u.append(np.ravel(first) - np.reshape(rest, (2, n), order="F")[1])
            return {"a": n * np.asarray(above.dual_value), "u": np.abs(np.stack(u))}

        return Program(cp.Problem(cp.Minimize(lift.scale * value), [above, ball, *cones]), point,
                       lambda: _over(duals(), lift.scale))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation over W, literally: ``[[V, H], [H', W]]`` psd for each kernel."""
        import cvxpy as cp

        offer, n = self.problem.offer(KernelMargin), self.n
        s = cp.Variable(len(offer.parts), name="s")
        rows: list[Any] = [s >= 0, cp.pnorm(s, offer.p) <= 1 if offer.p > 1 else cp.sum(s) <= 1]
        trace, margin = cp.Constant(0.0), cp.Constant(np.zeros(n))
        for m, part in enumerate(offer.parts):
            X = part.dense()
            V, W = (cp.Variable((size, size), symmetric=True) for size in (X.shape[1], n))
            H = cp.Variable((X.shape[1], n))
            rows += [cp.bmat([[V, H], [H.T, W]]) >> 0, cp.diag(W) == s[m]]
            trace, margin = trace + cp.trace(V), margin + cp.diag(X @ H)
        first = offer.beta * (offer.k - 1) / (2 * offer.k) * trace
        loss = cp.sum(cp.pos(1 - margin)) / n
        return cp.Problem(cp.Minimize(offer.scale * (first + loss)), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        offer = self.problem.offer(KernelMargin)
        M, k, n = len(offer.parts), offer.k, self.n
        rows = [
            ("minimise", f"{(k - 1) / (2 * k):g} sum_m tr V_m + C/n sum_i max(0, 1 - sum_m "
             "sqrt(s_m x_mi'V_m x_mi))",
             rf"\tfrac{{{k - 1}}}{{{2 * k}}} \sum_m \operatorname{{tr}} V_m + \tfrac Cn \sum_i "
             r"\max(0, 1 - \sum_m \sqrt{s_m x_{mi}^\top V_m x_{mi}})"),
            ("over", f"V_1..V_{M} symmetric, over the features of each kernel; s",
             rf"V_1, \dots, V_{M},\ s"),
            ("subject to", f"V_m psd, s >= 0, |s|_{offer.p:g} <= 1",
             rf"V_m \succeq 0,\ s \ge 0,\ \|s\|_{{{offer.p:g}}} \le 1"),
            ("where", f"C = {offer.scale:g}, k = {k}, x_m the features of kernel m; a point is "
             f"W_1..W_{M}, {n} x {n}, psd of diagonals s_m", ""),
            ("relaxes", str(self.problem), "")]
        return Statement(f"MKCLift: a lower bound on {type(self.problem).__name__}", tuple(rows))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(5).standard_normal((6, 2))
        near = [Linear(), Gaussian(width=0.5)]
        return [cls(f) for f in (
            MKC(X, 2, kernels=near, C=5.0),
            MKC(X, 2, kernels=[*near, Polynomial(2)], C=10.0, p=1.0),
            MKC(X, 3, kernels=near, C=8.0, p=3.0), MKC(X[:, :1], 2, kernels=[near[1]], C=20.0))]


def _psd(V: Any) -> Floats:
    """The symmetric part, without negative eigenvalues."""
    w, U = np.linalg.eigh((V + V.T) / 2)
    return np.asarray((U * np.maximum(w, 0.0)) @ U.T)


def _over(duals: dict[str, Any], scale: float) -> dict[str, Any]:
    """Duals of a problem over its scale."""
    return {name: value / scale for name, value in duals.items()}
