"""The capability of label problems whose clusters count by the mean: k-means and its kin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from mmcopt.capabilities.label_problem import LabelProblem
from mmcopt.capabilities.matrices import LowRank
from mmcopt.errors import ParameterError
from mmcopt.types import Floats, Ints

ROWS = 256  # of a matrix that are looked at together
ROWS_FROM = 1500  # nodes above which vectors are searched faster than W
RULED_FROM = 5000  # and where swaps of nodes are needed


@dataclass(frozen=True, eq=False)
class LabelRatio(LabelProblem):
    """Minimise ``const - scale * sum_h z_h' W z_h / v'z_h``, z_h the indicator of cluster h.

    W, sizes and links are those of `LabelProblem`. ``volumes`` (v, positive numbers, by default the
    weights) are what nodes count in the denominators, and need not be integers: ``weights`` go on
    to count samples, of which sizes speak. For k-means with sample weights D = diag(v) and a kernel
    K, W = D K D; a node that stands for several samples has the sums of their entries and volumes.

    >>> import numpy as np
    >>> ratio = LabelRatio(np.array([[2., 1., 0.], [1., 2., 0.], [0., 0., 1.]]), const=5.0, k=2)
    >>> ratio.value(np.array([0, 0, 1]))
    1.0
    """

    may_be_empty: ClassVar[bool] = False  # as each is divided by its weight

    volumes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.weights if self.volumes is None else self.volumes
        volumes = np.array(np.broadcast_to(np.asarray(given), (self.n,)), dtype=np.float64)
        object.__setattr__(self, "volumes", volumes)
        if not (volumes > 0.0).all() or not np.isfinite(volumes.sum()):
            odd = volumes[~(np.isfinite(volumes) & (volumes > 0.0))]
            raise ParameterError("LabelRatio: volumes must be positive numbers; "
                                 f"got {odd[0] if odd.size else volumes.sum()}.")

    @property
    def mass(self) -> float:
        """Bound on the sum of the terms of the association, to which its rounding is relative.

        For W = Psi Psi' it is the sum of W_ii / v_i; otherwise k times what bounds the eigenvalues
        of D^-1 |W|, the largest sum of one of its rows.
        """
        if "mass" not in self._memo:
            if not self.matrix.is_dense:
                size = float((self.matrix.diagonal() / self.volumes).sum())
            else:
                W = self.matrix.dense()
                size = self.k * max(float((np.abs(W[i:i + ROWS]).sum(axis=1)
                                           / self.volumes[i:i + ROWS]).max())
                                    for i in range(0, len(W), ROWS))
            self._memo["mass"] = size
        return float(self._memo["mass"])

    @property
    def sized(self) -> bool:
        """Whether bounds on sizes say more than that no cluster is empty."""
        most = self.weights.sum() - self.k + 1
        return bool(self.low.max() > 1 or self.high.min() < most)

    @property
    def ruled(self) -> bool:
        """Whether sizes or cannot-links may forbid moves."""
        return self.sized or len(self.apart) > 0

    @property
    def by_rows(self) -> bool:
        """Whether searches go by vectors of the nodes, and not by W.

        They do where W is a factor of many rows. Tight rules leave no single moves and need swaps,
        for which all of W is at hand up to a larger size.
        """
        most = RULED_FROM if self.ruled else ROWS_FROM
        return not self.matrix.is_dense and self.n > most

    @property
    def means(self) -> tuple[Floats, Floats]:
        """The vectors that nodes stand for, rows of Psi by volume, and their squared lengths."""
        if "means" not in self._memo:
            X = cast(LowRank, self.matrix).rows_over(self.volumes)
            self._memo["means"] = X, np.einsum("ij,ij->i", X, X)
        return self._memo["means"]

    def let_go(self) -> None:
        super().let_go()
        self._memo.pop("means", None)

    @property
    def distances(self) -> Floats:
        """Squared distances of all nodes from one another: for few nodes."""
        if "distances" not in self._memo:
            D = self.matrix.dense() / np.outer(self.volumes, self.volumes)
            own = D.diagonal()
            self._memo["distances"] = np.maximum(own[:, None] + own - 2.0 * D, 0.0)
        return self._memo["distances"]

    def association(self, c: Ints) -> float:
        """The sum over clusters of the entries of W within, by volume."""
        volumes = np.bincount(c, self.volumes, self.k)
        within = self.matrix.within_each(c, self.k)
        return float((within / np.where(volumes > 0.0, volumes, 1.0)).sum())

    def associations(self, rows: Ints) -> Floats:
        """The same for many labelings, one a row: for few nodes."""
        W = self.matrix.dense()
        total = np.zeros(len(rows))
        for h in range(self.k):
            Z = (rows == h).astype(np.float64)
            volumes = Z @ self.volumes
            total += np.einsum("ij,ij->i", Z @ W, Z) / np.where(volumes > 0.0, volumes, 1.0)
        return total

    def _merged(self, groups: Ints, m: int) -> dict[str, Any]:
        return {"volumes": np.bincount(groups, self.volumes, m)}
