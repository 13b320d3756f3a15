"""The regularised dual of labels lifted beside weights, over all its duals at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import Cuts, Lift
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real
from mmcopt.modeling.result import Status
from mmcopt.solvers.margin_barrier import MarginBarrier
from mmcopt.solvers.regularized_dual import DualSpace, positive_part
from mmcopt.solving import Progress, Solver, out_of_time, run
from mmcopt.types import Floats

LEAST_VIOLATION = 2e-3  # violations of triangles below this are not cut off


@dataclass
class _Dual:
    """Shares a / n, the weight t of the balance, the duals z of Y; smoothing, X, what is best."""

    a: Floats
    t: float
    z: Floats
    space: DualSpace
    alpha: float
    X: Floats
    bound: float = -np.inf
    idle: int = 0
    duals: Any = None


@dataclass(frozen=True, kw_only=True)
class JointDual(Solver):
    """Maximise ``mean a - q t - max_Y <Q(t) o aa', Y>`` over a, t and the duals of Y, smoothed.

    The maximum over psd Y of diagonal 1 is replaced as in `RegularizedDual`. With ``Q(t) = X (c I +
    t ss')^-1 X' / (4n^2)`` it is the largest of quadratics over matrices that are linear in t, so
    convex in a and t together, and L-BFGS-B takes all duals at once, at one eigenvalue
    decomposition of order n an evaluation. It begins at the optimum of the lifted margin, whose
    bound it thus never falls below. A step is one value of the smoothing and, with cuts, a
    separation of triangles.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("digits:3,8")
    >>> problem = mm.formulations.CPM3C(X[3::11], beta=0.1)
    >>> first, second = (mm.solve(problem.relax(kind)).lower_bound for kind in ("lifted", "joint"))
    >>> bool(first < second)
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (JointLift,)
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-4, real(0), "relative improvement of the bound that counts")
    evaluations: int = hyper(150, integer(1), "evaluations a step")
    start: float = hyper(0.05, real(0, open_low=True), "first smoothing, times |R|_F / n")
    shrink: float = hyper(0.85, real(0, 1, open_low=True), "factor of it from step to step")
    floor: float = hyper(1e-7, real(0, open_low=True), "smallest one, times |R|_F / n")
    cuts_per_node: float = hyper(5.0, real(0), "cuts added a step, times the number of samples")
    patience: int = hyper(4, integer(1), "steps without improvement after which it stops")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        joint = f.offer(JointLift)
        first = run(MarginBarrier(), joint.margin, None, rng)
        g, t = np.asarray(first.duals["g"]), joint.weight(first.duals)
        a = np.minimum(1.0, 2.0 * g)
        lift = joint.at(a, t)
        space = DualSpace(lift, Cuts())
        # R <= Diag(a^2 / (4 n g)) is what the lifted margin knows.
        u = np.where(a < 1.0, a / 2.0, 0.25 / np.maximum(g, 0.5)) / joint.n
        z = space.pack({"u": u})
        norm = float(np.linalg.norm(lift.R))
        state = _Dual(a / joint.n, t, z, space, self.start * norm / joint.n, np.eye(joint.n))
        return self._progress(f, joint, state, norm)

    def step(self, f: Any, state: _Dual, rng: np.random.Generator) -> Progress:
        joint, before = f.offer(JointLift), state.bound
        self._descend(joint, state)
        lift = joint.at(np.clip(joint.n * state.a, 0.0, 1.0), state.t)
        added = self._recut(lift, state) if joint.cuts else 0
        norm = float(np.linalg.norm(lift.R))
        progress = self._progress(f, joint, state, norm)
        gained = state.bound - before > self.tol * max(abs(state.bound), 1e-300)
        state.idle = 0 if gained else state.idle + 1
        state.alpha = max(self.floor * norm / joint.n, self.shrink * state.alpha)
        progress.extras["added"] = float(added)
        return progress

    def outcome(self, f: Any, state: _Dual) -> Status | None:
        return Status.CONVERGED if state.idle >= self.patience else None

    def _descend(self, joint: JointLift, state: _Dual) -> None:
        """L-BFGS-B over shares, what the balance costs where that is anything, and duals."""
        from scipy.optimize import minimize

        n, space, q = joint.n, state.space, joint.margin.square
        rho, Q = float(n), joint.kernel(state.t)
        free = int(joint.margin.balanced and not joint.margin.level)  # or t is as it is
        rank = 0

        def value(v: Floats) -> tuple[float, Floats]:
            nonlocal Q, rank
            a, price, z = n * v[:n], v[n:n + free], v[n + free:]
            if free:
                Q = joint.kernel(float(price[0]) / q)
            C = Q * np.outer(a, a) - space.slack(z)
            w, V = positive_part(C, rank, False)
            rank = len(w)
            V = V * np.sqrt(w / state.alpha).astype(V.dtype)
            X = np.asarray(V @ V.T, dtype=np.float64)
            state.X = X
            smooth = float(w @ w) / (2 * state.alpha) + state.alpha * rho**2 / 2
            slope = n * (2.0 * ((X * Q) @ a) - 1.0 / n)
            fall = [1.0 - joint.fall(a, float(price[0]) / q, X) / q] if free else []
            rest = space.linear - space.rows_of(X)
            found = smooth + float(space.linear @ z) - float(a.mean()) + float(price.sum())
            return found, np.concatenate([slope, fall, rest])

        bounds = [(0.0, 1.0 / n)] * n + [(0.0, 1.0)] * free \
            + list(zip(space.low, space.high, strict=True))
        begin = np.concatenate([state.a, [q * state.t] * free, state.z])
        found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=_stop,
                         options={"maxfun": self.evaluations, "maxcor": 15, "ftol": 0.0,
                                  "gtol": 1e-12})
        value(found.x)  # X of where it ended
        state.a, state.z = found.x[:n], found.x[n + free:]
        if free:
            state.t = float(found.x[n]) / q

    def _recut(self, lift: Lift, state: _Dual) -> int:
        """Drop cuts whose multiplier is 0, add violated ones; the number added."""
        duals = state.space.unpack(state.z)
        keep = duals["g"] > 1e-8 * max(float(duals["g"].max(initial=0.0)), 1e-300)
        old = state.space.cuts.take(keep)
        most = max(10, int(self.cuts_per_node * lift.m))
        cuts = old.join(violated_cuts.violated(lift, state.X, most, least=LEAST_VIOLATION))
        fresh = len(cuts) - len(old)
        duals.update(g=np.append(duals["g"][keep], np.zeros(fresh)), triangles=cuts.triangles,
                     cliques=cuts.cliques)
        state.space = DualSpace(_blank(lift), cuts)
        state.z = state.space.pack(duals)
        return fresh

    def _progress(self, f: Any, joint: JointLift, state: _Dual, norm: float) -> Progress:
        state.space = DualSpace(_blank(state.space.lift), state.space.cuts)
        duals = {**state.space.unpack(state.z), "a": np.clip(joint.n * state.a, 0.0, 1.0)}
        duals = {k: v for k, v in duals.items() if k in ("u", "a", "g", "triangles", "cliques")}
        duals["t"] = np.array(state.t)
        bound = joint.lower(duals)
        if bound > state.bound:
            state.bound, state.duals = bound, duals
        root = np.sqrt(np.maximum(np.diagonal(state.X), 1e-12))
        point = state.X / np.outer(root, root)
        return Progress(state, point, f.objective(point), bound,
                        {"dual": state.bound, "cuts": float(len(state.space.cuts))}, duals)


def _blank(lift: Lift) -> Lift:
    """The lift without R, so that slacks are those of the duals alone."""
    import dataclasses

    return dataclasses.replace(lift, R=np.zeros_like(lift.R))


def _stop(x: Floats) -> None:
    """End L-BFGS-B when the time is up."""
    if out_of_time():
        raise StopIteration
