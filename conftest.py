"""Settings for the whole test run.

The folders are tested as mmcopt.formulations and mmcopt.solvers, through the links in mmcopt/;
collecting them here as well would import every module twice and fill the registry twice.
"""

import os

collect_ignore = ["build", "formulations", "solvers"]

os.environ.setdefault("MPLBACKEND", "Agg")  # no window, also in the processes that tests start
