"""Files as their publishers give them, read from memory into tables: columns, pictures, LIBSVM."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmcopt.datasets.table import Table, encode

PICTURES, CLASSES = 2051, 2049  # how IDX files of bytes in three dimensions, and in one, begin


def unpacked(name: str, raw: bytes) -> bytes:
    """What a file holds: those whose names end in .gz are packed."""
    return gzip.decompress(raw) if name.endswith(".gz") else raw


def columns(files: Sequence[bytes], *, separator: str | None = ",", label: int = -1,
            left_out: Sequence[int] = (), classes: Mapping[str, str] | None = None) -> Table:
    r"""Rows of numbers and a class, of one file after another.

    ``label`` is the column of the classes and ``left_out`` names others that are no features, from
    0 or, as -1, from the end. ``classes`` names what stands there. Rows in which a ``?``
    stands for a number that is missing are left out.

    >>> columns([b"7,1.5,2,b\n8,?,1,a\n9,0.5,4,a\n"], left_out=[0]).X.tolist()
    [[1.5, 2.0], [0.5, 4.0]]
    """
    rows = [row.split(separator) for raw in files for row in raw.decode("ascii").splitlines()
            if row.strip()]
    whole = [row for row in rows if "?" not in row]
    names = [row[label].strip() for row in whole]
    y, found = encode([(classes or {}).get(name, name) for name in names])
    if not whole:
        raise ValueError("there are no rows")
    no_features = {j % len(whole[0]) for j in (label, *left_out)}
    X = [[float(v) for j, v in enumerate(row) if j not in no_features] for row in whole]
    return Table(np.array(X, dtype=np.float64), y, found)


def numbers_and_classes(files: Sequence[bytes]) -> Table:
    r"""A file of numbers, and one of the class of each row.

    >>> numbers_and_classes([b"1 2\n3 4\n", b"2\n1\n"]).y.tolist()
    [1, 0]
    """
    X, labels = (np.array([row.split() for row in raw.decode("ascii").splitlines()], np.float64)
                 for raw in files)
    return Table(X, *encode(labels.ravel()))


def pictures(files: Sequence[bytes]) -> Table:
    """Files of pictures and of their classes in turn, in the form IDX, each picture a row."""
    X = [_idx(raw, PICTURES, 3) for raw in files[::2]]
    y = [_idx(raw, CLASSES, 1) for raw in files[1::2]]
    return Table(np.concatenate([a.reshape(len(a), -1) for a in X]),
                 *encode(np.concatenate(y).astype(np.int64)))


def _idx(raw: bytes, magic: int, dimensions: int) -> Any:
    head = 4 * (1 + dimensions)
    numbers = np.frombuffer(raw[:head].ljust(head), dtype=">i4").tolist()
    if len(raw) < head or numbers[0] != magic:
        raise ValueError(f"it does not begin as an IDX file of {dimensions} dimensions does")
    if len(raw) != head + math.prod(numbers[1:]):
        raise ValueError(f"its head claims {' x '.join(map(str, numbers[1:]))} bytes, and "
                         f"{len(raw) - head} follow")
    return np.frombuffer(raw, dtype=np.uint8, offset=head).reshape(numbers[1:])


def libsvm(files: Sequence[bytes]) -> Table:
    r"""A LIBSVM file, as a dense array.

    >>> libsvm([b"0 1:2 3:1\n1 2:5\n"]).X.tolist()
    [[2.0, 0.0, 1.0], [0.0, 5.0, 0.0]]
    """
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(io.BytesIO(files[0]))[:2]
    return Table(X.toarray(), *encode(labels))
