"""Checkpoints: a file from which a killed run goes on to where it would have ended.

The file is written about once a second, whole or not at all. It holds, for each restart of each
solve that was asked to use it, the state of the solver, its generator and the best so far
(`states`), or the restart's end. What cannot be written is done again from its beginning, with the
same seed: the end is the same, and only time is lost. A hash shows damage and careless edits. Who
computes it anew meets checks of labels and indices, and can make a solver err, though no result say
more than `verify` finds; still, a checkpoint deserves the trust that code does.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.compiled import compiling
from mmcopt.datasets.archives import BROKEN, digest, read_arrays, write_arrays
from mmcopt.errors import DataError, MMCError, MMCWarning
from mmcopt.modeling.result import Result, Rung, Status
from mmcopt.solving.runs import Run
from mmcopt.solving.solver import Solver
from mmcopt.solving.states import Arrays, Node, UnwritableError, decode, encode, within
from mmcopt.types import Path

FORMAT = 2
INTERVAL = 1.0  # seconds between two writings at the least,
SHARE = 0.05  # of the time that writing may take
clock: Callable[[], float] = time.monotonic  # which tests replace
AGAIN = "Delete it, or name another file, to begin anew."


@dataclass
class _Kept:
    """What the file says of one restart: a state to go on from, or how it ended."""

    node: Node
    arrays: Arrays
    ended: bool


@dataclass
class _Solve:
    """What the file says of one solve."""

    identity: dict[str, Any]
    seconds: float = 0.0
    parts: dict[str, _Kept] = field(default_factory=dict)  # restarts by their number, or cells


class Checkpoint:
    """The file, and what it holds; several solves may write to it, from several threads.

    ``kind`` says whose it is: a run's (solved, and certified), a comparison's or a reproduction's.
    ``facts`` are what else is kept, as JSON.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.solves: dict[str, _Solve] = {}
        self.facts: dict[str, Any] = {}
        self.lock = threading.RLock()
        self.written, self.cost = clock(), 0.0
        if os.path.exists(self.path):
            try:
                self._read()
            except MMCError:
                raise
            except BROKEN as e:
                raise DataError(f"{self.path} is not a checkpoint that can be read "
                                f"({' '.join(str(e).split()) or type(e).__name__}). {AGAIN}") from e
            return
        try:
            self.write()  # so that a place that cannot be written is refused before the work
        except OSError as e:
            raise DataError(f"cannot write {self.path}: {e.strerror or e}.") from e

    # ------------------------------------------------------------ the file

    def tick(self) -> None:
        """Write, unless that was done a moment ago."""
        with self.lock:
            if clock() - self.written >= max(INTERVAL, self.cost / SHARE):
                self.write()

    def write(self) -> None:
        """Write everything, beside the old file, and take its place."""
        with self.lock:
            started = time.perf_counter()
            document, arrays = self._described()
            text = json.dumps(document).encode()
            arrays["document"] = np.frombuffer(text, dtype=np.uint8)
            arrays["digest"] = np.frombuffer(digest(arrays).encode(), dtype=np.uint8)
            write_arrays(self.path, arrays, compressed=False)
            self.cost, self.written = time.perf_counter() - started, clock()

    def _described(self) -> tuple[dict[str, Any], Arrays]:
        arrays: Arrays = {}
        solves = {}
        for key, solve in self.solves.items():
            parts = {}
            for part, kept in solve.parts.items():
                names = {name: f"array{len(arrays) + i}" for i, name in enumerate(kept.arrays)}
                arrays |= {names[name]: a for name, a in kept.arrays.items()}
                parts[part] = [kept.ended, kept.node, names]
            solves[key] = [solve.identity, solve.seconds, parts]
        return {"mmcopt checkpoint": FORMAT, "version": _version(), "kind": self.kind,
                "facts": self.facts, "solves": solves}, arrays

    def _read(self) -> None:
        arrays = read_arrays(self.path)
        if not {"document", "digest"} <= arrays.keys():
            raise DataError(f"{self.path} is not a checkpoint. {AGAIN}")
        said = arrays.pop("digest").tobytes().decode()
        found = digest(arrays)
        document = json.loads(arrays.pop("document").tobytes())
        if document["mmcopt checkpoint"] != FORMAT or document["version"] != _version():
            raise DataError(f"{self.path} was written by mmcopt {document['version']}, and this is "
                            f"{_version()}, which may take other steps. {AGAIN}")
        if said != found:
            raise DataError(f"{self.path} has been changed or damaged since it was written. "
                            f"{AGAIN}")
        if document["kind"] != self.kind:
            raise DataError(f"{self.path} is the checkpoint of a {document['kind']}, not of a "
                            f"{self.kind}. {AGAIN}")
        self.facts = dict(document["facts"])
        for key, (identity, seconds, parts) in document["solves"].items():
            kept = {part: _Kept(node, {n: arrays[a] for n, a in names.items()}, bool(ended))
                    for part, (ended, node, names) in parts.items()}
            self.solves[key] = _Solve(dict(identity), float(seconds), kept)

    # ------------------------------------------------------------ what it is of

    def belongs(self, facts: dict[str, Any]) -> None:
        """Refuse a file of something else; a new one is of this from now on."""
        known = self.facts.setdefault("of", facts)
        _same(self.path, known, facts)

    def kept(self, key: str, compute: Callable[[], Any],
             whole: Callable[[Any], bool] = lambda value: True) -> Any:
        """A value that depends on nothing but the key: the one in the file, or a new one.

        A new one is kept if it is ``whole``.
        """
        cells = self.solves.setdefault("cells", _Solve({})).parts
        if key in cells:
            try:
                return decode(cells[key].node, {}, cells[key].arrays)
            except BROKEN as e:
                raise DataError(f"{self.path}: {key} cannot be read ({type(e).__name__}: {e}). "
                                f"{AGAIN}") from e
        value, arrays = compute(), {}  # type: ignore[var-annotated]
        if not whole(value):
            return value
        with self.lock:
            cells[key] = _Kept(encode(value, {}, arrays), arrays, True)
        self.tick()
        return value


@dataclass(frozen=True)
class Place:
    """Where in a file a solve keeps what it reaches.

    ``alone`` is one that a user asked for: its time counts on, and its end is written at once.
    """

    file: Checkpoint
    key: str
    alone: bool = False


def section_of(place: Path | Place | None, problem: Any, solver: Solver, init: Any,
               root: np.random.SeedSequence | None) -> Section | None:
    """What a file holds of a solve, which must be this one; without a root its own is taken."""
    if place is None:
        return None
    if not isinstance(place, Place):
        place = Place(Checkpoint(place, "run"), "solve", alone=True)
        place.file.belongs({"problem": problem.fingerprint})
    file, known = place.file, place.file.solves.get(place.key)
    seed = [_entropy(root), list(root.spawn_key)] if root is not None else \
        known.identity["seed"] if known is not None else [_entropy(np.random.SeedSequence()), []]
    identity = {"problem": problem.fingerprint, "solver": words(solver), "start": fingerprint(init),
                "seed": seed}
    with file.lock:
        stored = file.solves.setdefault(place.key, _Solve(identity))
    _same(file.path, stored.identity, identity)
    return Section(file, stored, problem, solver, place.alone)


@dataclass
class Section:
    """What a checkpoint holds of one solve, and where its restarts put what they reach."""

    file: Checkpoint
    stored: _Solve
    problem: Any
    solver: Solver
    alone: bool
    began: float = 0.0
    before: float = 0.0  # seconds of earlier calls that count
    silent: bool = False

    def __post_init__(self) -> None:
        self.began, self.before = compiling.clock(), self.stored.seconds * self.alone
        entropy, key = self.stored.identity["seed"]
        self.root = np.random.SeedSequence(entropy, spawn_key=tuple(key))

    def restart(self, index: int) -> Keeper:
        """The place of a restart."""
        return Keeper(self, index, self.stored.parts.get(str(index)))

    def roots(self) -> dict[str, Any]:
        """What states refer to instead of holding it."""
        return roots_of(self.problem, self.solver)

    def clocked(self) -> None:
        """Take down the time."""
        self.stored.seconds = self.before + compiling.clock() - self.began

    def close(self) -> None:
        """Take down that all restarts have come to their end, or to a limit."""
        self.clocked()
        if self.alone and self.file.kind == "run":
            self.file.write()
        else:
            self.file.tick()

    def warn(self, what: str) -> None:
        """Say, once, that less is kept than one might think."""
        if not self.silent:
            self.silent = True
            warnings.warn(f"checkpoint: {what}, so a killed restart begins anew; those that have "
                          "ended are kept.", MMCWarning, stacklevel=3)


@dataclass
class ClimbBook:
    """What a checkpoint holds of a climb: its ladder, and its solves under names of their own."""

    file: Checkpoint
    name: str

    def known(self) -> tuple[float, list[Rung]]:
        """Time that earlier calls have spent, and their ladder."""
        try:
            seconds, rungs = self.file.facts.get(self.name, (0.0, []))
            return float(seconds), [Rung(str(level), *map(float, rest)) for level, *rest in rungs]
        except BROKEN as e:
            raise DataError(f"{self.file.path}: the ladder of its climb cannot be read "
                            f"({type(e).__name__}: {e}). {AGAIN}") from e

    def place(self, key: str) -> Place:
        """Where a solve of the climb keeps what it reaches."""
        return Place(self.file, f"{self.name}: {key}")

    def keep(self, seconds: float, rungs: list[Rung]) -> None:
        """Take down the time, and what is known by now."""
        ladder = [[r.level, r.seconds, r.lower, r.upper] for r in rungs]
        self.file.facts[self.name] = [seconds, ladder]


def climb_book(given: Path | ClimbBook, result: Result) -> ClimbBook:
    """The book of a climb from a result, in a file that is of its problem."""
    if isinstance(given, ClimbBook):
        return given
    file = Checkpoint(given, "run")
    file.belongs({"problem": result.formulation.fingerprint})
    return ClimbBook(file, f"climb from {fingerprint(result)[:16]}")


class Keeper:
    """Keeps one restart of a solve."""

    def __init__(self, section: Section, index: int, kept: _Kept | None) -> None:
        self.section, self.index = section, index
        self.rows: list[dict[str, float]] = []
        self.ended: Run | None = None
        self.start: dict[str, Any] | None = None
        self.kept_at, self.cost = clock(), 0.0
        self.able = True
        if kept is not None:
            self._resume(kept)

    def _resume(self, kept: _Kept) -> None:
        try:
            found = decode(kept.node, self.section.roots(), kept.arrays)
            run, rows = found["run"], _rows(found["rows"])
            self._recognise(run)
        except BROKEN as e:
            self.section.warn(f"a state of {type(self.section.solver).__name__} cannot be read "
                              f"({type(e).__name__}: {e})")
            return
        self.rows = rows
        if kept.ended:
            run.rows = self.rows
            self.ended = run
        else:
            self.start = found

    def _recognise(self, run: Run) -> None:
        """Refuse a best point that the problem values otherwise than the file does."""
        problem, lq = self.section.problem, self.section.problem.offer(LabelProblem)
        if lq is not None:
            within("the best labels", run.point, (problem.n,), 0, problem.n_clusters)
        value = problem.objective(run.point)
        if not abs(value - run.value) <= self.section.solver.agreement(problem, value, run.point):
            raise ValueError(f"its best point is worth {value!r} and not {run.value!r}")

    def keep(self, best: Run, state: Any, rng: np.random.Generator, *, now: bool = False) -> None:
        """Take down where a restart is, unless that was done a moment ago."""
        if not self.able or not (now or clock() - self.kept_at >= max(INTERVAL, self.cost / SHARE)):
            return
        self._put({"run": best, "state": state, "rng": rng}, ended=False)
        self.section.file.tick()

    def end(self, run: Run) -> None:
        """Take down how a restart ended; one that a limit has stopped may go on another time."""
        if run.status is not Status.CONVERGED:
            return
        state = run.state
        run.state = state if proves_by_state(self.section.solver) else None
        try:
            self._put({"run": run}, ended=True)
        finally:
            run.state = state
        self.section.file.tick()

    def _put(self, content: dict[str, Any], *, ended: bool) -> None:
        started, arrays = time.perf_counter(), {}  # type: ignore[var-annotated]
        section = self.section
        try:
            node = encode({**content, "rows": _columns(self.rows)}, section.roots(), arrays)
        except (UnwritableError, RecursionError) as e:
            self.able = False
            section.warn(f"{type(section.solver).__name__} holds {e}, which cannot be written")
            return
        with section.file.lock:
            section.stored.parts[str(self.index)] = _Kept(node, arrays, ended)
            section.clocked()
        self.cost, self.kept_at = time.perf_counter() - started, clock()


# ---------------------------------------------------------------- small parts


def roots_of(problem: Any, solver: Solver) -> dict[str, Any]:
    """What the states of a solver on a problem refer to instead of holding it."""
    offers = {kind.__name__: problem.offer(kind)
              for kind in (*solver.needs, LabelQuadratic, LabelProblem)}
    return {"problem": problem, "solver": solver, **offers}


def proves_by_state(solver: Solver) -> bool:
    """Whether the state that a run ends in is still needed, for the solver's certificate."""
    return type(solver).certificate is not Solver.certificate


def _version() -> str:
    from mmcopt import __version__

    return __version__


def words(solver: Solver) -> str:
    """A solver with all its hyper-parameters."""
    parts = ", ".join(f"{f.name}={getattr(solver, f.name)!r}" for f in fields(solver))
    return f"{type(solver).__name__}({parts})"


def _entropy(root: np.random.SeedSequence) -> Any:
    e = root.entropy
    return e if isinstance(e, int) or e is None else [int(v) for v in np.ravel(np.asarray(e))]


def fingerprint(init: Any) -> str:
    """A start in a word: its name, or a hash of its numbers."""
    if init is None or isinstance(init, str):
        return init or "random"
    arrays: Arrays = {}
    if isinstance(init, Result):
        init = init.point
    try:
        node = encode(init, {}, arrays)
    except UnwritableError:
        node = repr(init)
    return hashlib.sha256((json.dumps(node) + digest(arrays)).encode()).hexdigest()


def _same(path: str, known: dict[str, Any], given: dict[str, Any]) -> None:
    for name, value in given.items():
        if known.get(name) != value:
            before, now = (str(v)[:80] for v in (known.get(name), value))
            raise DataError(f"{path} is the checkpoint of another {name}: {before}; this call has "
                            f"{now}. {AGAIN}")


def _columns(rows: list[dict[str, float]]) -> Any:
    """Rows of the same names as arrays, each column one."""
    names = list(rows[0]) if rows else []
    if any(list(row) != names for row in rows):
        return rows
    return {name: np.array([row[name] for row in rows], dtype=object if any(
        type(row[name]) is not float for row in rows) else np.float64) for name in names}


def _rows(columns: Any) -> list[dict[str, float]]:
    if isinstance(columns, list):
        return columns
    lists = [c.tolist() for c in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
