"""The lifted margin: a psd matrix in the place of the weights of a hinge problem."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds.labels_from_matrix import kmeans
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.bounds.weight_lift import MarginLift, margin_lift
from mmcopt.capabilities import Capability, LiftedMargin, Program
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.kernels import Gaussian
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

TRIES = 8  # labels drawn in `recover`


class Lifted(Relaxation):
    """Any number of clusters: V psd in the place of k/(k-1) sum_p w_p w_p', w of mean 0.

    With x_i the features and s their sum, minimise ``beta (k-1)/(2k) tr V + 1/n sum_i max(0,
    1 - sqrt(x_i'Vx_i))`` over psd V with ``s'Vs <= l^2 floor(k^2/4)/(k-1)``; `LiftedMargin` shows
    that this is below the problem. Only the rank of V is relaxed for k = 2; for more clusters also
    that the margin is the whole of |t|^2. The more directions the features have, relative to beta,
    the larger the gap: it is near 0 where most samples lie within the margin. Any g, t >= 0 give a
    bound, see `MarginLift`. On centred features the balance is void, and without any balance
    uncentred ones have a constant score to hide in.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=40,distance=3,seed=0")
    >>> problem = mm.formulations.CPM3C(X, beta=0.3)
    >>> relaxed = mm.solve(problem.relax("lifted"))
    >>> bool(relaxed.lower_bound <= mm.solve(problem, seed=0).objective)
    True
    """

    kind: ClassVar[str] = "lifted"
    dual_names = ("g", "t")
    rank: ClassVar[float] = 90
    of: ClassVar[type[Capability]] = LiftedMargin
    paper = "ours; for k = 2 of the value of Xu et al. (2005) without balance"
    tightness: ClassVar[str] = "the lifted margin; tight for large beta, loose for small"
    default_solver: ClassVar[str] = "MarginBarrier"
    trivial: ClassVar[float | None] = 0.0
    arrays: ClassVar[type[Capability] | None] = MarginLift  # what `lift` is to a solver of its own

    @classmethod
    def memory(cls, problem: Any) -> float:
        n, d = problem.n, problem.offer(LiftedMargin).features.d
        return 8.0 * (n * min(n, d) * 4 + (4 * min(n, 1000) ** 2) + 8 * min(n, d) ** 2)

    @classmethod
    def seconds(cls, problem: Any) -> float:
        n, m = problem.n, min(problem.n, problem.offer(LiftedMargin).features.d)
        small = 60 * (n**3 + n * n * m) * 2e-10
        return float(max(0.01, small if n <= 1000 else 3e-6 * n * m * m / 10))

    @cached
    def lift(self) -> Any:
        """The arrays of the program."""
        return margin_lift(self.problem.offer(LiftedMargin))

    # ------------------------------------------------------------ points and bounds

    def objective(self, point: Floats) -> float:
        return float(self.lift.objective(np.asarray(point)))

    def violation(self, point: Floats) -> float:
        return float(self.lift.violation(np.asarray(point)))

    def from_labels(self, labels: Ints) -> Floats:
        """The V of the point that the problem makes of labels."""
        weights = self.problem.offer(LiftedMargin).weights(self.problem.from_labels(labels))
        return np.asarray(self.lift.lifted(weights))

    def recover(self, point: Floats) -> Ints:
        """The best of the signs of the leading directions, or of several k-means on all of them."""
        return self.rounded(self.lift.vectors(np.asarray(point)))

    def rounded(self, V: Floats) -> Ints:
        """The best labels of vectors of the samples, by falling length of the columns."""
        k, n, rng = self.n_clusters, self.n, np.random.default_rng(0)
        best, value = np.arange(n) % k, (True, np.inf)
        # Directions are drawn by their products with the columns, whose signs nobody can know.
        unit = V / np.maximum(np.linalg.norm(V, axis=0), 1e-300)
        for index in range(TRIES):
            if k == 2:
                direction = unit.T @ rng.standard_normal(n)
                if index == 0:
                    direction[1:] = 0.0
                c = (V @ direction < 0).astype(np.int64)
            else:
                c = kmeans(V[:, :k], np.ones(n), k, rng).astype(np.int64)
            c = self._filled(c, V[:, :k], rng)
            near = self.problem.from_labels(c)
            found = (self.problem.violation(near) > 0, self.problem.objective(near))
            if found < value:
                best, value = c, found
        return np.asarray(best, dtype=np.int64)

    def _filled(self, c: Ints, V: Floats, rng: np.random.Generator) -> Ints:
        """Labels with the samples nearest to what small clusters have, where there is a floor."""
        least, c = self.problem.offer(self.of).least, c.copy()
        for h in range(self.n_clusters):
            while (c == h).sum() < least:
                sizes = np.bincount(c, minlength=self.n_clusters)
                free = np.flatnonzero(sizes[c] > least)
                own = V[c == h]
                centre = own.mean(axis=0) if len(own) else V[rng.choice(free)]
                c[free[np.argmin(((V[free] - centre) ** 2).sum(axis=1))]] = h
        return c

    def bound(self, duals: dict[str, Any]) -> float:
        return float(self.lift.lower(duals))

    def offer(self, kind: type[Any]) -> Any:
        return self.lift if kind is self.arrays else super().offer(kind)

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy: ``V``, over few columns, and the ``squares`` x_i'Vx_i."""
        import cvxpy as cp

        F = self.lift.root
        V = cp.Variable((F.shape[1], F.shape[1]), PSD=True, name="V")
        v = cp.Variable(self.n, nonneg=True, name="squares")
        return self._balanced(V, cp.sum(cp.pos(1 - cp.sqrt(v))) / self.n,
                              v <= cp.sum(cp.multiply(F @ V, F), axis=1))

    def _balanced(self, V: Any, loss: Any, squares: Any) -> Program:
        """The program of a loss within the balance; ``squares`` are the rows whose duals are g."""
        import cvxpy as cp

        lift, n, s = self.lift, self.n, self.lift.total
        rows = [squares]
        if lift.level:
            rows.append(V @ s == 0)
        elif lift.balanced:
            rows.append(cp.sum(cp.multiply(np.outer(s, s), V)) <= lift.square)

        def point() -> Floats:
            found = np.asarray(V.value)
            return np.asarray(lift.from_root((found + found.T) / 2))

        def duals() -> dict[str, Any]:
            t = lift.far if lift.level else float(rows[1].dual_value) if lift.balanced else 0.0
            return {"g": n * np.asarray(squares.dual_value), "t": np.array(t)}

        return Program(cp.Problem(cp.Minimize(lift.c * cp.trace(V) + loss), rows), point, duals)

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation over V, literally."""
        import cvxpy as cp

        offer = self.problem.offer(LiftedMargin)
        X, k, e = offer.features.dense(), offer.k, np.ones(self.n)
        V = cp.Variable((X.shape[1], X.shape[1]), symmetric=True, name="V")
        G = X @ V @ X.T
        rows: list[Any] = [V >> 0]
        if offer.limit is not None:
            rows.append(e @ G @ e <= offer.limit**2 * (k // 2) * (k - k // 2) / (k - 1))
        loss = cp.sum(cp.pos(1 - cp.sqrt(cp.diag(G)))) / self.n
        return cp.Problem(cp.Minimize(offer.beta * (k - 1) / (2 * k) * cp.trace(V) + loss), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        offer = self.problem.offer(LiftedMargin)
        d, k = offer.features.d, offer.k
        rows = [
            ("minimise", f"beta {(k - 1) / (2 * k):g} tr V + 1/n sum_i max(0, 1 - sqrt(x_i'Vx_i))",
             r"\tfrac{\beta (k-1)}{2k} \operatorname{tr} V + \tfrac1n \sum_i "
             r"\max(0, 1 - \sqrt{x_i^\top V x_i})"),
            ("over", f"V, {d} x {d} symmetric", rf"V \in \mathbb{{S}}^{{{d}}}"),
            ("subject to", "V psd", r"V \succeq 0")]
        if offer.limit is not None:
            rows.append(("balance", f"s'Vs <= {self.lift.square:g}, s = sum_i x_i",
                         rf"s^\top V s \le {self.lift.square:g},\ s = \textstyle\sum_i x_i"))
        rows += [("where", f"beta = {offer.beta:g}, k = {k}, x the features of the problem below",
                  ""), ("relaxes", str(self.problem), "")]
        return Statement(f"Lifted: a lower bound on {type(self.problem).__name__}", tuple(rows))

    @classmethod
    def examples(cls) -> list[Self]:
        first = CPM3C.examples()
        X = np.random.default_rng(3).standard_normal((6, 2)) + 2.0
        return [cls(f) for f in (*first, CPM3C(X, 3, beta=0.2, balance=1.0, center=False),
                                 CPM3C(X, 2, beta=0.3, kernel=Gaussian(width=0.5), center=False,
                                       balance=0.0), CPM3C(X, 2, beta=0.1, size_floor=0.7))]
