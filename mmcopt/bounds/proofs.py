"""Trees of branch and bound as a reader wants them: what each node decides, and how it ends.

>>> import mmcopt as mm
>>> X, y = mm.datasets.load("gaussians:n=16,distance=3,seed=0")
>>> result = mm.solve(mm.formulations.LeastSquares(X, lam=0.5), "BranchAndBound", seed=0)
>>> proof_tree(result).nodes[0].text
'all labelings'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.class_tree import ClassTree, labels_of
from mmcopt.bounds.decision_tree import Decision, covering, families, folded, leaf_bound
from mmcopt.bounds.margin_tree import margin_proof
from mmcopt.bounds.sign_tree import SignTree
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.errors import DataError, MMCError
from mmcopt.modeling.result import MALFORMED, Result
from mmcopt.tolerances import CERTIFIED_GAP


@dataclass(frozen=True)
class Node:
    """A node of the tree: the labelings that agree with all decisions on the way to it.

    ``bound`` is at most the objective of each of them, and infinite when there are none; ``end``
    says what became of the node.
    """

    parent: int
    depth: int
    text: str
    bound: float
    end: str
    children: tuple[int, ...]


@dataclass(frozen=True)
class ProofTree:
    """All nodes, the root first; printed, one line a node with its children indented below."""

    nodes: tuple[Node, ...]
    objective: float
    lower_bound: float

    @property
    def leaves(self) -> list[int]:
        """Leaves from left to right, as they are printed."""
        return [v for v, _ in self._walk() if not self.nodes[v].children]

    @property
    def statement(self) -> str:
        """What the tree proves, in words."""
        share = (self.objective - self.lower_bound) / max(abs(self.objective), 1e-10)
        leaves = self.leaves
        open_ones = sum(not _shut(self.nodes[v].bound, self.objective) for v in leaves)
        return (f"No labels have an objective below {_rounded(self.lower_bound, math.floor)}. "
                f"Those found have at most {_rounded(self.objective, math.ceil)}: they cannot be "
                f"improved by more than {_rounded(100 * max(share, 0.0), math.ceil, 2)} %. All "
                f"labelings are in one of {len(leaves)} leaves, of which {open_ones} may hold "
                "better ones, or have a label that was ruled out on the way to one.")

    def _walk(self) -> list[tuple[int, str]]:
        """Nodes in the order of printing, each with what stands in front of it."""
        out, stack = [], [(0, "", "")]
        while stack:
            v, before, below = stack.pop()
            out.append((v, before))
            kids = self.nodes[v].children
            for i, child in reversed(list(enumerate(kids))):
                last = i == len(kids) - 1
                stack.append((child, below + ("`- " if last else "|- "),
                              below + ("   " if last else "|  ")))
        return out

    def __str__(self) -> str:
        rows = [(before + self.nodes[v].text, self.nodes[v]) for v, before in self._walk()]
        width = max(len(text) for text, _ in rows)
        lines = [f"{text:<{width}}  {_number(node.bound):>10}  {node.end}" for text, node in rows]
        head = f"{'labelings in which':<{width}}  {'bound':>10}"
        return "\n".join([head, *lines])


def _shut(bound: float, objective: float) -> bool:
    """Whether a bound is near enough an objective, or above it."""
    return bound >= objective - CERTIFIED_GAP * abs(objective)


def _number(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.6g}"


def _rounded(value: float, to: Callable[[float], int], digits: int = 6) -> str:
    """A number of so many digits that is no larger, or no smaller, than what it stands for."""
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{to(value * 10.0**places) / 10.0**places:.{digits}g}"


def proof_tree(result: Result) -> ProofTree:
    """Read the tree in the certificate of a result; its bounds are computed anew from the duals."""
    try:
        return _read(result)
    except MALFORMED as e:
        if isinstance(e, MMCError):
            raise
        raise DataError("the tree of this result does not belong to its problem "
                        f"({type(e).__name__}: {e}); verify() says what is wrong.") from e


def _read(result: Result) -> ProofTree:
    c, f = result.certificate, result.formulation
    if c is not None and c.kind == "margin-tree":
        return _margin_tree(result, c.duals)
    lq = f.offer(LabelProblem)
    if c is None or c.kind != "branch-and-bound" or lq is None:
        raise DataError("this result has no tree: its certificate is "
                        f"{'missing' if c is None else repr(c.kind)}. BranchAndBound and "
                        "MarginTree make one, and result.certify(time_limit=...) does where it "
                        "gets to branching.")
    parent, duals = [int(p) for p in c.duals["parent"]], list(c.duals["duals"])
    pairs, same = np.asarray(c.duals["pair"]).reshape(-1, 2), [bool(s) for s in c.duals["same"]]
    names = _node_names(lq)
    children = families(parent)
    paths: list[list[Decision]] = [[]]
    texts = ["all labelings"]
    for v, p in enumerate(parent[1:], start=1):
        i, j = map(int, pairs[v])
        paths.append([*paths[p], (i, j, same[v])])
        texts.append(f"{names[i]} and {names[j]} {'together' if same[v] else 'apart'}")
    sound = covering(children, [(int(i), int(j)) for i, j in pairs], same)
    bounds = _bounds(lq, parent, sound, paths, duals)
    nodes = [Node(parent[v], len(paths[v]), texts[v], bounds[v],
                  _end(result, bounds[v], duals[v], bool(sound[v])) if sound[v] == children[v]
                  else "its children do not cover it", tuple(children[v]))
             for v in range(len(parent))]
    return ProofTree(tuple(nodes), result.objective, bounds[0])


def _node_names(lq: LabelProblem) -> list[str]:
    """Of each node its first point, or the label that one without a point has."""
    names = [f"label {label}" for label in lq.fixed]
    groups = np.arange(lq.n) if lq.groups is None else np.asarray(lq.groups)
    for node, point in zip(*np.unique(groups, return_index=True), strict=True):
        names[node] = str(point)
    return names


def _margin_tree(result: Result, duals: dict[str, Any]) -> ProofTree:
    """A tree over the labels of a margin problem; of two, class 0 is where w'x is above 0."""
    proof = margin_proof(result.formulation, duals)
    tree, counts = proof.tree, proof.tree.counts()
    several = tree if isinstance(tree, ClassTree) else None
    nodes: list[Node] = []
    for v, kids in enumerate(tree.families):
        above = int(tree.parent[v])
        depth = nodes[above].depth + 1 if v else 0
        text = f"{tree.sample[v]} in class {_class(tree, v)}"
        if several is not None and v and tree.sign[v] > several.highest(above):
            text = f"{tree.sample[v]} in a new class, {_class(tree, v)}"
        if not v:
            text = f"all labelings, {text} by symmetry"
        free = int((tree.final[v] == 0).sum() if several is None
                   else (labels_of(tree.final[v]) < 0).sum())
        bound = proof.bounds[v]
        closed = _shut(bound, result.objective)
        end = "split" if kids else "none is better" if closed else "open"
        what = "labels follow" if several is None else "classes are ruled out"
        end += f"; {counts[v]} {what}, {free} are free" if counts[v] else ""
        nodes.append(Node(above, depth, text, bound, end, tuple(kids)))
    return ProofTree(tuple(nodes), result.objective, proof.bounds[0])


def _class(tree: SignTree | ClassTree, v: int) -> int:
    """The class that a branch gives its sample."""
    return int(tree.sign[v]) if isinstance(tree, ClassTree) else 0 if tree.sign[v] > 0 else 1


def _bounds(lq: LabelProblem, parent: list[int], children: list[list[int]],
            paths: list[list[Decision]], duals: list[Any]) -> list[float]:
    """What is known of each node: by its own duals, by those above it, or by its children."""
    bounds = [-math.inf if given is None else leaf_bound(lq, path, given)
              for path, given in zip(paths, duals, strict=True)]
    for v in range(1, len(parent)):  # parents come before their children
        bounds[v] = max(bounds[v], bounds[parent[v]])
    bounds = [lq.safe(bound) for bound in folded(children, bounds)]
    return [lq.raised(b) for b in bounds] if isinstance(lq, LabelQuadratic) else bounds


def _end(result: Result, bound: float, duals: Any, split: bool) -> str:
    """What became of a node, in a word or two."""
    if split:
        return "split"
    if bound == math.inf:
        return "no labeling is left"
    if duals is not None and "enumerated" in duals:
        return "all of them tried"
    return "none is better" if _shut(bound, result.objective) else "open"
