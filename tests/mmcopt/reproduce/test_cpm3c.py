"""The reproduction of CPM3C: printed figures, what entries cannot be, two sets on a tiny plan."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mmcopt import datasets
from mmcopt.errors import DataError
from mmcopt.metrics import rand_index
from mmcopt.registry import formulation
from mmcopt.reproduce import cpm3c as paper
from mmcopt.reproduce import margin_protocol
from mmcopt.reproduce.margin_protocol import fits, impossible, score, two_class_rand
from mmcopt.reproduce.papers import run
from mmcopt.reproduce.rivals import QUICK
from mmcopt.reproduce.tables import STAR

TINY = paper.Plan(starts=4, baseline=3, betas=(0.02, 0.1), sets=("Dig 1-7", "Dig 0689"),
                  rivals=replace(QUICK, widths=(0.5,), conic=0))


@pytest.fixture(scope="module")
def found():
    lines = []
    report = paper.reproduce(True, None, lines.append, TINY)
    report.lines = lines
    return report


# ---------------------------------------------------------------- the paper's figures


@pytest.mark.parametrize("table, row, column, value", [
    (0, "Dig 3-8", "CPM3C", 96.92), (0, "Dig 1-7", "KM", 94.45), (0, "RCVI", "CPM3C", 61.97),
    (0, "Dig 0689", "MMC", 94.83), (1, "UCIDig", "SVR", 0.967), (1, "WK-WT", "NC", 0.581),
    (1, "Dig 1-7", "KM", 0.995), (2, "Letter", "SVR", 2133), (2, "Cora-OS", "KM", 47931),
    (2, "WK-CL", "CPM3C", 9.534),
])
def test_prints(table, row, column, value):
    assert paper._printed_tables()[0][table].paper[row][column].value == value


def test_absent_figures():
    first, second, third = paper._printed_tables()[0]
    assert set(first.paper["RCVI"]) == {"KM", "CPM3C"} == set(second.paper["RCVI"])
    assert "UCIDig" not in third.paper and "SVR" not in third.paper["Dig 0689"]
    assert list(first.paper) == list(paper.PRINTED) and set(paper.SETS) < set(paper.PRINTED)


def test_impossible_entries_are_marked_and_explained():
    (first, second, third), notes = paper._printed_tables()
    marked = {(j, name, column, f.mark) for j, t in enumerate((first, second, third))
              for name, row in t.paper.items() for column, f in row.items() if f.mark}
    web = ("WK-CL",)
    assert marked == {(1, "Dig 1-7", "KM", "!")} | {(0, w, c, "!") for w in web
                                                    for c in ("KM", "NC")} \
        | {(0, w, "CPM3C", "~") for w in web}
    assert len(notes) == len(marked)
    assert "! Dig 1-7, KM, Rand index 0.995: at accuracy 94.45 it is at most 0.944." in notes
    assert any(n.startswith("~ WK-CL, CPM3C") and "gets 70.0 to 74.8" in n for n in notes)


def test_means_that_are_no_single_run():
    note = margin_protocol.not_single(paper.PRINTED, paper.PAPER, ("CPM3C", "MMC"), paper.CLASSES)
    assert "Dig 3-8 CPM3C 96.92 and 0.945 (a single run: 0.940)" in note
    assert "Dig 8-9 CPM3C" not in note and "UCIDig" not in note


def test_class_sizes_are_those_of_the_data():
    for name, source in paper.SETS.items():
        if len(source.names) > 1 or name.startswith("Text"):
            continue
        try:
            y = datasets.load(source.names[0])[1]
        except DataError:
            continue  # without MMCOPT_DATA only the digits are there
        sizes = paper.WEBKB[name][0] if name in paper.WEBKB else paper.CLASSES[name]
        assert sorted(np.bincount(y)) == sorted(sizes), name
    assert paper.fewest_others("WK-CL") == (579, 128, 44, 34, 21, 20, 1)
    assert all(sum(paper.fewest_others(w)) == rows for w, (_, rows) in paper.WEBKB.items())


# ---------------------------------------------------------------- what entries cannot be


@given(st.integers(3, 60), st.integers(0, 99))
def test_accuracy_decides_the_rand_index_of_two_classes(n, seed):
    rng = np.random.default_rng(seed)
    y, labels = rng.integers(0, 2, (2, n))
    right = float(np.mean(y == labels))
    assert two_class_rand(right, n) == pytest.approx(rand_index(y, labels))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=4), st.integers(1, 6), st.floats(0, 1),
       st.integers(0, 99))
def test_limits_hold_for_means_of_runs(sizes, runs, noise, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    scores = []
    for _ in range(runs):
        wrong = rng.random(len(y)) < noise * rng.random()
        scores.append(score(y, np.where(wrong, rng.integers(0, len(sizes), len(y)), y)))
    accuracy, rand = np.mean(scores, axis=0)
    assert impossible(f"{accuracy:.2f}", f"{rand:.3f}", sizes) == ("", "")
    cut = f"{int(100 * accuracy + 1e-9) / 100:.2f}", f"{int(1000 * rand + 1e-9) / 1000:.3f}"
    assert impossible(*cut, sizes) == ("", "")


def test_why_an_entry_is_impossible():
    assert impossible("60.00", "0.600", (70, 30))[0].startswith("the largest class holds 70.0 %")
    assert impossible("90.00", "0.700", (50, 50)) == \
        ("", "at accuracy 90.00 it is at least 0.818")
    assert impossible("90.00", "0.910", (50, 50)) == \
        ("", "at accuracy 90.00 it is at most 0.900")
    assert impossible("90.00", "0.890", (50, 50)) == ("", "")  # a mean of .8 and 1
    assert impossible("99.00", "0.100", (30, 30, 30))[1].startswith("at accuracy 99.00 it is at l")
    assert impossible("90.00", "0.999", (30, 30, 30))[1].startswith("at accuracy 90.00 it is at m")
    assert impossible("90.00", "0.700", margin_protocol.HALVES)[1] != ""


# ---------------------------------------------------------------- what was run


def test_runs(found):
    first, second, third = found.tables
    row = first.here["Dig 1-7"]
    assert row["CPM3C"].value == 100.0 and second.here["Dig 1-7"]["CPM3C"].value == 1.0
    assert {c for c, f in row.items() if f.labels} == {"CPM3C, best beta", "NC", "SVR"}
    assert min(row["SVR"].value, row["MMC"].value) > 99 and row["GMC"].word == "full"
    assert row["KM"].sd is not None and row["KM"].value > 60
    four = first.here["Dig 0689"]
    assert four["CPM3C"].value > 90 and four["CPM3C, best beta"].value >= four["CPM3C"].value
    assert second.here["Dig 0689"]["CPM3C"].value > 0.9
    times = third.here["Dig 0689"]
    assert 0 < times["CPM3C"].value < times["CPM3C, all starts"].value
    rows = {r["set"]: r for r in found.settings}
    assert rows["Dig 1-7"]["starts"] == 4 and rows["Dig 1-7"]["n"] == 361
    assert float(rows["Dig 1-7"]["objective"]) < 0.09
    assert four["MMC"].word == "large" and four["SVR"].word == "two"
    left = "Not run, left out of this form: Dig 3-8, Dig 2-7, Dig 8-9, Letter,"
    assert str(found).count(left) == 1
    assert first.missing["Letter"] == "left out of this form"
    assert first.missing["Cora-DS"].startswith("its data are not ours; get them from cora-")
    assert any(line.startswith("Dig 1-7: accuracy 100.00") for line in found.lines)


def test_report(found):
    text = str(found)
    assert "0.995!" in text and "71.95~" in text and f"0.995{STAR}" not in text
    assert "OUR addition, not the paper's" in text and "at most 0.944" in text
    stored = json.loads(json.dumps(dict(found)))
    assert stored["tables"][1]["paper"]["Dig 1-7"]["KM"]["mark"] == "!"
    assert [t["table"] for t in stored["tables"]] == [2, 3, 4]


def test_pairs_are_averaged(monkeypatch):
    monkeypatch.setitem(paper.SETS, "UCIDig", paper.Source(("digits:1,7", "digits:1,8")))
    plan = replace(TINY, sets=("UCIDig",), betas=(0.02,), starts=4, baseline=10)
    report = paper.reproduce(True, 2, lambda line: None, plan)
    (first,) = report.tables
    assert first.number == 2 and set(first.here["UCIDig"]) == set(first.columns)
    assert first.here["UCIDig"]["KM"].sd is None is first.here["UCIDig"]["NC"].sd
    assert {c: f.word for c, f in first.here["UCIDig"].items() if f.word} == {
        "GMC": "full", "CPM3C, best beta": "full"}
    (row,) = report.settings
    pair, lowest = row["pairs below 80 %"].split()  # the true split of 1 and 8 is not the lowest
    assert pair == "1-8"
    assert first.here["UCIDig"]["CPM3C"].value == pytest.approx((100 + float(lowest)) / 2, abs=0.1)
    assert row["data"] == "digits:1,7 .. digits:1,8" and row["best beta*"] == "-"


def test_fits_of_sparse_rows_start_from_kmeans():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = csr_array((rng.random((60, 8)) < 0.15 + 0.7 * (np.arange(8) % 2 == y[:, None])) * 1.0)
    found = fits(formulation("CPM3C")(X, 2, beta=0.02), 3)
    assert score(y, found.best)[0] > 95 and len(found.values) == 3 and found.limited == 0
    assert found.all > found.one > 0
    assert margin_protocol.floor(2) == 0.0 < margin_protocol.floor(3)


def test_text_is_weighted(monkeypatch):
    counts = csr_array(np.array([[3.0, 0, 1], [0, 1, 1]]))
    monkeypatch.setattr(margin_protocol, "load", lambda name: (counts, np.array([0, 1])))
    X, y = margin_protocol.load_text("any")
    np.testing.assert_allclose((X.toarray() ** 2).sum(axis=1), 1.0)
    assert X.shape == (2, 3) and y.tolist() == [0, 1]
    monkeypatch.setattr(margin_protocol, "load", lambda name: "it is not there")
    assert margin_protocol.load_text("any") == "it is not there"


def test_by_its_name(monkeypatch):
    monkeypatch.setattr(paper, "QUICK", replace(TINY, sets=()))
    report = run("cpm3c", table=4, quick=True)
    assert report.paper == "cpm3c" and [t.number for t in report.tables] == [4]
    assert report.settings == []
