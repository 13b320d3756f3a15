"""Fetching of public sets: a server of this machine, and everything that goes wrong on the way."""

import dataclasses
import errno
import hashlib
import http.server
import io
import os
import threading
import zipfile

import numpy as np
import pytest

from mmcopt import datasets
from mmcopt.datasets import fetching
from mmcopt.datasets.public_sets import PUBLISHED, Published, RawFile
from mmcopt.errors import DataError, ParameterError

RAW = b"1,0,0.5,g\n1,0,0.25,b\n1,1,0.75,g\n"
HASH = hashlib.sha256(RAW).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives what its server holds; a number is an answer, None a connection that is cut."""

    def do_GET(self):
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path, 404)
        if body == 302:
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
            return
        if isinstance(body, int):
            self.send_error(body)
            return
        body, length = (RAW[:7], len(RAW)) if body is None else (body, len(body))
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.asked = {"/set.data": RAW}, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tiny(server, monkeypatch, tmp_path):
    """A public set of three samples, which is known, and the folder that it goes to."""
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))

    def publish(*names, sha256=HASH, **changes):
        files = RawFile("set.data", tuple(f"{server.url}/{name}" for name in names), sha256)
        one = Published("tiny", (3, 3), 2, "https://example.org/tiny", "CC0", (files,),
                        PUBLISHED["ionosphere"].read)
        monkeypatch.setitem(PUBLISHED, "tiny", dataclasses.replace(one, **changes))

    publish("set.data")
    return publish


# ---------------------------------------------------------------- what goes well


def test_a_set_is_fetched_verified_and_loaded(tiny, tmp_path):
    said = []
    found = datasets.fetch("tiny", watch=said.append)
    assert found.verified and not found.there and found.sha256 == (HASH,)
    assert datasets.fetch("TINY").there
    assert found.path == tmp_path / "tiny.npz" and "hashes that are known" in found.words
    assert len(said) == 1 and said[0].endswith("/set.data")
    X, y = datasets.load("tiny")
    np.testing.assert_array_equal(X, [[1, 0, 0.5], [1, 0, 0.25], [1, 1, 0.75]])
    assert y.tolist() == [1, 0, 1] and X.dtype == np.float32
    assert datasets.load("tiny:good")[0].shape == (2, 3)
    with np.load(found.path) as kept:
        assert str(kept["source"]) == "https://example.org/tiny"


def test_what_is_there_stays_unless_it_is_asked_for_again(tiny, server, tmp_path):
    (tmp_path / "tiny.npz").write_bytes(b"my own")
    found = datasets.fetch("tiny")
    assert found.there and found.sha256 == () and "there already" in found.words
    assert not server.asked and (tmp_path / "tiny.npz").read_bytes() == b"my own"
    assert not datasets.fetch("tiny", again=True).there and server.asked == ["/set.data"]
    assert datasets.fetch("tiny").sha256 == (HASH,)


def test_without_a_hash_it_says_that_nothing_verified_it_and_remembers(tiny, server):
    tiny("set.data", sha256=None)
    first = datasets.fetch("tiny")
    assert not first.verified and "nothing verified them" in first.words
    assert HASH[:16] in first.words and "kept with the set" in first.words
    assert "as the last time" in datasets.fetch("tiny", again=True).words
    server.files["/set.data"] = RAW.replace(b"0.75", b"0.70")
    later = datasets.fetch("tiny", again=True)
    assert "ANOTHER than last time" in later.words and later.before == (HASH,) != later.sha256


def test_a_member_of_a_zip_file_and_the_zip_file_only_once(tiny, server):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inside/set.data", RAW[:10])
        archive.writestr("inside/more.data", RAW[10:])
    server.files["/all.zip"] = packed.getvalue()
    parts = tuple(RawFile(name, (f"{server.url}/all.zip#{name}",)) for name in
                  ("set.data", "more.data"))
    tiny("unused", files=parts)
    datasets.fetch("tiny")
    assert server.asked == ["/all.zip"] and datasets.load("tiny")[0].shape == (3, 3)


def test_the_second_address_is_asked_where_the_first_fails(tiny, server):
    tiny("gone.zip#set.data", "set.data")
    assert datasets.fetch("tiny").verified and server.asked == ["/gone.zip", "/set.data"]


def test_files_that_were_downloaded_by_hand(tiny, server, tmp_path):
    (tmp_path / "set.data").write_bytes(RAW)
    assert datasets.fetch("tiny", source=tmp_path).verified
    assert datasets.fetch("tiny", source=tmp_path / "set.data", again=True).verified
    assert not server.asked
    (tmp_path / "set.data").write_bytes(RAW + b"\n")
    with pytest.raises(DataError, match="is not the file that is known"):
        datasets.fetch("tiny", source=tmp_path, again=True)
    with pytest.raises(DataError, match="cannot read .*nowhere.*By hand: get set.data at"):
        datasets.fetch("tiny", source=tmp_path / "nowhere", again=True)


# ---------------------------------------------------------------- what goes wrong


def refused(tmp_path, **options):
    """The sentence of a refusal, after which nothing is left in the folder."""
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(DataError) as e:
        datasets.fetch("tiny", **options)
    assert sorted(os.listdir(tmp_path)) == before
    assert "\n" not in str(e.value)
    return str(e.value)


def test_another_file_than_the_known_one_is_not_written(tiny, server, tmp_path):
    server.files["/set.data"] = RAW.replace(b"0.5", b"0.6")
    said = refused(tmp_path)
    assert HASH in said and "nothing was written" in said and "https://example.org/tiny" in said


@pytest.mark.parametrize(("answer", "words"), [
    (None, "was cut after 7 of 32 bytes"), (404, "the server answered 404 Not Found"),
    (500, "the server answered 500"),
    (302, "an infinite loop"),
])
def test_a_server_that_fails(tiny, server, tmp_path, answer, words):
    server.files["/set.data"] = answer
    said = refused(tmp_path)
    assert words in said and "By hand: get set.data at https://example.org/tiny" in said


def test_no_network(tiny, server, tmp_path, monkeypatch):
    def offline(*_, **__):
        raise fetching.URLError(OSError(-2, "Name or service not known"))

    monkeypatch.setattr(fetching, "urlopen", offline)
    said = refused(tmp_path)
    assert "Name or service not known" in said and "By hand" in said


def test_nobody_answers(tiny, server, tmp_path):
    server.url = "http://127.0.0.1:1"
    tiny("set.data")
    assert "refused" in refused(tmp_path)


def test_the_time_limit_ends_a_download(tiny, ticking, tmp_path):
    ticking(0.3)
    assert "the time limit is over after 32 bytes" in refused(tmp_path, time_limit=0.5)
    assert datasets.fetch("tiny", time_limit=100).verified


def test_nothing_is_asked_for_after_the_time_limit(tiny, server, ticking, tmp_path):
    ticking(1.0)
    assert "the time limit is over)" in refused(tmp_path, time_limit=0.5) and not server.asked


def test_a_silent_server_is_given_up_at_the_time_limit(tiny, ticking, monkeypatch, tmp_path):
    waits = []

    def silent(_, timeout):
        waits.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(fetching, "urlopen", silent)
    ticking(1.0)
    for limit in (None, 5.0, 100.0):
        refused(tmp_path, time_limit=limit)
    assert waits == [fetching.SILENCE, 4.0, fetching.SILENCE]


def test_a_file_without_end(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(fetching, "MOST", 10)
    assert "longer than 10 bytes" in refused(tmp_path)


@pytest.mark.parametrize(("raw", "words"), [
    (b"<html>moved</html>\n", "these files hold 1 sample of 0 features"),
    (b"\n", "there are no rows"),
    (RAW[:10], "3 samples of 3 features in 2 classes; these files hold 1 sample of 3 features"),
    (b"\xff\xfe", "not of the form that they had"),
    (b"1,0,x,g\n", "not of the form that they had"),
])
def test_files_of_another_form_are_not_written(tiny, server, tmp_path, raw, words):
    tiny("set.data", sha256=None)
    server.files["/set.data"] = raw
    assert words in refused(tmp_path)


@pytest.mark.parametrize("raw", [b"no zip", None])
def test_a_zip_file_that_is_none_or_lacks_the_member(tiny, server, tmp_path, raw):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("other.data", RAW)
    server.files["/all.zip"] = raw or packed.getvalue()
    tiny("all.zip#set.data")
    assert ("not a zip file" if raw else "holds no set.data") in refused(tmp_path)


def test_a_member_that_claims_too_much(tiny, server, monkeypatch, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set.data", bytes(10**6))
    server.files["/all.zip"] = packed.getvalue()
    tiny("all.zip#set.data")
    monkeypatch.setattr(fetching, "MOST", 10**5)
    assert "its set.data is longer than 100000 bytes" in refused(tmp_path)


def test_a_disk_that_does_not_take_it(tiny, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetching, "write_arrays", full)
    assert "cannot write" in (said := refused(tmp_path)) and "No space left" in said


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_download(
        tiny, server, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written to" in refused(tmp_path) and not server.asked


def test_folders_that_are_none(tiny, server, monkeypatch, tmp_path):
    assert f"(mkdir -p '{tmp_path}/no where')" in refused(tmp_path, folder=tmp_path / "no where")
    monkeypatch.delenv("MMCOPT_DATA")
    with pytest.raises(ParameterError, match="MMCOPT_DATA is not set"):
        datasets.fetch("tiny")
    assert not server.asked
    assert datasets.fetch("tiny", tmp_path).verified


def test_names_that_cannot_be_fetched(tiny, tmp_path):
    with pytest.raises(ParameterError, match="no public set is called 'iono'; there are ionos"):
        datasets.fetch("iono")
    with pytest.raises(DataError, match="coil20 cannot be fetched; get it at https://www.cs.col"):
        datasets.fetch("coil20")
    with pytest.raises(ParameterError, match="time_limit must be"):
        datasets.fetch("tiny", time_limit=-1)


def test_a_set_of_several_files_needs_a_folder(tmp_path):
    with pytest.raises(DataError, match="made from 2 files; name the folder that holds sat.trn"):
        datasets.fetch("satellite", tmp_path, source=tmp_path / "sat.trn")


def test_loading_says_how_to_get_a_public_set(monkeypatch):
    monkeypatch.delenv("MMCOPT_DATA", raising=False)
    with pytest.raises(DataError, match="it is public: mmcopt data fetch usps"):
        datasets.load("usps:1,2")


# ---------------------------------------------------------------- the table


def test_the_table_of_public_sets_is_whole():
    for name, one in PUBLISHED.items():
        assert one.name == name and one.home.startswith("http") and one.licence
        assert bool(one.files) != bool(one.by_hand), name
        for file in one.files:
            assert file.sha256 is None or len(file.sha256) == len(HASH)
            assert all(a.startswith("https://") for a in file.addresses)
    assert [row["set"] for row in datasets.published()] == list(PUBLISHED)


# Of these the tables use a part, under another name, or nothing.
OTHERS = {"letter", "satellite", "usps", "svmguide1"}


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in OTHERS])
def test_shapes_are_those_of_the_sets_that_the_tables_use(shared_data, name):
    X, y = shared_data(name)
    assert (*X.shape, y.max() + 1) == (*PUBLISHED[name].shape, PUBLISHED[name].n_classes)
