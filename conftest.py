"""Settings for the whole test run.

The folders are tested as mmcopt.formulations and mmcopt.solvers, through the links in mmcopt/;
collecting them here as well would import every module twice and fill the registry twice.
"""

import os
import time

collect_ignore = ["build", "formulations", "solvers"]

# Time limits are of CPU seconds in tests, so that they do not depend on what else the machine does.
time.perf_counter = time.process_time

os.environ.setdefault("MPLBACKEND", "Agg")  # no window, also in the processes that tests start
