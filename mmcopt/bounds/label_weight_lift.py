"""Labels lifted beside the weights of a hinge problem of two classes: arrays and bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.label_lift import Lift
from mmcopt.bounds.weight_lift import MarginLift
from mmcopt.capabilities import Capability
from mmcopt.linalg import UNIT
from mmcopt.types import Floats


@dataclass(frozen=True, eq=False)
class JointLift(Capability):
    """Y psd, diag Y = 1, in the place of yy', y the signs of the scores; ``cuts``: triangles.

    For given y the dual of the machine is ``mean a - sum_ij a_i a_j y_i y_j Q_ij - q t`` with
    0 <= a <= 1, t >= 0, ``Q = X (c I + t ss')^-1 X' / (4n^2)``; the relaxation takes the least of
    its maximum over a and t. So any a, t and any duals of ``max <Q o aa', Y>`` prove a bound.
    """

    margin: MarginLift
    cuts: bool = False

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.margin.n

    def weight(self, duals: dict[str, Any]) -> float:
        """The t of duals, where there is a balance that it prices."""
        t = float(duals.get("t", 0.0))
        return t if self.margin.balanced and math.isfinite(t) and t > 0.0 else 0.0

    def kernel(self, t: float) -> Floats:
        """Q."""
        K, c = self.margin.K, self.margin.c
        if t:
            k = K.sum(axis=1)
            K = K - t / (c + t * max(float(k.sum()), 0.0)) * np.outer(k, k)
        return np.asarray(K / (4.0 * c * self.n**2))

    def fall(self, a: Floats, t: float, Y: Floats) -> float:
        """How fast <Q o aa', Y> falls in t."""
        c, k = self.margin.c, self.margin.K.sum(axis=1)
        ak = a * k
        return float(ak @ Y @ ak) / (4.0 * self.n**2 * (c + t * max(float(k.sum()), 0.0)) ** 2)

    def at(self, a: Floats, t: float) -> Lift:
        """The lift over Y for given a and t."""
        n, none = self.n, np.empty(0)
        R = self.kernel(t) * np.outer(a, a)
        price = self.margin.square * t if t else 0.0
        return Lift(R=(R + R.T) / 2, k=2, top=1.0, floor=-1.0, b=np.ones(n), square=float(n * n),
                    square_low=0.0, base=float(a.mean()) - price, scale=1.0, groups=np.arange(n),
                    signs=np.ones(n), bounded=False, rows=np.empty(0, np.int64), row_low=none,
                    row_high=none, pairs=np.empty((0, 2), np.int64),
                    mass=float(np.abs(R).sum()), cuts=self.cuts)

    def lower(self, duals: dict[str, Any]) -> float:
        """A lower bound, proved, for any duals whatever; never below 0."""
        a, t = shares(duals, self.n), self.weight(duals)
        price = self.margin.square * t if t else 0.0
        rest = {name: value for name, value in duals.items() if name not in ("a", "t")}
        value = float(a.mean()) - price - self.most(a, t, rest)
        value -= UNIT * 24.0 * (1.0 + price)
        return max(0.0, value) if math.isfinite(value) else 0.0

    def most(self, a: Floats, t: float, duals: dict[str, Any]) -> float:
        """An upper bound on <Q o aa', Y>, proved, for any duals of Y whatever."""
        if not self.cuts:
            duals = {"u": duals["u"]} if "u" in duals else {}
        with np.errstate(over="ignore", invalid="ignore"):
            lift = self.at(a, t)
            upper = lift.upper(duals)
            lengths = np.sqrt(np.maximum(np.diagonal(self.margin.K), 0.0))
            tau = t / (self.margin.c + t * max(float(self.margin.K.sum()), 0.0)) if t else 0.0
            # Rounding of Q: relative to sums of absolute values, by Cauchy and Schwarz.
            mass = float(a @ lengths) ** 2 * (1.0 + tau * float(lengths.sum()) ** 2)
            mass *= 4 * (self.n + self.margin.features.d + 16) / (4.0 * self.margin.c * self.n**2)
            mass += 2 * (self.n + 8) * lift.mass + 8 * abs(upper)
            return float(upper + UNIT * mass)

    def machine(self, Y: Floats) -> tuple[float, Floats, float]:
        """The maximum over a and t for given Y, and where it is."""
        from scipy.optimize import minimize_scalar

        if not self.margin.balanced:
            return (*self._box(Y, 0.0), 0.0)
        unit = self.margin.c / float(self.margin.total @ self.margin.total)
        top = minimize_scalar(lambda v: -self._box(Y, unit * math.expm1(v))[0], bounds=(0.0, 12.0),
                              method="bounded", options={"xatol": 1e-6})
        t = unit * math.expm1(float(top.x))
        return (*self._box(Y, t), t)

    def _box(self, Y: Floats, t: float) -> tuple[float, Floats]:
        """The maximum over a alone."""
        value, a = box(self.kernel(t) * Y)
        return value - (self.margin.square * t if t else 0.0), a


def shares(duals: dict[str, Any], n: int) -> Floats:
    """The a of duals, within its bounds."""
    a = np.asarray(duals.get("a", np.zeros(n)), dtype=np.float64)
    if a.shape != (n,):
        raise ValueError(f"the dual a must have shape ({n},), got {a.shape}")
    return np.clip(np.nan_to_num(a), 0.0, 1.0)


def box(H: Floats) -> tuple[float, Floats]:
    """The maximum of ``mean a - a'Ha`` over 0 <= a <= 1, H psd, and where it is.

    By a primal-dual path, as entries of H may differ by many orders: z and w are the multipliers of
    the two bounds, whose difference is the slope all the way.
    """
    from scipy.linalg import cho_factor, cho_solve

    n, H = len(H), H * len(H)
    a = np.full(n, 0.5)
    slope = 2.0 * H @ a - 1.0
    z, w = np.maximum(slope, 0.0) + 0.5, np.maximum(-slope, 0.0) + 0.5
    for _ in range(60):
        gap, low, high = float(z @ a + w @ (1.0 - a)), z / a, w / (1.0 - a)
        if gap <= 1e-11 * max(float(a.sum() - a @ H @ a), 1e-3 * n):
            break
        M = 2.0 * H + np.diag(low + high)
        unit = 1.0 / np.sqrt(np.diagonal(M))
        try:
            factor = cho_factor(M * np.outer(unit, unit))
        except np.linalg.LinAlgError:  # as near as rounding allows
            break
        mu, length, da, dz, dw = 0.0, 0.0, a, z, w
        for _ in range(2):  # where it would go at once, then towards the centre
            da = unit * cho_solve(factor, unit * (1.0 - 2.0 * H @ a + mu / a - mu / (1.0 - a)))
            dz, dw = mu / a - z - low * da, mu / (1.0 - a) - w + high * da
            falls = np.concatenate([-da / a, da / (1.0 - a), -dz / z, -dw / w])
            length = min(1.0, 0.99 / max(float(falls.max()), 1e-300))
            mu = gap / (2 * n) * max(0.01, (1.0 - length) ** 2)
        a = np.clip(a + length * da, 1e-300, 1.0 - UNIT)
        z, w = z + length * dz, w + length * dw
    return float(a.sum() - a @ H @ a) / n, a
