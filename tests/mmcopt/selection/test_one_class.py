"""Choosing gamma and C: the rule, the given number, criteria side by side."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.assignment import level_tree, neighbour_gamma
from mmcopt.errors import DataError, ParameterError
from mmcopt.metrics import adjusted_rand_index as ari
from mmcopt.selection.one_class import agreeing_graph, auto_problem, given_number, parts_of

MOONS, WHICH = mm.datasets.load("moons:n=240,noise=.06,seed=2")


def test_the_rule_follows_the_units_of_the_data():
    f = auto_problem(MOONS)
    assert f.kernel.gamma == pytest.approx(neighbour_gamma(MOONS))
    assert f.C == pytest.approx(1.3 * f.c_min())
    g = auto_problem(100.0 * MOONS + 7.0)
    assert g.kernel.gamma == pytest.approx(f.kernel.gamma / 1e4, rel=1e-6)
    assert g.C == pytest.approx(f.C, rel=1e-6)
    assert auto_problem(MOONS, gamma=3.0).kernel.gamma == 3.0
    assert auto_problem(MOONS, C=55.0).C == 55.0


@pytest.mark.parametrize("name, least", [("jain", 1.0), ("aggregation", 0.99), ("r15", 0.98),
                                         ("flame", 0.9), ("spiral", 1.0)])
def test_documented_settings_without_labels(shared_data, name, least):
    X, y = shared_data(name)
    clusters = level_tree(mm.solve(auto_problem(X), seed=0))
    assert ari(y, clusters.labels) >= least


@pytest.mark.parametrize("name, k, least", [
    ("spiral", 3, 1.0), ("breast_wbc", 2, 0.8),
    pytest.param("compound", 6, 0.75, marks=pytest.mark.slow)])
def test_documented_settings_with_the_number_given(shared_data, name, k, least):
    X, y = shared_data(name)
    result, clusters = given_number(X, k)
    assert clusters.n_clusters == k and result.gap <= 1e-3 and result.verify()
    assert ari(y, clusters.labels) >= least


def test_a_graph_that_agrees_with_the_tree():
    result, clusters = agreeing_graph(MOONS)
    assert clusters.method == "graph" and clusters.n_clusters == 2
    assert ari(WHICH, clusters.labels) == 1.0
    assert clusters.domain.problem is result.formulation
    given, _ = agreeing_graph(MOONS, gamma=20.0, C=100.0)
    assert (given.formulation.kernel.gamma, given.formulation.C) == (20.0, 100.0)


def test_parts_too_small_do_not_count():
    f = auto_problem(MOONS, gamma=5000.0, C=240.0)  # every sample is a part
    result = mm.solve(f, seed=0)
    assert parts_of(result, 1).n_clusters > 100
    assert parts_of(result, 200).n_clusters == parts_of(result, 1).n_clusters
    result = mm.solve(auto_problem(MOONS, gamma=40.0, C=240.0), seed=0)
    assert parts_of(result, 4).n_clusters <= parts_of(result, 1).n_clusters


def test_criteria_stand_side_by_side():
    table = mm.selection.domains(MOONS, gammas=(0.5, 30.0, 500.0), Cs=(30.0, 200.0), halves=2)
    assert len(table.rows) == len(table.results) == len(table.clusters) == 6
    assert str(table).splitlines()[0].split() == list(table.COLUMNS)
    for row, result, clusters in zip(table.rows, table.results, table.clusters, strict=True):
        assert row["C"] == result.formulation.C
        if row["gamma"] == 500.0 and row["C"] == 30.0:  # an empty domain is said, not warned about
            assert clusters is None and row["clusters"] is None is row["stability"]
            continue
        assert row["clusters"] == clusters.n_clusters
        assert row["inside"] == pytest.approx(1 - clusters.outside.mean())
        assert (row["silhouette"] is None) == (clusters.n_clusters == 1)
        assert -1 <= row["stability"] <= 1 and row["persistence"] >= 0
    best = table.rows[table.best("persistence")]
    assert best["gamma"] == 30.0 and best["clusters"] == 2
    with pytest.raises(ParameterError, match="one of silhouette, persistence, stability"):
        table.best("truth")


def test_the_whole_set_is_its_own_stable_partition():
    X, _ = mm.datasets.load("blobs:n=120,k=3,sd=.3,seed=1")
    table = mm.selection.domains(X, gammas=(1.0,), Cs=(100.0,))
    assert table.rows[0]["stability"] == 1.0 and table.rows[0]["clusters"] == 3


@pytest.mark.parametrize("X", [[[1.0, 2.0]], np.ones((6, 2)), [[0.0], [1.0]],
                               np.r_[np.zeros((50, 1)), np.ones((50, 1))]])
def test_degenerate_data(X):
    X = np.asarray(X)
    distinct = len(np.unique(X, axis=0))
    assert auto_problem(X).kernel.gamma > 0
    _, clusters = agreeing_graph(X)
    assert clusters.n_clusters in (1, distinct)
    _, one = given_number(X, 1)
    assert one.n_clusters == 1
    with pytest.raises(DataError, match=f"than there are distinct samples: {distinct}"):
        given_number(X, 5)
    if distinct == 2:
        _, two = given_number(X, 2)
        assert two.n_clusters == 2
        with pytest.raises(DataError, match="no model with gamma = 1e-06"):
            given_number(X, 2, gamma=1e-6, C=100.0)
