"""Arrays from anywhere: read or refused in a sentence, never run or unpacked at length."""

import io
import json
import os
import struct
import warnings
import zipfile

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.datasets import archives
from mmcopt.errors import MMCError
from mmcopt.formulations import LeastSquares

X = np.random.default_rng(0).standard_normal((9, 2))


def member(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def header(text):
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def claimed(shape, dtype="'<f8'", body=b""):
    return header(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}") + body


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def zipped(path, content, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, \
            warnings.catch_warnings(action="ignore"):  # of two members of one name
        for name, data in content:
            archive.writestr(name, data, **options)


GOOD = member(X)
BAD = {
    "an object": lambda place: [("X.npy", member(np.array([Trap(place)], dtype=object)))],
    "a pickle": lambda place: [("X.npy", b"cos\nmkdir\n(S'%s'\ntR." % str(place).encode())],
    "a path": lambda place: [("../X.npy", GOOD)],
    "an absolute path": lambda place: [(f"{place}.npy", GOOD)],
    "a path of Windows": lambda place: [("C:\\X.npy", GOOD)],
    "two of one name": lambda place: [("X.npy", GOOD), ("X.npy", member(X + 1))],
    "no array": lambda place: [("X.npy", b"hello")],
    "an empty member": lambda place: [("X.npy", b"")],
    "another ending": lambda place: [("X.py", b"import os")],
    "a huge shape": lambda place: [("X.npy", claimed("(10**9, 10**9)"))],
    "a huge array": lambda place: [("X.npy", claimed("(1000000000, 1000000)"))],
    "a negative shape": lambda place: [("X.npy", claimed("(-9, 2)", body=bytes(144)))],
    "a short body": lambda place: [("X.npy", claimed("(9, 2)", body=bytes(100)))],
    "a long body": lambda place: [("X.npy", claimed("(9, 2)", body=bytes(1000)))],
    "an expression": lambda place: [("X.npy", claimed(f"__import__('os').mkdir('{place}')"))],
    "a long header": lambda place: [("X.npy", claimed("(" + "9," * 30000 + ")"))],
    "an unknown type": lambda place: [("X.npy", claimed("(9,)", "'<q99'", bytes(72)))],
    "a version": lambda place: [("X.npy", b"\x93NUMPY\x09\x00" + GOOD[8:])],
    "nothing": lambda place: [],
}


def readers():
    """What reads .npz files, by name: each gets a path."""
    f = LeastSquares(X)
    return {"data": mm.datasets.load, "result": mm.load,
            "checkpoint": lambda path: mm.solve(f, "Memetic", max_iter=1, checkpoint=path)}


def refused(read, path):
    with pytest.raises(MMCError) as e:
        read(path)
    assert "\n" not in str(e.value) and len(str(e.value)) < 500
    return str(e.value)


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("reader", readers())
def test_what_is_no_archive_of_arrays_is_refused(reader, what, tmp_path):
    path, place = tmp_path / "file.npz", tmp_path / "trap"
    zipped(path, BAD[what](place))
    refused(readers()[reader], str(path))
    assert not place.exists() and os.listdir(tmp_path) == ["file.npz"]


@pytest.mark.parametrize("reader", readers())
def test_a_bomb_is_refused_before_it_is_unpacked(reader, tmp_path, monkeypatch):
    path = tmp_path / "file.npz"
    zipped(path, [("X.npy", claimed("(1000000,)", body=bytes(8_000_000)))])
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 5_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # nothing is unpacked
    assert "needs 7.63 MiB, and 4.77 MiB" in refused(readers()[reader], str(path))


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_expands_without_limit_is_refused(packed, tmp_path):
    zipped(tmp_path / "file.npz", [("X.npy", GOOD)], compress_type=packed)
    assert "packed in another way" in refused(mm.datasets.load, str(tmp_path / "file.npz"))


def test_arrays_of_every_form_come_back(tmp_path):
    arrays = {"c": X, "fortran": np.asfortranarray(X), "scalar": np.array(3), "text": np.array("é"),
              "empty": np.empty((0, 3)), "none": np.empty((3, 0), np.int8), "big": X.astype(">f4"),
              "record": np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,))]), "bits": np.array([True])}
    archives.write_arrays(tmp_path / "a.npz", arrays)
    back = archives.read_arrays(tmp_path / "a.npz")
    assert list(back) == list(arrays)
    for name, a in arrays.items():
        assert back[name].dtype == a.dtype and back[name].shape == a.shape
        assert back[name].tobytes() == a.tobytes() and back[name].flags.writeable
    assert archives.read_arrays(tmp_path / "a.npz", ("c",)).keys() == {"c"}
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.slow
def test_truncated_and_mixed_up_files(tmp_path):
    path, result = tmp_path / "file.npz", mm.solve(LeastSquares(np.tile(X, (60, 1))), seed=0)
    result.save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 1024):
        path.write_bytes(whole[:size])
        for read in readers().values():
            refused(read, str(path))
    rng = np.random.default_rng(0)
    for _ in range(300):  # a byte, a run of bytes, or two members exchanged
        broken = bytearray(whole)
        at, length = int(rng.integers(len(whole))), int(rng.choice([1, 8, 300]))
        broken[at:at + length] = rng.bytes(min(length, len(whole) - at))
        path.write_bytes(broken)
        try:
            mm.load(path).verify()
        except MMCError as e:
            assert "\n" not in str(e)
    with np.load(io.BytesIO(whole)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names = [name for name in arrays if name != "document"]
    for _ in range(60):
        order = rng.permutation(len(names))
        mixed = {name: arrays[names[j]] for name, j in zip(names, order, strict=True)}
        archives.write_arrays(path, {"document": arrays["document"], **mixed})
        try:
            assert not mm.load(path).verify() or (order == np.arange(len(names))).all() \
                or all(np.array_equal(mixed[n], arrays[n]) for n in names)
        except MMCError as e:
            assert "\n" not in str(e)
    for kind in (np.int8, np.float32, np.complex128, "U3", bool):
        for name in names:
            archives.write_arrays(path, {**arrays, name: arrays[name].astype(kind)})
            try:
                mm.load(path).verify()
            except MMCError as e:
                assert "\n" not in str(e)
    assert json.loads(str(arrays["document"]))


@pytest.mark.parametrize("text", [
    b"", b"\n\n", b"\xff\xfe\x00", b"a,b\n1,2\n3", b"a,b\n1,2\n" + b"3," * 5000, b"1,2\n\x00,3\n",
    b'"a,b\n1,2\n', b"1e999,2\n3,4\n", b"nan,inf\n1,2\n", b"=cmd|' /C calc'!A0,1\n2,3\n"])
def test_text_that_is_no_table_is_refused(text, tmp_path):
    (tmp_path / "file.csv").write_bytes(text)
    try:
        data, _ = mm.datasets.load(str(tmp_path / "file.csv"))
        LeastSquares(data)
    except MMCError as e:
        assert len(str(e)) < 500
    else:
        raise AssertionError(data)
