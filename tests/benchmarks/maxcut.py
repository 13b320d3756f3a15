"""Maximum cuts proved by branch and bound: seconds of the processor, nodes, and the cut.

``python tests/benchmarks/maxcut.py [NAME ...]`` takes graphs that `mmcopt.datasets.load` knows:
``g05:n=80,seed=1``, ``pm1d``, ``ising`` or a file such as those of BiqBin, and matrices of QUBO:
``be:n=100`` or a file whose name begins with be, bqp or gka.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pathlib
import sys
import time

import numpy as np

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations import QUBO, MaxCut
from mmcopt.solvers import BranchAndBound
from mmcopt.solving import Budget, run

SMALL = ("pm1s:n=80", "g05:n=60", "pm1d:n=60")
LIMIT = 600.0  # wall-clock seconds


def cut(given):
    """Print a row of the table."""
    matrix, _ = mm.datasets.load(given)
    name = pathlib.Path(given).name
    # The libraries of quadratic functions state a maximum.
    stated = QUBO(-matrix) if name.startswith(("be", "bqp", "gka")) else MaxCut(matrix)
    problem = stated.offer(LabelQuadratic)
    deadline = time.perf_counter() + LIMIT
    began = time.process_time()
    out = run(BranchAndBound(), problem, None, np.random.default_rng(0), Budget(deadline=deadline))
    print(f"{name:>16} {problem.n:4d} {-out.value:12.0f} "
          f"{-problem.raised(out.lower_bound):12.0f} {len(out.state.parent):6d} nodes "
          f"{time.process_time() - began:8.2f} s  {out.status.name}", flush=True)


if __name__ == "__main__":
    run(BranchAndBound(), MaxCut(mm.datasets.load("g05:n=20")[0]).offer(LabelQuadratic), None,
        np.random.default_rng(0), Budget(max_iter=3))  # compiles
    for each in sys.argv[1:] or SMALL:
        cut(each)
