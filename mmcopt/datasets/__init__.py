"""Data sets by one name: bundled, generated, from files, from a folder of yours, or from OpenML.

It may import `mmcopt.checks` and what is below it. `mmcopt.datasets.loading` has the table of all
names. Public are `load`, `names`, `blocks` for files larger than memory, `load_table` for those who
also want to know what was done with the columns of a file, and `fetch`, which downloads the public
sets that `published` lists.
"""

from mmcopt.datasets.blocks import blocks
from mmcopt.datasets.fetching import Fetched, fetch, published
from mmcopt.datasets.loading import load, load_table, names
from mmcopt.datasets.table import Table

__all__ = ["Fetched", "Table", "blocks", "fetch", "load", "load_table", "names", "published"]
