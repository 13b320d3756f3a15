"""The interior point of several kernels: agreement, its parameters, limits."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import MKC
from mmcopt.kernels import Gaussian, Linear
from mmcopt.solvers import KernelBarrier
from mmcopt.solvers.kernel_barrier import _barrier, _newton

DIGITS = mm.datasets.load("digits:3,8")[0]
MIXED = DIGITS[np.random.default_rng(0).permutation(len(DIGITS))[:100]]


@pytest.mark.parametrize("p", [1.0, 1.2, 2.0, 4.0])
def test_newton_steps_are_those_of_the_function(p):
    r = MKC(MIXED[:7], kernels=[Linear(), Gaussian(width=0.5)], C=8.0, p=p).relax("mkc")
    barrier, rng = _barrier(r.lift, 0.02), np.random.default_rng(0)
    a, g = rng.uniform(0.2, 0.6, 7), rng.uniform(0.5, 1.0, (2, 7)) * 0.02
    assert np.isfinite(barrier.value(a, g))
    x = np.concatenate([a, g.ravel()])

    def value(relative):
        y = x * (1 + relative)
        return barrier.value(y[:7], y[7:].reshape(2, 7))

    h, eye = 1e-4, np.eye(21)
    slope = np.array([(value(h * e) - value(-h * e)) / (2 * h) for e in eye])
    H = np.array([[value(h * (d + e)) - value(h * (d - e)) - value(h * (e - d))
                   + value(-h * (d + e)) for d in eye] for e in eye]) / (4 * h * h)
    # Second derivatives of relative changes lack what the slope adds; those here are of y = x (1+r)
    da, dg, decrement = _newton(barrier, a, g)
    step = np.concatenate([da, dg.ravel()]) / x
    np.testing.assert_allclose(H @ step, -slope, rtol=1e-3, atol=1e-4 * np.abs(slope).max())
    assert decrement == pytest.approx(-slope @ step, rel=1e-4)


def test_a_hundred_samples_take_a_second_or_so():
    result = mm.solve(MKC(MIXED, C=50.0).relax("mkc"))
    assert result.gap < 2e-6 and result.verify()
    assert len(result.history) <= 16 and result.history["newton"][-1] <= 150
    assert (np.diff(result.history["dual"]) >= 0).all()
    near = mm.solve(MKC(MIXED[:30], C=50.0).relax("mkc"), "Conic")
    own = mm.solve(MKC(MIXED[:30], C=50.0).relax("mkc"))
    assert own.lower_bound == pytest.approx(near.lower_bound, rel=1e-5)


def test_hyper_parameters_do_something():
    r = MKC(MIXED[:20], C=10.0).relax("mkc")
    base = mm.solve(r)
    for other in (KernelBarrier(tol=1e-2), KernelBarrier(shrink=0.5), KernelBarrier(newton=2)):
        found = mm.solve(r, other)
        assert len(found.history) != len(base.history)
        assert found.lower_bound <= base.objective
    with pytest.raises(mm.errors.ParameterError, match="shrink"):
        KernelBarrier(shrink=1.0)


def test_a_time_limit_ends_it_with_a_bound(ticking):
    ticking(0.1)
    out = mm.solve(MKC(DIGITS[:300], C=20.0).relax("mkc"), time_limit=1.5)
    assert out.lower_bound > 0 and out.verify()
    assert out.status.name == "TIME_LIMIT"
