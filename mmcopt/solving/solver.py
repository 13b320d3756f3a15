"""`Solver`: how to begin and how to take one step; the driver does the rest."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mmcopt.capabilities import Capability, LabelProblem
from mmcopt.checks import check_fields, check_keywords
from mmcopt.linalg import UNIT
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Certificate, Result, Status
from mmcopt.registry import register_solver
from mmcopt.tolerances import AGREEMENT

if TYPE_CHECKING:
    from mmcopt.solving.runs import Run


@dataclass(frozen=True)
class Progress:
    """What one step (or `begin`) leaves behind: the new state, a point and its objective.

    ``point`` may be a function without arguments, called only when the point is wanted. ``duals``
    are the dual point that proves ``lower_bound``.
    """

    state: Any
    point: Any
    value: float
    lower_bound: float | None = None
    extras: dict[str, float] = field(default_factory=dict)
    duals: Any = None


@dataclass(frozen=True)
class Proved:
    """A start with what is proved already: a point, or None, and the duals of a certificate."""

    point: Any
    duals: Any


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method: frozen hyper-parameters, and four functions that the driver calls.

    ``needs`` is the whole contract with a problem. ``anytime`` solvers spend all of a time limit
    on further restarts; the others stop when they have converged. ``keeps_last`` says that the
    last point is the answer, not the lowest: that of a method whose points become feasible only in
    the limit.
    ``promised_gap`` is the relative gap at which it ends on convex problems, by its defaults.
    """

    needs: ClassVar[tuple[type[Capability], ...]] = ()
    anytime: ClassVar[bool] = False
    keeps_last: ClassVar[bool] = False
    promised_gap: ClassVar[float] = 1e-9

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not inspect.isabstract(cls) and not cls.__name__.startswith("_"):
            register_solver(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse unknown keywords before the constructor sees them."""
        check_keywords(cls, kwargs)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_fields(self)

    def refuses(self, f: Any) -> str | None:
        """Why this solver cannot solve ``f``, in one clause; None when it can."""
        for kind in self.needs:
            if f.offer(kind) is None:
                return (f"it needs {kind.__name__}, which this {type(f).__name__} "
                        "does not offer.")
        return None

    def prepare(self, f: Any) -> None:
        """Build what all restarts share and warm compiled loops, before the clock of the steps."""

    @abstractmethod
    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        """Start at ``init`` (a point of ``f``), or at random when it is None."""

    @abstractmethod
    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        """Do one unit of work of a fixed size."""

    def goes_on(self, kind: str) -> bool:
        """Whether `begin` takes `Proved` duals of such a certificate, and goes on from them."""
        return False

    def hands_out(self) -> int:
        """How many tasks a step hands to other workers at a time; with 1 it needs none."""
        return 1

    def outcome(self, f: Any, state: Any) -> Status | None:
        """None to go on, or the status to stop with."""
        return None

    def closing(self, state: Any) -> float:
        """About how many seconds it takes to prove, after the last step, what a state claims."""
        return 0.0

    def finish(self, f: Any, state: Any) -> Progress | None:
        """Last improvement after the loop (a polish), or None."""
        return None

    def drift(self, f: Any, objective: float) -> float:
        """How far rounding may take the solver's own value of a point from its objective.

        Of label problems: that of W, and of sums over its rows.
        """
        of_labels = any(issubclass(kind, LabelProblem) for kind in self.needs)
        lq = f.offer(LabelProblem) if of_labels else None
        if lq is None:
            return 0.0
        size = abs(lq.constant) + abs(lq.constant - objective)
        return objective - lq.safe(objective) + (lq.n + 8) * UNIT * size

    def agreement(self, f: Any, objective: float, point: Any) -> float:
        """How far apart the solver's own value of a point and its objective may be."""
        return AGREEMENT * max(f.vanishing, abs(objective)) + self.drift(f, objective) \
            + float(f.uncertainty(point))

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """A bound that the best run has proved, or None to take the cheap ones."""
        return None if run.duals is None else Certificate("own", {}, run.duals, f)

    def solve(self, problem: Formulation, **options: Any) -> Result:
        """Solve a problem; the options are those of `mmcopt.solve`."""
        from mmcopt.solving.driver import solve

        return solve(problem, self, **options)
