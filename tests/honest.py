"""Honest results, verified by another process: other BLAS kernels, other numbers of threads.

    run="import mmcopt, sys; sys.path.append('tests'); import honest; honest.main(*sys.argv[1:])"
    python -c "$run" make FOLDER 0 20                         # results of seeds 0..19
    OPENBLAS_CORETYPE=Nehalem python -c "$run" check FOLDER   # what is refused, and counts

`conformance/test_determinism.py` does it for a few seeds; `conftest.py` makes this module
importable.
"""

import json
from pathlib import Path

import numpy as np
from determinism import fitting, quietly

import mmcopt as mm
from mmcopt import formulations as of
from mmcopt.constraints import Sizes
from mmcopt.kernels import Gaussian, Laplacian, Linear, Polynomial

STEPS = 30
SKIPPED = ("Conic",)  # it is slow to compile, and its points are those of the other solvers
SIZED = {"BranchAndBound", "MarginTree", "ClassTree", "KernelTree"}


def problems(seed):
    """Random small problems of every formulation."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(8, 25)), int(rng.integers(1, 8)), int(rng.integers(2, 4))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3)
    X += 3.0 * X.std() * rng.standard_normal((k, d))[np.arange(n) % k]
    y = rng.permutation(np.arange(n) % k)
    kernel = [Gaussian(width=float(rng.uniform(0.2, 1.5))), Linear(), Polynomial(2).normalized(),
              Laplacian(width=0.7), Gaussian(width=0.5).nystroem(5)][int(rng.integers(5))]
    plain = of.LeastSquares(X, k, kernel=kernel, lam=float(10.0 ** rng.uniform(-2, 1)))
    margins = of.CPM3C(X, k, beta=float(10.0 ** rng.uniform(-2, 0)))
    several = of.MKC(X, k, C=float(10.0 ** rng.uniform(0, 2)))
    linked = of.LeastSquares(X, k, sizes=Sizes(within=0.4), must_link=[(0, 1)],
                             cannot_link=[(2, 3)])
    balanced = of.CrammerSinger(X + X.std(), y, k, beta=0.1, center=False, balance=0.4)
    C = float(10.0 ** rng.uniform(0, 3))
    yield from (plain, linked, of.Diffrac(X, k, kernel=Gaussian(width=1.0)), plain.restrict(y),
                margins, of.CrammerSinger(X, y, k, beta=0.1), several, several.restrict(y),
                margins.linearize(margins.from_labels(y)), balanced,
                of.OneClassHinge(X, C=C, kernel=Gaussian(width=float(rng.uniform(0.1, 1)))),
                of.OneClassHinge(X, C=C, kernel=Laplacian(width=0.4)), of.Hypersphere(X, C=C))
    yield from plain.path([0.1, 0.3, 1.0, 3.0, 10.0])[:2]
    for f in (plain, margins, several):
        for kind in f.relaxations().kinds:
            yield f.relax(kind)


def results(seed):
    """Answers of every solver that fits, and what certifying makes of some of them."""
    for f in problems(seed):
        for name in fitting(f, SKIPPED):
            yield quietly(mm.solve, f, name, seed=seed, restarts=1 + seed % 2,
                          max_iter=3 if name in SIZED else STEPS)
        if type(f) in (of.LeastSquares, of.CPM3C):
            yield quietly(mm.certify, f, np.arange(f.n) % f.n_clusters, time_limit=0.3)


def within(r):
    """Every array inside a certificate: (path, array)."""
    def walk(part, at):
        steps = part.items() if isinstance(part, dict) else \
            enumerate(part) if isinstance(part, list) else None
        if steps is None:
            yield at, part
        else:
            yield at, None
            for name, inner in steps:
                yield from walk(inner, (*at, name))

    return walk(r.certificate.duals, ())


def sag(r):
    """How far a point that breaks its rules a little may be below the optimum, by the duals."""
    weights = [np.abs(array).sum() for _, array in within(r)
               if array is not None and np.asarray(array).dtype.kind == "f"]
    return r.violation * float(sum(weights))


def refused(result):
    report = result.verify()
    return None if report else [str(c) for c in report.checks if not c.ok]


def make(folder, first, last):
    """Save results and verify them here, fresh and after loading; prints what is refused."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    checks, wrong = 0, []
    for seed in range(first, last):
        for i, result in enumerate(results(seed)):
            path = Path(folder) / f"{seed}-{i}.npz"
            result.save(path)
            for what, r in (("fresh", result), ("loaded", mm.load(path))):
                checks, failed = checks + 1, refused(r)
                if failed is not None:
                    wrong.append([what, path.name, repr(r), failed])
                    print(wrong[-1], flush=True)
    return checks, wrong


def check(folder):
    """Verify what is saved."""
    checks, wrong = 0, []
    for path in sorted(Path(folder).glob("*.npz")):
        result = mm.load(path)
        checks, failed = checks + 1, refused(result)
        if failed is not None:
            wrong.append(["elsewhere", path.name, repr(result), failed])
    return checks, wrong


def main(what, where, *seeds):
    print(json.dumps(make(where, *map(int, seeds)) if what == "make" else check(where)))
