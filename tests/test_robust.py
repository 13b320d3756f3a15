"""What makes the tests hold elsewhere: jittered data, clocks of tests, the runner of all of it."""

import pathlib
import runpy
import time

import jitter
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquares

ROBUST = runpy.run_path(str(pathlib.Path(__file__).with_name("robust.py")))


@pytest.mark.parametrize("seed", range(10))
def test_jitter_changes_last_bits_and_nothing_else(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40, 40)) * 10.0 ** rng.integers(-9, 9, (40, 40))
    A = np.where(rng.random((40, 40)) < 0.1, 0.0, np.round(A + A.T, 3))
    J = jitter.jittered(A, seed)
    off = np.abs(J - A) / np.spacing(np.abs(A))
    assert off.max() <= 7 and (off > 0).mean() > 0.5
    assert np.array_equal(J, jitter.jittered(J, seed)), "what was jittered stays"
    assert np.array_equal(A == A.T, J == J.T) and np.array_equal(A == 0, J == 0)
    order = np.argsort(A, axis=None, kind="stable")
    assert (np.diff(J.ravel()[order]) >= 0).all()
    assert not np.array_equal(J, jitter.jittered(A, seed + 1))
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    np.testing.assert_array_equal(jitter.jittered(odd, seed), odd)


def test_data_are_jittered_when_that_is_asked_for():
    X = np.random.default_rng(0).standard_normal((20, 3))
    f = LeastSquares(X)
    assert np.array_equal(f.X, X) == (jitter.SEED is None)
    assert f.replace(lam=3.0).X is f.X or np.array_equal(f.replace(lam=3.0).X, f.X)
    assert mm.solve(f, seed=0).verify()  # the same problem when it is made again


@pytest.mark.as_given
def test_data_stay_as_given_where_that_is_asked_for():
    X = np.random.default_rng(0).standard_normal((20, 3))
    assert np.shares_memory(LeastSquares(X).X, X)


def test_the_clock_of_tests_counts_cpu_seconds_or_looks(ticking):
    first, cpu = time.perf_counter(), time.process_time()
    while time.process_time() < cpu + 0.01:
        pass
    assert time.perf_counter() >= first + 0.01
    ticking(0.25)
    assert [time.perf_counter() for _ in range(3)] == [0.0, 0.25, 0.5]


def test_the_runner_knows_every_configuration():
    found = ROBUST["configurations"]()
    assert len(found) == 2 * len(ROBUST["KERNELS"]) + 13
    assert {found[f"jitter-{s}"]["MMCOPT_TEST_JITTER"] for s in range(10)} == set("0123456789")
    assert ROBUST["kernels_instead"]({}) == ""
    assert ROBUST["kernels_instead"]({"OPENBLAS_CORETYPE": "Abacus"}) not in ("", "Abacus")


def test_busy_loops_end():
    with ROBUST["busy_loops"](2) as loops:
        assert all(loop.poll() is None for loop in loops)
    assert all(loop.poll() is not None for loop in loops)
