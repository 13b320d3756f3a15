"""Losses of a margin: convex, never increasing, each given by its value and its slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.types import Floats


@dataclass(frozen=True)
class MarginLoss:
    """A loss l(m) of the margin m: convex, never increasing, not negative.

    A loss of one's own needs two methods: `value`, and `slope`, a subgradient.
    """

    def value(self, margin: Floats) -> Floats:
        """Return l(m)."""
        raise NotImplementedError

    def slope(self, margin: Floats) -> Floats:
        """Return a subgradient of l at m; never above 0."""
        raise NotImplementedError

    def conjugate(self, weight: Floats) -> Floats:
        """Return min over m of l(m) + weight m, finite for the weights 0..`steepest`."""
        raise NotImplementedError

    @property
    def steepest(self) -> float:
        """The largest -l'(m); infinity where there is none."""
        return np.inf

    def formula(self) -> str:
        """Return l(m) as plain mathematics."""
        return f"{type(self).__name__.lower()}(m)"

    def atom(self, margin: Any) -> Any:
        """Return l(m) for a cvxpy expression."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, repr=False)
class Hinge(MarginLoss):
    """max(0, 1 - m)."""

    def value(self, margin: Floats) -> Floats:
        return np.maximum(1.0 - margin, 0.0)

    def slope(self, margin: Floats) -> Floats:
        return -(margin < 1.0).astype(np.float64)

    def conjugate(self, weight: Floats) -> Floats:
        return weight

    @property
    def steepest(self) -> float:
        return 1.0

    def formula(self) -> str:
        return "max(0, 1 - m)"

    def atom(self, margin: Any) -> Any:
        import cvxpy as cp

        return cp.pos(1 - margin)


@dataclass(frozen=True, repr=False)
class SquaredHinge(MarginLoss):
    """max(0, 1 - m)^2."""

    def value(self, margin: Floats) -> Floats:
        return np.square(np.maximum(1.0 - margin, 0.0))

    def slope(self, margin: Floats) -> Floats:
        return -2.0 * np.maximum(1.0 - margin, 0.0)

    def conjugate(self, weight: Floats) -> Floats:
        return weight - np.square(weight) / 4.0

    def formula(self) -> str:
        return "max(0, 1 - m)^2"

    def atom(self, margin: Any) -> Any:
        import cvxpy as cp

        return cp.square(cp.pos(1 - margin))


@dataclass(frozen=True, repr=False)
class Logistic(MarginLoss):
    """log(1 + exp(-m))."""

    def value(self, margin: Floats) -> Floats:
        return np.logaddexp(0.0, -margin)

    def slope(self, margin: Floats) -> Floats:
        return -1.0 / (1.0 + np.exp(np.minimum(margin, 700.0)))

    def conjugate(self, weight: Floats) -> Floats:
        from scipy.special import entr

        return np.asarray(entr(weight) + entr(1.0 - weight))

    @property
    def steepest(self) -> float:
        return 1.0

    def formula(self) -> str:
        return "log(1 + exp(-m))"

    def atom(self, margin: Any) -> Any:
        import cvxpy as cp

        return cp.logistic(-margin)


LOSSES = {cls.__name__: cls for cls in (Hinge, SquaredHinge, Logistic)}
