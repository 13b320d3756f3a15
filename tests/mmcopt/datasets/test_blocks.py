"""Blocks of files and of Dask arrays: the rows that are there, and no more of them than a block."""

import importlib
import pickle
import types

import numpy as np
import pytest

from mmcopt import datasets
from mmcopt.datasets.blocks import as_blocks
from mmcopt.errors import DataError, MMCError, MMCWarning, ParameterError
from mmcopt.formulations import Hypersphere, OneClassHinge

reading = importlib.import_module("mmcopt.datasets.blocks")
ROWS = np.random.default_rng(0).standard_normal((23, 3)).round(6)


def dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def write_npy(path):
    np.save(path / "x.npy", ROWS)
    return path / "x.npy"


def write_folder(path):
    (path / "parts").mkdir()
    for i, part in enumerate(np.array_split(ROWS, 3)):
        np.save(path / "parts" / f"{i}.npy", part)
    return path / "parts"


def write_csv(path):
    text = "a,label,b,c\n" + "".join(f"{r[0]},{i % 2},{r[1]},{r[2]}\n" for i, r in enumerate(ROWS))
    (path / "x.csv").write_text(text)
    return path / "x.csv"


def write_plain_tsv(path):
    np.savetxt(path / "x.tsv", ROWS, delimiter="\t", fmt="%.6f")
    return path / "x.tsv"


def write_libsvm(path, first=1):
    text = "".join(f"{i % 2} " + " ".join(f"{j + first}:{v}" for j, v in enumerate(row)) + "\n"
                   for i, row in enumerate(ROWS))
    (path / "x.libsvm").write_text("# made up\n" + text)
    return path / "x.libsvm"


def write_libsvm_from_zero(path):
    return write_libsvm(path, first=0)


def write_parquet(path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(ROWS, columns=list("abc"))
    frame["label"] = 1
    frame.to_parquet(path / "x.parquet", row_group_size=5)
    return path / "x.parquet"


FILES = [write_npy, write_folder, write_csv, write_plain_tsv, write_libsvm, write_libsvm_from_zero,
         write_parquet]


@pytest.mark.as_given
@pytest.mark.filterwarnings("ignore:.*holds the classes")
@pytest.mark.parametrize("write", FILES, ids=lambda f: f.__name__.removeprefix("write_"))
def test_the_rows_of_a_file_come_in_blocks(tmp_path, write):
    X = datasets.blocks(write(tmp_path), chunk=5)
    assert X.shape == ROWS.shape and len(X) == 23 and len(X.starts) > 4
    parts = [dense(rows) for rows in X.each(lambda rows: rows)]
    assert [len(p) for p in parts] == np.diff(X.starts).tolist() and max(map(len, parts)) <= 8
    assert (np.concatenate(parts) == ROWS).all() and (np.asarray(X) == ROWS).all()
    sent = pickle.loads(pickle.dumps(X))
    assert sent.fingerprint == X.fingerprint == datasets.blocks(
        next(p for p in tmp_path.iterdir()), chunk=5).fingerprint


@pytest.mark.as_given
def test_a_number_that_changes_changes_the_fingerprint(tmp_path):
    before = datasets.blocks(write_npy(tmp_path), chunk=5).fingerprint
    other = ROWS.copy()
    other[17, 1] = np.nextafter(other[17, 1], 1.0)
    np.save(tmp_path / "x.npy", other)
    assert datasets.blocks(tmp_path / "x.npy", chunk=5).fingerprint != before


def test_what_lies_along_the_rows_is_cut_as_they_are(tmp_path):
    X = datasets.blocks(write_npy(tmp_path), chunk=5)
    seen = list(X.each(lambda rows, own, factor: (len(rows), own * factor), 2, along=np.arange(23)))
    assert [n for n, _ in seen] == [len(own) for _, own in seen]
    assert np.concatenate([own for _, own in seen]).tolist() == list(range(0, 46, 2))


@pytest.mark.as_given
def test_a_mapped_array_is_read_from_its_file_and_a_part_of_it_is_an_array(tmp_path):
    mapped = np.load(write_npy(tmp_path), mmap_mode="r")
    assert (np.asarray(as_blocks(mapped, "")) == ROWS).all()
    for other in (mapped[3:], mapped[:, :2], np.array(mapped), mapped.T, "a", None):
        assert as_blocks(other, "") is None


@pytest.mark.as_given
def test_an_array_of_dask_is_cut_as_it_is(tmp_path):
    array = pytest.importorskip("dask.array")
    file = datasets.blocks(write_npy(tmp_path), chunk=5)
    for given in (array.from_array(ROWS, chunks=(5, 2)), file.to_dask()):
        X = as_blocks(given, "")
        assert X.starts == (0, 5, 10, 15, 20, 23) and (np.asarray(X) == ROWS).all()
        assert X.fingerprint == file.fingerprint
        seen = list(X.each(lambda rows, own: own.sum(), along=np.arange(23)))
        assert sum(seen) == 253
    unknown = array.from_array(ROWS, chunks=(5, 3))
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        as_blocks(unknown[unknown[:, 0] > 0], "CPM3C")


@pytest.mark.as_given
@pytest.mark.filterwarnings("ignore:.*(names the rows|holds the classes)")
@pytest.mark.parametrize("text", [
    "x,y\n.5,1.5\n1.25,2.5\n",  # a coordinate called y
    "id,a,b,class\n1,5,2,x\n2,3,4,y\n", "id,a\n1,5\n1,3\n", "label,y,b\n0,1.5,2\n1,2.5,4\n",
    ",a,b\n0,5,2\n1,3,4\n", ",f,target\n0,1,no\n1,2,yes\n",  # as pandas writes it
    "\n1,2\n3,4\n", "# made by x\n1,2\n3,4\n", "\n# a; b\n\na,b\n\n1,2\n,\n3,4\n",
    "# a,b\n1,2\n3,4\n", "\ufeff1,2\n3,4\n", "\ufeffa\tb\n1\t2\n3\t4\n", "y\n1\n2\n",
    "a;b\n1,5;2\n3;?\n", '"a","b"\n"1","2"\n3,4\n', "a,class\n1,\"x, y\"\n2,z\n",
])
def test_columns_of_text_are_those_that_load_takes(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    X = datasets.blocks(path, chunk=1)
    expected, _ = datasets.load(path)
    np.testing.assert_array_equal(np.asarray(X), expected)
    assert X.shape == expected.shape and len(X.starts) == 1 + len(expected)


def test_a_column_that_names_the_rows_is_left_out_with_a_warning(tmp_path):
    (tmp_path / "x.csv").write_text("id,a\nu,5\nv,3\n")
    with pytest.warns(MMCWarning, match="x.csv: column 'id' names the rows and is left out"):
        assert datasets.blocks(tmp_path / "x.csv").shape == (2, 1)


def test_a_column_of_classes_is_left_out_with_a_warning(tmp_path):
    path = write_csv(tmp_path)
    with pytest.warns(MMCWarning, match="column 'label' holds the classes and is left out; columns="
                                        " keeps it"):
        datasets.blocks(path)
    kept = datasets.blocks(path, columns=["a", "label"])  # and of what was chosen nothing is said
    np.testing.assert_array_equal(np.asarray(kept), np.c_[ROWS[:, 0], np.arange(len(ROWS)) % 2])


@pytest.mark.as_given
@pytest.mark.filterwarnings("ignore:.*holds the classes")
@pytest.mark.parametrize("write", FILES, ids=lambda f: f.__name__.removeprefix("write_"))
def test_the_columns_of_a_file_may_be_chosen(tmp_path, write):
    path = write(tmp_path)
    names = write in (write_csv, write_parquet)
    for columns, expected in (([3, 1], [2, 0]), ([2], [1])):
        chosen = ["abc"[c - 1] for c in columns] if names else columns
        rows = datasets.blocks(path, chunk=5, columns=chosen)
        assert rows.shape == (len(ROWS), len(columns))
        found = np.concatenate([dense(part) for part in rows.each(np.copy)]) \
            if "libsvm" not in path.name else np.vstack([dense(p) for p in rows.each(lambda r: r)])
        np.testing.assert_allclose(found, ROWS[:, expected])
        assert rows.fingerprint != datasets.blocks(path, chunk=5).fingerprint
    with pytest.raises(DataError, match="columns=9 is no heading, and no number from 1 to"):
        datasets.blocks(path, columns=[9])


def test_columns_of_text_may_be_chosen_as_load_has_them(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",a,id,b\n0,5,1,2\n1,3,2,4\n")  # as pandas writes it
    for columns in (["b", "a"], [3, "ID"], ("a",)):
        np.testing.assert_array_equal(np.asarray(datasets.blocks(path, columns=columns)),
                                      datasets.load(path, columns=columns)[0])
    path.write_text("name,a\nx,1\ny,2\n")  # text that is no feature may stand beside
    assert np.asarray(datasets.blocks(path, columns=["a"])).tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("columns", ["a", [], [True], [1.5], 3])
def test_columns_must_be_a_list_of_headings_or_numbers(tmp_path, columns):
    with pytest.raises(ParameterError, match="columns must be None or a list of at least one head"):
        datasets.blocks(write_npy(tmp_path), columns=columns)


def parquet(path, **columns):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(columns).to_parquet(path, row_group_size=2)


def test_columns_of_parquet_are_told_as_those_of_text(tmp_path):
    a, path = [0.5, 1.5, 2.5, 2.5], tmp_path / "x.parquet"
    for more, says in (({"y": [0.5, 1.5, 2.5, 3.5]}, None),  # measured, so a feature
                       ({"y": [1, 0, 1, 0]}, "column 'y' holds the classes"),
                       ({"class": list("uvuv")}, "column 'class' holds the classes"),
                       ({"id": [4, 3, 2, 1]}, "column 'id' names the rows"),
                       ({"id": list("uvwx")}, "column 'id' names the rows"),
                       ({"id": [4, 3, 2, 2]}, None)):
        parquet(path, a=a, **more)
        if says is None:
            assert datasets.blocks(path).shape == (4, 2)
            continue
        with pytest.warns(MMCWarning, match=f"{says}.* and is left out; columns= keeps it"):
            assert datasets.blocks(path).shape == (4, 1)
    parquet(path, a=a, word=list("uvuv"))
    with pytest.raises(DataError, match="column 'word' holds .*str.*, which are no numbers"):
        datasets.blocks(path)
    assert datasets.blocks(path, columns=["a"]).shape == (4, 1)


def test_files_of_a_parquet_folder_have_the_same_features(tmp_path):
    # Of the second file alone, y might be taken for classes.
    parquet(tmp_path / "1.parquet", a=[1.0, 2.0], y=[0.5, 1.0])
    parquet(tmp_path / "2.parquet", y=[1.0, 0.0], a=[3.0, 4.0])
    rows = datasets.blocks(tmp_path)
    assert np.asarray(rows).tolist() == [[1, 0.5], [2, 1], [3, 1], [4, 0]]
    parquet(tmp_path / "3.parquet", a=[1.0], b=[0.5])
    with pytest.raises(DataError, match=r"its columns are a, b, and those of 1.parquet a, y"):
        datasets.blocks(tmp_path)


@pytest.mark.filterwarnings("ignore:.*holds the classes")
def test_a_relative_path_holds_when_the_folder_changes(tmp_path, monkeypatch):
    write_npy(tmp_path), write_csv(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = [datasets.blocks(name, chunk=5) for name in ("x.npy", "x.csv")]
    monkeypatch.chdir("/")
    for X in given:
        assert np.asarray(X).shape == ROWS.shape


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("name", "data", "says"), [
    ("x.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells where the first has 2"),
    ("x.csv", b"a,b\n1,2,3\n4,5,6\n", "line 2 has 3 cells where the first has 2"),
    ("x.csv", b"a,b\n", "there are no rows"),
    ("x.csv", b"# a\n", "the file is empty"),
    ("x.csv", b"\xe9,b\n1,2\n", "line 1 is not text in UTF-8"),
    ("x.csv", b"a,class\n1,\xe9\n", "line 2 is not text in UTF-8"),
    ("x.csv", b"a,b\r1,2\r", "not a table in text"),
    ("x.svm", b"# note\n1 1:2\nsetosa 1:1\n", "not a LIBSVM file: line 3 is 'setosa 1:1'"),
    ("x.svm", b"1 1:abc\n", "line 1 is '1 1:abc'"),
    ("x.svm", b"1 1:2\n1 3:1 1:2\n", "line 2 is '1 3:1 1:2' .*rising indices"),
    ("x.svm", b"1 -1:1 2:2\n", "line 1 is '1 -1:1 2:2'"),
    ("x.svm", b"1 1:1 99999999999999999999999:2\n", "line 1 is '1 1:1 9999"),
    ("x.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"{" * 15 + b"\n", "not a .npy file"),
])
def test_text_that_cannot_be_read_is_said_with_its_line(tmp_path, name, data, says):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=f"{name}: .*{says}|{says}"):
        datasets.blocks(tmp_path / name)


def test_a_feature_of_a_huge_number_is_refused(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1 99999999999999:2\n")
    with pytest.raises(MMCError, match="99999999999999"):
        datasets.blocks(tmp_path / "x.svm")


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    raw = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(raw[:-8])
    with pytest.raises(DataError, match="shorter than its shape"):
        datasets.blocks(tmp_path / "x.npy")


@pytest.mark.parametrize(("name", "write", "says"), [
    ("x.npz", lambda p: p.write_bytes(b""), "blocks are read from .npy, .csv, .tsv, .libsvm"),
    ("none.npy", lambda p: None, "there is no such file"),
    ("x.npy", lambda p: p.write_bytes(b"not an array"), "not a .npy file"),
    ("f.npy", lambda p: np.save(p, np.asfortranarray(ROWS)), "in the order of C; got float64 of "
                                                            r"shape \(23, 3\) in the order of For"),
    ("o.npy", lambda p: np.save(p, np.arange(3.0)), r"2-D array of numbers .* shape \(3,\)"),
    ("e.npy", lambda p: np.save(p, np.empty((0, 3))), "there are no rows"),
    ("x.svm", lambda p: p.write_text("1 a:2\n"), "not a LIBSVM file"),
    ("folder", lambda p: p.mkdir(), "must hold .npy files or .parquet files; it holds none"),
])
def test_what_cannot_be_read_is_refused(tmp_path, name, write, says):
    write(tmp_path / name)
    with pytest.raises(DataError, match=says):
        datasets.blocks(tmp_path / name)


def test_parts_of_several_widths_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", ROWS[:, :2])
    with pytest.raises(DataError, match="the files have 2 and 3 columns"):
        datasets.blocks(tmp_path)


def test_a_cell_that_is_no_number_is_named_where_it_is_read(tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n3,four\n")
    with pytest.raises(DataError, match="x.csv: .*four.* numpy.save"):
        list(datasets.blocks(tmp_path / "x.csv").each(dense))


def test_a_file_that_was_cut_short_is_noticed(tmp_path):
    X = datasets.blocks(write_npy(tmp_path), chunk=5)
    np.save(tmp_path / "x.npy", ROWS[:9])
    with pytest.raises(DataError, match="has become shorter"):
        list(X.each(dense))


def test_the_length_of_a_block_is_checked(tmp_path):
    with pytest.raises(ParameterError, match="blocks: chunk must be None or an integer at least 1"):
        datasets.blocks(write_npy(tmp_path), chunk=0)


@pytest.mark.parametrize("family", [OneClassHinge, Hypersphere])
def test_problems_that_need_all_rows_say_what_does_not(tmp_path, family):
    with pytest.raises(DataError, match=r"comes in blocks, .*margins and of regression do.*np\."
                                        r"asarray\(X\) reads all 23 rows, and mmcopt.condensing"):
        family(datasets.blocks(write_npy(tmp_path)))


# ---------------------------------------------------------------- few tasks, and room that is kept


def total(rows):
    return rows.sum()


def with_own(rows, own, factor):
    return factor * (rows.sum() + own.sum())


def test_blocks_of_files_are_read_many_to_a_task(tmp_path, monkeypatch):
    pytest.importorskip("dask.array")
    X = datasets.blocks(write_npy(tmp_path), chunk=2)
    stored = reading.as_blocks(X.to_dask(), "test")
    monkeypatch.setattr(reading, "_hands", lambda: 1)
    assert len(stored.starts) - 1 == 12 and stored.pieces == X.pieces
    assert len(stored._tasks(total, (), None, True)) == 4
    assert list(stored.each(total)) == list(X.each(total))
    own = np.arange(23.0)
    assert list(stored.each(with_own, 2.0, along=own)) == list(X.each(with_own, 2.0, along=own))
    assert list(stored.each(total, at_once=5)) == list(X.each(total))
    assert stored.fingerprint == X.fingerprint


def test_an_array_that_is_held_or_changed_is_not_read_again(tmp_path):
    pytest.importorskip("dask.array")
    made = datasets.blocks(write_npy(tmp_path), chunk=5).to_dask()
    assert reading.as_blocks(made, "test").pieces
    for other in (made.persist(), made + 1.0, made[:7]):
        assert not reading.as_blocks(other, "test").pieces


def test_rows_of_work_that_keeps_nothing_lie_in_the_same_place(tmp_path):
    X = datasets.blocks(write_npy(tmp_path), chunk=5)
    places = []

    @reading.keeps_nothing
    def where(rows):
        places.append(rows.__array_interface__["data"][0])
        return rows.sum()

    assert sum(X.each(where)) == pytest.approx(ROWS.sum()) and len(set(places)) == 1
    kept = list(X.each(lambda rows: rows))  # others are given rows of their own
    assert np.array_equal(np.concatenate(kept), ROWS)


def test_a_parquet_file_that_is_none_is_refused(tmp_path, monkeypatch):
    """As pyarrow refuses it, by a ValueError of its own, whether it is installed or not."""
    def refuse(path):
        raise ValueError("Parquet magic bytes not found\nin footer")

    module = importlib.import_module("mmcopt.datasets.parquet")
    monkeypatch.setattr(module, "_reader", lambda: types.SimpleNamespace(ParquetFile=refuse))
    (tmp_path / "x.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"x\.parquet: pyarrow cannot read it \(Parquet magic bytes "
                                        r"not found in footer\); save rows as \.npy"):
        datasets.blocks(tmp_path / "x.parquet")
