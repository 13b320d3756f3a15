"""The searches of `LabelRatio` against brute force: sizes, links, weights, kernels, both forms."""

import functools
import itertools

import numpy as np
import pytest
from instances import COUNTS, draw, fast_feasible

import mmcopt as mm
from mmcopt.capabilities import LabelRatio
from mmcopt.capabilities.matrices import LowRank
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import DiscriminativeKMeans, KernelKMeans
from mmcopt.solvers import Hartigan, Lloyd, Memetic
from mmcopt.solving import run
from mmcopt.solving.ratio_search import board_of, distances, refresh

EVERY = 12  # which seeds are drawn with all rules left out, for Lloyd


@functools.cache
def judged(seed):
    """A problem, its feasible labelings, and their literal objectives, from kernel values alone."""
    d, rng = draw(seed), np.random.default_rng([15, seed])
    n = len(d.X)
    options = {name: d.options[name] for name in ("kernel", "sizes", "known", "must_link",
                                                  "cannot_link") if name in d.options}
    if seed % 3 == 0:
        options = {"kernel": options["kernel"]}
    w = rng.uniform(0.3, 3.0, n) if seed % 2 else np.ones(n)
    K = np.asarray(options["kernel"].fit(d.X).matrix())
    rows = np.array(list(itertools.product(range(d.k), repeat=n)))
    d.options.clear()
    d.options.update({"sizes": None, **options})
    rows = rows[fast_feasible(d, rows)]
    values = np.full(len(rows), float(w @ np.diagonal(K)))
    for h in range(d.k):
        Z = (rows == h) * w
        values -= np.einsum("ij,ij->i", Z @ K, Z) / Z.sum(axis=1)
    return KernelKMeans(d.X, d.k, sample_weight=w if seed % 2 else None, **options), rows, values


def feasible(count):
    for seed in range(count):
        try:
            f, rows, values = judged(seed)
        except mm.errors.InfeasibleError:
            continue
        if len(rows):
            yield seed, f, rows, values


def near(rows, c, changed):
    """The feasible labelings that differ from c by few samples."""
    return np.flatnonzero((rows != c).sum(axis=1) <= changed)


@pytest.mark.parametrize("count", COUNTS)
def test_memetic_finds_the_optimum(count, monkeypatch):
    monkeypatch.setattr("mmcopt.solvers.memetic.TINY", 0)  # or it would try all labels
    seen = 0
    for seed, f, _, values in feasible(count):
        result = mm.solve(f, Memetic(), seed=seed, bound=False)
        scale = max(1.0, abs(values).max())
        assert result.violation == 0.0
        assert abs(result.objective - values.min()) <= 1e-9 * scale, seed
        seen += 1
    assert seen >= 0.75 * count


@pytest.mark.parametrize("count", COUNTS)
def test_hartigan_ends_in_a_local_optimum_of_moves_and_swaps(count):
    moved = 0
    for seed, f, rows, values in feasible(count):
        result = mm.solve(f, Hartigan(), seed=seed, bound=False)
        ratio = f.offer(LabelRatio)
        assert result.violation == 0.0
        if ratio.n < f.n:  # nodes of several samples move together
            continue
        there = near(rows, result.labels, 1)
        if ratio.ruled:  # and the swaps among changes of two samples
            two = near(rows, result.labels, 2)
            sizes = [np.bincount(c, minlength=f.n_clusters) for c in rows[two]]
            same = (np.array(sizes) == np.bincount(result.labels, minlength=f.n_clusters)).all(1)
            there = np.union1d(there, two[same])
        assert values[there].min() >= result.objective - 1e-9 * max(1.0, abs(values).max()), seed
        moved += there.size > 1
    assert moved


@pytest.mark.parametrize("count", COUNTS)
def test_lloyd_ends_with_all_samples_at_the_nearest_mean(count):
    for seed, f, _, values in feasible(count):
        ratio = f.offer(LabelRatio)
        if ratio.ruled:
            with pytest.raises(IncompatibleError, match="takes no notice of sizes and cannot-link"):
                mm.solve(f, Lloyd())
            continue
        result = mm.solve(f, Lloyd(), seed=seed, bound=False)
        c = ratio.reduce(result.labels)
        D = distances(ratio, board_of(ratio, c), slice(None))
        free = ratio.fixed < 0
        excess = (D[np.arange(ratio.n), c] - D.min(axis=1)) * ratio.volumes
        assert excess[free].max(initial=0.0) <= 1e-7 * max(1.0, abs(values).max()), seed
        assert result.violation == 0.0


@pytest.fixture
def by_rows(monkeypatch):
    """Go by vectors in small problems too."""
    monkeypatch.setattr("mmcopt.capabilities.label_ratio.ROWS_FROM", 3)
    monkeypatch.setattr("mmcopt.capabilities.label_ratio.RULED_FROM", 3)


def test_both_forms_have_the_same_distances_and_values(by_rows, monkeypatch):
    rng = np.random.default_rng(0)
    Psi, v = rng.standard_normal((30, 4)), rng.uniform(0.5, 2.0, 30)
    c = rng.permutation(np.arange(30) % 3)
    one = LabelRatio(LowRank(Psi), const=50.0, k=3, volumes=v)
    two = LabelRatio(Psi @ Psi.T, const=50.0, k=3, volumes=v)
    assert one.by_rows and not two.by_rows
    boards = board_of(one, c.copy()), board_of(two, c.copy())
    assert boards[0].value == pytest.approx(boards[1].value) == pytest.approx(one.value(c))
    near = [distances(r, b, slice(3, 20)) for r, b in zip((one, two), boards, strict=True)]
    np.testing.assert_allclose(*near)
    X = Psi / v[:, None]
    M = np.stack([(Psi[c == h]).sum(axis=0) / v[c == h].sum() for h in range(3)])
    np.testing.assert_allclose(near[0], ((X[3:20, None] - M) ** 2).sum(axis=2))


@pytest.mark.parametrize("seed", range(5))
def test_by_vectors_it_ends_in_a_local_optimum_of_moves(by_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4))
    f = KernelKMeans(X, 5, sample_weight=rng.uniform(0.5, 2.0, 60), cannot_link=[(0, 1), (2, 3)],
                     known={4: 0})
    ratio = f.offer(LabelRatio)
    assert ratio.by_rows
    result = mm.solve(f, Hartigan(), seed=seed, bound=False)
    assert result.violation == 0.0
    for i, d in itertools.product(range(60), range(5)):
        c = result.labels.copy()
        c[i] = d
        if f.violation(c) == 0.0:
            assert f.objective(c) >= result.objective - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_are_left_out_have_nothing_to_gain(seed):
    """In many rows most nodes are left out most of the time: the end must be as good."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1600, 3)) + 2.0 * rng.integers(0, 3, (1600, 1))
    w = rng.uniform(0.2, 3.0, 1600)
    ratio = KernelKMeans(X, 6, sample_weight=w).offer(LabelRatio)
    found = run(Hartigan(), ratio, None, rng)
    board, looked = found.state, found.steps
    assert board.done and looked > 5
    calm = board.calm > board.drift
    assert calm.mean() > 0.5
    D, V, a = distances(ratio, board, slice(None)), board.V, board.c
    leave = D[np.arange(1600), a] * V[a] / (V[a] - w)
    enter = D * V / (V + w[:, None])
    enter[np.arange(1600), a] = np.inf
    assert (leave <= enter.min(axis=1) * (1 + 1e-9)).all()


def test_gains_that_are_kept_are_those_of_the_objective():
    f = KernelKMeans(np.random.default_rng(0).standard_normal((50, 3)), 4,
                     kernel=mm.kernels.Gaussian(width=0.5))
    ratio, rng = f.offer(LabelRatio), np.random.default_rng(0)
    search = Hartigan()
    state = search.begin(ratio, None, rng).state
    while not state.done:
        state = search.step(ratio, state, rng).state
        kept = state.value
        assert kept == pytest.approx(ratio.value(state.c), rel=1e-10)
    refresh(ratio, state)
    assert state.value == pytest.approx(kept, rel=1e-10)


def test_exact_sizes_are_met_by_swaps():
    X = np.random.default_rng(0).standard_normal((40, 2)) + 3.0 * (np.arange(40) % 2)[:, None]
    f = KernelKMeans(X, 2, sizes=mm.constraints.Sizes(exact=20))
    best = min(run(Hartigan(), f.offer(LabelRatio), None, np.random.default_rng(s)).value
               for s in range(3))
    assert best == pytest.approx(f.objective(np.arange(40) % 2), rel=0.05)


def test_discriminative_kmeans_is_searched_too():
    X, y = mm.datasets.load("iris")
    f = DiscriminativeKMeans(X, 3, kernel=mm.kernels.Gaussian(width=0.5))
    result = mm.solve(f, seed=0)
    assert result.solver == "Memetic" and result.lower_bound <= result.objective <= f.objective(y)
    assert mm.metrics.adjusted_rand_index(y, result.labels) > 0.7
