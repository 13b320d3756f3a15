"""The relaxation of Xu and Schuurmans for any number of clusters, which seldom says anything."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt.bounds.relaxation import Relaxation
from mmcopt.bounds.weight_lift import margin_lift
from mmcopt.capabilities import Capability, LiftedMargin, Program
from mmcopt.errors import BackendError
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.kernels import Gaussian
from mmcopt.linalg import UNIT, proved_psd_shift
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints

STEPS, CLOSED = 20_000, 1e-12  # of the accelerated gradient: at most, and the gap at which it ends


class XuSchuurmans(Relaxation):
    """Any number of clusters: labels D (n, k) and M psd beside them, in the place of DD'.

    With weights of scores in the rows of W, and labels ``D_ip = [y_i = p]``, the machine of
    Crammer and Singer is to minimise ``beta/2 |W - D'X / (beta n)|^2 + 1 + 1/n sum_i max_p (w_p'x_i
    - D_ip) - <XX', M> / (2 beta n^2)`` for ``M = DD'``: the square, multiplied out, leaves ``beta/2
    |W|^2 - 1/n sum_i w_y'x_i``. With ``[[I, D'], [D, M]]`` psd, diag M = 1, M >= 0 and De = e
    instead, all is convex in W, D and M.

    It is *hardly of use as a bound*: no cluster differs from any other, so ``D = ee'/k`` is as good
    as any, and then M is free of D and takes the longest class sums that there are. On centred
    features the value is at most ``1 - 1/k - sum_h |sum_{i in h} x_i|^2 / (2 beta n^2)`` for any
    clusters h: below the trivial 0 but for large beta, where "lifted" is near the optimum. A floor
    on sizes changes nothing, as D meets it. For teaching, and for history.

    With ``q = 1 / (2 beta n^2)`` and K = XX', any L >= 0 with Le = e, P, v, u and N >= 0 prove the
    bound ``1 - q <K, LL'> - tr P - e'v - e'u - (n + k) d``, where d is the least for which ``[[P,
    G'], [G, Diag(u) - N - q K]] + d I`` is psd, ``G = q K L + (v e' - L / n) / 2``. A point is the
    whole matrix of I, D and M.
    """

    kind: ClassVar[str] = "xu-schuurmans"
    dual_names = ("L", "P", "v", "u", "N")
    rank: ClassVar[float] = 140
    of: ClassVar[type[Capability]] = LiftedMargin
    paper = "Xu and Schuurmans (2005), for the mean of the slacks"
    tightness: ClassVar[str] = "below 0 but for large beta, and 0 is trivial; for teaching"

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        reason = super().refuses(problem)
        if reason is None and problem.offer(LiftedMargin).limit is not None:
            return "it knows no balance of scores, and here is one; relax('lifted') takes it."
        return reason

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 56.0 * ((problem.n + problem.n_clusters) ** 2 / 2.0) ** 2

    @classmethod
    def seconds(cls, problem: Any) -> float:
        return max(0.02, 4e-7 * float(problem.n) ** 4)

    @cached
    def lift(self) -> Any:
        """The features and their inner products."""
        return margin_lift(self.problem.offer(LiftedMargin))

    @property
    def q(self) -> float:
        """1 / (2 beta n^2)."""
        return 0.5 / (float(self.problem.offer(LiftedMargin).beta) * self.n**2)

    # ------------------------------------------------------------ points

    def _parts(self, point: Floats) -> tuple[Floats, Floats]:
        """D and M of a point."""
        Z, k = np.asarray(point), self.n_clusters
        return Z[k:, :k], Z[k:, k:]

    def objective(self, point: Floats) -> float:
        D, M = self._parts(point)
        return float(1.0 - self.q * np.sum(self.lift.K * M) + self._machine(D))

    def _machine(self, D: Floats) -> float:
        """The largest ``<2q KD - D/n, L> - q <K, LL'>`` over L >= 0, Le = e.

        By projected gradients, accelerated and restarted, until the linearisation shows no gap.
        """
        K, q, n = self.lift.K, self.q, self.n
        linear = 2.0 * q * (K @ D) - D / n
        step = 1.0 / max(2.0 * q * float(np.linalg.eigvalsh(K)[-1]), 1.0 / n)
        L = ahead = np.full(D.shape, 1.0 / D.shape[1])
        momentum, best = 1.0, -math.inf
        for _ in range(STEPS):
            slope = linear - 2.0 * q * (K @ L)
            value = float(np.sum((linear + slope) * L)) / 2.0
            best = max(best, value)
            if float(slope.max(axis=1).sum() - np.sum(slope * L)) <= CLOSED * (1.0 + abs(value)):
                break
            new = simplex(ahead + step * (linear - 2.0 * q * (K @ ahead)))
            if float(np.sum((new - ahead) * (new - L))) < 0.0:  # it has turned back
                momentum = 1.0
            after = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead, L = new + (momentum - 1.0) / after * (new - L), new
            momentum = after
        return best

    def violation(self, point: Floats) -> float:
        Z, (D, M), k = np.asarray(point), self._parts(point), self.n_clusters
        return max(0.0, -float(np.linalg.eigvalsh(Z)[0]), -float(M.min()),
                   float(np.abs(Z[:k, :k] - np.eye(k)).max()),
                   float(np.abs(np.diagonal(M) - 1.0).max()),
                   float(np.abs(D.sum(axis=1) - 1.0).max()))

    def from_labels(self, labels: Ints) -> Floats:
        """The point that the labels give; its objective is that of their machine."""
        A = np.vstack([np.eye(self.n_clusters), np.eye(self.n_clusters)[np.asarray(labels)]])
        return np.asarray(A @ A.T)

    def recover(self, point: Floats) -> Ints:
        """Labels of the leading eigenvectors of M, less what all clusters share."""
        w, V = np.linalg.eigh(self._parts(point)[1] - 1.0 / self.n_clusters)
        return Lifted(self.problem).rounded((V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1])

    # ------------------------------------------------------------ the bound

    def bound(self, duals: dict[str, Any]) -> float:
        """The bound above, proved, for any duals whatever; often below the trivial 0."""
        L, P, v, u, N = self._clean(duals)
        K, q, n, k = self.lift.K, self.q, self.n, self.n_clusters
        with np.errstate(over="ignore", invalid="ignore"):
            KL = K @ L
            G = q * KL + 0.5 * (v[:, None] - L / n)
            S = np.block([[P, G.T], [G, np.diag(u) - N - q * K]])
            # Rounding: of K and KL by lengths of samples, of the rest by its entries.
            length = np.sqrt(np.maximum(np.diagonal(K), 0.0))
            mass = q * float(length.sum()) ** 2
            size = (self.lift.features.d + n + k + 32) * 4 * UNIT * mass
            size += 8 * (k + 8) * UNIT * float(np.abs(P).sum() + k * np.abs(v).sum() + 1.0
                                               + np.abs(u).max() + N.sum(axis=1).max())
            terms = np.concatenate([[1.0, -q * float(np.sum(L * KL))], -np.diagonal(P), -v, -u])
            spread = float(np.abs(terms).sum())
        if not (np.isfinite(S).all() and math.isfinite(size + spread)):
            return -math.inf
        try:
            d = proved_psd_shift(S, max(0.0, -float(np.linalg.eigvalsh(S)[0])))
        except (BackendError, np.linalg.LinAlgError):
            return -math.inf
        return math.fsum(terms) - (n + k) * (d + size) - 8 * UNIT * spread

    def _clean(self, duals: dict[str, Any]) -> list[Floats]:
        """L of rows in the simplex, P symmetric, v, u, and N >= 0 symmetric; absent ones are 0."""
        n, k, out = self.n, self.n_clusters, []
        shapes = {"L": (n, k), "P": (k, k), "v": (n,), "u": (n,), "N": (n, n)}
        for name, shape in shapes.items():
            given = np.asarray(duals.get(name, np.zeros(shape)), dtype=np.float64)
            if given.shape != shape:
                raise ValueError(f"the dual {name} must have shape {shape}, got {given.shape}")
            out.append(np.nan_to_num(given, nan=0.0, posinf=0.0, neginf=0.0))
        L, P, v, u, N = out
        L = np.maximum(L, 0.0)
        L = L / np.maximum(L.max(axis=1), 1e-300)[:, None]  # so that no sum overflows
        L[L.sum(axis=1) == 0.0] = 1.0
        N = np.maximum(N, 0.0) / 2
        return [L / L.sum(axis=1)[:, None], P / 2 + P.T / 2, v, u, N + N.T]

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy: ``Z`` of I, D and M, and ``W`` over the columns of a root of K.

        W is the residual of the weights, times the square root of beta.
        """
        import cvxpy as cp

        n, k, F, root = self.n, self.n_clusters, self.lift.root, math.sqrt(2.0 * self.q)
        Z = cp.Variable((n + k, n + k), PSD=True, name="Z")
        W = cp.Variable((F.shape[1], k), name="W")
        worst = cp.Variable(n, name="worst")
        D, M = Z[k:, :k], Z[k:, k:]
        scores = F @ (root * W + 2.0 * self.q * (F.T @ D)) - D / n
        above: list[Any] = [worst >= scores[:, p] for p in range(k)]
        corner: Any = Z[:k, :k] == np.eye(k)
        sums: Any = cp.sum(D, axis=1) == np.ones(n)
        diagonal: Any = cp.diag(M) == np.ones(n)
        nonnegative: Any = M >= 0
        value = 0.5 * cp.sum_squares(W) + 1 + cp.sum(worst) \
            - self.q * cp.sum(cp.multiply(self.lift.K, M))

        def point() -> Floats:
            found = np.asarray(Z.value)
            return (found + found.T) / 2

        def duals() -> dict[str, Any]:
            return {"L": np.stack([row.dual_value for row in above], axis=1),
                    "P": np.asarray(corner.dual_value), "v": np.asarray(sums.dual_value),
                    "u": np.asarray(diagonal.dual_value), "N": np.asarray(nonnegative.dual_value)}

        return Program(cp.Problem(cp.Minimize(value), [*above, corner, sums, diagonal,
                                                       nonnegative]), point, duals)

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation over W, D and M, literally."""
        import cvxpy as cp

        offer, n, k = self.problem.offer(LiftedMargin), self.n, self.n_clusters
        X, beta = offer.features.dense(), offer.beta
        W, D = cp.Variable((k, X.shape[1]), name="W"), cp.Variable((n, k), name="D")
        M = cp.Variable((n, n), symmetric=True, name="M")
        rows: list[Any] = [cp.bmat([[np.eye(k), D.T], [D, M]]) >> 0, cp.diag(M) == 1, M >= 0,
                           D @ np.ones(k) == 1]
        value = beta / 2 * cp.sum_squares(W - D.T @ X / (beta * n)) + 1 \
            + cp.sum(cp.max(X @ W.T - D, axis=1)) / n - cp.trace(X.T @ M @ X) / (2 * beta * n**2)
        return cp.Problem(cp.Minimize(value), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n, k = self.n, self.n_clusters
        return Statement(f"XuSchuurmans: a lower bound on {type(self.problem).__name__}, as a "
                         "rule below 0", (
            ("minimise", "beta/2 |W - D'X/(beta n)|^2 + 1 + 1/n sum_i max_p (w_p'x_i - D_ip) - "
             "<XX', M>/(2 beta n^2)",
             r"\tfrac\beta2 \|W - \tfrac1{\beta n} D^\top X\|^2 + 1 + \tfrac1n \sum_i \max_p "
             r"(w_p^\top x_i - D_{ip}) - \tfrac1{2 \beta n^2} \langle X X^\top, M\rangle"),
            ("over", f"W; D, {n} x {k}; M, {n} x {n} symmetric", "W, D, M"),
            ("subject to", "[[I, D'], [D, M]] psd, diag M = 1, M >= 0, De = e",
             r"\begin{pmatrix} I & D^\top \\ D & M \end{pmatrix} \succeq 0,\ "
             r"\operatorname{diag} M = 1,\ M \ge 0,\ D e = e"),
            ("where", f"beta = {self.problem.offer(LiftedMargin).beta:g}, X the features of the "
             "problem below, e all ones", ""),
            ("bounds", "little: D = ee'/k is as good as any labels, and frees M", ""),
            ("relaxes", str(self.problem), "")))

    @classmethod
    def examples(cls) -> list[Self]:
        X = np.random.default_rng(4).standard_normal((6, 2)) + 1.0
        return [cls(f) for f in (CPM3C.examples()[0], CPM3C.examples()[1],
                                 CPM3C(X, 2, beta=2.0, kernel=Gaussian(width=0.5)),
                                 CPM3C(X, 3, beta=0.5, center=False))]


def simplex(V: Floats) -> Floats:
    """The nearest points with entries >= 0 of sum 1, row by row."""
    falling = -np.sort(-V, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, V.shape[1] + 1)
    last = (falling > excess).sum(axis=1) - 1
    return np.maximum(V - excess[np.arange(len(V)), last][:, None], 0.0)
