"""A formulation and a solver of a notebook are like ours."""

import numpy as np
import pytest
from notebook import classes
from oracle import EXACT, LABEL_SOLVERS, optimum

import mmcopt as mm
from mmcopt import registry
from mmcopt.capabilities import LabelQuadratic
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import (
    LeastSquares,
)
from mmcopt.modeling.result import Status


@pytest.fixture
def typed():
    """The classes of a reader, forgotten afterwards."""
    before = dict(registry._formulations), dict(registry._solvers)

    yield classes()
    for table, kept in zip((registry._formulations, registry._solvers), before, strict=True):
        table.clear()
        table.update(kept)


def test_a_formulation_and_a_solver_of_ones_own_are_like_ours(typed, tmp_path):
    FewEdges, Lottery = typed
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


def test_a_notebook_formulation_is_not_loaded_by_name_once_it_is_gone(typed, tmp_path):
    FewEdges, _ = typed
    f = FewEdges.examples()[0]
    mm.solve(f, "Tabu", seed=0).save(tmp_path / "own.npz")
    del registry._formulations["FewEdges"]
    with pytest.raises(mm.errors.ParameterError, match="no formulation is called 'FewEdges'"):
        mm.load(tmp_path / "own.npz")
    assert mm.load(tmp_path / "own.npz", problem=f).verify()
