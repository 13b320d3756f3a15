"""CPM3C on rows in blocks: the same cuts, steps and labels as in memory, and no more memory."""

import dataclasses

import numpy as np
import pytest
from memory import growth, measured
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.capabilities import Bounded
from mmcopt.datasets import blocks
from mmcopt.errors import DataError, IncompatibleError, MMCError
from mmcopt.formulations import CPM3C, MKC, CrammerSinger, MultipleKernelMachine
from mmcopt.kernels import Cosine, Gaussian, Linear
from mmcopt.kernels import block_features as made_of
from mmcopt.kernels.features import Features
from mmcopt.margins import Hinge, Logistic, SquaredHinge, block_floors
from mmcopt.margins.block_cuts import BlockCuts, BlockScores
from mmcopt.margins.cut_models import PairCuts, floored
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane, MarginSearch

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
    assert b.objective == pytest.approx(a.objective, abs=near, rel=near) and b.verify()
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
    # Masters of weights of sum 1 are solved to 1e-7, their weights to the root of that.
    atol, near = (3e-4, 1e-7) if p == 1.0 else (1e-6, 1e-12)
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


# ---------------------------------------------------------------- floors on sizes


FLOORED = [
    lambda X: CPM3C(X, 3, size_floor=0.8), lambda X: CPM3C(X, 2, size_floor=0.95),
    lambda X: CPM3C(X, 4, size_floor=0.9, loss=SquaredHinge()),
    lambda X: CPM3C(X, 3, size_floor=0.8, kernel=NEAR),
    lambda X: CPM3C(X, 3, size_floor=0.8, center=False, balance=20.0),
    lambda X: MKC(X, 3, size_floor=0.8, kernels=[Linear(), NEAR])]


def same_floored(held, stored, solver, **options):
    a, b = (mm.solve(f, solver, seed=1, max_iter=12, **options) for f in (held, stored))
    assert (a.labels == b.labels).all() and a.status is b.status
    for x, y in zip(columns(a).values(), columns(b).values(), strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=1e-6)  # weights of MKC, to the root of 1e-12
    np.testing.assert_allclose(b.point.W, a.point.W, rtol=0, atol=1e-6)
    assert b.objective == pytest.approx(a.objective, rel=1e-10) and b.feasible and b.verify()
    return a, b


@pytest.mark.parametrize("order", ["planes", "cccp"])
@pytest.mark.parametrize("make", FLOORED)
def test_floors_on_sizes_hold_as_in_memory(tmp_path, monkeypatch, make, order):
    monkeypatch.setattr(block_floors, "FEW", 20)
    monkeypatch.setattr(block_floors, "CELLS", 16)
    X = drawn(300, 4, 3)
    held, stored = make(X), make(on_disk(X, tmp_path))
    _, b = same_floored(held, stored, CuttingPlane(order=order))
    assert np.bincount(b.labels, minlength=held.n_clusters).min() >= held.least


def test_floors_on_an_array_of_dask_and_from_labels(tmp_path):
    array = pytest.importorskip("dask.array")
    X = drawn(300, 4, 3)
    y = floored(drawn(300, 3, 3), 80)
    for init in (None, y, np.arange(300) // 280):  # the last ones break the floor
        same_floored(*(CPM3C(data, 3, size_floor=0.8)
                       for data in (X, array.from_array(X, chunks=(64, 4)))), CuttingPlane(),
                     init=init)


def test_labels_by_a_rule_are_saved_continued_and_judged(tmp_path):
    X = drawn(300, 4, 2)
    problem = CPM3C(on_disk(X, tmp_path), 4, size_floor=0.9)
    whole = mm.solve(problem, CuttingPlane(), seed=1, max_iter=6)
    assert len(whole.point.labels.short) > 0 and whole.verify()
    whole.save(tmp_path / "run.npz", data=False)
    again = mm.load(tmp_path / "run.npz", problem=problem)
    assert again.verify() and (problem.labels(again.point) == whole.labels).all()
    mm.solve(problem, CuttingPlane(), seed=1, max_iter=3, checkpoint=tmp_path / "c")
    after = mm.solve(problem, CuttingPlane(), seed=1, max_iter=6, checkpoint=tmp_path / "c")
    assert after.objective == whole.objective and (after.labels == whole.labels).all()
    spread = problem.joined(whole.point.W, whole.labels)  # the same one by one
    assert problem.objective(spread) == pytest.approx(whole.objective, rel=1e-12)
    assert problem.violation(spread) == 0.0 and problem.agrees(spread, whole.labels)
    other = whole.labels.copy()
    other[0] = (other[0] + 1) % 4
    assert not dataclasses.replace(whole, labels=other).verify()
    few = problem.joined(whole.point.W, np.zeros(300, int))
    assert problem.violation(few) == problem.least
    with pytest.raises(DataError, match=r"a point is \(W, labels\), one integer 0..3 for each"):
        problem.labels((whole.point.W, (1, 2, 3, 4)))


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()])
def test_given_labels_have_the_machine_and_the_bound_of_rows_in_memory(tmp_path, loss):
    X = drawn(300, 4, 3)
    y = (X[:, 0] > X[:, 0].mean()) * 1 + (X[:, 1] > X[:, 1].mean() + 1)
    rows = on_disk(X, tmp_path)
    for make in (lambda X: CrammerSinger(X, y, 3, loss=loss),
                 lambda X: CrammerSinger(X, y, 3, loss=loss, center=False, balance=20.0),
                 lambda X: MultipleKernelMachine(X, y, 3, kernels=[Linear(), NEAR], loss=loss)):
        a, b = (mm.solve(make(data), CuttingPlane(epsilon=1e-3), seed=1) for data in (X, rows))
        assert b.objective == pytest.approx(a.objective, rel=1e-6) and b.verify()
        assert b.lower_bound == pytest.approx(a.lower_bound, rel=1e-6) and b.gap < 2e-3
        assert (a.labels == b.labels).all()
    forged = dataclasses.replace(b, lower_bound=b.lower_bound + 0.01 * b.objective)
    assert not forged.verify()


def told(held, duals):
    """The weights of two classes that multipliers and places stand for, one by one."""
    weights, rows = np.zeros((60, 2)), np.arange(60)
    for a, W in zip(duals["multipliers"], duals["places"], strict=True):
        T = held.features.scores(W)
        below = T[rows, held.y] - T[rows, 1 - held.y] < 1.0
        weights[rows, 1 - held.y] += max(a, 0.0) * below
    return {"weights": weights, "balance": np.empty(0)}


def test_multipliers_and_places_of_any_kind_prove_no_more_than_holds(tmp_path):
    X, rng = drawn(60, 3, 2), np.random.default_rng(0)
    held, problem = (CrammerSinger(data, np.arange(60) % 2, 2)
                     for data in (X, on_disk(X, tmp_path)))
    best = mm.solve(problem, CuttingPlane(epsilon=1e-6), seed=0).objective
    bound = problem.offer(Bounded).bound
    for size in (1e-3, 1.0, 1e5, 1e99):
        duals = {"multipliers": size * rng.standard_normal(5), "balance": np.empty(0),
                 "places": min(size, 1e9) * rng.standard_normal((5, 2, 3))}
        assert bound(duals) <= best
        assert bound(duals) == pytest.approx(held.offer(Bounded).bound(told(held, duals)),
                                             rel=1e-6)
    for wrong in ({"places": np.full((5, 2, 3), np.nan)}, {"places": np.zeros((5, 3, 2))},
                  {"multipliers": np.zeros(4)}):
        with pytest.raises(ValueError, match="must have shape"):
            bound({**duals, **wrong})


@pytest.mark.parametrize("solver", [CuttingPlane(), MarginSearch()], ids=repr)
def test_getting_ready_looks_at_no_row(tmp_path, monkeypatch, solver):
    problem = CPM3C(on_disk(drawn(100, 3, 2), tmp_path), 3, size_floor=0.9)
    assert problem.features.longest > 0.0
    monkeypatch.setattr(type(problem.X), "each", None)
    solver.prepare(problem)


def test_given_labels_of_a_clustering_of_rows_in_blocks(tmp_path):
    X = drawn(300, 4, 3)
    problem = CPM3C(on_disk(X, tmp_path), 3, size_floor=0.5)
    result = mm.solve(problem, seed=0, max_iter=9)
    machine = problem.linearize(result.point)  # with labels beside W, that of the labels
    assert machine.objective(result.point.W) == pytest.approx(result.objective, rel=1e-12)
    assert machine.fingerprint == problem.restrict(result.labels).fingerprint


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("make", [
    lambda X: CPM3C(X, 2, kernel=Gaussian(width=1)), lambda X: MKC(X, 2),
    lambda X: MultipleKernelMachine(X, np.arange(50) % 2, 2)])
def test_kernels_that_cannot_work_on_blocks_are_refused(tmp_path, make):
    with pytest.raises(DataError, match="needs all rows at once.*solve on a sample"):
        make(on_disk(drawn(50, 3, 2), tmp_path))


@pytest.mark.parametrize("call", [
    lambda f: mm.solve(f, init="kmeans"), lambda f: f.reference(np.zeros(50, int)),
    lambda f: f.linearize(mm.solve(f, seed=0, max_iter=1).point),
    lambda f: mm.solve(f.restrict(np.arange(50) % 2), "Conic"),
    lambda f: mm.solve(f, "SGD"), lambda f: f.relax("mmc"),
    lambda f: mm.solve(f, CuttingPlane(cut="paper"))],
    ids=["kmeans", "reference", "linearize", "Conic", "SGD", "relax", "paper"])
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


@measured
def test_nor_do_floors_on_sizes(tmp_path):
    """20 MB of rows, which as floats would be 40; labels are 1 MB, while somebody looks at them."""
    work = "mm.solve(CPM3C(rows, 3, size_floor=.9), CuttingPlane(), seed=0, max_iter=2)"
    assert growth(tmp_path, (100_000, 50), 8192, work) < 12.0
