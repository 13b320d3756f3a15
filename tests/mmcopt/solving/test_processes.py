"""Processes of our own: whatever happens to one of them, nobody waits for it."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe

import cloudpickle
import pytest

from mmcopt.solving import processes
from mmcopt.solving.processes import Processes, WorkerLostError

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

HANGS = 120.0  # seconds after which nothing comes any more


@pytest.fixture(name="pool")
def _pool():
    pool = Processes(2)
    yield pool
    pool.kill()


def lost(future):
    """What is said of a worker that did not answer."""
    with pytest.raises(WorkerLostError) as e:
        future.result(HANGS)
    return str(e.value)


def dies_at_a_pipe():
    """Be killed when half of the answer is written."""
    from multiprocessing.connection import Connection

    def half(self, content):
        os.write(self._handle, bytes(content)[:len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = half


def dies_with_a_child(mark):
    """Be killed when a child holds all files that are open, the pipe among them."""
    child = os.fork()
    if child == 0:
        time.sleep(HANGS)
        os._exit(0)
    pathlib.Path(mark).write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("how", "arguments", "code"), [
    (dies_at_a_pipe, (), -9), (os._exit, (3,), 3), (os.abort, (), -6)])
def test_who_dies_at_work_is_heard_of_and_replaced(pool, how, arguments, code):
    assert f"before it had answered (exit code {code})" in lost(pool.submit(how, *arguments))
    assert [pool.submit(abs, -i).result(HANGS) for i in range(4)] == [0, 1, 2, 3]


def test_who_dies_is_heard_of_though_a_child_holds_its_pipe(pool, tmp_path):
    mark = tmp_path / "child"
    try:
        assert "exit code" in lost(pool.submit(dies_with_a_child, str(mark)))
    finally:
        os.kill(int(mark.read_text()), signal.SIGKILL)


def test_who_dies_before_it_has_begun_is_heard_of(pool, monkeypatch):
    begun = processes._Worker

    def killed():
        worker = begun()
        os.kill(worker.process.pid, signal.SIGKILL)
        return worker

    monkeypatch.setattr(processes, "_Worker", killed)
    assert "before it had answered" in lost(pool.submit(abs, -1))


def test_the_others_go_on_when_one_dies(pool, tmp_path):
    def waits(mark):
        while not pathlib.Path(mark).exists():
            time.sleep(0.01)
        return "done"

    mark = tmp_path / "over"
    waiting = pool.submit(waits, str(mark))
    lost(pool.submit(os._exit, 1))
    mark.touch()
    assert waiting.result(HANGS) == "done"


def test_who_ended_without_work_is_replaced(pool):
    first = pool.submit(os.getpid).result(HANGS)
    assert pool.pids() == [first] == [pool.submit(os.getpid).result(HANGS)]
    os.kill(first, signal.SIGKILL)
    pool._workers[0].process.join()
    assert pool.submit(os.getpid).result(HANGS) != first
    assert first not in pool.pids()


def test_a_worker_without_work_leaves():
    ours, theirs = Pipe()
    handler = signal.getsignal(signal.SIGINT)
    try:
        processes._serve(theirs, 0.0)
        ours, theirs = Pipe()
        ours.close()
        processes._serve(theirs, HANGS)  # whoever gave work is gone
    finally:
        signal.signal(signal.SIGINT, handler)


def test_nobody_is_waited_for_once_all_are_ended(pool):
    begun = [pool.submit(time.sleep, 10 * HANGS) for _ in range(3)]
    while len(pool.pids()) < 2:
        time.sleep(0.01)
    pool.kill()
    assert [f.cancelled() or bool(lost(f)) for f in begun] == [True] * 3
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(abs, -1)
    with pytest.raises(WorkerLostError, match="ended before this task was begun"):
        pool._answer(os.getpid)


def test_what_cannot_be_begun_is_lost(pool, monkeypatch):
    def none():
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(processes, "_Worker", none)
    assert "could be begun: Resource temporarily unavailable" in lost(pool.submit(abs, -1))


class UnsendableError(Exception):
    def __init__(self):
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


class UnreadableError(Exception):
    def __init__(self, *, why="it wants two arguments", **named):
        super().__init__(why, "and more")


def fails(how):
    raise how()


def test_errors_come_with_where_they_were_met(pool):
    with pytest.raises(KeyError, match="'a'") as e:
        pool.submit({}.__getitem__, "a").result(HANGS)
    assert "in a worker process:\nTraceback" in str(e.value.__cause__)
    with pytest.raises(RuntimeError, match="UnsendableError.*it holds a lock"):
        pool.submit(fails, UnsendableError).result(HANGS)
    with pytest.raises(RuntimeError, match="UnreadableError.*it wants two arguments"):
        pool.submit(fails, UnreadableError).result(HANGS)
    with pytest.raises(TypeError, match="pickle"):  # nor can this lock go out
        pool.submit(abs, threading.Lock()).result(HANGS)
    with pytest.raises(TypeError, match="pickle"):  # or come back
        pool.submit(threading.Lock).result(HANGS)
    assert pool.submit(abs, -1).result(HANGS) == 1


SCRIPT = """
import os, signal
from mmcopt.solving.processes import Processes
pool = Processes(2)
print(pool.submit(abs, -5).result(), flush=True)
for pid in pool.pids():
    os.kill(pid, {stopped})
{ends}
"""


@pytest.mark.parametrize(("stopped", "ends"), [
    ("signal.SIGSTOP", ""), ("signal.SIGKILL", ""), ("0", "os.kill(os.getpid(), signal.SIGKILL)")])
def test_no_worker_outlives_whoever_gave_it_work(stopped, ends):
    """The pipe of what is printed is at its end when the last of them has closed it."""
    script = SCRIPT.format(stopped=stopped, ends=ends)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        out, _ = process.communicate(timeout=HANGS)
    finally:
        process.kill()
    assert out.strip() == b"5" and process.returncode == (-9 if ends else 0)
