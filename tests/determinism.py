"""Answers of every solver of every problem, as digests: run once for each setting of the machine.

    run="import mmcopt, sys; sys.path.append('tests'); import determinism as d"
    OPENBLAS_NUM_THREADS=2 PYTHONHASHSEED=7 python -c "$run; d.main(*sys.argv[1:])" 1 2 4

prints a line of JSON for each pair: the problem, the solver, and a digest for each number of jobs.
`conformance/test_determinism.py` compares them; `conftest.py` makes this module importable.
"""

import hashlib
import json
import warnings

import numpy as np

import mmcopt as mm
from mmcopt import registry
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.formulations import (
    CPM3C,
    MKC,
    CrammerSinger,
    Diffrac,
    Hypersphere,
    LeastSquares,
    OneClassHinge,
)
from mmcopt.kernels import Gaussian, Laplacian, Linear, Polynomial

STEPS = 4  # of each restart: enough for an answer, few enough for every pair
MANY = 130  # samples, so that products are large enough for BLAS to share them out
TINY = {"BruteForce"}


def clouds(n, d, k, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + 2.0 * rng.standard_normal((k, d))[np.arange(n) % k]


def larger():
    """Problems of some size, by name."""
    X, y = clouds(MANY, 24, 3, 0), np.arange(MANY) % 3
    few = clouds(40, 5, 2, 1)
    two = CPM3C(few, 2, beta=0.05)
    return {
        "least squares": LeastSquares(X, 3), "two clusters": LeastSquares(X, 2, lam=0.3),
        "factor": LeastSquares(X, 3, kernel=Gaussian(width=0.5).nystroem(12)),
        "linked": LeastSquares(X, 3, must_link=[(0, 3)], cannot_link=[(1, 2)], sizes=0.3),
        "diffrac": Diffrac(X, 3, kappa=1e-2), "fit": LeastSquares(X, 3).restrict(y),
        "margins": CPM3C(X, 3, beta=0.05), "kernel margins": CPM3C(X, 3, kernel=Gaussian(width=1)),
        "given": CrammerSinger(X, y, 3), "several kernels": MKC(X, 2, C=20.0),
        "machine": MKC(X, 3, C=20.0).restrict(y),
        "domain": OneClassHinge(X, C=30.0), "sphere": Hypersphere(X, C=10.0),
        "laplacian": OneClassHinge(X, C=30.0, kernel=Laplacian(width=0.3)),
        "polynomial": OneClassHinge(X, C=10.0, kernel=Polynomial(2)),
        "large domain": OneClassHinge(clouds(900, 24, 3, 2), C=200.0, kernel=Gaussian(width=0.3)),
        "linear": LeastSquares(X, 2, kernel=Linear()),
        **{f"{kind} of 40": LeastSquares(few, 2).relax(kind)
           for kind in ("eig", "sdp", "sdp+cuts", "diffrac", "peng-wei")},
        **{f"{kind} of 20": LeastSquares(few[:20], 3).relax(kind)
           for kind in ("partition", "partition+cuts")},
        **{f"{kind} of margins": two.relax(kind) for kind in two.relaxations().kinds
           if kind != "joint"}, "joint of margins": CPM3C(few[:12], 2, beta=0.05).relax("joint"),
    }


def examples():
    return {f"{name}-{i}": f for name, cls in registry.formulations().items()
            for i, f in enumerate(cls.examples()) if i < 2}


def fitting(f, without=()):
    """Names of the solvers that take a problem."""
    return [name for name, cls in registry.solvers().items()
            if name not in without and cls().refuses(f) is None]


def quietly(ask, *arguments, **options):
    """An answer without its warnings: problems are random, and searches are cut short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ask(*arguments, **options)


def pairs(problems):
    for name, f in problems.items():
        for solver in fitting(f, () if f.n <= 12 else TINY):
            yield name, solver


def digest(result):
    out = hashlib.sha256(np.ascontiguousarray(result.labels).tobytes())
    out.update(repr(float(result.objective)).encode())
    return out.hexdigest()[:16]


def again(f):
    """The same problem with nothing computed."""
    return type(f)(again(f.problem)) if isinstance(f, Relaxation) else type(f)(**f.params())


def answer(f, solver, jobs):
    return digest(quietly(mm.solve, again(f), solver, seed=3, restarts=3, n_jobs=jobs,
                          max_iter=STEPS))


def main(*jobs):
    problems = {**larger(), **examples()}
    for name, solver in pairs(problems):
        found = {str(j): answer(problems[name], solver, j) for j in map(int, jobs)}
        print(json.dumps([name, solver, found]), flush=True)
