"""The Peng-Wei relaxation: a bound on kernel k-means for any duals, and labels of the problem."""

import functools
import itertools

import numpy as np
import pytest
from relaxed import program, solved

import mmcopt as mm
from mmcopt.capabilities import Bounded, LabelProblem, LabelQuadratic
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import Diffrac, LeastSquares
from mmcopt.formulations.relaxations import PengWei
from mmcopt.kernels import Gaussian, Linear

RELAXED = PengWei.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
X = np.random.default_rng(0).standard_normal((10, 2))


@functools.cache
def optimum(r):
    """Smallest k-means cost of all labels; sizes and links count where it bounds the problem."""
    labels = map(np.array, itertools.product(range(r.n_clusters), repeat=r.n))
    return min(r.kmeans_cost(c) for c in labels
               if (r.problem.violation(c) == 0.0 if r.bounds_problem else c[0] == 0))


def test_the_cost_is_the_sum_of_squared_distances_to_the_means():
    r = PengWei(LeastSquares(X, 3, kernel=Linear()))
    for c in (np.arange(10) % 3, np.zeros(10, int), np.arange(10) // 4):
        literal = sum(((X[c == h] - X[c == h].mean(axis=0)) ** 2).sum() for h in set(c))
        assert r.kmeans_cost(c) == pytest.approx(literal)
        uncentred = PengWei(LeastSquares(X, 3, kernel=Linear(), center=False))
        assert uncentred.kmeans_cost(c) == pytest.approx(literal)


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    assert solved(r.reference()) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.objective(point) == pytest.approx(value, rel=1e-6, abs=1e-7)
    assert r.violation(point) < 1e-6
    bound = r.bound(duals)
    assert bound == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert bound <= optimum(r)


@CASES
def test_no_duals_give_a_bound_above_the_optimum(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    best = optimum(r)
    for _ in range(120):
        scale = 10.0 ** rng.uniform(-6, 3)
        wild = {k: v + scale * rng.standard_normal(v.shape) for k, v in duals.items()}
        bound = r.bound(wild)
        assert bound <= best
        assert bound <= value + 1e-6 * (1 + abs(value))


def test_odd_duals_are_no_better():
    r = RELAXED[0]
    n, best = r.n, optimum(r)
    assert r.bound({}) <= best
    assert r.bound({"v": np.full(n, np.nan), "N": np.full((n, n), np.inf)}) == r.bound({})
    assert r.bound({"v": np.full(n, 1e308)}) == -np.inf
    lopsided = np.zeros((n, n))
    lopsided[0, 3] = 1.0
    assert r.bound({"N": lopsided}) == r.bound({"N": lopsided.T}) <= best
    with pytest.raises(ValueError, match="duals v, N and d must have shapes"):
        r.bound({"v": np.zeros(n + 1)})


@CASES
def test_labels_are_points_of_their_cost_and_are_recovered(r):
    f, rng = r.problem, np.random.default_rng(2)
    lq = f.offer(LabelProblem)
    for _ in range(10):
        c = lq.expand(lq.random_labels(rng))
        point = r.from_labels(c)
        assert r.violation(point) < 1e-9
        assert r.objective(point) == pytest.approx(r.kmeans_cost(c), rel=1e-9)
    for point in (program(r)[1], r.from_labels(c)):
        assert f.violation(r.recover(point)) == 0.0


@pytest.mark.parametrize("i", [0, 1, 6, 7])  # without constraints
def test_the_recovered_labels_are_those_of_kmeans(i):
    r = RELAXED[i]
    assert r.kmeans_cost(r.labels(program(r)[1])) == pytest.approx(optimum(r))


def test_known_labels_name_the_clusters():
    c = np.arange(10) // 5
    D = X + 20.0 * c[:, None]
    for known in ({0: 0}, {0: 1}, {0: 1, 9: 0}):
        r = PengWei(LeastSquares(D, 2, known=known))
        found = r.recover(r.from_labels(c))
        assert mm.metrics.adjusted_rand_index(c, found) == 1.0
        assert all(found[i] == h for i, h in known.items())


def test_violations_are_seen():
    r = RELAXED[0]
    Z = program(r)[1]
    assert r.violation(2 * Z) == pytest.approx(2.0, rel=1e-5)
    assert r.violation(Z - 0.5 * np.eye(9)) > 0.4
    assert r.violation(np.eye(9)) == pytest.approx(7.0)


def test_variables_are_those_of_the_program():
    r = RELAXED[0]
    before = solved(r.to_cvxpy())
    Z = r.variables["Z"]
    import cvxpy as cp

    tighter = solved(cp.Problem(r.to_cvxpy().objective, [*r.to_cvxpy().constraints, Z[0, 8] == 0]))
    assert Z.shape == (9, 9) and tighter >= before - 1e-7


def test_it_says_that_it_bounds_kmeans():
    r = PengWei(Diffrac(X, 2, kernel=Gaussian(width=0.5)))
    assert PengWei.bounds_problem is False
    assert str(r).startswith("PengWei: a lower bound on kernel k-means, not on Diffrac\n")
    assert "says nothing about the objective of Diffrac" in str(r)
    assert "not this problem" in str(r.problem.relaxations())
    assert r"\operatorname{tr} K" in r._repr_latex_()
    assert r.offer(Bounded).duals is None and r.offer(LabelQuadratic) is None


def test_refusals():
    with pytest.raises(IncompatibleError, match="one labeling, and nothing to relax"):
        LeastSquares(X, 1).relax("peng-wei")
    with pytest.raises(IncompatibleError, match="needs LabelQuadratic"):
        PengWei(LeastSquares(X).restrict(np.arange(10) % 2))

    class Own:
        n, n_clusters = 3, 2

        def offer(self, kind):
            return LabelQuadratic(np.eye(3)) if kind is LabelQuadratic else None

    assert PengWei.refuses(Own()) == "it needs a kernel matrix, which Own does not offer."
    f = LeastSquares(X)
    assert PengWei.refuses(f) is None and "K" not in f._cache  # asking builds nothing
