"""Mixtures of labelings in the place of labels, for a hinge problem of two classes."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.capabilities import Capability
from mmcopt.checks import require_memory
from mmcopt.types import Floats

SWEEPS, STILL = 2000, 1e-18  # of the mixing method: at most, and the movement at which it ends
GAP, STEPS = 1e-9, 100  # of the path: the relative gap at which it ends, and its steps at most
TINY = 1e-14  # on a diagonal of ones, so that rounding leaves it positive


@dataclass(frozen=True, eq=False)
class LabelHull(Capability):
    """`JointLift` with M in the convex hull of all yy' for Y, y of signs; no balance.

    Minimise over M the maximum of ``mean a - a'(Q o M)a`` over 0 <= a <= 1: over finitely many
    labelings y_t with ``M = sum_t mu_t y_t y_t'`` that is the choice of a convex combination of
    kernels Q o y_t y_t'. A set that lacks some labelings gives an *upper* estimate of the minimum.
    Whether it lacks one, ``max_y (a o y)'Q(a o y)``, is a max-cut problem; so a bound is that of
    `JointLift` for the same a, where Y psd of diagonal 1 replaces M.
    """

    joint: JointLift

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.joint.n

    @functools.cached_property
    def Q(self) -> Floats:
        """The kernel of the dual."""
        return self.joint.kernel(0.0)

    def squares(self, a: Floats, signs: Floats) -> Floats:
        """(a o y)'Q(a o y) for the rows y of ``signs``."""
        V = a * signs
        return np.asarray(np.einsum("ij,ij->i", V @ self.Q, V))

    def machine(self, M: Floats) -> float:
        """The maximum over a for given M; that of yy' is the least objective of labels y."""
        return mixture((self.Q * M)[None])[0]

    def mixture(self, signs: Floats) -> tuple[Floats, Floats]:
        """The a of the best mixture of labelings, the rows of ``signs``, and their weights mu."""
        n, t = self.n, len(signs)
        require_memory(8.0 * 2 * t * n * n, f"{t} labelings of {n} samples", "use fewer samples.")
        return mixture(self.Q * signs[:, :, None] * signs[:, None, :])[1:]

    def duals(self, a: Floats) -> dict[str, Any]:
        """The dual point along a that proves most: the best u, by the mixing method, and length.

        For u of ``min e'u``, Diag(u) - Q o aa' psd, a multiple m proves ``m mean a - m^2 e'u``.
        """
        from mmcopt.compiled.row_sweep import sweep

        n, a = self.n, np.clip(a, 0.0, 1.0)
        R = self.Q * np.outer(a, a)
        V = np.random.default_rng(0).standard_normal((n, math.ceil(math.sqrt(2 * n)) + 1))
        V /= np.linalg.norm(V, axis=1)[:, None]
        u, zero, s = np.zeros(n), np.zeros(n), np.zeros(V.shape[1])
        for _ in range(SWEEPS):
            if sweep(R, zero, 0.0, 1.0, V, s, u) <= STILL:
                break
        total = float(u.sum())
        m = min(float(a.mean()) / (2.0 * total), 1.0 / float(a.max())) if total > 0.0 else 1.0
        return {"a": m * a, "u": m * m * u}

    def lower(self, duals: dict[str, Any]) -> float:
        """A lower bound, proved, for any duals whatever; never below 0."""
        return self.joint.lower({name: duals[name] for name in ("a", "u") if name in duals})


# ---------------------------------------------------------------- the best mixture of squares


def mixture(H: Floats) -> tuple[float, Floats, Floats]:
    """The least maximum over 0 <= a <= 1 of ``mean a - a'(sum_t mu_t H_t)a``, the a, and mu.

    The H_t are psd, (t, n, n); a has the largest ``mean a - s``, s the maximum of a'H_t a, and mu
    are the multipliers of that, by a primal-dual path. The value is that of mu, and never too
    small: by concavity a bounds it.
    """
    t, n = H.shape[:2]
    a = np.full(n, 0.5) * min(1.0, 0.5 / max(float(H.sum(axis=(1, 2)).max()), 1e-300))
    weight = float(a[0]) / n
    squares = H @ a @ a
    s = float(squares.max()) + t * weight
    path = _Path(a, 1.0 - a, s, s - squares, weight / a, weight / (1.0 - a), np.full(t, 1.0 / t))
    best = math.inf, a, path.z
    for _ in range(STEPS):
        mu = path.z / path.z.sum()
        Ha = np.tensordot(mu, H, 1) @ path.a
        value = float(path.a @ Ha) + float(np.maximum(1.0 / n - 2.0 * Ha, 0.0).sum())
        if value < best[0]:
            best = value, path.a, mu
        if value - float(path.a.mean()) + float((H @ path.a @ path.a).max()) <= GAP * value:
            break
        path.move(H)
    return best


@dataclass
class _Path:
    """a, b = 1 - a, s, the room below it, and multipliers of a, b, room >= 0: low, high and z."""

    a: Floats
    b: Floats
    s: float
    room: Floats
    low: Floats
    high: Floats
    z: Floats
    aim: float = 0.1

    def move(self, H: Floats) -> None:
        """A step of Newton towards the path, s eliminated, as far as all stays positive."""
        from scipy.linalg import cho_factor, cho_solve

        a, b, room, n = self.a, self.b, self.room, len(self.a)
        gap = float(self.z @ room + self.low @ a + self.high @ b)
        weight = self.aim * gap / (2 * n + len(room))
        G = 2.0 * (H @ a)
        off = self.s - 0.5 * (G @ a) - room
        d = self.z / room
        h = weight / room - d * off
        mean = d @ G / d.sum()
        spread = np.sqrt(d)[:, None] * (G - mean)
        B = 2.0 * np.tensordot(self.z, H, 1) + spread.T @ spread
        B[np.arange(n), np.arange(n)] += self.low / a + self.high / b
        last = 1.0 - float(h.sum())
        right = 1.0 / n + weight / a - weight / b - h @ G - last * mean
        scale = 1.0 / np.sqrt(np.diagonal(B))
        B = B * np.outer(scale, scale) + TINY * np.eye(n)
        da = scale * cho_solve(cho_factor(B), scale * right)
        ds = float(mean @ da) - last / float(d.sum())
        steps = {"a": da, "b": -da, "room": ds - G @ da + off,
                 "low": (weight - self.low * da) / a - self.low,
                 "high": (weight + self.high * da) / b - self.high,
                 "z": d * (G @ da - ds) + h - self.z}
        length = min(_length(getattr(self, name), step) for name, step in steps.items())
        for name, step in steps.items():
            setattr(self, name, getattr(self, name) + length * step)
        self.s += length * ds
        self.aim = 0.05 if length > 0.9 else 0.2 if length > 0.5 else 0.5


def _length(x: Floats, step: Floats) -> float:
    """The share of a step that leaves x positive, at most 1."""
    falling = step < 0.0
    return min(1.0, 0.99 * float((-x[falling] / step[falling]).min())) if falling.any() else 1.0
