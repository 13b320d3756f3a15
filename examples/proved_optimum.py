"""A proved optimum with the tree that proves it, saved, loaded, checked, and tampered with.

What it teaches: `BranchAndBound` ends with a certificate that is more than a word: a tree of
decisions "these two samples share a cluster, or do not", and at each leaf the dual point that shows
that no labeling there is better. ``verify()`` checks all of it again in NumPy, without any solver,
and a tree that was changed proves no more than what is left of it.
"""

import dataclasses
import importlib.util
import os
import pathlib
import tempfile

import numpy as np

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import BranchAndBound

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
SECONDS = 30
SEED = 3 if QUICK else 0  # samples for which cuts alone do not close the gap


def saved_and_loaded(result):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "proof.npz"
        result.save(path)
        print(f"The whole proof, data included, is a file of {path.stat().st_size // 1024} KiB.")
        return mm.load(path)


def tampered(result):
    """The same result, but one leaf has other duals: a proof with a hole."""
    c = result.certificate
    nodes = list(c.duals["duals"])
    leaf = max((v for v in proof_tree(result).leaves if nodes[v] and "u" in nodes[v]), default=0)
    nodes[leaf] = {**nodes[leaf], "u": 1.5 * nodes[leaf]["u"]}
    forged = dataclasses.replace(c, duals={**c.duals, "duals": nodes})
    return dataclasses.replace(result, certificate=forged)


def main():
    X, y = mm.datasets.load("digits:3,8")
    rows = np.random.default_rng(SEED).choice(len(X), 30 if QUICK else 60, replace=False)
    problem = LeastSquares(X[rows], 2, kernel=Gaussian(width=0.3), lam=2**-5, center=False,
                           sizes=0.1)
    print(f"{problem}\n")
    start = mm.solve(problem, seed=0)
    result = mm.solve(problem, BranchAndBound(), seed=0, time_limit=SECONDS)
    print(f"{'':26}{'objective':>11}{'bound':>11}{'gap':>12}")
    for name, r in {"default search": start, "branch and bound": result}.items():
        print(f"{name:26}{r.objective:11.6f}{r.lower_bound:11.6f}{100 * r.gap:11.4f} %")
    if result.certificate.kind != "branch-and-bound":
        print(f"\n{SECONDS} s did not suffice for a tree; the bound is that of "
              f"{result.certificate.kind}.")
        return
    said = "None is better" if result.status is mm.Status.CERTIFIED else \
        f"None can be better by more than {100 * result.gap:.3g} %, as far as {SECONDS} s went"
    print(f"\nThere are about 2^{problem.n - 1} labelings. {said}, and why, split by split on two "
          "samples:\n")
    print(proof_tree(result))
    if importlib.util.find_spec("matplotlib"):
        folder = pathlib.Path("runs")
        folder.mkdir(exist_ok=True)
        result.plot(kind="tree").figure.savefig(folder / "proved_optimum-tree.png", dpi=120)
        print(f"\nwrote {folder}/proved_optimum-tree.png")

    print()
    again = saved_and_loaded(result)
    report = again.verify()
    print(f"Checked again after loading, without any solver: {bool(report)}\n{report}\n")
    print("One leaf tampered with, and the bound still claimed:")
    print(tampered(again).verify())
    better = dataclasses.replace(again, lower_bound=again.objective + 1)
    print("\nThe proof as it was, and more claimed than it proves:")
    print(better.verify())


if __name__ == "__main__":
    main()
