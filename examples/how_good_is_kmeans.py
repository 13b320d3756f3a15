"""How good is k-means? Its labels, and how far at most they are from the best possible ones.

What it teaches: `mm.certify` takes anybody's labels and bounds how far from optimal they can be for
an objective: cheap bounds first, then semidefinite relaxations, then branch and bound, until the
time is up. Better labels that it meets on the way are kept in ``incumbent``. A bound is about the
problem, so the labels of others are measured by it as well.
"""

import os

import numpy as np
from sklearn.cluster import KMeans

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
SECONDS = 1.0 if QUICK else 12.0


def percent(share):
    return f"{100 * share:.2g} %"


def main():
    X, y = mm.datasets.load("digits:3,8")
    rows = np.random.default_rng(0).choice(len(X), 40 if QUICK else 120, replace=False)
    X, y = X[rows], y[rows]
    problem = LeastSquares(X, 2, kernel=Gaussian(width=0.5), lam=0.1)
    print(f"{problem}\n")
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(X)

    cheap = mm.evaluate(problem, labels)
    print(f"The labels of k-means have the objective {cheap.objective:.4f}. A bound that costs an "
          f"eigenvalue says\nthat no labels are below {cheap.lower_bound:.4f}: they may be "
          f"{percent(cheap.gap)} from optimal, or optimal; so far nobody knows.\n")

    result = mm.certify(problem, labels, time_limit=SECONDS)
    print("What is known, and when:")
    print(f"{'level':20}{'seconds':>9}{'bound':>10}{'best objective':>16}{'gap':>9}")
    ends = {rung.level: rung for rung in result.ladder}  # the last of each level
    for level, r in ends.items():
        print(f"{level:20}{r.seconds:9.2f}{r.lower:10.4f}{r.upper:16.4f}"
              f"{percent((r.upper - r.lower) / r.upper):>9}")
    print(f"\nThe labels of k-means are at most {percent(result.gap)} from the best possible "
          "labels: no labels at all can save more\nthan that share of their objective.")
    best = result.incumbent
    if best is None:
        print("No better labels were met on the way.")
    else:
        saved = 1 - best.objective / result.objective
        moved = len(y) - round(mm.metrics.accuracy(labels, best.labels) * len(y))
        print(f"Labels that save {percent(saved)} were met on the way, of objective "
              f"{best.objective:.4f}: they put {moved} of the {len(y)} images into the\nother "
              f"cluster, and are themselves at most {percent(best.gap)} from optimal.")
    print(f"\nChecked again in NumPy, without any solver:\n{result.verify()}")

    print("\nThe same bound measures whoever comes next:")
    others = {"k-means": labels, "the digits themselves": y}
    if best is not None:
        others["met on the way"] = best.labels
    print(f"{'':24}{'objective':>10}{'bound':>10}{'gap at most':>13}{'accuracy':>10}")
    for name, given in others.items():
        value = mm.evaluate(problem, given).objective
        print(f"{name:24}{value:10.4f}{result.lower_bound:10.4f}"
              f"{percent((value - result.lower_bound) / value):>13}"
              f"{100 * mm.metrics.accuracy(y, given):9.1f}%")
    print("\nWhere labels of a small gap agree less with the digits than others do, it is the "
          "objective that\nprefers them: no better search will help, only another objective.")


if __name__ == "__main__":
    main()
