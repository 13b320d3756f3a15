"""`mmcopt describe`: what a formulation, a relaxation, a solver or a data set is."""

from __future__ import annotations

import dataclasses
import inspect
from argparse import Namespace
from typing import Any

import numpy as np

from mmcopt import datasets, registry
from mmcopt.checks import is_sparse
from mmcopt.cli.console import say, show_table
from mmcopt.cli.exit_codes import DONE
from mmcopt.cli.task import clusterings, flags
from mmcopt.errors import DataError, MMCError
from mmcopt.solving import capability_table, fits


def describe(args: Namespace) -> int:
    """Describe a formulation, a relaxation, a solver or a data set, or list them all."""
    if args.name is None:
        _list_all()
        return DONE
    if args.name.lower() == "capabilities":
        say(capability_table())
        return DONE
    relaxations = registry.relaxations()
    kinds = {**relaxations, **{n.lower(): c for n, c in registry.formulations().items()},
             **{n.lower(): c for n, c in registry.solvers().items()}}
    cls = kinds.get(args.name.lower())
    if cls is None:
        _describe_data(args.name)
    elif cls.__name__ in registry.solvers():
        _describe_solver(cls)
    elif getattr(cls, "kind", ""):
        _describe_relaxation(cls)
    else:
        _describe_formulation(cls)
    namesake = relaxations.get(args.name.lower())
    if namesake is not None and namesake is not cls:
        say("", f"A relaxation is called so, too: mmcopt describe {namesake.__name__}")
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
        "  or file.csv, file.npz, file.libsvm, openml:NAME; graphs in graph.mc, .rud, .sparse", "",
        "mmcopt describe NAME tells more about each of them; mmcopt describe capabilities, which",
        "problems offer what, and who needs it.")


def _describe_formulation(cls: Any) -> None:
    say(cls.__name__, "", inspect.getdoc(cls), "")
    if cls.__name__ in clusterings():
        say(f"From a shell: mmcopt solve DATA --formulation {cls.__name__}, which takes",
            f"  {' '.join(flags(cls))}", "")
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
        fits(example))


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
    say("Problems:", "", fits(cls))


def _describe_data(name: str) -> None:
    try:
        table = datasets.load_table(name)
    except MMCError as e:
        raise DataError(f"{e} Problems and solvers to describe: "
                        f"{', '.join([*registry.formulations(), *registry.solvers()])}; "
                        f"relaxations: {', '.join(registry.relaxations())}.") from e
    X, y = table.X, table.y
    n, d = X.shape
    kind = f"sparse, {X.nnz / (n * d):.2%} of the entries stored" if is_sparse(X) else str(X.dtype)
    values = X.data if is_sparse(X) else np.asarray(X)
    say(f"{name}: {n} samples, {d} features ({kind})",
        f"  values from {values.min():.6g} to {values.max():.6g}")
    say(*(f"  {fact}" for fact in (table.labelled, table.dropped) if fact))
    if y is None:
        say("  no classes are known; say -k for the number of clusters")
    else:
        counts = np.bincount(y)
        say(f"  {counts.size} classes, of {', '.join(map(str, counts.tolist()))} samples")
    say("", f"  mmcopt solve {name}", f"  mmcopt compare {name}")
