"""All relaxations of one problem, and the ladder of bounds that `certify` climbs.

What it teaches: `problem.relaxations()` lists the convex problems that bound this one, with what
they cost; `problem.relax(kind)` builds one, and it is solved and checked like any other problem.
A conic solver finds the value of each, to see how tight they are; that is practical for some dozens
of samples, and for hundreds there are the default solvers. `certify` uses those one after another,
and the picture shows when which of them knew what.
"""

import importlib.util
import os
import pathlib
import time

import numpy as np

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Conic

QUICK = bool(os.environ.get("MMCOPT_QUICK"))


def timed(relaxed, solver, limit):
    start = time.perf_counter()
    result = mm.solve(relaxed, solver, seed=0, time_limit=limit)
    return result, time.perf_counter() - start


def table_of_relaxations(problem):
    best = mm.solve(problem, seed=0)
    print(f"{'':16}{'by a conic solver':>56}   {'by the default solver':27}")
    print(f"{'kind':16}{'relaxed value':>13}{'bound':>9}{'objective':>11}{'gap':>9}{'seconds':>9}"
          f"{'rounded':>9}   {'solver':16}{'bound':>9}{'seconds':>9}")
    for kind in problem.relaxations().kinds:
        relaxed = problem.relax(kind)
        if not relaxed.bounds_problem:
            continue  # it bounds a relative of the problem, in other units
        r, seconds = timed(relaxed, Conic(), 5)
        own, own_seconds = timed(relaxed, relaxed.default_solver, 0.3 if QUICK else 3)
        rounded = problem.objective(r.labels)  # labels near the relaxed point
        print(f"{kind:16}{r.objective:13.4f}{r.lower_bound:9.4f}{best.objective:11.4f}"
              f"{100 * (best.objective - r.lower_bound) / best.objective:7.2f} %{seconds:9.2f}"
              f"{rounded:9.4f}   {own.solver:16}{own.lower_bound:9.4f}{own_seconds:9.2f}")
    print("""
relaxed value  minimum of the convex problem, up to a conic solver's tolerance
bound          from a dual point, and proved: no labels at all are below it
objective      of the best labels that the default search found
rounded        objective of the labels that the relaxed point is rounded to
""")


def main():
    X, _ = mm.datasets.load("digits:3,8")
    order = np.random.default_rng(0).permutation(len(X))
    small = LeastSquares(X[order[:20 if QUICK else 30]], 2, kernel=Gaussian(width=0.5), lam=0.1)
    print(f"{small}\n\nproblem.relaxations():\n{small.relaxations()}\n")
    table_of_relaxations(small)

    large = LeastSquares(X[order[:40 if QUICK else 120]], 2, kernel=Gaussian(width=0.5), lam=0.1)
    result = mm.solve(large, seed=0).certify(time_limit=0.3 if QUICK else 8)
    print(f"The ladder, for {large.n} samples: {result}")
    for level, rung in {rung.level: rung for rung in result.ladder}.items():  # the last of each
        print(f"  {level:18} bound {rung.lower:.4f} after {rung.seconds:.2f} s")
    print(f"Checked again, without any solver: {bool(result.verify())}")

    if importlib.util.find_spec("matplotlib"):
        folder = pathlib.Path("runs")
        folder.mkdir(exist_ok=True)
        ax = result.plot(kind="ladder")
        ax.figure.savefig(folder / "relaxation_ladder.png", dpi=120)
        print(f"wrote {folder}/relaxation_ladder.png")


if __name__ == "__main__":
    main()
