"""Kernel width and lambda without labels: what helps, how far, and where it fails.

What it teaches: objectives of two parameter settings have different units and must never be
compared. What can be compared is the partitions: `mm.selection` solves a whole path or grid, and
takes the partition that agrees most with all the others. The column ``ari`` is agreement with the
known classes, which no criterion sees; the last two sets show that every criterion can be content
with a wrong answer, and what to do then.
"""

import os

import numpy as np
from sklearn.datasets import make_blobs

import mmcopt as mm
from mmcopt.formulations import KernelKMeans, LeastSquares
from mmcopt.kernels import Neighbors

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
LAMS = (0.1, 1.0) if QUICK else mm.selection.LAMS
ari = mm.metrics.adjusted_rand_index


def one_path(X, y, k):
    wide, kernel = LeastSquares(X, k), mm.selection.resolving(X, k)
    print(f"Gaussian(width=1) has {wide.effective_dimension:.1f} directions for {k} clusters of "
          f"iris; the widest kernel that has 3.5 each is {kernel}.\n"
          "One path of lambdas with it: kernel and spectrum are computed once.")
    cells = mm.selection.path(LeastSquares(X, k, kernel=kernel), LAMS, seed=0)
    central = mm.selection.centrality([c.labels for c in cells])
    print(f"{'lam':>8}{'objective':>12}{'ratio':>8}{'stability':>11}{'centrality':>12}{'ari':>7}")
    for cell, score in zip(cells, central, strict=True):
        problem = cell.formulation
        print(f"{problem.lam:8.3g}{cell.objective:12.3f}{mm.selection.objective_ratio(cell):8.3f}"
              f"{mm.selection.stability(problem, runs=3):11.3f}{score:12.3f}"
              f"{ari(y, cell.labels):7.3f}")
    chosen = mm.selection.most_central(cells)
    print(f"most central: lam = {chosen.formulation.lam:.3g}, ari {ari(y, chosen.labels):.3f}\n")


def main():
    iris, species = mm.datasets.load("iris")
    one_path(iris, species, 3)
    widths = (0.5, 1.0) if QUICK else (0.3, 0.5, 1.0)
    digits, moons = mm.datasets.load("digits:3,8"), mm.datasets.load("moons:n=200,noise=0.1")
    blobs = make_blobs([300, 20], centers=np.array([[0.0, 0.0], [7.0, 0.0]]), random_state=0)

    def most_central(X, k, **options):
        cells = mm.selection.grid(X, k, widths=widths, lams=LAMS, **options)
        best = mm.evaluate(cells.best.formulation, cells.best.labels)  # attaches its bound
        return best, cells

    best, cells = most_central(iris, 3)
    print(f"{cells}\n")
    rows = [("iris", species, best, cells)]
    rows += [(name, y, *most_central(X, 2)) for name, (X, y) in
             {"digits 3-8": digits, "300 and 20 samples": blobs, "moons": moons}.items()]
    sized = most_central(blobs[0], 2, sizes=mm.constraints.Sizes(exact=(300, 20)))
    rows.insert(3, ("  with their sizes", blobs[1], *sized))
    graph = KernelKMeans(moons[0], 2, kernel=Neighbors().unit())
    rows.append(("  on a graph", moons[1], mm.solve(graph, seed=0), None))

    print("The most central cell of a grid of widths and lambdas:")
    print(f"{'set':20}{'lam':>8}{'objective':>11}{'bound':>9}{'gap':>8}{'agreement':>11}{'ari':>7}")
    for name, y, best, cells in rows:
        agreement = "-" if cells is None else f"{cells.scores.max():.3f}"
        lam = "-" if cells is None else f"{best.formulation.lam:.3g}"
        print(f"{name:20}{lam:>8}{best.objective:11.3f}{best.lower_bound:9.3f}"
              f"{100 * best.gap:7.1f}%{agreement:>11}{ari(y, best.labels):7.3f}")
    print("""
The criterion gains more by halving a large cluster than by parting a small one from it, and all
cells agree on that: say the sizes. Two-dimensional shapes have no margin in a wide
Gaussian: take the kernel Neighbors(), as examples/shapes.py does. High agreement is not
evidence of truth.""")


if __name__ == "__main__":
    main()
