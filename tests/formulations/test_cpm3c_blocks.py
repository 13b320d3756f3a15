"""CPM3C on rows in blocks: the same cuts, steps and labels as in memory, and no more memory."""

import dataclasses

import numpy as np
import pytest
from memory import growth, measured
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.datasets import blocks
from mmcopt.errors import DataError, IncompatibleError, MMCError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Cosine, Gaussian, Linear
from mmcopt.kernels import block_features as made_of
from mmcopt.kernels.features import Features
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.margins.block_cuts import BlockCuts, BlockScores
from mmcopt.margins.cut_models import PairCuts
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane

pytestmark = pytest.mark.filterwarnings("ignore::mmcopt.errors.MMCWarning")


def drawn(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    means = 2.5 * rng.standard_normal((k, d))
    return means[rng.integers(k, size=n)] + rng.standard_normal((n, d)) + 4.0


def on_disk(X, folder, chunk=70):
    np.save(folder / "x.npy", X)
    return blocks(folder / "x.npy", chunk=chunk)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    monkeypatch.setattr(made_of, "TILE", 96.0)  # a few rows, so that blocks have several


def columns(result):
    return {name: result.history[name] for name in ("objective", "violation", "cuts", "masters")}


def same(held, stored, solver, *, atol=1e-9, near=1e-12, **options):
    a, b = (mm.solve(f, solver, seed=1, **options) for f in (held, stored))
    assert (a.labels == b.labels).all() and a.status is b.status
    np.testing.assert_allclose(b.point, a.point, rtol=0, atol=atol)
    for x, y in zip(columns(a).values(), columns(b).values(), strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=atol)
    assert b.objective == pytest.approx(a.objective, abs=1e-3 * atol, rel=near) and b.verify()
    return a, b


@pytest.mark.parametrize(("k", "order", "options"), [
    (2, "planes", {}), (3, "planes", {}), (2, "cccp", {}), (3, "cccp", {}),
    (3, "planes", {"loss": SquaredHinge()}), (3, "planes", {"loss": Logistic()}),
    (2, "planes", {"balance": 20.0, "center": False}),
    (3, "planes", {"balance": 30.0, "bias": 10.0}),
    (2, "planes", {"normalize": False, "beta": 1.0})])
def test_the_steps_are_those_of_rows_in_memory(tmp_path, k, order, options):
    """Of runs that are short: in long ones the order of sums may decide, in memory too."""
    X = drawn(300, 4, k)
    same(CPM3C(X, k, **options), CPM3C(on_disk(X, tmp_path), k, **options),
         CuttingPlane(order=order))


NEAR = Gaussian(width=0.5).nystroem(9)


@pytest.mark.parametrize("options", [
    {"kernel": NEAR}, {"kernel": NEAR, "center": False, "balance": 20.0},
    {"kernel": NEAR + Linear(), "normalize": False}, {"kernel": Cosine()},
    {"kernel": NEAR, "balance": 20.0, "bias": 10.0}])
def test_kernels_of_features_take_the_steps_of_rows_in_memory(tmp_path, options):
    X = drawn(300, 4, 3)
    held, stored = CPM3C(X, 3, **options), CPM3C(on_disk(X, tmp_path), 3, **options)
    a, _ = same(held, stored, CuttingPlane(), max_iter=25)
    np.testing.assert_allclose(stored.decision_function(a.point, X[:9]),
                               held.decision_function(a.point, X[:9]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("kernels", [
    [Linear().on([0, 1]), Linear().on([2, 3])], [Linear(), NEAR],
    [NEAR, Gaussian(gamma=0.05).nystroem(12, seed=3), Linear().on([1])]], ids=repr)
def test_several_kernels_take_the_steps_of_rows_in_memory(tmp_path, kernels, p):
    X = drawn(300, 4, 3)
    held, stored = (MKC(data, 3, kernels=kernels, p=p) for data in (X, on_disk(X, tmp_path)))
    # Masters of weights of sum 1 are solved to 1e-6, and their weights to the root of that.
    atol, near = (1e-3, 1e-6) if p == 1.0 else (1e-6, 1e-12)
    a, b = same(held, stored, CuttingPlane(), max_iter=12, atol=atol, near=near)
    np.testing.assert_allclose(stored.kernel_weights(b.point), held.kernel_weights(a.point),
                               rtol=0, atol=atol)
    assert (b.predict(stored.X) == b.labels).all()
    assert stored.features.longest == pytest.approx(held.features.longest)
    np.testing.assert_allclose(stored.features.lengths, held.features.lengths)


def test_several_kernels_of_an_array_of_dask():
    array = pytest.importorskip("dask.array")
    X = drawn(300, 4, 2)
    same(*(MKC(data, 2, kernels=[Linear(), NEAR])
           for data in (X, array.from_array(X, chunks=(64, 4)))), CuttingPlane(), max_iter=12,
         atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_numbers_of_other_types_are_converted_a_block_at_a_time(tmp_path, dtype):
    X = (10 * drawn(200, 3, 2)).astype(dtype)
    same(CPM3C(X, 2), CPM3C(on_disk(X, tmp_path), 2), CuttingPlane())


def test_blocks_of_sparse_rows_stay_sparse(tmp_path):
    X = drawn(200, 6, 2)
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
    (tmp_path / "x.libsvm").write_text("".join(
        "0 " + " ".join(f"{j + 1}:{row[j]!r}" for j in np.flatnonzero(row)) + "\n"
        for row in X.tolist() for row in [np.array(row)]).replace("np.float64(", "").replace(
            ")", ""))
    held, stored = CPM3C(csr_array(X), 2), CPM3C(blocks(tmp_path / "x.libsvm", chunk=64), 2)
    assert stored.X.shape == X.shape and stored.features.sparse
    same(held, stored, CuttingPlane())


def test_an_array_of_dask_is_worked_on_where_it_is():
    array = pytest.importorskip("dask.array")
    X = drawn(300, 4, 3)
    same(CPM3C(X, 3), CPM3C(array.from_array(X, chunks=(64, 4)), 3), CuttingPlane())


def test_a_mapped_array_is_not_read_at_once(tmp_path):
    X = drawn(300, 4, 2)
    np.save(tmp_path / "x.npy", X)
    problem = CPM3C(np.load(tmp_path / "x.npy", mmap_mode="r"), 2)
    assert problem.features.blocked and repr(problem).startswith("CPM3C(X=<300 x 4 in blocks")
    same(CPM3C(X, 2), problem, CuttingPlane())


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_moving_the_anchor_moves_all_cuts_as_in_memory(tmp_path, loss):
    """Cuts of their own labels, and such as were made while the anchor was elsewhere."""
    X, k = drawn(150, 4, 3), 3
    rng = np.random.default_rng(0)
    Ws = [rng.standard_normal((k, 4)) for _ in range(6)]
    held, stored = CPM3C(X, k, loss=loss), CPM3C(on_disk(X, tmp_path), k, loss=loss)
    memory = PairCuts(held.features, k, loss, held.features.scores(Ws[0]).argmax(axis=1))
    disk = BlockCuts(stored.features, k, loss, Ws[0])
    for i, W in enumerate(Ws):
        T = held.features.scores(W)
        if i % 2 == 0:
            assert memory.anchor(T, W) == disk.anchor(BlockScores(W), W)
        memory.add(T, held=i % 2 == 1)
        disk.add(BlockScores(W), held=i % 2 == 1)
        assert disk.risk(BlockScores(W)) == pytest.approx(memory.risk(T), rel=1e-12)
        assert disk.held_risk(BlockScores(W)) == pytest.approx(memory.held_risk(T), rel=1e-12)
        np.testing.assert_allclose(disk.G, memory.G, rtol=0, atol=1e-12)
        np.testing.assert_allclose(disk.b, memory.b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"center": False}, {"normalize": False}])
def test_a_tile_has_the_features_that_its_rows_have_in_memory(tmp_path, options):
    X = drawn(200, 3, 2).astype(np.float32)
    kind = {"center": True, "normalize": True, "owner": "test", **options}
    held = Features(X, **kind)
    stored = made_of.BlockFeatures(on_disk(X, tmp_path), **kind)
    np.testing.assert_allclose(np.concatenate(stored.gathered(lambda part: np.array(part.X))),
                               held.X, rtol=0, atol=1e-15)
    assert stored.longest == pytest.approx(held.longest)
    np.testing.assert_allclose(stored.lengths, held.lengths)
    np.testing.assert_allclose(stored.total(), held.total(), rtol=0, atol=1e-11)


def test_labels_may_be_given_predicted_and_judged(tmp_path):
    X = drawn(300, 4, 3)
    held, stored = CPM3C(X, 3), CPM3C(on_disk(X, tmp_path), 3)
    y = np.random.default_rng(0).integers(3, size=300)
    assert mm.evaluate(stored, y).objective == pytest.approx(mm.evaluate(held, y).objective)
    result = mm.solve(stored, seed=0, init=y)
    assert (result.predict(stored.X) == result.labels).all()
    assert (result.predict(X) == result.labels).all()
    sample = mm.solve(mm.formulations.LeastSquares(X[:50], 3, kernel=Gaussian(width=1)), seed=0)
    assert (sample.predict(stored.X) == sample.predict(X)).all()
    assert sample.decision_function(stored.X).shape == (300, 3)


def test_verify_notices_other_labels_and_other_rows(tmp_path):
    X = drawn(200, 4, 2)
    result = mm.solve(CPM3C(on_disk(X, tmp_path), 2), seed=0)
    assert result.verify()
    labels = result.labels.copy()
    labels[17] = 1 - labels[17]
    report = dataclasses.replace(result, labels=labels).verify()
    assert [c.name for c in report.checks if not c.ok] == ["labels"]
    own = result.formulation.fingerprint
    X[3, 1] += 1e-12
    assert CPM3C(on_disk(X, tmp_path), 2).fingerprint != own


def test_a_run_is_saved_without_its_rows_and_goes_on_from_a_checkpoint(tmp_path):
    X = drawn(300, 4, 3)
    problem = CPM3C(on_disk(X, tmp_path), 3)
    whole = mm.solve(problem, CuttingPlane(), seed=4)
    with pytest.raises(DataError, match=r"save\(path, data=False\)"):
        whole.save(tmp_path / "run.npz")
    whole.save(tmp_path / "run.npz", data=False)
    assert mm.load(tmp_path / "run.npz", problem=problem).verify()
    part = mm.solve(problem, CuttingPlane(), seed=4, max_iter=2, checkpoint=tmp_path / "c")
    again = mm.solve(problem, CuttingPlane(), seed=4, checkpoint=tmp_path / "c")
    assert part.status is Status.ITERATION_LIMIT
    assert again.point.tobytes() == whole.point.tobytes()


def test_restarts_elsewhere_read_the_rows_there(tmp_path):
    problem = CPM3C(on_disk(drawn(300, 4, 3), tmp_path), 3)
    alone, shared = (mm.solve(problem, CuttingPlane(), seed=4, restarts=2, executor=e, n_jobs=2)
                     for e in (None, "threads"))
    assert alone.point.tobytes() == shared.point.tobytes()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("options", "says"), [
    ({"size_floor": 0.5}, "a size_floor moves samples between classes, for which all must be in"),
    ({"kernel": Gaussian(width=1)}, r"Gaussian.* needs all rows at once.*solve on a sample")])
def test_what_cannot_work_on_blocks_is_refused(tmp_path, options, says):
    with pytest.raises(DataError, match=says):
        CPM3C(on_disk(drawn(50, 3, 2), tmp_path), 2, **options)


@pytest.mark.parametrize("call", [
    lambda f: mm.solve(f, init="kmeans"), lambda f: f.reference(np.zeros(50, int)),
    lambda f: f.restrict(np.zeros(50, int)), lambda f: MKC(f.X, 2),
    lambda f: mm.solve(f, "SGD"), lambda f: f.relax("mmc"),
    lambda f: mm.solve(f, CuttingPlane(cut="paper"))],
    ids=["kmeans", "reference", "restrict", "MKC", "SGD", "relax", "paper"])
def test_what_needs_all_rows_says_so(tmp_path, call):
    with pytest.raises(MMCError) as refused:
        call(CPM3C(on_disk(drawn(50, 3, 2), tmp_path), 2))
    assert "blocks" in str(refused.value) or isinstance(refused.value, IncompatibleError)


@pytest.mark.parametrize(("value", "says"), [(np.nan, "1 NaN"), (np.inf, "1 infinity"),
                                             (1e200, "their squares overflow")])
def test_rows_that_are_no_numbers_are_refused(tmp_path, value, says):
    X = drawn(100, 3, 2)
    X[88, 1] = value
    with pytest.raises(DataError, match=says):
        mm.solve(CPM3C(on_disk(X, tmp_path), 2))


def test_rows_that_are_all_equal_are_refused(tmp_path):
    with pytest.raises(DataError, match="all samples are equal to rounding"):
        mm.solve(CPM3C(on_disk(np.full((100, 3), 0.1), tmp_path), 2))


# ---------------------------------------------------------------- memory


@measured
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """40 MB of rows, which as floats would be 80; labels and what is read at once are 3 MB."""
    work = "mm.solve(CPM3C(rows, 2), CuttingPlane(), seed=0, max_iter=3)"
    assert growth(tmp_path, (200_000, 50), 8192, work) < 20.0
