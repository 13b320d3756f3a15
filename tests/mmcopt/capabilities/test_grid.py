"""Objectives that are whole numbers, or multiples of a step: bounds go to the next of them."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.bounds import certificates, enumeration
from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import LowRank
from mmcopt.formulations import LeastSquares
from mmcopt.modeling import Formulation, Statement
from mmcopt.modeling.result import Certificate


def drawn(seed):
    rng = np.random.default_rng([5, seed])
    n, k = int(rng.integers(4, 8)), 2 + seed % 2
    unit, factor = (1, 2, 16)[seed % 3], int(rng.integers(1, 5))
    W = np.triu(rng.integers(-9, 10, (n, n)) * factor, 1) / unit
    W = W + W.T + np.diag(rng.standard_normal(n) if seed % 2 else rng.integers(-3, 4, n))
    return LabelQuadratic(W, const=float(rng.choice([0.0, 0.1, -7.0])), k=k,
                          scale=float(rng.choice([0.5, 1.0, 0.3, 2.0])),
                          low=1 + seed % 2 if n >= 2 * k else 1)


def exact(lq, c):
    """The objective of labels in fractions."""
    W, n = lq.matrix.dense(), lq.n
    inside = sum(Fraction(W[i, j]) for i in range(n) for j in range(n) if c[i] == c[j])
    return Fraction(lq.constant) - Fraction(lq.scale) * inside


@pytest.mark.parametrize("seed", range(24))
def test_all_objectives_lie_on_it_and_no_bound_is_raised_above_one(seed):
    lq, rng = drawn(seed), np.random.default_rng(seed)
    base, step = lq.grid
    values = sorted({exact(lq, c) for c in itertools.product(range(lq.k), repeat=lq.n)})
    assert all((v - base) % step == 0 for v in values)
    assert math.gcd(*[int((v - base) / step) for v in values]) in (0, 1) or len(values) < 3
    for bound in rng.uniform(float(values[0]) - 3 * step, float(values[-1]), 50):
        raised = lq.raised(bound)
        assert bound <= raised < bound + step
        assert all(Fraction(raised) <= v for v in values if Fraction(bound) <= v)
    for v in values:
        assert v - Fraction(1, 10**9) <= Fraction(lq.raised(float(v) - 1e-9 * float(step))) <= v


def test_none_is_seen_where_there_is_none():
    W = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    assert LabelQuadratic(W, k=2).grid == (-12, 2) and LabelQuadratic(W, k=3).grid == (0, 2)
    other = W.copy()
    other[1, 2] = other[2, 1] = 2.0 + 2.0**-50
    for lq in (LabelQuadratic(other, k=2), LabelQuadratic(W * 2.0**51, k=2),
               LabelQuadratic(W, k=2, rounding=lambda: (0.0, 1e-12)),
               LabelQuadratic(np.zeros((3, 3)), k=2), LabelQuadratic(LowRank(W), k=2),
               LeastSquares(W, 2).offer(LabelQuadratic)):
        assert lq.grid is None and lq.raised(0.25) == 0.25
    for bound in (-math.inf, math.inf):
        assert LabelQuadratic(W, k=2).raised(bound) == bound


class _Cut(Formulation):
    """Maximum cut: the weights of edges within the two sides are least."""

    default_solver = "BranchAndBound"

    def __init__(self, A):
        self.A, self.n, self.n_clusters = np.asarray(A, dtype=float), len(A), 2

    def offer(self, kind):
        return LabelQuadratic(-self.A, k=2, scale=0.5) if kind is LabelQuadratic else None

    def objective(self, point):
        return float(self.A[np.equal.outer(point, point)].sum() / 2)

    def violation(self, point):
        return float(2 - len(np.unique(point)))

    def labels(self, point):
        return point

    def statement(self):
        return Statement("Cut", (("minimise", "the weights of edges within sides", ""),))

    def reference(self, labels=None):
        raise NotImplementedError

    @classmethod
    def examples(cls):
        return []


def graph(n, seed=0):
    A = np.triu(np.random.default_rng(seed).integers(0, 2, (n, n)), 1)
    return (A + A.T).astype(float)


def test_a_tree_ends_at_the_next_whole_number_and_is_checked_again(tmp_path):
    f = _Cut(graph(40))
    result = mm.solve(f, mm.solvers.BranchAndBound(gap=0.0), seed=0)
    assert result.lower_bound == result.objective and result.status is mm.Status.CERTIFIED
    assert result.verify()
    lq = f.offer(LabelQuadratic)
    plain = certificates.branching_bound(f, result.certificate.duals)
    assert result.objective - 1.0 < plain < result.objective - 1e-3  # less is enough to end
    assert lq.raised(plain) == result.objective
    other = _Cut(f.A + 1e-9 * graph(40, 1))  # no whole numbers
    c = result.certificate
    claim = dataclasses.replace(result, formulation=other, objective=other.objective(result.point),
                                certificate=Certificate(c.kind, {}, c.duals, other))
    assert not claim.verify() and "bound" in str(claim.verify())


@pytest.mark.parametrize("seed", range(6))
def test_the_least_of_all_labels_is_what_is_proved(seed):
    f = _Cut(graph(9, seed))
    best = enumeration.minimum(f.offer(LabelQuadratic))[0]
    result = mm.solve(f, mm.solvers.BranchAndBound(enumerate=1), seed=0)
    assert result.objective == best == result.lower_bound


@pytest.mark.parametrize("seed", range(6))
def test_cuts_of_a_graph_whose_nodes_have_even_sums_are_even(seed):
    rng = np.random.default_rng(seed)
    W = np.zeros((7, 7))
    for _ in range(4):  # cycles, which meet each of their nodes twice
        nodes = rng.permutation(7)[:rng.integers(3, 7)]
        W[nodes, np.roll(nodes, 1)] += 1.0
    lq = LabelQuadratic(W + W.T, k=2, low=0)
    assert lq.grid[1] == 4
    assert {exact(lq, c) % 4 for c in itertools.product(range(2), repeat=7)} == {lq.grid[0] % 4}
    sparse = LabelQuadratic(csr_array(W + W.T), k=2, low=0)
    assert sparse.grid == lq.grid


def test_numbers_too_large_to_be_added_exactly_have_no_grid():
    W = np.triu(np.full((40, 40), 2.0**44 + 1.0), 1)
    assert LabelQuadratic(W + W.T, k=2).grid is None
    assert LabelQuadratic((W + W.T)[:3, :3], k=2).grid is not None
