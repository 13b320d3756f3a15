"""Solvers side by side on problems: one row a run, each with its bound and its time.

It may import solving and what is below it; a table reaches `mmcopt.plot` only to be drawn. Public
are `compare`, the `Comparison` it makes, the `Baseline` clusterings that can stand in it, and
`Watch`, which sees the runs come in.
"""

from mmcopt.comparing.baselines import Baseline
from mmcopt.comparing.run import Watch, compare
from mmcopt.comparing.table import Comparison

__all__ = ["Baseline", "Comparison", "Watch", "compare"]
