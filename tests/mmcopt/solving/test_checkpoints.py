"""Checkpoints: a killed run goes on to the end that it would have had, from no other file."""

import contextlib
import dataclasses
import os
import re
import warnings

import determinism
import numpy as np
import pytest

import mmcopt as mm
from mmcopt import comparing, registry
from mmcopt.datasets import archives
from mmcopt.errors import DataError, MMCWarning
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.reproduce import papers
from mmcopt.solvers import Tabu
from mmcopt.solving import Progress, Solver, checkpoints
from mmcopt.solving.checkpoints import climb_book

X = np.random.default_rng(0).standard_normal((16, 2))
PROBLEM = LeastSquares(X, 3)
ENDINGS = ("objective", "lower_bound", "status", "labels", "point", "seed")


class Killed(Exception):  # noqa: N818
    """What takes the place of SIGKILL."""


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Every step is written."""
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)


def killing(steps):
    """A callback that ends everything after so many steps, as nothing catches it."""
    left = [steps]

    def callback(row):
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return callback


def resumed(path, f, solver, steps, **options):
    """The result of a solve that was killed after some steps, and how many steps were left."""
    left = []
    with pytest.raises(Killed):
        mm.solve(f, solver, checkpoint=path, callback=killing(steps), **options)
    again = mm.solve(determinism.again(f), solver, checkpoint=path, callback=left.append, **options)
    return again, len(left)


def same(a, b):
    parts = [(np.asarray(getattr(a, name)), np.asarray(getattr(b, name))) for name in ENDINGS]
    assert all(x.tobytes() == y.tobytes() if x.dtype != object else x == y for x, y in parts)
    rows = [r.history.to_dict() for r in (a, b)]
    assert rows[0].keys() == rows[1].keys()
    assert all(np.array_equal(rows[0][k], rows[1][k], equal_nan=True)
               for k in rows[0] if not k.endswith("seconds"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Draws(Solver):
    """Each step depends on the driver's generator, and on those that it spawns."""

    needs = (mm.LabelQuadratic,)

    def begin(self, f, init, rng):
        return self.step(f, {"seen": []}, rng)

    def step(self, f, state, rng):
        drawn = rng.spawn(1)[0].integers(3, size=13)
        state["seen"].append(np.r_[0:3, (drawn + rng.integers(3, size=13)) % 3])
        return Progress(state, state["seen"][-1], f.objective(state["seen"][-1]))


@pytest.mark.parametrize("solver", ["Memetic", "StochasticDescent", _Draws()], ids=str)
def test_a_killed_solve_goes_on_to_the_same_end(solver, tmp_path):
    options = {"seed": 1, "restarts": 2, "max_iter": 5}
    again, left = resumed(tmp_path / "c", PROBLEM, solver, 3, **options)
    whole = mm.solve(PROBLEM, solver, **options)
    same(again, whole)
    assert left == len(whole.history) - 3  # the fourth step was not written


PAIRS = {**determinism.larger(), **determinism.examples()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), list(determinism.pairs(PAIRS)))
def test_every_state_can_be_gone_on_from(name, solver, tmp_path):
    f, options = PAIRS[name], {"seed": 3, "restarts": 2, "max_iter": 7}
    whole = determinism.quietly(mm.solve, determinism.again(f), solver, **options)
    if len(whole.history) > 2:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?!checkpoint)")
            again, left = resumed(tmp_path / "c", determinism.again(f), solver, 2, **options)
        same(again, whole)
        assert left < len(whole.history)


def test_restarts_in_threads_go_on_too(tmp_path):
    options = {"seed": 1, "restarts": 4, "max_iter": 5, "n_jobs": 2}
    same(resumed(tmp_path / "c", PROBLEM, "Memetic", 7, **options)[0],
         mm.solve(PROBLEM, "Memetic", **options))


def test_what_has_ended_is_returned_and_limits_may_be_raised(tmp_path):
    options = {"seed": 1, "checkpoint": tmp_path / "c"}
    first = mm.solve(PROBLEM, "Memetic", max_iter=3, **options)
    seen = []
    same(mm.solve(PROBLEM, "Memetic", max_iter=3, callback=seen.append, **options), first)
    assert seen == []
    more = mm.solve(PROBLEM, "Memetic", max_iter=6, restarts=2, callback=seen.append, **options)
    assert len(seen) == 3 + 6
    same(more, mm.solve(PROBLEM, "Memetic", max_iter=6, restarts=2, seed=1))


def test_without_a_seed_that_of_the_file_is_taken(tmp_path):
    options = {"restarts": 2, "max_iter": 4}
    again, _ = resumed(tmp_path / "c", PROBLEM, "Memetic", 2, **options)
    same(again, mm.solve(PROBLEM, "Memetic", seed=again.seed, **options))


def test_time_counts_on(tmp_path, ticking):
    ticking(0.01)
    first = mm.solve(PROBLEM, "Memetic", seed=0, time_limit=3.0, checkpoint=tmp_path / "c")
    seen = []
    again = mm.solve(PROBLEM, "Memetic", seed=0, time_limit=3.0, checkpoint=tmp_path / "c",
                     callback=seen.append)
    assert seen == [] and again.objective == first.objective
    assert len(again.history) == len(first.history) > 0


def test_it_is_written_about_once_a_second(tmp_path, monkeypatch):
    now, written = [0.0], []
    monkeypatch.setattr(checkpoints, "INTERVAL", 1.0)
    monkeypatch.setattr(checkpoints, "clock", lambda: now[0])
    write = checkpoints.write_arrays
    monkeypatch.setattr(checkpoints, "write_arrays",
                        lambda *a, **k: (written.append(now[0]), write(*a, **k)))

    def callback(row):
        now[0] += 0.3

    mm.solve(PROBLEM, "Memetic", seed=0, max_iter=20, checkpoint=tmp_path / "c", callback=callback)
    gaps = np.diff(written[:-1])  # the last is the end
    assert len(written) >= 4 and (gaps >= 1.0).all()


@pytest.mark.parametrize("f", [LeastSquares(X[:9], 2, lam=0.3), pytest.param(
    CPM3C(X, 2, beta=0.05), marks=pytest.mark.slow)], ids=lambda f: type(f).__name__)
def test_a_killed_climb_goes_on(f, tmp_path, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.ladder.MAX_LABELINGS", 1)
    start = mm.evaluate(f, np.arange(f.n) % 2)
    rungs = []
    whole = start.certify(progress=rungs.append)
    with pytest.raises(Killed):
        start.certify(checkpoint=tmp_path / "c", progress=killing(len(rungs) - 3))
    again = start.certify(checkpoint=tmp_path / "c")
    assert (again.objective, again.lower_bound) == (whole.objective, whole.lower_bound)
    assert again.labels.tolist() == whole.labels.tolist() and again.verify()
    assert known(again) == known(whole)  # nothing of the ladder is lost,
    assert len(again.ladder) <= len(whole.ladder)  # and nothing said twice
    assert (np.diff([rung.seconds for rung in again.ladder]) >= 0).all()


def known(result):
    """What the ladder says, without rungs that say nothing new."""
    said = [(rung.level, rung.lower, rung.upper) for rung in result.ladder]
    return [rung for i, rung in enumerate(said) if rung not in said[:i]]


def test_the_ladder_of_a_checkpoint_is_read_with_care(tmp_path):
    start = mm.evaluate(PROBLEM, np.arange(PROBLEM.n) % 3)
    start.certify(checkpoint=tmp_path / "c", time_limit=0)
    book = climb_book(tmp_path / "c", start)
    for wrong in ([1.0], [1.0, [["sdp", 1.0, 0.0]]], [1.0, [["sdp", 1.0, 0.0, "x"]]], 7, ["x", []]):
        book.file.facts[book.name] = wrong
        book.file.write()
        with pytest.raises(DataError, match="the ladder of its climb cannot be read .* Delete it"):
            start.certify(checkpoint=tmp_path / "c", time_limit=0)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_comparison_goes_on(n_jobs, tmp_path):
    def table(**options):
        return mm.compare(PROBLEM, ["Memetic", "StochasticDescent"], seeds=2, max_iter=5,
                          n_jobs=n_jobs, **options)

    class Watch(comparing.Watch):
        def __init__(self, steps):
            self.kill = killing(steps)

        def stepped(self, problem, solver, seed, row):
            self.kill(row)

    with pytest.raises(Killed):
        table(checkpoint=tmp_path / "c", progress=Watch(8))
    rows = [[(r["solver"], r["seed"], r["objective"], r["lower_bound"]) for r in t.rows]
            for t in (table(checkpoint=tmp_path / "c", progress=Watch(12)), table())]
    assert rows[0] == rows[1]


def test_a_reproduction_keeps_its_cells(tmp_path, monkeypatch):
    from mmcopt.reproduce import protocol

    done = []

    def cell(i):
        if len(done) == 3:
            raise Killed
        done.append(i)
        return np.arange(i), 0.5 * i

    def run():
        file = checkpoints.Checkpoint(tmp_path / "c", "reproduction")
        file.belongs({"paper": "mkc"})
        with protocol.keeping(file):
            return [protocol.kept(f"cell {i}", lambda i=i: cell(i)) for i in range(5)]

    with pytest.raises(Killed):
        run()
    done[:] = [-1]
    found = run()
    assert done == [-1, 3, 4] and [b for _, b in found] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert found[2][0].tolist() == [0, 1]
    with pytest.raises(DataError, match="of another paper: mkc; this call has umc-rls"):
        papers.run("umc-rls", quick=True, checkpoint=tmp_path / "c")


# ---------------------------------------------------------------- files that are refused


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "run.ckpt"
    mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3, checkpoint=path)
    return path


@pytest.mark.parametrize(("call", "words"), [
    (lambda p: mm.solve(PROBLEM.replace(lam=0.2), "Tabu", seed=0, checkpoint=p), "another problem"),
    (lambda p: mm.solve(PROBLEM, Tabu(tenure=3), seed=0, checkpoint=p), "another solver"),
    (lambda p: mm.solve(PROBLEM, "Tabu", seed=1, checkpoint=p), "another seed"),
    (lambda p: mm.solve(PROBLEM, "Tabu", seed=0, init="kmeans", checkpoint=p), "another start"),
    (lambda p: mm.compare(PROBLEM, "Tabu", seeds=1, checkpoint=p), "not of a comparison"),
    (lambda p: mm.certify(PROBLEM.replace(lam=0.2), np.arange(16) % 3, checkpoint=p),
     "another problem")])
def test_the_file_of_something_else_is_refused(written, call, words):
    before = written.read_bytes()
    with pytest.raises(DataError, match=f"run.ckpt is the checkpoint of .*{words}|{words}"):
        call(written)
    assert written.read_bytes() == before


def refused(path):
    with pytest.raises(DataError, match=r"run\.ckpt .*Delete it") as e:
        mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3, checkpoint=path)
    assert "\n" not in str(e.value)


def test_damaged_and_changed_files_are_refused(written, tmp_path):
    whole = written.read_bytes()
    for size in range(0, len(whole), 1024):
        written.write_bytes(whole[:size])
        refused(written)
    written.write_bytes(whole)
    arrays = archives.read_arrays(written)
    for name in ("document", "array0"):
        changed = arrays[name].copy()
        changed.flat[len(changed.flat) // 2] += 1
        archives.write_arrays(written, {**arrays, name: changed})
        refused(written)
    mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3).save(written)  # a result is no checkpoint
    refused(written)


def test_the_file_of_another_version_is_refused(written, monkeypatch):
    monkeypatch.setattr(mm, "__version__", "0.0.1")
    refused(written)


def test_a_place_that_cannot_be_written_is_said_before_the_work(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .*no/run\.ckpt"):
        mm.solve(PROBLEM, "Tabu", checkpoint=tmp_path / "no" / "run.ckpt")


def test_a_failed_writing_leaves_the_old_file(written, monkeypatch):
    before = written.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        archives.write_arrays(written, {"a": np.zeros(3)})
    assert written.read_bytes() == before and os.listdir(written.parent) == [written.name]


def forged(path, change):
    """Change a state, and the hash with it."""
    arrays = archives.read_arrays(path)
    text = arrays["document"].tobytes().decode()
    rehashed(path, {**arrays, "document": np.frombuffer(change(text).encode(), dtype=np.uint8)})


def rehashed(path, arrays):
    """Write arrays with the hash that they have."""
    arrays = {name: a for name, a in arrays.items() if name != "digest"}
    arrays["digest"] = np.frombuffer(archives.digest(arrays).encode(), dtype=np.uint8)
    archives.write_arrays(path, arrays)


def distorted(a):
    """What loops must not be given in place of an array of indices."""
    high, low = a.copy(), a.copy()
    high.flat[-1], low.flat[0] = np.iinfo(a.dtype).max, np.iinfo(a.dtype).min
    yield from (high, low, a.ravel()[:-1].copy(), a.astype(np.float64))


@pytest.mark.parametrize(("f", "solver"), [
    *[(PROBLEM, solver) for solver in (
        "StochasticDescent", "Memetic", "Evolutionary", "Annealing", "Continuation")],
    pytest.param(CPM3C(np.random.default_rng(0).standard_normal((40, 4)), 2, beta=0.1),
                 "MarginTree", marks=pytest.mark.slow)],
    ids=lambda value: value if isinstance(value, str) else "")
def test_indices_out_of_their_range_are_refused(f, solver, tmp_path, monkeypatch):
    monkeypatch.setattr("mmcopt.solvers.margin_tree.CHUNK", 1.0)  # steps of few nodes
    path, options = tmp_path / "c", {"seed": 1, "max_iter": 4}
    whole = mm.solve(f, solver, **options)
    with contextlib.suppress(Killed):  # some end in one step
        mm.solve(f, solver, checkpoint=path, callback=killing(2), **options)
    arrays = archives.read_arrays(path)
    names = [name for name, a in arrays.items() if a.dtype.kind == "i" and a.size]
    assert names
    for name in names:
        for changed in distorted(arrays[name]):
            rehashed(path, {**arrays, name: changed})
            with pytest.warns(MMCWarning, match="cannot be read"):
                same(mm.solve(f, solver, checkpoint=path, **options), whole)


def test_a_best_point_must_be_worth_what_the_file_says(written):
    value = mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3).objective
    forged(written, lambda text: re.sub(r'"value": [\d.]+', f'"value": {value / 2!r}', text))
    with pytest.warns(MMCWarning, match="its best point is worth"):
        again = mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3, checkpoint=written)
    assert again.objective == value


@pytest.mark.parametrize("name", ["subprocess:Popen", "os:_Environ", "mmcopt.saving:save",
                                  "mmcopt.no:Thing", "builtins:eval"])
def test_a_forged_class_is_neither_imported_nor_made(written, name):
    forged(written, lambda text: text.replace("mmcopt.solving.runs:Run", name))
    with pytest.warns(MMCWarning, match="there is no class"):
        again = mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3, checkpoint=written)
    same(again, mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Closures(Solver):
    """A solver whose state cannot be written."""

    needs = (mm.LabelQuadratic,)

    def begin(self, f, init, rng):
        return self.step(f, {"draw": lambda: rng.integers(3, size=16)}, rng)

    def step(self, f, state, rng):
        c = np.r_[0:3, state["draw"]()[3:]]
        return Progress(state, c, f.objective(c))


def test_what_cannot_be_written_is_done_again_and_said(tmp_path):
    with pytest.warns(MMCWarning, match="_Closures holds a builtins.function, which cannot be"):
        again, left = resumed(tmp_path / "c", PROBLEM, _Closures(), 6, seed=0, restarts=2,
                              max_iter=4)
    assert left == 8
    same(again, mm.solve(PROBLEM, _Closures(), seed=0, restarts=2, max_iter=4))


def test_every_solver_is_among_the_pairs():
    assert {s for _, s in determinism.pairs(PAIRS)} == set(registry.solvers()) - {"_Closures"}
