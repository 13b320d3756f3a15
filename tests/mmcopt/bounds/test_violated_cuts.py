"""Violated cuts against plain enumeration."""

import itertools

import numpy as np
import pytest

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import SIGNS, binary_lift, partition_lift
from mmcopt.capabilities import LabelQuadratic


def lift_of(k, m):
    lq = LabelQuadratic(np.eye(m), k=k)
    return binary_lift(lq) if k == 2 else partition_lift(lq)


def point_of(lift, rng, spread=0.6):
    """A symmetric matrix with the right diagonal whose entries leave the range of X a little."""
    A = rng.uniform(lift.floor - 0.1, lift.top * spread + 0.3, (lift.m, lift.m))
    X = np.triu(A, 1) + np.triu(A, 1).T
    X[np.diag_indices(lift.m)] = lift.top
    return X


def plain_triangles(lift, X):
    """Violation of the worst type of every triple, by the definition."""
    out = {}
    for i, j, h in itertools.combinations(range(lift.m), 3):
        entries = np.array([X[i, j], X[i, h], X[j, h]])
        kinds = range(4) if lift.binary else range(1, 4)
        by = {kind: float(SIGNS[kind] @ entries) - lift.top for kind in kinds}
        kind = max(by, key=by.get)
        out[i, j, h] = (by[kind], kind)
    return out


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3])
def test_triangles_are_all_those_that_are_violated(k):
    rng, lift = np.random.default_rng(k), lift_of(k, 7)
    for least in (0.0, 0.05, 0.3):
        X = point_of(lift, rng)
        plain = {t: v for t, v in plain_triangles(lift, X).items() if v[0] > least}
        found, by = violated_cuts.triangles(lift, X, 1000, least)
        assert {tuple(t) for t in found[:, :3]} == set(plain) and len(found) == len(plain)
        for row, v in zip(found, by, strict=True):
            assert v == pytest.approx(plain[tuple(row[:3])][0])
            assert row[3] == plain[tuple(row[:3])][1]
        assert (np.diff(by) <= 0).all() and (by > least).all()
        entries = lift.entries(violated_cuts.Cuts(found))
        np.testing.assert_allclose(entries.of(X) - entries.right, by, atol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3])
def test_the_most_violated_triangles_come_first(k):
    rng, lift = np.random.default_rng(10 + k), lift_of(k, 8)
    X = point_of(lift, rng, spread=0.9)
    plain = sorted((v for v, _ in plain_triangles(lift, X).values() if v > 0.01), reverse=True)
    for most in (1, 3, 10):
        assert len(plain) > most
        found, by = violated_cuts.triangles(lift, X, most, 0.01)
        np.testing.assert_allclose(by, plain[:most], atol=1e-12)
        assert len(found) == most
    worst = max(v for v, _ in plain_triangles(lift, X).values())
    assert violated_cuts.worst(lift, X) == pytest.approx(worst / (lift.top - lift.floor))


def test_the_most_violated_are_found_among_many():
    for k in (2, 3):
        lift = lift_of(k, 40)
        X = point_of(lift, np.random.default_rng(0), spread=0.9)
        plain = np.array(sorted((v for v, _ in plain_triangles(lift, X).values()), reverse=True))
        _, by = violated_cuts.triangles(lift, X, 50, 1e-6)
        np.testing.assert_allclose(by, plain[:50], atol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("entry", [-1 / 2, -3 / 4, -63 / 128, -0.4, -0.9])
def test_violations_on_the_edges_of_bins_are_seen(entry):
    lift = lift_of(2, 5)
    X = np.eye(5)
    X[:3, :3] = np.where(np.eye(3) > 0, 1.0, entry)
    for most in (1, 3):
        found, by = violated_cuts.triangles(lift, X, most, 0.0)
        assert found.tolist()[0] == [0, 1, 2, 0] and by[0] == pytest.approx(-3 * entry - 1)
    assert violated_cuts.worst(lift, X) == pytest.approx((-3 * entry - 1) / 2)


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3])
def test_labels_violate_nothing(k):
    lift = lift_of(k, 7)
    for c in list(itertools.product(range(k), repeat=7))[:: 37 if k == 3 else 5]:
        M = np.equal.outer(c, c)
        X = lift.floor + (lift.top - lift.floor) * M
        assert len(violated_cuts.violated(lift, X, 100, 1e-9)) == 0
        assert violated_cuts.worst(lift, X) < 1e-12


@pytest.mark.nojit
@pytest.mark.parametrize("k", [3, 4])
def test_cliques_are_violated_by_as_much_as_they_say_and_come_once(k):
    rng, lift = np.random.default_rng(k), lift_of(k, 9)
    found_some = 0
    for _ in range(20):
        M = np.triu(rng.uniform(0, 1.5 / k / (k - 1) ** 0.5, (9, 9)), 1)
        M = M + M.T + np.eye(9)
        X = lift.floor + (lift.top - lift.floor) * M
        kept = X.copy()
        sets, by = violated_cuts.cliques(lift, X, 100, 0.02)
        assert np.array_equal(X, kept)
        assert len({tuple(q) for q in sets}) == len(sets)
        plain = {q: 1.0 - sum(M[i, j] for i, j in itertools.combinations(q, 2))
                 for q in itertools.combinations(range(9), k + 1)}
        for q, v in zip(sets, by, strict=True):
            assert v == pytest.approx(plain[tuple(q)]) and v > 0.02
        assert (np.diff(by) <= 0).all()
        assert len(violated_cuts.cliques(lift, X, 2, 0.02)[0]) <= 2
        found_some += len(sets) > 0
        if max(plain.values()) < 0.02:
            assert not len(sets)
    assert found_some > 3


@pytest.mark.nojit
def test_a_planted_clique_is_found():
    lift = lift_of(3, 8)
    M = np.ones((8, 8))
    for i, j in itertools.combinations((1, 4, 6, 7), 2):
        M[i, j] = M[j, i] = 0.0
    sets, by = violated_cuts.cliques(lift, lift.floor + M, 5, 0.02)
    assert sets.tolist()[0] == [1, 4, 6, 7] and by[0] == pytest.approx(1.0)


@pytest.mark.nojit
def test_there_are_no_cliques_for_two_clusters_or_few_nodes():
    for lift in (lift_of(2, 6), lift_of(3, 3)):
        sets, by = violated_cuts.cliques(lift, np.eye(lift.m) * lift.top, 10, 0.0)
        assert len(sets) == len(by) == 0
    assert len(violated_cuts.violated(lift_of(3, 3), np.eye(3) * 2 / 3, 10)) == 0


@pytest.mark.nojit
def test_violated_takes_both_kinds_and_any_layout():
    lift = lift_of(3, 8)
    X = point_of(lift, np.random.default_rng(1))
    cuts = violated_cuts.violated(lift, X, 10, 0.02)
    assert len(cuts.triangles) == 10 and len(cuts.cliques) <= 3
    again = violated_cuts.violated(lift, np.asfortranarray(X.astype(np.float32).astype(float)), 10)
    assert len(again.triangles) == 10
    entries = lift.entries(cuts)
    assert (entries.of(X) > entries.right + 0.02 - 1e-12).all()
