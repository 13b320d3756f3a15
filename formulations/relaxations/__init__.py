"""Convex relaxations: formulations whose dual points bound label problems; one file each."""

from mmcopt.formulations.relaxations.diffrac import DiffracRelaxation
from mmcopt.formulations.relaxations.eigenvalue import Eigenvalue
from mmcopt.formulations.relaxations.gmmc import GMMC
from mmcopt.formulations.relaxations.joint import JointMMC, XuMMC
from mmcopt.formulations.relaxations.label_generation import LGMMC
from mmcopt.formulations.relaxations.lifted import Lifted
from mmcopt.formulations.relaxations.max_cut import MaxCutRelaxation, MaxCutTriangles
from mmcopt.formulations.relaxations.multiple_kernel import MKCLift
from mmcopt.formulations.relaxations.partition import Partition, PartitionCuts
from mmcopt.formulations.relaxations.peng_wei import PengWei, PengWeiCuts
from mmcopt.formulations.relaxations.xu_schuurmans import XuSchuurmans

__all__ = ["DiffracRelaxation", "Eigenvalue", "GMMC", "JointMMC", "LGMMC", "Lifted", "MKCLift",
           "MaxCutRelaxation", "MaxCutTriangles", "Partition", "PartitionCuts", "PengWei",
           "PengWeiCuts", "XuMMC", "XuSchuurmans"]
