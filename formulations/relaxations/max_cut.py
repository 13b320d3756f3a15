"""The max-cut relaxation of problems with two clusters, with and without triangle cuts."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds.label_lift import Lift, binary_lift
from mmcopt.bounds.relaxation import LiftedRelaxation
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.modeling import Statement
from mmcopt.types import Ints


class MaxCutRelaxation(LiftedRelaxation):
    """Two clusters: a psd matrix Y in the place of yy', y in {-1, +1}^n.

    Minimise ``a - s <W, Y>`` over psd Y with diag Y = 1 and ``low <= w'Yw <= high``, the squared
    difference of the cluster sizes. Known labels and cannot-links merge nodes up to a sign, so they
    are exact. The dual matrix is ``Diag(u) + t ww' - W``; every (u, t) gives a bound.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> relaxed = mm.formulations.LeastSquares(X, lam=0.5).relax("sdp")
    >>> result = mm.solve(relaxed)
    >>> bool(result.lower_bound <= result.formulation.problem.objective(result.labels))
    True
    """

    kind: ClassVar[str] = "sdp"
    signature: ClassVar[str] = "MaxCut"
    rank: ClassVar[float] = 20
    paper = "Goemans and Williamson (1995), with a balance"
    tightness: ClassVar[str] = "the max-cut relaxation; a gap of several per cent"
    default_solver: ClassVar[str] = "InteriorPoint"
    name: ClassVar[str] = "Y"

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.n_clusters != 2:
            return (f"it is for 2 clusters, and there are {problem.n_clusters}; "
                    "relax('partition') is for any number.")
        return reason

    @classmethod
    def build(cls, lq: LabelQuadratic) -> Lift:
        return binary_lift(lq)

    def statement(self) -> Statement:
        lift = self.lift
        rows = [
            ("minimise", "a - s <W, Y>", r"a - s\,\langle W, Y\rangle"),
            ("over", f"Y, {lift.m} x {lift.m} symmetric", rf"Y \in \mathbb{{S}}^{{{lift.m}}}"),
            ("subject to", "Y psd, diag Y = 1", r"Y \succeq 0,\ \operatorname{diag} Y = 1"),
            ("balance", f"{lift.square_low:g} <= w'Yw <= {lift.square:g}",
             rf"{lift.square_low:g} \le w^\top Y w \le {lift.square:g}")]
        if self.cuts:
            rows.append(("triangles", "Y_ij + Y_il + Y_jl >= -1 and Y_ij + Y_il - Y_jl <= 1, "
                         "for all i, j, l", r"Y_{ij} + Y_{il} + Y_{jl} \ge -1,\ "
                         r"Y_{ij} + Y_{il} - Y_{jl} \le 1"))
        rows.append(("where", f"a = {lift.base:.6g}, s = {lift.scale:g}, W and w of the problem "
                     "below, over nodes that share a label up to a sign", ""))
        rows.append(("relaxes", str(self.problem), ""))
        return Statement(f"{type(self).__name__}: a lower bound on {type(self.problem).__name__}",
                         tuple(rows))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation over all samples, nothing merged, every cut written out."""
        import cvxpy as cp

        lq = self.problem.offer(LabelQuadratic)
        Y = cp.Variable((lq.n, lq.n), PSD=True, name="Y")
        w = lq.weights.astype(float)
        total = lq.matrix.total()
        value = lq.constant - lq.scale / 2 * (total + cp.sum(cp.multiply(lq.matrix.dense(), Y)))
        balance = w @ Y @ w
        rows = [cp.diag(Y) == 1, balance <= self.lift.square, balance >= self.lift.square_low]
        held = np.flatnonzero(lq.fixed >= 0)
        rows += [Y[i, j] == (1 if lq.fixed[i] == lq.fixed[j] else -1)
                 for i in held for j in held if i < j]
        rows += [Y[i, j] == -1 for i, j in lq.apart]
        if self.cuts:
            rows += [s[0] * Y[i, j] + s[1] * Y[i, h] + s[2] * Y[j, h] <= 1
                     for i in range(lq.n) for j in range(i) for h in range(j)
                     for s in ((-1, -1, -1), (1, 1, -1), (1, -1, 1), (-1, 1, 1))]
        return cp.Problem(cp.Minimize(value), rows)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in LeastSquares.examples() if f.n_clusters == 2]


class MaxCutTriangles(MaxCutRelaxation):
    """The max-cut relaxation with all triangle inequalities.

    Of three samples two share a cluster, and sharing is transitive: four linear inequalities on
    each triple of entries of Y. Solvers add those that are violated.
    """

    kind: ClassVar[str] = "sdp+cuts"
    rank: ClassVar[float] = 30
    paper = "Helmberg and Rendl (1998); Malick and Roupin (2013)"
    tightness: ClassVar[str] = "with triangle cuts; a gap of a per cent or so, often none"
    default_solver: ClassVar[str] = "RegularizedDual"
    cuts: ClassVar[bool] = True
