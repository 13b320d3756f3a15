"""The command line, in process and once as a process: output, words of errors, exit codes."""

import importlib
import json
import re
import signal
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities.matrices import Dense, LowRank, Sparse
from mmcopt.cli import console, demo, ladder_view, main, warmup
from mmcopt.cli.parse import parse_kernel, parse_sizes, parse_solvers
from mmcopt.errors import BackendError, ParameterError
from mmcopt.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial
from mmcopt.modeling.result import Rung
from mmcopt.solvers import Annealing, BruteForce, Shaking, Tabu

TINY = "gaussians:n=10,distance=4,seed=0"
BRUTE = ("solve", TINY, "--solver", "bruteforce")  # needs no compiling


# ---------------------------------------------------------------- warmup


def test_warmup_takes_a_step_with_every_solver(monkeypatch):
    steps, names = [], ["CrammerSinger", "Hypersphere"]

    def step(f, solver, **_):
        steps.append((type(f), solver))
        return types.SimpleNamespace(status=mm.Status.ITERATION_LIMIT)

    monkeypatch.setattr(warmup, "solve", step)
    assert not any(warmup.compiled(pairs).left for pairs in warmup.sharing(names))
    for name in names:
        kind = mm.registry.formulation(name)
        assert {s for k, s in steps if k is kind} == {
            s for f in kind.examples() for s in mm.fits(f).names} - {"Conic"}


def test_warmup_compiles_searches_over_many_samples(monkeypatch):
    prepared = []
    for solver in (Annealing, Tabu):
        monkeypatch.setattr(solver, "prepare", lambda self, lq: prepared.append(
            (type(self), lq.dtype, type(lq.matrix), lq.spread is None)))
    warmup.larger(["Annealing", "Tabu"])
    assert prepared == [
        (Annealing, np.float32, Dense, False), (Annealing, np.float32, Dense, True),
        (Annealing, np.float32, LowRank, True), (Annealing, np.float64, LowRank, True),
        (Annealing, np.float64, Sparse, True), (Tabu, np.float32, Dense, False),
        (Tabu, np.float32, Dense, True), (Tabu, np.float64, Sparse, True)]


def test_warmup_shares_the_work_out(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "ProcessPoolExecutor", lambda jobs, _: ThreadPoolExecutor(jobs))
    monkeypatch.setattr(warmup, "compiled", lambda pairs, _: warmup.Work(len(pairs)))
    monkeypatch.setattr(warmup, "larger", lambda searches, _: warmup.Work(len(searches)))
    assert main(["warmup", "cpm3c", "LinearizedCPM3C", "Hypersphere", "--jobs", "3"]) == 0
    lines = sorted(capsys.readouterr().out.splitlines()[1:-1])
    assert lines == ["    1.0 s  Libsvm", "    2.0 s  MarginTree, ClassTree",
                     "    5.0 s  Alternating, CuttingPlane, MarginSearch, SGD"]
    assert main(["warmup", "LeastSquares"]) == 0
    assert "11.0 s  searches over more labels" in capsys.readouterr().out
    assert main(["warmup", "--jobs", "0"]) == 2 and "--jobs" in capsys.readouterr().err
    assert main(["warmup", "Nothing"]) == 2 and "Nothing" in capsys.readouterr().err


def test_warmup_begins_nothing_when_the_time_is_over(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "ProcessPoolExecutor", lambda jobs, _: ThreadPoolExecutor(jobs))
    monkeypatch.setattr(warmup, "solve", lambda *_, **__: pytest.fail("it took a step"))
    monkeypatch.setattr(Annealing, "prepare", lambda *_: pytest.fail("it prepared"))
    assert main(["warmup", "CPM3C", "--time-limit", "0"]) == 0
    assert "The time was over with 6 pieces of work left" in capsys.readouterr().out
    assert warmup.larger(["Annealing", "Tabu"], 0.0).left == 2


# ---------------------------------------------------------------- what is typed


@pytest.mark.parametrize(("text", "kernel"), [
    ("linear", Linear()), ("Cosine", Cosine()), ("gaussian", Gaussian(width=1)),
    ("laplacian", Laplacian(width=1)), ("gaussian:width=0.5", Gaussian(width=0.5)),
    ("gaussian:gamma=1e-3", Gaussian(gamma=1e-3)), ("polynomial:2", Polynomial(2)),
    ("polynomial:degree=2,coef0=-1", Polynomial(2, -1.0)),
    ("gaussian:width=0.5+.3*linear", Gaussian(width=0.5) + 0.3 * Linear()),
    ("0.3*(linear + cosine)*cosine", 0.3 * (Linear() + Cosine()) * Cosine()),
    ("gaussian:width=0.5.nystroem:300", Gaussian(width=0.5).nystroem(300)),
    ("(linear+cosine).centered.nystroem:rank=4,seed=1",
     (Linear() + Cosine()).centered().nystroem(4, seed=1)),
    ("linear.normalized", Linear().normalized()),
])
def test_kernels(text, kernel):
    assert parse_kernel(text) == kernel


@pytest.mark.parametrize(("text", "words"), [
    ("gausian", r"no kernel is called 'gausian' \(did you mean gaussian\?\)"),
    ("gaussian:0.5", "'0.5' needs a name, as in width=0.5"),
    ("gaussian:width=-1", "kernel 'gaussian:width=-1': Gaussian: width must be"),
    ("gaussian:width=1,sigma=2", "give exactly one of gamma, sigma, width"),
    ("gaussian:size=1", "gaussian has no parameter 'size'; it takes gamma, sigma, width"),
    ("gaussian:width=1,width=2", "width is given twice"),
    ("gaussian:width=x", "width must be a number; got 'x'"),
    ("linear.nystroem", "nystroem needs a rank"), ("linear.foo", "no kernel method is called"),
    ("0.5", "a number must multiply a kernel"), ("linear+", "is expected where the end stands"),
    ("(linear", "a '\\)' is missing"), ("linear linear", "cannot read what follows"),
    ("", "a kernel is expected"), ("__import__('os')", "cannot read"),
])
def test_bad_kernels(text, words):
    with pytest.raises(ParameterError, match=words):
        parse_kernel(text)


def test_sizes_and_solvers():
    assert parse_sizes(None) is None and parse_sizes("0.2").within == 0.2
    assert (parse_sizes("3:").low, parse_sizes(":9").high) == (3, 9)
    with pytest.raises(ParameterError, match="sizes must be a share such as 0.2, or low:high"):
        parse_sizes("few")
    assert parse_solvers("shaking,polish=false,Tabu,tenure=none,length=5") \
        == [Shaking(polish=False), Tabu(length=5)]
    with pytest.raises(ParameterError, match="Tabu has no parameter 'size'; it has length"):
        parse_solvers("tabu,size=3")
    with pytest.raises(ParameterError, match="cannot read 'a=1'"):
        parse_solvers("a=1")


# ---------------------------------------------------------------- help


def test_help_and_version(run):
    assert run("--version") == (0, f"mmcopt {mm.__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0 and "mmcopt demo" in out and "lower bound" in out and "exit codes" in out
    assert run()[:2] == (0, out)
    for command in ("demo", "solve", "compare", "describe", "certify", "reproduce"):
        code, text, _ = run(command, "--help")
        assert code == 0 and "examples" in text and f"mmcopt {command}" in text
        assert max(map(len, text.splitlines())) <= 100


# ---------------------------------------------------------------- solve, certify


def test_solve(run, tmp_path):
    labels, saved, picture = (tmp_path / name for name in ("l.csv", "r.npz", "p.png"))
    code, out, err = run(*BRUTE, "--out", str(labels), "--save", str(saved))
    assert (code, err) == (0, "")
    assert "2 clusters (the number of known classes; choose with -k)" in out
    assert "BruteForce: certified" in out and "ARI 1.000, accuracy 100.0 %" in out
    assert "Optimal: no labelling has an objective below 4.19" in out
    written = labels.read_text(encoding="utf-8").splitlines()
    assert written[0] == "label" and len(written) == 11
    assert np.array_equal(mm.load(saved).labels, np.array(written[1:], dtype=int))

    code, out, err = run("certify", str(saved), "--seconds", "2", "--save", str(tmp_path / "t.npz"))
    assert code == 0 and "checked again, without any solver" in out and "FAIL" not in out
    code, out, _ = run("certify", str(tmp_path / "t.npz"), "--json")
    report = json.loads(out)
    assert code == 0 and report["verified"] and report["after"]["gap"] < 1e-9

    pytest.importorskip("matplotlib")
    assert run(*BRUTE, "--plot", str(picture))[0] == 0
    assert picture.stat().st_size > 2000


def test_solve_json(run):
    code, out, err = run(*BRUTE, "-k", "3", "--kernel", "linear", "--sizes", "2:6", "--json")
    got = json.loads(out)
    assert (code, err) == (0, "")
    assert got["k"] == 3 and len(got["labels"]) == 10 and sum(got["sizes"]) == 10
    assert got["kernel"] == "Linear()" and got["status"] == "certified"
    assert got["lower_bound"] <= got["objective"]


def test_k_without_classes(run, tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, X=np.random.default_rng(0).standard_normal((8, 2)))
    code, out, _ = run("solve", str(path), "--solver", "bruteforce", "-v")
    assert code == 0 and "2 clusters (no classes are known; choose with -k)" in out
    assert "minimise" in out and "seconds: prepare" in out


def test_certify_refuses_a_forged_run(run, tmp_path):
    import dataclasses

    problem = mm.formulations.LeastSquares(mm.datasets.load(TINY)[0])
    result = mm.solve(problem, BruteForce())
    path = str(tmp_path / "forged.npz")
    dataclasses.replace(result, lower_bound=result.objective + 1).save(path)
    code, out, err = run("certify", path)
    assert (code, out) == (2, "") and "does not verify: bound: claimed 5.19" in err


# ---------------------------------------------------------------- the ladder

SMALL = "gaussians:n=26,distance=1,d=3,seed=0"  # too many labelings to try them all
CLIMB = ("--kernel", "gaussian:width=0.3", "--solver", "tabu", "--certify", "20")
RUNGS = [Rung("eig", 0.0, 1.0, 8.0), *(Rung("sdp", 0.1 * i, 2.0 + i / 100, 8.0)
                                       for i in range(1, 100)), Rung("sdp+cuts", 12.0, 4.0, 5.0)]


def _levels(text):
    """Rows of the table of levels in the output: name -> the words behind it."""
    rows = [line.split() for line in text.split("what it is")[1].splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0] in ladder_view.MEANING}


def test_solve_shows_the_ladder(run, tmp_path):
    saved = str(tmp_path / "r.npz")
    code, out, err = run("solve", SMALL, *CLIMB, "--save", saved)
    levels = _levels(out)
    assert code == 0 and list(levels)[:3] == ["eig", "sdp", "sdp+cuts"]
    bounds = [float(row[1]) for row in levels.values()]
    assert bounds == sorted(bounds) and bounds[0] < bounds[1] < bounds[2]
    assert levels["eig"][-3:] == ["eigenvalue", "of", "W"] and "max-cut" in levels["sdp"]
    assert "Optimal: no labelling" in out
    lines = err.splitlines()
    assert all(" bound " in line and " gap " in line for line in lines)
    assert [line.split()[2] for line in lines][:3] == ["eig", "sdp", "sdp+cuts"]

    picture = tmp_path / "l.png"
    code, out, _ = run("certify", saved, "--seconds", "1", "--plot", str(picture))
    (level, row), = _levels(out).items()
    assert code == 0 and " ".join(row).count("known before") == 1
    assert level in ladder_view.MEANING and picture.stat().st_size > 2000


def test_certify_raises_the_bound_of_a_saved_run(run, tmp_path):
    path, tighter = tmp_path / "r.npz", tmp_path / "t.npz"
    problem = mm.formulations.LeastSquares(mm.datasets.load(SMALL)[0], kernel=Gaussian(width=0.3))
    start = mm.solve(problem, Tabu(), seed=0)
    start.save(path)
    code, out, err = run("certify", str(path), "--json", "--seconds", "20", "--save", str(tighter))
    got = json.loads(out)
    assert (code, err) == (0, "") and got["verified"] and got["after"]["gap"] <= 1e-4
    assert [rung[0] for rung in got["ladder"]][0] == "eig" and len(got["ladder"]) <= 50
    assert got["ladder"][0][2] == start.lower_bound
    assert got["ladder"][-1][2] == got["after"]["lower_bound"] == mm.load(tighter).lower_bound
    assert len(mm.load(tighter).ladder) >= len(got["ladder"])


def test_ctrl_c_keeps_the_best_so_far(run, monkeypatch, tmp_path):
    from mmcopt.solvers import BranchAndBound

    monkeypatch.setattr(BranchAndBound, "step", _stop)
    saved = str(tmp_path / "r.npz")
    code, out, _ = run("solve", SMALL, *CLIMB, "--save", saved)
    assert code == 130 and "Interrupted: these are the best labels so far." in out
    assert mm.load(saved).certificate.kind == "sdp+cuts" and mm.load(saved).verify()
    code, out, _ = run("certify", saved, "--seconds", "5")
    assert code == 130 and "Interrupted: this is the best bound so far." in out
    code, out, _ = run("compare", SMALL, "--kernel", "gaussian:width=0.3", "--solvers", "tabu",
                       "--seeds", "2", "--certify", "5", "--json")
    got = json.loads(out)
    assert code == 130 and len(got["rows"]) == 2 and got["interrupted"]
    assert {row["lower_bound"] for row in got["rows"]} == {got["ladder"][-1][2]}
    monkeypatch.setattr("mmcopt.modeling.result.Result.certify", _stop)  # before the first level
    code, out, _ = run("solve", SMALL, *CLIMB)
    assert code == 130 and "objective" in out


def test_json_keeps_the_end_of_each_level():
    kept = ladder_view.thinned(RUNGS)
    assert len(kept) == 50 and kept[0] == ["eig", 0.0, 1.0, 8.0]
    assert ["sdp", 0.1 * 99, 2.99, 8.0] in kept and kept[-1] == ["sdp+cuts", 12.0, 4.0, 5.0]
    assert kept == sorted(kept, key=lambda rung: rung[1])
    assert ladder_view.thinned(RUNGS, most=1) == [kept[0], ["sdp", 0.1 * 99, 2.99, 8.0], kept[-1]]
    assert ladder_view.thinned(()) == []


def test_levels_in_words():
    rows = ladder_view.level_rows([Rung("cheap", 0.0, -np.inf, np.inf), *RUNGS[1:]])
    assert [row["what it is"] for row in rows] \
        == ["no bound yet", "max-cut relaxation", "max-cut relaxation with triangle cuts"]
    assert rows[0]["lower_bound"] is None and rows[0]["gap"] is None
    assert rows[2]["gap"] == pytest.approx(0.2) and rows[1]["seconds"] == pytest.approx(9.9)
    assert ladder_view.meaning("diffrac") == "the relaxation of DIFFRAC"
    assert set(ladder_view.MEANING) >= {"eig", "sdp", "sdp+cuts", "partition", "partition+cuts"}


def test_lines_where_there_is_no_terminal(capsys):
    with ladder_view.LadderWatch(20.0) as watch:
        for rung in RUNGS:
            watch(rung)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["eig", *["sdp"] * 5, "sdp+cuts"]
    assert lines[-1].split(maxsplit=3)[-1] == "bound 4, objective 5, gap 20.0 %"
    with ladder_view.LadderWatch(20.0, quiet=True) as watch:
        watch(RUNGS[0])
    assert capsys.readouterr() == ("", "")


def test_a_table_that_grows_on_a_terminal():
    import io

    from rich.console import Console

    watch = ladder_view.LadderWatch(20.0)
    watch.out = Console(file=io.StringIO(), force_terminal=True, width=100)
    with watch:
        for rung in RUNGS:
            watch(rung)
    shown = watch.out.file.getvalue()
    assert "of 20 s (Ctrl-C keeps the best so far)" in shown and "sdp+cuts" in shown
    assert shown.count("raising the bound") < 10  # drawn by the clock, not by the rung


# ---------------------------------------------------------------- compare


def test_compare_within_a_budget(run):
    code, out, _ = run("compare", TINY, "--solvers", "bruteforce,kmeans,ward", "--seeds", "2",
                       "--budget", "0.05")
    assert code == 0 and "wins, ties and losses over the seeds" in out and "restarts" in out
    assert "BruteForce   kmeans" in out
    code, out, err = run("solve", TINY, "--solver", "kmeans")
    assert code == 2 and "no solver is called 'kmeans'" in err


def test_compare(run, tmp_path):
    saved, picture = tmp_path / "t.md", tmp_path / "p.png"
    code, out, err = run("compare", TINY, "--solvers", "bruteforce,direct", "--seeds", "2",
                         "--save", str(saved))
    assert code == 0 and "lower bound" in out and "BruteForce" in out
    assert f"left out: Direct on {TINY}: it needs LinearSystem" in out
    assert "BruteForce, seed 1: objective 4.19" in err
    assert saved.read_text(encoding="utf-8").startswith("| solver |")
    code, out, err = run("compare", TINY, "--solvers", "bruteforce", "--seeds", "1", "--json",
                         "--certify", "1")
    got = json.loads(out)
    assert (code, err) == (0, "") and got["rows"][0]["gap"] < 1e-9 and got["n"] == 10
    assert got["ladder"][-1][0] == "enumeration"
    code, out, err = run("compare", TINY, "--solvers", "bruteforce", "--seeds", "1",
                         "--certify", "1")
    assert code == 0 and list(_levels(out)) == ["enumeration"] and "enumeration" in err
    pytest.importorskip("matplotlib")
    assert run("compare", TINY, "--solvers", "bruteforce", "--seeds", "1",
               "--plot", str(picture))[0] == 0 and picture.stat().st_size > 2000


# ---------------------------------------------------------------- describe, reproduce, demo


@pytest.mark.parametrize(("name", "words"), [
    ((), ["problems:", "LeastSquares", "solvers:", "BruteForce", "data:", "iris"]),
    ((), ["relaxations, which bound problems:", "sdp+cuts", "partition+cuts"]),
    (("leastsquares",), ["one-versus-all", "minimise", "BruteForce", "fits",
                         "Relaxations of it", "sdp+cuts        with triangle cuts"]),
    (("sdp",), ["sdp: MaxCutRelaxation", "psd", "How tight: the max-cut relaxation",
                "InteriorPoint"]),
    (("Partition",), ["partition: Partition", "problem.relax('partition')"]),
    (("peng-wei",), ["It bounds a relative of the problem and not the problem itself."]),
    (("tabu",), ["moves, as a multiple of n", "a finite number above 0", "LeastSquares"]),
    (("iris",), ["150 samples, 4 features", "3 classes, of 50, 50, 50 samples"]),
])
def test_describe(run, name, words):
    code, out, err = run("describe", *name)
    assert (code, err) == (0, "")
    for word in words:
        assert word in out


def test_reproduce(run, monkeypatch):
    asked = []

    class Report(dict):
        interrupted = False

    def reproduce(paper, **options):
        asked.append((paper, options))
        return Report(cells=[float("nan")])

    fake = types.SimpleNamespace(PAPERS={"umc-rls": "..."}, run=reproduce)
    monkeypatch.setitem(sys.modules, "mmcopt.reproduce", fake)
    assert run("reproduce")[1] == "papers:\n  umc-rls\n"
    code, out, _ = run("reproduce", "umc-rls", "--quick", "--table", "2", "--json")
    assert code == 0 and json.loads(out) == {"cells": [None]}
    assert asked == [("umc-rls", {"table": 2, "quick": True, "out": None, "show": False,
                                  "checkpoint": None, "time_limit": None, "executor": None})]
    Report.interrupted = True
    assert run("reproduce", "umc-rls", "--time-limit", "9", "--executor", "threads")[0] == 130
    assert (asked[1][1]["time_limit"], asked[1][1]["executor"]) == (9.0, "threads")
    assert run("reproduce", "UMC-RLS")[0] == 130 and asked[2][0] == "umc-rls"
    assert run("reproduce", "umc-rls", "--executor", "there")[0] == 2
    assert run("reproduce", "nix")[0::2] == (2, "mmcopt: no paper is called 'nix'; there are "
                                                "umc-rls.\n")


def test_demo_with_one_solver(run, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "SOLVERS", ("BruteForce", "kmeans"))  # need no compiling
    monkeypatch.setattr(demo, "DATA", "gaussians:n=14,distance=4,seed=0")
    code, out, _ = run("demo", "--seconds", "1", "--out", str(tmp_path))
    assert code == 0 and "There are 2^13 ways to split" in out and "(it holds)" in out
    assert "Optimal: no labelling has an objective below" in out and "kmeans" in out
    assert (tmp_path / "mmcopt-demo.png").stat().st_size > 10_000


@pytest.mark.slow
def test_demo(run):
    code, out, _ = run("demo", "--no-plot")
    assert code == 0 and "Memetic" in out and "Picture" not in out
    gap = re.search(r"Memetic .* ([\d.e-]+) %", out)[1]
    assert float(gap) < 1.0 and "(it holds)" in out


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(("argv", "words"), [
    (["solve"], "the following arguments are required: DATA"),
    (["frob"], "no command is called 'frob'; there are demo, "),
    (["solve", "iris", "-k", "x"], "argument -k/--clusters: invalid int value: 'x'"),
    (["solve", "digts"], "there is no data set 'digts' (did you mean 'digits'?)"),
    (["solve", "iris", "-k", "200"], "150 samples cannot fill 200 clusters"),
    (["solve", "iris", "--solver", "tabuu"], "Did you mean Tabu?"),
    (["solve", "iris", "--solver", "tabu,shaking"], "--solver takes one solver"),
    (["solve", "iris", "--solver", "direct"], "Direct cannot solve LeastSquares"),
    (["solve", "iris", "--out", "/no/such/l.csv"], "the folder /no/such does not exist"),
    (["solve", "iris", "--plot", "p.xyz"], "must end in .png, .pdf, .svg; got 'p.xyz'"),
    (["solve", "iris", "--lam", "0"], "lam must be a finite number above 0; got 0.0"),
    (["compare", "iris", "--seeds", "0"], "seeds must be an integer at least 1; got 0"),
    (["compare", "iris", "--solvers", "direct"], "no solver fits any problem"),
    (["compare", "iris", "--save", "t.xls"], "must end in .csv, .json, .md"),
    (["certify", "/no/such/run.npz"], "/no/such/run.npz"),
    (["describe", "nix"], "there is no data set 'nix'"),
    (["demo", "--seconds", "-1"], "argument --time-limit/--seconds: must be a number of seconds, "
     "at least 0; got '-1' (mmcopt demo --help"),
    (["solve", "iris", "--time-limit", "nan"], "--time-limit: must be a number of seconds, at"),
    (["solve", "iris", "--certify", "inf"], "--certify: must be a number of seconds, at least 0"),
    (["compare", "iris", "--budget", "x"], "--budget: must be a number of seconds, at least 0; g"),
    (["compare", "iris", "--budget", "1", "--time-limit", "1"],
     "argument --time-limit: not allowed with argument --budget"),
    (["certify", "x.npz", "--time-limit", "-2"], "must be a number of seconds, at least 0"),
    (["warmup", "--time-limit", ""], "must be a number of seconds, at least 0; got ''"),
    (["reproduce", "mkc", "--time-limit", "x"], "must be a number of seconds, at least 0; got 'x'"),
    (["solve", "iris", "--restarts", "0"], "--restarts: must be a whole number, at least 1"),
    (["solve", "iris", "--timelimit", "3"], "unrecognized arguments: --timelimit 3; did you mean "
     "--time-limit? (mmcopt solve --help"),
    (["data", "fetch", "glass", "--form=x"], "--form=x; did you mean --from? (mmcopt data fetch"),
    (["doctor", "now"], "unrecognized arguments: now (mmcopt doctor --help"),
    (["--versio"], "--versio; did you mean --version? (mmcopt --help"),
    (["solv", "iris"], "no command is called 'solv' (did you mean solve?); there are demo, solve"),
    (["demo", "--out", "/no/such"], "--out /no/such: there is no such folder; make it first"),
])
def test_bad_input(run, argv, words):
    code, _, err = run(*argv)
    assert code == 2 and err.startswith("mmcopt: ") and err.count("\n") == 1
    assert words in err and "Traceback" not in err


def test_other_exit_codes(run, monkeypatch):
    def breaks(*args, **kwargs):
        raise BackendError("the back end\ngave up.")

    def stops(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmcopt.cli.commands.run_solver", breaks)
    assert run(*BRUTE)[0::2] == (1, "mmcopt: the back end gave up.\n")
    assert "Traceback" in run(*BRUTE, "-v")[2]
    monkeypatch.setattr("mmcopt.cli.commands.run_solver", stops)
    assert run(*BRUTE)[0::2] == (130, "mmcopt: interrupted\n")


def test_interrupted_search_prints_its_labels(run, monkeypatch):
    monkeypatch.setattr(BruteForce, "step", _stop)
    code, out, _ = run(*BRUTE)
    assert code == 130 and "Interrupted: these are the best labels so far." in out
    code, out, _ = run("compare", TINY, "--solvers", "bruteforce", "--seeds", "2", "--json")
    assert code == 130 and json.loads(out)["interrupted"] and len(json.loads(out)["rows"]) == 1


def _stop(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_within_an_import_wait_for_its_end(run, monkeypatch, tmp_path, sent, code):
    name = f"interrupted_by_{int(sent)}"
    (tmp_path / f"{name}.py").write_text(
        "import os, time\n"
        "class Meta(type):\n"
        "    def __new__(meta, *args):\n"
        f"        os.kill(os.getpid(), {int(sent)})\n"
        "        for _ in range(3):\n"
        "            time.sleep(0.01)\n"
        "        return super().__new__(meta, *args)\n"
        "class Late(metaclass=Meta):\n"
        "    pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    def works(*args, **kwargs):
        seen.append(importlib.import_module(name).Late)
        time.sleep(20)

    seen = []
    monkeypatch.setattr("mmcopt.cli.commands.run_solver", works)
    assert run(*BRUTE)[0] == code and len(seen) == 1
    assert signal.getsignal(sent) in (signal.SIG_DFL, signal.default_int_handler)


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_a_signal_that_comes_when_all_is_said_changes_nothing(sent):
    done = subprocess.run([sys.executable, "-c", (
        "import atexit, os, signal, sys\n"
        "from mmcopt.cli import command\n"
        f"atexit.register(lambda: os.kill(os.getpid(), signal.{sent}))\n"
        "sys.argv = ['mmcopt', '--version']\n"
        "raise SystemExit(command())\n")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and mm.__version__ in done.stdout


def test_as_a_process():
    done = subprocess.run([sys.executable, "-m", "mmcopt.cli", *BRUTE, "--json"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["status"] == "certified"


def test_columns_of_a_file(run, tmp_path):
    path = tmp_path / "flats.csv"
    path.write_text("id,size,price,rooms\n" + "".join(
        f"f{i},{i % 2 + i / 100},{3 * (i % 2)},{1 + i % 5}\n" for i in range(20)))
    brute = ("solve", str(path), "--solver", "Memetic,pool=2,patience=1")
    code, out, _ = run(*brute)
    assert code == 0 and "3 features; 2 clusters (no classes are known; choose with -k)" in out
    assert "  column 'id' names the rows and is left out" in out
    code, out, _ = run(*brute, "--labels", "rooms", "--columns", "size,3")
    assert code == 0 and "2 features; 5 clusters (the number of known classes" in out
    assert "  the classes are those of column 'rooms'" in out and "names the rows" not in out
    code, _, err = run(*brute, "--labels", "floors")
    assert code == 2 and "labels='floors' is no heading" in err
    assert run(*brute, "--labels", "rooms", "--no-labels")[0] == 2
    assert "5 classes" not in run("describe", str(path))[1]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_tables_keep_their_first_column_and_whole_numbers(width, monkeypatch, capsys):
    from rich.console import Console

    rows = [{"solver": "Evolutionary, mu = 7", "runs": 12, "best": 1234.56789, "mean": 1250.25,
             "hits": 0.5, "seconds": 0.123456, "bound": 1111.11111, "gap": 0.1, "ari": 0.98765},
            {"solver": "Tabu", "runs": 5, "best": 1.5, "mean": 1.75, "hits": 1.0,
             "seconds": 12.5, "bound": 1.25, "gap": 1e-14, "ari": -0.01}]
    monkeypatch.setattr(console, "console", lambda: Console(
        file=sys.stdout, width=width, highlight=False, markup=False))
    console.show_table(rows, list(rows[0]), "title")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width and "…" not in out
    assert out.count("Evolutionary, mu = 7") == out.count("Tabu") == out.count(" solver")
    assert (out.count("Tabu") == 1) == (width >= 120) and out.count("title") == 1
    for row in rows:
        for column, value in row.items():
            assert console.cell(column, value) in out


def test_doctor_tells_what_is_there(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for text in ("Python", "numpy", "threads", f"0 files in {tmp_path}", "GPL-3.0", "cvxopt"):
        assert text in out, text
    monkeypatch.setattr("mmcopt.cli.doctor._version", lambda package: None)
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path / "none"))
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all(row["version"] == "not installed" for row in told["packages"])
    assert told["facts"]["data sets"].endswith("which is no folder")


def test_pages_of_solve_and_compare(capsys, tmp_path):
    page = tmp_path / "page.html"
    for command, *options in (("solve", "--solver", "Tabu"), ("compare", "--solvers", "Tabu")):
        assert main([command, "gaussians:n=20", *options, "--html", str(page)]) == 0
        assert "<svg" in page.read_text(encoding="utf-8")
        page.unlink()
    assert main(["solve", "gaussians:n=20", "--html", str(tmp_path / "page.pdf")]) == 2
    assert ".html" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_picture_that_cannot_be_drawn_costs_no_answer(run, tmp_path, options):
    (tmp_path / "g.mc").write_text("4 3\n1 2 1\n2 3 1\n3 4 1\n")
    code, out, err = run("solve", str(tmp_path / "g.mc"), "--formulation", "MaxCut", "--solver",
                         "BruteForce", "--plot", str(tmp_path / "p.png"),
                         "--html", str(tmp_path / "p.html"), *options)
    assert code == 2 and "objective" in out and err.count("mmcopt: ") == 1
    assert "no picture in" in err and "has no data that could be drawn" in err
    assert (tmp_path / "p.html").exists() and not (tmp_path / "p.png").exists()


def test_help_names_all_families(run):
    _, out, _ = run("solve", "--help")
    assert "KernelKMeans, DiscriminativeKMeans, CPM3C" in " ".join(out.split())
