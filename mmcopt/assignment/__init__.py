"""From the decision function of a one-class problem to clusters: the parts of its domain.

It may import kernels and what is below them, and no solver; clusters reach `mmcopt.plot` only to be
drawn. Public are the three ways to cluster, and what they return.
"""

from mmcopt.assignment.clusters import (
    Assignment,
    clearest,
    complete,
    equilibrium,
    graph,
    level_tree,
    neighbour_gamma,
)
from mmcopt.assignment.domain import Domain
from mmcopt.assignment.peaks import LevelTree

__all__ = ["Assignment", "Domain", "LevelTree", "clearest", "complete", "equilibrium", "graph",
           "level_tree", "neighbour_gamma"]
