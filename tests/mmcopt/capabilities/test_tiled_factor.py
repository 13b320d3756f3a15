"""A factor by its rows: what it answers is what a factor in memory does, wherever the rows lie."""

import numpy as np
import pytest

from mmcopt import checks
from mmcopt.capabilities.matrices import LowRank
from mmcopt.capabilities.tiled_factor import TiledFactor
from mmcopt.datasets.scratch import Scratch
from mmcopt.kernels import block_features
from mmcopt.kernels.block_features import BlockFeatures, held

RNG = np.random.default_rng(0)
PSI = RNG.standard_normal((50, 4)) / 16
PLAIN = LowRank(PSI)


@pytest.fixture(params=["held", "stored"])
def factor(request, monkeypatch):
    monkeypatch.setattr(block_features, "TILE", 24.0)
    if request.param == "held":
        return TiledFactor(held(PSI, "test"))
    return TiledFactor(BlockFeatures.known(Scratch([PSI], PSI.shape, "test"), "test"))


C = RNG.integers(3, size=50)
U = RNG.random(50) + 0.5
ASKED = {
    "product": lambda W: W @ np.eye(50)[:, :7], "vector": lambda W: W @ U,
    "dense": lambda W: W.dense(), "diagonal": lambda W: W.diagonal(), "mass": lambda W: W.mass(),
    "column": lambda W: W.column(17), "rank": lambda W: W.rank, "gram": lambda W: W.gram(),
    "within": lambda W: W.within(C, 3), "each": lambda W: W.within_each(C, 3),
    "total": lambda W: W.total(), "contract": lambda W: W.contract(C, 3).dense(),
    "subset": lambda W: W.subset(np.array([9, 3, 30])).dense(), "values": lambda W: W.spectrum()[0],
    "single": lambda W: W.factor_as(np.float32), "factor": lambda W: W.factor(),
    "over": lambda W: W.rows_over(U), "whole": lambda W: W.rows_over(np.ones(50)),
    "across": lambda W: W.gram_across(U, U / np.linalg.norm(U)),
    "association": lambda W: W.association(np.column_stack([U, U**2])),
    "first": lambda W: W.first_row(), "smoothed": lambda W: W.smoothed(3.0, np.float64).dense()}


@pytest.mark.parametrize("asked", ASKED)
def test_it_answers_as_a_factor_in_memory(factor, asked):
    np.testing.assert_allclose(ASKED[asked](factor), ASKED[asked](PLAIN), rtol=1e-10, atol=1e-10)
    assert not factor.is_dense


def test_a_copy_that_memory_does_not_hold_lies_in_a_file_that_is_mapped(factor, monkeypatch):
    monkeypatch.setattr(checks, "available_memory", lambda: 100)
    copy = factor.factor_as(np.float32)
    assert (copy == PSI.astype(np.float32)).all() and type(copy) is np.ndarray
    assert len(factor._files) == 1 and copy.flags.writeable
