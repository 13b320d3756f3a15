"""Literal NumPy transcriptions of the papers' steps, to be timed beside ours.

They use the papers' own caches (R p_h; y'V), so that a step costs what the papers say; nothing of
mmcopt is imported.
"""

import numpy as np


class ShakingState:
    """Caches of UMC-RLS, Assumption 1: R, the sign vectors p_h, R p_h, and the labels."""

    def __init__(self, R, c, k):
        self.R = R
        self.c = c.copy()
        self.P = np.where(np.arange(k)[:, None] == c, 1.0, -1.0).astype(R.dtype)
        self.T = self.P @ R
        self.diagonal = np.diagonal(R).copy()
        self.rows = np.arange(len(c))

    def switch(self, j, d):
        """Give j the label d (Lemma 3)."""
        a = self.c[j]
        self.P[a, j], self.P[d, j] = -1.0, 1.0
        self.T[a] -= 2.0 * self.R[j]
        self.T[d] += 2.0 * self.R[j]
        self.c[j] = d

    def flips(self, h):
        """D(p_h, j) for all j (eq. 17)."""
        return 4.0 * self.P[h] * self.T[h] - 4.0 * self.diagonal


def shaking_step(s, d):
    """Algorithm 3, lines 6 and 7: cluster d claims the sample that costs least."""
    own = 4.0 * s.P[s.c, s.rows] * s.T[s.c, s.rows] - 4.0 * s.diagonal
    S = own + s.flips(d)
    S[s.c == d] = np.inf
    s.switch(int(np.argmin(S)), d)


def steepest_step(s):
    """Algorithm 2: the best of all n k changes; False in a local optimum."""
    D = 4.0 * s.P * s.T - 4.0 * s.diagonal
    S = D + D[s.c, s.rows]
    S[s.c, s.rows] = 0.0
    d, j = np.unravel_index(np.argmin(S), S.shape)
    if S[d, j] >= 0.0:
        return False
    s.switch(int(j), int(d))
    return True


class Population:
    """EvoMMC's Algorithm 1 with the fitness of Theorem 1: y'V kept for every individual."""

    def __init__(self, V, D, mu, nu, limit, rng):
        self.V, self.D, self.nu, self.limit, self.rng = V, D, nu, limit, rng
        n = V.shape[0]
        base = np.where(np.arange(n) < n // 2, 1.0, -1.0)
        self.Y = np.array([rng.permutation(base) for _ in range(mu)])
        self.YV = self.Y @ V
        self.F = 1.0 + (self.YV**2) @ D
        self.t = 1


def mutated(p, y, s):
    """Flip s coordinates of y; where the balance would break, swap with one of the other label."""
    y = y.copy()
    for i in p.rng.choice(len(y), size=s, replace=False):
        y[i] = -y[i]
        if abs(y.sum()) > p.limit:
            others = np.flatnonzero(y == y[i])
            others = others[others != i]
            j = others[p.rng.integers(len(others))]
            y[j] = -y[j]
    return y


def generation(p):
    """One pass of lines 5 to 12, O(nu s n)."""
    n, mu = p.Y.shape[1], p.Y.shape[0]
    s = max(1, n // (p.t + 1))
    Y, YV, F = [*p.Y], [*p.YV], [*p.F]
    for _ in range(p.nu):
        q = p.rng.integers(mu)
        y = mutated(p, p.Y[q], s)
        S = np.flatnonzero(y != p.Y[q])
        yV = p.YV[q] + (y[S] - p.Y[q][S]) @ p.V[S]  # eq. 11
        Y.append(y)
        YV.append(yV)
        F.append(1.0 + (yV * p.D) @ yV)
    order = np.argsort(F, kind="stable")[:mu]
    p.Y = np.array([Y[i] for i in order])
    p.YV = np.array([YV[i] for i in order])
    p.F = np.array([F[i] for i in order])
    p.t += 1
