"""Rows of the papers' tables side by side, within a time limit, and cut off by Ctrl-C."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mmcopt.errors import ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.registry import solver
from mmcopt.reproduce import cpm3c, evommc, margins, mkc, papers, rivals, rows, sgd_lmsvc, umc_rls
from mmcopt.reproduce.protocol import fresh_runs, kept
from mmcopt.reproduce.tables import CTRL_C, TIME
from mmcopt.solving import out_of_time
from mmcopt.solving.checkpoints import Checkpoint

FEW = rivals.Effort(widths=(0.3,), runs=2, conic=0)
ONE = margins.Cell("Dig 1-7", "digits:1,7", 30, 2, 0.3)
PLANS = {  # two rows each, where the paper has as many that come with the package
    "cpm3c": (cpm3c, cpm3c.Plan(starts=2, baseline=2, betas=(0.02,), sets=("Dig 2-7", "Dig 1-7"),
                                rivals=FEW)),
    "mkc": (mkc, mkc.Plan(starts=1, baseline=2, betas=(0.02,), sets=("digits1v7", "digits2v7"),
                          rivals=FEW)),
    "evommc": (evommc, replace(
        evommc.QUICK, widths=(1,), inverses=(2,), best_of=1, tuning=1, finalists=1, more=0,
        fresh=1, timed=1, patience=0.3, sets=("UCI digits 1-7", "UCI digits 2-7"), rivals=FEW)),
    "umc-rls": (umc_rls, replace(
        umc_rls.QUICK, sigmas=(0.4,), exponents=(-3,), starts=1, finalists=1, more=0, fresh=1,
        baseline=1, sets=("Iris",), margin_sigmas=(0.3,), margin_exponents=(-3,))),
    "sgd-lmsvc": (sgd_lmsvc, replace(
        sgd_lmsvc.QUICK, gammas=(-1,), bounds=(1,), finalists=1, more=1, fresh=1, sets=("Iris",))),
    "margins": (margins, margins.Plan((ONE, replace(ONE, beta=0.1)), 60.0)),
}
TIMES = ("fit, s", "seconds", "time")


def without_times(document):
    """A report without what tells of seconds."""
    if isinstance(document, dict):
        kept_here = {k: v for k, v in document.items() if k not in TIMES}
        if "CPU seconds" in str(document.get("title", "")) + str(document.get("table", "")) \
                or str(document.get("title", "")).startswith("time"):
            return {"title": document["title"], "missing": document["missing"]}
        return {k: without_times(v) for k, v in kept_here.items()}
    return [without_times(v) for v in document] if isinstance(document, list) else document


def made(monkeypatch, paper, **options):
    module, plan = PLANS[paper]
    monkeypatch.setattr(module, "QUICK", plan)
    return papers.run(paper, quick=True, **options)


# ---------------------------------------------------------------- the same, wherever


@pytest.mark.parametrize("paper", PLANS)
def test_threads_make_the_same_table(paper, monkeypatch):
    lines = []
    alone = made(monkeypatch, paper)
    with ThreadPoolExecutor(2) as pool:
        beside = made(monkeypatch, paper, executor=pool, show=lines.append)
    assert json.dumps(without_times(beside.to_dict())) == json.dumps(without_times(alone.to_dict()))
    assert any(t.here for t in alone.tables) and lines and not alone.ended


@pytest.mark.slow
@pytest.mark.parametrize("paper", PLANS)
def test_processes_make_the_same_table(paper, monkeypatch):
    lines = []
    beside = made(monkeypatch, paper, executor="processes", show=lines.append)
    alone = made(monkeypatch, paper)
    assert json.dumps(without_times(beside.to_dict())) == json.dumps(without_times(alone.to_dict()))
    assert lines


def squares(shared, task, say):
    say(f"task {task}")
    return shared + task**2


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_rows_come_in_the_order_of_their_tasks(executor):
    lines = []
    with rows.placed(executor, None) as place:
        found = rows.rows(squares, 100, [3, 1, 2], lines.append)
    assert list(found.items()) == [(3, 109), (1, 101), (2, 104)] and not place.ended
    assert sorted(lines) == ["task 1", "task 2", "task 3"]


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_errors_of_rows_are_raised(executor):
    with rows.placed(executor, None), pytest.raises(TypeError):
        rows.rows(squares, 100, ["a", "b"], print)


def test_threads_keep_their_cells(tmp_path):
    from mmcopt.reproduce import protocol

    done = []

    def cell(shared, task, say):
        return kept(f"cell {task}", lambda: done.append(task) or task)

    for _ in range(2):
        file = Checkpoint(tmp_path / "c", "reproduction")
        with protocol.keeping(file), rows.placed("threads", None):
            assert rows.rows(cell, None, [1, 2, 3], print) == {1: 1, 2: 2, 3: 3}
    assert sorted(done) == [1, 2, 3]


# ---------------------------------------------------------------- cut off


def spinning(shared, task, say):
    """A row of many cells, from which it comes back only when the time is up."""
    for i in range(10**9):
        kept(f"{task} {i}", lambda: None)


def test_no_row_is_begun_when_the_time_is_up(ticking):
    begun = []
    ticking(0.01)
    with rows.placed(None, 0.2) as place:
        found = rows.rows(lambda shared, task, say: begun.append(task) or task, None,
                          list(range(1000)), print)
        assert place.ended == TIME and rows.cut_off() == "the time was up before it was done"
    assert list(found) == begun and 1 < len(begun) < 100


@pytest.mark.parametrize("executor", [None, "threads"])
def test_a_row_that_is_cut_short_is_left_out(executor, ticking):
    def work(shared, task, say):
        return task if task < 2 else spinning(shared, task, say)

    ticking(0.01)
    with rows.placed(executor, 3.0) as place:
        found = rows.rows(work, None, [0, 1, 2, 3], print)
    assert found == {0: 0, 1: 1} and place.ended == TIME


@pytest.mark.slow
def test_another_process_is_cut_short():
    with rows.placed("processes", 0.5) as place:
        found = rows.rows(spinning, None, [0, 1, 2], print)
    assert found == {} and place.ended == TIME


def test_a_solver_within_a_row_is_cut_short(ticking):
    import mmcopt as mm

    f = LeastSquares(mm.datasets.load("iris")[0])

    def work(shared, task, say):
        return fresh_runs(solver("Evolutionary")(stop="paper", patience=1e6), f, [0])

    ticking(0.01)
    with rows.placed(None, 5.0) as place:
        assert rows.rows(work, None, ["row"], print) == {} and place.ended == TIME


@pytest.mark.parametrize("executor", [None, "threads"])
def test_ctrl_c_leaves_the_rows_so_far(executor):
    def work(shared, task, say):
        if task == 2:
            signal.raise_signal(signal.SIGINT)
            while True:
                kept("", out_of_time)
        return task

    with rows.placed(executor and ThreadPoolExecutor(1), None) as place:
        found = rows.rows(work, None, [0, 1, 2, 3], print)
        assert rows.cut_off() == "it was interrupted before it was done"
    assert found == {0: 0, 1: 1} and place.ended == CTRL_C


def test_ctrl_c_within_a_solver_ends_the_table(monkeypatch):
    begin = solver("CuttingPlane").begin

    def interrupting(self, f, init, rng):
        signal.raise_signal(signal.SIGINT)
        return begin(self, f, init, rng)

    def part(plan, task, say):
        if task[0] == "Dig 1-7":
            monkeypatch.setattr(solver("CuttingPlane"), "begin", interrupting)
        return measured(plan, task, say)

    measured = cpm3c._measured
    monkeypatch.setattr(cpm3c, "_measured", part)
    plan = replace(PLANS["cpm3c"][1], sets=("Dig 3-8", "Dig 1-7", "Dig 2-7"))
    monkeypatch.setitem(PLANS, "cpm3c", (cpm3c, plan))
    found = made(monkeypatch, "cpm3c")
    first = found.tables[0]
    assert list(first.here) == ["Dig 3-8"] and found.interrupted
    assert first.missing["Dig 1-7"] == first.missing["Dig 2-7"] == \
        "it was interrupted before it was done"
    text = str(found)
    assert "These are the rows so far: it was interrupted before the last." in text
    assert "Not run, it was interrupted before it was done: Dig 1-7, Dig 2-7." in text
    assert found["ended"] == CTRL_C and not papers.Reproduction("mkc", True, [], [], []).interrupted


@pytest.mark.parametrize("paper", PLANS)
def test_a_table_without_time_says_so(paper, monkeypatch, ticking):
    ticking(0.01)
    found = made(monkeypatch, paper, time_limit=0)
    assert not any(t.here for t in found.tables) and found.ended == TIME
    assert "the time was up before" in str(found) and not found.interrupted
    first = found.tables[0]
    assert set(first.missing) == set(first.paper)
    assert not any("the time was up" in first.missing.get(row, "")
                   for row in ("svmguide1-a", "D31", "RCVI", "Coil 5-8", "Letter A-B"))


@pytest.mark.parametrize("options, words", [
    ({"time_limit": -1}, "run: time_limit must be"), ({"executor": "thread"}, "run: executor must"),
    ({"executor": "processes", "checkpoint": "c"}, "run: a checkpoint is written by the process"),
])
def test_refusals(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=words):
        papers.run("mkc", quick=True, **options)
    assert not any(tmp_path.iterdir())
