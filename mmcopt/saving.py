"""Results on disk: one .npz of arrays and a JSON description, never pickle.

Classes are looked up by name in the registry, or in closed tables, and nothing is imported by a
name that a file holds.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np

from mmcopt import constraints, registry
from mmcopt.checks import Rule, instance, is_sparse, optional
from mmcopt.datasets.archives import BROKEN, read_arrays, write_arrays
from mmcopt.errors import DataError, MMCError
from mmcopt.kernels import Kernel
from mmcopt.margins import LOSSES
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import KEPT, Certificate, ClimbEnd, History, Result, Rung, Status
from mmcopt.tolerances import CERTIFIED_GAP
from mmcopt.types import Path

VERSION = 1
HEAD = ("formulation", "fingerprint", "params", "certificate", "status", "history", "ladder")
# What later versions added; files of earlier ones have none of it.
ADDED = ("climb_end", "adopted", "gap_tol", "incumbent")
FIELDS = ("solver", "point", "labels", "objective", "violation", "message", "lower_bound",
          "trivial_bound", "timing", "seed", "classes")
INCUMBENT = ("solver", "point", "labels", "objective", "violation", "message", "classes")
NUMBER = Rule("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool))
TEXT = Rule("a text", lambda v: isinstance(v, str))
WORDS = Rule("a mapping of names to numbers", lambda v: isinstance(v, dict) and all(
    isinstance(k, str) and NUMBER.accepts(x) for k, x in v.items()))
SEED = Rule("None, an integer or a list of them", lambda v: v is None or all(
    isinstance(s, int) and not isinstance(s, bool) for s in (v if isinstance(v, list) else [v])))
CLASSES = Rule("None or a list of names", lambda v: v is None or (isinstance(v, list) and all(
    c is None or isinstance(c, str | int | float) for c in v)))
RULES = {"solver": TEXT, "message": TEXT, "objective": NUMBER, "violation": NUMBER,
         "lower_bound": optional(NUMBER), "trivial_bound": optional(NUMBER), "timing": WORDS,
         "seed": SEED, "classes": CLASSES,
         "labels": optional(instance(np.ndarray, list)), "gap_tol": NUMBER,
         "adopted": instance(bool), "fingerprint": TEXT}
# Classes that files of earlier versions call by another name, with the parameter that tells them.
RENAMED = {"MaxCut": ("problem", "MaxCutRelaxation")}
CONSTRAINTS = {c.__name__: c for c in (constraints.Sizes, constraints.Known, constraints.MustLink,
                                       constraints.CannotLink)}


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    """Turn a value into JSON, with arrays set aside under names of their own."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # NumPy would pickle it
        return {"objects": [_pack(v, arrays) for v in value.tolist()]}
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if is_sparse(value):
        parts = {p: _pack(np.asarray(getattr(value, p)), arrays)
                 for p in ("data", "indices", "indptr")}
        return {"csr": parts, "shape": list(value.shape)}
    if isinstance(value, Formulation):
        return {"formulation": type(value).__name__, "params": _pack(value.params(), arrays)}
    if isinstance(value, Kernel):
        return {"kernel": value.as_dict()}
    if type(value) in LOSSES.values():
        return {"loss": type(value).__name__}
    if type(value).__name__ in CONSTRAINTS:
        fields = {f.name: _pack(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"constraint": type(value).__name__, "fields": fields}
    if isinstance(value, dict):
        return {"items": [[_pack(k, arrays), _pack(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_pack(v, arrays) for v in value]}
    raise DataError(f"a value of type {type(value).__name__} cannot be saved; "
                    "save(path, data=False) leaves the problem's arguments out.")


def _unpack(value: Any, arrays: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "objects" in value:
        return np.array([_unpack(v, arrays) for v in value["objects"]], dtype=object)
    if "csr" in value:
        from scipy.sparse import csr_matrix

        p = {k: _unpack(v, arrays) for k, v in value["csr"].items()}
        return csr_matrix((p["data"], p["indices"], p["indptr"]), shape=tuple(value["shape"]))
    if "formulation" in value:
        return _made(value["formulation"], _unpack(value["params"], arrays))
    if "kernel" in value:
        return Kernel.from_dict(value["kernel"])
    if "loss" in value:
        return LOSSES[value["loss"]]()
    if "constraint" in value:
        fields = {k: _unpack(v, arrays) for k, v in value["fields"].items()}
        return CONSTRAINTS[value["constraint"]](**fields)
    if "items" in value:
        return {_unpack(k, arrays): _unpack(v, arrays) for k, v in value["items"]}
    return [_unpack(v, arrays) for v in value["list"]]


def save(result: Result, path: Path, *, data: bool = True) -> None:
    """Write a result; with ``data=False`` only the fingerprint of its problem is kept."""
    f, arrays = result.formulation, {}  # type: ignore[var-annotated]
    c, better = result.certificate, result.incumbent
    document = {
        "mmcopt": VERSION, "formulation": type(f).__name__, "fingerprint": f.fingerprint,
        "params": _pack(f.params(), arrays) if data else None,
        "certificate": None if c is None else {
            "kind": c.kind, "options": _pack(c.options, arrays), "duals": _pack(c.duals, arrays),
            "fingerprint": c.fingerprint},
        "ladder": [dataclasses.astuple(rung) for rung in result.ladder],
        "climb_end": None if result.climb_end is None else result.climb_end.name,
        "adopted": result.adopted, "gap_tol": result.gap_tol,
        "incumbent": None if better is None else {
            "status": better.status.name,
            **{name: _pack(getattr(better, name), arrays) for name in INCUMBENT}},
        "status": result.status.name, "history": _pack(result.history.to_dict(), arrays),
    }
    for name in FIELDS:
        document[name] = _pack(getattr(result, name), arrays)
    write_arrays(path, {"document": np.array(json.dumps(document)), **arrays})


def load(path: Path, *, problem: Formulation | None = None) -> Result:
    """Read a result; ``problem`` stands in for classes of a notebook and for ``data=False``.

    A problem whose data differ from those of the run is refused, and so is a description that
    somebody has changed into something that is no result. What it says is judged by `verify`.
    """
    try:
        arrays = read_arrays(path)
        document = json.loads(str(arrays.pop("document")))
    except FileNotFoundError as e:
        raise DataError(f"there is no file {path}.") from e
    except MMCError:
        raise
    except BROKEN as e:
        raise DataError(f"{path} is not a saved result: {e}.") from e
    odd = next((name for name, a in arrays.items() if a.dtype.kind not in "fiubSU"), None)
    if odd is not None:
        raise DataError(f"{path} is not a saved result: {odd} is of dtype {arrays[odd].dtype}.")
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a saved result: its description is no mapping.")
    if document.get("mmcopt") != VERSION:
        raise DataError(f"{path} was saved in format {document.get('mmcopt')!r}; "
                        f"this version reads format {VERSION}.")
    missing = [name for name in (*HEAD, *FIELDS) if name not in document]
    if missing:
        raise DataError(f"{path} is not a saved result: it has no {missing[0]!r}.")
    if problem is None and document["params"] is None:
        raise DataError(f"{path} was saved without data; "
                        "pass the problem: mm.load(path, problem=...).")
    what = "'params'"
    try:
        f = problem if problem is not None else _rebuilt(document, arrays)
        _same_problem(f, document, path)
        what = "a field"
        return _result(f, document, arrays)
    except MMCError:
        raise
    except BROKEN as e:
        raise DataError(f"{path} is not a saved result: {what} of its description cannot be read "
                        f"({type(e).__name__}: {e}). Save the result again.") from e


def _rebuilt(document: dict[str, Any], arrays: Any) -> Formulation:
    """The problem that a file describes."""
    return _made(document["formulation"], _unpack(document["params"], arrays))


def _made(name: str, params: dict[str, Any]) -> Formulation:
    """The formulation of a name in a file, with its parameters."""
    parameter, now = RENAMED.get(name, ("", name))
    made: Formulation = registry.formulation(now if parameter in params else name)(**params)
    return made


def _same_problem(problem: Formulation, document: dict[str, Any], path: Path) -> None:
    RULES["fingerprint"].check(str(path), "fingerprint", document["fingerprint"])
    if problem.fingerprint != document["fingerprint"]:
        raise DataError(f"{path} belongs to another problem: fingerprint "
                        f"{document['fingerprint'][:12]}, the problem at hand has "
                        f"{problem.fingerprint[:12]}.")


def _result(problem: Formulation, document: dict[str, Any], arrays: Any) -> Result:
    """The result that a description of the right fields says."""
    c, end = document["certificate"], document.get("climb_end")
    certificate = None if c is None else Certificate(
        _one_of(str, c["kind"]), _one_of(dict, _unpack(c["options"], arrays)),
        _one_of(dict, _unpack(c["duals"], arrays)), _one_of(str, c["fingerprint"]))
    rest = {name: _checked(name, _unpack(document[name], arrays)) for name in FIELDS}
    rest["point"] = problem.as_point(rest["point"])
    result = Result(problem, status=Status[document["status"]], certificate=certificate,
                    history=_history(_unpack(document["history"], arrays)),
                    ladder=tuple(_rung(r) for r in _one_of(list, document["ladder"])),
                    climb_end=None if end is None else ClimbEnd[end],
                    adopted=_checked("adopted", document.get("adopted", False)),
                    gap_tol=_checked("gap_tol", document.get("gap_tol", CERTIFIED_GAP)), **rest)
    if "gap_tol" not in document:
        result = _brought_up(result)
    better = document.get("incumbent")
    if better is None:
        return result
    own = {name: _checked(name, _unpack(better[name], arrays)) for name in INCUMBENT}
    own["point"] = problem.as_point(own["point"])
    return dataclasses.replace(result, incumbent=dataclasses.replace(
        result, adopted=False, status=Status[better["status"]], **own))


def _brought_up(result: Result) -> Result:
    """A result of an earlier version.

    Its ladder holds what solvers said of themselves, and its message may speak of labels that such
    files do not hold.
    """
    lower = -math.inf if result.lower_bound is None else result.lower_bound
    value = result.objective if result.feasible else math.inf
    kept = result.message == KEPT
    rungs, low, high = [], -math.inf, math.inf
    for r in result.ladder:
        low, high = max(low, min(r.lower, lower)), min(high, max(r.upper, value))
        rungs.append(dataclasses.replace(r, lower=low, upper=high))
    return dataclasses.replace(result, ladder=tuple(rungs),
                               message=result.status.value if kept else result.message)


def _checked(name: str, value: Any) -> Any:
    """A field of a description, of the type that it must have."""
    if name in RULES:
        RULES[name].check("a saved result", name, value)
    return value


def _one_of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected, got {type(value).__name__}")
    return value


def _history(columns: Any) -> History:
    values = [[float(v) for v in np.ravel(column)] for column in _one_of(dict, columns).values()]
    names = [_one_of(str, name) for name in columns]
    return History([dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])


def _rung(parts: Any) -> Rung:
    level, *numbers = _one_of(list, parts)
    for value in numbers:
        NUMBER.check("a saved result", "ladder", value)
    return Rung(_one_of(str, level), *numbers)
