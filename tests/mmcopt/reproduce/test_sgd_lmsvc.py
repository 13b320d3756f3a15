"""The reproduction of SGD-LMSVC: printed figures, what classes rule out, one set on a tiny plan."""

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmcopt import datasets
from mmcopt.errors import DataError
from mmcopt.metrics import purity, rand_index
from mmcopt.reproduce import sgd_lmsvc as paper
from mmcopt.reproduce.papers import run
from mmcopt.reproduce.sgd_lmsvc import GAP, GRAPH, KNOWN, SGD, SVC, TREE, Census, Trial, impossible
from mmcopt.reproduce.tables import STAR

TINY = paper.Plan(gammas=(-1, 1), bounds=(-5, 1, 3), starts=1, finalists=2, more=1, fresh=3, ours=1,
                  sets=("Iris",))


@pytest.fixture(scope="module")
def found():
    lines = []
    report = paper.reproduce(True, None, lines.append, TINY)
    report.lines = lines
    return report


# ---------------------------------------------------------------- the paper's figures


@pytest.mark.parametrize("table, row, column, value", [
    (0, "Spiral", SVC, 467.89), (0, "Jain", SGD, 0.53), (1, "Breast Cancer", SGD, 0.99),
    (1, "Glass", SVC, 0.50), (2, "Compound", SGD, 0.88), (2, "Iris", SVC, 0.97),
    (3, "Spiral", SVC, 2.0), (3, "R15", SGD, 0.13), (4, "Aggregation", SVC, 0.68),
    (4, "Pathbased", SGD, 0.73),
])
def test_prints(table, row, column, value):
    assert paper._printed_tables()[0][table].paper[row][column].value == value


def test_impossible_entries_are_marked_and_explained():
    tables, notes = paper._printed_tables()
    marked = {(t.title.split(" (")[0], name, column) for t in tables
              for name, row in t.paper.items() for column, f in row.items() if f.mark}
    rand = "Rand index"
    assert marked == {
        ("purity", "Jain", SVC), ("purity", "Jain", SGD), ("purity", "Spiral", SVC),
        (rand, "D31", SVC), (rand, "D31", SGD), (rand, "R15", SVC), (rand, "R15", SGD),
        (rand, "Pathbased", SGD), (rand, "Spiral", SVC), (rand, "Spiral", SGD)}
    assert len(notes) == len(marked)
    assert "! D31, SGD, Rand index 0.81: it is at least 0.966 at purity 0.99 ± .01." in notes
    assert "! Spiral, SVC, Rand index 0.15: it is at least 0.331 whatever the clustering." in notes
    shown = str(tables[1].lines())
    assert "0.37!" in shown and "0.33!" not in shown


def test_class_sizes_are_those_of_the_data():
    for name, source in paper.SETS.items():
        try:
            y = datasets.load(source)[1]
        except DataError:
            continue  # without MMCOPT_DATA only iris is there
        assert tuple(sorted(np.bincount(y), reverse=True)) == paper.CLASSES[name]
    assert set(paper.SETS) | {"D31", "Pathbased"} == set(paper.CLASSES) == set(paper.PRINTED)


# ---------------------------------------------------------------- what classes rule out


def partitions(n):
    """All groupings of n samples, as labels."""
    grown = [[0]]
    for _ in range(n - 1):
        grown = [[*p, c] for p in grown for c in range(max(p) + 2)]
    return grown


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 2, 2), (5, 1, 1), (3, 2, 1, 1), (7,)])
def test_limits_hold_for_every_clustering(sizes):
    y = np.repeat(np.arange(len(sizes)), sizes)
    for labels in partitions(len(y)):
        p, r = purity(y, labels), rand_index(y, labels)
        low, high = paper.rand_limits(sizes, p, p)
        assert low - 1e-12 <= r <= high + 1e-12, labels
        assert paper.rand_limits(sizes)[0] - 1e-12 <= r
        assert impossible(round(p, 2), round(r, 2), sizes) == ("", "")


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.integers(1, 8), st.integers(0, 99))
def test_limits_hold_for_random_clusterings(sizes, k, seed):
    y = np.repeat(np.arange(len(sizes)), sizes)
    labels = np.random.default_rng(seed).integers(0, k, len(y))
    p, r = purity(y, labels), rand_index(y, labels)
    low, high = paper.rand_limits(sizes, p, p)
    assert low - 1e-9 <= r <= high + 1e-9
    assert impossible(int(100 * p) / 100, int(100 * r) / 100, sizes) == ("", "")


def test_limits_are_reached():
    assert paper.rand_limits((5, 5))[0] == pytest.approx(rand_index([0] * 5 + [1] * 5, [0] * 10))
    assert paper.rand_limits((5, 5), 1.0, 1.0) == (pytest.approx(1 - 20 / 45), 1.0)


def test_why_a_purity_is_impossible():
    why = impossible(0.37, 0.70, (276, 97))
    assert why[0].startswith("the largest class holds 0.740") and why[1] == ""
    assert impossible(0.73, 0.70, (276, 97))[0] == ""  # .7399, cut


# ---------------------------------------------------------------- what was run


def test_runs(found):
    seconds, pure, rand, compact, bouldin = (t.here["Iris"] for t in found.tables)
    assert list(rand) == [SVC, SGD, GAP, GRAPH, TREE, KNOWN] == list(paper.COLUMNS)
    assert {c for c, f in rand.items() if f.labels} == {SVC, SGD, GAP}
    assert rand[SVC].sd is None and rand[SGD].sd is not None
    assert rand[KNOWN].value > 0.75 and pure[KNOWN].value > 0.65
    assert rand[TREE].value == pytest.approx(0.776, abs=1e-3)  # setosa against the others
    assert all(f.value > 0 for f in seconds.values())
    assert compact[TREE].value == pytest.approx(0.436, abs=1e-2)
    assert bouldin[TREE].value == pytest.approx(0.383, abs=1e-2)
    row = found.settings[0]
    assert (row["set"], row["method"], row["runs"]) == ("Iris", SVC, 1)
    assert row["gamma, C"] in {f"2^{g}, 2^{b}" for g, b in itertools.product((-1, 1), (-5, 1))}
    assert [r["method"] for r in found.settings] == list(paper.COLUMNS)
    gaps = {r["method"]: float(r["gap"].split()[0]) for r in found.settings}
    assert gaps[TREE] <= 0.1 < gaps[GAP] < 5 < gaps[SGD]  # the paper's rule stops far away
    assert any(line.startswith("Iris: SGD 2^") for line in found.lines)


def test_report(found):
    text = str(found)
    assert text.count("(cs.joensuu.fi/sipu/datasets): D31, Pathbased.") == 1
    assert found.tables[0].missing["Flame"] == "left out of this form"
    assert "Davies-Bouldin index (LOWER is better)" in text
    assert re.search(r"single cluster: SVC 0 % \+ \d+ % of 4, SGD \d+ % \+ \d+ % of 6", text)
    stored = json.loads(json.dumps(dict(found)))
    assert stored["tables"][1]["paper"]["Jain"][SVC]["mark"] == paper.IMPOSSIBLE
    assert "mark" not in stored["tables"][1]["paper"]["Iris"][SVC]
    assert found.to_markdown().count("## Table 1") == 5
    assert f"0.37{STAR}" not in text and "0.37!" in text


def test_census():
    one, two = np.zeros(4, np.int64), np.array([0, 0, 1, 1])
    census = Census()
    census.add([Trial(one, 0.0, 0.0, band=False), Trial(one, 0.0, 0.0), Trial(two, 0.0, 0.0),
                Trial(two, 0.0, 0.0)])
    assert (census.runs, census.empty, census.single) == (4, 1, 1)
    assert census.plus(census).show() == census.show() == "25 % + 25 %"


def test_a_run_without_a_band_is_one_cluster():
    X = np.random.default_rng(0).standard_normal((40, 2))
    trial = paper.baseline(SGD, X)((5, -5), 0)  # C is far too small for a domain
    assert not trial.band and trial.clusters == 1
    assert paper.baseline(SVC, X)((-1, 3), 0).band


def test_by_its_name(monkeypatch):
    monkeypatch.setattr(paper, "QUICK", paper.replace(TINY, sets=()))
    report = run("sgd-lmsvc", table=1, quick=True)
    assert report.paper == "sgd-lmsvc" and len(report.tables) == 5
    assert report.settings == []
