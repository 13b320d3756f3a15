"""A run that is a means to an end hands Ctrl-C on: what it found so far is of no use to anybody."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.estimators import CertifiedKMeans, LeastSquaresClustering
from mmcopt.formulations import CPM3C, KernelKMeans, LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.reproduce import evommc, margin_protocol, protocol, sgd_lmsvc
from mmcopt.selection import by_graph, path, stability
from mmcopt.selection.one_class import agreeing_graph
from mmcopt.solvers import (
    CuttingPlane,
    DualCoordinate,
    Evolutionary,
    Hartigan,
    Memetic,
    Tabu,
)
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
    cells = path(LeastSquares(X), (1.0, 0.1))
    assert [cell.status for cell in cells] == [Status.INTERRUPTED] * 2
    assert all(cell.verify() for cell in cells)
    assert mm.solve(LeastSquares(X), Tabu(), seed=0).status is Status.INTERRUPTED


@pytest.mark.parametrize("where", [Tabu, Memetic])
def test_an_estimator_ends_with_what_it_has(where, monkeypatch):
    problem = LeastSquares(X)
    for search in (Tabu, Memetic):
        search().prepare(problem)
    whole = LeastSquaresClustering(2, model="auto", random_state=0).fit(X)
    begun = []
    monkeypatch.setattr(where, "step", lambda *args: begun.append(1) or _stop())
    model = LeastSquaresClustering(2, model="auto", random_state=0).fit(X)
    assert len(begun) == 1 and model.result_.status is Status.INTERRUPTED
    assert model.result_.verify() and model.labels_.shape == whole.labels_.shape


def test_nor_does_it_certify_what_was_cut_short(monkeypatch):
    Memetic().prepare(KernelKMeans(X, 2))
    monkeypatch.setattr(Memetic, "step", _stop)
    model = CertifiedKMeans(2, certify=60.0, random_state=0).fit(X)
    assert model.result_.status is Status.INTERRUPTED and not model.result_.ladder


def test_the_choice_by_a_graph_keeps_the_best_that_is_there(monkeypatch):
    Memetic().prepare(LeastSquares(X))
    plain = mm.solve(LeastSquares(X), Tabu(), seed=0)
    monkeypatch.setattr(Memetic, "step", _stop)
    found = by_graph(plain)
    assert found.status is Status.INTERRUPTED and found.verify()
    assert np.array_equal(found.labels, plain.labels) and "interrupted" in str(found)


def _stop(*args, **kwargs):
    raise KeyboardInterrupt
