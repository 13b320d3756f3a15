"""Two clusters whose cannot-links pair all samples: b = 0 in the signed lift."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.decision_tree import covering
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import BranchAndBound, RegularizedDual


def paired(n, **options):
    X = np.random.default_rng(n).standard_normal((n, 3))
    return LeastSquares(X, 2, cannot_link=[(i, i + 1) for i in range(0, n, 2)], **options)


@pytest.mark.parametrize("n", [10, 30])
def test_branch_and_bound_proves_them(n):
    result = mm.solve(paired(n), BranchAndBound(enumerate=1), seed=0)
    assert result.status.name == "CERTIFIED" and result.verify()


@pytest.mark.parametrize("kind", ["sdp", "sdp+cuts"])
@pytest.mark.parametrize("solver", [RegularizedDual(), "Conic"])
def test_their_relaxations_are_solved(kind, solver):
    f = paired(10)
    best = mm.solve(f, "BruteForce").objective
    relaxed = f.relax(kind)
    assert not relaxed.lift.b.any() and not relaxed.lift.flat
    result = mm.solve(relaxed, solver, seed=0)
    assert 0.9 * best <= result.lower_bound <= best + 1e-9 and result.verify()


def test_equal_sizes_do_not_divide_by_nothing():
    f = paired(10, sizes=0.0)
    result = mm.certify(f, np.arange(10) % 2, improve=True)
    assert result.status.name == "CERTIFIED" and result.verify()


def test_sizes_that_the_pairs_forbid_are_said():
    f = paired(10).replace(sizes=mm.constraints.Sizes(exact=[4, 6])).offer(mm.LabelQuadratic)
    from mmcopt.bounds.label_lift import binary_lift

    with pytest.raises(InfeasibleError, match="clusters of equal size"):
        binary_lift(f)


def test_a_gap_of_zero_ends():
    X = np.random.default_rng(1).standard_normal((14, 2))
    result = mm.solve(LeastSquares(X, 2), BranchAndBound(gap=0, enumerate=4), seed=0)
    assert result.status.name == "CERTIFIED" and result.gap <= 1e-9


@pytest.mark.parametrize("W", [np.eye(6), 3.0 * np.eye(6), np.zeros((6, 6))])
def test_a_multiple_of_the_identity_has_nothing_to_smooth(W):
    lq = mm.LabelQuadratic(W, const=1.0, k=2)
    assert lq.smooth(10.0) is lq and lq.smoothing(2) == 2.0


def test_children_that_decide_two_pairs_cover_nothing():
    same = [True, True, False]
    assert covering([[1, 2], [], []], [(0, 0), (0, 1), (1, 0)], same) == [[1, 2], [], []]
    assert covering([[1, 2], [], []], [(0, 0), (0, 1), (0, 2)], same) == [[], [], []]
    assert covering([[1, 2], [], []], [(0, 0), (0, 1), (0, 1)], [True] * 3) == [[], [], []]
