"""Searches on lists of neighbours: the same problem as on a dense W, which is never made."""

import numpy as np
import pytest
from scipy.sparse import coo_array

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.capabilities.matrices import Sparse
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import QUBO, MaxCut
from mmcopt.solvers import Annealing, Tabu
from mmcopt.solving import graph_search
from mmcopt.solving.graph_search import on_graph, row_squares, searched

pytestmark = pytest.mark.as_given  # whole numbers stay whole

LISTS = [Annealing(sweeps=30), "Tabu", "StochasticDescent", "Memetic"]


def graph(n, m, seed=0, signs=(1.0,)):
    rng = np.random.default_rng(seed)
    i, j = rng.integers(n, size=(2, m))
    A = coo_array((rng.choice(signs, m), (i, j)), shape=(n, n)).tocsr()
    return A + A.T


@pytest.fixture
def small(monkeypatch):
    """Small sparse problems are searched by their lists as well."""
    monkeypatch.setattr(graph_search, "GRAPH_FROM", 3)
    monkeypatch.setattr(graph_search, "DENSITY", 1.0)


@pytest.fixture
def never_dense(monkeypatch):
    def refuse(self, dtype=np.float64):
        raise AssertionError("a sparse W was made dense")

    monkeypatch.setattr(Sparse, "dense", refuse)


def drawn(seed):
    """Graphs with loops and signs, k of 2 or 3, sizes that bind, given labels."""
    rng = np.random.default_rng([8, seed])
    n, k = int(rng.integers(6, 12)), 2 + seed % 2
    A = graph(n, 2 * n, seed, signs=(-2.0, 1.0, 0.5))
    fixed = np.where(rng.random(n) < 0.2, rng.integers(k, size=n), -1)
    sizes = {"low": 0} if seed % 3 == 0 else {"low": n // k - 1, "high": -(-n // k) + 1}
    return LabelQuadratic(A, const=1.0, k=k, scale=0.5, fixed=fixed if seed % 2 else None, **sizes)


@pytest.mark.parametrize("seed", range(12))
def test_gains_are_differences_of_the_association_and_rules_are_kept(seed, small):
    lq, rng = drawn(seed), np.random.default_rng(seed)
    loops, W, rules = searched(lq)
    assert on_graph(lq) and loops.__name__.endswith("graph_moves")
    assert row_squares(lq) == pytest.approx(np.square(lq.matrix.dense()).sum(axis=1))
    for run in (lambda *s: loops.sweep(*s), lambda *s: loops.tabu(*s, 40, 3, np.array([5], "u8")),
                lambda *s: loops.anneal(*s, np.geomspace(3, 0.1, 20), np.array([7], "u8"))):
        c = lq.random_labels(rng)
        G = loops.caches(W, c, lq.k)
        assert G.T == pytest.approx(lq.matrix.dense() @ np.eye(lq.k)[c])
        sizes, before = np.bincount(c, minlength=lq.k), lq.association(c)
        gain = run(W, c, G, sizes, rules)
        assert lq.association(c) == pytest.approx(before + gain)
        assert G.T == pytest.approx(lq.matrix.dense() @ np.eye(lq.k)[c])
        assert sizes.tolist() == np.bincount(c, minlength=lq.k).tolist()
        assert lq.violation(c) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_free_sides_are_met_as_often_as_their_temperature_says(seed, small):
    """Labels come with the chance exp(A / T), and a given label stays."""
    A = coo_array(([1.0, -2.0, 1.5, 0.5, 3.0], ([0, 1, 2, 0, 1], [1, 2, 3, 3, 1])), shape=(4, 4))
    fixed = np.array([-1, -1, -1, 1]) if seed else None
    lq, T, sweeps = LabelQuadratic((A + A.T).tocsr(), k=2, low=0, fixed=fixed), 2.0 + seed, 20_000
    loops, W, rules = searched(lq)
    c = lq.random_labels(np.random.default_rng(seed))
    state = W, c, loops.caches(W, c, 2), np.bincount(c, minlength=2), rules
    rng, met = np.array([seed + 5], "u8"), np.zeros(16)
    for _ in range(sweeps):
        loops.anneal(*state, np.array([T]), rng)
        met[c @ (1, 2, 4, 8)] += 1
    labelings = np.arange(16)[:, None] >> np.arange(4) & 1
    chance = np.exp([lq.association(x) / T for x in labelings])
    chance *= labelings[:, 3] if seed else 1.0
    assert met / sweeps == pytest.approx(chance / chance.sum(), abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_tabu_ends_in_the_best_labels_it_met(seed, small):
    """A walk of more steps from the same labels ends no higher, and rests are kept."""
    lq = LabelQuadratic(graph(30, 90, seed, signs=(-1.0, 1.0)), k=2, low=0)
    loops, W, rules = searched(lq)
    start, gains = lq.random_labels(np.random.default_rng(seed)), []
    for steps in (1, 5, 25, 125):
        c = start.copy()
        state = W, c, loops.caches(W, c, 2), np.bincount(c, minlength=2), rules
        gains.append(loops.tabu(*state, steps, 5, np.array([3], "u8")))
        assert lq.association(c) == pytest.approx(lq.association(start) + gains[-1])
    assert gains == sorted(gains) and gains[0] >= 0.0


@pytest.mark.parametrize("seed", range(4))
def test_cold_annealing_of_sizes_that_let_nothing_move_swaps_only_what_gains(seed, small):
    lq = LabelQuadratic(graph(14, 60, seed, signs=(-1.0, 1.0, 3.0)), k=2, low=7)
    loops, W, rules = searched(lq)
    c, gains = lq.random_labels(np.random.default_rng(seed)), []
    state = W, c, loops.caches(W, c, 2), np.array([7, 7]), rules
    for draw in range(1, 40):
        gains.append(loops.anneal(*state, np.array([1e-6]), np.array([draw], "u8")))
    assert min(gains) >= 0.0 < max(gains)


@pytest.mark.parametrize("solver", LISTS)
def test_small_ones_are_solved_as_their_dense_forms(solver, small):
    for seed in range(4):
        A = graph(9, 16, seed, signs=(-1.0, 1.0, 2.0))
        for sparse, dense in ((MaxCut(A), MaxCut(A.toarray())), (QUBO(A), QUBO(A.toarray()))):
            best = mm.solve(dense, "BruteForce").objective
            found = mm.solve(sparse, solver, restarts=5, seed=0)
            assert found.objective == best and found.verify(), (solver, seed)


@pytest.mark.parametrize("solver", LISTS)
def test_large_ones_are_never_made_dense(solver, never_dense):
    A = graph(6000, 18_000)
    A.data[:] = 1.0
    for problem in (MaxCut(A), QUBO(-A)):
        result = mm.solve(problem, solver, seed=0, max_iter=4)
        assert result.objective < 0.0 and result.verify()
        assert result.lower_bound <= result.objective


def test_searches_that_need_rows_are_refused_where_those_are_too_many(never_dense):
    problem = MaxCut(graph(6000, 9000))
    with pytest.raises(IncompatibleError, match="it needs all 6000 x 6000 entries of W, which is "
                                                "sparse; Memetic, Annealing, Tabu"):
        mm.solve(problem, "Shaking")


def test_contraction_and_value_stay_sparse(never_dense):
    lq = MaxCut(graph(5000, 9000)).offer(LabelQuadratic)
    groups = np.random.default_rng(0).integers(4000, size=5000)
    groups = np.unique(groups, return_inverse=True)[1]
    small = lq.contract(groups)
    c = np.random.default_rng(1).integers(2, size=small.n)
    assert isinstance(small.matrix, Sparse)
    assert small.value(c) == pytest.approx(lq.value(small.expand(c)))
    assert Tabu().refuses(MaxCut(graph(6000, 9000))) is None
