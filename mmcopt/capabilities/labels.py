"""The capability of label problems that are quadratic: most of the searches and bounds need it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mmcopt.capabilities.label_problem import LabelProblem
from mmcopt.capabilities.matrices import Dense, LowRank
from mmcopt.linalg import largest_eigenvalue, smallest_eigenvalue, spd_inverse
from mmcopt.types import Floats, Ints

FLAT = 1e-12  # relative: a spread of eigenvalues that is rounding
UNITS = (1, 2, 4, 8, 16)  # what whole numbers may be over
LARGEST = 2.0**53  # all sums of them are exact up to here
SINGLE_FROM = 1000  # nodes above which smoothed problems are made in the working precision


@dataclass(frozen=True, eq=False)
class LabelQuadratic(LabelProblem):
    """Minimise ``const - scale * sum_h z_h' W z_h`` over labels, z_h the indicator of cluster h.

    Weights, sizes and links are those of `LabelProblem`. ``kernel`` makes the kernel matrix of the
    points, where there is one, for methods that compare with k-means. Of a W of whole numbers
    bounds are rounded up to a value that objectives can have (`raised`).

    >>> import numpy as np
    >>> lq = LabelQuadratic(np.array([[2., 1., 0.], [1., 2., 0.], [0., 0., 1.]]), const=9.0, k=2)
    >>> lq.value(np.array([0, 0, 1]))
    2.0
    """

    kernel: Callable[[], Floats] | None = None
    kernel_words: str | Callable[[], str] = "as given"

    # ------------------------------------------------------------ values

    @property
    def mass(self) -> float:
        """Bound on the sum of |W_ij|, to which the rounding of sums over W is relative."""
        if "mass" not in self._memo:
            self._memo["mass"] = self.matrix.mass()
        return float(self._memo["mass"])

    def association(self, c: Ints) -> float:
        """The sum of the entries of W within clusters."""
        return self.matrix.within(c, self.k)

    def associations(self, rows: Ints) -> Floats:
        """The same for many labelings, one a row: for few nodes."""
        W = self.matrix.dense()
        total = np.zeros(len(rows))
        for h in range(self.k):
            Z = (rows == h).astype(np.float64)
            total += np.einsum("ij,ij->i", Z @ W, Z)
        return total

    def _mended(self, c: Ints) -> bool:
        from mmcopt.compiled import label_moves

        if not isinstance(self.matrix, Dense):
            return False
        W = self.matrix.dense(self.dtype)
        G = label_moves.caches(W, c, self.k)
        sizes = label_moves.cluster_sizes(c, self.weights, self.k)
        return bool(label_moves.repair(W, c, G, sizes, self.rules()))

    # ------------------------------------------------------------ whole numbers

    @property
    def grid(self) -> tuple[Fraction, Fraction] | None:
        """A value and a step such that objectives differ from it by multiples of the step.

        It is there where W holds whole numbers off its diagonal, or such over a power of 2, and is
        not the rounding of another matrix. Of two clusters a node that changes sides changes the
        association by twice the sum r of its row beside the diagonal, less four times a sum of
        entries: where all entries and all r are even, say, so are a cut's weights.
        """
        if "grid" not in self._memo:
            self._memo["grid"] = self._grid()
        return self._memo["grid"]

    def _grid(self) -> tuple[Fraction, Fraction] | None:
        if self.rounding is not None or not self.matrix.is_dense:
            return None
        unit = next((u for u in UNITS if _whole(self.matrix.first_row() * u)
                     and _whole(self.matrix.beside()[0] * u)), None)
        if unit is None or unit * self.mass >= LARGEST:
            return None
        entries, sums = self.matrix.beside()
        step = _divisor(entries * unit)
        scale, diagonal = Fraction(self.scale), self.matrix.diagonal()
        base = Fraction(self.constant) - scale * sum(map(Fraction, diagonal.tolist()))
        if self.k == 2:
            base -= scale * Fraction(float(sums.sum()))
            step = math.gcd(2 * step, _divisor(sums * unit))
        return (base, 2 * abs(scale) * Fraction(step, unit)) if step else None

    def raised(self, bound: float) -> float:
        """The least objective that the grid allows and a lower bound does not exclude.

        >>> import numpy as np
        >>> LabelQuadratic(np.array([[0.0, 3.0], [3.0, 0.0]]), const=1.0, k=2).raised(-4.9)
        1.0
        """
        if self.grid is None or not math.isfinite(bound):
            return bound
        base, step = self.grid
        exact = base + math.ceil((Fraction(bound) - base) / step) * step
        out = float(exact)
        return max(bound, out if Fraction(out) <= exact else math.nextafter(out, -math.inf))

    # ------------------------------------------------------------ other problems

    def _merged(self, groups: Ints, m: int) -> dict[str, Any]:
        return {"kernel": None}

    def subset(self, rows: Ints) -> LabelQuadratic:
        """The problem on some of the nodes, size bounds scaled with their share of the weight.

        W is not recomputed: for R = K (K + lam I)^-1 its submatrix is, up to a factor and the
        sampling of rows, that of the smaller problem at lam m / n.
        """
        weights = self.weights[rows]
        share = weights.sum() / self.weights.sum()
        place = np.full(self.n, -1, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        apart = place[self.apart]
        return dataclasses.replace(
            self, W=self.matrix.subset(rows), const=0.0, weights=weights, groups=None,
            low=np.maximum(self.low > 0, np.floor(share * self.low)).astype(np.int64),
            high=np.ceil(share * self.high).astype(np.int64), fixed=self.fixed[rows],
            apart=apart[(apart >= 0).all(axis=1)], trivial=None, kernel=None)

    def smooth(self, t: float) -> LabelQuadratic:
        """The problem with W replaced by W_t = S (S + t (I - S))^-1, S = W scaled into [0, I].

        For W = K (K + lam I)^-1 this is the problem at ``t * lam``: larger t keeps fewer
        directions of W alive, and the landscape has fewer local optima (graduated
        non-convexity). One Cholesky inverse: W_t = (t A^-1 - I) / (t - 1), A = t I - (t - 1) S.
        Held in the working precision, and kept.
        """
        if t <= 1.0:
            return self
        if ("smooth", t) in self._memo:
            return self._memo["smooth", t]
        if isinstance(self.matrix, LowRank):
            out = dataclasses.replace(self, W=self.matrix.smoothed(t, self.dtype), trivial=None)
            self._memo["smooth", t] = out
            return out
        # Single precision where it is enough for searching and saves time worth speaking of.
        W = self.matrix.dense(self.dtype if self.n > SINGLE_FROM else np.float64)
        low, high = self.spread or (smallest_eigenvalue(W), largest_eigenvalue(W))
        if high - low <= FLAT * max(abs(low), abs(high)):  # a multiple of I has no directions
            return self
        A = W * (-(t - 1.0) / (high - low))
        diagonal = np.diag_indices(self.n)
        A[diagonal] += t + (t - 1.0) * low / (high - low)
        Wt = spd_inverse(A)
        Wt *= t / (t - 1.0)
        Wt[diagonal] -= 1.0 / (t - 1.0)
        out = dataclasses.replace(self, W=Dense.trusted(Wt.astype(self.dtype)), spread=(0.0, 1.0),
                                  trivial=None)
        self._memo["smooth", t] = out
        return out

    def smoothing(self, alive: int) -> float:
        """The t at which about ``alive`` eigenvalues of W_t are above one half; at least 2.

        Read off the spectrum of W_t at t = 1e4, whose leading eigenvalues are well apart even when
        those of W crowd at 1, by subspace iteration.
        """
        key = ("smoothing", alive)
        if key not in self._memo:
            if isinstance(self.matrix, LowRank):
                return _half(self.matrix.spectrum()[0], alive, 1.0)
            far = 1e4
            smoothed = self.smooth(far)
            if smoothed is self:
                return 2.0
            W = smoothed.matrix.dense(self.dtype)
            j = min(self.n - 1, alive)
            X = np.random.default_rng(0).standard_normal((self.n, min(self.n, j + 10)))
            for _ in range(4):
                X = np.linalg.qr(W @ X.astype(W.dtype))[0]
            w = np.sort(np.linalg.eigvalsh((X.T @ (W @ X)).astype(np.float64)))[::-1]
            self._memo[key] = _half(w, j, far)
            self._memo.pop(("smooth", far), None)  # another thread may have been faster
        return float(self._memo[key])



def _half(w: Floats, j: int, t: float) -> float:
    """Where eigenvalue j of W_t, which is w_j here at ``t``, falls to one half; at least 2."""
    at = float(np.clip(w[min(j, w.size - 1)], 1e-12, 1 - 1e-12))
    return max(2.0, t * at / (1.0 - at))


def _divisor(a: Floats) -> int:
    """The greatest common divisor of whole numbers."""
    return int(np.gcd.reduce(np.abs(a).astype(np.int64).ravel()))


def _whole(a: Floats) -> bool:
    return bool((a == np.rint(a)).all() and np.abs(a).max(initial=0.0) < LARGEST)
