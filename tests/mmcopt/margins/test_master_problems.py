"""Masters of cutting planes: optimality conditions, enumeration of faces, other solvers, scales."""

import itertools
import sys
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import BackendError, IncompatibleError
from mmcopt.formulations import CPM3C, MKC, CrammerSinger
from mmcopt.kernels import Gaussian, Linear
from mmcopt.margins import master_problems
from mmcopt.margins.cut_models import PairCuts
from mmcopt.margins.master_problems import ascend_master, conic_master, daqp_master, solve_master
from mmcopt.solvers import CuttingPlane
from mmcopt.solvers.cutting_plane import MASTERS

BETA = 0.02


def draw(seed, extra=0):
    """Q = G G' of cuts that may depend on one another, b, and how many entries are capped."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    m = int(rng.integers(1, 4)) if extra else 0
    rank = int(rng.integers(1, n + 4))
    G = rng.standard_normal((n, rank)) * 10.0 ** rng.uniform(-1, 1)
    if n > 2 and seed % 3 == 0:
        G[-1] = G[0]  # the same cut twice
    if n > 3 and seed % 4 == 0:
        G[1] = 0.5 * (G[0] + G[2])
    b = rng.random(n) + (0.1 if seed % 2 else -0.3)
    if n > 2 and seed % 6 == 0:
        b[-1] = b[0]
    if m:  # the balance, as it comes: rows and their negatives, at a price
        rows = rng.standard_normal((m, rank))
        G, b = np.vstack([G, rows, -rows]), np.r_[b, np.full(2 * m, -rng.choice([0.0, 0.1]))]
    return G @ G.T, b, n


def conditions(Q, b, capped, a):
    """Largest violation of the optimality conditions, relative to the sizes of their terms."""
    g = b - Q @ a
    price = max(0.0, float(g[:capped].max(initial=0.0)))  # of the cap
    price = price if a[:capped].sum() > 1 - 1e-12 else 0.0
    left = np.r_[g[:capped] - price, g[capped:]]
    unit = max(1.0, np.abs(b).max(initial=0.0))
    worst = max(float(np.maximum(left, 0).max(initial=0.0)),
                float(np.abs(left[a > 1e-12]).max(initial=0.0)))
    return max(worst / unit, -float(a.min(initial=0.0)), float(a[:capped].sum()) - 1.0)


def value(Q, b, a):
    return float(b @ a - 0.5 * a @ Q @ a)


def enumerated(Q, b, capped):
    """The best of the stationary points of all faces: of given support, the cap held or not."""
    n, best = len(b), 0.0
    for size in range(1, n + 1):
        for S in itertools.combinations(range(n), size):
            S = list(S)
            one = (np.array(S) < capped).astype(float)
            for held in ([False, True] if one.any() else [False]):
                k = size + held
                M, r = np.zeros((k, k)), np.zeros(k)
                M[:size, :size], r[:size] = Q[np.ix_(S, S)], b[S]
                if held:
                    M[size, :size] = M[:size, size] = one
                    r[size] = 1.0
                a = np.linalg.lstsq(M, r, rcond=1e-11)[0][:size]
                if a.min() >= -1e-10 and a @ one <= 1 + 1e-10:
                    full = np.zeros(n)
                    full[S] = np.maximum(a, 0)
                    best = max(best, value(Q, b, full))
    return best


@pytest.mark.parametrize("extra", [0, 1], ids=["capped", "with multipliers without a cap"])
def test_the_optimality_conditions_hold(extra):
    for seed in range(300):
        Q, b, capped = draw(seed, extra)
        a = solve_master(Q, b, capped)
        assert a.min() >= 0 and a[:capped].sum() <= 1 + 1e-12
        assert conditions(Q, b, capped, a) < 1e-9, seed


@pytest.mark.parametrize("extra", [0, 1])
def test_the_value_is_the_best_of_all_faces(extra):
    for seed in range(90):
        Q, b, capped = draw(seed, extra)
        if len(b) > 7:
            continue
        found, best = value(Q, b, solve_master(Q, b, capped)), enumerated(Q, b, capped)
        assert found == pytest.approx(best, rel=1e-9, abs=1e-9), seed


@pytest.mark.parametrize("extra", [0, 1])
def test_a_start_changes_steps_not_the_answer(extra):
    for seed in range(100):
        Q, b, capped = draw(seed, extra)
        rng = np.random.default_rng(seed)
        cold = solve_master(Q, b, capped)
        starts = [np.r_[rng.dirichlet(np.ones(capped)), rng.random(len(b) - capped)],
                  np.r_[0.3 * rng.dirichlet(np.ones(capped)) * (rng.random(capped) < 0.5),
                        np.zeros(len(b) - capped)], np.eye(1, len(b))[0], cold]
        for start in starts:
            kept = start.copy()
            warm = solve_master(Q, b, capped, start)
            assert np.array_equal(start, kept)
            assert conditions(Q, b, capped, warm) < 1e-9, seed
            assert value(Q, b, warm) == pytest.approx(value(Q, b, cold), rel=1e-9, abs=1e-9)


def test_a_cut_more_needs_few_steps():
    """The way cutting planes use it: one more row, started from the last answer."""
    rng = np.random.default_rng(0)
    G, b = rng.standard_normal((40, 12)), rng.random(40)
    a, steps = np.zeros(0), []
    for n in range(1, 41):
        Q, a = G[:n] @ G[:n].T, np.append(a, 0.0)
        steps.append(ascend_master(Q, b[:n], n, a, 1e-12, 10_000))
        assert conditions(Q, b[:n], n, a) < 1e-9
    assert max(steps) <= 40


def test_large_masters_with_many_dependent_cuts():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        G = rng.standard_normal((60, 5))
        G, b = G[rng.integers(0, 60, 120)], 1.0 - 0.1 * rng.random(120)
        a = solve_master(G @ G.T, b, 120)
        assert conditions(G @ G.T, b, 120, a) < 1e-9, seed


@pytest.mark.parametrize("power", [-12, -6, -3, 3, 6])
def test_the_scale_of_the_cuts_does_not_matter(power):
    for seed in range(60):
        Q, b, capped = draw(seed)
        a = solve_master(Q * 10.0**power, b, capped)
        rounding = 16 * np.finfo(float).eps * 10.0**power * np.abs(Q).max()
        assert conditions(Q * 10.0**power, b, capped, a) < max(1e-8, rounding), seed


def test_edges():
    assert solve_master(np.zeros((0, 0)), np.zeros(0), 0).shape == (0,)
    assert solve_master(np.eye(2), -np.ones(2), 2).tolist() == [0.0, 0.0]
    assert solve_master(np.zeros((2, 2)), np.array([1.0, 2.0]), 2).tolist() == [0.0, 1.0]
    assert solve_master(np.eye(1), np.array([5.0]), 0).tolist() == pytest.approx([5.0])
    assert solve_master(np.ones((3, 3)), np.array([0.5, 0.5, 0.5]), 3).sum() == pytest.approx(0.5)


def recorded(f, monkeypatch, **options):
    """Masters of a fit: Q, b, how many are capped, and the answer."""
    kept, solve = [], master_problems.solve_master

    def keep(Q, b, capped, start=None, tol=1e-12):
        kept.append((Q, b, capped, solve(Q, b, capped, start, tol)))
        return kept[-1][-1]

    with monkeypatch.context() as patch:
        patch.setattr(PairCuts, "compiled", property(lambda cuts: False))
        patch.setattr(master_problems, "solve_master", keep)
        mm.solve(f, CuttingPlane(epsilon=1e-3), seed=0, **options)
    return kept


def installed(backend):
    """Skip where the solver of masters is not installed."""
    pytest.importorskip(backend, reason=f"{backend} is not installed")


@pytest.mark.filterwarnings("ignore:CPM3C")
@pytest.mark.parametrize("backend", MASTERS)
def test_all_solvers_give_the_same_w_on_the_masters_of_fits(backend, monkeypatch):
    installed(backend)
    rng = np.random.default_rng(0)
    for f, options in (
            (CPM3C(mm.datasets.load("digits:3,8")[0], 2, beta=BETA), {}),
            (CPM3C(mm.datasets.load("digits:0,6,8,9")[0], 4, beta=BETA),
             {"init": "kmeans", "max_iter": 30}),
            (CPM3C(rng.standard_normal((400, 8)) + 1.0, 3, beta=BETA, center=False, balance=4.0),
             {"max_iter": 8})):
        kept = recorded(f, monkeypatch, **options)
        assert len(kept) > 15 and (kept[-1][2] < len(kept[-1][1])) == (f.balance is not None)
        for Q, b, capped, ours in kept[::2]:
            before = Q.copy(), b.copy()
            theirs, weights = conic_master(Q[None], b, capped, 2.0, backend)
            assert weights.tolist() == [1.0]
            assert np.array_equal(Q, before[0]) and np.array_equal(b, before[1])
            assert theirs.min() >= 0 and theirs[:capped].sum() <= 1 + 1e-12
            off, size = (np.sqrt(max(x @ Q @ x, 0.0) / BETA) for x in (theirs - ours, ours))
            assert off < 1e-5 * max(1.0, size)  # the norms of what they differ by in W, and of W
            assert value(Q, b, theirs) == pytest.approx(value(Q, b, ours), rel=1e-8)


@pytest.mark.parametrize("backend", MASTERS)
def test_a_fit_is_the_same_with_all_solvers(backend):
    installed(backend)
    X, y = mm.datasets.load("digits:3,8")
    f = CrammerSinger(X, y, beta=0.1)
    ours, theirs = (mm.solve(f, CuttingPlane(master=m)) for m in ("alternating", backend))
    np.testing.assert_allclose(theirs.point, ours.point, atol=1e-5)
    assert theirs.gap == pytest.approx(ours.gap, abs=1e-6)


def test_daqp_on_cuts_that_depend_on_one_another():
    installed("daqp")
    for seed in range(200):
        Q, b, capped = draw(seed, seed % 2)
        found, ours = daqp_master(Q, b, capped), solve_master(Q, b, capped)
        assert value(Q, b, found) == pytest.approx(value(Q, b, ours), rel=1e-8, abs=1e-8), seed
        assert found.min() > -1e-9 and found[:capped].sum() < 1 + 1e-9


def test_what_a_solver_says_of_its_accuracy_is_not_asked(monkeypatch):
    import cvxpy as cp

    calls, solve = [], cp.Problem.solve

    def doubtful(self, **options):
        calls.append(options)
        if len(calls) == 1:
            raise cp.SolverError("failed")
        warnings.warn("Solution may be inaccurate. Try another solver.", stacklevel=2)
        return solve(self, **options)

    monkeypatch.setattr(cp.Problem, "solve", doubtful)
    Q, b, capped = draw(3, 0)
    found, _ = conic_master(Q[None], b, capped, 2.0, "clarabel")
    assert value(Q, b, found) == pytest.approx(value(Q, b, solve_master(Q, b, capped)), rel=1e-6)
    assert [round(options["tol_feas"], 12) for options in calls] == [1e-11, 1e-9]


def test_what_cannot_be_solved_says_so(monkeypatch):
    nothing = np.zeros((1, 1, 1)), np.ones(1), 0  # has no largest value
    for backend in ("daqp", "cvxopt"):
        if backend == "daqp":
            installed("daqp")
        with pytest.raises(BackendError, match=f"{backend} ended a master of 1 cuts with status "
                                               ".*; use master='alternating'"):
            conic_master(*nothing, 2.0, backend)
    monkeypatch.setitem(sys.modules, "daqp", None)
    f = CPM3C(mm.datasets.load("digits:3,8")[0], 2)
    with pytest.raises(BackendError, match=r"^master='daqp' needs DAQP: pip install 'mmcopt.qp.'"):
        mm.solve(f, CuttingPlane(master="daqp"))


@pytest.mark.parametrize("backend", ["osqp", "daqp"])
def test_several_kernels_need_a_cone(backend):
    X = np.random.default_rng(0).standard_normal((20, 3))
    f = MKC(X, kernels=[Linear(), Gaussian(width=1.0)])
    with pytest.raises(IncompatibleError, match=f"{backend.upper()} takes no cone, which masters "
                                                "with several kernels need; use 'alternating'"):
        mm.solve(f, CuttingPlane(master=backend))


@pytest.mark.nojit
def test_tiny_masters_by_hand():
    one = np.ones(1)
    assert solve_master(2.0 * np.eye(1), one, 1).tolist() == pytest.approx([0.5])
    assert solve_master(0.5 * np.eye(1), one, 1).tolist() == [1.0]
    assert solve_master(0.5 * np.eye(1), one, 0).tolist() == pytest.approx([2.0])
    both = solve_master(np.eye(2), np.array([1.0, 0.8]), 2)
    assert both.tolist() == pytest.approx([0.6, 0.4])
    Q = np.array([[2.0, 1.0], [1.0, 1.0]])  # the second has no cap
    assert solve_master(Q, np.array([1.0, -0.1]), 1).tolist() == pytest.approx([0.5, 0.0])
    assert conditions(Q, np.array([1.0, 0.9]), 1, solve_master(Q, np.array([1.0, 0.9]), 1)) < 1e-9
    for seed in range(8):
        Q, b, capped = draw(seed, 1)
        assert conditions(Q, b, capped, solve_master(Q, b, capped)) < 1e-9


def test_a_large_q_does_not_hide_what_is_to_be_gained():
    assert solve_master(np.array([[1e16]]), np.ones(1), 1) == pytest.approx([1e-16], rel=1e-9)
    # neither does the limit of a constraint that holds nothing back
    Q = np.diag([1.0, 1.0, 1e-6])
    a = solve_master(Q, np.array([0.5, 0.25, -1e12]), 2)
    np.testing.assert_allclose(a, [0.5, 0.25, 0.0], rtol=1e-11)
