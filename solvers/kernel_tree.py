"""Branch and bound on the labels of two classes in several kernels: proofs of optimality."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.margin_metric import sample_rows
from mmcopt.capabilities import Capability, CutRisk, KernelMargin
from mmcopt.checks import hyper, real
from mmcopt.solvers.margin_tree import LARGEST, MarginTree, Tree, planted
from mmcopt.types import Floats

LEAST_P = 1.1  # below, the norm of the squares of kernels is too near to their maximum to climb


@dataclass(frozen=True, kw_only=True)
class KernelTree(MarginTree):
    """Prove that labels of two classes have the largest margin in several kernels at once.

    As `MarginTree`, with the machine on the labelled samples alone as the bound of a node (no g),
    its dual minimised over the weights of the kernels: see `mmcopt.bounds.kernel_tree`. Nodes are
    many where C is small. Weights of |s|_p <= 1 with p of 1.1 and more, or p = 1, where the norm is
    a maximum, and sweeps at fixed weights of the kernels go by turns with moves of these.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=30,distance=3,seed=0")
    >>> result = mm.solve(mm.formulations.MKC(X, C=30), "KernelTree", seed=0)
    >>> result.status.name, bool(result.verify())
    ('CERTIFIED', True)
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (KernelMargin, CutRisk)

    dive: float = hyper(0.5, real(0, 1), "share of what is missing within which it goes deep first")

    def refuses(self, f: Any) -> str | None:
        margin = f.offer(KernelMargin)
        if margin is None or margin.least > 1:
            return (f"it needs KernelMargin, which this {type(f).__name__} does not offer: a hinge "
                    "problem of several kernels, without an active balance or a floor on sizes.")
        if margin.k != 2:
            return f"its tree is over labels of two classes, and there are {margin.k}."
        if 1.0 < margin.p < LEAST_P:
            return (f"it needs weights of |s|_p <= 1 with p = 1 or p >= {LEAST_P}, and p is "
                    f"{margin.p:g}.")
        if margin.parts[0].n > LARGEST:
            return f"it keeps dense matrices of {margin.parts[0].n} samples; use certify instead."
        return None

    def kernels(self, f: Any) -> int:
        return len(f.offer(KernelMargin).parts)

    def root(self, f: Any, rng: np.random.Generator, duals: Any = None) -> Tree:
        margin = f.offer(KernelMargin)
        rows = [sample_rows(part) for part in margin.parts]
        return planted(rows, margin.beta / 4.0, np.zeros(len(rows[0])),
                       math.inf if margin.p == 1.0 else margin.p / (margin.p - 1.0), margin.scale)

    def scores(self, f: Any, point: Any) -> Floats:
        risk = f.offer(CutRisk)
        T = np.asarray(risk.features.scores(risk.weights(point)))
        return np.asarray(T[:, 0] - T[:, 1])

    def point(self, f: Any, tree: Tree) -> Any:
        margin, risk = f.offer(KernelMargin), f.offer(CutRisk)
        half = np.hstack([s * part.sums(tree.u[None, :] / margin.beta)
                          for s, part in zip(tree.weight, margin.parts, strict=True)])
        W = np.concatenate([half, -half])
        return risk.point(W, np.argmax(risk.features.scores(W), axis=1))
