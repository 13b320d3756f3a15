"""Many random solves in one process: no bound above its objective, nothing that piles up.

    python -c "import mmcopt, sys; sys.path.append('tests'); import soak; soak.main(200, seed=0)"

Each takes a random problem, a solver that fits, and random limits, and may be interrupted from its
callback, or certified afterwards. A line is printed for each that goes wrong, and at the end the
memory that Python holds after a third and at the end, and how far time limits were overrun.
"""

import gc
import random
import time
import tracemalloc
import warnings

import numpy as np
import sklearn.svm  # noqa: F401 (imports are not the time that limits are about)
from honest import sag

import mmcopt as mm
from mmcopt.compiled.compiling import STATE
from mmcopt.formulations import (
    CPM3C,
    MKC,
    Diffrac,
    DiscriminativeKMeans,
    Hypersphere,
    KernelKMeans,
    LeastSquares,
    OneClassHinge,
)
from mmcopt.registry import solvers

GROWTH = 4e6  # bytes that memory may grow by: caches of the package hold a few problems
BUILDERS = [
    lambda X, k, r: LeastSquares(X, k, lam=10 ** r.uniform(-1.5, 1)),
    lambda X, k, r: LeastSquares(X, k, sizes=0.4),
    lambda X, k, r: Diffrac(X, k, kappa=10 ** r.uniform(-3, -1), sizes=0.5),
    lambda X, k, r: KernelKMeans(X, k, sizes=r.choice([None, 0.4])),
    lambda X, k, r: DiscriminativeKMeans(X, k, lam=10 ** r.uniform(-1.5, 1)),
    lambda X, k, r: CPM3C(X, k, beta=10 ** r.uniform(-2, -0.5)),
    lambda X, k, r: MKC(X, 2, C=10 ** r.uniform(0, 2)),
    lambda X, k, r: OneClassHinge(X, C=10 ** r.uniform(0, 2)),
    lambda X, k, r: Hypersphere(X, C=10 ** r.uniform(0, 2)),
]


def drawn(r):
    """A random problem, or a relaxation of one."""
    n, k = r.randint(8, 40), r.choice([2, 2, 3])
    rng = np.random.default_rng(r.randrange(2**32))
    X = rng.standard_normal((n, 4)) + r.uniform(0, 4) * rng.standard_normal((k, 4))[
        np.arange(n) % k]
    f = r.choice(BUILDERS)(X, k, r)
    kinds = list(f.relaxations().kinds) if r.random() < 0.3 else []
    return f.relax(r.choice(kinds)) if kinds else f


def one(r):
    """What is wrong with one random solve, by how many seconds it overran its limit, and what."""
    f = drawn(r)
    names = [name for name, cls in solvers().items() if cls().refuses(f) is None
             and (name != "BruteForce" or f.n <= 9)]
    if not names:
        return None, 0.0, ""
    name, steps = r.choice(names), r.randint(0, 30)
    limit = r.choice([None, 0.05, 0.3])
    options = {"seed": r.randrange(1000), "restarts": r.choice([1, 1, 3]), "time_limit": limit,
               "max_iter": r.choice([1, 5, 40]), "n_jobs": r.choice([None, 2])}
    rows = []

    def callback(row):
        rows.append(row)
        if len(rows) > steps and options["n_jobs"] is None and steps % 3 == 0:
            raise KeyboardInterrupt
        return len(rows) > steps

    what = f"{name} on {type(f).__name__} of {f.n}, {options}, {steps} steps"
    began, compiled = time.perf_counter(), STATE.seconds
    result = mm.solve(f, name, callback=callback if r.random() < 0.6 else None, **options)
    spent = time.perf_counter() - began - (STATE.seconds - compiled)
    over = 0.0 if limit is None else spent - max(1.1 * limit, limit + 0.5)
    if r.random() < 0.2:
        result = result.certify(time_limit=0.2)
    if not result.verify():
        return f"{what}: {result.verify()}", over, what
    if result.feasible and result.lower_bound is not None \
            and result.lower_bound > result.objective + sag(result):
        return f"{what}: bound {result.lower_bound!r} above {result.objective!r}", over, what
    return None, over, what


def _quietly(r):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return one(r)


def held():
    """Bytes that Python holds."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main(count, seed=0):
    """How many of so many random solves go wrong, growing memory among them."""
    wrong, late, before, count = 0, [], 0, int(count)
    tracemalloc.start()
    for i in range(count):
        if i == count // 3:
            before = held()
        if i == 0:  # what the first solve of a process imports and loads
            _quietly(random.Random(seed))
        error, over, what = _quietly(random.Random(f"{seed} {i}"))
        late.append(over)
        wrong += error is not None
        if error or over > 0.0:
            print(f"{i}: {error or f'{over:.2f} s late: {what}'}", flush=True)
    after = held()
    tracemalloc.stop()
    grown = after - before > GROWTH
    print(f"{count} solves: {wrong} wrong; {before / 1e6:.1f} MB held, then {after / 1e6:.1f}; "
          f"{sum(over > 0 for over in late)} time limits overrun, by {max(late):.2f} s at most")
    return wrong + grown

