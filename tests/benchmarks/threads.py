"""The README's solve with the threads that BLAS takes by itself, and with one, beside busy loops.

    .venv/bin/python tests/benchmarks/threads.py

Each figure is the median of three processes, compiled before, of what `mm.solve` alone takes.
"""

import multiprocessing
import os
import statistics
import subprocess
import sys

LOADS, TIMES = (0, 8), 3
ONE = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
SOLVES = {
    "README": "X, y = mm.datasets.load('digits:3,8')\n"
              "K = mm.kernels.Gaussian(width=.5)\np = mm.formulations.LeastSquares(X, kernel=K)",
    "digits, k = 10": "X, y = mm.datasets.load('digits')\n"
                      "K = mm.kernels.Gaussian(width=.5)\n"
                      "p = mm.formulations.LeastSquares(X, 10, kernel=K)",
    "CPM3C": "X, y = mm.datasets.load('digits:1,7')\np = mm.formulations.CPM3C(X, 2, beta=.03)",
}
TIMED = """
import time, mmcopt as mm
{problem}
began = time.perf_counter(), time.process_time()
mm.solve(p, seed=0)
print(time.perf_counter() - began[0], time.process_time() - began[1])
"""


def spin():
    while True:
        pass


def seconds(problem, threads):
    """Wall and CPU seconds of a solve in a process of its own."""
    code = TIMED.format(problem=problem)
    kept = {name: value for name, value in os.environ.items() if name not in ONE}
    done = subprocess.run([sys.executable, "-c", code], env={**kept, **threads}, check=True,
                          capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()))


def main():
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before\n")
    print(f"{'solve':16}{'busy loops':>11}{'default threads':>22}{'one thread':>22}{'ratio':>7}")
    print(f"{'':16}{'':11}{'wall s':>13}{'CPU s':>9}{'wall s':>13}{'CPU s':>9}{'wall':>7}")
    for name, problem in SOLVES.items():
        seconds(problem, ONE)  # compiles
        for load in LOADS:
            busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(load)]
            for process in busy:
                process.start()
            taken = [[seconds(problem, threads) for _ in range(TIMES)] for threads in ({}, ONE)]
            for process in busy:
                process.terminate()
            (wall, cpu), (alone, own) = ([statistics.median(column) for column in
                                          zip(*times, strict=True)] for times in taken)
            print(f"{name:16}{load:11}{wall:13.2f}{cpu:9.2f}{alone:13.2f}{own:9.2f}"
                  f"{wall / alone:7.1f}", flush=True)


if __name__ == "__main__":
    main()
