"""What tests of partitions, paths and grids share."""

import pytest

import mmcopt as mm
from mmcopt import selection
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian


@pytest.fixture(scope="module")
def blobs():
    return mm.datasets.load("blobs:n=60,k=3,seed=1")


@pytest.fixture(scope="module")
def problem(blobs):
    return LeastSquares(blobs[0], 3, kernel=Gaussian(width=0.5))


@pytest.fixture(scope="module")
def cells(problem):
    return selection.path(problem, (0.1, 1.0, 0.01), seed=3)
