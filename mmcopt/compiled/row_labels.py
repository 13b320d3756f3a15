"""Scores and labels of rows one by one: the same to the last bit whichever rows stand beside them.

Products of matrices are not: which kernel BLAS takes for a row hangs on how many rows there are.
"""

from __future__ import annotations

from typing import Any

from mmcopt.compiled.loops import compiled

F = Any


@compiled(error_model="numpy")
def row_scores(X: F, W: F, T: F) -> None:
    """Write the inner products of rows with those of W, each summed up in order, into T (n, k)."""
    n, d = X.shape
    for i in range(n):
        for q in range(W.shape[0]):
            total = 0.0
            for c in range(d):
                total += X[i, c] * W[q, c]
            T[i, q] = total


@compiled(error_model="numpy")
def move_labels(T: F, numbers: F, short: F, limits: F, last: F, y: F) -> None:
    """Move the labels y of rows with scores T to classes that are ``short``, one after another.

    A row goes from class c to the s-th of them when what its score loses is below ``limits[s, c]``,
    or is just that and the row's number is not behind ``last[s, c]``.
    """
    for i in range(T.shape[0]):
        for s in range(short.size):
            c, p = y[i], short[s]
            loss = T[i, c] - T[i, p]
            if c != p and (loss < limits[s, c]
                           or (loss == limits[s, c] and numbers[i] <= last[s, c])):
                y[i] = p
