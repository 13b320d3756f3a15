"""Every script in examples/ runs, quickly, and ends with a table that shows a bound."""

import ast
import contextlib
import functools
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
from typing import NamedTuple

import pytest
from tree import cloned

from mmcopt import registry

ROOT = pathlib.Path(__file__).parents[1]
DATA = os.environ.get("MMCOPT_DATA")
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
ASIDE = {"your_own": {"mmcopt.checks", "mmcopt.solving"},  # what a solver is written with
         "proved_optimum": {"mmcopt.bounds"}, "proved_margin": {"mmcopt.bounds"}}


class Run(NamedTuple):
    """What a script printed, and the folder it ran in."""

    out: str
    folder: pathlib.Path


@contextlib.contextmanager
def settings(folder, data=None):
    """Run quickly and without windows, and forget the classes that a script adds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMCOPT_QUICK", "1")
        patch.setenv("MPLBACKEND", "Agg")
        patch.delenv("MMCOPT_DATA", raising=False)
        if data is not None:
            patch.setenv("MMCOPT_DATA", data)
        patch.chdir(folder)
        registry.solvers()  # all of ours, before those that scripts add are forgotten again
        patch.setattr(registry, "_solvers", dict(registry._solvers))
        patch.setattr(registry, "_formulations", dict(registry._formulations))
        yield
    if "matplotlib.pyplot" in sys.modules:
        import matplotlib.pyplot as plt

        plt.close("all")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a script in this process, where the loops are compiled once; each just once."""

    @functools.cache
    def _run(name, data=None):
        folder = tmp_path_factory.mktemp(name)
        out, err = io.StringIO(), io.StringIO()
        with settings(folder, data), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        assert err.getvalue() == ""
        return Run(out.getvalue(), folder)

    return _run


def test_there_is_one_script_for_each_idea():
    assert {p.stem for p in SCRIPTS} >= {
        "a_million_points", "certified_kmeans", "choosing_domains", "choosing_parameters",
        "compare_margin_solvers", "compare_solvers", "compose", "evommc", "how_good_is_kmeans",
        "kmeans_in_the_table", "mkc_weights", "own_constraint", "printed_cut", "proved_optimum",
        "relaxation_ladder", "sgd_lmsvc", "shapes", "signed_graph", "text", "umc_rls", "your_own"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_script_prints_a_table_with_objective_bound_and_gap(run, path):
    out, folder = run(path.stem)
    heads = [line for line in out.splitlines() if re.search(r"\bbound\b.*\bgap\b", line)
             and re.search(r"\b(objective|best)\b", line)]
    assert heads, out
    assert re.search(r"\d\s?%", out)
    assert max(map(len, out.splitlines())) < 500
    made = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
    assert all(p.parts[0] == "runs" and p.suffix == ".png" for p in made), made


def test_the_comparison_of_solvers_draws_pictures(run):
    pytest.importorskip("matplotlib")
    out, folder = run("compare_solvers")
    pictures = sorted(p.name for p in (folder / "runs").iterdir())
    assert pictures == ["compare_solvers-box.png", "compare_solvers-time.png"]
    assert all(f"runs/{name}" in out for name in pictures)


def test_shapes_and_sizes_ask_for_other_objectives(run):
    ari = {tuple(row[:2]): float(row[2]) for row in re.findall(
        r"^(moons|sizes) +(\w+(?: on \w+)?) .* % +(-?[\d.]+)$", run("shapes").out, re.M)}
    assert len(ari) == 8
    on_graph = [ari[name, "KernelKMeans on Neighbors"] for name in ("moons", "sizes")]
    assert min(*on_graph, ari["sizes", "DiscriminativeKMeans"]) > 0.9
    assert max(ari["moons", "KernelKMeans"], ari["sizes", "LeastSquares"]) < 0.6


@pytest.mark.parametrize("name", ["compare_margin_solvers", "mkc_weights", "proved_margin",
                                  "shapes"])
def test_a_script_about_margins_draws_one_picture(run, name):
    pytest.importorskip("matplotlib")
    out, folder = run(name)
    assert f"wrote runs/{name}.png" in out
    assert [p.name for p in (folder / "runs").iterdir()] == [f"{name}.png"]


def test_one_bound_holds_for_all_solvers_of_a_margin_problem(run):
    out = run("compare_margin_solvers").out
    rows = re.findall(r"^(\S.*?)  +(\d+) +(\S+) +(\S+) +\d+ % +\S+ +(\S+) +\S+ % ", out, re.M)
    assert [row[0] for row in rows if row[0] != "found while certifying"] == [
        "cutting planes, pair cuts", "cutting planes, printed cuts", "stochastic subgradients",
        "alternating", "k-means (evaluated)", "alternating from k-means"]
    assert len({row[4] for row in rows}) == 1
    assert all(0 < float(bound) < float(best) <= float(mean) for _, _, best, mean, bound in rows)


def text_of(out):
    """Objectives and accuracies of the two lines of the table of examples/text.py."""
    return {name: (float(objective), float(accuracy)) for name, objective, accuracy in
            re.findall(r"^(k-means|CPM3C) +(\S+) +\S+ +\S+% +(\S+)%", out, re.M)}


def test_a_signed_graph_takes_no_more_clusters_than_it_needs(run):
    out = run("signed_graph").out
    rows = [line.split() for line in out.partition("clusters allowed")[2].splitlines()[1:]]
    values = [float(objective) for _, _, objective, *_ in rows]
    assert values == sorted(values, reverse=True) and values[-1] == values[-2]
    assert [int(used) for _, used, *_ in rows][-2:] == [4, 4]


def test_text_stays_sparse_and_its_classes_have_words(run):
    out = run("text").out
    assert "made up in this script" in out and "Sparse in the problem: True" in out
    found = text_of(out)
    assert found["CPM3C"][0] <= found["k-means"][0] and found["CPM3C"][1] > 85
    assert "word" not in "".join(re.findall(r"^class \d: .*", out, re.M))  # words of topics
    dense, held = (float(re.search(pattern, out).group(1))
                   for pattern in (r"(\d+) MB if dense", r"at a time: (\S+) MB"))
    assert held < dense / 3


@pytest.mark.skipif(DATA is None, reason="MMCOPT_DATA is not set")
def test_text_is_that_of_the_news_where_they_are(run):
    out = run("text", DATA).out
    assert "3970 articles of four groups of 20-newsgroups" in out
    assert text_of(out)["CPM3C"][1] > 93
    assert {"hockey", "baseball", "bike", "car"} <= set(re.findall(r"^class \d: (\w+)", out, re.M))


def test_a_problem_and_a_solver_of_the_readers_own_are_treated_like_ours(run):
    out = run("your_own").out
    assert re.search(r"^Metropolis +fits$", out, re.M)
    assert "Metropolis fits: Diffrac, LeastSquares, MaxCut, QUBO, Seating" in out
    assert "Metropolis on Seating: certified" in out  # by trying every seating
    assert "ParameterError: Metropolis: hot must be a finite number above 0; got 0.0." in out
    assert "Did you mean Metropolis?" in out
    assert "Direct cannot solve Seating: it needs LinearSystem, which this Seating does not " in out


def test_labels_of_kmeans_are_bounded_in_plain_sentences(run):
    out = run("how_good_is_kmeans").out
    assert re.search(r"The labels of k-means are at most \S+ % from the best possible labels", out)
    assert "ok   bound: claimed" in out and "FAIL" not in out


def test_the_relaxations_are_ordered_as_theory_says(run):
    out = run("relaxation_ladder").out
    rows = {line.split()[0]: line.split() for line in out.split("by a conic solver")[1].splitlines()
            if line.split()[1:2] and re.match(r"\d+\.\d+$", line.split()[1])}
    value = {kind: float(row[1]) for kind, row in rows.items()}
    assert value["eig"] <= value["diffrac"] <= value["partition"] <= value["partition+cuts"]
    assert value["eig"] <= value["sdp"] <= value["sdp+cuts"] + 1e-4
    for row in rows.values():
        assert float(row[2]) <= float(row[3]) + 1e-4  # bound, objective


def test_a_proof_is_shown_checked_and_refused_once_it_is_changed(run):
    out = run("proved_optimum").out
    assert re.search(r"^all labelings +\d\.\d+  (split|none is better)$", out, re.M)
    loaded, changed = out.split("One leaf tampered with")
    assert "Checked again after loading, without any solver: True" in loaded
    assert "FAIL" not in loaded and changed.count("FAIL bound") == 3


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_a_proof_that_is_not_ended_is_not_called_one(tmp_path, capsys, monkeypatch, steps):
    with settings(tmp_path):
        script = runpy.run_path(str(ROOT / "examples" / "proved_optimum.py"))
        solve = script["mm"].solve
        monkeypatch.setattr(script["mm"], "solve", lambda problem, *args, **options: solve(
            problem, *args, **{**options, "max_iter": steps} if args else options))
        script["main"]()
    out = capsys.readouterr().out
    if re.search(r"^branch and bound .* 0\.00\d+ %$", out, re.M):
        assert "None is better" in out
    else:
        assert "None is better" not in out
        assert "None can be better by more than" in out or "did not suffice for a tree" in out


def test_a_constraint_of_the_readers_own_keeps_the_relaxation_below_the_optimum(run):
    out = run("own_constraint").out
    rows = re.findall(r"(?:CLARABEL|SCS) +(\S+) +(\S+) +(\S+) +\S+ %$", out, re.M)
    assert len(rows) == 6
    for value, bound, objective in rows:
        assert float(value) <= float(objective) and float(bound) <= float(objective)
    assert out.count("verified: True") == 2


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_script_says_what_it_teaches_and_uses_public_names(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "What it teaches:" in (ast.get_docstring(tree) or "")
    assert "main" in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    public = {"mmcopt", "mmcopt.constraints", "mmcopt.estimators", "mmcopt.formulations",
              "mmcopt.kernels", "mmcopt.solvers"} | ASIDE.get(path.stem, set())
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module] if isinstance(node, ast.ImportFrom) else []
        assert all(n in public for n in names if n.split(".")[0] == "mmcopt"), names
        if isinstance(node, ast.Attribute):
            assert not re.match(r"_[a-z]", node.attr), node.attr
            assert node.attr != "show"


@cloned
def test_what_the_scripts_write_is_ignored_by_git():
    done = subprocess.run(["git", "check-ignore", "-q", "runs/picture.png"], cwd=ROOT)
    assert done.returncode == 0


def test_the_printed_cut_raises_objectives_and_no_class_is_lost(run):
    """The data must show what the script says of them: with a class lost, nothing is compared."""
    rows = dict(re.findall(r"^(pair|paper) +(.*)$", run("printed_cut").out, re.M))
    (_, masters, rises, lost, *_), (_, _, printed, gone, *_) = (rows[cut].split()
                                                               for cut in ("pair", "paper"))
    assert int(masters) > 50 and int(rises) == 0 < int(printed) and int(lost) == int(gone) == 0
