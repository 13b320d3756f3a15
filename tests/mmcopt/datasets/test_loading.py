"""Every kind of name that datasets.load reads, and every refusal."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.datasets

from mmcopt import datasets
from mmcopt.errors import DataError, MMCWarning

load = datasets.load

SHARED = {  # the sets of the papers: rows, columns, classes
    "aggregation": (788, 2, 7),
    "breast_wbc": (683, 9, 2),
    "coil20": (1440, 1024, 20),
    "coil_1to4": (288, 1024, 4),
    "compound": (399, 2, 6),
    "flame": (240, 2, 2),
    "glass": (214, 9, 6),
    "ionosphere": (351, 34, 2),
    "jain": (373, 2, 2),
    "letter_ABCD_500": (500, 16, 4),
    "letter_AvB": (1555, 16, 2),
    "mnist:n=500,seed=0": (500, 784, 10),
    "news_rec": (3970, 7995, 4),
    "r15": (600, 2, 15),
    "ringnorm_1000": (1000, 20, 2),
    "satellite_1v2": (2236, 36, 2),
    "spiral": (312, 2, 3),
    "usps_0123_500": (500, 256, 4),
    "webkb_cl": (867, 4748, 7),
}


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("MMCOPT_DATA", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of MMCOPT_DATA with a dense, a sparse and an unlabelled set."""
    X = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = np.array([0, 1, 2, 0, 1, 2, 0, 1], dtype=np.int32)
    np.savez(tmp_path / "Dense.npz", X=X, y=y, classes=np.array(["ant", "bee", "cat", "dog"]))
    S = scipy.sparse.csr_array(np.eye(8, 5))
    np.savez(tmp_path / "sparse.npz", data=S.data, indices=S.indices, indptr=S.indptr,
             shape=np.array(S.shape), y=y)
    np.savez(tmp_path / "plain.npz", X=X)
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    return tmp_path


def check(X, y, n, d, k):
    assert X.shape == (n, d)
    assert y.shape == (n,) and y.dtype == np.int64
    np.testing.assert_array_equal(np.unique(y), np.arange(k))


def refusal(name):
    with pytest.raises(DataError) as caught:
        load(name)
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".")
    return message


# ---------------------------------------------------------------- bundled sets


@pytest.mark.parametrize("name, n, d, k", [
    ("iris", 150, 4, 3), ("wine", 178, 13, 3), ("breast_cancer", 569, 30, 2),
    ("digits", 1797, 64, 10), ("IRIS", 150, 4, 3), ("digits:0,6,8,9", 713, 64, 4),
    ("digits:1,2,7,9", 718, 64, 4), ("digits:3,8", 357, 64, 2), ("digits:1,7", 361, 64, 2),
    ("digits:2,7", 356, 64, 2), ("digits:8,9", 354, 64, 2), ("digits:classes=3,8", 357, 64, 2),
    ("iris:setosa,virginica", 100, 4, 2),
])  # the sizes of the papers' digits
def test_bundled(name, n, d, k):
    check(*load(name), n, d, k)


def test_classes_are_renumbered_in_the_order_written():
    X, y = load("digits:8,3")
    full, target = sklearn.datasets.load_digits(return_X_y=True)
    kept = np.isin(target, (3, 8))
    np.testing.assert_array_equal(X, full[kept])
    np.testing.assert_array_equal(y, np.where(target[kept] == 8, 0, 1))
    swapped = load("iris:virginica,setosa")[1]
    assert swapped[0] == 1 and swapped[-1] == 0


def test_rows_are_drawn_without_replacement():
    X, y = load("digits:3,8,n=50,seed=1")
    again, _ = load("digits:n=50,classes=3,8,seed=1")
    other, _ = load("digits:3,8,n=50,seed=2")
    full, labels = load("digits:3,8")
    np.testing.assert_array_equal(X, again)
    assert not np.array_equal(X, other)
    rows = [np.flatnonzero((full == x).all(axis=1)).item() for x in X]
    assert rows == sorted(set(rows)) and len(rows) == 50
    np.testing.assert_array_equal(y, labels[rows])
    np.testing.assert_array_equal(load("iris:n=150")[0], load("iris")[0])


def test_arrays_belong_to_the_caller():
    X, y = load("iris")
    X[0], y[0] = -1, 2
    assert load("iris")[0][0, 0] > 0 and load("iris")[1][0] == 0


# ---------------------------------------------------------------- generated sets


@pytest.mark.parametrize("name, n, d, k", [
    ("moons", 500, 2, 2), ("moons:n=30,noise=.2,seed=3", 30, 2, 2), ("circles:n=31", 31, 2, 2),
    ("blobs", 300, 2, 3), ("blobs:n=40,k=4,d=5,sd=.1,seed=2", 40, 5, 4),
    ("gaussians", 40, 2, 2), ("gaussians:n=7,d=1", 7, 1, 2),
])
def test_generated(name, n, d, k):
    X, y = load(name)
    check(X, y, n, d, k)
    np.testing.assert_array_equal(X, load(name)[0])
    if "seed" not in name:
        glue = "," if ":" in name else ":"
        np.testing.assert_array_equal(X, load(f"{name}{glue}seed=0")[0])
        assert not np.array_equal(X, load(f"{name}{glue}seed=1")[0])


def test_generated_sets_are_those_of_sklearn():
    X, y = sklearn.datasets.make_moons(500, noise=0.1, random_state=0)
    np.testing.assert_array_equal(load("moons:n=500,noise=.1,seed=0")[0], X)
    np.testing.assert_array_equal(load("moons")[1], y)
    X, _ = sklearn.datasets.make_circles(60, noise=0.02, factor=0.3, random_state=5)
    np.testing.assert_array_equal(load("circles:n=60,noise=.02,factor=.3,seed=5")[0], X)


def test_gaussians_stand_the_distance_apart():
    X, y = load("gaussians:n=20000,distance=7,seed=0")
    centres = [X[y == c].mean(axis=0) for c in (0, 1)]
    np.testing.assert_allclose(centres[1] - centres[0], [7, 0], atol=0.06)
    np.testing.assert_allclose([X[y == c].std(axis=0) for c in (0, 1)], 1, atol=0.03)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("text, X, y", [
    ("f,g,rooms\n1,2,5\n3,4,1\n", [[1, 2, 5], [3, 4, 1]], None),  # no classes by place
    ("f,class,g\n1,x,2\n3,z,4\n", [[1, 2], [3, 4]], [0, 1]),
    ("Label;f;g\n7;1;2\n9;3;4\n", [[1, 2], [3, 4]], [0, 1]),
    ("\ufeffx\ty\n1\t.5\n2\t.25\n", [[1, 0.5], [2, 0.25]], None),  # a coordinate called y
    ("x,y,cluster\n1,.5,3\n2,.25,3\n", [[1, 0.5, 3], [2, 0.25, 3]], None),
    ("a;b\n1,5;2\n-,25;1e3\n", [[1.5, 2], [-0.25, 1000]], None),  # decimal commas
    ("a\tb\n1,5\t2\n3\t4\n", [[1.5, 2], [3, 4]], None),
    (",f,target\n0,1,no\n1,2,yes\n", [[1], [2]], [0, 1]),  # as pandas writes it
    ("1,.5\n2,.7\n", [[1, 0.5], [2, 0.7]], None),
    ("1\n2\n", [[1], [2]], None),
    ("a,b\n?,1.5\n,2.5\n\n", [[np.nan, 1.5], [np.nan, 2.5]], None),
    ("1,2,1.0\n3,4,0.0\n", [[1, 2, 1], [3, 4, 0]], None),
])
def test_csv(tmp_path, text, X, y):
    path = tmp_path / "some:name.csv"
    path.write_text(text, encoding="utf-8")
    found, labels = load(path)
    np.testing.assert_array_equal(found, X)
    assert labels is None if y is None else labels.tolist() == y
    np.testing.assert_array_equal(load(f"{path}:n=1")[0].shape, (1, len(X[0])))


TABLE = "id,f,kind,g\na7,1,5,2\nb2,3,-1,4\nc3,5,5,6\n"


@pytest.mark.parametrize("options, X, y", [
    ({"labels": "kind"}, [[1, 2], [3, 4], [5, 6]], [1, 0, 1]),
    ({"labels": "KIND"}, [[1, 2], [3, 4], [5, 6]], [1, 0, 1]),
    ({"labels": 3}, [[1, 2], [3, 4], [5, 6]], [1, 0, 1]),
    ({"labels": False}, [[1, 5, 2], [3, -1, 4], [5, 5, 6]], None),
    ({"labels": "id", "columns": ["g", 2]}, [[2, 1], [4, 3], [6, 5]], [0, 1, 2]),
])
@pytest.mark.filterwarnings("ignore:.*names the rows")
def test_columns_by_name_and_number(tmp_path, options, X, y):
    path = tmp_path / "set.tsv"
    path.write_text(TABLE.replace(",", "\t"))
    found, labels = load(path, **options)
    np.testing.assert_array_equal(found, X)
    assert labels is None if y is None else labels.tolist() == y


def test_what_was_done_with_columns_is_said(tmp_path):
    path = tmp_path / "set.csv"
    path.write_text(TABLE.replace("kind", "class"))
    with pytest.warns(MMCWarning, match="column 'id' names the rows and is left out; columns="):
        X, _ = load(path)
    table = datasets.load_table(path)
    assert table.labelled == "the classes are those of column 'class'"
    assert table.dropped == "column 'id' names the rows and is left out"
    assert X.shape == (3, 2) and table.classes == ["-1", "5"]
    path.write_text("id,f\n1,2\n1,3\n")  # these do not name rows
    assert load(path)[0].shape == (2, 2)


@pytest.mark.parametrize("options, words", [
    ({"labels": "sort"}, "labels='sort' is no heading, and no number from 1 to 4; its headings "
                         "are id, f, kind, g"),
    ({"columns": [9]}, "columns=9 is no heading, and no number from 1 to 4"),
    ({"labels": True}, "no column is called label, class, target, y"),
    ({"columns": ["id"]}, "holds 'a7' in data row 1, which is not a number; if it holds the "
                          "classes, name it by labels (--labels)"),
])
def test_columns_that_are_not_there(tmp_path, options, words):
    path = tmp_path / "set.csv"
    path.write_text(TABLE)
    with pytest.raises(DataError) as e:
        load(path, **options)
    assert words in str(e.value)
    with pytest.raises(DataError, match=r"labels and columns are for \.csv and \.tsv files"):
        load("iris", **options)


def test_measured_numbers_are_no_classes(tmp_path):
    path = tmp_path / "set.csv"
    path.write_text("f,price\n1,2.5\n3,4\n")
    with pytest.raises(DataError, match="column 'price' holds measured numbers"):
        load(path, labels="price")


@pytest.mark.parametrize("text, words", [
    ("", "the file is empty"),
    ("a,b\n", "headings but no rows"),
    ("1,2\n3\n", "row 2 has 1 cell where the first has 2"),
    ("f,g,label\n1,x,0\n2,3,1\n", "column 'g' holds 'x' in data row 1"),
])
def test_csv_refusals(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert words in refusal(str(path))


def test_csv_must_be_text(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"caf\xe9,1\n")
    assert "UTF-8" in refusal(tmp_path / "latin.csv")


@pytest.mark.parametrize("density, dense", [(0.9, True), (0.2, False)])
def test_libsvm(tmp_path, density, dense):
    X = scipy.sparse.random(20, 6, density=density, random_state=0, format="csr")
    path = tmp_path / "set.libsvm"
    sklearn.datasets.dump_svmlight_file(X, np.arange(20) % 2 * 2 - 1, str(path), zero_based=False)
    found, y = load(path)
    assert isinstance(found, np.ndarray if dense else scipy.sparse.csr_array)
    width = found.shape[1]
    np.testing.assert_allclose(found if dense else found.toarray(), X.toarray()[:, :width])
    np.testing.assert_array_equal(y, np.arange(20) % 2)
    np.testing.assert_array_equal(load(f"{path}:classes=1,-1")[1], 1 - y)


def test_libsvm_refusal(tmp_path):
    (tmp_path / "bad.libsvm").write_text("not a number\n")
    assert "not a LIBSVM file" in refusal(tmp_path / "bad.libsvm")


def test_npz_keeps_types_and_codes(folder):
    X, y = load(folder / "Dense.npz")
    assert X.dtype == np.float32 and y.dtype == np.int64
    np.testing.assert_array_equal(y, [0, 1, 2, 0, 1, 2, 0, 1])
    assert load("plain")[1] is None
    np.savez(folder / "words.npz", X=X, y=np.array(list("bbaabbaa")))
    np.testing.assert_array_equal(load("words")[1], [1, 1, 0, 0, 1, 1, 0, 0])


def test_npz_sparse(folder):
    for name in ("sparse", "saved"):
        X, _ = load(name) if name == "sparse" else (load(folder / "saved.npz"))
        assert isinstance(X, scipy.sparse.csr_array)
        np.testing.assert_array_equal(X.toarray(), np.eye(8, 5))
        scipy.sparse.save_npz(folder / "saved.npz", X)
    X, y = load("sparse:2,0,n=4")
    assert X.shape == (4, 5) and set(y.tolist()) <= {0, 1}


@pytest.mark.parametrize("arrays, words", [
    ({"Z": np.eye(2)}, "the file holds Z"),
    ({"X": np.arange(3.0)}, r"X must be 2-D (samples x features)"),
    ({"X": np.eye(3), "y": np.arange(2)}, "got (3, 3) and (2,)"),
    ({"X": np.eye(2), "y": np.array([0.5, 1])}, "y must hold whole numbers or text"),
    ({"X": np.array([[object()]])}, "not an npz file of plain arrays"),
    ({"X": np.empty((0, 2))}, "holds no data"),
    ({"data": np.ones(1), "indices": [9], "indptr": [0, 1], "shape": [1, 2]}, "do not form a CSR"),
    ({"data": np.ones(1), "indices": [0], "indptr": [0, 1], "shape": [1, 2], "format": b"csc"},
     "save it as CSR"),
])
def test_npz_refusals(tmp_path, arrays, words):
    np.savez(tmp_path / "bad.npz", **arrays)
    assert words in refusal(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 broken"])
def test_npz_must_be_one(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    assert "not an npz file" in refusal(tmp_path / "bad.npz")


def test_no_such_file(tmp_path):
    for ending in ("csv", "npz", "libsvm", "CSV"):
        assert "there is no such file" in refusal(tmp_path / f"none.{ending}")


# ---------------------------------------------------------------- names


def test_names(folder):
    own = datasets.names()
    assert own[-3:] == ["Dense", "plain", "sparse"]
    assert {"iris", "digits", "moons", "gaussians"} < set(own)
    np.testing.assert_array_equal(load("Dense:bee,ant")[1], [1, 0, 1, 0, 1, 0])
    assert "no class 'dog'; the classes are 0, 1, 2 (ant, bee, cat)" in refusal("Dense:dog")


def test_names_without_a_folder(no_folder):
    assert datasets.names()[:4] == ["iris", "wine", "breast_cancer", "digits"]


def test_unknown_name(no_folder):
    assert refusal("digist:3,8") == (
        "load('digist:3,8'): there is no data set 'digist' (did you mean 'digits'?); allowed are "
        "iris, wine, breast_cancer, digits, moons, circles, blobs, gaussians, g05, pm1s, pm1d, w, "
        "ising, bqp, be, openml:NAME and paths that end in .csv, .tsv, .npz, .libsvm, .mc, .rud, "
        ".rudy, .sparse, .txt; MMCOPT_DATA, which can name a folder of NAME.npz files, is not set."
    )


def test_unknown_name_with_a_folder(folder, monkeypatch):
    assert "did you mean 'Dense'?" in refusal("dense")
    assert "did you mean" not in refusal("qqqq")
    assert "no data set '../x'" in refusal("../x")
    monkeypatch.setenv("MMCOPT_DATA", str(folder / "nowhere"))
    assert "which is not a folder" in refusal("Dense")


@pytest.mark.parametrize("name, words", [
    ("moons:n=many", "n must be a whole number, at least 2; got 'many'"),
    ("moons:n=1", "n must be a whole number, at least 2; got '1'"),
    ("moons:n=10.5", "n must be a whole number, at least 2; got '10.5'"),
    ("moons:noise=-1", "noise must be a number, at least 0; got '-1'"),
    ("moons:noise=inf", "noise must be a number, at least 0; got 'inf'"),
    ("circles:factor=1", "factor must be a number, at least 0 and at most 0.999; got '1'"),
    ("moons:seed=4294967296", "seed must be a whole number, at least 0 and at most 4294967295"),
    ("moons:sd=1", "there is no option 'sd' here; allowed are n, noise, seed"),
    ("moons:3,8", "there is no option 'classes' here"),
    ("blobs:n=2,k=3", "k=3 blobs need n of at least 3"),
    ("iris:version=2", "no option 'version' here; allowed are n, seed, classes"),
    ("iris:n=151", "n=151 rows were asked for; there are 150"),
    ("iris:seed=1", "seed chooses rows and needs n as well"),
    ("iris:n=5,n=6", "n is given twice"),
    ("iris:n=5,6", "cannot read '6'"),
    ("iris:", "cannot read ''"),
    ("iris:n=", "cannot read 'n='"),
    ("iris:0,rose", "no class 'rose'; the classes are 0, 1, 2 (setosa, versicolor, virginica)"),
    ("digits:3,11", "no class '11'; the classes are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9."),
    ("digits:3,3", "a class is listed twice"),
])
def test_option_refusals(name, words):
    assert words in refusal(name)


def test_classes_need_labels(folder):
    assert "no labels to choose classes by" in refusal("plain:0,1")


# ---------------------------------------------------------------- OpenML, without the network


@pytest.fixture
def openml(monkeypatch):
    calls = []

    def fetch(name, **options):
        calls.append((name, options["version"]))
        if name == "offline":
            raise OSError("no route to\nhost")
        target = np.array(["b", "a", "b", "a"], dtype=object)
        data = scipy.sparse.csr_matrix(np.eye(4)) if name == "sparse" else np.eye(4)
        return sklearn.utils.Bunch(data=data, target=None if name == "bare" else target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return calls


def test_openml(openml):
    X, y = load("openml:my-set")
    check(X, y, 4, 4, 2)
    np.testing.assert_array_equal(y, [1, 0, 1, 0])
    assert load("OpenML:my-set:b,n=2,version=3")[1].tolist() == [0, 0]
    assert openml == [("my-set", 1), ("my-set", 3)]
    assert isinstance(load("openml:sparse")[0], scipy.sparse.csr_array)
    assert load("openml:bare")[1] is None


def test_openml_offline(openml):
    message = refusal("openml:offline")
    assert "OpenML did not give 'offline' version 1 (no route to host)" in message
    assert "network connection" in message


# ---------------------------------------------------------------- the papers' sets


@pytest.mark.parametrize("name", SHARED)
def test_shared_sets(shared_data, name):
    check(*shared_data(name), *SHARED[name])


def test_shared_mnist_pair(shared_data):
    X, y = shared_data("mnist:classes=1,0,n=300,seed=0")
    check(X, y, 300, 784, 2)
    ink = [X[y == c].mean() for c in (0, 1)]
    assert X.dtype == np.uint8 and ink[0] < ink[1]  # a one has less ink than a zero
