"""MNIST, n = 8000, 10 clusters: what R costs, and how little the search adds to it.

    MMCOPT_DATA=folder python tests/benchmarks/mnist_8000.py [--repeats 2]

Figures to see: R within 1.4 times potrf + potri of the same size and precision; shaking and polish
after R within .3 of the time of R.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Shaking
from mmcopt.solving import Budget, run


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_inverse(K: Any, lam: float) -> float:
    """Seconds of LAPACK's potrf and potri alone."""
    A = np.asfortranarray(K)
    A[np.diag_indices(len(A))] += lam

    def work() -> None:
        L, _ = dpotrf(A, lower=1, overwrite_a=1, clean=0)
        dpotri(L, lower=1, overwrite_c=1)

    return seconds(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    X, y = mm.datasets.load("mnist:n=8000,seed=0")
    problem = LeastSquares(X, 10, kernel=Gaussian(width=0.3), lam=0.1)
    kernel = seconds(lambda: problem.K)
    made, bare = [], []
    for _ in range(args.repeats):
        problem.forget()
        lq = problem.offer(LabelQuadratic)
        made.append(seconds(lambda lq=lq: lq.matrix.dense()))
        bare.append(bare_inverse(problem.K, problem.shift))
    lq = problem.offer(LabelQuadratic)
    copy = seconds(lambda: lq.matrix.dense(lq.dtype))
    raw, whole = Shaking(polish=False), Shaking()
    whole.prepare(problem)
    shaken = run(raw, problem, None, np.random.default_rng(0), Budget())
    shaking = min(seconds(lambda: run(raw, problem, None, np.random.default_rng(0), Budget()))
                  for _ in range(args.repeats))
    both = min(seconds(lambda: run(whole, problem, None, np.random.default_rng(0), Budget()))
               for _ in range(args.repeats))
    R, inverse = min(made), min(bare)
    print(f"kernel {kernel:.2f} s, R {R:.2f} s, potrf + potri {inverse:.2f} s, "
          f"float32 copy {copy:.2f} s")
    print(f"shaking {shaking:.2f} s, shaking and polish {both:.2f} s, "
          f"ARI {mm.metrics.adjusted_rand_index(y, shaken.point):.3f}")
    print(f"R / (potrf + potri) = {R / inverse:.2f}   (wanted: at most 1.4)")
    print(f"(shaking and polish) / R = {both / R:.3f}   (wanted: at most 0.3)")


if __name__ == "__main__":
    main()
