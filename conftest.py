"""Settings for the whole test run.

The folders are tested as mmcopt.formulations and mmcopt.solvers, through the links in mmcopt/;
collecting them here as well would import every module twice and fill the registry twice.
"""

import os
import random
import signal
import sys
import time

import numpy as np
import pytest

collect_ignore = ["build", "formulations", "solvers"]

os.environ.setdefault("MPLBACKEND", "Agg")  # no window, also in the processes that tests start


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a process whole files, as `--dist loadfile` does, and the conformance tests to one.

    They share optima that take long to find, each found once in a process.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "conformance" if "tests/conformance/" in nodeid else super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(autouse=True, scope="session")
def _cpu_seconds():
    """Count time limits in CPU seconds: a test must not depend on what else the machine does.

    MMCOPT_TEST_HURRY=4 makes them as short as they are on a machine four times slower.
    """
    hurry = float(os.environ.get("MMCOPT_TEST_HURRY", "1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: hurry * time.process_time())
        yield


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c():
    """Let Ctrl-C interrupt, also where the run was begun with `&` by a script, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch):
    """Draw the same in every run, also without a seed: a test must not depend on luck.

    Each jitter of tests/robust.py draws something else.
    """
    seed = int(os.environ.get("MMCOPT_TEST_JITTER") or 0)
    np.random.seed(seed)  # noqa: NPY002  (scikit-learn's default)
    monkeypatch.setattr(np.random.bit_generator, "randbits", random.Random(seed).getrandbits)


@pytest.fixture(autouse=True)
def _as_given(request):
    """Jitter no data of doctests, nor of tests with this mark."""
    jitter = sys.modules.get("jitter")  # of tests/conftest.py
    if jitter is None:
        yield
        return
    if isinstance(request.node, pytest.DoctestItem) or request.node.get_closest_marker("as_given"):
        jitter.off.append(request.node)
    yield
    jitter.off.clear()
