"""Clusters of any shape and size: which objective asks for what.

What it teaches: where an answer disappoints, the objective is to blame more often than the search.
`LeastSquares` fits targets of one height, and so asks for clusters of like size. In
`DiscriminativeKMeans` and `KernelKMeans` every cluster counts the same, whatever its size. A
Gaussian kernel sees how far samples are apart; `Neighbors` sees what short steps connect, and
follows curves. The column ``ari`` is agreement with the classes, which no problem sees: objectives
of different problems have different units and say nothing about each other.
"""

import os
import pathlib

import numpy as np

import mmcopt as mm
from mmcopt.formulations import DiscriminativeKMeans, KernelKMeans, LeastSquares
from mmcopt.kernels import Neighbors

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
SETS = ("moons", "sizes") if QUICK else ("moons", "circles", "spirals", "sizes")


def spirals(arms=3, each=100):
    """Arms that wind once around the middle."""
    rng = np.random.default_rng(0)
    y = np.arange(arms * each) % arms
    turn = np.sqrt(rng.uniform(0.05, 1.0, len(y))) * 2 * np.pi
    angle = turn + 2 * np.pi * y / arms
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.15 * rng.standard_normal(X.shape), y


def sizes(counts=(300, 60, 20)):
    """Round clusters of very different sizes."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(counts)), counts)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
    return centres[y] + np.array([1.3, 0.7, 0.4])[y, None] * rng.standard_normal((len(y), 2)), y


def data(name):
    made = {"spirals": spirals, "sizes": sizes}
    return made[name]() if name in made else mm.datasets.load(f"{name}:n=300,noise=.07,seed=0")


def problems(X, k):
    """The same data as four problems."""
    near = mm.selection.resolving(X, k)  # the widest Gaussian that tells k clusters apart
    return {"LeastSquares": LeastSquares(X, k, kernel=near),
            "DiscriminativeKMeans": DiscriminativeKMeans(X, k, kernel=near),
            "KernelKMeans": KernelKMeans(X, k),
            "KernelKMeans on Neighbors": KernelKMeans(X, k, kernel=Neighbors().unit())}


def draw(found):
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nFor a picture: pip install 'mmcopt[plot]', and run again.")
        return
    names = list(next(iter(found.values()))[1])
    figure, axes = plt.subplots(len(found), len(names), squeeze=False, layout="constrained",
                                figsize=(3.0 * len(names), 2.7 * len(found)))
    for row, (X, results) in zip(axes, found.values(), strict=True):
        for ax, (name, (result, score)) in zip(row, results.items(), strict=True):
            ax.scatter(X[:, 0], X[:, 1], c=result.labels, s=8, cmap="viridis")
            ax.set(xticks=[], yticks=[], title=f"{name}\nARI {score:.2f}")
            ax.title.set_fontsize(9)
    path = pathlib.Path("runs") / "shapes.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"\nwrote {path}")


def main():
    print(f"{'set':10}{'problem':28}{'objective':>11}{'bound':>10}{'gap':>8}{'ari':>8}")
    found = {}
    for name in SETS:
        X, y = data(name)
        results = {}
        for which, problem in problems(X, len(set(y))).items():
            result = mm.solve(problem, seed=0)
            score = mm.metrics.adjusted_rand_index(y, result.labels)
            results[which] = result, score
            print(f"{name:10}{which:28}{result.objective:11.5g}{result.lower_bound:10.5g}"
                  f"{100 * result.gap:6.1f} %{score:8.2f}")
        found[name] = X, results
    X, y = data("moons")
    half = np.arange(len(X)) % 2 == 0
    model = KernelKMeans(X[half], 2, kernel=Neighbors().unit())
    result = mm.solve(model, seed=0)
    placed = model.decision_function(result.point, X[~half]).argmax(axis=1)
    agree = mm.metrics.adjusted_rand_index(y[~half], placed)
    print(f"\nNew samples are placed by their neighbours: half of the moons, ari {agree:.2f}.")
    draw(found)


if __name__ == "__main__":
    main()
