"""Starts far apart: each loop against the literal words of its docstring."""

import numpy as np
import pytest

from mmcopt.compiled.sowing import draw, nearer, sow


def distances(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return np.square(X[:, None] - X).sum(axis=2)


def test_nodes_are_drawn_by_what_they_weigh():
    v, D = np.array([1.0, 3.0, 2.0, 2.0]), np.array([2.0, 0.0, 1.0, 2.0])  # 2, 0, 2, 4
    u = np.array([0.0, 0.24, 0.26, 0.49, 0.51, 1.0 - 1e-16])
    assert draw(v, D, u).tolist() == [0, 0, 2, 2, 3, 3]
    assert draw(v, np.zeros(4), np.array([0.1, 0.2, 0.6, 0.9])).tolist() == [0, 1, 2, 3]


def test_of_a_few_the_one_that_leaves_least_is_taken():
    T, v = distances(30), np.random.default_rng(1).uniform(0.5, 2.0, 30)
    D, near = T[4].copy(), np.zeros(30, dtype=np.int64)
    some = np.array([7, 11, 23])
    left = [float(v @ np.minimum(T[j], D)) for j in some]
    best = int(np.argmin(left))
    wanted = np.where(T[some[best]] < D, 2, 0)
    nearer(T[some], np.arange(3), some, v, D, near, 2)
    assert v @ D == pytest.approx(min(left), rel=1e-12)
    assert np.array_equal(near, wanted) and near[some[best]] == 2


def test_sowing_is_drawing_and_taking_in_turn():
    T, v = distances(40, 2), np.random.default_rng(3).uniform(0.5, 2.0, 40)
    u = np.random.default_rng(4).random((5, 3))
    first = draw(v, np.ones(40), u[0, :1])[0]
    D, near = T[first].copy(), np.zeros(40, dtype=np.int64)
    for h in range(1, 5):
        some = draw(v, D, u[h])
        nearer(T, some, some, v, D, near, h)
    assert np.array_equal(sow(T, v, u), near) and len(set(near.tolist())) == 5


def test_where_all_nodes_are_copies_each_cluster_gets_one():
    for seed in range(5):
        c = sow(np.zeros((4, 4)), np.ones(4), np.random.default_rng(seed).random((2, 2)))
        assert sorted(c.tolist()) == [0, 0, 0, 1]
