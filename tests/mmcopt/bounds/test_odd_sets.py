"""Cuts of odd sets: valid for all labels, forged or inherited, found by search, of use."""

import itertools
import tracemalloc

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration, violated_cuts
from mmcopt.bounds.decision_tree import decided, inherited, leaf_bound, lift_of
from mmcopt.bounds.label_lift import Cuts, filled
from mmcopt.capabilities import LabelQuadratic
from mmcopt.formulations import QUBO, MaxCut
from mmcopt.modeling.result import Status
from mmcopt.solvers import BranchAndBound, FactorDual, RegularizedDual
from mmcopt.solving import run

pytestmark = pytest.mark.as_given  # whole numbers stay whole


def drawn(seed, n=None):
    """Problems with two clusters: sizes that bind or none, given labels, nodes kept apart."""
    rng = np.random.default_rng([6, seed])
    n = int(rng.integers(5, 9)) if n is None else n
    W = rng.standard_normal((n, n)) if seed % 2 else rng.integers(-5, 6, (n, n)).astype(float)
    fixed = np.where(np.arange(n) < seed % 3, rng.integers(2, size=n), -1)
    return LabelQuadratic(W + W.T, const=float(rng.standard_normal()), k=2, scale=0.5,
                          low=(0, 1, n // 2 - 1)[seed % 3], fixed=fixed,
                          apart=[(3, 4)] if seed % 4 == 3 else None)


def sets(rng, m, count, width=5):
    """Any nodes, some of them twice, with any signs; in wide rows fewer of them, filled up."""
    out = rng.integers(1, m + 1, (count, width)) * rng.choice([-1, 1], (count, width))
    if width == 7:
        out[::2, 5:] = 0
        out[::4, 1:5:2] = 0
    return out


def forged(lift, rng, count=12):
    """Duals of any size and sign; the cuts hold, whatever is paid for them."""
    size = 10.0 ** rng.uniform(-3, 3)
    return {"u": size * rng.standard_normal(lift.m), "t": size * rng.standard_normal(),
            "g": size * rng.standard_normal(count),
            "odd": sets(rng, lift.m, count, int(rng.choice([3, 5, 7])))}


@pytest.mark.parametrize("seed", range(40))
def test_no_duals_prove_more_than_the_optimum(seed):
    lq, rng = drawn(seed), np.random.default_rng(seed)
    best, lift = enumeration.minimum(lq)[0], lift_of(lq)
    for _ in range(25):
        assert lift.lower(forged(lift, rng)) <= best + 1e-9 * (1 + abs(best))
    out = run(RegularizedDual(), lift, None, rng, max_iter=12)
    close = dict(out.duals)
    for _ in range(25):  # near the optimum of the dual, where nothing is left to spare
        near = {k: v + 1e-3 * rng.standard_normal(v.shape) if k in ("u", "g") else v
                for k, v in close.items()}
        assert lift.lower(near) <= best + 1e-9 * (1 + abs(best))
    assert lift.lower(close) <= best + 1e-9 * (1 + abs(best))


@pytest.mark.parametrize("width", [3, 5, 7])
def test_every_labeling_obeys_every_set(width):
    lq, rng = drawn(0, 7), np.random.default_rng(width)
    lift = lift_of(lq)
    entries = lift.entries(Cuts(odd=sets(rng, 7, 400, width)))
    for y in itertools.product((-1.0, 1.0), repeat=7):
        assert (entries.of(np.outer(y, y)) <= entries.right).all()
    X = np.eye(7)
    slack = np.zeros((7, 7))
    entries.add(slack, np.ones(400))
    assert np.sum(slack * X) == pytest.approx(entries.of(X).sum())  # A is that of the rows


def test_zeros_in_a_row_count_for_nothing():
    lift, rng = lift_of(drawn(0, 7)), np.random.default_rng(2)
    V = rng.standard_normal((7, 3))
    X = V @ V.T
    few, many = sets(rng, 7, 20), sets(rng, 7, 20, 9)
    short, wide = lift.entries(Cuts(odd=few)), lift.entries(Cuts(odd=filled(few, 9)))
    np.testing.assert_allclose(short.of(X), wide.of(X))
    assert (short.right == 2.0).all() and np.array_equal(short.right, wide.right)
    both = Cuts(odd=few).join(Cuts(odd=many)).join(Cuts(odd=few[:5]))
    assert both.odd.shape == (40, 9)
    entries = lift.entries(both)
    np.testing.assert_allclose(entries.of(X)[:20], short.of(X))
    np.testing.assert_allclose(entries.of(X)[20:], lift.entries(Cuts(odd=many)).of(X))


@pytest.mark.parametrize("seed", range(12))
def test_children_prove_with_inherited_sets_what_their_parents_prove(seed):
    lq, rng = drawn(seed, 8), np.random.default_rng(seed)
    lift = lift_of(lq)
    duals = dict(run(RegularizedDual(), lift, None, rng, max_iter=8).duals)
    given = {**duals, "odd": sets(rng, lift.m, 9, 5 + 2 * (seed % 2)), "g": rng.random(9),
             "cliques": np.empty((0, 0), np.int64), "triangles": np.empty((0, 4), np.int64)}
    clean, cuts = lift.clean(given)  # S is made psd, as B'SB is then for every child
    least = float(np.linalg.eigvalsh(lift.slack(clean, lift.entries(cuts)))[0])
    given["u"] = given["u"] + max(0.0, -least)
    proved = lift.lower(given)
    for path in ([(1, 2, True)], [(1, 2, False)], [(0, 5, True), (5, 7, False), (1, 6, True)]):
        small = decided(lq, path)
        child = lift_of(small)
        ours = inherited(lift, child.over(small.groups), given)
        assert len(ours["odd"]) == 9
        bound = leaf_bound(lq, path, ours)
        assert bound >= proved - 1e-7 * (1 + abs(proved))
        assert bound <= enumeration.minimum(small)[0] + 1e-9


@pytest.mark.parametrize("size, least", [(5, 0.49), (7, 0.49), (9, 0.49)])
def test_the_search_finds_what_enumeration_finds(size, least):
    """On the Gram matrix of a star of so many points, whose smaller sets violate less."""
    angle = np.pi * (size - 1) / size * np.arange(size)
    X = np.cos(angle[:, None] - angle)
    lift = lift_of(LabelQuadratic(X, k=2, low=0))
    right = (size - 1) / 2
    best = max(float((lift.entries(Cuts(odd=np.array([s]))).of(X) - right)[0])
               for s in itertools.product(*[(v, -v) for v in range(1, size + 1)]))
    assert best == pytest.approx(0.5)
    for dtype in (np.float32, np.float64):
        found = violated_cuts.odd_sets(lift, X.astype(dtype), 50, least, size=size)
        entries = lift.entries(Cuts(odd=found))
        assert float((entries.of(X) - entries.right)[0]) == pytest.approx(best)
        assert len(np.unique(found, axis=0)) == len(found)
        assert all(len(set(np.abs(row))) == size for row in found)
    for few in (3, 4):
        assert len(violated_cuts.odd_sets(lift_of(drawn(0, few)), np.eye(few), 9, 0.0)) == 0


def test_searches_begin_with_any_sets_of_nodes_that_differ():
    drawn_here = violated_cuts._drawn(np.random.default_rng(0), 6000, 6, 3)
    assert (np.diff(np.sort(drawn_here, axis=1), axis=1) > 0).all()
    found, counts = np.unique(drawn_here, axis=0, return_counts=True)
    assert len(found) == 6 * 5 * 4 and counts.min() > 20 and counts.max() < 90
    tracemalloc.start()
    violated_cuts._drawn(np.random.default_rng(0), 30_000, 10**6, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 30_000 * 20


def test_searches_begin_with_known_sets_too():
    begun, other = np.array([[1, -2, 3], [4, -5, 6]]), np.array([[7, 8, 9, 1, 5], [1, 2, 3, 7, -8]])
    assert violated_cuts._completed(begun, other).tolist() == [[7, 8, 9, 1, 5], [4, -5, 6, 7, -8]]
    rng, m = np.random.default_rng(1), 40
    V = rng.standard_normal((m, 12))
    V /= np.linalg.norm(V, axis=1)[:, None]
    X, lift = V @ V.T, lift_of(LabelQuadratic(np.eye(m), k=2, low=0))
    fives = violated_cuts.odd_sets(lift, X, 5, 0.1, starts=30)
    plain, helped = (violated_cuts.odd_sets(lift, X, 10**6, 0.1, size=7, starts=5, known=known)
                     for known in (None, np.repeat(fives, 100, axis=0)))
    assert not np.array_equal(plain, helped)
    entries = lift.entries(Cuts(odd=helped))
    assert (entries.of(X) - entries.right > 0.1).all()


def test_zeros_anywhere_are_moved_behind_and_solvers_go_on_from_such_sets():
    lift, rng = lift_of(drawn(0, 8)), np.random.default_rng(3)
    odd = np.zeros((2, 2000), dtype=np.int64)
    odd[0, [5, 80, 300, 1000, 1999]] = [1, -2, 3, 4, -5]
    odd[1, [1, 2, 700, 800, 801, 802, 803]] = np.arange(1, 8)
    duals = {"u": np.full(8, 9.0), "g": np.array([0.3, 0.2]), "odd": odd}
    _, cuts = lift.clean(duals)
    np.testing.assert_array_equal(cuts.odd, [[1, -2, 3, 4, -5, 0, 0], np.arange(1, 8)])
    near = {**duals, "odd": cuts.odd}
    assert lift.lower(duals) == lift.lower(near) > -np.inf
    ours = FactorDual(odd_per_node=2.0, every=1)
    assert run(ours, lift, duals, rng, max_iter=12).lower_bound >= lift.lower(duals) - 1e-9


def test_what_is_no_odd_set_is_refused():
    lift = lift_of(drawn(1, 7))
    for odd in (np.full((1, 4), 2), np.zeros((1, 5), int), np.full((1, 5), 9),
                np.array([[1, 2, 3, 4, 0]]), np.array([[1, 0, 0]]),
                np.full((1, 5), np.iinfo(np.int64).min)):
        with pytest.raises(ValueError, match="odd set is malformed"):
            lift.lower({"g": np.ones(1), "odd": odd})
    with pytest.raises(ValueError, match="99 nodes at the most, got 101"):
        lift.lower({"g": np.ones(1), "odd": np.ones((1, 101), int)})
    with pytest.raises(ValueError, match="must have a row each"):
        lift.lower({"g": np.ones(1), "odd": np.ones(5, int)})
    many = lift_of(LabelQuadratic(np.eye(6), k=3))
    with pytest.raises(ValueError, match="odd set is malformed"):
        many.lower({"g": np.ones(1), "odd": np.array([[1, 2, 3, 4, 5]])})


def test_they_close_a_root_that_triangles_leave_open_and_are_kept_on_disk(tmp_path):
    W, _ = mm.datasets.load("g05:n=30,seed=4")
    problem = MaxCut(W)
    lift = lift_of(problem.offer(LabelQuadratic))
    rng = np.random.default_rng(0)
    with_sets, without = (run(RegularizedDual(odd_per_node=c), lift, None, rng,
                              max_iter=60).lower_bound for c in (3.0, 0.0))
    assert with_sets > without + 0.05
    result = mm.solve(problem, BranchAndBound(enumerate=1), seed=0)
    assert result.status is Status.CERTIFIED
    duals = result.certificate.duals["duals"]
    assert any(d is not None and len(d.get("odd", ())) for d in duals)
    result.save(tmp_path / "cut.npz")
    assert mm.load(tmp_path / "cut.npz").verify()


def test_a_tree_in_which_nodes_of_sets_are_merged_is_verified():
    Q, _ = mm.datasets.load("be:n=25,seed=2")
    result = mm.solve(QUBO(-Q), BranchAndBound(enumerate=1, root_rounds=2, node_rounds=1), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()
