"""The mixing method: the optimum of the relaxation, bounds whatever the rank, limits."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import LowRank

X, _ = mm.datasets.load("digits:3,8")
PROBLEM = LeastSquares(X[:80], 2, kernel=Gaussian(width=0.3), lam=0.1, center=False, sizes=0.2)
RELAXED = PROBLEM.relax("sdp")


def test_it_reaches_the_value_of_the_interior_point():
    exact = mm.solve(RELAXED, "InteriorPoint")
    result = mm.solve(RELAXED, LowRank(), seed=0)
    assert result.lower_bound == pytest.approx(exact.lower_bound, rel=1e-5)
    assert result.lower_bound <= exact.objective
    assert result.violation < 1e-5 and result.verify()
    assert (np.diff(np.linalg.eigvalsh(result.point)) >= 0).all()


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_low_rank_weakens_the_bound_and_never_breaks_it(rank):
    best = mm.solve(PROBLEM, seed=0).objective
    result = mm.solve(RELAXED, LowRank(rank=rank), seed=0, max_iter=20)
    assert result.lower_bound <= best
    assert result.formulation.bound(result.certificate.duals) == result.lower_bound


def test_more_sweeps_never_lower_the_bound_and_its_limit_is_kept():
    few = mm.solve(RELAXED, LowRank(max_sweeps=20), seed=0)
    many = mm.solve(RELAXED, LowRank(max_sweeps=200), seed=0)
    assert few.lower_bound <= many.lower_bound
    assert len(few.history) == 4 and len(many.history) <= 40


def test_what_it_cannot_take_is_refused_in_words():
    equal = PROBLEM.replace(sizes=mm.constraints.Sizes(exact=40)).relax("sdp")
    with pytest.raises(IncompatibleError, match="InteriorPoint takes them"):
        mm.solve(equal, LowRank())
    with pytest.raises(IncompatibleError, match="it handles no cuts; RegularizedDual does"):
        mm.solve(PROBLEM.relax("sdp+cuts"), LowRank())
    with pytest.raises(IncompatibleError, match="one balance only"):
        mm.solve(PROBLEM.relax("partition"), LowRank())
