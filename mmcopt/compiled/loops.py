"""`compiled`: numba's `njit`, with a cache that goes by what the source says.

Several processes may fill it at the same time, and a cache that is kept never holds what an
earlier version compiled.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import pathlib
import pickle
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from mmcopt.compiled.compiling import PATIENCE, STATE

with PATIENCE:  # a numba that is half loaded fails at every later attempt
    from numba import njit
    from numba.core import event
    from numba.core.caching import IndexDataCacheFile

P = ParamSpec("P")
R = TypeVar("R")
# For loops that only loops call: without the wrappers for Python, which take as
# long to compile. Called from Python, such a loop ends the process.
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Reporter(event.Listener):
    """Tells `mmcopt.compiled.compiling` when numba compiles."""

    def on_start(self, event: Any) -> None:
        """Numba begins with a loop."""
        STATE.begin(event.data["dispatcher"].py_func.__module__)

    def on_end(self, event: Any) -> None:
        """Numba is done with it."""
        STATE.end()


class Holder(event.Listener):
    """Lets signals wait while numba compiles a loop or loads one from its cache."""

    def on_start(self, event: Any) -> None:
        """Numba begins with what it does one thread at a time."""
        PATIENCE.begin()

    def on_end(self, event: Any) -> None:
        """Numba is done with it."""
        PATIENCE.end()


event.register("numba:compile", Reporter())
event.register("numba:compiler_lock", Holder())


class FilePerSignature(IndexDataCacheFile):
    """Files of compiled code that are named after what they hold.

    numba numbers them, and two processes that compile a function for two types at once give both
    the same number: later processes then run code on arrays that it was not made for. Here the
    worst that can happen is that an entry of the index is lost, and its code compiled again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Write the code, and then the index."""
        text = pickle.dumps((self._version, self._source_stamp, key))
        base = self._index_name.removesuffix(".nbi")
        name = f"{base}.{hashlib.sha256(text).hexdigest()[:16]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


@functools.cache
def stamp(path: str) -> str:
    """A hash of a source and of the modules of this package that it takes loops from."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    names = re.findall(r"^from (mmcopt[\w.]*) import", text, re.MULTILINE)
    specs = [importlib.util.find_spec(name) for name in sorted(set(names))]
    texts = [pathlib.Path(spec.origin).read_text(encoding="utf-8")
             for spec in specs if spec is not None and spec.origin is not None]
    return hashlib.sha256("".join((text, *texts)).encode()).hexdigest()


def compiled(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a loop when it is first called; options are those of `numba.njit`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # Nothing but Python and other loops calls a loop: it needs no wrapper for C.
        options.setdefault("no_cfunc_wrapper", True)
        loop: Any = njit(cache=True, nogil=True, **options)(function)
        files = getattr(getattr(loop, "_cache", None), "_cache_file", None)
        if files is not None:  # there is none where numba is switched off
            files.__class__ = FilePerSignature
            files._source_stamp = stamp(function.__code__.co_filename)
        return loop

    return decorate
