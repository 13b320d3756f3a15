"""Label search on a sparse W: the lists of neighbours in the place of its rows."""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import Sparse
from mmcopt.types import Floats

GRAPH_FROM = 200  # nodes from which lists are shorter work than rows,
DENSITY = 0.1  # where no more than this share of the entries is there


def on_graph(lq: LabelQuadratic) -> bool:
    """Whether W is a graph to be searched by its lists: nodes of one weight, nothing kept apart."""
    if "on graph" not in lq._memo:
        lq._memo["on graph"] = lq.n >= GRAPH_FROM and isinstance(lq.matrix, Sparse) \
            and lq.matrix.count <= DENSITY * lq.n**2 and bool(lq.rules().plain)
    return bool(lq._memo["on graph"])


def searched(lq: LabelQuadratic) -> tuple[ModuleType, Any, Any]:
    """The loops for a problem, and W and the rules as they take them."""
    from mmcopt.compiled import label_moves

    if not on_graph(lq):
        return label_moves, lq.matrix.dense(lq.dtype), lq.rules()
    return by_lists(lq)


def by_lists(lq: LabelQuadratic) -> tuple[ModuleType, Any, Any]:
    """The same for a sparse W of nodes of one weight, however small and dense it is."""
    from mmcopt.compiled import graph_moves

    if "lists" not in lq._memo:
        ptr, neighbours, values = cast(Sparse, lq.matrix).lists(lq.dtype)
        diagonal = lq.matrix.diagonal().astype(lq.dtype)
        lq._memo["lists"] = (graph_moves.Adjacency(ptr, neighbours, values, diagonal),
                             graph_moves.Bounds(lq.low, lq.high, lq.fixed))
    lists, bounds = lq._memo["lists"]
    return graph_moves, lists, bounds


def two_free_sides(lq: LabelQuadratic) -> bool:
    """Whether nodes of a graph searched by its lists may change sides freely, but given ones."""
    return on_graph(lq) and lq.k == 2 and lq.any_sizes


def entries(lq: LabelQuadratic) -> int:
    """The entries of W that a pass over all nodes may read."""
    return lq.matrix.count + lq.n * lq.k if on_graph(lq) else lq.n * lq.n


def row_squares(lq: LabelQuadratic) -> Floats:
    """The sum of the squares of each row of W."""
    if on_graph(lq):
        A = searched(lq)[1]
        return np.add.reduceat(np.append(A.values, 0.0) ** 2, A.ptr[:-1]) * (np.diff(A.ptr) > 0)
    W = lq.matrix.dense(lq.dtype)
    return np.einsum("ij,ij->i", W, W)


def toy_graph(dtype: Any) -> LabelQuadratic:
    """A ring, just long enough that it is searched by its lists."""
    from scipy.sparse import diags_array

    ring = diags_array([1.0, 1.0], offsets=[1, GRAPH_FROM - 1], shape=(GRAPH_FROM, GRAPH_FROM))
    return LabelQuadratic((ring + ring.T).tocsr(), k=2, single=dtype == np.float32)
