"""The documentation is true: code runs and prints what stands below it, and named tests exist."""

import contextlib
import importlib.util
import io
import pathlib
import re
import warnings

import numpy as np
import pytest

from mmcopt import registry
from mmcopt.reproduce.tables import PaperTable

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name in ("docs", "papers"))
TEXTS = {str(p.relative_to(ROOT / "docs")): p.read_text(encoding="utf-8") for p in PAGES}
WITH_CODE = [name for name, text in TEXTS.items() if "```python" in text]
FENCE = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```\n)?", re.S)


@pytest.fixture
def own_registry(monkeypatch):
    """Forget the classes that a page adds."""
    registry.solvers()
    monkeypatch.setattr(registry, "_solvers", dict(registry._solvers))
    monkeypatch.setattr(registry, "_formulations", dict(registry._formulations))


@pytest.mark.slow
@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("name", WITH_CODE)
def test_code_prints_what_stands_below_it(name):
    space = {"__name__": name}
    for code, shown in FENCE.findall(TEXTS[name]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, name, "exec"), space)
        assert out.getvalue() == shown


@pytest.mark.parametrize("name", TEXTS)
def test_tests_that_are_named_exist(name):
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXTS[name]):
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_files_that_are_named_exist(name):
    for path in re.findall(r"\b((?:tests|examples)/[\w/]+\.(?:py|md))\b", TEXTS[name]):
        assert (ROOT / path).exists()


def script(name):
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_tables_of_scaling_are_those_of_the_figures_kept():
    figures, page = script("scaling_figures"), TEXTS["scaling.md"]
    for name, table in (("measured", figures.cost_table()), ("network", figures.network_table())):
        shown = page.split(f"<!-- {name} -->\n")[1].split("\n<!-- end")[0]
        assert shown == table
    for found in figures.measured().values():
        assert (np.diff(found["n"]) > 0).all() and all((found[c] > 0).all() for c in found)


def test_scaling_is_drawn(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    script("scaling_figures").draw(tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 20_000


def printed_tables(paper):
    """The tables of a paper as the package holds them."""
    module = importlib.import_module(f"mmcopt.reproduce.{paper}")
    found = module._printed_tables()
    return [t for part in found for t in (part if isinstance(part, list) else [part])
            if isinstance(t, PaperTable)]


@pytest.mark.parametrize("paper", ["cpm3c", "evommc", "mkc", "sgd_lmsvc", "umc_rls"])
def test_tables_of_papers_show_the_figures_that_the_package_holds(paper):
    text = TEXTS[f"papers/{paper}.md"].split("<!-- tables -->")[1].split("<!-- end of")[0]
    held = {f"Table {t.number}, {t.title}": t for t in printed_tables(paper)}
    shown = re.findall(r"\*\*(Table .*)\*\*\n\n((?:\|.*\n?)+)", text)
    assert shown
    for title, lines in shown:
        table = held[title]
        columns, _, *rows = [[c.strip() for c in line.strip("|").split(" | ")]
                             for line in lines.strip().splitlines()]
        assert rows
        for name, *cells in rows:
            printed = {c: f.show(table.digits) for c, f in table.paper[name].items()}
            pairs = dict(zip(columns[1:], (c.split(" / ") for c in cells), strict=True))
            assert {c: p for c, (p, _) in pairs.items() if p != "-"} == printed
            assert any(ours != "-" for _, ours in pairs.values())


def made_pages():
    spec = importlib.util.spec_from_file_location("made_pages", ROOT / "docs" / "made_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_module_has_a_page():
    import mmcopt

    assert {f"mmcopt.{name}" for name in mmcopt._MODULES} <= set(made_pages().MODULES)


def test_a_page_has_every_name_and_the_mathematics():
    made, known = made_pages(), []
    page = made.api_page("mmcopt.formulations", "Problems", known)
    from mmcopt import formulations

    assert all(f"autoclass:: mmcopt.formulations.{name}\n" in page for name in formulations.__all__)
    assert page.count(".. math::") >= len(formulations.__all__)
    again = made.api_page("mmcopt.formulations", "Problems", known)
    assert again.count(":no-index:") == len(formulations.__all__)
