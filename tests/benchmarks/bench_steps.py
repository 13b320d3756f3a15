"""The steps of steps.py for pytest-benchmark: ``python -m pytest tests/benchmarks``."""

import importlib.util
import pathlib
import sys

import pytest

pytest.importorskip("pytest_benchmark")


def _load(name):
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


literal = _load("literal")
steps = _load("steps")
N = 500


@pytest.fixture(scope="module")
def shaking():
    return steps.Shaking(*steps.quadratic(N))


@pytest.fixture(scope="module")
def evolution():
    return steps.Evolution(N)


def test_steps_agree(shaking):
    """Ours and the literal transcription claim the same samples."""
    assert (shaking.ours(20)[1] == shaking.theirs(20, "float64")[1]).mean() > 0.98


def test_shaking(benchmark, shaking):
    benchmark(shaking.ours, N // 20)


def test_literal_shaking(benchmark, shaking):
    benchmark(shaking.theirs, N // 20, "float32")


def test_steepest(benchmark, shaking):
    benchmark(steps.Steepest(shaking.lq, shaking.W).ours, N // 4)


def test_evolution(benchmark, evolution):
    benchmark(evolution.ours, 500, N)


def test_literal_evolution(benchmark, evolution):
    benchmark(evolution.theirs, 10, N)
