"""Kernels of rows in blocks: what they learn is what they learn of rows in memory."""

import pickle

import numpy as np
import pytest

from mmcopt.datasets import blocks
from mmcopt.errors import DataError
from mmcopt.kernels import (
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Neighbors,
    Polynomial,
    Precomputed,
    block_features,
)

X = np.random.default_rng(0).standard_normal((90, 3)) * [1.0, 3.0, 0.1] + 5.0
NEAR, MARKS = Gaussian(width=0.5), Gaussian(width=0.5).nystroem(8)
FINE = [Linear(), Cosine(), MARKS, Linear().centered(), MARKS.centered(), 2.0 * Linear(),
        MARKS.normalized(), MARKS.centered().normalized(), (3.0 * MARKS).centered(),
        MARKS.normalized().centered(), Linear() + MARKS, (Linear() + MARKS).centered(),
        Linear().on([2, 0]).centered(), MARKS.on([1]).normalized(), Linear().pca(0.9),
        MARKS.centered().pca(rank=3), (NEAR * Polynomial(2) + Laplacian(width=1)).nystroem(9),
        Gaussian(gamma=0.05).random_features(6).centered(), Laplacian(width=1).random_features(8),
        Linear().centered().centered().normalized(), NEAR.on([0, 1]).nystroem(5).centered()]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setattr(block_features, "TILE", 30.0)
    np.save(tmp_path / "x.npy", X)
    return blocks(tmp_path / "x.npy", chunk=32)


@pytest.mark.as_given  # rows of files are not jittered
@pytest.mark.parametrize("kernel", FINE, ids=repr)
def test_features_are_those_of_rows_in_memory(rows, kernel):
    held, stored = kernel.fit(X), kernel.fit(rows)
    given = held.features()
    for parts in (stored.in_parts(), stored.stored()):
        found = np.concatenate(parts.gathered(lambda part: np.array(part.X)))
        np.testing.assert_allclose(found, given, rtol=0, atol=1e-10 * np.abs(given).max())
    np.testing.assert_allclose(stored.new_features(X[:7]), held.new_features(X[:7]), atol=1e-9)
    assert stored.feature_count == held.feature_count == given.shape[1]
    assert stored.feature_error() == pytest.approx(held.feature_error())


@pytest.mark.parametrize("kernel", FINE, ids=repr)
def test_what_is_sent_makes_features_and_holds_no_rows(rows, kernel):
    fitted = kernel.fit(rows)
    fitted.stored()
    sent = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(sent.new_features(X), fitted.new_features(X))
    assert not hasattr(sent._data, "X")


@pytest.mark.parametrize("kernel", [
    NEAR, Polynomial(2), Neighbors(), NEAR.cholesky(rank=3), NEAR.pca(0.9), Linear().unit(),
    NEAR.centered().nystroem(5), NEAR.normalized().nystroem(5), Linear() * Linear(),
    Linear() + NEAR, MARKS + Linear().unit().nystroem(4), Precomputed()], ids=repr)
def test_kernels_that_look_at_all_rows_are_refused(rows, kernel):
    with pytest.raises(DataError, match=r"needs all rows at once.*kernel.nystroem\(500\)"):
        kernel.fit(rows, owner="test")


@pytest.mark.parametrize("ask", [
    lambda k: k.matrix(), lambda k: k.features(), lambda k: k.cross(X), lambda k: k.diagonal(),
    lambda k: k.rows([0])])
def test_what_needs_all_rows_says_so(rows, ask):
    with pytest.raises(DataError, match="needs all 90 rows in memory, and they come in blocks"):
        ask(MARKS.fit(rows))


def test_more_columns_than_rows_are_no_features(tmp_path):
    np.save(tmp_path / "x.npy", np.ascontiguousarray(X.T))
    with pytest.raises(DataError, match="3 x 90, and are not; take landmarks"):
        Linear().fit(blocks(tmp_path / "x.npy"))
