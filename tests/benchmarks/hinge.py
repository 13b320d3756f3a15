"""The hinge family beside other code: ``python tests/benchmarks/hinge.py [accuracy|masters|...]``.

Without a name all of:

accuracy  accuracy of the lowest objective over 20 restarts, without labels, beside what is wanted
bounds    certified gaps on digits 3-8 with a balance of scores, and of the linear kernel at n = 1e4
mkc       several kernels: accuracy, inner gap, and our masters beside conic ones on 3-8
masters   our quadratic programs beside the solvers that are installed, on all masters of some fits
kmeans    one fit by cutting planes and one by the default beside KMeans(n_init=10)
scale     1e4 to 1e6 samples, d = 20, k = 3, beside KMeans(n_init=1), and the slope of the time;
          in seconds of the processor, since a long run is disturbed by whatever else is running
text      a random sparse matrix, 20,000 x 30,000: peak memory of a fit (run it alone)

Run with one BLAS thread (OPENBLAS_NUM_THREADS=1) and MMCOPT_DATA. Times are the best of several,
side by side in one process; ours include the making of the problem and all of ``mm.solve``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
import time
import warnings
from unittest.mock import patch

import numpy as np
from numba import njit

import mmcopt as mm
from mmcopt.capabilities import CutRisk
from mmcopt.compiled.cutting_planes import ascend_master
from mmcopt.formulations import CPM3C, MKC
from mmcopt.margins import master_problems as package
from mmcopt.margins.cut_models import PairCuts
from mmcopt.solvers import CuttingPlane

BETA = 0.02


def best_of(count, run, clock=time.perf_counter):
    """Fewest seconds of some runs, and the last answer."""
    fewest = np.inf
    for _ in range(count):
        start = clock()
        out = run()
        fewest = min(fewest, clock() - start)
    return fewest, out


def digits(classes):
    """Rows of some of the ten digits."""
    return mm.datasets.load(f"digits:classes={','.join(classes)}")


def load(name):
    """A set by the name that the papers use."""
    return digits(name.replace("-", "")) if name.replace("-", "").isdigit() \
        else mm.datasets.load(name)


# ---------------------------------------------------------------- accuracy


def accuracy_of(name, k=2, restarts=20, **options):
    """Percent right of the lowest objective, the seconds of all restarts, and the result."""
    X, y = load(name)
    start = options.pop("init", None)
    seconds, result = best_of(1, lambda: mm.solve(CPM3C(X, k, beta=BETA, **options), init=start,
                                                  restarts=restarts, seed=0))
    return 100 * mm.metrics.accuracy(y, result.labels), seconds, result


def news():
    """Four groups of 20-newsgroups as tf-idf, each fit from k-means on unit rows."""
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfTransformer

    counts, y = mm.datasets.load("news_rec")
    X = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    for options in ({}, {"size_floor": 0.8}):
        began, fits = time.perf_counter(), []
        for seed in range(5):
            start = KMeans(4, n_init=1, random_state=seed).fit(X).labels_
            result = mm.solve(CPM3C(X, 4, beta=BETA, **options), init=start, seed=seed)
            fits.append((result.objective, 100 * mm.metrics.accuracy(y, result.labels),
                         100 * mm.metrics.accuracy(y, start)))
        seconds, best = time.perf_counter() - began, min(fits)
        each = " ".join(f"{f[1]:.1f}" for f in fits)
        print(f"news_rec {str(options):22} {best[1]:6.2f} % (wanted 93), objective {best[0]:.5f}, "
              f"k-means there {best[2]:.1f}; all five: {each}; {seconds:.1f} s", flush=True)


def accuracy():
    """What must be seen, without labels."""
    wanted = {"3-8": 96.3, "1-7": 100.0, "2-7": 99.1, "8-9": 95.7, "letter_AvB": 94.2,
              "satellite_1v2": 97.3}
    for name, least in wanted.items():
        found, seconds, result = accuracy_of(name)
        print(f"{name:14} {found:6.2f} % (wanted {least:5.1f}), objective {result.objective:.5f}, "
              f"{seconds:.2f} s for 20", flush=True)
    for name, least in (("0-6-8-9", 94.3), ("1-2-7-9", 90.2)):
        found, seconds, result = accuracy_of(name, 4, init="kmeans", size_floor=0.8)
        print(f"{name:14} {found:6.2f} % (wanted {least:5.1f}), objective {result.objective:.5f}, "
              f"{seconds:.2f} s for 20, violation {result.violation:g}", flush=True)
    news()
    pairs = {f"{a}-{b}": accuracy_of(f"{a}-{b}")[:2] for a in range(10) for b in range(a + 1, 10)}
    worst = sorted(pairs, key=lambda p: pairs[p][0])[:5]
    mean = np.mean([v[0] for v in pairs.values()])
    print(f"45 digit pairs {mean:6.2f} % (wanted  97.6), {sum(v[1] for v in pairs.values()):.1f} s;"
          f" the worst: " + ", ".join(f"{p} {pairs[p][0]:.1f}" for p in worst))


# ---------------------------------------------------------------- bounds


def bounds():
    """Certified gaps of the cutting planes, by the number of samples."""
    X, _ = load("3-8")
    for n, beta in ((30, 0.1), (50, 0.1), (100, 0.1), (200, 0.1), (50, 0.03), (100, 0.03)):
        f = CPM3C(X[:n], 2, beta=beta, center=False, balance=0.03 * n)
        found = mm.solve(f, restarts=20, seed=0)
        seconds, result = best_of(1, lambda r=found: r.certify(time_limit=30))
        print(f"3-8, first {n}, beta {beta:g}, |sum f| <= {f.balance:g}, not centred: objective "
              f"{result.objective:.5f}, bound {result.lower_bound:.5f}, gap {100 * result.gap:.1f} "
              f"% in {seconds:.1f} s, verified {bool(result.verify())}", flush=True)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 20)) + 2.0 * np.eye(20)[rng.integers(0, 3, 10_000)]
    for k in (2, 3):
        found = mm.solve(CPM3C(X, k, beta=0.3), init="kmeans", seed=0)
        seconds, result = best_of(1, lambda r=found: r.certify(time_limit=30))
        print(f"clouds of {len(X)} samples, d = 20, k = {k}, beta .3: objective "
              f"{result.objective:.5f}, bound {result.lower_bound:.5f}, gap {100 * result.gap:.1f} "
              f"% in {seconds:.1f} s, verified {bool(result.verify())}", flush=True)


# ---------------------------------------------------------------- several kernels


def mkc():
    """Accuracy without labels, kernel weights, inner gap; alternating against conic masters."""
    for name, least in (("1-7", 100.0), ("2-7", 100.0), ("ringnorm_1000", 98.3),
                        ("letter_AvB", 94.0), ("satellite_1v2", 97.5)):
        X, y = load(name)
        f = MKC(X, 2)
        f.offer(CutRisk)  # its features are made
        seconds, result = best_of(1, lambda f=f: mm.solve(f, restarts=20, seed=0))
        weights = ", ".join(f"{w:.2f}" for w in f.kernel_weights(result.point))
        print(f"MKC {name:14} {100 * mm.metrics.accuracy(y, result.labels):6.2f} % (wanted "
              f"{least:5.1f}), objective {result.objective:.4f}, weights {weights}, inner gap "
              f"{result.history['inner_gap'].max():.1e}, {seconds:.1f} s for 20", flush=True)
    f = MKC(load("3-8")[0], 2)
    fits = {master: best_of(3, lambda m=master: mm.solve(f, CuttingPlane(master=m), seed=0,
                                                         max_iter=6))
            for master in ("alternating", "clarabel", "ecos", "scs", "cvxopt")}
    ours = fits["alternating"][0]
    for master, (seconds, result) in fits.items():
        print(f"  3-8, 6 cuts, master {master:12} {1e3 * seconds:8.1f} ms, "
              f"{seconds / ours:6.1f} times as long, objective {result.objective:.6f}", flush=True)


# ---------------------------------------------------------------- masters


def recorded(f, seed, **options):
    """All masters of a fit: Q, b, how many are capped, and the start."""
    kept, solve = [], package.solve_master

    def keep(Q, b, capped, start=None, tol=1e-12):
        kept.append((Q.copy(), b.copy(), capped,
                     np.zeros(len(b)) if start is None else start.copy()))
        return solve(Q, b, capped, start, tol)

    with patch.object(PairCuts, "compiled", property(lambda cuts: False)), \
            patch.object(package, "solve_master", keep):
        mm.solve(f, CuttingPlane(epsilon=1e-3), seed=seed, **options)
    return kept


def limits(n, capped):
    """A a <= h: the signs, and the cap on the first entries."""
    return np.vstack([-np.eye(n), np.arange(n) < capped]), np.append(np.zeros(n), 1.0)


def triangle(n):
    """Places of the upper triangle of a symmetric matrix, column by column."""
    return np.flatnonzero(np.tril(np.ones((n, n))).ravel())


# Of each solver: what depends on sizes only is made first, without a clock, and an object set up
# where its interface has one to be given new numbers; what is returned solves one master.


def clarabel(n, capped):
    import clarabel as backend
    from scipy.sparse import csc_matrix

    settings = backend.DefaultSettings()
    settings.verbose = settings.presolve_enable = settings.input_sparse_dropzeros = False
    settings.iterative_refinement_enable = False  # slower, and no closer
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 2e-11
    settings.max_threads = 1
    A, h = limits(n, capped)
    made = backend.DefaultSolver(csc_matrix(np.triu(np.ones((n, n)))), np.zeros(n), csc_matrix(A),
                                 h, [backend.NonnegativeConeT(n + 1)], settings)
    upper = triangle(n)

    def solve(Q, b, start):
        made.update(P=Q.ravel()[upper], q=-b)
        return np.asarray(made.solve().x)

    return solve


def osqp(n, capped):
    import osqp as backend
    from scipy.sparse import csc_matrix

    A, h = limits(n, capped)
    made, upper, zero = backend.OSQP(), triangle(n), np.zeros(n + 1)
    made.setup(csc_matrix(np.triu(np.ones((n, n)))), np.zeros(n), csc_matrix(A),
               np.full(n + 1, -np.inf), h, verbose=False, eps_abs=1e-5, eps_rel=1e-5,
               polishing=True, max_iter=100_000)

    def solve(Q, b, start):
        made.update(Px=Q.ravel()[upper], q=-b)
        made.warm_start(x=start, y=zero)
        return made.solve(raise_error=False).x

    return solve


def cvxopt(n, capped):
    from cvxopt import matrix, solvers

    A, h = map(matrix, limits(n, capped))
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}

    def solve(Q, b, start):
        return np.asarray(solvers.coneqp(matrix(Q), matrix(-b), A, h, kktsolver="chol2",
                                         options=options)["x"]).ravel()

    return solve


def daqp(n, capped, warm=False):
    import daqp as backend

    made, sense = backend.Model(), np.zeros(n + 1, dtype=np.int32)
    made.settings = {"primal_tol": 1e-10}
    made.setup(np.eye(n), np.zeros(n), limits(n, capped)[0][-1:],
               np.append(np.full(n, np.inf), 1.0), np.append(np.zeros(n), -np.inf))

    def solve(Q, b, start):
        if warm:
            sense[:n] = 3 * (start <= 0)  # held at its lower bound
        made.update(H=Q, f=-b, sense=sense)
        return made.solve()[0]

    return solve


def daqp_warm(n, capped):
    return daqp(n, capped, warm=True)


def quadprog(n, capped):
    import quadprog as backend

    A, h = limits(n, capped)
    C, h = np.ascontiguousarray(-A.T), -h

    def solve(Q, b, start):
        G = Q.copy()
        G.flat[::n + 1] *= 1 + 1e-10  # it asks for a definite matrix
        return backend.solve_qp(G, b, C, h)[0]

    return solve


def piqp(n, capped):
    import piqp as backend

    made = backend.DenseSolver()
    made.settings.eps_abs = made.settings.eps_rel = 1e-10
    made.settings.eps_duality_gap_abs = made.settings.eps_duality_gap_rel = 1e-10
    made.settings.compute_timings = False
    made.setup(np.asfortranarray(np.eye(n)), np.zeros(n), None, None,
               np.asfortranarray(limits(n, capped)[0][-1:]), None, np.ones(1), np.zeros(n), None)

    def solve(Q, b, start):
        made.update(Q.T, -b)
        made.solve()
        return made.result.x

    return solve


OTHERS = (daqp, daqp_warm, quadprog, piqp, clarabel, osqp, cvxopt)


@njit
def repeat(Q, b, capped, start, tol, limit, count):
    """As the compiled loop of a fit calls it."""
    for _ in range(count):
        a = start.copy()
        ascend_master(Q, b, capped, a, tol, limit)


@contextlib.contextmanager
def silent():
    """Nothing to stdout, from compiled code either: OSQP prints what it did not polish."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def of_others(solver, kept, values):
    """Seconds of all masters by a solver, how far its values are from ours, how many it refused.

    Objects keep what they found, so another master comes between, without the clock.
    """
    made, seconds, off, refused = {}, [], 0.0, 0
    for (Q, b, capped, start), value in zip(kept, values, strict=True):
        sizes = len(b), capped
        if sizes not in made:
            made[sizes] = solver(*sizes)
        solve, best, other = made[sizes], np.inf, (np.eye(len(b)), np.ones(len(b)), 0.0 * b)
        try:
            for _ in range(10):
                solve(*other)
                taken, a = best_of(1, lambda q=(Q, b, start), s=solve: s(*q))
                best = min(best, taken)
        except (ValueError, ArithmeticError):
            a = None
        if a is None or not np.isfinite(a).all():
            refused += 1
            seconds.append(np.nan)
            continue
        seconds.append(best)
        a = np.maximum(a, 0)
        a[:capped] /= max(1.0, a[:capped].sum())
        off = max(off, abs(b @ a - 0.5 * a @ Q @ a - value) / abs(value))
    return np.array(seconds), off, refused


def masters():
    """Microseconds a master, ratios, and how far the values are from ours, relatively."""
    fits = {"3-8": (CPM3C(load("3-8")[0], 2, beta=BETA), {}),
            "letter_AvB": (CPM3C(load("letter_AvB")[0], 2, beta=BETA), {}),
            "0-6-8-9": (CPM3C(load("0-6-8-9")[0], 4, beta=BETA), {"init": "kmeans"})}
    rows = np.random.default_rng(0).standard_normal((400, 8)) + 1.0
    fits["balance"] = (CPM3C(rows, 3, beta=BETA, center=False, balance=4.0),
                       {"max_iter": 12})  # clouds without clusters take hundreds of cuts
    others = [s for s in OTHERS if importlib.util.find_spec(s.__name__.partition("_")[0])]
    missing = [s.__name__ for s in OTHERS if s not in others]
    print(f"not installed here: {', '.join(missing) or 'none'}")
    for name, (f, options) in fits.items():
        kept = recorded(f, 0, **options)
        sizes = [len(b) for _, b, _, _ in kept]
        values, seconds, inside = [], [], []
        for Q, b, capped, start in kept:
            best, a = best_of(10, lambda q=(Q, b, capped, start): package.solve_master(*q))
            seconds.append(best)
            values.append(b @ a - 0.5 * a @ Q @ a)
            rest = (Q, b, capped, start, 1e-12, 50 + 20 * len(b))
            repeat(*rest, 1)
            inside.append(best_of(10, lambda q=rest: repeat(*q, 100))[0] / 100)
        seconds = np.array(seconds)
        print(f"{name}: {len(kept)} masters of {min(sizes)} to {max(sizes)} entries; ours "
              f"{1e6 * seconds.mean():.2f} us each, {1e6 * np.mean(inside):.2f} where the compiled "
              "loop of a fit calls it", flush=True)
        fastest = np.inf
        for solver in others:
            with silent():
                theirs, off, refused = of_others(solver, kept, values)
            done = np.isfinite(theirs)
            ratio = theirs[done].sum() / seconds[done].sum()
            fastest = min(fastest, ratio)
            print(f"  {solver.__name__:9} {1e6 * theirs[done].mean():8.2f} us, {ratio:7.2f} times "
                  f"as long; its value differs by at most {off:.1e}"
                  + (f"; refused {refused}" if refused else ""), flush=True)
        print(f"  ours takes {1 / fastest:.2f} of the fastest", flush=True)


# ---------------------------------------------------------------- times


def fit(X, k, options, solver, start, seed):
    """One fit, the making of the problem included."""
    return mm.solve(CPM3C(X, k, beta=BETA, **options), solver, init=start, seed=seed)


def kmeans():
    """Ratio of one fit to KMeans(n_init=10): by cutting planes, and by the default."""
    from sklearn.cluster import KMeans

    for name, k, options, start in (
            ("3-8", 2, {}, None), ("1-7", 2, {}, None), ("2-7", 2, {}, None), ("8-9", 2, {}, None),
            ("letter_AvB", 2, {}, None), ("satellite_1v2", 2, {}, None),
            ("0-6-8-9", 4, {"size_floor": 0.8}, "kmeans"), ("0-6-8-9", 4, {}, None)):
        X, _ = load(name)
        X = np.asarray(X, dtype=np.float64)
        theirs = [best_of(3, lambda m=m: KMeans(k, n_init=m, random_state=0).fit(X))[0]  # noqa: B023
                  for m in (10, 1)]
        for solver in ("CuttingPlane", "MarginSearch"):  # one descent, and the default: a search
            fit(X, k, options, solver, start, 0)
            ours = [best_of(3, functools.partial(fit, X, k, options, solver, start, s))[0]
                    for s in range(7)]
            print(f"{name:14} n = {len(X):5} k = {k} {'from k-means' if start else 'random':12} "
                  f"{solver:12}: {1e3 * np.median(ours):7.2f} ms (of 7 seeds; "
                  f"{1e3 * min(ours):.2f} to {1e3 * max(ours):.2f}); "
                  f"KMeans(10) {1e3 * theirs[0]:7.2f}, ratio {np.median(ours) / theirs[0]:.2f}; "
                  f"KMeans(1) {1e3 * theirs[1]:.2f}", flush=True)


def scale():
    """Seconds of one fit by the number of samples, from both starts; the slopes in logarithms."""
    from sklearn.cluster import KMeans

    sizes = (10_000, 31_623, 100_000, 316_228, 1_000_000)
    seconds, each = {None: [], "kmeans": []}, {None: [], "kmeans": []}
    for n in sizes:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, n)
        X = rng.standard_normal((n, 20)) + 3.0 * np.eye(20)[y]
        count = 3 if n < 100_000 else 1
        theirs, _ = best_of(count, lambda X=X: KMeans(3, n_init=1, random_state=0).fit(X),
                            time.process_time)
        for start, taken in seconds.items():
            ours, result = best_of(count, lambda X=X, start=start: mm.solve(
                CPM3C(X, 3, beta=BETA), init=start, seed=0), time.process_time)
            masters = int(result.history["masters"][-1])
            taken.append(ours)
            each[start].append(ours / masters)
            print(f"n = {n:8} from {start or 'random':7}: ours {ours:7.3f} s, "
                  f"{len(result.history)} cuts, {masters} masters, accuracy "
                  f"{100 * mm.metrics.accuracy(y, result.labels):.1f} %; KMeans(n_init=1) "
                  f"{theirs:.3f} s, ratio {ours / theirs:.1f}", flush=True)
    for start in seconds:
        slopes = [np.polyfit(np.log(sizes), np.log(v[start]), 1)[0] for v in (seconds, each)]
        print(f"slope from {start or 'random'}: of a fit {slopes[0]:.2f}, of a master "
              f"{slopes[1]:.2f}")


def text(n=20_000, d=30_000):
    """Peak memory of the process beside the matrix."""
    import resource

    from scipy.sparse import random_array

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10

    mm.solve(CPM3C(np.random.default_rng(0).standard_normal((50, 3)), 2), seed=0)  # compiles
    X = random_array((n, d), density=0.003, rng=np.random.default_rng(0), format="csr")
    size, before = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20, peak()
    for k, beta in ((2, BETA), (4, BETA), (4, 1e-4)):
        seconds, result = best_of(1, lambda k=k, beta=beta: mm.solve(
            CPM3C(X, k, beta=beta), seed=0, max_iter=40))
        print(f"{n} x {d}, {X.nnz} entries, {size:.0f} MB; k = {k}, beta {beta:g}: {seconds:.2f} "
              f"s, {len(result.history)} cuts; peak {peak():.0f} MB, of which {before:.0f} before "
              f"the fit: {peak() - before:.0f} MB more (allowed {4 * size + 200:.0f})", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="CPM3C: ")
    parts = (accuracy, bounds, mkc, masters, kmeans, scale, text)
    for part in parts:
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            part()
