"""Cuts on the lifted k-means problem: finding the violated ones, and the projection onto them.

A cut (i, j, l) is X_ij + X_il <= X_ii + X_jl, and X_ij <= X_ii where l is -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import INNER, compiled
from mmcopt.types import Floats, Ints


@compiled()
def most_violated(X: Floats) -> float:
    """The largest violation of a cut by X, or 0."""
    n, worst = X.shape[0], 0.0
    for i in range(n):
        beyond = X[i].max() - X[i, i]
        for j in range(n):
            if j == i or X[i, j] + beyond <= worst:
                continue
            a = X[i, j] - X[i, i]
            worst = max(worst, a)
            for h in range(j + 1, n):
                if h != i:
                    worst = max(worst, a + X[i, h] - X[j, h])
    return worst


@compiled(**INNER)
def _thinned(out: Ints, by: Floats, most: int) -> float:
    """Keep the ``most`` most violated of a full list, in place; the violation of the last."""
    edge = np.partition(by, len(by) - most)[len(by) - most]
    kept = 0
    for strict in (True, False):
        for c in range(kept, len(by)):
            if kept < most and (by[c] > edge if strict else by[c] == edge):
                by[c], by[kept] = by[kept], by[c]
                for p in range(3):
                    out[c, p], out[kept, p] = out[kept, p], out[c, p]
                kept += 1
    return edge


@compiled()
def collect(X: Floats, least: float, most: int, out: Ints, by: Floats) -> int:
    """Write cuts violated by more than ``least``: at least the ``most`` most violated of them.

    ``out`` and ``by`` have room for more than ``most``.
    """
    n, found, room = X.shape[0], 0, len(by)
    for i in range(n):
        beyond = X[i].max() - X[i, i]  # X_ij + this is at least the violation
        for j in range(n):
            if j == i or X[i, j] + beyond <= least:
                continue
            a = X[i, j] - X[i, i]
            for h in range(j, n):
                v = a if h == j else a + X[i, h] - X[j, h]
                if v <= least or h == i:
                    continue
                if found == room:
                    least, found = _thinned(out, by, most), most
                    if v <= least:
                        continue
                out[found, 0], out[found, 1] = i, j
                out[found, 2] = -1 if h == j else h
                by[found] = v
                found += 1
    return found


@compiled(**INNER)
def _add(D: Floats, i: int, j: int, what: Any) -> None:
    """Add to an entry of the upper triangle."""
    if i <= j:
        D[i, j] += what
    else:
        D[j, i] += what


@compiled(**INNER)
def _at(D: Floats, i: int, j: int) -> float:
    """The positive part of an entry of the upper triangle."""
    return max(D[i, j] if i <= j else D[j, i], 0.0)


@compiled(**INNER)
def _subtract(D: Floats, cuts: Ints, c: int, d: float, r: Floats) -> None:
    """Subtract d times the matrix of a cut, scaled by r on both sides."""
    i, j, h = cuts[c]
    _add(D, i, j, -0.5 * d * r[i] * r[j])
    D[i, i] += d * r[i] * r[i]
    if h >= 0:
        _add(D, i, h, -0.5 * d * r[i] * r[h])
        _add(D, j, h, 0.5 * d * r[j] * r[h])


@compiled()
def subtract(D: Floats, cuts: Ints, g: Floats, r: Floats) -> None:
    """Subtract the matrices of cuts, times g, from the upper triangle of D."""
    for c in range(len(cuts)):
        if g[c] != 0.0:
            _subtract(D, cuts, c, g[c], r)


@compiled()
def project(D: Floats, cuts: Ints, g: Floats, r: Floats, d: Floats, least: Floats, most: Floats,
            sweeps: int) -> None:
    """Towards the projection of a matrix onto the cuts and X >= 0, by Hildreth's sweeps.

    The matrix less the cuts times g is the upper triangle of D, the positive part of which is the
    point: each cut in turn takes the multiplier g_c >= 0 at which it holds, or less. Where d is not
    empty, the diagonal is held between ``least`` and ``most`` in the same way, by d.
    """
    for _ in range(sweeps):
        for i in range(len(d)):
            own = D[i, i] + d[i]
            D[i, i] = min(max(own, least[i]), most[i])
            d[i] = own - D[i, i]
        for c in range(len(cuts)):
            i, j, h = cuts[c]
            ij, ii = r[i] * r[j], r[i] * r[i]
            v, norm = ij * _at(D, i, j) - ii * _at(D, i, i), 0.5 * ij * ij + ii * ii
            if h >= 0:
                ih, jh = r[i] * r[h], r[j] * r[h]
                v += ih * _at(D, i, h) - jh * _at(D, j, h)
                norm += 0.5 * (ih * ih + jh * jh)
            by = max(-g[c], v / norm)
            if by != 0.0:
                g[c] += by
                _subtract(D, cuts, c, by, r)


@compiled()
def mirrored(D: Floats) -> None:
    """Copy the upper triangle onto the lower one, in place."""
    for i in range(D.shape[0]):
        for j in range(i):
            D[i, j] = D[j, i]
