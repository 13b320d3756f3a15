"""`run`: the protocol of a paper by its name, cell by cell."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from mmcopt.checks import optional, real
from mmcopt.errors import ParameterError
from mmcopt.reproduce.protocol import keeping
from mmcopt.reproduce.rows import placed
from mmcopt.reproduce.tables import PAPERS, Reproduction, Say
from mmcopt.solving.checkpoints import Checkpoint
from mmcopt.solving.executors import check_executor, check_written_here
from mmcopt.types import Path

_MODULES = {"umc-rls": "mmcopt.reproduce.umc_rls", "evommc": "mmcopt.reproduce.evommc",
            "sgd-lmsvc": "mmcopt.reproduce.sgd_lmsvc", "cpm3c": "mmcopt.reproduce.cpm3c",
            "mkc": "mmcopt.reproduce.mkc", "margins": "mmcopt.reproduce.margins"}
TABLES = {"umc-rls": (1, 2), "evommc": (1, 2), "sgd-lmsvc": (1,), "cpm3c": (2, 3, 4), "mkc": (2,),
          "margins": (1,)}


def run(paper: str, *, table: int | None = None, quick: bool = False, out: Any = None,
        show: Say | bool | None = None, checkpoint: Path | None = None,
        time_limit: float | None = None, executor: Any = None) -> Reproduction:
    """Run the protocol of a paper and return its tables beside ours.

    Rows are done one after another where no executor is named: seconds are among the figures, and
    rows side by side may take more of them.

    Parameters
    ----------
    paper : str
        A name of `PAPERS`.
    table : int, optional
        Only this table of the paper.
    quick : bool
        Coarser grids and fewer runs: less than two minutes in place of less than thirty.
    out : path, optional
        Folder for ``paper.md`` and ``paper.json``.
    show : callable or bool
        Called with each line of progress. True prints progress to standard error and the report to
        standard output; None or False is silent.
    checkpoint : path
        A file to which the cells that are done are written: the same call goes on after them.
    time_limit : float
        Seconds for all, after which no row is begun, and one at work ends soon and is left out.
    executor : None, "threads", "processes", Executor or Client
        Where the rows are done side by side, as in `mmcopt.solve`: the figures are the same, but
        for those of time.

    Returns
    -------
    Reproduction
        After the time limit or Ctrl-C with the rows so far; its ``ended`` says which it was.
    """
    if paper not in PAPERS:
        raise ParameterError(f"run: paper must be one of {', '.join(map(repr, PAPERS))}; "
                             f"got {paper!r}.")
    if table is not None and table not in TABLES[paper]:
        raise ParameterError(f"run: table must be one of {', '.join(map(str, TABLES[paper]))} for "
                             f"{paper}; got {table!r}.")
    optional(real(0)).check("run", "time_limit", time_limit)
    check_executor("run", executor)
    started = time.perf_counter()

    def say(line: str) -> None:
        if callable(show):
            show(line)
        elif show:
            print(f"[{time.perf_counter() - started:5.0f} s] {line}", file=sys.stderr, flush=True)

    file = None
    if checkpoint is not None:
        check_written_here("run", executor)
        file = Checkpoint(checkpoint, "reproduction")
        file.belongs({"paper": paper, "form": "quick" if quick else "full"})
    with keeping(file), placed(executor, time_limit) as place:
        found: Reproduction = importlib.import_module(_MODULES[paper]).reproduce(quick, table, say)
    found.ended = place.ended
    found.seconds = time.perf_counter() - started
    if out is not None:
        for path in found.save(out):
            say(f"wrote {path}")
    if show is True:
        print(found, flush=True)
    return found
