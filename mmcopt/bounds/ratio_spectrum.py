"""The bound of k-means and its kin by eigenvalues: clusters as directions that are orthonormal."""

from __future__ import annotations

import numpy as np

from mmcopt.capabilities import LabelRatio
from mmcopt.capabilities.matrices import LowRank
from mmcopt.linalg import UNIT, proved_psd_shift, rump_margin
from mmcopt.types import Floats

FEW = 400  # rows up to which all eigenvalues are as fast as some


def ratio_eig_bound(ratio: LabelRatio) -> float:
    """Lower bound of a `LabelRatio` by its leading eigenvalues; it has no dual point.

    With D = diag(v), the columns D^1/2 z_h / (v'z_h)^1/2 are orthonormal, and u = D^1/2 1 / |D^1/2
    1| lies in their span. Hence the association is at most u'Eu plus the sum of the k - 1 largest
    eigenvalues of (I - uu') E (I - uu'), E = D^-1/2 W D^-1/2: the classical bound of k-means. Their
    sum is at most (k - 1) t + tr Z for any t and any Z >= 0 with t I + Z - E >= 0, which is raised
    until a Cholesky factorisation proves it.
    """
    total = float(ratio.volumes.sum())
    level = ratio.matrix.total() / total
    A, blur = _deflated(ratio, total)
    upper = level + sum_of_largest(A, ratio.k - 1, blur) if ratio.k > 1 else level
    size = abs(ratio.constant) + abs(ratio.scale) * (ratio.mass + abs(upper) + abs(level))
    margin = (ratio.n + 8) * UNIT * size
    return ratio.safe(float(ratio.constant - ratio.scale * upper - margin))


def _deflated(ratio: LabelRatio, total: float) -> tuple[Floats, float]:
    """A matrix of the eigenvalues of (I - uu') E (I - uu') but for zeros; how far they may be off.

    For W = Psi Psi' one of as many rows as Psi has columns.
    """
    root = np.sqrt(ratio.volumes)
    u, n = root / np.sqrt(total), ratio.n
    if isinstance(ratio.matrix, LowRank):
        A = ratio.matrix.gram_across(root, u)
        return A, (n + 32) * UNIT * float((ratio.matrix.diagonal() / root**2).sum())
    E = ratio.matrix.dense() / np.outer(root, root)
    size = float(np.linalg.norm(E))
    Eu = E @ u
    E -= np.outer(u, Eu) + np.outer(Eu, u) - float(u @ Eu) * np.outer(u, u)
    return (E + E.T) / 2, (n + 32) * UNIT * size


def sum_of_largest(A: Floats, j: int, blur: float) -> float:
    """Upper bound on the sum of the j largest eigenvalues of a symmetric array, zeros added.

    ``blur`` bounds the error of A in the spectral norm.
    """
    m = len(A)
    j = min(j, m)
    if j == 0:
        return 0.0
    w, V = _leading(A, j)
    t = max(float(w.min()), 0.0)
    Z = (V * np.maximum(w - t, 0.0)) @ V.T
    S = Z - A
    S[np.diag_indices(m)] += t
    t += proved_psd_shift(S, 2.0 * rump_margin(m, float(np.abs(np.diagonal(S)).sum())))
    t += 4.0 * m * UNIT * float(np.abs(A).max() + np.abs(Z).max(initial=0.0)) + blur
    return float(j * t + np.trace(Z) * (1.0 + 4.0 * m * UNIT))


def _leading(A: Floats, j: int) -> tuple[Floats, Floats]:
    """About the j largest eigenvalues and their vectors."""
    from scipy.sparse.linalg import ArpackError, eigsh

    m = len(A)
    if m > FEW and 10 * j < m:
        try:
            found = eigsh(A, k=j, which="LA", v0=np.random.default_rng(0).standard_normal(m))
            return np.asarray(found[0]), np.asarray(found[1])
        except ArpackError:  # as of a matrix of nothing but rounding
            pass
    w, V = np.linalg.eigh(A)
    return w[m - j:], V[:, m - j:]
