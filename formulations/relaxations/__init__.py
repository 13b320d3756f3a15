"""Convex relaxations: formulations whose dual points bound label problems; one file each."""

from mmcopt.formulations.relaxations.diffrac import DiffracRelaxation
from mmcopt.formulations.relaxations.eigenvalue import Eigenvalue
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.formulations.relaxations.max_cut import MaxCut, MaxCutTriangles
from mmcopt.formulations.relaxations.partition import Partition, PartitionCuts
from mmcopt.formulations.relaxations.peng_wei import PengWei

__all__ = ["DiffracRelaxation", "Eigenvalue", "Lifted", "MaxCut", "MaxCutTriangles",
           "Partition", "PartitionCuts", "PengWei"]
