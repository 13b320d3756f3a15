"""Starts of a solve: random, k-means, spectral, a relaxation, somebody's labels, another result."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import LabelProblem, LabelQuadratic, LabelRatio, LiftedMargin
from mmcopt.checks import is_sparse
from mmcopt.errors import ParameterError
from mmcopt.linalg import one_thread
from mmcopt.modeling.result import Result
from mmcopt.solving.pairing import resolve_solver
from mmcopt.solving.runs import run
from mmcopt.solving.solver import Proved
from mmcopt.types import Ints


def starting_point(f: Any, init: Any, rng: np.random.Generator) -> Any:
    """Turn the ``init`` of `mmcopt.solve` into a point of ``f``, or None for a random start."""
    if init is None or (isinstance(init, str) and init == "random"):
        return None
    if isinstance(init, Proved):
        return init
    if isinstance(init, Result):
        if init.formulation.fingerprint == f.fingerprint:
            return init.point
        if init.labels is None:
            raise ParameterError("init: this result has no labels to start from.")
        return f.from_labels(f.coded_labels(init.formulation.labels(init.point)))
    if isinstance(init, str):
        if init == "kmeans":
            return f.from_labels(kmeans_labels(f, rng))
        if init == "spectral":
            return f.from_labels(spectral_labels(f, rng))
        if init == "sdp":
            return f.from_labels(relaxed_labels(f))
        raise _no_start(init)
    if isinstance(init, Mapping) and isinstance(f, Relaxation):
        return init  # duals, of this relaxation or of one near it
    if isinstance(init, Mapping | Set | bytes) or callable(init):
        raise _no_start(init)
    return f.from_labels(f.coded_labels(init)) if f.means_labels(init) else f.as_point(init)


def _no_start(init: Any) -> ParameterError:
    return ParameterError("init must be 'random', 'kmeans', 'spectral', 'sdp', a Result, labels "
                          f"or a point; got {init!r}.")


def not_again(caution: str, init: Any) -> str:
    """A caution without the advice to begin as was begun."""
    begun = isinstance(init, str) and init == "kmeans"
    return caution.replace(", or start from init='kmeans'", "") if begun else caution


def _cluster(vectors: NDArray[Any], k: int, rng: np.random.Generator) -> Ints:
    from sklearn.cluster import KMeans

    model = KMeans(k, n_init=1, random_state=int(rng.integers(2**31)))
    # Its threads add up their sums in the order in which they finish.
    with one_thread, one_thread.openmp_here():
        return np.asarray(model.fit(vectors).labels_, dtype=np.int64)


def kmeans_labels(f: Any, rng: np.random.Generator) -> Ints:
    """k-means on the data, or on the leading eigenvectors when there are only kernel values."""
    vectors = f.embedding()
    if vectors is None:
        return spectral_labels(f, rng)
    return _cluster(vectors, f.n_clusters, rng)


def spectral_labels(f: Any, rng: np.random.Generator) -> Ints:
    """k-means on the k leading eigenvectors, scaled by the roots of their eigenvalues.

    They are those of W for label problems, of the Gram matrix of the features for others.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    lq, k = f.offer(LabelProblem), f.n_clusters
    if lq is None:
        vectors = f.embedding()
        if vectors is None:
            raise ParameterError("init='spectral' needs LabelQuadratic or features, which "
                                 f"{type(f).__name__} does not offer; use 'random'.")
        n, product, dense = f.n, lambda v: vectors @ (vectors.T @ v), None
        if n <= max(2 * k + 1, 50):
            dense = (vectors @ vectors.T).toarray() if is_sparse(vectors) else vectors @ vectors.T
    else:
        n, product = lq.matrix.n, lambda v: lq.matrix @ v
        dense = lq.matrix.dense() if n <= max(2 * k + 1, 50) else None
    if dense is not None:
        values, leading = np.linalg.eigh(dense)
    else:
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        v0 = rng.standard_normal(n)
        values, leading = eigsh(operator, k=k, which="LA", v0=v0, tol=1e-4)
    top = np.argsort(-values)[:k]
    c = _cluster(leading[:, top] * np.sqrt(np.maximum(values[top], 0.0)), k, rng)
    return c if lq is None else lq.expand(c)


def relaxed_labels(f: Any) -> Ints:
    """Labels rounded from the semidefinite relaxation without cuts."""
    if f.offer(LabelRatio) is not None:
        relaxed = f.relax("peng-wei")
    elif f.offer(LabelQuadratic) is not None:
        relaxed = f.relax("sdp" if f.n_clusters == 2 else "partition")
    else:
        relaxed = f.relax("lifted" if f.offer(LiftedMargin) is not None else "mkc")
    solver = resolve_solver(None, relaxed)
    solver.prepare(relaxed)
    found = run(solver, relaxed, None, np.random.default_rng(0), max_iter=40)
    return np.asarray(relaxed.labels(found.point))
