"""Tables 2, 3 and 4 of CPM3C: the protocol of Zhao et al. 2008, section 4, and its figures.

Our figures are those of the lowest objective over several starts and see no labels, but for one
starred column. Entries of the paper that cannot be what they claim are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, cast

import numpy as np

from mmcopt import registry
from mmcopt.reproduce import rivals
from mmcopt.reproduce.margin_protocol import (
    BETA,
    BETAS,
    DIGITS,
    HALVES,
    KM,
    SINGLE,
    Fits,
    fits,
    floor,
    kmeans,
    load_text,
    mark,
    not_single,
    printed,
    protocol,
    score,
    warm,
)
from mmcopt.reproduce.protocol import left_out, load
from mmcopt.reproduce.rows import cut_off, rows
from mmcopt.reproduce.tables import Figure, PaperTable, Reproduction, Say

PAPER = (KM, "NC", "MMC", "GMC", "SVR", "CPM3C")
OWN, TUNED, ALL = "CPM3C", "CPM3C, best beta", "CPM3C, all starts"
TIMED = (KM, "GMC", "SVR", OWN)

# Accuracies (Table 2) and Rand indices (Table 3), in the order of PAPER.
PRINTED: dict[str, tuple[str, str]] = {
    "Dig 3-8": ("94.68 65.00 90.00 94.40 96.64 96.92", "0.904 0.545 0.823 0.899 0.940 0.945"),
    "Dig 1-7": ("94.45 55.00 68.75 97.8 99.45 100.0", "0.995 0.504 0.571 0.962 0.995 1.00"),
    "Dig 2-7": ("96.91 66.00 98.75 99.50 100.0 100.0", "0.940 0.550 0.978 0.994 1.00 1.00"),
    "Dig 8-9": ("90.68 52.00 96.25 84.00 96.33 97.74", "0.835 0.500 0.929 0.733 0.934 0.956"),
    "Letter": ("82.06 76.80 - - 92.80 94.47", "0.706 0.644 - - 0.867 0.897"),
    "UCISat": ("95.93 95.79 - - 96.82 98.48", "0.922 0.919 - - 0.939 0.971"),
    "Text-1": ("50.53 93.79 - - 96.82 95.00", "0.500 0.884 - - 0.939 0.905"),
    "Text-2": ("50.38 91.35 - - 93.99 96.28", "0.500 0.842 - - 0.887 0.929"),
    "UCIDig": ("96.38 97.57 - - 98.18 99.38", "0.933 0.956 - - 0.967 0.989"),
    "MNIST": ("89.21 89.92 - - 92.41 95.71", "0.808 0.818 - - 0.860 0.921"),
    "Dig 0689": ("42.23 93.13 94.83 - - 96.63", "0.696 0.939 0.941 - - 0.968"),
    "Dig 1279": ("40.42 90.11 91.91 - - 94.01", "0.681 0.909 0.913 - - 0.943"),
    "Cora-DS": ("28.24 36.88 - - - 43.75", "0.589 0.744 - - - 0.735"),
    "Cora-HA": ("34.02 42.00 - - - 59.75", "0.385 0.659 - - - 0.692"),
    "Cora-ML": ("27.08 31.05 - - - 45.58", "0.514 0.720 - - - 0.754"),
    "Cora-OS": ("23.87 23.03 - - - 58.89", "0.518 0.522 - - - 0.721"),
    "Cora-PL": ("33.80 33.97 - - - 46.83", "0.643 0.675 - - - 0.703"),
    "WK-CL": ("55.71 61.43 - - - 71.95", "0.603 0.602 - - - 0.728"),
    "WK-TX": ("45.05 35.38 - - - 69.29", "0.604 0.514 - - - 0.707"),
    "WK-WT": ("53.52 32.85 - - - 77.96", "0.616 0.581 - - - 0.747"),
    "WK-WC": ("49.53 33.31 - - - 73.88", "0.581 0.509 - - - 0.752"),
    "20-news": ("35.27 41.89 - - - 70.63", "0.581 0.496 - - - 0.782"),
    "RCVI": ("27.05 - - - - 61.97", "0.471 - - - - 0.698"),
}
# Table 4: seconds, in the order of TIMED.
PRINTED_TIMES: dict[str, str] = {
    "Dig 3-8": "0.51 276.16 19.72 1.10", "Dig 1-7": "0.54 289.53 20.49 0.95",
    "Dig 2-7": "0.50 304.81 19.69 0.75", "Dig 8-9": "0.49 277.26 19.41 0.85",
    "Letter": "0.08 - 2133 0.87", "UCISat": "0.19 - 6490 4.54",
    "Text-1": "66.09 - 930.0 19.75", "Text-2": "52.32 - 913.8 16.16",
    "Dig 0689": "34.28 - - 9.66", "Dig 1279": "17.78 - - 17.47",
    "Cora-DS": "839.67 - - 35.31", "Cora-HA": "204.43 - - 24.35", "Cora-ML": "22781 - - 69.04",
    "Cora-OS": "47931 - - 13.98", "Cora-PL": "7791.4 - - 165.0",
    "WK-CL": "672.69 - - 9.534", "WK-TX": "766.77 - - 10.53", "WK-WT": "4135.2 - - 10.67",
    "WK-WC": "1578.2 - - 9.041", "20-news": "2387.8 - - 215.6", "RCVI": "428770 - - 587.9",
}
LOW = 80  # per cent, below which a pair is named
WEBKB = {  # samples of each class, 'other' first, and all rows the paper has
    "WK-CL": ((619, 128, 44, 34, 21, 20, 1), 827),
}


def _of(*digits: int) -> tuple[int, ...]:
    return tuple(DIGITS[d] for d in digits)


def fewest_others(name: str) -> tuple[int, ...]:
    """Class sizes of a WebKB set if all pages that the paper has fewer are of the largest class."""
    sizes, rows = WEBKB[name]
    return (sizes[0] - (sum(sizes) - rows), *sizes[1:])


CLASSES: dict[str, Sequence[int]] = {
    "Dig 3-8": _of(3, 8), "Dig 1-7": _of(1, 7), "Dig 2-7": _of(2, 7), "Dig 8-9": _of(8, 9),
    "Letter": (789, 766), "UCISat": (1533, 703), "Text-1": HALVES, "Text-2": HALVES,
    "UCIDig": HALVES, "MNIST": HALVES, "Dig 0689": _of(0, 6, 8, 9), "Dig 1279": _of(1, 2, 7, 9),
    "20-news": (997, 993, 992, 988), **{name: fewest_others(name) for name in WEBKB},
}


@dataclass(frozen=True)
class Source:
    """Where a set comes from here: one data set, or several whose figures are averaged."""

    names: tuple[str, ...]
    text: bool = False
    large: bool = False


def _pairs(name: str) -> tuple[str, ...]:
    return tuple(f"{name}:{a},{b}" for a, b in combinations(range(10), 2))


SETS = {
    "Dig 3-8": Source(("digits:3,8",)), "Dig 1-7": Source(("digits:1,7",)),
    "Dig 2-7": Source(("digits:2,7",)), "Dig 8-9": Source(("digits:8,9",)),
    "Letter": Source(("letter_AvB",)), "UCISat": Source(("satellite_1v2",)),
    "Text-1": Source(("news_rec:0,1",), text=True), "Text-2": Source(("news_rec:2,3",), text=True),
    "UCIDig": Source(_pairs("digits")), "MNIST": Source(_pairs("mnist"), large=True),
    "Dig 0689": Source(("digits:0,6,8,9",)), "Dig 1279": Source(("digits:1,2,7,9",)),
    "WK-CL": Source(("webkb_cl",), text=True), "20-news": Source(("news_rec",), text=True),
}


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    starts: int = 20
    starts_large: int = 5
    baseline: int = 50  # runs of k-means; a tenth of it for each pair
    betas: tuple[float, ...] = BETAS
    sets: tuple[str, ...] = tuple(SETS)
    rivals: rivals.Effort = rivals.Effort()


QUICK = Plan(starts=10, baseline=20, sets=tuple(s for s in SETS if s != "MNIST"),
             rivals=rivals.QUICK)
PAIRS = replace(rivals.Effort(), widths=(0.2, 0.5, 1.0), runs=5)  # of the full form, for each pair


@dataclass(frozen=True)
class Part:
    """What was measured on one data set: accuracies and Rand indices, and the fits at BETA."""

    name: str
    shape: tuple[int, int]
    k: int
    means: tuple[Figure, Figure]  # of k-means
    kmeans_seconds: float
    fit: Fits
    scores: dict[float, tuple[float, float]]  # of the lowest objective, for each beta
    mean: float  # accuracy over all starts
    rivals: dict[str, tuple[Figure, Figure, Figure]]  # accuracy, Rand index, seconds


def reproduce(quick: bool, table: int | None, say: Say, plan: Plan | None = None) -> Reproduction:
    """Run the protocol on every set that is there."""
    plan = plan or (QUICK if quick else Plan())
    tables, marks = _printed_tables()
    settings = []
    wanted = [t for t in tables if table in (None, t.number)]
    measured = rows(_measured, plan, [
        (name, i) for name in PRINTED if name in plan.sets for i in range(len(SETS[name].names))],
        say)
    for name in PRINTED:
        found = _whole_row(name, plan, measured)
        if isinstance(found, str):
            say(f"{name}: not run, {found}")
            wanted[0].missing[name] = found  # said once, for all tables
            continue
        settings.append(_filled(name, found, plan, tables))
        say(f"{name}: accuracy {tables[0].here[name][OWN].show(2)}, k-means "
            f"{tables[0].here[name][KM].show(2)}, {settings[-1]['fit, s']} s a fit")
    return Reproduction("cpm3c", quick, wanted, settings, _notes(plan, marks, tables))


def _filled(name: str, found: list[Part], plan: Plan, tables: Sequence[PaperTable]
            ) -> dict[str, Any]:
    """Write the figures of a row into the tables, and return what was run."""
    means = {b: _mean(p.scores[b][0] for p in found) for b in plan.betas}
    beta = max(means, key=lambda b: means[b])
    tuned = plan.betas != (BETA,) and not SETS[name].large
    for j, t in enumerate(tables[:2]):
        t.here[name] = {
            KM: rivals.averaged([p.means[j] for p in found]), **_averaged_rivals(found, j),
            OWN: Figure(_mean(p.scores[BETA][j] for p in found)),
            TUNED: Figure(_mean(p.scores[beta][j] for p in found), labels=True) if tuned
            else Figure.absent(rivals.FULL if plan.betas == (BETA,) else rivals.FEW)}
    if name in tables[2].paper:
        times = _averaged_rivals(found, 2)
        tables[2].here[name] = {KM: Figure(_mean(p.kmeans_seconds for p in found)),
                                "GMC": times["GMC"], "SVR": times["SVR"],
                                OWN: Figure(_mean(p.fit.one for p in found)),
                                ALL: Figure(_mean(p.fit.all for p in found))}
    return _row(name, found) | {"best beta*": f"{beta:g}" if tuned else "-"}


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def _printed_tables() -> tuple[list[PaperTable], list[str]]:
    """The three tables, and a note on each entry that is impossible or says nothing."""
    columns = (*PAPER, TUNED)
    first = PaperTable(2, "clustering accuracy in per cent", columns)
    second = PaperTable(3, "Rand index", columns, digits=3)
    third = PaperTable(4, "CPU seconds (paper: MATLAB, 1.66 GHz; here: one core, one fit)",
                       (*TIMED, ALL), digits=4)
    notes = printed(first, second, PAPER, PRINTED, CLASSES)
    for name, text in PRINTED_TIMES.items():
        third.paper[name] = {c: Figure(float(word)) for c, word in
                             zip(TIMED, text.split(), strict=True) if word != "-"}
    for name, (sizes, pages) in WEBKB.items():
        low, high = (100 * s / pages for s in (fewest_others(name)[0], sizes[0]))
        value = first.paper[name][OWN].value
        if value <= high:
            mark(first, name, OWN, SINGLE)
            notes.append(f"{SINGLE} {name}, {OWN}, {first.title} {value:.2f}: a single cluster of "
                         f"all pages gets {low:.1f} to {high:.1f} (see below).")
    return [first, second, third], notes


def _whole_row(name: str, plan: Plan, measured: dict[tuple[str, int], Part | str]
               ) -> list[Part] | str:
    """What was measured on all data sets of a row, or why it is not whole."""
    if (why := left_out(name, SETS, plan.sets)) is not None:
        return why
    parts = [measured.get((name, i), cut_off()) for i in range(len(SETS[name].names))]
    return next((p for p in parts if isinstance(p, str)), cast(list[Part], parts))


def _measured(plan: Plan, task: tuple[str, int], say: Say) -> Part | str:
    """What was measured on one data set of a row, or why it cannot be had."""
    warm((registry.formulation("CPM3C"),))
    (name, i), source = task, SETS[task[0]]
    data = load_text(source.names[i]) if source.text else load(source.names[i])
    if isinstance(data, str):
        return data
    part = _part(source.names[i], data[0], data[1], source, plan)
    if source.large or len(source.names) == 1 or (i + 1) % 15 == 0:
        say(f"{name}: {part.name} {part.scores[BETA][0]:.2f} ({i + 1} of {len(source.names)})")
    return part


def _part(name: str, X: Any, y: Any, source: Source, plan: Plan) -> Part:
    k = int(y.max()) + 1
    a, r, seconds = kmeans(X, y, plan.baseline if len(source.names) == 1 else
                           max(1, plan.baseline // 10))
    CPM3C = registry.formulation("CPM3C")
    starts = plan.starts_large if source.large else plan.starts
    found = {beta: fits(CPM3C(X, k, beta=beta, size_floor=floor(k)), starts)
             for beta in ((BETA,) if source.large else dict.fromkeys((BETA, *plan.betas)))}
    scores = {beta: score(y, fit.best) for beta, fit in found.items()}
    scores |= {beta: scores[BETA] for beta in plan.betas if beta not in scores}
    fit = found[BETA]
    return Part(name, (int(X.shape[0]), int(X.shape[1])), k, (a, r), seconds, fit, scores,
                _mean(score(y, labels)[0] for labels in fit.labels),
                _rivals(X, y, plan, len(source.names) > 1))


def _rivals(X: Any, y: Any, plan: Plan, pair: bool) -> dict[str, tuple[Figure, Figure, Figure]]:
    """The methods beside ours on a set; of one of many pairs less is run."""
    k = int(y.max()) + 1
    whole = plan.rivals == rivals.Effort()
    effort = PAIRS if pair and whole else plan.rivals
    relaxed = replace(effort, conic=0) if pair and not whole else effort
    problem = registry.formulation("CPM3C")(X, k, beta=BETA, size_floor=floor(k))
    found = {"NC": rivals.normalized_cut(X, y, effort),
             "MMC": rivals.relaxed_margin(problem, "mmc", relaxed),
             "GMC": rivals.relaxed_margin(problem, "gmmc", relaxed),
             "SVR": rivals.iterative_svr(X, y, effort)}
    return {name: (one.figure(partial(_score, y, 0)), one.figure(partial(_score, y, 1)), one.time())
            for name, one in found.items()}


def _score(y: Any, which: int, labels: Any) -> float:
    return score(y, labels)[which]


def _averaged_rivals(parts: Sequence[Part], which: int) -> dict[str, Figure]:
    """Their figures of one kind, over all sets of a row."""
    return {name: rivals.averaged([p.rivals[name][which] for p in parts])
            for name in parts[0].rivals}


def _row(name: str, parts: list[Part]) -> dict[str, Any]:
    """What was run on a set."""
    many = len(parts) > 1
    low = [f"{p.name.partition(':')[2].replace(',', '-')} {p.scores[BETA][0]:.1f}"
           for p in parts if p.scores[BETA][0] < LOW] if many else []
    return {
        "set": name, "data": f"{parts[0].name} .. {parts[-1].name}" if many else parts[0].name,
        "n": round(_mean(p.shape[0] for p in parts)), "d": parts[0].shape[1], "k": parts[0].k,
        "starts": len(parts[0].fit.values),
        "objective": f"{_mean(min(p.fit.values) for p in parts):.5f}",
        "mean of starts": f"{_mean(p.mean for p in parts):.2f}",
        f"pairs below {LOW} %": ", ".join(low) or "-",
        "at limit": sum(p.fit.limited for p in parts),
        "fit, s": f"{_mean(p.fit.one for p in parts):.3f}",
    }


def _notes(plan: Plan, marks: list[str],
           tables: Sequence[PaperTable]) -> list[str]:
    single = not_single(PRINTED, PAPER, (OWN,), CLASSES)
    *common, impossible = protocol(plan.starts)
    betas = ", ".join(f"{b:g}" for b in plan.betas)
    return [
        *common,
        f"beta = {BETA:g} everywhere; the paper does not say its own, nor how it was chosen. "
        f"'{TUNED}': of {betas} the one of highest accuracy on the set, still at the lowest "
        "objective of its starts.",
        "UCIDig and MNIST are means over all 45 pairs, as in the paper; one beta for all pairs. "
        "MNIST: all rows of both its parts.",
        f"The lowest objective is no reliable guide on every pair: see 'pairs below {LOW} %'. "
        "There the wrong split is the BETTER solution of the problem, not a failed search. "
        "Measured once: the objective at the W of a supervised SVM of the true labels, and the one "
        "found without them: digits 1-8 .200 and .182, MNIST 3-5 .333 and .272, 4-9 .349 and .228, "
        "5-8 .302 and .269, 7-9 .291 and .220. On the MNIST pairs the cutting planes leave that W "
        "for the wrong split by themselves.",
        "Text-1, Text-2 and 20-news are rebuilt from another version of 20-newsgroups, with our "
        "own choice of words and sublinear tf-idf, which does far better than counts: NOT "
        "comparable with the paper's. WK-CL is rebuilt too (867 pages, the paper: 827), and the "
        "size floor is far from its classes, of which one holds 71.4 %.",
        "Table 4: the paper's times are MATLAB's. KM here is KMeans(n_init=10) of scikit-learn; "
        f"{OWN} a mean fit from one start, features and a k-means start included; '{ALL}' what "
        "the figures of Tables 2 and 3 took. No table of the paper prints times for its pairs.",
        *rivals.notes(plan.rivals, tables),
        single,
        impossible,
        *marks,
        f"{KM} of Dig 1-7 is 99.45 in the MKC paper, with the same Rand index: a slip of a digit. "
        "Even 99.45 has a Rand index of .989 as a single run; .995 needs every run to be perfect "
        "or no better than chance.",
        "WK-CL: class sizes as in our data; the paper has fewer pages, and the limits hold "
        "whichever these are. Its CPM3C is no single cluster, though: that has a Rand index of "
        ".54. The other WebKB sets, Cora and RCVI are not among our data and the paper does not "
        "give their class sizes, so their cells are not marked.",
    ]
