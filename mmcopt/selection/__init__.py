"""Choosing parameters and partitions without labels; each function says where it fails.

It may import comparisons, assignments, solving and what is below them. Public are the functions
below: `labels` for partitions of label problems, `widths` for their Gaussian kernels, `models`
for the choice among their objectives, `domains` for gamma and C of one-class models.
"""

from mmcopt.selection.cells import Grid, grid
from mmcopt.selection.labels import (
    centrality,
    lowest,
    most_central,
    objective_ratio,
    stability,
)
from mmcopt.selection.models import by_graph
from mmcopt.selection.one_class import Candidates, domains
from mmcopt.selection.paths import LAMS, path
from mmcopt.selection.widths import resolving

__all__ = ["LAMS", "Candidates", "Grid", "by_graph", "centrality", "domains", "grid", "lowest",
           "most_central", "objective_ratio", "path", "resolving", "stability"]
