"""A small problem, and its classes, that solvers are compared on."""

import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares


@pytest.fixture(scope="module")
def data():
    return mm.datasets.load("gaussians:n=10,distance=4,seed=0")


@pytest.fixture(scope="module")
def problem(data):
    return LeastSquares(data[0])
