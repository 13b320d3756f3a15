"""Every clustering formulation through the command line: results, options, refusals, JSON."""

import inspect
import json
import re

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.cli import parser as cli
from mmcopt.cli import task
from mmcopt.cli.parse import LOSSES, parse_kernel, parse_loss
from mmcopt.errors import BackendError, ParameterError
from mmcopt.kernels import Gaussian, Linear, Neighbors
from mmcopt.margins import Hinge, Logistic, SquaredHinge

TWO = "gaussians:n=24,distance=8,seed=0"
THREE = "blobs:n=36,k=3,sd=.3,seed=1"
MOONS = "moons:n=120,noise=.05,seed=0"
FAMILIES = ["CPM3C", "Diffrac", "DiscriminativeKMeans", "Hypersphere", "KernelKMeans",
            "LeastSquares", "MKC", "MaxCut", "OneClassHinge", "QUBO"]
MATRICES = ["MaxCut", "QUBO"]
DOMAINS = ["OneClassHinge", "Hypersphere"]


@pytest.fixture
def told(run):
    """The JSON of a command that succeeds."""
    def call(*argv):
        code, out, err = run(*argv, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


# ---------------------------------------------------------------- which problems, which options


def test_the_formulations_are_those_that_need_only_samples():
    assert list(task.clusterings()) == FAMILIES
    assert task.clustering("cpm3C").__name__ == "CPM3C"


def test_every_parameter_has_an_option():
    known = {p for names in task.PARAMETERS.values() for p in names}
    beyond = {"sample_weight", "c"}  # one a sample: Python
    for name, cls in task.clusterings().items():
        names = set(inspect.signature(cls).parameters) - {"X", "W", "Q"}
        assert names - known <= beyond, name
        assert set(task.taken(cls).values()) - {""} == names & known


def test_the_help_names_all_problems_and_what_is_typed_for_them():
    for name, cls in task.clusterings().items():
        assert re.search(rf" {name} +(--|the same)", cli.FAMILIES)
        for line in re.findall(rf"mmcopt \w+ \S+ (.*--formulation {name} .*)", cli.SOLVE):
            typed = set(re.findall(r"--[\w-]+", line))
            ours = {f"--{option.replace('_', '-')}" for option in task.PARAMETERS}
            assert typed & ours <= set(task.flags(cls))


@pytest.mark.parametrize(("name", "parameter"), [("LeastSquares", "lam"), ("Diffrac", "kappa"),
                                                 ("CPM3C", "beta"), ("MKC", "p"), ("MKC", "C"),
                                                 ("OneClassHinge", "C"), ("Hypersphere", "C")])
def test_the_help_names_the_defaults(name, parameter):
    default = inspect.signature(task.clustering(name)).parameters[parameter].default
    assert f"{default:g}" in re.findall(r"[\d.]*\d", _help_of(parameter))


def _help_of(option):
    parser = cli.build_parser()
    actions = next(a for a in parser._actions if a.choices).choices["solve"]._actions
    return next(a.help for a in actions if f"--{option}" in a.option_strings)


@pytest.mark.parametrize(("text", "loss"), [("hinge", Hinge()), ("Squared-Hinge", SquaredHinge()),
                                            ("squared_hinge", SquaredHinge()),
                                            ("logistic", Logistic())])
def test_losses(text, loss):
    assert parse_loss(text) == loss
    assert set(LOSSES) == {"hinge", "squared-hinge", "logistic"}
    with pytest.raises(ParameterError, match="no loss is called 'hing' .did you mean hinge"):
        parse_loss("hing")


def test_kernels_of_few_directions():
    assert parse_kernel("linear.pca:0.9") == Linear().pca(0.9)
    assert parse_kernel("neighbors.unit") == Neighbors().unit()
    assert parse_kernel("neighbors:5,weights=binary,t=20.pca:rank=60") \
        == Neighbors(5, "binary", 20).pca(rank=60)
    assert parse_kernel("linear.pca") == Linear().pca()


# ---------------------------------------------------------------- margins


def test_two_classes_by_a_margin(run, told):
    code, out, err = run("solve", TWO, "--formulation", "cpm3c", "--beta", "0.1")
    assert (code, err) == (0, "")
    assert "CPM3C: beta = 0.1, loss = Hinge()" in out and "10 starts: converged" in out
    assert re.search(r"sizes +12, 12\n", out) and "ARI 1.000" in out
    assert "No bound but 0 is known" in out and "; --certify SECONDS raises it." in out
    got = told("solve", TWO, "--formulation", "CPM3C", "--beta", "0.1", "--loss", "squared-hinge",
               "--kernel", "gaussian:width=0.5", "--no-normalize", "--restarts", "2")
    assert got["parameters"] == {
        "beta": 0.1, "loss": "SquaredHinge()", "balance": None, "kernel": "Gaussian(width=0.5)",
        "center": True, "normalize": False, "size_floor": 0.0, "bias": 0.0}
    assert got["problem"] == "CPM3C" and got["sizes"] == [12, 12] and got["ari"] == 1.0


def test_three_classes_have_a_floor_and_begin_at_means(run, told, monkeypatch):
    seen = []
    solve = mm.solve
    monkeypatch.setattr("mmcopt.cli.commands.run_solver",
                        lambda *a, **kw: seen.append(kw) or solve(*a, **kw))
    got = told("solve", THREE, "--formulation", "CPM3C")
    assert got["parameters"]["size_floor"] == 0.8 and min(got["sizes"]) >= 9
    assert (seen[-1]["init"], seen[-1]["restarts"]) == ("kmeans", 10)
    told("solve", THREE, "--formulation", "CPM3C", "--init", "random", "--restarts", "2")
    assert (seen[-1]["init"], seen[-1]["restarts"]) == ("random", 2)
    told("solve", TWO, "--formulation", "CPM3C")
    assert seen[-1]["init"] == "random"


def test_a_floor_yields_to_a_solver_that_takes_none(told, run):
    asked = ("solve", THREE, "--formulation", "CPM3C", "--solver", "sgd")
    assert told(*asked)["parameters"]["size_floor"] == 0.0
    code, _, err = run(*asked, "--size-floor", "0.5")
    assert code == 2 and "SGD cannot solve CPM3C" in err


def test_a_caution_is_a_note(run, told):
    collapsed = ("solve", TWO, "--formulation", "CPM3C", "--beta", "1000")
    code, out, err = run(*collapsed)
    assert (code, err) == (0, "") and "Note: CPM3C: the solution has collapsed" in out
    assert any("collapsed" in note for note in told(*collapsed)["notes"])
    _, out, _ = run("solve", TWO, "--formulation", "CPM3C", "--balance", "1")
    assert "Note: centred features are balanced by themselves" in out
    _, out, _ = run("solve", TWO, "--formulation", "CPM3C", "--balance", "1", "--no-center")
    assert "Note" not in out and "balance = 1" in out
    advice = "start from init='kmeans'."
    assert "--init kmeans" in mm.cli.answer.in_options(advice)


def test_the_ladder_of_a_margin(run, told, tmp_path):
    saved = str(tmp_path / "r.npz")
    code, out, err = run("solve", TWO, "--formulation", "CPM3C", "--beta", "0.3", "--certify", "5",
                         "--save", saved)
    assert code == 0 and " lifted " in out and "the lifted margin" in out and "lifted" in err
    assert "no solution" in out and "which is proved." in out
    after = told("certify", saved, "--seconds", "1")["after"]
    assert after["lower_bound"] > 0 and after["certificate"] != "own"


def test_a_climb_that_breaks_loses_nothing(run, monkeypatch):
    def breaks(*args, **kwargs):
        raise BackendError("the back end\ngave up.")

    monkeypatch.setattr("mmcopt.modeling.result.Result.certify", breaks)
    asked = ("solve", TWO, "--formulation", "CPM3C", "--certify", "1")
    code, out, _ = run(*asked)
    assert code == 1 and re.search(r"sizes +12, 12\n", out)
    assert "Note: raising the bound failed: the back end gave up.\n" in out
    assert json.loads(run(*asked, "--json")[1])["notes"] \
        == ["raising the bound failed: the back end gave up."]


def test_several_kernels(run, told):
    asked = ("solve", TWO, "--formulation", "MKC", "--kernel", "linear",
             "--kernel", "gaussian:width=0.5", "--C", "20", "--restarts", "2")
    code, out, err = run(*asked)
    assert (code, err) == (0, "") and "kernels = Linear() | Gaussian(width=0.5), C = 20" in out
    assert re.search(r"kernel weights +0\.\d+ Linear\(\), 0\.\d+ Gaussian\(width=0.5\)\n", out)
    got = told(*asked, "--p", "1")
    assert len(got["kernel_weights"]) == 2 and sum(got["kernel_weights"]) == pytest.approx(1)
    assert got["parameters"]["kernels"] == ["Linear()", "Gaussian(width=0.5)"]
    assert "kernel_weights" not in told("solve", TWO, "--formulation", "CPM3C")


# ---------------------------------------------------------------- domains


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_and_its_clusters(run, told, name, tmp_path):
    labels = tmp_path / "l.csv"
    code, out, err = run("solve", MOONS, "--formulation", name, "--out", str(labels))
    assert (code, err) == (0, "") and "kernel and C chosen from their distances" in out
    assert re.search(r"inside +\d+ of 120 samples, \d+ of them on the boundary\n", out)
    assert "2 (connected parts of the domain)" in out and "ARI 1.000" in out
    written = np.loadtxt(labels, skiprows=1, dtype=int)
    got = told("solve", MOONS, "--formulation", name)
    assert got["k"] == 2 and got["sizes"] == [60, 60] and got["labels"] == written.tolist()
    assert sum(got["domain"][w] for w in ("inside", "outside")) == 120 and got["gap"] < 1e-3


def test_the_domain_printed_is_the_domain_made(told):
    got = told("solve", MOONS, "--formulation", "OneClassHinge")
    again = told("solve", MOONS, "--formulation", "OneClassHinge", "--C",
                 str(got["parameters"]["C"]), "--kernel",
                 "gaussian:" + re.search("gamma=[^)]*", got["kernel"]).group(0))
    assert again["objective"] == got["objective"] and again["labels"] == got["labels"]
    sphere = told("solve", MOONS, "--formulation", "Hypersphere")
    assert sphere["kernel"] == got["kernel"] and sphere["labels"] == got["labels"]
    f = mm.formulations.Hypersphere(mm.datasets.load(MOONS)[0], C=sphere["parameters"]["C"],
                                    kernel=parse_kernel("gaussian:" + re.search(
                                        "gamma=[^)]*", got["kernel"]).group(0)))
    half, _ = f.half_space(mm.solve(f, "Libsvm").point)
    assert half.C == pytest.approx(got["parameters"]["C"], rel=1e-2)


def test_a_number_of_clusters_is_read_from_the_tree(run, told):
    got = told("solve", THREE, "--formulation", "OneClassHinge", "-k", "3")
    assert len(got["sizes"]) == 3 and got["ari"] == 1.0
    code, out, _ = run("solve", THREE, "--formulation", "OneClassHinge", "-k", "3")
    assert code == 0 and "3 (the clearest peaks, as many as asked)" in out
    code, _, err = run("solve", MOONS, "--formulation", "OneClassHinge", "-k", "9", "--kernel",
                       "gaussian:gamma=1", "--C", "100")
    assert code == 2 and "-k 9 is more than this domain shows" in err and err.count("\n") == 1


def test_one_part_is_no_end(run):
    asked = ("solve", TWO, "--formulation", "OneClassHinge", "--kernel", "gaussian:width=2")
    assert "Note: the domain is in one part; -k K reads K clusters" in run(*asked)[1]
    assert "one part" not in run(*asked, "-k", "1")[1]


def test_classes_choose_nothing_in_a_domain(told, tmp_path):
    X, y = mm.datasets.load(MOONS)
    plain, wrong = str(tmp_path / "a.npz"), str(tmp_path / "b.npz")
    np.savez(plain, X=X)
    np.savez(wrong, X=X, y=np.arange(120) % 5)
    first, second = (told("solve", path, "--formulation", "OneClassHinge")
                     for path in (plain, wrong))
    assert first["labels"] == second["labels"] and first["kernel"] == second["kernel"]
    assert "ari" not in first and "ari" in second


def test_an_empty_domain_has_no_clusters(run, told):
    asked = ("solve", MOONS, "--formulation", "OneClassHinge", "--kernel", "gaussian:gamma=5",
             "--C", "1")
    code, out, err = run(*asked)
    assert (code, err) == (0, "") and re.search(r"clusters +none\n", out)
    assert "inside       0 of 120 samples\n" in out and "domains begin above C = " in out
    assert told(*asked)["sizes"] == [] and "ari" not in told(*asked)
    code, out, _ = run("solve", MOONS, "--formulation", "Hypersphere", "--kernel", "linear")
    assert code == 0 and "no clusters were read from the domain" in out


def test_a_domain_has_no_ladder(run, told, tmp_path):
    saved = str(tmp_path / "r.npz")
    code, out, _ = run("solve", MOONS, "--formulation", "OneClassHinge", "--solver", "sgd",
                       "--certify", "1", "--save", saved)
    assert code == 0 and "Note: OneClassHinge is convex: its solver proves the bound" in out
    assert "no domain at all can be below the bound" in out
    code, out, _ = run("certify", saved, "--seconds", "1")
    assert code == 0 and "FAIL" not in out and "is convex: its solver proves the bound" in out
    code, out, _ = run("solve", MOONS, "--formulation", "Hypersphere", "--certify", "1")
    assert code == 0 and "Note" not in out and "Optimal: no domain has an objective below" in out


@pytest.mark.parametrize(("data", "name"), [(MOONS, "OneClassHinge"), ("iris", "OneClassHinge"),
                                            (TWO, "CPM3C")])
def test_pictures(run, tmp_path, data, name):
    pytest.importorskip("matplotlib")
    path = tmp_path / "p.png"
    code, _, err = run("solve", data, "--formulation", name, "--plot", str(path))
    assert (code, err) == (0, "") and path.stat().st_size > 5000


# ---------------------------------------------------------------- labels, comparisons, words


def test_labels_of_the_other_least_squares(run, told):
    brute = ("solve", "gaussians:n=10,distance=4,seed=0", "--solver", "bruteforce")
    got = told(*brute, "--formulation", "diffrac", "--kappa", "0.01", "--sizes", "5:5")
    assert got["parameters"]["kappa"] == 0.01 and got["sizes"] == [5, 5]
    _, out, _ = run(*brute, "--formulation", "diffrac")
    assert "Note: without sizes the best is often one big cluster" in out
    _, out, _ = run(*brute, "--scaling", "mean", "--sizes", ":8")
    assert "lam = 0.1, scaling = 'mean', sizes = Sizes(high=8)" in out


def test_compare_takes_what_fits(run, told):
    got = told("compare", TWO, "--formulation", "CPM3C", "--seeds", "1", "--beta", "0.1")
    assert {row["solver"] for row in got["rows"]} >= {"Alternating", "CuttingPlane", "SGD"}
    assert got["problem"] == "CPM3C" and got["parameters"]["beta"] == 0.1 and not got["refused"]
    got = told("compare", MOONS, "--formulation", "OneClassHinge", "--seeds", "1", "--certify", "1")
    assert {"DualCoordinate", "SGD"} <= {row["solver"] for row in got["rows"]}
    assert all(row["ari"] is None for row in got["rows"])  # inside or outside are no clusters
    assert all(row["gap"] < 0.02 for row in got["rows"])
    code, out, _ = run("compare", THREE, "--formulation", "CPM3C", "--solvers", "sgd", "--seeds",
                       "2", "--beta", "1000")
    assert code == 0 and "Note: in some runs: CPM3C: the solution has collapsed" in out
    assert "size_floor" not in out


def test_tables_keep_long_names_and_all_numbers(run):
    code, out, _ = run("compare", TWO, "--formulation", "CPM3C", "--seeds", "1", "--solvers",
                       "cuttingplane,max_masters=7,max_cuts=200,epsilon=0.02")
    assert code == 0 and "…" not in out and "1.000" in out


def test_describe_says_what_to_type(run):
    code, out, _ = run("describe", "mkc")
    assert code == 0 and "mmcopt solve DATA --formulation MKC, which takes" in out
    assert "--kernel --C --p --loss" in out
    assert "From a shell" not in run("describe", "CrammerSinger")[1]


def test_a_relaxation_of_the_name_of_a_problem_is_found_by_its_class(run, monkeypatch):
    kinds = {**mm.registry.relaxations(), "cpm3c": mm.registry.formulation("Lifted")}
    monkeypatch.setattr("mmcopt.registry.relaxations", lambda: kinds)
    code, out, _ = run("describe", "CPM3C")
    assert code == 0 and out.startswith("CPM3C\n")
    assert out.endswith("A relaxation is called so, too: mmcopt describe Lifted\n")


@pytest.mark.parametrize(("argv", "words"), [
    (["--formulation", "cpm3"], "no formulation is called 'cpm3' (did you mean CPM3C?); there are "
                                "CPM3C, Diffrac"),
    (["--formulation", "lifted"], "Lifted is not stated for samples alone"),
    (["--formulation", "CrammerSinger"], "CrammerSinger is not stated for samples alone"),
    (["--formulation", "CPM3C", "--lam", "2"],
     "CPM3C takes no --lam; it takes --clusters, --kernel, --beta, --loss, --balance"),
    (["--beta", "2"], "LeastSquares takes no --beta; it takes --clusters, --kernel, --lam"),
    (["--formulation", "MKC", "--beta", "2"], "MKC takes no --beta; it takes"),
    (["--formulation", "OneClassHinge", "--size-floor", "1"],
     "OneClassHinge takes no --size-floor; it takes --clusters, --kernel, --C."),
    (["--formulation", "Hypersphere", "--init", "kmeans"], "Hypersphere takes no --init"),
    (["--formulation", "OneClassHinge", "--no-center"], "OneClassHinge takes no --no-center"),
    (["--kernel", "linear", "--kernel", "cosine"],
     "LeastSquares takes one --kernel, which may be a sum such as linear+cosine; MKC takes"),
    (["--formulation", "MKC", "--kernel", "linear", "--kernel", "cosin"], "did you mean cosine?"),
    (["--formulation", "MKC", "--C", "0"], "MKC: C must be a finite number above 0; got 0.0"),
    (["--formulation", "MKC", "--p", "0.5"], "MKC: p must be a finite number at least 1"),
    (["--formulation", "MKC", "--C", "x"], "argument --C: invalid float value: 'x'"),
    (["--formulation", "CPM3C", "--beta", "0"], "CPM3C: beta must be"),
    (["--formulation", "CPM3C", "--loss", "hing"], "(did you mean hinge?)"),
    (["--formulation", "CPM3C", "--size-floor", "2"], "CPM3C: size_floor must be"),
    (["--formulation", "CPM3C", "-k", "1"], "CPM3C: n_clusters must be an integer at least 2"),
    (["--formulation", "OneClassHinge", "-k", "0"], "--clusters: K must be None or an integer at"),
    (["--formulation", "OneClassHinge", "--C", "-1"], "OneClassHinge: C must be"),
    (["--formulation", "OneClassHinge", "--C", "0.5"], "give a larger C, or leave it out."),
    (["--formulation", "Hypersphere", "--C", "0.5"], "Hypersphere: C must be"),
    (["--formulation", "OneClassHinge", "--solver", "tabu"], "Solvers that fit this OneClassHinge"),
    (["--scaling", "half"], "scaling must be one of 'sum', 'mean'"),
])
def test_bad_options(run, argv, words):
    code, out, err = run("solve", TWO, *argv)
    assert code == 2 and err.startswith("mmcopt: ") and err.count("\n") == 1
    assert words in err and "Traceback" not in err and "objective" not in out


def test_choosing_a_domain_is_for_few_samples(run, monkeypatch):
    monkeypatch.setattr("mmcopt.estimators.domains.CONDENSED", 100)
    code, _, err = run("solve", MOONS, "--formulation", "OneClassHinge")
    assert code == 2 and "are chosen for up to 100 samples, and here are 120" in err
    code, out, _ = run("solve", MOONS, "--formulation", "OneClassHinge", "--kernel",
                       "gaussian:gamma=20")
    assert code == 0 and repr(Gaussian(gamma=20.0)) in out and "chosen" not in out


@pytest.mark.as_given
@pytest.mark.parametrize("name", MATRICES)
def test_graphs_and_matrices(name, told, run, tmp_path):
    path = tmp_path / "graph.mc"
    path.write_text("3 2\n1 2 5\n2 3 -1\n")
    found = told("solve", str(path), "--formulation", name)
    assert (found["problem"], found["n"], found["status"]) == (name, 3, "certified")
    assert found["objective"] == {"MaxCut": -5.0, "QUBO": -2.0}[name]
    code, out, _ = run("solve", str(path), "--formulation", name)
    assert code == 0 and "3 x 3 entries; " + name in out and ("cut" in out) == (name == "MaxCut")
    code, _, err = run("solve", TWO, "--formulation", name)
    assert code == 2 and "must be a square matrix" in err
    code, _, err = run("solve", str(path), "--formulation", name, "-k", "3")
    assert code == 2 and "takes no --clusters; it takes --init" in err


# ---------------------------------------------------------------- what is known of labels


def test_known_labels_and_links_hold(told, tmp_path):
    free = told("solve", TWO, "--solver", "tabu")["labels"]
    a, b = (free.index(v) for v in (0, 1))
    held = told("solve", TWO, "--solver", "tabu", "--known", f"{a}:1", "--must-link", f"{a}-{b}")
    assert held["labels"][a] == held["labels"][b] == 1
    (tmp_path / "links.csv").write_text(f"{a},{free.index(0, a + 1)}\n\n", encoding="utf-8")
    held = told("solve", TWO, "--solver", "tabu", "--cannot-link", str(tmp_path / "links.csv"))
    assert held["labels"][a] != held["labels"][free.index(0, a + 1)]


@pytest.mark.parametrize(("options", "words"), [
    (["--known", "3"], "--known: cannot read '3'; write SAMPLE:CLUSTER, as in 0:1,5:0."),
    (["--known", "0:1,0:0"], "--known: sample 0 cannot be in the clusters 1 and 0"),
    (["--known", "nix.csv"], "--known: 'nix.csv' is neither a file nor of the form SAMPLE:CLUSTER"),
    (["--must-link", "3-4-5"], "--must-link: cannot read '3-4-5'; write SAMPLE-SAMPLE"),
    (["--cannot-link", "3-400"], "CannotLink: pair (3, 400) names a sample that does not exist"),
    (["--formulation", "CPM3C", "--known", "0:1"], "CPM3C takes no --known")])
def test_what_cannot_be_known_is_refused(run, options, words):
    code, _, err = run("solve", TWO, *options)
    assert code == 2 and words in err


def test_a_broken_file_of_links_is_refused(run, tmp_path):
    (tmp_path / "links").write_text("1 2\nthree four\n", encoding="utf-8")
    code, _, err = run("solve", TWO, "--must-link", str(tmp_path / "links"))
    assert code == 2 and "cannot read 'three four'; write SAMPLE-SAMPLE" in err


def test_links_in_no_known_letters_are_refused(run, tmp_path):
    (tmp_path / "links").write_bytes(b"1 2\n\xff\xfe\n")
    code, _, err = run("solve", TWO, "--cannot-link", str(tmp_path / "links"))
    assert code == 2 and "--cannot-link: " in err and "is no text in UTF-8" in err


def test_many_links_do_not_fill_the_screen(run, tmp_path):
    (tmp_path / "links").write_text("0 1\n" * 500, encoding="utf-8")
    _, out, _ = run("solve", TWO, "--solver", "tabu", "--must-link", str(tmp_path / "links"))
    assert "must_link = MustLink(pairs=((0, 1), " in out and max(map(len, out.splitlines())) < 250


def test_time_limits_have_one_name():
    parser = cli.build_parser()
    for line in (["demo"], ["solve", "iris"], ["compare", "iris"], ["certify", "run.npz"],
                 ["warmup"], ["data", "fetch", "glass"]):
        assert parser.parse_args([*line, "--time-limit", "7"]).time_limit == 7.0
    for line in (["demo"], ["certify", "run.npz"]):
        assert parser.parse_args([*line, "--seconds", "7"]).time_limit == 7.0
