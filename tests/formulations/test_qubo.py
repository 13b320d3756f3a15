"""Quadratic functions of zeros and ones against brute force, written from the definition."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.bounds import certificates, proofs
from mmcopt.errors import DataError, IncompatibleError
from mmcopt.formulations import QUBO
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers import BranchAndBound

pytestmark = pytest.mark.as_given  # whole numbers stay whole

SEARCHES = ("Annealing", "Continuation", "Evolutionary", "KernighanLin", "Memetic", "Shaking",
            "SteepestDescent", "StochasticDescent", "Tabu")


def drawn(seed):
    """Q symmetric, triangular or neither, whole or not, thin or full; c or none."""
    rng = np.random.default_rng([4, seed])
    n = int(rng.integers(1, 9))
    Q = rng.integers(-9, 10, (n, n)).astype(float) if seed % 2 else rng.standard_normal((n, n))
    Q = (Q, np.triu(Q), Q + Q.T)[seed % 3] * (rng.random((n, n)) < (0.4, 1.0)[seed // 6 % 2])
    return Q, (None, rng.integers(-9, 10, n), rng.standard_normal(n))[seed % 3]


def value_of(Q, c, x):
    n = len(Q)
    return sum(Q[i, j] * x[i] * x[j] for i in range(n) for j in range(n)) \
        + sum(0.0 if c is None else c[i] * x[i] for i in range(n))


@pytest.mark.parametrize("seed", range(18))
def test_objective_offer_and_bounds_are_those_of_the_definition(seed):
    Q, c = drawn(seed)
    points = [np.array(x) for x in itertools.product((0, 1), repeat=len(Q))]
    best = min(value_of(Q, c, x) for x in points)
    size = 1e-12 * (1 + np.abs(Q).sum() + (0.0 if c is None else np.abs(c).sum()))
    for problem in (QUBO(Q, c), QUBO(csr_array(Q), c)):
        lq = problem.offer(mm.LabelQuadratic)
        for x in points:
            assert abs(problem.objective(x) - value_of(Q, c, x)) <= size
            nodes = lq.reduce(x)
            assert abs(lq.value(nodes) - problem.objective(x)) <= 20 * size
            assert lq.expand(nodes).tolist() == x.tolist() and lq.violation(x) == 0.0
            assert lq.expand(1 - nodes).tolist() == x.tolist()  # the last node says which is 0
            if lq.grid is not None:
                assert (int(2 * problem.objective(x)) - 2 * lq.grid[0]) % (2 * lq.grid[1]) == 0
        assert lq.trivial_bound <= best
        for t in (0.0, 0.4):
            assert certificates.eig_bound(problem, {"t": t}) <= best
        proved = mm.solve(problem, BranchAndBound(enumerate=1), seed=0)
        assert proved.verify() and (proved.status is Status.CERTIFIED or best == 0.0)
        assert abs(proved.objective - best) <= size
        assert best - 1e-5 * abs(best) - size <= proved.lower_bound <= best + size
        assert proved.point.shape == proved.labels.shape == (len(Q),)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_search_finds_all_zeros_and_all_ones(sign):
    problem = QUBO(sign * np.ones((6, 6)))
    for name in SEARCHES:
        result = mm.solve(problem, name, seed=1)
        assert result.objective == min(0.0, 36.0 * sign), name
        assert result.point.tolist() == [int(sign < 0)] * 6, name


def test_of_whole_numbers_the_grid_is_that_of_the_function():
    Q = np.triu(np.random.default_rng(0).integers(-9, 10, (8, 8))).astype(float)
    assert QUBO(Q).offer(mm.LabelQuadratic).grid[1] == 1
    assert QUBO(6.0 * Q).offer(mm.LabelQuadratic).grid[1] == 6
    assert QUBO(Q, c=np.full(8, 0.1)).offer(mm.LabelQuadratic).grid is None


@pytest.mark.parametrize("problem", QUBO.examples()[1:3])
def test_the_literal_program(problem):
    best = min(problem.objective(np.array(x))
               for x in itertools.product((0, 1), repeat=problem.n))
    assert problem.reference().solve(solver="HIGHS") == pytest.approx(best, abs=1e-6)
    x = np.arange(problem.n) % 2
    assert problem.reference(x).solve(solver="HIGHS") == pytest.approx(problem.objective(x))


def test_the_tree_of_a_proof_names_the_node_that_no_number_belongs_to():
    problem = QUBO(np.triu(np.random.default_rng(1).integers(-9, 10, (6, 6))))
    result, tried = mm.solve(problem, seed=0), {"enumerated": np.array(1)}
    duals = {"parent": np.array([-1, 0, 0]), "pair": np.array([[0, 0], [2, 6], [2, 6]]),
             "same": np.array([True, True, False]), "duals": [None, tried, tried]}
    proof = Certificate("branch-and-bound", {}, duals, problem)
    text = str(proofs.proof_tree(dataclasses.replace(result, certificate=proof)))
    assert "2 and label 0 together" in text and "2 and label 0 apart" in text


def test_what_is_no_function_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"c must hold 2 numbers, .*; got shape \(3,\)"):
        QUBO(np.eye(2), c=[1, 2, 3])
    with pytest.raises(DataError, match="c must hold 2 numbers"):
        QUBO(np.eye(2), c=[1.0, np.inf])
    with pytest.raises(DataError, match="Q must be a square matrix"):
        QUBO(np.ones((2, 3)))
    result = mm.solve(QUBO(csr_array(np.eye(3)), c=[-2, 0, 1]), seed=0)
    with pytest.raises(IncompatibleError, match="QUBO knows no samples"):
        result.predict(np.ones((1, 3)))
    result.save(tmp_path / "x.npz")
    assert mm.load(tmp_path / "x.npz").verify()
