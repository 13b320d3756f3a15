"""Every solver that fits a problem, side by side: who finds the lowest objective, and how soon.

What it teaches: `mm.fits` lists the partners of a problem and says why the others are not among
them; `mm.compare` runs them from the same seeds and keeps one row a run. Nothing in this script
knows a solver by name, so a solver of your own (see your_own.py) joins by being defined.
"""

import importlib.util
import os
import pathlib

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian

QUICK = bool(os.environ.get("MMCOPT_QUICK"))


def main():
    name = "digits:3,8" if QUICK else "digits:1,3,8,9"
    X, y = mm.datasets.load(name)
    problem = LeastSquares(X, len(set(y)), kernel=Gaussian(width=0.5), lam=0.1)
    partners = mm.fits(problem)
    print("mm.fits(problem):")
    print(f"{partners}\n")

    table = mm.compare({name: problem}, partners.names, seeds=1 if QUICK else 2, y=y,
                       time_limit=0.05 if QUICK else 0.5)
    print(table)
    print("""
hits     share of the runs within 1e-6 (relative) of the lowest objective that is known
seconds  of the search alone, after the kernel and R, which all of them share
ari      mean agreement with the digits, which no solver has seen""")

    best = table.best(name)
    print(f"\nbest of all: {best}\n")
    print(best.verify())

    if importlib.util.find_spec("matplotlib"):
        folder = pathlib.Path("runs")
        folder.mkdir(exist_ok=True)
        for kind in ("time", "box"):
            ax = table.plot(kind=kind)
            ax.figure.savefig(folder / f"compare_solvers-{kind}.png", dpi=120,
                              bbox_inches="tight")
        print(f"\nwrote {folder}/compare_solvers-time.png and {folder}/compare_solvers-box.png")


if __name__ == "__main__":
    main()
