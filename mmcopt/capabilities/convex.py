"""Capabilities of any problem: bounds, linear systems, convex programs, subgradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmcopt.capabilities.base import Capability
from mmcopt.types import Floats


@dataclass(frozen=True, eq=False)
class LinearSystem(Capability):
    """A convex quadratic problem whose optimum solves ``A x = b``, A positive definite."""

    A: Callable[[], Floats]
    b: Floats


@dataclass(frozen=True, eq=False)
class Bounded(Capability):
    """A bound of the formulation's own, ``bound(duals)``, that holds for any duals.

    ``duals(point)`` derives some from a point; None where only a solver finds them. ``trivial`` is
    a bound that costs nothing, ``seconds`` what proving one and judging a point take, about.
    """

    bound: Callable[[dict[str, Any]], float]
    duals: Callable[[Any], dict[str, Any]] | None = None
    trivial: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Program:
    """A cvxpy problem, and what to read off it once it is solved."""

    problem: Any
    point: Callable[[], Any]
    duals: Callable[[], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class ConvexProgram(Capability):
    """A problem in cvxpy: ``build(cuts)``, and ``separate(point, cuts)`` for more cuts or None."""

    build: Callable[[Any], Program]
    separate: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, eq=False)
class Subgradient(Capability):
    """A regularised mean of losses, of which few samples give a subgradient.

    Which problem it is says the class of the offer: `DomainRisk` or `MarginRisk`.
    """
