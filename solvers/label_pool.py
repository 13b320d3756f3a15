"""How `Memetic` combines partitions of `LabelQuadratic`."""

from __future__ import annotations

import dataclasses
import math
from typing import cast

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import Sparse
from mmcopt.errors import InfeasibleError
from mmcopt.solvers.annealing import pilot_temperatures
from mmcopt.solvers.ratio_pool import intersections
from mmcopt.solvers.tabu import Tabu
from mmcopt.solving import run
from mmcopt.solving.graph_search import by_lists, two_free_sides
from mmcopt.solving.label_search import random_state
from mmcopt.types import Ints

STARTS = 3  # random starts of the search over blocks, besides the better parent
SWEEPS = 200  # over blocks that are annealed
BLOCKS = 1000  # blocks that a child's parents have at the most


def combine(lq: LabelQuadratic, parents: list[Ints],
            rng: np.random.Generator) -> tuple[Ints, float] | None:
    """The best partition found that is made of blocks on which the parents agree.

    It comes with its objective. None when the parents are the same. The first parent is the best.
    Blocks are the intersections of clusters, or where nodes may change sides freely those that do.
    """
    made = _changed(lq, parents, rng) if free_sides(lq) else None
    if made is not None:
        return made
    groups = intersections(parents, lq.k)
    if groups.max() < lq.k:
        return None
    small = lq.contract(groups, lq.dtype)
    return _searched(small, parents[0], rng)


def _searched(small: LabelQuadratic, start: Ints, rng: np.random.Generator) -> tuple[Ints, float]:
    """The best labels of the points that are found by searching over blocks."""
    search = Tabu(length=20.0, tenure=small.n // 8 + 2, polish=False)
    best = run(search, small, start, rng)
    for _ in range(STARTS):
        try:
            other = run(search, small, None, rng)
        except InfeasibleError:  # no labels were found whose sizes are allowed, of such blocks
            break
        best = min(best, other, key=lambda r: r.value)
    return np.asarray(best.point), best.value


def free_sides(lq: LabelQuadratic) -> bool:
    """Whether any nodes of a sparse graph may change sides, but those whose side is given."""
    return lq.k == 2 and lq.any_sizes and isinstance(lq.matrix, Sparse) and not len(lq.apart)


def turned(lq: LabelQuadratic, first: Ints, groups: Ints) -> LabelQuadratic:
    """Which blocks of nodes change sides, from those of ``first``, as a problem of two sides.

    With s_i = 1 - 2 first_i, and t_b = -1 where block b changes, the sum of W within sides is
    ``sum W / 2 + t'W't / 2``, where W' holds the sums of s_i W_ij s_j over pairs of blocks.
    """
    m = int(groups.max()) + 1
    W = cast(Sparse, lq.matrix).signed(1.0 - 2.0 * first).contract(groups, m)
    fixed = np.full(m, -1)
    fixed[groups[lq.fixed >= 0]] = 0  # all parents have them where they belong
    const = lq.constant - lq.scale * (lq.matrix.total() - W.total()) / 2
    ones = np.ones(m, np.int64)  # what weights would count for is sizes, which are free
    return dataclasses.replace(lq, W=W, const=const, weights=ones, fixed=fixed, groups=None,
                               spread=None, trivial=None, single=lq.dtype == np.float32)


def _changed(lq: LabelQuadratic, parents: list[Ints],
             rng: np.random.Generator) -> tuple[Ints, float] | None:
    """The best labels found where connected blocks change sides as a whole.

    The nodes of a block are on the same side in each parent, or change it together from one to the
    next. Of two parents alone the connected sets on which they differ can be chosen one by one, so
    that a child is no worse than either; blocks of several parents are small enough for the rest.
    """
    matrix, first = cast(Sparse, lq.matrix), parents[0]
    for count in range(len(parents), 1, -1):
        groups = matrix.connected(intersections([c ^ first for c in parents[:count]], 2))
        if 1 < groups.max() < BLOCKS:
            small = turned(lq, first, groups)
            none = np.zeros(small.n, np.int64)
            changes, value = _annealed(lq, small, none, rng) if two_free_sides(lq) \
                else _searched(small, none, rng)
            return changes[groups] ^ first, value
    return None


def _annealed(lq: LabelQuadratic, small: LabelQuadratic, start: Ints,
              rng: np.random.Generator) -> tuple[Ints, float]:
    """The best labels of the points where blocks of a graph are annealed, or only descend.

    On lists of neighbours that is far quicker than `Tabu`; temperatures are those of the graph.
    """
    loops, lists, bounds = by_lists(small)
    temperatures = np.geomspace(*pilot_temperatures(lq), SWEEPS)
    best, value = start, math.inf
    for anneals in range(STARTS):
        c, G, sizes = start.copy(), loops.caches(lists, start, 2), np.array([small.n, 0])
        if anneals:
            loops.anneal(lists, c, G, sizes, bounds, temperatures, random_state(rng))
        while loops.sweep(lists, c, G, sizes, bounds) > 0.0:
            pass
        found = small.value(c)
        if found < value:
            best, value = c, found
    return best, value
