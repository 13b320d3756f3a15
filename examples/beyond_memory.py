"""Rows that do not fit in memory, and restarts anywhere: blocks of a file, and executors.

What it teaches: `mmcopt.datasets.blocks` reads a file a block at a time, and `CPM3C` on it takes
the cuts and steps that it takes on rows in memory, while only sums of k x d numbers are held; a
model of a sample predicts all blocks, too, and as a start saves passes over the file; restarts run
in threads, in processes or on a Dask cluster by one word, with the same bytes; and `verify` reads
the file again.
"""

import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import mmcopt as mm
from mmcopt.formulations import CPM3C
from mmcopt.solvers import CuttingPlane

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
N, D, K = (40_000, 20, 2) if QUICK else (2_500_000, 50, 2)
CHUNK = 100_000


def write(path):
    """Two clouds, written a part at a time; the clouds that the rows are of."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((K, D)) * (4.0 / np.sqrt(D))
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (N, D))
    y = rng.integers(K, size=N)
    for start in range(0, N, CHUNK):
        part = y[start:start + CHUNK]
        rows[start:start + CHUNK] = means[part] + rng.standard_normal((len(part), D))
    rows.flush()
    return y


def peak():
    """Megabytes that this process has held at most."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024.0**2 if sys.platform == "darwin" else 1024.0)


def row(name, y, labels, seconds, result=None):
    ari = mm.metrics.adjusted_rand_index(y, labels)
    known = "".rjust(11 + 9 + 8 + 8) if result is None else \
        (f"{result.objective:11.4f}{result.lower_bound:9.4f}{100 * result.gap:7.0f}%"
         f"{len(result.history):8}")
    print(f"{name:32}{known}{ari:8.3f}{seconds:9.1f}{peak():10.0f}")


def timed(work):
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.npy")
        y = write(path)
        X = mm.datasets.blocks(path)
        print(f"{X}: {path.stat().st_size / 1e6:.0f} MB on disk, {8 * N * D / 1e6:.0f} MB as "
              "floats in memory\n")
        print(f"{'':32}{'objective':>11}{'bound':>9}{'gap':>8}{'steps':>8}{'ARI':>8}"
              f"{'seconds':>9}{'peak MB':>10}")
        rows = np.load(path, mmap_mode="r")
        sample = CPM3C(np.array(rows[:5000]), K)
        few, seconds = timed(lambda: mm.solve(sample, CuttingPlane(), seed=0, restarts=4,
                                              executor="threads", n_jobs=2))
        row("5000 rows in memory, 4 restarts", y[:5000], few.labels, seconds, few)
        labels, seconds = timed(lambda: few.predict(X))
        row("its model on all blocks", y, labels, seconds)
        problem = CPM3C(X, K)
        whole, seconds = timed(lambda: mm.solve(problem, CuttingPlane(), seed=0))
        row("all rows, from a random start", y, whole.labels, seconds, whole)
        started, seconds = timed(lambda: mm.solve(problem, CuttingPlane(), seed=0, init=few.point))
        row("all rows, from that model", y, started.labels, seconds, started)
        print(f"\nVerified by reading the file again: {bool(started.verify())}")
        print("executor='threads' is one word; 'processes' and dask.distributed.Client(address) "
              "find the same bytes,\nand CPM3C(mm.datasets.blocks(path).to_dask(), 2) leaves the "
              "rows where the workers are.")


if __name__ == "__main__":
    main()
