"""The one-class family beside other code: ``python tests/benchmarks/one_class.py [dual|sgd|...]``.

Without a name all of:

dual  DualCoordinate against scikit-learn's OneClassSVM (LIBSVM at its loosest tolerance of 1e-1 to
      1e-7 whose certified gap is at most 1e-3), ours at a gap of 1e-3, soft to hard margin
corner the same where LIBSVM is at its best: many features, or few support vectors
sgd   SGD against a literal NumPy transcription of Algorithm 1
graph clusters by `graph` against the test of all pairs of samples, with the same decision function
scale a million samples: condensed into cells, through the estimator, and as a stream

Run with one BLAS thread: OPENBLAS_NUM_THREADS=1. Times are the best of several, side by side in one
process; ours include all of ``mm.solve``, the certificate too, and LIBSVM's ``fit`` alone.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.capabilities import Bounded
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
        gap = (value - problem.offer(Bounded).bound({"a": a})) / value
        if gap <= GAP:
            break
    return model, problem, gap


def dual():
    """Ratios of time over a grid of sizes, dimensions and margins."""
    beside_libsvm([("moons" if d == 2 else "clouds", *clouds(n, d))
                   for n in (3000, 30000) for d in (2, 10)], (0.5, 0.1, 0.01, None))


def corner():
    """Ratios of time on digits, uniform noise and one cloud, gamma from the median distance."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    sets = {"digits": load_digits().data, "uniform": rng.random((3000, 2)),
            "uniform, 10": rng.random((3000, 10)), "cloud, 64": rng.standard_normal((3000, 64))}
    cells = []
    for name, X in sets.items():
        some = X[:400]
        square = ((some[:, None] - some[None])**2).sum(axis=2)
        cells += [(f"{name} x{k}", X, k / np.median(square)) for k in (1, 5)]
    beside_libsvm(cells, (0.1, 0.01, None))


def beside_libsvm(cells, nus):
    """Print ratios of time for sets with their gammas; a nu of None is 2/n."""
    ratios = []
    print(f"{'data':14} {'n':>6} {'d':>3} {'nu':>8} {'support':>8} {'LIBSVM':>9} {'tol':>6} "
          f"{'gap':>8} {'ours':>9} {'gap':>8} {'ratio':>6}")
    for name, X, gamma in cells:
        n, d = X.shape
        for nu in (2.0 / n if nu is None else nu for nu in nus):
            model, problem, gap = libsvm(X, gamma, nu)
            count = 7 if n < 10_000 else 3 if nu < 0.1 else 1
            theirs, _ = best_of(count, lambda m=model, X=X: m.fit(X))
            ours, result = best_of(7 if n < 10_000 else 3, lambda p=problem: mm.solve(
                OneClassHinge(p.X, C=p.C, kernel=p.kernel), DualCoordinate(tol=GAP), seed=0))
            ratios.append(theirs / ours)
            print(f"{name:14} {n:6} {d:3} {nu:8.2g} {np.count_nonzero(result.point):8} "
                  f"{theirs:9.4f} {model.tol:6.0e} {gap:8.1e} {ours:9.4f} {result.gap:8.1e} "
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


def spirals(n):
    """Three arms."""
    rng = np.random.default_rng(0)
    arm, t = np.arange(n) % 3, rng.uniform(1, 9, n)
    angle = t + 2 * np.pi * arm / 3
    return np.c_[t * np.cos(angle), t * np.sin(angle)] + 0.05 * rng.standard_normal((n, 2)), arm


def graph(n=1500):
    """Times and ARI of `graph` beside `complete`."""
    sets = {"moons": mm.datasets.load(f"moons:n={n},noise=.05,seed=0"),
            "circles": mm.datasets.load(f"circles:n={n},noise=.03,factor=.5,seed=0"),
            "spirals": spirals(n)}
    for name, (X, y) in sets.items():
        gamma = mm.assignment.neighbour_gamma(X, 0.1)
        result = mm.solve(OneClassHinge(X, C=float(n), kernel=Gaussian(gamma=gamma)), seed=0)
        domain = mm.assignment.Domain.of(result)
        ours, fast = best_of(3, lambda d=domain: mm.assignment.graph(d))
        theirs, slow = best_of(1, lambda d=domain: mm.assignment.complete(d))
        scores = [mm.metrics.adjusted_rand_index(y, c.labels) for c in (fast, slow)]
        print(f"{name:8} n = {n}: graph {ours:.4f} s, ARI {scores[0]:.3f}; all pairs "
              f"{theirs:.2f} s, ARI {scores[1]:.3f}; ratio {theirs / ours:.0f}", flush=True)


def scale(n=1_000_000):
    """Seconds and peak memory (of this process so far) on two moons."""
    import resource

    from mmcopt.estimators import SupportVectorClustering

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    X, y = mm.datasets.load(f"moons:n={n},noise=.05,seed=0")
    print(f"two moons, n = {n}; peak memory with the data alone {peak():.2f} GiB")
    for name, model in (("all defaults", SupportVectorClustering(random_state=0)),
                        ("gamma 20, C 1000", SupportVectorClustering(gamma=20.0, C=1000.0))):
        seconds, _ = best_of(1, lambda m=model: m.fit(X))
        print(f"estimator, {name}: {seconds:.2f} s, ARI "
              f"{mm.metrics.adjusted_rand_index(y, model.labels_):.4f}, peak {peak():.2f} GiB")
    for gamma in (10.0, 20.0, 40.0):
        seconds, model = best_of(1, lambda g=gamma: mm.streaming.BudgetedDomain(
            g, 1000.0, budget=200).partial_fit(X))
        held = mm.datasets.load("moons:n=20000,noise=.05,seed=1")
        labels = model.clusters(outliers="mark").predict(held[0])
        ok = labels >= 0
        inside = model.decision_function(held[0]) >= 0
        print(f"stream, gamma {gamma:g}, budget 200: {seconds:.2f} s; of a held sample "
              f"{100 * ok.mean():.1f} % assigned, {100 * inside.mean():.1f} % with f >= 0, ARI of "
              f"the assigned {mm.metrics.adjusted_rand_index(held[1][ok], labels[ok]):.4f}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*the domain is empty")
    for name in sys.argv[1:] or ("dual", "corner", "sgd", "graph", "scale"):
        {"dual": dual, "corner": corner, "sgd": sgd, "graph": graph, "scale": scale}[name]()
