"""`mmcopt warmup`: compile what solvers run, once, so that no first solve waits for it."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor, as_completed

from mmcopt import registry
from mmcopt.capabilities import CutRisk, LabelQuadratic
from mmcopt.checks import integer
from mmcopt.cli.console import say
from mmcopt.cli.exit_codes import DONE
from mmcopt.solving import fits, solve

EXAMPLES = 3  # of a formulation: they differ in precision and in what is given about labels
SHARING = (LabelQuadratic, CutRisk)  # what is offered says which loops are compiled


def warmup(args: Namespace) -> int:
    """Compile in so many processes at once; the cache is numba's own."""
    integer(1).check("--jobs", "N", args.jobs)
    groups: dict[tuple[bool, ...], list[str]] = {}
    for kind in map(registry.formulation, args.names or registry.formulations()):
        example = kind.examples()[0]
        offers = tuple(example.offer(capability) is not None for capability in SHARING)
        groups.setdefault(offers, []).append(kind.__name__)
    say("Compiling the loops of the solvers, once for this computer and this version:")
    started = time.perf_counter()
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(compiled, names): names for names in groups.values()}
        for job in as_completed(jobs):
            say(f"  {job.result():5.1f} s  {', '.join(jobs[job])}")
    say(f"Done in {time.perf_counter() - started:.0f} s.")
    return DONE


def compiled(names: list[str]) -> float:
    """Take a step with each solver of some examples of formulations; the seconds it took.

    Conic back ends have nothing to compile.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step is no answer
        for name in names:
            for example in registry.formulation(name).examples()[:EXAMPLES]:
                for solver in fits(example).names:
                    if solver != "Conic":
                        solve(example, solver, seed=0, max_iter=1)
    return time.perf_counter() - started
