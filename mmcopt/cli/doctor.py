"""`mmcopt doctor`: versions, threads, compiled loops, back ends and data sets of this machine."""

from __future__ import annotations

import os
import pathlib
from argparse import Namespace
from importlib import metadata
from typing import Any

import numpy as np

from mmcopt.cli.console import say, show_json
from mmcopt.cli.exit_codes import DONE
from mmcopt.plot import about
from mmcopt.tables import text_table

# What each optional package is for, and its licence.
PARTS: dict[str, tuple[str, str]] = {
    "clarabel": ("conic programs", "Apache-2.0"),
    "scs": ("conic programs", "MIT"),
    "cvxopt": ("conic programs", "GPL-3.0"),
    "ecos": ("conic programs", "GPL-3.0"),
    "osqp": ("masters of CuttingPlane", "Apache-2.0"),
    "daqp": ("masters of CuttingPlane", "MIT"),
    "quadprog": ("masters of CuttingPlane", "GPL-2.0"),
    "piqp": ("masters of CuttingPlane", "BSD-2-Clause"),
    "pyscipopt": ("exact references", "MIT"),
    "dask": ("clusters", "BSD-3-Clause"),
    "distributed": ("clusters", "BSD-3-Clause"),
    "matplotlib": ("pictures", "PSF"),
    "pandas": ("data frames", "BSD-3-Clause"),
    "pyarrow": ("Parquet", "Apache-2.0"),
}


def doctor(args: Namespace) -> int:
    """Print what is there."""
    facts = {**about(), **_threads(), **_loops(), **_data()}
    rows = [{"package": name, "version": _version(name) or "not installed", "for": what,
             "licence": licence} for name, (what, licence) in PARTS.items()]
    if args.json:
        show_json({"facts": facts, "packages": rows})
        return DONE
    width = max(map(len, facts))
    say(*(f"{name:<{width}}  {value}" for name, value in facts.items()), "",
        text_table(rows, ("package", "version", "for", "licence")))
    return DONE


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _threads() -> dict[str, str]:
    """What multiplies matrices, and with how many threads."""
    from threadpoolctl import threadpool_info

    np.linalg.norm(np.eye(2) @ np.eye(2))  # BLAS is loaded by now
    pools: list[dict[str, Any]] = threadpool_info()
    words = sorted({f"{p['internal_api']} {p.get('version') or ''}".strip()
                    + f" ({p.get('architecture', 'any')}), {p['num_threads']} threads"
                    for p in pools})
    return {"threads": "; ".join(words) or "unknown"}


def _loops() -> dict[str, str]:
    """Where compiled loops are kept, and how many files of them are there."""
    from mmcopt.compiled import label_moves

    stats = getattr(label_moves.caches, "stats", None)
    if stats is None:
        return {"compiled loops": "none: numba is switched off (NUMBA_DISABLE_JIT)"}
    folder = pathlib.Path(stats.cache_path)
    root = folder.parent if os.environ.get("NUMBA_CACHE_DIR") else folder
    count = sum(1 for _ in root.rglob("*.nbc"))
    hint = "" if count else "; mmcopt warmup makes them"
    return {"compiled loops": f"{count} in {root}{hint}"}


def _data() -> dict[str, str]:
    """The folder of data sets, where one is named."""
    folder = os.environ.get("MMCOPT_DATA")
    if not folder:
        return {"data sets": "bundled, generated and OpenML's (MMCOPT_DATA names a folder of more)"}
    path = pathlib.Path(folder)
    if not path.is_dir():
        return {"data sets": f"MMCOPT_DATA names {folder}, which is no folder"}
    return {"data sets": f"{sum(1 for f in path.iterdir() if f.is_file())} files in {folder}"}
