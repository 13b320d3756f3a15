"""The papers' tables beside ours, a front door: a file a paper, with its figures and protocol.

It may import every room but `mmcopt.cli`, and nothing but `mmcopt.cli` calls it. Public are `run`,
`PAPERS` and what a run returns.
"""

from mmcopt.reproduce.papers import run
from mmcopt.reproduce.tables import PAPERS, Figure, PaperTable, Reproduction

__all__ = ["PAPERS", "Figure", "PaperTable", "Reproduction", "run"]
