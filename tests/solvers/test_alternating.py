"""Alternating: its halves against slow ones, its losses, and what it reaches."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from literal import solved

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic, Refit
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, LeastSquares
from mmcopt.kernels import Gaussian, Linear
from mmcopt.kernels.features import Features
from mmcopt.margins import Logistic
from mmcopt.margins.ridge import Ridge
from mmcopt.modeling.result import Status
from mmcopt.solvers import SGD, Alternating, CuttingPlane
from mmcopt.solvers.alternating import cut_in_two, nearest

LOSSES = ["square", "epsilon-insensitive", "hinge"]


def pair(n=60, d=3, apart=3.0, seed=0):
    """Two groups of samples, with their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.standard_normal((n, d)) + apart * y[:, None], y


def loss_of(name, m, epsilon):
    """The loss of a margin m: of values m y for the label y."""
    return {"square": (1.0 - m)**2, "hinge": np.maximum(1.0 - m, 0.0),
            "epsilon-insensitive": np.maximum(np.abs(1.0 - m) - epsilon, 0.0)}[name]


def regression(f, y, solver):
    """Targets, values and products of the regression on given labels."""
    state = solver.begin(f, None, np.random.default_rng(0)).state
    return solver._fit(f.offer(Refit), 2.0 * y - 1.0, state)


# ---------------------------------------------------------------- the regression


@pytest.mark.parametrize("shape", [(30, 5), (6, 20)])
@pytest.mark.parametrize("sparse", [False, True])
def test_ridge_solves_the_normal_equations(shape, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    phi = Features(sp.csr_array(X) if sparse else X, center=True, normalize=True, owner="test")
    Phi, v = phi.dense(), rng.standard_normal(shape[0])
    ridge = Ridge(phi, 0.7)
    w = np.linalg.solve(Phi.T @ Phi + 0.7 * np.eye(shape[1]), Phi.T @ v)
    np.testing.assert_allclose(ridge.weights(v), w, atol=1e-8)
    np.testing.assert_allclose(ridge.values(v), Phi @ w, atol=1e-8)


@pytest.mark.parametrize("f", [
    CPM3C(pair()[0], 2), CPM3C(pair()[0], 2, kernel=Gaussian(width=0.5)),
    LeastSquares(pair()[0], 2, lam=0.5), LeastSquares(pair()[0], 2, kernel=Linear(), lam=2.0),
    LeastSquares(pair()[0], 2, scaling="mean", lam=0.1)])
def test_the_smoother_is_a_regression_with_its_shift(f):
    """smooth = (I + shift K^+)^-1: all that the splitting rests on, K read off the smoother."""
    offer = f.offer(Refit)
    S = np.stack([offer.smooth(e) for e in np.eye(f.n)], axis=1)
    K = f.features.dense() @ f.features.dense().T if isinstance(f, CPM3C) else f.K
    np.testing.assert_allclose(S @ (K + offer.shift * np.eye(f.n)), K, atol=1e-7 * np.abs(K).max())


@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_nearest_is_the_minimiser(loss):
    rng = np.random.default_rng(0)
    c, y = 2.5 * rng.standard_normal(300), np.sign(rng.standard_normal(300))
    grid = np.linspace(-8, 8, 16001)[:, None]
    values = loss_of(loss, grid * y, 0.3) + (grid - c)**2
    z = nearest(c, y, loss, 0.3)
    reached = loss_of(loss, z * y, 0.3) + (z - c)**2
    assert (reached <= values.min(axis=0) + 1e-12).all()
    assert {0.0} < set(np.round(loss_of(loss, z * y, 0.3), 12))  # kinks and slopes both occur


def test_the_hinge_regression_is_the_machine_of_given_labels():
    """Without a bias the splitting solves what `CPM3C.restrict` states."""
    X, y = pair(apart=1.0)
    f = CPM3C(X, 2)
    targets, values, _ = regression(f, y, Alternating(loss="hinge", inner=20000, tol=1e-9))
    exact = mm.solve(f.restrict(y), CuttingPlane(epsilon=1e-9), seed=0)
    w = Ridge(f.features, f.offer(Refit).shift).weights(targets) / 2
    W = np.stack([-w, w])
    assert f.restrict(y).objective(W) == pytest.approx(exact.objective, rel=1e-6)
    np.testing.assert_allclose(W, exact.point, atol=1e-3)
    np.testing.assert_allclose(values, f.features.scores(W) @ [-1, 1], atol=1e-9)


def test_the_epsilon_insensitive_regression_is_that_of_cvxpy():
    import cvxpy as cp

    X, y = pair(n=40, apart=1.0)
    f = CPM3C(X, 2, kernel=Gaussian(width=0.7))
    offer = f.offer(Refit)
    solver = Alternating(loss="epsilon-insensitive", epsilon=0.2, inner=5000, tol=1e-9)
    _, values, used = regression(f, y, solver)
    assert 10 < used < 5000
    Phi = f.features.dense()
    w = cp.Variable(Phi.shape[1])
    loss = cp.sum(cp.pos(cp.abs(Phi @ w - (2.0 * y - 1.0)) - 0.2))
    solved(cp.Problem(cp.Minimize(loss + offer.shift * cp.sum_squares(w))))
    np.testing.assert_allclose(values, Phi @ w.value, atol=1e-5)


# ---------------------------------------------------------------- the cut


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("least, most", [(1, 24), (8, 17), (12, 12)])
def test_the_cut_is_the_best_of_all_cuts(loss, least, most):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal(25) + 2.0 * (rng.random(25) < 0.3)
        labels = cut_in_two(values, least, most, loss, 0.05)
        assert least <= labels.sum() <= most
        assert values[labels == 1].min() > values[labels == 0].max()
        s = values - np.median(values)
        s, order = s / np.abs(s).mean(), np.sort(s / np.abs(s).mean())

        def cost(above, s=s, order=order):
            at = (order[24 - above] + order[25 - above]) / 2
            return loss_of(loss, np.abs(s - at), 0.05).sum()

        costs = {above: cost(above) for above in range(least, most + 1)}
        assert costs[int(labels.sum())] == pytest.approx(min(costs.values()), abs=1e-9)


def test_equal_values_are_cut_all_the_same():
    labels = cut_in_two(np.zeros(10), 3, 7, "square", 0.0)
    assert 3 <= labels.sum() <= 7


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
def test_clusters_keep_their_share(share):
    X, _ = pair()
    X[:4] += 30.0  # values far out
    f = LeastSquares(X, 2, kernel=Linear(), lam=1.0)
    result = mm.solve(f, Alternating(share=share, polish=False), seed=0)
    assert np.bincount(result.labels).min() >= int(share * 60)
    assert result.verify()


# ---------------------------------------------------------------- what it reaches


@pytest.mark.parametrize("name", ["digits:3,8", "digits:8,9"])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_meets_cutting_planes_from_kmeans(name, loss):
    X, _ = mm.datasets.load(name)
    f = CPM3C(X, 2)
    exact = mm.solve(f, CuttingPlane(epsilon=1e-3), init="kmeans", seed=0)
    result = mm.solve(f, Alternating(loss=loss), init="kmeans", seed=0)
    assert result.status is Status.CONVERGED and result.verify()
    assert abs(result.objective / exact.objective - 1.0) < 0.01
    rough = mm.solve(f, Alternating(loss=loss, polish=False), init="kmeans", seed=0)
    assert result.objective <= rough.objective + 1e-12


def test_the_square_loss_goes_further_than_the_hinge(shared_data):
    """Premature convergence of the hinge, as Zhang et al. have it."""
    X, y = shared_data("letter_AvB")
    f = CPM3C(X, 2)
    hinge, square = (mm.solve(f, Alternating(loss=loss, polish=False), init="kmeans", seed=0)
                     for loss in ("hinge", "square"))
    assert square.objective < 0.6 * hinge.objective
    assert mm.metrics.adjusted_rand_index(y, square.labels) > 0.75


@pytest.mark.parametrize("loss", LOSSES)
def test_tiny_label_problems_end_in_local_optima_above_the_best(loss):
    for seed, options in itertools.product(range(3), [
            {}, {"sizes": (4, 5)}, {"known": {0: 1, 5: 0}}, {"must_link": [(0, 1), (2, 3)]},
            {"kernel": Gaussian(width=0.5).nystroem(4)}, {"center": False, "scaling": "mean"}]):
        X, _ = pair(n=9, d=2, apart=1.5, seed=seed)
        f = LeastSquares(X, 2, lam=0.3) if not options else LeastSquares(X, 2, **options)
        result = mm.solve(f, Alternating(loss=loss), seed=seed)
        assert result.violation == 0.0 and result.verify()
        best = mm.solve(f, "BruteForce").objective
        assert result.objective >= best - 1e-9
        lq = f.offer(LabelQuadratic)
        c = lq.reduce(result.labels)
        for i in range(lq.n):
            near = c.copy()
            near[i] = 1 - near[i]
            if f.violation(lq.expand(near)) == 0.0:
                assert f.objective(lq.expand(near)) >= result.objective - 1e-9
        rough = mm.solve(f, Alternating(loss=loss, polish=False), seed=seed)
        assert rough.violation == 0.0 and rough.objective >= result.objective - 1e-9


def test_restarts_find_the_groups():
    X, y = pair(apart=4.0)
    for f in (CPM3C(X, 2), LeastSquares(X, 2, kernel=Linear(), lam=5.0)):
        result = mm.solve(f, Alternating(), restarts=5, seed=0)
        assert mm.metrics.adjusted_rand_index(y, result.labels) == 1.0


def test_three_solvers_agree_on_one_formulation():
    X, y = pair()
    table = mm.compare(CPM3C(X, 2), [CuttingPlane(epsilon=1e-3), SGD(tol=1e-3), Alternating()],
                       seeds=3, y=y).to_frame()
    best = table.groupby("solver")["objective"].min()
    assert best.max() == pytest.approx(best.min(), rel=0.02)


def test_sparse_rows_give_the_labels_of_dense_ones():
    rng = np.random.default_rng(0)
    rate = np.where((np.arange(60) % 2)[:, None] == (np.arange(12) < 6), 1.5, 0.2)
    S = sp.csr_array(rng.poisson(rate).astype(np.float64))
    start = (rng.random(60) < 0.2) ^ (np.arange(60) % 2 == 1)
    for loss in LOSSES:
        one, two = (mm.solve(CPM3C(X, 2), Alternating(loss=loss), init=start, seed=0)
                    for X in (S, S.toarray()))
        assert one.objective == pytest.approx(two.objective, rel=1e-5)
        assert (one.labels == two.labels).all()


def test_other_losses_of_the_formulation_are_polished_with_their_own():
    X, _ = pair(apart=1.0)
    f = CPM3C(X, 2, loss=Logistic())
    result = mm.solve(f, Alternating(), init="kmeans", seed=0)
    exact = mm.solve(f, CuttingPlane(epsilon=1e-5), init=result, seed=0)
    assert result.objective == pytest.approx(exact.objective, rel=1e-3)


# ---------------------------------------------------------------- limits, seeds, refusals


@pytest.mark.parametrize("loss", LOSSES)
def test_runs_repeat_and_end_where_labels_repeat(loss):
    X, _ = pair(apart=1.0)
    f = CPM3C(X, 2)
    runs = [mm.solve(f, Alternating(loss=loss), seed=3, restarts=3, n_jobs=jobs) for jobs in (1, 2)]
    assert runs[0].point.tobytes() == runs[1].point.tobytes()
    again = mm.solve(f, Alternating(loss=loss, polish=False), init=runs[0].labels, seed=0)
    assert len(again.history) < 12 and again.status is Status.CONVERGED
    one = mm.solve(f, Alternating(loss=loss), seed=3, max_iter=1)
    assert one.status in (Status.ITERATION_LIMIT, Status.CONVERGED) and len(one.history) == 1


def test_a_good_start_is_never_lost():
    X, _ = pair(apart=1.0)
    f = CPM3C(X, 2)
    good = mm.solve(f, CuttingPlane(epsilon=1e-5), init="kmeans", seed=0)
    assert mm.solve(f, Alternating(), init=good, seed=0).objective <= good.objective


def test_every_parameter_does_something():
    X, _ = pair(apart=1.0, seed=2)
    f = CPM3C(X, 2)
    rough = {"polish": False, "loss": "epsilon-insensitive"}
    base = mm.solve(f, Alternating(**rough), seed=1).objective
    for other in ({"loss": "square"}, {"loss": "hinge"}, {"epsilon": 0.6}, {"share": 0.5},
                  {"inner": 2}, {"tol": 0.1}, {"polish": True}):
        assert mm.solve(f, Alternating(**{**rough, **other}), seed=1).objective != base, other


def test_what_does_not_fit_is_refused():
    X, _ = pair()
    for f in (CPM3C(X, 3), CPM3C(X, 2, size_floor=0.5), LeastSquares(X, 3)):
        with pytest.raises(IncompatibleError, match="it needs Refit, which this"):
            mm.solve(f, Alternating())


@pytest.mark.parametrize("options", [{"center": False}, {"bias": 10.0}], ids=str)
def test_a_balance_of_scores_holds_at_every_point(options):
    X, y = pair()
    f = CPM3C(X, 2, beta=0.1, balance=0.02 * len(X), **options)
    seen = []
    for loss in ("square", "hinge", "epsilon-insensitive"):
        result = mm.solve(f, Alternating(loss=loss, polish=False), init="kmeans", seed=0)
        assert result.violation <= 1e-9 and result.verify()
        polished = mm.solve(f, Alternating(loss=loss), init="kmeans", seed=0)
        assert polished.violation <= 1e-7
        assert polished.objective <= result.objective + 1e-9
        seen.append(polished.objective)
    assert min(seen) < f.objective(f.from_labels(y)) and f.violation(f.from_labels(y)) <= 1e-9
    out = np.zeros((2, f.features.d))
    out[0, -1] = 1.0  # a start that breaks the balance is replaced
    assert f.violation(out) > 1e-3
    assert mm.solve(f, Alternating(), init=out, seed=0).violation <= 1e-7
