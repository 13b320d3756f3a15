"""The label problem of DIFFRAC: formulas, a hand-solved case, constraints, refusals."""

import itertools

import numpy as np
import pytest
from literal import solved

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import DataError, InfeasibleError, ParameterError
from mmcopt.formulations import Diffrac, LeastSquares
from mmcopt.kernels import Gaussian, Linear, Precomputed

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
EXAMPLES = Diffrac.examples()


def literal(f, c):
    """The best ridge regression with a free bias, from the normal equations in (V, b)."""
    K = np.asarray(f.kernel.fit(f.X).matrix())
    n, Z = f.n, np.eye(f.n_clusters)[c]
    e = np.ones((n, 1))
    # Stationary in V (one factor K dropped) and in b; K may be singular, so least squares.
    A = np.block([[K + n * f.kappa * np.eye(n), e], [e.T @ K, n * np.ones((1, 1))]])
    both = np.linalg.lstsq(A, np.vstack([Z, e.T @ Z]), rcond=None)[0]
    V, b = both[:n], both[n:]
    return np.sum((Z - K @ V - b) ** 2) / n + f.kappa * np.sum(V * (K @ V))


def labelings(f):
    return (np.array(c) for c in itertools.product(range(f.n_clusters), repeat=f.n))


# ---------------------------------------------------------------- formulas


def test_two_points_by_hand():
    # Pi K Pi = [[1, -1], [-1, 1]] has eigenvalue 2 on (1, -1): A = kappa / (2 + 2 kappa) there,
    # and the parts of the two indicators along it have length 1/2 each.
    f = Diffrac([[3.0], [5.0]], 2, kernel=Linear(), kappa=0.5)
    assert f.objective(np.array([0, 1])) == pytest.approx(0.5 / 3.0)
    assert f.objective(np.array([0, 0])) == pytest.approx(0.0, abs=1e-15)
    assert mm.solve(f, "BruteForce").objective == pytest.approx(1 / 6)


@pytest.mark.parametrize("f", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_objective_is_its_definition(f):
    n = f.n
    K, Pi = np.asarray(f.kernel.fit(f.X).matrix()), np.eye(n) - 1 / n
    A = f.kappa * Pi @ np.linalg.inv(Pi @ K @ Pi + n * f.kappa * np.eye(n)) @ Pi
    assert np.linalg.eigvalsh(A)[0] > -1e-12  # so that 0 is a bound
    np.testing.assert_allclose(f.W.dense(), np.eye(n) - n * A, atol=1e-10)
    for _ in range(20):
        c = RNG.integers(f.n_clusters, size=n)
        Z = np.eye(f.n_clusters)[c]
        assert f.objective(c) == pytest.approx(np.sum(A * (Z @ Z.T)), rel=1e-8, abs=1e-12)
        assert f.objective(c) == pytest.approx(literal(f, c), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("f", EXAMPLES[:2] + EXAMPLES[3:5], ids=range(4))
def test_the_reference_for_given_labels_is_the_objective(f):
    c = f.offer(LabelQuadratic).expand(f.offer(LabelQuadratic).random_labels(RNG))
    problem = f.reference(c)
    assert f.objective(c) == pytest.approx(solved(problem), rel=1e-6)


def test_the_mixed_integer_reference_has_the_constraints_and_the_objective():
    f = Diffrac(X[:6], 2, kernel=Gaussian(width=0.5), kappa=0.02, sizes=Sizes(low=2),
                known={0: 1}, must_link=[(1, 2)], cannot_link=[(3, 4)])
    problem = f.reference()
    Z, V, b = (problem.var_dict[name] for name in "ZVb")
    for c in labelings(f):
        Z.value = np.eye(2)[c]
        assert all(con.violation().max() < 1e-9 for con in problem.constraints) \
            == (f.violation(c) == 0.0)
        V.value = f.coefficients(c)  # of the centred kernel: columns sum to 0, so a shift of b
        K = np.asarray(f.kernel.fit(f.X).matrix())
        b.value = (Z.value - K @ V.value).mean(axis=0, keepdims=True)
        assert problem.objective.value == pytest.approx(f.objective(c), rel=1e-8, abs=1e-12)


def test_it_is_least_squares_less_the_squared_shares():
    f = Diffrac(X, 3, kernel=Gaussian(width=0.5), kappa=0.02)
    g = LeastSquares(X, 3, kernel=Gaussian(width=0.5), lam=0.02, scaling="mean")
    for _ in range(10):
        c = RNG.integers(3, size=12)
        shares = np.bincount(c, minlength=3) / 12
        assert f.objective(c) == pytest.approx(
            g.objective(c) / 4 + 1 - 3 / 4 - (shares**2).sum(), abs=1e-12)


def test_the_default_kappa_is_the_lam_of_least_squares_at_a_hundred_samples():
    big = RNG.standard_normal((100, 2))
    assert Diffrac(big).shift == pytest.approx(LeastSquares(big).shift)


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize("kernel", [Gaussian(width=0.5).nystroem(5), Linear()])
def test_factors_and_dense_matrices_agree(kernel):
    f = Diffrac(X, 3, kernel=kernel, kappa=0.02)
    g = Diffrac(kernel.fit(X).matrix(), 3, kernel=Precomputed(), kappa=0.02)
    assert f.low_rank and not g.low_rank
    np.testing.assert_allclose(f.W.dense(), g.W.dense(), atol=1e-10)
    c = np.arange(12) % 3
    np.testing.assert_allclose(f.decision_function(c, X),
                               g.decision_function(c, kernel.fit(X).matrix()), atol=1e-9)


def test_w_lies_between_zero_and_the_identity_and_keeps_the_constant_vector():
    W = Diffrac(X, 3).W.dense()
    w = np.linalg.eigvalsh(W)
    assert w[0] > -1e-12 and w[-1] < 1 + 1e-12
    np.testing.assert_allclose(W @ np.ones(12), 1.0)


def test_smoothing_is_a_larger_kappa():
    f = Diffrac(X, 3, kernel=Gaussian(width=0.5), kappa=0.01)
    smooth = f.offer(LabelQuadratic).smooth(5.0)
    np.testing.assert_allclose(smooth.matrix.dense(), f.replace(kappa=0.05).W.dense(), atol=1e-9)


def test_asking_for_partners_builds_nothing():
    f = Diffrac(X, 2)
    assert "Memetic" in mm.fits(f).names
    assert "K" not in f._cache


def test_kernel_and_spectrum_are_shared_along_a_path():
    f = Diffrac(X, 3, kernel=Gaussian(width=0.5))
    cells = f.path([1e-3, 1e-2, 0.1, 1.0])
    assert all(g.K is f.K and g.spectrum is f.spectrum for g in cells)
    c = np.arange(12) % 3
    fresh = [Diffrac(X, 3, kernel=Gaussian(width=0.5), kappa=g.kappa) for g in cells]
    assert [g.objective(c) for g in cells] == pytest.approx([g.objective(c) for g in fresh])
    assert f.replace(kappa=0.5).W is not f.W and f.replace(sizes=0.2).W is f.W


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("kernel", [Gaussian(width=0.5), Gaussian(width=0.5).nystroem(6)])
def test_decision_values_on_the_training_rows_are_the_fitted_ones(kernel):
    f = Diffrac(X, 3, kernel=kernel, kappa=0.02)
    c = np.arange(12) % 3
    Z = np.eye(3)[c]
    scores = f.decision_function(c, X)
    np.testing.assert_allclose(scores, f.W @ Z, atol=1e-9)  # Z - n A Z
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    V = f.coefficients(c)
    penalty = np.sum(V**2) if f.low_rank else np.sum(V * (f.K @ V))
    fit = np.sum((Z - scores) ** 2) / 12 + f.kappa * penalty
    assert fit == pytest.approx(f.objective(c), rel=1e-9)


# ---------------------------------------------------------------- optima


@pytest.mark.parametrize("f", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_default_solver_finds_the_optimum(f):
    best = min(f.objective(c) for c in labelings(f) if f.violation(c) == 0.0)
    result = mm.solve(f, seed=0)
    assert result.objective == pytest.approx(best, rel=1e-9)
    assert result.trivial_bound == 0.0 <= result.lower_bound <= best
    assert result.verify()


def test_without_sizes_one_big_cluster_is_best():
    f = Diffrac(np.random.default_rng(1).standard_normal((12, 2)), 2, kappa=1.0)
    assert f.objective(np.zeros(12, int)) == pytest.approx(0.0, abs=1e-14)
    assert sorted(np.bincount(mm.solve(f, "BruteForce").labels)) == [1, 11]
    assert "one big cluster" in str(f)
    assert "one big cluster" not in str(f.replace(sizes=0.2))


def test_clusters_are_found():
    D, y = mm.datasets.load("gaussians:n=40,distance=8,seed=0")
    result = mm.solve(Diffrac(D, len(set(y)), sizes=0.3), "Tabu", seed=0)
    assert mm.metrics.adjusted_rand_index(y, result.labels) == 1.0


# ---------------------------------------------------------------- words


def test_the_statement():
    assert str(Diffrac(X, 3, kernel=Linear(), sizes=0.0)) == """\
Diffrac: 12 samples, 3 clusters
  minimise    min_{w, b} (1/n) |Z - Phi w - 1b'|^2 + kappa |w|^2 = sum_h z_h'A z_h
  over        c in {0..2}^12; Z = (z_1..z_3), z_h indicates cluster h
  subject to  4 <= |cluster h| <= 4
  where       A = kappa Pi (Pi K Pi + n kappa I)^-1 Pi, Pi = I - J/n, kappa = 0.001, Pi K Pi: """ \
        + Diffrac(X, 3, kernel=Linear()).kernel_words() + """
  non-convex  the labels are discrete; everything else is in closed form
  bound       0 for nothing; eigenvalues of A
  paper       Bach and Harchaoui (2007), DIFFRAC, section 2"""
    assert r"\kappa" in Diffrac(X)._repr_latex_()


def test_refusals_name_this_class():
    with pytest.raises(ParameterError, match="Diffrac: kappa"):
        Diffrac(X, kappa=0.0)
    with pytest.raises(DataError, match="Diffrac"):
        Diffrac([[np.nan], [1.0]])
    with pytest.raises(InfeasibleError):
        Diffrac(X, 13)
    with pytest.raises(AttributeError, match="Diffrac has no attribute 'restrict'"):
        Diffrac(X).restrict(np.arange(12) % 2)
    with pytest.raises(ParameterError, match="no parameter 'lam'; it has X, n_clusters, kernel, k"):
        Diffrac(X).replace(lam=1.0)


def test_it_is_saved_and_loaded(tmp_path):
    result = mm.solve(EXAMPLES[3], "Tabu", seed=0)
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert type(back.formulation) is Diffrac and back.verify()
    assert back.formulation.fingerprint == EXAMPLES[3].fingerprint


def test_it_has_no_restricted_problem_to_hide():
    assert not hasattr(Diffrac, "restrict")
