"""What a formulation can hand to a solver: small frozen objects of arrays and functions.

A solver lists the capabilities it ``needs``; a formulation makes an ``offer`` of each one it can
honour for its own size and constraints. Nothing else passes between the two, so that a problem of
the reader's own is solved by every solver whose capability it offers.

Those of any convex problem are here; those of label problems and of the hinge family have modules
of their own, and are to be had from this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.capability import Capability
from mmcopt.label_quadratic import LabelQuadratic
from mmcopt.margin_capabilities import (
    BoxDual,
    DomainRisk,
    KernelMargin,
    LiftedMargin,
    MarginRisk,
    Refit,
    Separation,
    SimplexDual,
    Subgradient,
)

__all__ = [
    "Bounded",
    "BoxDual",
    "Capability",
    "ConvexProgram",
    "DomainRisk",
    "InnerFit",
    "KernelMargin",
    "LabelQuadratic",
    "LiftedMargin",
    "LinearSystem",
    "MarginRisk",
    "Program",
    "Refit",
    "Separation",
    "SimplexDual",
    "Subgradient",
]

Floats = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class InnerFit(Capability):
    """The best model for given labels: ``fit(labels)`` returns its coefficients."""

    fit: Callable[[Ints], Floats]


@dataclass(frozen=True, eq=False)
class LinearSystem(Capability):
    """A convex quadratic problem whose optimum solves ``A x = b``, A positive definite."""

    A: Callable[[], Floats]
    b: Floats


@dataclass(frozen=True, eq=False)
class Bounded(Capability):
    """A bound of the formulation's own, ``bound(duals)``, that holds for any duals.

    ``duals(point)`` derives some from a point; None where only a solver finds them. ``trivial`` is
    a bound that costs nothing.
    """

    bound: Callable[[dict[str, Any]], float]
    duals: Callable[[Any], dict[str, Any]] | None = None
    trivial: float | None = None


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
