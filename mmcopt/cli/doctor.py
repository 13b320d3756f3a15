"""`mmcopt doctor`: versions, threads, compiled loops, back ends and data sets of this machine."""

from __future__ import annotations

import os
import pathlib
from argparse import Namespace
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from mmcopt.cli.console import say, show_json
from mmcopt.cli.exit_codes import DONE
from mmcopt.plot import about
from mmcopt.tables import markdown_table, text_table

EXTRAS = ("plot", "widgets", "qp", "exact", "cluster")
COLUMNS = ("package", "version", "for", "licence")


class Part(NamedTuple):
    """What a package is for, its licence, and the extra that brings it; none is always there."""

    use: str
    licence: str
    extra: str = ""


PARTS: dict[str, Part] = {
    "numpy": Part("arrays", "BSD-3-Clause"),
    "scipy": Part("sparse matrices, eigenvalues", "BSD-3-Clause"),
    "scikit-learn": Part("kernels, estimators, data sets", "BSD-3-Clause"),
    "numba": Part("compiled loops", "BSD-2-Clause"),
    "cvxpy": Part("relaxations to read and extend", "Apache-2.0"),
    "clarabel": Part("conic programs", "Apache-2.0"),
    "scs": Part("conic programs", "MIT"),
    "cvxopt": Part("conic programs, if asked for", "GPL-3.0"),
    "ecos": Part("conic programs, if asked for", "GPL-3.0"),
    "joblib": Part("parallel work", "BSD-3-Clause"),
    "loky": Part("processes", "BSD-3-Clause"),
    "cloudpickle": Part("processes", "BSD-3-Clause"),
    "threadpoolctl": Part("threads of BLAS", "BSD-3-Clause"),
    "rich": Part("tables in a terminal", "MIT"),
    "matplotlib": Part("pictures", "PSF", "plot"),
    "ipywidgets": Part("sliders in notebooks", "BSD-3-Clause", "widgets"),
    "daqp": Part("masters of CuttingPlane", "MIT", "qp"),
    "quadprog": Part("masters of CuttingPlane", "GPL-2.0", "qp"),
    "piqp": Part("masters of CuttingPlane", "BSD-2-Clause", "qp"),
    "pyscipopt": Part("exact references", "MIT", "exact"),
    "dask": Part("clusters", "BSD-3-Clause", "cluster"),
    "distributed": Part("clusters", "BSD-3-Clause", "cluster"),
    "osqp": Part("masters of CuttingPlane", "Apache-2.0", "of your own"),
    "pandas": Part("data frames", "BSD-3-Clause", "of your own"),
    "pyarrow": Part("Parquet", "Apache-2.0", "of your own"),
}


def licence_table() -> str:
    """What mmcopt stands on, with licences, in Markdown: the table of the README."""
    rows = [{"package": name, "for": part.use, "licence": part.licence,
             "comes with": f"`mmcopt[{part.extra}]`" if part.extra in EXTRAS
             else part.extra or "mmcopt"} for name, part in PARTS.items()]
    return markdown_table(rows, ("package", "for", "licence", "comes with"))


def doctor(args: Namespace) -> int:
    """Print what is there."""
    facts = {**about(), **_threads(), **_loops(), **_data()}
    rows = [{"package": name, "version": _version(name) or "not installed", "for": part.use,
             "licence": part.licence} for name, part in PARTS.items()]
    if args.json:
        show_json({"facts": facts, "packages": rows})
        return DONE
    width = max(map(len, facts))
    say(*(f"{name:<{width}}  {value}" for name, value in facts.items()), "",
        text_table(rows, COLUMNS))
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
