"""What a ridge regression leaves of its targets, computed so that no digits are lost.

With K the kernel and R = K (K + lam I)^-1, the loss of targets p is p'(I - R)p, and I - R =
lam (K + lam I)^-1 = B. At small lam R is almost I and B next to nothing, so B comes first and R
from it. A centred K has K1 = 0: B is then taken on the vectors of sum zero, where K + lam I + s J/n
has the same inverse for any s.

An error E of K, in its entries or as the backward error of a factorisation, turns z'Bz into
z'Bz - lam z'G E G z + ..., G = (K + lam I)^-1, which changes it by the share |E| |G| at most.
That share is what `rounding` holds; where it exceeds `LOST` there is nothing to compute.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.capabilities.matrices import Dense, Symmetric
from mmcopt.capabilities.tiled_factor import TiledFactor
from mmcopt.datasets.scratch import Scratch
from mmcopt.errors import BackendError, ParameterError
from mmcopt.kernels.block_features import BlockFeatures, held
from mmcopt.kernels.features import Features, gram_of
from mmcopt.linalg import UNIT, row_sum_norm, spd_inverse
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints

FADED = 1e20  # lam over the mean diagonal of the kernel, from which R is nothing but rounding
LARGE = 1e6  # the same ratio from which R is K G, since I - lam G would lose the digits of R
SMALL = 1e-4  # and that below which a factor is made without the squares of its features
STACKED = 4  # times the number of features: rows that are factorised together
FEW_DIGITS = 1e-6  # of n: losses below it are summed from B, and not from what R leaves of n


class RegressionMatrix(ABC):
    """R = K (K + shift I)^-1 and what it leaves, of a kernel of n samples.

    The `matrix` is R + flat J / n. ``named`` says how users know the shift: the name of the
    parameter, and what one unit of it adds to the shift.
    """

    def __init__(self, owner: str, n: int, shift: float, named: tuple[str, float],
                 centred: bool, flat: float) -> None:
        self.owner, self.n, self.shift, self.centred = owner, n, shift, centred
        self.named, self.flat = named, flat

    @property
    @abstractmethod
    def rounding(self) -> tuple[float, float]:
        """How far z'Bz may be from that of the exact data: a share, and what R adds for labels."""

    @functools.cached_property
    @abstractmethod
    def matrix(self) -> Symmetric:
        """R + flat J / n."""

    @abstractmethod
    def remains(self, labels: Ints, targets: Floats) -> float:
        """The sum of z'Bz over the columns z of the targets of all samples, ``targets[labels]``.

        To the digits that `rounding` says.
        """

    def _require(self, mean: float, size: float, error: float, share: float) -> None:
        """Refuse a shift at which nothing is left of B, or of R, but rounding.

        ``mean`` and ``size`` are the mean and the largest diagonal entry of the kernel, ``error``
        the norm of its error.
        """
        name, unit = self.named
        value = self.shift / unit
        if not share <= LOST:
            least = max(error / LOST, self.shift * (1 + 1e-3)) / unit
            raise ParameterError(
                f"{self.owner}: {name} = {value:g} is too small for this kernel of {self.n} "
                f"samples, whose entries reach {size:.3g}: their rounding alone could change the "
                f"objective by {min(share, 1.0):.1%}; give a {name} of at least {least:.2g}, or "
                "centre and rescale the data.")
        if self.shift > FADED * mean:
            raise ParameterError(
                f"{self.owner}: {name} = {value:g} is too large for this kernel, whose mean "
                f"diagonal entry is {mean:.3g}: all labels have the same objective to the last "
                f"digit; give a {name} of at most {FADED * mean / unit:.2g}.")


class DenseRegression(RegressionMatrix):
    """Of a kernel matrix, by Cholesky or, where it is at hand, its ``spectrum``.

    ``kernel`` makes the matrix, the error of an entry, and the size of entries as they were
    computed, before a mean was taken away.
    """

    def __init__(self, owner: str, n: int, kernel: Callable[[], tuple[Floats, float, float]],
                 shift: float, named: tuple[str, float], centred: bool, flat: float,
                 spectrum: Callable[[], tuple[Floats, Floats]] | None) -> None:
        super().__init__(owner, n, shift, named, centred, flat)
        self.kernel, self.spectrum = kernel, spectrum
        self._share: float | None = None

    @property
    def rounding(self) -> tuple[float, float]:
        if self._share is None:
            self.matrix.dense()  # makes B, and with it the share
        return float(self._share or 0.0), 4.0 * self.n * UNIT

    @functools.cached_property
    def matrix(self) -> Symmetric:
        """R + flat J / n, built when its entries are asked for."""
        return Dense(n=self.n, build=self._fitted)

    @functools.cached_property
    def _kept(self) -> Floats:
        """B, for losses of so few digits that they cannot be had from R."""
        return self._residual()

    def remains(self, labels: Ints, targets: Floats) -> float:
        Z = targets[labels]
        W, sums = self.matrix, Z.sum(axis=0)
        flat = self.flat - 1.0 if self.centred else self.flat
        value = float(np.sum(Z * Z) + flat * (sums @ sums) / self.n - W.association(Z))
        if value > FEW_DIGITS * self.n * Z.shape[1]:
            return value
        if self.centred:
            Z = Z - Z.mean(axis=0)
        return max(0.0, float(np.sum(Z * (self._kept @ Z))))

    def _fitted(self) -> Floats:
        n, B, K = self.n, self._residual(), self.kernel()[0]
        if self.shift >= LARGE * float(np.mean(np.diagonal(K))):
            R = (K / self.shift) @ B
            R = np.asarray((R + R.T) / 2) + self.flat / n
        else:
            B *= -1.0
            R = B
            R[np.diag_indices(n)] += 1.0
            R += (self.flat - 1.0 if self.centred else self.flat) / n
        return R

    def _residual(self) -> Floats:
        """B, in a new array."""
        n, (K, entry, size) = self.n, self.kernel()
        mean = float(np.mean(np.diagonal(K)))
        level = mean if self.centred else 0.0
        # Entries, and the backward error of a factorisation as it comes in practice.
        norm = row_sum_norm(K)
        error = n * entry + (8 + np.sqrt(n)) * UNIT * (norm + self.shift + level)
        self._require(mean, size, error, 0.0)
        if self.spectrum is not None:
            w, V = self.spectrum()
            least = float(w[0]) + self.shift
            share = error / least if least > 0.0 else np.inf
            self._require(mean, size, error, share)
            root = V * np.sqrt(self.shift / (w + self.shift))
            B = np.asarray(root @ root.T)
            if self.centred:
                rows = B.mean(axis=0)
                B -= rows[:, None] + rows - rows.mean()
        else:
            A = K + level / n
            A[np.diag_indices(n)] += self.shift
            try:
                B = spd_inverse(A)
            except BackendError:
                self._require(mean, size, error, np.inf)
                raise
            share = error * min(row_sum_norm(B), 1.0 / max(self.shift - error, 1e-300))
            self._require(mean, size, error, share)
            if self.centred:
                B -= 1.0 / (self.shift + level) / n
            B *= self.shift
        self._share = share
        return B


class FactorRegression(RegressionMatrix):
    """Of a kernel K = Phi Phi' with few features, which may come in blocks: R = Psi Psi'.

    ``blur`` is the error of a row of features beyond the rounding of its entries.
    """

    def __init__(self, owner: str, features: BlockFeatures, blur: float, shift: float,
                 named: tuple[str, float], centred: bool, flat: float) -> None:
        n, r = features.n, features.d
        super().__init__(owner, n, shift, named, centred, flat)
        self.features = features
        square = float(features.total_of(_square)[0])
        length = np.sqrt(square)
        # |p - Phi w|^2 + shift |w|^2 changes by 2 |p - Phi w| |E| |w| when Phi changes by E.
        error = 2 * ((r + 10) * UNIT * length + np.sqrt(n) * blur)
        share = error / np.sqrt(shift)
        self._require(square / n, features.longest, LOST * (error / LOST) ** 2, share)
        if shift < SMALL * square:
            self.root: Floats = self._triangle()
            factor = 4 * length / np.sqrt(shift)
        else:
            self.root, factor = np.linalg.cholesky(self._shifted()).T, square / shift
        self._rounding = share, n * (r + 8) * UNIT * max(1.0, factor)

    def _triangle(self) -> Floats:
        """The triangle of the QR factorisation of Phi above shift^1/2 I, some rows at a time."""
        r = self.features.d
        above, count = list[Floats](), 0
        for rows in self.features.each(_phi):
            if count >= STACKED * r:
                above, count = [np.asarray(np.linalg.qr(np.vstack(above), mode="r"))], r
            above.append(rows)
            count += len(rows)
        tall = np.vstack([*above, np.sqrt(self.shift) * np.eye(r)])
        root = np.linalg.qr(tall, mode="r")
        return np.asarray(root * np.where(np.diagonal(root) < 0.0, -1.0, 1.0)[:, None])

    def _shifted(self) -> Floats:
        """Phi'Phi + shift I."""
        gram = np.array(self.features.total_of(gram_of)[0])
        gram[np.diag_indices(len(gram))] += self.shift
        return gram

    @property
    def rounding(self) -> tuple[float, float]:
        return self._rounding

    @functools.cached_property
    def matrix(self) -> TiledFactor:
        """R + flat J / n as a factor: in a file, where rows come in blocks."""
        level = float(np.sqrt(self.flat / self.n))
        rows = self.features.each(_factor_rows, self.root, level)  # Phi is kept, and shared
        if not self.features.blocked:
            return TiledFactor(held(np.concatenate(list(rows)), self.owner))
        shape = self.n, self.features.d + bool(level)
        return TiledFactor(BlockFeatures.known(Scratch(rows, shape, self.owner), self.owner))

    def remains(self, labels: Ints, targets: Floats) -> float:
        given = targets, self._mean(labels, targets)
        # Next to the best w the loss is flat, so that an error of w counts squared; one correction
        # makes up for the digits that Psi has lost.
        products = self.features.total_of(_products, *given, along=labels)[0]
        w = self._solved(products)
        slope = self.features.total_of(_slope, *given, w, along=labels)[0] - self.shift * w
        w += self._solved(slope)
        rest = self.features.total_of(_rest, *given, w, along=labels)[0]
        return float(rest + self.shift * np.sum(w * w))

    def _mean(self, labels: Ints, targets: Floats) -> Floats:
        """The mean of the targets, which fits of centred features leave out."""
        if not self.centred:
            return np.zeros(targets.shape[1])
        counts = np.bincount(labels, minlength=len(targets))
        return np.asarray(counts @ targets / self.n)

    def _solved(self, V: Floats) -> Floats:
        """(Phi'Phi + shift I)^-1 V."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.root, solve_triangular(self.root, V, trans="T")))

    def weights(self, labels: Ints, targets: Floats) -> Floats:
        """The weights of features that fit the targets of labels best."""
        none = np.zeros(targets.shape[1])
        products = self.features.total_of(_products, targets, none, along=labels)[0]
        return np.asarray(np.linalg.solve(self._shifted(), products))


# ---------------------------------------------------------------- of some rows


def _square(part: Features) -> tuple[Any, ...]:
    return (float(np.sum(part.X * part.X)),)


def _phi(part: Features) -> Floats:
    return np.asarray(part.X)


def _factor_rows(part: Features, root: Floats, level: float) -> Floats:
    """Rows of Psi, with one more entry where a level is added to all of R."""
    from scipy.linalg import solve_triangular

    Psi = np.asarray(solve_triangular(root, part.X.T, trans="T").T)
    return np.hstack([Psi, np.full((part.n, 1), level)]) if level else Psi


def _products(part: Features, labels: Ints, targets: Floats, mean: Floats) -> tuple[Any, ...]:
    return (part.X.T @ (targets[labels] - mean),)


def _slope(part: Features, labels: Ints, targets: Floats, mean: Floats,
           w: Floats) -> tuple[Any, ...]:
    return (part.X.T @ (targets[labels] - mean - part.X @ w),)


def _rest(part: Features, labels: Ints, targets: Floats, mean: Floats,
          w: Floats) -> tuple[Any, ...]:
    return (float(np.square(targets[labels] - mean - part.X @ w).sum()),)
