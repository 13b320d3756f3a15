"""Ctrl-C at the moments between steps: whatever has been found is handed over."""

import dataclasses
import signal
import subprocess
import sys

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import mmcopt as mm
from mmcopt.errors import by_ctrl_c
from mmcopt.formulations import LeastSquares
from mmcopt.selection import grid, path, paths
from mmcopt.solving import Progress, Solver

X = np.random.default_rng(0).standard_normal((16, 2))
PROBLEM = LeastSquares(X, 3)
START = np.arange(16) % 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stopped(Solver):
    """Is interrupted where it is told to be, in the restart of that number."""

    needs = (mm.LabelQuadratic,)
    at: str
    restart: int = 0
    error: type = KeyboardInterrupt
    seen: list = dataclasses.field(default_factory=list, compare=False)

    def interrupt(self, at):
        if at == self.at and len(self.seen) > self.restart:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as e:
                raise self.error from e

    def begin(self, f, init, rng):
        self.seen.append(1)
        self.interrupt("begin")
        return self.progress(f, rng)

    def progress(self, f, rng):
        c = np.r_[0:3, rng.integers(3, size=13)]
        return Progress(None, c, f.objective(c))

    def step(self, f, state, rng):
        self.interrupt("step")
        return self.progress(f, rng)

    def finish(self, f, state):
        self.interrupt("finish")

    def certificate(self, f, run):
        self.interrupt("certificate")


@pytest.mark.parametrize(("at", "restart", "error"), [
    *[(at, restart, KeyboardInterrupt) for at, restart in (
        ("begin", 2), ("step", 0), ("step", 1), ("finish", 0), ("finish", 1))],
    ("begin", 2, ImportError), ("step", 0, ImportError), ("step", 1, ImportError)])
def test_what_was_found_before_is_returned(at, restart, error):
    solver = _Stopped(at=at, restart=restart, error=error)
    result = mm.solve(PROBLEM, solver, seed=0, restarts=4, max_iter=3)
    assert result.status is mm.Status.INTERRUPTED and result.verify()
    assert len(solver.seen) == restart + 1


def test_in_the_bound_it_leaves_the_labels(monkeypatch):
    monkeypatch.setattr("mmcopt.solving.driver.cheap_bound", lambda *a, **k: signal.raise_signal(
        signal.SIGINT))
    result = mm.solve(PROBLEM, "Tabu", seed=0, max_iter=3)
    assert result.status is mm.Status.INTERRUPTED and result.lower_bound is None
    monkeypatch.undo()
    assert result.verify() and result.certify().lower_bound is not None


def test_before_the_first_point_a_start_is_the_best():
    result = mm.solve(PROBLEM, _Stopped(at="begin"), init=START)
    assert result.labels.tolist() == START.tolist() and result.verify()
    assert result.status is mm.Status.INTERRUPTED
    for error in (KeyboardInterrupt, ImportError):
        with pytest.raises(KeyboardInterrupt):
            mm.solve(PROBLEM, _Stopped(at="begin", error=error))


@pytest.mark.parametrize("calls", [0, 1, 5])
def test_paths_and_grids_end_with_what_they_have(calls, monkeypatch):
    left = [calls]
    evaluate = paths.evaluate

    def once(*arguments, **options):
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr(paths, "evaluate", once)
    found = path(PROBLEM, (0.1, 1.0, 3.0), members=2, seed=0)
    assert len(found) == 3 and all(r.verify() for r in found)
    left[0] = calls
    cells = grid(X, 3, widths=(0.5, 1.0), lams=(0.1, 1.0, 3.0), members=2)
    assert len(cells.widths) == (1 if calls < 3 else 2)
    assert len(cells.results) == 3 * len(cells.widths)


def test_ctrl_c_waits_until_numba_is_done():
    went_on = []
    with pytest.raises(KeyboardInterrupt), global_compiler_lock, global_compiler_lock:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)
    assert went_on and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_command_ends_by_its_code_wherever_a_signal_fell(name, code, tmp_path):
    text = ("import mmcopt.cli.parser as p\n"
            f"p._run = lambda *a: exec('import signal; signal.raise_signal(signal.{name})')\n"
            "raise SystemExit(p.main([]))")
    (tmp_path / "stopped.py").write_text(text)
    # As a module: there Python would end by the signal, and not by the code that it is given.
    ended = subprocess.run([sys.executable, "-m", "stopped"], cwd=tmp_path)
    assert ended.returncode == code


def test_an_import_that_an_interrupt_broke_is_known():
    broken = ImportError("numpy.core.multiarray failed to import")
    assert not by_ctrl_c(broken)
    broken.__context__ = KeyboardInterrupt()
    assert by_ctrl_c(broken)
