"""Which solver fits which problem: partners, refusals in words, and the table of all pairs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.registry import formulations, relaxations, solver, solvers
from mmcopt.solving.solver import Solver


def resolve_solver(given: Solver | str | None, problem: Any) -> Solver:
    """A solver object from an object, a class, a name, or the problem's own default."""
    chosen: Any = problem.default_solver if given is None else given
    if given is None and not chosen:
        name = type(problem).__name__
        fit = [s for s, cls in solvers().items() if _default_refusal(cls, problem) is None]
        raise ParameterError(f"{name} names no default_solver, so a solver must be given; those "
                             f"that fit: {', '.join(fit) or 'none'}. In the class write "
                             f'default_solver = "{(fit or ["Memetic"])[0]}".')
    if isinstance(chosen, str):
        chosen = solver(chosen)
    if isinstance(chosen, type) and issubclass(chosen, Solver):
        chosen = chosen()
    if given is None and isinstance(chosen, Solver) and refusal(chosen, problem) is not None:
        tried: Solver = solver("BruteForce")()  # of one labeling, there is nothing to search
        chosen = chosen if tried.refuses(problem) is not None else tried
    if not isinstance(chosen, Solver):
        raise ParameterError("solver must be a Solver such as Memetic(), its name, or None; "
                             f"got {chosen!r}.")
    return chosen


def missing(chosen: Solver | type[Solver], problem: Any) -> str | None:
    """What a solver needs and a problem does not offer, in one clause, whatever it says itself."""
    for kind in chosen.needs:
        if problem.offer(kind) is None:
            return f"it needs {kind.__name__}, which this {type(problem).__name__} does not offer."
    return None


def refusal(chosen: Solver, problem: Any) -> str | None:
    """Why a solver cannot solve a problem: its own words, or those for what it needs."""
    lacks = missing(chosen, problem)
    if lacks is not None and type(chosen).refuses is not Solver.refuses:
        # Asked only where it may say more: one that looks at what is not there would break down.
        try:
            return chosen.refuses(problem) or lacks
        except AttributeError:
            return lacks
    return lacks or chosen.refuses(problem)


def check_pair(problem: Any, chosen: Solver) -> None:
    """Raise an `IncompatibleError` that names partners when the solver cannot solve the problem."""
    reason = refusal(chosen, problem)
    if reason is None:
        return
    name, kind = type(chosen).__name__, type(problem).__name__
    fit = [s for s, cls in solvers().items() if _default_refusal(cls, problem) is None]
    raise IncompatibleError(f"{name} cannot solve {kind}: {reason}\n"
                            f"  Solvers that fit this {kind}: {', '.join(fit) or 'none'}.")


def _default_refusal(cls: type[Solver], problem: Any) -> str | None:
    required = [f.name for f in dataclasses.fields(cls)
                if f.default is f.default_factory is dataclasses.MISSING]
    if not required:
        return refusal(cls(), problem)
    return missing(cls, problem)  # all that can be said without an object


class Fits(dict[str, str | None]):
    """Partners by name: None when the pair fits, otherwise the reason why it does not."""

    @property
    def names(self) -> list[str]:
        """Names of the partners that fit."""
        return [name for name, reason in self.items() if reason is None]

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}}  {'fits' if why is None else 'no: ' + why}"
                         for name, why in self.items())

    __repr__ = __str__


def fits(thing: Any) -> Fits:
    """Partners of a problem (which solvers, and why not the others) or of a solver.

    For a solver, or a solver class, every formulation is tried on its own small examples.
    """
    if isinstance(thing, Solver) or (isinstance(thing, type) and issubclass(thing, Solver)):
        refuses = functools.partial(refusal, thing) if isinstance(thing, Solver) \
            else functools.partial(_default_refusal, thing)
        return _over_examples(refuses, {n: cls.examples() for n, cls in formulations().items()})
    return Fits({name: _default_refusal(cls, thing) for name, cls in solvers().items()})


def _over_examples(refuses: Callable[[Any], str | None], examples: dict[str, Any]) -> Fits:
    """What some solver says of each formulation: that it fits, if it fits one of its examples."""
    out = Fits()
    for name, problems in examples.items():
        reasons = [refuses(f) for f in problems]
        out[name] = None if None in reasons else (reasons[0] if reasons else "no examples")
    return out


def pairing_table() -> str:
    """Formulations and the solvers that fit each as Markdown, as the README shows it.

    The solver that is used where none is named stands first. Relaxations follow problems.
    """
    examples = {name: cls.examples() for name, cls in formulations().items()}
    partners = {name: _over_examples(functools.partial(_default_refusal, cls), examples)
                for name, cls in solvers().items()}
    rows = ["| formulation | solvers |", "|---|---|"]
    for name, cls in sorted(formulations().items(), key=lambda item: bool(_kind(item[1]))):
        fit = [solver for solver, found in partners.items() if found[name] is None]
        fit.sort(key=lambda solver: solver != cls.default_solver)
        kind = f", `relax(\"{_kind(cls)}\")`" if _kind(cls) else ""
        rows.append(f"| `{name}`{kind} | " + ", ".join(f"`{solver}`" for solver in fit) + " |")
    return "\n".join(rows)


def capability_table() -> str:
    """Capabilities as Markdown: who offers each, and the solvers and relaxations that need it.

    >>> import mmcopt as mm
    >>> print(mm.solving.capability_table().splitlines()[0])
    | capability | offered by | solvers that need it | relaxations of it |
    """
    lifted = relaxations()
    needs = {name: cls.needs for name, cls in solvers().items()}
    examples = {name: cls.examples() for name, cls in formulations().items()}
    kinds = {kind for needed in needs.values() for kind in needed} | {
        cls.of for cls in lifted.values()}
    rows = ["| capability | offered by | solvers that need it | relaxations of it |",
            "|---|---|---|---|"]
    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        offered = [name for name, problems in examples.items()
                   if any(f.offer(kind) is not None for f in problems)]
        columns = (offered, [name for name, needed in needs.items() if kind in needed],
                   [name for name, cls in lifted.items() if cls.of is kind])
        rows.append(f"| `{kind.__name__}` | " + " | ".join(
            ", ".join(f"`{name}`" for name in column) for column in columns) + " |")
    return "\n".join(rows)


def _kind(cls: Any) -> str:
    """The kind of a relaxation; empty for other formulations."""
    return str(getattr(cls, "kind", ""))
