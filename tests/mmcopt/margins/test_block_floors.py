"""Floors on sizes, of rows in blocks: the labels of `floored`, by a rule of few numbers."""

import itertools
import pickle

import numpy as np
import pytest

from mmcopt.compiled.cutting_planes import tops
from mmcopt.datasets import blocks
from mmcopt.kernels.block_features import BlockFeatures, BlockScores
from mmcopt.kernels.features import Features
from mmcopt.margins import Hinge, Logistic, SquaredHinge, block_floors
from mmcopt.margins.block_floors import (
    FloorLabels,
    Key,
    OwnRows,
    floor_labels,
    floored_in_blocks,
    label_loss,
    small_labels,
)
from mmcopt.margins.block_label_cuts import BlockLabelCuts
from mmcopt.margins.cut_models import LabelCuts, floored

PLAIN = {"center": False, "normalize": False, "owner": "test"}


@pytest.fixture(autouse=True)
def _few_and_coarse(monkeypatch):
    """So that some passes are needed for what one would do."""
    monkeypatch.setattr(block_floors, "FEW", 5)
    monkeypatch.setattr(block_floors, "CELLS", 4)


def both(X, folder, chunk=17):
    np.save(folder / "x.npy", X)
    return Features(X, **PLAIN), BlockFeatures(blocks(folder / "x.npy", chunk=chunk), **PLAIN)


def labels(features, rule):
    return np.concatenate(features.gathered(small_labels, rule,
                                            along=OwnRows(range(features.n))))


def drawn(seed):
    """Rows and W: of three kinds of ties, far from everything, tiny and huge, now and then."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(6, 120)), int(rng.integers(2, 6))
    X, W = rng.standard_normal((n, 3)), rng.standard_normal((k, 3))
    if seed % 3 == 0:
        X = np.round(X)
    if seed % 5 == 0:
        W = np.round(W)
    if seed % 11 == 0:
        W[:] = 0.0
    if seed % 13 == 0:
        W[0] += 100.0
    if seed % 7 == 0:
        W *= (1e-170, 1e170)[seed % 2]  # whose squares are no numbers
    return X, W


@pytest.mark.as_given  # ties of rows are the point
@pytest.mark.parametrize("seed", range(30))
def test_the_rule_gives_the_labels_that_sorting_gives(tmp_path, seed):
    X, W = drawn(seed)
    held, stored = both(X, tmp_path)
    n, k = len(X), len(W)
    for least in {1, n // k // 2, n // k}:
        rule = floored_in_blocks(stored, W, least)
        y = labels(stored, rule)
        np.testing.assert_array_equal(y, floored(held.row_scores(W), least))
        assert np.bincount(y, minlength=k).min() >= least
        np.testing.assert_array_equal(labels(held, rule), y)  # whoever follows it


@pytest.mark.parametrize("k", [2, 3])
def test_two_classes_lose_as_little_as_any_labels_could(tmp_path, k):
    """By brute force; of more classes the repair is greedy, in memory too, and rarely worse."""
    least_cost = tried = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, W = rng.standard_normal((7, 2)), rng.standard_normal((k, 2))
        _, stored = both(X, tmp_path, chunk=3)
        T = stored.gathered(lambda part, W=W: part.row_scores(W))
        T = np.concatenate(T)

        def cost(y, T=T):
            return float((T.max(axis=1) - T[np.arange(7), y]).sum())

        best = min(cost(np.array(c)) for c in itertools.product(range(k), repeat=7)
                   if np.bincount(c, minlength=k).min() >= 2)
        found = cost(labels(stored, floored_in_blocks(stored, W, 2)))
        assert found >= best - 1e-12 and (k > 2 or found == pytest.approx(best, abs=1e-12))
        tried, least_cost = tried + 1, least_cost + (found <= best + 1e-12)
    assert least_cost > 0.7 * tried


def test_limits_lie_between_samples_so_that_rounding_moves_none(tmp_path):
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((90, 3)), rng.standard_normal((3, 3))
    held, stored = both(X, tmp_path)
    rule = floored_in_blocks(stored, W, 28)
    assert len(rule.short) and np.isfinite(rule.limits).any()
    for scale in (1.0 - 1e-12, 1.0 + 1e-12):
        np.testing.assert_array_equal(labels(held, rule._replace(W=scale * W)),
                                      labels(held, rule))


def test_passes_bring_back_as_much_of_many_rows_as_of_few(tmp_path, monkeypatch):
    monkeypatch.setattr(block_floors, "FEW", 50)
    monkeypatch.setattr(block_floors, "CELLS", 32)
    sizes, total_of, gathered = [], BlockFeatures.total_of, BlockFeatures.gathered

    def counted(keep):
        def call(self, *args, **options):
            answer = keep(self, *args, **options)
            sizes.append(len(pickle.dumps(answer)))
            return answer
        return call

    monkeypatch.setattr(BlockFeatures, "total_of", counted(total_of))
    monkeypatch.setattr(BlockFeatures, "gathered", counted(gathered))
    seen = []
    for n in (2_000, 64_000):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 3)) + [1.0, 0.0, 0.0]
        _, stored = both(X, tmp_path, chunk=n // 4)
        sizes.clear()
        rule = floored_in_blocks(stored, np.array([[1.0, 0, 0], [0, 0.3, 0]]), int(0.48 * n))
        assert len(rule.short) == 1 and len(sizes) <= 6
        seen.append(max(sizes))
    assert seen[1] < 2 * seen[0] < 20_000


def test_a_row_has_one_score_whichever_rows_stand_beside_it():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((200, 37)), rng.standard_normal((5, 37))
    whole = Features(X, **PLAIN)
    T = whole.row_scores(W)
    np.testing.assert_allclose(T, whole.scores(W), rtol=0, atol=1e-12)
    for rows in ([3], [9, 2, 150], np.arange(50, 117)):
        assert whole.of(np.array(rows)).row_scores(W).tobytes() == T[rows].tobytes()


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()])
@pytest.mark.parametrize("least", [None, 40])
def test_cuts_and_what_moving_labels_makes_of_them_are_those_in_memory(tmp_path, loss, least):
    rng = np.random.default_rng(0)
    X, k = rng.standard_normal((150, 4)) + 2.0 * rng.integers(2, size=(150, 1)), 3
    held, stored = both(X, tmp_path)
    Ws = [rng.standard_normal((k, 4)) for _ in range(6)]
    y = floored(held.row_scores(Ws[0]), least) if least else rng.integers(k, size=150)
    start = floored_in_blocks(stored, Ws[0], least) if least else y
    memory = LabelCuts(held, k, loss, y, least)
    disk = BlockLabelCuts(stored, k, loss, start, least)
    moved = 0
    for W in Ws:
        T, S = held.row_scores(W), BlockScores(W)
        assert disk.risk(S) == pytest.approx(memory.risk(T), rel=1e-12)
        memory.add(T)
        disk.add(S)
        count = memory.anchor(T, W)
        assert disk.anchor(S, W) == count
        moved += count
        np.testing.assert_allclose(disk.G, memory.G, rtol=0, atol=1e-6 if loss == Hinge() else 1e-9)
        np.testing.assert_allclose(disk.b, memory.b, rtol=0, atol=1e-12)
        assert disk.held_risk(S) == pytest.approx(memory.held_risk(T), rel=1e-12)
    assert (moved > 0) == bool(least)
    if least:  # back to the labels of the start, as a solver goes back to its best
        changed = (memory.top != y).sum()
        memory.relabel(y)
        assert disk.relabel(start) == changed and disk.relabel(start) == 0
        np.testing.assert_allclose(disk.G, memory.G, rtol=0, atol=1e-6)


def test_losses_of_labels_are_those_of_the_scores(tmp_path):
    X, W = drawn(4)
    held, stored = both(X, tmp_path)
    y = np.arange(len(X)) % len(W)
    T, rows = held.scores(W), np.arange(len(X))
    rest = T.copy()
    rest[rows, y] = -np.inf
    expected = np.maximum(0.0, 1.0 - (T[rows, y] - rest.max(axis=1))).sum()
    found = stored.total_of(label_loss, W, None, Hinge(), along=OwnRows(range(len(X)), y))[0]
    assert found == pytest.approx(expected, rel=1e-12)


def test_what_is_no_rule_is_none():
    rule = FloorLabels.top(np.zeros((2, 3))).taking(1, np.zeros(2), np.zeros(2, np.int64))
    read = floor_labels([part.tolist() for part in rule], 2, 3)
    assert all((a == b).all() for a, b in zip(read, rule, strict=True))
    for wrong in (None, [1, 2, 3, 4], np.arange(4), rule[:3], rule._replace(short=np.array([2])),
                  rule._replace(W=np.full((2, 3), np.nan)), rule._replace(limits=np.zeros((1, 3))),
                  rule._replace(W="a")):
        assert floor_labels(wrong, 2, 3) is None
    assert floor_labels(rule, 2, 4) is None


def test_a_limit_lies_between_two_losses_where_there_is_room():
    def between(goes, stays):
        keys = (Key(int(block_floors.rank_of(loss)), row) for loss, row in (goes, stays))
        return block_floors._between(*keys)

    assert between((1.0, 5), (2.0, 9)) == (1.5, -1)
    assert between((1.0, 5), (1.0, 9)) == (1.0, 5)
    assert between((1.0, 5), (np.nextafter(1.0, 2.0), 9)) == (1.0, 5)
    assert block_floors._between(Key(-1, 5), Key(0, 3)) == (-np.inf, 0)


def test_ranks_are_in_the_order_of_losses():
    losses = np.array([0.0, 5e-324, 1e-300, 0.1, np.nextafter(0.1, 1.0), 3.0, 1e300])
    ranks = block_floors.rank_of(losses)
    assert (np.diff(ranks) > 0).all() and ranks[0] == 0 and ranks[4] == ranks[3] + 1
    assert block_floors.rank_of(-0.0) == 0
    np.testing.assert_array_equal(block_floors.loss_of(ranks), losses)


def test_many_that_lose_the_same_take_few_passes(tmp_path, monkeypatch):
    """Rows without entries lose nothing; of half of all rows it takes ranks to come so far down."""
    monkeypatch.setattr(block_floors, "FEW", 50)
    monkeypatch.setattr(block_floors, "CELLS", 1024)
    rng, passes, total_of = np.random.default_rng(0), [], BlockFeatures.total_of
    monkeypatch.setattr(BlockFeatures, "total_of",
                        lambda *given, **more: passes.append(1) or total_of(*given, **more))
    for seed, same in enumerate((np.zeros(3), np.ones(3))):
        X, W = rng.standard_normal((4000, 3)), rng.standard_normal((3, 3))
        X[::2] = same
        held, stored = both(X, tmp_path, chunk=1000)
        sizes = np.bincount(held.row_scores(W).argmax(axis=1), minlength=3)
        least = int(sizes.min() + 400) if seed else 900
        passes.clear()
        rule = floored_in_blocks(stored, W, least)
        np.testing.assert_array_equal(labels(stored, rule), floored(held.row_scores(W), least))
        assert len(passes) <= 10 * len(rule.short) + 2


def test_top_classes_are_the_first_of_equal_ones(tmp_path):
    _, stored = both(np.ones((30, 3)), tmp_path)
    y = np.empty(30, np.int64)
    tops(np.zeros((30, 3)), y)
    assert not y.any() and not labels(stored, FloorLabels.top(np.ones((3, 3)))).any()
    assert np.bincount(labels(stored, floored_in_blocks(stored, np.ones((3, 3)), 10))).tolist() \
        == [10, 10, 10]
