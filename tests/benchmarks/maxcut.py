"""Maximum cuts proved by branch and bound: seconds of the processor, nodes, and the cut.

``python tests/benchmarks/maxcut.py [rule:n[:seed] | file ...]`` takes graphs made by the rules of
rudy (g05: edges with probability 1/2; pm1s, pm1d: weights of -1 and 1 at a density of .1 and .99),
or files of lines ``i j weight`` below one of ``nodes edges``, such as those of BiqBin.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pathlib
import sys
import time

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.solvers import BranchAndBound
from mmcopt.solving import Budget, run

SMALL = ("pm1s:80", "g05:60", "pm1d:60")
LIMIT = 600.0  # wall-clock seconds
DENSITY = {"g05": 0.5, "pm1s": 0.1, "pm1d": 0.99}


def graph(given):
    """The matrix of weights of a rule or a file."""
    if pathlib.Path(given).is_file():
        rows = [line.split() for line in pathlib.Path(given).read_text().splitlines() if line]
        A = np.zeros((int(rows[0][0]),) * 2)
        for i, j, *weight in rows[1:]:
            A[int(i) - 1, int(j) - 1] += float(weight[0]) if weight else 1.0
        return A + A.T
    rule, n, *seed = given.split(":")
    rng = np.random.default_rng(int(seed[0]) if seed else 0)
    shape = int(n), int(n)
    weights = np.ones(shape) if rule == "g05" else rng.choice([-1.0, 1.0], shape)
    A = np.triu(weights * (rng.random(shape) < DENSITY[rule]), 1)
    return A + A.T


def cut(given):
    """Print a row of the table."""
    A = graph(given)
    total = A.sum() / 2.0
    problem = LabelQuadratic(-A, const=-total, k=2, scale=0.5)  # less the cut
    deadline = time.perf_counter() + LIMIT
    began = time.process_time()
    out = run(BranchAndBound(), problem, None, np.random.default_rng(0), Budget(deadline=deadline))
    print(f"{pathlib.Path(given).name:>12} {problem.n:4d} {-out.value:12.0f} "
          f"{-problem.raised(out.lower_bound):12.0f} {len(out.state.parent):6d} nodes "
          f"{time.process_time() - began:8.2f} s  {out.status.name}", flush=True)


if __name__ == "__main__":
    run(BranchAndBound(), LabelQuadratic(-graph("g05:20"), k=2), None, np.random.default_rng(0),
        Budget(max_iter=3))  # compiles
    for each in sys.argv[1:] or SMALL:
        cut(each)
