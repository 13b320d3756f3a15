"""The kernel of a graph of nearest neighbours: alike is what short steps lead to."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmcopt.checks import is_sparse
from mmcopt.errors import DataError
from mmcopt.kernels.data import Data, chunks, squares
from mmcopt.kernels.descriptions import Neighbors, fits
from mmcopt.kernels.fitted import FittedKernel
from mmcopt.linalg import spd_inverse

Array = NDArray[np.float64]
Index = NDArray[np.int64]
TREES = 15  # features up to which a k-d tree finds neighbours faster than all distances do
DENSE = 5000  # distinct rows up to which the kernel is a matrix
DIRECTIONS, PARTS = 100, 500  # leading directions of it beyond, and at most so many parts
WIDE = 50  # principal components in which large data look for neighbours
SCALE = 7  # the neighbour whose distance is the scale of a row
FAINT = 1e-200  # weight of the faintest edge, which leaves its end all but alone


@fits(Neighbors)
class _Diffusion(FittedKernel):
    """(I + t L)^-1 over the distinct rows, as a matrix or by its leading eigenvectors.

    Copies of a row are one node. A new row is the mean of its neighbours in the graph, weighted by
    how near they are (Shepard's rule), so that a training row is itself.
    """

    def __init__(self, kernel: Any, data: Data) -> None:
        super().__init__(kernel, data)
        first, self._node = distinct(data.X)
        if len(first) < 2:
            raise DataError(f"{data.owner}: all rows are identical, so none has a neighbour.")
        self.explicit = len(first) > DENSE
        self._unit = max(float(abs(self._about(data.X[s:t])).max()) for s, t in chunks(data.n))
        self._axes: Array | None = None
        if self.explicit and data.d > WIDE:
            self._axes = self._components()
        self._points = _stacked([self._placed(data.X[first[s:t]]) for s, t in chunks(len(first))])
        self._count = min(kernel.n_neighbors, len(first) - 1)
        self._first, (self._M, self._degree, self._scale) = first, self._graph()
        self._K, self._Phi = np.empty((0, 0)), np.empty((0, 0))
        if self.explicit:
            self._Phi = directions(self._M, self._degree, kernel.t, data.owner)
        else:
            identity = np.eye(len(first))
            self._K = spd_inverse((1.0 + kernel.t) * identity - kernel.t * self._M.toarray())

    def cut(self, labels: Any) -> float:
        """The mean share of the edges of a cluster, by weight, that leave it: 0 of separate parts.

        It is the normalised cut over the number of clusters; copies count once.
        """
        which = np.unique(np.asarray(labels)[self._first], return_inverse=True)[1]
        Z = np.eye(int(which.max()) + 1)[which] * np.sqrt(self._degree)[:, None]
        inside, all_of = np.sum(Z * (self._M @ Z), axis=0), squares(Z.T)
        return float(1.0 - np.mean(inside / all_of))

    def _about(self, A: Any) -> Any:
        """Rows about their mean; sparse ones as they are."""
        return A.astype(np.float64) if self._data.sparse \
            else np.asarray(A, dtype=np.float64) - self._data.mean

    def _placed(self, A: Any) -> Any:
        """Rows about their mean, in units of the largest entry, or their leading components."""
        P = self._about(A) / self._unit
        return P if self._axes is None else np.asarray(P @ self._axes)

    def _components(self) -> Array:
        """The leading principal components; of sparse rows singular vectors, about no mean."""
        data = self._data
        if data.sparse:
            from scipy.sparse.linalg import svds

            v0 = np.random.default_rng(0).standard_normal(min(data.n, data.d))
            return np.asarray(svds(self._placed(data.X), k=WIDE, v0=v0)[2].T)
        scatter = np.zeros((data.d, data.d))
        for s, t in chunks(data.n):
            P = self._placed(data.X[s:t])
            scatter += P.T @ P
        return np.asarray(np.linalg.eigh(scatter)[1][:, -WIDE:])

    def _graph(self) -> tuple[Any, Array, Array]:
        """D^-1/2 W D^-1/2 of the graph, sparse, the degrees D, and the scale of each node."""
        from scipy.sparse import csr_array, diags_array

        m = self._points.shape[0]
        near = nearest(self._points, self._points, self._count + 1)
        others = near != np.arange(m)[:, None]
        others[others.all(axis=1), -1] = False  # nodes so close that it is not its own nearest
        near = near[others].reshape(m, self._count)
        apart = self._lengths(self._points, near)
        scale = np.sort(apart, axis=1)[:, min(SCALE, self._count) - 1]
        weights = self._weights(apart, scale, scale[near])
        start = np.arange(0, near.size + 1, self._count)
        W = csr_array((weights.ravel(), near.ravel(), start), shape=(m, m))
        W = W.maximum(W.T)
        degree = np.asarray(W.sum(axis=1))
        root = diags_array(1.0 / np.sqrt(degree))
        return (root @ W @ root).tocsr(), degree, scale

    def _lengths(self, Q: Any, near: Index) -> Array:
        """Distances of rows to some nodes."""
        return np.stack([np.sqrt(squares(Q - self._points[near[:, a]]))
                         for a in range(near.shape[1])], axis=1)

    def _weights(self, apart: Array, scale: Array, scales: Array) -> Array:
        """Weights of edges of such lengths, between rows and nodes of such scales."""
        if cast(Neighbors, self.kernel).weights == "binary":
            return np.ones_like(apart)
        tiny = np.finfo(float).tiny
        with np.errstate(over="ignore"):  # far apart is faint
            powers = (apart / np.maximum(scale, tiny)[:, None]) * (apart / np.maximum(scales, tiny))
        return np.maximum(np.exp(-powers), FAINT)

    def _means(self, A: Any) -> Any:
        """New rows as means of nodes, one sparse row each."""
        from scipy.sparse import csr_array

        Q = self._placed(A)
        near = nearest(self._points, Q, self._count)
        apart = self._lengths(Q, near)
        scale = np.sort(apart, axis=1)[:, min(SCALE, self._count) - 1]
        least = apart.min(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            P = self._weights(apart, scale, self._scale[near]) * (least / apart) ** 2
        P = np.where(least > 0.0, P, apart == 0.0)
        P /= P.sum(axis=1, keepdims=True)
        start = np.arange(0, near.size + 1, self._count)
        shape = Q.shape[0], self._points.shape[0]
        return csr_array((P.ravel(), near.ravel(), start), shape=shape)

    def matrix(self) -> Array:
        if self.explicit:
            return super().matrix()
        return self._K[np.ix_(self._node, self._node)]

    def rows(self, index: Any, columns: Any = slice(None)) -> Array:
        i, j = self._node[index], self._node[columns]
        return self._Phi[i] @ self._Phi[j].T if self.explicit else self._K[np.ix_(i, j)]

    def diagonal(self) -> Array:
        own = squares(self._Phi) if self.explicit else np.diagonal(self._K)
        return np.asarray(own[self._node])

    def _features(self) -> Array:
        return self._Phi[self._node]

    def _map(self, A: Any) -> Any:
        return self._means(A) @ self._Phi

    def _own(self, A: Any) -> Array:
        if self.explicit:
            return super()._own(A)
        out = np.empty(A.shape[0])
        for s, t in chunks(A.shape[0]):
            P = self._means(A[s:t])
            out[s:t] = np.asarray(P.multiply(P @ self._K).sum(axis=1)).ravel()
        return out

    def _cross(self, A: Any, R: Any, own: bool) -> Array:
        columns = self._node[R]
        if own:
            return self._K[np.ix_(columns[:A.shape[0]], columns)]
        out = np.empty((A.shape[0], len(columns)))
        for s, t in chunks(A.shape[0]):
            out[s:t] = (self._means(A[s:t]) @ self._K)[:, columns]
        return out


def distinct(X: Any) -> tuple[Index, Index]:
    """The first of each set of equal rows, in order, and the place of every row among these."""
    if is_sparse(X):
        return _distinct_sparse(X)
    X = np.ascontiguousarray(X + 0 if X.dtype.kind == "f" else X)  # of -0 and 0 one
    rows = X.view(np.dtype((np.void, X.itemsize * X.shape[1]))).ravel()
    first, node = np.unique(rows, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[node]


def _distinct_sparse(X: Any) -> tuple[Index, Index]:
    """The same of sparse rows, whose entries may be in any order, and may be zeros."""
    X = X.tocsr().copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    places: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    node = np.empty(X.shape[0], dtype=np.int64)
    for i, (a, b) in enumerate(itertools.pairwise(X.indptr)):
        node[i] = places.setdefault((X.indices[a:b].tobytes(), X.data[a:b].tobytes()), len(places))
        if node[i] == len(first):
            first.append(i)
    return np.array(first, dtype=np.int64), node


def _stacked(blocks: list[Any]) -> Any:
    """Blocks of rows, dense or sparse, below one another."""
    if not is_sparse(blocks[0]):
        return np.vstack(blocks)
    from scipy.sparse import vstack

    return vstack(blocks, format="csr")


def nearest(P: Any, queries: Any, k: int = 1) -> Index:
    """The k nearest of the points P, dense or sparse, to each query, (m, k)."""
    k = min(k, P.shape[0])
    if P.shape[1] <= TREES and not is_sparse(P):
        from scipy.spatial import cKDTree

        return np.asarray(cKDTree(P).query(queries, k=np.arange(1, k + 1))[1], dtype=np.int64)
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(P)
    return np.asarray(model.kneighbors(queries, return_distance=False), dtype=np.int64)


def directions(M: Any, degree: Array, t: float, owner: str) -> Array:
    """The leading directions of (I + t (I - M))^-1, M = D^-1/2 W D^-1/2, as a factor of it.

    Each part of the graph has one of eigenvalue 1, which is D^1/2 there. Lanczos' method, which
    finds one vector of several that have the same eigenvalue, works on M with these moved to -1.
    """
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import LinearOperator, eigsh

    m = M.shape[0]
    count, part = connected_components(M, directed=False)
    if count > PARTS:
        raise DataError(f"{owner}: the graph of neighbours falls into {count} parts; ask for more "
                        f"neighbours, or for binary weights (at most {PARTS} parts).")
    rng = np.random.default_rng(0)
    known = np.zeros((m, count))
    known[np.arange(m), part] = np.sqrt(degree / np.bincount(part, weights=degree)[part])
    w, V = np.ones(count), known
    more = min(DIRECTIONS, m - 1) - count
    if more > 0:
        rest = LinearOperator((m, m), dtype=float,
                              matvec=lambda v: M @ v - 2.0 * (known @ (known.T @ v)))
        v0 = rng.standard_normal(m)
        found, vectors = eigsh(rest, k=more, which="LA", v0=v0, ncv=min(m, 5 * more // 2 + 20),
                               tol=1e-10)
        w, V = np.append(w, found[::-1]), np.hstack([V, vectors[:, ::-1]])
    V *= np.where(rng.standard_normal(m) @ V < 0.0, -1.0, 1.0)  # whatever signs they came with
    return np.asarray(V / np.sqrt(1.0 + t * np.maximum(1.0 - w, 0.0)))
