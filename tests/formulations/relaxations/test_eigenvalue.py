"""The eigenvalue relaxation: its program, its bound for any t, its labels."""


import numpy as np
import pytest
from relaxed import is_the_literal_program, optimum, program, solved

import mmcopt as mm
from mmcopt.bounds import certificates
from mmcopt.capabilities import Bounded, LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import Diffrac, LeastSquares
from mmcopt.formulations.relaxations import Eigenvalue
from mmcopt.kernels import Gaussian, Linear

X = np.random.default_rng(0).standard_normal((8, 2))
MORE = [Eigenvalue(LeastSquares(X, 2, lam=0.1, center=False, sizes=0.0)),  # of equal size
        Eigenvalue(LeastSquares(X, 2, lam=0.1, center=False, sizes=Sizes(within=0.3),
                                must_link=[(0, 1), (1, 5)])),
        Eigenvalue(LeastSquares(X[:, :1], 2, kernel=Linear(), lam=0.5, center=False, sizes=0.3,
                                must_link=[(2, 3)]))]
RELAXED = [*Eigenvalue.examples(), *MORE]
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    is_the_literal_program(r)


@CASES
def test_no_t_gives_a_bound_above_the_optimum(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    best = optimum(r.problem)
    for _ in range(120):
        t = duals["t"] + 10.0 ** rng.uniform(-6, 3) * rng.standard_normal()
        bound = r.bound({"t": t})
        assert bound <= best
        assert bound <= value + 1e-6 * (1 + abs(value))
    assert r.bound({"t": np.nan}) <= best


@CASES
def test_the_shift_from_golden_section_is_nearly_the_best(r):
    value, point, _ = program(r)
    duals = r.offer(Bounded).duals(point)
    assert duals == {"t": certificates.best_shift(r.lq)}
    trivial = r.bound({"t": 0.0})
    assert trivial <= r.bound(duals) <= value + 1e-6
    if not np.isinf(r.room) and r.room > 0:
        assert r.bound(duals) >= value - 0.06 * abs(value)


@CASES
def test_labels_are_points_of_the_same_objective_and_are_recovered(r):
    f, rng = r.problem, np.random.default_rng(2)
    lq = f.offer(LabelQuadratic)
    for _ in range(10):
        c = lq.expand(lq.random_labels(rng))
        point = r.from_labels(c)
        assert r.violation(point) < 1e-9
        assert r.objective(point) == pytest.approx(f.objective(c), rel=1e-9, abs=1e-12)
    for point in (program(r)[1], r.from_labels(c)):
        found = r.labels(point)
        assert f.violation(found) == 0.0
        assert np.array_equal(found, r.recover(point))
    assert f.objective(found) <= f.objective(c) + 1e-9


def test_violations_are_seen():
    r = RELAXED[2]
    point = program(r)[1]
    assert r.violation(point + 1e-3 * np.eye(9)) == pytest.approx(9e-3, rel=1e-3)
    assert r.violation(point - np.diag([1.0] + [0] * 8)) > 0.1
    one = r.from_labels(np.zeros(9, int))  # one big cluster breaks the sizes
    assert r.violation(one) > 1.0


def test_variables_are_over_nodes_and_samples():
    r = RELAXED[-2]  # must-links: 6 nodes, 8 samples
    problem, variables = r.to_cvxpy(), r.variables
    assert variables["X"].shape == (6, 6) and variables["M"].shape == (8, 8)
    solved(problem)
    M = variables["M"].value
    w = np.ones(8)
    low, high = r.lq.low, r.lq.high
    assert w @ M @ w <= certificates.square_sums(low, high, 8)[1] + 1e-5
    np.testing.assert_allclose(M[0], M[5], atol=1e-8)
    import cvxpy as cp

    before = problem.value
    tighter = solved(cp.Problem(problem.objective, [*problem.constraints,
                                                    cp.diag(variables["M"]) == 1]))
    assert tighter >= before - 1e-6


def test_a_factor_leaves_the_sizes_out():
    f = LeastSquares(X[:, :1], 2, kernel=Linear(), center=False, sizes=0.0)
    assert f.low_rank
    r = f.relax("eig")
    assert np.isinf(r.room) and "sizes" not in str(r.statement().rows[3][0])
    assert r.bound({"t": 5.0}) == r.bound({"t": 0.0})
    assert program(r)[2] == {"t": 0.0}
    # contracted, the matrix is dense, and the sizes count
    assert np.isfinite(Eigenvalue(f.replace(must_link=[(0, 1)])).room)


def test_it_relaxes_a_label_quadratic_of_ones_own():
    rng = np.random.default_rng(3)
    A = rng.integers(0, 3, (7, 7)).astype(float)

    class Own:
        n, n_clusters = 7, 3

        def offer(self, kind):
            return LabelQuadratic(-(A + A.T), k=3) if kind is LabelQuadratic else None

        objective = staticmethod(lambda c: LabelQuadratic(-(A + A.T), k=3).value(c))
        violation = staticmethod(lambda c: LabelQuadratic(-(A + A.T), k=3).violation(c))

    r = Eigenvalue(Own())
    value, _, duals = program(r)
    assert r.bound(duals) == pytest.approx(value, rel=1e-5)
    assert value <= optimum(r.problem)


def test_it_is_registered_priced_and_refuses_one_cluster():
    f = Diffrac(X, 2, kernel=Gaussian(width=0.5), sizes=0.2)
    assert type(f.relax("eig")) is Eigenvalue and "eig" in f.relaxations().kinds
    assert 0 < Eigenvalue.memory(f) < 1e6 and Eigenvalue.seconds(f) == 0.01
    big = Diffrac(np.zeros((1, 1)) + np.arange(50.0)[:, None], 2, kernel=Linear())
    assert Eigenvalue.memory(big) == 8.0 * 2 * 50 * 2
    with pytest.raises(IncompatibleError, match="one labeling, and nothing to relax"):
        LeastSquares(X, 1).relax("eig")


def test_the_statement():
    text = str(RELAXED[2])
    assert text.startswith("Eigenvalue: a lower bound on LeastSquares\n")
    assert "tr X = 4.5" in text and "w'Mw <= 45" in text
    assert r"\operatorname{tr} X = 4.5" in RELAXED[2]._repr_latex_()


def test_the_class_is_saved_with_its_problem():
    r = RELAXED[5]
    again = type(r)(**r.params())
    assert again.fingerprint == r.fingerprint != RELAXED[4].fingerprint
    assert mm.registry.relaxations()["eig"] is Eigenvalue
