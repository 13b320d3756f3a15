"""The lifted margin: its program, its bound for any duals, its point, and what certify does."""

import dataclasses
import warnings

import numpy as np
import pytest
from relaxed import hinge_optimum as optimum
from relaxed import hinge_problem, parts, program, solved

import mmcopt as mm
from mmcopt.bounds.weight_lift import MarginLift, margin_lift, psi
from mmcopt.capabilities import LabelQuadratic, LiftedMargin
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC, LeastSquares
from mmcopt.formulations.relaxations import Lifted
from mmcopt.kernels.features import Features
from mmcopt.margins import Logistic

RELAXED = Lifted.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
DIGITS = mm.datasets.load("digits:3,8")[0]
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


# ---------------------------------------------------------------- the bound


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    tight = 1e-4 if r.lift.level else 1e-5  # the price of a balance of 0 is infinite
    assert solved(r.reference()) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.objective(point) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.violation(point) < 1e-6
    assert r.bound(duals) == pytest.approx(value, rel=tight, abs=1e-6)
    assert r.bound(duals) <= optimum(r.problem) + 1e-9


@CASES
def test_no_duals_give_a_bound_above_the_optimum(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    best = optimum(r.problem)
    for _ in range(120):
        scale = 10.0 ** rng.uniform(-6, 3)
        wild = {k: v + scale * rng.standard_normal(np.shape(v)) for k, v in duals.items()}
        bound = r.bound(wild)
        assert 0.0 <= bound <= best + 1e-9
        assert bound <= value + 1e-6 * (1 + abs(value))


@pytest.mark.parametrize("part", parts(12))
def test_brute_force_over_labels_is_never_below(part):
    for seed in range(10 * part, 10 * part + 10):
        f, rng = hinge_problem(seed, biased=True), np.random.default_rng(seed)
        r = f.relax("lifted")
        result = mm.solve(r, seed=0)
        best, slack = optimum(f), 1e-8
        assert result.lower_bound <= best + slack, seed
        duals = result.certificate.duals
        for scale in (0.01, 1.0):
            wild = {"g": duals["g"] * np.exp(scale * rng.standard_normal(f.n)),
                    "t": duals["t"] * np.exp(scale * rng.standard_normal())}
            assert r.bound(wild) <= best + slack, seed
        found = mm.solve(f, seed=0, init=result.labels)
        assert found.violation > 1e-7 or found.objective >= best - 1e-6


def test_the_bound_is_that_of_the_balance_that_is_declared():
    X = np.random.default_rng(4).standard_normal((6, 2)) + 1.5
    free, tight = (CPM3C(X, 2, beta=0.2, center=False, balance=b) for b in (8.0, 0.1))
    bounds = [mm.solve(f.relax("lifted")).lower_bound for f in (free, tight)]
    assert bounds[0] < bounds[1] <= optimum(tight) + 1e-9
    assert bounds[1] > optimum(free) + 1e-3  # so that one does not bound the other
    certificate = mm.solve(tight).certify(improve=False).certificate
    other = dataclasses.replace(mm.solve(free), lower_bound=bounds[1], certificate=certificate)
    assert not other.verify()


def test_odd_duals_are_no_better():
    r = RELAXED[3]
    best = optimum(r.problem)
    assert r.bound({}) == r.bound({"g": np.full(r.n, -1.0)}) == 0.0
    assert r.bound({"g": np.full(r.n, np.nan), "t": np.nan}) == 0.0
    for g in (np.full(r.n, 1e300), np.full(r.n, 1e-300), np.eye(r.n)[0]):
        for t in (0.0, np.inf, -3.0, 1e300, 1e-300):
            assert 0.0 <= r.bound({"g": g, "t": t}) <= best + 1e-9
    with pytest.raises(ValueError, match="the dual g must have shape"):
        r.bound({"g": np.zeros(r.n + 1)})


@CASES
def test_any_multiple_of_the_duals_proves_the_same(r):
    duals = program(r)[2]
    bound = r.bound(duals)
    for factor in (1e-9, 0.3, 1e9):
        assert r.bound({**duals, "g": factor * duals["g"]}) == pytest.approx(bound, rel=1e-6)


def test_psi_is_the_minimum_that_it_says():
    v = np.linspace(0, 4, 40001)
    for g in (0.0, 0.2, 0.5, 0.8, 7.0):
        assert psi(np.array([g]))[0] == pytest.approx(
            (np.maximum(1 - np.sqrt(v), 0) + g * v).min(), abs=1e-6)


# ---------------------------------------------------------------- points


@CASES
def test_weights_are_points_of_no_larger_objective(r):
    f, rng = r.problem, np.random.default_rng(2)
    k, d = f.n_clusters, f.features.d
    for _ in range(20):
        W = rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-1, 1)
        if f.balance_rows is not None:  # within the balance
            W *= min(1.0, f.balance / np.abs(f.balance_rows @ W.ravel()).max())
        point = r.lift.lifted(W)
        assert r.violation(point) < 1e-9
        labels = f.scores(W).argmax(axis=1)
        whole = f.objective((W, labels) if f.least else W)
        assert r.objective(point) <= whole + 1e-9
        if k == 2:
            centred = W - W.mean(axis=0)
            assert r.objective(point) == pytest.approx(
                CPM3C.objective(f.replace(size_floor=0.0), centred), abs=1e-9)


@CASES
def test_labels_are_recovered(r):
    point = program(r)[1]
    for c in (r.recover(point), r.recover(r.from_labels(np.arange(r.n) % r.n_clusters))):
        sizes = np.bincount(c, minlength=r.n_clusters)
        assert c.shape == (r.n,) and len(sizes) == r.n_clusters
        assert sizes.min() >= max(1, r.problem.least)


def test_separated_clusters_are_recovered():
    rng = np.random.default_rng(5)
    for k in (2, 3, 4):
        y = np.arange(12 * k) % k
        X = rng.standard_normal((12 * k, k)) * 0.3 + 8.0 * np.eye(k)[y]
        found = mm.solve(CPM3C(X, k, beta=0.05).relax("lifted"))
        assert mm.metrics.adjusted_rand_index(y, found.labels) == 1.0


def test_features_and_samples_give_the_same():
    X = np.random.default_rng(6).standard_normal((9, 9)) + 1.0
    wide = np.hstack([X, X]) / np.sqrt(2.0)  # of the same inner products
    for balance in (None, 0.5, 0.0):
        few, many = (MarginLift(Features(A, center=False, normalize=True, owner="test"), 0.05,
                                np.inf if balance is None else balance) for A in (X, wide))
        assert many.wide and not few.wide
        rng = np.random.default_rng(7)
        W = rng.standard_normal((2, 9))
        both = np.hstack([W, W]) / np.sqrt(2.0)
        assert many.objective(many.lifted(both)) == pytest.approx(few.objective(few.lifted(W)))
        for _ in range(10):
            duals = {"g": rng.exponential(size=9), "t": rng.exponential()}
            assert many.lower(duals) == pytest.approx(few.lower(duals), rel=1e-9)


def test_sparse_features_are_those_of_their_dense_copy():
    from scipy.sparse import random_array

    X = random_array((8, 30), density=0.4, rng=np.random.default_rng(8), format="csr")
    a, b = (mm.solve(CPM3C(A, 2, beta=0.2).relax("lifted")) for A in (X, X.toarray()))
    assert a.lower_bound == pytest.approx(b.lower_bound, rel=1e-6)
    assert a.verify()


# ---------------------------------------------------------------- certify and verify


@pytest.mark.parametrize(("k", "n"), [(2, 40), (3, 20)])
def test_certify_climbs_to_the_lifted_margin(k, n, tmp_path):
    f = CPM3C(DIGITS[40:40 + n], k, beta=0.1)
    result = mm.solve(f, seed=0, init="kmeans")
    assert result.lower_bound == 0.0
    sure = result.certify(time_limit=20)
    assert sure.verify() and sure.certificate.kind == "margin-tree"
    assert 0.0 < sure.lower_bound <= sure.objective <= result.objective
    levels = list(dict.fromkeys(rung.level for rung in sure.ladder))
    assert levels == ["own", "lifted", "margin-tree"]
    assert sure.trivial_bound == 0.0 and sure.gap < 1e-4
    forged = dataclasses.replace(sure, lower_bound=1.001 * sure.lower_bound)
    report = forged.verify()
    assert not report and "FAIL bound" in str(report)
    sure.save(tmp_path / "sure.npz", data=False)
    again = mm.load(tmp_path / "sure.npz", problem=f)
    assert again.verify() and again.lower_bound == sure.lower_bound


def test_a_poor_start_is_improved_only_when_asked():
    f = CPM3C(DIGITS[:40], 2, beta=0.1)
    poor = mm.solve(f, "CuttingPlane", seed=0)
    better, kept = poor.certify(), poor.certify(improve=False)
    assert better.objective < poor.objective == kept.objective
    assert kept.incumbent.objective == better.objective
    assert np.array_equal(better.labels, f.labels(better.point))
    assert better.verify() and kept.verify() and kept.incumbent.verify()
    assert "better labels were found" in kept.message


def test_the_certified_gap_of_digits_with_a_score_balance():
    f = CPM3C(DIGITS[:60], 2, beta=0.3, center=False, balance=10.0)
    sure = mm.solve(f, seed=0, init="kmeans").certify(time_limit=30)
    assert sure.verify() and sure.feasible and sure.gap <= 0.15


def test_a_floor_on_sizes_keeps_the_bound():
    f = CPM3C(RELAXED[0].problem.X, 2, beta=0.3, size_floor=0.8)
    sure = mm.solve(f, seed=0).certify()
    assert sure.verify() and sure.lower_bound <= optimum(f) + 1e-9
    assert np.bincount(sure.labels).min() >= f.least


# ---------------------------------------------------------------- words and refusals


def test_the_statement_reads_like_the_problem():
    text = str(RELAXED[3])
    assert text.startswith("Lifted: a lower bound on CPM3C\n")
    assert "1/n sum_i max(0, 1 - sqrt(x_i'Vx_i))" in text and "s'Vs <= 1, s = sum_i x_i" in text
    assert r"V \succeq 0" in RELAXED[0]._repr_latex_()
    assert "the lifted margin; tight for large beta" in str(RELAXED[0].problem.relaxations())


def test_what_it_relaxes():
    f = RELAXED[0].problem
    assert f.relaxations().kinds == ["gmmc", "lifted", "mmc", "joint", "lg", "xu-schuurmans"]
    assert RELAXED[1].problem.relaxations().kinds == ["gmmc", "lifted", "xu-schuurmans"]
    assert type(f.relax("lifted")) is Lifted
    assert f.offer(LabelQuadratic) is None
    for other in (CPM3C(DIGITS[:10], loss=Logistic()), MKC(DIGITS[:10]), LeastSquares(DIGITS[:10]),
                  f.restrict(np.arange(7) % 2)):
        with pytest.raises(IncompatibleError, match="needs LiftedMargin, which"):
            other.relax("lifted")


def test_a_problem_of_ones_own_is_lifted():
    features = Features(DIGITS[:30], center=True, normalize=True, owner="test")
    lift = margin_lift(LiftedMargin(features, 2, 0.3))
    same = CPM3C(DIGITS[:30], 2, beta=0.3).relax("lifted").lift
    g = np.random.default_rng(9).exponential(size=30)
    assert lift.lower({"g": g}) == pytest.approx(same.lower({"g": g}), rel=1e-12)


def test_variables_are_those_of_the_program():
    import cvxpy as cp

    r = RELAXED[0]
    before = solved(r.to_cvxpy())
    V = r.variables["V"]
    problem = cp.Problem(r.to_cvxpy().objective, [*r.to_cvxpy().constraints, cp.trace(V) <= 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert solved(problem) >= before - 1e-7
