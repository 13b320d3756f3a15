"""What a first solve says: bounds of relaxations, advice that was not followed yet, plain names."""

import dataclasses
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, MMCWarning
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.kernels import Precomputed
from mmcopt.solvers import CuttingPlane

X = np.r_[np.zeros((6, 2)), np.full((6, 2), 4.0)] + np.random.default_rng(0).random((12, 2))


def test_a_relaxation_prints_its_bound_also_where_its_point_is_not_feasible():
    result = mm.solve(LeastSquares(X).relax("partition"), seed=0, max_iter=1)
    result = dataclasses.replace(result, violation=0.1)
    assert f"bound {result.lower_bound:.6g}, violation 0.1 (infeasible: no gap)" in str(result)


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_nobody_is_advised_to_begin_as_he_did(init):
    problem = CPM3C(X, 3, beta=0.01)
    with pytest.warns(MMCWarning, match="lost all samples") as seen:
        result = mm.solve(problem, CuttingPlane(), init=init, seed=0, max_iter=5)
    for text in (str(seen[0].message), result.message):
        assert ("init='kmeans'" in text) == (init != "kmeans")
        assert "give a size_floor" in text


def test_a_kernel_matrix_in_the_wrong_place_is_answered_with_the_right_one():
    with pytest.raises(DataError) as error:
        str(LeastSquares(X, kernel="precomputed"))
    assert "Centered" not in str(error.value) and "X @ X.T" in str(error.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LeastSquares(X @ X.T, kernel=Precomputed()).n == 12
