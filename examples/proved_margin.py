"""The largest margin between two unknown classes, proved, and how far k-means is from it.

Searches for margins end somewhere; nothing says how good that is. `MarginTree` branches on labels
until no other labels can be better, and its tree is a certificate.

What it teaches: distances from an unknown optimum can be proved, those of other people's labels as
well, and a fresh check in NumPy, from a saved file, needs no solver. With matplotlib it draws the
optimum and k-means side by side into runs/proved_margin.png.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.formulations import CPM3C
from mmcopt.solvers import CuttingPlane, MarginTree


def main() -> None:
    """Prove, compare, save, check again, and draw."""
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
    print(f"\nchecked again from a file:\n{report}\n\n{proof_tree(tree).statement}")

    lines = str(proof_tree(tree)).splitlines()
    print("\nthe first nodes of the tree:", *lines[:12], sep="\n")
    draw(Path("runs") / "proved_margin.png")


def draw(path: Path) -> None:
    """Two long clouds: the proved optimum, k-means, and how far it is proved to be away."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nFor a picture: pip install 'mmcopt[plot]', and run again.")
        return
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2)) * [2.2, 0.35] + np.repeat([[-0.4, 1.0], [0.4, -1.0]], 45, axis=0)
    problem = CPM3C(X, beta=0.01)
    optimum = mm.solve(problem, MarginTree(), seed=0)
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(X)
    kmeans = mm.solve(problem.restrict(labels), CuttingPlane(epsilon=1e-4), seed=0)
    away = np.floor(100 * kmeans.lower_bound / optimum.objective) / 100
    least = np.floor(1e4 * optimum.lower_bound) / 1e4  # rounded down, to stay true
    titles = (f"the optimum: {optimum.objective:.4f},\nproved: none is below {least:.4f}",
              f"k-means: {kmeans.objective:.4f},\nproved: at least {away:.2f} times the optimum")
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    grid = np.stack(np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True))))
    scale = np.linalg.norm(problem.features.dense()) / np.linalg.norm(X - X.mean(axis=0))
    figure, axes = plt.subplots(1, 2, sharey=True, layout="constrained", figsize=(9, 2.5))
    for axis, W, found, title in zip(axes, (optimum.point, kmeans.point), (optimum.labels, labels),
                                     titles, strict=True):
        w = (W[0] - W[1]) * scale
        score = np.tensordot(w, grid - X.mean(axis=0)[:, None, None], 1)
        axis.contour(*grid, score, levels=(-1, 0, 1), colors="k", linestyles=("--", "-", "--"))
        axis.scatter(*X.T, c=found, cmap="coolwarm", s=18)
        axis.set(title=title, aspect="equal", xticks=(), yticks=())
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
