"""What `certify` proves in a given time: a sweep over the number of samples, and three goals.

``python tests/benchmarks/ladder.py [--parts sweep,margins,kernel,digits,thousand,classes]
[--sizes 290,310] [--limit 25] [--rungs]`` prints a line for each n: the gap, CPU seconds, the last
rung, and the message; ``--rungs`` all rungs. Time limits count CPU seconds, so that other work on
the machine is no matter. MNIST is read from MMCOPT_DATA.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import time

import numpy as np

import mmcopt as mm
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.kernels import Gaussian

time.perf_counter = time.process_time

HALF = Gaussian(width=0.5)
SEARCH = 5.0  # seconds for the labels


def pair(n):
    """The first n of the digits 3 and 8 of MNIST."""
    X, y = mm.datasets.load("mnist")
    return X[np.isin(y, (3, 8))][:n]


def least_squares(X, k=2, width=0.5):
    return LeastSquares(X, k, kernel=Gaussian(width=width), lam=0.1)


def line(name, problem, limit, rungs=False):
    """Search, certify, verify, print."""
    first = mm.solve(problem, seed=0, time_limit=SEARCH)
    start = time.perf_counter()
    result = first.certify(time_limit=limit)
    seconds = time.perf_counter() - start
    print(f"  {name:<22} n = {problem.n:<5} gap {100 * result.gap:8.4f} %, closed "
          f"{result.closed or 0.0:.4f}, {seconds:6.1f} s of {limit:g}, "
          f"{result.ladder[-1].level}; {result.message}; "
          f"{'verified' if result.verify() else 'NOT VERIFIED'}", flush=True)
    for rung in result.ladder if rungs else ():
        print(f"    {rung.seconds:7.2f} s  {rung.level:<20} {rung.lower:.6g}  {rung.upper:.6g}")
    return result


def sweep(args):
    for n in args.sizes or (290, 310, 590, 610, 800, 1000, 1190, 1210, 1500, 2000):
        line("MNIST 3-8", least_squares(pair(n)), args.limit, args.rungs)


def margins(args):
    for n in args.sizes or (100, 200, 290, 310, 500, 800, 1200):
        line("CPM3C, MNIST 3-8", CPM3C(pair(n), 2, beta=0.1), args.limit, args.rungs)


def kernel_margins(args):
    for n in args.sizes or (100, 200, 290, 310, 500, 800, 1200):
        line("CPM3C, kernel", CPM3C(pair(n), 2, kernel=HALF, beta=0.1), args.limit, args.rungs)


def digits(args):
    line("digits 3-8", least_squares(mm.datasets.load("digits:3,8")[0]), args.limit, args.rungs)


def thousand(args):
    line("MNIST 3-8", least_squares(pair(1000)), args.limit, args.rungs)


def classes(args):
    line("digits, k = 10", least_squares(mm.datasets.load("digits")[0], 10, 0.3), args.limit,
         args.rungs)


PARTS = {"sweep": (sweep, 25), "margins": (margins, 25), "kernel": (kernel_margins, 25),
         "digits": (digits, 30), "thousand": (thousand, 300), "classes": (classes, 60)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", type=lambda t: t.split(","), default=list(PARTS))
    parser.add_argument("--sizes", type=lambda t: [int(x) for x in t.split(",")])
    parser.add_argument("--limit", type=float)
    parser.add_argument("--rungs", action="store_true", help="all rungs of each ladder")
    args = parser.parse_args()
    limit = args.limit
    for name in args.parts:
        part, seconds = PARTS[name]
        args.limit = limit or seconds
        print(name, flush=True)
        part(args)


if __name__ == "__main__":
    main()
