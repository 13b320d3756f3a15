"""Pictures and pages of results and comparisons; pictures are matplotlib axes, and not shown.

It may import every room below the estimators; the methods `plot` of results, comparisons,
grids and assignments are doors to it. Public are the functions below, and `widgets`.
"""

from mmcopt.plot import widgets
from mmcopt.plot.cells import plot_cells
from mmcopt.plot.comparisons import plot_comparison
from mmcopt.plot.domains import plot_assignment, plot_dendrogram, plot_domain
from mmcopt.plot.kinds import draw
from mmcopt.plot.page import about, check_page, write_comparison, write_result
from mmcopt.plot.regions import plot_kernel, plot_regions, plot_sizes
from mmcopt.plot.results import plot_history, plot_ladder, plot_result, plot_tree

__all__ = [
    "about", "check_page", "draw", "plot_assignment", "plot_cells", "plot_comparison",
    "plot_dendrogram", "plot_domain", "plot_history", "plot_kernel", "plot_ladder", "plot_regions",
    "plot_result", "plot_sizes", "plot_tree", "widgets", "write_comparison", "write_result"]
