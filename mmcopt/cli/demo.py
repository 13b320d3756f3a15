"""`mmcopt demo`: solvers race on the digits 3 and 8, and a bound climbs, told to a newcomer."""

from __future__ import annotations

import pathlib
from argparse import Namespace
from typing import Any

from mmcopt import datasets, registry
from mmcopt.cli.answer import sentence_on_bound
from mmcopt.cli.console import LiveWatch, say, show_table
from mmcopt.cli.exit_codes import DONE, INTERRUPTED, SOLVER_FAILED
from mmcopt.cli.ladder_view import LadderWatch, show_ladder
from mmcopt.comparing import compare
from mmcopt.comparing.table import Comparison
from mmcopt.errors import BackendError, DataError
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Result
from mmcopt.plot.comparisons import quartiles
from mmcopt.plot.style import plain_ticks

SOLVERS = ("Shaking", "Evolutionary", "Tabu", "Memetic", "kmeans")
SEEDS = 3
RACE = 0.4  # share of the seconds that the race has; the climb has the rest, and ends when proved
NAME, DATA = "digits 3-8", "digits:3,8"
IMAGES = 150  # few enough to prove what is best of all their splits, in seconds


def demo(args: Namespace) -> int:
    """Run the demo."""
    folder = pathlib.Path(args.out)
    if not args.no_plot and not folder.is_dir():
        raise DataError(f"--out {folder}: there is no such folder; make it first.")
    X, y = datasets.load(DATA)
    X, y = X[:IMAGES], None if y is None else y[:IMAGES]
    problem: Any = registry.formulation("LeastSquares")(X, 2, kernel=Gaussian(width=0.5), lam=0.1)
    say(f"mmcopt demo: {len(X)} images of the digits 3 and 8, told apart without their labels", "",
        "The problem: find the two clusters that a regularised least-squares classifier fits best.",
        "", problem if args.verbose else f"  {_minimise(problem)}", "",
        f"1. A race: {len(SOLVERS)} solvers, {SEEDS} times the same seconds each "
        "(the first time, their loops are compiled):")
    table = compare({NAME: problem}, list(SOLVERS), seeds=SEEDS, y=y, progress=LiveWatch(),
                    budget=RACE * args.time_limit / (len(SOLVERS) * SEEDS))
    if not table.interrupted:
        say("", "2. A proof: how much lower could any labels be? A bound climbs from relaxation to "
            "relaxation:")
        with LadderWatch((1 - RACE) * args.time_limit) as watch:
            table.certify(time_limit=(1 - RACE) * args.time_limit, progress=watch)
    best = table.best(NAME)
    if best is not None:
        _show(table, best)
    if table.interrupted:
        say("Interrupted: the table holds the runs that were done.")
        return INTERRUPTED
    if not args.no_plot:
        _draw(table, best, folder / "mmcopt-demo.png")
    say("", "Next: mmcopt describe, mmcopt solve iris --kernel gaussian:width=0.5, mmcopt --help")
    return SOLVER_FAILED if table.failures else DONE


def _minimise(problem: Any) -> str:
    label, text, _ = problem.statement().rows[0]
    return f"{label}  " + text.replace("\n", "\n" + " " * (len(label) + 4))


def _show(table: Comparison, best: Result) -> None:
    show_ladder(table.ladders.get(NAME, ()))
    show_table(table.summary(), table.shown())
    say(*table.notes())
    if best.lower_bound is None:
        return
    say(f"There are 2^{best.formulation.n - 1} ways to split the images in two. "
        f"{sentence_on_bound(best)}",
        "The proof is a certificate that result.verify() checks again without any solver"
        f" ({'it holds' if best.verify() else 'it FAILS'}).",
        "All are judged by the same objective, k-means as well, whose steps never see it; ARI "
        "compares with the true",
        "digits (1 = equal), which no solver has seen.")


def _draw(table: Comparison, best: Result | None, path: pathlib.Path) -> None:
    """Draw the best clusters, the race and the ladder; without matplotlib say how to get it."""
    try:
        import matplotlib
    except ImportError:
        say("", "For a picture: pip install 'mmcopt[plot]', and run the demo again.")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if best is None:
        raise BackendError("no solver found labels to draw.")
    count = 3 if best.ladder else 2
    figure, axes = plt.subplots(1, count, figsize=(5.7 * count, 4.8), layout="constrained")
    best.plot(ax=axes[0])
    table.plot("time", ax=axes[1])
    axes[1].set_yscale("log")
    plain_ticks(axes[1].yaxis, (1.0, 2.0, 5.0))
    axes[1].set_title(f"the race: medians of {SEEDS} runs; bands: {quartiles(SEEDS)}", fontsize=10)
    if best.ladder:
        best.plot(ax=axes[2], kind="ladder")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    say("", f"Picture: {path} (the best clusters, the race, and the bound as it climbed)")
