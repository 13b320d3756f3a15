"""Solving: the `Solver` protocol, the driver behind `mmcopt.solve`, pairing, starts and the ladder.

It may import bounds, modeling and what is below them; formulations and solvers it finds by name,
through `mmcopt.registry` only. Public are the names below.
"""

from mmcopt.solving.conformance import check
from mmcopt.solving.driver import cut_short, repr_solver, solve, whole
from mmcopt.solving.ladder import certify, tighten
from mmcopt.solving.pairing import (
    Fits,
    capability_table,
    check_pair,
    fits,
    pairing_table,
    resolve_solver,
)
from mmcopt.solving.runs import Budget, Run, out_of_time, run
from mmcopt.solving.solver import Progress, Proved, Solver

__all__ = [
    "Budget", "Fits", "Progress", "Proved", "Run", "Solver", "capability_table", "certify", "check",
    "check_pair", "cut_short", "fits", "out_of_time", "pairing_table", "repr_solver",
    "resolve_solver", "run", "solve", "tighten", "whole",
]
