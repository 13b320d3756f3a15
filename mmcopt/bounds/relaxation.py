"""Relaxations: convex formulations whose every dual point bounds another problem.

A `Relaxation` minimises in the units of the problem that it relaxes. It turns points into labels of
that problem (`recover`) and duals into bounds on it (`bound`). `LiftedRelaxation` does all of this
for relaxations that are a `Lift`; a new one of that kind is a statement and a function.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mmcopt import registry
from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import DUALS, Cuts, Lift
from mmcopt.bounds.label_lift_cvxpy import LiftedProgram
from mmcopt.bounds.labels_from_matrix import rounded
from mmcopt.capabilities import (
    Bounded,
    Capability,
    ConvexProgram,
    LabelProblem,
    LabelQuadratic,
    Program,
)
from mmcopt.checks import shown
from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.linalg import UNIT
from mmcopt.modeling import Formulation, cached
from mmcopt.tables import human, spoken
from mmcopt.tolerances import SAME
from mmcopt.types import Floats, Ints

# Seconds, times the cube of the number of nodes, for a proof and labels, and for a look at all
# triangles.
JUDGING, TRIANGLES = 1.3e-10, 3e-11


def _of_known(bound: Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    """Refuse duals of a name that a bound would not look at: they are mistyped, or another's."""

    @functools.wraps(bound)
    def checked(self: Relaxation, duals: Any) -> float:
        owner, known = type(self).__name__, self.dual_names
        if not isinstance(duals, dict):
            raise ParameterError(f"{owner}: duals must be a mapping of names to arrays; got "
                                 f"{shown(duals)}.")
        unknown = sorted(set(duals) - set(known), key=str) if known else []
        if unknown:
            raise ParameterError(f"{owner}: no dual is called {shown(unknown[0])}; the bound takes "
                                 f"{', '.join(known)}, and those left out are 0.")
        return bound(self, duals)

    return checked


class Relaxation(Formulation):
    """A convex problem whose optimal value, and every dual bound, is below that of ``problem``.

    Subclasses name their ``kind``, the capability they relax (``of``), and how tight and costly
    they are; ``bounds_problem`` is false for those that bound a relative of it. ``rank`` is their
    place in lists, which go from cheap to dear in each family; a class without a rank of its own
    comes last.
    """

    kind: ClassVar[str] = ""
    rank: ClassVar[float] = math.inf
    of: ClassVar[type[Capability]] = LabelQuadratic
    tightness: ClassVar[str] = ""
    bounds_problem: bool = True
    asks_bound: ClassVar[bool] = True
    default_solver: ClassVar[str] = "Conic"
    trivial: ClassVar[float | None] = None  # a bound that costs nothing
    dual_names: ClassVar[tuple[str, ...]] = ()  # that `bound` knows, where they are named
    cuts: ClassVar[bool] = False  # whether triangles are among its rows

    problem: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "bound" in cls.__dict__:
            setattr(cls, "bound", _of_known(cls.bound))  # noqa: B010 (checkers know it as declared)

    def __init__(self, problem: Any) -> None:
        refusal = self.refuses(problem)
        if refusal is not None:
            raise IncompatibleError(f"{type(self).__name__} cannot relax "
                                    f"{type(problem).__name__}: {refusal}")
        self.problem = problem
        self.n, self.n_clusters = problem.n, problem.n_clusters

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        """Why this does not relax the problem, in one sentence; None when it does."""
        if problem.offer(cls.of) is None:
            return f"it needs {cls.of.__name__}, which {type(problem).__name__} does not offer."
        return None

    @classmethod
    @abstractmethod
    def memory(cls, problem: Any) -> float:
        """Bytes that solving it takes, about."""

    @classmethod
    @abstractmethod
    def seconds(cls, problem: Any) -> float:
        """Seconds that our own solver takes on one core, about."""

    @abstractmethod
    def recover(self, point: Any) -> Ints:
        """Feasible labels of the relaxed problem near a point of this one."""

    @abstractmethod
    def bound(self, duals: dict[str, Any]) -> float:
        """A lower bound on the relaxed problem, for any duals whatever."""

    def uncertainty(self, point: Any) -> float:
        """That of sums over W, and of W itself, whose error is a share of z'Wz for every z.

        A point of a relaxation is a mean of such zz', or near one. Of problems without a W, that of
        sums over the features.
        """
        value, lq = self.objective(point), self.problem.offer(LabelQuadratic)
        if lq is None:
            return 8.0 * (self.n + 8) * UNIT * (self.magnitude + abs(value))
        size = abs(lq.constant) + abs(lq.constant - value)
        return float(value - lq.safe(value) + (lq.n + 8) * UNIT * size)

    def settled(self, point: Any) -> float:
        """The objective, which may be 0: where rounding is too much, the problem was refused."""
        return self.objective(point)

    @property
    def magnitude(self) -> float:
        """That of the problem that is relaxed: the units are the same."""
        return float(self.problem.magnitude)

    @property
    def judging(self) -> float:
        """Seconds that proving a bound, judging a matrix and its labels take, about."""
        if not issubclass(self.of, LabelProblem):
            return 0.0
        rate = JUDGING + (TRIANGLES if self.cuts else 0.0)
        return rate * float(self.problem.offer(LabelProblem).n) ** 3

    @property
    def program(self) -> Any:
        """The `Program` in cvxpy, which relaxations that have one keep."""
        raise IncompatibleError(f"{type(self).__name__} has no cvxpy form.")

    @property
    def variables(self) -> dict[str, Any]:
        """The cvxpy variables of `to_cvxpy` by name."""
        return dict(self.program.problem.var_dict)

    def to_cvxpy(self) -> Any:
        """Return this relaxation as a cvxpy problem; add constraints on ``variables``."""
        return self.program.problem

    def labels(self, point: Any) -> Ints:
        """Labels of the samples that `recover` finds near a point."""
        return self.recover(point)

    def agrees(self, point: Any, labels: Ints) -> bool:
        """Whether labels are those of a point, or of the relaxed problem's points as good.

        Which of several is found hangs on eigenvectors, and those on rounding.
        """
        own = self.labels(point)
        if np.array_equal(own, labels):
            return True
        problem = self.problem
        if np.shape(labels) != own.shape or np.asarray(labels).dtype.kind not in "iu" \
                or not 0 <= np.min(labels) <= np.max(labels) < problem.n_clusters:
            return False
        found, best = problem.from_labels(np.asarray(labels)), problem.from_labels(own)
        value = problem.objective(best)
        return problem.violation(found) <= problem.violation(best) \
            and problem.objective(found) <= value + SAME * (self.magnitude + abs(value))

    def offer(self, kind: type[Any]) -> Any:
        if kind is ConvexProgram and type(self).program is not Relaxation.program:
            return ConvexProgram(lambda cuts: self.program)
        if kind is Bounded:
            return Bounded(self.bound, trivial=self.trivial, seconds=self.judging)
        return None


def relax(problem: Any, kind: str, **options: Any) -> Any:
    """Build the relaxation of that kind."""
    kinds = registry.relaxations()
    if kind not in kinds:
        raise ParameterError(f"no relaxation is called {kind!r}; there are {', '.join(kinds)}.")
    refusal = kinds[kind].refuses(problem)
    if refusal is not None:
        apply = [name for name, cls in kinds.items() if cls.refuses(problem) is None]
        raise IncompatibleError(f"relax({kind!r}) does not apply to this {type(problem).__name__}: "
                                f"{refusal} These do: {', '.join(apply) or 'none'}.")
    return kinds[kind](problem, **options)


class Relaxations(dict[str, str | None]):
    """Kinds of relaxation by name: None when the kind applies, else why it does not."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        super().__init__({kind: cls.refuses(problem)
                          for kind, cls in registry.relaxations().items()})

    @property
    def kinds(self) -> list[str]:
        """The kinds that apply."""
        return [kind for kind, why in self.items() if why is None]

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        lines = []
        for kind, cls in registry.relaxations().items():
            if self[kind] is not None:
                lines.append(f"{kind:<{width}}  no: {self[kind]}")
                continue
            cost = f"{human(cls.memory(self.problem))}, about {spoken(cls.seconds(self.problem))}"
            lines.append(f"{kind:<{width}}  {cls.tightness} ({cost})")
        return "\n".join(lines)

    __repr__ = __str__


# ---------------------------------------------------------------- relaxations that are a lift


class LiftedRelaxation(Relaxation):
    """A relaxation over one matrix X; a point is X itself, m x m over nodes that share a label.

    ``cuts`` says whether its statement includes triangles, and cliques for k > 2.
    """

    name: ClassVar[str] = "M"
    dual_names = DUALS

    @classmethod
    @abstractmethod
    def build(cls, lq: LabelQuadratic) -> Lift:
        """The lift of a label problem."""

    @cached
    def lift(self) -> Any:
        """The arrays of the program."""
        lift = self.build(self.problem.offer(LabelQuadratic))
        return dataclasses.replace(lift, cuts=self.cuts)

    @classmethod
    def memory(cls, problem: Any) -> float:
        n = problem.offer(LabelQuadratic).n
        return 8.0 * n * n * (60 if problem.n_clusters > 2 else 30 if cls.cuts else 12)

    @classmethod
    def seconds(cls, problem: Any) -> float:
        n = problem.offer(LabelQuadratic).n
        first = 3e-9 * n**3
        return max(0.01, 60 * first if cls.cuts or problem.n_clusters > 2 else 5 * first)

    def objective(self, point: Floats) -> float:
        return float(self.lift.objective(np.asarray(point)))

    def violation(self, point: Floats) -> float:
        X, lift = np.asarray(point), self.lift
        worst = lift.violation(X)
        return max(worst, violated_cuts.worst(lift, X)) if self.cuts else worst

    def recover(self, point: Floats) -> Ints:
        lq = self.problem.offer(LabelQuadratic)
        return lq.expand(rounded(lq, self.lift, np.asarray(point), np.random.default_rng(0)))

    def from_labels(self, labels: Ints) -> Floats:
        """The X that the labels give."""
        lq, lift = self.problem.offer(LabelQuadratic), self.lift
        c = lq.reduce(labels)
        first = np.unique(lift.groups, return_index=True)[1]
        M = (c[first][:, None] == c[first][None, :]).astype(np.float64)
        X = lift.floor + (lift.top - lift.floor) * M
        if lift.binary:
            X = X * np.outer(lift.signs[first], lift.signs[first])
        return np.asarray(X)

    def bound(self, duals: dict[str, Any]) -> float:
        lq: LabelQuadratic = self.problem.offer(LabelQuadratic)
        return lq.safe(float(self.lift.lower(duals)))

    def offer(self, kind: type[Any]) -> Any:
        if kind is Lift:
            return self.lift
        if kind is ConvexProgram:
            return ConvexProgram(self._program, self._separate)
        return super().offer(kind)

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Keep the compiled program when only the entries of W changed."""
        if "program" in other._cache and same_shape(self.lift, other.lift):
            self._cache["program"] = other._cache["program"]

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program in cvxpy, its data in parameters."""
        return LiftedProgram(self.lift)

    def _program(self, cuts: Cuts | None) -> Program:
        return self.program.at(self.lift, cuts or Cuts())

    def _separate(self, point: Floats, cuts: Cuts | None) -> Cuts | None:
        """More cuts that the point violates, or None."""
        if not self.cuts:
            return None
        found = violated_cuts.violated(self.lift, point, most=5 * self.lift.m, least=1e-6)
        old = cuts or Cuts()
        new = old.join(found)
        return new if len(new) > len(old) else None

    @property
    def variables(self) -> dict[str, Any]:
        """The matrix variable over samples: ``Y`` for two clusters, ``M`` otherwise."""
        return {self.name: self.program.over_samples(self.lift, self.problem.offer(LabelQuadratic))}

    def to_cvxpy(self) -> Any:
        """Return the program without cuts as a cvxpy problem; add constraints on ``variables``."""
        return self._program(None).problem


def same_shape(a: Lift, b: Lift) -> bool:
    """Whether two lifts differ in R, base and scale alone."""
    names = ("b", "rows", "row_low", "row_high", "pairs", "groups", "signs")
    return (a.m, a.k, a.floor, a.square, a.square_low) == (b.m, b.k, b.floor, b.square,
                                                          b.square_low) \
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)
