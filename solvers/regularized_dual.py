"""The regularised dual of a lifted problem, by projected L-BFGS, with cutting planes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.lapack import dtrtrs

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import Cuts, Duals, Lift, orthogonal, require_room
from mmcopt.capabilities import Capability
from mmcopt.checks import flag, hyper, integer, optional, real
from mmcopt.linalg import largest_eigenvalue
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Proved, Solver
from mmcopt.solving.runs import ends_late
from mmcopt.types import Floats

LEAST_VIOLATION = 2e-3  # violations below this part of the diagonal are not cut off
MEMORY = 15  # pairs of the quasi-Newton matrix
NEAR = 0.02  # violation (part of the diagonal) and gap of an X that is said to have converged
RAISES, RAISE = 5, 1e4  # how often alpha is raised, and how far, where no X came as near as that
SMALL = 60  # nodes up to which all eigenvectors take no longer than some
FEW = 1 / 6  # part of the eigenvalues that are positive up to which their vectors alone are cheaper
SINGLE = 800  # nodes from which eigenvalues are computed in float32, as they are
# Seconds, times the cube of the number of nodes, about: of an evaluation, of a look at what X
# violates, and of a search for cuts.
EVALUATION, LOOK, SEARCH = 1.5e-10, 3e-11, 4e-10
COARSE = 1e-3  # while alpha is above this, times |R|_F / m; the bound never is


class DualSpace:
    """The duals of a lift with some cuts as one vector: u, t, rows, pairs, g, N (above diagonal).

    t is two variables, for the upper and the lower end of the balance. Where the rows or the
    balance are vacuous their variables are held at 0. Each variable is scaled by the norm of its
    constraint matrix, so that all of them count alike.
    """

    def __init__(self, lift: Lift, cuts: Cuts) -> None:
        self.lift, self.cuts, self.entries = lift, cuts, lift.entries(cuts)
        m, r, p, c = lift.m, lift.rows.size, len(lift.pairs), len(cuts)
        sizes = [m, 2, r, r, p, c, m * (m - 1) // 2 if lift.bounded else 0]
        ends = np.cumsum([0, *sizes])
        self.slices = [slice(a, z) for a, z in zip(ends[:-1], ends[1:], strict=True)]
        self.size = int(ends[-1])
        self.upper = np.triu_indices(m, 1) if lift.bounded else None
        self.low, self.high = np.zeros(self.size), np.full(self.size, np.inf)
        for free in (0, 4):
            self.low[self.slices[free]] = -np.inf
        if lift.flat:
            for fixed in (1, 2, 3):
                self.high[self.slices[fixed]] = 0.0
        t = self.slices[1].start
        if lift.square >= m * float(lift.b @ lift.b):
            self.high[t] = 0.0
        if lift.square_low <= 0:
            self.high[t + 1] = 0.0
        norm = float(np.linalg.norm(lift.b)) or 1.0  # where links pair all samples b is 0
        clique = np.sqrt(lift.k * (lift.k + 1) / 4)
        norms = [1.0, norm**2, norm / np.sqrt(2), norm / np.sqrt(2), np.sqrt(0.5), 1.0, np.sqrt(2)]
        self.unit = 1.0 / np.repeat(norms, sizes)
        width = cuts.odd.shape[1]
        self.unit[self.slices[5]] = 1.0 / np.repeat(
            [np.sqrt(1.5), clique, np.sqrt(width * (width - 1) / 4)], cuts.counts)
        N = np.full(sizes[6], -2.0 * lift.floor)
        self.linear = self.unit * np.concatenate([
            np.full(m, lift.top), [lift.square, -lift.square_low], lift.row_high, -lift.row_low,
            np.full(p, lift.floor), self.entries.right, N])

    def pack(self, duals: Duals) -> Floats:
        """The vector of duals, whose cuts are these."""
        clean, _ = self.lift.clean(duals)
        t = clean["t"]
        parts = [clean["u"], [max(t, 0.0), max(-t, 0.0)], clean["up"], clean["down"],
                 clean["pairs"], clean["g"]]
        if self.upper is not None:
            parts.append(clean["N"][self.upper])
        return np.clip(np.concatenate(parts) / self.unit, self.low, self.high)

    def unpack(self, z: Floats) -> Duals:
        """The duals by name."""
        u, t, up, down, pairs, g, above = ((self.unit * z)[s] for s in self.slices)
        duals = {"u": u, "t": np.array(t[0] - t[1]), "up": up, "down": down, "pairs": pairs,
                 "g": g, **self.cuts.by_name}
        if self.upper is not None:
            N = np.zeros((self.lift.m, self.lift.m))
            N[self.upper] = above
            duals["N"] = N + N.T
        return duals

    def slack(self, z: Floats) -> Floats:
        """The matrix S at a vector."""
        duals = self.unpack(z)
        duals["t"] = float(duals["t"])
        return self.lift.slack(duals, self.entries)

    def rows_of(self, X: Floats) -> Floats:
        """The left sides of all constraints at X, in the order of the vector."""
        lift, Xb = self.lift, X @ self.lift.b
        bXb = float(lift.b @ Xb)
        i, j = lift.pairs.T
        parts = [np.diagonal(X), [bXb, -bXb], Xb[lift.rows], -Xb[lift.rows], X[i, j],
                 self.entries.of(X)]
        if self.upper is not None:
            parts.append(-2.0 * X[self.upper])
        return self.unit * np.concatenate(parts)


def positive_part(C: Floats, rank: int, single: bool) -> tuple[Floats, Floats]:
    """The positive eigenvalues of C and their eigenvectors; about ``rank``, as it was last time."""
    single |= len(C) >= SINGLE
    if len(C) < SMALL or not (single or rank < FEW * len(C)):
        w, V = np.linalg.eigh(C)
        first = int(np.searchsorted(w, 0.0, side="right"))
        return w[first:], V[:, first:]
    from scipy.linalg import eigh

    w, V = eigh(C.astype(np.float32 if single else np.float64), driver="evr",
                subset_by_value=(0.0, np.inf), check_finite=False, overwrite_a=True)
    return w.astype(np.float64), V


@dataclass
class _Dual:
    """The vector and its space; X of the last evaluation; the best duals and their bound."""

    space: DualSpace
    z: Floats
    alpha: float
    X: Floats
    rank: int = 0  # of X, or 0
    upper: float = math.inf
    best: Floats = field(default_factory=lambda: np.empty(0))
    best_space: Any = None
    least: float = 0.02
    idle: int = 0
    nearest: Floats = field(default_factory=lambda: np.empty(0))  # X, the nearest to an optimum
    off: float = math.inf  # what that X lacks, see `RegularizedDual._book`
    raised: int = 0  # how often alpha was changed to look for a better X
    anchor: Any = None  # the X that a step begins at; None where alpha falls instead
    pairs: list[tuple[Floats, Floats]] = field(default_factory=list)
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class RegularizedDual(Solver):
    """Minimise the dual of a lifted problem, its matrix constraint smoothed; add violated cuts.

    With C = R - A*(z) for duals z, rho >= |X|_F and a small alpha the function
    ``b'z + |C_+|^2 / (2 alpha) + alpha rho^2 / 2`` bounds the dual from above, is convex and
    smooth, and has only simple bounds: projected L-BFGS minimises it, at the price of one
    eigenvalue decomposition an evaluation (Malick and Roupin 2013). C_+ / alpha estimates the
    primal X, at which cuts are separated. alpha falls from step to step. Every iterate proves the
    bound ``b'z + tr(X) lambda_max(C)_+``; the best is kept.

    A driver step is one value of alpha: up to ``evaluations`` evaluations, then dropping and adding
    cuts. It ends when steps no longer improve the bound by more than ``tol``. The point is the X
    that came nearest to feasible and optimal; where none came within 2 % of both, alpha is raised
    and falls again, and when that has not helped five times the status is the iteration limit.
    ``init`` may be duals, or the state of an earlier run.

    With ``anchored`` alpha stays, and C + alpha X' takes the place of C, where X' is what the last
    step ended with: the augmented Lagrangian (Malick, Povh, Rendl and Wiegele 2009). The function
    stays as well conditioned as it was, so new cuts are soon priced; only the bound at the end of a
    step is computed. That is the better way where cuts are many and time is short.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> problem = mm.formulations.LeastSquares(X, lam=0.5)
    >>> result = mm.solve(problem.relax("sdp+cuts"), "RegularizedDual")
    >>> round(result.lower_bound / mm.solve(problem, seed=0).objective, 3)
    1.0
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Lift,)
    keeps_last: ClassVar[bool] = True

    tol: float = hyper(1e-7, real(0), "relative improvement of the bound that counts")
    evaluations: int = hyper(40, integer(1), "evaluations a step")
    start: float = hyper(0.05, real(0, open_low=True), "first alpha, times |R|_F / m")
    shrink: float = hyper(0.7, real(0, 1, open_low=True), "factor of alpha from step to step")
    floor: float = hyper(1e-8, real(0, open_low=True), "smallest alpha, times |R|_F / m")
    cuts_per_node: float = hyper(6.0, real(0), "cuts added a step, times the number of nodes")
    odd_per_node: float = hyper(3.0, real(0), "cuts of odd sets added, in the same way")
    patience: int = hyper(4, integer(1), "steps without improvement after which it stops")
    anchored: bool = hyper(False, flag(), "keep alpha, and begin each step at the last X")
    target: float | None = hyper(None, optional(real()), "a lower bound at which it stops at once")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift = f.offer(Lift)
        if isinstance(init, _Dual):
            return self._progress(lift, init)
        require_room(lift, "RegularizedDual", 60 if lift.bounded else 20, 5e-7 * lift.m**3,
                     "use relax('sdp') with LowRank for two clusters, or relax('eig').")
        given = init.duals if isinstance(init, Proved) else init
        duals = dict(given) if isinstance(given, dict) else {}
        X = np.eye(lift.m) * lift.top
        alpha = self.start * _unit(lift)
        space = DualSpace(lift, lift.clean(duals)[1])
        state = _Dual(space, space.pack(duals), alpha, X)
        if not duals:
            state.z[space.slices[0]] = largest_eigenvalue(lift.R)
        if self._late(lift, EVALUATION) and duals:
            self._price(state)
        elif self._late(lift, EVALUATION):
            self._keep(state, state.z, float(space.linear @ state.z))  # C has no eigenvalue above 0
        else:
            self._evaluate(state, state.z)
        if self.anchored:
            state.anchor = state.X
        state.nearest = state.X
        return self._progress(lift, state)

    def goes_on(self, kind: str) -> bool:
        return kind in ("sdp", "sdp+cuts", "partition", "partition+cuts")

    def closing(self, state: _Dual) -> float:
        """What a step takes at the least."""
        return EVALUATION * float(state.space.lift.m) ** 3

    def step(self, f: Any, state: _Dual, rng: np.random.Generator) -> Progress:
        lift, space, state.end = f.offer(Lift), state.space, None
        before = state.upper
        self._descend(state)
        if state.anchor is None:
            if not self._late(lift, LOOK):
                self._book(lift, state)
            elif state.off == math.inf:
                state.nearest = state.X
        else:
            self._price(state)
            state.anchor = state.nearest = state.X
        least = self.floor * _unit(lift)
        small = state.alpha <= least if state.anchor is None else \
            not lift.cuts or state.least <= LEAST_VIOLATION
        gain = lift.scale * (before - state.upper)
        worth = self.tol * abs(lift.base - lift.scale * state.upper)
        added = self._recut(lift, state) if lift.cuts and not self._late(lift, SEARCH) else 0
        slowly = added > lift.m or state.raised
        shrink = math.sqrt(self.shrink) if slowly else self.shrink
        alpha = max(least, state.alpha * shrink) if state.anchor is None else state.alpha
        if added or len(state.space.cuts) != len(space.cuts) or state.anchor is not None:
            state.pairs = []  # of other variables, or of another function
        state.idle = state.idle + 1 if small and gain <= worth else 0
        if self._reached(lift, state):
            state.end = Status.CONVERGED
        elif state.idle >= self.patience:
            alpha = self._settle(lift, state, alpha)
        state.pairs = [(s, y * (state.alpha / alpha)) for s, y in state.pairs]
        state.alpha = alpha
        return self._progress(lift, state, added)

    def outcome(self, f: Any, state: _Dual) -> Status | None:
        return state.end

    # ------------------------------------------------------------ pieces

    def _evaluate(self, state: _Dual, z: Floats) -> tuple[float, Floats]:
        """The smoothed dual and its gradient; the best bound is booked on the way."""
        space, lift, alpha = state.space, state.space.lift, state.alpha
        C = self._matrix(space, z)
        if state.anchor is not None:
            C += alpha * state.anchor
        coarse = alpha >= COARSE * _unit(lift)
        w, V = positive_part(C, state.rank, coarse)
        state.rank = len(w)
        V = V * np.sqrt(w / alpha).astype(V.dtype)
        state.X = np.asarray(V @ V.T, dtype=np.float64)
        linear = float(space.linear @ z)
        if state.anchor is None:
            self._keep(state, z, linear + lift.trace * float(w.max(initial=0.0)))
        smooth = linear + float(w @ w) / (2 * alpha) + alpha * lift.norm**2 / 2
        return smooth, space.linear - space.rows_of(state.X)

    @staticmethod
    def _matrix(space: DualSpace, z: Floats) -> Floats:
        """C, or the part of it that counts."""
        C = -space.slack(z)
        return orthogonal(C, space.lift.b) if space.lift.flat else C

    @staticmethod
    def _keep(state: _Dual, z: Floats, upper: float) -> None:
        """Keep the vector whose bound is best."""
        if upper < state.upper:
            state.upper, state.best, state.best_space = upper, z.copy(), state.space

    def _price(self, state: _Dual) -> None:
        """The bound at the vector, of which an anchored step knows nothing."""
        space = state.space
        top = largest_eigenvalue(self._matrix(space, state.z))
        self._keep(state, state.z, float(space.linear @ state.z) + space.lift.trace * max(0.0, top))

    def _descend(self, state: _Dual) -> None:
        """Projected L-BFGS; ``pairs`` are kept from one step to the next."""
        space, z, lift = state.space, state.z, state.space.lift
        f, g = self._evaluate(state, z)
        X, evaluations, pairs = state.X, 1, state.pairs
        while evaluations < self.evaluations and not self._late(lift, EVALUATION):
            free = ~((z <= space.low) & (g > 0) | (z >= space.high) & (g < 0))
            d = -_newton_direction(pairs, np.where(free, g, 0.0), free, state.alpha)
            if float(d @ g) >= 0.0:
                pairs.clear()
                d = np.where(free, -state.alpha * g, 0.0)
            length, low, high = 1.0, 0.0, math.inf
            while True:  # weak Wolfe conditions, by doubling and halving
                new = np.clip(z + length * d, space.low, space.high)
                f_new, g_new = self._evaluate(state, new)
                evaluations += 1
                falls = f_new <= f + 1e-4 * float(g @ (new - z))
                if not falls:
                    high = length
                elif float(g_new @ d) < 0.9 * float(g @ d):
                    low = length
                else:
                    break
                if evaluations >= self.evaluations or self._late(lift, EVALUATION):
                    break
                length = 3.0 * low if high == math.inf else 0.5 * (low + high)
            if not falls:
                break
            s, y = new - z, g_new - g
            if float(s @ y) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                pairs.append((s, y))
                del pairs[:-MEMORY]
            z, f, g, X = new, f_new, g_new, state.X
            if self._late(lift, EVALUATION) or self._reached(lift, state) or not s.any():
                break
        state.z, state.X = z, X  # not those of a trial that was turned down

    def _book(self, lift: Lift, state: _Dual) -> None:
        """Keep X if it is nearer to an optimum than those before: by violation and objective.

        At small alpha rounding and few evaluations leave X far from feasible, step by step anew.
        """
        dual, value = lift.base - lift.scale * state.upper, lift.objective(state.X)
        off = abs(value - dual) / max(abs(value), abs(dual), 1e-300)
        if off < state.off:  # or the violation is of no interest
            violation = lift.violation(state.X)
            if lift.cuts:
                violation = max(violation, violated_cuts.worst(lift, state.X))
            off = max(off, violation / (lift.top - lift.floor))
        if off < state.off:
            state.nearest, state.off = state.X, off

    def _settle(self, lift: Lift, state: _Dual, alpha: float) -> float:
        """The bound rises no more: the end, or where X is far from feasible a larger alpha."""
        if state.anchor is not None:
            state.off = math.inf
            self._book(lift, state)
        if state.off <= NEAR:
            state.end = Status.CONVERGED
        elif state.raised >= RAISES:
            state.end = Status.ITERATION_LIMIT
        else:
            state.raised, state.idle = state.raised + 1, 0
            state.pairs = []  # of a worse conditioned function
            return alpha * (RAISE if state.anchor is None else self.shrink)
        return alpha

    @staticmethod
    def _late(lift: Lift, rate: float) -> bool:
        """Whether what has no parts would end after the deadline."""
        return ends_late(rate * lift.m**3)

    def _reached(self, lift: Lift, state: _Dual) -> bool:
        return self.target is not None and lift.base - lift.scale * state.upper >= self.target

    def _violated(self, lift: Lift, X: Floats, least: float = 0.02) -> Cuts:
        most = max(10, int(self.cuts_per_node * lift.m))
        found = violated_cuts.violated(lift, X, most, least=least * lift.top)
        if not lift.odd:
            return found
        sets = violated_cuts.odd_sets(lift, X, int(self.odd_per_node * lift.m), 2.0 * least)
        return dataclasses.replace(found, odd=sets)

    def _recut(self, lift: Lift, state: _Dual) -> int:
        """Drop cuts whose multiplier is 0, add violated ones; the number of cuts added."""
        space = state.space
        duals = space.unpack(state.z)
        keep = duals["g"] > 1e-8 * max(float(duals["g"].max(initial=0.0)), 1e-300)
        old = space.cuts.take(keep)
        cuts = old.join(self._violated(lift, state.X, state.least))
        if len(cuts) - len(old) < lift.m:
            state.least = max(LEAST_VIOLATION, state.least / 2)
        duals.update(g=old.carry(duals["g"][keep], cuts), **cuts.by_name)
        state.space = DualSpace(lift, cuts)
        state.z = state.space.pack(duals)
        return len(cuts) - len(old)

    def _progress(self, lift: Lift, state: _Dual, added: int = 0) -> Progress:
        duals = state.best_space.unpack(state.best)
        dual = lift.base - lift.scale * state.upper
        return Progress(state, state.nearest, lift.objective(state.nearest), lower_bound=dual,
                        extras={"dual": dual, "alpha": state.alpha, "added": float(added),
                                "cuts": float(len(state.space.cuts))}, duals=duals)


def _unit(lift: Lift) -> float:
    """What alpha is measured in; 1 where R is 0."""
    return float(np.linalg.norm(lift.R)) / lift.m or 1.0


def _newton_direction(pairs: list[tuple[Floats, Floats]], g: Floats, free: Any,
                      scale: float) -> Floats:
    """The inverse Hessian of the stored pairs, restricted to free variables, times g.

    The two loops of L-BFGS as two triangular systems in the products of the pairs.
    """
    if not pairs:
        return scale * g
    S, Y = (np.array(vectors) for vectors in zip(*pairs, strict=True))
    S *= free  # in place: of many samples these are gigabytes
    Y *= free
    products = S @ Y.T
    lengths = np.sqrt(np.einsum("ij,ij->i", S, S) * np.einsum("ij,ij->i", Y, Y))
    kept = products.diagonal() > 1e-10 * lengths
    if not kept.any():
        return scale * g
    if not kept.all():
        S, Y, products = S[kept], Y[kept], products[np.ix_(kept, kept)]
    sy, upper = products.diagonal(), np.triu(products)
    a, _ = dtrtrs(upper, S @ g)
    q = float(sy[-1] / (Y[-1] @ Y[-1])) * (g - a @ Y)
    c, _ = dtrtrs(upper, sy * a - Y @ q, trans=1)
    return np.asarray(q + c @ S, dtype=np.float64)
