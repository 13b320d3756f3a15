"""A problem over kernel widths and lambdas, as a table and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import JOBS, known_keywords
from mmcopt.comparing.files import save_table
from mmcopt.errors import ParameterError
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling.result import Result
from mmcopt.selection.columns import Columns
from mmcopt.selection.labels import centrality, most_central, some
from mmcopt.selection.paths import LAMS, MEMBERS, SOLVING, budget_of
from mmcopt.solving.executors import check_executor
from mmcopt.tables import as_frame, html_table, markdown_table
from mmcopt.types import Path, Samples


@dataclass(frozen=True)
class Grid(Sequence[Result]):
    """Results over kernel widths and lambdas, and how they agree: a sequence, and a table.

    The columns of the table, one row a cell:

    objective, lower_bound, gap, status   of its result; objectives of two cells do not compare
    agreement    mean adjusted Rand index with the partitions of all other cells
    consensus    adjusted Rand index with the partition of the most central cell
    """

    widths: tuple[float, ...]
    lams: tuple[float, ...]
    results: tuple[Result, ...]  # row by row: all lambdas of the first width, then of the next

    COLUMNS = ("width", "lam", "objective", "lower_bound", "gap", "status", "agreement",
               "consensus")

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        return self.results[index]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Centrality of each cell, widths by lambdas."""
        return self._by_cell(centrality([r.labels for r in self.results]))

    @property
    def best(self) -> Result:
        """The most central result."""
        return most_central(self.results)

    @property
    def consensus(self) -> NDArray[np.float64]:
        """Agreement of each cell with the most central one, widths by lambdas."""
        central: Any = self.best.labels
        partitions: list[Any] = [r.labels for r in self.results]
        return self._by_cell([adjusted_rand_index(central, c) for c in partitions])

    @property
    def objectives(self) -> NDArray[np.float64]:
        """Objective of each cell, widths by lambdas."""
        return self._by_cell([r.objective for r in self.results])

    def _by_cell(self, values: Any) -> NDArray[np.float64]:
        return np.reshape(np.asarray(values, dtype=np.float64), (len(self.widths), len(self.lams)))

    # ------------------------------------------------------------ the table

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a cell."""
        places = [(width, lam) for width in self.widths for lam in self.lams]
        return [dict(zip(self.COLUMNS, (width, lam, r.objective, r.lower_bound, r.gap,
                                        str(r.status), float(a), float(b)), strict=True))
                for (width, lam), r, a, b in zip(places, self.results, self.scores.ravel(),
                                                 self.consensus.ravel(), strict=True)]

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        return as_frame(self.rows, self.COLUMNS)

    def _repr_html_(self) -> str:
        return html_table(self.rows, self.COLUMNS)

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return markdown_table(self.rows, self.COLUMNS)

    def save(self, path: Path) -> None:
        """Write the table to .csv or .md, or with the labels of all cells to .json."""
        save_table(path, self.rows, self.COLUMNS, self._as_dict, self.to_markdown)

    def _as_dict(self) -> dict[str, Any]:
        best = next(i for i, r in enumerate(self.results) if r is self.best)
        return {"widths": self.widths, "lams": self.lams, "best": best,
                "rows": [{**row, "labels": r.labels}
                         for row, r in zip(self.rows, self.results, strict=True)]}

    def plot(self, ax: Any = None) -> Any:
        """Draw agreement with the most central cell, and objectives: `mmcopt.plot.plot_cells`."""
        from mmcopt.plot import plot_cells

        maps = {"agreement with the most central cell (ARI)": self.consensus,
                "objective": self.objectives}
        return plot_cells(self.widths, self.lams, maps, int(np.argmax(self.scores)), ax=ax)

    def __str__(self) -> str:
        head = "width \\ lam" + "".join(f"{lam:>9.3g}" for lam in self.lams)
        rows = [f"{w:<11.3g}" + "".join(f"{s:>9.3f}" for s in row)
                for w, row in zip(self.widths, self.scores, strict=True)]
        return "\n".join(["agreement of each cell with all others (mean adjusted Rand index)",
                          head, *rows])


@known_keywords
def grid(X: Samples, n_clusters: int, *, widths: Sequence[float] = (0.3, 0.5, 1.0),
         lams: Sequence[float] = LAMS, members: int = MEMBERS, seed: int = 0,
         time_limit: float | None = None, executor: Any = None, n_jobs: int | None = None,
         **options: Any) -> Grid:
    """Solve `LeastSquares` over Gaussian widths and lambdas, each width along its `path`.

    Options are those of `path`, which `mmcopt.solve` shares, and of the formulation, such as
    ``sizes``. ``executor`` is where the widths are solved, as in `mmcopt.solve`, ``n_jobs`` of them
    at once, -1 for as many as there are cores. The time is that of all cells. Ctrl-C ends it with
    the widths that were begun.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("blobs:n=60,k=3,seed=1")
    >>> cells = grid(X, 3, widths=(0.5, 1.0), lams=(0.1, 1.0))
    >>> cells.scores.shape
    (2, 2)
    """
    some("grid", "widths", widths)
    some("grid", "lams", lams)
    if {"kernel", "lam"} & set(options):
        raise ParameterError("grid: kernel and lam are what it varies, by widths= and lams=; for "
                             "another kernel follow path(problem, lams).")
    budget_of("grid", members, time_limit)
    JOBS.check("grid", "n_jobs", n_jobs)
    check_executor("grid", executor)
    solving = {name: options.pop(name) for name in SOLVING if name in options}
    columns = Columns(X, n_clusters, tuple(map(float, lams)), members, seed, options, solving,
                      math.inf if time_limit is None else time_limit)
    wanted = list(dict.fromkeys(map(float, widths)))
    done = columns.serial(wanted) if executor is None and n_jobs in (None, 1) else \
        columns.shared_out(wanted, executor or "threads", n_jobs)
    return Grid(tuple(done), columns.lams, tuple(r for column in done.values() for r in column))
