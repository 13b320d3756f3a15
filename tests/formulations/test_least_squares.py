"""The least-squares label problem: formulas, hand-solved cases, kernels, refusals."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt import formulations
from mmcopt.capabilities import LabelQuadratic
from mmcopt.errors import DataError, InfeasibleError, ParameterError, ResourceError
from mmcopt.formulations import LeastSquares
from mmcopt.formulations.label_regression import SINGLE
from mmcopt.kernels import Gaussian, Linear, Polynomial, Precomputed

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))


def literal(K, lam, c, k):
    """Q by its definition: one regularised least-squares fit for each cluster."""
    total = 0.0
    for h in range(k):
        p = np.where(c == h, 1.0, -1.0)
        a = np.linalg.solve(K + lam * np.eye(len(K)), p)
        total += np.sum((p - K @ a) ** 2) + lam * a @ K @ a
    return total


# ---------------------------------------------------------------- formulas


def test_two_points_by_hand():
    # Linear kernel on -1, 1: K = [[1, -1], [-1, 1]], R = K / (2 + lam), y = (-1, 1).
    f = LeastSquares([[-1.0], [1.0]], 2, kernel=Linear(), lam=0.5, center=False)
    np.testing.assert_allclose(f.W.dense(), np.array([[1, -1], [-1, 1]]) / 2.5)
    assert f.objective(np.array([0, 1])) == pytest.approx(2 * (2 - 4 / 2.5))  # Q = 2 F
    assert f.objective(np.array([0, 0])) == pytest.approx(4.0)
    assert mm.solve(f, "BruteForce").objective == pytest.approx(0.8)


def test_four_points_by_hand():
    # Orthonormal samples: K = I, so R = I / (1 + lam), and every labeling costs the same.
    f = LeastSquares(np.eye(4), 2, kernel=Linear(), lam=1.0, center=False)
    for c in itertools.product(range(2), repeat=4):
        assert f.objective(np.array(c)) == pytest.approx(2 * (4 - 4 / 2))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("center", [True, False])
def test_the_formula_is_the_definition_for_every_k(k, center):
    f = LeastSquares(X, k, kernel=Gaussian(width=0.5), lam=0.3, center=center)
    K = f.fitted.matrix()
    for _ in range(10):
        c = RNG.integers(k, size=12)
        assert f.objective(c) == pytest.approx(literal(K, 0.3, c, k), rel=1e-9)


@pytest.mark.parametrize("lam", [2.0**-20, 1e-6, 1e-2, 1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("kernel", [Gaussian(width=1.0), Linear(), Polynomial(2)])
def test_small_and_large_lam_keep_their_digits(lam, kernel):
    f = LeastSquares(X, 3, kernel=kernel, lam=lam)
    w, V = np.linalg.eigh(f.fitted.matrix())
    R = (V * (np.maximum(w, 0) / (np.maximum(w, 0) + lam))) @ V.T
    np.testing.assert_allclose(f.W.dense(), R, rtol=1e-4, atol=1e-9 * np.abs(R).max())


def test_the_averaged_scaling_is_the_evo_paper_s_objective():
    f = LeastSquares(X, 2, lam=0.02, scaling="mean", center=False)
    K, n = f.fitted.matrix(), 12
    for _ in range(5):
        y = RNG.choice([-1.0, 1.0], n)
        a = np.linalg.solve(K + 0.02 * n * np.eye(n), y)
        evo = np.sum((y - K @ a) ** 2) / n + 0.02 * a @ K @ a
        assert f.objective((y > 0).astype(int)) == pytest.approx(2 * evo, rel=1e-9)


def test_the_figures_of_the_mathematics_page():
    D, y = mm.datasets.load("digits")
    f = LeastSquares(D, 10, kernel=Gaussian(width=0.3), lam=0.1)
    assert np.trace(f.K) / f.n == pytest.approx(0.96927, abs=1e-5)
    assert f.objective(y) == pytest.approx(11602.24, abs=5e-3)


@pytest.mark.slow
def test_the_local_optimum_of_the_mathematics_page():
    D, y = mm.datasets.load("digits")
    down = mm.solve(LeastSquares(D, 10, kernel=Gaussian(width=0.3)), "SteepestDescent", init=y)
    assert down.objective == pytest.approx(11599.99, abs=5e-3)


def test_everything_in_one_cluster_is_best_without_centring_and_worst_with():
    n = len(X)
    one = np.zeros(n, int)
    assert LeastSquares(X, 2).objective(one) == pytest.approx(2 * n)
    free, centred = (LeastSquares(X, 2, center=center) for center in (False, True))
    labels = [np.array(c) for c in itertools.product(range(2), repeat=6)]
    labels = [np.r_[c, RNG.integers(2, size=6)] for c in labels]
    assert min(free.objective(c) for c in labels) > free.objective(one)
    assert max(centred.objective(c) for c in labels) <= centred.objective(one) + 1e-9


# ---------------------------------------------------------------- kernels and representations


@pytest.mark.parametrize("kernel", [Gaussian(gamma=0.3), Linear(), Polynomial(2)])
@pytest.mark.parametrize("data", [sp.csr_matrix(X), X.astype(np.float32), X.tolist()])
def test_data_of_other_types_give_the_same_problem(kernel, data):
    f, g = (LeastSquares(d, 2, kernel=kernel) for d in (X, data))
    c = np.arange(12) % 2
    assert g.objective(c) == pytest.approx(f.objective(c), rel=1e-5)


def test_a_precomputed_kernel_gives_the_same_problem():
    K = Gaussian(width=0.5).fit(X).matrix()
    f, g = LeastSquares(X, 3, kernel=Gaussian(width=0.5)), LeastSquares(K, 3, kernel=Precomputed())
    c = np.arange(12) % 3
    assert g.objective(c) == pytest.approx(f.objective(c), rel=1e-12)
    result = mm.solve(g, "Tabu", seed=0)
    assert np.array_equal(result.predict(K), mm.solve(f, "Tabu", seed=0).predict(X))


@pytest.mark.parametrize("kernel", [Gaussian(width=0.5).nystroem(5), Linear(),
                                    Gaussian(width=0.5).nystroem(4) + 0.5 * Linear()])
def test_factors_and_dense_matrices_agree(kernel):
    f = LeastSquares(X, 3, kernel=kernel, lam=0.2)
    assert f.low_rank
    K = f.fitted.matrix()
    R = K @ np.linalg.inv(K + 0.2 * np.eye(12))
    np.testing.assert_allclose(f.W.dense(), R, atol=1e-10)
    c = np.arange(12) % 3
    assert f.objective(c) == pytest.approx(literal(K, 0.2, c, 3))
    np.testing.assert_allclose(f.fitted.matrix(), K)  # the features were not used up
    scores = f.decision_function(c, X)
    np.testing.assert_allclose(scores, R @ np.where(np.eye(3)[c] > 0, 1.0, -1.0), atol=1e-9)


def test_a_sum_of_a_factor_and_a_full_kernel_is_dense():
    f = LeastSquares(X, 2, kernel=Gaussian(width=0.5).nystroem(5) + Gaussian(width=1.0))
    assert not f.low_rank
    c = np.arange(12) % 2
    assert f.objective(c) == pytest.approx(literal(f.fitted.matrix(), 0.1, c, 2))


@pytest.mark.parametrize("kernel", [Gaussian(width=0.5), Linear(), Gaussian(width=0.3).nystroem(6)])
@pytest.mark.parametrize("center", [True, False])
def test_decision_values_on_the_training_rows_are_the_fitted_ones(kernel, center):
    f = LeastSquares(X, 3, kernel=kernel, center=center)
    c = np.arange(12) % 3
    P = np.where(np.eye(3)[c] > 0, 1.0, -1.0)
    np.testing.assert_allclose(f.decision_function(c, X), f.W @ P, atol=1e-8)
    np.testing.assert_allclose(f.decision_function(c, X[3:5]), (f.W @ P)[3:5], atol=1e-8)


def test_single_precision_is_used_only_where_it_is_safe():
    many = RNG.standard_normal((150, 2))
    for data, lam, single in [(many, SINGLE, True), (many, 0.9 * SINGLE, False), (many, 1.0, True),
                              (X, 1.0, False)]:
        f = LeastSquares(data, 2, kernel=Gaussian(width=1), lam=lam, center=False)
        assert (f.offer(LabelQuadratic).dtype == np.float32) == single
    f = LeastSquares(many, 3, lam=SINGLE)
    result = mm.solve(f, "Tabu", seed=0)
    assert result.objective == f.objective(result.labels)
    assert result.history["best"].min() == pytest.approx(result.objective, rel=1e-6)


# ---------------------------------------------------------------- bad input, word for word


@pytest.mark.parametrize("options, error, words", [
    ({"n_clusters": 0}, ParameterError,
     "LeastSquares: n_clusters must be an integer at least 1; got 0."),
    ({"n_clusters": 2.0}, ParameterError,
     "LeastSquares: n_clusters must be an integer at least 1; got 2.0."),
    ({"n_clusters": 13}, InfeasibleError,
     "12 samples cannot fill 13 clusters: no cluster may be empty. Ask for at most 12."),
    ({"lam": 0}, ParameterError, "LeastSquares: lam must be a finite number above 0; got 0."),
    ({"lam": float("nan")}, ParameterError,
     "LeastSquares: lam must be a finite number above 0; got nan."),
    ({"center": 1}, ParameterError, "LeastSquares: center must be True or False; got 1."),
    ({"scaling": "avg"}, ParameterError,
     "LeastSquares: scaling must be one of 'sum', 'mean'; got 'avg'."),
    ({"kernel": "rbf"}, ParameterError,
     "kernel must be a kernel of mmcopt.kernels, such as Gaussian(width=1), or one of 'linear', "
     "'gaussian', 'cosine', 'neighbors', 'precomputed'; got 'rbf'. Did you mean 'gaussian'?"),
    ({"sizes": 3}, ParameterError,
     "sizes must be Sizes(...), a share such as 0.2, a pair (low, high) or None; got 3. For given "
     "sizes write Sizes(exact=[...])."),
    ({"sizes": (5, 5)}, InfeasibleError,
     "sizes cannot be met: 12 samples in 2 clusters of 5 to 5 each. Widen the bounds so that "
     "n = 12 fits between 10 and 10."),
    ({"known": {0: 2}}, ParameterError,
     "Known: labels must be 0..1 (or -1 for unknown); got 2."),
    ({"must_link": [(0, 1)], "cannot_link": [(0, 1)]}, InfeasibleError,
     "samples 0 and 1 are cannot-linked and also must-linked (perhaps through others); drop one "
     "of the links."),
])
def test_bad_options_are_refused_in_words(options, error, words):
    with pytest.raises(error) as e:
        LeastSquares(X, **options)
    assert str(e.value) == words


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'lamda'"):
        LeastSquares(X, lamda=1.0)


@pytest.mark.parametrize("data, words", [
    (np.where(X > 1, np.nan, X), f"LeastSquares: X contains {int((X > 1).sum())} NaN among 24 "
                                 "entries; drop or impute these rows first."),
    (np.zeros((0, 2)), "LeastSquares: X is empty: 0 sample(s) (shape=(0, 2)) while a minimum of 1 "
                       "is required."),
    (X[0], "LeastSquares: X must be 2-D (samples x features); got 1-D of shape (2,). Reshape your "
           "data with X.reshape(-1, 1) if it has one feature, or .reshape(1, -1) if it is one "
           "sample."),
])
def test_bad_data_is_refused_when_the_problem_is_built(data, words):
    with pytest.raises(DataError) as e:
        LeastSquares(data, 2)
    assert str(e.value) == words


SAME = np.full((12, 2), 0.1)


@pytest.mark.parametrize("data, options, words", [
    (SAME, {}, "all rows are identical, so a relative width has no scale; give gamma instead."),
    (SAME, {"kernel": Gaussian(gamma=1.0)},
     "LeastSquares: the kernel matrix is constant, so nothing tells the samples apart; check for "
     "identical rows, or change the kernel."),
    (SAME, {"kernel": Linear()},
     "LeastSquares: all rows of X are identical, so nothing tells the samples apart."),
    (SAME, {"kernel": Linear(), "center": False},
     "LeastSquares: all rows of X are identical, so nothing tells the samples apart."),
    (np.full((5, 3), 0.1), {"kernel": Linear()},
     "LeastSquares: all rows of X are identical, so nothing tells the samples apart."),
    (np.ones((4, 4)), {"kernel": Precomputed()},
     "LeastSquares: the kernel matrix is constant, so nothing tells the samples apart; check for "
     "identical rows, or change the kernel."),
    (np.diag([-0.05, 1.0, 2.0]), {"kernel": Precomputed(), "center": False},
     "LeastSquares: the kernel matrix is not positive semidefinite: its smallest eigenvalue is "
     "-0.05. Use another kernel, or Precomputed(clip=True) to set negative ones to zero."),
    (np.ones((3, 2)), {"kernel": Precomputed()}, "a precomputed kernel must be a square matrix; "
     "got shape (3, 2). Give the matrix of kernel values as X, such as X @ X.T."),
    (np.arange(9.0).reshape(3, 3), {"kernel": Precomputed()}, "a precomputed kernel must be "
     "symmetric; its largest asymmetry is |K - K'| = 4; pass (K + K.T) / 2."),
])
@pytest.mark.parametrize("call", [lambda f: mm.solve(f, "Tabu", seed=0),
                                  lambda f: mm.evaluate(f, np.arange(f.n) % 2)])
def test_data_that_tell_nothing_apart_are_refused_in_words(data, options, words, call):
    with pytest.raises(DataError) as e:
        call(LeastSquares(data, 2, **options))
    assert str(e.value).endswith(words)
    assert "\n" not in str(e.value)


def test_the_advice_about_indefinite_kernels_works():
    K = np.diag([-0.05, 1.0, 2.0])
    f = LeastSquares(K, 2, kernel=Precomputed(clip=True), center=False)
    assert mm.solve(f, "BruteForce").verify()
    w = np.linalg.eigvalsh(f.W.dense())
    assert w.min() >= -1e-12 and w.max() <= 1


def test_too_little_memory_names_the_way_out(monkeypatch):
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 1000)
    with pytest.raises(ResourceError) as e:
        LeastSquares(X, 2).objective(np.arange(12) % 2)
    assert str(e.value) == ("the 12 x 12 kernel matrix and its inverse needs 2.81 KiB, and 1e+03 B "
                            "are free; use a low-rank kernel: kernel.nystroem(500).")
    assert LeastSquares(X, 2, kernel=Gaussian(width=1).nystroem(4)).objective(np.arange(12) % 2) > 0


def test_building_a_problem_builds_no_matrix():
    f = LeastSquares(RNG.standard_normal((20_000, 2)), 10)
    mm.fits(f)
    assert not f.__dict__.get("_cache", {}).keys() & {"K", "W_dense", "spectrum"}


def test_a_problem_is_exported():
    assert "LeastSquares" in formulations.__all__


@pytest.mark.parametrize("kernel, factor", [
    (Gaussian(width=0.5).cholesky(rank=10), True), (Gaussian(width=0.05).pca(0.9999), False),
    (Gaussian(width=0.5).nystroem(20), True), (Linear(), True), (Gaussian(width=0.5), False)],
    ids=str)
def test_r_is_a_factor_where_there_are_few_features_whatever_the_kernel_is_called(kernel, factor):
    X = np.random.default_rng(0).standard_normal((200, 64 if "cholesky" in str(kernel) else 2))
    f = LeastSquares(X, 2, kernel=kernel)
    count = f.fitted.feature_count
    assert count == (f.fitted.features().shape[1] if f.fitted.explicit else None)
    assert f.low_rank == factor and f.offer(LabelQuadratic).matrix.is_dense != factor


def test_r_does_not_depend_on_what_was_asked_before():
    fresh, asked = (LeastSquares(X, 3, kernel=Gaussian(width=0.5)) for _ in range(2))
    asked.spectrum  # noqa: B018
    assert fresh.replace(lam=0.7).W.dense().tobytes() == asked.replace(lam=0.7).W.dense().tobytes()
    few, many = fresh.path((0.7, 0.1)), asked.path((0.7, 0.5, 0.3, 0.1))
    assert few[0].W.dense().tobytes() == fresh.replace(lam=0.7).W.dense().tobytes()
    np.testing.assert_allclose(many[0].W.dense(), few[0].W.dense(), atol=1e-12)
