"""The commands of `mmcopt` besides the demo; each takes the parsed arguments, returns a code."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pathlib
import sys
from argparse import Namespace
from typing import Any

import numpy as np

from mmcopt import datasets, metrics, registry, saving
from mmcopt.checks import is_sparse, optional, real
from mmcopt.cli_input import parse_kernel, parse_sizes, parse_solvers
from mmcopt.cli_ladder import LadderWatch, climb, show_ladder, thinned
from mmcopt.cli_show import LiveWatch, note, say, show_json, show_table
from mmcopt.comparing import compare as run_comparison
from mmcopt.comparison import check_suffix
from mmcopt.errors import DataError, MMCError, ParameterError
from mmcopt.result import Result, Status
from mmcopt.solving import solve as run_solver
from mmcopt.tables import cell

DONE, FAILED, INTERRUPTED = 0, 1, 130


def sentence_on_bound(result: Result) -> str:
    """Say in plain words what the bound of a result proves."""
    if not result.feasible:
        return (f"The labels break the constraints (violation {result.violation:g}), so their "
                "objective says nothing about the optimum.")
    if result.lower_bound is None:
        return "No lower bound is known, so nothing is said about how far from optimal this is."
    if result.status is Status.CERTIFIED:
        return (f"Optimal: no labelling has an objective below {result.lower_bound:.6g}, "
                "which is proved.")
    return (f"The optimum lies between {result.lower_bound:.6g} and {result.objective:.6g}: no "
            "labelling at all can be below the bound, which is proved.")


# ---------------------------------------------------------------- problems and files

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


def _problem(args: Namespace) -> tuple[Any, Any, str]:
    """Build the problem; return it with the known classes and a line about k."""
    optional(real(0)).check("--certify", "seconds", args.certify)
    kernel, sizes = parse_kernel(args.kernel), parse_sizes(args.sizes)
    X, y = datasets.load(args.data)
    classes = None if y is None else len(np.unique(y))
    k, why = args.clusters, "as asked"
    if k is None and classes is not None and classes >= 2:
        k, why = classes, "the number of known classes; choose with -k"
    elif k is None:
        k, why = 2, "no classes are known; choose with -k"
    least_squares: Any = registry.formulation("LeastSquares")
    problem = least_squares(X, k, kernel=kernel, lam=args.lam, center=not args.no_center,
                            sizes=sizes)
    n, d = X.shape
    return problem, y, f"{args.data}: {n} samples, {d} features; {k} clusters ({why})"


def _scores(y: Any, labels: Any) -> dict[str, float]:
    if y is None or labels is None:
        return {}
    return {"ari": metrics.adjusted_rand_index(y, labels),
            "accuracy": metrics.accuracy(y, labels)}


def _facts(result: Result) -> dict[str, Any]:
    """Return the numbers of a result, for JSON."""
    return {"solver": result.solver, "status": result.status.name.lower(),
            "message": result.message, "objective": result.objective,
            "lower_bound": result.lower_bound, "gap": result.gap,
            "absolute_gap": result.absolute_gap, "violation": result.violation,
            "certificate": None if result.certificate is None else result.certificate.kind}


def _picture(draw: Any, path: str) -> None:
    """Draw without a window and write the file."""
    try:
        import matplotlib
    except ImportError:
        pass  # the drawing function says what is missing
    else:
        matplotlib.use("Agg")
    axes = np.ravel(np.array(draw(), dtype=object))
    axes[0].figure.savefig(path, dpi=150)


# ---------------------------------------------------------------- solve


def solve(args: Namespace) -> int:
    """Cluster a data set."""
    _writable(args.out, args.save, args.plot)
    _check_picture(args.plot)
    chosen = None if args.solver is None else parse_solvers(args.solver)
    if chosen is not None and len(chosen) != 1:
        raise ParameterError("--solver takes one solver; mmcopt compare takes several.")
    problem, y, about = _problem(args)
    if not args.json:
        say(about)
        if args.verbose:
            say("", problem, "")
    live = sys.stderr.isatty() and not args.json
    result = run_solver(problem, chosen[0] if chosen else None, seed=args.seed,
                        restarts=args.restarts, time_limit=args.time_limit, n_jobs=args.jobs,
                        progress=live)
    interrupted = result.status is Status.INTERRUPTED
    if args.certify is not None and not interrupted:
        result, interrupted = climb(result, args.certify, quiet=args.json)
    _write_labels(args.out, result)
    if args.save:
        result.save(args.save)
    if args.plot:
        _picture(result.plot, args.plot)
    if args.json:
        show_json(_solve_facts(args, problem, result, y))
    else:
        _show_result(args, result, y)
        if interrupted:
            say("Interrupted: these are the best labels so far.")
    return INTERRUPTED if interrupted else DONE


def _solve_facts(args: Namespace, problem: Any, result: Result, y: Any) -> dict[str, Any]:
    return {"data": args.data, "problem": type(problem).__name__, "n": problem.n,
            "k": problem.n_clusters, "kernel": repr(problem.kernel), "lam": problem.lam,
            "seed": args.seed, **_facts(result), **_scores(y, result.labels),
            "sizes": np.bincount(problem.labels(result.point), minlength=problem.n_clusters),
            "timing": result.timing, "ladder": thinned(result.ladder), "labels": result.labels}


def _write_labels(path: str | None, result: Result) -> None:
    if path is not None and result.labels is not None:
        text = "\n".join(["label", *map(str, np.asarray(result.labels).tolist())])
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def _show_result(args: Namespace, result: Result, y: Any) -> None:
    f = result.formulation
    sizes = np.bincount(f.labels(result.point), minlength=f.n_clusters)
    seconds = sum(result.timing.values())
    lines = [("solver", f"{result.solver}: {result.status}, {seconds:.2f} s"),
             ("objective", f"{result.objective:.6g}"),
             ("lower bound", cell("bound", result.lower_bound)),
             ("gap", cell("gap", result.gap)),
             ("sizes", ", ".join(map(str, sizes.tolist())))]
    scores = _scores(y, result.labels)
    if scores:
        lines.append(("against the known classes", f"ARI {scores['ari']:.3f}, accuracy "
                      f"{cell('accuracy', scores['accuracy'])}"))
    if args.verbose:
        lines += [(f"seconds: {phase}", f"{t:.3f}") for phase, t in result.timing.items()]
    lines += [(what, path) for what, path in (("labels in", args.out), ("run saved in", args.save),
                                              ("picture in", args.plot)) if path]
    width = max(len(name) for name, _ in lines)
    say(*(f"  {name:<{width}}  {text}" for name, text in lines))
    show_ladder(result.ladder)
    say(sentence_on_bound(result))


# ---------------------------------------------------------------- compare


def compare(args: Namespace) -> int:
    """Run solvers side by side on a data set."""
    _writable(args.save, args.plot)
    _check_picture(args.plot)
    if args.save:
        check_suffix(args.save)
    solvers = parse_solvers(args.solvers)
    problem, y, about = _problem(args)
    if not args.json:
        say(about)
        if args.verbose:
            say("", problem, "")
    live = False if args.json else LiveWatch()
    table = run_comparison({args.data: problem}, solvers, seeds=args.seeds, y=y,
                           time_limit=args.time_limit, n_jobs=args.jobs, progress=live)
    if args.certify is not None and not table.interrupted:
        with LadderWatch(args.certify, quiet=args.json) as watch:
            table.certify(time_limit=args.certify, progress=watch)
    if args.save:
        table.save(args.save)
    if args.plot and any(r is not None for r in table.results):
        _picture(table.plot, args.plot)
    if args.json:
        show_json({"data": args.data, "n": problem.n, "k": problem.n_clusters,
                   "ladder": thinned(table.ladders.get(args.data, ())), **table.as_dict()})
    else:
        show_table(table.summary(), table.shown())
        say(*table.notes())
        show_ladder(table.ladders.get(args.data, ()))
        found = table.best(args.data)
        if found is not None:
            say(sentence_on_bound(found))
    if table.interrupted:
        return INTERRUPTED
    if table.failures:
        note(f"mmcopt: {len(table.failures)} of {len(table)} runs failed: {table.failures[0][2]}")
        return FAILED
    return DONE


# ---------------------------------------------------------------- certify, reproduce


def certify(args: Namespace) -> int:
    """Verify a saved run, tighten its bound, verify again."""
    real(0).check("--seconds", "S", args.seconds)
    _writable(args.save, args.plot)
    _check_picture(args.plot)
    before = saving.load(args.run)
    report = before.verify()
    if not report:
        bad = "; ".join(f"{c.name}: {c.detail}" for c in report.checks if not c.ok)
        raise DataError(f"{args.run} does not verify: {bad}.")
    after, interrupted = climb(before, args.seconds, quiet=args.json)
    again = after.verify()
    if args.save:
        after.save(args.save)
    if args.plot:
        _picture(lambda: after.plot(kind="ladder"), args.plot)
    code = INTERRUPTED if interrupted else DONE if again else FAILED
    if args.json:
        show_json({"run": args.run, "verified": bool(again), "before": _facts(before),
                   "after": _facts(after), "ladder": thinned(after.ladder),
                   "checks": [dataclasses.asdict(c) for c in again.checks]})
        return code
    say(f"{args.run}: {before.summary()}", "", "checked again, without any solver:",
        *(f"  {line}" for line in str(again).splitlines()), "")
    columns = ["", "objective", "lower_bound", "gap", "status"]
    show_table([{"": name, "objective": r.objective, "lower_bound": r.lower_bound, "gap": r.gap,
                 "status": str(r.status)} for name, r in (("saved", before), ("now", after))],
               columns)
    show_ladder(after.ladder)
    if "better labels" in after.message:
        say(f"Note: {after.message}.")
    say(sentence_on_bound(after))
    if interrupted:
        say("Interrupted: this is the best bound so far.")
    return code


def reproduce(args: Namespace) -> int:
    """Print the tables of a paper beside ours."""
    papers = importlib.import_module("mmcopt.reproduce")
    if args.paper is None:
        if args.json:
            show_json({"papers": list(papers.PAPERS)})
        else:
            say("papers:", *(f"  {name}" for name in papers.PAPERS))
        return DONE
    if args.paper not in papers.PAPERS:
        raise ParameterError(f"no paper is called {args.paper!r}; there are "
                             f"{', '.join(papers.PAPERS)}.")
    found = papers.run(args.paper, table=args.table, quick=args.quick, out=args.out,
                       show=not args.json)
    if args.json:
        show_json(found)
    return DONE


# ---------------------------------------------------------------- describe


def describe(args: Namespace) -> int:
    """Describe a formulation, a relaxation, a solver or a data set, or list them all."""
    if args.name is None:
        _list_all()
        return DONE
    kinds = {**{n.lower(): c for n, c in registry.formulations().items()},
             **{n.lower(): c for n, c in registry.solvers().items()}, **registry.relaxations()}
    cls = kinds.get(args.name.lower())
    if cls is None:
        _describe_data(args.name)
    elif cls.__name__ in registry.solvers():
        _describe_solver(cls)
    elif getattr(cls, "kind", ""):
        _describe_relaxation(cls)
    else:
        _describe_formulation(cls)
    return DONE


def _first_line(cls: Any) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _list_all() -> None:
    problems = {n: c for n, c in registry.formulations().items() if not getattr(c, "kind", "")}
    for title, table in (("problems", problems),
                         ("relaxations, which bound problems", registry.relaxations()),
                         ("solvers", registry.solvers())):
        say(f"{title}:")
        width = max(map(len, table))
        say(*(f"  {name:<{width}}  {_first_line(cls)}" for name, cls in table.items()), "")
    say("data:", "  " + ", ".join(datasets.names()),
        "  or file.csv, file.npz, file.libsvm, openml:NAME", "",
        "mmcopt describe NAME tells more about each of them.")


def _describe_formulation(cls: Any) -> None:
    say(cls.__name__, "", inspect.getdoc(cls), "")
    examples = cls.examples()
    if examples:
        say("A small instance, as it prints itself:", "", examples[0], "")
        _say_solvers(cls, examples[0])
        kinds = examples[0].relaxations()
        if kinds.kinds:
            say("", "Relaxations of it, problem.relax(kind); mmcopt describe KIND tells more:", "",
                kinds)


def _say_solvers(cls: Any, example: Any) -> None:
    say(f"Solvers (the default is {cls.default_solver}), and why the others do not fit it:", "",
        registry.fits(example))


def _describe_relaxation(cls: Any) -> None:
    say(f"{cls.kind}: {cls.__name__}", "", inspect.getdoc(cls), "")
    if cls.tightness:
        say(f"How tight: {cls.tightness}.")
    if not cls.bounds_problem:
        say("It bounds a relative of the problem and not the problem itself.")
    say(f"In Python: relaxed = problem.relax({cls.kind!r}); mm.solve(relaxed).lower_bound", "")
    examples = cls.examples()
    if examples:
        say("A small instance, as it prints itself:", "", examples[0], "")
        _say_solvers(cls, examples[0])


def _describe_solver(cls: Any) -> None:
    say(cls.__name__, "", inspect.getdoc(cls), "")
    rows = [{"parameter": f.name, "default": repr(f.default) if f.default is not
             dataclasses.MISSING else "", "allowed": f.metadata["rule"].allowed,
             "meaning": f.metadata["doc"]} for f in dataclasses.fields(cls) if "rule" in f.metadata]
    if rows:
        show_table(rows, ["parameter", "default", "allowed", "meaning"])
    say("Problems:", "", registry.fits(cls))


def _describe_data(name: str) -> None:
    try:
        X, y = datasets.load(name)
    except MMCError as e:
        raise DataError(f"{e} Problems and solvers to describe: "
                        f"{', '.join([*registry.formulations(), *registry.solvers()])}; "
                        f"relaxations: {', '.join(registry.relaxations())}.") from e
    n, d = X.shape
    kind = f"sparse, {X.nnz / (n * d):.2%} of the entries stored" if is_sparse(X) else str(X.dtype)
    values = X.data if is_sparse(X) else np.asarray(X)
    say(f"{name}: {n} samples, {d} features ({kind})",
        f"  values from {values.min():.6g} to {values.max():.6g}")
    if y is None:
        say("  no classes are known; say -k for the number of clusters")
    else:
        counts = np.bincount(y)
        say(f"  {counts.size} classes, of {', '.join(map(str, counts.tolist()))} samples")
    say("", f"  mmcopt solve {name}", f"  mmcopt compare {name}")
