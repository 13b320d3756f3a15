"""Comparisons on tiny problems, with solvers that need no compiling."""

import json
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.comparing import Comparison, Watch
from mmcopt.comparing.table import COLUMNS, SUMMARY, time_to_best
from mmcopt.errors import BackendError, DataError, IncompatibleError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import BruteForce
from mmcopt.solving import Progress, Solver, executors
from mmcopt.tables import as_json, cell, markdown_table, plain, text_table


@dataclass(frozen=True, kw_only=True)
class _Draws(Solver):
    """Random labels, a number of them; the leading underscore keeps it out of the registry."""

    needs: ClassVar = (LabelQuadratic,)
    draws: int = 20

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        return self.step(f, 0, rng)

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        c = lq.random_labels(rng)
        return Progress(state + 1, lq.expand(c), lq.value(c))

    def outcome(self, f: Any, state: Any) -> Status | None:
        return Status.CONVERGED if state > self.draws else None


@dataclass(frozen=True, kw_only=True)
class _Stops(_Draws):
    """As Ctrl-C in the middle of a run."""

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        if state == 2:
            raise KeyboardInterrupt
        return super().step(f, state, rng)


@dataclass(frozen=True, kw_only=True)
class _Breaks(_Draws):
    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        raise BackendError("the matrix\nis singular.")


@pytest.fixture(scope="module")
def table(problem, data):
    return mm.compare(problem, [_Draws(), _Draws(draws=3), BruteForce()], seeds=3, y=data[1])


def test_rows(table, problem):
    assert [r["solver"] for r in table.rows] == ["_Draws"] * 3 + ["_Draws(draws=3)"] * 3 \
        + ["BruteForce"] * 3
    assert [r["seed"] for r in table.rows] == [0, 1, 2] * 3
    assert all(tuple(r) == COLUMNS for r in table.rows)
    for row, result in zip(table.rows, table.results, strict=True):
        assert row["objective"] == problem.objective(result.point)
        assert row["lower_bound"] <= row["objective"] and row["violation"] == 0
        assert row["gap"] == result.gap
        assert 0 <= row["time_to_best"] <= row["seconds"] + 1e-9
        assert row["prepare"] >= 0 and -1 <= row["ari"] <= 1
    assert table.rows[-1]["status"] == "certified"


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_same_seed_same_row_in_threads(table, problem, data, n_jobs, monkeypatch):
    monkeypatch.setattr(executors, "cores", lambda: 2)
    again = mm.compare(problem, [_Draws(), _Draws(draws=3), BruteForce()], seeds=[0, 1, 2],
                       y=data[1], n_jobs=n_jobs)
    for a, b in zip(table.rows, again.rows, strict=True):
        assert {k: a[k] for k in ("solver", "seed", "objective", "ari")} \
            == {k: b[k] for k in ("solver", "seed", "objective", "ari")}


def test_summary(table):
    rows = {r["solver"]: r for r in table.summary()}
    assert all(tuple(r) == SUMMARY for r in rows.values())
    best = min(r["objective"] for r in table.rows)
    assert rows["BruteForce"]["best"] == best and rows["BruteForce"]["hits"] == 1
    few = [r["objective"] for r in table.rows if r["solver"] == "_Draws(draws=3)"]
    mine = rows["_Draws(draws=3)"]
    assert (mine["runs"], mine["best"], mine["mean"]) == (3, min(few), np.mean(few))
    assert mine["hits"] == np.mean([v <= best * (1 + 1e-6) for v in few])
    assert mine["gap"] == (mine["best"] - mine["bound"]) / mine["best"]


def test_text_and_markdown(table):
    lines = str(table).splitlines()
    assert lines[0].split() == ["solver", "runs", "best", "mean", "hits", "seconds", "bound",
                                "gap", "ari"]
    assert set(lines[1]) == {"-", " "} and len(lines) == 5
    assert table.to_markdown().splitlines()[1].startswith("| --- | ---: |")
    assert repr(table) == str(table) and len(table) == 9


def test_pairs_that_do_not_fit_are_listed(problem):
    table = mm.compare({"small": problem}, [_Draws(), "direct"], seeds=1)
    assert [row["solver"] for row in table.rows] == ["_Draws"]
    assert table.refused == [("small", "Direct", "it needs LinearSystem, which this LeastSquares "
                                                 "does not offer.")]
    assert "left out: Direct on small: it needs LinearSystem" in str(table)
    assert "ari" not in str(table).splitlines()[0]
    with pytest.raises(IncompatibleError, match="no solver fits any problem(.|\n)*Direct on Least"):
        mm.compare(problem, "Direct", seeds=1)


def test_mixed_problems(problem, data):
    fit = problem.restrict(data[1])
    table = mm.compare([problem, problem.replace(n_clusters=3), fit], ["Direct", _Draws()], seeds=1)
    assert {(r["problem"], r["solver"]) for r in table.rows} == {
        ("LeastSquares n=10 k=2", "_Draws"), ("LeastSquares n=10 k=3", "_Draws"),
        ("LeastSquaresFit n=10 k=2", "Direct")}
    assert len(table.refused) == 3
    assert str(table).startswith("problem ")


def test_equal_names_are_numbered(problem):
    table = mm.compare([problem, problem], [_Draws(), _Draws()], seeds=1)
    assert list(table.problems) == ["LeastSquares n=10 k=2", "LeastSquares n=10 k=2 #2"]
    assert len(table.summary()) == 4


def test_labels_of_another_method_can_be_added(problem, data):
    table = mm.compare(problem, BruteForce(), seeds=1, y=data[1])
    assert table.add("k-means", mm.evaluate(problem, data[1]), seconds=0.5) is table
    row = table.rows[-1]
    assert (row["solver"], row["seed"], row["seconds"], row["ari"], row["status"]) \
        == ("k-means", None, 0.5, 1.0, "evaluated")
    other = mm.evaluate(problem.replace(lam=2.0), data[1])
    with pytest.raises(IncompatibleError, match="not in this comparison"):
        table.add("other", other)


def test_infeasible_labels_have_no_gap_and_no_rank(data):
    problem = LeastSquares(data[0], sizes=(4, 6))
    table = mm.compare(problem, BruteForce(), seeds=1)
    table.add("lopsided", mm.evaluate(problem, [0] * 9 + [1]))
    mine = table.summary()[1]
    assert mine["best"] is None and mine["gap"] is None and mine["hits"] == 0
    assert "infeasible: lopsided on LeastSquares breaks the constraints (violation 3)" in str(table)
    assert table.best("LeastSquares").solver == "BruteForce"


def test_certify_gives_the_bound_to_all_rows(problem):
    table = mm.compare(problem, [_Draws(draws=1)], seeds=2).certify(time_limit=5)
    optimum = mm.solve(problem, BruteForce()).objective
    assert {row["solver"] for row in table.rows} <= {"_Draws(draws=1)", "found while certifying"}
    assert table.best("LeastSquares").objective == pytest.approx(optimum)
    assert all(row["lower_bound"] == pytest.approx(optimum) for row in table.rows)
    assert all(result.verify() for result in table.results)


def test_certify_climbs_once_for_each_problem_and_tells_of_every_rung(problem):
    other = problem.replace(lam=3.0)
    table, seen = mm.compare({"a": problem, "b": other}, [_Draws()], seeds=2), []
    table.certify(time_limit=5, progress=seen.append)
    assert list(table.ladders) == ["a", "b"]
    assert [*table.ladders["a"], *table.ladders["b"]] == seen
    for name in "ab":
        assert table.best(name).ladder == table.ladders[name]
        assert table.best(name).lower_bound == table.ladders[name][-1].lower
    assert not table.interrupted


def test_interrupting_certify_keeps_the_bounds_so_far(problem, monkeypatch):
    table = mm.compare({"a": problem, "b": problem.replace(lam=3.0)}, [_Draws()], seeds=2)

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmcopt.bounds.enumeration.minimum", stop)
    table.certify(time_limit=5)
    assert table.interrupted and list(table.ladders) == ["a"] and len(table) == 4
    assert "interrupted: the table holds what was done by then" in str(table)
    monkeypatch.setattr("mmcopt.solving.ladder.cheap_bound", stop)
    table.certify(time_limit=5)
    assert table.interrupted and all(result.feasible for result in table.results)


def test_interrupt_returns_what_is_done(problem):
    table = mm.compare(problem, [_Draws(), _Stops(), BruteForce()], seeds=2)
    assert [(r["solver"], r["status"]) for r in table.rows] \
        == [("_Draws", "converged"), ("_Stops", "interrupted")]
    assert table.interrupted and "interrupted: the table holds" in str(table)


def test_failed_run_is_a_row(problem):
    table = mm.compare(problem, [_Breaks(), _Draws()], seeds=1)
    assert table.rows[0]["status"] == "failed" and table.rows[0]["objective"] is None
    assert table.failures == [("LeastSquares", "_Breaks", "the matrix is singular.")]
    assert "failed: _Breaks on LeastSquares: the matrix is singular." in str(table)
    assert table.summary()[1]["hits"] == 1


def test_save(table, tmp_path):
    for suffix in (".csv", ".json", ".md"):
        table.save(tmp_path / f"t{suffix}")
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 10
    held = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert len(held["rows"]) == 9 and held["summary"][2]["solver"] == "BruteForce"
    assert (tmp_path / "t.md").read_text(encoding="utf-8").startswith("| solver |")
    with pytest.raises(ParameterError, match=r"must end in .csv, .json, .md; got 't.xls'"):
        table.save("t.xls")


def test_frame(table, monkeypatch):
    pytest.importorskip("pandas")
    frame = table.to_frame()
    assert tuple(frame.columns) == COLUMNS and len(frame) == 9
    assert frame["seed"].tolist() == [0, 1, 2] * 3
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BackendError, match=r"to_frame\(\) needs pandas: pip install pandas"):
        table.to_frame()


def test_progress(problem, capsys):
    mm.compare(problem, _Draws(), seeds=2, progress=True)
    assert "compare: 2 of 2 runs, last _Draws on LeastSquares, seed 1" in capsys.readouterr().err

    class Heard(Watch):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def preparing(self, problem, solver):
            self.calls.append("preparing")

        def begin(self, runs):
            self.calls.append(f"begin {runs}")

        def finished(self, row):
            self.calls.append("finished")

        def close(self):
            self.calls.append("close")

    heard = Heard()
    mm.compare(problem, _Draws(), seeds=2, progress=heard)
    assert heard.calls == ["preparing", "begin 2", "finished", "finished", "close"]


@pytest.mark.parametrize(("options", "words"), [
    ({"seeds": 0}, "compare: seeds must be an integer at least 1; got 0"),
    ({"seeds": []}, "seeds must name at least one seed; got an empty list"),
    ({"seeds": ["a"]}, "each of seeds must be an integer at least 0; got 'a'"),
    ({"seeds": [0, -1]}, "each of seeds must be an integer at least 0; got -1"),
    ({"seeds": [1.5], "solvers": "kmeans"}, "each of seeds must be an integer at least 0; got 1.5"),
    ({"seeds": [None]}, "each of seeds must be an integer at least 0; got None"),
    ({"seeds": "12"}, "seeds must be an integer at least 1; got '12'"),
    ({"solvers": []}, "solvers must be Solvers such as Memetic"),
    ({"solvers": "Nix"}, "no solver is called 'Nix'"),
    ({"problems": []}, "problems must name at least one problem; got none"),
    ({"problems": 3}, r"problems must be Formulations such as LeastSquares\(X\); got int"),
    ({"time_limit": -1}, "time_limit must be None or a finite number at least 0; got -1"),
    ({"n_jobs": 0}, "n_jobs must be None, -1 for as many as there are cores, or an integer"),
    ({"y": {"nix": [1]}}, "y names the problem 'nix'; there are LeastSquares"),
    ({"y": [0, 1]}, "y holds 2 labels, but LeastSquares has 10 samples"),
])
def test_bad_input(problem, options, words):
    given = {"problems": problem, "solvers": _Draws(), "seeds": 1, **options}
    with pytest.raises((ParameterError, DataError), match=words):
        mm.compare(given.pop("problems"), given.pop("solvers"), **given)


def test_time_to_best_of_an_evaluated_result(problem, data):
    assert time_to_best(mm.evaluate(problem, data[1]), 0.25) == 0.25
    assert Comparison({"p": problem}).best("p") is None


def test_tables():
    rows = [{"a": "x|y", "gap": 0.25, "n": 3}, {"a": "z", "gap": float("nan"), "n": None}]
    assert text_table(rows, ["a", "gap", "n"]).splitlines() \
        == ["a       gap  n", "---  ------  -", "x|y  25.0 %  3", "z         -  -"]
    assert "x\\|y" in markdown_table(rows, ["a"])
    assert (cell("gap", 1e-6), cell("gap", 0.0), cell("hits", 0.5)) == ("0.0001 %", "0.0 %", "50 %")
    assert json.loads(as_json({"v": np.array([1.5, np.nan]), "s": Status.CONVERGED, 1: (True,)})) \
        == {"v": [1.5, None], "s": "converged", "1": [True]}
    assert plain(np.float64("inf")) is None


def test_every_run_may_begin_at_a_named_start():
    X = np.random.default_rng(0).standard_normal((60, 3)) + 3.0 * (np.arange(60) % 2)[:, None]
    f = mm.formulations.CPM3C(X, 2)
    table = mm.compare(f, ["CuttingPlane", "Alternating"], seeds=2, init="kmeans", max_iter=1)
    for row in table.rows:
        alone = mm.solve(f, row["solver"], init="kmeans", seed=row["seed"], max_iter=1)
        assert row["objective"] == pytest.approx(alone.objective, rel=1e-12)
