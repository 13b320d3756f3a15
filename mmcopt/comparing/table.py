"""The table that a comparison makes: its rows, its summary, its bounds, and its files."""

from __future__ import annotations

import dataclasses
import html
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.certificates import capped
from mmcopt.checks import choice, real
from mmcopt.comparing.asked import Rival
from mmcopt.comparing.files import save_table
from mmcopt.comparing.statistics import (
    HIT,
    Row,
    first_time,
    goal,
    is_feasible,
    is_hit,
    target_rows,
    versus_rows,
)
from mmcopt.errors import IncompatibleError, MMCError
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import ClimbEnd, History, Result, Rung, Status
from mmcopt.solving.checkpoints import Checkpoint, ClimbBook
from mmcopt.solving.ladder import tighten, with_rungs
from mmcopt.tables import as_frame, html_table, markdown_table, text_table
from mmcopt.types import Path, Seed

COLUMNS: tuple[str, ...] = ("problem", "solver", "seed", "status", "objective", "lower_bound",
                            "gap", "violation", "prepare", "seconds", "restarts", "time_to_best",
                            "ari")
SUMMARY: tuple[str, ...] = ("problem", "solver", "runs", "restarts", "best", "mean", "hits",
                            "seconds", "time_to_best", "bound", "gap", "ari")


@dataclass
class Plan:
    """What a comparison runs: each of its problems by each solver from each seed, within limits."""

    solvers: dict[str, Rival]
    seeds: list[Any]
    limits: dict[str, Any]


class Comparison:
    """Rows of runs, and what they say about each solver; printed as the table of `summary`.

    ``rows`` and ``results`` run in parallel (the result of a failed run is None). ``refused``
    lists (problem, solver, reason) of the pairs that do not fit, ``failures`` those that broke
    down, and ``interrupted`` says that Ctrl-C ended the comparison early. ``ladders`` holds, by
    problem, what `certify` knew when.
    """

    def __init__(self, problems: Mapping[str, Formulation], y: Mapping[str, Any] | None = None,
                 *, columns: Sequence[str] = ()) -> None:
        for name in columns:
            choice(*SUMMARY).check("compare", "each of columns", name)
        self.problems, self.columns = dict(problems), tuple(columns)
        self.y = dict(y or {})
        self.rows: list[Row] = []
        self.results: list[Result | None] = []
        self.refused: list[tuple[str, str, str]] = []
        self.failures: list[tuple[str, str, str]] = []
        self.interrupted = False
        self.ladders: dict[str, tuple[Rung, ...]] = {}
        self.checkpoint: Checkpoint | None = None  # that `certify` goes on with
        self.plan: Plan | None = None  # where `mmcopt.compare` made it

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, name: str, result: Result, seconds: float | None = None) -> Comparison:
        """Add the labels of another method, as `mmcopt.evaluate` returned them."""
        mark = result.formulation.fingerprint
        known = [p for p, f in self.problems.items() if f.fingerprint == mark]
        if not known:
            raise IncompatibleError(f"add({name!r}): the result belongs to a problem that is not "
                                    f"in this comparison ({', '.join(self.problems)}).")
        self.append(known[0], name, None, result, None, seconds)
        return self

    def extend(self, solvers: Any = None, *, seeds: Any = None, problems: Any = None, y: Any = None,
               n_jobs: int | None = None, executor: Any = None, progress: Any = False,
               checkpoint: Path | None = None) -> Comparison:
        """Add solvers, seeds or problems, and do the runs that are missing, within the old limits.

        What is there already is not done again: ``seeds=20`` after ``seeds=10`` adds ten. Without
        arguments it does what Ctrl-C kept from being done. ``y`` are classes of the new problems,
        or of all where there are none, or by name. What is refused changes nothing.
        """
        from mmcopt.comparing.run import extend

        return extend(self, solvers, seeds, problems, y, n_jobs=n_jobs, executor=executor,
                      progress=progress, checkpoint=checkpoint)

    def append(self, problem: str, solver: str, seed: Seed, result: Result,
               prepare: float | None, seconds: float | None) -> Row:
        """Add one row; its ARI, gap and time to the best labels are worked out here."""
        row = dict(zip(COLUMNS, (
            problem, solver, seed, str(result.status), result.objective, result.lower_bound,
            result.gap, result.violation, prepare, seconds, _restarts(result),
            time_to_best(result, seconds), self._ari(problem, result)), strict=True))
        if self.budget is not None:  # of thousands of restarts keep what the curves need
            result = dataclasses.replace(result, history=_improving(result.history))
        self.rows.append(row)
        self.results.append(result)
        return row

    def know(self, y: Mapping[str, Any]) -> None:
        """Take in known classes by problem, for the rows that are there, too."""
        self.y.update(y)
        for row, result in self._runs():
            if row["problem"] in y and result is not None:
                row["ari"] = self._ari(row["problem"], result)

    def _ari(self, problem: str, result: Result) -> float | None:
        y = self.y.get(problem)
        return None if y is None or result.labels is None else adjusted_rand_index(y, result.labels)

    def fail(self, problem: str, solver: str, seed: Seed, error: MMCError) -> Row:
        """Add the row of a run that broke down."""
        row: Row = dict.fromkeys(COLUMNS)
        row.update(problem=problem, solver=solver, seed=seed, status=str(Status.FAILED))
        self.rows.append(row)
        self.results.append(None)
        self.failures.append((problem, solver, " ".join(str(error).split())))
        return row

    @property
    def budget(self) -> float | None:
        """Seconds that every run had, where they were equal."""
        return None if self.plan is None else self.plan.limits["budget"]

    def best(self, problem: str) -> Result | None:
        """Return the feasible result of the smallest objective, over all solvers."""
        found = [r for row, r in self._runs()
                 if row["problem"] == problem and r is not None and r.feasible]
        return min(found, key=lambda r: r.objective, default=None)

    def certify(self, *, time_limit: float | None = None, progress: Any = None) -> Comparison:
        """Tighten the bound of each problem, for ``time_limit`` seconds each, for all of its rows.

        A bound speaks about the problem, so it is climbed once, from the best labels, and holds
        whichever solver found the labels. Better labels met on the way become a row of their own.
        ``progress`` is that of `Result.certify`. Ctrl-C keeps the bounds so far.
        """
        for name in self.problems:
            found = self.best(name)
            if found is None:
                continue
            started = time.perf_counter()
            try:
                tight = tighten(found, time_limit=time_limit, improve=False, progress=progress,
                                checkpoint=self._book(name))
            except KeyboardInterrupt:  # before the first level
                self.interrupted = True
                break
            self.ladders[name] = tight.ladder
            if tight.incumbent is not None:
                self.append(name, "found while certifying", None, tight.incumbent, None,
                             time.perf_counter() - started)
            self._raise_bounds(name, tight)
            if tight.climb_end is ClimbEnd.INTERRUPTED:
                self.interrupted = True
                break
        return self

    def share_bounds(self) -> None:
        """Give rows that came later the bounds that `certify` has climbed to."""
        for name in self.ladders:
            bounded = [r for row, r in self._runs() if row["problem"] == name
                       and r is not None and r.lower_bound is not None]
            if bounded:
                self._raise_bounds(name, max(bounded, key=lambda r: r.lower_bound or -np.inf))

    def _book(self, name: str) -> ClimbBook | None:
        """Where the climb of a problem keeps what it reaches."""
        return None if self.checkpoint is None else ClimbBook(self.checkpoint, f"climb of {name}")

    def _raise_bounds(self, problem: str, tight: Result) -> None:
        for i, (row, r) in enumerate(zip(self.rows, self.results, strict=True)):
            if row["problem"] != problem or r is None or tight.lower_bound is None:
                continue
            found: tuple[Rung, ...] = ()
            if r.lower_bound is None or r.lower_bound < tight.lower_bound:
                r = dataclasses.replace(r, lower_bound=tight.lower_bound,
                                        certificate=tight.certificate)
                if tight.ladder and tight.ladder[-1].upper >= r.objective:  # found with these
                    found = tight.ladder
            r = capped(r)
            if r.status is not Status.EVALUATED:
                r = r.closing()
            r = with_rungs(r, found) if found else r
            self.results[i] = r
            row.update(lower_bound=r.lower_bound, gap=r.gap, status=str(r.status))

    def _runs(self) -> list[tuple[Row, Result | None]]:
        return list(zip(self.rows, self.results, strict=True))

    # ------------------------------------------------------------ what it says

    def summary(self) -> list[Row]:
        """One row a problem and solver.

        ``best`` and ``mean`` objective count feasible runs; ``hits`` is the share of runs within
        1e-6 (relative) of the best known objective of the problem; ``bound`` is the largest, and
        ``gap`` that of ``best`` to it. ``restarts``, ``seconds`` and ``time_to_best`` are means.
        """
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row["problem"], row["solver"]), []).append(row)
        return [self._summarise(*key, rows) for key, rows in groups.items()]

    def _summarise(self, problem: str, solver: str, rows: list[Row]) -> Row:
        known = self.best(problem)
        values = [r["objective"] for r in rows if is_feasible(r)]
        best = min(values, default=None)
        bound = max((r["lower_bound"] for r in rows if r["lower_bound"] is not None), default=None)
        gap = None if best is None or bound is None else (best - bound) / max(abs(best), 1e-10)
        hits = 0 if known is None else sum(is_hit(v, known.objective) for v in values)
        means = {c: _mean([r[c] for r in rows])
                 for c in ("restarts", "seconds", "time_to_best", "ari")}
        row = {"problem": problem, "solver": solver, "runs": len(rows), "best": best,
               "mean": _mean(values), "hits": hits / len(rows), "bound": bound, "gap": gap, **means}
        return {c: row[c] for c in SUMMARY}

    def targets(self, within: float = HIT, target: float | Mapping[str, float] | None = None
                ) -> dict[str, float]:
        """By problem the objective that runs are timed to.

        A ``target`` is one number for all of them, or a mapping, whose problems are those that are
        timed; without one it is ``within`` a relative distance of the best known objective.
        """
        real(0).check("Comparison", "within", within)
        if isinstance(target, Mapping):
            for name, value in target.items():
                choice(*self.problems).check("Comparison", "each problem of target", name)
                real().check("Comparison", f"target[{name!r}]", value)
            return {name: float(value) for name, value in target.items()}
        if target is not None:
            real().check("Comparison", "target", target)
            return dict.fromkeys(self.problems, float(target))
        found = {name: self.best(name) for name in self.problems}
        return {name: goal(r.objective, within) for name, r in found.items() if r is not None}

    def time_to_target(self, within: float = HIT,
                       target: float | Mapping[str, float] | None = None) -> list[Row]:
        """One row a problem and solver: the share of runs that reached the target, and how soon.

        See `mmcopt.comparing.statistics.target_rows`; the target is that of `targets`.
        """
        return target_rows(self._runs(), self.targets(within, target))

    def versus(self, within: float = HIT) -> list[Row]:
        """One row a pair of solvers: wins, ties and losses over problems and seeds, and a p-value.

        It is that of a two-sided sign test, one pair at a time, which counts a problem once where
        no seed made a difference to either. Seeds of one problem say something
        of other seeds of it; to speak of other problems, compare on many.
        """
        real(0).check("Comparison", "within", within)
        return versus_rows(self.rows, within)

    def notes(self) -> list[str]:
        """Tell what the table does not show: pairs left out, runs that broke, infeasible labels."""
        out = [f"left out: {s} on {p}: {why}" for p, s, why in self.refused]
        out += [f"failed: {s} on {p}: {why}" for p, s, why in self.failures]
        out += [f"infeasible: {r['solver']} on {r['problem']} breaks the constraints "
                f"(violation {r['violation']:g}), so it has no gap"
                for r in self.rows if r["violation"] is not None and not is_feasible(r)]
        if self.interrupted:
            out.append("interrupted: the table holds what was done by then")
        return list(dict.fromkeys(out))

    def shown(self) -> list[str]:
        """Columns of the summary: those asked for, or those that say something here."""
        if self.columns:
            return list(self.columns)
        drop = {"problem"} if len(self.problems) == 1 else set()
        drop |= {"restarts", "time_to_best"} if self.budget is None else {"seconds"}
        if all(row["ari"] is None for row in self.rows):
            drop.add("ari")
        return [c for c in SUMMARY if c not in drop]

    def __str__(self) -> str:
        return "\n".join([text_table(self.summary(), self.shown()), *self.notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return html_table(self.summary(), self.shown()) + notes

    def to_html(self, path: Path) -> None:
        """Write a page with tables that sort, curves, and what is proved; it needs no network."""
        from mmcopt.plot import write_comparison

        write_comparison(self, path)

    def to_markdown(self) -> str:
        """Return the summary as a Markdown table, with the notes below."""
        table = markdown_table(self.summary(), self.shown())
        return "\n".join([table, *(f"\n{note}" for note in self.notes())])

    def to_frame(self) -> Any:
        """All rows as a pandas DataFrame."""
        frame = as_frame(self.rows, COLUMNS)
        if all(isinstance(row["seed"], int | None) for row in self.rows):
            frame["seed"] = frame["seed"].astype("Int64")  # keeps integers beside missing ones
        return frame

    def as_dict(self) -> dict[str, Any]:
        """Rows, summary and notes, as `save` writes them to JSON."""
        refused = [dict(zip(("problem", "solver", "reason"), r, strict=True)) for r in self.refused]
        return {"rows": self.rows, "summary": self.summary(), "versus": self.versus(),
                "time_to_target": self.time_to_target(), "refused": refused,
                "notes": self.notes(), "interrupted": self.interrupted}

    def save(self, path: Path) -> None:
        """Write all rows to .csv, everything to .json, or the summary to .md."""
        save_table(path, self.rows, COLUMNS, self.as_dict, self.to_markdown)

    def plot(self, kind: str = "time", ax: Any = None, *, within: float = HIT) -> Any:
        """Draw ``"time"``, ``"box"``, ``"profile"`` or ``"data"``.

        See `mmcopt.plot.plot_comparison`.
        """
        from mmcopt.plot import plot_comparison

        return plot_comparison(self, kind=kind, ax=ax, within=within)


def _mean(values: list[float | None]) -> float | None:
    there = [v for v in values if v is not None]
    return float(np.mean(there)) if there else None


def _restarts(result: Result) -> int:
    """How often a run began."""
    return int(result.history["restart"].max(initial=0.0)) + 1


def _improving(history: History) -> History:
    """The rows of a history that are better than all before them, and the last."""
    kept: list[dict[str, float]] = []
    rows = sorted(history.rows(), key=lambda row: row["seconds"])
    for row in rows:
        if not kept or row["best"] < kept[-1]["best"] or row is rows[-1]:
            kept.append(row)
    return History(kept)


def time_to_best(result: Result, seconds: float | None) -> float | None:
    """Seconds until the final objective was first met; ``seconds`` when the history lacks it."""
    first = first_time(result, result.objective)
    return min(first, math.inf if seconds is None else seconds) if first < math.inf else seconds
