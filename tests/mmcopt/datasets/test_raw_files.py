"""Readers of published files, on small ones of the same form made by hand."""

import struct

import numpy as np
import pytest

from mmcopt.datasets.public_sets import PUBLISHED


def idx(array):
    head = struct.pack(f">{1 + array.ndim}i", 2048 + array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def read(name, *files):
    return PUBLISHED[name].read(files)


def test_ionosphere_ends_with_its_class():
    table = read("ionosphere", b"1,0,0.99539,-0.05889,g\n1,0,1,-0.18829,b\n\n")
    np.testing.assert_array_equal(table.X, [[1, 0, 0.99539, -0.05889], [1, 0, 1, -0.18829]])
    assert table.y.tolist() == [1, 0] and table.classes == ["bad", "good"]


def test_letters_begin_with_their_class():
    table = read("letter", b"T,2,8,3\nI,5,12,3\r\nT,4,11,6\n")
    assert table.X.tolist() == [[2, 8, 3], [5, 12, 3], [4, 11, 6]]
    assert table.y.tolist() == [1, 0, 1] and table.classes == ["I", "T"]


def test_satellite_is_two_files_between_spaces():
    table = read("satellite", b"92 115 120 3\n84 102 106 3\n", b"80 102 102 1\n")
    assert table.X.tolist() == [[92, 115, 120], [84, 102, 106], [80, 102, 102]]
    assert table.y.tolist() == [1, 1, 0] and table.classes == ["1 red soil", "3 grey soil"]


def test_glass_has_a_number_for_each_row():
    table = read("glass", b"1,1.52101,13.64,1\n2,1.51761,13.89,7\n")
    assert table.X.tolist() == [[1.52101, 13.64], [1.51761, 13.89]]
    assert table.y.tolist() == [0, 1] and table.classes == ["1", "7"]


def test_breast_cancer_leaves_out_rows_with_something_missing():
    table = read("breast_wbc", b"1000025,5,1,2\n1057013,8,?,4\n1017023,4,10,4\n")
    assert table.X.tolist() == [[5, 1], [4, 10]] and table.classes == ["benign", "malignant"]
    assert table.y.tolist() == [0, 1]


def test_usps_writes_digits_in_two_ways():
    table = read("usps", b"6.0000 -1.0000 0.8610 \n5.0000 -1.0000 1.0000 \n", b"6 -1 0.5\n")
    assert table.X.tolist() == [[-1, 0.861], [-1, 1], [-1, 0.5]]
    assert table.y.tolist() == [1, 0, 1] and table.classes == ["5", "6"]


def test_pictures_are_rows():
    train, test = np.arange(12).reshape(2, 2, 3), np.arange(6).reshape(1, 2, 3)
    table = read("mnist", idx(train), idx(np.array([1, 0])), idx(test), idx(np.array([1])))
    assert table.X.dtype == np.uint8 and table.y.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(table.X, [*train.reshape(2, 6), *test.reshape(1, 6)])


@pytest.mark.parametrize(("raw", "words"), [
    (b"<html>", "does not begin as an IDX file of 3"),
    (b"<html>this has moved</html>", "does not begin as an IDX file of 3"),
    (idx(np.array([1, 2])), "does not begin as an IDX file of 3"),
    (idx(np.ones((2, 2, 2)))[:-1], "claims 2 x 2 x 2 bytes, and 7 follow"),
])
def test_pictures_that_are_none(raw, words):
    with pytest.raises(ValueError, match=words):
        read("mnist", raw, idx(np.array([1])))


def test_shapes_have_their_classes_in_a_file_of_their_own():
    table = read("jain", b"0.85 17.45\n0.75 15.6\n", b"2\n1\n")
    assert table.X.tolist() == [[0.85, 17.45], [0.75, 15.6]]
    assert table.y.tolist() == [1, 0] and table.classes == ["1", "2"]


def test_svmguide_is_a_libsvm_file():
    table = read("svmguide1", b"1 1:2.5 2:5.3\n0 2:1.5\n")
    assert table.X.tolist() == [[2.5, 5.3], [0, 1.5]] and table.y.tolist() == [1, 0]


def test_classes_are_chosen_and_rows_are_drawn_in_their_order():
    one = PUBLISHED["letter_ABCD_500"]
    letters = "ZDABC" * 300
    raw = "".join(f"{c},{i}\n" for i, c in enumerate(letters)).encode()
    table = one.table([raw])
    assert table.X.shape == (500, 1) and table.X.dtype == np.float32
    rows = table.X.ravel().astype(int)
    assert (np.diff(rows) > 0).all()
    assert [table.classes[c] for c in table.y] == [letters[i] for i in rows]
    assert table.classes == ["A", "B", "C", "D"]
    np.testing.assert_array_equal(one.table([raw]).X, table.X)


def test_all_of_a_choice_come_where_no_number_is_asked_for():
    table = PUBLISHED["letter_AvB"].table([b"B,1\nC,2\nA,3\n"])
    assert table.X.tolist() == [[1], [3]] and table.y.tolist() == [1, 0]
