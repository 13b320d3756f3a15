"""The reproduction of the papers' tables: printed figures, marks, rendering; on tiny plans."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmcopt import reproduce
from mmcopt.errors import ParameterError
from mmcopt.reproduce import Figure, PaperTable, Reproduction, evommc, umc_rls


@pytest.fixture(scope="module")
def umc():
    plan = replace(umc_rls.QUICK, sigmas=(0.3, 0.4), exponents=(-3,), starts=2,
                   finalists=1, more=0, fresh=3, baseline=1, sets=("Iris",))
    lines = []
    found = umc_rls.reproduce(True, None, lines.append, plan)
    found.lines = lines
    return found


@pytest.fixture(scope="module")
def evo():
    plan = replace(evommc.QUICK, widths=(1,), inverses=(2,), best_of=3, tuning=1,
                   finalists=1, more=0, fresh=2, timed=1, sets=("UCI digits 1-7",))
    return evommc.reproduce(True, None, lambda line: None, plan)


# ---------------------------------------------------------------- the papers' figures


@pytest.mark.parametrize("table, row, column, value, sd", [
    (0, "Iris", "UMC-RLS", 0.96, 0.0), (0, "Coil", "UMC-RLS", 0.84, 0.06),
    (0, "Coil", "SC", 0.74, 0.01), (0, "Moons", "CPMMC", 0.69, 0.45),
    (0, "USPS 5-8", "SC", 0.93, 0.0), (0, "Letter", "Steep-RLS", 0.20, 0.12),
    (1, "USPS 1-4", "CPMMC", 0.92, None), (1, "Letter", "UMC-RLS", 0.57, None),
    (1, "Iris", "Stoc-RLS", 0.85, None),
])
def test_umc_prints(table, row, column, value, sd):
    printed = umc_rls._printed_tables()[table].paper[row][column]
    assert (printed.value, printed.sd) == (value, sd)


@pytest.mark.parametrize("table, row, column, value, sd, count", [
    (0, "UCI digits 8-9", "EvoMMC", 3.22, 0.4, None),
    (0, "Ionosphere", "KM", 32, 17.9, None), (0, "Letter A-B", "IterSVR", 7.2, 0, None),
    (0, "Satellite 1-2", "FastEvoMMC", 1.14, 0.65, None), (0, "UCI digits 1-7", "MMC", 31.25,
                                                           None, None),
    (1, "UCI digits 3-8", "EvoMMC", 20.8, None, 4923),
    (1, "MNIST digits 1-7", "FastEvoMMC", 304.0, None, 605932),
])
def test_evo_prints(table, row, column, value, sd, count):
    printed = evommc._printed_tables()[table].paper[row][column]
    assert (printed.value, printed.sd, printed.count) == (value, sd, count)


def test_unreadable_and_missing_figures_are_absent():
    first, second = umc_rls._printed_tables()
    assert "Steep-RLS" not in first.paper["Coil 1-4"] and "Steep-RLS" in second.paper["Coil 1-4"]
    assert "CPMMC" not in first.paper["Coil"]
    times = evommc._printed_tables()[1]
    assert list(times.paper["MNIST digits 1-2"]) == ["FastEvoMMC"]


# ---------------------------------------------------------------- what was run


def test_umc_runs(umc):
    first, second = umc.tables
    row = first.here["Iris"]
    assert row["UMC-RLS"].value == pytest.approx(0.96, abs=0.005)
    starred = {c for c, f in row.items() if f.labels}
    assert starred == {"Stoc-RLS", "Steep-RLS", "UMC-RLS", "CPMMC"}
    assert row["CPMMC"].value > 0.4
    assert all(f.labels for f in second.here["Iris"].values())  # a maximum uses them by itself
    assert umc.settings[0]["UMC-RLS"] in ("0.3, 2^-3", "0.4, 2^-3")
    assert umc.settings[0]["trace(K)/n"] == 1.0  # neither centred nor rescaled
    assert umc.settings[0]["ours, no labels: trace(K)/n"] == pytest.approx(0.1511, abs=1e-3)
    assert any("UMC-RLS sigma" in line for line in umc.lines)
    assert "get them from COIL-20" in first.missing["Coil 5-8"]


def test_evo_runs(evo):
    first, second = evo.tables
    row = first.here["UCI digits 1-7"]
    assert row["EvoMMC"].value == 0.0 and row["FastEvoMMC"].value <= 1.0
    assert {c for c, f in row.items() if f.labels} == {"IterSVR", "EvoMMC", "FastEvoMMC"}
    assert {c for c, f in row.items() if not f.labels} == {
        "KM", "MMC", "GMMC", "CPMMC", "EvoMMC tuned anew", "ours, no labels"}
    assert row["IterSVR"].value <= 1.0 == row["CPMMC"].value + 1.0
    assert second.here["UCI digits 1-7"]["EvoMMC"].count >= 1000
    assert evo.settings[0]["EvoMMC: l/n, sigma/s, 1/(lam n)"] == "0.03, 1, 2"
    assert first.missing["Ionosphere"] == "left out of this form"


def test_the_problem_of_a_cell():
    X = np.random.default_rng(0).standard_normal((40, 3))
    trial = evommc.Trial(X, None, None, None)
    problem = trial.problem((0.1, 3, 200), 0)
    sigma = 3 * np.sqrt((np.ptp(X, axis=0) ** 2).sum())
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)
    np.testing.assert_allclose(problem.K, K, atol=1e-12)
    assert problem.shift == pytest.approx(1 / 200)
    assert problem.rules.low.tolist() == [18, 18]  # |n1 - n2| <= 4
    ours = umc_rls._problem(X, 2, 0.5, -2)
    reach = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2).max())
    np.testing.assert_allclose(ours.K[0, 1], np.exp(-((X[0] - X[1]) ** 2).sum()
                                                    / (2 * (0.5 * reach) ** 2)))
    assert (ours.lam, ours.center) == (0.25, False)


def test_halved_images():
    image = np.arange(16.0).reshape(1, 16)
    assert umc_rls.pooled(image).tolist() == [[2.5, 4.5, 10.5, 12.5]]


def test_ties_go_to_the_middle_of_a_plateau():
    means = {(s, e): 1.0 if (s, e) != (0.1, 0) else 0.0 for s in (0.1, 0.2, 0.3) for e in (0, 1)}
    around = {cell: umc_rls._around(means, cell) for cell in means}
    assert around[0.3, 0] == 1.0 > around[0.2, 1] > around[0.1, 1]


# ---------------------------------------------------------------- rendering


@pytest.fixture
def report():
    table = PaperTable(1, "an example", ("A", "B"), digits=2)
    table.paper["set one"] = {"A": Figure(0.5, 0.1), "B": Figure(0.75)}
    table.here["set one"] = {"A": Figure(0.625, 0.0, labels=True)}
    table.paper["set two"] = {"A": Figure(12.0, count=345)}
    table.missing["set two"] = "no data."
    return Reproduction("evommc", False, [table], [{"set": "set one", "lam": 0.5}], ["a note"], 3.0)


def test_text(report):
    text = str(report)
    lines = text.splitlines()
    words = [line.split() for line in lines]
    assert lines[0].startswith("evommc: Gieseke")
    assert ["set", "one", "paper", "0.50±0.10", "0.75"] in words
    assert ["here", "0.62±0.00*", "-"] in words
    assert ["set", "two", "paper", "12.00", "(345)", "-"] in words
    assert "Not run, no data: set two." in lines and "- a note" in lines
    assert "* labels used" in text


def test_markdown_and_json(report, tmp_path):
    paths = report.save(tmp_path / "new")
    assert [p.name for p in paths] == ["evommc.md", "evommc.json"]
    markdown = paths[0].read_text(encoding="utf-8")
    assert "| set one | paper | 0.50±0.10 | 0.75 |" in markdown
    assert "|  | here | 0.62±0.00\\* | - |" in markdown and "## Table 1: an example" in markdown
    stored = json.loads(paths[1].read_text(encoding="utf-8"))
    assert stored == report.to_dict() == dict(report)
    cell = stored["tables"][0]["here"]["set one"]["A"]
    assert cell == {"value": 0.625, "sd": 0.0, "count": None, "labels_used": True}


def test_run(monkeypatch, tmp_path, capsys, report):
    asked = []

    def made(quick, table, say):
        asked.append((quick, table))
        say("working")
        return report

    monkeypatch.setattr(evommc, "reproduce", made)
    heard = []
    assert reproduce.run("evommc", table=1, quick=True, show=heard.append) is report
    assert asked == [(True, 1)] and heard == ["working"] and capsys.readouterr() == ("", "")
    reproduce.run("evommc", out=tmp_path, show=True)
    shown = capsys.readouterr()
    assert "0.62±0.00*" in shown.out and "working" in shown.err
    assert (tmp_path / "evommc.json").is_file()
    assert list(reproduce.PAPERS) == ["umc-rls", "evommc", "sgd-lmsvc", "cpm3c", "mkc",
                                        "margins"]


@pytest.mark.parametrize("paper, options, words", [
    ("umc", {}, "run: paper must be one of 'umc-rls', 'evommc', 'sgd-lmsvc', 'cpm3c', 'mkc', "
     "'margins'; "
                "got 'umc'."),
    ("umc-rls", {"table": 3}, "run: table must be one of 1, 2 for umc-rls; got 3."),
])
def test_run_refuses(paper, options, words):
    with pytest.raises(ParameterError) as e:
        reproduce.run(paper, **options)
    assert str(e.value) == words


def test_sets_that_are_not_there(monkeypatch):
    monkeypatch.delenv("MMCOPT_DATA", raising=False)
    plan = replace(umc_rls.QUICK, sets=("Coil",))
    found = umc_rls.reproduce(True, 2, lambda line: None, plan)
    assert [t.number for t in found.tables] == [2]
    assert "MMCOPT_DATA" in found.tables[0].missing["Coil"]
