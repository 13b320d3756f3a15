"""Public sets from where they are published: downloaded, compared with a hash, written as .npz.

Nothing that a file claims is trusted: its bytes are compared with a known hash before they are
read, and what they give with the shape that the set has. Of files without a known hash, the hash of
the first time is kept beside the samples, and told.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import math
import os
import pathlib
import shlex
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np

from mmcopt import __version__
from mmcopt.checks import listed, optional, plural, real
from mmcopt.datasets.archives import BROKEN, read_arrays, write_arrays
from mmcopt.datasets.public_sets import PUBLISHED, Published, RawFile
from mmcopt.datasets.table import Table
from mmcopt.errors import DataError, ParameterError
from mmcopt.types import Path

SILENCE = 30  # seconds of no answer that are waited at most
PIECE = 2**16  # bytes between two looks at the clock
MOST = 2**28  # bytes of a file; those above are more than twenty times larger than the largest set


@dataclass(frozen=True)
class Fetched:
    """What became of a set: its file, the hashes of what it was made from, and what they say."""

    name: str
    path: pathlib.Path
    sha256: tuple[str, ...]
    verified: bool
    there: bool = False
    before: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """One sentence on whether its bytes are those that were published."""
        if self.there:
            return (f"{self.name}: {self.path} is there already, and stays as it is; fetch it "
                    "again (again=True, or --again in a shell) for a new one.")
        if self.verified:
            return (f"{self.name}: written to {self.path}; its files have the hashes that are "
                    "known of them.")
        hashes = listed([sha256[:16] for sha256 in self.sha256])
        what = "which is kept with the set" if not self.before else \
            "as the last time" if self.before == self.sha256 else "which is ANOTHER than last time"
        return (f"{self.name}: written to {self.path}; no hash of its files is known, so nothing "
                f"verified them; their SHA-256 begins {hashes}, {what}.")


def fetch(name: str, folder: Path | None = None, *, again: bool = False,
          source: Path | None = None, time_limit: float | None = None,
          watch: Callable[[str], Any] | None = None) -> Fetched:
    """Download a public set, check it, and write it as NAME.npz, which `load` then finds.

    Parameters
    ----------
    name
        One of `published`.
    folder
        Where to write it; None takes the folder that the variable MMCOPT_DATA names.
    again
        Fetch it although its file is there.
    source
        A folder with the files as they were published, or the file where it is one: nothing is
        downloaded then.
    time_limit
        Seconds after which the download is given up.
    watch
        Called with a sentence before each download.

    Returns
    -------
    Fetched
        Where the file is, and whether its source had the hashes that are known.
    """
    one = _known(name)
    name = one.name
    place = _folder(folder) / f"{name}.npz"
    optional(real(0)).check("fetch", "time_limit", time_limit)
    before = _remembered(place)
    if place.exists() and not again:
        return Fetched(name, place, before, one.verified, there=True)
    if not one.files:
        raise DataError(f"fetch: {name} cannot be fetched; get it at {one.home}, {one.by_hand}, "
                        f"and save X and y by numpy.savez({str(place)!r}, X=X, y=y).")
    end = None if time_limit is None else time.perf_counter() + time_limit
    raw = _downloaded(one, end, watch) if source is None else _given(one, pathlib.Path(source))
    hashes = tuple(hashlib.sha256(data).hexdigest() for data in raw)
    for file, found in zip(one.files, hashes, strict=True):
        if file.sha256 not in (None, found):
            raise DataError(f"fetch: {file.name} of {name} is not the file that is known: its "
                            f"SHA-256 is {found} instead of {file.sha256}, so nothing was "
                            f"written. {_by_hand(one)}")
    _write(place, _table(one, raw), one, hashes)
    return Fetched(name, place, hashes, one.verified, before=before)


def published() -> list[dict[str, Any]]:
    """Public sets that are known here: size, whether it is here, hashes, licence, home.

    >>> published()[0]["set"], published()[0]["licence"]
    ('ionosphere', 'CC BY 4.0')
    """
    folder = os.environ.get("MMCOPT_DATA")

    def here(name: str) -> bool:
        return bool(folder) and (pathlib.Path(str(folder)).expanduser() / f"{name}.npz").is_file()

    return [{"set": one.name, "samples": one.shape[0], "features": one.shape[1],
             "classes": one.n_classes, "here": "yes" if here(one.name) else "no",
             "fetch": "by hash" if one.verified else "no hash" if one.files else "by hand",
             "licence": one.licence, "OpenML": one.openml or None, "from": one.home}
            for one in PUBLISHED.values()]


def _known(name: str) -> Published:
    """A set by its name, whatever its case."""
    known = {one.casefold(): one for one in PUBLISHED}.get(str(name).casefold())
    if known is None:
        raise ParameterError(f"fetch: no public set is called {name!r}; there are "
                             f"{', '.join(PUBLISHED)}. Sets of OpenML need no fetching: "
                             "load('openml:NAME').")
    return PUBLISHED[known]


def _folder(folder: Path | None) -> pathlib.Path:
    """A folder that can be written to, or a sentence before anything is downloaded."""
    given = folder if folder is not None else os.environ.get("MMCOPT_DATA")
    if not given:
        raise ParameterError("fetch: MMCOPT_DATA is not set; let it name the folder where data "
                             "sets are kept, or give one (folder=, or --to in a shell).")
    path = pathlib.Path(given).expanduser()
    if not path.is_dir():
        raise DataError(f"fetch: {path} is not a folder; make it first (mkdir -p "
                        f"{shlex.quote(str(path))}).")
    if not os.access(path, os.W_OK):
        raise DataError(f"fetch: {path} cannot be written to; give another folder (folder=, or "
                        "--to in a shell).")
    return path


def _remembered(place: pathlib.Path) -> tuple[str, ...]:
    """The hashes that are kept in a file; none in one that came from elsewhere."""
    try:
        kept = read_arrays(place, ("sha256",)).get("sha256", np.array([], dtype=np.str_))
        return tuple(map(str, kept.ravel().tolist()))
    except BROKEN:
        return ()


def _by_hand(one: Published) -> str:
    """How to do without the network, in a sentence."""
    names = listed([file.name for file in one.files])
    return (f"By hand: get {names} at {one.home}, put {'it' if len(one.files) == 1 else 'them'} "
            "into a folder, and name that (source=, or --from in a shell).")


# ---------------------------------------------------------------- the files


def _given(one: Published, source: pathlib.Path) -> list[bytes]:
    """Files that somebody else has downloaded."""
    source = source.expanduser()
    paths = [source / file.name for file in one.files] if source.is_dir() else [source]
    if len(paths) != len(one.files):
        raise DataError(f"fetch: {one.name} is made from {plural(len(one.files), 'file')}; name "
                        f"the folder that holds {listed([file.name for file in one.files])}.")
    try:
        return [path.read_bytes() for path in paths]
    except OSError as e:
        raise DataError(f"fetch: cannot read {e.filename}: {e.strerror}. {_by_hand(one)}") from e


def _downloaded(one: Published, end: float | None,
                watch: Callable[[str], Any] | None) -> list[bytes]:
    """The files of a set, each from the first address that gives it; of one zip file at once."""
    kept: dict[str, bytes] = {}
    return [_file(one, file, kept, end, watch) for file in one.files]


def _file(one: Published, file: RawFile, kept: dict[str, bytes], end: float | None,
          watch: Callable[[str], Any] | None) -> bytes:
    failures = []
    for address in file.addresses:
        whole, _, member = address.partition("#")
        try:
            if whole not in kept:
                if watch is not None:
                    watch(f"fetching {whole}")
                kept[whole] = _download(whole, end)
            return _member(kept[whole], member) if member else kept[whole]
        except (*BROKEN, http.client.HTTPException) as e:
            failures.append(f"{whole}: {_reason(e)}")
    raise DataError(f"fetch: {file.name} of {one.name} did not come ({'; '.join(failures)}). "
                    f"{_by_hand(one)}")


def _download(address: str, end: float | None) -> bytes:
    """The bytes at an address, all that were announced."""
    request = Request(address, headers={"User-Agent": f"mmcopt/{__version__}"})
    out = io.BytesIO()
    with urlopen(request, timeout=_patience(end)) as answer:  # addresses of our own table alone
        announced = answer.headers.get("Content-Length")
        while part := _piece(answer):
            out.write(part)
            if out.tell() > MOST:
                raise ValueError(f"it is longer than {MOST} bytes")
            if end is not None and time.perf_counter() > end:
                raise TimeoutError(f"the time limit is over after {out.tell()} bytes")
    if announced is not None and out.tell() != int(announced):
        raise EOFError(f"the connection was cut after {out.tell()} of {announced} bytes")
    return out.getvalue()


def _patience(end: float | None) -> float:
    """Seconds without an answer after which a server is given up."""
    left = math.inf if end is None else end - time.perf_counter()
    if left <= 0:
        raise TimeoutError("the time limit is over")
    return min(SILENCE, left)


def _piece(answer: Any) -> bytes:
    """What comes next; what came before a cut is the last of it."""
    try:
        return bytes(answer.read(PIECE))
    except http.client.IncompleteRead as e:
        return bytes(e.partial)


def _member(archive: bytes, name: str) -> bytes:
    """A file of a zip file, wherever in it it is."""
    with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
        for info in zipped.infolist():
            if info.filename.rpartition("/")[2] == name:
                if info.file_size > MOST:
                    raise ValueError(f"its {name} is longer than {MOST} bytes")
                return zipped.read(info)
    raise ValueError(f"it holds no {name}")


def _reason(error: BaseException) -> str:
    """What went wrong, in the words of the one who knows it."""
    inner: Any = error.reason if isinstance(error, URLError) else error
    if isinstance(error, HTTPError):
        inner = f"the server answered {error.code} {error.reason}"
    return " ".join(str(inner).split()) or type(inner).__name__


# ---------------------------------------------------------------- what is written


def _table(one: Published, raw: Sequence[bytes]) -> Table:
    """Samples and classes, as many as the set has."""
    try:
        table = one.table(raw)
    except BROKEN as e:
        raise DataError(f"fetch: the files of {one.name} are not of the form that they had "
                        f"({_reason(e)}). {_by_hand(one)}") from e
    (n, d), k = table.X.shape, len(table.classes)
    if (n, d, k) != (*one.shape, one.n_classes):
        raise DataError(f"fetch: {one.name} has {_size(*one.shape, one.n_classes)}; these files "
                        f"hold {_size(n, d, k)}, so nothing was written. {_by_hand(one)}")
    return table


def _size(n: int, d: int, k: int) -> str:
    return f"{plural(n, 'sample')} of {plural(d, 'feature')} in {plural(k, 'class')}"


def _write(place: pathlib.Path, table: Table, one: Published, hashes: tuple[str, ...]) -> None:
    try:
        write_arrays(place, {"X": table.X, "y": table.y, "classes": np.array(table.classes),
                             "source": np.array(one.home), "sha256": np.array(hashes)})
    except OSError as e:
        raise DataError(f"fetch: cannot write {place}: {e.strerror or e}; give another folder "
                        "(folder=, or --to in a shell).") from e
