"""What a solve returns: `Result`, its `Status`, its `History`, and the report of `verify`."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.datasets.blocks import as_blocks
from mmcopt.errors import DataError, IncompatibleError, MMCError
from mmcopt.tables import as_frame, html_table
from mmcopt.tolerances import CERTIFIED_GAP, FEASIBLE, SAME, SHOWN
from mmcopt.types import Floats, Ints, Path, Samples

TOLD = 0.05  # seconds of compiling that are worth a word
SMALL = 1e-10  # objectives below it have their gap relative to it
# What NumPy raises on points and duals that are not of the problem's form: forged, or of a file.
MALFORMED = (ValueError, IndexError, KeyError, TypeError, AttributeError, ArithmeticError,
             RuntimeError, np.linalg.LinAlgError)


class Status(enum.Enum):
    """How a solve ended, with the promise that goes with it."""

    CERTIFIED = "gap closed to the tolerance by a certificate that verify() re-checks"
    CONVERGED = "the method's own stopping test passed; this says nothing global"
    ITERATION_LIMIT = "stopped at the iteration limit with the best point so far"
    TIME_LIMIT = "stopped at the time limit with the best point so far"
    INTERRUPTED = "interrupted with the best point so far"
    EVALUATED = "labels of the caller, evaluated and not improved"
    FAILED = "numerical breakdown"

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class ClimbEnd(enum.Enum):
    """How a climb of `Result.certify` ended."""

    CLOSED = "the gap is closed"
    TIME = "the time was up before the gap was closed"
    INTERRUPTED = "interrupted; this is the best bound so far"
    EXHAUSTED = "every level was climbed, and a gap is left"
    BROKEN = "a level broke down; what was proved by then stays"


ADOPTED = "better labels were found while certifying, and adopted"
KEPT = "better labels were found while certifying; they are in result.incumbent"


class History:
    """Rows of a run as columns: restart, iteration, seconds, objective, best, and named extras."""

    def __init__(self, rows: list[dict[str, float]] | None = None) -> None:
        self._rows = rows or []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of first appearance."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        if self._rows and column not in self.columns:
            raise KeyError(f"history has no column {column!r}; it has {', '.join(self.columns)}")
        return np.array([row.get(column, np.nan) for row in self._rows], dtype=np.float64)

    def rows(self) -> list[dict[str, float]]:
        """The rows, each a dict of names."""
        return list(self._rows)

    def to_dict(self) -> dict[str, NDArray[np.float64]]:
        """All columns by name."""
        return {name: self[name] for name in self.columns}

    def to_frame(self) -> Any:
        """All rows as a pandas DataFrame."""
        return as_frame(self._rows, self.columns)

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"


@dataclass(frozen=True)
class Certificate:
    """A dual point: whoever holds the problem can recompute the bound from it, without a solver.

    ``of`` is the problem, or the fingerprint of one that is not at hand.
    """

    kind: str
    options: dict[str, Any]
    duals: dict[str, Any]
    of: Any = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """That of the problem, computed when it is asked for: reading all data takes its time."""
        return self.of if isinstance(self.of, str) else str(self.of.fingerprint)


@dataclass(frozen=True)
class Rung:
    """A step of the ladder of `Result.certify`: what was known when."""

    level: str
    seconds: float
    lower: float
    upper: float


def closes(lower: float, value: float, vanishing: float) -> bool:
    """Whether a bound is as high as a value to the gap of CERTIFIED, but above it by rounding only.

    One that is further above it cannot belong to a feasible point. ``vanishing`` is what counts as
    a value of 0.
    """
    size = max(abs(value), vanishing)
    return value < math.inf and -SAME * size <= value - lower <= CERTIFIED_GAP * size


@dataclass(frozen=True)
class Check:
    """One line of a verification report."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Report:
    """What `Result.verify` or `mmcopt.check` found; true when every check holds."""

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return all(c.ok for c in self.checks)

    def __str__(self) -> str:
        return "\n".join(f"{'ok  ' if c.ok else 'FAIL'} {c.name}: {c.detail}" for c in self.checks)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [{"": "ok" if c.ok else "FAIL", "check": c.name, "what was found": c.detail}
                for c in self.checks]
        return html_table(rows, ("", "check", "what was found"))


@dataclass(frozen=True, eq=False)
class Result:
    """An answer with its objective, its bound, and all that is needed to check both.

    What is claimed of the problem is derived from these fields or re-checked by `verify`. The
    solver's name, ``seed``, ``timing``, ``history`` and which limit ended a run are its record.
    """

    formulation: Any
    solver: str
    point: Any
    labels: Ints | None
    objective: float
    violation: float
    status: Status
    message: str = ""
    lower_bound: float | None = None
    trivial_bound: float | None = None
    certificate: Certificate | None = None
    history: History = field(default_factory=History)
    timing: dict[str, float] = field(default_factory=dict)
    seed: int | Sequence[int] | None = None  # the entropy of what was drawn
    classes: list[Any] | None = None
    incumbent: Result | None = None
    ladder: tuple[Rung, ...] = ()
    climb_end: ClimbEnd | None = None
    adopted: bool = False  # whether the labels were found while certifying others
    gap_tol: float = CERTIFIED_GAP  # relative gap at which the status is CERTIFIED

    @property
    def feasible(self) -> bool:
        """Whether no constraint is violated by more than 1e-6."""
        return self.violation <= FEASIBLE

    @property
    def took(self) -> str:
        """The seconds it took, and apart from them those of compiling loops."""
        compiling = self.timing.get("compile", 0.0)
        once = f" and {compiling:.1f} s of compiling, once" if compiling >= TOLD else ""
        return f"{sum(self.timing.values()) - compiling:.2f} s{once}"

    @property
    def absolute_gap(self) -> float | None:
        """Objective minus lower bound; None for infeasible points and where no bound exists."""
        if self.lower_bound is None or not self.feasible:
            return None
        return self.objective - self.lower_bound

    @property
    def gap(self) -> float | None:
        """The absolute gap over ``max(|objective|, 1e-10)``."""
        gap = self.absolute_gap
        return None if gap is None else gap / max(abs(self.objective), SMALL)

    def proves(self, tol: float) -> bool:
        """Whether a certificate closes the gap to ``tol`` of the objective, in whatever units.

        No bound above the objective does: one of the two is wrong, or the point costs less than the
        optimum because it is feasible only nearly.
        """
        gap, size = self.absolute_gap, max(abs(self.objective), self.formulation.vanishing)
        return gap is not None and 0.0 <= gap <= tol * size and self.certificate is not None

    @property
    def closed(self) -> float | None:
        """Share of the way from the trivial bound to the objective that the bound has closed."""
        if self.lower_bound is None or self.trivial_bound is None or not self.feasible:
            return None
        span = self.objective - self.trivial_bound
        share = 1.0 if span <= 0 else (self.lower_bound - self.trivial_bound) / span
        return min(1.0, max(0.0, share))

    def closing(self, message: str = "", caution: str | None = None) -> Result:
        """The same result with the status that its gap gives, and the message that goes with it."""
        status = Status.CERTIFIED if self.proves(self.gap_tol) else self.status
        if status is Status.CERTIFIED and not self.proves(self.gap_tol):  # of another bound
            status = Status.EVALUATED if self.solver == "evaluate" else Status.CONVERGED
        if not message and (caution is not None or status is not self.status or not self.message):
            message = status.value + ("" if caution is None else f"; {caution}")
        return dataclasses.replace(self, status=status, message=message or self.message)

    def predict(self, X: Samples) -> Any:
        """Clusters of new samples, which may come in blocks."""
        blocks = as_blocks(X, "predict")
        if blocks is not None:
            scorer = self.formulation.scorer(self.point)
            return np.concatenate(list(blocks.each(_predicted, scorer, self.classes)))
        return _predicted(X, self.decision_function, self.classes)

    def decision_function(self, X: Samples) -> NDArray[np.float64]:
        """Scores of new samples, one column a cluster; of two clusters one column may do."""
        blocks = as_blocks(X, "decision_function")
        if blocks is not None:
            return np.concatenate(list(blocks.each(_scored, self.formulation.scorer(self.point))))
        return np.asarray(self.formulation.decision_function(self.point, X))

    def verify(self) -> Report:
        """Re-check every claim in NumPy, without any solver: see `mmcopt.bounds.verify`."""
        from mmcopt.bounds.verification import verify

        return verify(self)

    def certify(self, *, time_limit: float | None = None, improve: bool = True,
                progress: Any = None, executor: Any = None,
                checkpoint: Path | None = None) -> Result:
        """Return this result with the best bound found within ``time_limit`` seconds.

        ``ladder`` records what was known when; a killed climb goes on from its ``checkpoint``. See
        `mmcopt.solving.ladder.tighten`.
        """
        from mmcopt.solving.ladder import tighten

        return tighten(self, time_limit=time_limit, improve=improve, progress=progress,
                       executor=executor, checkpoint=checkpoint)

    def merge(self, other: Result) -> Result:
        """Of two results for one problem: the smaller objective with the larger bound."""
        if self.formulation.fingerprint != other.formulation.fingerprint:
            raise IncompatibleError("only results for the same problem can be merged; "
                                    "these have different fingerprints.")
        rank = [(not r.feasible, r.objective) for r in (self, other)]
        best, rest = (self, other) if rank[0] <= rank[1] else (other, self)
        if rest.lower_bound is None or (best.lower_bound is not None
                                        and best.lower_bound >= rest.lower_bound):
            return best
        from mmcopt.bounds.certificates import capped

        return capped(dataclasses.replace(best, lower_bound=rest.lower_bound,
                                          certificate=rest.certificate)).closing()

    def save(self, path: Path, *, data: bool = True) -> None:
        """Write everything to one .npz file without pickle; ``data=False`` leaves X out."""
        from mmcopt.saving import save

        save(self, path, data=data)

    def plot(self, ax: Any = None, *, kind: str = "clusters") -> Any:
        """Draw the ``"clusters"`` in the plane, the ``"history"``, ``"ladder"`` or ``"tree"``.

        Also the ``"sizes"`` of the clusters, the ``"kernel"`` matrix in their order, of two
        features the ``"regions"`` where new samples would fall, with their margins, and of
        one-class problems the ``"domain"``. Returns the matplotlib axes.
        """
        from mmcopt.plot import draw

        return draw(self, kind, ax)

    def to_html(self, path: Path) -> None:
        """Write a page with its numbers, pictures and what is proved; it needs no network."""
        from mmcopt.plot import write_result

        write_result(self, path)

    def to_dict(self) -> dict[str, Any]:
        """What there is to tell, by name: `summary` for programs. Labels come along."""
        return {**self._row(), "message": self.message, "absolute_gap": self.absolute_gap,
                "closed": self.closed, "trivial_bound": self.trivial_bound,
                "timing": dict(self.timing), "fingerprint": self.formulation.fingerprint,
                "ladder": [dataclasses.asdict(rung) for rung in self.ladder],
                "labels": self.labels}

    def to_frame(self) -> Any:
        """A pandas DataFrame of one row, so that those of several results can be put together."""
        return as_frame([self._row()])

    def _row(self) -> dict[str, Any]:
        """The numbers."""
        certificate = None if self.certificate is None else self.certificate.kind
        return {"problem": type(self.formulation).__name__, "solver": self.solver,
                "seed": self.seed, "status": str(self.status), "objective": self.objective,
                "lower_bound": self.lower_bound, "gap": self.gap, "violation": self.violation,
                "certificate": certificate, "steps": len(self.history),
                "seconds": sum(self.timing.values())}

    def _repr_html_(self) -> str:
        row = self._row()
        shown = [name for name, value in row.items() if value is not None]
        return html_table([row], shown)

    def _doubt(self) -> str:
        """What rounding leaves in doubt of the digits that are shown."""
        try:
            doubt = self.formulation.uncertainty(self.point)
        except (MMCError, *MALFORMED):  # of a point that `verify` refuses
            return ""
        return f" +- {doubt:.1g}" if doubt > SHOWN * abs(self.objective) else ""

    def summary(self) -> str:
        """One line: solver, problem, status, objective, bound and gap, steps, seconds."""
        parts = [f"{self.solver} on {type(self.formulation).__name__}: {self.status}",
                 f"objective {self.objective:.6g}{self._doubt()}"]
        if not self.feasible:
            known = "" if self.lower_bound is None else f"bound {self.lower_bound:.6g}, "
            parts.append(f"{known}violation {self.violation:g} (infeasible: no gap)")
        elif self.lower_bound is None:
            parts.append("no bound")
        else:
            parts.append(f"bound {self.lower_bound:.6g}, gap {100 * (self.gap or 0.0):.3g} %")
        if len(self.history):
            parts.append(f"{len(self.history)} steps")
        if self.timing:
            parts.append(self.took)
        return ", ".join(parts)

    __str__ = __repr__ = summary

    def with_labels(self, values: list[Any]) -> Result:
        """The same result, whose ``labels`` and predictions use the given class values."""
        if self.labels is None:
            raise DataError("this result has no labels.")
        codes = self.formulation.labels(self.point)
        return dataclasses.replace(self, labels=np.asarray(values)[codes], classes=values)


def _scored(X: Samples, scorer: Callable[[Samples], Floats]) -> Floats:
    """The scores of some samples."""
    return np.asarray(scorer(X))


def _predicted(X: Samples, scorer: Callable[[Samples], Floats], classes: list[Any] | None) -> Any:
    """The clusters of some samples."""
    scores = _scored(X, scorer)
    codes = (scores >= 0).astype(np.int64) if scores.ndim == 1 else np.argmax(scores, axis=1)
    if classes is not None and codes.max() >= len(classes):
        raise DataError(f"the labels given name {len(classes)} clusters, and some samples fall "
                        "into another; use decision_function for the codes.")
    return codes if classes is None else np.asarray(classes)[codes]


def least_shown(result: Result) -> float:
    """The least objective of feasible labels that a result shows: its own, or its incumbent's."""
    shown = [r.objective for r in (result, result.incumbent) if r is not None and r.feasible]
    return min(shown, default=math.inf)
