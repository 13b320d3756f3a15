"""A run that is a means to an end hands Ctrl-C on: what it found so far is of no use to anybody."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import CPM3C, KernelKMeans, LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.reproduce import evommc, margin_protocol, protocol, sgd_lmsvc
from mmcopt.selection import path, stability
from mmcopt.selection.one_class import agreeing_graph
from mmcopt.solvers import CuttingPlane, DualCoordinate, Evolutionary, Hartigan, Tabu
from mmcopt.solving import Budget, label_search, ratio_search, run

X = np.random.default_rng(0).standard_normal((30, 3))


def test_loops_that_are_warmed_do_not_swallow_it(monkeypatch):
    for search in (Hartigan, Tabu):
        monkeypatch.setattr(search, "step", _stop)
    monkeypatch.setattr(ratio_search, "_warmed", set())
    with pytest.raises(KeyboardInterrupt):
        Hartigan().prepare(KernelKMeans(X, 2))
    with pytest.raises(KeyboardInterrupt):
        Tabu().warm(label_search.toy_problem(np.float64))


@pytest.mark.parametrize(("solver", "means"), [
    (CuttingPlane, lambda: margin_protocol.fits(CPM3C(X, 2), 1)),
    (Tabu, lambda: protocol.fresh_runs(Tabu(), LeastSquares(X), [0])),
    (Evolutionary, lambda: evommc._recorded(Evolutionary(), LeastSquares(X), 0, {})),
    (DualCoordinate, lambda: sgd_lmsvc.ours(sgd_lmsvc.TREE, X, 1, 0)),
    (DualCoordinate, lambda: agreeing_graph(X)),
    (Tabu, lambda: stability(LeastSquares(X), Tabu())),
    (Tabu, lambda: mm.check(Tabu)),
])
def test_nor_does_what_asks_for_more_than_one(solver, means, monkeypatch):
    LeastSquares(X).offer(mm.capabilities.LabelQuadratic)
    for search in (Tabu, Evolutionary):
        search().prepare(LeastSquares(X))  # the warming interrupts as well, and is not meant
    monkeypatch.setattr(solver, "step", _stop)
    with pytest.raises(KeyboardInterrupt):
        means()


def test_who_holds_the_stop_signal_gets_the_part(monkeypatch):
    Tabu().prepare(LeastSquares(X))
    monkeypatch.setattr(Tabu, "step", _stop)
    lq, rng = LeastSquares(X).offer(mm.capabilities.LabelQuadratic), np.random.default_rng(0)
    budget = Budget()
    assert run(Tabu(), lq, None, rng, budget).status is Status.INTERRUPTED
    assert budget.stop.is_set()
    assert len(path(LeastSquares(X), (1.0, 0.1))) == 2
    assert mm.solve(LeastSquares(X), Tabu(), seed=0).status is Status.INTERRUPTED


def _stop(*args, **kwargs):
    raise KeyboardInterrupt
