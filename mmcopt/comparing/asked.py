"""What a comparison is asked for: problems, solvers and seeds, by the names that tables show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mmcopt.checks import integer
from mmcopt.comparing.baselines import Baseline, baseline_named
from mmcopt.errors import DataError, ParameterError
from mmcopt.modeling import Formulation
from mmcopt.solving import Solver, repr_solver
from mmcopt.solving.pairing import resolve_solver

Rival: TypeAlias = Solver | Baseline


def seeds_of(seeds: int | Sequence[Any]) -> list[int]:
    """The seeds that a number or a list stands for; of a generator the next number it draws."""
    if not isinstance(seeds, Sequence | np.ndarray) or isinstance(seeds, str):
        integer(1).check("compare", "seeds", seeds)
        return list(range(int(seeds)))
    if not len(seeds):
        raise ParameterError("compare: seeds must name at least one seed; got an empty list.")
    return [_seed(s) for s in seeds]


def _seed(seed: Any) -> int:
    """A seed as a number, by which a table can tell it from others."""
    if isinstance(seed, np.random.SeedSequence):
        seed = np.random.default_rng(seed)
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    integer(0).check("compare", "each of seeds", seed)
    return int(seed)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _distinct(names: list[str], taken: Collection[str] = ()) -> list[str]:
    """Add numbers to the later ones of equal names, and to those that are taken."""
    out: list[str] = []
    for name in names:
        number, new = 1, name
        while new in taken or new in out:
            number += 1
            new = f"{name} #{number}"
        out.append(new)
    return out


def _values(given: Any) -> list[Any]:
    """A list of what is given, named or not."""
    return list(given.values()) if isinstance(given, Mapping) else _listed(given)


def named_problems(given: Any, known: Mapping[str, Formulation] | None = None
                   ) -> dict[str, Formulation]:
    """Problems by name; those that are known already keep the name they have."""
    known = known or {}
    problems = _values(given)
    for f in problems:
        if not isinstance(f, Formulation):
            raise ParameterError("compare: problems must be Formulations such as LeastSquares(X); "
                                 f"got {type(f).__name__}.")
    if not problems:
        raise ParameterError("compare: problems must name at least one problem; got none.")
    if isinstance(given, Mapping):
        return _unequal({str(name): f for name, f in given.items()}, known, "problem",
                        lambda f, g: f.fingerprint == g.fingerprint)
    marks = {f.fingerprint for f in known.values()}
    problems = [f for f in problems if f.fingerprint not in marks]
    names = [type(f).__name__ for f in problems]
    if len({*names, *known}) < len(names) + len(known):
        sizes = [(getattr(f, "n", None), getattr(f, "n_clusters", None)) for f in problems]
        names = [name + (f" n={n}" if n else "") + (f" k={k}" if k else "")
                 for name, (n, k) in zip(names, sizes, strict=True)]
    return dict(zip(_distinct(names, known), problems, strict=True))


def named_solvers(given: Any, known: Mapping[str, Rival] | None = None) -> dict[str, Rival]:
    """Solvers and baselines by name; those that are known already keep the name they have."""
    known = known or {}
    listed = _values(given)
    if not listed or any(s is None for s in listed):
        raise ParameterError("compare: solvers must be Solvers such as Memetic(), or their names; "
                             f"got {given!r}.")
    solvers = [_rival(s) for s in listed]
    if isinstance(given, Mapping):
        return _unequal(dict(zip(map(str, given), solvers, strict=True)), known, "solver",
                        lambda s, t: bool(s == t))
    solvers = [s for s in solvers if s not in known.values()]
    names = _distinct([str(s) if isinstance(s, Baseline) else repr_solver(s) for s in solvers],
                      known)
    return dict(zip(names, solvers, strict=True))


def _rival(given: Any) -> Rival:
    """A solver, or the baseline of a name that no solver has."""
    if isinstance(given, Baseline):
        return given
    named = baseline_named(given) if isinstance(given, str) else None
    return resolve_solver(given, None) if named is None else named


def _unequal(given: dict[str, Any], known: Mapping[str, Any], what: str, same: Any
             ) -> dict[str, Any]:
    """Named ones that are new; a name that stands for another one already is refused."""
    for name, one in given.items():
        if name in known and not same(one, known[name]):
            raise ParameterError(f"extend: the {what} {name!r} of this comparison is another one; "
                                 "give the new one another name.")
    return {name: one for name, one in given.items() if name not in known}


def truth_of(problems: Mapping[str, Formulation], y: Any,
             new: Mapping[str, Formulation] | None = None) -> dict[str, Any]:
    """Known classes by the name of their problem; without names those of the new ones, if any."""
    if y is None:
        return {}
    given = dict(y) if isinstance(y, Mapping) else dict.fromkeys(new or problems, y)
    for name, labels in given.items():
        if name not in problems:
            raise ParameterError(f"compare: y names the problem {name!r}; there are "
                                 f"{', '.join(problems)}.")
        n = getattr(problems[name], "n", None)
        if labels is not None and n is not None and len(labels) != n:
            raise DataError(f"compare: y holds {len(labels)} labels, but {name} has {n} samples; "
                            "give y as a dict of problem name -> labels.")
    return given
