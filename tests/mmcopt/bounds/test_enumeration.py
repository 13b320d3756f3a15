"""All labelings, by a definition that is written out again here."""

import itertools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration

A = np.random.default_rng(0).standard_normal((6, 6))
W = A + A.T


@pytest.mark.parametrize("options", [
    {}, {"k": 3}, {"k": 3, "low": [1, 2, 2]}, {"k": 3, "high": 3}, {"fixed": [1] + [-1] * 5},
    {"k": 3, "apart": [(0, 1), (1, 2)]}, {"weights": [3, 1, 1, 1, 1, 1], "high": 5},
    {"fixed": [0, 1, 0, 1, 0, 1]}])
def test_the_labelings_are_those_that_keep_the_rules(options):
    lq = mm.LabelQuadratic(W, **options)
    wanted = set()
    for c in itertools.product(range(lq.k), repeat=6):
        c = np.array(c)
        if lq.violation(c) == 0 and (not lq.symmetric or c[0] == 0):
            wanted.add(tuple(c))
    rows = np.vstack(list(enumeration.chunks(lq)))
    assert len(rows) == len(wanted) and {tuple(r) for r in rows} == wanted
    values = [lq.value(r) for r in rows]
    np.testing.assert_allclose(enumeration.values(lq, rows), values)
    best, labels = enumeration.minimum(lq)
    assert best == pytest.approx(min(values)) and lq.value(labels) == pytest.approx(best)


def test_nothing_feasible_gives_no_labels():
    lq = mm.LabelQuadratic(W, k=2, apart=[(0, 1), (1, 2), (0, 2)])
    assert enumeration.minimum(lq) == (np.inf, None)


def test_counting(monkeypatch):
    assert enumeration.count_labelings(mm.LabelQuadratic(W, k=3)) == 3**5
    assert enumeration.count_labelings(mm.LabelQuadratic(W, fixed=[1] + [-1] * 5)) == 2**5
    assert enumeration.count_labelings(mm.LabelQuadratic(W, fixed=[1, 0] * 3)) == 1
    monkeypatch.setattr(enumeration, "CHUNK", 7)
    lq = mm.LabelQuadratic(W)
    assert sum(len(enumeration.chunk(lq, i)) for i in range(5)) == 32
