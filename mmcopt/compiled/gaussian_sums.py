"""Compiled sums of Gaussians: rows of the kernel, decision functions, subgradient rounds.

Points are the columns of a C-contiguous (d, n) float64 array, so that a loop over points runs along
memory; exp is a polynomial of our own that compilers turn into vector instructions, right to 4 ulps
for arguments from -700 to 0 (and 1e-304 below). Jitted functions that call one another share a
file, because a cache does not notice that a callee in another one has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import compiled

F = Any  # float64 array; checkers cannot tell its items from its slices
N = Any  # int64 array

BLOCK = 512  # points worked on at a time: two buffers of this length stay in the first cache
FEW_FEATURES = 20  # up to which distances are added up one by one; beyond, products are faster
MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, held in the low bits
LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
SHIFT = np.int64(52)
# Contraction and signed zeros only: NaN and infinity keep their meaning.
vector = compiled(fastmath={"contract", "nsz", "arcp"})
# Sums may be reordered as well.
adding = compiled(fastmath={"contract", "nsz", "arcp", "reassoc"})


@vector
def exp_negative(x: F, t: F) -> None:
    """Replace x <= 0 by exp(x), in place; t is a buffer as long as x."""
    xi, ti = x.view(np.int64), t.view(np.int64)
    for j in range(x.size):
        v = max(x[j], -700.0)
        r = v * LOG2E + MAGIC
        whole = r - MAGIC
        f = (v - whole * LN2_HIGH) - whole * LN2_LOW
        p = 1.0 / 479001600.0
        p = p * f + 1.0 / 39916800.0
        p = p * f + 1.0 / 3628800.0
        p = p * f + 1.0 / 362880.0
        p = p * f + 1.0 / 40320.0
        p = p * f + 1.0 / 5040.0
        p = p * f + 1.0 / 720.0
        p = p * f + 1.0 / 120.0
        p = p * f + 1.0 / 24.0
        p = p * f + 1.0 / 6.0
        p = p * f + 0.5
        p = p * f + 1.0
        t[j] = r
        x[j] = p * f + 1.0
    for j in range(x.size):
        xi[j] += ti[j] << SHIFT  # times 2^whole, added to the exponent


@vector
def exp_rows(x: F) -> None:
    """Replace the entries of a matrix, none above 0, by their exp."""
    t = np.empty(BLOCK)
    for i in range(x.shape[0]):
        for s in range(0, x.shape[1], BLOCK):
            part = x[i, s:min(s + BLOCK, x.shape[1])]
            exp_negative(part, t[:part.size])


@vector
def _exponents(XT: F, s: int, point: F, gamma: float, out: F) -> None:
    """-gamma |x_j - point|^2 for the points from s on, as many as ``out`` holds."""
    d, end = XT.shape[0], s + out.size
    if d % 2:
        x, c = XT[0, s:end], point[0]  # slices: an index s + j might be negative, for a compiler
        for j in range(out.size):
            out[j] = (x[j] - c)**2
    else:
        out[:] = 0.0
    for q in range(d % 2, d, 2):  # two features in one pass over ``out``
        x, c = XT[q, s:end], point[q]
        y, e = XT[q + 1, s:end], point[q + 1]
        for j in range(out.size):
            out[j] += (x[j] - c)**2 + (y[j] - e)**2
    for j in range(out.size):
        out[j] *= -gamma


@vector
def gaussian_rows(XT: F, points: F, gamma: float, out: F) -> None:
    """Fill out (m, n): the kernel of the rows of ``points`` (m, d) against the columns of XT."""
    n = XT.shape[1]
    t = np.empty(BLOCK)
    for i in range(points.shape[0]):
        for s in range(0, n, BLOCK):
            m = min(BLOCK, n - s)
            part = out[i, s:s + m]
            _exponents(XT, s, points[i], gamma, part)
            exp_negative(part, t[:m])


@vector
def gaussian_sums(XT: F, centres: F, a: F, gamma: float, out: F) -> None:
    """out[j] = sum_i a_i exp(-gamma |x_j - centre_i|^2), without a matrix."""
    n = XT.shape[1]
    e, t = np.empty(BLOCK), np.empty(BLOCK)
    for s in range(0, n, BLOCK):
        m = min(BLOCK, n - s)
        part, b = out[s:s + m], e[:m]
        part[:] = 0.0
        for i in range(centres.shape[0]):
            _exponents(XT, s, centres[i], gamma, b)
            exp_negative(b, t[:m])
            w = a[i]
            for j in range(m):
                part[j] += w * b[j]


@vector
def combined(rows: F, slots: N, a: F) -> F:
    """sum_i a_i rows[slots_i], added up in the order of i."""
    n = rows.shape[1]
    out = np.zeros(n)
    for s in range(0, n, BLOCK):
        end = min(s + BLOCK, n)
        part = out[s:end]
        whole = slots.size - slots.size % 4
        for i in range(0, whole, 4):  # four rows in one pass over ``part``
            p, q, r, u = a[i], a[i + 1], a[i + 2], a[i + 3]
            b, c = rows[slots[i], s:end], rows[slots[i + 1], s:end]
            d, e = rows[slots[i + 2], s:end], rows[slots[i + 3], s:end]
            for j in range(part.size):
                part[j] += p * b[j] + q * c[j] + (r * d[j] + u * e[j])
        for i in range(whole, slots.size):
            b, p = rows[slots[i], s:end], a[i]
            for j in range(part.size):
                part[j] += p * b[j]
    return out


@adding
def weighted_sum(a: F, b: F) -> float:
    """Return a'b."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@vector
def gaussian_value(ST: F, m: int, a: F, gamma: float, x: F, e: F, t: F) -> float:
    """sum_i a_i exp(-gamma |x - s_i|^2) over the first m columns of ST; e and t are buffers."""
    total = 0.0
    for s in range(0, m, BLOCK):
        r = min(BLOCK, m - s)
        b = e[:r]
        _exponents(ST, s, x, gamma, b)
        exp_negative(b, t[:r])
        total += weighted_sum(a[s:s + r], b)
    return total


# ---------------------------------------------------------------- stochastic subgradient

# The state of the rounds is w_t = C / (t - 1) v, v = sum_i counts_i phi_i; ``memory`` = (rounds
# done, |v|^2, samples that have a count, 1 once a round has moved w by ``theta`` at most).


@vector
def _noted(memory: F, C: float, inner: float, diagonal: float, theta: float) -> bool:
    """Note a round with a sample of v'phi = inner, |phi|^2 = diagonal; whether it is added to v."""
    done, square = memory[0], memory[1]
    violated = done == 0.0 or C * inner < done
    back = 1.0 / (done + 1.0) - (1.0 / done if done > 0.0 else 0.0)
    moved = back * back * square  # |w_{t+1} - w_t|^2 / C^2
    if violated:
        moved += 2.0 * back * inner / (done + 1.0) + diagonal / (done + 1.0)**2
        memory[1] = square + 2.0 * inner + diagonal
    memory[0] = done + 1.0
    if C * np.sqrt(max(moved, 0.0)) <= theta:
        memory[3] = 1.0
    return violated


@vector
def gaussian_rounds(X: F, gamma: float, picks: N, C: float, theta: float, counts: N, place: N,
                    ST: F, raw: F, memory: F) -> int:
    """Rounds of stochastic subgradient on Gaussians; how many were done.

    ``ST`` (d, room) holds the samples with a count, ``raw`` their counts as floats, ``place`` where
    a sample stands (-1: nowhere). Rounds end once a move is no longer than ``theta``.
    """
    e, t = np.empty(BLOCK), np.empty(BLOCK)
    for r in range(picks.size):
        i, held = picks[r], int(memory[2])
        inner = gaussian_value(ST, held, raw, gamma, X[i], e, t)
        if _noted(memory, C, inner, 1.0, theta):
            counts[i] += 1
            if place[i] < 0:
                place[i] = held
                for q in range(X.shape[1]):
                    ST[q, held] = X[i, q]
                memory[2] = held + 1
            raw[place[i]] += 1.0
        if memory[3] == 1.0:
            return r + 1
    return picks.size


@vector
def matrix_rounds(K: F, picks: N, C: float, theta: float, counts: N, place: N, at: N, raw: F,
                  memory: F) -> int:
    """`gaussian_rounds` for a kernel matrix; ``at`` lists the samples that have a count."""
    for r in range(picks.size):
        i, held = picks[r], int(memory[2])
        row, inner = K[i], 0.0
        for j in range(held):
            inner += raw[j] * row[at[j]]
        if _noted(memory, C, inner, row[i], theta):
            counts[i] += 1
            if place[i] < 0:
                place[i] = held
                at[held] = i
                memory[2] = held + 1
            raw[place[i]] += 1.0
        if memory[3] == 1.0:
            return r + 1
    return picks.size


@vector
def feature_rounds(Phi: F, picks: N, C: float, theta: float, counts: N, v: F, memory: F) -> int:
    """`gaussian_rounds` for features (n, r): v itself is kept."""
    for r in range(picks.size):
        i = picks[r]
        phi = Phi[i]
        if _noted(memory, C, weighted_sum(v, phi), weighted_sum(phi, phi), theta):
            counts[i] += 1
            for q in range(v.size):
                v[q] += phi[q]
        if memory[3] == 1.0:
            return r + 1
    return picks.size


# ---------------------------------------------------------------- streaming


@vector
def budgeted_rounds(X: F, gamma: float, C: float, ST: F, raw: F, memory: F) -> None:
    """One round on each row of X, in order: `gaussian_rounds` with no more points than a budget.

    ``ST`` (d, budget + 1) holds the support vectors and ``raw`` their counts; merging makes both
    fractional. ``memory`` holds the rounds done, the vectors held, and the margin violations.
    """
    room = raw.size
    e, t = np.empty(BLOCK), np.empty(BLOCK)
    buffers = np.empty((4, room))
    done, held = memory[0], int(memory[1])
    for r in range(X.shape[0]):
        inner = gaussian_value(ST, held, raw, gamma, X[r], e, t)
        if done == 0.0 or C * inner < done:
            memory[2] += 1.0
            at = _place_of(ST, held, X[r])
            if at < held:
                raw[at] += 1.0
            else:
                for q in range(X.shape[1]):
                    ST[q, held] = X[r, q]
                raw[held] = 1.0
                held += 1
            if held == room:
                held = merge_lightest(ST, held, raw, gamma, buffers)
        done += 1.0
    memory[0], memory[1] = done, held


@vector
def _place_of(ST: F, held: int, x: F) -> int:
    """Column of ST that equals x, or ``held``."""
    for j in range(held):
        if ST[0, j] == x[0]:
            same = True
            for q in range(1, x.size):
                same = same and ST[q, j] == x[q]
            if same:
                return j
    return held


@vector
def merge_lightest(ST: F, held: int, raw: F, gamma: float, buffers: F) -> int:
    """Merge the vector of least count with the one that costs v = sum raw phi least.

    Two terms a phi(x) + b phi(y) become (a k(x, z) + b k(y, z)) phi(z), the nearest multiple of
    phi(z), with z between them; what is lost is a^2 + b^2 + 2 a b k(x, y) less the square of the
    new coefficient. Partners are compared at the weighted mean and at z = y.
    """
    p = int(np.argmin(raw[:held]))
    x, a = ST[:, p].copy(), raw[p]
    whole, mine, theirs, t = (buffers[0, :held], buffers[1, :held], buffers[2, :held],
                              buffers[3, :held])
    _exponents(ST, 0, x, gamma, whole)
    for j in range(held):
        h = a / (a + raw[j])
        mine[j] = whole[j] * (1.0 - h) * (1.0 - h)
        theirs[j] = whole[j] * h * h
    exp_negative(mine, t)
    exp_negative(theirs, t)
    exp_negative(whole, t)
    best, least = (1 if p == 0 else 0), np.inf  # whatever NaN may say below
    for j in range(held):
        b = raw[j]
        new = max(a * mine[j] + b * theirs[j], a * whole[j] + b)
        lost = a * a + b * b + 2.0 * a * b * whole[j] - new * new
        if j != p and lost < least:
            best, least = j, lost
    return _merged(ST, held, raw, gamma, p, best)


@vector
def _merged(ST: F, held: int, raw: F, gamma: float, p: int, j: int) -> int:
    """Put z = y + h (x - y) and its count in the place of y = s_j, and the last vector in p's."""
    square = 0.0
    for q in range(ST.shape[0]):
        square += (ST[q, p] - ST[q, j])**2
    a, b, u = raw[p], raw[j], -gamma * square
    h = _between(u, a, b)
    raw[j] = _merged_count(u, a, b, h)
    for q in range(ST.shape[0]):
        ST[q, j] += h * (ST[q, p] - ST[q, j])
        ST[q, p] = ST[q, held - 1]
    raw[p] = raw[held - 1]
    return held - 1


@vector
def _merged_count(u: float, a: float, b: float, h: float) -> float:
    """Return a k(x, z) + b k(y, z) for z = y + h (x - y), with u = log k(x, y)."""
    return a * np.exp(u * (1.0 - h)**2) + b * np.exp(u * h * h)


@vector
def _between(u: float, a: float, b: float) -> float:
    """The h that makes the merged count largest; it is at most 1/2, as a <= b (golden section)."""
    ratio = 0.6180339887498949
    low, high = 0.0, 0.5
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = _merged_count(u, a, b, left), _merged_count(u, a, b, right)
    for _ in range(40):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = _merged_count(u, a, b, right)
        else:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = _merged_count(u, a, b, left)
    return 0.5 * (low + high)
