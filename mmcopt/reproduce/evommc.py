"""Tables 1 and 2 of EvoMMC: the protocol of Gieseke et al. 2009, section 4, and its figures.

A repetition takes the lowest clustering error of ten runs; width, lam and balance are tuned with
the true classes; the figures are means over fresh repetitions.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, cast

import numpy as np

from mmcopt import registry
from mmcopt.constraints import Sizes
from mmcopt.kernels import Gaussian
from mmcopt.metrics import clustering_error
from mmcopt.reproduce import rivals
from mmcopt.reproduce.margin_protocol import BETA, fits
from mmcopt.reproduce.protocol import LEFT_OUT, fresh_runs, kept, left_out, load, spread
from mmcopt.reproduce.rows import cut_off, rows
from mmcopt.reproduce.tables import Figure, PaperTable, Reproduction, Say
from mmcopt.solving import run as run_once
from mmcopt.types import Floats

Cell = tuple[float, int, int]  # l / n, sigma / s, 1 / (lam n)

OURS = "ours, no labels"
KM, EVO, FAST, TUNED = "KM", "EvoMMC", "FastEvoMMC", "EvoMMC tuned anew"
COLUMNS = (KM, "MMC", "GMMC", "IterSVR", "CPMMC", EVO, FAST, TUNED, OURS)
PAIRS, MNIST = "UCI digits (45 pairs)", "MNIST digits (45 pairs)"

# Table 1, in per cent, in the order of COLUMNS without ours.
PRINTED: dict[str, str] = {
    "UCI digits 3-8": "5.32±0 10 5.6 3.36±0 3.08 2.52±0 2.58±0.5",
    "UCI digits 1-7": "0.55±0 31.25 2.2 0.55±0 0 0±0 0±0",
    "UCI digits 2-7": "3.09±0 1.25 0.5 0±0 0 0±0 0±0",
    "UCI digits 8-9": "9.32±0 3.75 16.0 3.67±0 2.26 3.22±0.40 3.78±4.13",
    "Ionosphere": "32±17.9 21.25 23.5 32.3±16.6 27.64 17.94±6.84 18.75±3.19",
    "Letter A-B": "17.94±0 - - 7.2±0 5.53 3.67±0.33 3.27±1.08",
    "Satellite 1-2": "4.07±0 - - 3.18±0 1.52 1.16±0.45 1.14±0.65",
    PAIRS: "2.62 - - 1.82 0.62 0.72 0.81",
    MNIST: "10.79 - - 7.59 4.29 3.23 3.45",
}
# Table 2: seconds and generations of a run, EvoMMC and FastEvoMMC.
PRINTED_TIMES: dict[str, str] = {
    "UCI digits 3-8": "20.80 4923 3.41 8254",
    "UCI digits 1-7": "16.61 3600 2.92 6978",
    "UCI digits 2-7": "18.40 4374 3.93 9636",
    "UCI digits 8-9": "14.46 3320 3.09 7383",
    "Ionosphere": "14.18 3288 4.12 10248",
    "Letter A-B": "72.09 26867 44.16 66297",
    "Satellite 1-2": "94.95 58107 70.44 157971",
    "MNIST digits 1-2": "- - 274.60 565929",
    "MNIST digits 1-7": "- - 304.00 605932",
}


@dataclass(frozen=True)
class DataSet:
    """Where a set comes from here, its values of l / n, and the share of landmarks."""

    name: str
    balances: tuple[float, ...] = (0.03,)
    rank: float = 0.1
    evo: bool = True


SETS = {
    "UCI digits 3-8": DataSet("digits:3,8"),
    "UCI digits 1-7": DataSet("digits:1,7"),
    "UCI digits 2-7": DataSet("digits:2,7"),
    "UCI digits 8-9": DataSet("digits:8,9"),
    "Ionosphere": DataSet("ionosphere", (0.3, 0.4)),
    "Letter A-B": DataSet("letter_AvB"),
    "Satellite 1-2": DataSet("satellite_1v2", (0.4,)),
    "MNIST digits 1-2": DataSet("mnist:1,2", (0.1,), 0.01, evo=False),
    "MNIST digits 1-7": DataSet("mnist:1,7", (0.1,), 0.01, evo=False),
}
LARGE, HUGE = 2000, 10_000  # samples from which the tuning is cut down


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    widths: tuple[int, ...] = (1, 3, 5)
    inverses: tuple[int, ...] = (2, 200, 1000)
    best_of: int = 10
    tuning: int = 10  # repetitions of the whole grid; 3 for sets of LARGE samples
    finalists: int = 4
    more: int = 5  # repetitions of the finalists
    fresh: int = 10
    timed: int = 10
    patience: float = 3.0
    pairs: bool = True
    sets: tuple[str, ...] = tuple(SETS)
    without_evo: tuple[str, ...] = ()
    rivals: rivals.Effort = rivals.Effort()

    def for_size(self, n: int) -> Plan:
        """The plan cut down for large sets."""
        if n >= HUGE:
            return replace(self, best_of=3, tuning=1, finalists=1, more=0, fresh=1, timed=2)
        if n >= LARGE and self.tuning > 3:
            return replace(self, tuning=3, finalists=3, more=4)
        return self


QUICK = Plan(tuning=1, finalists=2, more=1, fresh=3, timed=3, pairs=False,
             sets=tuple(s for s in SETS if not s.startswith("MNIST")),
             without_evo=("Satellite 1-2",), rivals=rivals.QUICK)
QUICK_LARGE = replace(QUICK, inverses=(200, 1000), widths=(3,), finalists=1, more=0, fresh=2,
                      timed=2)


@dataclass
class Trial:
    """One method on one set: problems by cell and run, and the errors of its runs, in per cent."""

    X: Floats
    y: Any
    solver: Any
    rank: float | None
    s: float = field(init=False)

    def __post_init__(self) -> None:
        self.s = float(np.sqrt((np.ptp(self.X, axis=0) ** 2).sum()))  # box diagonal, footnote 9
        self._kept: dict[Cell, Any] = {}

    def problem(self, cell: Cell, run: int) -> Any:
        """The problem of a cell; with landmarks, each run draws its own."""
        if self.rank is None and cell in self._kept:
            return self._kept[cell]
        balance, width, inverse = cell
        n = len(self.X)
        # exp(-d^2 / sigma^2) is exp(-d^2 / (2 s^2)) at s = sigma / sqrt 2
        kernel: Any = Gaussian(sigma=width * self.s / math.sqrt(2.0))
        if self.rank is not None:
            kernel = kernel.nystroem(max(2, round(self.rank * n)), seed=run)
        low = math.ceil((n - balance * n) / 2 - 1e-9)
        made = registry.formulation("LeastSquares")(
            self.X, 2, kernel=kernel, lam=1.0 / (inverse * n), center=False, scaling="mean",
            sizes=Sizes(low=low, high=n - low))
        if self.rank is None:
            self._kept = {cell: made}
        return made

    def errors(self, cell: Cell, stage: int, repetition: int, best_of: int) -> list[float]:
        """Errors of the runs of one repetition."""
        out = []
        for i in range(best_of):
            seed = (stage * 1000 + repetition) * 100 + i
            run = fresh_runs(self.solver, self.problem(cell, seed), [seed])[0]
            out.append(100.0 * clustering_error(self.y, run.point))
        return out

    def repeated(self, cell: Cell, stage: int, repetitions: int, best_of: int) -> list[float]:
        """Lowest error of each repetition."""
        return [min(self.errors(cell, stage, r, best_of)) for r in range(repetitions)]

    def timed(self, cell: Cell, runs: int) -> tuple[float, float]:
        """CPU seconds of a run, kernel and R included, and its generations."""
        used, generations = 0.0, 0.0
        for i in range(runs):
            self._kept = {}
            started = time.thread_time()
            problem = self.problem(cell, 900_000 + i)
            last: dict[str, float] = {}
            _recorded(self.solver, problem, 900_000 + i, last)
            used += time.thread_time() - started
            generations += last["generation"]
        return used / runs, generations / runs


def _recorded(solver: Any, problem: Any, seed: int, last: dict[str, float]) -> None:
    solver.prepare(problem)
    run_once(solver, problem, None, np.random.default_rng(seed), record=last.update)


def reproduce(quick: bool, table: int | None, say: Say, plan: Plan | None = None) -> Reproduction:
    """Run the protocol on every set that is there."""
    whole = plan or (QUICK if quick else Plan())
    first, second = _printed_tables()
    settings = []
    pairs = list(combinations(range(10), 2)) if whole.pairs else []
    found = rows(_measured, (whole, QUICK_LARGE if quick and plan is None else None),
                 [*(name for name in SETS if name in whole.sets), *pairs], say)
    for name in SETS:
        row = left_out(name, SETS, whole.sets) or found.get(name, cut_off())
        if isinstance(row, str):
            say(f"{name}: not run, {row}")
            for t in (first, second):
                if name in t.paper:
                    t.missing[name] = row
            continue
        if name in first.paper:
            first.here[name] = row[0]
        second.here[name] = row[1]
        settings.append(row[2])
    if pairs and all(pair in found for pair in pairs):
        first.here[PAIRS] = _averaged([found[pair] for pair in pairs])
    else:
        first.missing[PAIRS] = cut_off() if pairs else LEFT_OUT
    first.missing[MNIST] = ("45 pairs of about 14,000 samples; FastEvoMMC on 1-2 and 1-7 stands in "
                            "Table 2 and below")
    wanted = [t for t in (first, second) if table in (None, t.number)]
    return Reproduction("evommc", quick, wanted, settings, _notes(whole, wanted))


def _measured(plans: tuple[Plan, Plan | None], task: str | tuple[int, int], say: Say) -> Any:
    """Figures of both tables and what was run on a set, or why it is not; figures of a pair."""
    whole, large = plans
    if not isinstance(task, str):
        return _one_pair(*task, whole, say)
    source = SETS[task]
    data = load(source.name)
    if isinstance(data, str):
        return data
    n = len(data[0])
    use = large if large and n >= LARGE else whole.for_size(n)
    row: dict[str, Any] = {"set": task, "data": source.name, "n": n}
    if task in whole.without_evo:
        source = replace(source, evo=False)
    figures, times = _one_set(task, data[0], data[1], source, use, row, say)
    return figures, times, row


def _printed_tables() -> tuple[PaperTable, PaperTable]:
    first = PaperTable(1, "clustering error in per cent", COLUMNS)
    for name, text in PRINTED.items():
        first.paper[name] = {c: _figure(word)
                             for c, word in zip(COLUMNS, text.split(), strict=False) if word != "-"}
    second = PaperTable(2, "CPU seconds of a single run (generations)", (EVO, FAST), digits=3)
    for name, text in PRINTED_TIMES.items():
        words = text.split()
        second.paper[name] = {c: Figure(float(s), count=int(g)) for c, s, g in
                              zip((EVO, FAST), words[::2], words[1::2], strict=True) if s != "-"}
    return first, second


def _figure(word: str) -> Figure:
    value, _, sd = word.partition("±")
    return Figure(float(value), float(sd) if sd else None)


def _solvers(patience: float) -> dict[str, Any]:
    Evolutionary = registry.solver("Evolutionary")
    return {EVO: Evolutionary(mu=10, nu=10, stop="paper", patience=patience),
            FAST: Evolutionary(mu=1, nu=1, stop="paper", patience=patience)}


def _one_set(name: str, X: Floats, y: Any, source: DataSet, plan: Plan, row: dict[str, Any],
             say: Say) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Figures of both tables for one set; parameters go into ``row``."""
    figures = _unlabelled(X, y, plan)
    times: dict[str, Figure] = {}
    without = Figure.absent(rivals.FULL if name in plan.without_evo else rivals.LARGE)
    cells = [(b, w, i) for b in source.balances for w in plan.widths for i in plan.inverses]
    for method, solver in _solvers(plan.patience).items():
        if method == EVO and not source.evo:
            figures[EVO] = figures[TUNED] = times[EVO] = without
            continue
        trial = Trial(X, y, solver, source.rank if method == FAST else None)
        cell, anew = _tuned(trial, cells, plan)
        reached = trial.repeated(cell, 2, plan.fresh, plan.best_of)
        figures[method] = spread(reached, labels=True)
        if method == EVO:
            figures[TUNED] = spread(anew, labels=True) if plan.tuning >= 10 \
                else Figure.absent(rivals.FEW)
        seconds, generations = kept(f"{name} {method} {cell} {plan.timed} timed",
                                    functools.partial(trial.timed, cell, plan.timed))
        times[method] = Figure(seconds, count=round(generations))
        row[f"{method}: l/n, sigma/s, 1/(lam n)"] = ", ".join(f"{v:g}" for v in cell)
        row[f"{method}: trace(K)/n"] = round(_trace(trial.problem(cell, 0)), 3)
        row[f"{method}: error"] = figures[method].show(2)
        say(f"{name}: {method} {figures[method].show(2)} % at l/n, sigma/s, 1/(lam n) = {cell}, "
            f"{seconds:.3f} s and {generations:.0f} generations a run")
    return figures, times


def _trace(problem: Any) -> float:
    """trace(K) / n; of the landmark features where K is held by them."""
    if problem.low_rank:
        return float((problem.fitted.features() ** 2).sum()) / problem.n
    return float(np.trace(problem.K)) / problem.n


def _tuned(trial: Trial, cells: Sequence[Cell], plan: Plan) -> tuple[Cell, list[float]]:
    """The cell of lowest mean error, and the lowest error over all cells of each repetition."""
    table = {cell: trial.repeated(cell, 0, plan.tuning, plan.best_of) for cell in cells}
    anew = [min(errors[r] for errors in table.values()) for r in range(plan.tuning)]
    best = sorted(cells, key=lambda cell: float(np.mean(table[cell])))[:plan.finalists]
    if len(best) > 1 and plan.more:
        for cell in best:
            table[cell] = table[cell] + trial.repeated(cell, 1, plan.more, plan.best_of)
    return min(best, key=lambda cell: float(np.mean(table[cell]))), anew


def _unlabelled(X: Floats, y: Any, plan: Plan) -> dict[str, Figure]:
    """k-means, and our default problem and solver."""
    from sklearn.cluster import KMeans

    errors = [100 * clustering_error(y, KMeans(2, n_init=1, random_state=i).fit(X).labels_)
              for i in range(10)]
    out = {KM: spread(errors, labels=False)}
    if len(X) < HUGE:
        out |= _rivals(X, y, plan)
        problem = registry.formulation("LeastSquares")(X, 2)
        solver = registry.solver(problem.default_solver)()
        runs = fresh_runs(solver, problem, range(plan.fresh), 5.0)
        out[OURS] = spread([100 * clustering_error(y, r.point) for r in runs], labels=False)
    return out


def _rivals(X: Floats, y: Any, plan: Plan) -> dict[str, Figure]:
    """The methods that the paper compares with."""
    def error(labels: Any) -> float:
        return 100 * clustering_error(y, labels)

    problem = registry.formulation("CPM3C")(X, 2, beta=BETA)
    return {"MMC": rivals.relaxed_margin(problem, "mmc", plan.rivals).figure(error),
            "GMMC": rivals.relaxed_margin(problem, "gmmc", plan.rivals).figure(error),
            "IterSVR": rivals.iterative_svr(X, y, plan.rivals).figure(error),
            "CPMMC": Figure(error(fits(problem, plan.best_of).best))}


def _one_pair(a: int, b: int, plan: Plan, say: Say) -> dict[str, Figure]:
    """Errors on two of the UCI digits, tuned, one repetition a cell."""
    use = replace(plan, tuning=1, finalists=1, more=0, fresh=1)
    X, y = cast(tuple[Floats, Any], load(f"digits:{a},{b}"))  # comes with scikit-learn
    cells = [(0.03, w, i) for w in plan.widths for i in plan.inverses]
    figures = _unlabelled(X, y, replace(plan, fresh=1))
    for method, solver in _solvers(plan.patience).items():
        trial = Trial(X, y, solver, 0.1 if method == FAST else None)
        cell, _ = _tuned(trial, cells, use)
        figures[method] = spread(trial.repeated(cell, 2, 1, use.best_of), labels=True)
    say(f"{PAIRS}: {a}-{b} " + ", ".join(f"{c} {f.show(2)}" for c, f in figures.items()))
    return figures | {TUNED: Figure.absent(rivals.FEW)}


def _averaged(pairs: Sequence[dict[str, Figure]]) -> dict[str, Figure]:
    """Mean errors over all pairs."""
    return {c: rivals.averaged([figures[c] for figures in pairs]) for c in pairs[0]}


def _notes(plan: Plan, tables: Sequence[PaperTable]) -> list[str]:
    return [
        "Kernel exp(-d^2 / sigma^2), sigma in {1, 3, 5} x the diagonal s of the bounding box, not "
        "centred, not rescaled; lam n in {1/2, 1/200, 1/1000} with the averaged loss "
        "(scaling='mean'); |n1 - n2| <= l as sizes. Features as stored.",
        "l / n is the smallest of the paper's values {.03, .1, .3, .4} that admits the true sizes "
        "(.3 and .4 for Ionosphere, .1 for the MNIST pairs); smaller grids in the quick form.",
        f"A figure is the mean over repetitions of the lowest clustering error of {plan.best_of} "
        "runs, as the paper counts: the true classes choose the run and the cell. The cell is "
        "chosen on other seeds than the figure is made of.",
        f"'{TUNED}' chooses the cell again in every repetition and takes the lowest error of all "
        "its cells: a more generous count than the figures above, another reading of the paper, "
        "added after 8-9 was seen to miss the paper's 3.22 at a fixed cell, where the lowest "
        "objective has 3.39 % (12 of 354 samples). It is not the figure to compare.",
        f"Both methods stop after {plan.patience:g} n generations without a change (the paper: 'a "
        "longer period'; .5 to 10 n were tried on digits and Ionosphere and differ little); "
        "generation 1 is the first, because flipping every sample changes nothing. FastEvoMMC: "
        "mu = nu = 1, landmarks drawn anew for every run, r = .1 n (.01 n for MNIST), W held as a "
        "factor.",
        "Table 2: CPU seconds on one core with one BLAS thread, kernel and R included; the paper's "
        "are Python 2.5 on a 3 GHz Core Duo.",
        *rivals.notes(plan.rivals, tables),
        f"CPMMC: CuttingPlane on CPM3C(X, 2, beta = {BETA:g}), the lowest objective of "
        f"{plan.best_of} random starts; no labels used.",
        f"{OURS}: LeastSquares(X, 2) with its defaults (Gaussian(width=1), lam = .1, centred, no "
        "rescaling) and its default solver; mean error over single runs.",
    ]


