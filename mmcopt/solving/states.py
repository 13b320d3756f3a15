"""States of solvers as JSON and arrays, never pickle: what a run goes on from where it was killed.

A state is a graph of dataclasses, containers, numbers and arrays, in which one array may be seen
from two places; what belongs to the problem (its matrix, its features) is written as the way to it.
Reading makes objects of classes that are loaded already and belong to this package or to the module
of the solver, and fills in their fields: nothing is imported or called by a name that a file holds.
Compiled loops do not look whether an index is in its range, so objects that hold what they index by
have a method ``restored``, which is given the roots and raises a ValueError (`within`).
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mmcopt.checks import is_sparse

PACKAGE = __name__.partition(".")[0]
WIDE = 10_000  # items of a container of the problem that are looked at one by one
PLAIN = (bool, int, float, str)
SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
                              "deque": deque}
Node = Any  # of JSON
Arrays = dict[str, Any]


class UnwritableError(TypeError):
    """A state holds something that cannot be written, such as a function of its own."""


def encode(value: Any, roots: dict[str, Any], arrays: Arrays) -> Node:
    """A value as JSON, with its arrays set aside under names of their own."""
    return _Writer(roots, arrays).node(value)


def decode(node: Node, roots: dict[str, Any], arrays: Arrays) -> Any:
    """The value that `encode` wrote, on a problem built anew; a ValueError where there is none."""
    reader = _Reader(roots, arrays)
    found = reader.value(node)
    for made in reader.indexing:
        made.restored(roots)
    return found


def within(name: str, a: Any, shape: tuple[int, ...], low: int, high: int) -> None:
    """Refuse an array of indices of another shape or type, or out of ``low`` .. ``high`` - 1."""
    if type(a) is not np.ndarray or a.dtype.kind != "i" or a.shape != shape \
            or not a.flags.c_contiguous or (a.size and not low <= a.min() <= a.max() < high):
        raise ValueError(f"{name} must be {shape} integers from {low} to {high - 1}")


def shaped(name: str, a: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse an array of another shape or type."""
    if type(a) is not np.ndarray or a.dtype != np.dtype(dtype) or a.shape != shape:
        raise ValueError(f"{name} must be {shape} of {np.dtype(dtype)}")


class _Writer:
    """Knows what has been written, and how to reach what belongs to the problem."""

    def __init__(self, roots: dict[str, Any], arrays: Arrays) -> None:
        self.paths, self.alive = _ways(roots)
        self.arrays = arrays
        self.seen: dict[int, int] = {}

    def node(self, value: Any) -> Node:
        if value is None or type(value) in PLAIN:
            return value
        if id(value) in self.paths:
            return {"way": self.paths[id(value)]}
        if id(value) in self.seen:
            return {"again": self.seen[id(value)]}
        number = self.seen[id(value)] = len(self.seen)
        self.alive.append(value)  # so that its id stays its own
        return {"id": number, **self._described(value)}

    def _described(self, value: Any) -> dict[str, Node]:
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return {"number": value.item(), "dtype": value.dtype.str}
        if type(value) in SEQUENCES.values():
            return {type(value).__name__: [self.node(v) for v in value]}
        if type(value) is dict:
            return {"dict": [[self.node(k), self.node(v)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.node(p) for p in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) or (isinstance(value, type)
                                           and issubclass(value, np.generic)):
            return {"dtype of": np.dtype(value).str, "itself": isinstance(value, np.dtype)}
        if isinstance(value, type):
            return {"class": _name(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, np.random.Generator):
            return {"generator": generator_state(value)}
        if isinstance(value, enum.Enum):
            return {"enum": _name(type(value)), "member": value.name}
        if isinstance(value, tuple):  # with names
            return {"named": _name(type(value)), "items": [self.node(v) for v in value]}
        if callable(value) and hasattr(value, "__self__") and hasattr(value, "__name__"):
            return {"method": value.__name__, "of": self.node(value.__self__)}
        if is_sparse(value):
            parts = [self.node(np.asarray(getattr(value, p)))
                     for p in ("data", "indices", "indptr")]
            return {"csr": parts, "shape": list(value.shape)}
        fields = {name: self.node(v) for name, v in _fields(value).items()}
        return {"object": _name(type(value)), "fields": fields}

    def _array(self, a: Any) -> dict[str, Node]:
        """An array; one that looks into another stays so, since the other may be changed."""
        base = a.base
        while isinstance(base, np.ndarray) and isinstance(base.base, np.ndarray):
            base = base.base
        if a.dtype.hasobject:
            return {"objects": [self.node(v) for v in a.ravel().tolist()], "shape": list(a.shape)}
        if isinstance(base, np.ndarray) and base.dtype.names is None and a.dtype.names is None \
                and not base.dtype.hasobject and base.flags.forc:
            offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            return {"view": self.node(base), "dtype": a.dtype.str, "shape": list(a.shape),
                    "strides": list(a.strides), "offset": offset, "fixed": not a.flags.writeable}
        return {"array": self._kept(a), "fixed": not a.flags.writeable}

    def _kept(self, a: Any) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = a.copy(order="K")
        return name


class _Reader:
    """Makes values anew, each once."""

    def __init__(self, roots: dict[str, Any], arrays: Arrays) -> None:
        self.roots, self.arrays = roots, arrays
        self.made: dict[int, Any] = {}
        self.indexing: list[Any] = []  # what has a say of its own in whether it can be gone on from

    def value(self, node: Node) -> Any:
        if not isinstance(node, dict):
            return node
        if "way" in node:
            return _reached(self.roots, node["way"])
        if "again" in node:
            return self.made[node["again"]]
        for kind, read in READERS.items():
            if kind in node:
                found = read(self, node)
                self.made[node["id"]] = found
                return found
        raise ValueError(f"a value of no known kind ({', '.join(map(str, node))})")

    def all(self, nodes: Iterable[Node]) -> list[Any]:
        return [self.value(v) for v in nodes]

    def array(self, node: Node) -> Any:
        a = self.arrays[node["array"]].copy(order="K")
        a.flags.writeable = not node["fixed"]
        return a

    def view(self, node: Node) -> Any:
        base = self.value(node["view"])
        flat = base.T if base.flags.f_contiguous else base
        a: Any = np.ndarray(tuple(node["shape"]), np.dtype(node["dtype"]), flat, node["offset"],
                            tuple(node["strides"]))
        if node["fixed"]:
            a.flags.writeable = False
        return a

    def growing(self, node: Node, empty: Any, fill: Callable[[Any], None]) -> Any:
        """A container or object that may hold itself: known before it is filled."""
        self.made[node["id"]] = empty
        fill(empty)
        return empty

    def record(self, node: Node) -> Any:
        cls = _class(node["object"], self.roots)

        def fill(made: Any) -> None:
            for name, value in node["fields"].items():
                object.__setattr__(made, name, self.value(value))

        made = self.growing(node, object.__new__(cls), fill)
        if hasattr(cls, "restored"):
            self.indexing.append(made)
        return made

    def objects(self, node: Node) -> Any:
        out = np.empty(len(node["objects"]), dtype=object)
        out[:] = self.all(node["objects"])
        return out.reshape(node["shape"])

    def sparse(self, node: Node) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix(tuple(self.all(node["csr"])), shape=tuple(node["shape"]))

    def method(self, node: Node) -> Any:
        found = getattr(self.value(node["of"]), node["method"])
        if not callable(found) or node["method"].startswith("__"):
            raise ValueError(f"{node['method']!r} is no method")
        return found


READERS: dict[str, Callable[[_Reader, Node], Any]] = {
    "array": _Reader.array, "view": _Reader.view, "objects": _Reader.objects,
    "number": lambda r, node: np.dtype(node["dtype"]).type(node["number"]),
    "list": lambda r, node: r.growing(node, [], lambda out: out.extend(r.all(node["list"]))),
    "deque": lambda r, node: r.growing(node, deque(),
                                       lambda out: out.extend(r.all(node["deque"]))),
    "set": lambda r, node: r.growing(node, set(), lambda out: out.update(r.all(node["set"]))),
    "dict": lambda r, node: r.growing(node, {}, lambda out: out.update(
        (r.value(k), r.value(v)) for k, v in node["dict"])),
    "tuple": lambda r, node: tuple(r.all(node["tuple"])),
    "frozenset": lambda r, node: frozenset(r.all(node["frozenset"])),
    "slice": lambda r, node: slice(*r.all(node["slice"])),
    "dtype of": lambda r, node: np.dtype(node["dtype of"]) if node["itself"]
    else np.dtype(node["dtype of"]).type,
    "class": lambda r, node: _class(node["class"], r.roots),
    "bytes": lambda r, node: bytes.fromhex(node["bytes"]),
    "generator": lambda r, node: generator_of(node["generator"]),
    "enum": lambda r, node: _class(node["enum"], r.roots, enum.Enum)[node["member"]],
    "named": lambda r, node: tuple.__new__(_class(node["named"], r.roots, tuple),
                                           r.all(node["items"])),
    "csr": _Reader.sparse, "method": _Reader.method, "object": _Reader.record,
}


# ---------------------------------------------------------------- generators


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """What the next draws of a generator depend on, and the seeds that it spawns."""
    bits, seed = rng.bit_generator, rng.bit_generator.seed_seq
    if not isinstance(bits, np.random.PCG64) or not isinstance(seed, np.random.SeedSequence):
        raise UnwritableError(f"a generator of {type(bits).__name__}")
    entropy = seed.entropy if isinstance(seed.entropy, int) else \
        [int(e) for e in np.ravel(np.asarray(seed.entropy, dtype=object))]
    return {"bits": bits.state, "entropy": entropy, "key": list(map(int, seed.spawn_key)),
            "children": seed.n_children_spawned}


def generator_of(state: dict[str, Any]) -> np.random.Generator:
    """The generator of a `generator_state`."""
    seed = np.random.SeedSequence(state["entropy"], spawn_key=tuple(state["key"]),
                                  n_children_spawned=state["children"])
    bits = np.random.PCG64(seed)
    bits.state = state["bits"]
    return np.random.Generator(bits)


# ---------------------------------------------------------------- names and ways


def _name(cls: type) -> str:
    if "<locals>" in cls.__qualname__:
        raise UnwritableError(f"an object of {cls.__name__}, a class inside a function")
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(name: str, roots: dict[str, Any], kind: type = object) -> Any:
    """A class of this package, or of a module of the roots, that is loaded already."""
    module, _, path = name.partition(":")
    homes = {type(root).__module__ for root in roots.values()}
    found: Any = sys.modules.get(module) if module.split(".")[0] == PACKAGE or module in homes \
        else None
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not issubclass(found, kind) or found.__module__ != module:
        raise ValueError(f"there is no class {name!r}")
    return found


def _fields(value: Any) -> dict[str, Any]:
    """The attributes of an object of this package or of the user's."""
    cls = type(value)
    if cls.__module__.partition(".")[0] in ("builtins", "numpy", "numba", "threading", "_thread",
                                            "functools", "types", "scipy", "cvxpy", "weakref"):
        raise UnwritableError(f"a {cls.__module__}.{cls.__name__}")
    slots = [s for c in cls.__mro__ for s in getattr(c, "__slots__", ())]
    found = {s: getattr(value, s) for s in slots if hasattr(value, s) and not s.startswith("__")}
    return found | getattr(value, "__dict__", {})


def _ways(roots: dict[str, Any]) -> tuple[dict[int, list[Any]], list[Any]]:
    """The way to each object of the roots, by its id; and the objects, which keep their ids so."""
    ways: dict[int, list[Any]] = {}
    alive: list[Any] = []
    waiting: deque[tuple[Any, list[Any]]] = deque((root, [name]) for name, root in roots.items())
    while waiting:
        value, way = waiting.popleft()
        if value is None or isinstance(value, (*PLAIN, type, np.generic)) or id(value) in ways:
            continue
        ways[id(value)] = way
        alive.append(value)
        waiting.extend((part, [*way, step]) for step, part in _parts(value))
    return ways, alive


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """What an object holds, each with the step to it."""
    if isinstance(value, np.ndarray):
        base = value.base
        return [([".base"], base)] if isinstance(base, np.ndarray) else []
    if isinstance(value, dict):
        return [([k], v) for k, v in value.items() if type(k) in (str, int)] \
            if len(value) < WIDE else []
    if isinstance(value, list | tuple):
        return [([i], v) for i, v in enumerate(value)] if len(value) < WIDE else []
    try:
        return [(name, v) for name, v in _fields(value).items()]
    except UnwritableError:
        return []


def _reached(roots: dict[str, Any], way: list[Any]) -> Any:
    """Go the way again; attributes that are made on first use are made now."""
    found = roots[way[0]]
    for step in way[1:]:
        if isinstance(step, list):
            found = found.base if step == [".base"] else found[step[0]]
        else:
            found = _fields(found)[step]
    return found
