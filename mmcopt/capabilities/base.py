"""The base of what a formulation can hand to a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

C = TypeVar("C", bound="Capability")


@dataclass(frozen=True, eq=False)
class Capability:
    """Base of the capabilities; a capability offers itself, so solvers run on it directly."""

    def offer(self, kind: type[C]) -> C | None:
        """Return itself when it is of the kind asked for."""
        return self if isinstance(self, kind) else None
