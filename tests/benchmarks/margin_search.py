"""The search of margins: ``python tests/benchmarks/margin_search.py [search|waiting|large]``.

search  best of 20 seeds on digits 3-8, iris and moons (CPM3C and MKC): hits of the lowest value met
        by any of them, to 1e-6 (p = 1: 1e-5), and seconds of the processor for a run
waiting the estimators with all defaults beside KMeans(n_init=10), digits, clouds and rows of MNIST
large   one search beside as many cutting planes as fit into its time, on whole sets

Run with one BLAS thread (OPENBLAS_NUM_THREADS=1) and, for ``waiting`` and ``large``, MMCOPT_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian
from mmcopt.solvers import CuttingPlane, MarginSearch

SEEDS = 20


def timed(run):
    """Seconds of the processor, and the answer."""
    began = time.process_time()
    out = run()
    return time.process_time() - began, out


def small_problems():
    """Problems whose optimum can be proved."""
    digits, narrow = mm.datasets.load("digits:3,8")[0], Gaussian(width=0.5)
    iris, moons = mm.datasets.load("iris")[0][:100], mm.datasets.load("moons:n=100,noise=.1")[0]
    for n in (100, 200):
        for beta in (0.3, 0.1, 0.03, 0.01):
            yield f"digits {n}, beta {beta:g}", CPM3C(digits[:n], 2, beta=beta), 1e-6
            yield (f"digits {n}, Gaussian, beta {beta:g}",
                   CPM3C(digits[:n], 2, beta=beta, kernel=narrow), 1e-6)
    for beta in (0.1, 0.03):
        yield f"iris, beta {beta:g}", CPM3C(iris, 2, beta=beta), 1e-6
        yield f"moons, beta {beta:g}", CPM3C(moons, 2, beta=beta), 1e-6
    for C in (10.0, 50.0):
        for p in (1.0, 1.5, 2.0):
            yield f"MKC, C {C:g}, p {p:g}", MKC(digits[:100], 2, C=C, p=p), \
                1e-5 if p == 1.0 else 1e-6


def search():
    """How often the lowest value is reached."""
    for name, f, tol in small_problems():
        mm.solve(f, MarginSearch(), seed=0, max_iter=1)
        seconds, found = zip(*(timed(lambda s=s, f=f: mm.solve(f, MarginSearch(), seed=s).objective)
                               for s in range(SEEDS)), strict=True)
        best = min(found)
        hits = int((np.array(found) <= best * (1.0 + tol)).sum())
        plain = mm.solve(f, CuttingPlane(), seed=0, restarts=20).objective
        print(f"{name:32} {best:.6f} by {hits} of {SEEDS}, {np.mean(seconds):.3f} s "
              f"(most {max(seconds):.3f}); 20 cutting planes {100 * (plain / best - 1):+.2f} %",
              flush=True)


def large_problems():
    """Whole sets."""
    pair, four = (mm.datasets.load(f"digits:classes={c}")[0] for c in ("3,8", "0,6,8,9"))
    yield "digits 0689, floor .8", CPM3C(four, 4, beta=0.02, size_floor=0.8)
    for name, X in (("digits 3-8", pair), ("letter", mm.datasets.load("letter_AvB")[0]),
                    ("satellite", mm.datasets.load("satellite_1v2")[0])):
        yield name, CPM3C(X, 2, beta=0.02)
        yield f"{name}, Gaussian", CPM3C(X, 2, kernel=Gaussian(width=0.5))
        yield f"{name}, MKC", MKC(X, 2)


def large():
    """One search, and cutting planes for as long."""
    for name, f in large_problems():
        start = None if f.n_clusters == 2 else "kmeans"
        for solver in (MarginSearch(), CuttingPlane()):
            mm.solve(f, solver, seed=0, max_iter=1)
        seconds, ours = timed(lambda f=f, start=start: mm.solve(f, MarginSearch(), seed=0,
                                                                init=start))
        spent, rounds, theirs = 0.0, 0, np.inf
        while spent < seconds:
            more, result = timed(lambda f=f, start=start, r=rounds: mm.solve(
                f, CuttingPlane(), seed=r, init=start))
            spent, rounds, theirs = spent + more, rounds + 1, min(theirs, result.objective)
        print(f"{name:24} n {f.n}: {ours.objective:.6f} in {seconds:.2f} s; {rounds} cutting planes"
              f" {theirs:.6f} in {spent:.2f} s, {100 * (theirs / ours.objective - 1):+.2f} %",
              flush=True)


def waiting_sets():
    """Names, rows, classes, and how many clusters to look for."""
    for classes in ("3,8", "0,6,8,9"):
        yield f"digits {classes}", *mm.datasets.load(f"digits:classes={classes}"), \
            1 + classes.count(",")
    rng = np.random.default_rng(0)
    for n in (100, 1000, 10_000):
        for k in (2, 4, 10):
            y = rng.integers(0, k, n)
            yield "clouds", rng.standard_normal((n, 20)) + 3 * rng.standard_normal((k, 20))[y], y, k
    X, y = mm.datasets.load("mnist")
    for n in (500, 2000, 5000, 20_000):
        for k in (2, 4, 10):
            yield "mnist", np.asarray(X[:n], dtype=np.float64), y[:n], k


def waiting():
    """Seconds of the processor, the ratio, and how well classes are met."""
    from sklearn.cluster import KMeans

    from mmcopt.estimators import MaxMarginClustering, MultipleKernelClustering

    small = np.random.default_rng(0).standard_normal((60, 3))
    kinds = (KMeans, MaxMarginClustering, MultipleKernelClustering)
    for kind in kinds:  # which compiles
        kind(3).fit(small)
    for name, X, y, k in waiting_sets():
        line, least = f"{name:14} n = {len(X):6}, k = {k:2}:", None
        for kind in kinds:
            options = {"n_init": 10} if kind is KMeans else {}
            seconds, model = min((timed(lambda s=s, kind=kind, X=X, k=k, options=options: kind(
                k, random_state=s, **options).fit(X)) for s in range(2)), key=lambda pair: pair[0])
            least = least or seconds
            line += f" {kind.__name__} {seconds:.3f} s, {seconds / least:.1f}, ARI " \
                f"{mm.metrics.adjusted_rand_index(y, model.labels_):.2f};"
        print(line, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or ("search", "waiting", "large"):
        {"search": search, "waiting": waiting, "large": large}[part]()
