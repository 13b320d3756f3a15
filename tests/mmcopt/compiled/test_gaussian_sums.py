"""The compiled loops of Gaussians, against NumPy and against the recursion as printed."""

import numpy as np
import pytest

from mmcopt.compiled import gaussian_sums
from mmcopt.kernels import Gaussian, Laplacian, Linear, Polynomial, Precomputed
from mmcopt.kernels.on_demand import Gaussians, KernelRows

RNG = np.random.default_rng(0)
KERNELS = [Gaussian(gamma=0.7), Polynomial(2), Linear(), Laplacian(gamma=1.0),
           Gaussian(gamma=0.5).nystroem(20), Gaussian(gamma=1.0).centered(),
           Gaussian(gamma=0.2) + 0.3 * Polynomial(2)]


@pytest.mark.nojit
def test_exp_is_right_to_four_ulps_and_vanishes_far_out():
    x = np.concatenate([-RNG.uniform(0, 700, 5000), -10.0 ** RNG.uniform(-300, 2, 500), [0.0]])
    y = x.copy()
    gaussian_sums.exp_negative(y, np.empty_like(y))
    assert np.abs(y / np.exp(x) - 1).max() < 4 * np.finfo(float).eps
    assert y[-1] == 1.0
    far = np.array([-800.0, -1e5, -1e300, -np.inf])
    gaussian_sums.exp_negative(far, np.empty(4))
    assert (far < 1e-303).all() and (far >= 0).all()


@pytest.mark.parametrize("d", [1, 2, 3, 8, 21])
def test_rows_and_sums_equal_numpy(d):
    X, Z = RNG.standard_normal((1100, d)), RNG.standard_normal((7, d))  # more than a block
    a, g = RNG.standard_normal(7), 0.4
    K = np.exp(-g * ((Z[:, None, :] - X[None]) ** 2).sum(axis=2))
    some = Gaussians(np.ascontiguousarray(X.T), g)
    np.testing.assert_allclose(some.rows(Z), K, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(some.sums(Z, a), a @ K, rtol=1e-11, atol=1e-13)
    ST, e, t = np.ascontiguousarray(X.T), np.empty(600), np.empty(600)
    b = RNG.standard_normal(1100)
    one = gaussian_sums.gaussian_value(ST, 900, b, g, Z[0], e, t)
    assert one == pytest.approx(b[:900] @ K[0, :900], rel=1e-10)


@pytest.mark.parametrize("d", [2, 25])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_rows_on_demand_equal_the_matrix(kernel, d):
    X, Z = RNG.standard_normal((90, d)), RNG.standard_normal((8, d))
    fitted = kernel.fit(X)
    K, rows = fitted.matrix(), KernelRows(fitted)
    some, a = np.array([3, 80, 5]), RNG.standard_normal(90) * (RNG.random(90) < 0.4)
    scale = np.abs(K).max()
    for found, wanted in ((rows.rows(some), K[some]), (rows.among(some), K[np.ix_(some, some)]),
                          (rows.times(a), K @ a), (rows.at(a, Z), fitted.cross(Z) @ a),
                          (rows.diagonal, np.diag(K))):
        np.testing.assert_allclose(found, wanted, atol=1e-11 * scale * 90)
    keep = np.array([70, 2, 3, 50])
    part, P = rows.subset(keep), K[np.ix_(keep, keep)]
    here = np.array([1, 3])
    for found, wanted in ((part.rows(here), P[here]), (part.among(here), P[np.ix_(here, here)]),
                          (part.times(a[:4]), P @ a[:4]), (part.diagonal, np.diag(P)),
                          (part.subset(here).times(a[:2]), P[np.ix_(here, here)] @ a[:2])):
        np.testing.assert_allclose(found, wanted, atol=1e-11 * scale * 90)


def test_a_precomputed_kernel_has_rows_too():
    X = RNG.standard_normal((12, 2))
    K = X @ X.T
    rows = KernelRows(Precomputed().fit(K))
    np.testing.assert_allclose(rows.rows(np.array([4])), K[[4]])
    np.testing.assert_allclose(rows.at(np.arange(12.0), K[:3]), K[:3] @ np.arange(12.0))


def recursion(K, C, picks):
    """Algorithm 1 as printed: the coefficients of every w, and the length of every move."""
    a, points, moves = np.zeros(len(K)), [], []
    for t, i in enumerate(picks, start=1):
        before, violated = a.copy(), a @ K[i] < 1
        a = (1 - 1 / t) * a
        a[i] += C / t * violated
        points.append(a.copy())
        moves.append(np.sqrt(max((a - before) @ K @ (a - before), 0.0)))
    return points, moves


def play(kind, X, C, picks, theta):
    """The compiled rounds for a kernel, in one call or many."""
    n = len(X)
    counts, memory = np.zeros(n, dtype=np.int64), np.zeros(4)
    place, raw = np.full(n, -1, dtype=np.int64), np.zeros(n)
    if kind == "gaussian":
        K = Gaussian(gamma=0.6).fit(X).matrix()
        ST = np.empty((X.shape[1], n))

        def rounds(p):
            return gaussian_sums.gaussian_rounds(X, 0.6, p, C, theta, counts, place, ST, raw,
                                                 memory)
    elif kind == "matrix":
        K, at = Polynomial(2).fit(X).matrix(), np.empty(n, dtype=np.int64)

        def rounds(p):
            return gaussian_sums.matrix_rounds(K, p, C, theta, counts, place, at, raw, memory)
    else:
        K, v = X @ X.T, np.zeros(X.shape[1])

        def rounds(p):
            return gaussian_sums.feature_rounds(X, p, C, theta, counts, v, memory)
    done = sum(rounds(part) for part in np.array_split(picks, 3) if memory[3] == 0.0)
    return K, counts, memory, done


@pytest.mark.nojit
@pytest.mark.parametrize("kind", ["gaussian", "matrix", "features"])
@pytest.mark.parametrize("C", [0.5, 7.0, 200.0])
def test_integer_counts_are_the_recursion_as_printed(kind, C):
    X = np.random.default_rng(1).standard_normal((20, 3)) + 1.0
    picks = np.random.default_rng(2).integers(20, size=150)
    K, counts, memory, done = play(kind, X, C, picks, -1.0)
    points, moves = recursion(K, C, picks)
    assert done == 150 == memory[0]
    np.testing.assert_allclose(C * counts / 150, points[-1], rtol=1e-12, atol=1e-12)
    raw = counts.astype(float)
    assert memory[1] == pytest.approx(raw @ K @ raw, rel=1e-12)
    theta = float(np.median(moves[10:]))
    first = next(t for t, m in enumerate(moves, start=1) if m <= theta)
    K, counts, memory, done = play(kind, X, C, picks, theta * (1 + 1e-9))
    assert memory[3] == 1.0 and done == first == memory[0]
    np.testing.assert_allclose(C * counts / first, points[first - 1], rtol=1e-12, atol=1e-12)
