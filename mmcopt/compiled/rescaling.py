"""Rows of a file as features: converted, centred and scaled in one pass, compiled."""

from __future__ import annotations

from typing import Any

from mmcopt.compiled.loops import compiled

F = Any


@compiled(error_model="numpy")
def rescale(X: F, mean: F, rest: F, scale: float, out: F) -> None:
    """Write ``scale (X - mean - rest)`` into out, in the order in which NumPy would round it."""
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            out[i, j] = ((X[i, j] - mean[j]) - rest[j]) * scale
