"""R, and what it leaves: to the digits that are shown, or refused in a sentence that helps."""

import dataclasses
import re

import exact
import mpmath
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.certificates import certified
from mmcopt.errors import MMCWarning, ParameterError
from mmcopt.formulations import Diffrac, LeastSquares
from mmcopt.formulations.label_regression import LabelRegression
from mmcopt.kernels import Gaussian, Linear, Polynomial, Precomputed
from mmcopt.modeling import Status

IRIS = mm.datasets.load("iris")[0]
LABELS = np.arange(150) // 50
# Rows in units of their own, one of which drowns the others.
UNITS = np.random.default_rng(0).normal([13, 2, 2, 20, 750], [1, 1, 0.3, 3, 300], (60, 5))


def pair(n):
    """Two tight groups."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(0, 0.01, (n // 2, 2)), rng.normal(5, 0.01, (n // 2, 2))])


@pytest.mark.parametrize("problem, name, value", [
    (LeastSquares(IRIS, 3, kernel=Gaussian(width=0.5), lam=1e-11), "lam", "1e-11"),
    (LeastSquares(IRIS, 3, kernel=Gaussian(width=0.5), lam=1e-15), "lam", "1e-15"),
    (LeastSquares(IRIS, 3, kernel=Gaussian(width=0.5), lam=1e-15, scaling="mean"), "lam", "1e-15"),
    (LeastSquares(IRIS, 3, kernel=Linear(), lam=1e-28), "lam", "1e-28"),
    (LeastSquares(UNITS, 3, kernel=Polynomial(3), lam=0.1), "lam", "0.1"),
    (LeastSquares(UNITS, 3, kernel=Polynomial(4), lam=0.1), "lam", "0.1"),
    (Diffrac(IRIS, 3, kernel=Gaussian(width=0.5), kappa=1e-14), "kappa", "1e-14"),
], ids=range(7))
def test_a_lam_below_the_rounding_of_the_kernel_is_refused(problem, name, value):
    words = rf": {name} = {value} is too small for this kernel of \d+ samples, whose entries " \
        rf"reach [\d.e+]+: .* give a {name} of at least ([\d.e+-]+), or"
    with pytest.raises(ParameterError, match=words) as refused:
        mm.evaluate(problem, np.arange(problem.n) % 3)
    assert "\n" not in str(refused.value)
    safe = float(re.search(words, str(refused.value)).group(1))
    near = mm.evaluate(problem.replace(**{name: 1.1 * safe}), np.arange(problem.n) % 3)
    assert near.verify() and near.formulation.uncertainty(near.point) <= 1e-3 * near.objective


@pytest.mark.parametrize("problem, name", [
    (LeastSquares(IRIS, 3, lam=1e300), "lam"), (LeastSquares(IRIS, 3, lam=1e165), "lam"),
    (LeastSquares(IRIS, 3, kernel=Linear(), lam=1e300), "lam"), (Diffrac(IRIS, 3, kappa=1e165),
                                                                 "kappa")], ids=range(4))
def test_a_lam_that_leaves_nothing_to_compare_is_refused(problem, name):
    words = rf"{name} = .* is too large .* give a {name} of at most ([\d.e+]+)\."
    with pytest.raises(ParameterError, match=words) as refused:
        mm.solve(problem, seed=0)
    safe = float(re.search(words, str(refused.value)).group(1))
    assert mm.evaluate(problem.replace(**{name: 0.9 * safe}), LABELS).verify()


@pytest.mark.parametrize("family", [LeastSquares, Diffrac])
@pytest.mark.parametrize("shift", [1e-9, 1e-8, 1e-6])
def test_objectives_and_their_rounding_hold_in_exact_arithmetic(family, shift):
    X = IRIS[::5]
    c = np.arange(30) // 10
    name, unit = ("lam", 1) if family is LeastSquares else ("kappa", 30)
    problem = family(X, 3, kernel=Gaussian(width=0.5), **{name: shift / unit})
    with exact.arithmetic(), mpmath.workprec(300):
        true = exact.LabelForm(problem).value(c)
        for f in (problem, *problem.path([shift / unit] * 4)[:1]):
            assert abs(f.objective(c) - true) <= f.uncertainty(c) + 1e-12 * true
    assert 0.0 < problem.uncertainty(c) <= 1e-3 * problem.objective(c)


def test_objectives_next_to_nothing_keep_their_digits():
    X = np.random.default_rng(0).standard_normal((6, 2))
    c = np.arange(6) % 2
    for f in (LeastSquares(X, 2, kernel=Gaussian(gamma=50.0), lam=1e-14),
              Diffrac(X, 2, kernel=Gaussian(gamma=50.0), kappa=1e-15),
              LeastSquares(X, 2, kernel=Gaussian(gamma=50.0), lam=1e-14, center=False)):
        with exact.arithmetic():
            true = float(exact.LabelForm(f).value(c))
        assert 0.0 < true < 1e-12
        assert f.objective(c) == pytest.approx(true, rel=1e-9)


def test_doubtful_digits_are_shown():
    r = mm.evaluate(LeastSquares(IRIS, 2, kernel=Gaussian(width=0.5), lam=2e-9), LABELS % 2)
    assert re.search(r"objective [\d.e-]+ \+- [\d.e-]+,", r.summary())
    assert "+-" not in mm.evaluate(LeastSquares(IRIS, 3), LABELS).summary()


@pytest.mark.parametrize("kernel", [Gaussian(width=0.5), Gaussian(width=0.5).nystroem(20)],
                         ids=repr)
@pytest.mark.parametrize("family", [LeastSquares, Diffrac])
def test_results_along_a_path_are_verified(family, kernel):
    name, unit = ("lam", 1) if family is LeastSquares else ("kappa", 50)
    problem = family(IRIS[::3], 3, kernel=kernel)
    for f in problem.path([lam / unit for lam in (1e-9, 1e-8, 1e-6, 1e-1)]):
        result = mm.solve(f, "SteepestDescent", seed=0)
        assert result.verify(), str(result.verify())
        fresh = family(IRIS[::3], 3, kernel=kernel, **{name: getattr(f, name)})
        slack = 2 * f.uncertainty(result.point) + 1e-12
        assert abs(fresh.objective(result.point) - result.objective) <= slack


def test_a_path_and_a_fresh_problem_see_the_same_negative_eigenvalue():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
    K = V @ np.diag([-1e-11, 1e-3, 0.1, 0.5, 1.0, 1.0, 2.0, 3.0]) @ V.T
    K = (K + K.T) / 2
    base = LeastSquares(K, 2, kernel=Precomputed(), center=False, lam=1.0)
    c = np.arange(8) % 2
    for lam in (2e-11, 1e-10, 1e-6):
        fresh = LeastSquares(K, 2, kernel=Precomputed(), center=False, lam=lam)
        assert base.path([lam] * 4)[0].objective(c) == pytest.approx(fresh.objective(c), rel=1e-3)


def test_honest_problems_that_cancel_are_solved():
    for n in (40, 100):
        f = LeastSquares(pair(n), 2, lam=1e-8)
        for solver in ("Tabu", "KernighanLin", "SteepestDescent"):
            result = mm.solve(f, solver, seed=0)
            assert result.verify() and 0.0 < result.objective < 1e-5


# ---------------------------------------------------------------- gaps


@pytest.mark.parametrize("kappa", [1e-8, 1e-9, 1e-10])
def test_diffrac_never_has_a_bound_above_its_objective(kappa):
    X = IRIS[::10]
    f = Diffrac(X, 3, kernel=Gaussian(width=0.5), kappa=kappa, sizes=0.2)
    result = mm.solve(f, "Tabu", seed=0)
    assert result.lower_bound <= result.objective and result.verify()
    with exact.arithmetic(), mpmath.workprec(300):
        true = exact.LabelForm(f).value(result.point)
        assert abs(result.objective - true) <= f.uncertainty(result.point) + 1e-9 * true


def test_a_negative_gap_is_never_certified():
    result = mm.evaluate(LeastSquares(IRIS, 3), LABELS)
    above = dataclasses.replace(result, lower_bound=1.01 * result.objective)
    assert above.gap < 0 and not above.proves(1e-4)
    assert above.certify(time_limit=0.0).status is not Status.CERTIFIED


def test_a_bound_above_the_objective_is_left_out_and_said(monkeypatch):
    from mmcopt.bounds import certificates

    result = dataclasses.replace(mm.evaluate(LeastSquares(IRIS, 3), LABELS), lower_bound=None)
    monkeypatch.setitem(certificates.BOUNDS, "trivial", lambda f, duals: 1.1 * result.objective)
    with pytest.warns(MMCWarning, match="is above the objective .* one of them is wrong"):
        assert certified(result, "trivial", {}).lower_bound is None
    monkeypatch.setitem(certificates.BOUNDS, "trivial",
                        lambda f, duals: result.objective * (1 + 1e-14))
    assert certified(result, "trivial", {}).lower_bound <= result.objective


@pytest.mark.parametrize("lower, closed", [(-1.0, 0.0), (3.0, 0.5), (9.0, 1.0)])
def test_closed_stays_between_nothing_and_all(lower, closed):
    result = mm.evaluate(LeastSquares(IRIS, 3), LABELS)
    result = dataclasses.replace(result, objective=5.0, trivial_bound=1.0, lower_bound=lower)
    assert result.closed == closed


@pytest.mark.filterwarnings("ignore:.*the domain is empty")
def test_small_units_prove_nothing_by_themselves():
    X = np.random.default_rng(0).standard_normal((9, 2))
    result = mm.solve(mm.formulations.OneClassHinge(X, C=1e-165, kernel=Gaussian(gamma=1.0)),
                      seed=0, max_iter=1)
    low = dataclasses.replace(result, lower_bound=0.0)
    assert low.gap < 1e-100 and not low.proves(1e-4)  # the gap is over 1e-10, its definition
    if result.status is Status.CERTIFIED:
        assert result.objective - result.lower_bound <= 1e-4 * result.objective


def test_the_trivial_bound_is_rounded_down():
    from fractions import Fraction

    for n in (5, 7, 10, 11):
        X = np.random.default_rng(n).standard_normal((n, 2))
        bound = LeastSquares(X, 3, lam=1e15).offer(mm.capabilities.LabelQuadratic).trivial_bound
        assert Fraction(bound) <= Fraction(n, 3) and bound == pytest.approx(n / 3)


def test_all_label_problems_carry_their_rounding():
    for cls in LabelRegression.__subclasses__():
        for f in cls.examples():
            lq = f.offer(mm.capabilities.LabelProblem)
            share, part = lq.rounding()
            assert 0.0 < share < 1e-9 and 0.0 < part < 1e-9 and lq.safe(1.0) < 1.0
