"""`mmcopt demo`: solvers side by side on the digits 3 and 8, told to a newcomer."""

from __future__ import annotations

import pathlib
import time
from argparse import Namespace
from typing import Any

from mmcopt import datasets, registry
from mmcopt.bounds.certificates import evaluate
from mmcopt.checks import real
from mmcopt.cli.console import LiveWatch, say, show_table
from mmcopt.cli.exit_codes import DONE, INTERRUPTED, SOLVER_FAILED
from mmcopt.comparing import compare
from mmcopt.comparing.table import Comparison
from mmcopt.errors import BackendError, DataError
from mmcopt.kernels import Gaussian
from mmcopt.solving import solve, whole

SOLVERS = ("Shaking", "Evolutionary", "Tabu", "Memetic")
SEEDS = 3
NAME, DATA = "digits 3-8", "digits:3,8"


def demo(args: Namespace) -> int:
    """Run the demo."""
    real(0, open_low=True).check("--seconds", "S", args.seconds)
    folder = pathlib.Path(args.out)
    if not args.no_plot and not folder.is_dir():
        raise DataError(f"--out {folder}: there is no such folder.")
    X, y = datasets.load(DATA)
    least_squares: Any = registry.formulation("LeastSquares")
    problem = least_squares(X, 2, kernel=Gaussian(width=0.5), lam=0.1)
    say(f"mmcopt demo: {len(X)} images of the digits 3 and 8, told apart without their labels", "",
        "The problem: find the two clusters that a regularised least-squares classifier fits best.",
        "", problem if args.verbose else f"  {_minimise(problem)}", "",
        f"{len(SOLVERS)} solvers from {SEEDS} random starts each "
        "(the first time, their loops are compiled):")
    table = compare({NAME: problem}, list(SOLVERS), seeds=SEEDS, y=y, progress=LiveWatch(),
                    time_limit=args.seconds / (len(SOLVERS) * SEEDS))
    if not table.interrupted:
        _add_kmeans(table, problem, X)
    if len(table):
        _show(table)
    if table.interrupted:
        say("Interrupted: the table holds the runs that were done.")
        return INTERRUPTED
    _small(least_squares, X)
    if not args.no_plot:
        _draw(table, folder / "mmcopt-demo.png")
    say("", "Next: mmcopt describe, mmcopt solve iris --kernel gaussian:width=0.5, mmcopt --help")
    return SOLVER_FAILED if table.failures else DONE


def _minimise(problem: Any) -> str:
    label, text, _ = problem.statement().rows[0]
    return f"{label}  " + text.replace("\n", "\n" + " " * (len(label) + 4))


def _add_kmeans(table: Comparison, problem: Any, X: Any) -> None:
    from sklearn.cluster import KMeans

    started = time.perf_counter()
    model: Any = KMeans
    labels = model(2, n_init=10, random_state=0).fit_predict(X)
    seconds = time.perf_counter() - started  # its own, without the bound
    table.add("k-means (evaluated)", evaluate(problem, labels), seconds)


def _show(table: Comparison) -> None:
    say("")
    show_table(table.summary(), table.shown())
    say(*table.notes())
    best = table.best(NAME)
    if best is None or best.lower_bound is None:
        return
    say(f"What the bound means: of all 2^{best.formulation.n} labellings none has an objective "
        f"below {best.lower_bound:.4g}.",
        "That is proved by a certificate which result.verify() checks again without any solver"
        f" ({'it holds' if best.verify() else 'it FAILS'}).",
        f"So the optimum lies between {best.lower_bound:.4g} and {best.objective:.6g}; solvers "
        "and k-means are judged by the same objective.",
        "ARI compares with the true digits (1 = equal); no solver has seen them.")


def _small(least_squares: Any, X: Any) -> None:
    """Solve a dozen images to proved optimality."""
    few = least_squares(X[:12], 2, kernel=Gaussian(width=0.5), lam=0.1)
    result = whole(solve(few, "BruteForce"))
    checked = "checked again and true" if result.verify() else "but the check FAILS"
    say("", f"Twelve of the images are few enough to try all {2**11} splits (BruteForce): the best "
        f"has objective {result.objective:.6g},",
        f"bound {result.lower_bound:.6g}, so the gap is closed: {result.status}, {checked}.")


def _draw(table: Comparison, path: pathlib.Path) -> None:
    """Draw the best clusters beside the race; without matplotlib say how to get it."""
    try:
        import matplotlib
    except ImportError:
        say("", "For a picture: pip install 'mmcopt[plot]', and run the demo again.")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    best = table.best(NAME)
    if best is None:
        raise BackendError("no solver found labels to draw.")
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.6), layout="constrained")
    best.plot(ax=axes[0])
    table.plot("time", ax=axes[1])
    axes[1].set_title(f"thick: median of {SEEDS} runs; thin: each of them", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    say("", f"Picture: {path} (the best clusters, and the race of the solvers)")
