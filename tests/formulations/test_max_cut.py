"""Maximum cuts against brute force, written from the definition."""

import dataclasses
import itertools

import literal
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

import mmcopt as mm
from mmcopt.bounds import certificates
from mmcopt.errors import DataError, IncompatibleError
from mmcopt.formulations import QUBO, MaxCut
from mmcopt.modeling.result import ClimbEnd, Status
from mmcopt.solvers import BranchAndBound

pytestmark = pytest.mark.as_given  # whole numbers stay whole

SEARCHES = ("Annealing", "Continuation", "Evolutionary", "KernighanLin", "Memetic", "Shaking",
            "SteepestDescent", "StochasticDescent", "Tabu")


def weights(seed):
    """Graphs of all kinds: signs, thin ones, loops, real weights, all of one sign."""
    rng = np.random.default_rng([3, seed])
    n = int(rng.integers(2, 9))
    W = (rng.integers(-5, 6, (n, n)).astype(float), rng.standard_normal((n, n)),
         -rng.random((n, n)), rng.integers(0, 3, (n, n)).astype(float))[seed % 4]
    W = np.triu(W * (rng.random((n, n)) < (0.3, 1.0)[seed // 4 % 2]))
    return W + W.T


def cut_of(W, c):
    return sum(W[i, j] for i in range(len(W)) for j in range(i) if c[i] != c[j])


def best_of(W):
    return max(cut_of(W, c) for c in itertools.product((0, 1), repeat=len(W)))


@pytest.mark.parametrize("seed", range(16))
def test_objective_offer_and_bounds_are_those_of_the_definition(seed):
    W = weights(seed)
    size, best = 1e-12 * (1 + np.abs(W).sum()), best_of(W)
    for problem in (MaxCut(W), MaxCut(csr_array(W))):
        lq = problem.offer(mm.LabelQuadratic)
        for c in map(np.array, itertools.product((0, 1), repeat=len(W))):
            assert abs(problem.cut(c) - cut_of(W, c)) <= size
            assert problem.objective(c) == -problem.cut(c) and problem.violation(c) == 0.0
            assert abs(lq.value(c) + problem.cut(c)) <= 10 * size
        assert lq.trivial_bound <= -best
        for t in (0.0, 0.7):
            assert certificates.eig_bound(problem, {"t": t}) <= -best
        proved = mm.solve(problem, BranchAndBound(enumerate=1), seed=0)
        assert proved.verify() and (proved.status is Status.CERTIFIED or best == 0.0)
        assert abs(proved.objective + best) <= size
        assert -best - 1e-5 * abs(best) - size <= proved.lower_bound <= -best + size


def test_a_side_may_be_empty_and_every_search_finds_that():
    W = -np.triu(np.ones((7, 7)), 1)
    problem = MaxCut(W + W.T)
    for name in SEARCHES:
        result = mm.solve(problem, name, seed=1, max_iter=30)
        assert result.objective == 0.0 and len(set(result.labels.tolist())) == 1, name
    assert result.status is Status.CERTIFIED  # by the trivial bound


def test_by_hand():
    ring = np.roll(np.eye(5), 1, axis=1)
    result = mm.solve(MaxCut(ring + ring.T), seed=0)
    assert (result.objective, result.lower_bound) == (-4.0, -4.0)
    assert "-4" in str(result) and "5 nodes" in str(result.formulation)


@pytest.mark.parametrize("problem", MaxCut.examples()[1:3])
def test_the_literal_program(problem):
    best = min(problem.objective(np.array(c))
               for c in itertools.product((0, 1), repeat=problem.n))
    assert problem.reference().solve(solver="HIGHS") == pytest.approx(best, abs=1e-6)
    c = np.arange(problem.n) % 2
    assert problem.reference(c).solve(solver="HIGHS") == pytest.approx(problem.objective(c))


@pytest.mark.parametrize("seed", range(2, 6))
def test_the_relaxation_is_the_literal_one(seed):
    W = weights(seed)
    relaxed = MaxCut(W).relax("sdp")
    value = literal.solved(relaxed.reference())
    size = 1e-6 * (1 + np.abs(W).sum())
    assert mm.solve(relaxed).lower_bound == pytest.approx(value, abs=size)
    assert value <= -best_of(W) + size


def test_what_is_no_graph_is_refused():
    one_way = np.array([[0.0, 2.0], [0.0, 0.0]])
    with pytest.raises(DataError, match=r"W must be symmetric; got W\[0, 1\] = 2 and W\[1, 0\] = 0"
                                        r"\. Pass W \+ W\.T"):
        MaxCut(one_way)
    with pytest.raises(DataError, match="W must be symmetric"):
        MaxCut(coo_array(one_way))
    with pytest.raises(DataError, match=r"must be a square matrix, .*; got shape \(2, 3\)"):
        MaxCut(np.ones((2, 3)))
    with pytest.raises(DataError, match="NaN"):
        MaxCut(np.full((2, 2), np.nan))
    result = mm.solve(MaxCut(np.ones((3, 3))), seed=0)
    with pytest.raises(IncompatibleError, match="MaxCut knows no samples"):
        result.predict(np.ones((1, 3)))


@pytest.mark.parametrize("make", [
    lambda unit: MaxCut(unit * np.ones((30, 30))),
    lambda unit: QUBO(np.eye(30), unit * np.ones(30)),
    lambda unit: MaxCut(csr_array(unit * np.ones((30, 30))))])
def test_weights_near_the_infinity_of_searches_are_refused(make):
    mm.solve(make(1e25), seed=0, max_iter=9)
    with pytest.raises(DataError, match="add up to .*e.3., and searches know sums up to 1e.28; "
                                        "divide them all by the same number"):
        mm.solve(make(1e31), seed=0, max_iter=9)


def test_labels_of_others_are_judged_saved_and_certified(tmp_path):
    W, _ = mm.datasets.load("g05:n=24,seed=3")
    problem = MaxCut(W)
    theirs = mm.evaluate(problem, ["left", "right"] * 12)
    assert theirs.objective == -problem.cut(np.arange(24) % 2) and theirs.verify()
    better = theirs.certify(time_limit=20)
    assert better.status is Status.CERTIFIED and better.objective < theirs.objective
    better.save(tmp_path / "cut.npz")
    back = mm.load(tmp_path / "cut.npz")
    assert type(back.formulation) is MaxCut and back.verify()
    sparse = mm.solve(MaxCut(csr_array(W)), seed=0)
    sparse.save(tmp_path / "cut.npz")
    assert mm.load(tmp_path / "cut.npz").verify()


def test_graphs_of_one_node_and_of_no_edge():
    assert mm.solve(MaxCut(np.zeros((1, 1))), seed=0).objective == 0.0
    result = mm.solve(MaxCut(csr_array((6, 6))), seed=0)
    assert result.objective == 0.0 and result.status is Status.CERTIFIED


@pytest.mark.parametrize("make", [MaxCut, lambda W: QUBO(-W)])
def test_nothing_is_proved_by_weights_being_small(make):
    W = weights(1)
    tiny = make(1e-20 * W)
    labels = np.array(max(itertools.product((0, 1), repeat=len(W)), key=tiny.objective))
    result = mm.certify(tiny, labels, time_limit=20, improve=False)
    assert result.status is not Status.CERTIFIED and result.verify()
    claimed = dataclasses.replace(result, status=Status.CERTIFIED, climb_end=ClimbEnd.CLOSED,
                                  message=ClimbEnd.CLOSED.value)
    assert not claimed.verify()
    best = mm.solve(tiny, "BruteForce")
    assert best.objective < result.objective and best.verify()


@pytest.mark.parametrize("solver", [None, "BranchAndBound"])
def test_large_real_weights_of_a_sparse_graph_stay_symmetric(solver):
    rng = np.random.default_rng(0)
    W = 1e7 * np.triu(rng.standard_normal((60, 60)) * (rng.random((60, 60)) < 0.5), 1)
    result = mm.solve(MaxCut(csr_array(W + W.T)), solver, seed=0, max_iter=20)
    assert result.objective < 0.0 and result.verify()
