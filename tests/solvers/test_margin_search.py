"""The search of margins: the optimum of tiny problems, and what its compiled loops promise."""

import functools
import itertools
import warnings

import literal
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import CutRisk
from mmcopt.compiled.margin_search import Machine, descend, judge, sweep
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian, Linear
from mmcopt.margins import SquaredHinge
from mmcopt.solvers import CuttingPlane, MarginSearch, margin_search
from mmcopt.solvers.margin_search import _at, _canonical, _spread, machine_of

pytestmark = pytest.mark.filterwarnings("ignore:(CPM3C|MKC):UserWarning")
DIGITS = mm.datasets.load("digits:3,8")[0]
EXACT = CuttingPlane(epsilon=1e-8, alpha=1e-13)


def cloud(seed, n, k):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, int(rng.integers(1, 4)))) \
        + 2.0 * rng.standard_normal() * (np.arange(n).reshape(-1, 1) % k)


def least_of_all_labels(f):
    """The least optimum of the convex problems of all labels, up to the names of clusters."""
    best = np.inf
    for c in itertools.product(range(f.n_clusters), repeat=f.n):
        named = all(c[i] <= max(c[:i], default=-1) + 1 for i in range(f.n))
        if named and (not f.least or np.bincount(c, minlength=f.n_clusters).min() >= f.least):
            best = min(best, mm.solve(f.restrict(np.array(c)), EXACT).objective)
    return best


def instance(seed):
    """A tiny problem: k = 2 or 3, features or kernels, with and without a floor."""
    rng = np.random.default_rng(1000 + seed)
    k = 2 + seed % 2
    X = cloud(seed, 7 if k == 2 else 6, k)
    size_floor = float(rng.choice([0.0, 0.6, 1.0]))
    if seed % 3 == 2:
        return MKC(X, k, kernels=[Linear(), Gaussian(width=0.6)], size_floor=size_floor,
                   C=float(rng.choice([5.0, 30.0])), p=float(rng.choice([1.5, 2.0, 3.0])))
    return CPM3C(X, k, beta=float(rng.choice([0.3, 0.1, 0.02])), size_floor=size_floor,
                 kernel=Gaussian(width=0.6) if seed % 4 == 1 else None)


def check_optimum(seed):
    f = instance(seed)
    best, found = least_of_all_labels(f), mm.solve(f, MarginSearch(), seed=seed)
    assert found.objective == f.objective(found.point) and found.violation <= 1e-12
    assert found.objective == pytest.approx(best, rel=1e-5, abs=1e-6), seed


@pytest.mark.parametrize("seed", range(12))
def test_it_finds_the_best_of_all_labels(seed):
    check_optimum(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 212))
def test_it_finds_the_best_of_all_labels_of_many_problems(seed):
    check_optimum(seed)


def test_the_convex_problem_of_labels_is_the_literal_one():
    f = instance(2)
    y = np.arange(f.n) % f.n_clusters
    assert mm.solve(f.restrict(y), EXACT).objective == \
        pytest.approx(literal.solved(f.reference(y)), rel=1e-5)


@pytest.mark.parametrize("n, beta, optimum", [
    (100, 0.1, 0.199718), (100, 0.03, 0.088896), (100, 0.01, 0.038060), (200, 0.1, 0.255320)])
def test_digits_reach_the_proved_optimum(n, beta, optimum):
    f = CPM3C(DIGITS[:n], 2, beta=beta)
    for seed in range(3):
        assert mm.solve(f, seed=seed).objective == pytest.approx(optimum, abs=1e-6)


# ---------------------------------------------------------------- the loops


@functools.cache
def machines(k):
    """The same problem by rows and by products, and one of two kernels."""
    X = mm.datasets.load("iris")[0][20:140:2]
    rows, mixed = CPM3C(X, k), MKC(X, k, kernels=[Linear(), Gaussian(width=0.5)])
    machine = machine_of(rows.offer(CutRisk))
    A = machine.A @ machine.A.T
    return [(rows, machine), (rows, machine._replace(A=A, gram=True)),
            (mixed, machine_of(mixed.offer(CutRisk)))]


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_pass_keeps_multipliers_feasible_and_never_lowers_the_dual(k):
    for _, machine in machines(k):
        y = np.random.default_rng(k).integers(0, k, 60)
        at = _at(machine, np.zeros((k, 60)), y)
        before = 0.0
        for _ in range(30):
            assert sweep(machine, at, 1.0, False, np.empty(60, np.int64))[0] == 0
            top = np.zeros((k, 60))
            top[at.y, np.arange(60)] = 1.0
            assert (at.U <= top + 1e-12).all() and np.abs(at.U.sum(axis=0)).max() < 1e-12
            full = np.vstack([at.V, -at.V.sum(axis=0)])
            scores = full if machine.gram else full @ machine.A.T
            dual = at.U[at.y, np.arange(60)].sum() - 0.5 * (at.U * scores).sum()
            assert dual >= before - 1e-12
            before = dual
        gap = judge(machine, at, False)[1]
        assert 0.0 <= gap and (at.y == y).all()


def test_samples_of_next_to_no_length_are_harmless():
    X = np.r_[np.eye(3), 1e-17 * np.ones((2, 3)), np.zeros((1, 3))]
    none = np.empty((0, 0, 0))
    machine = Machine(X, np.einsum("ij,ij->i", X, X), False, none, 2.0)
    at = _at(machine, np.zeros((3, 6)), np.arange(6) % 3)
    for _ in range(5):
        sweep(machine, at, 1.0, False, np.empty(6, np.int64))
    assert np.isfinite(at.U).all() and np.abs(at.U.sum(axis=0)).max() < 1e-12
    assert (at.U[at.y, np.arange(6)][3:] == 1.0).all()


@pytest.mark.parametrize("k", [2, 3])
def test_rows_and_products_say_the_same(k):
    (_, rows), (_, products), _ = machines(k)
    y = np.random.default_rng(0).integers(0, k, 60)
    one, other = (_at(m, _spread(y, k), y) for m in (rows, products))
    for sigma in (0.2, 0.6, 1.0, 1.0):
        first, second = (sweep(m, at, sigma, True, np.empty(60, np.int64))
                         for m, at in ((rows, one), (products, other)))
        assert first == second
    assert (one.y == other.y).all()
    assert one.U == pytest.approx(other.U, abs=1e-9)
    assert judge(rows, one, True) == pytest.approx(judge(products, other, True))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kernels", [None, [Linear(), Gaussian(width=0.5)]])
def test_no_class_falls_below_the_floor(k, kernels):
    X = mm.datasets.load("iris")[0][20:140:2]
    f = CPM3C(X, k, size_floor=0.75) if kernels is None else MKC(X, k, kernels=kernels,
                                                                 size_floor=0.75)
    result = mm.solve(f, MarginSearch(starts=20, patience=20), seed=0)
    assert np.bincount(result.labels, minlength=k).min() >= f.least > 0
    assert result.violation == 0.0


def test_labels_have_one_name_only():
    assert (_canonical(np.array([2, 0, 0, 1, 2])) == [0, 1, 1, 2, 0]).all()


# ---------------------------------------------------------------- the search


def test_a_start_is_never_lost():
    f = CPM3C(DIGITS[:100], 2)
    best = mm.solve(f, MarginSearch(), seed=0)
    again = mm.solve(f, MarginSearch(starts=1, patience=0), init=best, seed=5)
    assert again.objective <= best.objective
    labels = mm.solve(f, MarginSearch(starts=1, patience=0), init=best.labels, seed=5)
    assert labels.objective == pytest.approx(best.objective, rel=1e-6)


def test_hyper_parameters_do_something():
    f = CPM3C(DIGITS[:100], 2, beta=0.01)
    few, many = (mm.solve(f, MarginSearch(starts=s, patience=p), seed=1).history["descents"][-1]
                 for s, p in ((3, 0), (30, 10)))
    assert few == 3 and many >= 40
    pools = [mm.solve(f, MarginSearch(starts=30, patience=1, pool=p), seed=1).history["members"][-1]
             for p in (2, 5)]
    assert pools == [2, 5]


def test_large_problems_take_few_starts():
    rng = np.random.default_rng(0)
    f = CPM3C(rng.standard_normal((40_000, 4)) + 4.0 * (np.arange(40_000)[:, None] % 2), 2)
    result = mm.solve(f, MarginSearch(), seed=0, max_iter=3)
    assert margin_search.MarginSearch()._starts(machine_of(f.offer(CutRisk)), 2) == \
        margin_search.FEWEST
    assert result.objective < 0.5


@pytest.mark.parametrize("f", [
    CPM3C(DIGITS[:40], 2, loss=SquaredHinge()), CPM3C(DIGITS[:40], 2, center=False, balance=2.0)],
    ids=["loss", "balance"])
def test_what_it_cannot_do_is_done_by_cutting_planes(f):
    ours, theirs = (mm.solve(f, solver, seed=3) for solver in (MarginSearch(), CuttingPlane()))
    assert ours.objective == theirs.objective and ours.status == theirs.status


def test_sparse_rows_and_many_products_are_handed_over(monkeypatch):
    from scipy.sparse import csr_array

    assert machine_of(CPM3C(csr_array(DIGITS[:50]), 2).offer(CutRisk)) is None
    f = CPM3C(DIGITS[:50], 2)
    assert machine_of(f.offer(CutRisk)).gram
    monkeypatch.setattr(margin_search, "LARGEST", 49)
    assert machine_of(f.offer(CutRisk)) is None


def test_problems_of_given_labels_are_refused():
    f = CPM3C(DIGITS[:40], 2)
    with pytest.raises(IncompatibleError, match="among labels, and here they are given"):
        mm.solve(f.restrict(np.arange(40) % 2), MarginSearch())


def test_it_warns_of_nothing_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mm.solve(CPM3C(DIGITS, 2), seed=0)


# ---------------------------------------------------------------- in the time a user waits


@pytest.mark.parametrize("k, p", [(2, 2.0), (3, 1.5)])
def test_kernels_with_features_are_searched_by_rows_as_by_products(k, p):
    kernels = [Linear(), Gaussian(width=0.5).nystroem(20)]
    X = mm.datasets.load("iris")[0][20:140]
    f = MKC(X, k, kernels=kernels, p=p)
    machine = machine_of(f.offer(CutRisk))
    assert not machine.gram and machine.mixed.shape == (2,)
    products = np.stack([part.products for part in f.features.parts]) / (f.beta * f.n)
    other = Machine(np.empty((120, 120)), np.empty(120), True, products, p)
    y, busy, tol = np.arange(120) * k // 120, np.empty(120, np.int64), 1e-8
    one, two = (_at(m, _spread(y, k), y) for m in (machine, other))
    for m, at in ((machine, one), (other, two)):
        sweep(m, at, 1.0, False, busy)
        assert descend(m, at, 1.0, 3.0, False, 3000, tol)[3]
    assert one.weights == pytest.approx(two.weights, abs=1e-5)
    assert judge(machine, one, False)[0] == pytest.approx(judge(other, two, False)[0], rel=1e-7)
    exact = mm.solve(f.restrict(y), CuttingPlane(epsilon=1e-7, alpha=1e-12)).objective
    assert f.scale * judge(machine, one, False)[0] / f.n == pytest.approx(exact, rel=1e-5)


def test_starts_by_kmeans_that_agree_are_descended_from_once(monkeypatch):
    drawn, draw = [], margin_search.kmeans_labels
    monkeypatch.setattr(margin_search, "kmeans_labels",
                        lambda f, rng: drawn.append(0) or draw(f, rng))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3)) + 20.0 * np.eye(3)[np.arange(90) % 3]
    result = mm.solve(CPM3C(X, 3), MarginSearch(starts=50, patience=0, first="kmeans"), seed=0)
    assert mm.metrics.accuracy(np.arange(90) % 3, result.labels) == 1.0
    assert result.history["members"][-1] == 1 and len(drawn) == 1 + margin_search.AGREED


def test_random_starts_that_all_end_alike_are_enough():
    rng = np.random.default_rng(0)
    easy = rng.standard_normal((60, 3)) + 20.0 * (np.arange(60)[:, None] % 2)
    descents = [mm.solve(CPM3C(X, 2), MarginSearch(), seed=0).history["descents"][-1]
                for X in (easy, rng.standard_normal((60, 3)))]
    assert descents[0] == margin_search.ALIKE and descents[1] > 500


def test_without_children_only_the_best_starts_are_solved_to_the_end():
    f = CPM3C(DIGITS[:60], 2, beta=0.01)
    result = mm.solve(f, MarginSearch(starts=20, patience=0), seed=1)
    assert result.history["members"][-1] == margin_search.FINALISTS
    given = mm.solve(f.restrict(result.labels), EXACT).objective
    assert result.objective == pytest.approx(given, rel=1e-5)


def test_points_of_descents_by_kmeans_keep_a_floor(monkeypatch):
    X = np.r_[np.random.default_rng(0).standard_normal((60, 2)), [[40.0, 0.0], [0.0, 40.0]]]
    f, rng = CPM3C(X, 3, size_floor=0.8), np.random.default_rng(0)
    assert np.bincount(margin_search.kmeans_labels(f, rng), minlength=3).min() < f.least
    monkeypatch.setattr(margin_search, "WORK", 1)  # every step is looked at
    solver = MarginSearch(starts=5, patience=0, first="kmeans")
    met = solver.begin(f, None, rng)
    met.state.value = np.inf  # so that every point is better
    while solver.outcome(f, met.state) is None:
        met = solver.step(f, met.state, rng)
        assert f.violation(met.point) == 0.0
        met.state.value = np.inf
