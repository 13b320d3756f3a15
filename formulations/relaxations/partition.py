"""The k-way partition relaxation in the co-membership matrix, with and without cuts."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds.label_lift import Lift, partition_lift
from mmcopt.bounds.relaxation import LiftedRelaxation
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import square_sums
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.modeling import Statement
from mmcopt.types import Ints


class Partition(LiftedRelaxation):
    """Any number of clusters: M with M - J/k psd in the place of [c_i = c_j].

    Minimise ``a - s <W, M>`` over M with diag M = 1, M >= 0, M - J/k psd, cluster sizes
    ``low <= (Mw)_i <= high`` and the sum of their squares w'Mw within its bounds. The point is
    X = M - J/k. Cannot-links set entries to 0, equal known labels merge samples.
    """

    kind: ClassVar[str] = "partition"
    rank: ClassVar[float] = 40
    paper = "Frieze and Jerrum (1997); Karisch and Rendl (1998)"
    tightness: ClassVar[str] = "the partition relaxation; a gap of a few per cent"
    default_solver: ClassVar[str] = "RegularizedDual"

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.n_clusters < 2:
            return "with one cluster there is one labeling, and nothing to relax."
        return reason

    @classmethod
    def build(cls, lq: LabelQuadratic) -> Lift:
        return partition_lift(lq)

    def statement(self) -> Statement:
        lift, k = self.lift, self.n_clusters
        shift = lift.floor * lift.b.sum()
        rows = [
            ("minimise", "a - s <W, M>", r"a - s\,\langle W, M\rangle"),
            ("over", f"M, {lift.m} x {lift.m} symmetric", rf"M \in \mathbb{{S}}^{{{lift.m}}}"),
            ("subject to", f"{self._cone(k)}, diag M = 1, M >= 0",
             rf"{self._cone_latex(k)},\ \operatorname{{diag}} M = 1,\ M \ge 0"),
            ("sizes", f"{(lift.row_low - shift).min():g} <= (Mw)_i <= "
             f"{(lift.row_high - shift).max():g}, w'Mw <= "
             f"{lift.square - lift.floor * lift.b.sum() ** 2:g}",
             r"\ell \le (Mw)_i \le h,\ w^\top M w \le q")]
        if self.cuts:
            rows.append(("triangles", "M_ij + M_il - M_jl <= 1 for all i, j, l",
                         r"M_{ij} + M_{il} - M_{jl} \le 1"))
            rows.append(("cliques", f"the entries of any {k + 1} samples sum to at least 1",
                         r"\sum_{i<j \in Q} M_{ij} \ge 1,\ |Q| = k + 1"))
        rows.append(("where", f"s = {lift.scale:g}, W, w and a of the problem below", ""))
        rows.append(("relaxes", str(self.problem), ""))
        return Statement(f"{type(self).__name__}: a lower bound on {type(self.problem).__name__}",
                         tuple(rows))

    @staticmethod
    def _cone(k: int) -> str:
        return f"M - J/{k} psd"

    @staticmethod
    def _cone_latex(k: int) -> str:
        return rf"M \succeq J/{k}"

    def _psd(self, M: Any, n: int) -> list[Any]:
        return [M - np.full((n, n), 1.0 / self.n_clusters) >> 0]

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation over all samples, nothing merged, every cut written out."""
        import cvxpy as cp

        lq, k = self.problem.offer(LabelQuadratic), self.n_clusters
        n, w = lq.n, lq.weights.astype(float)
        M = cp.Variable((n, n), symmetric=True, name="M")
        least, most = square_sums(lq.low, lq.high, int(w.sum()))
        if self.lift.square_low == 0:
            least = 0.0
        low, high = np.full(n, lq.low.min(), float), np.full(n, lq.high.max(), float)
        held = np.flatnonzero(lq.fixed >= 0)
        low[held], high[held] = lq.low[lq.fixed[held]], lq.high[lq.fixed[held]]
        rows = [*self._psd(M, n), cp.diag(M) == 1, M >= 0, M @ w >= low, M @ w <= high,
                w @ M @ w <= most, w @ M @ w >= least]
        rows += [M[i, j] == float(lq.fixed[i] == lq.fixed[j]) for i in held for j in held if i < j]
        rows += [M[i, j] == 0 for i, j in lq.apart]
        if self.cuts:
            rows += [M[i, j] + M[i, h] - M[j, h] <= 1 for i in range(n) for j in range(n)
                     for h in range(j) if i not in (j, h)]
            rows += [sum(M[i, j] for i, j in itertools.combinations(Q, 2)) >= 1
                     for Q in itertools.combinations(range(n), k + 1)]
        value = lq.constant - lq.scale * cp.sum(cp.multiply(lq.matrix.dense(), M))
        return cp.Problem(cp.Minimize(value), rows)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in LeastSquares.examples()]


class PartitionCuts(Partition):
    """The partition relaxation with all triangles, and cliques of k + 1 samples.

    Triangles say that sharing a cluster is transitive; a clique says that of k + 1 samples two
    share one. Solvers add those that are violated, cliques by a greedy search.
    """

    kind: ClassVar[str] = "partition+cuts"
    rank: ClassVar[float] = 50
    paper = "Groetschel and Wakabayashi (1990); Chopra and Rao (1993)"
    tightness: ClassVar[str] = "with triangles and cliques; often tight for small n"
    cuts: ClassVar[bool] = True
