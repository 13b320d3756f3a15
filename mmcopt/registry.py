"""Names of all formulations and solvers; a class registers itself when it is defined."""

from __future__ import annotations

import difflib
import importlib
import math
from typing import TYPE_CHECKING, Any

from mmcopt.errors import ParameterError

if TYPE_CHECKING:
    from mmcopt.modeling import Formulation
    from mmcopt.solving import Solver

_formulations: dict[str, type[Formulation]] = {}
_solvers: dict[str, type[Solver]] = {}


def register_formulation(cls: type[Formulation]) -> None:
    """Add a formulation class; a later class of the same name replaces an earlier one."""
    _formulations[cls.__name__] = cls


def register_solver(cls: type[Solver]) -> None:
    """Add a solver class; a later class of the same name replaces an earlier one."""
    _solvers[cls.__name__] = cls


def _load() -> None:
    importlib.import_module("mmcopt.formulations")
    importlib.import_module("mmcopt.formulations.relaxations")
    importlib.import_module("mmcopt.solvers")


def formulations() -> dict[str, type[Formulation]]:
    """All registered formulation classes by name."""
    _load()
    return dict(sorted(_formulations.items()))


def relaxations() -> dict[str, type[Any]]:
    """All registered relaxations by kind, by the rank that each class declares for itself."""
    kinds = {cls: getattr(cls, "kind", "") for cls in formulations().values()}
    found = {kind: cls for cls, kind in kinds.items() if kind}
    # Not inherited: a class made from another, and of no rank of its own, comes last.
    rank = {kind: vars(cls).get("rank", math.inf) for kind, cls in found.items()}
    return dict(sorted(found.items(), key=lambda item: (rank[item[0]], item[0])))


def solvers() -> dict[str, type[Solver]]:
    """All registered solver classes by name."""
    _load()
    return dict(sorted(_solvers.items()))


def find(name: str, table: dict[str, Any], kind: str) -> Any:
    """What a table holds by a name, in any case; an unknown one is refused with all there are."""
    by_lower = {key.lower(): key for key in table}
    if name.lower() in by_lower:
        return table[by_lower[name.lower()]]
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" Did you mean {by_lower[close[0]]}?" if close else ""
    raise ParameterError(f"no {kind} is called {name!r}.{hint} There are: {', '.join(table)}.")


def formulation(name: str) -> type[Any]:  # each class has a constructor of its own
    """The formulation class of that name, in any case."""
    return find(name, formulations(), "formulation")


def solver(name: str) -> type[Any]:  # each class has a constructor of its own
    """The solver class of that name, in any case."""
    return find(name, solvers(), "solver")
