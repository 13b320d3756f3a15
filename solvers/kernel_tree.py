"""Branch and bound on the labels of two classes in several kernels: proofs of optimality."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.kernel_tree import most_weight
from mmcopt.bounds.margin_metric import MarginMetric, sample_rows
from mmcopt.bounds.weight_lift import psi
from mmcopt.capabilities import Capability, CutRisk, KernelMargin
from mmcopt.checks import hyper, real
from mmcopt.linalg import UNIT
from mmcopt.solvers.margin_tree import LARGEST, MarginTree, Tree, planted
from mmcopt.solving.runs import out_of_time, seconds_left
from mmcopt.types import Floats

# Of the g of the root: the weight of its barrier at first and at last, relative, and the factor by
# which it falls; Newton steps at each weight, at most.
HEAVY, LIGHT, LIGHTER, CENTRINGS = 10.0, 1e-3, 0.2, 200
SHORTEST = 1e-8  # step, relative
AT_MOST = 0.3  # of the time that is left, for the g of the root
LEAST_P = 1.1  # below, the norm of the squares of kernels is too near to their maximum to climb


@dataclass(frozen=True, kw_only=True)
class KernelTree(MarginTree):
    """Prove that labels of two classes have the largest margin in several kernels at once.

    As `MarginTree`, with an S of each kernel, all of the same g, and the dual of a node minimised
    over the weights of the kernels: see `mmcopt.bounds.kernel_tree`. Weights of |s|_p <= 1 with p
    of 1.1 and more, or p = 1, where the norm is a maximum, and sweeps at fixed weights of the
    kernels go by turns with moves of these.

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
        rows, c = [sample_rows(part) for part in margin.parts], margin.beta / 4.0
        spread = most_weight(len(rows), margin.p)
        if duals is not None:
            g = np.array(duals["g"], dtype=np.float64)
        else:
            g = self.share * common_g(rows, c, spread)
            while not all(MarginMetric(X, c, spread * g).definite for X in rows):
                g = 0.5 * g
        return planted(rows, c, g, math.inf if margin.p == 1.0 else margin.p / (margin.p - 1.0),
                       margin.scale, spread=spread)

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


def common_g(rows: list[Floats], c: float, spread: float) -> Floats:
    """About the g of largest mean psi for which the S of all kernels are positive definite.

    Newton's method on mean psi plus a barrier of falling weight: log det of every S, and log g. It
    takes a share of the time that is left at most.
    """
    n, left = len(rows[0]), seconds_left()
    toll = spread / n
    g = np.full(n, 0.5 * c / toll / max(float(np.linalg.norm(X, 2)) ** 2 for X in rows))
    unit = float(psi(g).mean()) / sum(X.shape[1] for X in rows)
    weight = HEAVY * unit
    value = _barred(rows, c, toll, g, weight)
    while weight > LIGHT * unit:
        for _ in range(CENTRINGS):
            if out_of_time() or (left < math.inf and seconds_left() <= (1.0 - AT_MOST) * left):
                return g
            step, rise = _newton(rows, c, toll, g, weight)
            length = min(1.0, 0.99 / max(float(np.max(-step)), 1e-300)) if rise > 0.0 else 0.0
            while length > SHORTEST:
                new = _barred(rows, c, toll, g * (1.0 + length * step), weight)
                if new > value:
                    break
                length *= 0.5
            if length <= SHORTEST:
                break
            g, value = g * (1.0 + length * step), new
            if rise < weight:
                break
        weight *= LIGHTER
        value = _barred(rows, c, toll, g, weight)
    return g


def _barred(rows: list[Floats], c: float, toll: float, g: Floats, weight: float) -> float:
    """Mean psi with its barrier."""
    total = float(np.log(g).sum())
    for X in rows:
        try:
            L = np.linalg.cholesky(c * np.eye(X.shape[1]) - X.T @ (toll * g[:, None] * X))
        except np.linalg.LinAlgError:
            return -math.inf
        total += 2.0 * float(np.log(np.diagonal(L)).sum())
    return float(psi(g).mean()) + weight * total


def _newton(rows: list[Floats], c: float, toll: float, g: Floats,
            weight: float) -> tuple[Floats, float]:
    """The step from g, relative to it, and what it promises: 0 where rounding leaves none."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    n, curved = len(g), g > 0.5
    slope = np.where(curved, 0.25 / g, g) / n + weight
    H = np.diag(np.where(curved, 0.5 / g, 0.0) / n + weight * (1.0 + n * UNIT))
    taken = toll * g
    try:
        for X in rows:
            S = c * np.eye(X.shape[1]) - X.T @ (taken[:, None] * X)
            K = taken[:, None] * (X @ np.linalg.solve(S, X.T))
            slope -= weight * np.diagonal(K)
            H += weight * K * K.T
        step = np.asarray(cho_solve(cho_factor(H), slope))
    except (LinAlgError, ValueError):
        return np.zeros(n), 0.0
    return step, float(slope @ step)
