"""Random problems at the edges of floating point, for `exact` to judge.

`conftest.py` makes this module importable as ``extremes``.
"""

import itertools
import warnings

import exact
import numpy as np
from mpmath import mpf

import mmcopt as mm
from mmcopt.errors import MMCError
from mmcopt.formulations import (
    CPM3C,
    MKC,
    Diffrac,
    Hypersphere,
    LeastSquares,
    LeastSquaresFit,
    OneClassHinge,
)
from mmcopt.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial
from mmcopt.solvers import BruteForce, CuttingPlane

FAMILIES = ("least squares", "diffrac", "one class", "margin", "several kernels", "sphere", "fit")
EXACTLY = CuttingPlane(epsilon=1e-9, alpha=1e-13)


def rows(rng):
    """Two or three groups of rows, at a scale in 1e-150..1e150 and an offset of up to 1e8."""
    n, d = int(rng.integers(4, 8)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) + 3.0 * rng.integers(0, 3, (n, 1))
    if rng.random() < 0.2:
        X[-1] = X[0]
    if rng.random() < 0.5:
        X = X + 10.0 ** rng.uniform(0, 8) * rng.choice([-1.0, 1.0])
    if rng.random() < 0.1:
        X = X * np.where(rng.random(n) < 0.5, -1.0, 1.0)[:, None]
    power = rng.uniform(-150, 150) if rng.random() < 0.2 else rng.uniform(-6, 6)
    return X * 10.0 ** (power if rng.random() < 0.6 else 0.0)


def a_kernel(rng, X, deep=True):
    """A kernel whose scale has something to do with that of the rows, most of the time."""
    spread = float(np.ptp(X, axis=0).max()) or 1.0
    kind = int(rng.integers(0, 11 if deep else 7))
    rate = 10.0 ** rng.uniform(-3, 3)
    if kind == 0:
        return Linear()
    if kind == 1:
        return Polynomial(int(rng.integers(2, 4)), float(rng.choice([0.0, 1.0])))
    if kind == 2:
        return Laplacian(width=rate)
    if kind == 3:
        return Cosine()
    if kind in (4, 5):
        return Gaussian(width=rate)
    if kind == 6:
        return Gaussian(gamma=float(np.clip(rate / spread / spread, 1e-300, 1e300)))
    if kind == 7:
        return a_kernel(rng, X, False) + 10.0 ** rng.uniform(-3, 3) * a_kernel(rng, X, False)
    if kind == 8:
        return a_kernel(rng, X, False) * a_kernel(rng, X, False)
    if kind == 9:
        return a_kernel(rng, X, False).normalized()
    return Gaussian(width=10.0 ** rng.uniform(-1, 0)).nystroem(3)


def weight(rng):
    """A lam, beta or C in 1e-16..1e16."""
    return float(10.0 ** rng.uniform(-16, 16))


def problem_of(family, rng):
    """A random problem of a family."""
    X = rows(rng)
    if family in ("least squares", "diffrac"):
        kernel, k = a_kernel(rng, X), int(rng.integers(2, 4))
        lam = weight(rng)
        if isinstance(kernel, Linear | Polynomial) and rng.random() < 0.5:
            size = float(np.abs(X).max())
            lam = float(np.clip(lam * size**2, 1e-250, 1e250))
        sizes = [None, 0.5][int(rng.integers(2))]
        if family == "diffrac":
            return Diffrac(X, k, kernel=kernel, kappa=lam / len(X), sizes=sizes)
        return LeastSquares(X, k, kernel=kernel, lam=lam, sizes=sizes,
                            center=bool(rng.random() < 0.7),
                            scaling=str(rng.choice(["sum", "mean"])))
    if family == "one class":
        return OneClassHinge(X, C=weight(rng), kernel=a_kernel(rng, X))
    if family == "sphere":
        return Hypersphere(X, C=1.0 + weight(rng), kernel=a_kernel(rng, X))
    if family == "fit":
        k = int(rng.integers(1, 4))
        return LeastSquaresFit(X, rng.integers(0, k, len(X)), k, kernel=a_kernel(rng, X),
                               lam=weight(rng), center=bool(rng.random() < 0.5))
    if family == "margin":
        normal = bool(rng.random() < 0.8)
        return CPM3C(X, int(rng.integers(2, 4)), beta=weight(rng), normalize=normal,
                     kernel=None if rng.random() < 0.7 else a_kernel(rng, X))
    return MKC(X, int(rng.integers(2, 4)), kernels=[a_kernel(rng, X) for _ in range(2)],
               C=weight(rng), p=float(rng.choice([1.0, 1.5, 2.0])))


def solved(problem, rng):
    """A result for it: of a solver, or of somebody's labels."""
    if isinstance(problem, LeastSquares | Diffrac):
        way = int(rng.integers(0, 4))
        if way == 0:
            return mm.solve(problem, BruteForce(), seed=0)
        labels = rng.integers(0, problem.n_clusters, problem.n)
        labels[:problem.n_clusters] = np.arange(problem.n_clusters)
        if way == 1:
            return mm.evaluate(problem, labels)
        if way == 2:
            path = problem.path([float(problem.shift / problem.n if hasattr(problem, "kappa")
                                       else problem.lam)] * 4)
            return mm.solve(path[2], "KernighanLin", seed=0)
        return mm.solve(problem, seed=0, max_iter=2).certify(time_limit=20)
    return mm.solve(problem, seed=0, max_iter=60)


def true_value(result):
    """The exact objective of a result, and a number that no bound may be above."""
    f = result.formulation
    if isinstance(f, LeastSquares | Diffrac):
        form = exact.LabelForm(f)
        return form.value(result.point), form.least()
    if isinstance(f, LeastSquaresFit):
        return exact.fit_value(f, result.point)
    if isinstance(f, OneClassHinge | Hypersphere):
        one = isinstance(f, OneClassHinge)
        value = (exact.domain_value if one else exact.sphere_value)(f, result.point)
        least = (exact.domain_least if one else exact.sphere_least)(f, result.point)
        return value, value if least is None else least
    value = (exact.several_value if isinstance(f, MKC) else exact.margin_value)(f, result.point)
    return value, min(value, mpf(f.C) if hasattr(f, "C") else mpf(1))  # that of W = 0


def least_of_machines(f):
    """The exact value of the best W of all labelings: at least the minimum, by next to nothing."""
    found = []
    for c in itertools.product(range(f.n_clusters), repeat=f.n):
        if all(c[i] <= max(c[:i], default=-1) + 1 for i in range(f.n)):
            W = mm.solve(f.restrict(np.array(c)), EXACTLY, seed=0).point
            found.append((f.objective(W), W))
    best = min(found, key=lambda pair: pair[0])[1]
    return (exact.several_value if isinstance(f, MKC) else exact.margin_value)(f, best)


def hinge_bound(family, seed):
    """A climbed result of a random hinge problem with its exact value, and the least of all labels.

    None where it is refused.
    """
    rng = np.random.default_rng([99, FAMILIES.index(family), seed])
    with warnings.catch_warnings(), exact.arithmetic():
        warnings.simplefilter("ignore")
        try:
            f = problem_of(family, rng)
            if f.n_clusters == 3 and f.n > 5:
                f = f.replace(X=f.X[:5])
            result = mm.solve(f, seed=0, max_iter=60).certify(time_limit=1)
            return result, *true_value(result)[:1], least_of_machines(f)
        except MMCError:
            return None


def claims(family, seed):
    """What is false of a random problem's result; or the sentence that it is refused with."""
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    with warnings.catch_warnings(), exact.arithmetic():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", mm.errors.MMCWarning)
        try:
            result = solved(problem_of(family, rng), rng)
        except MMCError as refused:
            return str(refused)
        except Exception as e:  # what a user would see as a traceback
            return [f"{type(e).__name__}: {e}"]
        false = exact.judged(result, *true_value(result))
        report = result.verify()
        return false + ([] if report else [f"verify: {report}"])
