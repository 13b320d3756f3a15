"""Our compiled steps beside literal NumPy, in one process: ``python tests/benchmarks/steps.py``.

Rows of MNIST (or normal random ones without MMCOPT_DATA), Gaussian(width=1), lam .1, ten clusters.
The literal steps run in the precision of ours (float32) and in float64. Ratios are of the best of
several rounds, taken in turn.
"""

import argparse
import time

import literal
import numpy as np

from mmcopt import datasets
from mmcopt.capabilities import LabelQuadratic
from mmcopt.compiled import label_moves
from mmcopt.constraints import Sizes
from mmcopt.errors import DataError
from mmcopt.formulations import LeastSquares

WANTED = {("shaking", 500): 15, ("shaking", 1800): 8, ("shaking", 8000): 6,
          ("evolution", 500): 50, ("evolution", 1800): 50}


def rows(n):
    try:
        return datasets.load(f"mnist:n={n},seed=0")[0]
    except DataError:
        return np.random.default_rng(0).standard_normal((n, 50))


def quadratic(n, k=10, **options):
    lq = LeastSquares(rows(n), k, lam=0.1, **options).offer(LabelQuadratic)
    return lq, lq.matrix.dense(np.float32)


class Shaking:
    """Claims by one cluster after the other."""

    def __init__(self, lq, W, k=10):
        self.lq, self.W, self.k = lq, W, k
        self.c = np.random.default_rng(0).integers(k, size=lq.n)

    def ours(self, claims):
        c = self.c.copy()
        G = label_moves.caches(self.W, c, self.k)
        sizes = label_moves.cluster_sizes(c, self.lq.weights, self.k)
        started = time.perf_counter()
        for d in range(self.k):
            label_moves.shake(self.W, c, G, sizes, self.lq.rules(), d, claims)
        return (time.perf_counter() - started) / (self.k * claims), c

    def theirs(self, claims, dtype):
        state = literal.ShakingState(self.W.astype(dtype, copy=False), self.c, self.k)
        started = time.perf_counter()
        for d in range(self.k):
            for _ in range(claims):
                literal.shaking_step(state, d)
        return (time.perf_counter() - started) / (self.k * claims), state.c


class Steepest(Shaking):
    """Single best moves from random labels."""

    def ours(self, moves):
        c = self.c.copy()
        G = label_moves.caches(self.W, c, self.k)
        sizes = label_moves.cluster_sizes(c, self.lq.weights, self.k)
        started = time.perf_counter()
        label_moves.steepest(self.W, c, G, sizes, self.lq.rules(), moves)
        return (time.perf_counter() - started) / moves, c

    def theirs(self, moves, dtype):
        state = literal.ShakingState(self.W.astype(dtype, copy=False), self.c, self.k)
        started = time.perf_counter()
        for _ in range(moves):
            literal.steepest_step(state)
        return (time.perf_counter() - started) / moves, state.c


class Evolution:
    """Generations of (10+10) with single flips, where nearly all of a run is spent."""

    def __init__(self, n, balance=0.03):
        low = int(np.ceil((n - balance * n) / 2))
        problem = LeastSquares(rows(n), 2, lam=0.1 / n, scaling="mean",
                               sizes=Sizes(low=low, high=n - low))
        self.lq = problem.offer(LabelQuadratic)
        self.W = self.lq.matrix.dense(self.lq.dtype)
        w, self.V = problem.spectrum
        self.D = -w / (w + problem.shift) / n
        self.n, self.limit = n, balance * n

    def ours(self, generations, t):
        lq, n, rng = self.lq, self.n, np.random.default_rng(0)
        c = np.zeros((20, n), np.int64)
        G = np.zeros((20, 2, n), self.W.dtype)
        sizes, values = np.zeros((20, 2), np.int64), np.full(20, -np.inf)
        for i in range(10):
            c[i] = lq.random_labels(rng)
            G[i] = label_moves.caches(self.W, c[i], 2)
            sizes[i] = label_moves.cluster_sizes(c[i], lq.weights, 2)
            values[i] = label_moves.association(self.W, c[i], 2)
        order, state = np.argsort(-values, kind="stable"), np.ones(1, np.uint64)
        started = time.perf_counter()
        label_moves.evolve(self.W, c, G, sizes, lq.rules(), values, order, t, generations, 10,
                           state)
        return (time.perf_counter() - started) / generations

    def theirs(self, generations, t):
        p = literal.Population(self.V, self.D, 10, 10, self.limit, np.random.default_rng(0))
        p.t = t
        started = time.perf_counter()
        for _ in range(generations):
            literal.generation(p)
        return (time.perf_counter() - started) / generations


def show(what, n, ours, same, double=None):
    wanted = WANTED.get((what, n))
    reached = "yes" if wanted is None or same >= wanted * ours else "NO"
    verdict = "" if wanted is None else f"  (wanted {wanted} x: {reached})"
    extra = "" if double is None else f"; float64 {1e6 * double:9.2f} us = {double / ours:5.1f} x"
    print(f"{what:<12} n={n:<5} ours {1e6 * ours:8.2f} us   literal {1e6 * same:9.2f} us = "
          f"{same / ours:5.1f} x{extra}{verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1800, 8000])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for n in args.sizes:
        lq, W = quadratic(n)
        for what, bench, steps in (("shaking", Shaking(lq, W), n // 20),
                                   ("steepest", Steepest(lq, W), n // 4)):
            ours, same, double = [], [], []
            for _ in range(args.rounds + 1):  # the first warms up
                (a, c), (b, e) = bench.ours(steps), bench.theirs(steps, np.float32)
                ours.append(a)
                same.append(b)
                agree = float(np.mean(c == e))
                if n < 4000:
                    double.append(bench.theirs(steps, np.float64)[0])
            show(what, n, min(ours[1:]), min(same[1:]), min(double[1:]) if double else None)
            if agree < 0.99:
                print(f"  only {agree:.1%} of the labels agree")
        if n <= 2000:
            evolution = Evolution(n)
            times = [(evolution.ours(2000, n), evolution.theirs(50, n))
                     for _ in range(args.rounds + 1)][1:]
            show("evolution", n, min(t[0] for t in times), min(t[1] for t in times))


if __name__ == "__main__":
    main()
