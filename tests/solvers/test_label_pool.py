"""Children of partitions: blocks of two free sides of a graph."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt.capabilities.matrices import Sparse
from mmcopt.formulations import QUBO, MaxCut
from mmcopt.solvers import Tabu, label_pool
from mmcopt.solving import graph_search, run


def ring(n, seed):
    """A ring with chords and normal weights."""
    rng = np.random.default_rng(seed)
    i, j = np.arange(n), np.roll(np.arange(n), -1)
    i, j = np.append(i, [0, 1, 2]), np.append(j, [n // 2, n // 2 + 1, n // 2 + 2])
    upper = sp.coo_array((rng.standard_normal(i.size), (i, j)), shape=(n, n)).tocsr()
    return upper + upper.T


def offers(seed):
    yield MaxCut(ring(12, seed)).offer(mm.LabelQuadratic)
    yield QUBO(sp.triu(ring(12, seed)).tocsr(), np.linspace(-1, 1, 12)).offer(mm.LabelQuadratic)


@pytest.mark.parametrize("seed", range(5))
def test_what_blocks_come_to_is_what_their_nodes_come_to(seed):
    rng = np.random.default_rng(seed)
    for lq in offers(seed):
        first = lq.random_labels(rng)
        groups = np.unique(rng.integers(5, size=lq.n), return_inverse=True)[1]
        small = label_pool.turned(lq, first, groups)
        held = small.fixed >= 0
        assert held.sum() == (lq.fixed >= 0).any()
        for change in itertools.product((0, 1), repeat=small.n):
            t = np.array(change)
            if not t[held].any():
                assert small.value(t) == pytest.approx(lq.value(t[groups] ^ first), abs=1e-12)
                assert lq.violation(lq.expand(t[groups] ^ first)) == 0


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_child_of_two_takes_the_best_of_each_connected_difference(seed, lists, monkeypatch):
    """On rows, and where graphs so small and dense are searched by their lists."""
    monkeypatch.setattr(graph_search, "GRAPH_FROM", 3 if lists else 200)
    monkeypatch.setattr(graph_search, "DENSITY", 1.0)
    rng = np.random.default_rng(seed)
    for lq in offers(seed):
        a, b = (lq.random_labels(rng) for _ in range(2))
        made = label_pool.combine(lq, sorted([a, b], key=lq.value), rng)
        parts = lq.matrix.connected(a ^ b)
        differ = [h for h in range(parts.max() + 1) if (a ^ b)[parts == h].all()]
        least = min(lq.value(a ^ np.isin(parts, chosen)) for count in range(len(differ) + 1)
                    for chosen in itertools.combinations(differ, count))
        assert made[1] == pytest.approx(lq.value(made[0]))
        assert made[1] <= least + 1e-9
        assert lq.violation(lq.expand(made[0])) == 0


def test_a_child_that_annealing_spoils_is_its_better_parent(monkeypatch):
    monkeypatch.setattr(label_pool, "pilot_temperatures", lambda lq: (9.0, 9.0))
    rng = np.random.default_rng(0)
    upper = sp.coo_array((rng.standard_normal(500), rng.integers(300, size=(2, 500))),
                         shape=(300, 300)).tocsr()
    lq = mm.LabelQuadratic(upper + upper.T, k=2, low=0)
    assert graph_search.two_free_sides(lq)
    good = run(Tabu(), lq, None, rng)
    for _ in range(5):
        c, value = label_pool.combine(lq, [good.point, lq.random_labels(rng)], rng)
        assert value == pytest.approx(lq.value(c)) and value <= good.value + 1e-9


def test_parts_of_groups_are_those_that_edges_connect():
    graph = Sparse(ring(12, 0))
    groups = np.array([0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0])
    parts = graph.connected(groups)
    for i, j in itertools.combinations(range(12), 2):
        if parts[i] == parts[j]:
            assert groups[i] == groups[j]
        elif graph._csr[i, j] != 0:
            assert groups[i] != groups[j]
    assert parts.max() + 1 == 4  # all of group 0, by chords; 3-4; 7; 10


def test_too_many_blocks_leave_parents_out(monkeypatch):
    lq = MaxCut(ring(40, 0)).offer(mm.LabelQuadratic)
    rng = np.random.default_rng(0)
    parents = sorted((lq.random_labels(rng) for _ in range(6)), key=lq.value)
    many = label_pool.combine(lq, parents, np.random.default_rng(0))
    monkeypatch.setattr(label_pool, "BLOCKS", 25)
    seen = []
    turned = label_pool.turned
    monkeypatch.setattr(label_pool, "turned", lambda lq, first, groups: (
        seen.append(groups.max() + 1), turned(lq, first, groups))[1])
    few = label_pool.combine(lq, parents, np.random.default_rng(0))
    assert 2 < seen[0] <= 25 and many[1] <= few[1] <= lq.value(parents[0])
    monkeypatch.setattr(label_pool, "BLOCKS", 2)  # not even two: plain intersections, then
    assert label_pool.combine(lq, parents[:2], rng)[1] <= lq.value(parents[0]) + 1e-9
    assert len(seen) == 1


@pytest.mark.parametrize("change", [{"low": 1}, {"high": 11}, {"apart": [[0, 1]]}, {"k": 3}])
def test_sides_are_not_free_where_there_are_rules(change):
    W = -ring(12, 0)
    assert label_pool.free_sides(mm.LabelQuadratic(W, low=0))
    assert not label_pool.free_sides(mm.LabelQuadratic(W, **{"low": 0, **change}))
    assert not label_pool.free_sides(mm.LabelQuadratic(W.toarray(), low=0))
