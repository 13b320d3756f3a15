"""Splitting for the lifted k-means problem: two projections in turn, with cutting planes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.ratio_lift import NO_CUTS, Duals, RatioLift, violated
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, optional, real, require_memory
from mmcopt.linalg import FEW, leading_pairs
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Proved, Solver
from mmcopt.solving.runs import ends_late
from mmcopt.types import Floats, Ints

SINGLE = 800  # nodes from which eigenvectors are computed in float32; the bound never is
RELAXED = 1.6  # how far beyond the first projection the second one begins
BALANCE = 20  # iterations between two looks at sigma
EVERY = 10  # iterations between two looks at whether they only go straight on
STRAIGHT, FARTHEST = 0.99, 50.0  # cosine of moves that do, and how many are taken at once
GROWTH = 4  # of the eigenvectors that are computed, where those at hand were too few
# Seconds, times the cube of the number of nodes, about: of an iteration and its bound, and of a
# search for cuts.
ITERATION, SEARCH = 3e-10, 4e-10
APART = 1e6  # what holds an entry at 0 that is known to be
LEAST = 1e-3  # violations that are cut off at first, times k and over the volume of all nodes,
LAST = 1e-8  # and at last
NEAR = 1e-3  # residual at which a matrix is said to have converged, where the bound rises no more


@dataclass
class _Split:
    """U >= 0 within the cuts, the multiplier L of U = Y, the last Y, and the best duals.

    All are scaled by `RatioLift.root`, and W by its norm. d, g and N make up L: diag d + sum g A -
    N; d is there where sizes are bounded.
    """

    U: Floats
    L: Floats
    Y: Floats
    N: Floats
    d: Floats
    g: Floats
    cuts: Ints
    norm: float
    least: float
    sigma: float = 1.0
    rank: int = 20
    count: int = 0
    idle: int = 0
    added: int = 0
    residuals: tuple[float, float] = (1.0, 1.0)
    lower: float = -math.inf
    best: Duals = field(default_factory=dict)
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class Splitting(Solver):
    """Solve the Peng-Wei relaxation by projections onto its two halves in turn (ADMM).

    One half are the psd matrices of given trace and row sums with eigenvalues in [0, 1]: the
    projection takes the leading eigenvectors. The other half are the matrices X >= 0 that obey the
    cuts: Hildreth's sweeps come near that projection, one cut at a time, and their multipliers are
    a dual point, whatever is left undone. From it follows a bound, the sum of leading eigenvalues,
    which is computed once a step; the best is kept (`RatioLift.lower` proves it).

    A driver step is ``iterations`` pairs of projections; then cuts without a multiplier are
    dropped and the most violated added. It ends when both halves agree to ``tol`` and no cut is
    violated, or when the bound rises no more. The point is the last matrix of the first half.
    ``init`` may be duals, as those of an earlier run, with or without an X, ``sigma`` and
    ``least`` at which it went on.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> relaxed = mm.formulations.KernelKMeans(X, 2).relax("peng-wei+cuts")
    >>> result = mm.solve(relaxed, "Splitting")
    >>> round(result.lower_bound, 2), round(relaxed.problem.objective(result.labels), 2)
    (152.35, 152.35)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (RatioLift,)
    keeps_last: ClassVar[bool] = True
    promised_gap: ClassVar[float] = 1e-5

    tol: float = hyper(1e-8, real(0), "residual at which both halves are said to agree")
    iterations: int = hyper(25, integer(1), "pairs of projections a step")
    sweeps: int = hyper(3, integer(1), "sweeps over the cuts in a projection")
    cuts_per_node: float = hyper(20.0, real(0), "cuts added a step, times the number of nodes")
    patience: int = hyper(60, integer(1), "steps without improvement after which it stops")
    target: float | None = hyper(None, optional(real()), "a lower bound at which it stops at once")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lift: RatioLift = f.offer(RatioLift)
        if isinstance(init, _Split):
            return self._progress(lift, init)
        n = lift.n
        require_memory(8.0 * 16 * n * n, f"Splitting on {n} nodes",
                       "use the eigenvalue bound, which costs little.")
        given = init.duals if isinstance(init, Proved) else init
        s, zero = _unit(lift), np.zeros((n, n))
        norm = float(np.linalg.norm(_orthogonal(lift.scaled, s))) or 1.0
        least = LEAST * lift.k / float(lift.volumes.sum())
        d = np.zeros(n if lift.sized else 0)
        state = _Split(np.outer(s, s), zero, np.outer(s, s), zero, d, np.zeros(0), NO_CUTS, norm,
                       least)
        if isinstance(given, dict):
            self._resume(lift, state, given)
        self._bound(lift, state)
        return self._progress(lift, state)

    def goes_on(self, kind: str) -> bool:
        return kind in ("peng-wei", "peng-wei+cuts")

    def closing(self, state: _Split) -> float:
        """What a step takes at the least."""
        return ITERATION * float(len(state.U)) ** 3

    def step(self, f: Any, state: _Split, rng: np.random.Generator) -> Progress:
        lift: RatioLift = f.offer(RatioLift)
        scaled = lift.scaled / state.norm
        s, before, state.end = _unit(lift), state.lower, None
        moved: tuple[Floats, Floats] | None = None
        for at in range(self.iterations):
            U, L = state.U, state.L
            self._iterate(lift, state, scaled, s)
            if at % EVERY >= EVERY - 2:  # the last two moves of each few
                now = state.U - U, state.L - L
                if at % EVERY == EVERY - 1 and moved is not None:
                    _extrapolate(state, moved, now)
                moved = now
            if self._late(lift, ITERATION):
                break
        self._bound(lift, state)
        cut = lift.cuts and not self._late(lift, SEARCH)
        state.added = self._recut(lift, state) if cut else 0
        worth = 1e-8 * abs(state.lower)
        state.idle = 0 if state.lower - before > worth else state.idle + 1
        residual = max(state.residuals)
        settled = state.added == 0 and (not lift.cuts or state.least <= self._last(lift))
        if (self.target is not None and state.lower >= self.target) \
                or (residual <= self.tol and settled):
            state.end = Status.CONVERGED
        elif state.idle >= self.patience:
            state.end = Status.CONVERGED if residual <= NEAR else Status.ITERATION_LIMIT
        return self._progress(lift, state)

    def outcome(self, f: Any, state: _Split) -> Status | None:
        return state.end

    # ------------------------------------------------------------ pieces

    @staticmethod
    def _late(lift: RatioLift, rate: float) -> bool:
        """Whether what has no parts would end after the deadline."""
        return ends_late(rate * lift.n**3)

    def _iterate(self, lift: RatioLift, state: _Split, scaled: Floats, s: Floats) -> None:
        """Both projections, and the multiplier of their difference."""
        sigma, U, a = state.sigma, state.U, lift.apart
        Y, state.rank = _leading(U + (scaled - state.L) / sigma, s, lift.k, state.rank)
        V = RELAXED * Y + (1.0 - RELAXED) * U + state.L / sigma
        D = self._within_cuts(lift, state, V)
        new, N = np.maximum(D, 0.0), -sigma * np.minimum(D, 0.0)
        if len(a):
            for i, j in (a.T, a.T[::-1]):
                N[i, j] = -sigma * (D[i, j] + APART)
        state.L = sigma * (V - new)
        size = max(1.0, float(np.linalg.norm(Y)))
        state.residuals = (float(np.linalg.norm(Y - new)) / size,
                           sigma * float(np.linalg.norm(new - U)))
        state.U, state.N, state.Y, state.count = new, N, Y, state.count + 1
        if state.count % BALANCE == 0:
            ratio = state.residuals[0] / max(state.residuals[1], 1e-300)
            if not 0.5 <= ratio <= 2.0:
                state.sigma *= min(2.0, max(0.5, math.sqrt(ratio)))

    def _within_cuts(self, lift: RatioLift, state: _Split, V: Floats) -> Floats:
        """V less what cuts and sizes take off it; entries known to be 0 far below it."""
        D, a = V.copy(), lift.apart
        for i, j in (a.T, a.T[::-1]):
            D[i, j] -= APART
        if len(state.cuts) or lift.sized:
            from mmcopt.compiled.ratio_cuts import mirrored, project, subtract

            g, d = state.g / state.sigma, state.d / state.sigma
            _less(D, d)
            subtract(D, state.cuts, g, lift.root)
            project(D, state.cuts, g, lift.root, d, *_own(lift), self.sweeps)
            mirrored(D)
            state.g, state.d = g * state.sigma, d * state.sigma
        return D

    def _bound(self, lift: RatioLift, state: _Split) -> None:
        """The bound of the multipliers; they are kept when it is the best."""
        from mmcopt.compiled.ratio_cuts import mirrored, subtract

        s, r = _unit(lift), lift.root
        H = lift.scaled / state.norm + state.N
        _less(H, state.d)
        if len(state.cuts):
            subtract(H, state.cuts, state.g, r)
            mirrored(H)
        q = H @ s
        level = float(s @ q)
        w = leading_pairs(_without(_orthogonal(H, s), s), lift.k - 1)[0]
        edge = 0.0
        if lift.sized:
            smallest, largest = _own(lift)
            edge = float(np.maximum(state.d, 0.0) @ largest + np.minimum(state.d, 0.0) @ smallest)
        upper = state.norm * (level + float(w.sum()) + edge)
        lower = lift.base - lift.scale * upper
        if lower > state.lower:
            # With this v, s is an eigenvector of S at the least of these eigenvalues.
            v = (q - 0.5 * (level + w[0]) * s) / (r * math.sqrt(float(lift.volumes.sum())))
            outer = np.outer(r, r)
            duals = {"v": v, "N": state.N / outer}
            if lift.sized:
                duals["d"] = state.d / r**2
            if lift.cuts:
                duals.update(g=state.g.copy(), cuts=state.cuts)
            state.lower = lower
            state.best = {name: state.norm * x if name != "cuts" else x
                          for name, x in duals.items()}

    def _recut(self, lift: RatioLift, state: _Split) -> int:
        """Drop cuts whose multiplier is 0, add violated ones; the number of cuts added."""
        keep = state.g > 1e-9 * max(float(state.g.max(initial=0.0)), 1e-300)
        X = state.Y * np.outer(lift.root, lift.root)
        new = violated(lift, X, max(10, int(self.cuts_per_node * lift.n)), state.least)
        old = state.cuts[keep]
        seen = {row.tobytes() for row in old}
        new = new[[row.tobytes() not in seen for row in new]] if len(new) else new
        if len(new) < lift.n:
            state.least = max(self._last(lift), 0.3 * state.least)
        state.cuts = np.concatenate([old, new])
        state.g = np.concatenate([state.g[keep], np.zeros(len(new))])
        return len(new)

    @staticmethod
    def _last(lift: RatioLift) -> float:
        return LAST * lift.k / float(lift.volumes.sum())

    def _resume(self, lift: RatioLift, state: _Split, duals: Duals) -> None:
        """Begin at the multipliers of a certificate."""
        from mmcopt.compiled.ratio_cuts import mirrored, subtract

        _, N, d, g, cuts = lift.clean(duals)
        state.N = N * np.outer(lift.root, lift.root) / state.norm
        state.L = -state.N
        if lift.sized:
            state.d = d * lift.root**2 / state.norm
            _less(state.L, -state.d)
        if lift.cuts and len(cuts):
            state.g, state.cuts = g / state.norm, cuts
            subtract(state.L, cuts, -state.g, lift.root)
            mirrored(state.L)
        if "X" in duals:
            state.U = np.asarray(duals["X"]) / np.outer(lift.root, lift.root)
            state.Y = state.U.copy()
        state.sigma = float(duals.get("sigma", state.sigma))
        state.least = float(duals.get("least", state.least))

    def _progress(self, lift: RatioLift, state: _Split) -> Progress:
        X = state.Y * np.outer(lift.root, lift.root)
        extras = {"dual": state.lower, "residual": max(state.residuals),
                  "added": float(state.added), "cuts": float(len(state.cuts))}
        return Progress(state, X, lift.objective(X), lower_bound=state.lower, extras=extras,
                        duals=state.best)


def _extrapolate(state: _Split, before: tuple[Floats, Floats],
                 now: tuple[Floats, Floats]) -> None:
    """Go on along the last move, where it is about the one before: as many as are left of them."""
    def product(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> float:
        return state.sigma * float(np.vdot(a[0], b[0])) + float(np.vdot(a[1], b[1])) / state.sigma

    old, new, both = product(before, before), product(now, now), product(before, now)
    if both >= STRAIGHT * math.sqrt(old * new) and both > 0.9 * old > 0.0:
        share = both / old
        steps = min(FARTHEST, share / max(1.0 - share, 1e-9))
        state.U = state.U + steps * now[0]
        state.L = state.L + steps * now[1]


def _own(lift: RatioLift) -> tuple[Floats, Floats]:
    """What bounds the scaled diagonal from below and above."""
    return 1.0 / (lift.most * lift.root**2), 1.0 / (lift.least * lift.root**2)


def _less(D: Floats, d: Floats) -> None:
    """Subtract from the diagonal, where there is something to subtract."""
    if len(d):
        D[np.diag_indices(len(d))] -= d


def _unit(lift: RatioLift) -> Floats:
    """The eigenvector of all feasible matrices, of length 1."""
    s = 1.0 / lift.root
    return np.asarray(s / np.linalg.norm(s))


def _orthogonal(Q: Floats, s: Floats) -> Floats:
    """P Q P with P = I - ss'."""
    q = Q @ s
    p = q - 0.5 * float(s @ q) * s
    out = np.outer(s, p)
    out += out.T
    return np.asarray(Q - out)


def _without(Q: Floats, s: Floats) -> Floats:
    """A matrix that s is an eigenvector of, with that eigenvalue below all others."""
    return Q - (1.0 + float(np.linalg.norm(Q))) * np.outer(s, s)


def _leading(Q: Floats, s: Floats, k: int, rank: int) -> tuple[Floats, int]:
    """The nearest psd matrix of trace k, s at eigenvalue 1 and no eigenvalue above; its rank."""
    n = len(Q)
    Q = _without(_orthogonal(Q, s), s)
    if n >= SINGLE:
        Q = Q.astype(np.float32)
    count = n if n <= FEW else min(n, rank + 10)
    while True:
        w, V = leading_pairs(Q, count)
        share = capped(w.astype(np.float64), k - 1)
        if share[0] <= 0.0 or count == n:
            break
        count = min(n, GROWTH * count)
    kept = share > 0.0
    F = V[:, kept] * np.sqrt(share[kept]).astype(V.dtype)
    return np.asarray(F @ F.T, dtype=np.float64) + np.outer(s, s), int(kept.sum())


def capped(w: Floats, total: int) -> Floats:
    """The nearest numbers to rising w in [0, 1] with a given sum.

    >>> capped(np.array([-1.0, 0.2, 0.4, 3.0]), 2)
    array([0. , 0.4, 0.6, 1. ])
    """
    edges = np.sort(np.concatenate([w, w - 1.0]))
    low, high = 0, len(edges) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if np.clip(w - edges[middle], 0.0, 1.0).sum() >= total:
            low = middle
        else:
            high = middle
    a, b = (float(np.clip(w - edges[at], 0.0, 1.0).sum()) for at in (low, high))
    t = edges[low] + (0.0 if a == b else (a - total) / (a - b) * (edges[high] - edges[low]))
    return np.clip(w - t, 0.0, 1.0)
