"""How wide a kernel, how soft a margin? Three criteria side by side, and a tree that needs neither.

What it teaches: the number of clusters of a one-class model depends on gamma and C, and no single
number says which are right. Silhouette, persistence and stability look at different things and may
disagree; the column ``ari`` compares with the known classes, which none of them has seen. A level
tree reads all levels of one model at once: clusters that touch, which every domain joins or loses,
are still peaks of its decision function.
"""

import os

import mmcopt as mm
from mmcopt.estimators import SupportVectorClustering

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
ari = mm.metrics.adjusted_rand_index


def criteria(X, y):
    table = mm.selection.domains(X, method="graph", halves=2 if QUICK else 4)
    print("Fifteen models of two moons: gamma around the rule of thumb, soft to hard margin.\n")
    print(table)
    print("\nwhat each criterion likes most:")
    print(f"{'':13}{'gamma':>9}{'C':>9}{'clusters':>10}{'objective':>11}{'bound':>9}{'gap':>8}"
          f"{'ari':>7}")
    for name in ("silhouette", "persistence", "stability"):
        i = table.best(name)
        row, result, clusters = table.rows[i], table.results[i], table.clusters[i]
        print(f"{name:13}{row['gamma']:9.3g}{row['C']:9.4g}{row['clusters']:10}"
              f"{result.objective:11.3f}{result.lower_bound:9.3f}{100 * result.gap:7.2f}%"
              f"{ari(y, clusters.labels):7.2f}")


def trees(X, y):
    model = SupportVectorClustering(assignment="level_tree", random_state=0).fit(X)
    print("\nThe level tree of one model (gamma and C by the documented rule):\n")
    print(model.assignment_.tree)
    print(f"\nsuggested: {model.n_clusters_} clusters, ARI {ari(y, model.labels_):.2f}; "
          f"gap of the model {100 * model.gap_:.2f} %, verified: {bool(model.result_.verify())}")


def main():
    X, y = mm.datasets.load(f"moons:n={120 if QUICK else 300},noise=.07,seed=3")
    criteria(X, y)
    trees(X, y)


if __name__ == "__main__":
    main()
