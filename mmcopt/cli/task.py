"""From the options of the command line to a problem, with the defaults that suit its family."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmcopt import datasets, registry
from mmcopt.capabilities import CutRisk, LabelQuadratic
from mmcopt.checks import integer, listed, optional, shown
from mmcopt.cli.parse import (
    parse_kernel,
    parse_known,
    parse_links,
    parse_loss,
    parse_sizes,
    parse_solvers,
    unknown,
)
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import Gaussian, Kernel
from mmcopt.modeling.domain_problem import KernelDomain
from mmcopt.selection import one_class as selection
from mmcopt.solving import fits

# Options and the parameters of a constructor that they stand for.
PARAMETERS = {
    "clusters": ("n_clusters",), "kernel": ("kernel", "kernels"), "lam": ("lam",),
    "kappa": ("kappa",), "scaling": ("scaling",), "sizes": ("sizes",), "known": ("known",),
    "must_link": ("must_link",), "cannot_link": ("cannot_link",), "beta": ("beta",),
    "C": ("C",), "p": ("p",), "loss": ("loss",), "balance": ("balance",),
    "size_floor": ("size_floor",), "bias": ("bias",), "no_center": ("center",),
    "no_normalize": ("normalize",),
}
READ: dict[str, Any] = {  # options that are more than a number or a word
    "sizes": parse_sizes, "loss": parse_loss, "known": parse_known,
    "must_link": functools.partial(parse_links, "--must-link"),
    "cannot_link": functools.partial(parse_links, "--cannot-link")}
SEARCHES = ("Shaking", "Evolutionary", "Tabu", "Memetic")  # compared where points are labels
CONIC = 500  # samples up to which a conic solver is compared with the others
DIGITS = 4  # of a gamma and a C that are chosen, so that they can be typed again


def clusterings() -> dict[str, Any]:
    """Formulations that need nothing but data: no labels, and no problem that they relax.

    Data are samples, or the matrix of a graph or of a quadratic function.
    """
    return {name: cls for name, cls in registry.formulations().items()
            if not getattr(cls, "kind", "") and _required(cls) in [["X"], ["W"], ["Q"]]}


def _required(cls: Any) -> list[str]:
    arguments = inspect.signature(cls).parameters.values()
    return [a.name for a in arguments if a.default is a.empty]


def clustering(name: str) -> Any:
    """The formulation that ``--formulation`` names, in any case."""
    table = clusterings()
    found = {key.lower(): cls for key, cls in table.items()}.get(name.lower())
    if found is not None:
        return found
    others = {key.lower(): key for key in registry.formulations()}
    if name.lower() in others:
        raise ParameterError(f"--formulation: {others[name.lower()]} is not stated for samples "
                             f"alone, so it clusters no data set; there are {', '.join(table)}.")
    raise ParameterError(f"--formulation: {unknown('formulation', name, table)}.")


# ---------------------------------------------------------------- options


def taken(cls: Any) -> dict[str, str]:
    """Options that a formulation takes, each with the parameter of its constructor."""
    names = inspect.signature(cls).parameters
    found = {option: next((p for p in parameters if p in names), None)
             for option, parameters in PARAMETERS.items()}
    if issubclass(cls, KernelDomain):  # clusters are read from a domain afterwards
        found["clusters"] = ""
    else:
        found["init"] = ""
    return {option: parameter for option, parameter in found.items() if parameter is not None}


def flags(cls: Any, there: Sequence[str] = (*PARAMETERS, "init")) -> list[str]:
    """The options that a formulation takes, of those that are ``there``, as they are typed."""
    return [_flag(option) for option in taken(cls) if option in there]


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def parameters(cls: Any, args: Namespace) -> dict[str, Any]:
    """What was typed, as arguments of a constructor; options of other problems are refused."""
    known = taken(cls)
    for option in [*PARAMETERS, "init"]:
        if option not in known and getattr(args, option, None) is not None:
            raise ParameterError(f"{cls.__name__} takes no {_flag(option)}; it takes "
                                 f"{listed(flags(cls, list(vars(args))))}.")
    given = {known[option]: getattr(args, option) for option in PARAMETERS
             if option in known and known[option] and getattr(args, option) is not None}
    given.pop("n_clusters", None)
    if args.kernel is not None:
        kernels = [parse_kernel(text) for text in args.kernel]
        if known["kernel"] == "kernels":
            given["kernels"] = kernels
        elif len(kernels) > 1:
            several = [name for name, c in clusterings().items()
                       if taken(c).get("kernel") == "kernels"]
            raise ParameterError(f"{cls.__name__} takes one --kernel, which may be a sum such as "
                                 f"{args.kernel[0]}+{args.kernel[1]}; {listed(several)} takes "
                                 "several.")
        else:
            given["kernel"] = kernels[0]
    for name, read in READ.items():
        if name in given:
            given[name] = read(given[name])
    for name in ("center", "normalize"):  # they are switched off
        if name in given:
            given[name] = False
    return given


# ---------------------------------------------------------------- problems


def _loaded(args: Namespace) -> datasets.Table:
    """The data, with the columns that --labels, --no-labels and --columns name."""
    if args.labels is not None and args.no_labels:
        raise ParameterError("--labels and --no-labels exclude each other.")
    columns = None if args.columns is None else [c.strip() for c in args.columns.split(",")]
    return datasets.load_table(args.data, labels=False if args.no_labels else args.labels,
                               columns=columns)


class Task:
    """A problem as it was asked for: with the known classes, and lines that say what it is."""

    def __init__(self, args: Namespace, solvers: Sequence[Any] | None) -> None:
        cls = clustering(args.formulation)
        given = parameters(cls, args)
        source = _loaded(args)
        self.X, self.y = source.X, source.y
        self.asked: int | None = args.clusters  # clusters that are read from a domain
        n, d = self.X.shape
        if _required(cls) != ["X"]:
            self.problem = cls(self.X, **given)
            words = str(self.problem.statement().title)
        elif issubclass(cls, KernelDomain):
            optional(integer(1)).check("--clusters", "K", self.asked)
            chosen = self._domain(cls, given, getattr(args, "seed", 0))
            self.problem = cls(self.X, **given)
            words = "the domain of the samples" + (
                "" if not chosen else f", {chosen} chosen from their distances")
        else:
            k, why = self._clusters(args.clusters)
            self.problem = self._floored(cls, k, given, solvers)
            words = f"{k} clusters ({why})"
        what = "samples, {} features" if _required(cls) == ["X"] else "x {} entries"
        self.about = [f"{args.data}: {n} {what.format(d)}; {words}",
                      *(f"  {fact}" for fact in (source.labelled, source.dropped) if fact),
                      described(self.problem)]

    def _clusters(self, asked: int | None) -> tuple[int, str]:
        classes = None if self.y is None else len(np.unique(self.y))
        if asked is not None:
            return asked, "as asked"
        if classes is not None and classes >= 2:
            return classes, "the number of known classes; choose with -k"
        return 2, "no classes are known; choose with -k"

    def _floored(self, cls: Any, k: int, given: dict[str, Any],
                 solvers: Sequence[Any] | None) -> Any:
        """Where classes are easily lost, they have a floor, unless a solver asked for forbids it.

        As the estimators do.
        """
        if k <= 2 or "size_floor" in given or "size_floor" not in taken(cls):
            return cls(self.X, n_clusters=k, **given)
        from mmcopt.estimators.margins import FLOOR

        problem = cls(self.X, n_clusters=k, size_floor=FLOOR, **given)
        refused = any(s.refuses(problem) is not None for s in solvers or ())
        return problem.replace(size_floor=0.0) if refused else problem

    def _domain(self, cls: Any, given: dict[str, Any], seed: int) -> str:
        """Choose kernel and C where no kernel is given, as the estimator does; say what was."""
        from mmcopt.estimators.domains import CONDENSED
        if "kernel" in given:
            return ""
        if self.X.shape[0] > CONDENSED:
            raise ParameterError(f"{cls.__name__}: kernel and C are chosen for up to {CONDENSED} "
                                 f"samples, and here are {self.X.shape[0]}; give them, as in "
                                 "--kernel gaussian:gamma=0.5 --C 300.")
        sphere = hasattr(cls, "half_space")
        C = "auto" if sphere else given.get("C", "auto")
        if not isinstance(C, str):
            cls.weighs.check(cls.__name__, "C", C)
        try:
            found, _ = selection.agreeing_graph(self.X, C=C, seed=seed) if self.asked is None \
                else selection.given_number(self.X, self.asked, C=C, seed=seed)
        except DataError as e:
            if isinstance(C, str):
                raise
            raise DataError(f"{cls.__name__}: with --C {C:g} no kernel that was tried gives such "
                            "a domain; give a larger C, or leave it out.") from e
        f = found.formulation
        given["kernel"] = Gaussian(gamma=_rounded(f.kernel.gamma))
        if "C" in given:
            return "kernel"
        # Of the same domain, the weight of the sphere is the inverse of the share nu.
        given["C"] = max(1.0, _rounded(1.0 / f.nu(found.point))) if sphere else _rounded(f.C)
        return "kernel and C"

    # ------------------------------------------------------------ how it is solved

    @property
    def classes(self) -> Any:
        """Known classes that labels of the problem can be compared with; not those of a domain."""
        return None if isinstance(self.problem, KernelDomain) else self.y

    def search(self, args: Namespace) -> dict[str, Any]:
        """Starts of the search: of margins, where no solver is named, as their estimators do."""
        options: dict[str, Any] = {"init": args.init, "restarts": args.restarts or 1}
        if args.solver is None and self.problem.offer(CutRisk) is not None:
            from mmcopt.estimators.margins import MaxMarginClustering

            options["restarts"] = args.restarts or MaxMarginClustering().restarts
            if args.init is None:
                options["init"] = "random" if self.problem.n_clusters == 2 else "kmeans"
        return options

    def rivals(self) -> list[Any]:
        """The solvers that are compared when none is named."""
        if self.problem.offer(LabelQuadratic) is not None:
            return parse_solvers(",".join(SEARCHES))
        names = fits(self.problem).names
        if self.problem.n > CONIC and len(names) > 1:
            names = [name for name in names if name != "Conic"]
        return parse_solvers(",".join(names))


def _rounded(value: float) -> float:
    """A number of few digits."""
    return float(f"{value:.{DIGITS}g}")


# ---------------------------------------------------------------- words


def constants(problem: Any) -> dict[str, Any]:
    """Parameters of a problem besides its data."""
    return {name: value for name, value in problem.params().items()
            if name not in ("X", "W", "Q", "n_clusters", "sample_weight")}


def described(problem: Any) -> str:
    """One line: the formulation and its parameters, flags only where they were changed."""
    defaults = inspect.signature(type(problem)).parameters
    words = []
    for name, value in constants(problem).items():
        quiet = value is None or (value == defaults[name].default
                                  and (isinstance(value, bool | str) or value == 0))
        if not quiet:
            words.append(f"{name} = {_word(value)}")
    return f"{type(problem).__name__}: {', '.join(words)}" if words else type(problem).__name__


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple) and all(isinstance(v, Kernel) for v in value):
        return " | ".join(map(repr, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, Kernel):
        given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        words = ", ".join(f"{k}={shown(v)}" for k, v in given.items() if v is not None)
        return f"{type(value).__name__}({words})"
    return repr(value)
