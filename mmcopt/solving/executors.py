"""Where independent work is done: threads, processes, or somebody else's executor or cluster.

A `Team` takes tasks that do not know of each other, hands each to a worker as one comes free, and
takes the answers in. It schedules nothing itself: that is for `concurrent.futures` and Dask.
What all tasks share is pickled once; worker processes read it from a file, or are sent it. A task
whose worker died is done again; it must therefore depend on nothing but itself and what is shared.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from mmcopt.errors import BackendError, MMCWarning, ParameterError
from mmcopt.solving.processes import Processes

NAMES = ("threads", "processes")
TRIES = 5  # workers that may die of one task
PATIENCE = 10.0  # seconds that tasks under way have to hand in their best after Ctrl-C
LOOK = 0.1  # seconds between two looks at a stop signal that is not in this process
Work = Callable[[Any, Any], Any]  # of what is shared and of a task


class Signal(Protocol):
    """What a task looks at to see whether it must stop: a `threading.Event`, or like one."""

    def is_set(self) -> bool:
        """Whether it must."""
        ...

    def set(self) -> None:
        """Tell all who look at it."""


class LostError(BackendError):
    """The workers are gone, and what they had not handed in with them."""


def check_executor(owner: str, executor: Any) -> None:
    """Refuse what is no place to work."""
    if executor is None or executor in NAMES if isinstance(executor, str | None) else \
            isinstance(executor, Executor) or _is_client(executor):
        return
    raise ParameterError(f"{owner}: executor must be None, 'threads', 'processes', a "
                         "concurrent.futures.Executor or a dask.distributed.Client; got "
                         f"{executor!r}.")


def check_written_here(owner: str, executor: Any) -> None:
    """Refuse a checkpoint where other processes do the work."""
    if executor is not None and not is_here(executor):
        raise ParameterError(f"{owner}: a checkpoint is written by the process that does the runs; "
                             "leave it out, or use executor='threads'.")


def warn_if_lost(owner: str, ended: BaseException | None, what: str) -> None:
    """Say that workers are gone, where that has ended a call, and what the answer is made of."""
    if isinstance(ended, LostError):
        warnings.warn(f"{owner}: {ended} This is the best of {what} that were done.", MMCWarning,
                      stacklevel=6)


def is_here(executor: Any) -> bool:
    """Whether an executor works in this process."""
    return isinstance(executor, ThreadPoolExecutor) or \
        (isinstance(executor, str) and executor == "threads")


def _is_client(executor: Any) -> bool:
    """Whether it is a client of dask.distributed, without importing that."""
    return any(c.__module__.partition(".")[0] == "distributed" and c.__name__ == "Client"
               for c in type(executor).__mro__)


@contextmanager
def team(executor: Any, count: int | None, most: int) -> Iterator[Team]:
    """The workers of an executor, ``count`` of them or as many as it has, and no more than tasks.

    What was made for it ends with it, but for our own processes, which wait a while for more.
    """
    if isinstance(executor, str) and executor == "threads":
        wanted = _limited(count, cores(), most)
        stop = threading.Event()
        with ThreadPoolExecutor(wanted) as pool:
            yield Team(pool, wanted, stop, here=True)
    elif isinstance(executor, ThreadPoolExecutor):
        own = getattr(executor, "_max_workers", 1)
        yield Team(executor, _limited(count, own, min(own, most)), threading.Event(), here=True)
    elif isinstance(executor, str):
        with FileSignal.made() as stop_file:
            workers = _Processes.of(_limited(count, cores(), most), stop_file)
            try:
                yield workers
            finally:
                workers.let_go()
    elif isinstance(executor, Executor):
        own = getattr(executor, "_max_workers", None) or cores()
        with FileSignal.made() as stop_file:
            yield Team(executor, _limited(count, own, min(own, most)), stop_file)
    else:
        with _Cluster.of(executor, count, most) as cluster:
            yield cluster


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") \
        else os.cpu_count() or 1


def _limited(count: int | None, own: int, most: int) -> int:
    return max(1, min(own if count is None or count < 0 else count, most))


# ---------------------------------------------------------------- in the worker

_MISSING = "what is shared is not here"
_held: dict[str, Any] = {}  # what the tasks of one call share; the last call's only
_holding = threading.Lock()


def _done(key: str, shared: bytes | str, work: Work, task: Any) -> Any:
    """Do a task in a worker process; the answer, pickled, or `_MISSING`.

    ``shared`` is what tasks share, or the file where it lies.
    """
    import cloudpickle

    with _holding:
        if key not in _held:
            try:
                shared = pathlib.Path(shared).read_bytes() if isinstance(shared, str) else shared
            except OSError:  # this is another machine, or there was no room for the file
                return _MISSING
            _held.clear()
            _held[key] = cloudpickle.loads(shared)
        held = _held[key]
    return cloudpickle.dumps(work(held, task))


def _carried(shared: bytes) -> bytes:
    """What tasks share, where it is."""
    return shared


# ---------------------------------------------------------------- signals


@dataclass
class FileSignal:
    """A stop signal for other processes of this machine: a file that is there once it is set."""

    path: str
    looked: float = 0.0
    known: bool = False

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[FileSignal]:
        """A new one, gone in the end."""
        with tempfile.TemporaryDirectory(prefix="mmcopt-", ignore_cleanup_errors=True) as folder:
            yield cls(str(pathlib.Path(folder, "stop")))

    def beside(self, name: str, content: bytes) -> str:
        """The name of another file there, with this in it if there is room."""
        path = pathlib.Path(self.path).with_name(name)
        try:
            path.write_bytes(content)
        except OSError:
            path.unlink(missing_ok=True)  # a part of it is worse than nothing
        return str(path)

    def is_set(self) -> bool:
        """Whether the file is there, as of a moment ago."""
        if not self.known and time.monotonic() - self.looked > LOOK:
            self.known, self.looked = os.path.exists(self.path), time.monotonic()
        return self.known

    def set(self) -> None:
        """Make the file."""
        self.known = True
        with contextlib.suppress(OSError):  # on another machine, or when all is over
            pathlib.Path(self.path).touch()


@dataclass
class ClusterSignal:
    """A stop signal for the workers of a cluster, kept by its scheduler."""

    name: str
    looked: float = 0.0
    known: bool = False

    def is_set(self) -> bool:
        """Whether the scheduler says so, as of a moment ago."""
        if not self.known and time.monotonic() - self.looked > LOOK:
            self.known, self.looked = self._asked(lambda event: event.is_set()), time.monotonic()
        return self.known

    def set(self) -> None:
        """Tell the scheduler."""
        self.known = True
        self._asked(lambda event: event.set())

    def _asked(self, what: Callable[[Any], Any]) -> bool:
        from distributed import Event

        try:
            return bool(what(Event(self.name)))
        except (OSError, RuntimeError, ValueError, CancelledError):
            return False  # no answer: the scheduler is gone, and who needs to know finds out


# ---------------------------------------------------------------- teams


@dataclass
class Team:
    """Workers of a `concurrent.futures.Executor`, ``count`` of them.

    ``here``: they are threads of this process, which share everything anyway. ``stop`` is what
    tasks look at.
    """

    pool: Any
    count: int
    stop: Any
    here: bool = False
    file: str = ""  # where what is shared lies, for those who can read it
    waiting: _Waiting | None = None  # of the last call

    def each(self, work: Work, shared: Any, tasks: Iterable[Any],
             take: Callable[[Any, Any], None]) -> BaseException | None:
        """Do all tasks, drawn as workers come free, and give each with its answer to ``take``.

        After Ctrl-C, and when the workers are lost, no more are drawn; those under way have a
        moment to hand in what they have, and what ended it is returned. Errors of tasks are raised.
        """
        self._share(shared)
        drawn, waiting = iter(tasks), _Waiting()
        self.waiting = waiting
        ended: BaseException | None = None
        while True:
            try:
                self._draw(work, drawn if ended is None else iter(()), waiting)
                if not waiting.futures:
                    break
                if ended is not None and time.monotonic() > waiting.give_up:
                    break
                done = wait(waiting.futures, 0.2, FIRST_COMPLETED).done
                for future in done:
                    self._taken(future, waiting, take)
            except (KeyboardInterrupt, LostError) as e:
                if ended is not None:  # Ctrl-C again: now
                    break
                ended = e
                waiting.close(0.0 if isinstance(e, LostError) else PATIENCE)
                self.stop.set()
            except BaseException:  # to be raised again, once no worker goes on in vain
                self.stop.set()
                waiting.close(PATIENCE)
                wait(waiting.futures, PATIENCE)
                raise
        waiting.close(0.0)
        return ended

    def _draw(self, work: Work, drawn: Iterator[Any], waiting: _Waiting) -> None:
        """Give work to those who have none."""
        while len(waiting.futures) < self.count:
            again = waiting.again.pop() if waiting.again else None
            if again is None:
                task = next(drawn, _MISSING)
                if task is _MISSING:
                    return
                again = _Try(task)
            try:
                waiting.futures[self._submit(work, again)] = again
            except (BrokenExecutor, RuntimeError) as e:  # it broke, or was shut down, meanwhile
                self._mend(e, again, waiting)

    def _taken(self, future: Future[Any], waiting: _Waiting,
               take: Callable[[Any, Any], None]) -> None:
        """Take an answer in, or have the task done again."""
        tried = waiting.futures.pop(future)
        try:
            answer = future.result()
        except (BrokenExecutor, CancelledError) as e:
            self._mend(e, tried, waiting)
            return
        if not self.here:
            if isinstance(answer, str):  # that worker could not read it
                tried.whole = True
                waiting.again.append(tried)
                return
            import cloudpickle

            answer = cloudpickle.loads(answer)
        take(tried.task, answer)

    def _share(self, shared: Any) -> None:
        """Make ready what all tasks share."""
        self.shared, self.key = shared, uuid.uuid4().hex
        if not self.here:
            self.shared = pickled(shared)
        if isinstance(self.stop, FileSignal):
            self.file = self.stop.beside(self.key, self.shared)

    def _submit(self, work: Work, tried: _Try) -> Any:
        """Hand a task to a worker."""
        if self.here:
            return self.pool.submit(work, self.shared, tried.task)
        return self.pool.submit(_done, self.key, self.shared if tried.whole else self.file,
                                work, tried.task)

    def _mend(self, error: BaseException, tried: _Try, waiting: _Waiting) -> None:
        """Get new workers where some are gone, or say that there are none."""
        raise LostError(f"the {type(self.pool).__name__} has lost its workers "
                        f"({_words(error)}); executor='processes' starts new ones.") from error

    def _counted(self, error: BaseException, tried: _Try, waiting: _Waiting) -> None:
        """Have a task done again, unless it has cost too many workers."""
        tried.lost += 1
        if tried.lost >= TRIES:
            raise BackendError(
                f"workers died one after another of the same task, perhaps for lack of "
                f"memory ({_words(error)}); use fewer of them, or a smaller problem.") from error
        tried.whole = False
        waiting.again.append(tried)


@dataclass
class _Try:
    """A task, and what has become of it so far."""

    task: Any
    whole: bool = False  # whether what is shared goes along, not only its file's name
    lost: int = 0  # workers


class _Waiting:
    """What is under way, and what is to be done again."""

    def __init__(self) -> None:
        self.futures: dict[Any, _Try] = {}
        self.again: list[_Try] = []
        self.give_up = 0.0

    def close(self, patience: float) -> None:
        """Begin no more; those at work have some seconds to end."""
        self.again.clear()
        self.give_up = time.monotonic() + patience
        if patience == 0.0:
            for future in self.futures:
                future.cancel()


def pickled(shared: Any) -> bytes:
    """What all tasks share, on its way to other processes; a sentence where it cannot go."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(shared, protocol=5))
    except Exception as e:  # whatever a class of the user's raises when it is pickled
        raise ParameterError("what is solved cannot be sent to other processes "
                             f"({_words(e)}); use executor='threads'.") from e


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


# ---------------------------------------------------------------- our own processes

# By whose they are, which a fork changes, and the number of workers: they wait a while for more.
_pools: dict[tuple[int, int], Processes] = {}


def _pool(count: int) -> Processes:
    """Processes of our own, the last ones where they are still good."""
    return _pools.setdefault((os.getpid(), count), Processes(count))


class _Processes(Team):
    """Processes of our own: where one dies, another is begun."""

    @classmethod
    def of(cls, count: int, stop: FileSignal) -> _Processes:
        """So many of them."""
        return cls(_pool(count), count, stop)

    def let_go(self) -> None:
        """End those that are still at work, for which nobody waits, and the next call would."""
        if self.waiting is not None and not all(f.done() for f in self.waiting.futures):
            if _pools.get((os.getpid(), self.count)) is self.pool:
                del _pools[os.getpid(), self.count]
            self.pool.kill()

    def _mend(self, error: BaseException, tried: _Try, waiting: _Waiting) -> None:
        if self.pool.over:  # another thread, which shared them, has let them go
            self.pool = _pool(self.count)
        self._counted(error, tried, waiting)


# ---------------------------------------------------------------- a cluster


class _Cluster(Team):
    """Workers of a cluster, by the client of dask.distributed."""

    @classmethod
    @contextmanager
    def of(cls, client: Any, count: int | None, most: int) -> Iterator[_Cluster]:
        """Those of a client that is at work."""
        if getattr(client, "asynchronous", False):
            raise ParameterError("executor: the Client must not be asynchronous.")
        try:
            there = sum(client.nthreads().values())
        except Exception as e:  # whatever Dask meets: its errors have no base of their own
            raise LostError(f"the scheduler of {client!r} does not answer ({_words(e)}).") from e
        made = cls(client.get_executor(pure=False), _limited(count, there, min(there, most)),
                   ClusterSignal(f"mmcopt-{uuid.uuid4().hex}"))
        made.client = client
        yield made

    client: Any = None

    def _share(self, shared: Any) -> None:
        super()._share(shared)
        self.blob, self.shared = self.shared, None
        self._lay_out()

    def _lay_out(self) -> None:
        """Lay what is shared out on the cluster, once for all tasks.

        As the result of a task it is made again where the workers that held it died; `scatter`
        would wait for one that dies meanwhile, for ever.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a large graph
                self.shared = self.client.submit(_carried, self.blob, pure=False)
        except Exception as e:  # whatever Dask meets on the way to its scheduler
            raise LostError(f"the cluster took no data ({_words(e)}).") from e

    def _submit(self, work: Work, tried: _Try) -> Any:
        tried.whole = True  # Dask sends it where it is not
        return super()._submit(work, tried)

    def _taken(self, future: Future[Any], waiting: _Waiting,
               take: Callable[[Any, Any], None]) -> None:
        tried = waiting.futures[future]
        error = future.exception() if not future.cancelled() else CancelledError()
        if type(error).__module__.partition(".")[0] == "distributed":
            del waiting.futures[future]
            self._mend(error or CancelledError(), tried, waiting)
            return
        super()._taken(future, waiting, take)

    def _mend(self, error: BaseException, tried: _Try, waiting: _Waiting) -> None:
        if self.client.status != "running":
            raise LostError(f"the scheduler at {getattr(self.client.scheduler, 'address', '?')} "
                            f"is gone ({_words(error)}).") from error
        tried.lost += TRIES * (type(error).__name__ == "KilledWorker")  # Dask has tried already
        self._counted(error, tried, waiting)
        self._lay_out()
