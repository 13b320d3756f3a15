"""Data sets by one name: bundled, generated, from files, from a folder of yours, or from OpenML.

=============================== =================================================================
``iris``, ``wine``,             the sets that come with scikit-learn
``breast_cancer``, ``digits``
``moons:n=500,noise=.1,seed=0`` generated: also ``circles:n=500,noise=.05,factor=.5,seed=0``,
                                ``blobs:n=300,k=3,d=2,sd=1,seed=0`` and two unit Gaussians,
                                ``gaussians:n=40,distance=4,d=2,seed=0`` (defaults shown)
``g05:n=80,seed=0``             graphs by the rules of rudy, for `MaxCut`: also ``pm1s``, ``pm1d``,
                                ``w`` (all with ``density=``) and ``ising:n=80,sigma=2.5``; matrices
                                for `QUBO`: ``bqp`` and ``be`` (``density=``, ``pairs=``)
``file.csv``, ``file.tsv``,     a path with one of these endings
``file.npz``, ``file.libsvm``
``file.mc``, ``.rud``,          a graph or a matrix in lines ``i j value``; of OR-Library files that
``.rudy``, ``.sparse``,         hold several, ``bqp50.txt:instance=3`` is one
``.txt``
``openml:NAME``                 downloaded once by scikit-learn; ``version=2`` chooses a version
``NAME``                        NAME.npz in the folder that the variable MMCOPT_DATA names, or a
                                graph by its whole name, in the folder maxcut there; `fetch`
                                downloads public sets to there
=============================== =================================================================

Graphs and matrices are n x n and have no classes. Every other set that is not generated takes a
choice of classes and of rows: ``digits:3,8``, which is short for ``digits:classes=3,8``, and
``mnist:n=8000,seed=0`` (random rows without replacement, in the order of the file; the seed is 0 by
default). The classes come first, then the rows. Classes are the numbers 0..k-1 that `load` gives
without a choice, or their names where the source has names (``iris:virginica,setosa``), and are
renumbered in the order written.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import require_memory
from mmcopt.datasets import graphs
from mmcopt.datasets.archives import BROKEN, array_names, read_arrays
from mmcopt.datasets.public_sets import PUBLISHED
from mmcopt.datasets.table import Labels, Table, encode
from mmcopt.datasets.text import Chosen, Column, read_text
from mmcopt.errors import DataError, MMCError, MMCWarning

Options = dict[str, Any]


def load(name: str | os.PathLike[str], *, labels: Chosen = None,
         columns: Sequence[Column] | None = None) -> tuple[Any, Labels | None]:
    """Return the data and the classes of a set.

    Parameters
    ----------
    name
        What to load: see the table at the top of this module, and `names` for what is there.
    labels
        Of a .csv or .tsv file, the column of the classes: its heading, or its number from 1. None
        takes a column that is called label, class, target or y; False takes none.
    columns
        Of such a file, the headings or numbers of the features; None takes all that are left but
        those which name the rows (id, index, key), and warns of these.

    Returns
    -------
    X
        Rows are samples, of shape (n, d): an array in the type of the source, or a CSR array.
    y
        The classes 0..k-1 of shape (n,), or None when the source has none.

    Examples
    --------
    >>> X, y = load("digits:3,8")
    >>> X.shape, y.tolist()[:6]
    ((357, 64), [0, 1, 0, 1, 0, 1])
    """
    table = load_table(name, labels=labels, columns=columns)
    if table.dropped:
        warnings.warn(f"{os.fspath(name)}: {table.dropped}; columns= keeps it.", MMCWarning,
                      stacklevel=2)
    return table.X, table.y


def load_table(name: str | os.PathLike[str], *, labels: Chosen = None,
               columns: Sequence[Column] | None = None) -> Table:
    """Return the same as `load`, and what was done with the columns of a file."""
    text = os.fspath(name)
    base, options = _split(text)
    if (labels is not None or columns is not None) and not base.casefold().endswith(_TEXT):
        raise _error(text, f"labels and columns are for {' and '.join(_TEXT)} files")
    if base.casefold() in _GENERATED:
        return Table(*_generate(base.casefold(), options, text))
    if _is_graph(base):
        return _graph(base, _numbers(text, options, _INSTANCE))
    choice = _numbers(text, options, _ROWS)
    return _choose(_find(base, text, choice, labels, columns), choice, text)


def names() -> list[str]:
    """Return the names that can be loaded now: bundled, generated and from MMCOPT_DATA.

    Examples
    --------
    >>> names()[:4]
    ['iris', 'wine', 'breast_cancer', 'digits']
    """
    known = [*_BUNDLED, *_GENERATED]
    return known + [n for n in _own_names() if n not in known]


def _error(text: str, words: str) -> DataError:
    return DataError(f"load({text!r}): {words}.")


# ---------------------------------------------------------------- the name


def _split(text: str) -> tuple[str, Options]:
    """Split NAME:OPTIONS; bare values belong to the key before them, at first to ``classes``."""
    head, colon, tail = text.partition(":")
    if head.casefold() == "openml":
        head, colon, tail = tail.partition(":")
        head = "openml:" + head
    elif _is_path(text):
        return text, {}
    elif _is_path(text.rpartition(":")[0]):  # a path may hold colons of its own
        head, colon, tail = text.rpartition(":")
    options: Options = {}
    key = "classes"
    for item in tail.split(",") if colon else []:
        word, equals, value = item.partition("=")
        if equals:
            key = word.strip()
            if key in options:
                raise _error(text, f"{key} is given twice")
        else:
            value = word
        if not value.strip() or (not equals and key != "classes"):
            raise _error(text, f"cannot read {item!r}; options look like n=500,seed=0 and classes "
                               "like 3,8")
        options.setdefault(key, []).append(value.strip())
    return head, options


@dataclass(frozen=True)
class _Number:
    """A numeric option: its default and its range."""

    default: float | None
    low: float = 0.0
    whole: bool = False
    high: float = float("inf")

    def read(self, text: str, key: str, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        fits = self.low <= value <= self.high and abs(value) != float("inf")
        if fits and (not self.whole or value == int(value)):
            return int(value) if self.whole else value
        limit = f" and at most {self.high}" if self.high < float("inf") else ""
        kind = "a whole number" if self.whole else "a number"
        raise _error(text, f"{key} must be {kind}, at least {self.low:g}{limit}; got {word!r}")


_SEED = _Number(0, whole=True, high=2**32 - 1)
_ROWS = {"n": _Number(None, 1, whole=True), "seed": _SEED, "version": _Number(1, 1, whole=True)}
_INSTANCE = {"instance": _Number(None, 1, whole=True)}


def _numbers(text: str, options: Options, rules: dict[str, _Number]) -> Options:
    """Read the numeric options by their rules, add the defaults, refuse unknown ones."""
    allowed = [*rules, "classes"] if rules is _ROWS else [*rules]
    if not text.casefold().startswith("openml:") and "version" in allowed:
        allowed.remove("version")
    for key in options:
        if key not in allowed:
            raise _error(text, f"there is no option {key!r} here; allowed are {', '.join(allowed)}")
    read: Options = {key: rule.default for key, rule in rules.items()}
    read.update({k: rules[k].read(text, k, v[0]) for k, v in options.items() if k in rules})
    if "classes" in options:
        read["classes"] = options["classes"]
    if rules is _ROWS and "seed" in options and "n" not in options:
        raise _error(text, "seed chooses rows and needs n as well, as in n=500,seed=0")
    return read


# ---------------------------------------------------------------- generated sets


def _moons(o: Options) -> tuple[Any, Any]:
    from sklearn.datasets import make_moons

    return make_moons(o["n"], noise=o["noise"], random_state=o["seed"])


def _circles(o: Options) -> tuple[Any, Any]:
    from sklearn.datasets import make_circles

    return make_circles(o["n"], noise=o["noise"], factor=o["factor"], random_state=o["seed"])


def _blobs(o: Options) -> tuple[Any, Any]:
    from sklearn.datasets import make_blobs

    made = make_blobs(o["n"], o["d"], centers=o["k"], cluster_std=o["sd"], random_state=o["seed"])
    return made[0], made[1]


def _gaussians(o: Options) -> tuple[Any, Any]:
    y = np.repeat([0, 1], [o["n"] - o["n"] // 2, o["n"] // 2])
    X = np.random.default_rng(o["seed"]).standard_normal((o["n"], o["d"]))
    X[:, 0] += (y - 0.5) * o["distance"]
    return X, y


def _count(default: int, low: int = 1) -> _Number:
    return _Number(default, low, whole=True)


_Generator = tuple[Callable[[Options], tuple[Any, Any]], dict[str, _Number]]
_GENERATED: dict[str, _Generator] = {
    "moons": (_moons, {"n": _count(500, 2), "noise": _Number(0.1), "seed": _SEED}),
    "circles": (_circles, {"n": _count(500, 2), "noise": _Number(0.05),
                           "factor": _Number(0.5, high=0.999), "seed": _SEED}),
    "blobs": (_blobs, {"n": _count(300), "k": _count(3), "d": _count(2), "sd": _Number(1.0),
                       "seed": _SEED}),
    "gaussians": (_gaussians, {"n": _count(40, 2), "distance": _Number(4.0), "d": _count(2),
                               "seed": _SEED}),
}
def _matrices(make: Callable[[Options], Any], defaults: dict[str, float]) -> _Generator:
    """A generator of graphs, or of matrices of quadratic functions."""
    most = {"density": 1.0, "pairs": 2**53}
    rules = {key: _Number(d, whole=key == "pairs", high=most.get(key, float("inf")))
             for key, d in defaults.items()}

    def made(o: Options) -> tuple[Any, None]:
        require_memory(24.0 * o["n"] ** 2, f"a matrix of {o['n']} nodes", "make n smaller.")
        return make(o), None

    return made, {"n": _count(80), "seed": _SEED, **rules}


_GENERATED |= {name: _matrices(*rule) for name, rule in graphs.GENERATORS.items()}


def _generate(name: str, options: Options, text: str) -> tuple[Any, Labels | None]:
    make, rules = _GENERATED[name]
    read = _numbers(text, options, rules)
    if read["n"] < read.get("k", 1):
        raise _error(text, f"k={read['k']} blobs need n of at least {read['k']}")
    X, y = make(read)
    return X, None if y is None else y.astype(np.int64)


# ---------------------------------------------------------------- found sets

_BUNDLED = ("iris", "wine", "breast_cancer", "digits")


def _find(base: str, text: str, options: Options, labels: Chosen,
          columns: Sequence[Column] | None) -> Table:
    if base.startswith("openml:"):
        return _openml(base.removeprefix("openml:"), text, int(options["version"]))
    if _is_path(base):
        return _read(pathlib.Path(base).expanduser(), labels, columns)
    if base.casefold() in _BUNDLED:
        return _bundled(base.casefold())
    folder = _folder()
    if folder is not None and base in _own_names():
        return _read(folder / f"{base}.npz")
    raise _unknown(base, text)


def _folder() -> pathlib.Path | None:
    where = os.environ.get("MMCOPT_DATA")
    return pathlib.Path(where).expanduser() if where else None


def _own_names() -> list[str]:
    folder = _folder()
    return sorted(p.stem for p in folder.glob("*.npz")) if folder and folder.is_dir() else []


def _unknown(base: str, text: str) -> DataError:
    known = {n.casefold(): n for n in names()}
    close = difflib.get_close_matches(base.casefold(), known, 1)
    guess = f" (did you mean {known[close[0]]!r}?)" if close else ""
    folder = _folder()
    if base in PUBLISHED:
        more = f"; it is public: mmcopt data fetch {base}"
    elif folder is None:
        more = "; MMCOPT_DATA, which can name a folder of NAME.npz files, is not set"
    elif not folder.is_dir():
        more = f"; MMCOPT_DATA names {str(folder)!r}, which is not a folder"
    else:
        more = ""
    return _error(text, f"there is no data set {base!r}{guess}; allowed are {', '.join(names())}, "
                        f"openml:NAME and paths that end in {', '.join(_ENDINGS)}{more}")


def _bundled(name: str) -> Table:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    return Table(bunch.data, bunch.target.astype(np.int64), list(map(str, bunch.target_names)))


def _openml(name: str, text: str, version: int) -> Table:
    from sklearn.datasets import fetch_openml

    try:  # liac-arff: the other parser needs pandas
        bunch = cast(Any, fetch_openml(name, version=version, as_frame=False, parser="liac-arff",
                                       n_retries=0))
    except (OSError, ValueError) as e:
        reason = " ".join(str(e).split()) or type(e).__name__
        raise _error(text, f"OpenML did not give {name!r} version {version} ({reason}); check the "
                           "name and the network connection, or save the set as an npz file and "
                           "load its path") from e
    X = _csr(bunch.data) if hasattr(bunch.data, "tocsr") else bunch.data
    y, classes = encode(bunch.target)
    return Table(X, y, classes)


# ---------------------------------------------------------------- classes and rows


def _choose(table: Table, options: Options, text: str) -> Table:
    X, y = table.X, table.y
    if "classes" in options:
        if y is None:
            raise _error(text, "the set has no labels to choose classes by")
        codes = _class_codes(table, y, options["classes"], text)
        position = np.full(int(y.max()) + 1, -1)
        position[codes] = np.arange(len(codes))
        rows = np.flatnonzero(position[y] >= 0)
        X, y = X[rows], position[y[rows]].astype(np.int64)
    n = options["n"]
    if n is not None:
        if n > X.shape[0]:
            raise _error(text, f"n={n} rows were asked for; there are {X.shape[0]}")
        rng = np.random.default_rng(options["seed"])
        rows = np.sort(rng.choice(X.shape[0], size=n, replace=False))
        X, y = X[rows], None if y is None else y[rows]
    return dataclasses.replace(table, X=X, y=y)


def _class_codes(table: Table, y: Labels, words: list[str], text: str) -> list[int]:
    """Read class numbers, or class names where they are not numbers."""
    present = np.unique(y).tolist()
    codes = {str(c): c for c in present}
    by_name = {v: c for c, v in enumerate(table.classes) if c in present and not v.isdigit()}
    codes = by_name | codes
    for word in words:
        if word not in codes:
            named = f" ({', '.join(by_name)})" if by_name else ""
            raise _error(text, f"there is no class {word!r}; the classes are "
                               f"{', '.join(map(str, present))}{named}")
    chosen = [codes[word] for word in words]
    if len(set(chosen)) < len(chosen):
        raise _error(text, "a class is listed twice")
    return chosen


# ---------------------------------------------------------------- files

_TEXT = (".csv", ".tsv")
_ENDINGS = (*_TEXT, ".npz", ".libsvm", *graphs.ENDINGS)


def _is_path(text: str) -> bool:
    return text.casefold().endswith(_ENDINGS)


def _is_graph(base: str) -> bool:
    if _is_path(base):
        return base.casefold().endswith(graphs.ENDINGS)
    folder = _folder()
    plain = bool(base) and pathlib.Path(base).name == base
    return folder is not None and plain and (folder / "maxcut" / base).is_file()


def _graph(base: str, options: Options) -> Table:
    """A graph of a path, or of the folder maxcut where MMCOPT_DATA points."""
    path, folder = pathlib.Path(base).expanduser(), _folder()
    if not path.is_file() and folder is not None:
        path = folder / "maxcut" / base
    if not path.is_file():
        raise DataError(f"{base}: there is no such file.")
    return Table(graphs.read_graph(path, options["instance"]))


def _read(path: pathlib.Path, labels: Chosen = None,
          columns: Sequence[Column] | None = None) -> Table:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    ending = path.name.casefold()
    if ending.endswith(_TEXT):
        table = read_text(path, labels, columns)
    else:
        table = _read_npz(path) if ending.endswith(".npz") else _read_libsvm(path)
    if 0 in table.X.shape:
        raise DataError(f"{path}: the file holds no data (shape {table.X.shape}).")
    return table


def _csr(*args: Any, **kwargs: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array(*args, **kwargs)


def _read_npz(path: pathlib.Path) -> Table:
    """Read ``X``, or the CSR parts ``data, indices, indptr, shape``; ``y``, ``classes`` if there.

    Files of scipy.sparse.save_npz are read as well. Pickled objects are refused.
    """
    wanted = ("X", "y", "classes", "data", "indices", "indptr", "shape", "format")
    try:
        names = array_names(path)
        parts = read_arrays(path, wanted)
    except MMCError:
        raise
    except BROKEN as e:
        raise DataError(f"{path}: not an npz file of plain arrays ({e}).") from e
    held = ", ".join(names) or "nothing"
    if "X" in parts:
        X = parts["X"]
    elif parts.keys() >= {"data", "indices", "indptr", "shape"}:
        X = _csr_of_parts(path, parts)
    else:
        raise DataError(f"{path}: X, or data, indices, indptr and shape, are expected; the file "
                        f"holds {held}.")
    if X.ndim != 2 or "y" in parts and parts["y"].shape != X.shape[:1]:
        shape = f" and {parts['y'].shape}" if "y" in parts else ""
        raise DataError(f"{path}: X must be 2-D (samples x features) and y hold one label a "
                        f"sample; got {X.shape}{shape}.")
    y, found = encode(parts.get("y"))
    if y is None and "y" in parts:
        raise DataError(f"{path}: y must hold whole numbers or text.")
    classes = [str(v) for v in parts["classes"].tolist()] if "classes" in parts else []
    stored = parts.get("y", y)
    if classes and stored is not None and stored.dtype.kind in "iu" and stored.size:
        if stored.min() >= 0 and stored.max() < len(classes):  # codes, perhaps with one absent
            return Table(X, stored.astype(np.int64), classes)
    return Table(X, y, found)


def _csr_of_parts(path: pathlib.Path, parts: dict[str, NDArray[Any]]) -> Any:
    kind = parts["format"].item() if "format" in parts else "csr"
    if kind not in (b"csr", "csr"):
        raise DataError(f"{path}: the sparse matrix is stored as {kind!r}; save it as CSR.")
    try:
        X = _csr(tuple(parts[key] for key in ("data", "indices", "indptr")),
                 shape=tuple(parts["shape"].tolist()))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as e:
        raise DataError(f"{path}: the parts do not form a CSR matrix ({e}).") from e
    return X


def _read_libsvm(path: pathlib.Path) -> Table:
    """Read a LIBSVM file; dense when more than half of its entries are written out."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, target = load_svmlight_file(str(path))
    except (OSError, ValueError) as e:
        raise DataError(f"{path}: not a LIBSVM file ({e}).") from e
    dense = 2 * X.nnz > X.shape[0] * X.shape[1]
    return Table(X.toarray() if dense else _csr(X), *encode(target))
