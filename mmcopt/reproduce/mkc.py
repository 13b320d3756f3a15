"""Table 2 of MKC: the protocol of Zhao et al. 2009, section 5.2, and its figures.

Each kernel alone and all three together, by the lowest objective over several starts, without
labels but for one starred column. Entries that cannot be what they claim are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial
from mmcopt.reproduce import rivals
from mmcopt.reproduce.margin_protocol import (
    BETA,
    BETAS,
    DIGITS,
    KM,
    Fits,
    fits,
    floor,
    kmeans,
    not_single,
    printed,
    protocol,
    score,
    warm,
)
from mmcopt.reproduce.protocol import left_out, load
from mmcopt.reproduce.rows import cut_off, rows
from mmcopt.reproduce.tables import Figure, PaperTable, Reproduction, Say
from mmcopt.reproduce.umc_rls import pooled

SINGLES = ("K1", "K2", "K3")
OWN, TUNED = "MKC", "MKC, best C"
PAPER = (*SINGLES, OWN, KM, "NC", "IterSVR")
KERNELS: tuple[Kernel, ...] = (Linear(), Polynomial(2), Gaussian(width=0.5))
RANK, LARGE, HUGE = 500, 2500, 10_000  # landmarks, and the samples from which they are used

# Accuracies and Rand indices of Table 2, in the order of PAPER.
PRINTED: dict[str, tuple[str, str]] = {
    "digits1v7": ("100.00 95.52 95.24 100.00 99.45 55.00 99.45",
                  "1.00 0.915 0.910 1.00 0.995 0.504 0.995"),
    "digits2v7": ("100.00 97.47 99.16 100.00 96.91 66.00 100.00",
                  "1.00 0.951 0.989 1.00 0.940 0.550 1.00"),
    "ionosphere": ("72.36 62.51 86.52 91.01 68.00 75.00 67.70",
                   "0.599 0.531 0.767 0.839 0.564 0.626 0.562"),
    "svmguide1-a": ("78.40 77.60 84.30 85.50 76.50 87.50 93.20",
                    "0.661 0.653 0.735 0.752 0.640 0.781 0.873"),
    "ringnorm": ("76.70 58.10 98.40 99.00 76.00 77.70 80.70",
                 "0.642 0.513 0.969 0.980 0.635 0.653 0.831"),
    "letterAvB": ("93.12 90.35 93.38 93.83 82.06 76.80 92.80",
                  "0.873 0.826 0.877 0.885 0.706 0.644 0.867"),
    "satellite": ("98.48 76.79 88.68 99.37 95.93 95.79 96.82",
                  "0.971 0.644 0.799 0.992 0.922 0.919 0.939"),
    "digits0689": ("96.63 94.11 84.57 97.77 42.33 93.13 -",
                   "0.968 0.946 0.887 0.978 0.696 0.939 -"),
    "digits1279": ("94.01 90.11 90.39 94.43 40.42 90.11 -",
                   "0.943 0.911 0.914 0.948 0.681 0.909 -"),
    "letterABCD": ("70.77 65.05 53.55 71.89 66.18 68.19 -",
                   "0.804 0.761 0.684 0.821 0.782 0.811 -"),
    "mnist01234": ("89.98 87.34 90.12 91.55 67.63 - -", "0.901 0.882 0.907 0.922 0.898 - -"),
}
CLASSES: dict[str, Sequence[int]] = {
    "digits1v7": (DIGITS[1], DIGITS[7]), "digits2v7": (DIGITS[2], DIGITS[7]),
    "ionosphere": (225, 126), "svmguide1-a": (500, 500), "ringnorm": (500, 500),
    "letterAvB": (789, 766), "satellite": (1533, 703),
    "digits0689": tuple(DIGITS[d] for d in (0, 6, 8, 9)),
    "digits1279": tuple(DIGITS[d] for d in (1, 2, 7, 9)), "letterABCD": (789, 766, 736, 805),
    "mnist01234": (6903, 7877, 6990, 7141, 6824),
}
SETS = {
    "digits1v7": "digits:1,7", "digits2v7": "digits:2,7", "ionosphere": "ionosphere",
    "ringnorm": "ringnorm_1000", "letterAvB": "letter_AvB", "satellite": "satellite_1v2",
    "digits0689": "digits:0,6,8,9", "digits1279": "digits:1,2,7,9",
    "letterABCD": "letter_ABCD_500", "mnist01234": "mnist:0,1,2,3,4",
}


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    starts: int = 20
    starts_huge: int = 4
    baseline: int = 50
    betas: tuple[float, ...] = BETAS
    sets: tuple[str, ...] = tuple(SETS)
    rivals: rivals.Effort = rivals.Effort()


QUICK = Plan(starts=5, baseline=20, betas=(BETA,), rivals=rivals.QUICK,
             sets=tuple(s for s in SETS if s != "mnist01234"))


def kernels(n: int) -> tuple[Kernel, ...]:
    """The three kernels; those that are not linear by landmarks where there are many samples."""
    if n <= LARGE:
        return KERNELS
    return (KERNELS[0], *(kernel.nystroem(RANK) for kernel in KERNELS[1:]))


def reproduce(quick: bool, table: int | None, say: Say, plan: Plan | None = None) -> Reproduction:
    """Run the protocol on every set that is there."""
    plan = plan or (QUICK if quick else Plan())
    tables, marks = _printed_tables()
    settings: list[dict[str, Any]] = []
    absent = {name: left_out(name, SETS, plan.sets) for name in PRINTED}
    found = rows(_measured, plan, [name for name, why in absent.items() if why is None], say)
    for name, why in absent.items():
        row = why or found.get(name, cut_off())
        if isinstance(row, str):
            tables[0].missing[name] = row  # said once, for both
            say(f"{name}: not run, {row}")
            continue
        settings += row[1]
        for j, t in enumerate(tables):
            t.here[name] = {column: pair[j] for column, pair in row[0].items()}
    return Reproduction("mkc", quick, tables, settings, _notes(plan, marks, tables))


def _measured(plan: Plan, name: str, say: Say) -> Any:
    """What `_one_set` gives for a row, or why it is not run."""
    data = load(SETS[name])
    if isinstance(data, str):
        return data
    warm((registry.formulation("CPM3C"), registry.formulation("MKC")))
    X, y = data
    return _one_set(name, pooled(X) if name.startswith("mnist") else X, y, plan, say)


def _printed_tables() -> tuple[list[PaperTable], list[str]]:
    columns = (*PAPER[:4], TUNED, *PAPER[4:])
    tables = [PaperTable(2, "clustering accuracy in per cent", columns),
              PaperTable(2, "Rand index", columns, digits=3)]
    return tables, printed(tables[0], tables[1], PAPER, PRINTED, CLASSES)


def _one_set(name: str, X: Any, y: Any, plan: Plan, say: Say
             ) -> tuple[dict[str, tuple[Figure, Figure]], list[dict[str, Any]]]:
    """Figures of both tables by method, and a row for each method on what was run."""
    k, used = int(y.max()) + 1, kernels(len(X))
    huge = len(X) >= HUGE
    starts = plan.starts_huge if huge else plan.starts
    runs = max(1, plan.baseline // 5) if huge else plan.baseline
    figures: dict[str, tuple[Figure, Figure]] = {KM: kmeans(X, y, runs)[:2]}
    taken = []

    def took(method: str, problem: Any, fit: Fits, weights: str = "-", labels: bool = False
             ) -> None:
        a, r = score(y, fit.best)
        figures[method] = (Figure(a, labels=labels), Figure(r, labels=labels))
        taken.append({
            "set": name, "data": SETS[name], "n": len(X), "d": X.shape[1], "k": k,
            "method": method, "features": problem.features.d, "starts": starts,
            "objective": f"{min(fit.values):.5f}",
            "mean of starts": f"{np.mean([score(y, one)[0] for one in fit.labels]):.2f}",
            "weights": weights, "at limit": fit.limited, "fit, s": f"{fit.one:.3f}"})
        say(f"{name}: {method} {figures[method][0].show(2)}, {fit.one:.3f} s a fit"
            + (f", weights {weights}" if weights != "-" else ""))

    for method, kernel in zip(SINGLES, used, strict=True):
        problem = registry.formulation("CPM3C")(X, k, beta=BETA, kernel=kernel,
                                                size_floor=floor(k))
        took(method, problem, fits(problem, starts))
    tried = {}
    for beta in (BETA,) if huge else dict.fromkeys((BETA, *plan.betas)):
        problem = registry.formulation("MKC")(X, k, kernels=used, C=1.0 / beta,
                                              size_floor=floor(k))
        tried[beta] = problem, fits(problem, starts)
    problem, fit = tried[BETA]
    took(OWN, problem, fit, _weights(problem, fit))
    if len(tried) > 1:
        beta = max(tried, key=lambda b: score(y, tried[b][1].best)[0])
        problem, fit = tried[beta]
        took(TUNED, problem, fit, f"{_weights(problem, fit)} at C = {1 / beta:g}*", labels=True)
    else:
        absent = Figure.absent(rivals.FEW if huge else rivals.FULL)
        figures[TUNED] = absent, absent
    figures["NC"] = _both(y, rivals.normalized_cut(X, y, plan.rivals))
    figures["IterSVR"] = _both(y, rivals.iterative_svr(X, y, plan.rivals))
    return figures, taken


def _both(y: Any, rival: rivals.Rival) -> tuple[Figure, Figure]:
    """Accuracy and Rand index of a method."""
    return (rival.figure(lambda labels: score(y, labels)[0]),
            rival.figure(lambda labels: score(y, labels)[1]))


def _weights(problem: Any, fit: Fits) -> str:
    return ", ".join(f"{w:.2f}" for w in problem.kernel_weights(fit.point))


def _notes(plan: Plan, marks: list[str],
           tables: Sequence[PaperTable]) -> list[str]:
    single = not_single(PRINTED, PAPER, (*SINGLES, OWN), CLASSES)
    *common, impossible = protocol(plan.starts)
    listed = ", ".join(f"{1 / b:g}" for b in sorted(plan.betas, reverse=True))
    return [
        *common,
        f"K1, K2, K3 = {', '.join(map(repr, KERNELS))}: the paper's kinds, but it names neither "
        "its degree nor its width; these are the defaults of MKC, the same on all sets, each "
        "centred and scaled to a mean diagonal of 1. All eigenvectors of the kernel matrix (the "
        f"paper: kernel PCA) up to {LARGE} samples, nystroem({RANK}) above, for K2 and K3.",
        f"A single kernel is CPM3C(kernel=K, beta = {BETA:g}), MKC with one kernel; MKC has "
        f"C = 1 / beta = {1 / BETA:g} and p = 2. 'weights' are those of K1, K2, K3, of Euclidean "
        f"length 1. '{TUNED}': of C = {listed} the one of highest accuracy on the set (not in the "
        "quick form, nor for mnist01234).",
        "ionosphere: the paper's 91.01 (and K3's 86.52) is NOT reproduced: about 72 here, at any C "
        "tried and by every kernel; the lowest objective belongs to a nearly even split.",
        "ringnorm is drawn anew (Breiman's definition); letterABCD is our own draw of 500 of its "
        "3096 rows; mnist01234 has 14 x 14 pixels, means of 2 x 2, as its 196 features suggest. "
        "Its 28911 rows in the paper are exactly those of the digits 0 to 3; here 0 to 4, 35735.",
        "The paper's times are a figure without numbers; 'fit, s' are CPU seconds of one core, "
        "kernels and eigenvectors included, for one start.",
        *rivals.notes(plan.rivals, tables),
        "K1 of satellite, digits0689 and digits1279 repeat the CPM3C paper's figures to the last "
        "digit, those of letterAvB do not (93.12 for 94.47).",
        "digits1v7, K2 95.52 and K3 95.24: no share of 361 samples, but 341 and 340 of 357, the "
        "size of 3 against 8.",
        single,
        impossible,
        *marks,
        "ringnorm, IterSVR: .831 is the Rand index of 90.70, not 80.70.",
        "ionosphere has 351 samples of 34 features, not 354 of 64.",
    ]
