"""scikit-learn's clusterings beside ours, without labels: ``python tests/benchmarks/others.py``.

Time of a fit and mean ARI over some seeds, over the sets of the work order's defaults row.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.errors import DataError
from mmcopt.tables import markdown_table

SETS = ("iris", "digits:3,8", "digits:8,9", "digits", "coil_1to4", "usps_0123_500", "letter_AvB",
        "breast_wbc")
STANDARDISED = ("coil_1to4",)
OURS = "mmcopt"


def ours(k, seed):
    try:
        from mmcopt.estimators import LeastSquaresClustering
    except ImportError:
        return None
    return LeastSquaresClustering(n_clusters=k, random_state=seed)


def solved(X, k, seed):
    return mm.solve(mm.formulations.LeastSquares(X, k), seed=seed).labels


def methods(k, seed):
    from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
    from sklearn.mixture import GaussianMixture

    return {
        OURS: ours(k, seed),
        "KMeans(n_init=10)": KMeans(k, n_init=10, random_state=seed),
        "Spectral, RBF": SpectralClustering(k, affinity="rbf", random_state=seed),
        "Spectral, 10-nn": SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=10,
                                              random_state=seed),
        "GaussianMixture": GaussianMixture(k, random_state=seed),
        "Ward": AgglomerativeClustering(k, linkage="ward"),
    }


def fitted(name, X, k, seed):
    """Seconds and labels of one fit."""
    model = methods(k, seed)[name]
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = solved(X, k, seed) if model is None else model.fit_predict(X)
    return time.perf_counter() - started, labels


def data(name):
    X, y = mm.datasets.load(name)
    X = np.asarray(X, dtype=np.float64)
    if name in STANDARDISED:
        deviation = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return X, y


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--out", type=pathlib.Path, help="folder for others.md and others.json")
    args = parser.parse_args()
    fitted(OURS, *data("iris")[:1], 3, 0)  # compiles
    rows, times = [], []
    for name in args.sets:
        try:
            X, y = data(name)
        except DataError as e:
            print(f"{name}: skipped, {e}")
            continue
        k = int(y.max()) + 1
        row, seconds = {"set": name}, {"set": name}
        for method in methods(k, 0):
            got = [fitted(method, X, k, seed) for seed in range(args.seeds)]
            aris = [mm.metrics.adjusted_rand_index(y, labels) for _, labels in got]
            row[method] = round(float(np.mean(aris)), 3)
            seconds[method] = round(min(s for s, _ in got), 3)
        rows.append(row)
        times.append(seconds)
        print(row, flush=True)
    means = {m: round(float(np.mean([r[m] for r in rows])), 3) for m in rows[0] if m != "set"}
    rows.append({"set": "mean", **means})
    text = "\n\n".join(["ARI, mean over seeds", markdown_table(rows, list(rows[0])),
                        "seconds of a fit, best of the seeds",
                        markdown_table(times, list(times[0]))])
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "others.md").write_text(text + "\n", encoding="utf-8")
        (args.out / "others.json").write_text(json.dumps({"ari": rows, "seconds": times}, indent=1))


if __name__ == "__main__":
    main()
