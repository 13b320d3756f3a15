"""The lift of k-means: no dual point whatever proves more than the best labels have."""

import itertools

import numpy as np
import pytest

from mmcopt.bounds.ratio_lift import PAIR, RatioLift, entries, ratio_lift, violated
from mmcopt.capabilities import LabelRatio


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


def least(ratio):
    rows = (np.array(c) for c in itertools.product(range(ratio.k), repeat=ratio.n))
    return min(ratio.value(c) for c in rows if ratio.violation(c) == 0.0)


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
           "g": size * rng.standard_normal(len(cuts)), "cuts": cuts}
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
