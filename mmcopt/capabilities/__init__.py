"""What a formulation can hand to a solver: small frozen objects of arrays and functions.

A solver lists the capabilities it ``needs``; a formulation makes an ``offer`` of each one it can
honour for its own size and constraints. Nothing else passes between the two, so that a problem of
the reader's own is solved by every solver whose capability it offers.

It may import margins, kernels, `mmcopt.compiled` and single files. Public are the names below.
"""

from mmcopt.capabilities.base import Capability
from mmcopt.capabilities.convex import (
    Bounded,
    ConvexProgram,
    LinearSystem,
    Program,
    Subgradient,
)
from mmcopt.capabilities.domains import BoxDual, DomainRisk, SimplexDual
from mmcopt.capabilities.label_problem import LabelProblem
from mmcopt.capabilities.label_ratio import LabelRatio
from mmcopt.capabilities.labels import LabelQuadratic
from mmcopt.capabilities.margins import CutRisk, KernelMargin, LiftedMargin, MarginRisk, Refit

__all__ = [
    "Bounded", "BoxDual", "Capability", "ConvexProgram", "CutRisk", "DomainRisk",
    "KernelMargin", "LabelProblem", "LabelQuadratic", "LabelRatio", "LiftedMargin", "LinearSystem",
    "MarginRisk", "Program", "Refit", "SimplexDual", "Subgradient",
]
