"""k-means that says how far from optimal it can be, in place of scikit-learn's.

What it teaches: `CertifiedKMeans` is used as `KMeans` is, searches as well as many starts of that
do, and bounds the inertia of any clustering at all. The same bound measures the labels of others,
here those of scikit-learn from one start and from many: `mm.evaluate(KernelKMeans(X, k), labels)`.
The bound of a table is the cheap one, by eigenvalues. Where `certify` grants seconds a semidefinite
relaxation takes its place, which often proves that nothing is better.
"""

import os
import time

from sklearn.cluster import KMeans

import mmcopt as mm
from mmcopt.estimators import CertifiedKMeans
from mmcopt.formulations import KernelKMeans

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
SETS = [("iris", 3), ("iris", 10)] if QUICK else [("iris", 3), ("iris", 10), ("digits", 10),
                                                  ("digits", 30)]


def timed(model, X):
    started = time.perf_counter()
    model.fit(X)
    return model.labels_, time.perf_counter() - started


def main():
    print(f"{KernelKMeans(mm.datasets.load('iris')[0], 3)}\n")
    models = {"KMeans(n_init=1)": lambda k: KMeans(k, n_init=1, random_state=0),
              "KMeans(n_init=100)": lambda k: KMeans(k, n_init=100, random_state=0),
              "CertifiedKMeans()": lambda k: CertifiedKMeans(k, random_state=0)}
    print(f"{'set':12}{'clusters':>9}  {'model':20}{'objective':>14}{'bound':>14}{'gap':>9}"
          f"{'seconds':>9}")
    for name, k in SETS:
        X, _ = mm.datasets.load(name)
        CertifiedKMeans(k, random_state=0).fit(X)  # loops are compiled when they are first called
        problem = KernelKMeans(X, k)
        bound = mm.evaluate(problem, CertifiedKMeans(k, random_state=0).fit(X).labels_).lower_bound
        for what, make in models.items():
            labels, seconds = timed(make(k), X)
            inertia = problem.objective(labels)
            print(f"{name:12}{k:9d}  {what:20}{inertia:14.5g}{bound:14.5g}"
                  f"{100 * (inertia - bound) / inertia:7.2f} %{seconds:9.2f}")
    X, _ = mm.datasets.load("gaussians:n=40,distance=3,seed=0" if QUICK else "iris")
    model = CertifiedKMeans(3, certify=60.0, random_state=0).fit(X)
    print(f"\nOf {len(X)} samples in 3 clusters the inertia is {model.inertia_:.6g}, and no "
          f"clustering is below {model.lower_bound_:.6g}\n({model.result_.status.name.lower()}: a "
          f"gap of {100 * model.gap_:.2g} %). Checked again in NumPy, without any solver:\n"
          f"{model.result_.verify()}")


if __name__ == "__main__":
    main()
