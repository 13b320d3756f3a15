"""The methods that papers set beside their own: normalised cuts, relaxed margins, iterative SVR.

Each is made of our own parts, by the rules that the papers state for it. Where one cannot be had a
word stands in its place, and `WORDS` explains it.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.checks import is_sparse
from mmcopt.kernels import Gaussian
from mmcopt.metrics import purity
from mmcopt.reproduce.margin_protocol import kmeans_labels
from mmcopt.reproduce.protocol import kept
from mmcopt.reproduce.tables import Figure, PaperTable, figures_of
from mmcopt.solving import run, solve, whole
from mmcopt.solving.checkpoints import fingerprint
from mmcopt.types import Floats, Ints

LARGE, BINARY, FULL, FEW = "large", "two", "full", "few"
WORDS = {
    LARGE: "its matrices are too large at this size: those of GMC and MMC are of all features, of "
           "MMC for more than two classes of all pairs of samples, of NC and SVR a kernel.",
    BINARY: "it is for two classes only.",
    FULL: "it takes minutes, and stands in the full form only.",
    FEW: "at this size fewer cells or runs were tried than it is chosen from.",
}
WIDTHS = tuple(i / 10 for i in range(1, 11))  # sigma over the largest distance, as in the papers
LIFTED, FEATURES = 2500, 100  # samples and features of the largest relaxation
SAMPLES = 5000  # of the largest kernel matrix
RIDGE, TUNING = 1.0, 5  # lam of iterative SVR, and its runs at each width


@dataclass(frozen=True)
class Effort:
    """How much is run of each method; ``conic`` is how many samples GMC has at most."""

    widths: tuple[float, ...] = WIDTHS
    runs: int = 50
    conic: int = 2500


QUICK = Effort(widths=(0.2, 0.5, 1.0), runs=3, conic=400)


@dataclass(frozen=True)
class Rival:
    """The labels of each run, the CPU seconds of one, and whether the classes chose its width."""

    labels: list[Ints] = field(default_factory=list)
    seconds: float = math.nan
    chosen: bool = False
    width: float = math.nan
    word: str = ""  # why there are none

    def figure(self, measure: Callable[[Ints], float]) -> Figure:
        """Mean and deviation of the runs, or the word."""
        if self.word:
            return Figure.absent(self.word)
        values = [measure(labels) for labels in self.labels]
        sd = float(np.std(values)) if len(values) > 1 else None
        return Figure(float(np.mean(values)), sd, labels=self.chosen)

    def time(self) -> Figure:
        """The seconds, or the word."""
        return Figure.absent(self.word) if self.word else Figure(self.seconds)


def averaged(figures: Sequence[Figure]) -> Figure:
    """The mean of the figures of several sets; the word of the first that has one."""
    if len(figures) == 1:
        return figures[0]
    word = next((f.word for f in figures if f.word), "")
    if word:
        return Figure.absent(word)
    return Figure(float(np.mean([f.value for f in figures])), labels=any(f.labels for f in figures))


# ---------------------------------------------------------------- the methods


def normalized_cut(X: Any, y: Any, effort: Effort) -> Rival:
    """Spectral clustering of the Gaussian similarities, the width of the highest accuracy."""
    if X.shape[0] > SAMPLES:
        return Rival(word=LARGE)
    return kept(f"NC {fingerprint(X)} {effort.widths}", lambda: _widest(
        y, effort.widths, functools.partial(_cut, X, int(y.max()) + 1)))


def _cut(X: Any, k: int, width: float) -> list[Ints]:
    from sklearn.cluster import SpectralClustering

    K = _gaussian(width).fit(X).matrix()
    model = SpectralClustering(k, affinity="precomputed", random_state=0)
    return [np.asarray(model.fit(K).labels_, dtype=np.int64)]


def iterative_svr(X: Any, y: Any, effort: Effort) -> Rival:
    """`Alternating` from k-means labels, the width of the highest mean accuracy of a few runs."""
    if int(y.max()) > 1:
        return Rival(word=BINARY)
    if X.shape[0] > SAMPLES:
        return Rival(word=LARGE)
    def found() -> Rival:
        few = min(effort.runs, TUNING)
        best = _widest(y, effort.widths, functools.partial(_regressions, X, few))
        return best if few == effort.runs else _timed(
            best.width, functools.partial(_regressions, X, effort.runs))

    return kept(f"SVR {fingerprint(X)} {effort.widths} {effort.runs}", found)


def _regressions(X: Any, runs: int, width: float) -> list[Ints]:
    problem = registry.formulation("LeastSquares")(X, 2, kernel=_gaussian(width), lam=RIDGE)
    solver = registry.solver("Alternating")(loss="epsilon-insensitive", tol=0.01, polish=False)
    solver.prepare(problem)
    starts = [kmeans_labels(X, 2, seed, "random") for seed in range(runs)]
    return [run(solver, problem, start, np.random.default_rng(seed)).point
            for seed, start in enumerate(starts)]


def _gaussian(width: float) -> Gaussian:
    """exp(-d^2 / (2 sigma^2)) of a sigma relative to the largest distance."""
    return Gaussian(width=math.sqrt(2.0) * width)


def _widest(y: Any, widths: Sequence[float], at: Callable[[float], list[Ints]]) -> Rival:
    """The runs at the width of the highest mean accuracy; true classes choose it."""
    found = [_timed(width, at) for width in widths]
    return max(found, key=lambda r: r.figure(functools.partial(purity, y)).value)


def _timed(width: float, at: Callable[[float], list[Ints]]) -> Rival:
    """The runs at a width, and the mean seconds of one."""
    began = time.thread_time()
    labels = at(width)
    return Rival(labels, (time.thread_time() - began) / len(labels), chosen=True, width=width)


def relaxed_margin(problem: Any, kind: str, effort: Effort) -> Rival:
    """Labels rounded from a relaxation of a `CPM3C` problem: "mmc" or "gmmc"."""
    if (kind == "mmc" and problem.n_clusters > 2) or is_sparse(problem.X) \
            or problem.X.shape[1] > FEATURES or problem.n > LIFTED:
        return Rival(word=LARGE)
    if kind == "gmmc" and problem.n > effort.conic:
        return Rival(word=FULL)
    return kept(f"{kind} {problem.fingerprint}", lambda: _rounded(problem, kind))


def _rounded(problem: Any, kind: str) -> Rival:
    began = time.thread_time()
    if kind == "mmc":
        relaxation, point = problem.relax(kind), signs_lifted(problem)
    else:  # a slack of 1 is the paper's: no bound, but its rule
        relaxation = problem.relax(kind, slack=1.0)
        solver = registry.solver("Conic")("SCS", tol=1e-4)
        point = whole(solve(relaxation, solver, seed=0, bound=False)).point
    return Rival([relaxation.recover(point)], time.thread_time() - began)


def signs_lifted(problem: Any) -> Floats:
    """An optimum Y of relax("mmc"), by that of relax("lifted"), which has the same value.

    With V of the latter, ``h_i = V x_i / sqrt(x_i'Vx_i)`` and ``Y_ij = x_i'Vx_j / sqrt(x_i'Vx_i
    x_j'Vx_j)`` make [[V, H], [H', Y]] psd, and every margin x_i'h_i is the lifted one.
    """
    lifted = problem.relax("lifted")
    U = lifted.lift.vectors(whole(solve(lifted, seed=0, bound=False)).point)
    U = U / np.maximum(np.linalg.norm(U, axis=1), 1e-300)[:, None]
    return np.asarray(U @ U.T)


# ---------------------------------------------------------------- what notes say


def notes(effort: Effort, tables: Sequence[PaperTable]) -> list[str]:
    """How the methods of some tables were run, and what the words mean that stand in them."""
    columns = {c for t in tables for c in t.used()}
    words = {f.word for f in figures_of(tables)}
    widths = ", ".join(f"{w:g}" for w in effort.widths)
    told = {
        "NC": "normalised cut, spectral clustering of the similarities exp(-d^2 / (2 sigma^2)), "
              f"sigma in {{{widths}}} of the largest distance, the one of the highest accuracy "
              "(labels used): the papers' exhaustive search.",
        "MMC": "relax('mmc') of CPM3C, solved as relax('lifted'), which has the same value, and "
               "rounded by its leading eigenvectors; one beta, no labels used. For more classes "
               "than two the paper's is relax('xu-schuurmans'), terabytes at 700 samples.",
        "GMC": "relax('gmmc', slack=1) of CPM3C, rounded in the same way; Conic('SCS'), one beta, "
               "no labels used.",
        "SVR": "iterative SVR, Alternating(loss='epsilon-insensitive', tol=.01, polish=False) on "
               f"LeastSquares of lam = {RIDGE:g}, the kernel that of NC, its sigma chosen in the "
               "same way, from k-means with random centres; mean and deviation over "
               f"{effort.runs} runs. lam and tol were picked once, for all sets, with accuracies "
               "in view.",
    }
    told |= {"GMMC": told["GMC"], "IterSVR": told["SVR"]}
    return [*(f"{name}: {text}" for name, text in told.items() if name in columns),
            *(f"'{word}': {text}" for word, text in WORDS.items() if word in words)]
