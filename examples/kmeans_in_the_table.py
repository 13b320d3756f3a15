"""Other people's labels in the same table: k-means, spectral clustering, Ward, and the truth.

What it teaches: `mm.evaluate` turns any labels into a result with objective, bound and gap. So a
method that has never heard of the objective can be judged by it, improved from, and certified.
Labels may be any values, and infeasible ones are shown with their violation and without a gap.
"""

import os

from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering

import mmcopt as mm
from mmcopt.constraints import Sizes
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Memetic, StochasticDescent

QUICK = bool(os.environ.get("MMCOPT_QUICK"))


def main():
    X, y = mm.datasets.load("iris")
    problem = LeastSquares(X, 3, kernel=Gaussian(width=0.5), lam=0.1, sizes=Sizes(within=0.3))
    table = mm.compare(problem, [StochasticDescent(), Memetic()], seeds=2 if QUICK else 10, y=y)

    others = {"KMeans": KMeans(3, n_init=10, random_state=0),
              "SpectralClustering": SpectralClustering(3, random_state=0),
              "Ward": AgglomerativeClustering(3),
              "single linkage": AgglomerativeClustering(3, linkage="single")}
    results = {name: mm.evaluate(problem, model.fit_predict(X)) for name, model in others.items()}
    species = [["setosa", "versicolor", "virginica"][i] for i in y]
    results["the species themselves"] = mm.evaluate(problem, species)
    for name, result in results.items():
        table.add(name, result)
    print(table)

    print("""
Memetic is below all of them, the species included: here the objective and not the search is what
parts the best labels from the species, and no better search will find them.""")

    print("\nLabels can also be a start; what a descent makes of those of k-means:")
    start = results["KMeans"]
    print(f"  {start}\n  {mm.solve(problem, StochasticDescent(), init=start, seed=0)}")


if __name__ == "__main__":
    main()
