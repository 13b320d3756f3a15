"""Compiled loops of the label searches: moves, swaps, repair, tabu, annealing, shaking, evolution.

All MAXIMISE the association A(c) = sum_h z_h' W z_h of a symmetric W, z_h the 0/1 indicator of
cluster h. The state is the labels c (n,), the caches G (k, n), G[h] = W z_h, and the sizes (k,),
sums of the points' weights; all are updated in place. W is C-contiguous float32 or float64, G has
its dtype. Moving j from a to d changes A by 2 (G[d,j] - G[a,j] + W_jj); swapping i and j by both
moves - 4 W_ij. Gains are float64 sums of steps in the dtype of W: `association` gives all digits.
A random state is a nonzero uint64 in an array. Searches need a feasible start: see `repair`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.compiled.label_rules import (
    BIG,
    NOBODY,
    NONE,
    Rng,
    Rules,
    conflicts,
    drawn,
    excess,
    feasible_move,
    feasible_swap,
    mutate,
    relabel,
    uniform,
)
from mmcopt.compiled.loops import INNER, compiled

F = Any  # float32 or float64 array, as W; checkers cannot tell its items from its slices
N = Any  # int64 array

BLOCK = 1024  # rows are scanned in blocks that stay in the first cache; a power of two
loop = compiled()
inner = compiled(**INNER)


@inner
def _copy(source: F, target: F) -> None:
    """Copy a vector: assigning to a slice compiles its error message for a second."""
    for j in range(target.size):
        target[j] = source[j]


@loop
def caches(W: F, c: N, k: int) -> F:
    """G with G[h] = W z_h: the rows of W summed by label, O(n^2)."""
    G = np.empty((k, W.shape[1]), W.dtype)
    for h in range(k):
        for j in range(W.shape[1]):
            G[h, j] = 0
    for i in range(c.size):
        total, row = G[c[i]], W[i]
        for j in range(row.size):
            total[j] += row[j]
    return G


@compiled(fastmath=True)
def association(W: F, c: N, k: int) -> float:
    """A(c) = sum_h z_h' W z_h, accumulated in float64, O(n^2)."""
    total = 0.0
    for i in range(c.size):
        for j in range(c.size):
            total += W[i, j] if c[i] == c[j] else 0.0
    return total


def cluster_sizes(c: N, weights: N, k: int) -> N:
    """Sum of the weights of each cluster."""
    return np.bincount(c, weights, k).astype(np.int64)


def contract(W: F, groups: N, m: int) -> F:
    """B'WB (m, m) for groups 0..m-1 of the points: rows are added first, then columns."""
    columns = np.ascontiguousarray(caches(W, groups, m).T)
    columns.setflags(write=False)  # as W is: one loop to compile
    return np.ascontiguousarray(caches(columns, groups, m).T)


@inner
def move(W: F, c: N, G: F, sizes: N, rules: Rules, j: int, d: int) -> float:
    """Move j to cluster d, whatever the rules say; returns the change of A."""
    a, row = c[j], W[j]
    if a == d:
        return 0.0
    gain = 2.0 * (np.float64(G[d, j]) - np.float64(G[a, j]) + np.float64(row[j]))
    loser, winner = G[a], G[d]
    for i in range(row.size):
        loser[i] -= row[i]
    for i in range(row.size):
        winner[i] += row[i]
    relabel(c, sizes, rules, j, d)
    return gain


@inner
def swap(W: F, c: N, G: F, sizes: N, rules: Rules, i: int, j: int) -> float:
    """Let i and j change places, whatever the rules say; returns the change of A."""
    a, d = c[i], c[j]
    gain = move(W, c, G, sizes, rules, i, d)
    return gain + move(W, c, G, sizes, rules, j, a)


@inner
def _swap_gain(W: F, c: N, G: F, i: int, j: int) -> float:
    """Change of A if i and j changed places."""
    a, d = c[i], c[j]
    return 2.0 * (G[d, i] - G[a, i] + W[i, i] + G[a, j] - G[d, j] + W[j, j] - 2.0 * W[i, j])


@inner
def _tolerance(G: F) -> float:
    """Smallest change of A that counts as one: above the rounding of the caches."""
    largest = G[0, 0]
    for h in range(G.shape[0]):
        for j in range(G.shape[1]):
            size = abs(G[h, j])
            largest = size if size > largest else largest
    return np.float64(largest) * (4e-6 if G.itemsize == 4 else 1e-12)


@inner
def _mend(W: F, c: N, G: F, sizes: N, rules: Rules) -> bool:
    """Make the best move that lowers the excess, or else the conflicts; False if there is none."""
    best, to, bj, now = -np.inf, -1, -1, excess(sizes, rules, NONE, NONE, NONE)
    for j in range(c.size):
        a, w = c[j], rules.weights[j]
        here = conflicts(c, rules, j, a)
        if rules.fixed[j] >= 0 or (sizes[a] >= rules.low[a] > sizes[a] - w) or now + here == 0:
            continue
        for d in range(sizes.size):
            if d == a or sizes[d] <= rules.high[d] < sizes[d] + w:
                continue
            drop = now - excess(sizes, rules, a, d, w)
            rise = conflicts(c, rules, j, d) - here
            gain = 2.0 * (G[d, j] - G[a, j] + W[j, j]) - 1e9 * rise
            if gain > best and (drop > 0 or (drop == now == 0 and rise < 0)):
                best, to, bj = gain, d, j
    if bj >= 0:
        move(W, c, G, sizes, rules, bj, to)
    return bj >= 0


@loop
def repair(W: F, c: N, G: F, sizes: N, rules: Rules) -> bool:
    """Make any labels feasible by moves, and swaps for conflicts, of least loss; True on success.

    Fixed labels first, then sizes, then cannot-links; after the first no cluster is newly taken out
    of its bounds. With weights or cannot-links success is not guaranteed.
    """
    for j in range(c.size):
        if rules.fixed[j] >= 0:
            move(W, c, G, sizes, rules, j, rules.fixed[j])
    while _mend(W, c, G, sizes, rules):
        pass
    clean = excess(sizes, rules, NONE, NONE, NONE) == 0
    for j in range(c.size):
        best, bi = -np.inf, -1
        for i in range(c.size if conflicts(c, rules, j, c[j]) > 0 else 0):
            if feasible_swap(c, sizes, rules, i, j) and _swap_gain(W, c, G, i, j) > best:
                best, bi = _swap_gain(W, c, G, i, j), i
        if bi >= 0:
            swap(W, c, G, sizes, rules, bi, j)
        clean &= conflicts(c, rules, j, c[j]) == 0
    return clean


@loop
def row_least(W: F) -> NDArray[np.float64]:
    """Smallest off-diagonal entry of each row: the pruning bound of `best_swap`."""
    least = np.empty(W.shape[0], np.float64)
    for i in range(W.shape[0]):
        row, low = W[i], W.dtype.type(BIG)
        for j in range(i):
            low = row[j] if row[j] < low else low
        for j in range(i + 1, row.size):
            low = row[j] if row[j] < low else low
        least[i] = low
    return least


@loop
def best_swap(W: F, c: N, G: F, sizes: N, rules: Rules, least: F) -> float:
    """Make the best feasible swap that improves; its gain, or 0.0; least = row_least(W).

    -4 W_ij <= -2 (least_i + least_j) turns the single gains into a bound that prunes most pairs.
    """
    k, best, bi, bj = sizes.size, _tolerance(G), NOBODY, NOBODY
    bound, top = np.empty((k, c.size), np.float64), np.empty((k, k), np.float64)
    for d in range(k):
        for a in range(k):
            top[a, d] = -BIG
        for i in range(c.size):
            x = 2.0 * (G[d, i] - G[c[i], i] + W[i, i] - least[i])
            bound[d, i] = x if rules.fixed[i] < 0 else -BIG
            if bound[d, i] > top[c[i], d]:
                top[c[i], d] = bound[d, i]
    for j in range(c.size):
        a = c[j]
        for d in range(k):
            if d == a or bound[d, j] + top[d, a] <= best:
                continue
            for i in range(j):
                if c[i] == d and bound[d, j] + bound[a, i] > best:
                    gain = _swap_gain(W, c, G, i, j)
                    if gain > best and feasible_swap(c, sizes, rules, i, j):
                        best, bi, bj = gain, i, j
    return swap(W, c, G, sizes, rules, bi, bj) if bi >= 0 else 0.0


@loop
def sweep(W: F, c: N, G: F, sizes: N, rules: Rules) -> float:
    """One pass in index order, each point to its best feasible cluster (UMC-RLS Algorithm 1)."""
    total, tol = 0.0, _tolerance(G)
    for j in range(c.size):
        best, to = tol, -1
        for d in range(sizes.size):
            gain = 2.0 * (G[d, j] - G[c[j], j] + W[j, j])
            if gain > best and feasible_move(c, sizes, rules, j, d):
                best, to = gain, d
        if to >= 0:
            total += move(W, c, G, sizes, rules, j, to)
    return total


@inner
def _argmax(scores: F, until: F, t: float, work: F) -> int:
    """First index of the largest score with until <= t, -1 for none; sizes are multiples of BLOCK.

    Halving vectorises, a running maximum does not; slices do, offsets do not.
    """
    where, lowest, now = -1, scores.dtype.type(-BIG), scores.dtype.type(t)
    best, half = scores.dtype.type(-BIG / 2), BLOCK // 2
    for s in range(0, scores.size, BLOCK):
        x1, x2, u1, u2 = scores[s:], scores[s + half :], until[s:], until[s + half :]
        for j in range(half):
            x = x1[j] if u1[j] <= now else lowest
            y = x2[j] if u2[j] <= now else lowest
            work[j] = x if x > y else y
        m = half
        while m > 16:
            m //= 2
            for j in range(m):
                x, y = work[j], work[j + m]
                work[j] = x if x > y else y
        top = work[0]
        for j in range(1, 16):
            top = work[j] if work[j] > top else top
        if top > best:
            where, best = s, top
    while where >= 0 and (scores[where] != best or until[where] > now):
        where += 1
    return where


@inner
def _lowest(W: F, size: int) -> F:
    """A vector of the dtype of W that no maximum finds."""
    scores = np.empty(size, W.dtype)
    for j in range(size):
        scores[j] = -BIG
    return scores


@inner
def _turn(row: F, Ga: F, Gd: F, own: F, lab: F, a: int, d: int) -> None:
    """Update the caches and own[j] = G[c_j, j] after the point of this row went from a to d."""
    la, ld, zero = lab.dtype.type(a), lab.dtype.type(d), lab.dtype.type(0)
    for j in range(row.size):
        Ga[j] -= row[j]
    for j in range(row.size):
        Gd[j] += row[j]
    for j in range(row.size):
        x = row[j]
        own[j] += x if lab[j] == ld else (-x if lab[j] == la else zero)


@inner
def _score(G: F, s: int, e: int, opened: N, own: F, base: F, out: F) -> None:
    """Half the gain of each best move into out: largest opened row of G[:, s:e] - own + base."""
    m = opened.size
    out[:] = -BIG
    for q in range(0, m, 3):
        p = q + 1 if q + 1 < m else q
        r = q + 2 if q + 2 < m else p  # three rows at a time halve the traffic
        r1, r2, r3 = G[opened[q], s:e], G[opened[p], s:e], G[opened[r], s:e]
        for j in range(out.size):
            x, y, z, u = r1[j], r2[j], r3[j], out[j]
            y = x if x > y else y
            u = z if z > u else u
            out[j] = y if y > u else u
    for j in range(out.size):
        out[j] += base[j] - own[j]


@inner
def _score_ruled(
    c: N, G: F, sizes: N, rules: Rules, slack: int, own: F, base: F, out: F, dest: N
) -> None:
    """As `_score` under weights and cannot-links, point by point; dest[j] is j's best cluster."""
    now = excess(sizes, rules, NONE, NONE, NONE)
    for j in range(c.size):
        a, w, best, dest[j] = c[j], rules.weights[j], -BIG, -1
        least = max(min(1, rules.low[a]), rules.low[a] - slack)
        leaves = rules.fixed[j] < 0 and sizes[a] - w >= least
        for d in range(sizes.size):
            if not leaves or d == a or G[d, j] <= best or sizes[d] + w > rules.high[d] + slack:
                continue
            if now > 0 and excess(sizes, rules, a, d, w) >= now:
                continue
            if conflicts(c, rules, j, d) == 0:
                best, dest[j] = G[d, j], d
        out[j] = best - own[j] + base[j]


@inner
def _roles(sizes: N, rules: Rules, slack: int, source: N, lab: F, free: F, base: F) -> N:
    """Clusters open to one more point; where `source` (may lose one) changes, base follows.

    Within the bounds each may be overstepped by `slack`; beyond them only moves that mend are open.
    """
    over, under, m = -1, -1, 0
    opened, lowest = np.empty(sizes.size, np.int64), lab.dtype.type(-BIG)
    for h in range(sizes.size):
        over = h if sizes[h] > rules.high[h] else over
        under = h if sizes[h] < rules.low[h] else under
    for h in range(sizes.size):
        loses = sizes[h] > min(1, rules.low[h]) and sizes[h] > rules.low[h] - slack
        gains = sizes[h] < rules.high[h] + slack
        if over >= 0:
            loses, gains = h == over, sizes[h] < rules.high[h]
        elif under >= 0:
            loses, gains = sizes[h] > rules.low[h], h == under
        opened[m] = h
        m += 1 if gains else 0
        now = 1 if loses else 0
        if source[h] != now:
            source[h], x = now, lab.dtype.type(h)
            for j in range(lab.size):
                y = free[j] if loses else lowest
                base[j] = y if lab[j] == x else base[j]
    return opened[:m]


@inner
def _aim(c: N, G: F, sizes: N, rules: Rules, opened: N, dest: N, j: int) -> tuple[int, bool]:
    """Where j's best move leads (dest[j] or the largest opened row), and whether it is feasible."""
    to = dest[j]
    if to < 0:
        to = opened[0]
        for h in opened:
            to = h if G[h, j] > G[to, j] else to
    return to, excess(sizes, rules, c[j], to, rules.weights[j]) == 0


@loop
def _walk(
    W: F, c: N, G: F, sizes: N, rules: Rules, steps: int, tenure: int, patience: int, slack: int,
    rng: Rng,
) -> float:
    """Best admissible one-point move, again and again; ends in the best feasible state met.

    patience 0 stops before a move that does not improve. During the walk G[c_j, j] holds -BIG and
    own[j] the value itself, so one maximum over the rows finds every point's best OTHER cluster.
    """
    n, lowest, tol, labels = c.size, W.dtype.type(-BIG), _tolerance(G), c.copy()
    scores = _lowest(W, -(-n // BLOCK) * BLOCK)
    until, work, dest = scores.copy(), scores[:BLOCK].copy(), c.copy()
    own, lab = scores[:n].copy(), scores[:n].copy()
    diag, base = scores[:n].copy(), scores[:n].copy()
    source, opened, i, a, d = sizes.copy(), sizes[:0], -1, NONE, NONE
    value, idle, fresh = 0.0, 0, False
    best = -BIG if excess(sizes, rules, NONE, NONE, NONE) > 0 else 0.0
    for h in range(sizes.size):
        source[h] = -1
    for j in range(n):
        dest[j], own[j], lab[j], G[c[j], j] = -1, G[c[j], j], c[j], lowest
        diag[j] = W[j, j] if rules.fixed[j] < 0 else lowest
    for t in range(steps):
        if rules.plain:
            opened = _roles(sizes, rules, slack, source, lab, diag, base)
        for s in range(0, n, BLOCK):
            e = s + BLOCK if s + BLOCK < n else n
            if i >= 0:
                _turn(W[i, s:e], G[a, s:e], G[d, s:e], own[s:e], lab[s:e], a, d)
            if rules.plain:
                _score(G, s, e, opened, own[s:e], base[s:e], scores[s:e])
        if not rules.plain:
            _score_ruled(c, G, sizes, rules, slack, own, diag, scores, dest)
        i = _argmax(scores, until, BIG, work)
        if i < 0 or (patience == 0 and 2.0 * scores[i] <= tol):
            i = -1
            break
        d, lands = _aim(c, G, sizes, rules, opened, dest, i)
        aspires = lands and value + 2.0 * scores[i] > best + tol and tenure < steps
        if until[i] > t and not aspires:
            top, i = i, _argmax(scores, until, float(t), work)
            i = top if i < 0 and excess(sizes, rules, NONE, NONE, NONE) > 0 else i
            if i < 0:
                continue
            d, lands = _aim(c, G, sizes, rules, opened, dest, i)
        value += 2.0 * scores[i]
        until[i] = t + 1 + tenure + int(uniform(rng) * (tenure // 2 + 1))
        G[c[i], i], own[i], G[d, i] = own[i], G[d, i], lowest
        a, lab[i], base[i] = relabel(c, sizes, rules, i, d), d, diag[i] if source[d] else lowest
        idle = 0 if lands and value > best + tol else idle + 1
        if idle == 0:
            best, fresh = value, True
        elif fresh:  # the climb is over: keep its top
            _copy(c, labels)
            labels[i], fresh = a, False
        if idle > 0 and idle >= patience:
            break
    if i >= 0:
        _turn(W[i, :n], G[a, :n], G[d, :n], own[:n], lab[:n], a, d)
    for j in range(n):
        G[c[j], j] = own[j]
    for j in range(0 if fresh or best == -BIG else n):
        move(W, c, G, sizes, rules, j, labels[j])
    return value if best == -BIG else best


def steepest(W: F, c: N, G: F, sizes: N, rules: Rules, max_moves: int) -> float:
    """At most max_moves steepest one-point moves; returns 0 in a local optimum."""
    return float(_walk(W, c, G, sizes, rules, max_moves, 0, 0, 0, np.ones(1, np.uint64)))


def tabu(W: F, c: N, G: F, sizes: N, rules: Rules, steps: int, tenure: int, rng: Rng) -> float:
    """One-flip tabu search for `steps` moves; ends in the best state met, returns its gain.

    A moved point rests for tenure .. 1.5 tenure steps, unless its move beats the best value. Bounds
    may be overstepped by one point (the largest weight) between two moves: tight sizes exchange.
    """
    return float(_walk(W, c, G, sizes, rules, steps, tenure, steps, rules.weights.max(), rng))


def descend(
    W: F, c: N, G: F, sizes: N, rules: Rules, max_moves: int, least: F | None = None
) -> float:
    """Steepest moves until none improves, then the steepest swap, and so on; least = row_least(W).

    Ends in a local optimum of both, unless max_moves swaps, or moves in a row, were made.
    """
    total, least = 0.0, row_least(W) if least is None else least
    for _ in range(max_moves):
        total += steepest(W, c, G, sizes, rules, max_moves)
        gain = best_swap(W, c, G, sizes, rules, least)
        if gain == 0.0:
            break
        total += gain
    return total


def kl_pass(W: F, c: N, G: F, sizes: N, rules: Rules, patience: int) -> float:
    """Kernighan-Lin pass: best moves, each point once, until `patience` brought no new best."""
    n, slack, rng = c.size, rules.weights.max(), np.ones(1, np.uint64)
    return float(_walk(W, c, G, sizes, rules, n, 2 * n, max(1, patience), slack, rng))


@loop
def anneal(W: F, c: N, G: F, sizes: N, rules: Rules, temperatures: F, rng: Rng) -> float:
    """Heat bath on exp(A / T), one sweep over the points per temperature; ends in the last state.

    A point draws its cluster among the feasible ones; where some are not, it proposes a swap.
    """
    total, u, diag = 0.0, np.empty(sizes.size, np.float64), np.empty(c.size, W.dtype)
    for j in range(c.size):
        diag[j] = W[j, j]
    for T in temperatures:
        for j in range(c.size):
            if rules.fixed[j] >= 0:
                continue
            a, w, tight = c[j], rules.weights[j], False
            stay = np.float64(G[a, j]) - np.float64(diag[j])
            top = stay
            for h in range(sizes.size):
                u[h] = stay if h == a else np.float64(G[h, j])
                if h == a:
                    continue
                if not rules.plain and conflicts(c, rules, j, h) > 0:
                    u[h], tight = -BIG, True
                elif sizes[a] - w < rules.low[a] or sizes[h] + w > rules.high[h]:
                    u[h], tight = -BIG, True
                top = u[h] if u[h] > top else top
            d = drawn(u, top, T, rng)
            if d != a and u[d] > 0.0:
                total += move(W, c, G, sizes, rules, j, d)
            i = int(uniform(rng) * c.size) if tight else j
            if c[i] != c[j] and feasible_swap(c, sizes, rules, i, j):
                gain = _swap_gain(W, c, G, i, j)
                if gain >= 0.0 or uniform(rng) < np.exp(gain / T):
                    total += swap(W, c, G, sizes, rules, i, j)
    return total


@loop
def shake(W: F, c: N, G: F, sizes: N, rules: Rules, d: int, alpha: int) -> float:
    """Cluster d claims alpha points, each the one of largest gain (UMC-RLS Algorithm 3, lines 5-8).

    Never takes a cluster below `low` or d above `high`: low 1 and high n are the paper's loop plus
    a guard against empty clusters. Stops when nothing may be claimed. Returns the change of A.
    """
    n, total, lowest = c.size, 0.0, W.dtype.type(-BIG)
    scores = _lowest(W, -(-n // BLOCK) * BLOCK)
    work, lab = scores[:BLOCK].copy(), scores[:n].copy()
    for j in range(n):
        lab[j] = c[j]
        if c[j] != d and rules.fixed[j] < 0:
            scores[j] = G[d, j] - G[c[j], j] + W[j, j]
    for _ in range(alpha):
        j = _argmax(scores, scores, BIG, work)
        while j >= 0 and not feasible_move(c, sizes, rules, j, d):
            for i in range(n):  # what may not be claimed now may not be claimed later in this call
                if i == j or (rules.plain and c[i] == c[j]):
                    scores[i] = lowest
            j = _argmax(scores, scores, BIG, work)
        if j < 0:
            break
        row, left = W[j], lab[j]
        total += move(W, c, G, sizes, rules, j, d)
        scores[j], lab[j] = lowest, d
        for i in range(n):
            scores[i] += row[i] + row[i] if lab[i] == left else row[i]
    return total


@inner
def _flip_gain(W: F, c: N, G: F, spots: N, old: N, m: int) -> float:
    """Change of A when the first m spots went from their old labels, as in G, to c: O(m^2)."""
    total = 0.0
    for p in range(m):
        i, a = spots[p], old[p]
        d = c[i]
        total += 2.0 * (G[d, i] - G[a, i] + W[i, i])
        for q in range(p):
            b, e = old[q], c[spots[q]]
            sign = int(d == e) + int(a == b) - int(d == b) - int(a == e)
            total += 2.0 * sign * W[i, spots[q]]
    return total


@loop
def evolve(
    W: F, pop: N, G: F, sizes: N, rules: Rules, values: F, order: N, t: int, generations: int,
    nu: int, rng: Rng,
) -> float:
    """Generations t, t + 1, .. of EvoMMC's Algorithm 1; returns the gain of the best individual.

    pop (., n), G (., k, n), sizes (., k), values (.,) = A, float64, have mu + nu slots; order lists
    them, the first mu alive, best first. A child of s flips costs O(s^2), a survivor O((s + k) n).
    """
    n, mu, start = pop.shape[1], order.size - nu, values[order[0]]
    spots, counts, deck = np.empty((3, nu, n), np.int64), np.zeros((2, nu), np.int64), np.arange(n)
    for g in range(t, t + generations):
        hope = False
        for q in range(nu):
            p, slot = order[int(uniform(rng) * mu)], order[mu + q]
            c, flipped, was, now = pop[p], spots[0, q], spots[1, q], spots[2, q]
            m = mutate(c, sizes[p], rules, max(1, n // (g + 1)), deck, flipped, was, rng)
            values[slot] = values[p] + _flip_gain(W, c, G[p], flipped, was, m) if m > 0 else -np.inf
            for r in range(m):
                now[r] = relabel(c, sizes[p], rules, flipped[r], was[r])
            counts[0, q], counts[1, q] = m, p
            hope |= values[slot] > values[order[mu - 1]]
        if not hope:
            continue
        ranking = np.argsort(-values[order], kind="mergesort")  # on ties parents stay
        for q in ranking[:mu] - mu:
            if q >= 0:
                slot, p = order[mu + q], counts[1, q]
                _copy(pop[p], pop[slot])
                _copy(sizes[p], sizes[slot])
                for h in range(G.shape[1]):
                    _copy(G[p, h], G[slot, h])
                for r in range(counts[0, q]):
                    move(W, pop[slot], G[slot], sizes[slot], rules, spots[0, q, r], spots[2, q, r])
        _copy(order[ranking], order)
    return values[order[0]] - start
