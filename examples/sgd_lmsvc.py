"""Support vector clustering by stochastic subgradients (SGD-LMSVC), and what its answers are worth.

What it teaches: the rule of the paper stops the subgradient method after some thousand rounds,
whatever the data; the certified gap shows how far from optimal that is, and that the same method
comes close when it goes on until the gap is small. Coordinate ascent on the dual is there in
milliseconds. Algorithm 2 of the paper follows samples of the boundary to equilibrium points and
joins these by straight lines, which breaks curved clusters; a graph of neighbours does not.
"""

import os
import pathlib
import time

import mmcopt as mm
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.solvers import SGD, DualCoordinate

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
ari = mm.metrics.adjusted_rand_index


def clusters_of(method, result):
    """Number of clusters of a method; the paper's needs samples near the boundary."""
    try:
        return method(result)
    except mm.errors.DataError:
        return None


def solvers_beside_one_another(problem, y):
    print(f"{'':28}{'objective':>11}{'bound':>9}{'gap':>9}{'seconds':>9}{'inside':>8}   "
          "clusters (ARI) by equilibria, by graph")
    chosen = {"SGD, stop='paper'": SGD(stop="paper"),
              "SGD, stop='gap'": SGD(tol=0.05),
              "SGD, every sample once a pass": SGD(tol=0.05, draw="shuffled"),
              "DualCoordinate": DualCoordinate()}
    for name, solver in chosen.items():
        started = time.perf_counter()
        result = mm.solve(problem, solver, seed=0)
        seconds = time.perf_counter() - started
        found = [clusters_of(m, result) for m in (mm.assignment.equilibrium, mm.assignment.graph)]
        shown = ", ".join("none" if c is None else f"{c.n_clusters} ({ari(y, c.labels):.2f})"
                          for c in found)
        print(f"{name:28}{result.objective:11.3f}{result.lower_bound:9.3f}"
              f"{100 * result.gap:8.2f}%{seconds:9.3f}{100 * result.labels.mean():7.0f}%   {shown}")
    return result


def the_same_domain_elsewhere(problem, result):
    from sklearn.svm import OneClassSVM

    nu = problem.nu(result.point)
    model = OneClassSVM(gamma=problem.kernel.gamma, nu=nu, tol=1e-6).fit(problem.X)
    theirs, a = OneClassHinge.from_one_class_svm(model, problem.X)
    print(f"\nscikit-learn's OneClassSVM(nu={nu:.4f}) solves the problem with C = {theirs.C:.2f} "
          f"(ours is {problem.C:g}):\nits objective there is {theirs.objective(a):.4f}, "
          f"and ours here {result.objective:.4f}.")


def picture(result):
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        print("\n(pip install matplotlib for a picture of trajectories and segments)")
        return
    fig, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    mm.assignment.equilibrium(result, trajectories=True).plot(axes[0])
    mm.assignment.graph(result).plot(axes[1])
    path = pathlib.Path("runs", "sgd_lmsvc.png")
    path.parent.mkdir(exist_ok=True)
    fig.savefig(path, dpi=120)
    print(f"\nwrote {path}: on the left the way of each boundary sample to its equilibrium")


def main():
    X, y = mm.datasets.load(f"moons:n={150 if QUICK else 600},noise=.05,seed=0")
    problem = OneClassHinge(X, C=300.0, kernel=Gaussian(gamma=10.0))
    print(f"{problem}\n")
    result = solvers_beside_one_another(problem, y)
    print("\ninside: share of the samples in the domain. A domain without any has no clusters; "
          f"below\nC = {problem.c_min():.4g} no solution has one.")
    the_same_domain_elsewhere(problem, result)
    picture(result)


if __name__ == "__main__":
    main()
