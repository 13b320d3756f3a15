"""The problems: one file each. A class registers itself when its file is imported."""

from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.crammer_singer import CrammerSinger
from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.discriminative_kmeans import DiscriminativeKMeans
from mmcopt.formulations.hypersphere import Hypersphere
from mmcopt.formulations.kernel_kmeans import KernelKMeans
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.formulations.least_squares_fit import LeastSquaresFit
from mmcopt.formulations.linearized import LinearizedCPM3C, LinearizedMKC
from mmcopt.formulations.max_cut import MaxCut
from mmcopt.formulations.mkc import MKC
from mmcopt.formulations.multiple_kernel_machine import MultipleKernelMachine
from mmcopt.formulations.one_class_hinge import OneClassHinge
from mmcopt.formulations.qubo import QUBO

__all__ = ["CPM3C", "CrammerSinger", "Diffrac", "DiscriminativeKMeans", "Hypersphere",
           "KernelKMeans", "LeastSquares", "LeastSquaresFit", "LinearizedCPM3C", "LinearizedMKC",
           "MKC", "MaxCut", "MultipleKernelMachine", "OneClassHinge", "QUBO"]
