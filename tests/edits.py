"""Edits of saved results: every part of a description replaced by something else, one at a time.

`conftest.py` makes this module importable as ``edits``.
"""

import copy
import itertools
import json
import warnings
from collections import Counter

import numpy as np

import mmcopt as mm
from mmcopt.errors import MMCError

OTHERS = (None, True, False, -1, 0, 1, 3.5, -1e-3, 1e308, -1e308, 10**30, float("nan"),
          float("inf"), "", "text", "array0", [], [1, 2], [[]], {}, {"array": "array0"},
          {"array": "array99"}, {"array": [1]}, {"list": 3}, {"list": [1, {"array": "array0"}]},
          {"items": [[[1], 2]]}, {"items": [[{"list": []}, 2]]}, {"items": 5},
          {"objects": ["a", 1]}, {"objects": 1}, {"kernel": "Gaussian"}, {"kernel": {}},
          {"kernel": {"kernel": "Gaussian", "width": -1}}, {"loss": "Hinge"}, {"loss": []},
          {"constraint": "Sizes", "fields": {}}, {"constraint": "Known", "fields": {"x": 1}},
          {"constraint": 3}, {"formulation": "LeastSquares", "params": {}},
          {"formulation": "LeastSquares", "params": {"items": [["X", {"array": "array0"}]]}},
          {"csr": {}, "shape": [2, 2]}, {"csr": 3},
          {"csr": {"data": [1.0], "indices": [5], "indptr": [0, 1]}, "shape": [1, 10**12]},
          {"csr": {"data": {"array": "array0"}}, "shape": [10**30, -1]})


def content_of(path):
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "document"}
        return json.loads(str(archive["document"])), arrays


def places(part, at=()):
    """All paths into a description."""
    yield at
    steps = part.items() if isinstance(part, dict) else \
        enumerate(part) if isinstance(part, list) else ()
    for name, value in steps:
        yield from places(value, (*at, name))


def edited(document, at, value):
    """A copy in which the part at a path is something else."""
    out = copy.deepcopy(document)
    part = out
    for name in at[:-1]:
        part = part[name]
    part[at[-1]] = value
    return out


def nearby(value):
    """Values that look like the one there."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value * 1.01, -value - 1, value - 1e-6, value + 1e-6)
    elif isinstance(value, str):
        yield from (value + "x", value[:-1])
    elif isinstance(value, list):
        yield from (value[:-1], value[::-1], [*value, *value])
    elif isinstance(value, dict):
        for name in value:
            yield {k: v for k, v in value.items() if k != name}


def every_edit(document):
    for at in places(document):
        if not at:
            continue
        part = document
        for name in at:
            part = part[name]
        for value in (*OTHERS, *nearby(part)):
            if json.dumps(value) != json.dumps(part):
                yield at, value


def claims(r):
    """What a result says of its problem, in a form that can be compared."""
    better = None if r.incumbent is None else claims(r.incumbent)
    numbers = [r.objective, r.lower_bound, r.trivial_bound, r.violation, r.gap, r.closed]
    return (numbers, r.status.name, np.asarray(r.labels).tolist(), r.classes,
            r.formulation.fingerprint, better, r.climb_end, r.adopted)


def weaker(r, whole):
    """Whether a result says no more than another, to the accuracy of what is compared."""
    if isinstance(r.lower_bound, float | int) and whole.lower_bound is not None:
        slack = 1e-8 * (1 + abs(whole.lower_bound))
        if r.lower_bound > whole.lower_bound + slack:
            return False
    if r.status.name == "CERTIFIED" and not (r.gap is not None and r.gap <= r.gap_tol):
        return False
    return (abs(r.objective - whole.objective) <= 1e-8 * (1 + abs(whole.objective))
            and r.formulation.fingerprint == whole.formulation.fingerprint
            and (r.closed is None or 0.0 <= r.closed <= 1.0))


def judged(path, whole):
    """What becomes of a file: refused, not verified, or accepted for what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            back = mm.load(path)
            report = back.verify()
            str(report), repr(back)
            if report:
                alike = repr(claims(back)) == repr(claims(whole))
                return "the same" if alike else "weaker" if weaker(back, whole) else "forged"
        except MMCError as e:
            return "refused" if "\n" not in str(e) else f"several lines: {e}"
        except Exception as e:  # what is looked for
            return f"raw {type(e).__name__}: {e}"
    return "not verified"


def tried(source, target, *, every=1, start=0):
    """Try every edit of a file; outcomes with their counts, and what was wrong."""
    document, arrays = content_of(source)
    whole, outcomes, wrong = mm.load(source), Counter(), []
    for at, value in itertools.islice(every_edit(document), start, None, every):
        changed = edited(document, at, value)
        with open(target, "wb") as file:
            np.savez(file, document=np.array(json.dumps(changed)), **arrays)
        outcome = judged(target, whole)
        kind = outcome.split(":")[0]
        outcomes[kind] += 1
        if kind not in ("refused", "not verified", "the same", "weaker"):
            wrong.append((at, repr(value)[:80], outcome[:200]))
    return outcomes, wrong
