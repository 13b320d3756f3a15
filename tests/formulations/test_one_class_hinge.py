"""The one-class hinge problem: its duality, its parametrisations, its edges."""

import math
import warnings

import numpy as np
import pytest
from literal import solved
from sklearn.svm import OneClassSVM

import mmcopt as mm
from mmcopt.capabilities import Bounded, BoxDual
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian, Linear, Polynomial, Precomputed
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane, DualCoordinate

EXACT = DualCoordinate(tol=1e-9)
CLOUDS = np.vstack([np.random.default_rng(0).standard_normal((20, 2)) + c for c in (-3, 3)])


def draw(seed):
    """A random problem of up to 300 samples."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 300)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) + 3.0 * rng.integers(0, 3, (n, 1))
    kernel = [Gaussian(gamma=10.0 ** rng.uniform(-2, 1)), Gaussian(width=0.3),
              Gaussian(gamma=0.1) + 0.5 * Polynomial(2)][seed % 3]
    weight = rng.integers(1, 5, n).astype(float) if seed % 4 == 0 else None
    f = OneClassHinge(X, C=1.0, kernel=kernel, sample_weight=weight)
    return f.replace(C=f.c_min() * 10.0 ** rng.uniform(0.1, 4))


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_is_that_of_a_conic_solver(seed):
    f = draw(seed)
    ours, theirs = mm.solve(f, EXACT, seed=0), mm.solve(f, "Conic")
    unit = abs(theirs.objective)
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-6 * unit)
    assert ours.lower_bound <= theirs.objective + 1e-6 * unit
    assert ours.verify() and ours.status is Status.CERTIFIED and ours.gap <= 1e-9
    rough = mm.solve(f, seed=0)
    assert rough.gap <= 1e-3 and rough.objective >= ours.lower_bound - 1e-12 * unit


def test_the_gap_is_a_sum_without_negative_terms():
    rng = np.random.default_rng(4)
    for seed in range(20):
        f = draw(seed)
        u = f.offer(BoxDual).upper
        a = u * np.clip(rng.uniform(-0.5, 1.5, f.n), 0, 1)
        g = 1 - f.kernel.fit(f.X).matrix() @ a
        terms = u * np.maximum(g, 0) - a * g
        primal, dual = f.objective(a), f.offer(Bounded).bound({"a": a})
        assert terms.min() >= 0
        assert primal - dual == pytest.approx(terms.sum(), rel=1e-9, abs=1e-10 * primal)
        outside = a + rng.standard_normal(f.n) * u  # any vector proves a bound
        assert f.offer(Bounded).bound({"a": outside}) <= mm.solve(f, EXACT, seed=0).objective


def test_a_forged_bound_is_refused():
    import dataclasses

    result = mm.solve(OneClassHinge(CLOUDS, C=50.0), seed=0)
    assert result.verify()
    assert not dataclasses.replace(result, lower_bound=result.lower_bound * 1.001).verify()
    assert not dataclasses.replace(result, objective=result.objective * 0.999).verify()
    assert not dataclasses.replace(result, labels=1 - result.labels).verify()


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_labels_on_the_edge_of_the_domain_may_fall_either_way(scale):
    import dataclasses

    f = OneClassHinge(scale * CLOUDS, C=50.0, kernel=Gaussian(gamma=0.5 / scale**2))
    result = mm.solve(f, EXACT, seed=0)
    edge = (result.point > 0.0) & (result.point < f.upper)
    assert edge.any() and np.abs(f.scores(result.point)[edge] - 1.0).max() < 1e-9

    def changed(where):
        return dataclasses.replace(result, labels=np.where(where, 1 - result.labels, result.labels))

    assert changed(edge).verify()
    named = changed(edge).with_labels(["out", "in"])
    assert dataclasses.replace(named, labels=np.array(["out", "in"])[changed(edge).labels]).verify()
    assert not changed(np.arange(f.n) == np.argmax(np.abs(f.scores(result.point) - 1.0))).verify()
    assert not dataclasses.replace(result, labels=result.labels + 0.5).verify()
    assert not dataclasses.replace(result, labels=result.labels[:-1]).verify()
    assert not dataclasses.replace(result, labels=result.labels - 2).verify()


def test_whole_weights_are_repeated_samples():
    rng = np.random.default_rng(5)
    X, w = rng.standard_normal((30, 2)), rng.integers(1, 4, 30)
    f = OneClassHinge(X, C=30.0, kernel=Gaussian(gamma=0.5), sample_weight=w)
    g = OneClassHinge(np.repeat(X, w, axis=0), C=30.0, kernel=Gaussian(gamma=0.5))
    once, repeated = mm.solve(f, EXACT, seed=0), mm.solve(g, EXACT, seed=0)
    assert once.objective == pytest.approx(repeated.objective, rel=1e-8)
    sums = np.zeros(30)
    np.add.at(sums, np.repeat(np.arange(30), w), repeated.point)
    assert f.objective(sums) == pytest.approx(repeated.objective, rel=1e-12)
    new = rng.standard_normal((9, 2))
    np.testing.assert_allclose(once.decision_function(new), repeated.decision_function(new),
                               atol=1e-4)


@pytest.mark.as_given
@pytest.mark.parametrize("options", [{"kernel": "rbf", "gamma": 0.4}, {"kernel": "rbf"},
                                     {"kernel": "linear"},
                                     {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.3}])
@pytest.mark.parametrize("nu", [0.9, 0.2, 0.02])
def test_one_class_svm_solves_the_same_problem(options, nu):
    X = CLOUDS + 8.0 if options["kernel"] == "linear" else CLOUDS
    model = OneClassSVM(nu=nu, tol=1e-10, **options).fit(X)
    f, a = OneClassHinge.from_one_class_svm(model, X)
    assert f.nu(a) == pytest.approx(nu)
    best = mm.solve(f, EXACT, seed=0)
    assert f.objective(a) == pytest.approx(best.objective, rel=1e-6)
    assert f.nu(best.point) == pytest.approx(nu, rel=1e-2)
    new = X[:5] + 0.3
    scale = abs(model.offset_[0])
    np.testing.assert_allclose(f.decision_function(a, new), model.decision_function(new) / scale,
                               rtol=1e-7, atol=1e-9)


def test_domains_begin_at_c_min():
    f = OneClassHinge(CLOUDS, C=1.0, kernel=Gaussian(gamma=0.5))
    K = f.kernel.fit(f.X).matrix()
    assert f.c_min() == pytest.approx(40 / K.sum(axis=1).max())
    with pytest.warns(UserWarning, match=r"domain is empty: at C = .* begin above C = ") as seen:
        below = mm.solve(f.replace(C=0.99 * f.c_min()), EXACT, seed=0)
    assert below.labels.sum() == 0 and below.status is Status.CERTIFIED
    assert "domain is empty" in below.message
    assert float(str(seen[0].message).split()[-1][:-1]) == pytest.approx(f.c_min(), rel=1e-5)
    np.testing.assert_allclose(below.point, 0.99 * f.c_min() / 40)
    above = mm.solve(f.replace(C=1.05 * f.c_min()), EXACT, seed=0)
    assert above.labels.sum() > 0
    assert math.isinf(OneClassHinge([[0.0], [0.0]], kernel=Linear()).c_min())


@pytest.mark.parametrize("gamma", [0.05, 1.0, 50.0])
def test_margins_are_hard_from_a_box_of_one_on(gamma):
    at = OneClassHinge(CLOUDS, C=40.0, kernel=Gaussian(gamma=gamma))
    beyond = at.replace(C=4000.0)
    results = [mm.solve(f, EXACT, seed=0) for f in (at, beyond)]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-7)
    assert results[1].point.max() <= 1.0 + 1e-6


def test_decisions_agree_with_scores_and_labels():
    f = OneClassHinge(CLOUDS, C=30.0, kernel=Gaussian(gamma=0.3))
    result = mm.solve(f, seed=0)
    np.testing.assert_allclose(result.decision_function(f.X), f.scores(result.point) - 1,
                               atol=1e-12)
    sure = np.abs(f.scores(result.point) - 1) > 1e-9
    assert np.array_equal(result.predict(f.X)[sure], result.labels[sure])
    assert result.predict([[100.0, 100.0]]).tolist() == [0]
    assert set(result.labels) <= {0, 1}


@pytest.mark.parametrize("build, error, words", [
    (lambda: OneClassHinge(CLOUDS, C=0.0), ParameterError, "C must be a finite number above 0"),
    (lambda: OneClassHinge(CLOUDS, sample_weight=np.ones(3)), DataError, "40 finite numbers"),
    (lambda: OneClassHinge(CLOUDS, sample_weight=-np.ones(40)), DataError, "none negative"),
    (lambda: OneClassHinge([[np.nan, 1.0]]), DataError, "NaN"),
    (lambda: OneClassHinge(CLOUDS).objective(np.ones(3)), DataError, "one finite number a sample"),
    (lambda: mm.solve(OneClassHinge(-np.eye(3), kernel=Precomputed())), DataError,
     "positive semidefinite"),
    (lambda: mm.evaluate(OneClassHinge(CLOUDS), np.arange(40) % 2), DataError, "no point"),
    (lambda: mm.solve(OneClassHinge(CLOUDS), "Memetic"), mm.errors.IncompatibleError,
     "DualCoordinate")])
def test_bad_input_gets_a_sentence(build, error, words):
    with pytest.raises(error, match=words):
        build()


@pytest.mark.parametrize("X", [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]], np.ones((7, 1)),
                               [[0.0], [1e6]], np.eye(3) * 1e-9])
@pytest.mark.parametrize("gamma", [1e-12, 1.0, 1e12])
def test_tiny_and_degenerate_data_have_right_answers(X, gamma):
    n = len(X)
    f = OneClassHinge(X, C=1000.0, kernel=Gaussian(gamma=gamma))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = mm.solve(f, EXACT, seed=0)
    assert result.objective == pytest.approx(solved(f.reference()), rel=1e-6)
    assert result.verify() and result.point.shape == (n,)


def test_sparse_features_work_without_densifying():
    from scipy.sparse import csr_matrix

    X = np.maximum(CLOUDS, 0.0)
    dense = mm.solve(OneClassHinge(X, C=50.0, kernel=Gaussian(gamma=0.3)), EXACT, seed=0)
    sparse = mm.solve(OneClassHinge(csr_matrix(X), C=50.0, kernel=Gaussian(gamma=0.3)), EXACT,
                      seed=0)
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-8)


@pytest.mark.parametrize("kernel", [Polynomial(2).centered(), Gaussian(gamma=0.5).centered()],
                         ids=repr)
@pytest.mark.parametrize("C", [1e6, 1e10, 1e14])
def test_bounds_hold_where_the_sum_cancels(kernel, C):
    X = np.random.default_rng(3).standard_normal((40, 2))
    f = OneClassHinge(X - X.mean(axis=0), C=C, kernel=kernel)
    for a in (f.upper, f.upper * np.random.default_rng(0).uniform(0, 1, 40)):
        assert f.offer(Bounded).bound({"a": a}) <= f.objective(np.zeros(40))


@pytest.mark.parametrize("X, words", [([[1.0], [-1.0]], "empty for every C"),
                                      (np.zeros((3, 1)), "empty for every C")])
def test_kernels_without_a_domain_are_named(X, words):
    with pytest.warns(UserWarning, match=words):
        mm.solve(OneClassHinge(X, C=5.0, kernel=Linear()), seed=0)


@pytest.mark.parametrize("solver", ["DualCoordinate", "SGD", "Conic"])
def test_every_solver_warns_of_an_empty_domain(solver):
    X = mm.datasets.load("moons:n=600,noise=.1,seed=0")[0][:300]
    f = OneClassHinge(X, kernel=Gaussian(gamma=10.0))
    with pytest.warns(UserWarning, match="domains begin above C"):
        mm.solve(f.replace(C=0.5 * f.c_min()), solver, seed=0)


def test_offsets_of_the_features_do_not_spoil_the_kernel():
    Z = np.random.default_rng(0).standard_normal((300, 30)) * 0.1
    near = mm.solve(OneClassHinge(Z, C=100.0, kernel=Gaussian(gamma=1.0)), EXACT, seed=0)
    Z[:150] += 1e7
    far = OneClassHinge(Z, C=100.0, kernel=Gaussian(gamma=1.0))
    result = mm.solve(far, seed=0)
    assert result.verify() and near.objective < result.objective


@pytest.mark.as_given
def test_weights_of_a_one_class_svm_are_asked_for():
    w = np.r_[np.zeros(10), 1.0 + np.arange(30) % 3]
    model = OneClassSVM(nu=0.2, gamma=0.4, tol=1e-9).fit(CLOUDS, sample_weight=w)
    f, a = OneClassHinge.from_one_class_svm(model, CLOUDS, w)
    assert f.objective(a) == pytest.approx(mm.solve(f, EXACT, seed=0).objective, rel=1e-5)
    for wrong in (None, np.r_[w[10:], w[:10]]):
        with pytest.raises(DataError, match="other weights|sample_weight of its fit"):
            OneClassHinge.from_one_class_svm(model, CLOUDS, wrong)
    with pytest.raises(DataError, match="only a fitted OneClassSVM"):
        OneClassHinge.from_one_class_svm(OneClassSVM(), CLOUDS)


def test_never_worse_than_nothing():
    f = OneClassHinge(CLOUDS, C=1e10, kernel=Linear().centered())
    result = mm.solve(f, seed=0, max_iter=3)
    assert result.objective <= f.objective(np.zeros(40))


def test_cutting_planes_solve_the_primal_with_a_proof():
    for f in OneClassHinge.examples():
        result = mm.solve(f, CuttingPlane(epsilon=1e-8))
        assert result.status is Status.CERTIFIED and result.gap <= 1e-7 and result.verify()
        assert (result.point >= 0).all() and (result.point <= f.upper * (1 + 1e-12)).all()
        best = mm.solve(f, DualCoordinate(tol=1e-9)).objective
        assert result.objective == pytest.approx(best, rel=1e-6)
        coarse = mm.solve(f, CuttingPlane(epsilon=0.1))
        assert coarse.gap <= 0.1 and coarse.objective >= result.objective * (1 - 1e-9)
        again = mm.solve(f, CuttingPlane(epsilon=0.1), init=result, max_iter=1)
        assert again.objective <= result.objective * (1 + 1e-9)
    many = OneClassHinge(np.random.default_rng(0).standard_normal((2001, 2)))
    assert CuttingPlane().refuses(many) is not None  # its kernel matrix has no cheap root
    assert CuttingPlane().refuses(many.replace(kernel=Gaussian(gamma=1.0).nystroem(50))) is None
