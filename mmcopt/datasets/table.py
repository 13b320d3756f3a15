"""What a source holds: data, classes, and what was done with its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Data, its classes 0..k-1 (or None), the names of the classes, and sentences on columns.

    ``dropped`` says which columns were left out unasked, ``labelled`` which one holds the classes.
    """

    X: Any
    y: Labels | None = None
    classes: Sequence[str] = ()
    labelled: str = ""
    dropped: str = ""


def encode(values: Any) -> tuple[Labels | None, list[str]]:
    """Map labels to 0..k-1 with their names; None for no labels and for measured numbers."""
    if values is None:
        return None, []
    a = np.asarray(values)
    if a.dtype.kind == "O":
        a = a.astype(str)
    if a.dtype.kind == "f":
        if not np.all(np.isfinite(a)) or np.any(a != np.round(a)):
            return None, []
        a = a.astype(np.int64)
    found, codes = np.unique(a, return_inverse=True)
    return codes.reshape(a.shape).astype(np.int64), [str(v) for v in found.tolist()]
