"""A factor whose rows lie in memory or in a file, and are gone through some at a time.

Wherever they lie the sums are the same to the last digit, and so are the paths of searches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.capabilities.matrices import Dense, LowRank
from mmcopt.checks import fits_in_memory, give_back, require_memory
from mmcopt.datasets.scratch import Scratch
from mmcopt.kernels.block_features import BlockFeatures
from mmcopt.kernels.features import Features, gram_of
from mmcopt.types import Floats, Ints


class TiledFactor(LowRank):
    """W = Psi Psi' for rows of Psi that may lie in a file, to all of their digits.

    What a search goes through in any order is a copy in its precision: in memory, or in a file that
    is mapped where it is larger than `require_memory` allows.
    """

    def __init__(self, features: BlockFeatures) -> None:
        self.features, self.n = features, features.n
        self._Psi: dict[str, Floats] = {}
        self._files: list[Scratch] = []  # which go when this does
        self._dense: Dense | None = None
        self._spectrum: tuple[Floats, Floats] | None = None

    @property
    def rank(self) -> int:
        return self.features.d

    def factor(self) -> Floats:
        return self.factor_as(np.float64)

    def factor_as(self, dtype: Any) -> Floats:
        kind = np.dtype(dtype)
        if kind.name not in self._Psi:
            self._Psi[kind.name] = self._copy(kind)
        return self._Psi[kind.name]

    def _copy(self, kind: np.dtype[Any]) -> Floats:
        """All rows in a precision."""
        if not self.features.blocked and kind == np.float64:
            return self.features.dense()
        rows, shape = self.features.each(_rows_as, kind), (self.n, self.rank)
        if not fits_in_memory(float(self.n) * self.rank * kind.itemsize):
            self._files.append(Scratch(rows, shape, self.features.owner, kind))
            return self._files[-1].mapped()
        give_back()
        out, start = np.empty(shape, dtype=kind), 0
        for part in rows:
            out[start:start + len(part)] = part
            start += len(part)
        return out

    def let_go(self) -> None:
        if self.features.blocked:
            self._Psi.clear()
            self._files.clear()
            give_back()

    def rows_over(self, volumes: Floats) -> Floats:
        X = self._copy(np.dtype(np.float64))
        return X if (volumes == 1.0).all() else X / volumes[:, None]

    def gram_across(self, root: Floats, u: Floats) -> Floats:
        both = np.column_stack([root, u])
        lost = self.features.total_of(_part_along, along=both)[0]
        return np.asarray(self.features.total_of(_gram_across, lost, along=both)[0])

    def gram(self) -> Floats:
        return np.asarray(self.features.total_of(gram_of)[0])

    def dense(self, dtype: Any = np.float64) -> Floats:
        require_memory(8.0 * self.n * self.rank, f"the {self.n} x {self.rank} factor",
                       "use a solver that works on the factor: Memetic, StochasticDescent or "
                       "Evolutionary.")
        return super().dense(dtype)

    def __matmul__(self, V: Floats) -> Floats:
        sums = self.features.total_of(_inner, along=V)[0]
        return np.concatenate(self.features.gathered(_outer, sums))

    def mass(self) -> float:
        return float(np.square(self.features.total_of(_sizes)[0]).sum())

    def association(self, Z: Floats) -> float:
        return float(np.square(self.features.total_of(_inner, along=Z)[0]).sum())

    def _sums(self, c: Ints, k: int) -> Floats:
        return self._grouped(c, k)

    def _grouped(self, groups: Ints, m: int) -> Floats:
        """The sum of the rows of each group."""
        return np.asarray(self.features.total_of(_group_sums, m, along=np.asarray(groups))[0])

    def _taken(self, index: Ints) -> Floats:
        """Some rows."""
        wanted = np.zeros(self.n, dtype=bool)
        wanted[index] = True
        place = np.cumsum(wanted)[index] - 1
        return np.asarray(np.concatenate(self.features.gathered(_chosen, along=wanted))[place])

    def column(self, j: int) -> Floats:
        return np.concatenate(self.features.gathered(_outer, self._taken(np.array([j]))[0]))

    def diagonal(self) -> Floats:
        return np.concatenate(self.features.gathered(_squares))

    def contract(self, groups: Ints, m: int, dtype: Any = np.float64) -> LowRank:
        return LowRank(self._grouped(groups, m))

    def subset(self, rows: Ints) -> Dense:
        Psi = self._taken(np.asarray(rows))
        return Dense.trusted(Psi @ Psi.T)


# ---------------------------------------------------------------- of some rows


def _rows_as(part: Features, kind: np.dtype[Any]) -> Floats:
    return np.asarray(part.X, dtype=kind)


def _inner(part: Features, V: Floats) -> tuple[Any, ...]:
    return (part.X.T @ V,)


def _outer(part: Features, sums: Floats) -> Floats:
    return np.asarray(part.X @ sums)


def _part_along(part: Features, both: Floats) -> tuple[Any, ...]:
    """The part of rows over a root along a vector."""
    return ((both[:, 1] / both[:, 0]) @ part.X,)


def _gram_across(part: Features, both: Floats, lost: Floats) -> tuple[Any, ...]:
    rows = part.X / both[:, :1] - np.outer(both[:, 1], lost)
    return (rows.T @ rows,)


def _sizes(part: Features) -> tuple[Any, ...]:
    return (np.abs(part.X).sum(axis=0),)


def _squares(part: Features) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", part.X, part.X))


def _chosen(part: Features, wanted: Any) -> Floats:
    return np.asarray(part.X[wanted])


def _group_sums(part: Features, groups: Ints, m: int) -> tuple[Any, ...]:
    from scipy.sparse import csr_array

    ones = csr_array((np.ones(part.n), (groups, np.arange(part.n))), shape=(m, part.n))
    return (np.asarray(ones @ part.X),)
