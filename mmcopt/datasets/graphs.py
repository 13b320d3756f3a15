"""Symmetric matrices for maximum cuts and QUBO: text of the usual libraries, and their generators.

A file is a line ``n m`` and m lines ``i j value``, nodes counted from 1, as rudy, Biq Mac (.mc,
.sparse) and BiqBin write them; the value of an edge may be left out, and is 1. The OR-Library puts
several of these into one file, below a line with their number. An entry stands for both halves.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from mmcopt.checks import plural, require_memory
from mmcopt.errors import DataError
from mmcopt.types import Floats

ENDINGS = (".mc", ".rud", ".rudy", ".sparse", ".txt")
COMMENTS = ("#", "%", "c ")
CHAIN = 1e5  # couplings of a chain of spins are whole multiples of one over this


def read_graph(path: pathlib.Path, instance: int | None) -> Any:
    """A matrix of a file: dense where more than half of its entries are there, CSR otherwise."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"{path}: not a readable text file in UTF-8 ({e}).") from e
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)
             if line.strip() and not line.lstrip().startswith(COMMENTS)]
    if not lines:
        raise DataError(f"{path}: the file is empty.")
    several = len(lines[0][1]) == 1
    count = _whole(path, *lines[0], low=1)[0] if several else 1
    if instance is None and count > 1:
        raise DataError(f"{path}: the file holds {count} matrices; choose one, as in "
                        f"{path.name}:instance=1.")
    if instance is not None and instance > count:
        raise DataError(f"{path}: instance={instance} was asked for, and the file holds "
                        f"{plural(count, 'matrix')}.".replace("matrixs", "matrices"))
    at = int(several)
    for _ in range((instance or 1) - 1):
        at += 1 + _head(path, lines, at)[1]
    n, m = _head(path, lines, at)
    body = lines[at + 1:at + 1 + m]
    if len(body) < m or (count == 1 and len(lines) > at + 1 + m):
        raise DataError(f"{path}: line {lines[at][0]} announces {plural(m, 'entry')}, and "
                        f"{len(lines) - at - 1} lines follow.".replace("entrys", "entries"))
    return _matrix(path, n, body)


def _head(path: pathlib.Path, lines: list[tuple[int, list[str]]], at: int) -> tuple[int, int]:
    """The numbers of nodes and of entries of the matrix that begins at a line."""
    if at >= len(lines):
        raise DataError(f"{path}: the file ends before all the matrices that it announces.")
    found = _whole(path, *lines[at], low=0)
    if len(found) != 2 or found[0] < 1:
        raise DataError(f"{path}: line {lines[at][0]} must be 'n m', a number of nodes, at least "
                        f"1, and one of entries; got {' '.join(lines[at][1])!r}.")
    return found[0], found[1]


def _whole(path: pathlib.Path, number: int, words: list[str], low: int) -> list[int]:
    try:
        found = [int(word) for word in words]
    except ValueError:
        found = [low - 1]
    if min(found) < low:
        raise DataError(f"{path}: line {number} must hold whole numbers, at least {low}; got "
                        f"{' '.join(words)!r}.")
    return found


def _matrix(path: pathlib.Path, n: int, body: list[tuple[int, list[str]]]) -> Any:
    """The matrix of lines ``i j value``."""
    from scipy.sparse import coo_array

    require_memory(16.0 * n, f"{path}: a matrix of {n} nodes", "check the first line of the file.")
    i, j = np.empty(len(body), np.int64), np.empty(len(body), np.int64)
    value = np.ones(len(body))
    for at, (number, words) in enumerate(body):
        try:
            i[at], j[at] = int(words[0]), int(words[1])
            value[at] = float(words[2]) if len(words) == 3 else 1.0
            good = len(words) in (2, 3) and 1 <= min(i[at], j[at]) <= max(i[at], j[at]) <= n \
                and np.isfinite(value[at])
        except (ValueError, IndexError, OverflowError):
            good = False
        if not good:
            raise DataError(f"{path}: line {number} must be 'i j value', i and j nodes from 1 to "
                            f"{n}; got {' '.join(words)!r}.")
    low, high = np.minimum(i, j) - 1, np.maximum(i, j) - 1
    keys, first, times = np.unique(low * n + high, return_index=True, return_counts=True)
    if (times > 1).any():
        again = int(first[np.argmax(times > 1)])
        raise DataError(f"{path}: the entry {i[again]} {j[again]} is there {times.max()} times; "
                        "add its values up, or keep one of them.")
    off = low != high
    entries = (np.concatenate([value, value[off]]),
               (np.concatenate([low, high[off]]), np.concatenate([high, low[off]])))
    return thinned(coo_array(entries, shape=(n, n)).tocsr())


def thinned(matrix: Any) -> Any:
    """A CSR matrix as it is, or dense where more than half of its entries are there."""
    return matrix.toarray() if 2 * matrix.nnz > matrix.shape[0] ** 2 else matrix


# ---------------------------------------------------------------- generators


def _both(upper: Floats) -> Any:
    """An upper triangle as a symmetric matrix, dense or CSR."""
    from scipy.sparse import csr_array

    return thinned(csr_array(upper + np.triu(upper, 1).T))


def unweighted(o: dict[str, Any]) -> Any:
    """Rudy's g05 and its like: edges of weight 1, each there with the probability ``density``."""
    rng = np.random.default_rng(o["seed"])
    return _both(np.triu(rng.random((o["n"], o["n"])) < o["density"], 1).astype(float))


def signs(o: dict[str, Any]) -> Any:
    """Rudy's pm1s and pm1d: weights of -1 and 1."""
    rng, shape = np.random.default_rng(o["seed"]), (o["n"], o["n"])
    weights = rng.choice([-1.0, 1.0], shape)
    return _both(np.triu(weights * (rng.random(shape) < o["density"]), 1))


def weighted(o: dict[str, Any]) -> Any:
    """Rudy's w: whole weights from -10 to 10."""
    rng, shape = np.random.default_rng(o["seed"]), (o["n"], o["n"])
    weights = rng.integers(-10, 11, shape).astype(float)
    return _both(np.triu(weights * (rng.random(shape) < o["density"]), 1))


def ising(o: dict[str, Any]) -> Any:
    """A ring of spins: normal couplings over the ``sigma``-th power of distances, as chords."""
    rng, n = np.random.default_rng(o["seed"]), o["n"]
    steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    chords = n / np.pi * np.sin(np.pi * np.maximum(steps, 1) / n)
    couplings = rng.standard_normal((n, n)) / chords ** o["sigma"]
    return _both(np.triu(np.rint(CHAIN * couplings), 1))


def quadratic(o: dict[str, Any]) -> Any:
    """Beasley's bqp and Billionnet and Elloumi's be: whole coefficients of x'Qx.

    Those of x_i alone are from -100 to 100, those of pairs from -``pairs`` to ``pairs``, each pair
    there with the probability ``density``.
    """
    rng, n, most = np.random.default_rng(o["seed"]), o["n"], o["pairs"]
    Q = rng.integers(-most, most + 1, (n, n)).astype(float) * (rng.random((n, n)) < o["density"])
    Q[np.diag_indices(n)] = rng.integers(-100, 101, n)
    return _both(np.triu(Q))


GENERATORS: dict[str, tuple[Callable[[dict[str, Any]], Any], dict[str, float]]] = {
    "g05": (unweighted, {"density": 0.5}), "pm1s": (signs, {"density": 0.1}),
    "pm1d": (signs, {"density": 0.99}), "w": (weighted, {"density": 0.5}),
    "ising": (ising, {"sigma": 2.5}), "bqp": (quadratic, {"density": 0.1, "pairs": 100}),
    "be": (quadratic, {"density": 1.0, "pairs": 50})}
