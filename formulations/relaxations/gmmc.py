"""Generalised maximum margin clustering: the lifted margin with a slack that is linear in it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.capabilities import Capability, LiftedMargin
from mmcopt.checks import real
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.linalg import UNIT
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats


class GMMC(Lifted):
    """`Lifted` with the slack ``b max(0, 1 - v)`` of squared margins v for ``max(0, 1 - sqrt v)``.

    In the paper b is 1, the weight of the slack C, and the balance a penalty. As ``1 - v <= 2 (1 -
    sqrt v)`` for v in [0, 1], and no smaller factor does near 1, the value is *below the problem
    only for b <= 1/2*; above, it often exceeds the optimum, and `bound` proves nothing but 0. Where
    it is a bound `Lifted` is never below it. The dual is that of `MarginLift` with min(g, b) for
    psi(g). ``slack`` is b.
    """

    kind: ClassVar[str] = "gmmc"
    rank: ClassVar[float] = 80
    paper = "Valizadegan and Jin (2006)"
    tightness: ClassVar[str] = "never better than lifted, and a bound only for slack <= 1/2"
    default_solver: ClassVar[str] = "Conic"
    arrays: ClassVar[type[Capability] | None] = None  # its dual is another than that of the lift

    def __init__(self, problem: Any, slack: float = 0.5) -> None:
        super().__init__(problem)
        real(0, open_low=True).check(type(self).__name__, "slack", slack)
        self.slack = float(slack)

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 10.0 * super().memory(problem)

    @classmethod
    def seconds(cls, problem: Any) -> float:
        m = min(problem.n, problem.offer(LiftedMargin).features.d)
        return float(max(0.02, 1e-9 * m**4 * math.sqrt(problem.n)))

    def objective(self, point: Floats) -> float:
        P = np.asarray(point)
        trace = float(np.sum(self.lift.K * P)) if self.lift.wide else float(np.trace(P))
        slack = np.maximum(1.0 - self.lift.squares(P), 0.0)
        return float(self.lift.c * trace + self.slack * slack.mean())

    def bound(self, duals: dict[str, Any]) -> float:
        if self.slack > 0.5:
            return 0.0
        multiple, g, t = self.lift.multiple(duals)
        gain = math.fsum(np.minimum(multiple * g, self.slack)) / self.n
        price = self.lift.square * t if t else 0.0
        return max(0.0, gain - price - 16 * UNIT * (gain + price))

    @cached
    def program(self) -> Any:
        """The program in cvxpy: ``V``, over few columns, and the ``loss``."""
        import cvxpy as cp

        F = self.lift.root
        V = cp.Variable((F.shape[1], F.shape[1]), PSD=True, name="V")
        loss = cp.Variable(self.n, nonneg=True, name="loss")
        return self._balanced(V, self.slack / self.n * cp.sum(loss),
                              loss >= 1 - cp.sum(cp.multiply(F @ V, F), axis=1))

    def reference(self, labels: Any = None) -> Any:
        """Return the relaxation over V, literally."""
        import cvxpy as cp

        offer = self.problem.offer(LiftedMargin)
        X, k, e = offer.features.dense(), offer.k, np.ones(self.n)
        V = cp.Variable((X.shape[1], X.shape[1]), symmetric=True, name="V")
        G = X @ V @ X.T
        rows: list[Any] = [V >> 0]
        if offer.limit is not None:
            rows.append(e @ G @ e <= offer.limit**2 * (k // 2) * (k - k // 2) / (k - 1))
        loss = self.slack * cp.sum(cp.pos(1 - cp.diag(G))) / self.n
        return cp.Problem(cp.Minimize(offer.beta * (k - 1) / (2 * k) * cp.trace(V) + loss), rows)

    def statement(self) -> Statement:
        k, b = self.n_clusters, self.slack
        rows = list(super().statement().rows)
        rows[0] = ("minimise", f"beta {(k - 1) / (2 * k):g} tr V + {b:g}/n sum_i "
                   "max(0, 1 - x_i'Vx_i)",
                   r"\tfrac{\beta (k-1)}{2k} \operatorname{tr} V + \tfrac bn \sum_i "
                   r"\max(0, 1 - x_i^\top V x_i)")
        if b > 0.5:
            rows.insert(-1, ("bounds", "nothing: a slack above 1/2 may cost more than the loss",
                             ""))
        return Statement(f"GMMC: a lower bound on {type(self.problem).__name__}" if b <= 0.5
                         else "GMMC: not a bound", tuple(rows))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(3).standard_normal((6, 2)) + 2.0
        return [cls(f) for f in (CPM3C.examples()[0], CPM3C.examples()[1],
                                 CPM3C(X, 2, beta=0.2, balance=1.0, center=False))]
