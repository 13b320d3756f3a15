"""Capabilities of margins between classes: their risk by cuts or samples, lifted, or refitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities.base import Capability
from mmcopt.capabilities.convex import Subgradient
from mmcopt.kernels.features import Features
from mmcopt.margins import MarginLoss
from mmcopt.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class MarginRisk(Subgradient):
    """Minimise ``beta/2 |W|^2 + mean of l(t1 - t2)`` over W (k, d), without constraints.

    t1 >= t2 are the two largest of a sample's scores, its features times W. A point is W.
    """

    features: Features
    k: int
    beta: float
    loss: MarginLoss


@dataclass(frozen=True, eq=False)
class LiftedMargin(Capability):
    """Minimise ``beta/2 |W|^2 + mean of max(0, 1 - (t1 - t2))``, or more than that, over W (k, d).

    t1 >= t2 are the two largest of a sample's scores t = Wx, s the sum of all features, and
    ``|(w_p - w_q)'s| <= limit`` for all pairs. What a psd matrix needs to know: centring the rows
    of W changes no margin and no difference, and lowers the norm. Then t sums to 0, and as t1
    exceeds the mean of the others by t1 - t2 at least, ``|t|^2 >= t1^2 k/(k-1) >= (t1 - t2)^2
    (k-1)/k``. So V = k/(k-1) sum_p w_p w_p' has ``(t1 - t2)^2 <= x'Vx``, ``|W|^2 = (k-1)/k tr V``,
    and ``s'Vs <= limit^2 floor(k^2/4)/(k-1)``, since numbers of sum 0 in an interval of that length
    have the largest squares with half of them at each end. For k = 2 all of these are equalities.

    Any problem whose points have ``weights(point)``, and an objective of this or more, may offer
    it. Labels that are read off a relaxation have ``least`` samples in each class.
    """

    features: Features
    k: int
    beta: float
    limit: float | None = None
    weights: Callable[[Any], Floats] = np.asarray
    least: int = 1


@dataclass(frozen=True, eq=False)
class KernelMargin(Capability):
    """Minimise ``scale (beta/2 sum_m |W_m|^2 / s_m + mean of max(0, 1 - (t1 - t2)))``, or more.

    That is over W_m (k, d_m) and s >= 0 with ``|s|_p <= 1``; t1 >= t2 are the two largest of a
    sample's scores, the sum over ``parts`` of its features times W_m. A problem whose points are
    fewer may offer it too. Labels that are read off a relaxation have ``least`` samples in each
    class.
    """

    parts: tuple[Features, ...]
    k: int
    beta: float
    p: float
    scale: float
    least: int = 1


@dataclass(frozen=True, eq=False)
class Refit(Capability):
    """Labels of two clusters and linear models of them, from which labels follow again.

    ``smooth(v)`` holds the values at the samples of the model f of least
    ``sum_i (v_i - f(x_i))^2 + shift |f|^2``. ``point(v, labels)`` is the point of a model
    ``smooth(v)``, or of its labels where points are labels; ``repair(labels, rng)`` moves labels to
    where they are allowed. Cluster 1 has ``low`` to ``high`` samples. ``draw(rng)`` are random
    labels, and ``restrict(labels)`` is the convex problem of given ones, where points are not
    labels.
    """

    smooth: Callable[[Floats], Floats]
    shift: float
    point: Callable[[Floats, Ints], Any]
    draw: Callable[[np.random.Generator], Ints]
    repair: Callable[[Ints, np.random.Generator], Ints]
    low: int = 1
    high: int | None = None
    restrict: Callable[[Ints], Any] | None = None


def weights_alone(W: Floats, labels: Ints) -> Floats:
    """W is the whole point."""
    return W


@dataclass(frozen=True, eq=False)
class CutRisk(Capability):
    """Minimise ``beta/2 |W|^2 + risk(W)`` over W (k, d), the risk known by its cuts.

    With ``blocks`` of columns the first term is ``beta/2 min sum_m |W_m|^2 / s_m`` over weights
    s >= 0 of ``|s|_p <= 1``, as `regulariser` computes it. The objective is ``scale`` times all.

    ``cuts(W, kind)`` makes an empty set of cuts with its anchor at W, by the ``kinds`` that there
    are; see `mmcopt.margins.cut_models.PairCuts` for what one can do. ``|balance W| <= limit``
    holds row by row, W as one vector. ``point(W, labels)`` and ``weights(point)`` go between points
    and W, and ``bound(duals)`` proves a bound where the problem is convex.
    """

    features: Features
    k: int
    beta: float
    cuts: Callable[[Floats, str, Any], Any]
    kinds: tuple[str, ...] = ("pair",)
    balance: Floats | None = None
    limit: float = 0.0
    point: Callable[[Floats, Ints], Any] = weights_alone
    weights: Callable[[Any], Floats] = np.asarray
    bound: Callable[[dict[str, Any]], float] | None = None
    regulariser: Callable[[Floats], float] | None = None
    scale: float = 1.0
    blocks: tuple[slice, ...] = ()
    p: float = 2.0

    def objective(self, W: Floats, risk: float) -> float:
        """The objective at W with a risk."""
        regular = 0.5 * self.beta * float(np.einsum("ij,ij->", W, W)) \
            if self.regulariser is None else self.regulariser(W)
        return self.scale * (regular + risk)
