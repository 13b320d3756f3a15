"""Problems over two labels that a square matrix states: what maximum cuts and QUBO share."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import data_matrix, is_sparse, read_only
from mmcopt.errors import DataError, IncompatibleError
from mmcopt.linalg import UNIT
from mmcopt.modeling import Formulation
from mmcopt.types import Floats, Ints, Samples

PAIRWISE = 64  # roundings on the way of a number into a sum of NumPy's, of up to 2^50 numbers
REACH = 1e28  # searches take 1e30 for infinity


class SquareMatrix(Formulation):
    """Labels 0 and 1 of n nodes, all of them allowed; a point is the labels."""

    default_solver = "Memetic"

    @property
    @abstractmethod
    def over_labels(self) -> LabelQuadratic:
        """The problem as all label searches and bounds take it."""

    def offer(self, kind: type[Any]) -> Any:
        return self.over_labels if kind is LabelQuadratic else None

    def violation(self, point: Ints) -> float:
        c = np.asarray(point)
        return 0.0 if np.isin(c, (0, 1)).all() else 1.0

    def labels(self, point: Ints) -> Ints:
        return np.asarray(point)

    def decision_function(self, point: Ints, X: Samples) -> Floats:
        raise IncompatibleError(f"{type(self).__name__} knows no samples, only the nodes of its "
                                "matrix, so it has no labels for new ones.")

    def literal_side(self, labels: Ints | None) -> tuple[Any, list[Any]]:
        """The indicator of label 1 as a cvxpy expression, of given labels where there are any."""
        import cvxpy as cp

        Z: Any = cp.Variable((self.n, 2), boolean=labels is None, name="Z")
        rows = [cp.sum(Z, axis=1) == 1] if labels is None else [Z == np.eye(2)[np.asarray(labels)]]
        return Z[:, 1], rows

    @property
    def doubt(self) -> float:
        """What rounding may change of a sum of entries, as a share of their sizes."""
        return 0.0 if self.over_labels.grid is not None else PAIRWISE * UNIT

    def _settled(self, lq: LabelQuadratic, rounding: float) -> LabelQuadratic:
        """The problem with what rounding leaves in doubt, where the numbers are not whole."""
        if lq.mass > REACH:
            raise DataError(f"{type(self).__name__}: the sizes of all weights add up to "
                            f"{lq.mass:.3g}, and searches know sums up to {REACH:g}; divide them "
                            "all by the same number.")
        if lq.grid is not None:
            return lq
        trivial = None if lq.trivial_bound is None else lq.trivial_bound - rounding
        return dataclasses.replace(lq, trivial=trivial, rounding=lambda: (0.0, rounding))


def held(matrix: Any, owner: str, name: str) -> Any:
    """A square matrix, checked, as floats: read-only, or sparse in rows."""
    matrix = data_matrix(matrix, owner=owner, name=name)
    if matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{owner}: {name} must be a square matrix, one row and one column a node; "
                        f"got shape {matrix.shape}.")
    if not is_sparse(matrix):
        return read_only(np.ascontiguousarray(matrix, dtype=np.float64))
    from scipy.sparse import csr_array

    rows = csr_array(matrix, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    return rows


def total(part: Any) -> float:
    """The sum of all entries, added up in pairs."""
    return float(np.sum(part.data if is_sparse(part) else part))


def roundoff(n: int) -> float:
    """Share of sums over an n x n matrix that rounding may change, row sums included."""
    return (n + PAIRWISE) * UNIT
