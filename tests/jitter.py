"""Data that differ by a few units in the last place, as they do on another machine.

``MMCOPT_TEST_JITTER=seed`` passes every array of floats that enters the package as data through
`jittered`: whatever hangs on the rounding of the last bits then falls another way. `conftest.py`
makes this module importable as ``jitter``.
"""

import os

import numpy as np

SEED = os.environ.get("MMCOPT_TEST_JITTER")
BITS = np.uint64(7)  # of the significand, that are replaced: up to 7 units in the last place
ODD = np.uint64(0x9E3779B97F4A7C15)


def jittered(A, seed):
    """An array whose last bits are drawn anew, from the seed and the other bits of each number.

    So equal numbers stay equal and symmetric matrices symmetric, no two numbers change their
    order, and what was jittered before stays as it is. Zeros stay zeros.
    """
    bits = np.ascontiguousarray(A).view(np.uint64)
    kept = bits & ~BITS
    with np.errstate(over="ignore"):
        mixed = (kept ^ (kept >> np.uint64(29)) ^ np.uint64(seed + 1)) * ODD
        mixed = (mixed ^ (mixed >> np.uint64(32))) * ODD
    new = (kept | (mixed >> np.uint64(61))).view(np.float64)
    return np.where((A == 0) | ~np.isfinite(A), A, new)


def install(seed):
    """Make the package take jittered data; to be called before its modules are imported."""
    from mmcopt import checks

    given = checks.data_matrix

    def data_matrix(X, **options):
        A = given(X, **options)
        values = A.data if checks.is_sparse(A) else A
        if values.dtype != np.float64 or off:
            return A
        new = jittered(np.asarray(values), seed)
        if np.array_equal(new, values):  # it was jittered before, and keeps its identity
            return A
        if not checks.is_sparse(A):
            return checks.read_only(new)
        A = A.copy()
        A.data[:] = new
        return A

    checks.data_matrix = data_matrix


off = []  # holds something while a test asks for its data as they are
