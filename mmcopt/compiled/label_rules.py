"""What labels must obey, for all searches over them: sizes, known labels, and what is kept apart.

A file of loops may call those of a file that it imports, as this one, and no further: the cache
looks as far (`mmcopt.compiled.loops.stamp`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmcopt.compiled.loops import INNER, compiled

N = Any  # int64 array
Rng = NDArray[np.uint64]

# A plain 0 is a type of its own, for which all that is called would be compiled again.
NONE: Any = np.int64(0)
NOBODY: Any = np.int64(-1)
BIG = 1e30  # stands for infinity: BIG + x == BIG also in float32, and 4 BIG does not overflow
inner = compiled(**INNER)


class Rules(NamedTuple):
    """What labels must obey; `plain` is 1 when all weights are 1 and nothing is kept apart."""

    weights: N  # (n,)
    low: N  # (k,) at least 1, or 0 where a cluster may be empty
    high: N  # (k,)
    fixed: N  # (n,) the label a point must keep, or -1
    aptr: N  # (n+1,) and aidx: CSR lists of the points to keep apart from each, symmetric
    aidx: N
    plain: int


@inner
def uniform(rng: Rng) -> float:
    """Next number in [0, 1) of the xorshift generator (shifts only, so nothing can overflow)."""
    x = rng[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    rng[0] = x
    return np.float64(x >> np.uint64(11)) * 1.1102230246251565e-16


@inner
def drawn(u: NDArray[np.float64], top: float, T: float, rng: Rng) -> int:
    """A cluster drawn with the weight exp(2 (u - top) / T), which takes the place of its u."""
    mass, d = 0.0, 0
    for h in range(u.size):
        gap = 2.0 * (u[h] - top) / T
        u[h] = np.exp(gap) if gap > -25.0 else 0.0
        mass += u[h]
    r = uniform(rng) * mass
    while r >= u[d] and d < u.size - 1:
        r -= u[d]
        d += 1
    return d


@inner
def conflicts(c: N, rules: Rules, j: int, d: int) -> int:
    """Count the points of cluster d that must be kept apart from j."""
    count = 0
    for p in range(rules.aptr[j], rules.aptr[j + 1]):
        count += c[rules.aidx[p]] == d
    return count


@inner
def excess(sizes: N, rules: Rules, a: int, d: int, w: int) -> int:
    """Total violation of the size bounds after weight w went from cluster a to d."""
    total = 0
    for h in range(sizes.size):
        size = sizes[h] + (w if h == d else 0) - (w if h == a else 0)
        if size < rules.low[h]:
            total += rules.low[h] - size
        elif size > rules.high[h]:
            total += size - rules.high[h]
    return total


@inner
def feasible_move(c: N, sizes: N, rules: Rules, j: int, d: int) -> bool:
    """Tell whether j may move to d from a state that obeys the rules."""
    a, w = c[j], rules.weights[j]
    if a == d or rules.fixed[j] >= 0 or sizes[a] - w < rules.low[a] or sizes[d] + w > rules.high[d]:
        return False
    return rules.plain == 1 or conflicts(c, rules, j, d) == 0


@inner
def feasible_swap(c: N, sizes: N, rules: Rules, i: int, j: int) -> bool:
    """Tell whether i and j, in different clusters, may change places."""
    a, d, w = c[i], c[j], rules.weights[i] - rules.weights[j]
    if rules.fixed[i] >= 0 or rules.fixed[j] >= 0 or a == d:
        return False
    if sizes[a] - w < rules.low[a] or sizes[a] - w > rules.high[a]:
        return False
    if sizes[d] + w < rules.low[d] or sizes[d] + w > rules.high[d]:
        return False
    linked = 0
    for p in range(rules.aptr[i], rules.aptr[i + 1]):
        linked += rules.aidx[p] == j
    return conflicts(c, rules, i, d) == linked and conflicts(c, rules, j, a) == linked


@inner
def relabel(c: N, sizes: N, rules: Rules, j: int, d: int) -> int:
    """Give j the label d without looking at any caches; returns its former label."""
    a = c[j]
    sizes[a] -= rules.weights[j]
    sizes[d] += rules.weights[j]
    c[j] = d
    return a


@inner
def mutate(c: N, sizes: N, rules: Rules, s: int, deck: N, spots: N, old: N, rng: Rng) -> int:
    """Flip s random points of c in place, list them and their former labels; returns how many.

    Where a flip a -> d breaks the sizes, a random unflipped point of d goes to a (Evo, footnote 2).
    deck is any permutation of the points. Fixed points and flips against the rules are passed over.
    """
    n, k, m, q = c.size, sizes.size, 0, 0
    for _ in range(s):
        if q == n:
            break
        r = q + int(uniform(rng) * (n - q))
        deck[q], deck[r] = deck[r], deck[q]
        j, q = deck[q], q + 1
        a, w = c[j], rules.weights[j]
        d = (a + 1 + (int(uniform(rng) * (k - 1)) if k > 2 else 0)) % k
        if rules.fixed[j] >= 0:
            continue
        if sizes[a] - w < rules.low[a] or sizes[d] + w > rules.high[d]:
            first, p = int(uniform(rng) * (n - q + 1)), 0  # the rest of the deck is not flipped yet
            while p < n - q:
                r = q + (first + p) % (n - q)
                if c[deck[r]] == d and feasible_swap(c, sizes, rules, deck[r], j):
                    break
                p += 1
            if p >= n - q:
                continue
            deck[q], deck[r] = deck[r], deck[q]
            spots[m], old[m] = deck[q], relabel(c, sizes, rules, deck[q], a)
            m, q = m + 1, q + 1
        elif not rules.plain and conflicts(c, rules, j, d) > 0:
            continue
        spots[m], old[m] = j, relabel(c, sizes, rules, j, d)
        m += 1
    return m
