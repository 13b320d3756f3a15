"""Cuts: bounds of the loss wherever they are, exact where made, and the same however they moved."""

import itertools

import numpy as np
import pytest

from mmcopt.kernels.features import Features
from mmcopt.margins import Hinge, Logistic, SquaredHinge
from mmcopt.margins.cut_models import LabelCuts, PairCuts, PaperCuts, floored, top_two

LOSSES = [Hinge(), SquaredHinge(), Logistic()]
DRAWS = 45


def draw(seed, k, n=23, d=4):
    rng = np.random.default_rng([seed, k])
    X = rng.standard_normal((n, d)) + 2.0 * rng.integers(0, k, (n, 1))
    f = Features(X, center=bool(seed % 2), normalize=True, owner="Test")
    return f, rng


def points(f, k, rng, count):
    """Points of all scales, some of them with ties."""
    for i in range(count):
        W = rng.standard_normal((k, f.d)) * 10.0 ** rng.uniform(-2, 1)
        if i % 5 == 4:
            W[1] = W[0]
        yield W, f.scores(W)


def literal_loss(T, loss, y=None):
    """Mean loss of the margin, of the top class or of the given one, sample by sample."""
    values = []
    for i, t in enumerate(T):
        p = int(np.argmax(t)) if y is None else y[i]
        values.append(float(loss.value(np.array([t[p] - max(np.delete(t, p))]))[0]))
    return float(np.mean(values))


def literal_pair_cut(T0, T, loss):
    """The cut made at scores T0, at scores T: nothing linear about it yet."""
    total = 0.0
    for t0, t in zip(T0, T, strict=True):
        p, r = sorted(range(len(t0)), key=lambda q, t0=t0: (-t0[q], q))[:2]
        m = np.array([t0[p] - t0[r]])
        a = -float(loss.slope(m)[0])
        total += float(loss.value(m)[0]) + a * float(m[0]) + a * (t[p] + t[r] - 2 * t.max())
    return total / len(T)


def parts(cuts, W):
    """What the linear parts of the cuts say at W."""
    return cuts.b - cuts.G @ W.ravel()


def test_the_two_largest_of_each_row():
    rng = np.random.default_rng(0)
    for k in (2, 3, 5):
        T = np.round(rng.standard_normal((200, k)), 1)
        kept = T.copy()
        first, second, margin = top_two(T)
        assert np.array_equal(T, kept)
        for t, p, r, m in zip(T, first, second, margin, strict=True):
            ranked = sorted(range(k), key=lambda q, t=t: (-t[q], q))
            assert [p, r] == ranked[:2] and m == pytest.approx(t[p] - t[r]) and m >= 0
        assert np.array_equal(first, T.argmax(axis=1))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("k", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_pair_cuts_hold_everywhere_and_are_exact_where_made(k, loss):
    for seed in range(DRAWS):
        f, rng = draw(seed, k)
        made = list(points(f, k, rng, 5))
        cuts = PairCuts(f, k, loss, made[0][1].argmax(axis=1))
        for W, T in made:
            cuts.anchor(T, W)
            cuts.add(T)
            risk = cuts.risk(T)
            assert risk == pytest.approx(literal_loss(T, loss), rel=1e-9, abs=1e-12)
            assert parts(cuts, W)[-1] == pytest.approx(risk, rel=1e-9, abs=1e-9)
        for W, T in points(f, k, rng, 10):
            unit = 1.0 + np.abs(T).max() * max(1.0, -float(loss.slope(-np.abs(T).max())))
            before = parts(cuts, W)  # the anchor is elsewhere: a restriction, never below the cut
            cuts.anchor(T, W)
            at = parts(cuts, W)
            assert (at <= before + 1e-9 * unit**2).all()
            assert (at <= cuts.risk(T) + 1e-9 * unit**2).all()
            assert cuts.value(W) == max(0.0, at.max())
            literal = [literal_pair_cut(T0, T, loss) for _, T0 in made]
            np.testing.assert_allclose(at, literal, rtol=1e-7, atol=1e-9 * unit**2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["pair", "paper", "labels", "floor"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_cuts_moved_many_times_equal_cuts_made_afresh(k, kind, sparse):
    from scipy.sparse import csr_matrix

    for seed, loss in itertools.product(range(5), LOSSES if kind != "paper" else [Hinge()]):
        rng = np.random.default_rng(seed)
        X = np.maximum(rng.standard_normal((19, 5)), 0)
        f = Features(csr_matrix(X) if sparse else X, center=True, normalize=True, owner="Test")
        made = [T for _, T in points(f, k, rng, 6)]
        y = rng.integers(k, size=19)

        def fresh(top, f=f, loss=loss):
            if kind == "pair":
                return PairCuts(f, k, loss, top)
            return PaperCuts(f, k, loss, top) if kind == "paper" \
                else LabelCuts(f, k, loss, top, None)

        cuts = fresh(made[0].argmax(axis=1) if kind in ("pair", "paper") else y)
        tops = []  # what top classes each cut was made with
        for i in range(60):
            W = rng.standard_normal((k, f.d)) * 10.0 ** rng.uniform(-2, 1)
            T = f.scores(W)
            if kind in ("pair", "paper"):
                cuts.anchor(T, W)
            else:  # labels move only by themselves, or with a floor
                new = y if kind == "labels" else floored(T, 2)
                changed = np.flatnonzero(new != cuts.top)
                if len(changed):
                    cuts._relinearise(changed, cuts.top[changed], new[changed])
                    cuts.top = new.copy()
            if i % 10 == 0:
                cuts.add(T)
                tops.append((T, cuts.top.copy()))
        for j, (T, top) in enumerate(tops):
            one = fresh(top)
            one.add(T)
            changed = np.flatnonzero(top != cuts.top)
            one._relinearise(changed, top[changed], cuts.top[changed])
            unit = 1.0 + np.abs(T).max() ** 2
            np.testing.assert_allclose(cuts.G[j], one.G[0], atol=1e-11 * unit)
            assert cuts.b[j] == pytest.approx(one.b[0], rel=1e-11, abs=1e-12)


def literal_paper_cut(T0, T, strict):
    """Equation 11 with c made at T0, at scores T: z by strict comparison, or the first top."""
    total = 0.0
    for t0, t in zip(T0, T, strict=True):
        _, second, margin = (v[0] for v in top_two(t0[None]))
        c = np.zeros(len(t))
        c[second] = margin < 1
        z = np.array([all(t[p] > t[q] for q in range(len(t)) if q != p) for p in range(len(t))]) \
            if strict else np.eye(len(t))[int(np.argmax(t))]
        total += c.sum() - c.sum() * float(z @ t) - float(c @ (z - t))
    return total / len(T)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_papers_cuts_are_equation_11_and_no_bounds(k):
    jumps = 0
    for seed in range(DRAWS):
        f, rng = draw(seed, k)
        made = [(rng.standard_normal((k, f.d)), None) for _ in range(4)]
        made = [(W, f.scores(W)) for W, _ in made]
        cuts = PaperCuts(f, k, Hinge(), made[0][1].argmax(axis=1))
        for W, T in made:
            cuts.anchor(T, W)
            cuts.add(T)
            assert parts(cuts, W)[-1] == pytest.approx(cuts.risk(T), rel=1e-9, abs=1e-12)
        for _ in range(6):
            W = rng.standard_normal((k, f.d))
            T = f.scores(W)
            before = parts(cuts, W)
            cuts.anchor(T, W)
            at = parts(cuts, W)
            literal = [literal_paper_cut(T0, T, strict=True) for _, T0 in made]
            np.testing.assert_allclose(at, literal, atol=1e-9)  # no ties here
            jumps += int((at > before + 1e-6).sum())  # not a majoriser: it rises at a new anchor
    assert jumps > 10


def test_at_a_tie_the_strict_indicator_of_the_paper_asks_for_more_than_the_loss():
    T = np.array([[2.0, 2.0]])
    assert literal_paper_cut(T, T, strict=True) == 3.0
    assert literal_loss(T, Hinge()) == 1.0
    f = Features(np.ones((1, 1)), center=False, normalize=False, owner="Test")
    cuts = PaperCuts(f, 2, Hinge(), T.argmax(axis=1))
    cuts.add(T)  # ours calls the first of equal classes the top one
    assert parts(cuts, np.full((2, 1), 2.0)).tolist() == [1.0]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_label_cuts_hold_for_any_weights_and_any_labels(k, loss):
    for seed in range(DRAWS):
        f, rng = draw(seed, k)
        y = rng.integers(k, size=f.n)
        cuts = LabelCuts(f, k, loss, y, None)
        for W, T in points(f, k, rng, 4):
            assert cuts.anchor(T, W) == 0 and np.array_equal(cuts.top, y)
            cuts.add(T)
            assert parts(cuts, W)[-1] == pytest.approx(literal_loss(T, loss, y), rel=1e-8, abs=1e-9)
            assert cuts.risk(T) == pytest.approx(literal_loss(T, loss, y), rel=1e-9, abs=1e-12)
        for W, T in points(f, k, rng, 6):
            unit = (1.0 + np.abs(T).max()) ** 2
            assert (parts(cuts, W) <= literal_loss(T, loss, cuts.top) + 1e-9 * unit).all()
            new = rng.integers(k, size=f.n)
            changed = np.flatnonzero(new != cuts.top)
            cuts._relinearise(changed, cuts.top[changed], new[changed])
            cuts.top = new
            assert (parts(cuts, W) <= literal_loss(T, loss, new) + 1e-9 * unit).all()


def test_labels_with_a_floor_never_make_the_cuts_worse():
    for seed in range(DRAWS):
        f, rng = draw(seed, 3)
        W = rng.standard_normal((3, f.d))
        cuts = LabelCuts(f, 3, Hinge(), floored(f.scores(W), 6), 6)
        for W, T in points(f, 3, rng, 12):
            before, top = cuts.value(W), cuts.top.copy()
            moved = cuts.anchor(T, W)
            assert cuts.value(W) <= before + 1e-12 * (1 + before) or not len(cuts)
            assert moved == (cuts.top != top).sum()
            assert np.bincount(cuts.top, minlength=3).min() >= 6
            cuts.add(T)
            assert cuts.value(W) >= literal_loss(T, Hinge(), cuts.top) - 1e-9 * np.abs(T).max()


def test_duals_are_the_weights_of_the_cuts():
    rng = np.random.default_rng(0)
    f, _ = draw(0, 3)
    y = np.arange(f.n) % 3
    cuts = LabelCuts(f, 3, SquaredHinge(), y, None)
    for _, T in points(f, 3, rng, 4):
        cuts.add(T)
    a = np.r_[rng.dirichlet(np.ones(4)), 0.5]
    duals = cuts.duals(a)
    s = duals["weights"]
    assert duals["balance"].tolist() == [0.5] and (s >= 0).all() and not s[np.arange(f.n), y].any()
    rows = np.eye(3)[y] * s.sum(axis=1)[:, None] - s
    np.testing.assert_allclose(rows.T @ f.dense() / f.n, (a[:4] @ cuts.G).reshape(3, -1), atol=1e-6)
    assert PairCuts(f, 3, Hinge(), y).duals(a) is None
    assert LabelCuts(f, 3, Hinge(), y, 3).duals(a) is None


def cost(T, y):
    """What labels lose against the top class of each row."""
    return float((T.max(axis=1) - T[np.arange(len(T)), y]).sum())


@pytest.mark.parametrize("k", [2, 3, 4])
def test_floors_are_met_at_the_least_cost_where_greedy_can(k):
    best_found = tried = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(k, 8 if k < 4 else 7))
        T = rng.standard_normal((n, k)) + rng.random(k) * 2
        for least in range(n // k + 1):
            kept = T.copy()
            y = floored(T, least)
            assert np.array_equal(T, kept)
            assert np.bincount(y, minlength=k).min() >= least
            if np.bincount(T.argmax(axis=1), minlength=k).min() >= least:
                assert np.array_equal(y, T.argmax(axis=1))
                continue
            optimum = min(cost(T, np.array(c)) for c in itertools.product(range(k), repeat=n)
                          if np.bincount(c, minlength=k).min() >= least)
            assert cost(T, y) >= optimum - 1e-12
            tried, best_found = tried + 1, best_found + (cost(T, y) <= optimum + 1e-12)
            if k == 2:  # one class is short, and the cheapest moves are the best
                assert cost(T, y) == pytest.approx(optimum)
    assert tried > 20 and best_found >= 0.5 * tried


def test_a_tie_of_all_scores_is_repaired_too():
    assert np.bincount(floored(np.zeros((9, 3)), 3)).tolist() == [3, 3, 3]
    assert floored(np.zeros((4, 2)), 0).tolist() == [0, 0, 0, 0]


def test_weights_are_kept_in_the_precision_they_need():
    f, rng = draw(1, 3)
    for loss, kept in ((Hinge(), np.float32), (SquaredHinge(), np.float64)):
        cuts = PairCuts(f, 3, loss, np.zeros(f.n, np.int64))
        for _, T in points(f, 3, rng, 3):
            cuts.add(T)
        assert cuts._weights.dtype == kept and len(cuts) == 3
