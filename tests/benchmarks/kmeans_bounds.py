"""k-means proved from labels of scikit-learn: the bound, what it takes, and what it says.

``python tests/benchmarks/kmeans_bounds.py [name:k[:limit] ...]`` runs the sets named, or a few.
Names are those of `mmcopt.datasets.load`, a ``z`` before them standardises the columns; the limit
is one of wall-clock seconds, the time printed is that of the processor.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import sys
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.errors import MMCWarning
from mmcopt.formulations import KernelKMeans

SMALL = ("iris:2", "iris:3", "iris:4", "wine:3", "zwine:3")


def data(name):
    """The samples of a set, standardised where the name begins with z."""
    X = np.asarray(mm.datasets.load(name.removeprefix("z"))[0], dtype=np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0) if name.startswith("z") else X


def proved(name, k, limit):
    """One row of the table."""
    from sklearn.cluster import KMeans

    problem = KernelKMeans(data(name), k)
    labels = KMeans(k, n_init=10, random_state=0).fit(problem.X).labels_
    began = time.process_time()
    result = mm.certify(problem, labels, time_limit=limit, improve=True,
                        progress=lambda rung: rungs.append((time.process_time() - began, rung)))
    print(f"{name:>12} {problem.n:6d} {k:3d} {result.objective:16.6f} {result.lower_bound:16.6f} "
          f"{result.gap:9.2e} {time.process_time() - began:8.2f} s  {result.status.name}  "
          f"verified {bool(result.verify())}", flush=True)
    marks = [rungs[i] for i in np.linspace(0, len(rungs) - 1, 6).astype(int)]
    print(" " * 13 + "  ".join(f"{s:.1f} s {1 - r.lower / r.upper:.1e}" for s, r in marks),
          flush=True)


rungs: list = []

if __name__ == "__main__":
    warnings.simplefilter("ignore", MMCWarning)
    for given in sys.argv[1:] or SMALL:
        parts = given.split(":")
        rungs.clear()
        proved(parts[0], int(parts[1]), float(parts[2]) if len(parts) > 2 else 600.0)
