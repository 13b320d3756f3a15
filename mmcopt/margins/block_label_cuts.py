"""Cutting planes of rows in blocks that have labels: given ones, or such as keep a floor on sizes.

`LabelCuts` of which only sums are held here. Labels are a rule that every row can follow by itself
(`FloorLabels`), or given and sent along; a cut is remembered by the W and the labels that it was
made with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.kernels.block_features import BlockFeatures, BlockScores
from mmcopt.kernels.features import Features
from mmcopt.margins.block_floors import FloorLabels, OwnRows, filled, labels_of
from mmcopt.margins.cut_models import ROOM, PairCuts, rivals_of
from mmcopt.margins.losses import MarginLoss
from mmcopt.tolerances import WORSE
from mmcopt.types import Floats, Ints

Rule = FloorLabels | None  # None: the labels that were given


class Made(NamedTuple):
    """Where a cut was made: at W, with these labels."""

    W: Floats
    rule: Rule


class Seen(NamedTuple):
    """What a pass has seen at W with some labels: the risk, and the cut there."""

    risk: float
    b: float
    g: Floats


def _seen(part: Features, T: Floats, y: Ints, k: int, loss: MarginLoss) -> tuple[Any, ...]:
    """Sums of `Seen` over some rows with scores T and labels y."""
    other, margin = rivals_of(T, y)
    value, weight = loss.value(margin), -loss.slope(margin)
    coefficients, rows = np.zeros((k, part.n)), np.arange(part.n)
    coefficients[y, rows] = weight
    coefficients[other, rows] -= weight
    return (float(value.sum()), float((value + weight * margin).sum()),
            part.sums(coefficients).ravel())


def _cut_at(part: Features, own: OwnRows, W: Floats, rule: Rule, k: int,
            loss: MarginLoss) -> tuple[Any, ...]:
    """Sums of `Seen` over some rows."""
    T = part.row_scores(W)
    same = rule is not None and np.array_equal(rule.W, W)
    return _seen(part, T, labels_of(part, own, rule, T if same else None), k, loss)


def _relabelled(part: Features, own: OwnRows, W: Floats, new: Rule, old: Rule, made: list[Made],
                k: int, loss: MarginLoss) -> tuple[Any, ...]:
    """Give samples other labels, and see what that makes of the risk at W.

    How many samples each class then has, how many have another label, what that adds to the linear
    parts of all cuts, and sums of `Seen`.
    """
    T = part.row_scores(W)
    same = new is not None and np.array_equal(new.W, W)
    y, was = labels_of(part, own, new, T if same else None), labels_of(part, own, old)
    changed = np.flatnonzero(y != was)
    G = np.zeros((len(made), k * part.d))
    if len(changed):
        some, theirs = part.of(changed), own.array()[changed]
        for j, cut in enumerate(made):
            G[j] = _change(some, theirs, cut, y[changed], was[changed], k, loss)
    return (np.bincount(y, minlength=k), len(changed), G, *_seen(part, T, y, k, loss))


def _change(part: Features, own: OwnRows, cut: Made, new: Ints, old: Ints, k: int,
            loss: MarginLoss) -> Floats:
    """What other labels of some rows add to the linear part of a cut, (k d)."""
    T = part.row_scores(cut.W)
    same = cut.rule is not None and np.array_equal(cut.rule.W, cut.W)
    first = labels_of(part, own, cut.rule, T if same else None)
    second, margin = rivals_of(T, first)
    weight, rows = -loss.slope(margin), np.arange(part.n)
    coefficients = np.zeros((k, part.n))
    for y, signed in ((new, weight), (old, -weight)):
        coefficients[y, rows] += signed
        coefficients[np.where(second == y, first, second), rows] -= signed
    return np.asarray(part.sums(coefficients)).ravel()


class BlockLabelCuts(PairCuts):
    """Cuts of the loss of a sample's own class against the best other one, of rows in blocks.

    With ``least`` labels follow the scores, no class below that many samples; without they are
    those of the start.
    """

    kind = -1
    features: BlockFeatures

    def __init__(self, features: BlockFeatures, k: int, loss: MarginLoss, start: Any,
                 least: int | None) -> None:
        self.features, self.k, self.loss, self.least = features, k, loss, least
        ruled = isinstance(start, FloorLabels)
        self.top: Any = start if ruled else None
        self.given = None if ruled else np.asarray(start, np.int16)
        self.made: list[Made] = []
        self.last: tuple[Floats, Any, Seen] | None = None  # the last pass: W, labels, what it saw
        self._rows, self._count = None, 0
        self._b, self._G = np.empty(ROOM), np.empty((ROOM, k * features.d))
        self._weights = np.empty((ROOM, 0))

    @property
    def own(self) -> OwnRows:
        """What every row needs to tell its label."""
        return OwnRows(range(self.features.n), self.given)

    def risk(self, T: Any) -> float:
        return self._at(T).risk

    def held_risk(self, T: Any) -> float:
        return self._at(T).risk

    def add(self, T: Any, held: bool = False) -> None:
        seen = self._at(T)
        self.made.append(Made(T.W, self.top))
        self._append(seen.b, seen.g, np.empty(0))

    def beside(self, a: Floats) -> Any:
        return self.given if self.top is None else self.top

    def duals(self, a: Floats) -> dict[str, Any] | None:
        """The weights of the cuts and where they were made, of which each row can tell its own."""
        if self.least is not None:
            return None
        used = np.flatnonzero(a[:len(self)])
        places = np.array([self.made[j].W for j in used]).reshape(-1, self.k, self.features.d)
        return {"multipliers": a[used], "places": places, "balance": a[len(self):]}

    def anchor(self, T: Any, W: Floats) -> int:
        if self.least is None:
            return 0
        before, rule = (self.value(W), self.risk(T)), FloorLabels.top(T.W)
        sizes, moved, G, seen = self._moved(T.W, rule)
        if sizes.min() < self.least:
            rule = filled(self.features, self.own, T.W, sizes, self.least)
            _, moved, G, seen = self._moved(T.W, rule)
        if not moved:
            return 0
        old = self.G.copy()
        self._G[:len(self)] += G
        now = (self.value(W), seen.risk)
        if now[0] > before[0] + WORSE or (not len(self) and now[1] > before[1]):
            self._G[:len(self)] = old  # the repair is greedy: these labels cost more
            return 0
        self.top, self.last = rule, (T.W, rule, seen)
        return moved

    def relabel(self, top: Any) -> int:
        top = top if isinstance(top, FloorLabels) else None
        if top is self.top:
            return 0
        W = np.zeros((self.k, self.features.d)) if top is None else top.W
        _, moved, G, seen = self._moved(W, top)
        self._G[:len(self)] += G
        self.top, self.last = top, (W, top, seen)
        return moved

    def _moved(self, W: Floats, rule: Rule) -> tuple[Ints, int, Floats, Seen]:
        """A pass with other labels: sizes, how many changed, what they add to G, what it saw."""
        sizes, moved, G, *sums = self.features.total_of(
            _relabelled, W, rule, self.top, self.made, self.k, self.loss, along=self.own)
        return sizes, int(moved), G / self.features.n, self._mean(sums)

    def _at(self, T: BlockScores) -> Seen:
        """What a pass sees at W with the labels as they are."""
        if self.last is None or self.last[1] is not self.top \
                or not np.array_equal(self.last[0], T.W):
            sums = self.features.total_of(_cut_at, T.W, self.top, self.k, self.loss,
                                          along=self.own)
            self.last = (T.W, self.top, self._mean(sums))
        return self.last[2]

    def _mean(self, sums: Any) -> Seen:
        risk, b, g = (value / self.features.n for value in sums)
        return Seen(float(risk), float(b), np.asarray(g))
