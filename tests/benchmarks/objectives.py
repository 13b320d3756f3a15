"""Agreement with the classes of the defaults and of model="auto", a row a set.

    MMCOPT_DATA=... python tests/benchmarks/objectives.py           the sets of the literature
    python tests/benchmarks/objectives.py others                    more, generated or bundled

Columns: adjusted Rand index of `LeastSquaresClustering(k)` with width 1 and lam .1, with its
defaults, with model="auto", of scikit-learn's KMeans and Ward, which does not take sparse sets, and
CPU seconds of model="auto".
"""

import os
import sys
import time
import warnings

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import make_blobs

import mmcopt as mm
from mmcopt.checks import is_sparse
from mmcopt.estimators import LeastSquaresClustering
from mmcopt.kernels import Gaussian

SETS = ("aggregation", "compound", "flame", "jain", "r15", "spiral", "glass", "breast_wbc",
        "coil20", "coil_1to4", "ionosphere", "letter_ABCD_500", "letter_AvB", "ringnorm_1000",
        "satellite_1v2", "usps_0123_500", "news_rec", "webkb_cl", "iris", "wine", "breast_cancer",
        "digits", "digits:3,8", "digits:1,7", "digits:0,2,4,6", "digits:5,6,8,9")
OTHERS = ("moons:n=400,noise=.1,seed=0", "moons:n=400,noise=.1,seed=1",
          "circles:n=400,noise=.07", "blobs:n=500,k=5,seed=3", "gaussians:n=300,distance=3",
          "digits:4,9", "digits:2,7", "digits:1,8", "digits:0,1,2,3,4", "digits:3,5,9")


def generated():
    """Stretched and unequal clouds, and arms."""
    X, y = make_blobs(500, random_state=170, n_features=2)
    yield "stretched", (X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y)
    yield "unequal", make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170)
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    turn = np.sqrt(rng.uniform(0.05, 1.0, 300)) * 2 * np.pi
    angle = turn + 2 * np.pi * y / 3
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    yield "arms", (X + 0.15 * rng.standard_normal(X.shape), y)


def figures(X, y):
    """The row of a set."""
    k = len(set(y))
    models = {"width 1": LeastSquaresClustering(k, kernel=Gaussian(width=1.0), random_state=0),
              "default": LeastSquaresClustering(k, random_state=0),
              "auto": LeastSquaresClustering(k, model="auto", random_state=0),
              "KMeans": KMeans(k, n_init=10, random_state=0)}
    if not is_sparse(X):
        models["Ward"] = AgglomerativeClustering(k)
    row = dict.fromkeys(("width 1", "default", "auto", "KMeans", "Ward"), np.nan)
    for name, model in models.items():
        began = time.process_time()
        row[name] = mm.metrics.adjusted_rand_index(y, model.fit(X).labels_)
        if name == "auto":
            row["seconds"] = time.process_time() - began
    return row


def main(which="literature"):
    warnings.simplefilter("ignore")
    names = OTHERS if which == "others" else SETS
    sets = [(name, mm.datasets.load(name)) for name in names
            if ":" in name or "MMCOPT_DATA" in os.environ or name in ("iris", "wine", "digits")]
    rows = []
    for name, (X, y) in [*sets, *(generated() if which == "others" else ())]:
        rows.append(figures(X if is_sparse(X) else np.asarray(X, dtype=float), y))
        print(f"{name:28}" + "".join(f"{c} {v:6.3f}  " for c, v in rows[-1].items()), flush=True)
    for said, some in (("all", rows), ("dense", [r for r in rows if not np.isnan(r["Ward"])])):
        print(f"{said + f' ({len(some)})':28}" + "".join(
            f"{c} {np.mean([r[c] for r in some]):6.3f}  " for c in rows[0] if c != "seconds"))


if __name__ == "__main__":
    main(*sys.argv[1:])
