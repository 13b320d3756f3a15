"""The README says what is true: its pairing table and its ten lines."""

import re
from pathlib import Path

import mmcopt as mm
from mmcopt.cli.doctor import licence_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_pairing_table_is_the_printed_one():
    shown = README.split("<!-- pairing table -->")[1].split("<!-- end of pairing table -->")[0]
    assert shown.strip() == mm.pairing_table()


def test_the_table_of_licences_is_the_printed_one():
    shown = README.split("<!-- licence table -->")[1].split("<!-- end of licence table -->")[0]
    assert shown.strip() == licence_table()


def test_the_capability_table_is_the_printed_one():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = text.split("<!-- capability table -->")[1].split("<!-- end of capability table -->")[0]
    assert shown.strip() == mm.solving.capability_table()


def test_the_ten_lines_run_and_print_what_they_say(capsys):
    code = re.search(r"## Ten lines\n\n```python\n(.*?)```", README, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "minimise" in out and "ok   bound" in out
    assert out.rstrip().splitlines()[-1].startswith("0.997")


def test_the_lines_on_the_gap_run_and_print_what_they_say(capsys):
    section = README.split("## How far from optimal?")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    first, second, third, last = capsys.readouterr().out.splitlines()
    assert (first, second) == ("0.44", "certified True") and third.endswith(" True")
    assert 0 <= float(last) < 1


def test_the_lines_on_domains_work(capsys):
    section = README.split("## Clusters of any shape")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip().endswith(" 1.0")


def test_the_lines_on_margins_work(capsys):
    section = README.split("## Margins without labels")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1.0")


def test_the_lines_on_scaling_work(capsys):
    section = README.split("## Scaling")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "True True 5000"


def test_the_lines_on_comparisons_work(capsys):
    section = README.split("`mm.compare` runs solvers side by side")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    exec(compile(code, "README.md", "exec"), {})
    *table, against, reached = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["solver", "runs", "restarts", "best", "mean", "hits",
                                "time_to_best", "bound", "gap", "ari"]
    assert [line.split()[0] for line in table[2:]] == ["Shaking", "Tabu", "kmeans", "KernighanLin",
                                                       "ward"]
    assert "'against': 'kmeans', 'wins': 5" in against and "'reached': 1.0" in reached
