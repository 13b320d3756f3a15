"""What is said of a result: its clusters, its numbers in lines and JSON, and its bound in words."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmcopt import metrics
from mmcopt.assignment import Assignment, level_tree
from mmcopt.assignment.peaks import least_size
from mmcopt.capabilities import LabelProblem
from mmcopt.checks import plural
from mmcopt.cli.console import say
from mmcopt.cli.ladder_view import show_ladder, thinned
from mmcopt.cli.task import Task, constants
from mmcopt.errors import DataError, ParameterError
from mmcopt.modeling.domain_problem import KernelDomain
from mmcopt.modeling.result import Result, Status
from mmcopt.selection.one_class import parts_of
from mmcopt.tables import cell


class Answer:
    """A result, and of a domain the clusters that are read from it."""

    def __init__(self, task: Task, result: Result) -> None:
        self.result, self.y = result, task.y
        self.domain = isinstance(result.formulation, KernelDomain)
        self.notes = [text for label, text, _ in result.formulation.statement().rows
                      if label == "note"]
        if getattr(result.formulation, "balance", None) is not None \
                and result.formulation.balance_rows is None:
            self.notes.append("centred features are balanced by themselves; --no-center makes "
                              "--balance a constraint")
        if result.adopted or result.incumbent is not None:
            self.notes.append(result.message)
        self.clusters: Assignment | None = self._read(task.asked) if self.domain else None

    def add(self, notes: Sequence[str | None]) -> None:
        """Add what should be known before the answer is trusted."""
        self.notes += [in_options(text) for text in notes if text]

    def _read(self, k: int | None) -> Assignment | None:
        """As many clusters as asked for, or the connected parts; None where there are none."""
        f, domain = self.result.formulation, self.result
        try:
            if hasattr(f, "half_space"):
                domain = f.half_space(self.result.point)
        except DataError as e:
            self.notes.append(f"no clusters were read from the domain: {e}")
            return None
        if k is None:
            parts = parts_of(domain, least_size(f.n))
            if parts is not None and parts.n_clusters == 1:
                self.notes.append("the domain is in one part; -k K reads K clusters from the "
                                  "peaks within it")
            return parts
        try:
            return level_tree(domain, k)
        except ParameterError as e:
            raise ParameterError(f"-k {k} is more than this domain shows: "
                                 f"{str(e).removeprefix('labels: ')}") from e

    @property
    def labels(self) -> Any:
        """Clusters; of a domain without any, 1 inside and 0 outside."""
        return self.result.labels if self.clusters is None else self.clusters.labels

    @property
    def sizes(self) -> Any:
        """Samples of each cluster; none where no clusters were read from a domain."""
        if self.domain:
            return [] if self.clusters is None else np.bincount(self.clusters.labels)
        f = self.result.formulation
        return np.bincount(f.labels(self.result.point), minlength=f.n_clusters)

    @property
    def scores(self) -> dict[str, float]:
        """How far the clusters agree with the known classes."""
        if self.y is None or (self.domain and self.clusters is None):
            return {}
        return {"ari": metrics.adjusted_rand_index(self.y, self.labels),
                "accuracy": metrics.accuracy(self.y, self.labels)}

    @property
    def kernel_weights(self) -> Any:
        """The weight of each kernel where there are several; None elsewhere, and at W = 0."""
        f = self.result.formulation
        if not hasattr(f, "kernel_weights") or not np.any(f.weights(self.result.point)):
            return None
        return f.kernel_weights(self.result.point)

    def inside(self) -> dict[str, int]:
        """Samples inside a domain, on its boundary and outside it."""
        if self.clusters is None:
            count = int(np.sum(np.asarray(self.result.labels)))
            return {"inside": count, "outside": self.result.formulation.n - count}
        outside = int(self.clusters.outside.sum())
        return {"inside": len(self.clusters.labels) - outside, "outside": outside,
                "boundary": int(self.clusters.boundary.sum())}

    def plot(self) -> Any:
        """Draw the clusters, of two features with their domain."""
        if self.clusters is None:
            return self.result.plot()
        X = self.result.formulation.X
        if X.shape[1] == 2 and self.clusters.domain.gamma is not None:
            return self.clusters.plot()
        return dataclasses.replace(self.result, labels=self.labels).plot()

    # ------------------------------------------------------------ what is printed

    def facts(self, args: Namespace) -> dict[str, Any]:
        """The numbers for JSON."""
        out = {"data": args.data, **problem_facts(self.result.formulation), "seed": args.seed,
               **numbers(self.result), **self.scores, "sizes": self.sizes}
        if self.domain:
            out.update(k=len(self.sizes), domain=self.inside())
        if self.kernel_weights is not None:
            out["kernel_weights"] = self.kernel_weights
        return {**out, "notes": self.notes, "timing": self.result.timing,
                "ladder": thinned(self.result.ladder), "labels": self.labels}

    def lines(self) -> list[tuple[str, str]]:
        """The numbers, each with its name."""
        r = self.result
        cut = getattr(r.formulation, "cut", None)
        lines = [] if cut is None else [("cut", f"{cut(r.point):.6g}")]
        lines += [("objective", f"{r.objective:.6g}"),
                 ("lower bound", cell("bound", r.lower_bound)), ("gap", cell("gap", r.gap))]
        sizes = ", ".join(map(str, np.asarray(self.sizes).tolist()))
        if self.domain:
            lines.append(("inside", self._inside_words()))
            how = "" if self.clusters is None else " (connected parts of the domain)" \
                if self.clusters.method == "graph" else " (the clearest peaks, as many as asked)"
            lines.append(("clusters", f"{len(self.sizes)}{how}" if len(self.sizes) else "none"))
        if not self.domain or len(self.sizes):
            lines.append(("sizes", sizes))
        if self.kernel_weights is not None:
            lines.append(("kernel weights", ", ".join(
                f"{weight:.3f} {kernel!r}" for weight, kernel in
                zip(self.kernel_weights, r.formulation.kernels, strict=True))))
        scores = self.scores
        if scores:
            lines.append(("against the known classes", f"ARI {scores['ari']:.3f}, accuracy "
                          f"{cell('accuracy', scores['accuracy'])}"))
        return lines

    def _inside_words(self) -> str:
        count = self.inside()
        words = f"{count['inside']} of {plural(self.result.formulation.n, 'sample')}"
        return words + (f", {count['boundary']} of them on the boundary" if "boundary" in count
                        else "")


def in_options(text: str) -> str:
    """A caution, with its advice in options of the command line."""
    text = text.replace("start from init='kmeans'", "give --init kmeans")
    return text.replace("give a size_floor", "give --size-floor 0.8")


def problem_facts(f: Any) -> dict[str, Any]:
    """Return what a problem is, for JSON."""
    values = constants(f)
    return {"problem": type(f).__name__, "n": f.n,
            "k": None if isinstance(f, KernelDomain) else f.n_clusters,
            **{name: values[name] for name in ("kernel", "lam") if name in values},
            "parameters": values}


def numbers(result: Result) -> dict[str, Any]:
    """Return the numbers of a result, for JSON."""
    return {"solver": result.solver, "status": result.status.name.lower(),
            "message": result.message, "objective": result.objective,
            "lower_bound": result.lower_bound, "gap": result.gap,
            "absolute_gap": result.absolute_gap, "violation": result.violation,
            "certificate": None if result.certificate is None else result.certificate.kind}


def show(args: Namespace, answer: Answer, restarts: int) -> None:
    """Print a result and what its bound means."""
    r = answer.result
    starts = f", {restarts} starts" if restarts > 1 else ""
    lines = [("solver", f"{r.solver}{starts}: {r.status}, {r.took}"),
             *answer.lines()]
    if args.verbose:
        lines += [(f"seconds: {phase}", f"{t:.3f}") for phase, t in r.timing.items()]
    lines += [(what, path) for what, path in (("labels in", args.out), ("run saved in", args.save))
              if path]
    width = max(len(name) for name, _ in lines)
    say(*(f"  {name:<{width}}  {text}" for name, text in lines))
    show_ladder(r.ladder)
    show_notes(answer.notes)
    say(sentence_on_bound(r))


def show_notes(notes: Sequence[str]) -> None:
    """Print what should be known before an answer is trusted."""
    for text in dict.fromkeys(notes):
        say(f"Note: {text}")


# ---------------------------------------------------------------- what a bound means


def sentence_on_bound(result: Result) -> str:
    """Say in plain words what the bound of a result proves."""
    f = result.formulation
    what = "labelling" if f.offer(LabelProblem) is not None else \
        "domain" if isinstance(f, KernelDomain) else "solution"
    if not result.feasible:
        return (f"The {'labels break' if what == 'labelling' else 'solution breaks'} the "
                f"constraints (violation {result.violation:g}), so "
                f"{'their' if what == 'labelling' else 'its'} objective says nothing about the "
                "optimum.")
    if result.lower_bound is None:
        return "No lower bound is known, so nothing is said about how far from optimal this is."
    if result.status is Status.CERTIFIED:
        return (f"Optimal: no {what} has an objective below {result.lower_bound:.6g}, "
                "which is proved.")
    if result.lower_bound == result.trivial_bound and what == "solution":
        return (f"No bound but {result.lower_bound:g} is known, so nothing is said about how far "
                f"from optimal this is{_how_to_raise(result)}.")
    return (f"The optimum lies between {result.lower_bound:.6g} and {result.objective:.6g}: no "
            f"{what} at all can be below the bound, which is proved.")


def _how_to_raise(result: Result) -> str:
    if result.ladder or not result.formulation.relaxations().kinds:
        return ""
    return "; --certify SECONDS raises it"


def sentence_on_ladder(result: Result) -> str | None:
    """Say why a climb changed nothing, where it had no levels."""
    if result.ladder or result.status is Status.CERTIFIED:
        return None
    name = type(result.formulation).__name__
    if isinstance(result.formulation, KernelDomain):
        return (f"{name} is convex: its solver proves the bound, and a smaller tolerance of the "
                "solver brings it closer; there is no ladder to climb.")
    return f"There are no relaxations of this {name} to climb, so its bound is as it was."
