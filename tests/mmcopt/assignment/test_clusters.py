"""From a decision function to clusters: graph, level tree, equilibria, and what they promise."""

import functools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import assignment
from mmcopt.assignment import Domain, complete, equilibrium, graph, level_tree, neighbour_gamma
from mmcopt.assignment.domain import joined
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian, Laplacian, Polynomial, Precomputed

ari = mm.metrics.adjusted_rand_index


def solved(X, C=None, scale=0.35, kernel=None):
    """A hard margin unless C is given."""
    X = np.asarray(X, dtype=np.float64)
    kernel = kernel or Gaussian(gamma=neighbour_gamma(X, scale))
    return mm.solve(OneClassHinge(X, C=len(X) if C is None else C, kernel=kernel), seed=0)


@functools.cache
def shape(name, C=None, scale=0.35):
    X, y = mm.datasets.load(name)
    return X, y, solved(X, C, scale)


MOONS = "moons:n=300,noise=.05,seed=0"
CIRCLES = "circles:n=400,noise=.03,seed=0"


def same_partition(a, b):
    return ari(a, b) == 1.0


def spirals(n, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = 1.0 + 3 * np.pi * np.sqrt(rng.random(n))
    X = np.column_stack([t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)])
    return X + 0.1 * rng.standard_normal((n, 2)), y


# ---------------------------------------------------------------- graph


@pytest.mark.parametrize("name", [MOONS, CIRCLES])
def test_graph_finds_moons_and_circles(name):
    _, y, r = shape(name, None, 0.2)
    found = graph(r)
    assert found.n_clusters == 2 and ari(y, found.labels) == 1.0
    assert not found.outside.any() and found.boundary.any()


def test_graph_finds_spirals_where_equilibria_break():
    X, y = spirals(600)
    r = solved(X, scale=0.12)
    assert ari(y, graph(r).labels) == 1.0
    assert ari(y, equilibrium(r).labels) < 0.9


def brute(domain, eps, m=50):
    """Union-find over all pairs in turn, one value of f after another."""
    n = domain.n
    above = list(range(n))

    def find(v):
        while above[v] != v:
            v = above[v]
        return v

    X = np.asarray(domain.X)
    for i in range(n):
        for j in range(i):
            if find(i) != find(j):
                t = np.linspace(0, 1, m + 2)[:, None]
                if domain.value(X[i] * (1 - t) + X[j] * t).min() >= -eps:
                    above[find(i)] = find(j)
    return np.array([find(i) for i in range(n)])


@pytest.mark.parametrize("seed", range(4))
def test_graph_and_complete_are_the_literal_parts_of_the_domain(seed):
    rng = np.random.default_rng(seed)
    d = 1 + seed
    X = rng.standard_normal((48, d)) + 9.0 * rng.integers(0, 2, (48, d))
    domain = Domain.of(solved(X, scale=(0.3, 0.3, 2.0, 3.0)[seed]))
    parts = brute(domain, 0.01)
    assert len(set(parts)) > 1
    assert same_partition(parts, complete(domain).labels)
    assert same_partition(parts, graph(domain).labels)
    assert same_partition(parts, graph(domain, neighbours=5).labels)  # bridges do what is missing


@pytest.mark.parametrize("name,scale", [(MOONS, 0.2), (MOONS, 0.7), (CIRCLES, 0.35),
                                        (CIRCLES, 1.0)])
def test_graph_is_no_worse_than_the_complete_graph(name, scale):
    _, y, r = shape(name, None, scale)
    fast, slow = graph(r), complete(r)
    assert ari(y, fast.labels) >= ari(y, slow.labels)
    assert abs(fast.n_clusters - slow.n_clusters) <= 1


def test_bridges_join_what_neighbours_cannot_see():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 0.05, (40, 2)), rng.normal(0, 0.05, (40, 2)) + [1.0, 0.0]])
    r = solved(X, kernel=Gaussian(gamma=1.0))  # wide: one domain around both
    links = graph(r, neighbours=3)
    assert links.n_clusters == complete(r).n_clusters == 1
    ends = links.links // 40
    assert (ends[:, 0] != ends[:, 1]).sum() >= 1


def test_links_are_inside_the_domain():
    X, _, r = shape(MOONS, None, 1.0)
    found = graph(r)
    assert len(found.links) >= len(X) - found.n_clusters  # no link is tried twice, none is spare
    t = np.linspace(0, 1, 41)[:, None]
    for i, j in found.links[::7]:
        assert r.decision_function(X[i] * (1 - t) + X[j] * t).min() > -0.015
        assert found.labels[i] == found.labels[j]


def test_the_order_of_samples_changes_names_at_most():
    X, _, r = shape(MOONS, None, 1.0)
    p = np.random.default_rng(1).permutation(len(X))
    turned = (r.formulation.replace(X=X[p]), r.point[p])
    for method in (graph, equilibrium, lambda given: level_tree(given, 2),
                   lambda given: level_tree(given, 5)):
        assert same_partition(method(r).labels[p], method(turned).labels)


def test_a_rotation_changes_nothing():
    X, _, r = shape(MOONS, None, 1.0)
    c, s = np.cos(0.3), np.sin(0.3)
    turned = (r.formulation.replace(X=X @ np.array([[c, -s], [s, c]]) + 100.0), r.point)
    assert np.array_equal(graph(r).labels, graph(turned).labels)
    assert np.array_equal(level_tree(r, 4).labels, level_tree(turned, 4).labels)


def test_labels_are_numbered_by_size():
    X = np.concatenate([np.zeros(5), np.full(9, 10.0), np.full(2, 20.0)])[:, None]
    X = X + 0.01 * np.arange(16)[:, None]
    found = graph(solved(X, kernel=Gaussian(gamma=1.0)))
    assert found.labels.tolist() == [1] * 5 + [0] * 9 + [2] * 2
    assert str(found).startswith("graph: 3 clusters; 16 of 16 samples inside")


def test_small_parts_join_the_nearest_or_are_marked():
    X = np.concatenate([np.zeros(5), np.full(9, 10.0), np.full(1, 16.0)])[:, None]
    X = X + 0.01 * np.arange(15)[:, None]
    r = solved(X, kernel=Gaussian(gamma=1.0))
    assert graph(r).n_clusters == 3
    assert graph(r, min_size=2).labels.tolist() == [1] * 5 + [0] * 10
    marked = graph(r, min_size=2, outliers="mark")
    assert marked.labels.tolist() == [1] * 5 + [0] * 9 + [-1]
    assert marked.n_clusters == 2
    assert marked.predict([[16.14], [10.03], [5.0]]).tolist() == [-1, 0, -1]
    with pytest.raises(ParameterError, match="largest part of the domain holds 9 samples"):
        graph(r, min_size=10)


# ---------------------------------------------------------------- all of them


METHODS = {"graph": graph, "complete": complete, "equilibrium": equilibrium,
           "level_tree": lambda r, **o: level_tree(r, 2, **o)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("outliers", ["nearest", "mark"])
def test_training_rows_are_predicted_as_they_are_labelled(method, outliers):
    X, _, r = shape(MOONS, 40.0, 0.35)
    found = METHODS[method](r, outliers=outliers)
    assert np.array_equal(found.predict(X), found.labels)
    assert found.outside.any()
    assert set(found.labels[found.outside]) == ({-1} if outliers == "mark" else
                                                set(found.labels[found.outside]) - {-1})
    assert (found.labels[~found.outside] >= 0).all() or method == "equilibrium"
    assert np.array_equal(found.outside, r.decision_function(X) < -0.01)
    assert sorted(set(found.labels) - {-1}) == list(range(found.n_clusters))


@pytest.mark.parametrize("method", METHODS)
def test_new_samples_take_the_cluster_of_the_nearest(method):
    X, y, r = shape(MOONS, None, 0.2)
    found = METHODS[method](r)
    new, truth = mm.datasets.load("moons:n=200,noise=.03,seed=7")
    least = 0.8 if method == "equilibrium" else 1.0
    assert min(ari(truth, found.predict(new)), ari(y, found.labels)) >= least
    far = METHODS[method](r, outliers="mark")
    assert far.predict([[50.0, 50.0]]).tolist() == [-1]
    assert found.predict([[50.0, 50.0]])[0] >= 0
    with pytest.raises(DataError, match="3 features"):
        found.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("method", ["graph", "complete", "equilibrium", "level_tree"])
@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [[0.0, 0.0], [9.0, 9.0]], [[0.0, 0.0]] * 2,
                                  [[0.0, 1.0]] * 5, [[0.0]] * 30 + [[5.0]] * 20])
def test_few_samples_and_copies(method, rows):
    r = solved(rows, kernel=Gaussian(gamma=1.0))
    found = getattr(assignment, method)(r)
    distinct = len(np.unique(np.array(rows), axis=0))
    if method == "level_tree" and len(rows) == 2:
        distinct = 1 if rows[0] == rows[1] else 2
    assert found.n_clusters == distinct
    assert np.array_equal(found.predict(rows), found.labels)
    assert len({tuple(row): c for row, c in zip(rows, found.labels, strict=True)}) == distinct


def test_copies_count_as_samples_and_stay_together():
    X, _ = mm.datasets.load("moons:n=60,noise=.05,seed=0")
    Z = np.repeat(X, 15, axis=0)  # more copies than neighbours
    r = solved(X, scale=0.5)
    a = np.repeat(r.point / 15, 15)
    problem = OneClassHinge(Z, C=60.0, kernel=r.formulation.kernel)
    for method in (graph, complete, lambda given: level_tree(given, 2)):
        once, often = method(r), method((problem, a))
        assert same_partition(np.repeat(once.labels, 15), often.labels)


def test_one_cluster():
    X = np.random.default_rng(0).standard_normal((80, 2))
    r = solved(X, scale=0.1)
    assert graph(r).n_clusters == complete(r).n_clusters == level_tree(r, 1).n_clusters == 1


@pytest.mark.parametrize("kernel,separate", [
    (Gaussian(gamma=20.0) + 0.1 * Laplacian(gamma=5.0), True), (2.0 * Gaussian(gamma=20.0), True),
    (Gaussian(gamma=20.0).nystroem(120), False)])  # whose features do not vanish far from the data
def test_other_kernels(kernel, separate):
    X, y, _ = shape(MOONS)
    r = solved(X, C=1e4, kernel=kernel)
    assert ari(y, level_tree(r, 2).labels) == 1.0
    found = graph(r, min_size=5)
    assert np.array_equal(found.predict(X), found.labels)
    assert ari(y, found.labels) > 0.9 or not separate
    with pytest.raises(DataError, match="Use graph or level_tree"):
        equilibrium(r)


def test_a_polynomial_kernel_has_one_domain():
    X = np.random.default_rng(0).standard_normal((30, 2)) + 5.0
    assert graph(solved(X, C=1e3, kernel=Polynomial(2))).n_clusters == 1


def test_many_features_and_sparse_rows():
    import scipy.sparse

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30)) + 20.0 * (np.arange(60) % 2)[:, None]
    r = solved(X, scale=0.1)
    found = graph(r)
    assert same_partition(found.labels, np.arange(60) % 2) and found.n_clusters == 2
    problem = OneClassHinge(scipy.sparse.csr_array(X), C=60.0, kernel=r.formulation.kernel)
    sparse = graph((problem, r.point))
    assert np.array_equal(sparse.labels, found.labels)
    assert np.array_equal(sparse.predict(problem.X), found.labels)


# ---------------------------------------------------------------- level tree


def test_the_level_tree_needs_no_number_of_clusters():
    X, y = mm.datasets.load("blobs:n=200,k=4,sd=.7,seed=3")
    problem = OneClassHinge(X, C=1.0, kernel=Gaussian(gamma=neighbour_gamma(X)))
    found = level_tree(mm.solve(problem.replace(C=1.3 * problem.c_min()), seed=0))
    assert found.n_clusters == found.tree.suggested() == 4 and ari(y, found.labels) > 0.9


@pytest.mark.parametrize("name,k,least", [("jain", 2, 1.0), ("aggregation", 7, 0.99),
                                          ("r15", 15, 0.98), ("flame", 2, 0.9),
                                          ("spiral", 3, 1.0), ("compound", 5, 0.8)])
def test_shapes_by_the_documented_rule_without_labels(name, k, least, shared_data):
    X, y = shared_data(name)
    problem = OneClassHinge(X, C=1.0, kernel=Gaussian(gamma=neighbour_gamma(X)))
    found = level_tree(mm.solve(problem.replace(C=1.3 * problem.c_min()), seed=0))
    assert found.n_clusters == k and ari(y, found.labels) >= least
    assert ari(y, level_tree(found.domain, k).labels) >= least


@pytest.mark.slow  # test_domain_selection shows the same figures
@pytest.mark.parametrize("name,k,least", [("spiral", 3, 1.0), ("breast_wbc", 2, 0.8),
                                          ("compound", 6, 0.75)])
def test_a_given_number_of_clusters_is_shown_by_the_clearest_tree(name, k, least, shared_data):
    X, y = shared_data(name)
    results = []
    for scale in (0.7, 1.0, 1.4, 2.0):
        f = OneClassHinge(X, C=1.0, kernel=Gaussian(gamma=neighbour_gamma(X, scale)))
        for times in (1.3, 2.0, 5.0, np.inf):
            results.append(mm.solve(f.replace(C=min(float(len(X)), times * f.c_min())), seed=0))
    found = assignment.clearest(results, k)
    assert found.n_clusters == k and ari(y, found.labels) >= least
    drops = [level_tree(r).tree.drop(k) for r in results]
    assert found.tree.drop(k) == max(drops) > 0
    with pytest.raises(ParameterError, match="a list of at least one"):
        assignment.clearest([], k)


def literal_merges(domain, i, j, h):
    """Heights at which parts of {edges >= level} merge, from the top down, by flooding."""
    parts = {v: {v} for v in range(domain.n)}
    out = []
    for e in np.argsort(-h, kind="stable"):
        a, b = parts[i[e]], parts[j[e]]
        if a is not b:
            peaks = [max(domain.f[list(s)]) for s in (a, b)]
            out.append(min(peaks) - h[e])
            a |= b
            for v in b:
                parts[v] = a
    return np.sort([p for p in out if p > 1e-12])[::-1]


def test_persistence_is_that_of_a_flood():
    _, _, r = shape(MOONS, 60.0, 1.0)
    tree = level_tree(r, min_size=1).tree
    literal = literal_merges(tree.domain, *tree.edges.T, tree.heights)
    mine = tree.persistence[1:]
    assert np.allclose(mine[mine > 1e-12], literal)
    assert (np.diff(tree.persistence) <= 0).all()
    assert tree.domain.f[tree.root] == tree.domain.f.max()
    for m in tree.merges:
        assert m.persistence == pytest.approx(tree.domain.f[m.peak] - m.height)
        assert tree.domain.f[m.into] >= tree.domain.f[m.peak] >= m.height


def test_the_tree_cut_at_zero_is_the_graph():
    _, _, r = shape(MOONS, None, 1.0)
    found = level_tree(r, min_size=1)
    kept = found.tree.edges[found.tree.heights >= -0.01]
    parts = joined(len(found.labels), *kept.T)
    assert same_partition(parts, graph(r).labels)


def test_each_number_of_clusters_splits_one_of_the_fewer():
    _, _, r = shape(CIRCLES, None, 1.0)
    tree = level_tree(r).tree
    before = tree.labels(1)
    for k in range(2, len(tree.merges) + 2):
        now = tree.labels(k)
        assert len(np.unique(now)) == k
        assert len(np.unique(np.column_stack([before, now]), axis=0)) == k
        before = now
    with pytest.raises(ParameterError, match=f"at most {len(tree.merges) + 1}, the number of"):
        tree.labels(len(tree.merges) + 2)
    assert sum(tree.drop(k) for k in range(1, len(tree.merges) + 2)) == pytest.approx(
        tree.persistence[0])
    assert tree.drop(len(tree.merges) + 2) == 0.0


def test_the_linkage_is_a_dendrogram_of_the_peaks():
    from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage

    _, _, r = shape(CIRCLES, None, 1.0)
    tree = level_tree(r).tree
    Z = tree.linkage()
    assert len(Z) == len(tree.merges) > 3 and is_valid_linkage(Z)
    assert (np.diff(Z[:, 2]) >= 0).all() and Z[-1, 3] == len(Z) + 1
    assert sorted(dendrogram(Z, no_plot=True)["leaves"]) == list(range(len(Z) + 1))
    top = tree.domain.f[tree.root]
    low = min(m.height for m in tree.merges)
    assert fcluster(Z, top - low - 1e-9, "distance").max() == 2
    text = str(tree)
    assert "suggested:" in text and f"{tree.root:>6}" in text


def test_branches_smaller_than_min_size_are_noise():
    _, _, r = shape(MOONS, None, 1.0)
    sizes = [len(level_tree(r, min_size=s).tree.merges) for s in (1, 5, 20, 120)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1] == 1
    assert all(m.size >= 20 for m in level_tree(r, min_size=20).tree.merges)
    with pytest.raises(ParameterError, match="smaller min_size"):
        level_tree(r, 3, min_size=120)


def test_a_small_branch_is_noise_however_high_it_is():
    X = np.r_[np.linspace(0, 1, 10), np.linspace(10, 11, 10), 20.0, 20.1][:, None]
    problem = OneClassHinge(X, C=1e3, kernel=Gaussian(gamma=1.0))
    a = np.r_[np.full(10, 0.2), np.full(10, 0.3), np.full(2, 5.0)]
    tree = level_tree((problem, a), min_size=5).tree
    assert tree.root >= 20 and len(tree.merges) == 1  # the pair is highest, and no cluster
    assert tree.labels(2).tolist() == [1] * 10 + [0] * 12
    assert len(level_tree((problem, a), min_size=2).tree.merges) == 2


def test_sample_points_lie_evenly_between_the_ends(monkeypatch):
    X, _, r = shape(MOONS, None, 0.35)
    domain = Domain.of(r)
    i, j, m = np.arange(40), np.arange(40, 80), 1 + np.arange(40) % 7
    literal = [min(domain.value(X[[a]] * (1 - t) + X[[b]] * t)[0]
                   for t in np.linspace(0, 1, k + 2)[1:-1])
               for a, b, k in zip(i, j, m, strict=True)]
    assert np.allclose(domain.lowest(domain.places, i, j, m), literal)
    monkeypatch.setattr("mmcopt.assignment.domain.POINTS", 5)  # in many small batches
    assert np.allclose(domain.lowest(domain.places, i, j, m), literal)
    few = domain.steps(np.array([0.0, 1.0, 1e9]) / np.sqrt(domain.gamma))
    assert few.tolist() == [3, 9, 50]


# ---------------------------------------------------------------- equilibria


def moved(domain, points):
    """The fixed point map, in the space of the data."""
    return domain.ascend(domain.placed(points)) + domain.shift


def test_the_fixed_point_map_climbs():
    X, _, r = shape(MOONS, None, 0.35)
    domain = Domain.of(r)
    x = np.random.default_rng(0).uniform(-2, 3, (200, 2))
    for _ in range(20):
        new = moved(domain, x)
        assert (domain.value(new) >= domain.value(x) - 1e-12).all()
        x = new
    away = np.array([[1e6, 0.0]])
    assert np.allclose(moved(domain, away), away)  # no pull at all


def test_the_map_and_the_derivatives_are_those_of_f():
    X, _, r = shape(MOONS, None, 0.35)
    domain, h = Domain.of(r), 1e-4
    x = X[:6] + 0.05
    K = np.exp(-domain.gamma * ((x[:, None] - X[None]) ** 2).sum(axis=2)) * r.point
    assert np.allclose(moved(domain, x), K @ X / K.sum(axis=1, keepdims=True))
    steps = np.eye(2) * h
    slope = np.column_stack([domain.value(x + e) - domain.value(x - e) for e in steps]) / (2 * h)
    assert np.allclose(domain.gradient(x), slope, atol=1e-5)
    H = np.array([[[np.dot(e, (domain.gradient(p + g) - domain.gradient(p - g))[0]) / (2 * h * h)
                    for e in steps] for g in steps] for p in x[:, None]])
    assert np.allclose(domain.curvatures(x), np.linalg.eigvalsh((H + H.swapaxes(1, 2)) / 2),
                       atol=1e-4)


def test_equilibria_have_no_gradient_and_trajectories_end_in_them():
    X, _, r = shape(MOONS, None, 0.35)
    found = equilibrium(r, trajectories=True)
    domain = found.domain
    assert np.abs(domain.gradient(found.equilibria)).max() < 1e-6
    assert len(found.trajectories) == len(found.anchors) == found.boundary.sum()
    for start, way in zip(found.anchors, found.trajectories, strict=True):
        assert np.allclose(way[0], X[start])
        gap = np.abs(found.equilibria - way[-1]).max(axis=1).min()
        assert gap < 2e-3 / np.sqrt(domain.gamma)
        assert (np.diff(domain.value(way)) >= -1e-12).all()
    stable = domain.stable(found.equilibria)
    assert stable.any()
    near = found.equilibria[stable] + 1e-3
    assert (domain.value(near) < domain.value(found.equilibria[stable])).all()
    assert equilibrium(r).trajectories is None


def test_a_saddle_is_not_stable():
    X = np.array([[-1.0, 0.0], [1.0, 0.0]])
    domain = Domain.of((OneClassHinge(X, C=2.0, kernel=Gaussian(gamma=1.0)), np.ones(2)))
    middle = np.zeros((1, 2))
    assert np.allclose(domain.gradient(middle), 0.0) and not domain.stable(middle)[0]
    assert domain.curvatures(middle)[0, 1] > 0 > domain.curvatures(middle)[0, 0]


def test_equilibria_of_separate_blobs():
    X, y = mm.datasets.load("blobs:n=90,k=3,sd=.4,seed=1")
    found = equilibrium(solved(X, scale=0.05))
    assert found.n_clusters == 3 and ari(y, found.labels) == 1.0
    m1 = equilibrium(solved(X, scale=0.6), m=1)
    assert m1.n_clusters <= equilibrium(solved(X, scale=0.6), m=40).n_clusters


# ---------------------------------------------------------------- refusals


def test_an_empty_domain_or_band_says_what_to_do():
    X, _, _ = shape(MOONS)
    with pytest.warns(UserWarning, match="the domain is empty"):
        r = mm.solve(OneClassHinge(X, C=0.5, kernel=Gaussian(gamma=9.0)), seed=0)
    with pytest.raises(DataError, match="graph: the domain holds no sample: the largest f is -0"):
        graph(r)
    with pytest.raises(DataError, match=r"no sample has \|f\| <= eps = 0.01; .* use graph"):
        equilibrium(r)
    assert level_tree(r, 1).n_clusters == 1


def test_what_holds_no_decision_function_is_refused():
    X, _, r = shape(MOONS)
    other = mm.solve(mm.formulations.LeastSquares(X[:20], 2), "Tabu", seed=0)
    with pytest.raises(DataError, match="one-class problem.*LeastSquares"):
        graph(other)
    K = r.formulation.rows.fitted.matrix()
    given = (OneClassHinge(K, C=300.0, kernel=Precomputed()), r.point)
    with pytest.raises(DataError, match="give the features"):
        graph(given)
    with pytest.raises(DataError, match="no point"):
        graph((r.formulation, None))


@pytest.mark.parametrize("call,words", [
    (lambda r: graph(r, eps=-1), "graph: eps must be a finite number at least 0; got -1"),
    (lambda r: graph(r, neighbours=0), "neighbours must be an integer at least 1"),
    (lambda r: graph(r, outliers="drop"), "outliers must be one of 'nearest', 'mark'"),
    (lambda r: level_tree(r, 0), "n_clusters must be None or an integer at least 1"),
    (lambda r: level_tree(r, min_size=0), "min_size must be None or an integer"),
    (lambda r: equilibrium(r, m=0), "m must be an integer at least 1"),
    (lambda r: equilibrium(r, trajectories=1), "trajectories must be True or False"),
    (lambda r: neighbour_gamma(r.formulation.X, -1.0), "scale must be a finite number above 0")])
def test_parameters_are_checked(call, words):
    with pytest.raises(ParameterError, match=words):
        call(shape(MOONS)[2])


def test_gamma_by_neighbours_scales_with_the_data():
    X, _, _ = shape(MOONS)
    g = neighbour_gamma(X)
    assert neighbour_gamma(10.0 * X + 3.0) == pytest.approx(g / 100)
    assert neighbour_gamma(np.repeat(X, 9, axis=0)) == pytest.approx(g)
    D = np.sort(((X[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, 7]
    assert g == pytest.approx(0.85 / np.median(D))
    assert neighbour_gamma([[0.0], [2.0]], 1.0) == pytest.approx(0.25)
    with pytest.raises(DataError, match="all samples are equal"):
        neighbour_gamma(np.ones((5, 2)))


@pytest.mark.as_given
def test_a_pair_from_scikit_learn():
    from sklearn.svm import OneClassSVM

    X, y, _ = shape(MOONS)
    model = OneClassSVM(gamma=10.0, nu=0.05, tol=1e-6).fit(X)
    found = graph(OneClassHinge.from_one_class_svm(model, X))
    assert ari(y, found.labels) == 1.0
    assert found.outside.sum() <= 0.05 * len(X)


def test_a_sphere_has_the_clusters_of_its_half_space():
    X, y = mm.datasets.load("moons:n=200,noise=.05,seed=0")
    sphere = mm.formulations.Hypersphere(X, C=50.0, kernel=Gaussian(gamma=10.0))
    result = mm.solve(sphere, seed=0)
    found = graph(result)
    same = graph(sphere.half_space(result.point))
    np.testing.assert_array_equal(found.labels, same.labels)
    assert found.n_clusters == 2
