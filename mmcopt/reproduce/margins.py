"""How well the optimum of a margin agrees with the classes, where it is proved: no paper's table.

Searches end somewhere, so that a poor agreement may be theirs or the objective's. Here the optimum
of CPM3C is proved on sets of the paper, on their first samples where all are too many, and its
labels are compared with the classes; k-means stands beside it, with the proved distance of its
labels from the optimum. The printed figures are those of the paper for the whole set.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.bounds import proof_tree
from mmcopt.metrics import accuracy
from mmcopt.reproduce.cpm3c import OWN, PRINTED
from mmcopt.reproduce.margin_protocol import KM
from mmcopt.reproduce.protocol import kept, load
from mmcopt.reproduce.rows import cut_off, rows
from mmcopt.reproduce.tables import Figure, PaperTable, Reproduction, Say
from mmcopt.solving import solve, whole
from mmcopt.solving.runs import seconds_left
from mmcopt.solving.starts import kmeans_labels

OPTIMUM, GAP, ABOVE, OPEN = "optimum", "gap, %", "KM costs more, %", "?"
PROVED = 1e-4  # relative gap at which an optimum counts as proved
PAIRS = {"Dig 3-8": "digits:3,8", "Dig 1-7": "digits:1,7", "Dig 2-7": "digits:2,7",
         "Dig 8-9": "digits:8,9"}


@dataclass(frozen=True)
class Cell:
    """A problem: a data set, every how many rows of it, how many samples, classes, and beta."""

    name: str
    source: str
    n: int
    k: int
    beta: float
    every: int = 1

    @property
    def title(self) -> str:
        """The row of the table."""
        which = f"first {self.n}" if self.every == 1 else f"{self.n} rows, one in {self.every}"
        return f"{self.name}, {which}, beta {self.beta:g}"


def _cells(sizes: tuple[int, ...], betas: tuple[float, ...]) -> tuple[Cell, ...]:
    pairs = [Cell(name, source, n, 2, beta) for name, source in PAIRS.items() for n in sizes
             for beta in betas]
    return (*pairs, *(Cell("Iris", "iris", 50, 3, beta, 3) for beta in betas))


@dataclass(frozen=True)
class Plan:
    """What to prove, and seconds for each at most."""

    cells: tuple[Cell, ...] = _cells((100, 200), (0.3, 0.1, 0.03))
    seconds: float = 30.0


QUICK = Plan(_cells((100,), (0.1,)), 5.0)


def reproduce(quick: bool, table: int | None, say: Say, plan: Plan | None = None) -> Reproduction:
    """Prove what the plan says."""
    plan = plan or (QUICK if quick else Plan())
    out = PaperTable(1, "accuracy in per cent of k-means and of the proved optimum of CPM3C",
                     (KM, OWN, OPTIMUM, GAP, ABOVE), digits=3)
    settings = []
    done = rows(_measured, plan, plan.cells, say)
    for cell in plan.cells:
        words = PRINTED.get(cell.name, ("", ""))[0].split()
        out.paper[cell.title] = {c: Figure(float(words[j])) for c, j in ((KM, 0), (OWN, -1))
                                 if words}
        found = done.get(cell, cut_off())
        if isinstance(found, str):
            out.missing[cell.title] = found
            continue
        mark = "" if found["gap"] <= PROVED else OPEN
        out.here[cell.title] = {
            KM: Figure(found["kmeans"]), OPTIMUM: Figure(found["accuracy"], mark=mark),
            GAP: Figure(100 * found["gap"]), ABOVE: Figure(100 * found["above"])}
        settings.append({"set": cell.title, "n": found["n"], "k": cell.k,
                         "classes": found["classes"],
                         "objective": f"{found['objective']:.6f}",
                         "proved": f"{found['bound']:.6f}", "nodes": found["nodes"],
                         "MB of proof": f"{found['size']:.2f}", "verified": found["verified"]})
    return Reproduction("margins", quick, [out], settings, _notes(out))


def _measured(plan: Plan, cell: Cell, say: Say) -> dict[str, Any] | str:
    """What was proved of a cell, or why it is not run."""
    data = load(cell.source)
    if isinstance(data, str):
        return data
    chosen = slice(None, cell.n * cell.every, cell.every)
    X, y = data[0][chosen], data[1][chosen]
    found = kept(f"{cell} {plan.seconds}", functools.partial(_proved, X, y, cell, plan))
    say(f"{cell.title}: accuracy {found['accuracy']:.2f}, gap {100 * found['gap']:.4f} %")
    return found | {"n": len(X)}


def _proved(X: Any, y: Any, cell: Cell, plan: Plan) -> dict[str, Any]:
    """Prove one optimum; what k-means costs more is measured from the bound."""
    f = registry.formulation("CPM3C")(X, cell.k, beta=cell.beta)
    tree = registry.solver("MarginTree" if cell.k == 2 else "ClassTree")()
    result = whole(solve(f, tree, seed=0, time_limit=min(plan.seconds, seconds_left())))
    labels = kmeans_labels(f, np.random.default_rng(0))
    machine = whole(solve(f.restrict(labels), registry.solver("CuttingPlane")(epsilon=1e-4),
                          seed=0))
    duals = {} if result.certificate is None else result.certificate.duals
    bound = result.lower_bound or 0.0
    found = f.labels(result.point)
    return {"accuracy": 100 * float(accuracy(y, found)),
            "kmeans": 100 * float(accuracy(y, labels)), "gap": 1.0 - bound / result.objective,
            "objective": result.objective, "bound": bound,
            "above": max(0.0, (machine.lower_bound or 0.0) / result.objective - 1.0),
            "classes": len(np.unique(found)), "nodes": len(proof_tree(result).nodes),
            "verified": "yes" if result.verify() else "NO",
            "size": sum(np.asarray(a).nbytes for a in duals.values()) / 1e6}


def _notes(table: PaperTable) -> list[str]:
    rows = list(table.here.values())
    proved = [row for row in rows if row[OPTIMUM].mark != OPEN]
    better = sum(row[OPTIMUM].value > row[KM].value for row in proved)
    worse = sum(row[OPTIMUM].value < row[KM].value for row in proved)
    return [
        f"What is proved: of {len(rows)} problems {len(proved)} to {PROVED:g}. No weights W "
        "whatever, and so no labels, have an objective below 'proved'; the labels of 'objective' "
        "are therefore optimal, or within the gap. A tree over labels is the certificate, and was "
        "recomputed leaf by leaf in NumPy with its rounding covered ('verified').",
        f"{OPEN} the optimum is not proved: its agreement is that of the best labels known.",
        f"Of the proved optima {better} agree better with the classes than k-means, {worse} "
        "worse. Classes were used for nothing but this comparison.",
        "'classes' are those that the optimum has samples of. Without a floor on sizes nothing "
        "keeps it from leaving one empty, and on iris it does.",
        f"'{ABOVE}': what is proved of the best W for the labels of k-means, above 'objective'.",
        "Features are centred and scaled to a mean square of 1, the hinge is the paper's, and "
        "there is no balance and no floor on sizes, which trees do not take; the paper has "
        "a balance, which says nothing on centred features.",
    ]
