"""Graphs and matrices from text and by the rules of their libraries."""

import numpy as np
import pytest
from scipy.sparse import issparse

import mmcopt as mm
from mmcopt.errors import DataError, ResourceError
from mmcopt.formulations import QUBO, MaxCut

pytestmark = pytest.mark.as_given  # whole numbers stay whole


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_lines_of_edges_are_a_symmetric_matrix(tmp_path):
    text = "# a path of three edges\n4 3\n1 2 5\n3 2 -1.5\n\n3 4\n"
    for ending in ("mc", "rud", "rudy", "sparse", "txt"):
        W, y = mm.datasets.load(written(tmp_path, f"path.{ending}", text))
        assert y is None and issparse(W)
        assert W.toarray().tolist() == [[0, 5, 0, 0], [5, 0, -1.5, 0], [0, -1.5, 0, 1],
                                        [0, 0, 1, 0]]
    assert MaxCut(W).cut([0, 1, 1, 0]) == 6.0


def test_an_entry_of_a_matrix_stands_for_both_halves_and_the_diagonal_for_itself(tmp_path):
    Q, _ = mm.datasets.load(written(tmp_path, "q.sparse", "2 3\n1 1 -4\n1 2 3\n2 2 1\n"))
    assert Q.tolist() == [[-4, 3], [3, 1]]
    assert QUBO(Q).objective(np.array([1, 1])) == -4 + 2 * 3 + 1


def test_one_of_several_instances(tmp_path):
    text = "2\n2 1\n1 2 7\n3 2\n1 1 1\n2 3 -8\n"
    path = written(tmp_path, "bqp.txt", text)
    first, second = (mm.datasets.load(f"{path}:instance={i}")[0] for i in (1, 2))
    assert first.toarray().tolist() == [[0, 7], [7, 0]]
    assert second.toarray().tolist() == [[1, 0, 0], [0, 0, -8], [0, -8, 0]]
    alone = written(tmp_path, "one.txt", "1\n2 1\n1 2 7\n")
    assert mm.datasets.load(alone)[0].toarray().tolist() == first.toarray().tolist()
    for name, words in ((path, "holds 2 matrices; choose one, as in bqp.txt:instance=1"),
                        (path + ":instance=3", "instance=3 was asked for, and the file holds 2 m"),
                        (path + ":n=2", "there is no option 'n' here; allowed are instance")):
        with pytest.raises(DataError, match=words):
            mm.datasets.load(name)


@pytest.mark.parametrize("text, words", [
    ("", "the file is empty"),
    ("3\n", "ends before all the matrices that it announces|holds 3 matrices"),
    ("1\n", "ends before all the matrices that it announces"),
    ("0\n", "line 1 must hold whole numbers, at least 1; got '0'"),
    ("a b\n", "line 1 must hold whole numbers, at least 0; got 'a b'"),
    ("2 1 1\n1 2 3\n", "line 1 must be 'n m'"),
    ("0 0\n", "line 1 must be 'n m', a number of nodes, at least 1"),
    ("2 2\n1 2 3\n", "line 1 announces 2 entries, and 1 lines follow"),
    ("2 1\n1 2 3\n1 2 3\n", "line 1 announces 1 entry, and 2 lines follow"),
    ("2 1\n1 3 1\n", "line 2 must be 'i j value', i and j nodes from 1 to 2; got '1 3 1'"),
    ("2 1\n0 1 1\n", "line 2 must be 'i j value'"),
    ("2 1\n1 2 x\n", "line 2 must be 'i j value'.*got '1 2 x'"),
    ("2 1\n1 2 nan\n", "line 2 must be 'i j value'"),
    ("2 1\n1 99999999999999999999 1\n", "line 2 must be 'i j value', i and j nodes from 1 to 2"),
    ("2 1\n1\n", "line 2 must be 'i j value'"),
    ("2 2\n1 2 3\n2 1 4\n", "the entry 1 2 is there 2 times; add its values up"),
])
def test_what_cannot_be_read_is_said_with_its_line(tmp_path, text, words):
    with pytest.raises(DataError, match=words):
        mm.datasets.load(written(tmp_path, "bad.mc", text))


def test_no_text_and_no_file(tmp_path):
    (tmp_path / "bytes.mc").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not a readable text file in UTF-8"):
        mm.datasets.load(str(tmp_path / "bytes.mc"))
    with pytest.raises(DataError, match=r"none\.mc: there is no such file"):
        mm.datasets.load(str(tmp_path / "none.mc"))


def test_names_in_the_folder_of_graphs(tmp_path, monkeypatch):
    (tmp_path / "maxcut").mkdir()
    (tmp_path / "maxcut" / "g05_2.0").write_text("2 1\n1 2\n")
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    assert mm.datasets.load("g05_2.0")[0].toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("name, values, density", [
    ("g05", {1}, 0.5), ("pm1s", {-1, 1}, 0.1), ("pm1d", {-1, 1}, 0.99),
    ("w:density=0.3", set(range(-10, 11)) - {0}, 0.3 * 20 / 21)])
def test_graphs_by_the_rules_of_rudy(name, values, density):
    base, _, option = name.partition(":")
    W, y = mm.datasets.load(f"{base}:n=200,seed=1" + (f",{option}" if option else ""))
    W = W.toarray() if issparse(W) else W
    off = W[np.triu_indices(200, 1)]
    assert y is None and (W == W.T).all() and not W.diagonal().any()
    assert set(off[off != 0].tolist()) == values
    assert abs((off != 0).mean() - density) < 0.02
    assert MaxCut(W).offer(mm.LabelQuadratic).grid is not None


@pytest.mark.parametrize("name, pairs, density", [("bqp", 100, 0.1), ("be", 50, 1.0)])
def test_quadratic_functions_by_the_rules_of_their_authors(name, pairs, density):
    Q, _ = mm.datasets.load(f"{name}:n=150")
    Q = Q.toarray() if issparse(Q) else Q
    off = Q[np.triu_indices(150, 1)]
    assert (Q == Q.T).all() and abs((off != 0).mean() - density) < 0.02
    assert (off.min(), off.max()) == (-pairs, pairs) and np.abs(Q.diagonal()).max() <= 100


def test_a_ring_of_spins_is_whole_and_falls_with_the_distance():
    W, _ = mm.datasets.load("ising:n=60,sigma=3,seed=2")
    assert (W == np.rint(W)).all() and (W == W.T).all()
    near, far = np.abs(np.diag(W, 1)).mean(), np.abs(np.diag(W, 30)).mean()
    assert near > 1000 * far and abs(W[0, 59]) > 1000


def test_what_memory_cannot_hold_is_refused(tmp_path):
    huge = written(tmp_path, "huge.mc", "1000000000000 0\n")
    for name, words in ((huge, "huge.mc: a matrix of 1000000000000 nodes needs 14.6 TiB"),
                        ("g05:n=1000000", "a matrix of 1000000 nodes needs 21.8 TiB")):
        with pytest.raises(ResourceError, match=words):
            mm.datasets.load(name)


def test_options_of_generators_are_checked():
    with pytest.raises(DataError, match="pairs must be a whole number, at least 0 and at most 90"):
        mm.datasets.load("bqp:pairs=1e19")
    with pytest.raises(DataError, match="density must be a number, at least 0 and at most 1"):
        mm.datasets.load("g05:density=2")
    with pytest.raises(DataError, match="there is no option 'pairs' here"):
        mm.datasets.load("g05:pairs=2")
