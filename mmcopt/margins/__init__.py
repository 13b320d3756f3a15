"""Machinery of margins: losses, models of cuts, the small programs behind them, and ridge fits.

It may import kernels, `mmcopt.compiled` and single files; it knows no problem and no solver. Public
are the losses below, and `MarginLoss` for one of your own.
"""

from mmcopt.margins.losses import LOSSES, Hinge, Logistic, MarginLoss, SquaredHinge

__all__ = ["LOSSES", "Hinge", "Logistic", "MarginLoss", "SquaredHinge"]
