"""The lifted hinge problem: its arrays, and the bound that any dual point proves."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import Capability, LiftedMargin
from mmcopt.checks import require_memory
from mmcopt.errors import BackendError
from mmcopt.kernels.features import Features
from mmcopt.linalg import UNIT, largest_eigenvalue, proved_psd_shift
from mmcopt.types import Floats

BLOCK = 1000  # rows of sparse features that are dense at a time
THIN = 1e-9  # of the largest eigenvalue of K, up to which points over samples leave one out
FLAT = 1e-9  # length of the sum of all features, relative to the sum of theirs, that counts as 0


@dataclass(frozen=True, eq=False)
class MarginLift(Capability):
    """Minimise ``c tr W + 1/n sum_i (1 - sqrt(x_i'Wx_i))_+`` over psd W with ``s'Ws <= square``.

    Rows x_i of the features, s their sum. As (1 - sqrt v)_+ is convex in v and psi(g), its minimum
    plus g v over v >= 0, is g for g <= 1/2 and 1 - 1/(4g) above, the dual is to maximise
    ``1/n sum_i psi(g_i) - square t`` over g, t >= 0 with ``c I + t ss' - 1/n sum_i g_i x_i x_i'``
    psd. Psi never falls, so the best multiple of any g is the largest that is allowed; hence every
    g and t prove a bound.

    A point P is W for d <= n features; beyond, W = X'PX, so that all sizes are min(n, d).
    """

    features: Features
    c: float
    square: float = math.inf

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.features.n)

    @property
    def wide(self) -> bool:
        """Whether there are more features than samples, so that points are over samples."""
        return bool(self.features.d > self.features.n)

    # ------------------------------------------------------------ arrays

    @functools.cached_property
    def X(self) -> Floats:
        """The features, dense."""
        return self.features.dense()

    @functools.cached_property
    def K(self) -> Floats:
        """The inner products of all features; sparse ones are dense in blocks alone."""
        n, d = self.n, self.features.d
        require_memory(8.0 * (4 * n * n + 2 * min(n, BLOCK) * d), f"a lift of {n} samples with "
                       f"{d} features", "use fewer samples or features.")
        if not self.features.sparse:
            return np.asarray(self.X @ self.X.T)
        parts = [slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]
        K = np.empty((n, n))
        for a in parts:
            A = self._rows(a)
            for b in parts:
                K[a, b] = A @ (A if a == b else self._rows(b)).T
        return (K + K.T) / 2

    def _rows(self, rows: slice) -> Floats:
        return self.features.sums(np.eye(rows.stop - rows.start), rows)

    @property
    def far(self) -> float:
        """A weight for a balance of 0, whose best one is infinite.

        In units of c over the square of all features, what a finite one loses falls with it, and
        what rounding takes grows: they are alike at the root of what one rounding is to all.
        """
        units = math.sqrt(1.0 / (4 * (self.n + self.features.d) * UNIT))
        return units * self.c / max(float(self.total @ self.total), 1e-300)

    @functools.cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Square roots of the eigenvalues of K that count, and their vectors."""
        w, V = np.linalg.eigh(self.K)
        keep = w > THIN * max(float(w[-1]), 1e-300)
        return np.sqrt(w[keep]), V[:, keep]

    @functools.cached_property
    def root(self) -> Floats:
        """Rows whose inner products are K: the features, or for many of them V w^1/2."""
        if not self.wide:
            return self.X
        root, V = self._spectrum
        return np.asarray(V * root)

    @functools.cached_property
    def base(self) -> Floats:
        """Rows f_i with x_i'Wx_i = f_i'Pf_i: those of the features, or of K."""
        return self.K if self.wide else self.X

    @functools.cached_property
    def total(self) -> Floats:
        """The sum of the rows of `root`."""
        return np.asarray(self.root.sum(axis=0))

    @property
    def level(self) -> bool:
        """Whether the balance is 0, so that psd matrices within it have no interior."""
        return self.balanced and self.square == 0.0

    @functools.cached_property
    def balanced(self) -> bool:
        """Whether the balance says something: a limit, and features that do not sum to 0."""
        if math.isinf(self.square):
            return False
        length = float(np.linalg.norm(self.total))
        return length > FLAT * float(np.linalg.norm(self.root, axis=1).sum())

    # ------------------------------------------------------------ points

    def objective(self, P: Floats) -> float:
        """The objective at a point."""
        trace = float(np.sum(self.K * P)) if self.wide else float(np.trace(P))
        loss = np.maximum(1.0 - np.sqrt(np.maximum(self.squares(P), 0.0)), 0.0)
        return float(self.c * trace + loss.mean())

    def squares(self, P: Floats) -> Floats:
        """x_i'Wx_i of all samples."""
        return np.einsum("ij,ij->i", self.base @ P, self.base)

    def violation(self, P: Floats) -> float:
        """The negative part of the spectrum, and what s'Ws is above its limit, relatively."""
        low = -float(np.linalg.eigvalsh(P)[0]) / max(1.0, float(np.abs(P).max()))
        total = self.base.sum(axis=0)
        over = (float(total @ P @ total) - self.square) / self.n**2 if self.balanced else 0.0
        return max(0.0, low, over)

    def stretched(self, P: Floats) -> Floats:
        """The best multiple of a psd point, within the balance."""
        trace = self.c * (float(np.sum(self.K * P)) if self.wide else float(np.trace(P)))
        margin = np.sort(np.sqrt(np.maximum(self.squares(P), 0.0)))[::-1]
        # trace a^2 + mean of (1 - a margin)_+ is convex in a. The largest margin leaves the loss
        # first, at its kink; between kinks the slope is 2 trace a - left.
        kinks = 1.0 / np.maximum(margin, 1e-300)
        left = np.cumsum(margin[::-1])[::-1] / self.n
        down = 2.0 * trace * kinks >= left  # the slope has changed sign when the kink is reached
        j = int(np.argmax(down)) if down.any() else self.n - 1
        best = min(max(left[j] / max(2.0 * trace, 1e-300), kinks[j - 1] if j else 0.0), kinks[j])
        if self.balanced:
            total = self.base.sum(axis=0)
            over = float(total @ P @ total)
            if over > 1e-14 * float(margin.sum()) ** 2:  # which it is at most
                best = min(best, math.sqrt(self.square / over))
        return np.asarray(best**2 * P)

    def vectors(self, P: Floats) -> Floats:
        """Rows whose inner products are those of XWX', by falling length of the columns."""
        w, V = np.linalg.eigh(P)
        V = (self.base @ V) * np.sqrt(np.maximum(w, 0.0))
        return np.asarray(V[:, np.argsort(-np.square(V).sum(axis=0), kind="stable")])

    def from_root(self, W: Floats) -> Floats:
        """The point of a matrix over the columns of `root`."""
        if not self.wide:
            return W
        root, V = self._spectrum
        U = V / root
        return np.asarray(U @ W @ U.T)

    def lifted(self, W: Floats) -> Floats:
        """The point of weights (k, d): k / (k - 1) times the sum of their squares, centred."""
        k = len(W)
        D = W - W.mean(axis=0)
        if self.wide:  # the part of W in the span of the features
            root, V = self._spectrum
            D = (self.features.scores(D).T @ V / root**2) @ V.T
        return np.asarray(k / (k - 1) * (D.T @ D))

    # ------------------------------------------------------------ the bound

    def lower(self, duals: dict[str, Any]) -> float:
        """A lower bound, proved, for any duals g and t whatever; never below 0."""
        multiple, g, t = self.multiple(duals)
        gain = math.fsum(psi(multiple * g)) / self.n
        price = self.square * t if t else 0.0
        return max(0.0, gain - price - 16 * UNIT * (gain + price))

    def multiple(self, duals: dict[str, Any]) -> tuple[float, Floats, float]:
        """A multiple of g that with t is proved to be dual, for the g, t >= 0 of any duals."""
        g = np.asarray(duals.get("g", np.zeros(self.n)), dtype=np.float64)
        if g.shape != (self.n,):
            raise ValueError(f"the dual g must have shape ({self.n},), got {g.shape}")
        g = np.maximum(np.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0), 0.0)
        t = float(duals.get("t", 0.0))
        t = t if self.balanced and math.isfinite(t) and t > 0.0 else 0.0
        if not g.any():
            return 0.0, g, 0.0
        g = g / g.max()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._multiple_wide(g, t) if self.wide else self._multiple(g, t)
        except (BackendError, np.linalg.LinAlgError, ValueError):
            return 0.0, g, 0.0
        return (found, g, t) if math.isfinite(found) and found > 0.0 else (0.0, g, 0.0)

    def _multiple(self, g: Floats, t: float) -> float:
        """A multiple m of g for which ``c I + t ss' - m/n sum_i g_i x_i x_i'`` is proved psd."""
        X, (n, d) = self.X, self.X.shape
        A = X.T @ (g[:, None] * X) / n
        A = (A + A.T) / 2
        s = X.sum(axis=0)
        unit = s / max(float(np.linalg.norm(s)), 1e-300)
        shrink = 1.0 - 1.0 / math.sqrt(1.0 + t * float(s @ s) / self.c)
        R = np.eye(d) - shrink * np.outer(unit, unit)
        top = largest_eigenvalue(R @ A @ R) / self.c
        if not top > 0.0:
            return 0.0
        m = 1.0 / top
        S = self.c * np.eye(d) + t * np.outer(s, s) - m * A
        shift = proved_psd_shift(S, 0.0)
        # Rounding of A and s: relative to sums of absolute values, whose norms are below traces.
        sums = float(np.square(np.abs(X).sum(axis=0)).sum())
        shift += 4 * (n + d + 8) * UNIT * (m * float(np.trace(A)) + t * sums + self.c)
        # S + shift psd, times c / (c + shift), leaves the weight of ss' below t.
        return m * self.c / (self.c + shift) * (1.0 - 8 * UNIT)

    def _multiple_wide(self, g: Floats, t: float) -> float:
        """The same by ``(c I + t ss')^-1``, over samples."""
        K, n, d = self.K, self.n, self.features.d
        k = K.sum(axis=1)
        tau = t / (self.c + t * max(float(k.sum()), 0.0))
        D = np.sqrt(g)
        M = (K - tau * np.outer(k, k)) * np.outer(D, D) / n
        M = (M + M.T) / 2
        top = max(largest_eigenvalue(M), 0.0)
        top += proved_psd_shift(top * np.eye(n) - M, 0.0)
        lengths = np.sqrt(np.maximum(np.diagonal(K), 0.0))
        mass = float(g @ lengths**2) / n  # bounds the norm of the absolute values
        top += 8 * (n + d + 8) * UNIT * (top + mass * (1.0 + tau * float(lengths.sum())**2))
        return self.c / top * (1.0 - 8 * UNIT) if top > 0.0 else 0.0


def margin_lift(problem: LiftedMargin) -> MarginLift:
    """The lift of a hinge problem; see `LiftedMargin` for why it is one."""
    k = problem.k
    square = math.inf if problem.limit is None else problem.limit**2 * (k * k // 4) / (k - 1)
    return MarginLift(problem.features, problem.beta * (k - 1) / (2 * k), square)


def psi(g: Floats) -> Floats:
    """The minimum over v >= 0 of (1 - sqrt v)_+ + g v."""
    return np.where(g <= 0.5, g, 1.0 - 0.25 / np.maximum(g, 0.5))
