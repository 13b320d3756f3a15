"""Condensing: counts, means and evenness of cells, and a million points through them."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from memory import measured

import mmcopt as mm
from mmcopt.condensing import micro_cells
from mmcopt.errors import DataError, ParameterError

RNG = np.random.default_rng(0)


def data(n, d, dtype=np.float64, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return (20 * X + 128).clip(0, 255).astype(dtype) if dtype == np.uint8 else X.astype(dtype)


def same_partition(a, b):
    pairs = np.unique(np.stack([a, b]), axis=1)
    return pairs.shape[1] == a.max() + 1 == b.max() + 1


def widths(X, cells):
    """Longest side of the box around each cell."""
    out = np.zeros(len(cells.weights))
    for q in range(X.shape[1]):
        high, low = np.full(len(out), -np.inf), np.full(len(out), np.inf)
        np.maximum.at(high, cells.cell_of, X[:, q])
        np.minimum.at(low, cells.cell_of, X[:, q])
        out = np.maximum(out, high - low)
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int64])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 9])
def test_counts_means_and_membership(d, dtype):
    X = data(3000, d, dtype)
    cells = micro_cells(X, 120, seed=1)
    m = len(cells.weights)
    assert 1 <= m <= 120 and cells.centres.shape == (m, d) and cells.cell_of.shape == (3000,)
    assert cells.weights.sum() == 3000 and cells.weights.min() >= 1
    for i in range(m):
        members = X[cells.cell_of == i].astype(np.float64)
        assert cells.weights[i] == len(members)
        assert np.allclose(cells.centres[i], members.mean(axis=0), rtol=1e-12, atol=1e-12)
    again = micro_cells(X, 120, seed=1)
    assert all(np.array_equal(getattr(cells, k), getattr(again, k))
               for k in ("centres", "weights", "cell_of"))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_order_of_samples_only_renumbers_cells(d):
    X, order = data(4000, d), RNG.permutation(4000)
    one, other = micro_cells(X, 150), micro_cells(X[order], 150)
    assert same_partition(one.cell_of[order], other.cell_of)
    assert np.allclose(one.centres, other.centres, atol=1e-12)  # not even that
    assert np.array_equal(one.weights, other.weights)


@pytest.mark.parametrize("cells", [10, 100, 1000, 5000])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_grid_is_as_fine_as_asked_and_even(d, cells):
    X = np.random.default_rng(d).random((40_000, d)) * [3.0, 1.0, 0.5][:d]
    found = micro_cells(X, cells)
    assert 0.85 * cells <= len(found.weights) <= cells
    volume = np.prod([3.0, 1.0, 0.5][:d])
    ideal = (volume / cells) ** (1 / d)
    if cells >= 100 or d == 1:
        assert widths(X, found).max() <= 1.35 * ideal
    assert np.array_equal(micro_cells(X, cells, seed=5).cell_of, found.cell_of)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_far_points_do_not_swallow_the_others(scale):
    X = scale * data(5000, 2)
    X[17] = 1e9 * scale
    found = micro_cells(X, 300)
    assert 280 <= len(found.weights) <= 300
    assert found.weights[found.cell_of[17]] == 1


@pytest.mark.parametrize("d", [1, 2, 3, 6, 40])
def test_equal_points_share_a_cell(d):
    places = data(400, d)
    which = RNG.integers(0, 400, 6000)
    X = places[which]
    for cells in (50, 399):
        found = micro_cells(X, cells)
        assert len(found.weights) <= cells
        assert len(np.unique(np.stack([which, found.cell_of]), axis=1).T) == 400
    all_of_them = micro_cells(X, 500)
    assert same_partition(all_of_them.cell_of, which)
    assert np.array_equal(np.sort(all_of_them.weights), np.sort(np.bincount(which)))
    zeros = np.zeros((4, d))
    zeros[::2] *= -1.0
    assert micro_cells(zeros, 3).weights.tolist() == [4.0]


def radius(X, labels):
    return max(np.linalg.norm(X[labels == i] - X[labels == i].mean(axis=0), axis=1).max()
               for i in range(labels.max() + 1))


def by_random_landmarks(X, cells, seed):
    drawn = X[np.random.default_rng(seed).choice(len(X), cells, replace=False)]
    return np.argmin((drawn**2).sum(axis=1) - 2 * X @ drawn.T, axis=1)


def test_landmarks_give_smaller_cells_than_random_ones():
    X = np.asarray(mm.datasets.load("digits")[0], dtype=np.float64)
    ours = [radius(X, micro_cells(X, 200, seed=s).cell_of) for s in range(5)]
    random = [radius(X, by_random_landmarks(X, 200, s)) for s in range(5)]
    assert np.mean(ours) < 0.92 * np.mean(random)


def test_landmarks_do_not_leave_a_dense_part_to_one_cell():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((5000, 6)) * 0.1, rng.random((1000, 6)) * 4])
    found = micro_cells(X, 200)
    assert len(found.weights) == 200 and found.weights.max() < 2500
    assert radius(X, found.cell_of) < 0.8 * radius(X, by_random_landmarks(X, 200, 0))
    assert not same_partition(micro_cells(X, 200, seed=1).cell_of, found.cell_of)
    shifted = micro_cells(X + 2.0**20, 200)  # distances are from the middle, so digits are left
    assert shifted.weights.max() < 2500


def test_small_integers_are_not_copied_to_floats():
    X = data(200_000, 60, np.uint8)
    tracemalloc.start()
    micro_cells(X, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * X.size / 1.5


@pytest.mark.parametrize("d", [2, 3])
def test_a_million_points_take_little_memory(d):
    X = data(1_000_000, d)
    tracemalloc.start()
    found = micro_cells(X)
    assert 1900 <= len(found.weights) <= 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


SCRIPT = """
import mmcopt as mm
from mmcopt.assignment import graph
from mmcopt.condensing import micro_cells
X, y = mm.datasets.load("moons:n=1000000,noise=.05,seed=0")
cells = micro_cells(X)
problem = mm.formulations.OneClassHinge(cells.centres, C=1000.0, sample_weight=cells.weights,
                                        kernel=mm.kernels.Gaussian(gamma=20.0))
labels = cells.spread(graph(mm.solve(problem, seed=0)).labels)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(mm.metrics.adjusted_rand_index(y, labels), int(status["VmHWM"].split()[0]) / 2**20)
"""


@pytest.mark.slow
@measured
def test_a_million_points_of_two_moons_are_clustered_in_a_gibibyte():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True,
                          check=True)
    agreement, gib = map(float, done.stdout.split())
    assert agreement == 1.0 and gib < 1.0


def test_weighted_cells_stand_for_their_members():
    X, _ = mm.datasets.load("moons:n=4000,noise=.05,seed=0")
    kernel, cells = mm.kernels.Gaussian(gamma=10.0), micro_cells(X, 1000)
    whole = mm.solve(mm.formulations.OneClassHinge(X, C=100.0, kernel=kernel), seed=0)
    part = mm.solve(mm.formulations.OneClassHinge(cells.centres, C=100.0, kernel=kernel,
                                                  sample_weight=cells.weights), seed=0)
    plain = mm.solve(mm.formulations.OneClassHinge(cells.centres, C=100.0, kernel=kernel), seed=0)
    assert part.objective == pytest.approx(whole.objective, rel=0.02)
    assert abs(plain.objective - whole.objective) > 5 * abs(part.objective - whole.objective)


@pytest.mark.as_given
def test_errors_and_spreading():
    with pytest.raises(ParameterError, match="micro_cells: cells must be an integer at least 1"):
        micro_cells(np.ones((3, 2)), 0)
    with pytest.raises(DataError, match="2 NaN"):
        micro_cells([[np.nan, np.nan]])
    cells = micro_cells(data(50, 2), 7)
    m = len(cells.weights)
    assert np.array_equal(cells.spread(np.arange(m)), cells.cell_of)
    assert np.array_equal(cells.spread(cells.centres), cells.centres[cells.cell_of])
    with pytest.raises(DataError, match=f"one entry for each of {m} cells"):
        cells.spread([1, 2])
    assert micro_cells([[3.0, 4.0]]).centres.tolist() == [[3.0, 4.0]]
    assert micro_cells(data(50, 5), 1).weights.tolist() == [50.0]


# ---------------------------------------------------------------- rows in blocks


@pytest.mark.as_given  # rows of files are not jittered
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("d", [2, 5])
def test_cells_of_blocks_are_those_of_rows_in_memory(d, dtype, tmp_path):
    X = np.concatenate([data(3000, d, dtype), data(900, d, dtype)])  # some rows twice
    np.save(tmp_path / "x.npy", X)
    for cells in (120, 5000):
        held = micro_cells(X, cells, seed=1)
        read = micro_cells(mm.datasets.blocks(tmp_path / "x.npy", chunk=700), cells, seed=1)
        assert np.array_equal(held.cell_of, read.cell_of)
        assert np.array_equal(held.weights, read.weights)
        np.testing.assert_allclose(read.centres, held.centres, rtol=0, atol=1e-12)


def test_a_domain_of_blocks_is_that_of_their_cells(tmp_path):
    X, y = mm.datasets.load("moons:n=3000,noise=.05,seed=0")
    np.save(tmp_path / "x.npy", X)
    rows = mm.datasets.blocks(tmp_path / "x.npy", chunk=500)
    with pytest.raises(DataError, match="blocks, .*micro_cells"):
        mm.formulations.OneClassHinge(rows)
    cells = micro_cells(rows, 300)
    problem = mm.formulations.OneClassHinge(
        cells.centres, C=300.0, kernel=mm.kernels.Gaussian(gamma=10.0), sample_weight=cells.weights)
    result = mm.solve(problem, seed=0)
    clusters = mm.assignment.graph(result)
    assert mm.metrics.adjusted_rand_index(y, cells.spread(clusters.labels)) == 1.0
    assert (result.predict(rows) == result.predict(X)).all()


def test_blocks_that_are_sparse_or_no_numbers_are_refused(tmp_path):
    X = data(100, 3)
    X[71, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(DataError, match="micro_cells: X contains 1 NaN"):
        micro_cells(mm.datasets.blocks(tmp_path / "x.npy", chunk=40))
    (tmp_path / "x.libsvm").write_text("1 1:2.0\n0 2:1.0\n")
    with pytest.raises(DataError, match="micro_cells: X is sparse"):
        micro_cells(mm.datasets.blocks(tmp_path / "x.libsvm"))
