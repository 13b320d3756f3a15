"""The compiled loops against brute force: every delta, every cache, every rule."""

import itertools

import numpy as np
import pytest
from doors import door

from mmcopt.compiled import factor_moves, label_moves

KINDS = [(dtype, k, rules) for dtype in (np.float64, np.float32) for k in (2, 3)
         for rules in ("plain", "sized", "ruled")]
kinds = pytest.mark.parametrize("dtype, k, kind", KINDS,
                                ids=lambda v: v if isinstance(v, int | str) else v.__name__)

move, swap, uniform = door(label_moves.move), door(label_moves.swap), door(label_moves.uniform)
feasible_move, feasible_swap = door(label_moves.feasible_move), door(label_moves.feasible_swap)
swap_gain, flip_gain = door(label_moves._swap_gain), door(label_moves._flip_gain)
mutate = door(label_moves.mutate)


def frozen(A, dtype):
    """An array as problems hold theirs: loops for others would have to be compiled as well."""
    A = np.ascontiguousarray(A).astype(dtype)
    A.setflags(write=False)
    return A


class Board:
    """A random problem with its caches, and the association by definition."""

    def __init__(self, dtype, k, kind, seed=0, n=12):
        rng = np.random.default_rng([seed, k])
        A = rng.standard_normal((n, n))
        self.W = frozen(A @ A.T / n, dtype)
        self.n, self.k, self.rng = n, k, rng
        weights, fixed, pairs = np.ones(n, np.int64), np.full(n, -1), []
        low, high = np.ones(k, np.int64), np.full(k, n)
        if kind != "plain":
            low, high = np.full(k, n // k - 1), np.full(k, n // k + 1)
            fixed[3] = 1
        if kind == "ruled":
            weights[[0, 5]] = 2
            low, high = low - 1, high + 2
            pairs = [(0, 1), (2, 7), (4, 11)]
        self.rules = make_rules(weights, low, high, fixed, pairs)
        self.pairs = pairs
        self.load(self.random_feasible())

    def load(self, c):
        self.c = c.copy()
        self.G = label_moves.caches(self.W, self.c, self.k)
        self.sizes = label_moves.cluster_sizes(self.c, self.rules.weights, self.k)

    def random_feasible(self):
        while True:
            c = self.rng.integers(self.k, size=self.n)
            c = np.where(self.rules.fixed >= 0, self.rules.fixed, c)
            if self.feasible(c):
                return c

    def feasible(self, c):
        r = self.rules
        sizes = np.array([r.weights[c == h].sum() for h in range(self.k)])
        return bool((sizes >= r.low).all() and (sizes <= r.high).all()
                    and (c[r.fixed >= 0] == r.fixed[r.fixed >= 0]).all()
                    and all(c[i] != c[j] for i, j in self.pairs))

    def value(self, c):
        W = self.W.astype(np.float64)
        return sum(W[i, j] for i in range(self.n) for j in range(self.n) if c[i] == c[j])

    def neighbours(self):
        for i, d in itertools.product(range(self.n), range(self.k)):
            if d != self.c[i]:
                near = self.c.copy()
                near[i] = d
                yield near
        for i, j in itertools.combinations(range(self.n), 2):
            if self.c[i] != self.c[j]:
                near = self.c.copy()
                near[i], near[j] = self.c[j], self.c[i]
                yield near

    def best_near(self):
        return max((self.value(c) for c in self.neighbours() if self.feasible(c)), default=-np.inf)

    @property
    def tol(self):
        return 1e-4 if self.W.dtype == np.float32 else 1e-10

    def check(self, gain=None, start=None):
        """Caches and sizes belong to the labels, and the gain to the change of them."""
        Z = np.eye(self.k)[self.c]
        np.testing.assert_allclose(self.G.T, self.W.astype(np.float64) @ Z, atol=self.tol)
        assert self.sizes.tolist() == [int(self.rules.weights[self.c == h].sum())
                                       for h in range(self.k)]
        if gain is not None:
            assert gain == pytest.approx(self.value(self.c) - self.value(start), abs=5 * self.tol)

    def args(self):
        return self.W, self.c, self.G, self.sizes, self.rules


def make_rules(weights, low, high, fixed, pairs):
    n = weights.size
    lists = [[] for _ in range(n)]
    for i, j in pairs:
        lists[i].append(j)
        lists[j].append(i)
    ptr = np.concatenate([[0], np.cumsum([len(a) for a in lists])]).astype(np.int64)
    flat = np.array([j for a in lists for j in a], dtype=np.int64)
    plain = int((weights == 1).all() and not pairs)
    as_int = [np.array(a, dtype=np.int64) for a in (weights, low, high, fixed)]
    return label_moves.Rules(*as_int, ptr, flat, plain)


def random_state(seed=1):
    return np.array([seed], dtype=np.uint64)


# ---------------------------------------------------------------- deltas


@kinds
def test_association_caches_and_sizes_are_what_they_say(dtype, k, kind):
    b = Board(dtype, k, kind)
    b.check()
    assert label_moves.association(b.W, b.c, k) == pytest.approx(b.value(b.c), abs=b.tol)
    assert b.G.dtype == dtype


@kinds
def test_the_gain_of_every_move_is_the_difference_of_values(dtype, k, kind):
    b = Board(dtype, k, kind)
    start = b.c.copy()
    for j, d in itertools.product(range(b.n), range(k)):
        b.load(start)
        gain = move(*b.args(), j, d)
        assert b.c[j] == d and (np.delete(b.c, j) == np.delete(start, j)).all()
        b.check(gain, start)


@kinds
def test_the_gain_of_every_swap_is_the_difference_of_values(dtype, k, kind):
    b = Board(dtype, k, kind)
    start = b.c.copy()
    for i, j in itertools.combinations(range(b.n), 2):
        if start[i] == start[j]:
            continue
        b.load(start)
        predicted = swap_gain(b.W, b.c, b.G, i, j)
        gain = swap(*b.args(), i, j)
        assert (b.c[i], b.c[j]) == (start[j], start[i])
        assert predicted == pytest.approx(gain, abs=b.tol)
        b.check(gain, start)


@kinds
def test_feasible_moves_and_swaps_are_those_that_keep_the_rules(dtype, k, kind):
    b = Board(dtype, k, kind)
    for _ in range(5):
        b.load(b.random_feasible())
        for j, d in itertools.product(range(b.n), range(k)):
            near = b.c.copy()
            near[j] = d
            allowed = d != b.c[j] and b.feasible(near)
            assert feasible_move(b.c, b.sizes, b.rules, j, d) == allowed
        for i, j in itertools.combinations(range(b.n), 2):
            near = b.c.copy()
            near[i], near[j] = b.c[j], b.c[i]
            allowed = b.c[i] != b.c[j] and b.feasible(near)
            assert feasible_swap(b.c, b.sizes, b.rules, i, j) == allowed


@kinds
def test_the_gain_of_a_set_of_flips(dtype, k, kind):
    b = Board(dtype, k, kind)
    for m in range(1, b.n):
        spots = b.rng.permutation(b.n)[:m].astype(np.int64)
        c = b.c.copy()
        c[spots] = (c[spots] + b.rng.integers(1, k, size=m)) % k
        gain = flip_gain(b.W, c, b.G, spots, b.c[spots].copy(), m)
        assert gain == pytest.approx(b.value(c) - b.value(b.c), abs=5 * b.tol)


@kinds
def test_mutations_keep_the_rules_and_list_every_change(dtype, k, kind):
    b, rng = Board(dtype, k, kind), random_state()
    deck, moved = np.arange(b.n), 0
    for s in [1, 2, 5, b.n] * 25:
        before = b.c.copy()
        spots, old = np.empty(b.n, np.int64), np.empty(b.n, np.int64)
        m = mutate(b.c, b.sizes, b.rules, s, deck, spots, old, rng)
        assert b.feasible(b.c)
        assert len(set(spots[:m].tolist())) == m
        assert set(np.flatnonzero(b.c != before)) == set(spots[:m].tolist())
        assert (old[:m] == before[spots[:m]]).all()
        assert b.sizes.tolist() == label_moves.cluster_sizes(b.c, b.rules.weights, k).tolist()
        moved += m
    assert sorted(deck.tolist()) == list(range(b.n))
    assert moved > 50


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_contraction_sums_over_groups(dtype):
    b = Board(dtype, 2, "plain")
    groups = b.rng.integers(4, size=b.n)
    groups[:4] = np.arange(4)
    B = np.eye(4)[groups]
    np.testing.assert_allclose(label_moves.contract(b.W, groups, 4), B.T @ b.W @ B, rtol=1e-4,
                               atol=1e-5)


# ---------------------------------------------------------------- loops


def loops():
    """Every loop that takes and keeps feasible labels, by name, with the end it promises."""
    return {
        "sweep": lambda b: label_moves.sweep(*b.args()),
        "steepest": lambda b: label_moves.steepest(*b.args(), 100),
        "descend": lambda b: label_moves.descend(*b.args(), 100),
        "tabu": lambda b: label_moves.tabu(*b.args(), 60, 3, random_state()),
        "tabu 1": lambda b: label_moves.tabu(*b.args(), 1, 3, random_state()),
        "kl_pass": lambda b: label_moves.kl_pass(*b.args(), 100),
        "kl_pass 1": lambda b: label_moves.kl_pass(*b.args(), 1),
        "anneal": lambda b: label_moves.anneal(*b.args(), np.geomspace(3, 0.05, 30),
                                               random_state()),
        "anneal hot": lambda b: label_moves.anneal(*b.args(), np.full(5, 1e6), random_state()),
        "shake": lambda b: sum(label_moves.shake(*b.args(), d, 3) for d in range(b.k)),
    }


@kinds
@pytest.mark.parametrize("name", loops())
def test_loops_keep_rules_caches_and_their_gains(name, dtype, k, kind):
    b = Board(dtype, k, kind)
    for seed in range(6):
        start = b.random_feasible()
        b.load(start)
        gain = loops()[name](b)
        assert b.feasible(b.c), seed
        b.check(gain, start)
        if name.split()[0] not in ("anneal", "shake"):
            assert gain >= 0.0
            assert (gain == 0.0) == np.array_equal(b.c, start)


@kinds
def test_steepest_takes_the_best_move_and_ends_where_none_is_left(dtype, k, kind):
    b = Board(dtype, k, kind)
    start = b.c.copy()
    moves = [near for near in b.neighbours() if (near != start).sum() == 1 and b.feasible(near)]
    best = max(b.value(c) for c in moves)
    if best > b.value(start):
        gain = label_moves.steepest(*b.args(), 1)
        assert gain == pytest.approx(best - b.value(start), abs=b.tol)
    label_moves.steepest(*b.args(), 1000)
    assert label_moves.steepest(*b.args(), 1000) == 0.0
    left = [b.value(c) for c in b.neighbours() if (c != b.c).sum() == 1 and b.feasible(c)]
    assert max(left) <= b.value(b.c) + b.tol


@kinds
def test_best_swap_is_the_best_of_all(dtype, k, kind):
    b = Board(dtype, k, kind)
    least = label_moves.row_least(b.W)
    for i in range(b.n):
        assert least[i] == np.delete(b.W[i], i).min()
    found = 0
    for _ in range(10):
        start = b.random_feasible()
        b.load(start)
        swaps = [c for c in b.neighbours() if (c != b.c).sum() == 2 and b.feasible(c)]
        best = max((b.value(c) - b.value(b.c) for c in swaps), default=0.0)
        gain = label_moves.best_swap(*b.args(), least)
        assert gain == pytest.approx(max(best, 0.0), abs=b.tol)
        assert (gain > 0) == (not np.array_equal(b.c, start))
        b.check(gain, start)
        found += gain > 0
    assert found >= 5


@kinds
def test_descend_ends_in_a_local_optimum_of_moves_and_swaps(dtype, k, kind):
    b = Board(dtype, k, kind)
    for _ in range(10):
        b.load(b.random_feasible())
        label_moves.descend(*b.args(), 1000)
        assert b.best_near() <= b.value(b.c) + b.tol


def test_tabu_with_enough_steps_finds_the_optimum_of_a_tiny_problem():
    b = Board(np.float64, 2, "sized", n=8)
    all_labels = (np.array(c) for c in itertools.product(range(2), repeat=8))
    best = max(b.value(c) for c in all_labels if b.feasible(c))
    label_moves.tabu(*b.args(), 400, 2, random_state())
    assert b.value(b.c) == pytest.approx(best)


def test_a_kernighan_lin_pass_climbs_out_of_what_single_moves_cannot():
    better = 0
    for seed in range(30):
        b = Board(np.float64, 2, "plain", seed=seed)
        label_moves.steepest(*b.args(), 1000)
        better += label_moves.kl_pass(*b.args(), 100) > 1e-9
    assert better > 0


@kinds
def test_repair_mends_any_labels(dtype, k, kind):
    b, mended = Board(dtype, k, kind), 0
    for _ in range(30):
        b.load(b.rng.integers(k, size=b.n))
        done = label_moves.repair(*b.args())
        b.check()
        assert done == b.feasible(b.c)
        mended += done
    assert mended == 30 if kind != "ruled" else mended > 20


def test_repair_leaves_feasible_labels_alone():
    b = Board(np.float64, 3, "ruled")
    start = b.c.copy()
    assert label_moves.repair(*b.args())
    assert np.array_equal(b.c, start)


def test_the_paper_s_claim_takes_the_samples_of_largest_gain():
    b = Board(np.float64, 3, "plain")
    start = b.c.copy()
    out = np.flatnonzero(start != 0)
    gains = [2 * (b.G[0, j] - b.G[start[j], j] + b.W[j, j]) for j in out]
    gain = label_moves.shake(*b.args(), 0, 1)
    assert gain == pytest.approx(max(gains))
    assert np.flatnonzero(b.c != start).tolist() == [out[int(np.argmax(gains))]]
    assert label_moves.shake(*b.args(), 0, 0) == 0.0


def test_shaking_never_empties_a_cluster():
    b = Board(np.float64, 3, "plain")
    label_moves.shake(*b.args(), 0, 1000)
    assert b.sizes.tolist() == [b.n - 2, 1, 1]


@kinds
def test_evolution_keeps_its_population_in_order(dtype, k, kind):
    b, mu, nu = Board(dtype, k, kind), 3, 4
    pop = np.zeros((mu + nu, b.n), np.int64)
    G, sizes = np.zeros((mu + nu, k, b.n), dtype), np.zeros((mu + nu, k), np.int64)
    values = np.full(mu + nu, -np.inf)
    for i in range(mu):
        b.load(b.random_feasible())
        pop[i], G[i], sizes[i], values[i] = b.c, b.G, b.sizes, b.value(b.c)
    order = np.argsort(-values, kind="stable")
    start = values[order[0]]
    gain = label_moves.evolve(b.W, pop, G, sizes, b.rules, values, order, 1, 200, nu,
                              random_state())
    assert gain == pytest.approx(values[order[0]] - start) and gain > 0
    assert sorted(order.tolist()) == list(range(mu + nu))
    assert (np.diff(values[order[:mu]]) <= 0).all()
    for slot in order[:mu]:
        b.c, b.G, b.sizes = pop[slot], G[slot], sizes[slot]
        b.check()
        assert b.feasible(b.c)
        assert b.value(b.c) == pytest.approx(values[slot], abs=20 * b.tol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["plain", "sized", "ruled"])
def test_factor_loops_agree_with_the_dense_matrix(dtype, kind):
    b = Board(dtype, 3, kind)
    Psi = b.rng.standard_normal((b.n, 4)).astype(dtype)
    b.W = frozen(Psi @ Psi.T, dtype)
    for loop in ("sweep", "evolve"):
        b.load(b.random_feasible())
        start, S = b.c.copy(), np.stack([Psi[b.c == h].sum(axis=0) for h in range(3)])
        if loop == "sweep":
            gain = factor_moves.sweep(Psi, b.c, S, b.sizes, b.rules, np.arange(b.n))
            b.G = label_moves.caches(b.W, b.c, 3)
        else:
            gain = factor_moves.evolve(Psi, b.c, S, b.sizes, b.rules, 1, 300, random_state())
            b.G = label_moves.caches(b.W, b.c, 3)
        assert b.feasible(b.c)
        b.check()
        assert gain == pytest.approx(b.value(b.c) - b.value(start), abs=1e-3 if dtype == np.float32
                                     else 1e-9)
        assert gain >= 0
        expected = np.stack([Psi[b.c == h].sum(axis=0) for h in range(3)])
        np.testing.assert_allclose(S, expected, atol=1e-4)


def test_a_factor_sweep_moves_as_a_dense_sweep_does():
    b = Board(np.float64, 3, "sized")
    Psi = b.rng.standard_normal((b.n, 4))
    b.W = frozen(Psi @ Psi.T, np.float64)
    b.load(b.c)
    c, sizes = b.c.copy(), b.sizes.copy()
    S = np.stack([Psi[c == h].sum(axis=0) for h in range(3)])
    label_moves.sweep(*b.args())
    factor_moves.sweep(Psi, c, S, sizes, b.rules, np.arange(b.n))
    assert np.array_equal(c, b.c) and np.array_equal(sizes, b.sizes)


def test_scores_are_scanned_right_across_blocks():
    n = 2 * label_moves.BLOCK + 5
    rng = np.random.default_rng(0)
    Psi = rng.standard_normal((n, 3))
    for dtype in (np.float64, np.float32):
        W = frozen(Psi @ Psi.T / n, dtype)
        c = rng.integers(2, size=n)
        G, sizes = label_moves.caches(W, c, 2), np.bincount(c, minlength=2)
        rules = make_rules(np.ones(n, np.int64), [1, 1], [n, n], np.full(n, -1), [])
        gains = 2 * (G[1 - c, np.arange(n)] - G[c, np.arange(n)] + np.diag(W))
        best = int(np.argmax(gains))
        before = c.copy()
        gain = label_moves.steepest(W, c, G, sizes, rules, 1)
        assert np.flatnonzero(c != before).tolist() == [best]
        assert gain == pytest.approx(gains[best], rel=1e-5)


def test_uniform_numbers_are_uniform_and_repeat():
    rng = random_state(12345)
    u = np.array([uniform(rng) for _ in range(2000)])
    assert 0 <= u.min() and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.03 and abs(u.var() - 1 / 12) < 0.01
    again = random_state(12345)
    assert [uniform(again) for _ in range(5)] == u[:5].tolist()


@pytest.mark.nojit
def test_the_loops_run_without_the_compiler():
    b = Board(np.float64, 3, "ruled")
    for name, loop in loops().items():
        start = b.random_feasible()
        b.load(start)
        gain = loop(b) if name not in ("anneal", "tabu") else 0.0
        assert b.feasible(b.c)
        b.check(gain, start)
