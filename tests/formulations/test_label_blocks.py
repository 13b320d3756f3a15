"""Problems over labels on rows in blocks: factor, steps and labels are those of rows in memory."""

import dataclasses
import importlib

import numpy as np
import pytest
from memory import growth, measured
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.capabilities import LabelProblem
from mmcopt.capabilities.tiled_factor import TiledFactor
from mmcopt.datasets import blocks
from mmcopt.errors import DataError, MMCError
from mmcopt.formulations import Diffrac, DiscriminativeKMeans, KernelKMeans, LeastSquares
from mmcopt.kernels import (
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Neighbors,
    Polynomial,
    Precomputed,
)
from mmcopt.linalg import one_thread
from mmcopt.modeling.result import Status
from mmcopt.solvers import Annealing, Hartigan, StochasticDescent

pytestmark = pytest.mark.filterwarnings("ignore::mmcopt.errors.MMCWarning")
reading = importlib.import_module("mmcopt.datasets.blocks")
NEAR = Gaussian(width=0.5)
FAMILIES = [LeastSquares, Diffrac, DiscriminativeKMeans, KernelKMeans]
KERNELS = [
    NEAR.nystroem(20), Linear(), Cosine(), Laplacian(width=0.5).nystroem(15), Linear().pca(0.9),
    (NEAR * Polynomial(2)).nystroem(20).normalized(), NEAR.nystroem(12) + 0.5 * Linear(),
    NEAR.on([0, 2]).nystroem(10), Linear().on([1, 3]), NEAR.random_features(14),
    NEAR.nystroem(10).centered().normalized()]


def drawn(n, d=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    means = 2.5 * rng.standard_normal((k, d))
    return means[rng.integers(k, size=n)] + rng.standard_normal((n, d)) + 4.0


def on_disk(X, folder, chunk=70):
    np.save(folder / "x.npy", X)
    return blocks(folder / "x.npy", chunk=chunk)


def options_of(cls):
    return {"sizes": 0.5} if cls is Diffrac else {}


def pair(cls, X, rows, kernel=KERNELS[0], **options):
    return (cls(data, 3, kernel=kernel, **options_of(cls), **options) for data in (X, rows))


def same(held, stored, solver, **options):
    a, b = (mm.solve(f, solver, seed=1, **options) for f in (held, stored))
    assert (a.labels == b.labels).all() and a.status is b.status
    np.testing.assert_allclose(b.history["objective"], a.history["objective"], rtol=1e-9)
    assert b.objective == pytest.approx(a.objective, rel=1e-12) and b.verify()
    assert b.lower_bound == pytest.approx(a.lower_bound, rel=1e-9, abs=1e-9)
    return a, b


def search_of(cls):
    return Hartigan() if cls in (KernelKMeans, DiscriminativeKMeans) else StochasticDescent()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("cls", FAMILIES)
def test_labels_and_bounds_are_those_of_rows_in_memory(tmp_path, cls, kernel):
    X = drawn(300)
    same(*pair(cls, X, on_disk(X, tmp_path), kernel), search_of(cls), max_iter=5)


@pytest.mark.parametrize("cls", FAMILIES)
def test_so_are_those_of_searches_on_a_factor(tmp_path, cls):
    X = drawn(5300)
    held, stored = pair(cls, X, on_disk(X, tmp_path, chunk=900))
    a, b = same(held, stored, search_of(cls), max_iter=4)
    assert isinstance(stored.offer(LabelProblem).matrix, TiledFactor)
    assert (b.predict(stored.X) == a.predict(X)).all()
    np.testing.assert_allclose(b.decision_function(X[:40]), a.decision_function(X[:40]),
                               rtol=0, atol=1e-9)


@pytest.mark.as_given  # rows of files are not jittered
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("kernel", [NEAR.nystroem(60), Linear()], ids=repr)
@pytest.mark.parametrize("scheduled", [False, True], ids=["file", "dask"])
def test_in_blocks_of_the_usual_length_factors_are_the_same_to_the_byte(
        tmp_path, monkeypatch, dtype, kernel, scheduled):
    """So that long searches take the same steps, too."""
    monkeypatch.setattr(reading, "BYTES", 1e5)
    X = (10 * drawn(6000, d=8)).astype(dtype)
    rows = on_disk(X, tmp_path, chunk=None)
    assert len(rows.starts) > 3
    if scheduled:
        pytest.importorskip("dask.array")
        rows = rows.to_dask()
    held, stored = pair(LeastSquares, X, rows, kernel)
    with one_thread:  # as blocks are worked on by
        a, b = (f.offer(LabelProblem).matrix.factor_as(np.float64) for f in (held, stored))
        assert a.tobytes() == b.tobytes()
        runs = [mm.solve(f, Annealing(sweeps=5), seed=2, max_iter=5) for f in (held, stored)]
    assert runs[0].point.tobytes() == runs[1].point.tobytes()
    assert runs[0].objective == runs[1].objective


def test_an_array_of_dask_is_worked_on_where_it_is():
    array = pytest.importorskip("dask.array")
    X = drawn(300)
    for cls in FAMILIES:
        same(*pair(cls, X, array.from_array(X, chunks=(64, 4))), search_of(cls))


def test_landmarks_of_sparse_rows(tmp_path):
    X = drawn(200, d=6)
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
    (tmp_path / "x.libsvm").write_text("".join(
        "0 " + " ".join(f"{j + 1}:{row[j]}" for j in np.flatnonzero(row)) + "\n" for row in X))
    rows = blocks(tmp_path / "x.libsvm", chunk=64)
    kernel = Gaussian(gamma=0.05).nystroem(20)
    same(*pair(LeastSquares, csr_array(X), rows, kernel), StochasticDescent())
    with pytest.raises(DataError, match=r"rows are dense.*nystroem\(500\)"):
        mm.solve(LeastSquares(rows, 2, kernel=Linear()))


def test_a_mapped_array_is_read_in_blocks_where_the_kernel_can_do_with_them(tmp_path):
    X = drawn(300)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert "blocks" in repr(LeastSquares(mapped, 3, kernel=NEAR.nystroem(9)))
    assert "blocks" not in repr(LeastSquares(mapped, 3, kernel=NEAR))
    assert mm.solve(LeastSquares(mapped, 3, kernel=NEAR), "KernighanLin", seed=0).verify()


@pytest.mark.parametrize("options", [{"known": {0: 1, 7: 2}}, {"sizes": 0.1}, {"center": False},
                                     {"scaling": "mean", "lam": 1e-4}, {"lam": 1e-5},
                                     {"must_link": [(3, 8)], "cannot_link": [(0, 5)]}])
def test_rules_and_parameters_are_those_of_rows_in_memory(tmp_path, options):
    X = drawn(300)
    same(*pair(LeastSquares, X, on_disk(X, tmp_path), **options), StochasticDescent())


@pytest.mark.parametrize("kernel", [Linear(), KERNELS[0], Cosine()], ids=repr)
def test_weights_of_samples_count_as_in_memory(tmp_path, kernel):
    X, w = drawn(300), np.random.default_rng(1).uniform(0.1, 5.0, 300)
    given = {"kernel": kernel, "sample_weight": w}
    held, stored = (KernelKMeans(data, 3, **given) for data in (X, on_disk(X, tmp_path)))
    a, b = same(held, stored, Hartigan())
    np.testing.assert_allclose(b.decision_function(X[:40]), a.decision_function(X[:40]),
                               rtol=0, atol=1e-9)
    assert (b.predict(stored.X) == a.predict(X)).all()
    plain = KernelKMeans(stored.X, 3, kernel=kernel)
    assert stored.objective(b.labels) != pytest.approx(plain.objective(b.labels), rel=1e-3)
    ones = KernelKMeans(stored.X, 3, kernel=kernel, sample_weight=np.ones(300))
    assert ones.objective(b.labels) == pytest.approx(plain.objective(b.labels), rel=1e-9)


def test_labels_may_be_given_and_judged(tmp_path):
    X = drawn(300)
    y = np.random.default_rng(0).integers(3, size=300)
    for cls in FAMILIES:
        held, stored = pair(cls, X, on_disk(X, tmp_path))
        assert mm.evaluate(stored, y).objective == pytest.approx(mm.evaluate(held, y).objective)
        assert mm.solve(stored, seed=0, init=y, max_iter=3).verify()


def test_the_default_search_ends_in_the_same_partition(tmp_path):
    X = drawn(300)
    a, b = (mm.solve(f, seed=1) for f in pair(LeastSquares, X, on_disk(X, tmp_path)))
    assert mm.metrics.adjusted_rand_index(a.labels, b.labels) == 1.0 and b.verify()


def test_verify_notices_other_labels_and_other_rows(tmp_path):
    X = drawn(200)
    problem = LeastSquares(on_disk(X, tmp_path), 3, kernel=KERNELS[0])
    result = mm.solve(problem, StochasticDescent(), seed=0)
    other = dataclasses.replace(result, point=np.roll(result.point, 1))
    assert not other.verify()
    own = problem.fingerprint
    X[3, 1] += 1e-12
    assert LeastSquares(on_disk(X, tmp_path), 3, kernel=KERNELS[0]).fingerprint != own


@pytest.mark.parametrize("cls", FAMILIES)
def test_verify_makes_room_of_the_copy_that_was_searched(tmp_path, cls):
    X = drawn(5300)
    held, stored = pair(cls, X, on_disk(X, tmp_path, chunk=900))
    copies = {}
    for f in (held, stored):
        result = mm.solve(f, search_of(cls), seed=1, max_iter=2)
        lq = f.offer(LabelProblem)
        assert (lq.matrix._Psi or "means" in lq._memo) and result.verify()
        copies[f] = bool(lq.matrix._Psi or "means" in lq._memo)
        again = mm.solve(f, search_of(cls), seed=1, max_iter=2)  # which reads them again
        assert again.point.tobytes() == result.point.tobytes()
    assert copies == {held: True, stored: False}


def test_a_run_is_saved_without_its_rows_and_goes_on_from_a_checkpoint(tmp_path):
    X = drawn(5300)
    problem = LeastSquares(on_disk(X, tmp_path, chunk=900), 3, kernel=KERNELS[0])
    solver = Annealing(sweeps=4)
    whole = mm.solve(problem, solver, seed=4)
    with pytest.raises(DataError, match=r"save\(path, data=False\)"):
        whole.save(tmp_path / "run.npz")
    whole.save(tmp_path / "run.npz", data=False)
    assert mm.load(tmp_path / "run.npz", problem=problem).verify()
    part = mm.solve(problem, solver, seed=4, max_iter=2, checkpoint=tmp_path / "c")
    again = mm.solve(problem, solver, seed=4, checkpoint=tmp_path / "c")
    assert part.status is Status.ITERATION_LIMIT
    assert again.point.tobytes() == whole.point.tobytes()


def test_restarts_elsewhere_read_the_rows_there(tmp_path):
    problem = LeastSquares(on_disk(drawn(300), tmp_path), 3, kernel=KERNELS[0])
    alone, shared = (mm.solve(problem, StochasticDescent(), seed=4, restarts=2, executor=e,
                              n_jobs=2) for e in (None, "threads"))
    assert alone.point.tobytes() == shared.point.tobytes()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("kernel", "says"), [
    (NEAR, r"Gaussian\(width=0.5\) needs all rows at once.*kernel.nystroem\(500\)"),
    (Neighbors().pca(rank=5), "Neighbors.* needs all rows at once"),
    (NEAR.cholesky(rank=5), "cholesky.* needs all rows at once"), (NEAR.unit(), "unit"),
    (NEAR.centered().nystroem(5), r"centered\(\) needs all rows at once"),
    (Precomputed(), "cannot be combined|needs all rows at once")])
def test_kernels_that_need_all_rows_are_refused(tmp_path, kernel, says):
    with pytest.raises(DataError, match=says):
        mm.solve(LeastSquares(on_disk(drawn(50), tmp_path), 2, kernel=kernel))


@pytest.mark.parametrize("call", [
    lambda f: mm.solve(f, init="kmeans"), lambda f: f.reference(np.zeros(50, int)),
    lambda f: f.K, lambda f: f.restrict(np.arange(50) % 2)],
    ids=["kmeans", "reference", "K", "restrict"])
def test_what_needs_all_rows_says_so(tmp_path, call):
    with pytest.raises(MMCError, match="blocks"):
        call(LeastSquares(on_disk(drawn(50), tmp_path), 2, kernel=KERNELS[-1]))


@pytest.mark.parametrize(("value", "says"), [(np.nan, "1 NaN"), (1e200, "their squares overflow")])
def test_rows_that_are_no_numbers_are_refused(tmp_path, value, says):
    X = drawn(100)
    X[88, 1] = value
    with pytest.raises(DataError, match=says):
        mm.solve(LeastSquares(on_disk(X, tmp_path), 2, kernel=NEAR.nystroem(5)))


@pytest.mark.parametrize("cls", [LeastSquares, KernelKMeans])
def test_rows_that_are_all_equal_are_refused(tmp_path, cls):
    with pytest.raises(DataError, match="rows (of X )?are identical"):
        mm.solve(cls(on_disk(np.full((100, 3), 0.1), tmp_path), 2, kernel=Linear()))


def test_a_row_without_an_angle_is_refused(tmp_path):
    X = drawn(100)
    X[71] = 0.0
    with pytest.raises(DataError, match="a row of X is all zero, so it has no angle"):
        mm.solve(LeastSquares(on_disk(X, tmp_path), 2, kernel=Cosine()))


# ---------------------------------------------------------------- memory


@measured
def test_memory_is_that_of_the_factor_that_is_searched(tmp_path):
    """96 MB of rows, 192 as floats; 10 MB of factor are searched, and blocks of it are read."""
    work = ("assert mm.solve(LeastSquares(rows, 2, kernel=Gaussian(gamma=.01).nystroem(30)), "
            "StochasticDescent(), seed=0, max_iter=2).verify()")
    assert growth(tmp_path, (80_000, 300), 12_288, work) < 60.0
