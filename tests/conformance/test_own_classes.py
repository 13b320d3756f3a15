"""A formulation and a solver of a notebook are like ours."""

import dataclasses

import numpy as np
import pytest
from oracle import EXACT, LABEL_SOLVERS, optimum

import mmcopt as mm
from mmcopt import registry
from mmcopt.capabilities import LabelQuadratic
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import (
    LeastSquares,
)
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Status


@pytest.fixture
def notebook():
    """A formulation and a solver as a reader would type them; forgotten afterwards."""
    before = dict(registry._formulations), dict(registry._solvers)

    class FewEdges(Formulation):
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
            return self.step(f, None, rng)

        def step(self, f, state, rng):
            lq = f.offer(LabelQuadratic)
            c = min((lq.random_labels(rng) for _ in range(5)), key=lq.value)
            count = 1 if state is None else state + 1
            return mm.solving.Progress(count, lq.expand(c), lq.value(c))

        def outcome(self, f, state):
            return Status.CONVERGED if state >= self.tickets // 5 else None

    yield FewEdges, Lottery
    for table, kept in zip((registry._formulations, registry._solvers), before, strict=True):
        table.clear()
        table.update(kept)


def test_a_formulation_and_a_solver_of_ones_own_are_like_ours(notebook, tmp_path):
    FewEdges, Lottery = notebook
    for f in FewEdges.examples():
        assert set(mm.fits(f).names) == {*LABEL_SOLVERS, "Lottery"}
        best = mm.solve(f, "BruteForce")
        assert best.status is Status.CERTIFIED and best.verify()
        for name in [*LABEL_SOLVERS, "Lottery"]:
            result = mm.solve(f, name, seed=1)
            assert result.verify() and result.violation == 0.0
            assert result.lower_bound <= best.objective + 1e-9 <= result.objective + 2e-9
            if name in EXACT | {"Lottery"}:
                assert result.objective == pytest.approx(best.objective)
        assert mm.solve(f).solver == "Tabu"
        certified = mm.solve(f, Lottery(), seed=1).certify()
        assert certified.status is Status.CERTIFIED and certified.verify()
        result.save(tmp_path / "own.npz", data=False)
        assert mm.load(tmp_path / "own.npz", problem=f).objective == result.objective
        result.save(tmp_path / "own.npz")
        assert mm.load(tmp_path / "own.npz").objective == result.objective  # while it is defined
    fits = mm.fits(Lottery)
    assert {"Diffrac", "FewEdges", "LeastSquares"} <= set(fits.names)
    assert fits == {name: f"it needs LabelQuadratic, which this {name} does not offer."
                    if all(g.offer(LabelQuadratic) is None for g in cls.examples()) else None
                    for name, cls in registry.formulations().items()}
    theirs = LeastSquares.examples()[0]
    assert mm.solve(theirs, "lottery", seed=0).objective >= optimum("LeastSquares-0") - 1e-9
    with pytest.raises(IncompatibleError, match="Lottery cannot solve LeastSquaresFit: it needs"):
        mm.solve(theirs.restrict(np.arange(9) % 2), Lottery())
    table = mm.compare([theirs, FewEdges.examples()[0]], [Lottery(), "Tabu"], seeds=2)
    assert len(table.to_frame()) == 8


def test_a_notebook_formulation_is_not_loaded_by_name_once_it_is_gone(notebook, tmp_path):
    FewEdges, _ = notebook
    f = FewEdges.examples()[0]
    mm.solve(f, "Tabu", seed=0).save(tmp_path / "own.npz")
    del registry._formulations["FewEdges"]
    with pytest.raises(mm.errors.ParameterError, match="no formulation is called 'FewEdges'"):
        mm.load(tmp_path / "own.npz")
    assert mm.load(tmp_path / "own.npz", problem=f).verify()
