"""Other people's methods as rows of a comparison: k-means, spectral, mixtures, Ward, OneClassSVM.

Clusterings look at the samples and not at the problem, whose objective judges them afterwards;
OneClassSVM solves a problem of ours by other names (`mmcopt.comparing.one_class`). Their seconds
are those of scikit-learn alone; within a budget, where the objective says which start is the best,
to judge each start counts as well.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from mmcopt.bounds.certificates import evaluate
from mmcopt.capabilities import ConvexProgram
from mmcopt.checks import choice, is_sparse
from mmcopt.comparing import one_class
from mmcopt.compiled.compiling import clock
from mmcopt.errors import BackendError
from mmcopt.linalg import one_thread
from mmcopt.modeling.result import History, Result, Status
from mmcopt.registry import find, solvers
from mmcopt.solving.checkpoints import Place
from mmcopt.solving.executors import Signal
from mmcopt.types import Ints, RowBlocks, Seed

STARTS = 10  # of k-means and of mixtures where no budget asks for restarts
WAKING = 50  # samples that are clustered before the clock
NEIGHBORS = 10  # of each sample in the graph of spectral clustering
# Labels (of OneClassSVM the point), a row of the history for each start (or fit), and whether a
# signal to stop cut them short.
Found: TypeAlias = tuple[Any, list[Any], bool]
# What scikit-learn calls it, where it lives, and whether it reads sparse samples.
BASELINES: dict[str, tuple[str, str, bool]] = {
    "kmeans": ("KMeans", "sklearn.cluster", True),
    "spectral": ("SpectralClustering", "sklearn.cluster", True),
    "gmm": ("GaussianMixture", "sklearn.mixture", False),
    "ward": ("AgglomerativeClustering", "sklearn.cluster", False),
    "oneclasssvm": ("OneClassSVM", "sklearn.svm", False),
}
DOMAIN = "oneclasssvm"  # the one that solves a problem


def baseline_named(name: str) -> Baseline | None:
    """The baseline of a name, "k-means" or "kmeans", or None where that is a solver's."""
    short = name.lower().replace("-", "")
    if short in BASELINES:
        return Baseline(short)
    find(name, {**solvers(), **BASELINES}, "solver")
    return None


@dataclass(frozen=True)
class Baseline:
    """A method of scikit-learn, to stand beside solvers in `mmcopt.compare`.

    Parameters
    ----------
    name : "kmeans", "spectral", "gmm", "ward" or "oneclasssvm"
        "kmeans" and "gmm" (a Gaussian mixture) take the best of ten starts by their own criterion;
        "spectral" cuts the graph of ten nearest neighbours; "ward" merges clusters and never
        draws. Within a budget those that draw are restarted from one start each, and the problem's
        objective says which is best, at their expense. "oneclasssvm" solves `OneClassHinge`: it is
        fitted for one nu after another until its domain is that of our C, and all fits count.
    """

    name: str

    def __post_init__(self) -> None:
        choice(*BASELINES).check("Baseline", "name", self.name)

    def __str__(self) -> str:
        return self.name

    @property
    def draws(self) -> bool:
        """Whether another seed can make a difference."""
        return self.name not in ("ward", DOMAIN)

    def refuses(self, f: Any) -> str | None:
        """Why it cannot cluster what ``f`` is about, in one clause; None when it can."""
        if self.name == DOMAIN:
            return one_class.refuses(f)
        if f.offer(ConvexProgram) is not None:
            return f"it clusters samples, and this {type(f).__name__} is convex: it asks for none."
        vectors = None if isinstance(getattr(f, "X", None), RowBlocks) else f.embedding()
        if vectors is None:
            return "it needs the samples as vectors in memory, which this " \
                   f"{type(f).__name__} does not have."
        if is_sparse(vectors) and not BASELINES[self.name][2]:
            return "it takes no sparse samples; kmeans and spectral do."
        return None

    def prepare(self, f: Any) -> None:
        """Cluster a few samples, since to import and to wake scikit-learn takes seconds."""
        if self.name == DOMAIN:
            one_class.wake()
            return
        with contextlib.suppress(BackendError):  # the run says so, if it fails there, too
            self._labels(f.embedding()[:max(WAKING, f.n_clusters)], f.n_clusters, 0, 1)

    def solve(self, f: Any, seed: Seed, budget: float | None, stop: Signal | None = None,
              place: Place | None = None) -> Result:
        """Cluster once, or until the budget is spent; the labels as a result of ``f``.

        A signal to stop leaves the best so far. What has come to its end is kept at a place.
        """
        if place is None:
            return self._judged(f, *self.search(f, seed, budget, stop))
        key = f"{place.key} | {f.fingerprint} | {budget}"
        return self._judged(f, *place.file.kept(
            key, lambda: self.search(f, seed, budget, stop), whole=lambda found: not found[2]))

    def search(self, f: Any, seed: Seed, budget: float | None,
               stop: Signal | None = None) -> Found:
        """The labels of the lowest objective, of those that keep the rules if any do.

        In the history ``best`` is infinite where the rules are broken. Ctrl-C before the first
        labels is raised.
        """
        stop = stop or threading.Event()
        self.prepare(f)  # where another process runs it, too, and before the clock
        if self.name == DOMAIN:
            looking = one_class.Search(f, stop)
            looking.run()
            return looking.point, looking.rows, looking.cut
        rng, vectors = np.random.default_rng(seed), f.embedding()
        labels, best, spent = np.zeros(f.n, dtype=np.int64), np.inf, 0.0
        rows: list[Any] = []
        while not rows or (budget is not None and spent < budget and self.draws):
            if rows and stop.is_set():
                return labels, rows, True
            try:
                started = clock()
                found = self._labels(vectors, f.n_clusters, int(rng.integers(2**31)),
                                     STARTS if budget is None else 1)
                taken = clock() - started
                judged = evaluate(f, found, bound=False)
                spent += taken if budget is None else clock() - started
            except KeyboardInterrupt:
                if not rows:
                    raise
                return labels, rows, True
            value = judged.objective if judged.feasible else np.inf
            if value < best or not rows:
                labels, best = found, value
            rows.append({"restart": len(rows), "seconds": spent, "iteration": 1,
                         "objective": judged.objective, "best": value})
        return labels, rows, False

    def _judged(self, f: Any, found: Any, rows: list[Any], interrupted: bool) -> Result:
        """Labels or a point, and their history as a result, with a bound."""
        status = Status.INTERRUPTED if interrupted else Status.CONVERGED
        result = one_class.judged(f, found) if self.name == DOMAIN else evaluate(f, found)
        return replace(result, solver=str(self), status=status, message="",
                       history=History(rows),
                       timing={"begin": float(rows[-1]["seconds"])}).closing()

    def _labels(self, vectors: Any, k: int, seed: int, starts: int) -> Ints:
        """One clustering; what scikit-learn warns of concerns its own criterion."""
        with one_thread, one_thread.openmp_here(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = self._model(k, seed, starts, vectors.shape[0]).fit_predict(vectors)
            except (ValueError, np.linalg.LinAlgError) as e:
                raise BackendError(f"{BASELINES[self.name][0]} of scikit-learn gave up: {e}") from e
        return np.asarray(found, dtype=np.int64)

    def _model(self, k: int, seed: int, starts: int, n: int = 2) -> Any:
        """The estimator of scikit-learn."""
        import importlib

        name, module, _ = BASELINES[self.name]
        options: dict[str, dict[str, Any]] = {
            "kmeans": {"n_clusters": k, "n_init": starts, "random_state": seed},
            "spectral": {"n_clusters": k, "affinity": "nearest_neighbors", "random_state": seed,
                         "n_neighbors": min(NEIGHBORS, n)},
            "gmm": {"n_components": k, "n_init": starts, "random_state": seed},
            "ward": {"n_clusters": k, "linkage": "ward"},
        }
        return getattr(importlib.import_module(module), name)(**options[self.name])
