"""Finding feasible labels: always when there are some, never when there are none, everywhere."""

import itertools

import numpy as np
import pytest

from mmcopt.capabilities.feasible_labels import find_labels
from mmcopt.errors import InfeasibleError


def instance(seed):
    rng = np.random.default_rng([seed, 7])
    n, k = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    weights = np.ones(n, np.int64) if rng.random() < 0.4 else rng.integers(1, 4, n)
    low = rng.integers(1, 1 + max(1, int(weights.sum()) // k), k)
    high = low + rng.integers(0, 4, k)
    fixed = np.where(rng.random(n) < 0.25, rng.integers(k, size=n), -1)
    pairs = [p for p in itertools.combinations(range(n), 2) if rng.random() < 0.15]
    return weights, low, high, fixed, np.array(pairs, np.int64).reshape(-1, 2)


def feasible(c, weights, low, high, fixed, apart):
    sizes = np.bincount(c, weights=weights, minlength=low.size)
    return bool((sizes >= low).all() and (sizes <= high).all()
                and (c[fixed >= 0] == fixed[fixed >= 0]).all()
                and (c[apart[:, 0]] != c[apart[:, 1]]).all())


def everything(weights, low, high, fixed, apart):
    every = (np.array(c) for c in itertools.product(range(low.size), repeat=weights.size))
    return [c for c in every if feasible(c, weights, low, high, fixed, apart)]


def test_labels_are_found_exactly_when_there_are_some():
    found = missing = 0
    for seed in range(300):
        args = instance(seed)
        rng = np.random.default_rng(seed)
        if everything(*args):
            for _ in range(3):
                assert feasible(find_labels(*args, rng), *args), seed
            start = rng.integers(args[1].size, size=args[0].size)
            kept = start.copy()
            assert feasible(find_labels(*args, rng, start=start), *args), seed
            assert np.array_equal(start, kept)
            found += 1
        else:
            with pytest.raises(InfeasibleError):
                find_labels(*args, rng)
            missing += 1
    assert found > 80 and missing > 80


def test_every_feasible_labeling_can_be_drawn():
    missed = 0
    for seed in range(60):
        args = instance(seed)
        labelings = {c.tobytes() for c in everything(*args)}
        if not 0 < len(labelings) <= 30:
            continue
        rng = np.random.default_rng(seed)
        drawn = {find_labels(*args, rng).tobytes() for _ in range(60 * len(labelings))}
        missed += len(labelings - drawn)
    assert missed == 0


def test_both_sides_of_a_known_label_can_be_drawn():
    # A chain of cannot-links has two colourings; a known sample elsewhere must not choose one.
    weights = np.array([1, 1, 1, 1, 3, 1, 1])
    fixed = np.array([-1, -1, -1, -1, -1, 0, -1])
    apart = np.array([[0, 3], [2, 4], [3, 4]])
    args = weights, np.array([1, 1]), np.array([8, 8]), fixed, apart
    rng = np.random.default_rng(0)
    assert {int(find_labels(*args, rng)[4]) for _ in range(30)} == {0, 1}


def test_known_labels_never_make_a_feasible_problem_infeasible():
    fixed = np.array([0, 0, 0, -1, -1, -1])
    ones = np.ones(6, np.int64)
    none = np.empty((0, 2), np.int64)
    for seed in range(300):
        c = find_labels(ones, np.ones(3, int), np.full(3, 4), fixed, none,
                        np.random.default_rng(seed))
        assert (c[:3] == 0).all() and np.bincount(c, minlength=3).min() >= 1


def test_near_labels_stay_when_they_are_feasible():
    none, ones = np.empty((0, 2), np.int64), np.ones(8, np.int64)
    start = np.arange(8) % 2
    free = np.full(8, -1)
    rng = np.random.default_rng(0)
    same = find_labels(ones, np.array([4, 4]), np.array([4, 4]), free, none, rng, start=start)
    assert np.array_equal(same, start)
    near = find_labels(ones, np.array([5, 3]), np.array([5, 3]), free, none, rng, start=start)
    assert (near != start).sum() == 1


def test_the_words_when_known_labels_leave_too_little():
    none, ones = np.empty((0, 2), np.int64), np.ones(4, np.int64)
    with pytest.raises(InfeasibleError) as e:
        find_labels(ones, np.array([1, 1]), np.array([4, 4]), np.zeros(4, int), none,
                    np.random.default_rng(0))
    assert str(e.value) == ("the known labels leave too few free samples to meet the sizes; "
                            "widen the sizes.")


def test_the_words_when_links_cannot_be_met():
    triangle = np.array([[0, 1], [1, 2], [0, 2]])
    with pytest.raises(InfeasibleError) as e:
        find_labels(np.ones(4, np.int64), np.array([1, 1]), np.array([3, 3]), np.full(4, -1),
                    triangle, np.random.default_rng(0))
    assert str(e.value) == (
        "no labels were found that meet all sizes, known labels and links at once (50 random tries "
        "and 200000 steps of backtracking); loosen sizes or drop links.")
