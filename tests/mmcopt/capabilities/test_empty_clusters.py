"""Clusters that may be empty, against brute force over all labels."""

import itertools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration
from mmcopt.bounds.decision_tree import lift_of
from mmcopt.capabilities import LabelQuadratic, LabelRatio
from mmcopt.errors import InfeasibleError
from mmcopt.solvers import BranchAndBound
from mmcopt.solving import Budget, run

SEARCHES = (mm.solvers.Memetic(), mm.solvers.Tabu(), mm.solvers.Annealing(sweeps=50),
            mm.solvers.Shaking(), mm.solvers.KernighanLin(), mm.solvers.StochasticDescent(),
            mm.solvers.SteepestDescent(), mm.solvers.Evolutionary())


def drawn(seed):
    """Two to four clusters, of which some may be empty; given labels, weights, nodes apart."""
    rng = np.random.default_rng([7, seed])
    n, k = 6, 2 + seed % 3
    A = rng.integers(-4, 5, (n, n)) + (3.0, 0.0, -3.0)[seed // 3 % 3]
    low = (0, [0] * (k - 1) + [1], [0] + [1] * (k - 1))[seed % 3]
    return LabelQuadratic(A + A.T, k=k, low=low, weights=1 + np.arange(n) % (1 + seed % 2),
                          fixed=[k - 1] + [-1] * (n - 1) if seed % 4 == 3 else None,
                          apart=[(1, 2)] if seed % 5 == 4 else None)


def best_of(lq):
    """From the definition: the labels that obey low and the other rules, whatever is empty."""
    W, values = lq.matrix.dense(), []
    for c in map(np.array, itertools.product(range(lq.k), repeat=lq.n)):
        sizes = [lq.weights[c == h].sum() for h in range(lq.k)]
        good = all(s >= lo for s, lo in zip(sizes, lq.low, strict=True))
        good &= all(f in (-1, v) for f, v in zip(lq.fixed, c, strict=True))
        if good and not any(c[i] == c[j] for i, j in lq.apart):
            values.append(-sum(W[np.ix_(c == h, c == h)].sum() for h in range(lq.k)))
    return min(values)


@pytest.mark.parametrize("seed", range(12))
def test_proofs_and_searches_reach_the_optimum(seed):
    lq, rng = drawn(seed), np.random.default_rng(seed)
    best = best_of(lq)
    assert enumeration.minimum(lq)[0] == best
    proved = run(BranchAndBound(enumerate=1), lq, None, rng, Budget())
    assert proved.value == best == lq.raised(proved.lower_bound)
    lift = lift_of(lq)
    for _ in range(20):
        size = 10.0 ** rng.uniform(-2, 2)
        duals = {"u": size * rng.standard_normal(lift.m), "t": size * rng.standard_normal(),
                 "up": size * rng.random(lift.rows.size), "down": size * rng.random(lift.rows.size)}
        assert lift.lower(duals) <= best
    found = [run(solver, lq, None, rng, Budget(max_iter=50)) for solver in SEARCHES * 2]
    assert all(lq.violation(r.point) == 0.0 and r.value == lq.value(r.point) for r in found)
    assert min(r.value for r in found[1:]) == best  # the first tries all labels


def test_what_must_be_filled_must_be():
    W = -np.ones((2, 2))
    assert LabelRatio(-W, k=2, low=0).low.tolist() == [1, 1]  # each is divided by its weight
    assert LabelQuadratic(W, k=3, low=0).least_nodes == 0
    with pytest.raises(InfeasibleError, match="2 nodes cannot fill 3 clusters"):
        LabelQuadratic(W, k=3)
    with pytest.raises(InfeasibleError, match="2 nodes cannot fill 3 clusters"):
        LabelQuadratic(W, k=5, low=[1, 1, 1, 0, 0])
    small = LabelQuadratic(W, k=2, low=0).contract(np.zeros(2, dtype=np.int64))
    assert small.n == 1 and small.value(np.array([1])) == 4.0
