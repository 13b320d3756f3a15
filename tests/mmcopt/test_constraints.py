"""Sizes, known labels and links: what they mean, and each way to contradict oneself."""

import itertools

import numpy as np
import pytest

from mmcopt.constraints import (
    CannotLink,
    Known,
    MustLink,
    Sizes,
    as_sizes,
    resolve,
    square_sums,
)
from mmcopt.errors import InfeasibleError, ParameterError


def rules(n=9, k=3, sizes=None, known=None, must=None, cannot=None):
    return resolve(n, k, sizes=as_sizes(sizes), known=known and Known(known),
                   must_link=must and MustLink(must), cannot_link=cannot and CannotLink(cannot))


@pytest.mark.parametrize("sizes, low, high", [
    (Sizes(within=0.2), [4, 4], [6, 6]), (Sizes(within=0.0), [5, 5], [5, 5]),
    (Sizes(within=0.01), [4, 4], [6, 6]), (Sizes(within=2.0), [1, 1], [10, 10]),
    (Sizes(low=2), [2, 2], [10, 10]), (Sizes(high=7), [1, 1], [7, 7]),
    (Sizes(low=[2, 3], high=[7, 99]), [2, 3], [7, 10]), (Sizes(exact=[3, 7]), [3, 7], [3, 7]),
    (Sizes(exact=5), [5, 5], [5, 5]), (Sizes(low=0), [1, 1], [10, 10]),
    (Sizes(low=np.array([1, 2])), [1, 2], [10, 10]), (Sizes(low=2.0), [2, 2], [10, 10])])
def test_bounds_of_sizes(sizes, low, high):
    got = sizes.bounds(10, 2)
    assert (got[0].tolist(), got[1].tolist()) == (low, high)


@pytest.mark.parametrize("n, k", [(7, 2), (10, 3), (100, 7)])
def test_within_is_floor_and_ceiling_of_a_share(n, k):
    for a in (0.0, 0.1, 0.25, 1 / 3, 0.5):
        low, high = Sizes(within=a).bounds(n, k)
        assert low[0] == max(1, int(np.floor(round((1 - a) * n / k, 9))))
        assert high[0] == int(np.ceil(round((1 + a) * n / k, 9)))


@pytest.mark.parametrize("options, words", [
    ({}, "Sizes: give low and/or high, or within, or exact, and one of these only; got "
         "Sizes(low=None, high=None, within=None, exact=None)."),
    ({"low": 1, "within": 0.1}, "Sizes: give low and/or high, or within, or exact, and one of "
     "these only; got Sizes(low=1, high=None, within=0.1, exact=None)."),
    ({"within": -0.1}, "Sizes: within must be a finite number at least 0; got -0.1."),
    ({"within": float("inf")}, "Sizes: within must be a finite number at least 0; got inf."),
    ({"low": 1.5}, "Sizes: low must be an integer, or one a cluster; got 1.5."),
    ({"exact": [2, 2.5]}, "Sizes: exact must be an integer, or one a cluster; got [2, 2.5]."),
    ({"high": "22"}, "Sizes: high must be an integer, or one a cluster; got '22'."),
    ({"high": True}, "Sizes: high must be an integer, or one a cluster; got True."),
    ({"low": float("nan")}, "Sizes: low must be an integer, or one a cluster; got nan.")])
def test_bad_sizes_are_refused_in_words(options, words):
    with pytest.raises(ParameterError) as e:
        Sizes(**options)
    assert str(e.value) == words


def test_sizes_need_one_number_a_cluster():
    with pytest.raises(ParameterError) as e:
        Sizes(exact=[3, 6]).bounds(9, 3)
    assert str(e.value) == "Sizes: exact must be one integer or 3, one a cluster; got 2."


def test_sizes_may_be_plain_values():
    assert as_sizes(0.2) == Sizes(within=0.2) == as_sizes(np.float64(0.2))
    assert as_sizes((2, 5)) == Sizes(low=2, high=5)
    assert as_sizes(None) is None and as_sizes(Sizes(exact=3)) == Sizes(exact=3)
    for value in (3, [3, 3, 3], "0.2", (1, 2, 3)):
        with pytest.raises(ParameterError) as e:
            as_sizes(value)
        assert str(e.value) == (
            "sizes must be Sizes(...), a share such as 0.2, a pair (low, high) or None; "
            f"got {value!r}. For given sizes write Sizes(exact=[...]).")


def test_known_labels_as_a_mapping_or_an_array():
    assert Known({0: 2, 3: 1}).array(5, 3).tolist() == [2, -1, -1, 1, -1]
    assert Known([2, -1, -1, 1, -1]).array(5, 3).tolist() == [2, -1, -1, 1, -1]


@pytest.mark.parametrize("labels, words", [
    ({9: 0}, "Known: sample 9 does not exist; indices run from 0 to 8."),
    ({-1: 0}, "Known: sample -1 does not exist; indices run from 0 to 8."),
    ({0: 3}, "Known: labels must be 0..2 (or -1 for unknown); got 3."),
    ({0: -2}, "Known: labels must be 0..2 (or -1 for unknown); got -2."),
    ({0: 1.5}, "Known: samples and labels must be integers; got 0: 1.5."),
    ({"a": 1}, "Known: samples and labels must be integers; got 'a': 1."),
    ([0, 1], "Known: an array must hold one label a sample (9), with -1 where unknown; "
             "got shape (2,)."),
    ([0.5] * 9, "Known: labels must be integers, -1 where unknown; got dtype float64.")])
def test_bad_known_labels_are_refused_in_words(labels, words):
    with pytest.raises(ParameterError) as e:
        rules(known=labels)
    assert str(e.value) == words


@pytest.mark.parametrize("pairs, words", [
    ([(0, 9)], "{}: pair (0, 9) names a sample that does not exist; indices run from 0 to 8."),
    ([(1, 2), (-1, 3)],
     "{}: pair (-1, 3) names a sample that does not exist; indices run from 0 to 8."),
    ([(1, 2, 3)], "{}: each link must be a pair of sample indices; got (1, 2, 3)."),
    ([(0, 0.5)], "{}: each link must be a pair of sample indices; got (0, 0.5).")])
def test_bad_links_are_refused_in_words(pairs, words):
    for kind, cls in (("must", MustLink), ("cannot", CannotLink)):
        with pytest.raises(ParameterError) as e:
            rules(**{kind: pairs})
        assert str(e.value) == words.format(cls.__name__)


CONTRADICTIONS = {
    "n < k": ({"n": 2}, "2 samples cannot fill 3 clusters: no cluster may be empty. "
                        "Ask for at most 2."),
    "too many wanted": ({"sizes": (4, 9)}, "sizes cannot be met: 9 samples in 3 clusters of 4 to 9 "
                        "each. Widen the bounds so that n = 9 fits between 12 and 27."),
    "too few allowed": ({"sizes": (1, 2)}, "sizes cannot be met: 9 samples in 3 clusters of 1 to 2 "
                        "each. Widen the bounds so that n = 9 fits between 3 and 6."),
    "low above high": ({"sizes": (5, 2)}, "sizes cannot be met: 9 samples in 3 clusters of 5 to 2 "
                       "each. Widen the bounds so that n = 9 fits between 15 and 6."),
    "exact does not add up": ({"sizes": Sizes(exact=[2, 3, 5])}, "sizes cannot be met: 9 samples "
                              "in 3 clusters of [2, 3, 5] to [2, 3, 5] each. Widen the bounds so "
                              "that n = 9 fits between 10 and 10."),
    "must-link against known": ({"must": [(0, 4), (4, 7)], "known": {0: 1, 7: 2}},
                                "samples 0 and 7 are must-linked but have known labels 1 and 2; "
                                "drop the link or a label."),
    "cannot-link against must-link": ({"must": [(0, 4), (4, 7)], "cannot": [(7, 0)]},
                                      "samples 7 and 0 are cannot-linked and also must-linked "
                                      "(perhaps through others); drop one of the links."),
    "cannot-link to itself": ({"cannot": [(3, 3)]},
                              "samples 3 and 3 are cannot-linked and also must-linked "
                              "(perhaps through others); drop one of the links."),
    "cannot-link against known": ({"cannot": [(1, 2)], "known": {1: 0, 2: 0}},
                                  "samples 1 and 2 are cannot-linked but both have the known "
                                  "label 0; drop the link or a label."),
    "a group too large": ({"must": [(0, 1), (1, 2), (2, 3)], "sizes": (1, 3)},
                          "4 samples are must-linked together, but no cluster may hold more than "
                          "3; drop links or raise high."),
    "too few groups": ({"n": 4, "must": [(0, 1), (2, 3)]},
                       "must-links leave 2 groups for 3 clusters; drop links."),
    "too many known in one": ({"known": {0: 1, 1: 1, 2: 1, 3: 1}, "sizes": (1, 3)},
                              "4 samples are known to be in cluster 1, which may hold 3; "
                              "raise its high bound."),
    "too few left": ({"known": dict.fromkeys(range(7), 0), "sizes": Sizes(low=[1, 2, 2])},
                     "the known labels leave 2 free samples, but the clusters lack 4 to reach "
                     "their low bounds; lower these."),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_refused_in_words(case):
    options, words = CONTRADICTIONS[case]
    with pytest.raises(InfeasibleError) as e:
        rules(**options)
    assert str(e.value) == words


def test_must_links_are_closed_under_transitivity_and_numbered_by_first_sample():
    r = rules(must=[(7, 4), (4, 0), (8, 2)], known={7: 1}, cannot=[(0, 1), (1, 4), (2, 3)])
    assert r.groups.tolist() == [0, 1, 2, 3, 0, 4, 5, 0, 2]
    assert r.weights.tolist() == [3, 1, 2, 1, 1, 1]
    assert r.fixed.tolist() == [1, -1, -1, -1, -1, -1]
    assert r.apart.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("labels, violation", [
    ([0, 0, 0, 1, 1, 1, 2, 2, 2], 0.0), ([0] * 9, 6.0), ([0, 0, 0, 0, 0, 1, 1, 2, 2], 2.0),
    ([1, 1, 1, 0, 0, 0, 2, 2, 2], 1.0), ([0, 1, 0, 1, 1, 0, 2, 2, 2], 1.0),
    ([0, 0, 0, 1, 1, 2, 1, 2, 2], 1.0)])
def test_violations_count_samples_and_broken_rules(labels, violation):
    r = rules(sizes=0.0, known={0: 0}, must=[(0, 1), (3, 4)], cannot=[(2, 5), (0, 3), (4, 6)])
    assert r.violation(np.array(labels)) == violation


# ---------------------------------------------------------------- sums of squared sizes


def every_size(low, high, total):
    ranges = [range(a, b + 1) for a, b in zip(low, high, strict=True)]
    return [s for s in itertools.product(*ranges) if sum(s) == total]


@pytest.mark.nojit
def test_sums_of_squared_sizes_are_bounded_from_both_sides():
    rng, most_exact = np.random.default_rng(0), 0
    for _ in range(400):
        k = int(rng.integers(2, 5))
        low = rng.integers(1, 5, k)
        high = low + rng.integers(0, 6, k)
        total = int(rng.integers(low.sum(), high.sum() + 1))
        sums = [sum(v * v for v in s) for s in every_size(low, high, total)]
        least, most = square_sums(low, high, total)
        assert least == min(sums)  # attained by the most even sizes
        assert most >= max(sums)
        most_exact += most == max(sums)
    assert most_exact > 200


@pytest.mark.parametrize("low, high, total, sums", [
    ([1, 5], [10, 10], 12, (72, 104)), ([2, 2, 2], [9, 9, 9], 12, (48, 64 + 4 + 4)),
    ([3, 3], [3, 3], 6, (18, 18)), ([1], [9], 7, (49, 49)),
    ([1, 1, 7], [9, 9, 9], 12, (49 + 9 + 4, 81 + 4 + 1))])
def test_sums_of_squared_sizes_by_hand(low, high, total, sums):
    assert square_sums(low, high, total)[0] == sums[0]
    assert square_sums(low, high, total)[1] >= sums[1]
    if len(set(low)) == 1 or len(low) == 2:
        assert square_sums(low, high, total)[1] == sums[1]
