"""A million samples: weighted cells, a stream with a budget, and features in place of a kernel.

What it teaches: the one-class problem takes weights, so a million samples may be condensed into two
thousand cells and solved with a certified gap; a stream is learnt in one pass with two hundred
support vectors, the lightest of which is merged with its best partner whenever there are too many;
and Nystroem features turn any kernel into a linear problem that stochastic subgradients solve.
"""

import os
import time

import mmcopt as mm
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.solvers import SGD, DualCoordinate

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
N = 30_000 if QUICK else 1_000_000
ari = mm.metrics.adjusted_rand_index


def condensed(X, y):
    started = time.perf_counter()
    cells = mm.condensing.micro_cells(X, 2000)
    problem = OneClassHinge(cells.centres, C=1000.0, kernel=Gaussian(gamma=20.0),
                            sample_weight=cells.weights)
    result = mm.solve(problem, DualCoordinate(), seed=0)
    clusters = mm.assignment.graph(result)
    labels = cells.spread(clusters.labels)
    seconds = time.perf_counter() - started
    print(f"{'':22}{'objective':>11}{'bound':>9}{'gap':>8}{'clusters':>10}{'ARI':>7}{'seconds':>9}")
    print(f"{len(cells.weights)} weighted cells   {result.objective:11.3f}{result.lower_bound:9.3f}"
          f"{100 * result.gap:7.2f}%{clusters.n_clusters:10}{ari(y, labels):7.3f}{seconds:9.2f}")


def streamed(X, y):
    started = time.perf_counter()
    model = mm.streaming.BudgetedDomain(gamma=20.0, C=1000.0, budget=200)
    for start in range(0, len(X), 10_000):  # as it would come
        model.partial_fit(X[start:start + 10_000])
    learnt = time.perf_counter() - started
    clusters = model.clusters()
    held = slice(0, 20_000)
    inside = model.decision_function(X[held]) >= 0
    print(f"\na stream in chunks: {model.rounds} samples in {learnt:.2f} s, {len(model.weights)} "
          f"support vectors; {100 * inside.mean():.1f} % of a sample inside,\n"
          f"{clusters.n_clusters} clusters, ARI {ari(y[held], clusters.predict(X[held])):.3f}")


def by_features(X, y):
    some = slice(0, 5_000 if QUICK else 20_000)
    problem = OneClassHinge(X[some], C=50.0, kernel=Gaussian(gamma=5.0).nystroem(100))
    started = time.perf_counter()
    result = mm.solve(problem, SGD(tol=0.05, draw="shuffled"), seed=0)
    print(f"\n100 Nystroem features of {problem.n} samples: {result}")
    print(f"(in {time.perf_counter() - started:.2f} s with the features)")


def main():
    X, y = mm.datasets.load(f"moons:n={N},noise=.05,seed=0")
    print(f"two moons, {N} samples\n")
    condensed(X, y)
    streamed(X, y)
    by_features(X, y)


if __name__ == "__main__":
    main()
