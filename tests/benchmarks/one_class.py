"""The one-class family beside other code: ``python tests/benchmarks/one_class.py [dual|sgd|...]``.

dual  DualCoordinate against scikit-learn's OneClassSVM (LIBSVM at its loosest tolerance of 1e-1 to
      1e-7 whose certified gap is at most 1e-3), ours at a gap of 1e-3, soft to hard margin
sgd   SGD against a literal NumPy transcription of Algorithm 1

Run with one BLAS thread: OPENBLAS_NUM_THREADS=1. Times are the best of several, side by side in one
process; ours include all of ``mm.solve``, the certificate too, and LIBSVM's ``fit`` alone.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.solvers import SGD, DualCoordinate

GAP = 1e-3


def best_of(count, run):
    """Fewest seconds of some runs, and the last answer."""
    fewest = np.inf
    for _ in range(count):
        start = time.perf_counter()
        out = run()
        fewest = min(fewest, time.perf_counter() - start)
    return fewest, out


def clouds(n, d):
    """Moons in the plane, or three Gaussian clouds."""
    if d == 2:
        return mm.datasets.load(f"moons:n={n},noise=.1,seed=0")[0], 10.0
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) + 3.0 * rng.integers(0, 3, (n, 1)), 1.0 / d


def libsvm(X, gamma, nu):
    """LIBSVM at its loosest tolerance whose gap is small enough, and the problem it has solved."""
    from sklearn.svm import OneClassSVM

    for power in range(1, 8):
        model = OneClassSVM(gamma=gamma, nu=nu, tol=10.0**-power).fit(X)
        problem, a = OneClassHinge.from_one_class_svm(model, X)
        value = problem.objective(a)
        gap = (value - problem._bound({"a": a})) / value
        if gap <= GAP:
            break
    return model, problem, gap


def dual():
    """Ratios of time over a grid of sizes, dimensions and margins."""
    ratios = []
    print(f"{'n':>6} {'d':>3} {'nu':>8} {'support':>8} {'LIBSVM':>9} {'tol':>6} {'gap':>8} "
          f"{'ours':>9} {'gap':>8} {'ratio':>6}")
    for n in (3000, 30000):
        for d in (2, 10):
            X, gamma = clouds(n, d)
            for nu in (0.5, 0.1, 0.01, 2.0 / n):
                model, problem, gap = libsvm(X, gamma, nu)
                count = 7 if n < 10_000 else 3 if nu < 0.1 else 1
                theirs, _ = best_of(count, lambda m=model, X=X: m.fit(X))
                ours, result = best_of(7 if n < 10_000 else 3, lambda p=problem: mm.solve(
                    OneClassHinge(p.X, C=p.C, kernel=p.kernel), DualCoordinate(tol=GAP), seed=0))
                ratios.append(theirs / ours)
                print(f"{n:6} {d:3} {nu:8.2g} {np.count_nonzero(result.point):8} {theirs:9.4f} "
                      f"{model.tol:6.0e} {gap:8.1e} {ours:9.4f} {result.gap:8.1e} "
                      f"{theirs / ours:6.1f}", flush=True)
    print(f"LIBSVM / ours: least {min(ratios):.1f}, median {np.median(ratios):.1f}")


def literal_rounds(X, gamma, C, picks):
    """Algorithm 1 as printed, with w kept as the coefficients a."""
    a = np.zeros(len(X))
    for t, i in enumerate(picks, start=1):
        margin = a @ np.exp(-gamma * ((X - X[i])**2).sum(axis=1))
        a *= 1 - 1 / t
        if margin < 1:
            a[i] += C / t
    return a


def sgd():
    """Rounds a second, from the same start with the same draws."""
    for n in (1000, 5000):
        X, gamma = clouds(n, 2)
        problem = OneClassHinge(X, C=100.0, kernel=Gaussian(gamma=gamma))
        solver = SGD(stop="gap", tol=1e-9)
        mm.solve(problem, solver, seed=0, max_iter=1)
        ours, result = best_of(3, lambda p=problem, s=solver: mm.solve(p, s, seed=0, max_iter=3))
        rounds = int(result.history["rounds"][-1])
        picks = np.random.default_rng(0).integers(n, size=min(rounds, 3000))
        theirs, _ = best_of(1, lambda X=X, g=gamma, p=picks: literal_rounds(X, g, 100.0, p))
        ratio = (theirs / len(picks)) / (ours / rounds)
        print(f"n = {n}: {rounds} rounds in {ours:.3f} s, gap {result.gap:.2g}; a literal round "
              f"takes {ratio:.0f} times as long")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*the domain is empty")
    for name in sys.argv[1:] or ("dual", "sgd"):
        {"dual": dual, "sgd": sgd}[name]()
