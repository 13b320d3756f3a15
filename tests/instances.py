"""Random problems as a user would write them, and the brute force that judges them.

Regularised least squares is solved with `numpy.linalg.solve` for each cluster, and constraints are
read from what the user passed: nothing here is computed by the package. `conftest.py` makes this
module importable as ``instances``.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest

from mmcopt.constraints import Sizes
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial

INSTANCES = 240  # drawn in all
FIRST = 48  # of them, drawn by the ordinary tests; the others by slow ones
COUNTS = [FIRST, pytest.param(INSTANCES, marks=pytest.mark.slow)]


@dataclasses.dataclass(frozen=True)
class Draw:
    """A random problem as a user would write it."""

    X: np.ndarray
    k: int
    options: dict

    def problem(self):
        return LeastSquares(self.X, self.k, **self.options)


def draw(seed):
    """Instance number ``seed``: sizes, kernels, and every kind of constraint, mixed."""
    rng = np.random.default_rng([2024, seed])
    k = 2 + seed % 2
    n = int(rng.integers(k + 3, 11))
    X = rng.standard_normal((n, 2)) + 2.0 * rng.integers(0, k, (n, 1))
    kernels = [Gaussian(width=0.3), Gaussian(width=1.0), Linear(), Polynomial(2), Cosine(),
               Laplacian(width=0.5), Gaussian(width=0.5) + 0.3 * Linear(), Gaussian(gamma=1.0),
               Gaussian(width=0.5) * Polynomial(2), Gaussian(width=0.5).nystroem(4),
               Gaussian(width=0.4).normalized()]
    options = {"kernel": kernels[int(rng.integers(len(kernels)))],
               "lam": float(10.0 ** rng.uniform(-2, 1)), "center": bool(rng.random() < 0.6),
               "scaling": "mean" if rng.random() < 0.2 else "sum"}
    low = rng.integers(1, n // k + 1, k)
    options["sizes"] = [
        None, None, 0.0, float(rng.uniform(0, 0.6)), (int(low[0]), n // 2 + 1),
        Sizes(low=low.tolist(), high=(low + rng.integers(0, n, k)).tolist()),
        Sizes(exact=np.bincount(rng.permutation(np.arange(n) % k), minlength=k).tolist()),
    ][int(rng.integers(7))]
    if rng.random() < 0.4:
        some = rng.choice(n, int(rng.integers(1, 4)), replace=False)
        options["known"] = {int(i): int(rng.integers(k)) for i in some}
    for name in ("must_link", "cannot_link"):
        if rng.random() < 0.4:
            options[name] = [tuple(map(int, rng.choice(n, 2, replace=False)))
                             for _ in range(int(rng.integers(1, 4)))]
    return Draw(X, k, options)


def literal_cost(K, shift, members):
    """min_f sum_i (p_i - f_i)^2 + shift |f|^2 for p = +1 on the members and -1 elsewhere."""
    p = np.where(members, 1.0, -1.0)
    a = np.linalg.solve(K + shift * np.eye(len(K)), p)
    return float(np.sum((p - K @ a) ** 2) + shift * a @ K @ a)


def literal_violation(d, c):
    """Whether labels break any of the rules that the user wrote, and by how much in sizes."""
    n, k, sizes = len(c), d.k, d.options["sizes"]
    counts = [int((c == h).sum()) for h in range(k)]
    low, high = [1] * k, [n] * k
    if isinstance(sizes, float):
        low = [max(1, math.floor((1 - sizes) * n / k + 1e-9))] * k
        high = [min(n, math.ceil((1 + sizes) * n / k - 1e-9))] * k
    elif isinstance(sizes, tuple):
        low, high = [sizes[0]] * k, [sizes[1]] * k
    elif sizes is not None and sizes.exact is not None:
        low = high = list(sizes.exact)
    elif sizes is not None:
        low, high = list(sizes.low), list(sizes.high)
    worst = max(max(b - s, s - t, 0) for s, b, t in zip(counts, low, high, strict=True))
    broken = any(c[i] != h for i, h in d.options.get("known", {}).items())
    broken |= any(c[i] != c[j] for i, j in d.options.get("must_link", []))
    broken |= any(c[i] == c[j] for i, j in d.options.get("cannot_link", []))
    return max(worst, int(broken))


@functools.cache
def judged(seed):
    """All feasible labelings of an instance with their literal objectives, and its subsets."""
    d = draw(seed)
    n, k = len(d.X), d.k
    kernel = d.options["kernel"].centered() if d.options["center"] else d.options["kernel"]
    K = np.asarray(kernel.fit(d.X).matrix())
    mean = d.options["scaling"] == "mean"
    shift, unit = (d.options["lam"] * n, n) if mean else (d.options["lam"], 1)
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    cost = np.array([literal_cost(K, shift, s == 1) for s in subsets]) / unit
    rows = np.array(list(itertools.product(range(k), repeat=n)))
    ok = np.array([literal_violation(d, c) == 0 for c in rows[:, :]]) if len(rows) <= 3**8 \
        else fast_feasible(d, rows)
    rows = rows[ok]
    powers = 1 << np.arange(n)
    values = sum(cost[(rows == h) @ powers] for h in range(k)) if len(rows) else np.empty(0)
    return d, cost, rows, values


def fast_feasible(d, rows):
    """`literal_violation` == 0 for many rows: one row for each pattern of sizes is judged."""
    counts = np.stack([(rows == h).sum(axis=1) for h in range(d.k)], axis=1)
    patterns, which = np.unique(counts, axis=0, return_inverse=True)
    bare = Draw(d.X, d.k, {"sizes": d.options["sizes"]})
    good = [literal_violation(bare, np.repeat(np.arange(d.k), p)) == 0 for p in patterns]
    ok = np.array(good)[which.reshape(-1)]
    for i, h in d.options.get("known", {}).items():
        ok &= rows[:, i] == h
    for i, j in d.options.get("must_link", []):
        ok &= rows[:, i] == rows[:, j]
    for i, j in d.options.get("cannot_link", []):
        ok &= rows[:, i] != rows[:, j]
    return ok


def literal_objective(d, cost, c):
    return sum(cost[(c == h) @ (1 << np.arange(len(c)))] for h in range(d.k))
