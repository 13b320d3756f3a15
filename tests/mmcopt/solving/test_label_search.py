"""What the label searches share: the board, its bookkeeping, and the ways onto a factor."""

import dataclasses

import numpy as np
import pytest
from doors import door

import mmcopt as mm
from mmcopt.capabilities.matrices import LowRank
from mmcopt.compiled import label_moves
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.solving import factor_search, label_search
from mmcopt.solving.label_search import new_board, start_labels, working_matrix

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.3))


@pytest.mark.parametrize("lam", [1.0, 1e-5])  # single and double precision
def test_a_board_begins_with_caches_and_value_of_its_labels(lam):
    lq = F.replace(lam=lam).offer(mm.LabelQuadratic)
    c = lq.random_labels(RNG)
    b = new_board(lq, c, RNG)
    assert b.G.dtype == lq.dtype == working_matrix(lq).dtype
    np.testing.assert_allclose(b.G.T, lq.matrix.dense() @ np.eye(3)[c], atol=1e-4)
    assert b.value == b.best == lq.value(c) and b.sizes.tolist() == np.bincount(c).tolist()
    assert b.rng[0] != 0 and b.best_c is not c


def test_gains_are_booked_and_settled_in_all_digits():
    lq = F.offer(mm.LabelQuadratic)
    b = new_board(lq, lq.random_labels(RNG), RNG)
    start, first = b.best_c.copy(), b.value
    move = door(label_moves.move)
    up = move(working_matrix(lq), b.c, b.G, b.sizes, lq.rules(), 0, (b.c[0] + 1) % 3)
    b.gained(lq, up)
    assert b.value == pytest.approx(lq.value(b.c), rel=1e-5)
    if up < 0:
        assert b.best == first and np.array_equal(b.best_c, start)
    b.gained(lq, label_moves.steepest(working_matrix(lq), b.c, b.G, b.sizes, lq.rules(), 500))
    assert b.value == b.best == pytest.approx(lq.value(b.c), rel=1e-6)
    assert np.array_equal(b.best_c, b.c)
    b.settle(lq)
    assert b.value == b.best == lq.value(b.c)


def test_points_of_the_progress_are_copies():
    lq = F.offer(mm.LabelQuadratic)
    b = new_board(lq, lq.random_labels(RNG), RNG)
    point = b.progress(lq).point()
    b.c[:] = 0
    assert len(set(point)) == 3


def test_starts_are_repaired():
    f = LeastSquares(X, 3, sizes=mm.constraints.Sizes(exact=50), known={0: 2}, must_link=[(1, 2)])
    lq = f.offer(mm.LabelQuadratic)
    for init in (np.zeros(150, int), np.arange(150) % 3, None):
        c = start_labels(lq, init, RNG)
        assert f.violation(lq.expand(c)) == 0 and c.size == 149


def test_descend_goes_back_to_the_best_labels_met():
    lq = F.offer(mm.LabelQuadratic)
    solver = mm.solvers.Tabu()
    b = new_board(lq, mm.solve(F, "Tabu", seed=0).labels.copy(), RNG)
    best = b.best
    b.gained(lq, label_moves.anneal(working_matrix(lq), b.c, b.G, b.sizes, lq.rules(),
                                    np.full(3, 1e3), b.rng))
    assert b.value > best
    solver.descend(lq, b)
    assert b.value <= best + 1e-9 and lq.value(b.c) == pytest.approx(b.value)
    np.testing.assert_allclose(b.G.T, lq.matrix.dense() @ np.eye(3)[b.c], atol=1e-3)


def test_a_descent_between_searches_has_the_digits_of_the_caches(monkeypatch):
    lq = F.offer(mm.LabelQuadratic)
    monkeypatch.setattr(label_search, "ALL_DIGITS", 10)
    b = new_board(lq, lq.random_labels(RNG), RNG)
    mm.solvers.Tabu().descend(lq, b, last=False)
    assert b.value == b.best == pytest.approx(lq.value(b.c), rel=1e-5)
    assert np.array_equal(b.c, b.best_c)
    least = label_search.row_least(lq)
    assert least is label_search.row_least(lq)  # made once
    W = lq.matrix.dense() + np.diag(np.full(lq.n, np.inf))
    np.testing.assert_allclose(least, W.min(axis=1), rtol=1e-6)
    again = lq.value(b.c)
    assert mm.solvers.Tabu().descend(lq, b).value == pytest.approx(again)  # an optimum already


def test_factors_too_large_to_be_dense_are_refused_with_a_way_out(monkeypatch):
    f = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(10))
    assert mm.fits(f)["Shaking"] is None
    monkeypatch.setattr(label_search, "DENSE_LIMIT", 100)
    monkeypatch.setattr(factor_search, "FACTOR_FROM", 100)
    with pytest.raises(IncompatibleError) as e:
        mm.solve(f, "Shaking")
    first, second = str(e.value).split("\n")
    assert first == (
        "Shaking cannot solve LeastSquares: it needs all 150 x 150 entries of W, which is held as "
        "a factor; Memetic, Annealing, StochasticDescent and Evolutionary(mu=1, nu=1) work on the "
        "factor.")
    assert "Memetic" in second and "StochasticDescent" in second and "Shaking" not in second
    for name in ("Memetic", "StochasticDescent", mm.solvers.Evolutionary(mu=1, nu=1)):
        assert mm.solve(f, name, seed=0, max_iter=3).violation == 0


def test_a_factor_board_counts_its_own_value():
    f = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(10))
    lq = f.offer(mm.LabelQuadratic)
    progress = factor_search.factor_start(lq, None, np.random.default_rng(0))
    board = progress.state
    while not board.done:
        before = board.value
        factor_search.factor_step(lq, board)
        assert board.value <= before * (1 + 1e-6)  # float32
        assert board.value == pytest.approx(lq.value(board.c), rel=1e-5)
        Psi = factor_search.working_factor(lq)
        np.testing.assert_allclose(board.S, [Psi[board.c == h].sum(axis=0) for h in range(3)],
                                   atol=1e-3)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000])
def test_samples_of_a_factor_are_gone_through_in_runs(n):
    """Rows that are neighbours in memory take less time than rows far apart."""
    order = factor_search.random_order(n, np.random.default_rng(0))
    assert np.array_equal(np.sort(order), np.arange(n))
    assert (np.diff(order) != 1).sum() <= n // factor_search.RUN
    assert n < 1000 or not np.array_equal(order, np.arange(n))


def test_the_spread_of_a_factor_is_that_of_gains_from_random_labels(monkeypatch):
    A = np.random.default_rng(0).standard_normal((700, 8))
    A[:, 0] *= 3
    lq = mm.LabelQuadratic(LowRank(A), k=3)
    exact = np.sqrt(2 / 3 * np.sum((A @ A.T)**2) / 700)
    assert factor_search.factor_spread(lq) == pytest.approx(exact, rel=0.1)
    monkeypatch.setattr(factor_search, "SOME", 700)
    assert factor_search.factor_spread(lq) == pytest.approx(exact, rel=1e-5)


def test_a_descent_goes_on_while_each_pass_gains_more_than_the_one_before(monkeypatch):
    """It comes off a saddle then; else later passes gain less and less."""
    lq = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(10)) \
        .offer(mm.LabelQuadratic)

    def passes(gains):
        board = factor_search.factor_board(lq, np.arange(150) % 3, np.random.default_rng(0))
        gain = iter(gains)
        monkeypatch.setattr("mmcopt.compiled.factor_moves.sweep", lambda *_: next(gain))
        while not board.done:
            factor_search.factor_step(lq, board)
        return board.passes

    falling, rising = 1e3 - np.arange(100.0), 1e3 + np.arange(100.0)
    assert passes(falling) == factor_search.PASSES
    assert passes([*rising[:20], *falling]) == 21
    assert passes(rising) == factor_search.LONG


def test_a_pass_over_a_factor_may_be_split(monkeypatch):
    f = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.5).nystroem(10))
    monkeypatch.setattr(factor_search, "FACTOR_FROM", 100)
    monkeypatch.setattr(factor_search, "WORK", 10 * 3 * 40)
    whole = mm.solve(f, "StochasticDescent", seed=0)
    monkeypatch.setattr(factor_search, "WORK", 10**9)
    parts = mm.solve(f, "StochasticDescent", seed=0)
    assert whole.labels.tolist() == parts.labels.tolist()
    assert len(whole.history) > len(parts.history)


def test_every_label_search_is_described():
    for name, cls in mm.registry.solvers().items() if hasattr(mm, "registry") else []:
        for field in dataclasses.fields(cls):
            assert field.metadata.get("doc"), (name, field.name)
