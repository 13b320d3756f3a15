"""Pages: whole without a network, with the numbers, pictures and proofs of what they are about."""

import html.parser
import re

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.types import RowBlocks

X, Y = mm.datasets.load("blobs:n=24,k=2,seed=0")
PROBLEM = LeastSquares(X, 2)


class _Reader(html.parser.HTMLParser):
    """Tags, where things lead to, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.words.append(data)


def read(path):
    text = path.read_text(encoding="utf-8")
    page = _Reader(text)
    assert all(link.startswith("#") for link in page.links)  # within its own pictures
    assert not re.search(r"url\((?!#)|@import|<link|<iframe|fetch\(", text)
    assert page.tags.count("table") == text.count("</table>")
    return page, " ".join(page.words)


def test_a_result_has_its_numbers_pictures_and_checks(tmp_path):
    r = mm.solve(PROBLEM, "Tabu", seed=0).certify(time_limit=5)
    r.to_html(tmp_path / "r.html")
    page, words = read(tmp_path / "r.html")
    assert page.tags.count("svg") == 3  # clusters, history, ladder
    for text in (f"{r.objective:.6g}", "Tabu on LeastSquares: certified", "What was known when",
                 "fingerprint", "kernel", "seed=0", "numpy"):
        assert text in words, text
    assert (tmp_path / "r.html").stat().st_size < 2e6


def test_what_cannot_be_drawn_is_left_out(tmp_path):
    mm.evaluate(PROBLEM, Y).to_html(tmp_path / "r.html")  # no step was made, no bound climbed
    page, words = read(tmp_path / "r.html")
    assert "Objective against time" not in words and "What was known when" not in words
    assert "Numbers" in words and page.tags.count("svg") == 1


def test_a_comparison_has_tables_that_sort(tmp_path):
    table = mm.compare([PROBLEM], ["Tabu", "Shaking"], seeds=2, y=Y).certify(time_limit=5)
    table.to_html(tmp_path / "c.html")
    page, words = read(tmp_path / "c.html")
    assert page.tags.count("svg") == 4 and page.tags.count("tr") > 2 + 4 and "script" in page.tags
    for row in table.rows:
        assert row["solver"] in words and f"{row['objective']:.6g}" in words
    assert "mmcopt.compare(" in words and "what was known when" in words
    assert "with a sign test" in words and "Seconds to the best known objective" in words


@pytest.mark.parametrize("name", ["cost_$_and_$_.csv", r"$\frac$", "_a"])
def test_names_may_hold_dollars(tmp_path, name):
    table = mm.compare({name: PROBLEM}, {name: "Tabu"}, seeds=1)
    table.to_html(tmp_path / "c.html")
    page, words = read(tmp_path / "c.html")
    assert page.tags.count("svg") == 4 and "could not be drawn" not in words
    mm.evaluate(PROBLEM, np.where(Y == 0, name, f"b{name}")).to_html(tmp_path / "r.html")
    page, words = read(tmp_path / "r.html")
    assert page.tags.count("svg") == 1 and "could not be drawn" not in words


def test_a_picture_that_fails_costs_only_itself(tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("no <ink>")

    monkeypatch.setattr("mmcopt.plot.results._plane", fails)
    mm.evaluate(PROBLEM, Y).to_html(tmp_path / "r.html")
    page, words = read(tmp_path / "r.html")
    assert "This picture could not be drawn (RuntimeError: no <ink>)." in words
    assert "Checked again, in NumPy alone" in words


def test_rows_in_blocks_are_not_read_for_a_picture(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    result = mm.evaluate(CPM3C(mm.datasets.blocks(tmp_path / "x.npy", chunk=10), 2), Y)
    monkeypatch.setattr(RowBlocks, "__array__", lambda *args, **kwargs: pytest.fail("read"))
    result.to_html(tmp_path / "r.html")
    page, words = read(tmp_path / "r.html")
    assert "The rows come in blocks and are not drawn" in words and "svg" not in page.tags
    with pytest.raises(DataError, match="plot: the rows come in blocks and are not drawn"):
        result.plot()


def test_many_samples_are_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr("mmcopt.plot.results.MANY", 10)
    mm.evaluate(PROBLEM, Y).to_html(tmp_path / "r.html")
    assert "data:image/png" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_pages_end_in_html(tmp_path):
    with pytest.raises(ParameterError, match=r"to_html: the file name must end in .html; got"):
        mm.evaluate(PROBLEM, Y).to_html(tmp_path / "r.pdf")
