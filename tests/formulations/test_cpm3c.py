"""Multi-class margin clustering against loops, brute force over labels, and its own edges."""

import functools
import itertools
import warnings

import numpy as np
import pytest
from literal import solved
from scipy.sparse import csr_matrix

import mmcopt as mm
from mmcopt.errors import DataError, IncompatibleError, MMCError, ParameterError
from mmcopt.formulations import CPM3C, MKC, CrammerSinger
from mmcopt.kernels import Gaussian
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.modeling.result import Status
from mmcopt.solvers import Alternating, CuttingPlane

FINE = CuttingPlane(epsilon=1e-8, alpha=1e-12)


def clouds(seed=0, n=60, k=2, d=2, apart=5.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    angle = 2 * np.pi * y / k
    X = rng.standard_normal((n, d))
    X[:, 0] += apart * np.cos(angle)
    X[:, 1] += apart * np.sin(angle)
    return X, y


def tiny(seed):
    """A problem with all kinds of options, small enough for all labels."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    n = 7 if k == 2 else 6
    X = rng.standard_normal((n, 2)) + 3.0 * rng.integers(0, k, (n, 1))
    options = [{}, {"size_floor": 0.8}, {"center": False, "balance": 0.3},
               {"center": False, "balance": 0.0, "normalize": False}, {"center": False},
               {"kernel": Gaussian(width=0.7)},
               {"center": False, "balance": 5.0, "size_floor": 1.0}]
    return CPM3C(X, k, beta=float(10.0 ** rng.uniform(-2, -0.5)), **options[(seed // 2) % 7])


def literal_objective(f, W, y=None):
    """The sum of the definition, sample by sample."""
    Phi, total = f.features.dense(), 0.0
    for i in range(f.n):
        t = [float(W[p] @ Phi[i]) for p in range(f.n_clusters)]
        own = max(range(f.n_clusters), key=lambda p, t=t: (t[p], -p)) if y is None else y[i]
        margin = t[own] - max(t[q] for q in range(f.n_clusters) if q != own)
        total += {"Hinge": max(0, 1 - margin), "SquaredHinge": max(0, 1 - margin)**2,
                  "Logistic": float(np.log1p(np.exp(-margin)))}[type(f.loss).__name__]
    return f.beta / 2 * sum(float(w @ w) for w in W) + total / f.n


def partitions(n, k):
    """Labels up to their names: each class appears first after all smaller ones."""
    for c in itertools.product(range(k), repeat=n):
        if all(c[i] <= max(c[:i], default=-1) + 1 for i in range(n)):
            yield np.array(c)


@functools.cache
def brute(seed):
    """The optimum over all labels, each by Clarabel from the definition (no cvxpy)."""
    import clarabel
    from scipy.sparse import block_diag, csc_matrix, eye

    f = tiny(seed)
    Phi, k, n = f.features.dense(), f.n_clusters, f.n
    d = Phi.shape[1]
    P = csc_matrix(block_diag([f.beta * eye(k * d), 0 * eye(n)]))
    q = np.r_[np.zeros(k * d), np.ones(n) / n]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    best = np.inf
    for c in partitions(n, k):
        if f.least and np.bincount(c, minlength=k).min() < f.least:
            continue
        A, b = [], []
        for i in range(n):
            slack = np.zeros(k * d + n)
            slack[k * d + i] = -1.0
            A.append(slack)
            b.append(0.0)
            for r in set(range(k)) - {int(c[i])}:
                row = slack.copy()
                row[c[i] * d:(c[i] + 1) * d] -= Phi[i]
                row[r * d:(r + 1) * d] += Phi[i]
                A.append(row)
                b.append(-1.0)
        if f.balance is not None:
            for p, r in itertools.permutations(range(k), 2):
                row = np.zeros(k * d + n)
                row[p * d:(p + 1) * d], row[r * d:(r + 1) * d] = Phi.sum(0), -Phi.sum(0)
                A.append(row)
                b.append(f.balance)
        solver = clarabel.DefaultSolver(P, q, csc_matrix(np.array(A)), np.array(b),
                                        [clarabel.NonnegativeConeT(len(b))], settings)
        best = min(best, solver.solve().obj_val)
    return best


# ---------------------------------------------------------------- stated twice


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_objective_is_the_sum_of_its_definition(k, loss):
    X, _ = clouds(k=k, n=24)
    rng = np.random.default_rng(1)
    for options in ({}, {"center": False}, {"normalize": False}, {"kernel": Gaussian(width=0.5)}):
        f = CPM3C(X, k, loss=loss, beta=0.07, **options)
        floor = f.replace(size_floor=0.5)
        for _ in range(5):
            W = rng.standard_normal((k, f.features.d))
            y = rng.integers(k, size=24)
            assert f.objective(W) == pytest.approx(literal_objective(f, W), rel=1e-12)
            assert floor.objective((W, y)) == pytest.approx(literal_objective(f, W, y), rel=1e-12)
            assert np.array_equal(f.labels(W), (f.features.dense() @ W.T).argmax(axis=1))
            assert np.array_equal(floor.labels((W, y)), y)


def test_violation_is_that_of_the_balance_and_of_the_sizes():
    X, _ = clouds(n=20, k=3)
    f, rng = CPM3C(X + 1, 3, center=False, balance=0.7), np.random.default_rng(0)
    for scale in (0.0, 1e-3, 1.0):
        W = scale * rng.standard_normal((3, 2))
        sums = (f.features.dense() @ W.T).sum(axis=0)
        worst = max(abs(sums[p] - sums[q]) for p, q in f.pairs)
        assert f.violation(W) == pytest.approx(max(0.0, (worst - 0.7) / 20), abs=1e-14)
    g = CPM3C(X, 3, size_floor=0.9)
    assert g.least == 6
    assert g.violation((np.zeros((3, 2)), np.arange(20) % 3)) == 0.0
    assert g.violation((np.zeros((3, 2)), np.repeat([0, 1, 2], [3, 10, 7]))) == 3.0


@pytest.mark.parametrize("seed", range(14))
def test_fits_reach_the_optimum_over_all_labels_and_never_pass_it(seed):
    f, best = tiny(seed), brute(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="CPM3C: ")
        found = [mm.solve(f, FINE, seed=s, init="kmeans" if s % 5 == 4 and f.kernel is None
                          else None) for s in range(40)]
    for result in found:
        assert result.violation <= 1e-9 and result.verify()
        assert result.objective >= best - 1e-7 * (1 + best)
        assert result.objective == pytest.approx(literal_objective(
            f, f.weights(result.point), result.labels if f.least else None), rel=1e-12)
    least = min(r.objective for r in found)
    # restarts of a local method: a floor or a balance makes the optimum harder to hit
    assert least <= best * (1.02 if f.least or f.balance is not None else 1 + 1e-6) + 1e-7


@pytest.mark.parametrize("seed", range(14))
def test_the_reference_is_the_problem_of_given_labels(seed):
    f, rng = tiny(seed), np.random.default_rng(seed)
    for y in (rng.integers(f.n_clusters, size=f.n), np.arange(f.n) % f.n_clusters):
        literal = f.reference(y)
        solved(literal)
        W = next(v for v in literal.variables() if v.name() == "W").value
        assert literal.value == pytest.approx(literal_objective(f, W, y), abs=1e-6)
        machine = mm.solve(f.restrict(y), FINE)
        assert machine.objective == pytest.approx(literal.value, rel=1e-6, abs=1e-6)
        assert brute(seed) <= literal.value + 1e-6 or (
            f.least and np.bincount(y, minlength=f.n_clusters).min() < f.least)


def test_no_labels_no_reference():
    with pytest.raises(DataError, match="not convex; give the labels"):
        CPM3C(clouds()[0]).reference()


# ---------------------------------------------------------------- starts


@pytest.mark.parametrize("k", [2, 3])
def test_a_start_of_labels_scores_by_the_means_of_the_classes(k):
    X, y = clouds(k=k)
    assert np.array_equal(CPM3C(X, k).labels(CPM3C(X, k).from_labels(y)), y)
    f = CPM3C(X + 1.0, k, center=False)
    W = f.from_labels(y)
    assert all(f.objective(W) <= f.objective(W * s) + 1e-12 for s in (0.1, 0.5, 2.0, 10.0, 0.0))
    means = np.array([f.features.dense()[y == p].mean(axis=0) for p in range(k)])
    means -= means.mean(axis=0)
    assert np.abs(W / np.linalg.norm(W) - means / np.linalg.norm(means)).max() < 1e-9
    with_floor = f.replace(size_floor=0.5).from_labels(y)
    assert np.array_equal(with_floor[0], W) and np.array_equal(with_floor[1], y)
    assert np.isfinite(f.from_labels(np.zeros(60, dtype=int))).all()  # a class without samples


def test_labels_of_a_start_that_break_the_floor_are_no_answer():
    rng = np.random.default_rng(0)
    X = np.r_[rng.standard_normal((10, 2)), rng.standard_normal((70, 2)) + 9]
    f, y = CPM3C(X, 2, size_floor=0.8), (np.arange(80) >= 10).astype(int)
    result = mm.solve(f, init=y, seed=0)
    assert result.violation == 0.0 and np.bincount(result.labels).min() >= 32
    assert mm.solve(f, init="kmeans", seed=0).violation == 0.0


@pytest.mark.parametrize("init", ["kmeans", "labels", "random"])
@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_a_start_that_breaks_the_balance_is_no_answer(init, balance):
    X, y = clouds()
    f = CPM3C(X + 1.0, 2, center=False, balance=balance)
    result = mm.solve(f, init=y if init == "labels" else init, seed=0)
    assert result.violation <= 1e-9
    assert result.objective < 1.0


def test_points_of_a_problem_with_a_floor_are_starts():
    X, y = clouds()
    f = CPM3C(X, 2, size_floor=0.8)
    first = mm.solve(f, seed=0)
    for init in (first, first.point, first.point[0], y):
        again = mm.solve(f, init=init, seed=1)
        assert again.objective <= first.objective + 0.02
    free = mm.solve(CPM3C(X, 2), init=first, seed=1)
    assert free.objective <= first.objective + 0.02


# ---------------------------------------------------------------- cautions and edges


def test_a_collapse_is_warned_about():
    X, _ = clouds()
    with pytest.warns(UserWarning, match="the solution has collapsed: its objective .* of W = 0"):
        result = mm.solve(CPM3C(X, 2, beta=1e6), seed=0)
    assert "collapsed" in result.message and result.objective > 0.98
    f = CPM3C(X, 2, loss=Logistic())
    assert "collapsed" in f.caution(np.zeros((2, 2)))
    assert f.caution(mm.solve(f, seed=0).point) is None


def test_a_lost_class_is_warned_about():
    X, y = clouds(k=2)
    f = CPM3C(X, 3)
    W = np.vstack([CPM3C(X, 2).from_labels(y), np.zeros((1, 2))])
    assert f.caution(W).startswith("1 class of 3 lost all samples")
    assert f.caution(np.c_[np.array([5.0, 0, 0]), np.zeros(3)]) is not None
    X = np.r_[X, X + 0.01]
    lost = [r for r in (quietly(CPM3C(X, 3, beta=0.02), s) for s in range(4))
            if len(np.unique(r.labels)) < 3]
    assert all("lost all samples" in r.message for r in lost)
    floor = [quietly(CPM3C(X, 3, beta=0.02, size_floor=0.5), s) for s in range(2)]
    assert all(np.bincount(r.labels, minlength=3).min() >= 20 for r in floor)


def quietly(f, seed, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="CPM3C: ")
        return mm.solve(f, options.pop("solver", None), seed=seed, **options)


@pytest.mark.parametrize("kind", [np.array, csr_matrix])
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_identical_rows_are_refused(kind, value):
    with pytest.raises(DataError, match="all samples are equal"):
        mm.solve(CPM3C(kind(np.full((9, 3), value)), 2), seed=0)
    with pytest.raises(DataError):
        mm.solve(CPM3C(np.full((9, 3), value), 2, kernel=Gaussian(gamma=1.0)), seed=0)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_identical_rows_without_scaling_are_a_collapse(value):
    f = CPM3C(np.full((9, 3), value), 2, normalize=False)
    with pytest.warns(UserWarning, match="collapsed"):
        result = mm.solve(f, seed=0)
    assert result.objective == pytest.approx(1.0, abs=1e-4) and result.verify()


def test_rows_that_come_twice_get_one_label():
    X, y = clouds(n=10)
    result = mm.solve(CPM3C(np.repeat(X, 6, axis=0), 2), seed=0)
    assert (result.labels.reshape(10, 6) == result.labels[::6, None]).all()


def test_constant_columns_change_nothing():
    X, _ = clouds()
    wide = np.c_[X, np.full((60, 2), 1e3)]
    ours, theirs = (mm.solve(CPM3C(A, 2), FINE, seed=0).objective for A in (X, wide))
    assert ours == pytest.approx(theirs, rel=1e-8)


def test_sparse_features_give_the_dense_answer():
    X, _ = clouds(k=3)
    X = np.maximum(X, 0)
    for options in ({}, {"center": False, "balance": 1.0}, {"size_floor": 0.5}):
        f = CPM3C(X, 3, **options)
        dense, sparse = (quietly(g, 4, solver="CuttingPlane")
                         for g in (f, f.replace(X=csr_matrix(X))))
        assert sparse.objective == pytest.approx(dense.objective, rel=1e-8)
        assert np.array_equal(sparse.labels, dense.labels)
        np.testing.assert_allclose(sparse.decision_function(csr_matrix(X)),
                                   dense.decision_function(X), atol=1e-7)


def test_kmeans_starts_sparse_features_too():
    X, y = clouds(k=3)
    result = mm.solve(CPM3C(csr_matrix(np.maximum(X + 4, 0)), 3), init="kmeans", seed=0)
    assert mm.metrics.adjusted_rand_index(y, result.labels) > 0.8


@pytest.mark.parametrize("k", [2, 3])
def test_predictions_on_training_rows_are_the_labels(k):
    X, y = clouds(k=k)
    for options in ({}, {"kernel": Gaussian(width=0.5)}, {"center": False},
                    {"kernel": Gaussian(width=0.5).nystroem(20)}):
        result = quietly(CPM3C(X, k, **options), 0)
        f = result.formulation
        np.testing.assert_allclose(result.decision_function(X), f.scores(result.point), atol=1e-8)
        assert np.array_equal(result.predict(X), result.labels)
    result = mm.solve(CPM3C(X, k), init="kmeans", seed=0)
    assert mm.metrics.adjusted_rand_index(y, result.labels) > 0.95
    held, truth = clouds(1, k=k)
    assert mm.metrics.adjusted_rand_index(truth, result.predict(held)) > 0.95


@pytest.mark.parametrize("options", [{}, {"size_floor": 0.7}, {"loss": Logistic()},
                                     {"kernel": Gaussian(width=0.5)},
                                     {"balance": 1.0, "center": False}], ids=str)
def test_results_are_saved_and_come_back(options, tmp_path):
    X, y = clouds(k=3)
    f = CPM3C(X, 3, **options)
    result = quietly(f, 1)
    for data in (True, False):
        result.save(tmp_path / "run.npz", data=data)
        back = mm.load(tmp_path / "run.npz", problem=None if data else f)
        assert back.verify() and back.objective == result.objective
        assert back.formulation.fingerprint == f.fingerprint
        assert back.formulation.loss == f.loss and np.array_equal(back.labels, result.labels)
        np.testing.assert_array_equal(f.weights(back.point), f.weights(result.point))
        assert np.array_equal(back.predict(X), result.predict(X))
        again = quietly(f, 0, init=back, max_iter=1)
        assert again.objective <= result.objective + 1e-9


def test_losses_and_floors_tell_problems_apart():
    X, _ = clouds()
    made = [CPM3C(X, 2), CPM3C(X, 2, loss=SquaredHinge()), CPM3C(X, 2, size_floor=0.5),
            CPM3C(X, 2, beta=0.031), CPM3C(X, 2, balance=1.0), CPM3C(X, 2, center=False)]
    assert len({f.fingerprint for f in made}) == len(made)
    assert CPM3C(X, 2, loss=Hinge()).fingerprint == made[0].fingerprint
    assert "0.5" in str(made[2])  # what is solved is printed


def test_restricting_keeps_the_options():
    X, y = clouds(k=3)
    f = CPM3C(X + 1, 3, beta=0.2, loss=Logistic(), balance=0.4, center=False, size_floor=0.5)
    g = f.restrict(y)
    assert isinstance(g, CrammerSinger) and np.array_equal(g.y, y)
    assert (g.beta, g.loss, g.balance, g.center) == (0.2, Logistic(), 0.4, False)


def test_any_solution_costs_no_less_than_its_own_labels_convex_problem():
    X, _ = clouds(3, k=3, apart=2.0)
    f = CPM3C(X, 3, size_floor=0.5)
    result = mm.solve(f, CuttingPlane(epsilon=1e-6), seed=0)
    best = mm.solve(f.restrict(result.labels), FINE).objective
    assert best - 1e-9 <= result.objective <= best + 1e-3


@pytest.mark.parametrize("build, error, words", [
    (lambda X: CPM3C(X, 1), ParameterError, "n_clusters must be an integer at least 2; got 1"),
    (lambda X: CPM3C(X, 2.0), ParameterError, "n_clusters"),
    (lambda X: CPM3C(X[:2], 3), DataError, "2 samples cannot fill 3 clusters"),
    (lambda X: CPM3C(X, beta=0.0), ParameterError, "beta must be a finite number above 0"),
    (lambda X: CPM3C(X, beta=np.inf), ParameterError, "beta"),
    (lambda X: CPM3C(X, balance=-1.0), ParameterError, "balance"),
    (lambda X: CPM3C(X, loss="hinge"), ParameterError, "loss"),
    (lambda X: CPM3C(X, size_floor=1.1), ParameterError, "size_floor"),
    (lambda X: CPM3C(X, kernel="rbf"), ParameterError, "kernel must be"),
    (lambda X: CPM3C(X * np.nan), DataError, "NaN"),
    (lambda X: CPM3C(X[:, 0]), DataError, "2-D"),
    (lambda X: CPM3C(X).objective(np.ones((3, 2))), DataError, "a point is W, finite and of shape"),
    (lambda X: mm.solve(CPM3C(X), init=np.ones((3, 2))), DataError, "a point is W"),
    (lambda X: mm.solve(CPM3C(X), init=np.full((2, 2), np.nan)), DataError, "finite|NaN"),
    (lambda X: mm.solve(CPM3C(X), init=np.arange(60) % 3), DataError, "name 3 clusters"),
    (lambda X: mm.solve(CPM3C(X), "Memetic"), IncompatibleError, "CuttingPlane"),
    (lambda X: mm.solve(CPM3C(X, loss=Logistic()), CuttingPlane(cut="paper")), IncompatibleError,
     "cut='paper' is not stated for this CPM3C"),
    (lambda X: mm.solve(CPM3C(X, size_floor=0.5), CuttingPlane(cut="paper")), IncompatibleError,
     "cut='paper' is not stated")])
def test_bad_input_gets_a_sentence(build, error, words):
    with pytest.raises(error, match=words) as e:
        build(clouds()[0])
    assert isinstance(e.value, MMCError) and str(e.value).rstrip().endswith((".", "?"))


def test_the_statement_reads_like_the_paper():
    X, _ = clouds()
    text = str(CPM3C(X, 2, balance=1.0, center=False))
    assert "CPM3C: 60 samples, 2 clusters" in text and "non-convex" in text
    assert "|sum_i (w_p - w_q)'x_i| <= 1" in text and "max(0, 1 - m)" in text
    assert "which centring makes empty" in str(CPM3C(X, 2, balance=1.0))
    assert Status.CONVERGED is mm.solve(CPM3C(X), seed=0).status


# ---------------------------------------------------------------- what is no point


@pytest.mark.parametrize("labels", [
    np.arange(20) % 3, np.arange(40) % 4, np.arange(30) % 4, -np.ones(30, int), np.zeros(30),
    ["a"] * 30], ids=["short", "long", "four", "below", "floats", "words"])
def test_labels_beside_w_are_checked(labels):
    X = np.random.default_rng(0).standard_normal((30, 2))
    f = CPM3C(X, 3, size_floor=0.5)
    W = np.ones((3, 2))
    words = r"a point is \(W, labels\), one integer 0..2 for each of the 30 samples; got "
    for act in (lambda: f.objective((W, labels)), lambda: f.labels((W, labels)),
                lambda: mm.solve(f, init=(W, labels), seed=0)):
        with pytest.raises(DataError, match=words):
            act()
    with pytest.raises(DataError, match=words + r"an array of shape \(3, 2\)"):
        f.objective(W)


@pytest.mark.parametrize("point", [{}, None, "W", [["a"] * 2] * 3, np.ones((2, 2)),
                                   (np.ones((3, 2)), np.arange(30) % 3), np.full((3, 2), np.nan)],
                         ids=["dict", "none", "word", "words", "shape", "pair", "nan"])
def test_what_is_no_w_is_refused_in_words(point):
    f = CPM3C(np.random.default_rng(0).standard_normal((30, 2)), 3)
    with pytest.raises(DataError, match=r"a point is W, finite and of shape \(3, 2\); got "):
        f.objective(point)


def test_labels_are_copies_and_mixed_ones_are_refused():
    f = CPM3C(np.random.default_rng(0).standard_normal((30, 2)), 3, size_floor=0.8)
    result = mm.solve(f, init="kmeans", seed=0)
    result.labels[:] = 0
    assert len(np.unique(f.labels(result.point))) == 3
    with pytest.raises(DataError, match="labels must be of one kind, such as integers or strings"):
        mm.evaluate(f, np.array([1, "a", None] * 10, dtype=object))


def test_a_class_of_one_row_is_warned_about():
    X = np.random.default_rng(0).standard_normal((60, 2))
    X[0] = 1e9
    with pytest.warns(UserWarning, match="a class holds only 1 sample of 60; rows that are far"):
        mm.solve(CPM3C(X, 2), seed=0, restarts=5)


def test_equal_rows_that_are_not_normalised_say_one_thing():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        mm.solve(CPM3C(np.ones((20, 2)), 2, normalize=False), Alternating(), seed=0)
    assert len(seen) == 1 and "has collapsed" in str(seen[0].message)


def test_advice_names_what_there_is():
    f = MKC(np.random.default_rng(0).standard_normal((20, 2)), 2, C=0.01)
    assert "try a larger C than 0.01" in f.caution(np.zeros((2, f.features.d)))
    assert "balance" in str(f.replace(balance=3.0, center=False))
    assert CPM3C(np.eye(200), 2, size_floor=0.29).least == 29
