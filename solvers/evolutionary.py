"""EvoMMC and FastEvoMMC: evolution strategies over labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import choice, hyper, integer, real
from mmcopt.solving import Progress
from mmcopt.solving.factor_search import FactorBoard, factor_start, on_factor, working_factor
from mmcopt.solving.label_search import LabelSearch, random_state, start_labels, working_matrix
from mmcopt.solving.states import shaped, within
from mmcopt.types import Ints

GENERATIONS = 200  # of one driver step


@dataclass
class _Population:
    """Individuals in slots (labels, caches, sizes, association), and the order of their fitness."""

    c: Ints
    G: NDArray[Any]
    sizes: Ints
    values: NDArray[np.float64]
    order: Ints
    rng: NDArray[np.uint64]
    t: int = 1
    last_gain: int = 0
    done: bool = False

    def restored(self, roots: Any) -> None:
        """Refuse a population from a file that is none of this problem."""
        lq, slots = roots["LabelQuadratic"], len(self.values)
        within("c", self.c, (slots, lq.n), 0, lq.k)
        within("sizes", self.sizes, (slots, lq.k), 0, int(lq.weights.sum()) + 1)
        within("order", self.order, (slots,), 0, slots)
        shaped("G", self.G, (slots, lq.k, lq.n), lq.dtype)
        shaped("rng", self.rng, (1,), np.uint64)


@dataclass(frozen=True, kw_only=True)
class Evolutionary(LabelSearch):
    """Keep the best mu of mu parents and nu children, which are parents with s samples flipped.

    s = max(1, n // (t + 1)) falls with the generation t, counted from 1: at t = 0 the printed rule
    would flip every sample, which changes nothing for k = 2. A flip that breaks the sizes becomes
    a swap (Evo, footnote 2); for k > 2 a flipped sample goes to a random other cluster. A child
    costs O(s^2) from cached products, a surviving one O(s n), against the paper's O(s n) for each.
    With mu = nu = 1 and W held as a factor of rank r this is FastEvoMMC, O(s r) a child: always on
    large factors, on others with ``stop="paper"`` (a local optimum is verified on dense W only).

    ``stop="local"`` ends in a local optimum of moves and swaps: whenever a step brought nothing the
    best individual is offered one move or swap, which flips alone may not find, and the search ends
    when there is none. ``stop="paper"`` ends after ``patience`` n generations without a change. A
    driver step is 200 generations.

    References
    ----------
    Gieseke, Pahikkala and Kramer 2009, Algorithm 1, Theorems 1 and 2.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import Evolutionary
    >>> X, y = mm.datasets.load("gaussians:n=60,distance=4,seed=0")
    >>> problem = LeastSquares(X, 2, scaling="mean", lam=0.001)
    >>> result = mm.solve(problem, Evolutionary(), seed=0)
    >>> mm.metrics.accuracy(y, result.labels) > 0.9
    True
    """

    mu: int = hyper(10, integer(1), "parents")
    nu: int = hyper(10, integer(1), "children a generation")
    stop: str = hyper("local", choice("local", "paper"), "stopping rule")
    patience: float = hyper(50.0, real(0, open_low=True),
                            "generations without a change, as a multiple of n (stop='paper')")

    def _factored(self, lq: LabelQuadratic) -> bool:
        if not self.mu == self.nu == 1:
            return False
        return on_factor(lq) or (self.stop == "paper" and not lq.matrix.is_dense)

    def refuses(self, f: Any) -> str | None:
        lq = f.offer(LabelQuadratic)
        if lq is not None and lq.k > 1 and self._factored(lq):
            return None
        return super().refuses(f)

    def prepare(self, f: Any) -> None:
        if not self._factored(f.offer(LabelQuadratic)):
            super().prepare(f)

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        if self._factored(lq):
            progress = factor_start(lq, init, rng)
            progress.state.rng, progress.state.t = random_state(rng), 1
            return progress
        W, slots = working_matrix(lq), self.mu + self.nu
        c = np.zeros((slots, lq.n), np.int64)
        G = np.zeros((slots, lq.k, lq.n), W.dtype)
        sizes, values = np.zeros((slots, lq.k), np.int64), np.full(slots, -np.inf)
        for i in range(self.mu):
            c[i] = start_labels(lq, init if i == 0 else None, rng)
            G[i] = label_moves.caches(W, c[i], lq.k)
            sizes[i] = label_moves.cluster_sizes(c[i], lq.weights, lq.k)
            values[i] = label_moves.association(lq.matrix.dense(), c[i], lq.k)
        order = np.argsort(-values, kind="stable")
        return self._progress(lq, _Population(c, G, sizes, values, order, random_state(rng)))

    @staticmethod
    def _progress(lq: LabelQuadratic, state: _Population) -> Progress:
        best = state.c[state.order[0]]
        return Progress(state, lambda: lq.expand(best), lq.value(best),
                        extras={"generation": float(state.t)})

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        if isinstance(state, FactorBoard):
            return self._factor_step(lq, state)
        W, rules = working_matrix(lq), lq.rules()
        gain = label_moves.evolve(W, state.c, state.G, state.sizes, rules, state.values,
                                  state.order, state.t, GENERATIONS, self.nu, state.rng)
        state.t += GENERATIONS
        if gain > _rounding(W.dtype) * abs(state.values[state.order[0]]):
            state.last_gain = state.t
        elif self.stop == "local":
            slot = state.order[0]
            better = label_moves.descend(W, state.c[slot], state.G[slot], state.sizes[slot], rules,
                                         1)
            state.values[slot] += better
            state.done = better == 0.0
        if self.stop == "paper":
            state.done = state.t - state.last_gain > self.patience * lq.n
        return self._progress(lq, state)

    def _factor_step(self, lq: LabelQuadratic, state: Any) -> Progress:
        from mmcopt.compiled import factor_moves

        gain = factor_moves.evolve(working_factor(lq), state.c, state.S, state.sizes, lq.rules(),
                                   state.t, 10 * GENERATIONS, state.rng)
        state.t += 10 * GENERATIONS
        state.value = lq.value(state.c)  # gains in float32 drift
        if gain > _rounding(state.S.dtype) * max(1.0, abs(lq.constant - state.value)) / lq.scale:
            state.pass_gain = state.t
        rest = self.patience if self.stop == "paper" else 1.0
        state.done = state.t - state.pass_gain > rest * lq.n
        return Progress(state, lambda: lq.expand(state.c), state.value,
                        extras={"generation": float(state.t)})

    def finish(self, f: Any, state: Any) -> Progress | None:
        from mmcopt.compiled import label_moves

        lq = f.offer(LabelQuadratic)
        if self.stop == "paper" or isinstance(state, FactorBoard):
            return None
        slot = state.order[0]
        label_moves.descend(working_matrix(lq), state.c[slot], state.G[slot], state.sizes[slot],
                            lq.rules(), 10 * lq.n)
        return self._progress(lq, state)


def _rounding(dtype: Any) -> float:
    """Relative gain that counts: equal labelings, such as renamed ones, differ by less."""
    return 1e-6 if dtype == np.float32 else 1e-10
