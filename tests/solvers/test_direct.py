"""One linear solve."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import LeastSquaresFit
from mmcopt.modeling.result import Status
from mmcopt.solvers import Direct

X = np.random.default_rng(0).standard_normal((8, 2))


@pytest.mark.parametrize("lam", [1e-6, 1.0, 1e6])
def test_the_optimum_is_certified_by_its_own_dual_point(lam):
    r = mm.solve(LeastSquaresFit(X, np.arange(8) % 2, lam=lam), Direct())
    assert r.status is Status.CERTIFIED and r.gap < 1e-9 and r.verify()
    assert r.certificate.kind == "own" and len(r.history) == 1


def test_forged_bounds_of_a_fit_do_not_verify():
    from dataclasses import replace

    r = mm.solve(LeastSquaresFit(X, np.arange(8) % 2), Direct())
    assert not replace(r, lower_bound=r.lower_bound + 1e-3).verify()
    far = replace(r.certificate, duals={"A": r.point + 1.0})
    assert not replace(r, certificate=far).verify()
    assert not replace(r, certificate=replace(r.certificate, duals={"A": r.point[:3]})).verify()


def test_it_has_no_hyper_parameters():
    assert repr(Direct()) == "Direct()" and Direct() == Direct()
