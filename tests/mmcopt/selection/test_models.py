"""Which objective: what a graph of neighbours says of two partitions."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.estimators import LeastSquaresClustering
from mmcopt.formulations import CPM3C, KernelKMeans, LeastSquares
from mmcopt.kernels import Gaussian, Neighbors, Precomputed
from mmcopt.selection import by_graph


def accuracy(X, y, model):
    fitted = LeastSquaresClustering(len(set(y)), model=model, random_state=0).fit(X)
    return mm.metrics.accuracy(y, fitted.labels_), fitted


def test_what_a_graph_connects_is_not_cut_in_two():
    X, y = mm.datasets.load("moons:n=200,noise=.1")
    plain, _ = accuracy(X, y, "least-squares")
    found, model = accuracy(X, y, "auto")
    assert plain < 0.9 < 0.95 < found
    assert model.result_.verify() and mm.metrics.accuracy(y, model.predict(X)) > 0.95
    assert (model.kernel_, model.lam_) == (Neighbors(), 0.1)


def test_clusters_of_any_size_are_taken_where_those_of_like_size_cut_much_more():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((200, 2)), 0.4 * rng.standard_normal((20, 2)) + [6.0, 0.0]])
    y = np.arange(220) // 200
    assert accuracy(X, y, "least-squares")[0] < 0.9
    found, model = accuracy(X, y, "auto")
    assert found == 1.0 and isinstance(model.result_.formulation, KernelKMeans)
    assert (model.kernel_, model.lam_) == (Neighbors().unit(), None)


def test_clusters_that_cut_hardly_more_edges_are_kept():
    X, y = mm.datasets.load("gaussians:n=200,distance=4,seed=0")
    _, plain = accuracy(X, y, "least-squares")
    _, model = accuracy(X, y, "auto")
    assert isinstance(model.result_.formulation, LeastSquares)
    assert np.array_equal(model.labels_, plain.labels_) and model.lam_ == plain.lam_


def test_the_solver_that_is_given_solves_what_it_fits(monkeypatch):
    X, _ = mm.datasets.load("moons:n=100,noise=.05")
    solved = []

    def noted(problem, solver=None, **options):
        solved.append((problem, mm.solve(problem, solver, **options)))
        return solved[-1][1]

    monkeypatch.setattr("mmcopt.selection.models.solve", noted)
    LeastSquaresClustering(2, lam=0.1, model="auto", solver="KernighanLin", random_state=0).fit(X)
    assert [(type(f), r.solver) for f, r in solved] == [
        (LeastSquares, "KernighanLin"), (KernelKMeans, KernelKMeans.default_solver)]
    with pytest.raises(ParameterError, match="no solver is called 'Nix'"):
        by_graph(solved[0][1], solver="Nix")


def test_rules_hold_for_both(monkeypatch):
    X, _ = mm.datasets.load("moons:n=100,noise=.05")
    f = LeastSquares(X, 2, kernel=Gaussian(width=0.5), known={0: 1, 1: 1}, must_link=[(2, 3)],
                     cannot_link=[(4, 5)], sizes=0.2)
    monkeypatch.setattr("mmcopt.selection.models.ALIKE", 0.0)  # the graph, whatever it cuts
    c = by_graph(mm.solve(f, seed=0)).labels
    assert c[0] == c[1] == 1 and c[2] == c[3] and c[4] != c[5]
    assert f.violation(c) == 0.0
    monkeypatch.setattr("mmcopt.selection.models.ALIKE", np.inf)
    plain = mm.solve(f, seed=0)
    assert by_graph(plain) is plain


def test_refusals():
    X, _ = mm.datasets.load("moons:n=40,noise=.05")
    with pytest.raises(DataError, match="a kernel matrix in their place; give features"):
        by_graph(mm.solve(LeastSquares(X @ X.T, 2, kernel=Precomputed()), "Tabu", seed=0))
    with pytest.raises(DataError, match="needs the result of a problem of labels.* of CPM3C"):
        by_graph(mm.solve(CPM3C(X, 2), seed=0))
    with pytest.raises(ParameterError, match="model must be one of 'least-squares', 'auto'"):
        LeastSquaresClustering(2, model="graph").fit(X)
