"""A formulation and a solver as a reader would type them.

`conftest.py` makes this module importable as ``notebook``.
"""

import dataclasses

import numpy as np

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress


def classes():
    """New ones, which are registered by being made."""

    class FewEdges(mm.Formulation):
        paper, default_solver = "a notebook", "Tabu"

        def __init__(self, A, n_clusters=2):
            self.A, self.n_clusters, self.n = np.asarray(A, dtype=float), n_clusters, len(A)

        def statement(self):
            return mm.Statement("FewEdges", (("minimise", "edges inside clusters", ""),))

        def objective(self, point):
            return float(sum(self.A[i, j] for i in range(self.n) for j in range(self.n)
                             if point[i] == point[j]))

        def violation(self, point):
            return float(len(set(np.asarray(point).tolist())) < self.n_clusters)

        def labels(self, point):
            return np.asarray(point)

        def reference(self, labels=None):
            raise NotImplementedError

        @classmethod
        def examples(cls):
            A = np.random.default_rng(0).integers(0, 3, (7, 7)).astype(float)
            return [cls(A + A.T), cls(A + A.T, 3)]

        def offer(self, kind):
            return LabelQuadratic(-self.A, k=self.n_clusters) if kind is LabelQuadratic else None

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Lottery(mm.Solver):
        needs = (LabelQuadratic,)
        tickets: int = 200

        def begin(self, f, init, rng):
            return self.step(f, 0, rng)

        def step(self, f, state, rng):
            lq = f.offer(LabelQuadratic)
            c = min((lq.random_labels(rng) for _ in range(5)), key=lq.value)
            return Progress(state + 1, lq.expand(c), lq.value(c))

        def outcome(self, f, state):
            return Status.CONVERGED if state >= self.tickets // 5 else None

    return FewEdges, Lottery
