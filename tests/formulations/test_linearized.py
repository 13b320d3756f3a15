"""One step of the concave-convex procedure, and the machine with several kernels."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from literal import solved

import mmcopt as mm
from mmcopt.capabilities import Bounded
from mmcopt.errors import DataError
from mmcopt.formulations import (
    CPM3C,
    MKC,
    CrammerSinger,
    LinearizedCPM3C,
    LinearizedMKC,
    MultipleKernelMachine,
)
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.solvers import CuttingPlane

EXACT = CuttingPlane(epsilon=1e-9, alpha=0.0)
LOSSES = [Hinge(), SquaredHinge(), Logistic()]


def draw(seed, several=False):
    """A problem without labels, and labels that need not be good."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    n = int(rng.integers(3 * k, 30))
    y = rng.permutation(np.arange(n) % k)
    X = rng.standard_normal((n, 3)) + 1.5 * y[:, None]
    options = [{}, {"center": False, "balance": 2.0}, {"normalize": False}][seed % 3]
    if several:
        kernels = [Linear(), Gaussian(width=0.6), Polynomial(2)][:1 + seed % 3]
        return MKC(X, k, kernels=kernels, C=10.0 ** rng.uniform(0.5, 1.5),
                   p=[1.0, 2.0, 3.0][seed % 3], loss=LOSSES[seed % 3], **options), y
    return CPM3C(X, k, beta=10.0 ** rng.uniform(-1.5, 0), loss=LOSSES[seed % 3], **options), y


@pytest.mark.parametrize("several", [False, True])
def test_a_step_is_a_majoriser_that_touches_at_its_point(several):
    for seed in range(12):
        f, _ = draw(seed, several)
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((f.n_clusters, f.features.d))
        step, machine = f.linearize(W), f.restrict(f.labels(W))
        assert isinstance(step, LinearizedMKC if several else LinearizedCPM3C)
        assert step.objective(W) == pytest.approx(f.objective(W), rel=1e-12)
        assert machine.objective(W) == pytest.approx(f.objective(W), rel=1e-12)
        for _ in range(20):
            V = W + rng.standard_normal(W.shape) * 10.0 ** rng.uniform(-2, 1)
            tiny = 1e-12 * step.objective(V)
            assert f.objective(V) <= machine.objective(V) + tiny
            assert machine.objective(V) <= step.objective(V) + tiny
            if f.n_clusters == 2:
                assert machine.objective(V) == pytest.approx(step.objective(V), rel=1e-12)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", ["majoriser", "machine"])
def test_the_optimum_is_that_of_the_literal_problem(several, name):
    for seed in range(9):
        f, y = draw(seed, several)
        g = f._given(getattr(f, name), y)
        ours, conic = mm.solve(g, EXACT), mm.solve(g, "Conic")
        reference = g.reference()
        solved(reference)
        unit = max(1e-2, abs(reference.value))
        assert ours.objective == pytest.approx(reference.value, abs=2e-5 * unit)
        assert ours.objective == pytest.approx(conic.objective, abs=1e-6 * unit)
        assert ours.lower_bound <= conic.objective + 1e-9 * unit
        assert ours.gap <= 1e-6 and conic.gap <= 1e-5
        assert ours.verify() and conic.verify() and ours.violation <= 1e-9
        forged = dataclasses.replace(ours, lower_bound=ours.objective + 1e-3 * unit)
        assert not forged.verify()


@pytest.mark.parametrize("several", [False, True])
def test_any_weights_prove_a_bound(several):
    rng = np.random.default_rng(5)
    for seed in range(9):
        f, y = draw(seed, several)
        for g in (f._given(f.majoriser, y), f.restrict(y)):
            best = mm.solve(g, EXACT)
            bound, duals = g.offer(Bounded).bound, best.certificate.duals
            for _ in range(20):
                scale = 10.0 ** rng.uniform(-3, 1)
                noise = scale * rng.standard_normal((g.n, g.n_clusters))
                prices = duals["balance"] + scale * rng.random(duals["balance"].shape)
                tried = {"weights": duals["weights"] + noise, "balance": prices}
                assert bound(tried) <= best.objective * (1 + 1e-9)
            broken = {"weights": np.full_like(duals["weights"], np.nan),
                      "balance": np.full_like(duals["balance"], np.inf)}
            assert bound(broken) <= best.objective


def test_the_outer_loop_may_be_the_procedure():
    f, y = draw(4)
    start = mm.solve(f, CuttingPlane(), seed=0)
    inner = mm.solve(f, CuttingPlane(order="cccp", epsilon=1e-6), init=start, seed=0)
    assert inner.objective <= start.objective + 1e-9
    # It ends where the convex problem of its own labels has nothing more to give.
    again = mm.solve(f.linearize(inner.point), EXACT).objective
    assert inner.objective <= again * (1 + 1e-3) + 2e-6
    floor = CPM3C(f.X, f.n_clusters, beta=f.beta, size_floor=0.9)
    held = mm.solve(floor, CuttingPlane(order="cccp"), seed=0)
    assert held.violation == 0.0 and held.verify()
    refusal = CuttingPlane(order="cccp", cut="paper").refuses(CPM3C(f.X, 3))
    assert refusal == "order='cccp' asks for a majoriser, which cut='paper' is not; use cut='pair'."


def test_a_floor_is_linearised_by_its_labels():
    f, _ = draw(0)
    floor = CPM3C(f.X, f.n_clusters, size_floor=0.9)
    result = mm.solve(floor, seed=0)
    step = floor.linearize(result.point)
    assert isinstance(step, CrammerSinger)
    assert step.objective(result.point[0]) == pytest.approx(result.objective, rel=1e-12)


def test_the_weights_of_kernels_are_those_of_the_restricted_problem():
    f, y = draw(2, several=True)
    g = f.restrict(y)
    assert isinstance(g, MultipleKernelMachine)
    weights = g.kernel_weights(mm.solve(g, EXACT).point)
    assert np.sum(weights ** f.p) == pytest.approx(1.0) and len(weights) == 3
    with pytest.raises(DataError, match="y must hold labels 0..1"):
        MultipleKernelMachine(f.X, np.arange(f.n) % 3, 2)


# ---------------------------------------------------------------- a bias


def test_a_bias_is_a_constant_feature():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2)) + 3.0
    for kernel in (None, Gaussian(width=0.5)):
        f = CPM3C(X, 2, beta=0.1, balance=2.0, bias=50.0, kernel=kernel)
        Phi = f.features.dense()
        assert (Phi[:, -1] == 50.0).all()
        np.testing.assert_allclose(Phi[:, :-1], CPM3C(X, 2, kernel=kernel).features.dense())
        W = rng.standard_normal((2, f.features.d))
        np.testing.assert_allclose(f.decision_function(W, X), f.scores(W), atol=1e-9)
        over = abs((f.scores(W)[:, 0] - f.scores(W)[:, 1]).sum()) - 2.0
        assert f.violation(W) == pytest.approx(max(0.0, over / 8))


def test_a_bias_with_a_balance_is_free_to_move_and_bounded():
    from mmcopt.solvers import BruteForce

    rng = np.random.default_rng(1)
    X = np.r_[rng.standard_normal((3, 2)) - 2, rng.standard_normal((5, 2)) + 2]
    free = CPM3C(X, 2, beta=0.1, balance=1.5, bias=100.0)
    tied = CPM3C(X, 2, beta=0.1)
    best = {f: min(mm.solve(f.restrict((i >> np.arange(8)) & 1), EXACT).objective
                   for i in range(128)) for f in (free, tied)}
    assert best[free] < best[tied] - 1e-3  # a score may now have another mean than 0
    found = mm.solve(free, CuttingPlane(epsilon=1e-6), seed=0, restarts=10)
    assert found.objective >= best[free] - 1e-7 and found.violation <= 1e-7
    assert found.objective == pytest.approx(best[free], rel=1e-3)
    certified = found.certify(time_limit=5)
    assert 0.0 < certified.lower_bound <= best[free] and certified.verify()
    assert BruteForce().refuses(free) is not None


def test_a_bias_asks_for_a_balance():
    with pytest.raises(mm.errors.ParameterError, match="a bias without a balance puts all samples"):
        CPM3C(np.eye(4), 2, bias=10.0)


def test_a_bias_of_sparse_rows():
    from scipy.sparse import csr_array

    X = np.random.default_rng(0).standard_normal((20, 4)) + 1.0
    dense = CPM3C(X, 2, balance=5.0, bias=30.0)
    sparse = CPM3C(csr_array(X), 2, balance=5.0, bias=30.0)
    W = np.random.default_rng(1).standard_normal((2, 5))
    np.testing.assert_allclose(dense.scores(W), sparse.scores(W), atol=1e-9)
    np.testing.assert_allclose(dense.balance_rows, sparse.balance_rows, atol=1e-8)
    np.testing.assert_allclose(dense.decision_function(W, X[:3]),
                               sparse.decision_function(W, csr_array(X[:3])), atol=1e-9)


# ---------------------------------------------------------------- duals made to deceive


def forged():
    """Machines of three classes with their optimum."""
    rng = np.random.default_rng(0)
    y = np.arange(9) % 3
    X = rng.standard_normal((9, 2)) + 3.0 * np.c_[y == 1, y == 2]
    for beta in (0.2, 0.5, 1.0):
        for cls in (CrammerSinger, LinearizedCPM3C):
            for k in (2, 3):
                f = cls(X, y % k, k, beta=beta)
                yield f, mm.solve(f, EXACT)


def test_huge_weights_prove_no_more():
    for f, best in forged():
        bound, weights = f.offer(Bounded).bound, best.certificate.duals["weights"]
        none = {"balance": np.zeros(0)}
        assert bound({"weights": np.full((9, f.n_clusters), 1.7e308), **none}) <= best.objective
        for huge in (1e17, 1e18, 1e300, 1.7e308):
            for i in range(9):
                for q in range(f.n_clusters):
                    wild = weights.copy()
                    wild[i, q] = huge
                    assert bound({"weights": wild, **none}) <= best.objective * (1 + 1e-12)
            row = np.full_like(weights, 9.0)
            row[:, 0] = huge
            assert bound({"weights": row, **none}) <= best.objective * (1 + 1e-12)


def test_duals_of_another_shape_prove_nothing():
    X = np.random.default_rng(0).standard_normal((9, 2))
    f, g = (CrammerSinger(X, np.arange(9) % 2, k, beta=0.5) for k in (2, 3))
    other = mm.solve(g).certificate.duals
    result = mm.solve(f)
    with pytest.raises(ValueError, match=r"duals must have shape \(9, 2\), got \(9, 3\)"):
        f.offer(Bounded).bound(other)
    claim = dataclasses.replace(result.certificate, duals=other)
    assert not dataclasses.replace(result, certificate=claim).verify()
    tied = CrammerSinger(X + [2, -1], np.arange(9) % 3, 3, balance=1.0, center=False)
    duals = mm.solve(tied).certificate.duals
    with pytest.raises(ValueError, match=r"duals must have shape \(6,\), got \(4,\)"):
        tied.offer(Bounded).bound({**duals, "balance": np.ones(4)})


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_a_bound_is_below_the_exact_value_of_its_duals(offset):
    rng = np.random.default_rng(int(offset))
    for beta in (5e-4, 0.1):
        X = offset * np.array([1.0, -0.7]) + rng.standard_normal((6, 2))
        y = np.arange(6) % 2
        f = CrammerSinger(X, y, 2, beta=beta, center=False, normalize=False)
        s = rng.uniform(0, 1, 6)
        s *= np.where(y == 0, s[y == 1].sum() / s[y == 0].sum(), 1.0)  # so that U cancels
        s = np.minimum(s / s.max(), 1.0)
        weights = np.zeros((6, 2))
        weights[np.arange(6), 1 - y] = s
        rows = [[Fraction(v) for v in row] for row in f.features.dense()]
        signed = [Fraction(w) * (1 - 2 * int(c)) for w, c in zip(s, y, strict=True)]
        half = [sum(w * row[j] for w, row in zip(signed, rows, strict=True)) / 6 for j in range(2)]
        exact = sum(map(Fraction, s)) / 6 - sum(2 * h * h for h in half) / (2 * Fraction(beta))
        bound = f.offer(Bounded).bound({"weights": weights, "balance": np.zeros(0)})
        assert Fraction(bound) <= exact
