"""Fixtures for all tests."""

import gc
import importlib.util
import itertools
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

# The first example may import or compile, and a run must not depend on luck.
hypothesis.settings.register_profile("mmcopt", deadline=None, derandomize=True)
hypothesis.settings.load_profile("mmcopt")

# What tests share are modules by these names; pytest's import mode puts no folder on sys.path.
for _name in ("jitter", "determinism", "doors", "edits", "exact", "extremes", "honest", "literal",
              "instances", "memory", "notebook", "oracle", "relaxed", "signals", "soak", "tree"):
    _spec = importlib.util.spec_from_file_location(
        _name, pathlib.Path(__file__).with_name(f"{_name}.py"))
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
    if _name == "jitter" and sys.modules[_name].SEED is not None:
        sys.modules[_name].install(int(sys.modules[_name].SEED))

if os.environ.get("MMCOPT_DATA"):  # tests may change the working directory
    os.environ["MMCOPT_DATA"] = str(pathlib.Path(os.environ["MMCOPT_DATA"]).expanduser().absolute())


def pytest_collection_finish() -> None:
    """Leave what is there by now to itself: looking through it again and again takes seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def shared_data() -> Callable[[str], tuple[Any, Any]]:
    """Load a set of MMCOPT_DATA by name, with options if need be: ``shared_data("mnist:n=500")``.

    The test skips when MMCOPT_DATA is unset, and fails when it is set but the set is missing.
    """

    def load(name: str) -> tuple[Any, Any]:
        from mmcopt import datasets

        folder = os.environ.get("MMCOPT_DATA")
        if not folder:
            pytest.skip(f"{name} needs a folder of data sets in MMCOPT_DATA")
        file = pathlib.Path(folder) / f"{name.partition(':')[0]}.npz"
        if not file.is_file():
            pytest.fail(f"MMCOPT_DATA is set, but {file} is missing")
        return datasets.load(name)

    return load


@pytest.fixture
def ticking(monkeypatch):
    """Make every look at the clock take some seconds: ``ticking(0.01)``.

    Time limits then count looks, and a test says the same on every machine.
    """

    def tick(seconds: float) -> None:
        looks = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda: seconds * next(looks))

    return tick
