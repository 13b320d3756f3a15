"""From a relaxed matrix to labels: feasible, locally optimal, and the same every time."""

import functools

import numpy as np
import pytest
from instances import FIRST, judged, literal_violation

import mmcopt as mm
from mmcopt.bounds import labels_from_matrix as rounding
from mmcopt.bounds.label_lift import binary_lift, partition_lift
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import LeastSquares

X = np.random.default_rng(2).standard_normal((12, 2)) + 3.0 * (np.arange(12).reshape(-1, 1) // 4)


def lifts(lq):
    return ([binary_lift(lq)] if lq.k == 2 else []) + [partition_lift(lq)]


@functools.cache
def instance(k, **options):
    f = LeastSquares(X, k, **options)
    return f, f.offer(LabelQuadratic)


IMPOSSIBLE = 32  # two samples of this instance are linked both ways


def test_rules_that_no_labels_meet_are_refused():
    d, _, rows, _ = judged(IMPOSSIBLE)
    assert not len(rows)
    with pytest.raises(InfeasibleError, match="drop one of the links"):
        d.problem()


@pytest.mark.parametrize("seed", [seed for seed in range(0, FIRST, 4) if seed != IMPOSSIBLE])
def test_rounded_labels_are_feasible_whatever_the_matrix(seed):
    d, *_ = judged(seed)
    lq, rng = d.problem().offer(LabelQuadratic), np.random.default_rng(seed)
    for lift in lifts(lq):
        A = rng.standard_normal((lift.m, lift.m))
        for matrix in (A @ A.T, np.eye(lift.m) * lift.top, np.zeros((lift.m, lift.m)), A + A.T):
            c = lq.expand(rounding.rounded(lq, lift, matrix, np.random.default_rng(0), tries=2))
            assert literal_violation(d, c) == 0


@pytest.mark.parametrize("seed", [seed for seed in range(0, FIRST, 4) if seed != IMPOSSIBLE])
def test_the_matrix_of_the_best_labels_rounds_to_them(seed):
    d, _, rows, values = judged(seed)
    f = d.problem()
    lq, best = f.offer(LabelQuadratic), rows[values.argmin()]
    for r in [f.relax("partition")] + ([f.relax("sdp")] if d.k == 2 else []):
        point = r.from_labels(best)
        found = lq.expand(rounding.rounded(lq, r.lift, point, np.random.default_rng(0)))
        assert f.objective(found) == pytest.approx(values.min(), rel=1e-8, abs=1e-9)


def test_rounding_depends_on_its_generator_alone():
    f, lq = instance(3)
    A = np.random.default_rng(0).standard_normal((12, 12))
    lift, matrix = partition_lift(lq), A @ A.T
    runs = [rounding.rounded(lq, lift, matrix, np.random.default_rng(4)).tobytes()
            for _ in range(3)]
    assert len(set(runs)) == 1
    r = f.relax("partition")
    assert np.array_equal(r.recover(matrix), r.recover(matrix.copy()))


def test_more_tries_are_never_worse():
    rng = np.random.default_rng(3)
    W = rng.standard_normal((30, 30))
    lq = LabelQuadratic(W + W.T, k=3)
    lift, better = partition_lift(lq), 0
    for _ in range(10):
        A = rng.standard_normal((30, 30))
        values = [lq.value(rounding.rounded(lq, lift, A @ A.T, np.random.default_rng(1), tries=t))
                  for t in (1, 3, 12)]
        assert values[0] >= values[1] >= values[2]
        better += values[0] > values[2]
    assert better


@pytest.mark.nojit
def test_descending_ends_in_a_local_optimum_and_leaves_its_start_alone():
    _, lq = instance(3, sizes=Sizes(low=3))
    start = np.arange(12) % 3
    kept = start.copy()
    c = rounding.descended(lq, start)
    assert np.array_equal(start, kept) and lq.violation(c) == 0.0
    assert lq.value(c) <= lq.value(start)
    for i in range(12):
        for h in range(3):
            near = c.copy()
            near[i] = h
            assert lq.violation(near) > 0 or lq.value(near) >= lq.value(c) - 1e-9


def test_known_labels_name_the_clusters():
    c = np.repeat([0, 1, 2], 4)
    for names in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        known = {0: names[0], 4: names[1], 8: names[2]}
        f = LeastSquares(X + 9.0 * c[:, None], 3, known=known)
        r = f.relax("partition")
        found = r.recover(r.from_labels(np.array(names)[c]))
        assert np.array_equal(found, np.array(names)[c])


def test_the_largest_clusters_go_where_most_room_is():
    sizes = Sizes(exact=[2, 7, 3])
    f = LeastSquares(X, 3, sizes=sizes)
    r = f.relax("partition")
    best = mm.solve(f, "BruteForce")
    found = r.recover(r.from_labels(best.labels))
    assert np.bincount(found).tolist() == [2, 7, 3]
    assert f.objective(found) == pytest.approx(best.objective)


def test_one_sided_sizes_of_two_clusters_choose_the_orientation():
    f = LeastSquares(X, 2, sizes=Sizes(exact=[4, 8]))
    r = f.relax("sdp")
    for c in (np.repeat([0, 1], [4, 8]), np.repeat([1, 0], [8, 4])):
        assert np.bincount(r.recover(r.from_labels(c))).tolist() == [4, 8]


@pytest.mark.nojit
def test_k_means_finds_separated_groups_and_survives_points_that_coincide():
    V = np.array([[0.0, 0], [0, 0.1], [5, 5], [5, 5.1], [-5, 5], [-5, 5.1]])
    c = rounding.kmeans(V, np.ones(6), 3, np.random.default_rng(0))
    assert sorted(np.bincount(c)) == [2, 2, 2] and (c[::2] == c[1::2]).all()
    same = rounding.kmeans(np.zeros((5, 2)), np.ones(5), 3, np.random.default_rng(0))
    assert same.shape == (5,) and same.max() < 3
    heavy = rounding.kmeans(np.array([[0.0], [1.0], [10.0]]), np.array([1.0, 1.0, 9.0]), 2,
                            np.random.default_rng(1))
    assert heavy[0] == heavy[1] != heavy[2]
