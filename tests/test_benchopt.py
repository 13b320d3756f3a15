"""The folder that benchopt runs: its parts do what benchopt asks for, and benchopt runs it."""

import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import registry
from mmcopt.formulations import OneClassHinge

FOLDER = pathlib.Path(__file__).parents[1] / "examples" / "benchopt"
PARTS = {str(p.relative_to(FOLDER)): p for p in sorted(FOLDER.rglob("*.py"))}


class _Base:
    """What of benchopt's base classes the folder uses."""

    def __init__(self, **options):
        given = {name: values[0] for name, values in self.parameters.items()} | options
        for name, value in given.items():
            setattr(self, name, value)


@pytest.fixture
def part(monkeypatch):
    """The classes of a file of the folder, where benchopt need not be installed."""
    fake = types.ModuleType("benchopt")
    fake.BaseObjective = fake.BaseDataset = fake.BaseSolver = _Base
    criteria = types.ModuleType("benchopt.stopping_criterion")
    criteria.SufficientProgressCriterion = lambda **options: options
    monkeypatch.setitem(sys.modules, "benchopt", fake)
    monkeypatch.setitem(sys.modules, "benchopt.stopping_criterion", criteria)

    def made(name, **options):
        names = runpy.run_path(str(PARTS[name]))
        return names[{"d": "Dataset", "s": "Solver", "o": "Objective"}[name[0]]](**options)

    return made


def test_there_is_what_benchopt_looks_for():
    assert set(PARTS) == {"objective.py", "datasets/moons.py", "datasets/named.py",
                          "solvers/kmeans.py", "solvers/mmcopt_solver.py"}


@pytest.mark.parametrize("data, options", [("datasets/moons.py", {"n": 30}),
                                           ("datasets/named.py", {"source": "iris"})])
@pytest.mark.parametrize("name", ["solvers/kmeans.py", "solvers/mmcopt_solver.py"])
def test_data_objective_and_solver_fit_together(part, data, options, name):
    objective, solver = part("objective.py"), part(name)
    objective.set_data(**part(data, **options).get_data())
    given = objective.get_objective()
    assert solver.skip(**given)[0] is False
    solver.set_objective(**given)
    getattr(solver, "warm_up", lambda: None)()
    values = []
    for steps in (0, 1, 20):
        solver.run(steps)
        values.append(objective.evaluate_result(**solver.get_result()))
    start = objective.evaluate_result(**objective.get_one_result())
    assert values[0] == start and values[2]["value"] < start["value"]
    assert -0.5 <= values[2]["ari"] <= 1.0 and values[2]["violation"] == 0.0


def test_a_solver_is_the_one_that_is_named(part):
    objective, solver = part("objective.py"), part("solvers/mmcopt_solver.py", solver="Tabu")
    objective.set_data(**part("datasets/moons.py", n=40).get_data())
    solver.set_objective(**objective.get_objective())
    solver.run(7)
    there = mm.solve(objective.problem, "Tabu", seed=0, max_iter=7)
    assert np.array_equal(solver.labels, there.labels)
    assert objective.evaluate_result(solver.labels)["value"] == pytest.approx(there.objective)
    for name in solver.parameters["solver"]:
        assert registry.solver(name)().refuses(objective.problem) is None


def test_what_does_not_fit_is_skipped(part):
    domain = OneClassHinge(np.eye(3))
    skipped, why = part("solvers/mmcopt_solver.py", solver="Tabu").skip(domain)
    assert skipped and why.startswith("it needs LabelProblem")


@pytest.mark.slow
def test_benchopt_runs_it(tmp_path):
    pytest.importorskip("benchopt", reason="benchopt is not installed: pip install benchopt")
    import pandas

    shutil.copytree(FOLDER, tmp_path / "bench", ignore=shutil.ignore_patterns("__*__", "outputs"))
    run = subprocess.run(
        [sys.executable, "-m", "benchopt", "run", str(tmp_path / "bench"), "-d", "moons[n=40]",
         "-n", "6", "-r", "1", "--no-display", "--output", "found"],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"MPLBACKEND": "Agg"},
        timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = pandas.read_parquet(tmp_path / "bench" / "outputs" / "found.parquet")
    names = {f"mmcopt[seed=0,solver={s}]" for s in ("Shaking", "Tabu", "KernighanLin", "Memetic")}
    assert set(rows["solver_name"]) == names | {"kmeans[seed=0]"}
    first, last = (rows[rows["stop_val"] == v] for v in (0, rows["stop_val"].max()))
    assert first["objective_value"].nunique() == 1
    memetic = last[last["solver_name"].str.contains("Memetic")]["objective_value"].min()
    problem = mm.formulations.LeastSquares(
        mm.datasets.load("moons:n=40,noise=0.1,seed=0")[0], 2,
        kernel=mm.kernels.Gaussian(width=0.5), lam=0.1)
    assert memetic == pytest.approx(mm.solve(problem, "Memetic", seed=0).objective)
    assert list((tmp_path / "bench" / "outputs").glob("*.html"))
