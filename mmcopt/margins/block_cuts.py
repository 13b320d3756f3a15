"""Cutting planes of rows in blocks: `PairCuts` of which only sums are held here.

A cut is remembered by the W that it was made at, not by the weights of samples: where a sample
changes its class, its weights in all cuts are made anew from its row. So a round is one pass over
the rows, k x d numbers for each cut come back, and a pass that was lost can be done again anywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mmcopt.kernels.block_features import BlockFeatures, BlockScores
from mmcopt.kernels.features import Features
from mmcopt.margins.cut_models import ROOM, PairCuts, top_two
from mmcopt.margins.losses import MarginLoss
from mmcopt.types import Floats, Ints


class Made(NamedTuple):
    """Where a cut was made: at W, with the labels of an anchor that was elsewhere, or its own."""

    W: Floats
    anchor: Floats | None


class Seen(NamedTuple):
    """What a pass has seen at W: the risk, that with the anchor's labels, and the cut there."""

    risk: float
    held_risk: float
    b: float
    g: Floats


def _cut_at(part: Features, W: Floats, anchor: Floats | None, k: int,
            loss: MarginLoss) -> tuple[Any, ...]:
    """Sums of `Seen` over some rows; the labels are those of the anchor, or those at W."""
    T, anchored = _scores(part, W, anchor)
    return _seen(part, T, None if anchored is None else top_two(anchored)[0], top_two(T), k, loss)


def _scores(part: Features, W: Floats, other: Floats | None) -> tuple[Floats, Floats | None]:
    """Scores at W and at another place, by one product."""
    if other is None:
        return part.scores(W), None
    both = part.scores(np.vstack([W, other]))
    return np.ascontiguousarray(both[:, :len(W)]), np.ascontiguousarray(both[:, len(W):])


def _seen(part: Features, T: Floats, held_by: Ints | None, leading: tuple[Ints, Ints, Floats],
          k: int, loss: MarginLoss) -> tuple[Any, ...]:
    """Sums of `Seen` from scores with their leading classes, and the labels of an anchor."""
    cuts = PairCuts(part, k, loss, leading[0] if held_by is None else held_by, (T, leading))
    cuts.add(T, held=held_by is not None)
    risk = cuts.risk(T)
    held = risk if held_by is None else cuts.held_risk(T)
    return part.n * risk, part.n * held, part.n * cuts.b[0], part.n * cuts.G[0]


def _moved(part: Features, W: Floats, old: Floats, made: list[Made], k: int,
           loss: MarginLoss) -> tuple[Any, ...]:
    """Move the anchor to W, and make the cut there: one pass over the rows.

    How many samples change their class, what that adds to the linear parts, and sums of `Seen`.
    """
    T, before = _scores(part, W, old)
    leading, was = top_two(T), top_two(before)[0]  # type: ignore[arg-type]
    top = leading[0]
    changed = np.flatnonzero(top != was)
    G = np.zeros((len(made), k * part.d))
    if len(changed) and made:
        weights = _weights(part.of(changed), made, k, loss)
        move = np.stack([weights * ((top[changed] == q) * 1.0 - (was[changed] == q))
                         for q in range(k)])
        sums = part.sums(move.reshape(k * len(made), -1), changed).reshape(k, len(made), part.d)
        G += 2.0 * sums.transpose(1, 0, 2).reshape(len(made), k * part.d)
    return len(changed), G, *_seen(part, T, None, leading, k, loss)


def _weights(part: Features, made: list[Made], k: int, loss: MarginLoss) -> Floats:
    """The weights that rows have in all cuts, (number of cuts, rows)."""
    T = part.scores(np.vstack([cut.W for cut in made]))
    out = np.empty((len(made), part.n))
    for j, cut in enumerate(made):
        own = np.ascontiguousarray(T[:, j * k:(j + 1) * k])
        margin = top_two(own)[2]
        if cut.anchor is not None:
            labels = top_two(part.scores(cut.anchor))[0]
            margin = PairCuts(part, k, loss, labels)._held_margin(own)
        out[j] = -loss.slope(margin)
    return out


class BlockCuts(PairCuts):
    """Pair cuts of rows in blocks. Labels are told by the W that they are the top classes of."""

    kind = -1
    features: BlockFeatures

    def __init__(self, features: BlockFeatures, k: int, loss: MarginLoss, start: Floats) -> None:
        self.features, self.k, self.loss = features, k, loss
        self.top: Any = start.copy()  # the anchor
        self.made: list[Made] = []
        self.own: tuple[Floats, Seen] | None = None  # the last pass, with the labels at its W,
        self.held: tuple[Floats, Floats, Seen] | None = None  # and with those of an anchor
        self._rows, self._count = None, 0
        self._b, self._G = np.empty(ROOM), np.empty((ROOM, k * features.d))
        self._weights = np.empty((ROOM, 0))

    def risk(self, T: Any) -> float:
        if self.held is not None and self.held[0] is T.W:
            return self.held[2].risk
        return self._own(T).risk

    def held_risk(self, T: Any) -> float:
        return self._held(T).held_risk

    def add(self, T: Any, held: bool = False) -> None:
        if not held:
            self.relabel(T.W)
        seen = self._held(T) if held else self._own(T)
        self.made.append(Made(T.W, self.top.copy() if held else None))
        self._append(seen.b, seen.g, np.empty(0))

    def anchor(self, T: Any, W: Floats) -> int:
        return self.relabel(T.W)

    def relabel(self, top: Any) -> int:
        if np.array_equal(top, self.top):
            return 0
        moved, G, *sums = self.features.total_of(_moved, top, self.top, self.made, self.k,
                                                 self.loss)
        self._G[:len(self)] += G / self.features.n
        self.own, self.top = (top, self._mean(sums)), top.copy()
        return int(moved)

    def _own(self, T: BlockScores) -> Seen:
        """What a pass sees with the labels at W."""
        if self.own is None or not np.array_equal(self.own[0], T.W):
            sums = self.features.total_of(_cut_at, T.W, None, self.k, self.loss)
            self.own = (T.W, self._mean(sums))
        return self.own[1]

    def _held(self, T: BlockScores) -> Seen:
        """What a pass sees with the labels of the anchor."""
        if self.held is None or self.held[0] is not T.W \
                or not np.array_equal(self.held[1], self.top):
            sums = self.features.total_of(_cut_at, T.W, self.top, self.k, self.loss)
            self.held = (T.W, self.top, self._mean(sums))
        return self.held[2]

    def _mean(self, sums: Any) -> Seen:
        risk, held, b, g = (value / self.features.n for value in sums)
        return Seen(float(risk), float(held), float(b), np.asarray(g))
