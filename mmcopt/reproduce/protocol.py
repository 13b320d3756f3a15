"""What the protocols share: data with classes, fresh runs, and the spread of their figures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt import datasets
from mmcopt.checks import is_sparse
from mmcopt.errors import DataError
from mmcopt.reproduce.sources import absent, untold
from mmcopt.reproduce.tables import Figure
from mmcopt.solving import out_of_time
from mmcopt.solving import run as run_once
from mmcopt.solving.checkpoints import Checkpoint, words

LEFT_OUT = "left out of this form"
_file: ContextVar[Checkpoint | None] = ContextVar("file", default=None)


def load(name: str) -> tuple[Any, NDArray[np.int64]] | str:
    """Return a labelled data set, dense rows as float64, or why it is not there, and who has it."""
    try:
        X, y = datasets.load(name)
    except DataError as e:
        return absent(name) or str(e)
    if y is None:
        return f"{name} has no classes"
    return (X if is_sparse(X) else np.asarray(X, dtype=np.float64)), y


def left_out(row: str, known: Collection[str], wanted: Collection[str]) -> str | None:
    """Why a row of a table is not run, if it is not: no data of ours, or not wanted."""
    if row not in known:
        return untold(row)
    return None if row in wanted else LEFT_OUT


class StoppedError(Exception):
    """The time is up, or Ctrl-C came, in the middle of a row."""


@contextmanager
def using(file: Checkpoint | None) -> Iterator[None]:
    """Let `kept` use a file inside, in this thread."""
    before = _file.set(file)
    try:
        yield
    finally:
        _file.reset(before)


@contextmanager
def keeping(file: Checkpoint | None) -> Iterator[None]:
    """Let `kept` use a file inside, and write it in the end."""
    try:
        with using(file):
            yield
    finally:
        if file is not None:
            file.write()


def keeping_of() -> Checkpoint | None:
    """The file that `kept` uses here."""
    return _file.get()


def kept(key: str, compute: Callable[[], Any]) -> Any:
    """A cell of a table that depends on the key alone: from the checkpoint, where it was done.

    Nothing is begun when the row around it has been stopped, and what it cut short is not used.
    """
    go_on()
    file = _file.get()
    found = compute() if file is None else file.kept(key, compute, lambda _: not out_of_time())
    go_on()
    return found


def go_on() -> None:
    """Raise where the row that is at work has been stopped."""
    if out_of_time():
        raise StoppedError


def fresh_runs(solver: Any, problem: Any, seeds: Sequence[Any],
               seconds: float = np.inf, max_iter: float = np.inf) -> list[Any]:
    """One run of a solver from a random start for each seed, without bounds or certificates."""
    def one(seed: Any) -> Any:
        solver.prepare(problem)
        out = run_once(solver, problem, None, np.random.default_rng(seed),
                       time_limit=seconds, max_iter=max_iter)
        return replace(out, state=None)

    name = "" if _file.get() is None else f"{words(solver)} {problem.fingerprint} {seconds} " \
        f"{max_iter}"
    return [kept(f"{name} {seed}", functools.partial(one, seed)) for seed in seeds]


def spread(values: Sequence[float], *, labels: bool, scale: float = 1.0) -> Figure:
    """Mean and standard deviation of some runs."""
    a = np.asarray(values, dtype=np.float64) * scale
    return Figure(float(a.mean()), float(a.std()), labels=labels)
