"""`mmcopt data` and `mmcopt data fetch`."""

import json
import pathlib

import pytest

from mmcopt.datasets import fetching
from mmcopt.datasets.public_sets import PUBLISHED, Published, RawFile


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A public set without a known hash, its file, and the folder that it goes to."""
    file = tmp_path / "tiny.data"
    file.write_bytes(b"1,a\n2,b\n")
    one = Published("tiny", (2, 1), 2, "https://example.org", "CC0",
                    (RawFile("tiny.data", ("https://example.org/tiny.data",)),))
    monkeypatch.setitem(PUBLISHED, "tiny", one)
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    return str(file)


def test_the_list_names_each_set_and_where_it_comes_from(run, tiny):
    code, out, _ = run("data")
    assert code == 0
    for name, one in PUBLISHED.items():
        assert name in out and one.home in out and one.licence in out
    assert "mmcopt data fetch NAME" in out
    code, out, _ = run("data", "--json")
    rows = {row["set"]: row for row in json.loads(out)["sets"]}
    assert code == 0 and rows["tiny"]["here"] == "no" and rows["tiny"]["fetch"] == "no hash"
    assert rows["glass"]["fetch"] == "by hash" and rows["coil20"]["fetch"] == "by hand"
    run("data", "fetch", "tiny", "--from", tiny)
    assert {row["set"]: row for row in json.loads(run("data", "--json")[1])["sets"]}["tiny"][
        "here"] == "yes"


def test_a_set_is_fetched_and_solved(run, tiny, tmp_path):
    code, out, _ = run("data", "fetch", "tiny", "--from", tiny)
    assert code == 0 and "nothing verified them" in out and (tmp_path / "tiny.npz").is_file()
    code, out, _ = run("data", "fetch", "tiny", "--json")
    (found,) = json.loads(out)["sets"]
    assert code == 0 and found["there"] and found["path"] == str(tmp_path / "tiny.npz")
    assert run("describe", "tiny")[1].startswith("tiny: 2 samples, 1 features")


def test_another_folder_and_once_more(run, tiny, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    assert run("data", "fetch", "tiny", "--to", str(other), "--from", tiny)[0] == 0
    pathlib.Path(tiny).write_bytes(b"1,a\n3,b\n")
    code, out, _ = run("data", "fetch", "tiny", "--to", str(other), "--from", tiny, "--again")
    assert code == 0 and "ANOTHER than last time" in out


@pytest.mark.parametrize(("words", "said"), [
    (("fetch",), "arguments are required: NAME (mmcopt data fetch --help"),
    (("fetch", "iono"), "no public set is called 'iono'"),
    (("fetch", "tiny", "glass", "--from", "x"), "--from takes one set; got tiny, glass"),
    (("fetch", "tiny", "--time-limit", "-1"), "--time-limit: must be a number of seconds"),
    (("fetch", "tiny", "--to", "nowhere"), "mkdir -p nowhere"),
    (("list",), "no command is called 'list'; there are fetch"),
])
def test_what_cannot_be_is_refused_in_a_sentence(run, tiny, words, said):
    code, out, err = run("data", *words)
    assert code == 2 and said in err and err.count("\n") == 1 and not out


def test_offline_says_what_to_do_by_hand(run, tiny, monkeypatch):
    def offline(*_, **__):
        raise fetching.URLError(OSError(-2, "Name or service not known"))

    monkeypatch.setattr(fetching, "urlopen", offline)
    code, _, err = run("data", "fetch", "tiny")
    assert code == 2 and "Name or service not known" in err and "--from in a shell" in err
    assert err.splitlines()[0] == "fetching https://example.org/tiny.data"
