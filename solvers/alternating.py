"""Alternating between a regression on labels and the labels that it gives (iterative SVR)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mmcopt.capabilities import Capability, Refit
from mmcopt.checks import choice, flag, hyper, integer, real
from mmcopt.modeling.result import Status
from mmcopt.solvers.cutting_plane import CuttingPlane
from mmcopt.solvers.steepest_descent import SteepestDescent
from mmcopt.solving import Progress, Solver, out_of_time, run
from mmcopt.tolerances import FEASIBLE
from mmcopt.types import Floats, Ints

RELAXED = 1.6  # over-relaxation of the splitting
INNER = CuttingPlane(epsilon=1e-4)  # for the convex problem of the last labels


@dataclass
class _State:
    """Labels, those met before, and where the last regression ended."""

    labels: Ints
    best: float
    best_labels: Ints
    z: Floats
    u: Floats
    seen: set[bytes] = field(default_factory=set)
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class Alternating(Solver):
    """Fit a regression to the labels -1 and 1, cut its values in two, and so on (IterSVR).

    ``loss`` is that of the regression. With the hinge, and so with an SVM, samples keep the label
    that they are on the right side of, and it may end close to its start; the square and the
    epsilon-insensitive loss also pull back what is far on the right side, and go further. Values
    are cut where the loss of the new labels is least (the bias step), such that each cluster keeps
    ``share`` of the samples, or what the problem asks for where that is more. Small shares let one
    cluster shrink: all on one side is what every loss likes best. Two clusters only.

    The objective of a step is the formulation's: that of the labels, or of the model at its best
    length, moved to where a balance of scores holds. It ends where labels repeat, a fixed point
    that promises nothing. ``polish`` then takes the labels of the best step to a local optimum of
    moves and swaps where points are labels; otherwise it solves their convex problem, that of the
    labels found there, and so on, which never raises the objective. Starts matter more than for
    `CuttingPlane`: take ``init="kmeans"``. Where a kernel fits any labels (narrow, and lam small),
    all labels are nearly fixed points.

    A step is a product with the smoother, factorised once, for the square loss, and up to ``inner``
    of them for the others, by splitting to the accuracy ``tol``. On sparse rows conjugate gradients
    stand for the factor, and the square loss is much the fastest.

    References
    ----------
    Zhang, Tsang and Kwok 2007, Maximum margin clustering made practical.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import CPM3C
    >>> from mmcopt.solvers import Alternating
    >>> X, y = mm.datasets.load("digits:1,7")
    >>> result = mm.solve(CPM3C(X, 2), Alternating(), init="kmeans", seed=0)
    >>> mm.metrics.adjusted_rand_index(y, result.labels) > 0.95
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (Refit,)

    loss: str = hyper("square", choice("square", "epsilon-insensitive", "hinge"),
                      "loss of the regression")
    epsilon: float = hyper(0.05, real(0, 1), "what the epsilon-insensitive loss forgives")
    share: float = hyper(0.3, real(0, 0.5), "share of the samples that each cluster keeps")
    inner: int = hyper(200, integer(1), "products with the smoother of a step at most")
    tol: float = hyper(1e-4, real(0, open_low=True), "accuracy of the values of a regression")
    polish: bool = hyper(True, flag(), "end with the optimum near or for the labels")

    def prepare(self, f: Any) -> None:
        offer = f.offer(Refit)
        offer.smooth(np.zeros(f.n))
        if offer.restrict is None and SteepestDescent().refuses(f) is None:
            SteepestDescent().prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        offer = f.offer(Refit)
        labels = offer.draw(rng) if init is None else f.labels(init)
        labels = offer.repair(np.asarray(labels, dtype=np.int64), rng)
        given = init is not None and offer.restrict is not None and f.violation(init) <= FEASIBLE
        point = init if given else f.from_labels(labels)
        value = f.objective(point)
        state = _State(labels, value, labels, np.zeros(f.n), np.zeros(f.n))
        state.seen.add(labels.tobytes())
        return Progress(state, point, value)

    def step(self, f: Any, state: _State, rng: np.random.Generator) -> Progress:
        offer = f.offer(Refit)
        targets, values, used = self._fit(offer, 2.0 * state.labels - 1.0, state)
        least, most = self._sizes(f.n, offer)
        labels = offer.repair(cut_in_two(values, least, most, self.loss, self.epsilon), rng)
        moved = int((labels != state.labels).sum())
        if labels.tobytes() in state.seen:
            state.end = Status.CONVERGED
        state.seen.add(labels.tobytes())
        state.labels = labels
        point = offer.point(targets, labels)
        value = f.objective(point)
        if value < state.best:
            state.best, state.best_labels = value, labels
        return Progress(state, point, value, extras={"moved": float(moved),
                                                     "products": float(used)})

    def outcome(self, f: Any, state: _State) -> Status | None:
        return state.end

    def finish(self, f: Any, state: _State) -> Progress | None:
        offer, labels = f.offer(Refit), state.best_labels
        rng = np.random.default_rng(0)  # neither of the two draws from it
        if not self.polish or (offer.restrict is None and SteepestDescent().refuses(f) is not None):
            return None
        if offer.restrict is None:
            out = run(SteepestDescent(), f, labels, rng)
            return Progress(state, out.point, out.value)
        point, value = None, np.inf
        for _ in range(self.inner):
            found = run(INNER, offer.restrict(labels), f.from_labels(labels), rng).point
            now = f.objective(found)
            if now < value:
                point, value = found, now
            before, labels = labels, f.labels(found)
            if (labels == before).all() or now > value or out_of_time():
                break
        return Progress(state, point, value)

    # ------------------------------------------------------------ the two halves

    def _fit(self, offer: Refit, y: Floats, state: _State) -> tuple[Floats, Floats, int]:
        """The regression on y: targets v, the values ``smooth(v)``, and the products it took.

        The least of ``sum loss + shift |f|^2``: for the square loss v = y; for the others by
        splitting f from its values z, in which f is smoothed with the shift of the offer.
        """
        if self.loss == "square":
            return y, offer.smooth(y), 1
        z, u, v, values, used = state.z, state.u, y, y, 0
        for used in range(1, self.inner + 1):  # noqa: B007 (read after the loop)
            v = z - u
            values = offer.smooth(v)
            mixed = RELAXED * values + (1.0 - RELAXED) * z
            before, z = z, nearest(mixed + u, y, self.loss, self.epsilon)
            u = u + mixed - z
            off = max(float(np.abs(values - z).max()), float(np.abs(z - before).max()))
            if off <= self.tol or out_of_time():
                break
        state.z, state.u = z, u
        return v, values, used

    def _sizes(self, n: int, offer: Refit) -> tuple[int, int]:
        """Least and most samples of cluster 1: ``share`` where the problem allows it."""
        low, high = max(1, offer.low), min(n - 1, n if offer.high is None else offer.high)
        least = min(max(low, int(self.share * n)), high)
        return least, max(min(high, n - int(self.share * n)), least)


def nearest(c: Floats, y: Floats, loss: str, epsilon: float) -> Floats:
    """The z of least ``loss(z, y) + (z - c)^2``, entry by entry."""
    if loss == "hinge":  # max(0, 1 - y z)
        m = y * c
        return np.asarray(y * np.where(m >= 1.0, m, np.minimum(m + 0.5, 1.0)))
    r = c - y  # max(0, |z - y| - epsilon)
    shrunk = np.maximum(np.abs(r) - 0.5, np.minimum(np.abs(r), epsilon))
    return np.asarray(y + np.sign(r) * shrunk)


def cut_in_two(values: Floats, least: int, most: int, loss: str, epsilon: float) -> Ints:
    """Labels 1 for the largest values, as many as make the loss least, between two sizes.

    With u the distances of the values to the cut, in units of their mean distance to the median,
    the loss is that of |u| as a margin: ``(1 - |u|)^2``, ``max(0, |1 - |u|| - epsilon)`` or
    ``max(0, 1 - |u|)``. All are made of ``|u - t|`` and u^2, whose sums prefix sums give for all
    cuts at once.
    """
    n = len(values)
    order = np.argsort(values, kind="stable")
    s = values[order] - np.median(values)
    s = s / max(float(np.abs(s).mean()), 1e-300)
    below = np.arange(n - most, n - least + 1)  # samples of cluster 0
    at = 0.5 * (s[below - 1] + s[below])
    sums = np.concatenate([[0.0], np.cumsum(s)])

    def away(t: Floats) -> Floats:
        """Sum of |s_i - t| for each t."""
        j = np.searchsorted(s, t)
        return np.asarray(t * (2 * j - n) + sums[-1] - 2.0 * sums[j])

    if loss == "square":
        cost = float(s @ s) - 2.0 * at * sums[-1] + n * at * at - 2.0 * away(at)
    elif loss == "hinge":
        cost = 0.5 * (away(at - 1.0) + away(at + 1.0)) - away(at)
    else:
        kinks = (-1.0 - epsilon, -1.0 + epsilon, 1.0 - epsilon, 1.0 + epsilon)
        cost = 0.5 * sum(away(at + t) for t in kinks) - away(at)
    labels = np.zeros(n, dtype=np.int64)
    labels[order[below[int(np.argmin(cost))]:]] = 1
    return labels
