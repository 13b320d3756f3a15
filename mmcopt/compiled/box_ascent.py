"""Coordinate ascent on a box-constrained dual: passes over a working set, and its gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.compiled.loops import compiled

# Contraction and reordering of sums only: NaN and infinity keep their meaning.
loop = compiled(error_model="numpy",
            fastmath={"contract", "nsz", "arcp", "reassoc"})


@loop
def ascend(G: Any, a: Any, g: Any, upper: Any, target: float, passes: int) -> int:
    """Ascend on a set until its gap is at most ``target``; the number of passes taken.

    ``g = 1 - Ka`` on the set, G the kernel within it; both vectors change in place. A pass takes an
    exact step on one coordinate after another; coordinates that cannot move cost next to nothing.
    """
    n = a.size
    for p in range(passes):
        gap = 0.0
        for i in range(n):
            gap += upper[i] * max(g[i], 0.0) - a[i] * g[i]
        if gap <= target:
            return p
        for i in range(n):
            step = min(max(a[i] + g[i] / G[i, i], 0.0), upper[i]) - a[i]
            if step != 0.0:
                a[i] += step
                row = G[i]
                for j in range(n):
                    g[j] -= step * row[j]
    return passes


@loop
def survey(a: Any, g: Any, upper: Any, gaps: Any) -> tuple[float, float, float]:
    """Primal objective and gap of a point, the largest s <= 2 for which s a stays in the box.

    ``gaps`` is filled with what each sample adds to the gap.
    """
    square, losses, linear, room = 0.0, 0.0, 0.0, 2.0
    for i in range(a.size):
        loss = upper[i] * max(g[i], 0.0)
        gaps[i] = loss - a[i] * g[i]
        square += a[i] * (1.0 - g[i])
        losses += loss
        linear += a[i]
        if a[i] > 0.0:
            room = min(room, upper[i] / a[i])
    primal = 0.5 * square + losses
    return primal, primal - (linear - 0.5 * square), room


@loop
def stretch(a: Any, g: Any, upper: Any, high: float) -> tuple[float, float, float]:
    """The best s of s a, from 1 to ``high``, with its primal objective and gap, by bisection."""
    square, linear, short = 0.0, 0.0, np.empty(a.size, np.int64)
    m = 0
    for i in range(a.size):
        square += a[i] * (1.0 - g[i])
        linear += a[i]
        if g[i] > 0.0:
            short[m] = i
            m += 1
    low = 1.0
    for _ in range(40):  # J(s) = s^2 square / 2 + sum upper max(0, 1 - s f) is convex
        s = (low + high) / 2
        slope = s * square
        for k in range(m):
            f = 1.0 - g[short[k]]
            if s * f < 1.0:
                slope -= upper[short[k]] * f
        if slope < 0.0:
            low = s
        else:
            high = s
    losses = 0.0
    for k in range(m):
        losses += upper[short[k]] * max(1.0 - high * (1.0 - g[short[k]]), 0.0)
    primal = 0.5 * high**2 * square + losses
    return high, primal, primal - (high * linear - 0.5 * high**2 * square)
