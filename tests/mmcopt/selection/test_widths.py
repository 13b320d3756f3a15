"""How wide a kernel may be: by the literal matrix, and on lattices whose clusters are known."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, MMCWarning, ParameterError
from mmcopt.formulations import Diffrac, DiscriminativeKMeans, LeastSquares
from mmcopt.kernels import Gaussian, Linear
from mmcopt.selection import resolving
from mmcopt.selection.widths import RESOLVING


def lattice(side, dimensions, seed=0, apart=8.0, each=20):
    """Round clusters on the points of a lattice, and which is which."""
    rng = np.random.default_rng(seed)
    C = apart * np.stack(np.meshgrid(*[np.arange(side)] * dimensions), -1).reshape(-1, dimensions)
    y = np.arange(each * len(C)) % len(C)
    return C[y] + rng.standard_normal((len(y), dimensions)), y


@pytest.mark.parametrize("f", [
    LeastSquares(lattice(3, 2)[0], 9, lam=0.3), LeastSquares(lattice(2, 2)[0], 4, center=False),
    LeastSquares(lattice(2, 2)[0], 4, kernel=Gaussian(width=0.5).nystroem(20)),
    Diffrac(lattice(2, 2)[0], 4), DiscriminativeKMeans(lattice(2, 2)[0], 4)])
def test_the_effective_dimension_is_the_literal_trace(f):
    K = np.asarray(f.fitted.matrix())
    R = K @ np.linalg.inv(K + f.shift * np.eye(f.n))
    assert f.effective_dimension == pytest.approx(np.trace(R), rel=1e-9)


@pytest.mark.parametrize("side, dimensions", [(4, 2), (5, 2), (2, 3), (12, 1)])
def test_the_widest_kernel_of_so_many_directions(side, dimensions):
    X, y = lattice(side, dimensions)
    k = side**dimensions
    kernel = resolving(X, k)
    f = LeastSquares(X, k, kernel=kernel)
    assert RESOLVING * k <= f.effective_dimension < 1.1 * RESOLVING * k
    assert mm.metrics.accuracy(y, mm.solve(f, seed=0, bound=False).labels) == 1.0
    assert resolving(X, k, lam=1e-3).width > kernel.width  # more directions are above it


def test_a_wide_kernel_stays_where_it_has_enough():
    X, _ = mm.datasets.load("digits:3,8")
    assert resolving(X, 2) == Gaussian(width=1.0)


def test_part_of_the_rows_tells_as_much():
    X, _ = lattice(4, 2, each=150)
    whole = LeastSquares(X, 16, kernel=resolving(X, 16))  # 2,400 rows, of which 500 are seen
    assert whole.effective_dimension == pytest.approx(RESOLVING * 16, rel=0.1)


def test_copies_and_few_rows_leave_half_of_what_there_is():
    X = np.repeat(np.arange(6.0)[:, None], 10, axis=0)
    f = LeastSquares(X, 3, kernel=resolving(X, 3))  # five directions at most
    assert 2.2 <= f.effective_dimension <= 3.5
    assert resolving(np.arange(4.0)[:, None], 3).width > 0.1


def test_it_refuses_in_words():
    with pytest.raises(DataError, match="all rows are identical"):
        resolving(np.ones((5, 2)), 2)
    with pytest.raises(ParameterError, match="resolving: n_clusters must be"):
        resolving(np.eye(5), 0)
    with pytest.raises(ParameterError, match="resolving: lam must be"):
        resolving(np.eye(5), 2, lam=0.0)


def test_few_directions_are_cautioned_where_the_fit_is_poor():
    X, _ = lattice(4, 2)
    with pytest.warns(MMCWarning, match=r"few for 16 clusters, and \d\d% of what these differ by"):
        r = mm.solve(LeastSquares(X, 16), "Tabu", seed=0, max_iter=50)
    assert "resolving(X, 16)" in r.message
    mm.solve(LeastSquares(X, 16, kernel=resolving(X, 16)), "Tabu", seed=0, max_iter=50)
    mm.solve(LeastSquares(X, 16, kernel=Linear()), "Tabu", seed=0, max_iter=50)  # has no width
    Y, _ = lattice(2, 1, each=40)  # two directions follow two groups
    mm.solve(LeastSquares(Y, 2), "Tabu", seed=0)
