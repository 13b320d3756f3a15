"""Same seed, same bytes: for any number of jobs, of BLAS threads, and any hash seed."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import determinism
import honest
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import mmcopt as mm
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian, Laplacian
from mmcopt.kernels.on_demand import KernelRows
from mmcopt.linalg import one_thread

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name, solver", [
    ("least squares", "Memetic"), ("two clusters", "Continuation"), ("margins", "CuttingPlane"),
    ("domain", "DualCoordinate"), ("laplacian", "DualCoordinate"), ("sphere", "Libsvm"),
    ("sdp of 40", "InteriorPoint")])
def test_jobs_and_threads_change_no_byte(name, solver):
    f = determinism.larger()[name]
    found = set()
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            found |= {determinism.answer(f, solver, jobs) for jobs in (None, 1, 2, 4)}
    assert len(found) == 1


@pytest.mark.parametrize("kernel", [Gaussian(width=0.4), Laplacian(width=0.4)])
def test_what_is_kept_of_a_kernel_changes_no_bit(kernel):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    fitted = kernel.fit(X, owner="a test")
    a = np.where(rng.random(300) < 0.4, rng.random(300), 0.0)
    fresh, used = KernelRows(fitted).times(a), KernelRows(fitted)
    for size in (1, 7, 50, 120):
        some = rng.choice(300, size, replace=False)
        with used.kept(some) as (rows, slots), KernelRows(fitted).kept(np.arange(300)) as whole:
            assert np.array_equal(rows[slots], whole[0][some])
    assert np.array_equal(used.times(a), fresh)


def test_rows_asked_for_by_many_threads_are_right(monkeypatch):
    monkeypatch.setattr("mmcopt.kernels.on_demand.HELD", 8.0 * 200 * 30)  # room for 30 rows
    X = np.random.default_rng(0).standard_normal((200, 30))
    rows, wrong = KernelRows(Gaussian(width=0.4).fit(X, owner="a test")), []
    whole = rows._one_by_one(np.arange(200))

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            some = rng.choice(200, int(rng.integers(1, 25)), replace=False)
            with rows.kept(some) as (store, slots):
                for _ in range(3):  # while others make room
                    if not np.array_equal(store[slots], whole[some]):
                        wrong.append(some)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def blas():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_limits_are_set_once_and_restored_by_the_last():
    two = ThreadpoolController().limit(limits=2)  # without holding on to it, as with `with`
    try:
        first = threading.Thread(target=one_thread.__enter__)
        first.start()
        first.join()
        with one_thread:
            assert set(blas()) == {1}
        assert set(blas()) == {1}
        one_thread.__exit__(None, None, None)
        assert set(blas()) <= {1, 2} and blas() != [1] * len(blas()) or os.cpu_count() == 1
    finally:
        two.restore_original_limits()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:OneClassHinge")  # a small C leaves the domain empty
def test_a_thousand_threaded_runs_neither_crash_nor_differ():
    rng = np.random.default_rng(0)
    for i in range(125):
        X = rng.standard_normal((int(rng.integers(40, 160)), int(rng.integers(2, 30))))
        kernel = [Gaussian(width=0.4), Laplacian(width=0.3)][i % 2]
        f = OneClassHinge(X, C=float(10.0 ** rng.uniform(0, 3)), kernel=kernel)
        runs = [mm.solve(determinism.again(f), "DualCoordinate", seed=i, restarts=8, n_jobs=jobs)
                for jobs in (4, 1)]
        assert len({(r.objective, r.labels.tobytes()) for r in runs}) == 1


def elsewhere(script, *arguments, **settings):
    out = subprocess.run(
        [sys.executable, "-c", "import mmcopt, sys; sys.path.append(sys.argv.pop(1)); "
         f"import {script}, json; {arguments[0]}", str(TESTS), *map(str, arguments[1:])],
        env={**os.environ, **{k: str(v) for k, v in settings.items()}}, capture_output=True,
        text=True, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


@pytest.mark.slow
def test_every_pair_in_every_setting():
    found = [elsewhere("determinism", "determinism.main(*sys.argv[1:])", *jobs,
                       OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads, PYTHONHASHSEED=hashes)
             for jobs, threads, hashes in (((1, 2, 4), 1, 0), ((2,), 2, 1), ((4,), 2, 77))]
    for rows in zip(*found, strict=True):
        assert len({digest for _, _, digests in rows for digest in digests.values()}) == 1, rows[0]


# ---------------------------------------------------------------- honest results elsewhere


def test_honest_results_are_verified_fresh_and_loaded(tmp_path):
    from itertools import islice

    for i, result in enumerate(islice(honest.results(0), 0, 60, 4)):
        assert honest.refused(result) is None
        result.save(tmp_path / f"{i}.npz")
    assert honest.check(tmp_path) == (15, [])


@pytest.mark.slow
@pytest.mark.parametrize("core", ["Haswell", "Nehalem", "SkylakeX"])
@pytest.mark.parametrize("threads", [1, 2])
def test_honest_results_are_verified_by_other_machines(core, threads, tmp_path):
    checks, wrong = honest.make(tmp_path, 100, 103)
    assert not wrong and checks > 500
    (count, refused), = elsewhere("honest", "print(json.dumps(honest.check(sys.argv[1])))",
                                  tmp_path, OPENBLAS_CORETYPE=core, OPENBLAS_NUM_THREADS=threads)
    assert not refused and 2 * count == checks
