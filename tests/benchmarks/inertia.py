"""Inertia of `Memetic` against scikit-learn's KMeans(n_init=100), and the CPU seconds of both.

``python tests/benchmarks/inertia.py`` takes fifteen sets, k = 10 and 20, three seeds: 90 runs.
``python tests/benchmarks/inertia.py mnist`` takes all 70,000 digits in 50 principal components, k =
10, against KMeans(n_init=10). Sets are those of MMCOPT_DATA where they are not bundled.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import sys
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import mmcopt as mm
from mmcopt.formulations import KernelKMeans

SETS = ("iris", "wine", "breast_cancer", "digits:3,8", "aggregation", "compound", "flame", "jain",
        "r15", "spiral", "glass", "breast_wbc", "ionosphere", "letter_ABCD_500", "usps_0123_500")
SAME = 1e-9  # relative


def timed(function):
    """What a function returns, and its CPU seconds."""
    began = time.process_time()
    return function(), time.process_time() - began


def row(f, k, inits, seed):
    """Excess of `Memetic` over KMeans as a share, and CPU seconds of both."""
    theirs, first = timed(lambda: KMeans(k, n_init=inits, random_state=seed).fit(f.X))
    ours, second = timed(lambda: mm.solve(f, "Memetic", seed=seed, bound=False))
    known = f.objective(theirs.labels_)
    return ours.objective / known - 1.0, first, second


def main(which="small"):
    warnings.simplefilter("ignore")
    if which == "mnist":
        X = PCA(50, random_state=0).fit_transform(np.asarray(mm.datasets.load("mnist")[0], float))
        plan = [("mnist", X, 10, 10)]
    else:
        sets = {name: np.asarray(mm.datasets.load(name)[0], dtype=float) for name in SETS}
        plan = [(name, X, k, 100) for name, X in sets.items() for k in (10, 20)]
    rows = []
    for name, X, k, inits in plan:
        f = KernelKMeans(X, k)
        mm.solve(f, "Memetic", seed=0, bound=False)  # compiled, and its matrices made
        some = [row(f, k, inits, seed) for seed in range(3)]
        rows += some
        print(f"{name:18}{k:4d}  excess " + " ".join(f"{e:10.2e}" for e, *_ in some)
              + f"  CPU-s {sum(r[1] for r in some):7.2f} {sum(r[2] for r in some):7.2f}",
              flush=True)
    e, theirs, ours = np.array(rows).T
    print(f"above {int((e > SAME).sum())}, same {int((abs(e) <= SAME).sum())}, below "
          f"{int((e < -SAME).sum())} of {len(e)}; CPU-s KMeans {theirs.sum():.2f}, Memetic "
          f"{ours.sum():.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
