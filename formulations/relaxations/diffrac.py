"""The relaxation of DIFFRAC: the co-membership matrix itself is positive semidefinite."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from mmcopt.bounds.label_lift import Lift, partition_lift
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.formulations.relaxations.partition import Partition


class DiffracRelaxation(Partition):
    """Any number of clusters: a psd M in the place of [c_i = c_j].

    `Partition` with M psd where that one asks for M - J/k psd, which is more: J/k is psd itself. So
    its bound is never above that of "partition". It is here for comparison and for teaching; the
    point is X = M.
    """

    kind: ClassVar[str] = "diffrac"
    rank: ClassVar[float] = 60
    paper = "Bach and Harchaoui (2007), DIFFRAC, section 3"
    tightness: ClassVar[str] = "the relaxation of DIFFRAC; never better than partition"

    @classmethod
    def build(cls, lq: LabelQuadratic) -> Lift:
        return partition_lift(lq, cone="plain")

    @staticmethod
    def _cone(k: int) -> str:
        return "M psd"

    @staticmethod
    def _cone_latex(k: int) -> str:
        return r"M \succeq 0"

    def _psd(self, M: Any, n: int) -> list[Any]:
        return [M >> 0]

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in (*Diffrac.examples()[1:5], LeastSquares.examples()[3])]
