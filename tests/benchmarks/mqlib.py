"""The default search beside the heuristics of MQLib: largest cuts at equal CPU time.

``python tests/benchmarks/mqlib.py PATH/TO/MQLib [--classes planar,torus] [--graphs 2] [--seeds 2]``
MQLib (github.com/MQLib/MQLib) is built apart. Each class is a published way to make graphs, or a
label matrix R of two clusters. Every one of the heuristics below has as many seconds as we have in
all; at each mark stands how far our objective is above the lowest that any of them has found by
then, in percent: the median, and the worst. A number below 0 says that we are ahead of all of them.
We count CPU time and MQLib the time of the clock, so the machine must be idle.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import math
import subprocess
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from scipy.spatial import Delaunay
from sizes import PROBLEMS

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations import QUBO, LeastSquares, MaxCut
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Memetic
from mmcopt.solving import Budget, run, runs
from mmcopt.tables import markdown_table

runs.clock = time.process_time

HEURISTICS = ("BURER2002", "PALUBECKIS2006", "PALUBECKIS2004bMST2", "MERZ1999GLS", "LU2010",
              "DUARTE2005")


def random(n, density, signed):
    def made(seed):
        name = "pm1s" if signed else "g05"
        return mm.datasets.load(f"{name}:n={n},density={density},seed={seed}")[0]
    return made


def quadratic(name, n):
    def made(seed):
        return QUBO(-mm.datasets.load(f"{name}:n={n},seed={seed}")[0]).offer(LabelQuadratic)
    return made


def grid(sides, normal=False):
    """A torus with couplings of -1 and 1, or normal ones in hundred thousandths."""
    def made(seed):
        rng = np.random.default_rng(seed)
        node = np.arange(math.prod(sides)).reshape(sides)
        i = np.concatenate([node.ravel()] * len(sides))
        j = np.concatenate([np.roll(node, -1, axis).ravel() for axis in range(len(sides))])
        w = np.round(1e5 * rng.standard_normal(i.size)) if normal \
            else rng.choice([-1.0, 1.0], i.size)
        upper = sp.coo_array((w, (i, j)), shape=(node.size, node.size)).tocsr()
        return upper + upper.T
    return made


def planar(n, signed):
    """The union of two planar graphs on the same nodes."""
    def made(seed):
        rng = np.random.default_rng(seed)
        edges = set()
        for _ in range(2):
            for a, b, c in Delaunay(rng.random((n, 2))).simplices.tolist():
                edges |= {(min(p), max(p)) for p in ((a, b), (b, c), (a, c))}
        i, j = np.array(sorted(edges)).T
        w = rng.choice([-1.0, 1.0], i.size) if signed else np.ones(i.size)
        upper = sp.coo_array((w, (i, j)), shape=(n, n)).tocsr()
        return upper + upper.T
    return made


def regression(kind, n):
    """R of a problem of the size sweep."""
    def made(seed):
        data, width, lam = PROBLEMS[kind]
        X, y = data(2 * n)
        take = np.sort(np.random.default_rng(seed).permutation(len(y))[:n])
        return LeastSquares(X[take], 2, kernel=Gaussian(width=width), lam=lam).offer(LabelQuadratic)
    return made


CLASSES = {
    "random 800": random(800, 0.06, False), "random +-1 800": random(800, 0.06, True),
    "torus 800": grid((100, 8)), "planar 800": planar(800, False),
    "planar +-1 800": planar(800, True), "random 2000": random(2000, 0.01, False),
    "random +-1 2000": random(2000, 0.01, True), "torus 2000": grid((100, 20)),
    "planar 2000": planar(2000, False), "planar +-1 2000": planar(2000, True),
    "complete +-1 800": random(800, 1.0, True), "torus 7^3 normal": grid((7, 7, 7), True),
    "torus 20^2 normal": grid((20, 20), True), "torus 8^3": grid((8, 8, 8)),
    "be250": quadratic("be", 250), "bqp 1000": quadratic("bqp", 1000),
    "R twonorm 500": regression("twonorm", 500), "R twonorm 1000": regression("twonorm", 1000),
    "R normals 500": regression("normals", 500), "R normals 1000": regression("normals", 1000),
    "R 3-8 500": regression("mnist 3-8", 500), "R 4-9 1000": regression("mnist 4-9", 1000),
}


def stated(made):
    return made if isinstance(made, LabelQuadratic) else MaxCut(made).offer(LabelQuadratic)


def theirs(binary, lq, marks, seed):
    """Lowest objective that any heuristic has found at each mark, and which did."""
    matrix = getattr(lq.matrix, "csr", None)
    upper = sp.triu(lq.matrix.dense(np.float64) if matrix is None else matrix, 1).tocoo()
    together = lq.value(np.zeros(lq.n, np.int64))
    found = {}
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{lq.n} {upper.nnz}\n")
        np.savetxt(file, np.c_[upper.row + 1, upper.col + 1, -upper.data], fmt="%d %d %.17g")
        file.flush()
        for name in HEURISTICS:
            run = [binary, "-h", name, "-fM", file.name, "-r", str(marks[-1]), "-s", str(seed)]
            said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
            steps = [tuple(map(float, step.split(":")))
                     for step in said.partition("[")[2].strip().rstrip("]").split(";")]
            found[name] = [together - 2 * lq.scale * max((v for v, t in steps if t <= mark),
                                                         default=-math.inf) for mark in marks]
    return [min((found[name][at], name) for name in HEURISTICS) for at in range(len(marks))]


def ours(lq, marks, seed):
    """Largest cut at each mark: restarts until the time is spent."""
    Memetic().prepare(lq)
    start, best, values, root = time.process_time(), math.inf, [], np.random.SeedSequence(seed)

    def record(row):
        nonlocal best
        while len(values) < len(marks) and time.process_time() - start > marks[len(values)]:
            values.append(best)
        best = min(best, row["best"])

    while time.process_time() - start < marks[-1]:
        got = run(Memetic(), lq, None, np.random.default_rng(root.spawn(1)[0]),
                  Budget(deadline=start + marks[-1]), record)
        best = min(best, got.value)
    return values + [best] * (len(marks) - len(values))


def table(args):
    """A row for each class: the median and worst excess over the best heuristic at each mark."""
    for name in args.classes:
        excess = []
        who = set()
        for graph in range(args.graphs):
            lq = stated(CLASSES[name](graph))
            for seed in range(args.seeds):
                rivals = theirs(args.binary, lq, args.marks, seed + 1)
                mine = ours(lq, args.marks, seed)
                who |= {winner for value, winner in rivals}
                excess.append([100 * (m - v) / abs(v)
                               for m, (v, _) in zip(mine, rivals, strict=True)])
        middle, worst = np.median(excess, axis=0), np.max(excess, axis=0)
        yield {"class": name, **{f"{mark} s": f"{a:.3f} ({b:.3f})" for mark, a, b
                                 in zip(args.marks, middle, worst, strict=True)},
               "best of theirs": ", ".join(sorted(who))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--classes", type=lambda t: t.split(","), default=list(CLASSES))
    parser.add_argument("--marks", type=lambda t: [float(x) for x in t.split(",")],
                        default=[0.5, 2.0])
    parser.add_argument("--graphs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    rows = []
    for row in table(parser.parse_args()):
        print(*row.values(), sep=" | ", flush=True)
        rows.append(row)
    print(markdown_table(rows, list(rows[0])))


if __name__ == "__main__":
    main()
