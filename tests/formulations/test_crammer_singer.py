"""The machine of given labels: against a conic solver, scikit-learn, and its own duality."""

import dataclasses
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import Bounded
from mmcopt.errors import DataError
from mmcopt.formulations import CPM3C, CrammerSinger, LinearizedCPM3C
from mmcopt.kernels import Gaussian
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane

EXACT = CuttingPlane(epsilon=1e-9, alpha=1e-13)


def draw(seed):
    """Labelled clouds that overlap, with every option in turn."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    n, d = int(rng.integers(3 * k, 40)), int(rng.integers(1, 5))
    y = rng.permutation(np.arange(n) % k)
    X = rng.standard_normal((n, d)) + 1.5 * y[:, None]
    loss = [Hinge(), SquaredHinge(), Logistic()][seed % 3 if seed % 2 else 0]
    options = [{}, {"center": False}, {"center": False, "balance": 0.4}, {"normalize": False},
               {"kernel": Gaussian(width=0.5)}][seed % 5]
    return CrammerSinger(X, y, k, beta=10.0 ** rng.uniform(-2, -0.5), loss=loss, **options)


@pytest.mark.parametrize("seed", range(24))
def test_the_optimum_is_that_of_a_conic_solver(seed):
    f = draw(seed)
    ours, theirs = mm.solve(f, EXACT), mm.solve(f, "Conic")
    unit = max(1e-3, abs(theirs.objective))
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-6 * unit)
    assert ours.lower_bound <= theirs.objective + 1e-7 * unit
    assert theirs.lower_bound <= ours.objective + 1e-12 * unit
    assert theirs.gap <= 1e-5 and ours.gap <= 1e-6
    assert ours.status is Status.CERTIFIED and ours.verify() and theirs.verify()
    assert ours.violation <= 1e-9
    assert ours.history["rises"][-1] == 0  # it is convex
    assert not dataclasses.replace(ours, lower_bound=ours.objective + 1e-3 * unit).verify()


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("beta", [0.3, 0.02])
def test_scikit_learn_solves_the_same_problem(k, beta):
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(k)
    y = np.arange(60) % k
    X = rng.standard_normal((60, 4)) + 1.2 * np.eye(4)[y]
    f = CrammerSinger(X, y, k, beta=beta, center=False, normalize=False)
    ours = mm.solve(f, EXACT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=1 / (60 * beta),
                          tol=1e-9, max_iter=100_000, random_state=0).fit(X, y)
    W = np.vstack([-model.coef_, model.coef_]) / 2 if k == 2 else model.coef_
    assert f.objective(W) == pytest.approx(ours.objective, rel=1e-5)
    np.testing.assert_allclose(ours.point - ours.point.mean(axis=0), W - W.mean(axis=0), atol=2e-2)
    ranked = np.sort(ours.decision_function(X), axis=1)
    sure = ranked[:, -1] - ranked[:, -2] > 0.05
    assert sure.mean() > 0.6 and np.array_equal(ours.predict(X)[sure], model.predict(X)[sure])


def test_any_weights_prove_a_bound():
    rng = np.random.default_rng(0)
    for seed in range(24):
        f = draw(seed)
        result = mm.solve(f, EXACT)
        best, duals = result.objective, result.certificate.duals
        bound = f.offer(Bounded).bound
        assert bound(duals) == pytest.approx(best, rel=1e-6, abs=1e-9)
        tried = []
        for _ in range(40):
            scale = 10.0 ** rng.uniform(-6, 6)
            other = {name: v + scale * rng.standard_normal(v.shape) for name, v in duals.items()}
            tried.append(bound(other))
            tried.append(bound({"weights": scale * rng.random((f.n, f.n_clusters)),
                                "balance": rng.random(duals["balance"].shape)}))
        tried.append(bound({"weights": np.zeros((f.n, f.n_clusters)),
                            "balance": np.zeros(duals["balance"].shape)}))
        tried.append(bound({"weights": np.full((f.n, f.n_clusters), np.nan),
                            "balance": np.zeros(duals["balance"].shape)}))
        assert max(tried) <= best * (1 + 1e-12), seed
        assert tried[-1] == tried[-2] <= 0.0


def test_weights_above_the_slopes_of_the_loss_prove_no_more():
    f = CrammerSinger(np.ones((3, 1)), [0, 0, 1], beta=1.0, center=False, normalize=False)
    best = mm.solve(f, EXACT).objective
    assert best == pytest.approx(8 / 9, abs=1e-9)  # by hand: w_0 - w_1 = 2/3
    for above in (1.0, 1.5, 2.0, 9.0):  # unscaled, a weight of 2 would prove 17/18
        weights = np.array([[0, 1.0], [0, 1.0], [above, 0]])
        bound = f.offer(Bounded).bound({"weights": weights, "balance": np.zeros(0)})
        assert bound == pytest.approx(best, abs=1e-9) and bound <= best


def test_the_bound_is_the_dual_of_the_definition():
    for seed in range(10):
        f, rng = draw(2 * seed), np.random.default_rng(seed)  # hinge
        if f.balance is not None:
            continue
        Phi, k = f.features.dense(), f.n_clusters
        s = rng.random((f.n, k)) / k
        s[np.arange(f.n), f.y] = 0.0
        U = np.zeros((k, Phi.shape[1]))
        for i in range(f.n):
            for q in range(k):
                U[f.y[i]] += s[i, q] * Phi[i] / f.n
                U[q] -= s[i, q] * Phi[i] / f.n
        literal = s.sum() / f.n - (U**2).sum() / (2 * f.beta)
        found = f.offer(Bounded).bound({"weights": s, "balance": np.zeros(0)})
        assert found == pytest.approx(literal, rel=1e-10) and found <= literal


def test_the_objective_is_a_sum_over_samples():
    for seed in range(12):
        f, rng = draw(seed), np.random.default_rng(seed)
        Phi = f.features.dense()
        W = rng.standard_normal((f.n_clusters, Phi.shape[1]))
        total = 0.0
        for x, p in zip(Phi, f.y, strict=True):
            t = W @ x
            total += float(f.loss.value(np.array([t[p] - np.delete(t, p).max()]))[0])
        assert f.objective(W) == pytest.approx(f.beta / 2 * (W**2).sum() + total / f.n, rel=1e-12)
        plain = CPM3C(f.X, f.n_clusters, beta=f.beta, loss=f.loss, kernel=f.kernel,
                      center=f.center, normalize=f.normalize)
        assert plain.objective(W) <= f.objective(W) + 1e-12


@pytest.mark.parametrize("labels, codes", [
    (["a", "b", "a", "b", "b"], [0, 1, 0, 1, 1]), ([0, 2, 0, 2, 2], [0, 2, 0, 2, 2]),
    (np.array([0, 2, 0, 2, 2], dtype=np.uint8), [0, 2, 0, 2, 2]),
    (np.array([0, 2, 0, 2, 2], dtype=np.int8), [0, 2, 0, 2, 2]),
    ([False, True, False, True, True], [0, 1, 0, 1, 1])], ids=str)
def test_labels_may_be_codes_or_names(labels, codes):
    X = np.random.default_rng(0).standard_normal((5, 2))
    f = CrammerSinger(X, labels, 3)
    assert f.y.tolist() == codes
    result = mm.solve(f)
    assert result.verify() and result.labels.shape == (5,)


@pytest.mark.parametrize("y, words", [
    ([1, 2, 1, 2, 1], "y must hold labels 0..1"), ([-1, 1, -1, 1, 1], "y must hold labels 0..1"),
    ([0, 1, 2, 1, 0], "y must hold labels 0..1"), ([0, 1], "one a sample"),
    (np.array([0, 1, np.nan, 0, 1]), "NaN")])
def test_wrong_labels_get_a_sentence(y, words):
    with pytest.raises(DataError, match=words):
        CrammerSinger(np.random.default_rng(0).standard_normal((5, 2)), y, 2)


def test_a_class_without_samples_and_one_class_alone():
    X = np.random.default_rng(0).standard_normal((12, 2))
    alone = mm.solve(CrammerSinger(X, np.zeros(12, int), 3), EXACT)
    assert alone.objective == pytest.approx(1.0, abs=1e-9) and alone.gap < 1e-9  # centred
    y = np.arange(12) % 2
    two, three = (mm.solve(CrammerSinger(X, y, k), EXACT) for k in (2, 3))
    assert three.verify() and three.objective >= two.objective - 1e-9
    assert three.objective == pytest.approx(mm.solve(three.formulation, "Conic").objective,
                                            abs=1e-6)


def test_the_default_epsilon_is_kept():
    for seed in range(24):
        result = mm.solve(draw(seed))
        assert result.absolute_gap <= 0.01 + 1e-9


def test_fits_and_saves_sparse_rows(tmp_path):
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    X, y = np.maximum(rng.standard_normal((40, 6)), 0), np.arange(40) % 2
    X[:, 0] += y
    dense, sparse = (mm.solve(CrammerSinger(A, y), EXACT) for A in (X, csr_matrix(X)))
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-8)
    sparse.save(tmp_path / "run.npz")
    assert mm.load(tmp_path / "run.npz").verify()


def test_the_statement_speaks_of_given_labels():
    f = CrammerSinger(np.eye(4), [0, 1, 0, 1])
    text = str(f)
    assert "4 samples with given labels, 2 clusters" in text and "non-convex" not in text
    assert f.caution(np.zeros((2, 4))) is None


@pytest.mark.parametrize("name", ["restrict", "linearize", "fitted"])
def test_problems_of_given_labels_have_no_methods_of_those_without(name):
    """They inherited them, and raised a bare TypeError."""
    f = CrammerSinger.examples()[0]
    assert not hasattr(f, name) and not hasattr(LinearizedCPM3C, name)
