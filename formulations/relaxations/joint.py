"""Labels lifted beside the weights: the problem of Xu et al., and with triangles."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import DUALS, Cuts
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.bounds.weight_lift import margin_lift
from mmcopt.capabilities import Capability, LiftedMargin, Program
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.kernels import Gaussian
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

SIGNS = ((-1, -1, -1), (1, 1, -1), (1, -1, 1), (-1, 1, 1))


class XuMMC(Relaxation):
    """Two clusters: Y psd in the place of yy', y the signs of the scores.

    With x_i the features, s their sum, w = w_1 - w_2, minimise ``beta/4 tr W + 1/n sum_i
    max(0, 1 - x_i'h_i)`` over ``[[W, H], [H', Y]]`` psd with diag Y = 1 and ``s'Ws <= l^2``; W, the
    columns h_i of H and Y stand for ww', w y_i and yy'. By duality that is the semidefinite problem
    of maximum margin clustering, without its balance of labels, which is another constraint than
    that of scores. Without cuts its value is that of "lifted", over n^2 / 2 unknowns. Any a, t and
    duals of Y give a bound, see `JointLift`. A point is Y.
    """

    kind: ClassVar[str] = "mmc"
    dual_names = ("a", *DUALS)
    rank: ClassVar[float] = 110
    of: ClassVar[type[Capability]] = LiftedMargin
    paper = "Xu, Neufeld, Larson and Schuurmans (2005)"
    tightness: ClassVar[str] = "of the value of lifted, and dearer; for teaching"
    default_solver: ClassVar[str] = "JointDual"
    trivial: ClassVar[float | None] = 0.0
    cuts: ClassVar[bool] = False

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.n_clusters != 2:
            return (f"it is for 2 clusters, and there are {problem.n_clusters}; "
                    "relax('lifted') is for any number.")
        offer = problem.offer(LiftedMargin)
        if reason is None and offer.limit == 0.0:
            return "a balance of 0 leaves its program no interior; relax('lifted') takes it."
        return reason

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 8.0 * 25 * float(problem.n) ** 2

    @classmethod
    def seconds(cls, problem: Any) -> float:
        return max(0.01, (1e-5 if cls.cuts else 3e-6) * float(problem.n) ** 3 / 10)

    @cached
    def joint(self) -> Any:
        """The arrays of the program."""
        return JointLift(margin_lift(self.problem.offer(LiftedMargin)), self.cuts)

    # ------------------------------------------------------------ points and bounds

    def objective(self, point: Floats) -> float:
        return float(self.joint.machine(np.asarray(point))[0])

    def violation(self, point: Floats) -> float:
        Y, joint = np.asarray(point), self.joint
        worst = max(0.0, -float(np.linalg.eigvalsh(Y)[0]), float(np.abs(np.diagonal(Y) - 1).max()))
        return max(worst, violated_cuts.worst(joint.at(np.ones(self.n), 0.0), Y)) if self.cuts \
            else worst

    def from_labels(self, labels: Ints) -> Floats:
        """The Y that the labels give."""
        y = np.where(np.asarray(labels) == 0, 1.0, -1.0)
        return np.outer(y, y)

    def recover(self, point: Floats) -> Ints:
        """The best of the signs along the leading eigenvectors, and along random directions."""
        lifted = Lifted(self.problem)
        w, V = np.linalg.eigh(np.asarray(point))
        V = (V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1]
        return lifted.rounded(V)

    def bound(self, duals: dict[str, Any]) -> float:
        return float(self.joint.lower(duals))

    def offer(self, kind: type[Any]) -> Any:
        return self.joint if kind is JointLift else super().offer(kind)

    # ------------------------------------------------------------ cvxpy

    def _triangles(self) -> Ints:
        """All of them as rows i < j < h, kind."""
        if not self.cuts:
            return np.empty((0, 4), np.int64)
        return np.array([(i, j, h, s) for h in range(self.n) for j in range(h) for i in range(j)
                         for s in range(4)], dtype=np.int64).reshape(-1, 4)

    @cached
    def program(self) -> Any:
        """The program in cvxpy: ``Z`` of W, H and Y, W over the columns of the lift's root."""
        import cvxpy as cp

        margin, n = self.joint.margin, self.n
        F = margin.root
        r = F.shape[1]
        Z = cp.Variable((r + n, r + n), PSD=True, name="Z")
        m = cp.Variable(n, name="margins")
        W, H, Y = Z[:r, :r], Z[:r, r:], Z[r:, r:]
        above: Any = m <= cp.sum(cp.multiply(F.T, H), axis=0)
        diagonal: Any = cp.diag(Y) == np.ones(n)
        rows = [above, diagonal]
        if margin.balanced:
            s = margin.total
            rows.append(cp.sum(cp.multiply(np.outer(s, s), W)) <= margin.square)
        T, S = self._triangles(), np.array(SIGNS, dtype=float)
        if len(T):
            i, j, h, kind = T.T
            left = cp.multiply(S[kind, 0], Y[i, j]) + cp.multiply(S[kind, 1], Y[i, h]) \
                + cp.multiply(S[kind, 2], Y[j, h])
            rows.append(left <= np.ones(len(T)))
        value = margin.c * cp.trace(W) + cp.sum(cp.pos(1 - m)) / n

        def point() -> Floats:
            found = np.asarray(Y.value)
            return (found + found.T) / 2

        def duals() -> dict[str, Any]:
            out = {"a": n * np.asarray(above.dual_value), "u": np.asarray(diagonal.dual_value),
                   "t": np.array(float(rows[2].dual_value) if margin.balanced else 0.0)}
            if len(T):
                out.update(g=np.asarray(rows[-1].dual_value), triangles=T, cliques=Cuts().cliques)
            return out

        return Program(cp.Problem(cp.Minimize(value), [*rows, *self._within(Y)]), point, duals)

    def _within(self, Y: Any) -> list[Any]:
        """Rows on Y that have no duals of their own; none here."""
        return []

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation, literally, every triangle written out."""
        import cvxpy as cp

        offer, n = self.problem.offer(LiftedMargin), self.n
        X, e = offer.features.dense(), np.ones(n)
        d = X.shape[1]
        W, Y = (cp.Variable((m, m), symmetric=True) for m in (d, n))
        H = cp.Variable((d, n))
        rows: list[Any] = [cp.bmat([[W, H], [H.T, Y]]) >> 0, cp.diag(Y) == 1]
        if offer.limit is not None:
            rows.append(e @ X @ W @ X.T @ e <= offer.limit**2)
        if self.cuts:
            rows += [s[0] * Y[i, j] + s[1] * Y[i, h] + s[2] * Y[j, h] <= 1 for h in range(n)
                     for j in range(h) for i in range(j) for s in SIGNS]
        loss = cp.sum(cp.pos(1 - cp.diag(X @ H))) / n
        return cp.Problem(cp.Minimize(offer.beta / 4 * cp.trace(W) + loss), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        offer, n = self.problem.offer(LiftedMargin), self.n
        rows = [("minimise", "beta/4 tr W + 1/n sum_i max(0, 1 - x_i'h_i)",
                 r"\tfrac\beta4 \operatorname{tr} W + \tfrac1n \sum_i \max(0, 1 - x_i^\top h_i)"),
                ("over", f"Y, {n} x {n} symmetric; W; H of columns h_1..h_{n}", "W, H, Y"),
                ("subject to", "[[W, H], [H', Y]] psd, diag Y = 1",
                 r"\begin{pmatrix} W & H \\ H^\top & Y \end{pmatrix} \succeq 0,\ "
                 r"\operatorname{diag} Y = 1")]
        if offer.limit is not None:
            rows.append(("balance", f"s'Ws <= {offer.limit**2:g}, s = sum_i x_i",
                         rf"s^\top W s \le {offer.limit**2:g}"))
        if self.cuts:
            rows.append(("triangles", "Y_ij + Y_il + Y_jl >= -1 and Y_ij + Y_il - Y_jl <= 1, "
                         "for all i, j, l", r"Y_{ij} + Y_{il} + Y_{jl} \ge -1,\ "
                         r"Y_{ij} + Y_{il} - Y_{jl} \le 1"))
        rows += [("where", f"beta = {offer.beta:g}, x the features of the problem below", ""),
                 ("relaxes", str(self.problem), "")]
        return Statement(f"{type(self).__name__}: a lower bound on {type(self.problem).__name__}",
                         tuple(rows))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(4).standard_normal((7, 2)) + 1.0
        return [cls(f) for f in (CPM3C.examples()[0], CPM3C(X, 2, beta=0.1),
                                 CPM3C(X, 2, beta=0.05, kernel=Gaussian(width=0.5)),
                                 CPM3C(X, 2, beta=0.1, balance=1.0, center=False))]


class JointMMC(XuMMC):
    """The problem of Xu et al. with all triangle inequalities on Y: of three samples two agree."""

    kind: ClassVar[str] = "joint"
    rank: ClassVar[float] = 120
    paper = "ours; triangles of Helmberg and Rendl (1998)"
    tightness: ClassVar[str] = "with triangle cuts; a third to two thirds of the gap of lifted"
    cuts: ClassVar[bool] = True
