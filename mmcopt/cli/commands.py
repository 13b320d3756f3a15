"""The commands of `mmcopt`: each takes the parsed arguments and returns an exit code."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import sys
import traceback
from argparse import Namespace
from typing import Any

import numpy as np

from mmcopt import saving
from mmcopt.cli.answer import (
    Answer,
    in_options,
    numbers,
    problem_facts,
    sentence_on_bound,
    sentence_on_ladder,
    show,
    show_notes,
)
from mmcopt.cli.console import LiveWatch, heard, note, say, show_json, show_table
from mmcopt.cli.executor import executor_of
from mmcopt.cli.exit_codes import BAD_INPUT, DONE, INTERRUPTED, SOLVER_FAILED
from mmcopt.cli.ladder_view import LadderWatch, climb, show_ladder, thinned
from mmcopt.cli.parse import parse_rivals, parse_solvers
from mmcopt.cli.task import Task
from mmcopt.comparing import compare as run_comparison
from mmcopt.comparing.files import check_suffix
from mmcopt.errors import BackendError, DataError, MMCError, ParameterError
from mmcopt.modeling.result import Status
from mmcopt.solving import solve as run_solver

# ---------------------------------------------------------------- problems and files

VERSUS = "wins, ties and losses over the seeds; p of a sign test"
PICTURES = (".png", ".pdf", ".svg")


def _writable(*paths: str | None) -> None:
    """Refuse files in folders that do not exist before any work is done."""
    for path in paths:
        if path is not None and not pathlib.Path(path).resolve().parent.is_dir():
            raise DataError(f"cannot write {path}: the folder "
                            f"{pathlib.Path(path).resolve().parent} does not exist.")


def _check_picture(path: str | None) -> None:
    if path is not None and not path.lower().endswith(PICTURES):
        raise ParameterError(f"--plot: the file name must end in {', '.join(PICTURES)}; "
                             f"got {path!r}.")


def _check_page(path: str | None) -> None:
    if path is not None:
        from mmcopt.plot import check_page

        check_page(path)


def _on_paper() -> None:
    """Let matplotlib draw without a window; where it is missing, what draws says so."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")


def _picture(draw: Any, path: str) -> None:
    """Draw without a window and write the file."""
    axes = np.ravel(np.array(draw(), dtype=object))
    axes[0].figure.savefig(path, dpi=150)


def _beside(args: Namespace, code: int, **writers: tuple[str | None, Any]) -> int:
    """Write pictures and pages when all else is said: one that fails is a sentence and a code."""
    for what, (path, write) in writers.items():
        if path is None:
            continue
        try:
            _on_paper()
            write(path)
        except Exception as e:  # whatever matplotlib may meet
            if args.verbose:
                traceback.print_exception(e)
            note(f"mmcopt: no {what} in {path}: {' '.join(str(e).split()) or type(e).__name__}")
            bad = isinstance(e, MMCError | OSError) and not isinstance(e, BackendError)
            code = code or (BAD_INPUT if bad else SOLVER_FAILED)
        else:
            if not args.json:
                say(f"{what.capitalize()} in {path}")
    return code


# ---------------------------------------------------------------- solve


def solve(args: Namespace) -> int:
    """Cluster a data set."""
    _writable(args.out, args.save, args.plot, args.html, args.checkpoint)
    _check_picture(args.plot)
    _check_page(args.html)
    chosen = None if args.solver is None else parse_solvers(args.solver)
    if chosen is not None and len(chosen) != 1:
        raise ParameterError("--solver takes one solver; mmcopt compare takes several.")
    task = Task(args, chosen)
    _introduce(args, task)
    options = task.search(args)
    live, failed = sys.stderr.isatty() and not args.json, None
    with heard() as warned, executor_of(args.executor) as executor:
        result = run_solver(task.problem, chosen[0] if chosen else None, seed=args.seed,
                            time_limit=args.time_limit, n_jobs=args.jobs, progress=live,
                            executor=executor, checkpoint=args.checkpoint, **options)
        interrupted = result.status is Status.INTERRUPTED
        if args.certify is not None and not interrupted:
            try:
                result, interrupted = climb(result, args.certify, quiet=args.json,
                                            checkpoint=args.checkpoint, executor=executor)
            except BackendError as e:  # what was found before is shown all the same
                failed = f"raising the bound failed: {' '.join(str(e).split())}"
    answer = Answer(task, result)
    answer.add([*warned, failed])
    if args.certify is not None and not interrupted and failed is None:
        answer.add([sentence_on_ladder(result)])
    _write_labels(args.out, answer.labels)
    if args.save:
        result.save(args.save)
    if args.json:
        show_json(answer.facts(args))
    else:
        show(args, answer, options["restarts"])
        if interrupted:
            say("Interrupted: these are the best labels so far.")
    code = INTERRUPTED if interrupted else SOLVER_FAILED if failed else DONE
    return _beside(args, code, picture=(args.plot, lambda path: _picture(answer.plot, path)),
                   page=(args.html, result.to_html))


def _introduce(args: Namespace, task: Task) -> None:
    """Say what is about to be solved."""
    if not args.json:
        say(*task.about)
        if args.verbose:
            say("", task.problem, "")


def _write_labels(path: str | None, labels: Any) -> None:
    if path is not None and labels is not None:
        text = "\n".join(["label", *map(str, np.asarray(labels).tolist())])
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


# ---------------------------------------------------------------- compare


def compare(args: Namespace) -> int:
    """Run solvers side by side on a data set."""
    _writable(args.save, args.plot, args.html, args.checkpoint)
    _check_picture(args.plot)
    _check_page(args.html)
    if args.save:
        check_suffix(args.save)
    named = None if args.solvers is None else parse_rivals(args.solvers)
    task = Task(args, named)
    _introduce(args, task)
    live = False if args.json else LiveWatch()
    with heard() as warned, executor_of(args.executor) as executor:
        table = run_comparison({args.data: task.problem}, named or task.rivals(),
                               seeds=args.seeds, y=task.classes, time_limit=args.time_limit,
                               budget=args.budget, n_jobs=args.jobs, progress=live,
                               executor=executor, checkpoint=args.checkpoint)
        if args.certify is not None and not table.interrupted:
            with LadderWatch(args.certify, quiet=args.json) as watch:
                table.certify(time_limit=args.certify, progress=watch)
    found = table.best(args.data)
    notes = [f"in some runs: {in_options(text)}" for text in warned]
    if args.certify is not None and found is not None and not table.interrupted:
        notes += filter(None, [sentence_on_ladder(found)])
    if args.save:
        table.save(args.save)
    ladder = table.ladders.get(args.data, ())
    if args.json:
        show_json({"data": args.data, **problem_facts(task.problem), "ladder": thinned(ladder),
                   **table.as_dict(), "notes": [*table.notes(), *notes]})
    else:
        show_table(table.summary(), table.shown())
        if args.budget is not None and (versus := table.versus()):
            show_table(versus, list(versus[0]), VERSUS)
        say(*table.notes())
        show_ladder(ladder)
        show_notes(notes)
        if found is not None:
            say(sentence_on_bound(found))
    code = INTERRUPTED if table.interrupted else SOLVER_FAILED if table.failures else DONE
    if code == SOLVER_FAILED:
        note(f"mmcopt: {len(table.failures)} of {len(table)} runs failed: {table.failures[0][2]}")
    drawn = args.plot if any(r is not None for r in table.results) else None
    return _beside(args, code, picture=(drawn, lambda path: _picture(table.plot, path)),
                   page=(args.html, table.to_html))


# ---------------------------------------------------------------- certify, reproduce


def certify(args: Namespace) -> int:
    """Verify a saved run, tighten its bound, verify again."""
    _writable(args.save, args.plot, args.checkpoint)
    _check_picture(args.plot)
    before = saving.load(args.run)
    report = before.verify()
    if not report:
        bad = "; ".join(f"{c.name}: {c.detail}" for c in report.checks if not c.ok)
        raise DataError(f"{args.run} does not verify: {bad}.")
    with executor_of(args.executor) as executor:
        after, interrupted = climb(before, args.time_limit, quiet=args.json,
                                   checkpoint=args.checkpoint, executor=executor)
    again = after.verify()
    if args.save:
        after.save(args.save)
    code = INTERRUPTED if interrupted else DONE if again else SOLVER_FAILED
    picture = (args.plot, lambda path: _picture(lambda: after.plot(kind="ladder"), path))
    if args.json:
        show_json({"run": args.run, "verified": bool(again), "before": numbers(before),
                   "after": numbers(after), "ladder": thinned(after.ladder),
                   "checks": [dataclasses.asdict(c) for c in again.checks]})
        return _beside(args, code, picture=picture)
    say(f"{args.run}: {before.summary()}", "", "checked again, without any solver:",
        *(f"  {line}" for line in str(again).splitlines()), "")
    columns = ["", "objective", "lower_bound", "gap", "status"]
    show_table([{"": name, "objective": r.objective, "lower_bound": r.lower_bound, "gap": r.gap,
                 "status": str(r.status)} for name, r in (("saved", before), ("now", after))],
               columns)
    show_ladder(after.ladder)
    if after.adopted or after.incumbent is not None:
        say(f"Note: {after.message}.")
    show_notes([text for text in [sentence_on_ladder(after)] if text])
    say(sentence_on_bound(after))
    if interrupted:
        say("Interrupted: this is the best bound so far.")
    return _beside(args, code, picture=picture)


def reproduce(args: Namespace) -> int:
    """Print the tables of a paper beside ours."""
    papers = importlib.import_module("mmcopt.reproduce")
    if args.paper is None:
        if args.json:
            show_json({"papers": list(papers.PAPERS)})
        else:
            say("papers:", *(f"  {name}" for name in papers.PAPERS))
        return DONE
    paper = args.paper.casefold()
    if paper not in papers.PAPERS:
        raise ParameterError(f"no paper is called {args.paper!r}; there are "
                             f"{', '.join(papers.PAPERS)}.")
    _writable(args.checkpoint)
    with executor_of(args.executor) as executor:
        found = papers.run(paper, table=args.table, quick=args.quick, out=args.out,
                           show=not args.json, checkpoint=args.checkpoint,
                           time_limit=args.time_limit, executor=executor)
    if args.json:
        show_json(found)
    return INTERRUPTED if found.interrupted else DONE
