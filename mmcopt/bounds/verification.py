"""`verify`: every claim of a result, made again from a rebuilt problem, in NumPy, by no solver.

Numbers are computed anew and compared relative to their size, or to the magnitude of the problem
where that is smaller than 1: a tolerance that means something in any units. What no computation can
repeat (the solver's name, its seed, its history, its timing, which limit ended it) is a record,
which is checked for its form and for being at odds with the rest.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from mmcopt.bounds.certificates import BOUNDS, bound_of, room_above
from mmcopt.capabilities import Bounded, LabelProblem
from mmcopt.errors import MMCError
from mmcopt.modeling.result import (
    ADOPTED,
    KEPT,
    MALFORMED,
    Check,
    ClimbEnd,
    Report,
    Result,
    Rung,
    Status,
    closes,
    least_shown,
)
from mmcopt.registry import relaxations, solvers
from mmcopt.tolerances import SAME


def verify(result: Result) -> Report:
    """Check a result against a problem rebuilt from its parameters and data."""
    checks: list[Check] = []
    if not _plain(result.point):
        return Report((Check("point", False, "it holds something else than real numbers"),))
    try:
        with np.errstate(all="ignore"):
            result.formulation.let_go()  # so that there is room for what is made anew
            fresh = type(result.formulation)(**result.formulation.params())
            if not _named(fresh, result.point):
                return Report((Check("point", False, "it names clusters that there are not"),))
            doubt = float(fresh.uncertainty(result.point))
            _point(result, fresh, doubt, checks)
            _bound(result, fresh, doubt, checks)
            _end(result, fresh, checks)
            _record(result, fresh, checks)
    except (MMCError, MemoryError, *MALFORMED) as e:
        checks.append(Check("rebuild", False, f"{type(e).__name__}: {e}"))
    return Report(tuple(checks))


def trivial_of(f: Any) -> float | None:
    """The bound of a problem that costs nothing, where there is one."""
    bounded, lq = f.offer(Bounded), f.offer(LabelProblem)
    return bounded.trivial if bounded is not None else None if lq is None else lq.trivial_bound


# ---------------------------------------------------------------- what is claimed


def _point(result: Result, fresh: Any, doubt: float, checks: list[Check]) -> None:
    """The problem, and what its point is worth."""
    own = result.certificate
    claimed = result.formulation.fingerprint if own is None else own.fingerprint
    checks.append(Check("fingerprint", fresh.fingerprint == claimed,
                        f"problem {fresh.fingerprint[:12]}, certificate {claimed[:12]}"))
    objective, violation = fresh.settled(result.point), fresh.violation(result.point)
    checks.append(_close("objective", result.objective, objective, _unit(fresh), doubt))
    checks.append(_close("violation", result.violation, violation, 1.0))
    codes = _codes(result)
    same = codes is not None and fresh.agrees(result.point, codes)
    checks.append(Check("labels", same, "those of the point"))


def _bound(result: Result, fresh: Any, doubt: float, checks: list[Check]) -> None:
    c, lower = result.certificate, result.lower_bound
    if lower is None:
        checks.append(Check("bound", True, "none claimed"))
    elif c is None or c.kind not in {*BOUNDS, *relaxations()}:
        checks.append(Check("bound", False, "a bound is claimed without a known certificate"))
    elif not _plain(c.duals):
        checks.append(Check("bound", False, "its duals hold something else than real numbers"))
    else:
        bound = bound_of(fresh, c)
        ok = _is_real(lower) and math.isfinite(bound) and math.isfinite(doubt) \
            and lower <= bound + SAME * (_unit(fresh) + abs(bound)) + doubt
        checks.append(Check("bound", ok, f"claimed {lower:.12g}, recomputed {bound:.12g} from its "
                                         f"{c.kind} certificate"))
        if result.feasible and not lower <= result.objective + room_above(result, doubt):
            checks.append(Check("bound", False, f"{lower:.12g} lies above the objective of a "
                                                f"feasible point, {result.objective:.12g}"))


def _end(result: Result, fresh: Any, checks: list[Check]) -> None:
    """Status, the share that is closed, the ladder, and better labels beside these."""
    certified = result.status is Status.CERTIFIED
    ok = isinstance(result.status, Status) and _is_real(result.gap_tol) and result.gap_tol >= 0.0 \
        and (result.proves(result.gap_tol) or not certified) \
        and (result.solver == "evaluate" or result.status is not Status.EVALUATED) \
        and (result.solver != "evaluate" or result.status in (Status.EVALUATED, Status.CERTIFIED))
    gap = "none" if result.gap is None else f"{result.gap:.6g}"
    checks.append(Check("status", ok, f"{result.status}, gap {gap}, tolerance {result.gap_tol:g}"))
    if result.trivial_bound is not None:
        trivial = trivial_of(fresh)
        checks.append(Check("trivial bound", False, "the problem has none") if trivial is None
                      else _close("trivial bound", result.trivial_bound, trivial,
                                  _unit(fresh)))
    if result.incumbent is not None:
        checks.append(_incumbent(result, result.incumbent))
    if result.ladder or result.climb_end is not None:
        checks.append(_ladder(result))


def _incumbent(result: Result, better: Result) -> Check:
    ok = better.incumbent is None and better.feasible \
        and (better.objective < result.objective or not result.feasible) \
        and better.formulation.fingerprint == result.formulation.fingerprint
    failed = [c for c in verify(better).checks if not c.ok] if ok else []
    return Check("incumbent", ok and not failed,
                 f"{failed[0].name}: {failed[0].detail}" if failed
                 else "better feasible labels of the same problem")


def _ladder(result: Result) -> Check:
    """No rung says more than the result does in the end, and none takes back what was known."""
    rungs, lower = result.ladder, result.lower_bound
    value = least_shown(result)
    named = {"cheap", *BOUNDS, *relaxations()}
    ok = bool(rungs) and all(isinstance(r, Rung) and r.level in named and r.seconds >= 0.0
                             and not math.isnan(r.lower + 0.0 * r.seconds)
                             and not math.isnan(r.upper) for r in rungs)
    for a, b in zip(rungs[:-1], rungs[1:], strict=True):
        ok = ok and a.seconds <= b.seconds and a.lower <= b.lower and a.upper >= b.upper
    known = -math.inf if lower is None else lower
    ok = ok and rungs[-1].lower <= known and rungs[-1].upper >= value
    if result.climb_end is ClimbEnd.CLOSED:
        ok = ok and closes(known, value, result.formulation.vanishing)
    return Check("ladder", ok, f"{len(rungs)} rungs, none above the bound or below the objective")


# ---------------------------------------------------------------- what is on record


def _record(result: Result, fresh: Any, checks: list[Check]) -> None:
    """The form of what nobody can compute again, and whether it is at odds with the rest."""
    wrong = [name for name, ok in (
        ("solver", isinstance(result.solver, str) and bool(result.solver)),
        ("seed", _is_seed(result.seed)), ("timing", _is_timing(result.timing)),
        ("message", _is_message(result)), ("history", _is_history(result, fresh)),
        ("adopted", _is_adopted(result)),
        ("climb_end", result.climb_end is None or isinstance(result.climb_end, ClimbEnd)),
    ) if not ok]
    checks.append(Check("record", not wrong, f"at odds with the rest: {', '.join(wrong)}" if wrong
                        else "solver, seed, timing, history and message: of the right form"))


def _is_seed(seed: Any) -> bool:
    parts = seed if isinstance(seed, list | tuple) else [] if seed is None else [seed]
    return all(isinstance(s, numbers.Integral) and not isinstance(s, bool) and int(s) >= 0
               for s in parts)


def _is_timing(timing: Any) -> bool:
    return isinstance(timing, dict) and all(
        isinstance(name, str) and _is_real(v) and 0.0 <= v < math.inf for name, v in timing.items())


def _is_message(result: Result) -> bool:
    """A message begins with the sentence of the status, or of how the climb ended."""
    text = result.message
    if not isinstance(text, str):
        return False
    if result.climb_end is ClimbEnd.BROKEN:
        return not any(s.value in text for s in Status if s is not result.status)
    if text in ("", ADOPTED, KEPT):
        return text != KEPT or result.incumbent is not None
    return text == result.status.value or text.startswith(f"{result.status.value}; ") \
        or (result.climb_end is not None and text == result.climb_end.value)


def _is_adopted(result: Result) -> bool:
    """Labels were adopted when the message says so; files of earlier versions only say so there."""
    if not isinstance(result.adopted, bool):
        return False
    said = result.message == ADOPTED
    return said == result.adopted or (said and result.climb_end is None)


def _is_history(result: Result, fresh: Any) -> bool:
    """Columns of numbers; a search that keeps its best has seen no better than the result.

    No better, that is, than its own value of the best point, and that `solve` let pass.
    """
    columns = result.history.to_dict()
    if not all(isinstance(name, str) for name in columns):
        return False
    method = solvers().get(str(result.solver).partition("(")[0])
    if "best" not in columns or method is None or method.keeps_last or result.violation != 0.0:
        return True
    least = float(np.min(columns["best"]))
    return least >= result.objective - method().agreement(fresh, result.objective, result.point)


# ---------------------------------------------------------------- small judges


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


def _plain(value: Any) -> bool:
    """Whether a point or a dual holds real numbers (and words, in lists of trees) alone."""
    if isinstance(value, np.ma.MaskedArray):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "c" and (value.dtype.kind != "O"
                                            or all(map(_plain, value.ravel().tolist())))
    if isinstance(value, dict):
        return all(map(_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return not isinstance(value, complex | np.complexfloating)


def _named(f: Any, point: Any) -> bool:
    """Whether a point that is labels names clusters of the problem: to count others takes room."""
    lq = f.offer(LabelProblem)
    if lq is None:
        return True
    labels = np.asarray(point)
    if labels.dtype.kind not in "iu":
        return True
    return bool(labels.size == 0 or (labels.min() >= 0 and labels.max() < lq.k))


def _unit(f: Any) -> float:
    """What tolerances are relative to, beside the number itself: at most 1."""
    return min(1.0, float(f.magnitude))


def _codes(result: Result) -> Any:
    """The labels as numbers of clusters; None where they are no names of them."""
    labels = np.asarray(result.labels)
    if result.classes is None:
        return labels
    names = np.asarray(result.classes)
    if names.ndim != 1 or names.size > max(result.formulation.n_clusters, 1) \
            or (names[:, None] == names).sum() != names.size:
        return None  # two classes that nobody can tell apart in an array of labels
    named = labels[..., None] == names
    return np.argmax(named, axis=-1) if np.ndim(named) == 2 and named.any(axis=-1).all() else None


def _close(name: str, claimed: float, found: float, unit: float, doubt: float = 0.0) -> Check:
    ok = _is_real(claimed) and math.isfinite(found) and math.isfinite(doubt) \
        and abs(claimed - found) <= SAME * (unit + abs(found)) + doubt
    return Check(name, ok, f"claimed {claimed:.12g}, recomputed {found:.12g}")
