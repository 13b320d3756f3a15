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

from typing import Any, ClassVar

import numpy as np

from mmcopt.kernels.features import Features
from mmcopt.margins.losses import Hinge, MarginLoss
from mmcopt.tolerances import WORSE
from mmcopt.types import Floats, Ints

ROOM = 16  # cuts for which there is room at first


def top_two(T: Floats) -> tuple[Ints, Ints, Floats]:
    """The two largest classes of each row of scores (n, k), the first of equal ones; t1 - t2."""
    from mmcopt.compiled.cutting_planes import leaders

    n = len(T)
    first, second, margin = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
    leaders(np.ascontiguousarray(T, dtype=np.float64), first, second, margin)
    return first, second, margin


def rivals_of(T: Floats, y: Ints) -> tuple[Ints, Floats]:
    """The best other class than y of each row of scores, and how far that of y is above it."""
    from mmcopt.compiled.cutting_planes import rivals

    other, margin = np.empty(len(T), np.int64), np.empty(len(T))
    rivals(np.ascontiguousarray(T), y, other, margin)
    return other, margin


def floored(T: Floats, least: int) -> Ints:
    """The top class of each row of scores, but no class with fewer than ``least`` samples."""
    from mmcopt.compiled.cutting_planes import fill_classes, tops

    T, y = np.ascontiguousarray(T, dtype=np.float64), np.empty(len(T), np.int64)
    tops(T, y)
    fill_classes(T, least, y)
    return y


def balanced(W: Floats, rows: Floats | None, limit: float) -> Floats:
    """The W nearest to one, but where ``|rows W| <= limit``; about, for several rows."""
    if rows is None:
        return W
    sums = rows @ W.ravel()
    most = float(np.abs(sums).max())
    if most <= limit:
        return W
    away = np.linalg.lstsq(rows, sums, rcond=None)[0]
    return np.asarray(W - (1.0 - (1.0 - 1e-9) * limit / most) * away.reshape(W.shape))


class PairCuts:
    """The cuts above, and their linear parts at the current anchor: ``b`` (J,) and ``G`` (J, k d).

    ``anchor`` moves the anchor and updates the linear parts of all cuts by the samples whose top
    class has changed. Where ``compiled``, the masters of a step are one call of `descend`.
    """

    kind: ClassVar[int] = 0  # `cutting_planes.PAIR`; below 0 where there is no compiled loop

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints,
                 known: tuple[Floats, tuple[Ints, Ints, Floats]] | None = None) -> None:
        self.features, self.k, self.loss = features, k, loss
        self.top = start.copy()  # the top class of each sample at the anchor
        self._rows = features.rows if self.kind >= 0 else None
        whole = type(loss) is Hinge  # whose slopes are whole numbers
        self._known = known  # scores, and what `top_two` says of them
        self._count, n = 0, features.n
        self._b, self._G = np.empty(ROOM), np.empty((ROOM, k * features.d))
        self._weights = np.empty((ROOM, n), dtype=np.float32 if whole else np.float64)
        self._pairs = np.empty((0, 2, n), dtype=np.int16)  # where they are kept: first, second

    def __len__(self) -> int:
        return self._count

    @property
    def b(self) -> Floats:
        """What the cuts say at W = 0."""
        return self._b[:self._count]

    @property
    def G(self) -> Floats:
        """Their linear parts at the anchor."""
        return self._G[:self._count]

    @property
    def compiled(self) -> bool:
        """Whether `descend` is there."""
        return self._rows is not None

    @property
    def precision(self) -> Any:
        """The type in which weights of samples are kept."""
        return self._weights.dtype

    def risk(self, T: Floats) -> float:
        """Mean loss at scores T."""
        return float(self.loss.value(self._leading(T)[2]).mean())

    def held_risk(self, T: Floats) -> float:
        """Mean loss at scores T with the labels of the anchor: no less than `risk`."""
        return float(self.loss.value(self._held_margin(T)).mean())

    def _held_margin(self, T: Floats) -> Floats:
        first, _, margin = self._leading(T)
        rows = np.arange(len(T))
        return margin - 2.0 * (T[rows, first] - T[rows, self.top])

    def _leading(self, T: Floats) -> tuple[Ints, Ints, Floats]:
        """`top_two` of scores, kept: a step ends with the scores that the next one begins with."""
        if self._known is None or self._known[0] is not T:
            self._known = (T, top_two(T))
        return self._known[1]

    def value(self, W: Floats) -> float:
        """The largest cut at W, or 0, linearised at the anchor."""
        return max(0.0, float((self.b - self.G @ W.ravel()).max(initial=0.0)))

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """Duals of a convex problem from the multipliers of its cuts; None of another."""
        return None

    def beside(self, a: Floats) -> Any:
        """What a point is made of beside W, for these multipliers: the labels."""
        return self.top

    def add(self, T: Floats, held: bool = False) -> None:
        """Add the cut that is exact at scores T, the anchor.

        With ``held`` the anchor is elsewhere, and its labels stay: the cut is then that of
        `held_risk`, exact at T once it is linearised.
        """
        first, second, margin = self._leading(T)
        margin = self._held_margin(T) if held else margin
        weight = -self.loss.slope(margin)
        self._append(float((self.loss.value(margin) + weight * margin).mean()),
                     self._linear(first, second, weight), weight)

    def _linear(self, first: Ints, second: Ints, weight: Floats) -> Floats:
        """The linear part of a new cut between these classes, (k d)."""
        g = np.empty((self.k, self.features.d))
        if self._rows is not None:
            from mmcopt.compiled.cutting_planes import cut

            cut(self._rows, self.top, first, second, weight, self.kind, g)
            return g.ravel()
        coefficients, rows = np.zeros((self.k, len(weight))), np.arange(len(weight))
        coefficients[self.top, rows] = 2.0 * weight
        coefficients[first, rows] -= weight
        coefficients[second, rows] -= weight
        return np.ravel(self.features.sums(coefficients)) / self.features.n

    def _append(self, b: float, g: Floats, weight: Floats) -> None:
        """Keep a cut of this linear part and these weights of the samples."""
        j = self._count
        if j == len(self._b):
            self._b, self._G, self._weights = (np.concatenate([kept, np.empty_like(kept)])
                                               for kept in (self._b, self._G, self._weights))
        self._b[j], self._G[j], self._weights[j] = b, g, weight
        self._count += 1

    def _remember(self, first: Ints, second: Ints) -> None:
        """Keep the classes between which the last cut was made."""
        j = len(self) - 1
        if j >= len(self._pairs):
            self._pairs = np.concatenate([self._pairs, np.empty((ROOM + j, *self._pairs.shape[1:]),
                                                                dtype=np.int16)])
        self._pairs[j, 0], self._pairs[j, 1] = first, second

    def anchor(self, T: Floats, W: Floats) -> int:
        """Move the anchor to W with scores T; how many samples have another top class."""
        return self.relabel(self._leading(T)[0])

    def relabel(self, top: Ints) -> int:
        """Give the anchor these labels; how many are others."""
        changed = np.flatnonzero(top != self.top)
        if len(changed) and len(self):
            self._relinearise(changed, self.top[changed], top[changed])
        self.top = top.copy()
        return len(changed)

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self), self.k, self.features.n
        weights = self._weights[:J, rows].astype(np.float64)
        change = np.zeros((k, J, len(rows)))
        for q in range(k):
            change[q] = weights * ((new == q).astype(np.float64) - (old == q))
        self._G[:J] += 2.0 / n * self._sums(change, rows)

    def _sums(self, change: Floats, rows: Ints) -> Floats:
        """Sums of some rows with weights (k, J, number of rows), as rows of `G`."""
        (k, J, _), d = change.shape, self.features.d
        sums = self.features.sums(change.reshape(k * J, len(rows)), rows).reshape(k, J, d)
        return np.asarray(sums.transpose(1, 0, 2).reshape(J, k * d))

    def descend(self, beta: float, rows: Floats, limits: Floats, alpha: float, most: int,
                W: Floats, T: Floats, a: Floats) -> tuple[int, int, float]:
        """Solve masters as the compiled `descend` says, with constraints ``rows W <= -limits``."""
        from mmcopt.compiled.cutting_planes import At, CutArrays, descend

        J = len(self)
        self.top = self.top.copy()  # a point may hold the labels so far
        cuts = CutArrays(self.G, self.b, self._weights[:J], self._pairs[:J], self.kind, self._least)
        counts = descend(self._rows, beta, cuts, rows, limits, alpha, most, At(self.top, W, T, a))
        return int(counts[0]), int(counts[1]), float(counts[2])

    @property
    def _least(self) -> int:
        """Samples that a class must have."""
        return 0


class LabelCuts(PairCuts):
    """Cuts of the loss of a sample's own class y against the best other one, Crammer and Singer's.

    The labels are those given when ``least`` is None; else they follow the scores, no class below
    ``least`` samples. For a cut made between the classes p and r the part of a sample is
    ``l(m) + a m + a (t_q - t_y)``, q the one of p, r that is not y: valid for any y.
    """

    kind = 1  # `cutting_planes.LABEL`

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints,
                 least: int | None) -> None:
        super().__init__(features, k, loss, start)
        self.least = least

    @property
    def compiled(self) -> bool:
        return super().compiled and self.least is not None

    @property
    def _least(self) -> int:
        return self.least or 0

    def risk(self, T: Floats) -> float:
        return float(self.loss.value(rivals_of(T, self.top)[1]).mean())

    def held_risk(self, T: Floats) -> float:
        return self.risk(T)

    def add(self, T: Floats, held: bool = False) -> None:
        other, margin = rivals_of(T, self.top)
        weight = -self.loss.slope(margin)
        self._append(float((self.loss.value(margin) + weight * margin).mean()),
                     self._linear(self.top, other, weight), weight)
        self._remember(self.top, other)

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """The weight with which each sample holds its own class above each other one."""
        if self.least is not None:
            return None
        weights, rows = np.zeros((self.features.n, self.k)), np.arange(self.features.n)
        for j in np.flatnonzero(a[:len(self)]):
            weights[rows, self._pairs[j, 1]] += a[j] * self._weights[j]
        return {"weights": weights, "balance": a[len(self):]}

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
        if now[0] > before[0] + WORSE or (not len(self) and now[1] > before[1]):
            self.top, self._G[:len(self)] = old, G  # the repair is greedy: these labels cost more
            return 0
        return len(changed)

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self), self.k, self.features.n
        weights = self._weights[:J, rows].astype(np.float64)
        p, r = self._pairs[:J, 0][:, rows], self._pairs[:J, 1][:, rows]
        change = np.zeros((k, J, len(rows)))
        for y, sign in ((new, 1.0), (old, -1.0)):
            q = np.where(r == y, p, r)
            for c in range(k):
                change[c] += sign * weights * ((y == c) * 1.0 - (q == c))
        self._G[:J] += self._sums(change, rows) / n


class HeldCuts(PairCuts):
    """Cuts of the convex problem of margins ``2 t_y - t1 - t2``, y the labels it was made with."""

    @property
    def compiled(self) -> bool:
        return False

    def risk(self, T: Floats) -> float:
        return self.held_risk(T)

    def add(self, T: Floats, held: bool = True) -> None:
        super().add(T, held=True)
        self._remember(*self._leading(T)[:2])

    def anchor(self, T: Floats, W: Floats) -> int:
        return 0

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """The weight with which each sample is held down by each class of a leading pair."""
        weights, rows = np.zeros((self.features.n, self.k)), np.arange(self.features.n)
        for j in np.flatnonzero(a[:len(self)]):
            for classes in self._pairs[j]:
                weights[rows, classes] += a[j] * self._weights[j]
        return {"weights": weights, "balance": a[len(self):]}


class DomainCuts(PairCuts):
    """Cuts of ``sum_i share_i max(0, 1 - w'phi_i)``, one class with k = 1; a point is a.

    With the samples S that a cut has below 1, its linear part is sum_S share_i phi_i; so W is a sum
    of samples, of which C a_i share_i is the weight when a_i is the sum over the cuts that have i.
    """

    kind = -1

    def __init__(self, features: Features, loss: MarginLoss, share: Floats, C: float,
                 start: Floats) -> None:
        super().__init__(features, 1, loss, np.zeros(features.n, np.int64))
        self.share, self.C, self.start = share, C, start

    def risk(self, T: Floats) -> float:
        return float(self.share @ self.loss.value(T[:, 0]))

    def held_risk(self, T: Floats) -> float:
        return self.risk(T)

    def add(self, T: Floats, held: bool = False) -> None:
        margin = T[:, 0]
        weight = -self.loss.slope(margin)
        value = float(self.share @ (self.loss.value(margin) + weight * margin))
        self._append(value, self.features.sums((self.share * weight)[None])[0], weight)

    def anchor(self, T: Floats, W: Floats) -> int:
        return 0

    def beside(self, a: Floats) -> Any:
        if not len(self):
            return self.start
        return self.C * self.share * (a @ self._weights[:len(self)])

    def duals(self, a: Floats) -> dict[str, Any] | None:
        return {"a": self.beside(a)}


class PaperCuts(PairCuts):
    """The cuts of CPM3C as printed (eq. 11), with z = [the class is on top] held at the anchor.

    For a sample below margin 1 with second class r the term is ``1 - t_y + t_r``, and 0 once r is
    the top class at the anchor: the indicator jumps, so these are no upper bounds, and the
    objective may rise. Hinge loss only.
    """

    kind = -1

    def __init__(self, features: Features, k: int, loss: MarginLoss, start: Ints) -> None:
        super().__init__(features, k, loss, start)
        self._second = np.empty((0, features.n), dtype=np.int64)

    def add(self, T: Floats, held: bool = False) -> None:
        _, second, margin = top_two(T)
        weight = (margin < 1.0).astype(np.float64)
        live = weight * (second != self.top)
        coefficients = np.zeros((self.k, len(weight)))
        rows = np.arange(len(weight))
        coefficients[self.top, rows] += live
        coefficients[second, rows] -= live
        self._append(float(live.mean()),
                     np.ravel(self.features.sums(coefficients)) / self.features.n, weight)
        self._second = np.vstack([self._second, second])

    def _relinearise(self, rows: Ints, old: Ints, new: Ints) -> None:
        J, k, n = len(self), self.k, self.features.n
        weights, second = self._weights[:J, rows].astype(np.float64), self._second[:, rows]
        before, after = weights * (second != old), weights * (second != new)
        change = np.empty((k, J, len(rows)))
        for q in range(k):
            change[q] = after * ((new == q) * 1.0 - (second == q)) \
                - before * ((old == q) * 1.0 - (second == q))
        self._G[:J] += self._sums(change, rows) / n
        self._b[:J] += (after - before).sum(axis=1) / n
