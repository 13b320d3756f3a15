"""Cutting planes of the multi-class margin: the cuts, and their linear parts at a point.

With t1 >= t2 the two largest scores of a sample at W, m = t1 - t2 its margin, and a = -l'(m) >= 0,
convexity of the loss gives for any W, with p, r the two largest classes where the cut was made,

    mean loss >= 1/n sum_i l(m_i) + a_i m_i + a_i (t_p + t_r - 2 max_q t_q),

since t_p + t_r - 2 max_q t_q >= -(margin at W); equality holds where the cut was made. The last
term is concave; at an anchor with top classes y, -2 t_y stands for -2 max_q t_q, and the cut
becomes ``slack >= b - <G, W>``: a restriction that holds the anchor, so that over given cuts the
objective never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.features import Features
from mmcopt.margins import MarginLoss

Floats = NDArray[Any]
Ints = NDArray[np.int64]


def top_two(T: Floats) -> tuple[Ints, Ints, Floats]:
    """The two largest classes of each row of scores (n, k), the first of equal ones; t1 - t2."""
    n, k = T.shape
    if k == 2:
        first = (T[:, 1] > T[:, 0]).astype(np.int64)
        return first, 1 - first, np.abs(T[:, 1] - T[:, 0])
    rows = np.arange(n)
    first = T.argmax(axis=1)
    rest = T.copy()
    rest[rows, first] = -np.inf
    second = rest.argmax(axis=1)
    return first, second, T[rows, first] - T[rows, second]


class PairCuts:
    """The cuts above, and their linear parts at the current anchor: ``b`` (J,) and ``G`` (J, k d).

    ``anchor`` moves the anchor and updates the linear parts of all cuts by the samples whose top
    class has changed.
    """

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints) -> None:
        self.features, self.k, self.loss = features, k, loss
        self.top = start.copy()  # the top class of each sample at the anchor
        self.b, self.G = np.empty(0), np.empty((0, k * features.d))
        self._weights = np.empty((0, features.n), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.b)

    def risk(self, T: Floats) -> float:
        """Mean loss at scores T."""
        return float(self.loss.value(top_two(T)[2]).mean())

    def value(self, W: Floats) -> float:
        """The largest cut at W, or 0, linearised at the anchor."""
        return max(0.0, float((self.b - self.G @ W.ravel()).max(initial=0.0)))

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """Duals of a convex problem from the multipliers of its cuts; None of another."""
        return None

    def add(self, T: Floats) -> None:
        """Add the cut that is exact at scores T, the anchor."""
        first, second, margin = top_two(T)
        weight = -self.loss.slope(margin)
        value = float((self.loss.value(margin) + weight * margin).mean())
        coefficients = np.zeros((self.k, len(weight)))
        rows = np.arange(len(weight))
        coefficients[self.top, rows] = 2.0 * weight
        coefficients[first, rows] -= weight
        coefficients[second, rows] -= weight
        self._append(value, coefficients, weight, first, second)

    def _append(self, b: float, coefficients: Floats, weight: Floats, first: Ints,
                second: Ints) -> None:
        """Keep a cut whose linear part has these coefficients of the rows."""
        G = self.features.sums(coefficients).reshape(1, -1) / self.features.n
        self.b, self.G = np.append(self.b, b), np.vstack([self.G, G])
        exact = np.array_equal(weight, weight.astype(np.float32))  # always so of the hinge
        kept: Any = self._weights.dtype if exact else np.float64
        self._weights = np.vstack([self._weights.astype(kept, copy=False),
                                   weight[None].astype(kept)])

    def anchor(self, T: Floats, W: Floats) -> int:
        """Move the anchor to W with scores T; how many samples have another top class."""
        top = T.argmax(axis=1) if self.k > 2 else (T[:, 1] > T[:, 0]).astype(np.int64)
        changed = np.flatnonzero(top != self.top)
        if len(changed) and len(self.b):
            self._relinearise(changed, self.top[changed], top[changed])
        self.top = top
        return len(changed)

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self.b), self.k, self.features.n
        weights = self._weights[:, rows].astype(np.float64)
        change = np.zeros((k, J, len(rows)))
        for q in range(k):
            change[q] = weights * ((new == q).astype(np.float64) - (old == q))
        self.G += 2.0 / n * self._sums(change, rows)

    def _sums(self, change: Floats, rows: Ints) -> Floats:
        """Sums of some rows with weights (k, J, number of rows), as rows of `G`."""
        (k, J, _), d = change.shape, self.features.d
        sums = self.features.sums(change.reshape(k * J, len(rows)), rows).reshape(k, J, d)
        return np.asarray(sums.transpose(1, 0, 2).reshape(J, k * d))


def floored(T: Floats, least: int) -> Ints:
    """The top class of each row of scores, but no class with fewer than ``least`` samples.

    Classes that are short take, the shortest first, the samples whose score falls least by the
    move, from classes that have some to spare: a greedy repair, not always the best labels.
    """
    n, k = T.shape
    y = T.argmax(axis=1)
    count = np.bincount(y, minlength=k)
    if count.min() >= least:
        return y
    rows = np.arange(n)
    for p in np.argsort(count, kind="stable"):
        if count[p] >= least:
            continue
        for i in np.argsort(T[rows, y] - T[:, p], kind="stable"):
            if count[p] >= least:
                break
            if y[i] != p and count[y[i]] > least:
                count[y[i]] -= 1
                count[p] += 1
                y[i] = p
    return y


class LabelCuts(PairCuts):
    """Cuts of the loss of a sample's own class y against the best other one, Crammer and Singer's.

    The labels are those given when ``least`` is None; else they follow the scores, no class below
    ``least`` samples. For a cut made between the classes p and r the part of a sample is
    ``l(m) + a m + a (t_q - t_y)``, q the one of p, r that is not y: valid for any y.
    """

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints,
                 least: int | None) -> None:
        super().__init__(features, k, loss, start)
        self.least = least
        self._pairs = np.empty((2, 0, features.n), dtype=np.int16)

    def _margins(self, T: Floats, y: Ints) -> tuple[Ints, Floats]:
        """The best other class of each sample, and how far its own is above it."""
        rows = np.arange(len(T))
        rest = T.copy()
        rest[rows, y] = -np.inf
        other = rest.argmax(axis=1)
        return other, T[rows, y] - T[rows, other]

    def risk(self, T: Floats) -> float:
        return float(self.loss.value(self._margins(T, self.top)[1]).mean())

    def add(self, T: Floats) -> None:
        other, margin = self._margins(T, self.top)
        weight = -self.loss.slope(margin)
        coefficients = np.zeros((self.k, len(weight)))
        rows = np.arange(len(weight))
        coefficients[self.top, rows] = weight
        coefficients[other, rows] = -weight
        self._append(float((self.loss.value(margin) + weight * margin).mean()), coefficients,
                     weight, self.top, other)
        pair = np.stack([self.top, other]).astype(np.int16)[:, None]
        self._pairs = np.concatenate([self._pairs, pair], axis=1)

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """The weight with which each sample holds its own class above each other one."""
        if self.least is not None:
            return None
        weights, rows = np.zeros((self.features.n, self.k)), np.arange(self.features.n)
        for j in np.flatnonzero(a[:len(self.b)]):
            weights[rows, self._pairs[1, j]] += a[j] * self._weights[j]
        return {"weights": weights, "balance": a[len(self.b):]}

    def anchor(self, T: Floats, W: Floats) -> int:
        if self.least is None:
            return 0
        old, G, before = self.top, self.G.copy(), (self.value(W), self.risk(T))
        top = floored(T, self.least)
        changed = np.flatnonzero(top != old)
        if not len(changed):
            return 0
        self._relinearise(changed, old[changed], top[changed])
        self.top = top
        now = (self.value(W), self.risk(T))
        if now[0] > before[0] + 1e-12 or (not len(self.b) and now[1] > before[1]):
            self.top, self.G = old, G  # the repair is greedy: these labels cost more
            return 0
        return len(changed)

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self.b), self.k, self.features.n
        weights = self._weights[:, rows].astype(np.float64)
        p, r = self._pairs[0][:, rows], self._pairs[1][:, rows]
        change = np.zeros((k, J, len(rows)))
        for y, sign in ((new, 1.0), (old, -1.0)):
            q = np.where(r == y, p, r)
            for c in range(k):
                change[c] += sign * weights * ((y == c) * 1.0 - (q == c))
        self.G += self._sums(change, rows) / n


class PaperCuts(PairCuts):
    """The cuts of CPM3C as printed (eq. 11), with z = [the class is on top] held at the anchor.

    For a sample below margin 1 with second class r the term is ``1 - t_y + t_r``, and 0 once r is
    the top class at the anchor: the indicator jumps, so these are no upper bounds, and the
    objective may rise. Hinge loss only.
    """

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints) -> None:
        super().__init__(features, k, loss, start)
        self._second = np.empty((0, features.n), dtype=np.int64)

    def add(self, T: Floats) -> None:
        _, second, margin = top_two(T)
        weight = (margin < 1.0).astype(np.float64)
        live = weight * (second != self.top)
        coefficients = np.zeros((self.k, len(weight)))
        rows = np.arange(len(weight))
        coefficients[self.top, rows] += live
        coefficients[second, rows] -= live
        self._append(float(live.mean()), coefficients, weight, self.top, second)
        self._second = np.vstack([self._second, second])

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self.b), self.k, self.features.n
        weights, second = self._weights[:, rows].astype(np.float64), self._second[:, rows]
        before, after = weights * (second != old), weights * (second != new)
        change = np.empty((k, J, len(rows)))
        for q in range(k):
            change[q] = after * ((new == q) * 1.0 - (second == q)) \
                - before * ((old == q) * 1.0 - (second == q))
        self.G += self._sums(change, rows) / n
        self.b = self.b + (after - before).sum(axis=1) / n
