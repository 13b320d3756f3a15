"""scikit-learn's clusterers beside LeastSquaresClustering with all its defaults: ARI and time.

    MMCOPT_DATA=folder python tests/benchmarks/others.py

The number of clusters is given; nothing else is chosen with labels. COIL is standardised pixel by
pixel for all methods. Gaussian mixtures that break down on raw pixels get a larger covariance floor.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture

import mmcopt as mm
from mmcopt.estimators import LeastSquaresClustering

SETS = ("iris", "digits:3,8", "digits:8,9", "digits", "coil_1to4", "usps_0123_500", "letter_AvB",
        "breast_wbc")
METHODS: dict[str, Callable[[int], Any]] = {
    "mmcopt": lambda k: LeastSquaresClustering(k, random_state=0),
    "k-means": lambda k: KMeans(k, n_init=10, random_state=0),
    "spectral rbf": lambda k: SpectralClustering(k, random_state=0),
    "spectral knn": lambda k: SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
    "Ward": lambda k: AgglomerativeClustering(k),
    "mixture": lambda k: GaussianMixture(k, random_state=0, reg_covar=1e-3),
}


def load(name: str) -> tuple[Any, Any]:
    X, y = mm.datasets.load(name)
    X = np.asarray(X, dtype=np.float64)
    if name.startswith("coil"):
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, y


def main() -> None:
    LeastSquaresClustering(3, random_state=0).fit(load("iris")[0])  # compiles
    LeastSquaresClustering(2, random_state=0).fit(load("digits:3,8")[0])
    scores: dict[str, list[float]] = {name: [] for name in METHODS}
    print(f"{'ARI (seconds)':<16}" + "".join(f"{name:>16}" for name in METHODS))
    for name in SETS:
        X, y = load(name)
        cells = []
        for method, make in METHODS.items():
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                labels = make(len(np.unique(y))).fit_predict(X)
            spent = time.perf_counter() - start
            scores[method].append(mm.metrics.adjusted_rand_index(y, labels))
            cells.append(f"{scores[method][-1]:.3f} ({spent:.2f})")
        print(f"{name:<16}" + "".join(f"{c:>16}" for c in cells), flush=True)
    print(f"{'mean':<16}" + "".join(f"{np.mean(s):>16.3f}" for s in scores.values()))


if __name__ == "__main__":
    main()
