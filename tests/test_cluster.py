"""Work on a Dask cluster of two worker processes: as here, whatever happens to the workers."""

import logging
import os
import signal
import threading
import time

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.cli import main
from mmcopt.datasets import blocks
from mmcopt.errors import BackendError, MMCWarning
from mmcopt.formulations import CPM3C, KernelKMeans, LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane, Hartigan, StochasticDescent, Tabu

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
X = np.random.default_rng(0).standard_normal((60, 4)) + 2.0 * (np.arange(60).reshape(-1, 1) % 2)
PROBLEM = LeastSquares(X, kernel=Gaussian(width=0.5), lam=0.1)
OPTIONS = {"seed": 3, "restarts": 6, "max_iter": 30}
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def made():
    """A cluster whose workers say nothing of their end."""
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                    dashboard_address=None, silence_logs=logging.CRITICAL)


@pytest.fixture(scope="module")
def cluster():
    patient = {"distributed.deploy.lost-worker-timeout": "1h"}  # until it gives up who is restarted
    with dask.config.set(patient), made() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


def kill_one(cluster):
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)


def test_same_seed_same_bytes(client):
    alone = mm.solve(PROBLEM, Tabu(), **OPTIONS)
    result = mm.solve(PROBLEM, Tabu(), executor=client, **OPTIONS)
    assert result.point.tobytes() == alone.point.tobytes() and result.verify()
    assert result.history["objective"].tobytes() == alone.history["objective"].tobytes()
    table = mm.compare(PROBLEM, "Tabu", seeds=3, max_iter=5, executor=client)
    assert [row["objective"] for row in table.rows] \
        == [row["objective"] for row in mm.compare(PROBLEM, "Tabu", seeds=3, max_iter=5).rows]


def test_ctrl_c_gives_the_best_so_far_of_restarts_that_never_end(client):
    def interrupt():
        while not any(client.processing().values()):  # until a worker is at work
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    signals = threading.Thread(target=interrupt)
    signals.start()
    result = mm.solve(PROBLEM, Tabu(length=1e4), executor=client, seed=1, restarts=4)
    signals.join()
    assert result.status is Status.INTERRUPTED and result.verify()


def test_a_killed_worker_changes_nothing(cluster, client):
    alone = mm.solve(PROBLEM, Tabu(length=2000.0), **OPTIONS)
    threading.Timer(0.3, kill_one, [cluster]).start()
    result = mm.solve(PROBLEM, Tabu(length=2000.0), executor=client, **OPTIONS)
    assert result.point.tobytes() == alone.point.tobytes()


def test_the_command_line_works_on_a_scheduler(cluster, capsys):
    args = ["solve", "iris", "--solver", "tabu", "--restarts", "2", "--json", "--seed", "1"]
    answers = []
    for more in ([], ["--executor", cluster.scheduler_address]):
        assert main([*args, *more]) == 0
        answers.append(capsys.readouterr().out.split('"objective"')[1].split(",")[0])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("word", "says"), [
    ("gpu", "--executor must be threads, processes, or the address of a scheduler such as tcp"),
    ("tcp://nowhere", "such as tcp://127.0.0.1:8786; got 'tcp://nowhere'"),
    pytest.param("tcp://127.0.0.1:9", "no scheduler answers at tcp://127.0.0.1:9",
                 marks=pytest.mark.slow)])
def test_the_command_line_refuses_what_is_no_place(word, says, capsys):
    assert main(["solve", "iris", "--executor", word]) in (1, 2)
    assert says in capsys.readouterr().err


@pytest.fixture
def rows(tmp_path):
    """A problem of margins in memory, and the same on rows that workers read from a file."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 4)) + 3.0 * np.eye(3, 4)[rng.integers(3, size=3000)]
    np.save(tmp_path / "x.npy", A)
    return CPM3C(A, 3), CPM3C(blocks(tmp_path / "x.npy", chunk=500).to_dask(), 3)


def test_rows_stay_on_the_cluster_and_a_killed_worker_changes_nothing(cluster, client, rows):
    held, spread = rows
    options = {"seed": 1, "max_iter": 12}
    alone = mm.solve(held, CuttingPlane(), **options)
    client.wait_for_workers(2, timeout=60)
    with client.as_current():
        steps = []
        result = mm.solve(spread, CuttingPlane(), callback=lambda row: kill_one(cluster)
                          if steps.append(row) is None and len(steps) == 2 else None, **options)
        assert (result.labels == alone.labels).all() and len(steps) == len(alone.history) > 2
        assert result.objective == pytest.approx(alone.objective, rel=1e-12) and result.verify()


@pytest.mark.parametrize("family", [LeastSquares, KernelKMeans, CPM3C])
def test_features_are_made_and_rows_predicted_on_the_cluster(client, rows, family):
    """What is sent holds no rows: a kernel with its landmarks, or a mean and a scale."""
    held, spread = (problem.X for problem in rows)
    kernel = {"kernel": Gaussian(width=0.5).nystroem(20)}
    solver = {LeastSquares: StochasticDescent(), KernelKMeans: Hartigan(), CPM3C: CuttingPlane()}
    with client.as_current():
        a, b = (mm.solve(family(X, 3, **kernel), solver[family], seed=1, max_iter=6)
                for X in (held, spread))
        assert (a.labels == b.labels).all() and b.verify()
        scorer = b.formulation.scorer(b.point)
        assert len(distributed.protocol.pickle.dumps(scorer)) < held.nbytes / 4
        assert (b.predict(spread) == a.predict(held)).all()


def test_a_floor_on_sizes_and_given_labels_need_no_rows_here(client, rows):
    held, spread = (problem.replace(size_floor=0.98) for problem in rows)
    with client.as_current():
        a, b = (mm.solve(f, CuttingPlane(), seed=1, max_iter=3) for f in (held, spread))
        assert (a.labels == b.labels).all() and b.feasible
        assert len(b.point.labels.short) and b.verify()
        machines = [mm.solve(f.restrict(a.labels), seed=0, max_iter=2) for f in (held, spread)]
        assert machines[1].objective == pytest.approx(machines[0].objective, rel=1e-9)
        assert machines[1].lower_bound == pytest.approx(machines[0].lower_bound, rel=1e-6)


@pytest.mark.slow
def test_a_scheduler_that_goes_leaves_the_best_so_far(rows):
    with made() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        gone = threading.Thread(target=cluster.close)

        def heard(row):
            if not gone.is_alive():
                gone.start()

        with pytest.warns(MMCWarning, match="restarts that were done"):
            result = mm.solve(PROBLEM, Tabu(), executor=client, seed=0, restarts=10**5,
                              callback=heard)
        gone.join()
        assert result.status is Status.INTERRUPTED and result.verify()
        with client.as_current(), pytest.raises(BackendError, match="cluster"):
            mm.solve(rows[1], CuttingPlane(), seed=0)


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(cluster, client):
    solver, rng = Tabu(length=2000.0), np.random.default_rng(0)
    alone = mm.solve(PROBLEM, solver, **OPTIONS)
    for _ in range(20):
        time.sleep(1.0)  # until the last one is missed; killed as it comes up, it does not return
        client.wait_for_workers(2, timeout=60)
        killer = threading.Timer(rng.uniform(0.0, 1.0), kill_one, [cluster])
        killer.start()
        result = mm.solve(PROBLEM, solver, executor=client, **OPTIONS)
        killer.join()
        assert result.point.tobytes() == alone.point.tobytes()
