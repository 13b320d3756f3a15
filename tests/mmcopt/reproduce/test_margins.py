"""The table of proved optima: a tiny plan, and what it says."""

from dataclasses import replace

import pytest

from mmcopt.reproduce import margins


@pytest.mark.filterwarnings("ignore:CPM3C")
def test_optima_are_proved_and_compared():
    cells = (margins.Cell("Iris", "iris", 30, 3, 0.05, 5), margins.Cell("Iris", "iris", 40, 2, 0.1),
             margins.Cell("None", "no-such-set", 10, 2, 0.1))
    lines = []
    found = margins.reproduce(True, None, lines.append, replace(margins.QUICK, cells=cells))
    table = found.tables[0]
    assert len(table.here) == len(found.settings) == len(lines) == 2
    for row, said in zip(table.here.values(), found.settings, strict=True):
        assert row[margins.GAP].value <= 0.01 and row[margins.OPTIMUM].mark == ""
        assert row[margins.ABOVE].value >= 0 and said["verified"] == "yes"
        assert float(said["proved"]) <= float(said["objective"])
    assert list(table.missing) == [cells[2].title]
    assert "of 2 problems 2 to 0.0001" in str(found)


@pytest.mark.filterwarnings("ignore:CPM3C")
def test_what_is_open_is_marked():
    cell = margins.Cell("Iris", "iris", 150, 3, 0.3)
    found = margins.reproduce(True, None, print, margins.Plan((cell,), 0.3))
    assert found.tables[0].here[cell.title][margins.OPTIMUM].mark == margins.OPEN
    assert "of 1 problems 0" in str(found)


def test_figures_of_the_paper_stand_beside_them():
    cell = margins.Cell("Dig 3-8", "no-such-set", 100, 2, 0.1)
    found = margins.reproduce(True, None, print, margins.Plan((cell,), 1.0))
    paper = found.tables[0].paper[cell.title]
    assert (paper["KM"].value, paper["CPM3C"].value) == (94.68, 96.92)
