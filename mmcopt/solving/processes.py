"""Processes of our own, each at a pipe of its own: one that is killed takes nobody else with it.

Pools whose workers share queues may stand still for ever when one of them is killed: half an answer
lies in the pipe that all write to, or the lock of a queue is never given back. Here workers share
nothing. A thread stands for each one at work, and looks whether it is alive until it has answered.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

IDLE = 30.0  # seconds after which processes without work end
WATCH = 0.5  # seconds between two looks whether one at work is alive


class WorkerLostError(BrokenExecutor):
    """A worker ended before it had answered; the next task gets another."""


class Processes(Executor):
    """So many worker processes: begun when there is work, they end after a while without any."""

    def __init__(self, count: int) -> None:
        self._max_workers = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="mmcopt-worker")
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self.over = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call a function."""
        return self._threads.submit(self._answer, partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; workers end when there has been none for a while."""
        self.over = True
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def kill(self) -> None:
        """End all workers now, whatever they are doing."""
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for worker in self._workers:
                worker.end()

    def pids(self) -> list[int]:
        """The workers there are, as the system numbers them."""
        return [worker.process.pid for worker in list(self._workers)]

    def _answer(self, call: Callable[[], Any]) -> Any:
        """What a worker makes of a call, or the error that it met."""
        import cloudpickle

        task = cloudpickle.dumps(call, protocol=5)
        worker = self._taken()
        answer = worker.ask(task)
        worker.free = True
        value, error, where = cloudpickle.loads(answer)
        if error is not None:
            raise error from RuntimeError(f"in a worker process:\n{where}")
        return value

    def _taken(self) -> _Worker:
        """A worker that is free, or a new one."""
        with self._lock:
            if self.over:
                raise WorkerLostError("the workers were ended before this task was begun")
            self._workers = [w for w in self._workers if w.process.is_alive()]
            worker = next((w for w in self._workers if w.free), None)
            if worker is None:
                worker = self._begun()
                self._workers.append(worker)
            worker.free = False
            return worker

    def _begun(self) -> _Worker:
        try:
            return _Worker()
        except OSError as e:
            raise WorkerLostError(f"no worker process could be begun: {e}") from e


class _Worker:
    """A process at the other end of a pipe: it ends when nobody holds this any more."""

    def __init__(self) -> None:
        from multiprocessing import Pipe
        from multiprocessing.util import Finalize

        from loky.backend import get_context

        self.free = False
        self.link, theirs = Pipe()
        self.process = get_context("loky").Process(target=_serve, args=(theirs, IDLE))
        self.process.start()
        theirs.close()  # so that the pipe ends with the process
        # When this process ends, it is to wait for no worker: before it does, all are ended.
        self.end = Finalize(self, _end, (self.process,), exitpriority=1)

    def ask(self, task: bytes) -> bytes:
        """Hand a task over, and wait for the answer for as long as the process is alive."""
        try:
            self.link.send_bytes(task)
            while not self.link.poll(WATCH):
                if not self.process.is_alive() and not self.link.poll():
                    raise EOFError
            return self.link.recv_bytes()
        except (EOFError, OSError) as e:
            self.end()  # where it has but closed the pipe
            self.process.join(WATCH)
            raise WorkerLostError("a worker process ended before it had answered (exit code "
                                  f"{self.process.exitcode})") from e


def _end(process: Any) -> None:
    """Kill a worker; it holds nothing that anybody needs, and whoever asked it will notice."""
    if process.is_alive():
        with contextlib.suppress(OSError):  # it has just ended
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


# ---------------------------------------------------------------- in the worker


def _serve(link: Any, idle: float) -> None:
    """Answer one task after another, until none has come for a while or nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever gave the work: it tells us
    if sys.stderr is not None:
        faulthandler.enable()
    with link, contextlib.suppress(EOFError, OSError):
        while link.poll(idle):
            link.send_bytes(_outcome(link.recv_bytes()))


def _outcome(task: bytes) -> bytes:
    """What comes of a task: its value, or its error and where that was met."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps((cloudpickle.loads(task)(), None, ""), protocol=5))
    except BaseException as e:  # whatever a task raises is its answer, and the worker lives on
        where = traceback.format_exc()
        try:
            answer = bytes(cloudpickle.dumps((None, e, where), protocol=5))
            cloudpickle.loads(answer)  # one with arguments of its own may go out and not come back
            return answer
        except Exception:  # whatever keeps the error itself from being sent
            return bytes(cloudpickle.dumps((None, RuntimeError(repr(e)), where), protocol=5))
