"""Label generation: labelings one after the other, mixed as kernels are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds.label_hull import LabelHull
from mmcopt.capabilities import Capability
from mmcopt.checks import hyper, integer, real
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.types import Floats

COUNTS = 1e-6  # weight in the mixture from which a labeling counts


@dataclass
class _Labels:
    """Labelings as rows, their mixture, shares a and the largest square; the best machine."""

    signs: Floats
    mu: Floats
    a: Floats
    square: float
    machine: float = math.inf
    done: bool = False


@dataclass(frozen=True, kw_only=True)
class LabelGeneration(Solver):
    """Mix the kernels of the labelings found so far, and look for one that the mixture lacks.

    The mixture is exact, by an interior point over its dual; a labeling is lacking when
    ``(a o y)'Q(a o y)`` is above that of all others, and is sought by flips of single labels from
    the signs of leading eigenvectors and from the labelings that count. Where none is found there
    may be one all the same: the objective is an upper estimate of the minimum of the relaxation,
    *not a bound*. What is proved is the max-cut bound for a, in the column ``dual``. ``machine`` is
    the least objective of a labeling found, an upper bound on the problem, and ``labelings`` how
    many there are.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> result = mm.solve(mm.formulations.CPM3C(X, beta=0.1).relax("lg"))
    >>> bool(result.lower_bound <= result.objective <= result.history["machine"][-1])
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelHull,)

    tol: float = hyper(1e-7, real(0), "excess over the mixture above which a labeling is added")
    starts: int = hyper(10, integer(1), "eigenvectors whose signs a search begins at")
    labels_per_step: int = hyper(5, integer(1), "labelings added a step, the best of those found")

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        hull = f.offer(LabelHull)
        n = hull.n
        y = None if init is None else _signs(np.linalg.eigh(np.asarray(init))[1][:, -1:].T)
        state = _Labels(np.empty((0, n)), np.empty(0), np.ones(n), -math.inf)
        return self._add(f, hull, state, self._lacking(hull, state)[:1] if y is None else y)

    def step(self, f: Any, state: _Labels, rng: np.random.Generator) -> Progress:
        hull = f.offer(LabelHull)
        return self._add(f, hull, state, self._lacking(hull, state)[:self.labels_per_step])

    def outcome(self, f: Any, state: _Labels) -> Status | None:
        return Status.CONVERGED if state.done else None

    def _lacking(self, hull: LabelHull, state: _Labels) -> Floats:
        """Labelings of larger squares than the mixture knows, the largest first."""
        R = hull.Q * np.outer(state.a, state.a)
        leading = np.linalg.eigh(R)[1][:, ::-1].T[:self.starts]
        starts = np.concatenate([_signs(leading), state.signs[state.mu > COUNTS]])
        found = np.unique(np.array([_climbed(R, y) for y in starts]), axis=0)
        squares = hull.squares(state.a, found)
        best = np.argsort(-squares, kind="stable")
        return found[best[squares[best] > state.square + self.tol]]

    def _add(self, f: Any, hull: LabelHull, state: _Labels, fresh: Floats) -> Progress:
        """The best mixture with more labelings; without any, the end."""
        state.done = not len(fresh)
        if len(fresh):
            state.machine = min(state.machine, *(hull.machine(np.outer(y, y)) for y in fresh))
            state.signs = np.concatenate([state.signs, fresh])
            state.a, state.mu = hull.mixture(state.signs)
            state.square = float(hull.squares(state.a, state.signs).max())
        point = (state.signs.T * state.mu) @ state.signs
        np.fill_diagonal(point, 1.0)
        duals = hull.duals(state.a)
        bound = hull.lower(duals)
        return Progress(state, point, f.objective(point), bound,
                        {"dual": bound, "machine": state.machine,
                         "labelings": float(len(state.signs))}, duals)


def _signs(V: Floats) -> Floats:
    """Signs of entries, rows beginning with 1."""
    y = np.where(V >= 0.0, 1.0, -1.0)
    return np.asarray(y * y[:, :1])


def _climbed(R: Floats, y: Floats) -> Floats:
    """The labeling where no flip of one label raises y'Ry any more."""
    y, own = y.copy(), np.diagonal(R)
    Ry = R @ y
    least = -1e-14 * float(np.abs(R).sum())
    while True:
        loss = y * Ry - own  # y'Ry falls by four times that
        i = int(np.argmin(loss))
        if loss[i] >= least:
            return np.asarray(y * y[0])
        Ry -= 2.0 * y[i] * R[i]
        y[i] = -y[i]
