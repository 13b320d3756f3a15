"""Choosing parameters and partitions without labels.

Objectives of different kernels or lambdas have different units, so *across* cells of a grid they
must never be compared; what helps there is how much a partition agrees with those of the other
cells (`most_central`), or with itself over restarts (`stability`). *Within* one cell the lowest
objective is the best guide there is (`lowest`). None of these is the truth: on data whose clusters
differ widely in size, or have no margin in the kernel, all criteria can agree on a wrong partition.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelProblem
from mmcopt.checks import integer, known_keywords
from mmcopt.errors import DataError, MMCWarning, ParameterError
from mmcopt.metrics import adjusted_rand_index
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Result
from mmcopt.solving import solve, whole


def some(owner: str, name: str, values: Any) -> None:
    """Refuse what is no list of at least one."""
    if not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise ParameterError(f"{owner}: {name} must be a list of at least one; got {values!r}.")


def lowest(results: Sequence[Result]) -> Result:
    """The feasible result with the lowest objective, of results for one and the same problem."""
    some("lowest", "results", results)
    if len({r.formulation.fingerprint for r in results}) != 1:
        raise DataError("lowest compares objectives, which only results for one problem share; "
                        "across problems use most_central.")
    return min(results, key=lambda r: (not r.feasible, r.objective))


def centrality(partitions: Sequence[Any]) -> NDArray[np.float64]:
    """Mean adjusted Rand index of each partition to all others; 1 for a single one."""
    m = len(partitions)
    agreement = np.ones((m, m))
    for i in range(m):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = adjusted_rand_index(partitions[i], partitions[j])
    return np.ones(1) if m == 1 else (agreement.sum(axis=1) - 1.0) / (m - 1)


def most_central(results: Sequence[Result]) -> Result:
    """The result whose partition agrees most with those of all others, whatever their problems.

    ``results`` may be a list, a path, or a `Grid`.

    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("iris")
    >>> cells = mm.selection.path(mm.formulations.LeastSquares(X, 3), seed=0)
    >>> round(mm.metrics.adjusted_rand_index(y, most_central(cells).labels), 1)
    0.9
    """
    some("most_central", "results", results)
    scores = centrality([r.labels for r in results])
    return results[int(np.argmax(scores))]


@known_keywords
def stability(problem: Formulation, given: Any = "Tabu", *, runs: int = 6, seed: int = 0) -> float:
    """Mean agreement (adjusted Rand index) between independent runs of a solver on a problem."""
    integer(2).check("stability", "runs", runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MMCWarning)  # no answer comes of it
        labels = [whole(solve(problem, given, seed=seed + i)).labels for i in range(runs)]
    return float(np.mean(centrality(labels)))


@known_keywords
def objective_ratio(result: Result, *, draws: int = 20, seed: int = 0) -> float:
    """Objective over the mean objective of random feasible labels: small where structure is."""
    integer(1).check("objective_ratio", "draws", draws)
    f = result.formulation
    lq = f.offer(LabelProblem)
    if lq is None:
        raise DataError(f"objective_ratio needs LabelQuadratic, which {type(f).__name__} does not "
                        "offer.")
    rng = np.random.default_rng(seed)
    return result.objective / float(np.mean([lq.value(lq.random_labels(rng))
                                             for _ in range(draws)]))
