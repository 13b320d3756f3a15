"""The problems: one file each. A class registers itself when its file is imported."""

from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.formulations.least_squares_fit import LeastSquaresFit

__all__ = ["Diffrac", "LeastSquares", "LeastSquaresFit"]
