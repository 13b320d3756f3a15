"""SGD on the weights of a margin: its gradient, its recursion, and what it reaches."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt import registry
from mmcopt.capabilities import MarginRisk, Subgradient
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C
from mmcopt.kernels import Gaussian
from mmcopt.margins import LOSSES, Hinge, Logistic, MarginLoss, SquaredHinge
from mmcopt.modeling.result import Status
from mmcopt.solvers import SGD, CuttingPlane
from mmcopt.solvers import sgd_margins as margins


def blobs(n=90, k=3, d=4, seed=0):
    """Groups of samples, with a label each."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((k, d))[y], y


def counts(n=60, d=12, seed=1):
    """Sparse rows of small integers in two groups."""
    rng = np.random.default_rng(seed)
    rate = np.where((np.arange(n) % 2)[:, None] == (np.arange(d) < d // 2), 1.5, 0.2)
    return sp.csr_array(rng.poisson(rate).astype(np.float64))


# ---------------------------------------------------------------- the offer


def test_the_offer_is_made_where_there_are_no_constraints():
    X, _ = blobs()
    assert CPM3C(X, 3).offer(MarginRisk) is not None
    assert CPM3C(X, 3, balance=1.0).offer(MarginRisk) is not None  # centring makes it empty
    assert CPM3C(X, 3, balance=1.0, center=False).offer(MarginRisk) is None
    assert CPM3C(X, 3, size_floor=0.5).offer(MarginRisk) is None


def test_what_does_not_fit_is_refused_in_words():
    X, _ = blobs()
    with pytest.raises(IncompatibleError, match="SGD cannot solve CPM3C: it needs "
                                                "Subgradient, which this CPM3C does not offer"):
        mm.solve(CPM3C(X, 3, size_floor=0.5), SGD())
    with pytest.raises(IncompatibleError, match="stop='paper' is a rule of one-class problems"):
        mm.solve(CPM3C(X, 3), SGD(stop="paper"))


def test_another_class_of_offer_is_refused_in_words():
    class Odd(CPM3C):
        def offer(self, kind):
            return Subgradient() if kind is Subgradient else super().offer(kind)

    X, _ = blobs()
    try:
        assert SGD().refuses(Odd(X, 3)) == ("it knows no way to descend on a Subgradient, only on "
                                            "DomainRisk and MarginRisk.")
    finally:
        del registry._formulations["Odd"]


# ---------------------------------------------------------------- the gradient


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 4])
def test_the_gradient_is_that_of_finite_differences(loss, k):
    X, _ = blobs(k=k)
    f = CPM3C(X, k, loss=LOSSES[loss](), beta=0.2)
    risk, rng = f.offer(MarginRisk), np.random.default_rng(3)
    W, everyone = rng.standard_normal((k, 4)), np.arange(len(X))
    G = margins.gradient(risk, W, everyone)
    for _ in range(5):
        D = rng.standard_normal(W.shape)
        h = 1e-7  # no sample changes its leading classes, or side of a kink, on the way
        slope = (f.objective(W + h * D) - f.objective(W - h * D)) / (2 * h)
        assert np.sum(G * D) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    halves = [margins.gradient(risk, W, rows) for rows in (everyone[:45], everyone[45:])]
    np.testing.assert_allclose((halves[0] + halves[1]) / 2, G, atol=1e-12)


@pytest.mark.as_given
def test_a_step_of_one_sample_by_hand():
    """Score 1 against 0: margin 1/2 < 1, so class 0 gains x and class 1 loses it."""
    f = CPM3C(np.array([[1.0], [2.0]]), 2, beta=0.5, center=False, normalize=False)
    W = np.array([[0.5], [0.0]])
    G = margins.gradient(f.offer(MarginRisk), W, np.array([0]))
    assert G.tolist() == [[0.5 * 0.5 - 1.0], [1.0]]
    assert margins.gradient(f.offer(MarginRisk), W, np.array([1])).tolist() == [[0.25], [0.0]]


@pytest.mark.parametrize("center", [True, False])
def test_sparse_rows_have_the_gradient_of_dense_ones(center):
    S = counts()
    sparse, dense = CPM3C(S, 2, center=center), CPM3C(S.toarray(), 2, center=center)
    W = np.random.default_rng(0).standard_normal((2, S.shape[1]))
    rows = np.array([3, 5, 5, 40])
    np.testing.assert_allclose(margins.gradient(sparse.offer(MarginRisk), W, rows),
                               margins.gradient(dense.offer(MarginRisk), W, rows), atol=1e-12)
    assert margins.delay(sparse.offer(MarginRisk), 8) == \
        pytest.approx(margins.delay(dense.offer(MarginRisk), 8))


# ---------------------------------------------------------------- the recursion


def literal(f, W, batches):
    """All W of the rounds, sample by sample, for the hinge."""
    Phi, met = f.features.dense(), []
    square = (Phi**2).sum(axis=1)
    delay = 2.0 * max(square.mean(), square.max() / batches.shape[1]) / f.beta
    for t, rows in enumerate(batches, start=1):
        G = f.beta * W
        for i in rows:
            scores = W @ Phi[i]
            p, r = np.argsort(-scores, kind="stable")[:2]
            if scores[p] - scores[r] < 1.0:
                G[p] -= Phi[i] / len(rows)
                G[r] += Phi[i] / len(rows)
        W = W - G / (f.beta * (t + delay))
        met.append(W)
    return met


@pytest.mark.parametrize("sparse", [False, True])
def test_rounds_are_those_of_the_literal_recursion(sparse):
    X = counts() if sparse else blobs(n=50)[0]
    f = CPM3C(X, 3, beta=0.1)
    W0 = np.random.default_rng(1).standard_normal((3, X.shape[1]))
    risk = f.offer(MarginRisk)
    walk = margins.new_walk(risk, 7, W0, np.random.default_rng(0))
    passes = [margins.batches(f.n, 7, False, np.random.default_rng(s)) for s in range(7)]
    met = literal(CPM3C(X.toarray(), 3, beta=0.1) if sparse else f, W0, np.concatenate(passes))
    since = [0, 0, 1, 1, 2, 2, 2]  # the pass at which the average of each pass begins
    for done, (batches, first) in enumerate(zip(passes, since, strict=True), start=1):
        margins.play(risk, walk, batches)
        rounds = len(batches)
        np.testing.assert_allclose(walk.W, met[done * rounds - 1], rtol=0, atol=1e-11)
        average = np.mean(met[first * rounds:done * rounds], axis=0)
        np.testing.assert_allclose(walk.mean, average, rtol=0, atol=1e-11)
    assert W0[0, 0] == np.random.default_rng(1).standard_normal((3, X.shape[1]))[0, 0]


def test_shuffled_passes_draw_every_sample_equally_often():
    rng = np.random.default_rng(0)
    drawn = margins.batches(1000, 10, True, rng)
    assert drawn.shape == (100, 10)
    assert (np.bincount(drawn.ravel()) == 1).all()
    few = margins.batches(10, 32, True, rng)
    assert few.shape == (margins.LEAST_ROUNDS, 10)
    assert (np.bincount(few.ravel()) == margins.LEAST_ROUNDS).all()
    uniform = margins.batches(1000, 10, False, rng)
    assert uniform.shape == (100, 10) and uniform.max() < 1000
    assert np.bincount(uniform.ravel()).max() > 1


# ---------------------------------------------------------------- what it reaches


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()])
def test_it_comes_close_to_cutting_planes_from_the_same_start(loss):
    X, _ = mm.datasets.load("digits:3,8")
    f = CPM3C(X, 2, loss=loss)
    exact = mm.solve(f, CuttingPlane(epsilon=1e-3), init="kmeans", seed=0).objective
    result = mm.solve(f, SGD(), init="kmeans", seed=0)
    assert result.status is Status.CONVERGED
    assert result.objective == f.objective(result.point)
    assert abs(result.objective / exact - 1.0) < 0.03
    closer = mm.solve(f, SGD(tol=1e-3, draw="shuffled"), init="kmeans", seed=0)
    assert closer.objective < exact * 1.01 and closer.objective <= result.objective


def test_it_comes_close_on_letters(shared_data):
    X, y = shared_data("letter_AvB")
    f = CPM3C(X, 2)
    exact = mm.solve(f, CuttingPlane(epsilon=1e-3), init="kmeans", seed=0).objective
    result = mm.solve(f, SGD(), init="kmeans", seed=0)
    assert abs(result.objective / exact - 1.0) < 0.03
    assert mm.metrics.adjusted_rand_index(y, result.labels) > 0.75


def test_objectives_of_a_comparison_mean_the_same():
    X, y = blobs(k=2)
    f = CPM3C(X, 2, beta=0.05)
    table = mm.compare(f, [CuttingPlane(epsilon=1e-3), SGD(tol=1e-3)], seeds=3, y=y).to_frame()
    best = table.groupby("solver")["objective"].min()
    assert best.max() == pytest.approx(best.min(), rel=0.02)
    assert (table["objective"] > table["lower_bound"]).all()


@dataclasses.dataclass(frozen=True)
class Smoothed(MarginLoss):
    """A loss of the reader's own: linear below 0, a parabola up to 1."""

    def value(self, margin):
        return np.where(margin < 0, 0.5 - margin, 0.5 * np.maximum(1 - margin, 0.0)**2)

    def slope(self, margin):
        return -np.clip(1.0 - margin, 0.0, 1.0)


def test_any_loss_and_any_kernel_will_do():
    X, y = blobs(k=2)
    for f in (CPM3C(X, 2, loss=Smoothed()), CPM3C(X, 2, kernel=Gaussian(width=1.0))):
        result = mm.solve(f, SGD(), init="kmeans", seed=0)
        assert mm.metrics.adjusted_rand_index(y, result.labels) > 0.95
        assert result.objective < 0.7 * float(f.loss.value(np.zeros(1))[0])


def test_sparse_rows_reach_the_objective_of_dense_ones():
    S = counts()
    sparse = mm.solve(CPM3C(S, 2), SGD(), seed=0)
    dense = mm.solve(CPM3C(S.toarray(), 2), SGD(), seed=0)
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-9)
    np.testing.assert_array_equal(sparse.labels, dense.labels)


def test_long_rows_do_not_break_it():
    """Without scaling, steps must follow the lengths of rows, the longest too."""
    X, y = blobs(k=2)
    X = 1e3 * X
    X[0] *= 50.0
    f = CPM3C(X, 2, normalize=False, loss=SquaredHinge(), beta=1e3)
    result = mm.solve(f, SGD(), init=y, seed=0)
    assert result.objective < 1.0


# ---------------------------------------------------------------- limits, seeds, parameters


def test_runs_repeat_and_restarts_differ():
    X, _ = blobs(k=2)
    f = CPM3C(X, 2)
    one, two = (mm.solve(f, SGD(), seed=4, restarts=3, n_jobs=jobs) for jobs in (1, 2))
    assert one.point.tobytes() == two.point.tobytes()
    ends = {round(mm.solve(f, SGD(), seed=s).objective, 8) for s in range(4)}
    assert len(ends) == 4
    first = mm.solve(f, SGD(), seed=4).objective
    assert one.objective <= first


def test_limits_end_a_run_with_its_best_average():
    X, _ = blobs(k=2)
    f = CPM3C(X, 2)
    result = mm.solve(f, SGD(max_passes=3, tol=1e-9), seed=0)
    assert result.status is Status.ITERATION_LIMIT and len(result.history) == 3
    assert result.history["rounds"].tolist() == [64.0, 128.0, 192.0]
    assert result.objective == result.history["objective"].min()
    assert mm.solve(f, SGD(), seed=0, max_iter=1).status is Status.ITERATION_LIMIT


def test_a_start_is_kept_where_it_cannot_be_improved():
    X, _ = blobs()
    f = CPM3C(X, 3)
    good = mm.solve(f, CuttingPlane(epsilon=1e-4, max_masters=100), init="kmeans", seed=0)
    before = good.point.copy()
    result = mm.solve(f, SGD(max_passes=2), init=good, seed=0)
    assert result.objective <= good.objective
    assert np.array_equal(good.point, before)


def test_every_parameter_does_something():
    X, _ = blobs(n=200, k=2)
    f = CPM3C(X, 2)
    base = mm.solve(f, SGD(), seed=0)
    for other in (SGD(batch=4), SGD(draw="shuffled"), SGD(tol=1e-6), SGD(max_passes=2)):
        assert mm.solve(f, other, seed=0).objective != base.objective, other
