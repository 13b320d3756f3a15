"""Compiling is said aloud, timed apart, and paid for by no limit."""

import gc
import sys
import time

import pytest
from numba.core import event

import mmcopt as mm
from mmcopt.compiled import compiling, label_moves
from mmcopt.compiled.compiling import STATE, announced, clock, hush
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import Shaking
from mmcopt.solving import Budget

PROBLEM = LeastSquares([[0.0], [1.0], [5.0], [6.0]])


@pytest.fixture
def state(monkeypatch):
    """A process that has compiled nothing, on a clock that stands still."""
    fresh = compiling.Compiling()
    monkeypatch.setattr(compiling, "STATE", fresh)
    monkeypatch.setattr(time, "perf_counter", lambda: fresh.now)
    fresh.now = 100.0
    return fresh


def compiles(state, seconds, module="mmcopt.compiled.label_moves"):
    state.begin(module)
    state.begin("numba.np.arrayobj")  # compiled for the first one
    state.now += seconds
    state.end()
    state.end()


def test_the_clock_of_limits_stands_still_meanwhile(state):
    late = Budget(deadline=clock() + 2.0)
    compiles(state, 60.0)
    state.now += 1.9
    assert late.spent(0) is None and state.seconds == 60.0
    state.now += 0.2
    assert late.spent(0) is Status.TIME_LIMIT


@pytest.mark.parametrize("terminal", [False, True])
def test_whoever_waits_is_told_once(state, terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with announced(not terminal), announced(not terminal):
        compiles(state, 0.1)
        assert capsys.readouterr().err == ""  # too little to speak of
        compiles(state, 2.0)
        compiles(state, 1.0)
    text = capsys.readouterr().err
    assert "compiling once (about 5 s" in text and text.endswith("\n") and text.count("\n") == 1
    assert text.count("compiling") == (2 if terminal else 1)  # redrawn there
    assert (": 3 s" in text) == terminal


def test_nobody_is_told_where_no_output_is_wanted(state, capsys, monkeypatch):
    with announced(False):
        compiles(state, 9.0)  # standard error is no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    hush()
    with announced(True):
        compiles(state, 9.0)
    assert capsys.readouterr().err == ""
    hush(False)
    compiles(state, 9.0)  # not within a solve
    assert capsys.readouterr().err == ""


def test_garbage_is_collected_again_afterwards(state):
    state.begin("mmcopt.compiled.label_moves")
    assert not gc.isenabled()
    state.end()
    assert gc.isenabled()
    gc.disable()
    compiles(state, 1.0)
    try:
        assert not gc.isenabled()  # as it was
    finally:
        gc.enable()


def test_numba_reports_what_it_compiles_and_timing_names_it_apart():
    class _Compiles(Shaking):
        def prepare(self, f):
            super().prepare(f)
            with event.trigger_event("numba:compile", {"dispatcher": label_moves.move}):
                sum(range(10**6))

    before = STATE.seconds
    result = mm.solve(PROBLEM, _Compiles(), seed=0, max_iter=1)
    assert result.timing["compile"] == pytest.approx(STATE.seconds - before) and \
        result.timing["compile"] > 0.0
    assert "of compiling" not in str(mm.solve(PROBLEM, Shaking(), seed=0, max_iter=1))
    result.timing.update(dict.fromkeys(result.timing, 0.0), steps=0.25, compile=7.0)
    assert str(result).endswith("0.25 s and 7.0 s of compiling, once")
