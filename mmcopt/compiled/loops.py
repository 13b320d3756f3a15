"""`compiled`: numba's `njit`, with a cache that several processes may fill at the same time."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import njit
from numba.core.caching import IndexDataCacheFile

P = ParamSpec("P")
R = TypeVar("R")
# For loops that only loops of their own file call: without the wrappers for Python, which take as
# long to compile. Called from Python, such a loop ends the process.
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


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


def compiled(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a loop when it is first called; options are those of `numba.njit`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        loop: Any = njit(cache=True, nogil=True, **options)(function)
        files = getattr(getattr(loop, "_cache", None), "_cache_file", None)
        if files is not None:  # there is none where numba is switched off
            files.__class__ = FilePerSignature
        return loop

    return decorate
