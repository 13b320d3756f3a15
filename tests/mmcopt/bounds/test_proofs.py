"""Trees of branch and bound in words: hand-made ones, and one that a solver made."""

import dataclasses
import math

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.bounds.decision_tree import tree_bound
from mmcopt.errors import DataError
from mmcopt.formulations import LeastSquares, MaxCut
from mmcopt.modeling.result import Certificate
from mmcopt.plot import plot_tree
from mmcopt.plot.results import SHORT
from mmcopt.solvers import BranchAndBound, BruteForce

ENUMERATED = {"enumerated": np.array(1)}


@pytest.fixture(scope="module")
def problem():
    return LeastSquares(mm.datasets.load("gaussians:n=9,distance=2,seed=0")[0], sizes=(3, 6))


@pytest.fixture(scope="module")
def best(problem):
    return mm.solve(problem, BruteForce())


def _with_tree(result, parent, pair, same, duals):
    tree = {"parent": np.array(parent), "pair": np.array(pair), "same": np.array(same),
            "duals": duals}
    f = result.formulation
    found = Certificate("branch-and-bound", {}, tree, f.fingerprint)
    return dataclasses.replace(result, certificate=found)


def test_a_tree_by_hand(best):
    result = _with_tree(best, [-1, 0, 0, 2, 2], [(0, 0), (0, 1), (0, 1), (2, 3), (2, 3)],
                        [True, True, False, True, False],
                        [None, ENUMERATED, None, ENUMERATED, None])
    tree = proof_tree(result)
    assert [node.text for node in tree.nodes] \
        == ["all labelings", "0 and 1 together", "0 and 1 apart", "2 and 3 together",
            "2 and 3 apart"]
    assert [node.end for node in tree.nodes] \
        == ["split", "all of them tried", "split", "all of them tried", "open"]
    assert tree.leaves == [1, 3, 4] and [node.depth for node in tree.nodes] == [0, 1, 1, 2, 2]
    assert tree.lower_bound == -math.inf == tree.nodes[4].bound
    lines = str(tree).splitlines()
    assert lines[1].split() == ["all", "labelings", "-", "split"]
    assert lines[2].startswith("|- 0 and 1 together  ") and lines[2].endswith("all of them tried")
    assert lines[5].startswith("   `- 2 and 3 apart")


def test_bounds_are_those_of_the_best_labels_in_each_node(problem, best):
    result = _with_tree(best, [-1, 0, 0], [(0, 0), (0, 1), (0, 1)], [True, True, False],
                        [None, ENUMERATED, ENUMERATED])
    tree = proof_tree(result)
    for v, told in ((1, {"must_link": [(0, 1)]}), (2, {"cannot_link": [(0, 1)]})):
        optimum = mm.solve(problem.replace(**told), BruteForce()).objective
        assert tree.nodes[v].bound == pytest.approx(optimum, abs=1e-9)
    lq = problem.offer(mm.LabelQuadratic)
    assert tree.lower_bound == lq.safe(tree_bound(lq, result.certificate.duals))


def test_what_is_known_above_a_node_holds_in_it(best):
    result = _with_tree(best, [-1, 0, 0], [(0, 0), (0, 1), (0, 1)], [True, True, False],
                        [ENUMERATED, None, None])
    bounds = {node.bound for node in proof_tree(result).nodes}
    assert len(bounds) == 1 and bounds.pop() == pytest.approx(best.objective)


def test_decisions_name_samples_where_nodes_hold_several(problem):
    linked = problem.replace(must_link=[(0, 1), (1, 2)])
    result = _with_tree(mm.solve(linked, BruteForce()), [-1, 0, 0], [(0, 0), (0, 1), (0, 1)],
                        [True, True, False], [None, ENUMERATED, ENUMERATED])
    assert proof_tree(result).nodes[1].text == "0 and 3 together"


def test_contradicting_decisions_leave_no_labeling(best):
    result = _with_tree(best, [-1, 0, 0, 1, 1], [(0, 0), (0, 1), (0, 1), (1, 0), (1, 0)],
                        [True, True, False, True, False],
                        [None, None, ENUMERATED, ENUMERATED, {}])
    tree = proof_tree(result)
    assert tree.nodes[4].end == "no labeling is left" and tree.nodes[4].bound == math.inf
    assert "  -  no labeling is left" in str(tree)


def test_the_tree_of_the_solver():
    X, _ = mm.datasets.load("gaussians:n=20,distance=1,d=4,seed=1")
    problem = LeastSquares(X, kernel=mm.kernels.Gaussian(width=0.5), lam=0.1, sizes=0.2)
    solver = BranchAndBound(root_rounds=1, node_rounds=2)  # which splits where it need not
    result = mm.solve(problem, solver, seed=0)
    tree = proof_tree(result)
    assert len(tree.leaves) > 1
    assert tree.lower_bound == pytest.approx(result.lower_bound, abs=1e-9)
    assert len(str(tree).splitlines()) == 1 + len(tree.nodes)
    assert {tree.nodes[v].end for v in tree.leaves} <= {"none is better", "all of them tried",
                                                         "no labeling is left"}


def test_results_without_a_tree_and_trees_too_large_to_draw(best):
    with pytest.raises(DataError, match="no tree: its certificate is 'enumeration'. BranchAndB"):
        proof_tree(best)
    with pytest.raises(DataError, match="its certificate is missing"):
        proof_tree(dataclasses.replace(best, certificate=None, lower_bound=None))
    pytest.importorskip("matplotlib")
    many = SHORT + 1  # a caterpillar of this many splits
    parent = [-1] + [p for i in range(many) for p in (max(0, 2 * i), max(0, 2 * i))]
    pair = [(0, 0)] + [(0, 1 + i % 8) for i in range(many) for _ in range(2)]
    result = _with_tree(best, parent, pair, [True] + [True, False] * many,
                        [ENUMERATED] + [None] * (2 * many))
    with pytest.raises(DataError, match=f"has {many + 1} leaves, too many to draw"):
        plot_tree(result)


def test_what_is_certified_holds_no_better_ones():
    W = mm.datasets.load("g05:n=20,seed=0")[0]
    cut = mm.solve(MaxCut(W), BranchAndBound(enumerate=1), seed=0)
    few = mm.solve(LeastSquares(mm.datasets.load("iris")[0][::25], 2), BranchAndBound(), seed=0)
    for result in (cut, few):
        tree = proof_tree(result)
        assert result.status.name == "CERTIFIED"
        assert tree.nodes[0].bound == pytest.approx(result.lower_bound, abs=1e-9)
        assert "of which 0 may hold better ones" in tree.statement
        assert not any(node.end == "open" for node in tree.nodes)


@pytest.mark.parametrize("forge", [lambda d: d.pop("parent"), lambda d: d.update(pair=np.ones(3))])
def test_trees_of_nothing_are_told(best, forge):
    result = _with_tree(best, [-1], [(0, 0)], [True], [ENUMERATED])
    forge(result.certificate.duals)
    with pytest.raises(DataError, match=r"does not belong to its problem .* verify\(\) says"):
        proof_tree(result)
    assert not result.verify()
