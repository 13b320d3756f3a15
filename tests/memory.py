"""How much more memory rows in a long file take than the same work on a short one.

`conftest.py` makes this module importable as ``memory``.
"""

import subprocess
import sys

import numpy as np
import pytest

measured = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
WORK = """
import sys
import mmcopt as mm
from mmcopt.datasets import blocks
from mmcopt.formulations import *
from mmcopt.kernels import *
from mmcopt.solvers import *
def peak():  # ru_maxrss counts what the parent has held, too
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM"))
for path in sys.argv[1:]:
    rows = blocks(path, chunk=4096)
    {work}
    print(peak())
"""


def growth(folder, shape, few, work):
    """MB that all rows take at most beyond what ``few`` do; ``work`` is a line about ``rows``."""
    X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    X[::2] += 1.0
    paths = folder / "small.npy", folder / "large.npy"
    for path, rows in zip(paths, (X[:few], X), strict=True):
        np.save(path, rows)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WORK.format(work=work), *paths],
                          capture_output=True, text=True, check=True)
    small, large = map(float, done.stdout.split())
    return large - small
