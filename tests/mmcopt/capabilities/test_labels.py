"""`LabelQuadratic` on its own: values, contraction, smoothing, constraints."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt.capabilities import Bounded, LabelQuadratic
from mmcopt.capabilities.matrices import LowRank
from mmcopt.errors import DataError, InfeasibleError, ParameterError
from mmcopt.formulations import LeastSquares

RNG = np.random.default_rng(0)
PSI = RNG.standard_normal((12, 4))
W = PSI @ PSI.T
X = RNG.standard_normal((15, 2))


def literal(W, c):
    return sum(W[i, j] for i in range(len(c)) for j in range(len(c)) if c[i] == c[j])


@pytest.mark.parametrize("given", [W, LowRank(PSI), sp.csr_matrix(W), sp.csr_array(W), W.tolist()],
                         ids=["dense", "factor", "csr_matrix", "csr_array", "list"])
def test_value_is_the_definition_for_every_kind_of_matrix(given):
    lq = LabelQuadratic(given, const=7.0, k=3, scale=2.0)
    for _ in range(10):
        c = RNG.integers(3, size=12)
        assert lq.value(c) == pytest.approx(7.0 - 2.0 * literal(W, c))
        groups = RNG.permutation(np.arange(12) % 6)
        small = lq.contract(groups)
        d = RNG.integers(3, size=6)
        assert small.value(d) == pytest.approx(lq.value(d[groups]))


def test_a_capability_offers_itself():
    lq = LabelQuadratic(W)
    assert lq.offer(LabelQuadratic) is lq and lq.offer(Bounded) is None
    result = mm.solving.run(mm.solvers.Tabu(), lq, None, np.random.default_rng(0))
    assert result.value == pytest.approx(lq.value(result.point))


def test_a_constant_may_be_a_function_that_is_called_once():
    calls = []
    lq = LabelQuadratic(W, const=lambda: calls.append(1) or 2.0)
    assert lq.constant == lq.constant == 2.0 and len(calls) == 1


@pytest.mark.parametrize("options, error, words", [
    ({"W": W[:5]}, DataError, "W must be a square matrix; got shape (5, 12)."),
    ({"W": np.triu(W)}, DataError,
     "W must be symmetric; pass (W + W.T) / 2 if that is what is meant."),
    ({"W": W * np.nan}, DataError, "W holds NaN or infinite entries."),
    ({"W": sp.csr_matrix(np.triu(W))}, DataError,
     "W must be a symmetric square matrix; got a sparse one that is not."),
    ({"k": 13}, InfeasibleError, "12 nodes cannot fill 13 clusters."),
    ({"fixed": [2] + [-1] * 11}, ParameterError,
     "LabelQuadratic: fixed must hold labels 0..1, or -1 where free; got 2."),
    ({"apart": [(0, 12)]}, ParameterError,
     "LabelQuadratic: apart must hold pairs of different nodes 0..11; got (0, 12)."),
    ({"apart": [(3, 3)]}, ParameterError,
     "LabelQuadratic: apart must hold pairs of different nodes 0..11; got (3, 3)."),
    ({"weights": 0}, ParameterError, "LabelQuadratic: weights must be at least 1; got 0."),
])
def test_what_makes_no_sense_is_refused_in_words(options, error, words):
    with pytest.raises(error) as e:
        LabelQuadratic(**{"W": W, **options})
    assert str(e.value) == words


def test_contraction_keeps_the_constraints():
    lq = LabelQuadratic(W, k=2, fixed=[1] + [-1] * 11, apart=[(2, 3), (4, 5)], low=4, high=8)
    groups = np.array([0, 0, 1, 2, 1, 2, 3, 3, 4, 5, 6, 7])
    small = lq.contract(groups)
    assert small.weights.tolist() == [2, 2, 2, 2, 1, 1, 1, 1]
    assert small.fixed.tolist() == [1] + [-1] * 7
    assert small.apart.tolist() == [[1, 2]]
    assert (small.low.tolist(), small.high.tolist()) == ([4, 4], [8, 8])
    with pytest.raises(InfeasibleError, match="a group to merge holds a cannot-link"):
        lq.contract(np.array([0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9]))
    two = LabelQuadratic(W, k=2, fixed=[1, 0] + [-1] * 10)
    with pytest.raises(InfeasibleError, match="holds two different fixed labels"):
        two.contract(groups)


def test_contractions_of_contractions():
    lq = LabelQuadratic(W, k=2)
    first = lq.contract(np.arange(12) // 2)
    second = first.contract(np.arange(6) // 2)
    c = np.array([0, 1, 0])
    assert second.value(c) == pytest.approx(lq.value(np.repeat(c, 4)))
    assert second.expand(c).tolist() == [0, 0, 1, 1, 0, 0]
    assert second.weights.tolist() == [4, 4, 4]


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scaling": "mean", "lam": 0.02},
                                     {"kernel": mm.kernels.Linear()}])
def test_smoothing_is_the_problem_at_a_larger_lam(options):
    f = LeastSquares(X, 2, **options)
    lq = f.offer(LabelQuadratic)
    for t in (1.5, 10.0, 1e3):
        target = f.replace(lam=f.lam * t).W.dense()
        np.testing.assert_allclose(lq.smooth(t).matrix.dense(), target, atol=2e-6)
    assert lq.smooth(1.0) is lq


def test_smoothing_leaves_fewer_directions_alive():
    lq = LeastSquares(X, 2, lam=1e-3).offer(LabelQuadratic)
    for alive in (2, 5, 8):
        t = lq.smoothing(alive)
        w = np.linalg.eigvalsh(lq.smooth(t).matrix.dense())
        assert (w > 0.5).sum() == pytest.approx(alive, abs=1)


def test_capabilities_may_be_shared_by_threads():
    for _ in range(5):
        lq = LeastSquares(X, 2).offer(LabelQuadratic)
        found, errors = [], []

        def work(lq=lq, found=found, errors=errors):
            try:
                found.append(lq.smoothing(4))
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors and len(set(found)) == 1


def test_labels_of_a_wrong_shape_are_refused():
    with pytest.raises(DataError, match=r"labels must have shape \(12,\); got \(11,\)"):
        LabelQuadratic(W).reduce(np.zeros(11, int))


@pytest.mark.parametrize("labels, violation", [
    (np.zeros(12, int), 4.0), (np.arange(12) % 2, 0.0), (1 - np.arange(12) % 2, 1.0)])
def test_violation_counts_weights_and_broken_rules(labels, violation):
    lq = LabelQuadratic(W, k=2, low=4, high=8, fixed=[0] + [-1] * 11, apart=[(0, 1)])
    assert lq.violation(labels) == violation


def test_arrays_of_the_caller_are_neither_kept_nor_changed():
    weights, apart, given = np.ones(12, np.int64), np.array([[1, 0]]), W.copy()
    lq = LabelQuadratic(given, weights=weights, apart=apart)
    mm.solving.run(mm.solvers.Tabu(), lq, None, np.random.default_rng(0))
    assert given.flags.writeable and np.array_equal(given, W)
    weights[0] = 9
    assert lq.weights[0] == 1


def test_repair_changes_as_little_as_sizes_ask():
    lq = LabelQuadratic(np.eye(12), k=2, low=6, high=6)
    c = np.r_[np.zeros(8, int), np.ones(4, int)]
    mended = lq.repair(c, np.random.default_rng(0))
    assert (mended != c).sum() == 2 and lq.violation(mended) == 0
    assert lq.repair(mended, np.random.default_rng(0)).tolist() == mended.tolist()
