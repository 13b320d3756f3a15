"""Labels with a floor on the sizes of classes, of rows in blocks: a rule of few numbers.

In memory `floored` sorts the samples by what they lose by a move. Here nobody holds them: a class
that is short takes the samples of each other class up to a limit, and the limits are found as
order statistics are, by counting losses in cells that get finer with each pass. So what is held is
k numbers for each class that is short, and every row can tell its label by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from mmcopt.kernels.block_features import BlockFeatures
from mmcopt.kernels.features import Features
from mmcopt.margins.cut_models import rivals_of
from mmcopt.margins.losses import MarginLoss
from mmcopt.types import Floats, Ints

CELLS = 1024  # in which a pass counts the losses of a class
FEW = 2048  # samples that are looked at one by one
NONE = -np.inf  # a limit that no loss is within


class FloorLabels(NamedTuple):
    """The top classes at W, but for the samples that classes which are short of some take.

    The s-th of these is ``short[s]``; from class c it takes whose score loses less than
    ``limits[s, c]``, and of those which lose just that the rows up to number ``last[s, c]``.
    """

    W: Floats
    short: Ints
    limits: Floats
    last: Ints

    @classmethod
    def top(cls, W: Floats) -> Self:
        """No class takes any."""
        k = len(W)
        return cls(np.array(W, dtype=np.float64), np.empty(0, np.int64), np.empty((0, k)),
                   np.empty((0, k), np.int64))

    def taking(self, p: int, limits: Floats, last: Ints) -> Self:
        """After these, class p takes some, too."""
        return self._replace(short=np.append(self.short, p),
                             limits=np.vstack([self.limits, limits]),
                             last=np.vstack([self.last, last]))


def floor_labels(given: Any, k: int, d: int) -> FloorLabels | None:
    """Such a rule as it was given or read from a file; None of what is none."""
    if not isinstance(given, tuple | list) or len(given) != 4:
        return None
    try:
        W, limits = (np.asarray(part, np.float64) for part in given[::2])
        short, last = (np.asarray(part, np.int64) for part in given[1::2])
    except (TypeError, ValueError):
        return None
    m = short.size
    fits = W.shape == (k, d) and short.shape == (m,) and limits.shape == last.shape == (m, k)
    if not fits or not np.isfinite(W).all() or not ((short >= 0) & (short < k)).all():
        return None
    return FloorLabels(W, short, limits, last)


@dataclass(frozen=True, eq=False)
class OwnRows:
    """The numbers of rows, and labels that they were given: cut into blocks as arrays are."""

    numbers: Any  # a range, or an array of them
    given: Any = None  # integers of any size

    def __getitem__(self, part: Any) -> OwnRows:
        return OwnRows(self.numbers[part], None if self.given is None else self.given[part])

    def array(self) -> OwnRows:
        """With numbers that any part can be taken of."""
        return OwnRows(np.asarray(self.numbers, dtype=np.int64), self.given)


def labels_of(part: Features, own: OwnRows, rule: FloorLabels | None,
              T: Floats | None = None) -> Ints:
    """Labels of some rows by a rule, or the given ones; T are the scores at its W."""
    from mmcopt.compiled.cutting_planes import tops
    from mmcopt.compiled.row_labels import move_labels

    if rule is None:
        return np.asarray(own.given, dtype=np.int64)
    T, y = part.row_scores(rule.W) if T is None else T, np.empty(part.n, np.int64)
    tops(T, y)
    if len(rule.short):
        move_labels(T, own.array().numbers, rule.short, rule.limits, rule.last, y)
    return y


def small_labels(part: Features, own: OwnRows, rule: FloorLabels | None) -> Any:
    """The same in few bytes."""
    return labels_of(part, own, rule).astype(np.int16)


def sizes_of(part: Features, own: OwnRows, rule: FloorLabels | None, k: int) -> tuple[Any, ...]:
    """How many samples each class has."""
    return (np.bincount(labels_of(part, own, rule), minlength=k),)


def label_loss(part: Features, own: OwnRows, W: Floats, rule: FloorLabels | None,
               loss: MarginLoss) -> tuple[Any, ...]:
    """The sum of the losses of labels against the best others."""
    margin = rivals_of(part.scores(W), labels_of(part, own, rule))[1]
    return (float(loss.value(margin).sum()),)


# ---------------------------------------------------------------- finding the limits


class Key(NamedTuple):
    """A place in the order of samples: the rank of what one loses (`rank_of`), and its number."""

    rank: int
    row: int


def rank_of(losses: Any) -> Any:
    """Numbers of at least 0 as integers in the same order, without gaps: their bits."""
    return (np.asarray(losses, dtype=np.float64) + 0.0).view(np.int64)


def loss_of(ranks: Any) -> Any:
    """The numbers behind ranks."""
    return np.asarray(ranks, dtype=np.int64).view(np.float64)


class Range(NamedTuple):
    """The samples of a class behind ``low`` and up to ``high``, and how many stand before them."""

    low: Key
    high: Key
    before: int = 0

    @property
    def level(self) -> int | None:
        """The rank of what all of them lose, where that is the same for all."""
        return self.high.rank if self.high.rank - self.low.rank <= 1 else None

    def edges(self, n: int) -> Any:
        """Ends of cells: of ranks, or of rows where all lose the same.

        Half of those of ranks are far apart alike in what is lost, among many samples the best, and
        half in rank, by which even the same loss of all is found in seven passes.
        """
        if self.level is not None:
            first, last = self.rows(n)
            return first + (last - first) * np.arange(CELLS + 1) // CELLS
        half, (low, high) = CELLS // 2, (self.low.rank, self.high.rank)
        by_rank = low + (high - low) // (half + 1) * np.arange(1, half + 1)
        least, most = loss_of([max(low, 0), high])
        by_loss = rank_of(least + (most - least) * np.arange(1, half) / half)
        return np.sort(np.concatenate([[low], np.clip(by_loss, low, high), by_rank, [high]]))

    def rows(self, n: int) -> tuple[int, int]:
        """The rows of those that all lose the same lie behind the first and up to the last."""
        inside = self.low.rank == self.high.rank
        return (self.low.row if inside else -1), min(self.high.row, n)

    def cell(self, j: int, counts: Ints, n: int) -> Range:
        """One of its cells, of which there are so many samples each."""
        ends, before = self.edges(n), self.before + int(counts[:j].sum())
        if self.level is None:
            return Range(Key(int(ends[j]), n), Key(int(ends[j + 1]), n), before)
        return Range(Key(self.level, int(ends[j])), Key(self.level, int(ends[j + 1])), before)


class Cells(NamedTuple):
    """What a pass is to count of a class: between these edges, at one rank if at one only."""

    edges: Any
    level: int | None


def _values(part: Features, own: OwnRows, rule: FloorLabels, p: int,
            cells: list[Cells | None]) -> list[tuple[int, Cells, Ints, Ints]]:
    """Of each class that has cells: its number, these, and the ranks and numbers of its rows."""
    T = part.row_scores(rule.W)
    y, numbers = labels_of(part, own, rule, T), own.array().numbers
    found = []
    for c, cell in enumerate(cells):
        if cell is not None:
            mine = np.flatnonzero(y == c)
            found.append((c, cell, rank_of(T[mine, c] - T[mine, p]), numbers[mine]))
    return found


def _counted(part: Features, own: OwnRows, rule: FloorLabels, p: int,
             cells: list[Cells | None]) -> tuple[Any, ...]:
    """How many samples of each class lie in each of its cells."""
    counts = np.zeros((len(cells), CELLS), np.int64)
    for c, cell, ranks, rows in _values(part, own, rule, p, cells):
        values = ranks if cell.level is None else rows[ranks == cell.level]
        at = np.searchsorted(cell.edges, values, side="left") - 1
        inside = (at >= 0) & (at < CELLS)
        counts[c] += np.bincount(at[inside], minlength=CELLS)
    return (counts,)


def _listed(part: Features, own: OwnRows, rule: FloorLabels, p: int,
            cells: list[Cells | None]) -> Any:
    """The samples in the cells of each class: ranks, numbers of rows, and classes."""
    found = [(np.empty(0, np.int64),) * 3]
    for c, cell, ranks, rows in _values(part, own, rule, p, cells):
        values = ranks if cell.level is None else np.where(ranks == cell.level, rows, -1)
        inside = (values > cell.edges[0]) & (values <= cell.edges[-1])
        found.append((ranks[inside], rows[inside], np.full(int(inside.sum()), c)))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


class _Taking:
    """How a class that is short comes to its samples, the ones that lose least.

    ``spare`` says how many each other class can do without. Classes that reach that before the
    class has all it ``wants`` are ``apart`` from then on: where they end is their own affair.
    """

    def __init__(self, features: BlockFeatures, own: OwnRows, rule: FloorLabels, p: int,
                 sizes: Ints, least: int) -> None:
        self.features, self.own, self.rule, self.p, self.n = features, own, rule, p, features.n
        self.wants, self.spare = int(least - sizes[p]), np.maximum(sizes - least, 0)
        apart = max(float(np.abs(rule.W - w).sum(axis=1).max()) for w in rule.W)
        top = 1.01 * apart * float(np.sqrt(features.longest))
        whole = Range(Key(-1, self.n), Key(int(rank_of(top)), self.n))
        self.ranges = [whole if count else None for count in self.spare]
        self.inside = np.where(self.spare > 0, sizes, 0)
        self.apart = np.zeros(len(sizes), dtype=bool)

    def _cells(self) -> list[Cells | None]:
        return [None if r is None else Cells(r.edges(self.n), r.level) for r in self.ranges]

    def narrow(self) -> None:
        """One pass: each class goes on with the cell that it must be cut in."""
        counts = self.features.total_of(_counted, self.rule, self.p, self._cells(),
                                        along=self.own)[0]
        up_to = np.cumsum(counts, axis=1) \
            + np.array([0 if r is None else r.before for r in self.ranges])[:, None]
        taken = np.where(self.apart[:, None], self.spare[:, None],
                         np.minimum(up_to, self.spare[:, None]))
        common = int(np.argmax(taken.sum(axis=0) >= self.wants))
        for c, found in enumerate(self.ranges):
            if found is None:
                continue
            full = up_to[c] >= self.spare[c]
            j = int(np.argmax(full)) if full[-1] else CELLS
            self.apart[c] |= j < common
            j = j if self.apart[c] else common
            self.ranges[c] = found.cell(j, counts[c], self.n)
            self.inside[c] = counts[c, j]

    def limits(self) -> tuple[Floats, Ints, Ints]:
        """The limit of each class, the last row of those that lose just that, and how many go."""
        parts = self.features.gathered(_listed, self.rule, self.p, self._cells(), along=self.own)
        ranks, rows, classes = (np.concatenate(p) for p in zip(*parts, strict=True))
        order = np.lexsort((rows, ranks))
        k, taken = len(self.spare), np.array([0 if r is None else r.before for r in self.ranges])
        ends: list[Key | None] = [None] * k  # the last that goes,
        after: list[Key | None] = [None] * k  # and the first that stays
        wants = self.wants - int(np.where(self.apart, self.spare, taken).sum())
        for i in order:
            c, key = int(classes[i]), Key(int(ranks[i]), int(rows[i]))
            goes = taken[c] < self.spare[c] and (bool(self.apart[c]) or wants > 0)
            if goes:
                taken[c], ends[c], wants = taken[c] + 1, key, wants - (not self.apart[c])
            elif after[c] is None:
                after[c] = key
        between = [(NONE, 0) if r is None else _between(ends[c] or r.low, after[c] or r.high)
                   for c, r in enumerate(self.ranges)]
        return (np.array([loss for loss, _ in between]),
                np.array([row for _, row in between], dtype=np.int64), taken)


def _between(goes: Key, stays: Key) -> tuple[float, int]:
    """A limit between two places in the order, and far from both where that is possible."""
    if goes.rank < 0:  # none goes that loses nothing
        return NONE, 0
    last, first = loss_of([goes.rank, stays.rank])
    middle = last + 0.5 * (first - last)
    return (middle, -1) if last < middle < first else (float(last), goes.row)


def floored_in_blocks(features: BlockFeatures, W: Floats, least: int) -> FloorLabels:
    """`floored` of the scores at W, as a rule."""
    rule, own = FloorLabels.top(W), OwnRows(range(features.n))
    sizes = features.total_of(sizes_of, rule, len(W), along=own)[0]
    return rule if sizes.min() >= least else filled(features, own, W, sizes, least)


def filled(features: BlockFeatures, own: OwnRows, W: Floats, sizes: Ints,
           least: int) -> FloorLabels:
    """`floored` of the scores at W, whose top classes have these sizes, as a rule."""
    rule, sizes = FloorLabels.top(W), np.array(sizes)
    for p in np.argsort(sizes, kind="stable"):
        if sizes[p] >= least:
            continue
        taking = _Taking(features, own, rule, int(p), sizes, least)
        while taking.inside.sum() > FEW:
            taking.narrow()
        limits, last, taken = taking.limits()
        rule = rule.taking(int(p), limits, last)
        sizes = sizes - taken
        sizes[p] = least
    return rule
