"""All labelings, one chunk after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mmcopt.bounds import enumeration
from mmcopt.capabilities import Capability, LabelProblem
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solving import Progress, Run, Solver
from mmcopt.solving.label_search import start_labels


@dataclass
class _Scan:
    c: Any
    value: float
    chunk: int = 0


@dataclass(frozen=True, kw_only=True)
class BruteForce(Solver):
    """Try every labeling; the answer is optimal, and its certificate is to try them all again.

    k^n labelings (a k-th of them when renaming the clusters changes nothing), 4096 a driver step,
    up to 20 million in all.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.formulations import LeastSquares
    >>> from mmcopt.solvers import BruteForce
    >>> X, y = mm.datasets.load("gaussians:n=10,distance=4,seed=0")
    >>> mm.solve(LeastSquares(X), BruteForce()).status.name
    'CERTIFIED'
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (LabelProblem,)

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is not None:
            return reason
        lq = f.offer(LabelProblem)
        size = lq.k ** max(0, int((lq.fixed < 0).sum()) - int(lq.symmetric))
        if size > enumeration.LIMIT:
            digits = f"{size:.1e}" if size < 1e300 else "more than 1e300"
            return f"there are {digits} labelings, and its limit is {enumeration.LIMIT:.0e}."
        return None

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        c = start_labels(lq, init, rng)
        return self._progress(lq, _Scan(c, lq.value(c)))

    def step(self, f: Any, state: _Scan, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelProblem)
        rows = enumeration.chunk(lq, state.chunk)
        rows = rows[enumeration.feasible_rows(lq, rows)]
        state.chunk += 1
        if len(rows):
            values = enumeration.values(lq, rows)
            best = int(np.argmin(values))
            if values[best] < state.value:
                state.c, state.value = rows[best], float(values[best])
        return self._progress(lq, state)

    def outcome(self, f: Any, state: _Scan) -> Status | None:
        lq = f.offer(LabelProblem)
        seen = state.chunk * enumeration.CHUNK
        return Status.CONVERGED if seen >= enumeration.count_labelings(lq) else None

    def certificate(self, f: Any, run: Run) -> Certificate | None:
        """The enumeration itself, when it was complete."""
        if run.status is not Status.CONVERGED:
            return None
        return Certificate("enumeration", {}, {}, f)

    @staticmethod
    def _progress(lq: LabelProblem, state: _Scan) -> Progress:
        return Progress(state, lambda: lq.expand(state.c), state.value)
