"""Trees of decisions "these nodes share a cluster, or do not", and the bound that a tree proves.

Each decision gives two smaller label problems whose union is the first: merged nodes are a
contraction, separated ones a cannot-link. A tree is a certificate when every leaf has one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar, cast

import numpy as np

from mmcopt.bounds import enumeration, ratio_lift
from mmcopt.bounds.label_lift import NO_SETS, SIGNS, Duals, Lift, binary_lift, partition_lift
from mmcopt.bounds.ratio_lift import RatioLift
from mmcopt.capabilities import LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.errors import InfeasibleError
from mmcopt.types import Ints

Decision = tuple[int, int, bool]  # nodes i, j of the problem, and whether they share a cluster
Problem = TypeVar("Problem", bound=LabelProblem)
ENUMERATED = 20_000  # labelings up to which a leaf may be proved by trying all of them


def lift_of(lq: LabelProblem) -> Lift | RatioLift:
    """The tightest lift there is, with cuts: of labels Y for two clusters, M - J/k for more."""
    if isinstance(lq, LabelRatio):
        return dataclasses.replace(ratio_lift.ratio_lift(lq), cuts=True)
    lq = cast(LabelQuadratic, lq)
    lift = binary_lift(lq) if lq.k == 2 else partition_lift(lq)
    return dataclasses.replace(lift, cuts=True, odd=lift.binary)


def decided(lq: Problem, decisions: list[Decision]) -> Problem:
    """The problem with some decisions taken; InfeasibleError when they contradict one another."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    together = np.array([(i, j) for i, j, same in decisions if same], dtype=np.int64).reshape(-1, 2)
    apart = np.array([(i, j) for i, j, same in decisions if not same], np.int64).reshape(-1, 2)
    if len(apart):
        lq = dataclasses.replace(lq, const=lq.constant, apart=np.concatenate([lq.apart, apart]))
    if not len(together):
        return dataclasses.replace(lq, groups=np.arange(lq.n))
    links = csr_matrix((np.ones(len(together)), together.T), shape=(lq.n, lq.n))
    groups = np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)
    small = lq.contract(groups)
    if small.n < small.least_nodes or small.weights.max() > small.high.max():
        raise InfeasibleError("the decisions leave no labeling.")
    return small


def leaf_bound(lq: LabelProblem, decisions: list[Decision], duals: Duals) -> float:
    """The bound of a node by itself: infinite when it is empty, by enumeration, or by duals."""
    try:
        small = decided(lq, decisions)
        if "enumerated" in duals:
            return enumeration.lower(small, ENUMERATED)
        return lift_of(small).lower(duals)
    except InfeasibleError:
        return math.inf


def tree_bound(lq: LabelProblem, tree: dict[str, Any]) -> float:
    """The bound of a tree: of each node the better of its own bound and its children's smaller one.

    ``parent`` (-1 for the root), ``pair`` and ``same`` say what was decided on the way into a node,
    ``duals`` prove its own bound (None: it has none). A node has two children, which decide one
    pair differently, or none; anything else proves nothing.
    """
    parent = [int(p) for p in tree["parent"]]
    pairs = [(int(i), int(j)) for i, j in np.asarray(tree["pair"]).reshape(-1, 2)]
    same = [bool(s) for s in tree["same"]]
    duals = list(tree["duals"])
    if not (len(parent) == len(pairs) == len(same) == len(duals)) \
            or not all(0 <= i < lq.n for pair in pairs[1:] for i in pair):
        raise ValueError("the tree is malformed")
    children = families(parent)
    paths: list[list[Decision]] = [[]]
    for v in range(1, len(parent)):
        paths.append([*paths[parent[v]], (*pairs[v], same[v])])
    own = [-math.inf if given is None else leaf_bound(lq, path, given)
           for path, given in zip(paths, duals, strict=True)]
    return folded(covering(children, pairs, same), own)[0]


def covering(children: list[list[int]], pairs: list[tuple[int, int]],
             same: list[bool]) -> list[list[int]]:
    """The children that cover their parent: two, which decide one pair differently, or none."""
    def covers(a: int, b: int) -> bool:
        return set(pairs[a]) == set(pairs[b]) and len(set(pairs[a])) == 2 and same[a] != same[b]

    return [kids if len(kids) == 2 and covers(*kids) else [] for kids in children]


def families(parent: list[int]) -> list[list[int]]:
    """The children of each node of a tree whose parents come before their children."""
    if not parent or parent[0] != -1:
        raise ValueError("the tree is malformed")
    children: list[list[int]] = [[] for _ in parent]
    for v, above in enumerate(parent[1:], start=1):
        if not 0 <= above < v:
            raise ValueError("the tree is malformed")
        children[above].append(v)
    return children


def folded(children: list[list[int]], own: list[float], closing: list[float] | None = None,
           beside: list[float] | None = None) -> list[float]:
    """Bounds of all nodes from their leaves up, where children cover their parent.

    A node has the better of its ``own`` bound and of the least of what it is made of: what was
    split off ``beside`` it, and the rest, which its children or a bound of its end (``closing``)
    cover.
    """
    bound = list(own)
    for v in reversed(range(len(children))):
        rest = -math.inf if closing is None else closing[v]
        if children[v]:
            rest = max(rest, min(bound[child] for child in children[v]))
        bound[v] = max(bound[v], rest if beside is None else min(rest, beside[v]))
    return bound


# ---------------------------------------------------------------- duals of children


def inherited(parent: Lift | RatioLift, child: Lift | RatioLift, duals: Duals) -> Duals:
    """Duals of the child that prove about what the parent's prove, where S becomes B'SB.

    Of label quadratics, cuts on merged nodes become trivial; what they add to the diagonal goes
    into u.
    """
    if isinstance(parent, RatioLift) or isinstance(child, RatioLift):
        return ratio_lift.inherited(cast(RatioLift, parent), cast(RatioLift, child), duals)
    first = np.unique(parent.groups, return_index=True)[1]  # both map the same nodes
    place = child.groups[first]
    sign = child.signs[first] * parent.signs[first]
    out: Duals = {"t": duals["t"], "u": np.bincount(place, weights=duals["u"], minlength=child.m)}
    if child.bounded:
        N = np.zeros((child.m, child.m))
        np.add.at(N, (place[:, None], place[None, :]), np.asarray(duals["N"]))
        out["u"] -= np.diagonal(N)
        np.fill_diagonal(N, 0.0)
        out["N"] = N
        for name in ("up", "down"):
            out[name] = np.bincount(place, weights=duals[name], minlength=child.m)
        known = {frozenset(place[p]): v
                 for p, v in zip(parent.pairs, duals["pairs"], strict=True)}
        out["pairs"] = np.array([known.get(frozenset(p), 0.0) for p in child.pairs])
    _inherit_cuts(out, duals, place, sign, child)
    return out


def _inherit_cuts(out: Duals, duals: Duals, place: Ints, sign: Any, child: Lift) -> None:
    t, q, g = duals["triangles"], duals["cliques"], np.asarray(duals["g"])
    odd = np.asarray(duals.get("odd", NO_SETS))
    g, of_sets = np.split(g, [len(t) + len(q)])
    nodes, turn = place[t[:, :3]], sign[t[:, :3]]
    signs = SIGNS[t[:, 3]] * np.column_stack([turn[:, 0] * turn[:, 1], turn[:, 0] * turn[:, 2],
                                              turn[:, 1] * turn[:, 2]])
    # The pattern of the other nodes' signs names the type again.
    kind = np.argmax((signs[:, None, :] == SIGNS[None]).all(axis=2), axis=1)
    alike = np.column_stack([nodes[:, 0] == nodes[:, 1], nodes[:, 0] == nodes[:, 2],
                             nodes[:, 1] == nodes[:, 2]])
    merged = alike.any(axis=1)
    trivial = merged & ((signs * alike).sum(axis=1) == 1) & (alike.sum(axis=1) == 1)
    at = nodes[np.arange(len(t)), np.where(alike[:, 2], 1, 0)] if len(t) else nodes[:, 0]
    out["u"] += np.bincount(at[trivial], weights=g[:len(t)][trivial], minlength=child.m)
    rows = np.column_stack([nodes, kind])[~merged]
    kept = [g[:len(t)][~merged]]
    cliques = place[q] if len(q) else q
    if len(q):
        ordered = np.sort(cliques, axis=1)
        whole = (np.diff(ordered, axis=1) > 0).all(axis=1)
        cliques = ordered[whole]
        kept.append(g[len(t):][whole])
    at = np.abs(odd) - 1  # what becomes of an odd set is one again, perhaps with a node twice
    out.update(triangles=rows, cliques=cliques, g=np.concatenate([*kept, of_sets]),
               odd=np.sign(odd) * sign[at].astype(np.int64) * (place[at] + 1))
