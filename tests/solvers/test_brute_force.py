"""All labelings, with a certificate that repeats them."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration
from mmcopt.errors import IncompatibleError, InfeasibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import BruteForce

X = np.random.default_rng(0).standard_normal((9, 2))


def test_two_far_groups_by_hand():
    f = LeastSquares([[0.0], [0.1], [5.0], [5.1], [5.2]], 2)
    r = mm.solve(f, BruteForce())
    assert mm.metrics.adjusted_rand_index([0, 0, 1, 1, 1], r.labels) == 1.0
    assert r.status is Status.CERTIFIED and r.certificate.kind == "enumeration" and r.verify()
    assert r.gap < 1e-9


def test_a_scan_that_was_cut_short_has_no_certificate_of_its_own(monkeypatch):
    monkeypatch.setattr(enumeration, "CHUNK", 16)
    f = LeastSquares(X, 2)
    r = mm.solve(f, BruteForce(), max_iter=2, seed=0)
    assert r.status is Status.ITERATION_LIMIT and r.certificate.kind != "enumeration"
    assert r.lower_bound <= mm.solve(f, BruteForce()).objective <= r.objective and r.verify()


def test_one_labeling_is_enough_of_a_limit_case():
    f = LeastSquares(X[:3], 3)
    assert sorted(mm.solve(f, BruteForce()).labels) == [0, 1, 2]
    known = LeastSquares(X, 2, known=dict(enumerate([0, 1] * 4 + [0])))
    r = mm.solve(known, BruteForce())
    assert r.labels.tolist() == [0, 1] * 4 + [0] and r.status is Status.CERTIFIED


def test_too_many_labelings_are_refused_and_nothing_feasible_is_said():
    with pytest.raises(IncompatibleError, match=r"there are 5.4e\+08 labelings, and its limit is "):
        mm.solve(LeastSquares(np.arange(30.0).reshape(-1, 1), 2), BruteForce())
    triangle = LeastSquares(X, 2, cannot_link=[(0, 1), (1, 2), (0, 2)])
    with pytest.raises(InfeasibleError, match="no labels were found that meet all sizes"):
        mm.solve(triangle, BruteForce())
