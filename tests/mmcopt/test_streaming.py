"""Streaming: the literal recursion, merging, chunks, and the figures for a million rows."""


import numpy as np
import pytest

import mmcopt as mm
from mmcopt.compiled.gaussian_sums import merge_lightest
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import Gaussian
from mmcopt.metrics import adjusted_rand_index
from mmcopt.streaming import BudgetedDomain


def moons(n, seed=0):
    return mm.datasets.load(f"moons:n={n},noise=.05,seed={seed}")


def kernel(A, B, gamma):
    return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def literal(X, gamma, C):
    """Algorithm 1 as printed: all coefficients shrink each round."""
    a, K = np.zeros(len(X)), kernel(X, X, gamma)
    for t in range(1, len(X) + 1):
        violated = K[t - 1] @ a < 1.0
        a *= 1.0 - 1.0 / t
        if violated:
            a[t - 1] += C / t
    return a


def square(domain):
    S, a = domain.support_vectors, domain.weights
    return a @ kernel(S, S, domain.gamma) @ a


# ---------------------------------------------------------------- without a merge


@pytest.mark.as_given
@pytest.mark.parametrize(("gamma", "C", "d"), [(5.0, 30.0, 2), (0.05, 8.0, 12), (40.0, 3.0, 1)])
def test_the_literal_recursion_where_the_budget_is_never_reached(gamma, C, d):
    X = np.random.default_rng(0).standard_normal((400, d))
    a = literal(X, gamma, C)
    used = np.flatnonzero(a)
    assert 5 < len(used) < 400
    domain = BudgetedDomain(gamma, C, budget=len(used)).partial_fit(X)
    assert np.array_equal(domain.support_vectors, X[used]) and domain.kept == 1.0
    assert np.allclose(domain.weights, a[used], rtol=1e-12, atol=0)
    new = np.random.default_rng(1).standard_normal((50, d))
    assert np.allclose(domain.decision_function(new), kernel(new, X, gamma) @ a - 1.0, atol=1e-12)
    one_less = BudgetedDomain(gamma, C, budget=len(used) - 1).partial_fit(X)
    assert len(one_less.weights) == len(used) - 1 and one_less.kept < 1.0


@pytest.mark.as_given
def test_equal_rows_share_one_support_vector():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6, 2))[rng.integers(0, 6, 1000)]
    domain = BudgetedDomain(1.0, 50.0, budget=6).partial_fit(X)
    assert len(domain.weights) <= 6 and domain.kept == 1.0
    a = literal(X, 1.0, 50.0)
    for s, weight in zip(domain.support_vectors, domain.weights, strict=True):
        assert weight == pytest.approx(a[(X == s).all(axis=1)].sum(), rel=1e-11)


# ---------------------------------------------------------------- merging


@pytest.mark.nojit
@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0, 4.0])
def test_a_merge_loses_nearly_as_little_as_the_best_one(spread):
    rng, gamma, worst = np.random.default_rng(0), 1.0, 0.0
    grid = np.linspace(0, 1, 401)[:, None]
    for _ in range(40):
        m = 12
        ST, raw = spread * rng.standard_normal((2, m)), rng.integers(1, 9, m) + rng.random(m)
        S, a, p = ST.T.copy(), raw.copy(), int(np.argmin(raw))
        assert merge_lightest(ST, m, raw, gamma, np.empty((4, m))) == m - 1
        after, b = ST.T[:m - 1], raw[:m - 1]
        before = a @ kernel(S, S, gamma) @ a
        lost = before - 2 * a @ kernel(S, after, gamma) @ b + b @ kernel(after, after, gamma) @ b
        least = np.inf
        for j in np.delete(np.arange(m), p):
            z = grid * S[p] + (1 - grid) * S[j]
            both = [p, j]
            held = a[both] @ kernel(S[both], z, gamma)
            least = min(least, a[both] @ kernel(S[both], S[both], gamma) @ a[both] - held.max()**2)
        worst = max(worst, (lost - least) / a[p]**2)
        assert b.min() > a[p] * 0.999 and b.sum() <= a.sum() * (1 + 1e-12)
        assert lost <= a[p]**2 * (1 + 1e-9)  # no worse than to drop it
    assert worst < 0.02


def test_merging_changes_the_domain_little_and_the_budget_holds():
    X, y = moons(6000)
    free = BudgetedDomain(10.0, 300.0, budget=6000).partial_fit(X)
    held = BudgetedDomain(10.0, 300.0, budget=100)
    for chunk in np.array_split(X, 60):
        assert 1 <= len(held.partial_fit(chunk).weights) <= 100 and held.weights.min() > 0
    assert len(free.weights) > 250 and len(held.weights) == 100
    assert held.weights.sum() == pytest.approx(free.weights.sum(), rel=0.02)
    assert square(held) == pytest.approx(square(free), rel=0.02)
    assert np.abs(held.decision_function(X) - free.decision_function(X)).max() < 0.1
    kept = [BudgetedDomain(10.0, 300.0, budget=b).partial_fit(X).kept for b in (2, 10, 30, 100)]
    assert kept == sorted(kept) and kept[0] < 0.5 and kept[-1] > 0.97


@pytest.mark.as_given
@pytest.mark.parametrize("budget", [1, 20])
def test_chunks_change_no_bit(budget):
    X, _ = moons(3000)
    seen = set()
    for sizes in ([3000], [1] * 3000, [7, 1000, 1, 1992]):
        domain, start = BudgetedDomain(20.0, 100.0, budget=budget), 0
        for size in sizes:
            domain.partial_fit(X[start:start + size])
            start += size
        assert domain.rounds == 3000 and len(domain.weights) == budget
        seen.add((domain.support_vectors.tobytes(), domain.weights.tobytes(), domain.kept))
    assert len(seen) == 1
    single = BudgetedDomain(20.0, 100.0, budget=budget).partial_fit(X.astype(np.float32))
    assert np.array_equal(single.support_vectors, BudgetedDomain(20.0, 100.0, budget=budget)
                          .partial_fit(X.astype(np.float32).astype(np.float64)).support_vectors)


# ---------------------------------------------------------------- the problem it solves


@pytest.mark.parametrize(("C", "above"), [(30.0, 0.003), (100.0, 0.01), (1000.0, 0.04)])
def test_the_objective_comes_near_its_minimum(C, above):
    X, _ = moons(100_000)
    domain, some = BudgetedDomain(20.0, C).partial_fit(X), X[::5]
    problem = mm.formulations.OneClassHinge(some, C=C, kernel=Gaussian(gamma=20.0))
    result = mm.solve(problem, seed=0)
    loss = np.maximum(-domain.decision_function(some), 0.0).mean()
    objective = square(domain) / 2 + C * loss
    assert result.lower_bound <= objective <= result.lower_bound * (1 + above)


def test_the_problem_in_its_place_has_the_same_domain():
    X, _ = moons(5000)
    domain = BudgetedDomain(20.0, 100.0, budget=50).partial_fit(X)
    problem, point = domain.problem()
    assert np.allclose(problem.decision_function(point, X), domain.decision_function(X), atol=1e-10)
    assert (point >= 0).all() and (point <= problem.upper * (1 + 1e-12)).all()
    assert problem.objective(point) >= problem.offer(mm.capabilities.Bounded).bound({"a": point})
    border = domain.decision_function(domain.support_vectors)
    inner = domain.decision_function(domain.inner_points())
    assert (inner >= border - 1e-12).all()
    assert (inner >= 0).mean() > 0.95 > (border >= 0).mean()


def test_a_million_rows_of_two_moons():
    X, y = moons(1_000_000)
    new, z = moons(20_000, seed=1)
    domain = BudgetedDomain(10.0, budget=200)
    for chunk in np.array_split(X, 10):
        domain.partial_fit(chunk)
    found = domain.clusters()
    inside = domain.decision_function(new) >= 0
    assert inside.mean() >= 0.95 and found.n_clusters == 2
    assert adjusted_rand_index(z[inside], found.predict(new)[inside]) == 1.0
    assert adjusted_rand_index(z, found.predict(new)) == 1.0
    marked = domain.clusters(outliers="mark").predict(new)
    assert (marked >= 0).mean() >= 0.95 and (marked[inside] >= 0).all()


# ---------------------------------------------------------------- errors


def test_errors_say_what_to_do():
    for bad in ({"gamma": 0.0}, {"gamma": 1.0, "C": -1.0}, {"gamma": 1.0, "budget": 0}):
        with pytest.raises(ParameterError, match="BudgetedDomain: "):
            BudgetedDomain(**bad)
    domain = BudgetedDomain(1.0)
    assert domain.rounds == 0
    for ask in (lambda: domain.weights, lambda: domain.support_vectors, lambda: domain.kept,
                lambda: domain.decision_function(np.ones((2, 2))), domain.clusters):
        with pytest.raises(DataError, match=r"has seen no data; call partial_fit\(X\) first"):
            ask()
    domain.partial_fit(np.ones((3, 2)))
    with pytest.raises(DataError, match="X has 3 features, but the stream began with 2"):
        domain.partial_fit(np.ones((3, 3)))
    with pytest.raises(DataError, match="1 NaN"):
        domain.partial_fit([[0.0, np.nan]])
    assert domain.rounds == 3
    rng = np.random.default_rng(0)
    empty = BudgetedDomain(1.0, 1.0).partial_fit(10 * rng.standard_normal((500, 2)))
    with pytest.raises(DataError, match="the domain holds no sample"):
        empty.clusters()
