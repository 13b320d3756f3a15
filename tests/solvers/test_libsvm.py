"""LIBSVM as a solver: what it is handed, and what it is not allowed to say."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import Hypersphere
from mmcopt.kernels import Gaussian, Laplacian, Linear
from mmcopt.modeling.result import Status
from mmcopt.solvers import Conic, Libsvm

X = mm.datasets.load("moons:n=80,noise=.1,seed=0")[0]


@pytest.mark.parametrize("kernel", [Gaussian(gamma=2.0), Laplacian(gamma=1.0)], ids=repr)
@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(80) % 3], ids=["equal", "weighted"])
def test_it_comes_to_the_optimum(kernel, weights):
    f = Hypersphere(X, C=8.0, kernel=kernel, sample_weight=weights)
    ours = mm.solve(f, Libsvm(tol=1e-9))
    assert ours.objective == pytest.approx(mm.solve(f, Conic()).objective, rel=1e-6)
    assert ours.status is Status.CERTIFIED and ours.verify()
    assert (ours.point <= f.upper * (1 + 1e-6)).all() and ours.point.sum() == pytest.approx(1)


def test_a_loose_tolerance_shows_in_the_gap():
    f = Hypersphere(X, C=80.0, kernel=Gaussian(gamma=2.0))
    gaps = [mm.solve(f, Libsvm(tol=tol)).gap for tol in (1e-1, 1e-3, 1e-8)]
    assert gaps[0] > 1e-4 and gaps[0] >= gaps[1] >= gaps[2] and gaps[2] < 1e-6


def test_kernels_without_a_constant_diagonal_are_refused():
    with pytest.raises(IncompatibleError, match="SimplexDual"):
        mm.solve(Hypersphere(X, kernel=Linear()), Libsvm())


def test_samples_without_weight_are_left_out():
    w = np.r_[np.zeros(30), np.ones(50)]
    f = Hypersphere(X, C=10.0, kernel=Gaussian(gamma=2.0), sample_weight=w)
    result = mm.solve(f, Libsvm(tol=1e-9))
    assert result.gap < 1e-6 and not result.point[:30].any()
