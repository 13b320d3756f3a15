"""Label generation: the minimax over mixtures of labelings, of which only a part is provable."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_hull import LabelHull
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.bounds.weight_lift import margin_lift
from mmcopt.capabilities import Bounded, ConvexProgram, LiftedMargin
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.relaxations.joint import XuMMC
from mmcopt.kernels import Gaussian
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

ALL_LABELINGS = 11  # samples up to which all labelings are written out


class LGMMC(XuMMC):
    """Two clusters: M in the convex hull of all yy' in the place of the Y of Xu et al.

    For given labels the dual of the machine is ``1/n sum_i a_i - 1/(beta n^2) sum_ij a_i a_j y_i
    y_j x_i'x_j`` over 0 <= a <= 1. Exchanging its maximum with the minimum over y leaves the best
    mixture of the kernels of all labelings, ``M = sum_t mu_t y_t y_t'``. No relaxation over yy' is
    tighter, and none is harder: which labeling a mixture lacks is a max-cut problem. `bound` proves
    of any a what "mmc" proves of it, so no more than that one's value; for teaching. The best of
    all labelings needs no mixture, so what is relaxed here is the exchange alone.

    It knows no balance of scores and no sizes. A point is M, whose violations are sought among the
    diagonal, the spectrum and triangles, as in the hull for up to four samples only.
    """

    kind: ClassVar[str] = "lg"
    rank: ClassVar[float] = 130
    paper = "Li, Tsang, Kwok and Zhou (2009), without their balance of labels"
    tightness: ClassVar[str] = "above joint in value, but proves no more than mmc; for teaching"
    default_solver: ClassVar[str] = "LabelGeneration"

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.offer(LiftedMargin).limit is not None:
            return "it knows no balance of scores, and here is one; relax('lifted') takes it."
        return reason

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 8.0 * 20 * float(problem.n) ** 2

    @classmethod
    def seconds(cls, problem: Any) -> float:
        return max(0.02, 2e-7 * float(problem.n) ** 3)

    @cached
    def joint(self) -> Any:
        """The arrays of the program."""
        return JointLift(margin_lift(self.problem.offer(LiftedMargin)))

    def objective(self, point: Floats) -> float:
        return float(self.hull.machine(np.asarray(point)))

    def violation(self, point: Floats) -> float:
        triangles = dataclasses.replace(self.joint, cuts=True).at(np.ones(self.n), 0.0)
        return max(super().violation(point), violated_cuts.worst(triangles, np.asarray(point)))

    def bound(self, duals: dict[str, Any]) -> float:
        return float(self.hull.lower(duals))

    @cached
    def hull(self) -> Any:
        """What solvers see."""
        return LabelHull(self.joint)

    def offer(self, kind: type[Any]) -> Any:
        if kind is LabelHull:
            return self.hull
        if kind is ConvexProgram and self.n <= ALL_LABELINGS:
            return ConvexProgram(lambda cuts: dataclasses.replace(
                self.program, duals=lambda: self.hull.duals(self.program.duals()["a"])))
        return Bounded(self.bound, trivial=0.0) if kind is Bounded else None

    # ------------------------------------------------------------ cvxpy

    def signs(self) -> Floats:
        """All labelings y of few samples, but for their sign, as rows."""
        return np.array([(1.0, *y) for y in itertools.product((1.0, -1.0), repeat=self.n - 1)])

    def _within(self, Y: Any) -> list[Any]:
        import cvxpy as cp

        signs = self.signs()
        mu = cp.Variable(len(signs), nonneg=True, name="mu")
        i, j = np.triu_indices(self.n, 1)
        return [cp.sum(mu) == 1, Y[i, j] == (signs[:, i] * signs[:, j]).T @ mu]

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the choice of kernels, literally: weights w_t for every labeling y_t."""
        import cvxpy as cp

        offer, signs = self.problem.offer(LiftedMargin), self.signs()
        X = offer.features.dense()
        w = cp.Variable((len(signs), X.shape[1]), name="w")
        scores = cp.sum(cp.multiply(signs, w @ X.T), axis=0)
        square = cp.square(cp.sum(cp.norm(w, 2, axis=1)))
        return cp.Problem(cp.Minimize(offer.beta / 4 * square
                                      + cp.sum(cp.pos(1 - scores)) / self.n))

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        offer, n = self.problem.offer(LiftedMargin), self.n
        return Statement(f"LGMMC: below {type(self.problem).__name__}, and proved only as far as "
                         "mmc", (
            ("minimise", "max_a 1/n sum_i a_i - 1/(beta n^2) sum_ij a_i a_j M_ij x_i'x_j",
             r"\max_a \tfrac1n \sum_i a_i - \tfrac1{\beta n^2} \sum_{ij} a_i a_j M_{ij} "
             r"x_i^\top x_j"),
            ("over", f"M = sum_t mu_t y_t y_t', y_t all 2^{n - 1} labelings of -1 and 1",
             rf"M = \textstyle\sum_t \mu_t y_t y_t^\top,\ y_t \in \{{-1, 1\}}^{{{n}}}"),
            ("subject to", "mu >= 0, sum_t mu_t = 1; 0 <= a <= 1",
             r"\mu \ge 0,\ \textstyle\sum_t \mu_t = 1;\ 0 \le a \le 1"),
            ("bounds", "what mmc proves of the same a: a labeling that is missing is the solution "
             "of a max-cut problem", ""),
            ("where", f"beta = {offer.beta:g}, x the features of the problem below", ""),
            ("relaxes", str(self.problem), "")))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(5).standard_normal((7, 2))
        return [cls(f) for f in (CPM3C(X, 2, beta=0.1),
                                 CPM3C(X[:5], 2, beta=0.05, kernel=Gaussian(width=0.5)),
                                 CPM3C(X, 2, beta=0.1, center=False))]
