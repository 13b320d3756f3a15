"""The augmented Lagrangian of a lifted program as a function of a factor of X, and its prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mmcopt.bounds.label_lift import Cuts, Duals, Lift, orthogonal
from mmcopt.types import Floats

LOWEST = 8  # eigenvalues of S that are computed


@dataclass
class Prices:
    """Multipliers of all rows but the diagonal.

    Those of the balance from above and below, of row sums, of entries (equations for pairs, then
    cuts), and N of the floor, or None.
    """

    ends: Floats
    up: Floats
    down: Floats
    entries: Floats
    N: Any


@dataclass
class Priced:
    """What the Lagrangian is at a factor: value, slope, new prices, u, and C = R - A*(prices)."""

    value: float
    slope: Floats
    prices: Prices
    u: Floats
    C: Floats


@dataclass
class FactorLagrangian:
    """``-<R, VV'>`` plus penalties of the rows of a program that VV' breaks.

    V has rows of length sqrt(top). A row ``a(X) <= r`` of price p and weight s counts
    ``max(0, p + s (a(X) - r))^2 / 2s``, and the maximum is its next price. Weights are ``weight``
    over the squared norm of the row. At a minimum ``S = Diag(u) - C`` annihilates V, where u
    follows from V; if no eigenvalue of S is negative, u and the next prices bound the function.
    R, and with it values and prices, are in units of ``unit``, so that float32 can hold them.
    """

    lift: Lift
    weight: float
    dtype: Any
    cuts: Cuts = field(default_factory=Cuts)
    unit: float = 1.0

    def __post_init__(self) -> None:
        self.R = (self.lift.R / self.unit).astype(self.dtype)
        self.b = self.lift.b.astype(self.dtype)
        self.norm = float(self.lift.b @ self.lift.b) or 1.0
        self.adopt(self.cuts)

    def adopt(self, cuts: Cuts) -> None:
        """Take these cuts in the place of others."""
        lift, self.cuts = self.lift, cuts
        entries, pairs = lift.entries(cuts), lift.pairs
        self.free = len(pairs)
        sizes = np.concatenate([np.ones(self.free, np.int64),
                                np.bincount(entries.cut, minlength=len(cuts))])
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        i = np.concatenate([pairs[:, 0], entries.i]).astype(np.int64)
        j = np.concatenate([pairs[:, 1], entries.j]).astype(np.int64)
        # Half as long, and read in every evaluation, where m allows.
        short: Any = np.int32 if lift.m**2 <= np.iinfo(np.int32).max else np.int64
        self.places, self.mirrors = (i * lift.m + j).astype(short), (j * lift.m + i).astype(short)
        coef = np.concatenate([np.ones(self.free), entries.coef])
        self.coef = coef.astype(self.dtype)
        self.right = np.concatenate([np.full(self.free, lift.floor),
                                     entries.right]).astype(self.dtype)
        norms = np.add.reduceat(coef**2, self.start[:-1]) / 2 if sizes.size else np.empty(0)
        self.weights = (self.weight / norms).astype(self.dtype)

    def priced(self, duals: Duals) -> Prices:
        """The prices that duals name, whose cuts these are."""
        clean, _ = self.lift.clean(duals)
        t, unit, dtype = clean["t"] / self.unit, self.unit, self.dtype
        entries = (np.concatenate([clean["pairs"], clean["g"]]) / unit).astype(dtype)
        N = (clean["N"] / unit).astype(dtype) if self.lift.bounded else None
        return Prices(np.array([max(t, 0.0), max(-t, 0.0)]), clean["up"] / unit,
                      clean["down"] / unit, entries, N)

    def factor(self, V: Floats) -> Floats:
        """V with rows of the length that the diagonal demands."""
        lengths = np.sqrt(np.einsum("ij,ij->i", V, V))
        scale = np.sqrt(self.lift.top) / np.maximum(lengths, np.finfo(self.dtype).tiny)
        return np.asarray(V * scale.astype(self.dtype)[:, None])

    def at(self, V: Floats, old: Prices) -> Priced:
        """Value, slope, and new prices at a factor."""
        lift, C = self.lift, self.R.copy()
        new = Prices(old.ends, old.up, old.down, np.empty_like(old.entries), None)
        squares = products = 0.0
        if lift.bounded or self.right.size:
            squares, products = self._priced_entries(V @ V.T, old, new, C)
        CV = C @ V
        if lift.rows.size or old.ends.any() or not self._balanced(V):
            more = self._priced_sums(V, old, new, CV)
            squares, products = squares + more[0], products + more[1]
        u = np.einsum("ij,ij->i", CV, V) / self.dtype(lift.top)
        # <C, X> = <R, X> - <prices, a(X)>, and the penalties are (new^2 - old^2) / 2 weight.
        value = -float(np.sum(u, dtype=np.float64)) * lift.top - products + squares
        return Priced(value, 2.0 * (V * u[:, None] - CV), new, u.astype(np.float64), C)

    def _balanced(self, V: Floats) -> bool:
        s = V.T @ self.b
        return self.lift.square_low <= float(s @ s) <= self.lift.square

    def _priced_entries(self, X: Floats, old: Prices, new: Prices,
                        C: Floats) -> tuple[float, float]:
        """Prices of the floor and of entries, which change C; their penalties and products."""
        from mmcopt.compiled.penalties import price_entries, price_floor

        squares = products = 0.0
        if self.lift.bounded:
            new.N, weight = np.empty_like(C), self.dtype(self.weight)
            more = price_floor(X, old.N, self.dtype(self.lift.floor), weight, new.N, C)
            squares, products = more[0] / (2 * self.weight), -more[1]
        if self.right.size:
            products += price_entries(X.reshape(-1), self.start, self.places, self.mirrors,
                                      self.coef, self.right, self.free, old.entries, self.weights,
                                      new.entries, C.reshape(-1))
            squares += float(np.sum(new.entries**2 / self.weights, dtype=np.float64)) / 2
        return squares, products

    def _priced_sums(self, V: Floats, old: Prices, new: Prices, CV: Floats) -> tuple[float, float]:
        """The same for the balance and the row sums, which are not written to C but to CV."""
        lift, s = self.lift, V.T @ self.b
        square = float(s @ s)
        weight = self.weight / self.norm**2
        off = np.array([square - lift.square, lift.square_low - square])
        new.ends = np.maximum(0.0, old.ends + weight * off)
        t = float(new.ends[0] - new.ends[1])
        CV -= self.dtype(t) * np.outer(self.b, s)
        squares, products = float(new.ends @ new.ends) / (2 * weight), t * square
        if lift.rows.size:
            weight = 2.0 * self.weight / self.norm
            Xb = (V @ s)[lift.rows].astype(np.float64)
            new.up = np.maximum(0.0, old.up + weight * (Xb - lift.row_high))
            new.down = np.maximum(0.0, old.down + weight * (lift.row_low - Xb))
            d = np.zeros(lift.m, self.dtype)
            np.add.at(d, lift.rows, new.up - new.down)
            if d.any():
                CV -= (np.outer(d, s) + np.outer(self.b, d @ V)) / 2
            squares += float(new.up @ new.up + new.down @ new.down) / (2 * weight)
            products += float((new.up - new.down) @ Xb)
        return squares, products

    # ------------------------------------------------------------ duals

    def duals(self, here: Priced) -> Duals:
        """The duals by name, in the units of the lift: u and the prices."""
        p, unit = here.prices, self.unit
        g = p.entries.astype(np.float64) * unit
        named = {"u": here.u * unit, "t": np.array(p.ends[0] - p.ends[1]) * unit,
                 "up": p.up * unit, "down": p.down * unit, "pairs": g[:self.free],
                 "g": g[self.free:], **self.cuts.by_name}
        return named if p.N is None else {**named, "N": p.N.astype(np.float64) * unit}

    def lowest(self, here: Priced) -> tuple[Floats, Floats]:
        """The lowest eigenvalues of S and their vectors; of what is orthogonal to b if flat."""
        lift, p = self.lift, here.prices
        S = -here.C
        w = (p.ends[0] - p.ends[1]) * lift.b / 2
        if lift.rows.size:
            w = w + np.bincount(lift.rows, p.up - p.down, lift.m) / 2
        if w.any():
            wb = np.outer(w, lift.b).astype(self.dtype)
            S += wb + wb.T
        S[np.diag_indices(lift.m)] += here.u
        if lift.flat:
            S = orthogonal(S, lift.b).astype(self.dtype)
        last = min(LOWEST, lift.m) - 1
        return eigh(S, subset_by_index=(0, last), driver="evr", check_finite=False,
                    overwrite_a=True)

    def upper(self, here: Priced, lowest: float) -> float:
        """The upper bound on <R, X> that the duals prove, about."""
        duals = self.duals(here)
        linear = self.lift.linear({**duals, "t": float(duals["t"])},
                                  self.right[self.free:].astype(np.float64))
        total = sum(float(np.sum(part, dtype=np.float64)) for part in linear)
        return total + self.lift.trace * max(0.0, -lowest) * self.unit
