"""Restarts, comparisons and grids elsewhere: the same bytes, whatever happens to the workers."""

import itertools
import math
import os
import pathlib
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import cloudpickle
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.comparing import Watch
from mmcopt.compiled.compiling import clock
from mmcopt.errors import BackendError, MMCWarning, ParameterError
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Status
from mmcopt.solvers import BranchAndBound, CuttingPlane, Shaking, Tabu
from mmcopt.solving import Budget, executors, ladder, out_of_time
from mmcopt.solving.executors import FileSignal, LostError, Team, team
from mmcopt.solving.runs import seconds_left, under
from mmcopt.solving.shared_work import lending, side_by_side

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

X = np.random.default_rng(0).standard_normal((60, 4)) + 2.0 * (np.arange(60).reshape(-1, 1) % 2)
LABELS = LeastSquares(X, kernel=Gaussian(width=0.5), lam=0.1)
OPTIONS = {"seed": 3, "restarts": 4, "max_iter": 30}


@pytest.fixture(scope="module", params=["threads", "pool of threads", "processes", "executor"])
def executor(request):
    """Every kind of place to work at; our own processes pass for somebody else's, too."""
    if request.param == "pool of threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    else:
        yield executors._pool(2) if request.param == "executor" else request.param


@pytest.fixture(autouse=True)
def _two_workers(monkeypatch):
    monkeypatch.setattr(executors, "cores", lambda: 2)


def columns(result):
    history = result.history.to_dict()
    return {name: values.tobytes() for name, values in history.items() if name != "seconds"}


@pytest.mark.parametrize(("problem", "solver"), [
    (LABELS, Tabu()), (CPM3C(X, 2), CuttingPlane()), (LABELS.replace(X=X[:9]), BranchAndBound())],
    ids=["Tabu", "CuttingPlane", "BranchAndBound"])
def test_same_seed_same_bytes(executor, problem, solver):
    alone = mm.solve(problem, solver, **OPTIONS)
    result = mm.solve(problem, solver, executor=executor, **OPTIONS)
    assert result.point.tobytes() == alone.point.tobytes()
    assert columns(result) == columns(alone)
    assert (result.objective, result.lower_bound, result.status) \
        == (alone.objective, alone.lower_bound, alone.status)
    assert result.verify()


TREE = LeastSquares(X[:24], 2, kernel=Gaussian(width=0.3), lam=2.0**-5, center=False)
IMPATIENT = BranchAndBound(root_rounds=1, node_rounds=1, enumerate=1, gap=0.0)


def proof(result):
    """A tree as bytes, in the order in which it was made."""
    duals = result.certificate.duals
    whole = [duals["parent"], duals["pair"], duals["same"]]
    whole += [part for of in duals["duals"] if of for _, part in sorted(of.items())]
    return b"".join(np.asarray(part).tobytes() for part in whole)


@pytest.fixture(scope="module")
def tree():
    """A tree of one process."""
    return mm.solve(TREE, IMPATIENT, seed=0)


def test_a_tree_is_the_same(executor, tree):
    assert tree.history["nodes"][-1] > 20 and tree.status is Status.CERTIFIED
    other = mm.solve(TREE, IMPATIENT, seed=0, executor=executor, n_jobs=2)
    assert proof(other) == proof(tree) and columns(other) == columns(tree)
    assert other.verify()


def test_certify_grows_the_same_tree_elsewhere(monkeypatch):
    monkeypatch.setattr(ladder, "_levels", lambda f: [
        ladder.Level("branch-and-bound", ladder._branched, True)])
    first = mm.solve(TREE, Tabu(), seed=0, max_iter=2)
    alone, other = first.certify(), first.certify(executor="processes")
    assert proof(other) == proof(alone) and other.lower_bound == alone.lower_bound
    assert len(alone.certificate.duals["parent"]) > 1 and other.verify()


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_ctrl_c_within_a_tree_leaves_what_was_proved(where, tree):
    seen = []

    def interrupt(row):
        seen.append(row)
        if row["nodes"] > 10:
            raise KeyboardInterrupt

    result = mm.solve(TREE, IMPATIENT, seed=0, executor=where, callback=interrupt)
    assert result.status is Status.INTERRUPTED and result.verify()
    assert -math.inf < result.lower_bound < tree.objective and len(seen) < len(tree.history)


def test_a_tree_goes_on_here_when_somebody_elses_workers_are_lost(tree):
    with ThreadPoolExecutor(2) as pool:
        pool.shutdown()
        with pytest.warns(MMCWarning, match="lost its workers .* The rest is done in this process"):
            other = mm.solve(TREE, IMPATIENT, seed=0, executor=pool)
    assert proof(other) == proof(tree)


def test_workers_of_a_tree_hear_of_its_time_limit(tree):
    """None is begun without time, and each knows how much there is when it begins."""
    done, limit = [], Budget(deadline=clock() + 1e6)

    def look(shared, task):
        if task == 3:
            limit.deadline = clock() - 1.0
        return out_of_time(), seconds_left() <= 1e6

    for lent in (True, False):
        done.clear()
        limit.deadline = clock() + 1e6
        with team("threads", 1, 8) as workers, under(limit), \
                lending(workers) if lent else nullcontext():
            side_by_side(look, None, list(range(8)), lambda task, got: done.append((task, *got)))
        assert done == [(0, False, True), (1, False, True), (2, False, True),
                        (3, not lent, True)]
    late = mm.solve(TREE, IMPATIENT, seed=0, executor="threads", time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and late.verify()


def test_a_comparison_is_the_same_but_for_its_seconds(executor):
    args = ([LABELS, CPM3C(X, 2)], ["Tabu", "CuttingPlane"])
    options = {"seeds": 2, "max_iter": 20, "y": np.arange(60) % 2}

    class Steps(Watch):
        heard = 0

        def stepped(self, problem, solver, seed, row):
            self.heard += 1

    watch = Steps()
    alone = mm.compare(*args, **options)
    shared = mm.compare(*args, executor=executor, progress=watch, **options)
    timed = ("prepare", "seconds", "time_to_best")
    assert [{k: v for k, v in row.items() if k not in timed} for row in shared.rows] \
        == [{k: v for k, v in row.items() if k not in timed} for row in alone.rows]
    assert watch.heard == sum(len(r.history) for r in shared.results)
    assert all(r.verify() for r in shared.results)


def test_a_grid_is_the_same(executor):
    options = {"widths": (0.3, 1.0), "lams": (0.1, 1.0), "members": 2}
    alone = mm.selection.grid(X, 2, **options)
    shared = mm.selection.grid(X, 2, executor=executor, **options)
    assert shared.widths == alone.widths and (shared.scores == alone.scores).all()
    for a, b in zip(alone.results, shared.results, strict=True):
        assert (a.labels == b.labels).all() and a.formulation.fingerprint \
            == b.formulation.fingerprint


# ---------------------------------------------------------------- what may happen


def test_rows_of_other_processes_are_heard_and_may_stop_it():
    rows = []
    result = mm.solve(LABELS, Tabu(), executor="processes", callback=lambda row: rows.append(row),
                      **OPTIONS)
    assert len(rows) == len(result.history) and {row["restart"] for row in rows} == {0, 1, 2, 3}
    stopped = mm.solve(LABELS, Tabu(), executor="processes", callback=lambda row: True,
                       seed=3, restarts=50, max_iter=30)
    assert stopped.status is Status.INTERRUPTED or len(set(stopped.history["restart"])) < 50


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_ctrl_c_gives_the_best_so_far(where):
    """The callback is where the signal comes: in this process, once a restart has been handed in.
    """
    def interrupt(row):
        if where == "processes" or row["restart"] == 1:
            raise KeyboardInterrupt

    result = mm.solve(LABELS, Tabu(), executor=where, callback=interrupt, seed=3, restarts=40)
    assert result.status is Status.INTERRUPTED and result.verify()
    assert len(set(result.history["restart"])) < 40


def _dies_once(folder, task):
    """Kill this worker the first time that task 1 is done, or half of its answer is written."""
    from multiprocessing.connection import Connection

    def half(self, content):
        os.write(self._handle, bytes(content)[:len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    mark = pathlib.Path(folder, "died")
    if task == 1 and not mark.exists():
        mark.touch()
        if "half" in folder:
            Connection._send = half
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return 10 * task


def _named(shared, task):
    return f"{shared} {task}"


def _dies(shared, task):
    os.kill(os.getpid(), signal.SIGKILL)


def _fails(shared, task):
    if task == 1:
        raise BackendError("task 1 cannot be done")
    return task


@pytest.mark.parametrize("answered", ["none", "half"])
def test_work_of_a_worker_that_died_is_done_again(tmp_path, answered):
    got, folder = {}, tmp_path / answered
    folder.mkdir()
    with team("processes", 2, 9) as workers:
        assert workers.each(_dies_once, str(folder), range(6), got.__setitem__) is None
    assert (folder / "died").exists()
    assert got == {i: 10 * i for i in range(6)}


def test_a_task_that_kills_every_worker_is_given_up(monkeypatch):
    monkeypatch.setattr(executors, "TRIES", 2)
    with team("processes", 1, 2) as workers, \
            pytest.raises(BackendError, match="for lack of memory .* use fewer of them"):
        workers.each(_dies, None, [0], lambda task, answer: None)


def test_somebody_elses_executor_that_broke_gives_what_was_done():
    """A pool that is shut down takes no more work."""
    pool = ThreadPoolExecutor(1)
    got = []

    def take(task, answer):
        got.append(answer)
        pool.shutdown(wait=False)

    ended = Team(pool, 1, threading.Event(), here=True).each(_fails, None, [0, 2, 3], take)
    assert isinstance(ended, LostError) and got == [0]
    with pytest.raises(LostError, match="has lost its workers .*executor='processes' starts new"):
        mm.solve(LABELS, Tabu(), executor=pool, **OPTIONS)


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_an_error_of_a_task_is_raised_here(where):
    with team(where, 2, 9) as workers, pytest.raises(BackendError, match="task 1 cannot be done"):
        workers.each(_fails, None, range(9), lambda task, answer: None)


@pytest.mark.parametrize("readable", [True, False])
def test_what_is_shared_is_sent_only_to_those_who_cannot_read_it(monkeypatch, readable):
    sent = []
    submit = Team._submit

    def watched(self, work, tried):
        sent.append(tried.whole)
        return submit(self, work, tried)

    monkeypatch.setattr(Team, "_submit", watched)
    if not readable:
        monkeypatch.setattr(FileSignal, "beside", lambda self, name, content: "/nowhere/at/all")
    got = []
    with team("processes", 2, 20) as workers:
        workers.each(_named, "shared", range(20), lambda task, answer: got.append(answer))
    assert sorted(got) == sorted(f"shared {i}" for i in range(20))
    if readable:
        assert sent == [False] * 20
    else:
        assert sent[0] is False and sent.count(True) >= 1 and sent.count(False) == 20


def test_what_does_not_fit_on_the_disk_is_sent(monkeypatch):
    def written_in_part(path, content):
        with open(path, "wb") as file:
            file.write(content[:10])
        raise OSError("no space left")

    monkeypatch.setattr(pathlib.Path, "write_bytes", written_in_part)
    got = []
    with team("processes", 2, 4) as workers:
        workers.each(_named, "shared", range(4), lambda task, answer: got.append(answer))
    assert sorted(got) == [f"shared {i}" for i in range(4)]


def _sleeps(mark, task):
    pathlib.Path(mark).touch()
    time.sleep(600.0)


def test_workers_that_nobody_waits_for_any_more_are_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(executors, "PATIENCE", 0.0)
    mark = tmp_path / "begun"

    def tasks():
        yield 0
        while not mark.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with team("processes", 2, 2) as workers:
        pool = workers.pool
        assert isinstance(workers.each(_sleeps, str(mark), tasks(), None), KeyboardInterrupt)
    assert executors._pool(2) is not pool
    got = []
    with team("processes", 2, 2) as workers:
        workers.each(_named, "next", range(2), lambda task, answer: got.append(answer))
    assert sorted(got) == ["next 0", "next 1"]


def test_a_fork_has_workers_of_its_own(monkeypatch):
    ours = executors._pool(2)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert executors._pool(2) is not ours
    executors._pools.pop((-1, 2)).shutdown()


def test_no_more_is_under_way_than_there_are_workers():
    with ThreadPoolExecutor(2) as pool, team(pool, 9, 20) as workers:
        assert workers.count == 2
    with team("threads", 9, 20) as workers:  # ours are as many as were asked for
        assert workers.count == 9


@pytest.mark.parametrize("kind", ["solve", "grid"])
def test_workers_that_are_lost_leave_what_was_done(kind, monkeypatch):
    each, calls = Team.each, []

    def lost(self, work, shared, tasks, take):
        calls.append(0)
        if kind == "solve" and len(calls) == 2:
            return LostError("the pool has lost its workers.")
        ended = each(self, work, shared, itertools.islice(tasks, 1 if kind == "grid" else None),
                     take)
        return LostError("the pool has lost its workers.") if kind == "grid" else ended

    monkeypatch.setattr(Team, "each", lost)
    with pytest.warns(mm.errors.MMCWarning, match=f"{kind}: the pool has lost its workers. This is "
                      "the best of "):
        if kind == "solve":
            result = mm.solve(LABELS, Tabu(), executor="threads", seed=3, restarts=2,
                              time_limit=1e6)
            assert result.status is Status.INTERRUPTED and result.verify()
        else:
            grid = mm.selection.grid(X, 2, widths=(0.3, 1.0), lams=(0.1,), members=2,
                                     executor="threads")
            assert len(grid.results) == 1


def test_a_signal_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "LOOK", 0.0)
    with FileSignal.made() as here:
        there = FileSignal(here.path)
        assert not here.is_set() and not there.is_set()
        here.set()
        assert there.is_set()
    assert not pathlib.Path(here.path).parent.exists()


def test_restarts_that_ended_elsewhere_are_kept_in_a_checkpoint(tmp_path):
    path = tmp_path / "run.ckpt"
    first = mm.solve(LABELS, Shaking(), seed=3, restarts=2, executor="processes", checkpoint=path)
    again = mm.solve(LABELS, Shaking(), seed=3, restarts=4, executor="processes", checkpoint=path)
    alone = mm.solve(LABELS, Shaking(), seed=3, restarts=4)
    assert again.point.tobytes() == alone.point.tobytes()
    seconds = {name: [row["seconds"] for row in r.history.rows() if row["restart"] < 2]
               for name, r in (("first", first), ("again", again))}
    assert seconds["first"] == seconds["again"]  # taken from the file, not done again


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("call", [
    lambda e: mm.solve(LABELS, executor=e), lambda e: mm.compare(LABELS, "Tabu", seeds=1,
                                                                 executor=e),
    lambda e: mm.selection.grid(X, 2, executor=e)], ids=["solve", "compare", "grid"])
@pytest.mark.parametrize("given", ["gpu", 2, object])
def test_what_is_no_place_to_work_is_refused(call, given):
    with pytest.raises(ParameterError, match="executor must be None, 'threads', 'processes', a "
                       r"concurrent\.futures\.Executor or a dask\.distributed\.Client; got"):
        call(given)


def test_a_comparison_elsewhere_keeps_no_checkpoint(tmp_path):
    with pytest.raises(ParameterError, match="leave it out, or use executor='threads'"):
        mm.compare(LABELS, "Tabu", seeds=1, executor="processes", checkpoint=tmp_path / "c")


def test_what_cannot_be_sent_is_refused_in_a_sentence():
    with pytest.raises(ParameterError, match="cannot be sent to other processes .*'threads'"):
        executors.pickled(threading.Lock())


# ---------------------------------------------------------------- long


def kill_one():
    for pid in executors._pool(2).pids()[:1]:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing():
    options = {"seed": 1, "restarts": 6, "max_iter": 300}
    solver = Tabu(length=1000.0)
    alone = mm.solve(LABELS, solver, **options)
    rng = np.random.default_rng(0)
    for _ in range(20):
        mm.solve(LABELS, Tabu(), seed=0, restarts=2, executor="processes")  # workers are up

        killer = threading.Timer(rng.uniform(0.0, 0.4), kill_one)
        killer.start()
        result = mm.solve(LABELS, solver, executor="processes", **options)
        killer.join()
        assert result.point.tobytes() == alone.point.tobytes()


@pytest.mark.slow
def test_twenty_kills_within_a_tree_change_nothing(tree):
    rng = np.random.default_rng(1)
    for _ in range(20):
        mm.solve(LABELS, Tabu(), seed=0, restarts=2, executor="processes")  # workers are up
        killer = threading.Timer(rng.uniform(0.0, 0.4), kill_one)
        killer.start()
        other = mm.solve(TREE, IMPATIENT, seed=0, executor="processes", n_jobs=2)
        killer.join()
        assert proof(other) == proof(tree)


@pytest.mark.slow
def test_twenty_interrupts_at_random_moments_give_the_best_so_far():
    rng = np.random.default_rng(0)
    for _ in range(20):
        mm.solve(LABELS, Tabu(), seed=0, restarts=2, executor="processes")  # workers are up
        timer = threading.Timer(rng.uniform(0.1, 0.5),
                                lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        result = mm.solve(LABELS, Tabu(), executor="processes", seed=1, restarts=10**6)
        timer.join()
        assert result.status is Status.INTERRUPTED and result.verify()
