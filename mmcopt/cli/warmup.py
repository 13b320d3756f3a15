"""`mmcopt warmup`: compile what solvers run, once, so that no first solve waits for it."""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mmcopt import registry
from mmcopt.capabilities import CutRisk, KernelMargin, LabelProblem, LabelQuadratic, MarginRisk
from mmcopt.capabilities.matrices import LowRank
from mmcopt.checks import integer, plural
from mmcopt.cli.console import say
from mmcopt.cli.exit_codes import DONE
from mmcopt.solving import fits, solve, whole
from mmcopt.solving.factor_search import toy_factor
from mmcopt.solving.graph_search import toy_graph
from mmcopt.solving.label_search import DENSE_LIMIT, toy_problem

EXAMPLES = 3  # of a formulation: they differ in what is given about labels
Pairs = list[tuple[str, str]]  # names of a formulation and a solver


def warmup(args: Namespace) -> int:
    """Compile in so many processes at once; the cache is numba's own."""
    integer(1).check("--jobs", "N", args.jobs)
    groups = sharing(args.names or list(registry.formulations()))
    say("Compiling the loops of the solvers, once for this computer and this version:")
    started, left = time.perf_counter(), 0
    end = math.inf if args.time_limit is None else time.time() + args.time_limit
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(compiled, pairs, end): ", ".join(solvers_of(pairs))
                for pairs in groups}
        searches = [name for name in solvers_of(sum(groups, []))
                    if {LabelQuadratic, LabelProblem} & set(registry.solver(name).needs)]
        if searches:
            jobs[pool.submit(larger, searches, end)] = "searches over more labels"
        for job in as_completed(jobs):
            work = job.result()
            left += work.left
            say(f"  {work.seconds:5.1f} s  {jobs[job]}"
                + (f" ({work.left} left)" if work.left else ""))
    say(f"Done in {time.perf_counter() - started:.0f} s.")
    if left:
        say(f"The time was over with {plural(left, 'piece')} of work left; mmcopt warmup goes on.")
    return DONE


def sharing(names: list[str]) -> list[Pairs]:
    """All pairs with a solver, together where they run the same loops: the longest lists first."""
    groups: dict[tuple[bool, bool], Pairs] = {}
    for kind in map(registry.formulation, names):
        examples = kind.examples()[:EXAMPLES]
        cuts = examples[0].offer(CutRisk) is not None
        for solver in dict.fromkeys(name for f in examples for name in fits(f).names):
            trees = {MarginRisk, KernelMargin} & set(registry.solver(solver).needs)
            if solver != "Conic":  # conic back ends have nothing to compile
                groups.setdefault((cuts, bool(trees)), []).append((kind.__name__, solver))
    return sorted(groups.values(), key=len, reverse=True)


class Work(NamedTuple):
    """The seconds that some work took, and the pieces of it that were not begun in time."""

    seconds: float
    left: int = 0


def compiled(pairs: Pairs, end: float = math.inf) -> Work:
    """Take a step with each solver of some examples of formulations, begun before an hour."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step is no answer
        for i, (name, solver) in enumerate(pairs):
            if time.time() >= end:
                return Work(time.perf_counter() - started, len(pairs) - i)
            for example in registry.formulation(name).examples()[:EXAMPLES]:
                if solver in fits(example).names:
                    whole(solve(example, solver, seed=0, max_iter=1))
    return Work(time.perf_counter() - started)


def larger(searches: list[str], end: float = math.inf) -> Work:
    """Compile what searches run on many samples: in single precision, on a factor, on lists."""
    started = time.perf_counter()
    vast = LabelQuadratic(LowRank(np.ones((DENSE_LIMIT + 1, 1))), k=2)
    for i, solver in enumerate(registry.solver(name)() for name in searches):
        if time.time() >= end:
            return Work(time.perf_counter() - started, len(searches) - i)
        toys = [toy_problem(np.float32), replace(toy_problem(np.float32), spread=None)]
        if solver.refuses(vast) is None:  # it need not make a factor dense
            toys += [toy_factor(np.float32), toy_factor(np.float64)]
        if getattr(solver, "lists", False):
            toys.append(toy_graph(np.float64))
        for toy in toys:
            if solver.refuses(toy) is None:
                solver.prepare(toy)
    return Work(time.perf_counter() - started)


def solvers_of(pairs: Pairs) -> list[str]:
    """The solvers, each once."""
    return list(dict.fromkeys(solver for _, solver in pairs))
