"""The coordinate sweep of the low-rank (mixing) method, compiled."""

from __future__ import annotations

import numpy as np

from mmcopt.compiled.loops import compiled
from mmcopt.types import Floats


@compiled(fastmath=True)
def sweep(R: Floats, b: Floats, t: float, top: float, V: Floats, s: Floats, u: Floats) -> float:
    """v_i <- sqrt(top) g / |g|, g = sum_{j != i} (R - t bb')_ij v_j, for all i in turn.

    V (m x p), s = V'b and u (the multipliers |g| / sqrt(top) + R_ii - t b_i^2) change in place.
    Returns how far the vectors moved: sum |change|^2.
    """
    m, p = V.shape
    moved, root = 0.0, np.sqrt(top)
    g = np.empty(p, dtype=V.dtype)
    for i in range(m):
        g[:] = 0
        for j in range(m):
            r = R[i, j]
            for c in range(p):
                g[c] += r * V[j, c]
        own = R[i, i] - t * b[i] * b[i]
        norm = 0.0
        for c in range(p):
            g[c] -= t * b[i] * s[c] + own * V[i, c]
            norm += g[c] * g[c]
        norm = np.sqrt(norm)
        u[i] = norm / root + own
        if norm > 0.0:
            for c in range(p):
                new = root * g[c] / norm
                change = new - V[i, c]
                moved += change * change
                s[c] += b[i] * change
                V[i, c] = new
    return moved
