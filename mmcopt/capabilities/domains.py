"""Capabilities of one-class problems: a domain by its risk, or by its dual."""

from __future__ import annotations

from dataclasses import dataclass

from mmcopt.capabilities.base import Capability
from mmcopt.capabilities.convex import Subgradient
from mmcopt.kernels.on_demand import KernelRows
from mmcopt.types import Floats


@dataclass(frozen=True, eq=False)
class DomainRisk(Subgradient):
    """Minimise ``|w|^2 / 2 + C sum_i share_i max(0, 1 - w'phi_i)``; the shares sum to 1.

    A point is a, with w = sum_i a_i phi_i.
    """

    kernel: KernelRows
    C: float
    share: Floats


@dataclass(frozen=True, eq=False)
class BoxDual(Capability):
    """Maximise ``sum a - a'Ka / 2`` over 0 <= a <= upper, for a kernel whose rows are computed.

    With g = 1 - Ka, the gap to the primal is ``sum_i upper_i max(g_i, 0) - a_i g_i``, of which no
    term is negative.
    """

    upper: Floats
    kernel: KernelRows


@dataclass(frozen=True, eq=False)
class SimplexDual(Capability):
    """Minimise ``b'Kb`` over 0 <= b <= upper with entries that sum to 1."""

    upper: Floats
    kernel: KernelRows
