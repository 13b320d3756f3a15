"""Rows on disk against rows in memory: CPU, peak memory and labels of one and the same solve.

``python tests/benchmarks/scaling.py [--n 1e5,1e6] [--d 50] [--k 2] [--where memory,cluster]``
Rows are float32 in a file that is made once, in ``--folder``, a million at a time. Each solve is a
process of its own, so that its peak is its own: ``memory`` reads all rows, ``blocks`` a block at a
time, ``cluster`` leaves them to two worker processes of Dask with ``--limit`` MB each, of which the
peaks are shown too. ``restarts``, ``compare`` and ``tree`` do what is parallel already here and in
two processes.
``families``, or the names of some, solves each family on blocks, and says how its seconds rise
with n, how many numbers of its rows and of their features were gone through, and what would travel
if its blocks lay on other machines. ``--out docs/scaling.csv`` keeps the figures for the page.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import cloudpickle
import numpy as np

BLOCK = 1_000_000
LENGTH = 2000.0  # of Tabu: half a CPU second a restart, beside which a process begins for little


def made(folder, n, d):
    """The file of n rows: three clouds that overlap."""
    path = folder / f"rows-{n}x{d}.npy"
    if not path.exists():
        part = path.with_suffix(".part.npy")
        rng = np.random.default_rng(0)
        means = (0.6 * rng.standard_normal((3, d))).astype(np.float32)
        rows = np.lib.format.open_memmap(part, "w+", np.float32, (n, d))
        for start in range(0, n, BLOCK):
            count = min(BLOCK, n - start)
            rows[start:start + count] = means[rng.integers(3, size=count)] \
                + rng.standard_normal((count, d), dtype=np.float32)
        rows.flush()
        part.rename(path)
    return path


def peak():
    """Megabytes held at most, as Linux says; ru_maxrss counts what the parent held, too."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM"))


def solved(X, k):
    """Warm on the same kind of rows, then solve; CPU and wall seconds."""
    import mmcopt as mm
    from mmcopt.formulations import CPM3C
    from mmcopt.solvers import CuttingPlane

    started = time.process_time(), time.perf_counter()
    result = mm.solve(CPM3C(X, k), CuttingPlane(), seed=0)
    return result, time.process_time() - started[0], time.perf_counter() - started[1]


def answer(result, cpu, wall, **more):
    return {"cpu": cpu, "wall": wall, "peak": peak(), "objective": result.objective,
            "steps": len(result.history), "labels": result.labels.astype(np.int8).tobytes().hex()
            if result.labels.size <= 10**6 else
            result.labels[::result.labels.size // 10**6].astype(np.int8).tobytes().hex(), **more}


def in_memory(path, k, limit):
    small = np.array(np.load(path, mmap_mode="r")[:2000])
    solved(small, k)
    return answer(*solved(np.load(path), k))


def in_blocks(path, k, limit):
    from mmcopt.datasets import blocks

    small = path.with_name("small.npy")
    np.save(small, np.load(path, mmap_mode="r")[:2000])
    solved(blocks(small), k)
    return answer(*solved(blocks(path), k))


def on_cluster(path, k, limit):
    from distributed import Client, LocalCluster

    from mmcopt.datasets import blocks

    with LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=f"{limit}MB",
                      dashboard_address=None) as cluster, Client(cluster) as client:
        small = path.with_name("small.npy")
        np.save(small, np.load(path, mmap_mode="r")[:2000])
        solved(blocks(small, chunk=500).to_dask(), k)
        before = client.run(time.process_time)
        result, cpu, wall = solved(blocks(path).to_dask(), k)
        after = client.run(time.process_time)
        workers = client.run(peak)
        return answer(result, cpu + sum(after[w] - before[w] for w in after), wall,
                      workers=sorted(workers.values()))


# ---------------------------------------------------------------- every family, from a file


def cpm3c(rows):
    from mmcopt.formulations import CPM3C
    from mmcopt.solvers import CuttingPlane

    return CPM3C(rows, 2), CuttingPlane()


def floored(rows):
    from mmcopt.formulations import CPM3C
    from mmcopt.solvers import CuttingPlane

    return CPM3C(rows, 3, size_floor=0.95), CuttingPlane()


def mkc(rows):
    from mmcopt.formulations import MKC
    from mmcopt.kernels import Gaussian, Linear
    from mmcopt.solvers import CuttingPlane

    return MKC(rows, 2, kernels=[Linear(), Gaussian(width=0.5).nystroem(50)]), CuttingPlane()


def least_squares(rows):
    from mmcopt.formulations import LeastSquares
    from mmcopt.kernels import Gaussian

    return LeastSquares(rows, 3, kernel=Gaussian(width=0.5).nystroem(50)), "Memetic"


def kernel_kmeans(rows):
    from mmcopt.formulations import KernelKMeans
    from mmcopt.kernels import Gaussian

    return KernelKMeans(rows, 3, kernel=Gaussian(width=0.5).nystroem(50)), "Memetic"


def one_class(rows):
    from mmcopt.condensing import micro_cells
    from mmcopt.formulations import OneClassHinge
    from mmcopt.kernels import Gaussian

    cells = micro_cells(rows)
    problem = OneClassHinge(cells.centres, C=1.0, kernel=Gaussian(width=0.3),
                            sample_weight=cells.weights)
    return problem.replace(C=1.3 * problem.c_min()), "DualCoordinate"


FAMILIES = {"CPM3C": cpm3c, "CPM3C-floor": floored, "MKC": mkc, "LeastSquares": least_squares,
            "KernelKMeans": kernel_kmeans, "OneClassHinge": one_class}


class Length:
    """A file that counts what is written to it, and keeps none of it."""

    total = 0

    def write(self, part):
        self.total += memoryview(part).nbytes


def length(value):
    """How many bytes a value is on its way to another process."""
    file = Length()
    cloudpickle.CloudPickler(file, protocol=5).dump(value)
    return file.total


class Counts:
    """How often a file is gone through, and what goes to and fro if its blocks lie elsewhere.

    Of files that are made on the way only what is read counts: they lie here.
    """

    def __init__(self, each):
        self.each, self.rounds, self.moved, self.read, self.seconds = each, 0, 0.0, 0.0, 0.0

    def take(self, value, times=1):
        started = time.process_time()
        self.moved += times * length(value)
        self.seconds += time.process_time() - started

    def __call__(self, rows, work, *args, along=None, at_once=None):
        self.read += float(rows.shape[0]) * rows.shape[1]
        answers = self.each(rows, work, *args, along=along, at_once=at_once)
        if type(rows).__name__ != "FileBlocks":
            return answers
        count = len(rows.starts) - 1
        self.rounds += -(-count // (at_once or count))
        self.take((work, args), count)
        if along is not None:
            self.take(along)
        return self._through(answers)

    def _through(self, answers):
        for answer in answers:
            self.take(answer)
            yield answer


def of_family(name, path):
    """Solve a family on blocks: CPU seconds, peak, and what was read and would have travelled."""
    import mmcopt as mm
    from mmcopt.datasets import blocks
    from mmcopt.datasets.blocks import FileBlocks

    small = path.with_name("small.npy")
    np.save(small, np.load(path, mmap_mode="r")[:2000])
    mm.solve(*FAMILIES[name](blocks(small)), seed=0)  # compiles
    counts = Counts(FileBlocks.each)
    FileBlocks.each = lambda self, *given, **options: counts(self, *given, **options)
    rows = blocks(path)
    started = time.process_time()
    result = mm.solve(*FAMILIES[name](rows), seed=0)
    cpu = time.process_time() - started - counts.seconds
    return {"cpu": cpu, "peak": peak(), "steps": len(result.history), "read": counts.read,
            "rounds": counts.rounds, "moved": counts.moved}


def families(names, sizes, args):
    """A table of families, and the slopes of their seconds in n; ``--out`` is kept as text."""
    lines = ["family,n,seconds,megabytes,rounds,bytes,numbers"]
    for name in names:
        seconds = []
        for n in sizes[:-1] if name == "LeastSquares" and sizes[-1] > 10**5 else sizes:
            path = made(args.folder, n, args.d)
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--family", name,
                                   "--path", path], stdout=subprocess.PIPE, text=True, check=True)
            a = json.loads(done.stdout.splitlines()[-1])
            seconds.append(a["cpu"])
            lines.append(f"{name},{n},{a['cpu']:.3g},{a['peak']:.0f},{a['rounds']},"
                         f"{a['moved']:.4g},{a['read'] / n:.0f}")
            print(f"{name:14} n = {n:8d}: {a['cpu']:8.2f} CPU-s ({1e6 * a['cpu'] / n:7.2f} us a "
                  f"row), peak {a['peak']:5.0f} MB, {a['steps']:3d} steps, {a['read'] / n:6.0f} "
                  f"numbers a row gone through, {a['rounds']} rounds, {a['moved']:.3g} bytes",
                  flush=True)
            if args.out:
                args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
        slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes[:len(seconds)]))
        print(f"{name:14} slopes {' '.join(f'{s:.2f}' for s in slopes)}", flush=True)


WAYS = {"memory": in_memory, "blocks": in_blocks, "cluster": on_cluster}


def workers_cpu():
    """CPU seconds of each process that this one has begun, as Linux says."""
    ticks, found = os.sysconf("SC_CLK_TCK"), {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / ticks
    return found


def eight_restarts(X, length, **where):
    import mmcopt as mm
    from mmcopt.formulations import LeastSquares
    from mmcopt.solvers import Tabu

    problem = LeastSquares(X, lam=0.1)
    return mm.solve(problem, Tabu(length=length), seed=0, restarts=8, **where).point.tobytes()


def comparison(X, length, **where):
    import mmcopt as mm
    from mmcopt.formulations import LeastSquares
    from mmcopt.solvers import Tabu

    solvers = [Tabu(length=length), Tabu(length=0.5 * length)]
    table = mm.compare(LeastSquares(X, lam=0.1), solvers, seeds=4, **where)
    return b"".join(result.point.tobytes() for result in table.results)


def tree(X, length, **where):
    import mmcopt as mm
    from mmcopt.formulations import LeastSquares
    from mmcopt.kernels import Gaussian

    problem = LeastSquares(X[:80], kernel=Gaussian(width=0.3), lam=2.0**-7, center=False)
    result = mm.solve(problem, "BranchAndBound", seed=0, max_iter=max(8, int(length / 20)), **where)
    return result.point.tobytes() + repr(result.lower_bound).encode()


TOGETHER = {"restarts": eight_restarts, "compare": comparison, "tree": tree}


def together(name, times=3):
    """The same work here and in two processes, some times: seconds, and whether bytes are the same.

    Where others use the cores, wall time says little; the longest chain of CPU seconds, those of
    this process and of its busiest worker, is what it would be on two idle ones.
    """
    import mmcopt as mm

    X, _ = mm.datasets.load("digits:3,8")
    answers, best = set(), {None: (np.inf, np.inf), "processes": (np.inf, np.inf)}
    for executor in (None, "processes") * times:
        where = {"executor": executor, "n_jobs": 2} if executor else {}
        TOGETHER[name](X, 20.0, **where)  # compiles, and begins the workers
        before, here, started = workers_cpu(), time.process_time(), time.perf_counter()
        answers.add(TOGETHER[name](X, LENGTH, **where))
        wall, here = time.perf_counter() - started, time.process_time() - here
        there = [cpu - before.get(pid, 0.0) for pid, cpu in workers_cpu().items()]
        best[executor] = (min(best[executor][0], wall),
                          min(best[executor][1], here + max(there, default=0.0)))
        print(f"  {name}, executor={executor!r}: {wall:.2f} s, CPU {here:.2f} s here"
              + "".join(f", {cpu:.2f} s in a worker" for cpu in there if cpu > 0.0), flush=True)
    (wall, chain), (wall_two, chain_two) = best.values()
    print(f"  the best of {times}: {wall / wall_two:.2f} times as fast; {chain / chain_two:.2f} by "
          f"the longest chain of CPU seconds; the same bytes: {len(answers) == 1}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--n", default="1e5,1e6")
    p.add_argument("--d", type=int, default=50)
    p.add_argument("--k", type=int, default=2)
    p.add_argument("--where", default="memory,blocks")
    p.add_argument("--limit", type=int, default=400)
    p.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/mmcopt-scaling"))
    p.add_argument("--out", type=pathlib.Path, help="where the figures of families are kept")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--family", help=argparse.SUPPRESS)
    p.add_argument("--path", type=pathlib.Path, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.one:
        print(json.dumps(WAYS[args.one](args.path, args.k, args.limit)))
        return
    if args.family:
        print(json.dumps(of_family(args.family, args.path)))
        return
    args.folder.mkdir(exist_ok=True)
    sizes, ways = [int(float(v)) for v in args.n.split(",")], args.where.split(",")
    families([name for name in FAMILIES if name in ways or "families" in ways], sizes, args)
    for n in sizes if set(ways) & set(WAYS) else ():
        path, labels = made(args.folder, n, args.d), {}
        print(f"n = {n}, d = {args.d}, k = {args.k}: {path.stat().st_size / 1e6:.0f} MB",
              flush=True)
        for way in (w for w in ways if w in WAYS):
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", way, "--path",
                                   path, "--k", str(args.k), "--limit", str(args.limit)],
                                  stdout=subprocess.PIPE, text=True, check=True)
            a = json.loads(done.stdout.splitlines()[-1])
            labels[way] = a["labels"]
            print(f"  {way:8} {a['cpu']:8.2f} CPU-s ({1e6 * a['cpu'] / n:.2f} us a row) "
                  f"{a['wall']:8.2f} s, {a['steps']} steps, peak {a['peak']:.0f} MB"
                  + "".join(f", worker {w:.0f} MB" for w in a.get("workers", []))
                  + f", objective {a['objective']:.12f}", flush=True)
        print(f"  the same labels: {len(set(labels.values())) == 1}")
    for name in (name for name in TOGETHER if name in ways):
        together(name)


if __name__ == "__main__":
    main()
