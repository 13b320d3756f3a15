"""Bounds that hold for any dual point; evaluating and certifying labels."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import certificates, enumeration
from mmcopt.capabilities.matrices import LowRank
from mmcopt.errors import DataError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status

X = np.random.default_rng(0).standard_normal((9, 2))
PROBLEM = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.4))
BEST = mm.solve(PROBLEM, "BruteForce")


# ---------------------------------------------------------------- bounds


def random_quadratic(rng, n, k):
    A = rng.standard_normal((n, n))
    W = A @ A.T if rng.random() < 0.5 else (A + A.T) * 10.0 ** rng.uniform(-3, 3)
    low = rng.integers(1, max(2, n // k), k)
    high = low + rng.integers(0, n, k)
    weights = rng.integers(1, 4, n)
    return mm.LabelQuadratic(W, const=float(rng.normal()), k=k, weights=weights, low=low,
                             high=np.maximum(high, low), scale=float(rng.uniform(0.1, 4)))


def test_the_eigenvalue_bound_holds_for_any_quadratic_and_any_t():
    rng, tight = np.random.default_rng(1), 0
    for _ in range(150):
        lq = random_quadratic(rng, int(rng.integers(4, 8)), int(rng.integers(2, 4)))
        best, labels = enumeration.minimum(lq)
        if labels is None:
            continue
        size = enumeration.rounding(lq) + 1e-12 * abs(best)
        for t in [0.0, *10.0 ** rng.uniform(-6, 6, 6), 1e15]:
            bound = certificates.eig_bound(lq, {"t": t})
            assert bound <= best + size
            tight += bound > best - 0.5 * abs(best)
    assert tight > 10


def test_the_bound_of_a_factor_in_single_precision_is_rigorous():
    for seed in range(40):
        Psi = np.random.default_rng(seed).standard_normal((8, 6)).astype(np.float32)
        Psi -= Psi.mean(axis=0, dtype=np.float64).astype(np.float32)
        single = mm.LabelQuadratic(LowRank(Psi), k=2)
        double = mm.LabelQuadratic(Psi.astype(float) @ Psi.T.astype(float), k=2)
        bound, exact = (certificates.eig_bound(lq, {"t": 0.0}) for lq in (single, double))
        assert bound == pytest.approx(exact, rel=1e-12)
        assert bound <= enumeration.minimum(double)[0]


def test_the_best_shift_improves_the_bound_on_uncentred_problems():
    f = LeastSquares(X, 2, kernel=mm.kernels.Gaussian(width=0.5), center=False, sizes=0.0)
    lq = f.offer(mm.LabelQuadratic)
    t = certificates.best_shift(lq)
    assert t > 0
    plain = certificates.eig_bound(f, {"t": 0.0})
    assert certificates.eig_bound(f, {"t": t}) > plain + 1e-3


@pytest.mark.parametrize("few", [5, 400])  # in a Krylov space, and with all of W
@pytest.mark.parametrize("k, options", [(2, {"sizes": 0.0}), (3, {"sizes": 0.2}), (3, {}),
                                        (4, {"sizes": 0.1, "must_link": [(0, 1), (1, 2), (5, 9)]})])
def test_no_shift_on_a_grid_is_better_than_the_best(few, k, options, monkeypatch):
    monkeypatch.setattr(certificates, "FEW", few)
    D = np.random.default_rng(1).standard_normal((40, 2)) + 1
    f = LeastSquares(D, k, kernel=mm.kernels.Gaussian(width=0.3), center=False, **options)
    lq = f.offer(mm.LabelQuadratic)
    found = certificates.eig_bound(f, {"t": certificates.best_shift(lq)})
    grid = [certificates.eig_bound(f, {"t": t}) for t in np.linspace(0, 4 / lq.n, 201)]
    assert found >= max(grid) - 1e-4 * abs(max(grid))


def test_the_bound_of_a_matrix_that_vanishes():
    lq = mm.LabelQuadratic(np.zeros((5, 5)), const=3.0, k=2)
    assert 3.0 - 1e-9 <= certificates.eig_bound(lq, {"t": 0.0}) <= 3.0


def test_one_feature_is_enough_for_a_bound():
    f = LeastSquares(np.arange(8.0).reshape(-1, 1), 2, kernel=mm.kernels.Linear())
    result = mm.solve(f, "SteepestDescent", seed=0)
    assert result.lower_bound <= mm.solve(f, "BruteForce").objective <= result.objective + 1e-12
    assert result.verify()


def test_the_trivial_bound_is_the_formula():
    n, R = 9, PROBLEM.W.dense()
    assert certificates.trivial_bound(PROBLEM, {}) == pytest.approx((n - R.sum()) / 3)
    assert BEST.trivial_bound == certificates.trivial_bound(PROBLEM, {})
    two = LeastSquares(X, 2)
    assert certificates.trivial_bound(two, {}) == 0.0


def test_an_enumeration_too_long_to_repeat_is_no_bound(monkeypatch):
    monkeypatch.setattr(enumeration, "LIMIT", 10)
    assert certificates.enumeration_bound(PROBLEM, {}) == -np.inf
    assert not BEST.verify()


# ---------------------------------------------------------------- evaluate and certify


def test_evaluating_infeasible_labels_gives_a_violation_and_no_gap():
    f = LeastSquares(X, 3, sizes=mm.constraints.Sizes(exact=3))
    r = mm.evaluate(f, [0] * 7 + [1, 2])
    assert (r.violation, r.gap, r.status) == (4.0, None, Status.EVALUATED)
    assert r.lower_bound is not None and r.verify()
    one = mm.evaluate(PROBLEM, np.zeros(9))
    assert one.violation > 0 and one.gap is None


@pytest.mark.parametrize("labels, words", [
    (np.zeros(8, int), "LeastSquares: labels must have shape (9,), one a sample; got (8,)."),
    (np.zeros((9, 1), int), "LeastSquares: labels must have shape (9,), one a sample; got (9, 1)."),
    (np.arange(9) % 4, "LeastSquares: the labels name 4 clusters, but n_clusters is 3; merge some, "
                       "or set n_clusters=4."),
    (np.r_[np.nan, np.zeros(8)], "LeastSquares: labels contains 1 NaN among 9 entries; drop or "
                                 "impute these rows first."),
])
def test_labels_that_cannot_be_used_are_refused_in_words(labels, words):
    for call in (mm.evaluate, mm.certify):
        with pytest.raises(DataError) as e:
            call(PROBLEM, labels)
        assert str(e.value) == words


def test_certifying_poor_labels_shows_better_ones_and_keeps_what_was_asked():
    names = np.array(["x", "y", "z"])[np.arange(9) % 3]
    r = mm.certify(PROBLEM, names, time_limit=10)
    assert r.labels.tolist() == names.tolist()
    assert r.status is Status.EVALUATED and r.verify()
    assert r.incumbent.objective == pytest.approx(BEST.objective)
    assert r.incumbent.objective < r.objective
    assert r.message == ("better labels were found while certifying; they are in "
                         "result.incumbent")
    assert r.lower_bound == pytest.approx(BEST.objective)
    assert r.incumbent.verify() and set(r.incumbent.labels) <= set("xyz")


def test_improving_adopts_the_better_labels_and_says_so():
    r = mm.certify(PROBLEM, np.arange(9) % 3, time_limit=10, improve=True)
    assert r.status is Status.CERTIFIED and r.verify()
    assert r.objective == pytest.approx(BEST.objective) and r.incumbent is None
    assert r.message == "better labels were found while certifying, and adopted"
    named = mm.certify(PROBLEM, np.array(["p", "q", "r"])[np.arange(9) % 3], improve=True)
    assert named.verify() and set(named.labels) == set("pqr")
    two = mm.certify(PROBLEM, ["p", "q", "p"] * 3, improve=True)
    assert two.verify() and two.classes is None  # two names do not name three clusters
    assert two.objective == pytest.approx(BEST.objective) and two.status is Status.CERTIFIED


def test_certifying_the_optimum_closes_the_gap():
    r = mm.solve(PROBLEM, "SteepestDescent", init=BEST.labels).certify(time_limit=10)
    assert r.status is Status.CERTIFIED and r.gap <= 1e-4 and r.verify()
    assert r.certificate.kind == "enumeration"


def test_certifying_never_lowers_a_bound():
    wide = LeastSquares(np.random.default_rng(2).standard_normal((40, 2)), 3)
    r = mm.solve(wide, "Tabu", seed=0)
    again = r.certify(time_limit=1)
    assert again.lower_bound >= r.lower_bound and again.verify()
    assert again.certify(time_limit=0).lower_bound == again.lower_bound
