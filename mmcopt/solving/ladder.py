"""The ladder of certificates: cheap bounds first, then semidefinite ones, then branch and bound.

Each level hands its labels on, records what is known by then, and stops when the gap is closed or
the time is up. Everything is proved from dual points, so no level trusts the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.bounds import enumeration
from mmcopt.bounds.certificates import bound_seconds, capped, certified, cheap_bound, evaluate
from mmcopt.capabilities import KernelMargin, LabelProblem, LabelQuadratic, LabelRatio, LiftedMargin
from mmcopt.capabilities.matrices import Sparse
from mmcopt.checks import flag, known_keywords, optional, real
from mmcopt.compiled.compiling import clock
from mmcopt.errors import BackendError, ResourceError
from mmcopt.linalg import same_threads
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import (
    ADOPTED,
    KEPT,
    ClimbEnd,
    Result,
    Rung,
    Status,
    closes,
    least_shown,
)
from mmcopt.solving.checkpoints import ClimbBook, Place, climb_book
from mmcopt.solving.driver import solve
from mmcopt.solving.executors import check_executor
from mmcopt.solving.pairing import resolve_solver
from mmcopt.solving.solver import Proved
from mmcopt.tolerances import CERTIFIED_GAP, FEASIBLE, SAME
from mmcopt.types import Labels, Path

Watch = Callable[[Rung], Any]
MAX_LABELINGS = 1_000_000  # labelings up to which all of them are tried
INTERIOR = 300  # samples up to which the interior point is used, beyond which the mixing method is
ROUGH = 0.01  # tolerance of the mixing method: what it leaves open is for the cuts that follow
FIRST = 0.2  # share of the time that is left which it may take
JOINT = 300  # samples up to which triangles on the labels of a hinge problem are worth their time
KERNELS = 1500  # samples up to which a dense system for each of several kernels is factorised
BRANCHING = 600  # samples up to which a tree bounds its own root, where clusters are many
CLOSING = 6e-10  # seconds for proving and rounding what a relaxation has come to, times n^3
SPLIT = 4000  # nodes up to which a dense relaxation of k-means, or of a graph, fits into memory
SEEDED = 12  # steps of the default search that begins at rounded labels,
WHOLE = 1_000_000  # and of one whole run of it: a limit of steps keeps it from beginning again
FACTORED = 100  # samples from which X is held as a factor
# Of RegularizedDual where cuts are many: the bound rises from the start.
ANCHORED: dict[str, Any] = {"anchored": True, "start": 0.01, "evaluations": 30,
                            "cuts_per_node": 8.0, "patience": 12}
LARGE: dict[str, Any] = {"odd_per_node": 9.0, "patience": 60}  # of FactorDual


@dataclass
class _Climb:
    """The best result so far, better labels than those asked about, and the clock."""

    result: Result
    labels: Any
    value: float
    deadline: float
    watch: Watch | None
    book: ClimbBook | None
    began: float
    rungs: list[Rung] = field(default_factory=list)  # those of earlier calls come first
    stopped: bool = False
    cut_short: bool = False  # whether a solve on the way had too little time
    closing: float = 0.0  # seconds that the end of a level takes after its last step
    executor: Any = None  # where nodes of a tree are worked on

    def __post_init__(self) -> None:
        self.again = {rung.level for rung in self.rungs}
        self.vanishing = self.result.formulation.vanishing

    def remaining(self, share: float = 1.0) -> float | None:
        """Seconds that are left for steps, or a share of them; None without a limit."""
        if self.deadline == math.inf:
            return None
        return share * max(0.0, self.deadline - self.closing - clock())

    def ended(self, status: Status) -> None:
        """Note how a solve on the way has ended."""
        self.stopped |= status is Status.INTERRUPTED
        self.cut_short |= status is Status.TIME_LIMIT

    @property
    def target(self) -> float | None:
        """A bound at which the gap is closed."""
        target = self.value - 0.5 * CERTIFIED_GAP * abs(self.value)
        return target if math.isfinite(target) else None

    @property
    def closed(self) -> bool:
        """Whether the labels are proved optimal; those that break a constraint have no gap."""
        lower = -math.inf if self.result.lower_bound is None else self.result.lower_bound
        return closes(lower, self.value, self.vanishing)

    @property
    def over(self) -> bool:
        """Whether the gap is closed, or the time is up."""
        return self.closed or self.stopped or self.remaining() == 0.0

    def record(self, level: str, lower: float | None = None) -> None:
        """Note what is known now, and tell whoever watches."""
        known = -math.inf if self.result.lower_bound is None else self.result.lower_bound
        if lower is not None:
            known = max(known, self._safe(lower))
        value = self.value
        if self.rungs:  # what was known stays known
            known, value = max(known, self.rungs[-1].lower), min(value, self.rungs[-1].upper)
        rung = Rung(level, clock() - self.began, known, value)
        if level in self.again and (known, value) == (self.rungs[-1].lower, self.rungs[-1].upper):
            return  # an earlier call came as far
        self.rungs.append(rung)
        if self.book is not None:
            self.book.keep(rung.seconds, self.rungs)
        if self.watch is not None:
            self.watch(rung)

    def _safe(self, lower: float) -> float:
        """What a running solver's bound will prove at least: a hair less than it says.

        Its certificate is evaluated when it ends, with all rounding taken off.
        """
        lq = self.result.formulation.offer(LabelProblem)  # whose bounds carry its rounding
        lower = lower if lq is None else lq.safe(lower)
        return lower - SAME * abs(lower) if lower > -math.inf else lower

    def place(self, key: str) -> Place | None:
        """Where a solve of a level keeps what it reaches."""
        return None if self.book is None else self.book.place(key)

    def found(self, point: Any) -> None:
        """Keep a point that is feasible and better; of label problems, labels."""
        f = self.result.formulation
        value = f.objective(point)
        if f.violation(point) <= FEASIBLE and value < self.value - 1e-12 * abs(value):
            self.labels, self.value = point, value


@dataclass(frozen=True)
class Level:
    """One step of the ladder: the kind of its certificates, and how it is taken."""

    kind: str
    take: Callable[[_Climb], None]
    goes_on: bool = False  # whether it begins at what a certificate of its kind proves


def tighten(result: Result, *, time_limit: float | None = None, improve: bool = True,
            progress: Watch | bool | None = None, executor: Any = None,
            checkpoint: Path | ClimbBook | None = None) -> Result:
    """Raise the bound of a result as far as ``time_limit`` seconds allow.

    The levels are: the eigenvalue bound; all labelings, where they are few; the semidefinite
    relaxation (max-cut for two clusters, by `InteriorPoint`, or roughly by `LowRank` for many
    samples; partition for more); the same with cuts, by `FactorDual` at once beyond 100 samples;
    and branch and bound, which goes on from them.
    A limit leaves time to prove what was reached. For k-means and its kin it is
    the Peng-Wei relaxation with cuts, after the cheap ones, and branch and bound. For hinge
    problems the levels are the lifted margin and, for two clusters, a tree over their labels, or
    with an active balance and few samples labels lifted beside it and triangles; with several
    kernels, the lifted margin of all of them, and for two clusters a tree. Without a limit it goes
    on until the gap is 1e-4. Better labels found on the way become ``incumbent``; with ``improve``
    they are adopted, and the message says so. ``progress`` shows a line a level, or is called with
    each `Rung`. Ctrl-C ends the climb with the best so far. ``executor`` is where nodes of branch
    and bound are worked on, as in `mmcopt.solve`; every other level is one piece of work, done
    here. ``checkpoint`` names a file to which the climb is written about once a second (it may be
    that of `mmcopt.solve`): the same call goes on where a killed one was, and time counts on.
    """
    optional(real(0)).check("certify", "time_limit", time_limit)
    flag().check("certify", "improve", improve)
    check_executor("certify", executor)
    with same_threads(getattr(result.formulation, "n", 0)):
        book = None if checkpoint is None else climb_book(checkpoint, result)
        return _climbed(cheap_bound(result), time_limit, improve, progress, book, executor)


def _climbed(result: Result, time_limit: float | None, improve: bool,
             progress: Watch | bool | None, book: ClimbBook | None, executor: Any) -> Result:
    """Go up level by level, until the gap is closed or the time is up."""
    f = result.formulation
    levels = _levels(f)
    if levels is None:
        return result
    value = result.objective if result.feasible else math.inf
    spent, rungs = (0.0, []) if book is None else book.known()
    began = clock() - spent
    deadline = math.inf if time_limit is None else began + time_limit
    watch = _print if progress is True else progress or None
    climb = _Climb(result, result.point, value, deadline, watch, book, began, rungs,
                   closing=_closing(f), executor=executor)
    climb.record("cheap" if result.certificate is None else result.certificate.kind)
    broken = ""
    try:
        for level in _left(levels, result):
            if climb.over:
                break
            level.take(climb)
    except KeyboardInterrupt:
        climb.stopped = True
    except (ResourceError, BackendError, ValueError, np.linalg.LinAlgError) as e:
        # What is proved by then stays.
        broken = str(e)
    return _finished(climb, improve, broken)


@known_keywords
def certify(problem: Formulation, labels: Labels, *, time_limit: float | None = None,
            improve: bool = False, progress: Any = None, executor: Any = None,
            checkpoint: Path | None = None) -> Result:
    """Evaluate somebody's labels and bound how far from optimal they are.

    See `tighten` for how, and for ``progress``, ``executor`` and ``checkpoint``.
    """
    return tighten(evaluate(problem, labels), time_limit=time_limit, improve=improve,
                   progress=progress, executor=executor, checkpoint=checkpoint)


def _levels(f: Any) -> list[Level] | None:
    """The levels that fit a problem, in order; None where nothing is known to climb."""
    ratio, lq = f.offer(LabelRatio), f.offer(LabelQuadratic)
    if ratio is not None:
        return _levels_of_ratio(ratio)
    if lq is None:
        if f.offer(KernelMargin) is not None and f.n <= KERNELS:
            return [_by_default("mkc"), *([TREE] if _tree_of(f) is not None else [])]
        if f.offer(LiftedMargin) is None:
            return None
        if _tree_of(f) is not None:
            return [_by_default("lifted"), TREE]
        dear = f.n <= JOINT and "joint" in f.relaxations().kinds
        return [_by_default(kind) for kind in (["lifted", "joint"] if dear else ["lifted"])]
    if lq.k < 2:
        return []
    if enumeration.count_labelings(lq) <= MAX_LABELINGS:
        return [Level("enumeration", _enumerated)]
    if isinstance(lq.matrix, Sparse) and lq.n > SPLIT:
        return []  # relaxations are dense
    tree = Level("branch-and-bound", _branched, True)
    kind = "sdp+cuts" if lq.k == 2 else "partition+cuts"
    if lq.n > FACTORED:
        return [_dual(kind, "FactorDual", LARGE), tree]
    return [Level("sdp", _first), _dual(kind, "RegularizedDual", ANCHORED), tree] if lq.k == 2 \
        else [tree]


def _levels_of_ratio(ratio: LabelRatio) -> list[Level]:
    """Of k-means and its kin."""
    if ratio.k < 2:
        return []
    if enumeration.count_labelings(ratio) <= MAX_LABELINGS:
        return [Level("enumeration", _enumerated)]
    if ratio.n <= BRANCHING:
        return [Level("branch-and-bound", _branched, True)]
    return [Level("peng-wei+cuts", _split, True)] if ratio.n <= SPLIT else []


def _closing(f: Any) -> float:
    """Seconds that the end of a level takes: it computes all eigenvalues of a matrix or two."""
    lq = f.offer(LabelQuadratic) if f.offer(LabelRatio) is None else None
    return 0.0 if lq is None else float(CLOSING * lq.n**3)


def _left(levels: list[Level], result: Result) -> list[Level]:
    """The levels from that of the certificate on, which proves more than those before it could.

    A level that cannot go on from it is left out where another follows, which is tighter.
    """
    kind = "" if result.certificate is None else result.certificate.kind
    at = next((i for i, level in enumerate(levels) if level.kind == kind), 0)
    done = at + 1 < len(levels) and levels[at].kind == kind and not levels[at].goes_on
    return levels[at + done:]


def _enumerated(climb: _Climb) -> None:
    f = climb.result.formulation
    lq = f.offer(LabelProblem)
    value, nodes = enumeration.minimum(lq, climb.deadline)
    if nodes is not None and value < climb.value - enumeration.rounding(lq):
        climb.found(lq.expand(nodes))
    if value != -math.inf:
        climb.result = certified(climb.result, "enumeration", {})
        climb.record("enumeration")
    elif nodes is not None:
        climb.found(lq.expand(nodes))


def _first(climb: _Climb) -> None:
    """The max-cut relaxation; nothing where its rows are more than a balance."""
    relaxed = climb.result.formulation.relax("sdp")
    solver = registry.solver("LowRank")(tol=ROUGH)
    if relaxed.n <= INTERIOR or solver.refuses(relaxed) is not None:
        solver = registry.solver("InteriorPoint")()
    if solver.refuses(relaxed) is None:
        _relaxed(climb, relaxed, solver, share=FIRST)


def _dual(kind: str, name: str, options: dict[str, Any]) -> Level:
    """A relaxation with many rows or cuts by a solver of its dual, until all is proved."""
    def take(climb: _Climb) -> None:
        solver = registry.solver(name)(target=climb.target, **options)
        _relaxed(climb, climb.result.formulation.relax(kind), solver)

    return Level(kind, take, True)


def _split(climb: _Climb) -> None:
    """The relaxation of k-means with cuts, until it has proved what is known to be reached."""
    relaxed = climb.result.formulation.relax("peng-wei+cuts")
    _relaxed(climb, relaxed, registry.solver("Splitting")(target=climb.target))


def _by_default(kind: str) -> Level:
    """The relaxation of that kind, by its default solver: a level of hinge problems."""
    def take(climb: _Climb) -> None:
        relaxed = climb.result.formulation.relax(kind)
        _relaxed(climb, relaxed, resolve_solver(None, relaxed), WHOLE)

    return Level(kind, take)


def _relaxed(climb: _Climb, relaxed: Any, solver: Any, steps: int = SEEDED,
             share: float = 1.0) -> None:
    """Solve a relaxation in a share of the time, and search from the labels that it gives."""
    def watch(row: dict[str, float]) -> None:
        climb.record(relaxed.kind, row["dual"])

    known = climb.result.certificate
    start = None if known is None or known.kind != relaxed.kind or not solver.goes_on(known.kind) \
        else Proved(None, known.duals)
    limit = climb.remaining(share)
    if limit is not None:  # `solve` itself keeps a part of what is kept here for the end
        limit += min(climb.closing, bound_seconds(relaxed))
    out = solve(relaxed, solver, init=start, time_limit=limit, seed=0, callback=watch,
                checkpoint=climb.place(relaxed.kind))
    if share == 1.0 or out.status is Status.INTERRUPTED:
        climb.ended(out.status)
    if out.certificate is not None:
        climb.result = certified(climb.result, relaxed.kind, out.certificate.duals)
    f = climb.result.formulation
    climb.found(f.from_labels(out.labels))
    climb.record(relaxed.kind)
    if not climb.over:  # the rounded labels seed the default search
        searched = solve(f, init=out.labels, seed=0, time_limit=climb.remaining(), max_iter=steps,
                         checkpoint=climb.place(f"search after {relaxed.kind}"))
        climb.ended(searched.status)
        climb.found(searched.point)
        climb.record(relaxed.kind)


def _branched(climb: _Climb) -> None:
    """Cuts at the root, then branch and bound."""
    f = climb.result.formulation
    root = "sdp+cuts" if f.n_clusters == 2 else "partition+cuts"
    if f.offer(LabelRatio) is not None:
        root = "peng-wei+cuts"
    solver = registry.solver("BranchAndBound")(gap=CERTIFIED_GAP / 2)
    _proved(climb, solver, "branch-and-bound", root)


def _tree(climb: _Climb) -> None:
    """A tree over the labels of classes."""
    _proved(climb, _tree_of(climb.result.formulation), "margin-tree", "margin-tree")


TREE = Level("margin-tree", _tree, True)


def _tree_of(f: Any) -> Any:
    """The solver that makes a tree over the labels of a margin problem; None where none does."""
    found = [registry.solver(name)(gap=CERTIFIED_GAP / 2)
             for name in ("MarginTree", "ClassTree", "KernelTree")]
    return next((solver for solver in found if solver.refuses(f) is None), None)


def _proved(climb: _Climb, solver: Any, kind: str, root: str) -> None:
    """A tree by a solver whose certificate is of that kind; ``root`` names what its root does."""
    def watch(row: dict[str, float]) -> None:
        climb.value = min(climb.value, row["best"] + SAME * abs(row["best"]))
        climb.record(kind if row["nodes"] > 1 else root, row["lower"])

    f, known = climb.result.formulation, climb.value
    start = replace(climb.result, point=climb.labels) if climb.value < math.inf else None
    out = solve(f, solver, init=start, time_limit=climb.remaining(), seed=0, callback=watch,
                executor=climb.executor, checkpoint=climb.place(kind))
    climb.value = known
    climb.ended(out.status)
    climb.found(out.point)
    if out.certificate is not None and out.certificate.kind == kind:
        climb.result = certified(climb.result, kind, out.certificate.duals, out.lower_bound)
    climb.record(kind)


def _finished(climb: _Climb, improve: bool, broken: str) -> Result:
    """The result with its bound, ladder and status, and the better labels where there are any."""
    if climb.book is not None:
        climb.book.keep(clock() - climb.began, climb.rungs)
        climb.book.file.write()
    end, first = _end(climb, broken), climb.result
    result = replace(first, climb_end=end, adopted=False,
                     message="" if first.adopted else first.message,
                     gap_tol=max(first.gap_tol, CERTIFIED_GAP))
    f = result.formulation
    message = broken if broken else "" if end is ClimbEnd.CLOSED else end.value
    if climb.labels is result.point:
        return with_rungs(result, climb.rungs).closing(message)
    better = replace(result, point=climb.labels, labels=f.labels(climb.labels),
                     violation=f.violation(climb.labels), incumbent=None, classes=None, message="",
                     objective=f.objective(climb.labels))
    if result.classes is not None and len(result.classes) == f.n_clusters:
        better = better.with_labels(result.classes)
    better = with_rungs(capped(better), climb.rungs)
    if improve:
        return replace(better, adopted=True).closing(ADOPTED)
    kept = replace(result, incumbent=better.closing(), lower_bound=better.lower_bound,
                   certificate=better.certificate)
    return with_rungs(kept, climb.rungs).closing(KEPT)


def with_rungs(result: Result, rungs: Iterable[Rung]) -> Result:
    """The result with a ladder, no rung of it above what is proved or below what was found.

    While a solver runs its own numbers are shown; its dual point may prove a little less.
    """
    proved = -math.inf if result.lower_bound is None else result.lower_bound
    found = least_shown(result)
    return replace(result, ladder=tuple(replace(r, lower=min(r.lower, proved),
                                                upper=max(r.upper, found)) for r in rungs))


def _end(climb: _Climb, broken: str) -> ClimbEnd:
    if broken:
        return ClimbEnd.BROKEN
    if climb.stopped:
        return ClimbEnd.INTERRUPTED
    if climb.closed:
        return ClimbEnd.CLOSED
    return ClimbEnd.TIME if climb.cut_short or climb.remaining() == 0.0 else ClimbEnd.EXHAUSTED


def _print(rung: Rung) -> None:
    """One line a rung, on standard error."""
    import sys

    print(f"  {rung.seconds:7.1f} s  {rung.level:<16} bound {rung.lower:.6g}  objective "
          f"{rung.upper:.6g}", file=sys.stderr, flush=True)
