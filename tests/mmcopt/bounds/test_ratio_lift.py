"""The lift of k-means: no dual point whatever proves more than the best labels have."""

import dataclasses
import itertools

import numpy as np
import pytest

from mmcopt.bounds.ratio_lift import PAIR, RatioLift, entries, ratio_lift, violated
from mmcopt.capabilities import LabelRatio
from mmcopt.solvers import Splitting
from mmcopt.solving import run


def instance(seed):
    """A problem of few nodes: W psd or not, volumes of like and of unlike size, links."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 9)), int(rng.integers(2, 4))
    A = rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-3, 3)
    W = A @ A.T if seed % 3 else A + A.T
    volumes = (np.ones(n), rng.integers(1, 9, n), 10.0 ** rng.uniform(-3, 3, n))[seed % 3]
    fixed = np.full(n, -1)
    if seed % 4 == 0:
        fixed[[0, 1]] = 0, 1
    apart = [(2, 3)] if seed % 2 else []
    return LabelRatio(W, const=float(rng.standard_normal()), k=k, volumes=volumes, apart=apart,
                      fixed=fixed, scale=float(rng.uniform(0.5, 2.0)))


def sized(seed):
    """One whose clusters have bounded sizes, of nodes that stand for one sample or several."""
    rng = np.random.default_rng([5, seed])
    n, k = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    A = rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-3, 3)
    weights = np.ones(n, dtype=int) if seed % 2 else rng.integers(1, 4, n)
    given = np.bincount(rng.permutation(np.arange(n) % k), weights, k).astype(int)
    slack = int(rng.integers(0, 2))
    fixed = np.full(n, -1)
    if seed % 3 == 0:
        fixed[0] = 0
    return LabelRatio(A @ A.T, const=float(rng.standard_normal()), k=k, weights=weights,
                      low=np.maximum(given - slack, 1), high=given + slack, fixed=fixed)


def least(ratio):
    rows = (np.array(c) for c in itertools.product(range(ratio.k), repeat=ratio.n))
    return min((ratio.value(c) for c in rows if ratio.violation(c) == 0.0), default=np.inf)


def all_cuts(n):
    triangles = [(i, j, h) for i in range(n) for j in range(n) for h in range(j + 1, n)
                 if i not in (j, h)]
    return np.array(triangles + [(i, j, PAIR) for i in range(n) for j in range(n) if i != j])


def drawn(lift, rng, scale):
    """A dual point of random size; now and then with entries that are no numbers."""
    n, cuts = lift.n, all_cuts(lift.n)
    cuts = cuts[rng.permutation(len(cuts))[:int(rng.integers(0, 40))]]
    size = float(np.abs(lift.W).max()) * scale
    out = {"v": size * rng.standard_normal(n), "N": size * rng.standard_normal((n, n)),
           "d": size * rng.standard_normal(n), "g": size * rng.standard_normal(len(cuts)),
           "cuts": cuts}
    if rng.random() < 0.1:
        out["v"][0], out["N"][1, 2] = np.nan, np.inf
    return out


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 300), marks=pytest.mark.slow)],
                         ids=["few", "many"])
def test_no_dual_point_proves_more_than_the_best_labels(seeds):
    for seed in seeds:
        ratio, rng = instance(seed), np.random.default_rng(1000 + seed)
        lift, best = ratio_lift(ratio), least(ratio)
        assert lift.lower({}) <= best
        for _ in range(20):
            assert lift.lower(drawn(lift, rng, 10.0 ** rng.uniform(-4, 2))) <= best, seed


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 260), marks=pytest.mark.slow)],
                         ids=["few", "many"])
def test_no_dual_point_proves_more_than_the_best_labels_of_bounded_sizes(seeds):
    seen = 0
    for seed in seeds:
        ratio, rng = sized(seed), np.random.default_rng(3000 + seed)
        lift, best = ratio_lift(ratio), least(ratio)
        if not np.isfinite(best):  # there are no labels of these sizes, and all bounds hold
            continue
        seen += lift.sized
        honest = run(Splitting(), dataclasses.replace(lift, cuts=True), None, rng, max_iter=8).duals
        assert lift.lower(honest) <= best + 1e-12 * abs(best), seed
        for _ in range(20):
            forged = drawn(lift, rng, 10.0 ** rng.uniform(-4, 2))
            assert lift.lower(forged) <= best, seed
            by = 10.0 ** rng.uniform(-4, 0)
            near = {name: a if name == "cuts" else a + by * np.abs(a).max(initial=0.0)
                    * rng.standard_normal(a.shape) for name, a in honest.items()}
            assert lift.lower(near) <= best + 1e-12 * abs(best), seed
    assert seen > len(seeds) / 2


def test_volumes_around_a_node_are_those_that_labels_can_have():
    for seed in range(40):
        ratio = sized(seed)
        lift, rows = ratio_lift(ratio), itertools.product(range(ratio.k), repeat=ratio.n)
        found = [np.bincount(c, ratio.weights, ratio.k)[c] for c in map(np.array, rows)
                 if ratio.violation(c) == 0.0]
        if found:
            assert (lift.least <= np.min(found, axis=0)).all()
            assert (lift.most >= np.max(found, axis=0)).all()


def test_what_others_must_have_a_cluster_cannot_have():
    lift = ratio_lift(LabelRatio(np.eye(9), k=3, low=[2, 3, 1], high=[9, 9, 9],
                                 fixed=[0, 1, 2] + 6 * [-1]))
    assert lift.least.tolist() == [2, 3, 1] + 6 * [1]
    assert lift.most.tolist() == [5, 6, 4] + 6 * [6]
    assert ratio_lift(LabelRatio(np.eye(9), k=3, high=4)).least.tolist() == 9 * [1]
    assert ratio_lift(LabelRatio(np.eye(9), k=2, high=5)).least.tolist() == 9 * [4]


def test_sizes_say_nothing_of_other_volumes():
    sizes = {"k": 2, "low": 3, "high": 3}
    assert ratio_lift(LabelRatio(np.eye(6), **sizes)).sized
    assert not ratio_lift(LabelRatio(np.eye(6), volumes=np.arange(1, 7), **sizes)).sized
    assert not ratio_lift(LabelRatio(np.eye(6), k=2)).sized


def test_multipliers_of_the_wrong_sign_prove_nothing_more():
    for seed in range(12):
        ratio = instance(seed)
        lift, best = ratio_lift(ratio), least(ratio)
        rows = (np.array(c) for c in itertools.product(range(ratio.k), repeat=ratio.n))
        c = min((c for c in rows if ratio.violation(c) == 0.0), key=ratio.value)
        Z = np.eye(ratio.k)[c]
        X = Z / (lift.volumes @ Z) @ Z.T  # the lower N lies along it, the more S would lose
        for size in np.abs(lift.W).max() * 10.0 ** np.arange(-2, 3):
            assert lift.lower({"N": -size * lift.volumes.max() * X}) <= best, seed
            tight = all_cuts(lift.n)
            assert lift.lower({"g": np.full(len(tight), -size), "cuts": tight}) <= best, seed


def test_labels_are_points_of_the_lift():
    for seed in range(12):
        ratio, rng = instance(seed), np.random.default_rng(seed)
        lift = ratio_lift(ratio)
        c = ratio.random_labels(rng)
        Z = np.eye(ratio.k)[c]
        X = Z / (lift.volumes @ Z) @ Z.T
        assert lift.objective(X) == pytest.approx(ratio.value(c), rel=1e-9)
        cut = RatioLift(lift.W, lift.volumes, lift.k, lift.base, lift.scale, lift.apart, cuts=True)
        assert cut.violation(X) < 1e-9
        for a, b in lift.apart:
            assert X[a, b] == 0.0


def test_without_duals_the_bound_is_the_sum_of_the_largest_eigenvalues():
    for seed in range(6):
        lift = ratio_lift(instance(seed))
        root = np.sqrt(lift.volumes)
        w = np.linalg.eigvalsh(lift.W / np.outer(root, root))[-lift.k:]
        literal = lift.base - lift.scale * w.sum()
        assert lift.lower({}) == pytest.approx(literal, rel=1e-9)
        assert lift.lower({}) <= literal


def test_entries_are_those_of_the_cuts():
    n, cuts = 5, all_cuts(5)
    X = np.random.default_rng(0).random((n, n))
    i, j, coef = entries(cuts)
    found = (coef * X[i, j]).reshape(4, -1).sum(axis=0)
    for (a, b, c), value in zip(cuts, found, strict=True):
        third = X[a, c] - X[b, c] if c != PAIR else 0.0
        assert value == pytest.approx(X[a, b] + third - X[a, a])


def test_violated_cuts_are_found_in_order():
    rng = np.random.default_rng(1)
    for seed in range(3):
        A = rng.random((7, 7))
        X = A + A.T
        lift = ratio_lift(LabelRatio(np.eye(7)))
        i, j, coef = entries(cuts := all_cuts(7))
        by = (coef * X[i, j]).reshape(4, -1).sum(axis=0)
        most = int((by > 0.3).sum()) - seed
        found = violated(lift, X, most, 0.3)
        assert len(found) == most > 8
        known = {tuple(c): b for c, b in zip(cuts.tolist(), by, strict=True)}
        values = np.array([known[tuple(c)] for c in found.tolist()])
        assert (np.diff(values) <= 0).all() and values[0] == by.max()
        assert len({tuple(c) for c in found.tolist()}) == most
        few = violated(lift, X, 8, 0.3)
        np.testing.assert_array_equal(few, found[:8])


def test_malformed_cuts_and_odd_shapes_are_refused():
    lift = ratio_lift(LabelRatio(np.eye(4)))
    for cut in ([0, 0, 1], [0, 1, 1], [0, 1, 0], [-1, 1, 2], [0, 1, 4], [0, 1, -2], [0, -1, 2]):
        with pytest.raises(ValueError, match="a cut is malformed"):
            lift.lower({"cuts": np.array([cut]), "g": np.ones(1)})
    for wrong in ({"cuts": np.array([[0.0, 1.0, 2.0]]), "g": np.ones(1)},
                  {"cuts": np.array([[0, 1]]), "g": np.ones(1)},
                  {"cuts": np.array([[0, 1, 2]])} | {"g": np.ones(2)}):
        with pytest.raises(ValueError, match="rows of three whole numbers"):
            lift.lower(wrong)
    with pytest.raises(ValueError, match="must have shapes"):
        lift.lower({"v": np.ones(5)})
    assert lift.lower({"v": np.full(4, 1e308)}) == -np.inf
