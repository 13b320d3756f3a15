"""The largest margin between two unknown classes, proved, and how far k-means is from it.

Searches for margins end somewhere; nothing says how good that is. `MarginTree` branches on labels
until no other labels can be better, and its tree is a certificate.

What it teaches: distances from an unknown optimum can be proved, those of other people's labels as
well, and a fresh check in NumPy, from a saved file, needs no solver.
"""

import tempfile
from pathlib import Path

from sklearn.cluster import KMeans

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.formulations import CPM3C
from mmcopt.solvers import CuttingPlane, MarginTree


def main() -> None:
    """Prove, compare, save, and check again."""
    X, y = mm.datasets.load("digits:3,8")
    X, y = X[:150], y[:150]
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(X)

    print(f"{'beta':>5}  {'objective':>9}  {'bound':>8}  {'gap':>7}  nodes  "
          "k-means above  search above")
    for beta in (0.3, 0.1, 0.05):
        problem = CPM3C(X, beta=beta)
        tree = mm.solve(problem, MarginTree(), seed=0)
        # The best of all weights for the labels of k-means: a convex problem.
        kmeans = mm.solve(problem.restrict(labels), CuttingPlane(epsilon=1e-4), seed=0)
        search = mm.solve(problem, CuttingPlane(), seed=0)
        away = [100 * (r.objective / tree.lower_bound - 1) for r in (kmeans, search)]
        print(f"{beta:>5}  {tree.objective:>9.5f}  {tree.lower_bound:>8.5f}  "
              f"{100 * tree.gap:>6.4f}%  {tree.history['nodes'][-1]:>5.0f}  "
              f"{away[0]:>12.1f}%  {away[1]:>11.1f}%")

    print(f"\nagreement with the classes: {mm.metrics.accuracy(y, tree.labels):.3f} of the optimum "
          f"at beta = {beta:g}, {mm.metrics.accuracy(y, labels):.3f} of k-means")

    with tempfile.TemporaryDirectory() as folder:
        tree.save(Path(folder) / "proof.npz")
        report = mm.load(Path(folder) / "proof.npz").verify()
    print(f"\nchecked again from a file:\n{report}")

    lines = str(proof_tree(tree)).splitlines()
    print("\nthe first nodes of the tree:", *lines[:12], sep="\n")


if __name__ == "__main__":
    main()
