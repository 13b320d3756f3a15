"""scikit-learn's OneClassSVM beside our solvers of OneClassHinge: nu and C, time, stops."""

import threading

import cvxpy as cp
import numpy as np
import pytest
from literal import solved
from sklearn.svm import OneClassSVM

import mmcopt as mm
from mmcopt.comparing import Baseline, one_class
from mmcopt.formulations import CPM3C, LeastSquares, OneClassHinge
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling.result import Status

X = np.random.default_rng(0).standard_normal((20, 2)) + 2.0
WEIGHTS = 1.0 + np.arange(20) % 3
PROBLEMS = {
    "small C": OneClassHinge(X, C=4.0, kernel=Gaussian(gamma=0.5)),
    "large C": OneClassHinge(X, C=200.0, kernel=Gaussian(gamma=0.5)),
    "nu n below 1": OneClassHinge(X, C=5000.0, kernel=Gaussian(gamma=0.5)),
    "weights": OneClassHinge(X, C=10.0, kernel=Gaussian(gamma=0.5), sample_weight=WEIGHTS),
    "no weight": OneClassHinge(X, C=2.5, kernel=Gaussian(gamma=0.5),
                               sample_weight=np.arange(20) % 2),
    "linear": OneClassHinge(X, C=5.0, kernel=Linear()),
    "polynomial": OneClassHinge(X, C=5.0, kernel=Polynomial(2)),
}


def found(f, stop=None):
    return Baseline("oneclasssvm").solve(f, 0, None, stop)


@pytest.mark.parametrize("name", PROBLEMS)
def test_its_point_is_the_optimum_of_the_literal_program(name):
    f = PROBLEMS[name]
    result = found(f)
    K = f.kernel.fit(X).matrix()
    L = np.linalg.cholesky(K + 1e-10 * np.eye(20) * np.trace(K))
    a = cp.Variable(20)
    box = f.C * (np.ones(20) / 20 if f.sample_weight is None
                 else f.sample_weight / f.sample_weight.sum())
    value = solved(cp.Problem(cp.Maximize(cp.sum(a) - cp.sum_squares(L.T @ a) / 2),
                              [a >= 0, a <= box]))
    near = 0.02 if f.C > 1000 else 5e-3
    assert result.objective == pytest.approx(value, rel=near, abs=1e-5) and result.gap < 0.03
    assert result.violation == 0.0 and result.verify()


@pytest.mark.as_given
def test_its_nu_is_the_nu_of_our_point():
    f = OneClassHinge(X, C=4.0, kernel=Gaussian(gamma=0.5))
    a = mm.solve(f, mm.solvers.DualCoordinate(tol=1e-9)).point
    model = OneClassSVM(gamma=0.5, nu=f.nu(a), tol=1e-9).fit(X)
    again, _ = OneClassHinge.from_one_class_svm(model, X)
    assert again.C == pytest.approx(f.C, rel=1e-4)
    search = one_class.Search(f, threading.Event())
    rho, coefficients = search._fitted(f.nu(a))
    assert coefficients.sum() == pytest.approx(f.nu(a) * 20)
    assert 20 / rho == pytest.approx(f.C, rel=1e-4)
    np.testing.assert_allclose(coefficients / rho, a, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*the domain is empty")
@pytest.mark.parametrize("C", [0.3, 0.9])
def test_an_empty_domain(C):
    f = OneClassHinge(X, C=C * OneClassHinge(X, kernel=Gaussian(gamma=0.5)).c_min(),
                      kernel=Gaussian(gamma=0.5))
    result = found(f)
    np.testing.assert_allclose(result.point, f.upper, rtol=1e-3)
    assert not result.labels.any() and result.gap < 1e-3


def test_it_stands_beside_our_solvers():
    f = PROBLEMS["large C"]
    table = mm.compare(f, ["DualCoordinate", "OneClassSVM", "one-class-svm"], seeds=2)
    assert [row["solver"] for row in table.rows] == ["DualCoordinate"] * 2 \
        + ["oneclasssvm"] * 2 + ["oneclasssvm #2"] * 2
    ours, theirs = table.rows[0], table.rows[2]
    assert theirs["objective"] == pytest.approx(ours["objective"], rel=2e-3)
    assert theirs["status"] == "converged" and theirs["gap"] < 1e-3 and theirs["seconds"] > 0
    assert table.results[2].verify()


@pytest.mark.parametrize("make", [lambda: LeastSquares(X), lambda: CPM3C(X, 2)])
def test_it_refuses_what_is_no_domain(make):
    f = make()
    assert Baseline("oneclasssvm").refuses(f) == \
        f"it solves OneClassHinge, the problem of a domain, and this is {type(f).__name__}."
    assert "convex" in Baseline("kmeans").refuses(PROBLEMS["small C"])


def test_its_seconds_are_its_own(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mmcopt.comparing.one_class.clock", lambda: now[0])
    fit, objective = OneClassSVM.fit, OneClassHinge.objective

    def fitted(self, *args, **options):
        now[0] += 1.0
        return fit(self, *args, **options)

    def judged(self, point):
        now[0] += 100.0
        return objective(self, point)

    monkeypatch.setattr(OneClassSVM, "fit", fitted)
    monkeypatch.setattr(OneClassHinge, "objective", judged)
    _, rows, _ = Baseline("oneclasssvm").search(PROBLEMS["small C"], 0, None)
    assert [row["seconds"] for row in rows] == list(range(1, len(rows) + 1))
    best = [row["best"] for row in rows]
    assert best == np.minimum.accumulate([row["objective"] for row in rows]).tolist()


def test_a_signal_leaves_the_best_so_far():
    class Stop:
        def is_set(self):
            return True

    result = found(PROBLEMS["small C"], Stop())
    assert result.status is Status.INTERRUPTED and len(result.history) == 1 and result.verify()


def test_ctrl_c_leaves_the_best_so_far(monkeypatch):
    fit, calls = OneClassSVM.fit, []

    def interrupted(self, *args, **options):
        calls.append(self)
        if len(calls) == 1 + until:  # the first wakes scikit-learn
            raise KeyboardInterrupt
        return fit(self, *args, **options)

    monkeypatch.setattr(OneClassSVM, "fit", interrupted)
    until = 3
    result = found(PROBLEMS["small C"])
    assert result.status is Status.INTERRUPTED and len(result.history) == 2 and result.verify()
    until, calls[:] = 1, []
    with pytest.raises(KeyboardInterrupt):
        found(PROBLEMS["small C"])


def test_where_it_gives_up_the_row_has_failed(monkeypatch):
    def broken(self, *args, **options):
        if self.nu != 0.5:  # which wakes it
            raise ValueError("no")
        return self

    monkeypatch.setattr(OneClassSVM, "fit", broken)
    table = mm.compare(PROBLEMS["small C"], ["oneclasssvm", "DualCoordinate"], seeds=1)
    assert "OneClassSVM of scikit-learn gave up: no" in table.failures[0][2]
