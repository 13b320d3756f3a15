"""The kernel of the graph of neighbours, against its definition in plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import KernelKMeans, LeastSquares
from mmcopt.kernels import Gaussian, Linear, Neighbors, neighbors
from mmcopt.kernels.neighbors import distinct

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 3))
FAR = np.vstack([X, X[:40] + 50.0])  # two parts that no edge joins
NEW = RNG.standard_normal((7, 3))


def literal(X, count=10, weights="self-tuning", t=100.0):
    """(I + t L)^-1 over all rows of X, which are distinct."""
    n = len(X)
    D = np.array([[np.linalg.norm(x - z) for z in X] for x in X])
    near = [[j for j in np.argsort(D[i], kind="stable") if j != i][:count] for i in range(n)]
    scale = [D[i, near[i][min(7, len(near[i])) - 1]] for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in near[i]:
            W[i, j] = W[j, i] = 1.0 if weights == "binary" else \
                np.exp(-D[i, j] ** 2 / (scale[i] * scale[j]))
    d = W.sum(axis=1)
    return np.linalg.inv(np.eye(n) + t * (np.eye(n) - W / np.sqrt(np.outer(d, d))))


@pytest.fixture
def factors(monkeypatch):
    """Data of more than 20 rows count as large."""
    monkeypatch.setattr(neighbors, "DENSE", 20)


@pytest.mark.parametrize("weights", ["self-tuning", "binary"])
@pytest.mark.parametrize("count, t", [(10, 100.0), (3, 1.0), (500, 7.0)])
@pytest.mark.parametrize("rows", [X, FAR], ids=["one part", "two parts"])
def test_it_is_its_definition(weights, count, t, rows):
    K = Neighbors(count, weights, t).fit(rows).matrix()
    np.testing.assert_allclose(K, literal(rows, count, weights, t), atol=1e-12)
    scaled = Neighbors(count, weights, t).fit(1e-90 * rows).matrix()
    np.testing.assert_allclose(scaled, K, atol=1e-10)


def test_copies_are_one_sample_of_the_graph():
    again = np.array([0, 3, 3, 59, 20, 3])
    K = Neighbors().fit(np.vstack([X, X[again]])).matrix()
    place = np.append(np.arange(60), again)
    np.testing.assert_allclose(K, literal(X)[np.ix_(place, place)], atol=1e-12)
    first, node = distinct(np.array([[0.0, 1.0], [2.0, 2.0], [-0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]))
    assert first.tolist() == [0, 1, 3] and node.tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("rows", [X, FAR], ids=["one part", "two parts"])
def test_leading_directions_are_those_of_the_matrix(factors, monkeypatch, rows):
    monkeypatch.setattr(neighbors, "DIRECTIONS", 45)
    f = Neighbors(5).fit(rows)
    w, V = np.linalg.eigh(literal(rows, 5))
    leading = (V[:, -45:] * w[-45:]) @ V[:, -45:].T
    np.testing.assert_allclose(f.features() @ f.features().T, leading, atol=1e-8)
    np.testing.assert_allclose(f.matrix(), leading, atol=1e-8)
    np.testing.assert_allclose(f.rows([3, 9], [1, 2, 5]), f.matrix()[np.ix_([3, 9], [1, 2, 5])],
                               atol=1e-12)
    few = Neighbors(5).pca(rank=6).fit(rows).features()
    np.testing.assert_allclose(few @ few.T, (V[:, -6:] * w[-6:]) @ V[:, -6:].T, atol=1e-8)


@pytest.mark.parametrize("kernel", [Neighbors(), Neighbors(4, "binary").unit(),
                                    Neighbors().pca(rank=5).unit(), Neighbors() * Gaussian(width=1),
                                    Neighbors().nystroem(20), Neighbors().on([0, 2])], ids=repr)
@pytest.mark.parametrize("large", [False, True])
def test_a_training_row_is_itself_and_a_new_one_between_its_neighbours(kernel, large, request):
    if large:
        request.getfixturevalue("factors")
    f = kernel.fit(X)
    K = f.matrix()
    np.testing.assert_allclose(f.cross(X), K, atol=1e-12)
    np.testing.assert_allclose(f.self_values(X), np.diag(K), atol=1e-12)
    np.testing.assert_allclose(f.diagonal(), np.diag(K), atol=1e-12)
    np.testing.assert_allclose(f.rows([3, 9], [1, 2, 5]), K[np.ix_([3, 9], [1, 2, 5])], atol=1e-12)
    near, step = X[:4] + 1e-7, np.abs(f.cross(X[:4] + 1e-7) - K[:4]).max()
    assert 0.0 < step < 1e-5, near  # it is continuous there
    both = np.vstack([K, f.cross(NEW)])
    assert np.abs(both).max() < 1.0 + 1e-9 and np.isfinite(f.self_values(NEW)).all()


def test_a_new_row_by_hand():
    line = np.array([[0.0], [1.0], [2.0], [4.0]])
    K = literal(line, 2, "binary", 1.0)
    p = np.array([0.0, 1.0, 9.0, 0.0]) / 10.0  # 1.75 is .75 from the second, .25 from the third
    f = Neighbors(2, "binary", 1.0).fit(line)
    np.testing.assert_allclose(f.cross([[1.75]]), (p @ K)[None], atol=1e-12)
    np.testing.assert_allclose(f.self_values([[1.75]]), [p @ K @ p], atol=1e-12)


@pytest.mark.parametrize("weights", ["self-tuning", "binary"])
def test_the_cut_is_the_share_of_edges_that_leave(weights):
    f, y = Neighbors(5, weights).fit(np.vstack([X, X[:3]])), np.arange(63) % 3
    L = np.linalg.inv(literal(X, 5, weights, 1.0)) - np.eye(60)  # I - D^-1/2 W D^-1/2
    w, V = np.linalg.eigh(L)
    degree = V[:, 0] ** 2  # up to a factor
    W = (np.eye(60) - L) * np.sqrt(np.outer(degree, degree))
    shares = [W[np.ix_(y[:60] == h, y[:60] != h)].sum() / degree[y[:60] == h].sum()
              for h in range(3)]
    assert f.cut(y) == pytest.approx(np.mean(shares), abs=1e-9)
    assert f.cut(10 - 5 * y) == pytest.approx(np.mean(shares), abs=1e-9)
    assert Neighbors(5, weights).fit(FAR).cut(np.arange(100) >= 60) == pytest.approx(0, abs=1e-12)


def test_large_data_look_for_neighbours_in_principal_components(factors, monkeypatch):
    monkeypatch.setattr(neighbors, "WIDE", 3)
    Q = np.linalg.qr(RNG.standard_normal((8, 8)))[0][:3]
    f, g = Neighbors().fit(X @ Q), Neighbors().fit(X)
    np.testing.assert_allclose(f.matrix(), g.matrix(), atol=1e-8)
    np.testing.assert_allclose(f.cross(NEW @ Q), g.cross(NEW), atol=1e-8)
    np.testing.assert_allclose(f.new_features(X @ Q), f.features(), atol=1e-9)


def test_unit_leaves_the_angles():
    for kernel in (Linear(), Linear() + Gaussian(width=0.5), Neighbors()):
        K, f = kernel.fit(X).matrix(), kernel.unit().fit(X)
        d = np.sqrt(np.diag(K))
        np.testing.assert_allclose(f.matrix(), K / np.outer(d, d), atol=1e-12)
        np.testing.assert_allclose(f.cross(NEW), kernel.fit(X).cross(NEW)
                                   / np.outer(np.sqrt(kernel.fit(X).self_values(NEW)), d),
                                   atol=1e-12)
        for ones in (np.diag(f.matrix()), f.diagonal(), f.self_values(NEW)):
            np.testing.assert_allclose(ones, 1.0, atol=1e-14)
    with pytest.raises(DataError, match=r"row 2 of X has length 0 in the feature space of Linear"):
        Linear().unit().fit([[1.0, 2.0], [0.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("name", ["moons:n=200,noise=.05", "circles:n=200,noise=.03"])
def test_clusters_of_any_shape(name, factors, monkeypatch):
    X, y = mm.datasets.load(name)
    for dense in (20, 5000):
        monkeypatch.setattr(neighbors, "DENSE", dense)
        problem = KernelKMeans(X, 2, kernel=Neighbors().unit())
        result = mm.solve(problem, seed=0)
        assert mm.metrics.accuracy(y, result.labels) == 1.0 and result.verify()
        f = LeastSquares(X, 2, kernel=Neighbors())
        assert mm.metrics.accuracy(y, f.decision_function(y, X).argmax(axis=1)) == 1.0


def test_refusals():
    with pytest.raises(DataError, match="all rows are identical, so none has a neighbour"):
        Neighbors().fit(np.ones((4, 2)))
    with pytest.raises(ParameterError, match="weights must be one of 'self-tuning', 'binary'"):
        Neighbors(weights="heat")


def test_a_graph_in_too_many_parts_is_refused(factors, monkeypatch):
    monkeypatch.setattr(neighbors, "PARTS", 3)
    pairs = np.repeat(100.0 * np.arange(12.0), 2)[:, None] + np.tile([0.0, 1.0], 12)[:, None]
    with pytest.raises(DataError, match="falls into 12 parts; ask for more neighbours"):
        Neighbors(1).fit(pairs)


def test_a_sample_far_from_all_others_is_all_but_alone():
    far = np.vstack([1e-6 * X, np.full((1, 3), 1e3)])
    K = Neighbors().fit(far).matrix()
    assert np.isfinite(K).all() and K[-1, -1] == pytest.approx(1 / 101)  # all that I + t L holds
    np.testing.assert_allclose(K[-1, :-1], 0.0, atol=1e-6)


# ---------------------------------------------------------------- sparse rows


def holes(seed, n=60, d=12):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)


def test_sparse_rows_have_the_graph_of_dense_ones():
    A, new = holes(0), holes(1, 9)
    dense, sparse = Neighbors().fit(A), Neighbors().fit(sp.csr_array(A))
    np.testing.assert_allclose(sparse.matrix(), dense.matrix(), atol=1e-12)
    np.testing.assert_allclose(sparse.cross(sp.csr_array(new)), dense.cross(new), atol=1e-12)
    np.testing.assert_allclose(sparse.cross(sp.csr_array(A)), sparse.matrix(), atol=1e-12)
    assert sparse.cut(np.arange(60) % 3) == pytest.approx(dense.cut(np.arange(60) % 3), rel=1e-9)


def test_many_sparse_rows_are_held_by_directions_of_singular_vectors(factors, monkeypatch):
    monkeypatch.setattr(neighbors, "WIDE", 10)
    basis = np.linalg.qr(holes(3, 30, 10))[0].T  # ten directions of thirty
    A = np.round(holes(2, 60, 10) @ basis, 12)
    sparse, dense = Neighbors().fit(sp.csr_array(A)), Neighbors().fit(A)
    assert sparse.explicit and dense.explicit
    np.testing.assert_allclose(sparse.matrix(), dense.matrix(), atol=1e-8)
    np.testing.assert_allclose(sparse.cross(sp.csr_array(A[:9])), sparse.matrix()[:9], atol=1e-8)


def test_sparse_rows_that_are_written_in_other_ways_are_one_node():
    indptr = np.array([0, 2, 4, 7, 9])
    columns, values = [0, 2, 2, 0, 0, 1, 2, 1, 2], [1.0, 2.0, 2.0, 1.0, 1.0, 0.0, 2.0, 1.0, 2.0]
    A = sp.csr_array((np.array(values), np.array(columns), indptr), shape=(4, 3))
    first, node = distinct(A)
    assert first.tolist() == [0, 3] and node.tolist() == [0, 0, 0, 1]
    assert A.nnz == 9  # left as it was


# ---------------------------------------------------------------- fits that are shared


def test_a_graph_that_is_known_is_not_made_again(monkeypatch):
    made = []
    graph = neighbors._Diffusion._graph
    monkeypatch.setattr(neighbors._Diffusion, "_graph", lambda self: made.append(1) or graph(self))
    first = Neighbors().fit(X)
    again = Neighbors().unit().fit(X.copy(), like=first)
    assert len(made) == 1 and next(again.leaves()) is first
    alone = Neighbors().unit().fit(X)
    assert np.array_equal(again.matrix(), alone.matrix()) and len(made) == 2
    for other, rows in ((Neighbors(), NEW), (Neighbors(n_neighbors=3), X),
                        (Neighbors().on((0, 1)), X), (Neighbors(), X.astype(np.float32)),
                        (Neighbors(), sp.csr_array(X))):
        assert next(other.fit(rows, like=first).leaves()) is not first


def test_both_objectives_on_the_graph_are_solved_on_one(monkeypatch):
    made = []
    graph = neighbors._Diffusion._graph
    monkeypatch.setattr(neighbors._Diffusion, "_graph", lambda self: made.append(1) or graph(self))
    mm.selection.by_graph(mm.solve(LeastSquares(X, 2), "Tabu", seed=0))
    assert len(made) == 1
