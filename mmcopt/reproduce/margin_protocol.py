"""What the tables of CPM3C and MKC share: fits, k-means, and what a printed entry cannot be."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.checks import is_sparse
from mmcopt.metrics import purity, rand_index
from mmcopt.modeling.result import Status
from mmcopt.reproduce.protocol import kept, load
from mmcopt.reproduce.sgd_lmsvc import rand_limits
from mmcopt.reproduce.tables import Figure, PaperTable
from mmcopt.solving import run
from mmcopt.solving.checkpoints import fingerprint
from mmcopt.types import Ints

BETA = 0.02
BETAS = (0.01, 0.02, 0.05, 0.1)  # from which the true classes choose in the starred column
FLOOR = 0.8  # share of n / k that each class keeps, for three classes and more
STEPS = 200  # cuts of a fit at most
IMPOSSIBLE, SINGLE = "!", "~"
DIGITS = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)  # samples of each digit
HALVES = (1, 1)  # stands for classes of equal size, not known or many: the mildest limits
SMALLEST = 350  # samples of a pair of digits, where sizes are not given
KM = "KM"


@dataclass(frozen=True)
class Fits:
    """All starts of one problem: labels and objective of each, and CPU seconds."""

    labels: list[Ints]
    values: list[float]
    features: float  # seconds for the features, which all starts share
    seconds: list[float]  # of each start, k-means included where it begins there
    limited: int  # starts that ended at the limit of steps
    point: Any  # of the lowest objective

    @property
    def best(self) -> Ints:
        """The labels of the lowest objective."""
        return self.labels[int(np.argmin(self.values))]

    @property
    def one(self) -> float:
        """CPU seconds of one fit, its features included."""
        return self.features + float(np.mean(self.seconds))

    @property
    def all(self) -> float:
        """CPU seconds of all starts."""
        return self.features + float(np.sum(self.seconds))


def fits(problem: Any, starts: int) -> Fits:
    """Run the cutting planes from several starts: random ones for two dense classes, else k-means.

    Sparse rows are clustered as they are, others in the features of the problem.
    """
    return kept(f"fits {problem.fingerprint} {starts}", lambda: _fits(problem, starts))


def _fits(problem: Any, starts: int) -> Fits:
    solver = registry.solver("CuttingPlane")()
    began = time.thread_time()
    solver.prepare(problem)
    built = time.thread_time() - began
    named = problem.n_clusters > 2 or is_sparse(problem.X)
    rows = problem.X if is_sparse(problem.X) or not named else problem.embedding()
    runs, seconds = [], []
    for seed in range(starts):
        began = time.thread_time()
        start = problem.from_labels(kmeans_labels(rows, problem.n_clusters, seed, "k-means++")) \
            if named else None
        rng = np.random.default_rng(seed)
        runs.append(run(solver, problem, start, rng, max_iter=STEPS))
        seconds.append(time.thread_time() - began)
    lowest = min(runs, key=lambda r: r.value)
    return Fits([problem.labels(r.point) for r in runs], [r.value for r in runs], built, seconds,
                sum(r.status is not Status.CONVERGED for r in runs), lowest.point)


def floor(k: int) -> float:
    """The size floor of a problem: none for two classes."""
    return FLOOR if k > 2 else 0.0


def kmeans_labels(X: Any, k: int, seed: int, init: str) -> Ints:
    """k-means from one start, as scikit-learn draws it."""
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, init=init, n_init=1, random_state=seed).fit(X).labels_,
                      dtype=np.int64)


def kmeans(X: Any, y: Any, runs: int) -> tuple[Figure, Figure, float]:
    """Mean accuracy and Rand index of k-means from random centres; seconds of KMeans(n_init=10)."""
    return kept(f"k-means {fingerprint(X)} {runs}", lambda: _kmeans_figures(X, y, runs))


def _kmeans_figures(X: Any, y: Any, runs: int) -> tuple[Figure, Figure, float]:
    from sklearn.cluster import KMeans

    k = int(y.max()) + 1
    found = np.array([score(y, kmeans_labels(X, k, seed, "random")) for seed in range(runs)])
    began = time.thread_time()
    KMeans(k, n_init=10, random_state=0).fit(X)
    seconds = time.thread_time() - began
    mean, sd = found.mean(axis=0), found.std(axis=0)
    return Figure(float(mean[0]), float(sd[0])), Figure(float(mean[1]), float(sd[1])), seconds


def score(y: Any, labels: Any) -> tuple[float, float]:
    """Per cent of samples in the majority class of their cluster, as both papers count; Rand."""
    return 100.0 * purity(y, labels), rand_index(y, labels)


def load_text(name: str) -> Any:
    """A text set as `load` gives it, its counts turned into sublinear tf-idf, or why it is not."""
    from sklearn.feature_extraction.text import TfidfTransformer

    data = load(name)
    if isinstance(data, str):
        return data
    return TfidfTransformer(sublinear_tf=True).fit_transform(data[0]), data[1]


@functools.cache
def warm(make: tuple[Callable[..., Any], ...]) -> None:
    """Compile every loop before anything is timed, once in a process."""
    from scipy.sparse import csr_array

    X = np.random.default_rng(0).standard_normal((30, 3))
    kmeans_labels(X, 2, 0, "random")
    for one in make:
        fits(one(X, 2), 1)
        fits(one(X, 3, size_floor=FLOOR), 1)
    registry.solver("CuttingPlane")().prepare(registry.formulation("CPM3C")(csr_array(X), 2))


# ---------------------------------------------------------------- what is printed


def two_class_rand(accuracy: float, n: float = np.inf) -> float:
    """The Rand index of a single clustering into two, of two classes: accuracy decides it.

    A pair agrees when both samples are labelled rightly or both wrongly.
    """
    return 1.0 - 2.0 * accuracy * (1.0 - accuracy) * (1.0 if n == np.inf else n / (n - 1.0))


def impossible(accuracy: str, rand: str, sizes: Sequence[int]) -> tuple[str, str]:
    """Why no runs have the printed accuracy (per cent), and why none have the printed Rand index.

    Figures may be rounded or cut, and may be means over runs. For two classes a run of accuracy a
    has the Rand index `two_class_rand`, which is convex, unless both clusters have the same
    majority: then a is the share s of the largest class, the least there is, and the Rand index
    at least that of chance. Means lie in the convex hull of these. For more classes there are the
    limits of `mmcopt.reproduce.sgd_lmsvc.rand_limits`: the upper one, concave in accuracy, holds
    for means; of the lower ones only that of all clusterings is used.
    """
    n, share = float(sum(sizes)), max(sizes) / sum(sizes)
    known = n > sum(HALVES)
    value, slack = float(accuracy) / 100.0, _unit(accuracy) / 100.0
    printed, unit = float(rand), _unit(rand)
    why = ["", ""]
    if value + slack <= share - 1e-12:
        why[0] = (f"the largest class holds {100 * share:.1f} % of the samples, which is what a "
                  "single cluster gets, and splitting clusters never lowers it")
    a, b = max(share, value - slack), min(1.0, value + slack)
    low, high = 0.0, 1.0
    if why[0]:
        low = rand_limits(sizes)[0] if known else 0.0
    elif len(sizes) == 2:
        low, high = _two_class_limits(a, b, share, n if known else SMALLEST)
    else:
        low, high = rand_limits(sizes)[0], rand_limits(sizes, a, b)[1]
    if printed + unit <= low:
        why[1] = f"at accuracy {accuracy} it is at least {low:.3f}"
    elif printed - unit >= high:
        why[1] = f"at accuracy {accuracy} it is at most {high:.3f}"
    return why[0], why[1]


def _two_class_limits(low: float, high: float, share: float, n: float) -> tuple[float, float]:
    """Limits of a mean Rand index when the mean accuracy is between ``low`` and ``high``."""
    chance = two_class_rand(0.5, n)
    t = min(1.0, max(low, 2.0 * share - 0.5))  # where the line from (share, chance) is a tangent
    slope = (two_class_rand(t, n) - chance) / (t - share) if t > share else 0.0
    return chance + slope * (low - share), 1.0 - 2.0 * share * (1.0 - high)


def _unit(text: str) -> float:
    return 10.0 ** -len(text.partition(".")[2])


def printed(first: PaperTable, second: PaperTable, columns: Sequence[str],
            rows: Mapping[str, tuple[str, str]],
            sizes: Mapping[str, Sequence[int]]) -> list[str]:
    """Fill in the accuracies and Rand indices of a paper; a note on each that is impossible."""
    notes = []
    for name, (accuracies, rands) in rows.items():
        for column, a, r in zip(columns, accuracies.split(), rands.split(), strict=True):
            if a == "-":
                continue
            why = impossible(a, r, sizes[name]) if name in sizes else ("", "")
            for table, text, reason in ((first, a, why[0]), (second, r, why[1])):
                table.paper.setdefault(name, {})[column] = Figure(
                    float(text), mark=IMPOSSIBLE if reason else "")
                if reason:
                    title = table.title.partition(" (")[0]
                    notes.append(f"{IMPOSSIBLE} {name}, {column}, {title} {text}: {reason}.")
    return notes


def mark(table: PaperTable, row: str, column: str, sign: str) -> None:
    """Put a mark behind a printed figure."""
    table.paper[row][column] = replace(table.paper[row][column], mark=sign)


def not_single(rows: Mapping[str, tuple[str, str]], columns: Sequence[str], own: Sequence[str],
               sizes: Mapping[str, Sequence[int]]) -> str:
    """The entries of a paper's own methods whose Rand index is not that of a single run."""
    found = []
    for name, (accuracies, rands) in rows.items():
        if len(sizes.get(name, ())) != 2 or sum(sizes[name]) <= sum(HALVES):
            continue
        n = float(sum(sizes[name]))
        for column, a, r in zip(columns, accuracies.split(), rands.split(), strict=True):
            if column not in own or a == "-":
                continue
            value = two_class_rand(float(a) / 100.0, n)
            if abs(value - float(r)) > 1.2 * _unit(r):
                found.append(f"{name} {column} {a} and {r} (a single run: {value:.3f})")
    return ("For two classes the accuracy of a single clustering gives its Rand index. These are "
            "possible only as means over runs, which the paper does not mention: "
            + "; ".join(found) + ".")


def protocol(starts: int) -> list[str]:
    """What both papers' runs have in common here."""
    return [
        "Figures of ours without a star are those of the LOWEST OBJECTIVE over "
        f"{starts} starts (fewer for MNIST, see 'starts'): nothing is chosen by accuracy. "
        "Features centred and of mean square 1, which makes the papers' balance l hold by itself; "
        "random starts for two classes, k-means starts (KMeans(n_init=1)) otherwise and for text.",
        f"For three classes and more each class keeps {FLOOR:g} n / k samples (size_floor): OUR "
        "addition, not the paper's, whose balance does not keep a class from losing all samples; "
        "it uses no labels, but it helps where classes are of equal size.",
        f"CuttingPlane(), epsilon = .01, 3 masters a step, at most {STEPS} cuts; 'at limit' counts "
        "starts that ended there. Against 100 masters a step the lowest of 20 random starts was "
        "lower on 26 of 28 two-class cells (7 sets x 4 beta, one tie); with k-means starts the two "
        "differ little.",
        "Accuracy is the share of samples in the majority class of their cluster, as the papers "
        "count. 'mean of starts' is the mean accuracy over all starts: what a single one gives.",
        f"{KM}: k-means from random centres, mean and deviation over single runs, as the paper.",
        f"{IMPOSSIBLE} marks entries that no runs can have, single or averaged, rounded or cut; "
        f"{SINGLE} accuracies that one cluster of all samples has too:",
    ]
