"""Results on disk: one .npz of arrays and a JSON description, never pickle.

Classes are looked up by name in the registry, or in closed tables, and nothing is imported by a
name that a file holds.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from typing import Any

import numpy as np

from mmcopt import constraints, registry
from mmcopt.checks import is_sparse
from mmcopt.errors import DataError
from mmcopt.kernels import Kernel
from mmcopt.margins import LOSSES
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Certificate, ClimbEnd, History, Result, Rung, Status
from mmcopt.types import Path

VERSION = 1
# What zip, zlib, NumPy and JSON raise on a file that is damaged or something else.
BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
HEAD = ("formulation", "fingerprint", "params", "certificate", "status", "history", "ladder")
FIELDS = ("solver", "point", "labels", "objective", "violation", "message", "lower_bound",
          "trivial_bound", "timing", "seed", "classes")
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
        return registry.formulation(value["formulation"])(**_unpack(value["params"], arrays))
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
    c = result.certificate
    document = {
        "mmcopt": VERSION, "formulation": type(f).__name__, "fingerprint": f.fingerprint,
        "params": _pack(f.params(), arrays) if data else None,
        "certificate": None if c is None else {
            "kind": c.kind, "options": _pack(c.options, arrays), "duals": _pack(c.duals, arrays),
            "fingerprint": c.fingerprint},
        "ladder": [dataclasses.astuple(rung) for rung in result.ladder],
        "climb_end": None if result.climb_end is None else result.climb_end.name,
        "adopted": result.adopted,
        "status": result.status.name, "history": _pack(result.history.to_dict(), arrays),
    }
    for name in FIELDS:
        document[name] = _pack(getattr(result, name), arrays)
    with open(path, "wb") as file:
        np.savez_compressed(file, document=np.array(json.dumps(document)), **arrays)


def _rebuilt(document: dict[str, Any], arrays: Any, path: Path) -> Formulation:
    """The problem that a file describes."""
    if document["params"] is None:
        raise DataError(f"{path} was saved without data; "
                        "pass the problem: mm.load(path, problem=...).")
    cls = registry.formulation(document["formulation"])
    made: Formulation = cls(**_unpack(document["params"], arrays))
    return made


def load(path: Path, *, problem: Formulation | None = None) -> Result:
    """Read a result; ``problem`` stands in for classes of a notebook and for ``data=False``.

    A problem whose data differ from those of the run is refused.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "document"}
            document = json.loads(str(archive["document"]))
    except FileNotFoundError as e:
        raise DataError(f"there is no file {path}.") from e
    except BROKEN as e:
        raise DataError(f"{path} is not a saved result: {e}.") from e
    if not isinstance(document, dict):
        raise DataError(f"{path} is not a saved result: its description is no mapping.")
    if document.get("mmcopt") != VERSION:
        raise DataError(f"{path} was saved in format {document.get('mmcopt')!r}; "
                        f"this version reads format {VERSION}.")
    missing = [name for name in (*HEAD, *FIELDS) if name not in document]
    if missing:
        raise DataError(f"{path} is not a saved result: it has no {missing[0]!r}.")
    if problem is None:
        problem = _rebuilt(document, arrays, path)
    if problem.fingerprint != document["fingerprint"]:
        raise DataError(f"{path} belongs to another problem: fingerprint "
                        f"{document['fingerprint'][:12]}, the problem at hand has "
                        f"{problem.fingerprint[:12]}.")
    c = document["certificate"]
    certificate = None if c is None else Certificate(
        c["kind"], _unpack(c["options"], arrays), _unpack(c["duals"], arrays), c["fingerprint"])
    columns = _unpack(document["history"], arrays)
    rows = [dict(zip(columns, map(float, row), strict=True))
            for row in zip(*columns.values(), strict=True)]
    rest = {name: _unpack(document[name], arrays) for name in FIELDS}
    rest["point"] = problem.as_point(rest["point"])
    end = document.get("climb_end")  # earlier versions do not say
    return Result(problem, status=Status[document["status"]], certificate=certificate,
                  history=History(rows), ladder=tuple(Rung(*r) for r in document["ladder"]),
                  climb_end=None if end is None else ClimbEnd[end],
                  adopted=bool(document.get("adopted", False)), **rest)
