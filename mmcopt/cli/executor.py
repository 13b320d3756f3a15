"""Where `--executor` says that work is done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mmcopt.errors import BackendError, ParameterError
from mmcopt.solving.executors import NAMES

ADDRESS = re.compile(r"(tcp|tls|ucx)://.+:\d+|inproc://.+")
ANSWER = 10  # seconds that a scheduler has to answer


@contextmanager
def executor_of(word: str | None) -> Iterator[Any]:
    """A name as it is; the client of the scheduler at an address, closed in the end."""
    if word is None or word in NAMES:
        yield word
        return
    if not ADDRESS.fullmatch(word):
        raise ParameterError(f"--executor must be {', '.join(NAMES)}, or the address of a "
                             f"scheduler such as tcp://127.0.0.1:8786; got {word!r}.")
    try:
        from distributed import Client
    except ImportError as e:
        raise BackendError("--executor: a cluster needs Dask; pip install 'mmcopt[cluster]'."
                           ) from e
    try:
        client = Client(word, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError) as e:
        raise BackendError(f"--executor: no scheduler answers at {word} "
                           f"({' '.join(str(e).split())[:200]}).") from e
    with client:
        yield client
