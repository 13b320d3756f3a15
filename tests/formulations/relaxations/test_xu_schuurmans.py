"""Xu and Schuurmans: the literal program, a bound for any duals, and how little it says."""

import functools

import numpy as np
import pytest
from relaxed import hinge_problem, labelings, parts, program, solved

import mmcopt as mm
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C
from mmcopt.formulations.relaxations import XuSchuurmans
from mmcopt.formulations.relaxations.xu_schuurmans import simplex

RELAXED = XuSchuurmans.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
EXACT = mm.solvers.CuttingPlane(epsilon=1e-9)
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


@functools.cache
def optimum(f):
    """The least objective of the literal machines of all labels, compiled once."""
    import cvxpy as cp

    k, n, X = f.n_clusters, f.n, f.features.dense()
    W, D = cp.Variable((k, X.shape[1])), cp.Parameter((n, k))
    T = X @ W.T
    loss = cp.sum(cp.max(T + 1 - D, axis=1)) - cp.sum(cp.multiply(D, T))
    literal = cp.Problem(cp.Minimize(f.beta / 2 * cp.sum_squares(W) + loss / n))
    values = []
    for c in labelings(n, k):
        D.value = np.eye(k)[c]
        values.append(solved(literal))
    return min(values)


def instance(seed):
    """A hinge problem of two or three classes without a balance."""
    f = hinge_problem(seed)
    return f if f.balance is None else f.replace(balance=None)


def wild(duals, rng, scale):
    """Duals with noise of that size."""
    return {k: v + scale * rng.standard_normal(v.shape) for k, v in duals.items()}


# ---------------------------------------------------------------- the bound


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    for other in (solved(r.reference()), r.objective(point), r.bound(duals)):
        assert other == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert r.violation(point) < 1e-6
    assert r.bound(duals) <= optimum(r.problem)


@pytest.mark.parametrize("part", parts(6))
def test_brute_force_over_labels_is_never_below(part):
    for seed in range(10 * part, 10 * part + 10):
        f, rng = instance(seed), np.random.default_rng(seed)
        r, best = f.relax("xu-schuurmans"), optimum(f) + 1e-8
        value, point, duals = program(r)
        assert r.objective(point) == pytest.approx(value, rel=1e-6, abs=1e-6), seed
        assert value - 1e-5 * (1 + abs(value)) <= r.bound(duals) <= min(value + 1e-6, best), seed
        for scale in (1e-6, 1e-3, 0.1, 10.0, 1e4):
            assert r.bound(wild(duals, rng, scale)) <= min(value + 1e-6, best), (seed, scale)
        bad = {name: rng.standard_normal(v.shape) * 10.0 ** rng.uniform(-4, 4)
               for name, v in duals.items()}
        assert r.bound(bad) <= best and r.bound({}) <= best, seed
        only = {name: v for name, v in duals.items() if rng.random() < 0.5}
        assert r.bound(only) <= best, seed


def test_odd_duals_are_no_better():
    r = RELAXED[1]
    best, duals = optimum(r.problem), program(r)[2]
    for name in duals:
        for value in (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 0.0, -1.0):
            assert r.bound({**duals, name: np.full(duals[name].shape, value)}) <= best
    with pytest.raises(ValueError, match="the dual v must have shape"):
        r.bound({"v": np.zeros(r.n + 1)})


# ---------------------------------------------------------------- what it says


@CASES
def test_labels_are_points_of_the_objective_of_their_machine(r):
    rng, f = np.random.default_rng(2), r.problem
    for _ in range(5):
        c = rng.permutation(r.n) % r.n_clusters
        point = r.from_labels(c)
        assert r.violation(point) < 1e-12
        assert r.objective(point) == pytest.approx(mm.solve(f.restrict(c), EXACT).objective,
                                                   rel=1e-8)


def test_labels_without_content_are_as_good_as_any():
    """The reason why it is useless: D = ee'/k is feasible with any M of labels."""
    for seed in range(10):
        f, rng = hinge_problem(3 * seed + 1), np.random.default_rng(seed)
        r, n, k = XuSchuurmans(f), f.n, f.n_clusters
        assert f.center
        M, X, c = np.zeros((n + k, n + k)), f.features.dense(), rng.permutation(n) % k
        M[:k, :k], M[k:, k:] = np.eye(k), np.equal.outer(c, c)
        M[:k, k:], M[k:, :k] = 1 / k, 1 / k
        assert r.violation(M) < 1e-9
        sums = sum(float(np.sum(X[c == h].sum(axis=0) ** 2)) for h in range(k))
        said = 1 - 1 / k - sums / (2 * f.beta * n**2)
        assert r.objective(M) == pytest.approx(said, rel=1e-9, abs=1e-9)
        assert program(r)[0] <= said + 1e-6


def test_it_is_below_the_trivial_bound_and_never_above_the_lifted_margin():
    negative = 0
    for seed in range(0, 40, 2):
        f = instance(seed)
        result = mm.solve(f.relax("xu-schuurmans"))
        negative += result.objective < 0.0
        assert result.lower_bound <= mm.solve(f.relax("lifted")).lower_bound + 1e-6
        assert result.gap < 1e-4 and result.verify()
    assert negative >= 10
    X = mm.datasets.load("digits:3,8")[0][:20]
    f = CPM3C(X, 2, beta=0.01)
    result = mm.solve(f.relax("xu-schuurmans"))
    assert result.objective == pytest.approx(result.lower_bound, rel=1e-5) and result.objective < -5
    assert mm.solve(f, seed=0).objective > 0.0


def test_clusters_far_apart_are_recovered():
    rng = np.random.default_rng(5)
    for k in (2, 3):
        y = np.arange(5 * k) % k
        X = rng.standard_normal((5 * k, k)) * 0.3 + 8.0 * np.eye(k)[y]
        found = mm.solve(CPM3C(X, k, beta=0.05).relax("xu-schuurmans"))
        assert mm.metrics.adjusted_rand_index(y, found.labels) == 1.0


def test_violations_are_seen():
    r = RELAXED[0]
    k, point = r.n_clusters, r.from_labels(np.arange(r.n) % 2)
    for i, j, by in ((0, 0, 1.0), (k, k, -0.5), (k + 1, 0, 0.25), (k, k + 1, -2.0)):
        moved = point.copy()
        moved[i, j] += by
        moved[j, i] = moved[i, j]
        assert r.violation(moved) >= abs(by) / 2


def test_refusals_words_and_variables():
    X = np.random.default_rng(0).standard_normal((6, 2))
    with pytest.raises(IncompatibleError, match="it knows no balance of scores, and here is one; "
                                                r"relax\('lifted'\) takes it"):
        CPM3C(X, 3, center=False, balance=1.0).relax("xu-schuurmans")
    text = str(RELAXED[1])
    assert text.startswith("XuSchuurmans: a lower bound on CPM3C, as a rule below 0\n")
    assert "[[I, D'], [D, M]] psd" in text and "D, 6 x 3" in text
    assert r"\operatorname{diag} M = 1" in RELAXED[0]._repr_latex_()
    assert {"Z", "W"} <= set(RELAXED[0].variables)
    assert RELAXED[0].to_cvxpy() is RELAXED[0].program.problem


def test_projection_on_the_simplex():
    V = np.random.default_rng(0).standard_normal((50, 4)) * 3.0
    P = simplex(V)
    assert P.min() >= 0 and P.sum(axis=1) == pytest.approx(np.ones(50))
    rest = V - P  # the same wherever P > 0, and nowhere more
    top = rest.max(axis=1, keepdims=True)
    assert np.where(P > 0, rest, top) == pytest.approx(np.repeat(top, 4, axis=1))
