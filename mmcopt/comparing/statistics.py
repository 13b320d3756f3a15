"""What runs say together: times to a target, profiles, wins and losses with a sign test.

All of it reads rows and results alone. A target is an objective, one a problem, so that solvers
are judged by the problem's number and by the clock, and by nothing of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mmcopt.modeling.result import Result
from mmcopt.tolerances import FEASIBLE, SAME
from mmcopt.types import Floats

HIT = 1e-6  # relative distance at which a run has found the best known objective
SINGLE = 1e-4  # relative: how far sums in single precision drift, at most
LEAST = 1e-6  # seconds: what a clock can tell from nothing
Row: TypeAlias = dict[str, Any]
Runs: TypeAlias = Sequence[tuple[Row, Result | None]]


def goal(best: float, within: float = HIT) -> float:
    """The objective that is within a relative distance of the best known one."""
    return best + within * max(abs(best), 1e-10)


def is_hit(value: float, best: float) -> bool:
    """Whether an objective is the best known one, within 1e-6 relative."""
    return value <= goal(best)


def is_feasible(row: Row) -> bool:
    """Whether the run of a row has kept the constraints."""
    return row["violation"] is not None and bool(row["violation"] <= FEASIBLE)


def first_time(result: Result, target: float) -> float:
    """Seconds until the history of a run first had an objective of at most ``target``.

    The history holds the solver's own values, which may be sums in single precision: where the
    lowest lies somewhat above the objective that the run ended at, so may the others.
    """
    if not len(result.history):
        return math.inf
    best = result.history["best"]
    drift = float(best.min()) - result.objective
    slack = max(drift if drift <= SINGLE * abs(result.objective) else 0.0,
                SAME * max(1e-10, abs(target)))
    return float(result.history["seconds"][best <= target + slack].min(initial=math.inf))


def time_to(row: Row, result: Result | None, target: float) -> float:
    """Seconds until a run first had an objective of at most ``target``; infinite if never."""
    if result is None or not is_feasible(row) or row["objective"] > target:
        return math.inf
    seconds = math.inf if row["seconds"] is None else float(row["seconds"])
    return max(min(seconds, first_time(result, target)), LEAST)


def times_by_solver(runs: Runs, targets: Mapping[str, float]) -> dict[str, dict[Any, float]]:
    """Of each solver the time to the target, by problem and seed; labels from elsewhere have none.

    Problems without a target are left out.
    """
    out: dict[str, dict[Any, float]] = {}
    for row, result in runs:
        if row["seed"] is not None and row["problem"] in targets:
            times = out.setdefault(row["solver"], {})
            times[row["problem"], str(row["seed"])] = time_to(row, result, targets[row["problem"]])
    return out


def target_rows(runs: Runs, targets: Mapping[str, float]) -> list[Row]:
    """One row a problem and solver: how many runs reached the target, and how long that takes.

    ``median`` counts runs that did not as infinite. ``expected`` are the seconds of all runs over
    the number of those that did: what restarts until it is reached would take.
    """
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, result in runs:
        target = targets.get(row["problem"])
        if row["seed"] is not None and target is not None:
            reached = time_to(row, result, target)
            spent = reached if math.isfinite(reached) else float(row["seconds"] or 0.0)
            groups.setdefault((row["problem"], row["solver"]), []).append((reached, spent))
    out = []
    for (problem, solver), times in groups.items():
        when = np.sort([t for t, _ in times])
        count = int(np.isfinite(when).sum())
        middle = float(np.median(when))
        out.append({"problem": problem, "solver": solver, "target": targets[problem],
                    "runs": len(times), "reached": count / len(times),
                    "median": middle if math.isfinite(middle) else None,
                    "expected": sum(spent for _, spent in times) / count if count else None})
    return out


def performance_ratios(times: Mapping[str, Mapping[Any, float]]) -> dict[str, Floats]:
    """Times as multiples of the fastest solver's on the same problem and seed, sorted."""
    whole = _over_all_cases(times)
    fastest = np.min(list(whole.values()), axis=0, initial=math.inf)
    there = np.isfinite(fastest)
    return {solver: np.sort(np.where(there, own / np.where(there, fastest, 1.0), math.inf))
            for solver, own in whole.items()}


def sorted_times(times: Mapping[str, Mapping[Any, float]]) -> dict[str, Floats]:
    """Times over all problems and seeds, sorted."""
    return {solver: np.sort(own) for solver, own in _over_all_cases(times).items()}


def _over_all_cases(times: Mapping[str, Mapping[Any, float]]) -> dict[str, Floats]:
    """Times in the order of all problems and seeds; infinite where a solver was not run."""
    cases = list(dict.fromkeys(case for own in times.values() for case in own))
    return {solver: np.array([own.get(c, math.inf) for c in cases])
            for solver, own in times.items()}


# ---------------------------------------------------------------- wins and losses


def sign_test(wins: int, losses: int) -> float:
    """Probability of a split at least as uneven if either solver won with probability 1/2.

    >>> sign_test(8, 0), sign_test(5, 5)
    (0.0078125, 1.0)
    """
    n = wins + losses
    tail = sum(math.comb(n, i) for i in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / 2**n)


def versus_rows(rows: Iterable[Row], within: float) -> list[Row]:
    """One row a pair of solvers: on how many problems and seeds the first was better, and p.

    Objectives within a relative distance are a tie, which the test leaves out; a run that failed,
    or broke the constraints, loses to all others. A problem on which no seed made a difference to
    either solver is one observation, however many seeds there were, and p counts it once.
    """
    values: dict[str, dict[Any, float]] = {}
    for row in rows:
        if row["seed"] is not None:
            values.setdefault(row["solver"], {})[row["problem"], str(row["seed"])] = \
                float(row["objective"]) if is_feasible(row) else math.inf
    out = []
    for one, other in itertools.combinations(values, 2):
        pairs: dict[str, list[tuple[float, float]]] = {}
        for case in values[one]:
            if case in values[other]:
                pairs.setdefault(case[0], []).append((values[one][case], values[other][case]))
        if pairs:
            every = [pair for own in pairs.values() for pair in own]
            told = [pair for own in pairs.values()
                    for pair in (own[:1] if len(set(own)) == 1 else own)]
            wins, losses = _wins(every, within)
            out.append({"solver": one, "against": other, "wins": wins,
                        "ties": len(every) - wins - losses, "losses": losses,
                        "p": sign_test(*_wins(told, within))})
    return out


def _wins(pairs: Sequence[tuple[float, float]], within: float) -> tuple[int, int]:
    """How often the first of two objectives is the better one, and how often the second."""
    untied = [(a, b) for a, b in pairs if not _tied(a, b, within)]
    wins = sum(a < b for a, b in untied)
    return wins, len(untied) - wins


def _tied(a: float, b: float, within: float) -> bool:
    return a == b or (max(a, b) < math.inf and max(a, b) <= goal(min(a, b), within))
