"""Inner products in S^-1, rounding covered: what the bounds of `mmcopt.bounds.margin_tree` need.

``S = c I - 1/n sum_i g_i x_i x_i'`` is factorised once, for the g of the root, and samples become
``z_i = S^-1/2 x_i``. Where some g are lower by d_i, S gains ``1/n sum_i d_i x_i x_i'``, so that
``x'S^-1 x`` is ``z'(I + 1/n sum_i d_i z_i z_i')^-1 z``: the matrix in the middle has no eigenvalue
below 1, which makes its inverse easy to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.checks import require_memory
from mmcopt.errors import DataError
from mmcopt.kernels.features import Features
from mmcopt.linalg import UNIT, cholesky_succeeds, rump_margin
from mmcopt.types import Floats

NARROW = 96  # columns up to which the matrix in the middle is inverted, beyond which by samples
BATCH = 4e6  # numbers in an array of several points at a time


def sample_rows(features: Features) -> Floats:
    """Rows of the features, of which there are no more than samples.

    Beyond that they are those of a Cholesky factor of their inner products plus a small multiple of
    I that covers rounding. Such samples have further features, each of one sample alone; a problem
    with more features has a minimum that is no larger, so that a bound of it is one of the other.
    """
    n, d = features.n, features.d
    require_memory(8.0 * (4 * n * n + n * d), f"the inner products of {n} samples of {d} features",
                   "use fewer samples or features.")
    X = np.asarray(features.dense(), dtype=np.float64)
    if not X.any():
        raise DataError("all features are 0, so that all labels cost the same and there is nothing "
                        "to prove; check for equal rows.")
    if d <= n:
        return X
    K = X @ X.T
    trace = float(np.trace(K))
    shift = rump_margin(n, 2.0 * trace) + 4 * (d + 8) * UNIT * trace
    for _ in range(40):
        if cholesky_succeeds(K + shift * np.eye(n)):
            break
        shift *= 2.0
    return np.asarray(np.linalg.cholesky(K + 2.0 * shift * np.eye(n)))


@dataclass(frozen=True, eq=False)
class Squares:
    """Bounds at some dual points, of one q each or of k.

    ``square`` (B,) or (B, k) are those on q'S^-1 q / 4, ``own`` (B, n) those on x_i'S^-1 x_i, and
    ``scores`` (B, n) or (B, k, n) are about x_i'S^-1 q / 2. The matrix of the three, for one q and
    one x_i, is proved to be below that of these numbers, in the order of positive semidefinite
    matrices.
    """

    square: Floats
    own: Floats
    scores: Floats


class MarginMetric:
    """Samples z_i = S^-1/2 x_i of the g of the root; ``definite`` says whether S is, as proved."""

    def __init__(self, X: Floats, c: float, g: Floats) -> None:
        from scipy.linalg import solve_triangular

        self.n, self.r = X.shape
        n, r = X.shape
        A = X.T @ (g[:, None] * X) / n
        S = c * np.eye(r) - (A + A.T) / 2
        off = 4 * (n + r + 8) * UNIT * (c + float(np.trace(A)))  # rounding of S
        shift = rump_margin(r, float(np.abs(np.diagonal(S)).sum())) + off
        least = float(np.linalg.eigvalsh(S)[0]) / 2 if np.isfinite(S).all() else 0.0
        least -= 4 * shift
        self.definite = least > 0.0 and cholesky_succeeds(S - (least + 3 * shift) * np.eye(r))
        if not self.definite:
            return
        # L L' is below S, so that samples L^-1 x_i make bounds weaker, if anything.
        L = np.linalg.cholesky(S - shift * np.eye(r))
        self.Z = np.ascontiguousarray(solve_triangular(L, X.T, lower=True).T)
        self.lengths = np.sqrt(np.einsum("ij,ij->i", self.Z, self.Z))
        left = np.linalg.norm(X - self.Z @ L.T, axis=1)
        left += 4 * (r + 8) * UNIT * (np.linalg.norm(X, axis=1)
                                      + float(np.linalg.norm(L)) * self.lengths)
        self.error = float(np.max(left / np.maximum(self.lengths, 1e-300))) / np.sqrt(least)
        self.narrow = self.r <= NARROW

    @property
    def batch(self) -> int:
        """Points to be taken at a time."""
        size = max(self.r * self.r, self.n * self.r) if self.narrow else self.n
        return max(1, int(BATCH / size))

    def at(self, drop: Floats, u: Floats, wanted: Any) -> Squares:
        """Bounds at points of lower g by ``drop`` (B, n) and weights u, (B, n) or (B, k, n).

        Of samples that are not ``wanted`` (B, n) ``own`` and ``scores`` may be anything.
        """
        drop, several = drop / self.n, u if u.ndim == 3 else u[:, None]
        square, own, scores, error = (self._inverted if self.narrow else self._solved)(
            drop, several, wanted)
        # Rounding of z and of all sums, relative to the products of lengths.
        mass = np.einsum("bi,i->b", drop, self.lengths**2)
        error = error + 8 * (1.0 + mass) * (self.error + (self.n + 2 * self.r + 32) * UNIT)
        square = square + 0.5 * error[:, None] * (np.abs(several) @ self.lengths) ** 2
        own = own + 2.0 * error[:, None] * self.lengths**2
        return Squares(square, own, scores) if u.ndim == 3 \
            else Squares(square[:, 0], own, scores[:, 0])

    def _inverted(self, drop: Floats, u: Floats, wanted: Any) -> tuple[Floats, ...]:
        """By the inverse of the matrix in the middle, (r, r); its error is measured."""
        Z, r = self.Z, self.r
        pairs = getattr(self, "_pairs", None)
        if pairs is None:
            pairs = self._pairs = (Z[:, :, None] * Z[:, None, :]).reshape(self.n, r * r)
        middle = (drop @ pairs).reshape(-1, r, r) + np.eye(r)
        inverse = np.linalg.inv(middle)
        size = np.linalg.norm(middle, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
        error = np.linalg.norm(np.eye(r) - middle @ inverse, axis=(1, 2)) \
            + 4 * (self.n + r + 8) * UNIT * size
        q = u @ Z
        p = np.einsum("brs,bks->bkr", inverse, q)
        own = np.einsum("bnr,nr->bn", (Z @ inverse), Z)
        return 0.25 * np.einsum("bkr,bkr->bk", q, p), own, 0.5 * (p @ Z.T), error

    def _solved(self, drop: Floats, u: Floats, wanted: Any) -> tuple[Floats, ...]:
        """By systems over the samples whose g is lower: (I + DKD)^-1, D of the roots of drop."""
        K = getattr(self, "_K", None)
        if K is None:
            K = self._K = self.Z @ self.Z.T
        t, k = u @ K, u.shape[1]
        square, own = np.empty(u.shape[:2]), np.tile(np.diagonal(K), (len(u), 1))
        scores, error = 0.5 * t, np.zeros(len(u))
        weight = np.maximum(np.abs(u) @ self.lengths, 1e-300)
        for b in range(len(u)):
            low, cols = np.flatnonzero(drop[b]), np.flatnonzero(wanted[b])
            root = np.sqrt(drop[b, low])
            B = K[np.ix_(low, low)] * np.outer(root, root)
            B[np.diag_indices(len(low))] += 1.0
            right = np.column_stack([t[b][:, low].T, K[np.ix_(low, cols)]]) * root[:, None]
            A = np.linalg.solve(B, right)
            relative = np.append(weight[b], self.lengths[cols])
            left = np.linalg.norm(right - B @ A, axis=0) / np.maximum(relative, 1e-300)
            size = np.linalg.norm(right, axis=0) / np.maximum(relative, 1e-300)
            error[b] = float(left.max()) * float(size.max())
            square[b] = 0.25 * (np.einsum("kn,kn->k", u[b], t[b])
                                - np.einsum("ik,ik->k", right[:, :k], A[:, :k]))
            own[b, cols] -= np.einsum("ij,ij->j", right[:, k:], A[:, k:])
            scores[b][:, cols] -= 0.5 * (A[:, :k].T @ right[:, k:])
        return square, own, scores, error
