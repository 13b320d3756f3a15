"""Optima of margins, proved: ``python tests/benchmarks/margins.py [proofs|kernels|classes|large]``.

Without a name all of:

proofs   two-class CPM3C on digits 3-8, with a Gaussian kernel, iris and moons, 100 and 200 samples
kernels  MKC with its three kernels, 100 samples, C = 50 and 10
classes  CPM3C of three classes: iris, three clouds, 30 and 60 samples
large    all 357 digits of 3 and 8 at beta = .1: the bound as seconds go by

Each row is the optimum, the gap, how well the optimum agrees with the classes, the nodes, and
seconds of the processor of all of ``mm.solve`` and of loading the result from a file and verifying
it. Run with one BLAS thread (OPENBLAS_NUM_THREADS=1).
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np

import mmcopt as mm
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian

SECONDS = 60.0  # of the processor, for one proof


def digits(n):
    """The first samples of the pair 3-8."""
    X, y = mm.datasets.load("digits:3,8")
    return X[:n], y[:n]


def iris(first):
    """Two of the three classes of iris."""
    X, y = mm.datasets.load("iris")
    return X[first:first + 100], y[first:first + 100]


def proved(name, problem, y, solver):
    """Solve, save, load, verify, and print a row."""
    start = time.process_time()
    result = mm.solve(problem, solver, seed=0,
                      callback=lambda row: time.process_time() - start > SECONDS)
    solved = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "proof.npz"
        result.save(path)
        start = time.process_time()
        ok = bool(mm.load(path).verify())
        verified, size = time.process_time() - start, path.stat().st_size / 1e6
    print(f"{name:<28} {result.objective:>9.6f} {100 * result.gap:>8.4f}% "
          f"{mm.metrics.accuracy(y, result.labels):>6.3f} {result.history['nodes'][-1]:>7.0f} "
          f"{solved:>7.2f} s {verified:>6.2f} s {size:>5.1f} MB  "
          f"{result.status.name if ok else 'NOT VERIFIED'}", flush=True)


def proofs():
    """CPM3C."""
    mm.solve(CPM3C(digits(30)[0]), "MarginTree", seed=0)  # compile
    half = Gaussian(width=0.5)
    cells = [(f"digits {n}", digits(n), None, (0.3, 0.1, 0.03, 0.01)) for n in (100, 200)]
    cells += [(f"digits {n}, Gaussian", digits(n), half, (0.1, 0.03, 0.01)) for n in (100, 200)]
    cells += [("iris 0-1", iris(0), None, (0.1, 0.03, 0.01)),
              ("iris 1-2", iris(50), None, (0.1, 0.03, 0.01)),
              ("moons 100", mm.datasets.load("moons:n=100,noise=.1,seed=0"), None, (0.1, 0.03))]
    for name, (X, y), kernel, betas in cells:
        for beta in betas:
            proved(f"{name}, beta {beta:g}", CPM3C(X, beta=beta, kernel=kernel), y, "MarginTree")


def kernels():
    """MKC."""
    X, y = digits(100)
    mm.solve(MKC(X[:30]), "KernelTree", seed=0)  # compile
    for C in (50.0, 10.0):
        for p in (2.0, 1.5, 1.0):
            proved(f"MKC 100, C {C:g}, p {p:g}", MKC(X, C=C, p=p), y, "KernelTree")


def classes():
    """CPM3C of three classes."""
    X, y = mm.datasets.load("iris")
    mm.solve(CPM3C(X[::10], 3), "ClassTree", seed=0)  # compile
    rng = np.random.default_rng(0)
    for n in (30, 60):
        rows = np.sort(rng.permutation(150)[:n])
        clouds = np.concatenate([rng.normal(size=(n // 3, 2)) * 0.5 + centre
                                 for centre in ((0, 0), (2, 0), (1, 1.7))])
        for name, Z, z in (("iris", X[rows], y[rows]),
                           ("clouds", clouds, np.repeat(np.arange(3), n // 3))):
            for beta in (0.3, 0.1, 0.03, 0.01):
                proved(f"{name} {n}, beta {beta:g}", CPM3C(Z, 3, beta=beta), z, "ClassTree")


def large():
    """The bound while the tree grows."""
    X, y = digits(357)
    start, marks = time.process_time(), [1, 5, 10, 20, 40, 60]

    def watch(row):
        spent = time.process_time() - start
        if marks and spent > marks[0]:
            gap = 100 * (1 - row["lower"] / row["best"])
            print(f"  {spent:5.1f} s  bound {row['lower']:.5f}  gap {gap:.2f} %  "
                  f"{row['nodes']:.0f} nodes")
            marks.pop(0)
        return spent > SECONDS

    print(mm.solve(CPM3C(X, beta=0.1), "MarginTree", seed=0, callback=watch))


PARTS = {"proofs": proofs, "kernels": kernels, "classes": classes, "large": large}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
