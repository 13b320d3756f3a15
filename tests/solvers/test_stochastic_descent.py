"""Each sample in turn to its best cluster, dense or on a factor."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import StochasticDescent

X = np.random.default_rng(0).standard_normal((40, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.3))


def test_it_follows_a_literal_transcription_of_the_paper_s_algorithm_1():
    c = np.arange(40) % 3
    start, changed = c.copy(), True
    while changed:
        changed = False
        for j in range(40):
            values = []
            for d in range(3):
                near = c.copy()
                near[j] = d
                values.append(F.objective(near) if F.violation(near) == 0 else np.inf)
            if min(values) < values[c[j]] - 1e-9:
                c[j], changed = int(np.argmin(values)), True
    r = mm.solve(F, StochasticDescent(swaps=False), init=start)
    assert r.labels.tolist() == c.tolist() and r.status is Status.CONVERGED


def test_swaps_do_something():
    tight = F.replace(sizes=mm.constraints.Sizes(exact=[13, 13, 14]))
    stuck, free = (mm.solve(tight, StochasticDescent(swaps=s), init=np.arange(40) % 3)
                   for s in (False, True))
    assert free.objective < stuck.objective - 0.1


def test_on_a_large_factor_nothing_is_made_dense(monkeypatch):
    monkeypatch.setattr("mmcopt.solving.label_search.DENSE_LIMIT", 10)
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 10)
    monkeypatch.setattr("mmcopt.capabilities.matrices.LowRank.dense", None)
    f = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(8), sizes=0.3)
    r = mm.solve(f, StochasticDescent(), seed=0, restarts=3)
    assert r.status is Status.CONVERGED and r.violation == 0
    assert r.objective == pytest.approx(f.objective(r.labels), rel=1e-12)
    for j in range(40):  # a local optimum of moves
        for d in range(3):
            near = r.labels.copy()
            near[j] = d
            assert f.violation(near) > 0 or f.objective(near) >= r.objective * (1 - 1e-5)
