"""The relaxation of DIFFRAC: its program, its bound for any duals, and that partition is above."""


import numpy as np
import pytest
from relaxed import is_the_literal_program, optimum, program, solved

from mmcopt.capabilities import ConvexProgram, LabelQuadratic
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.formulations.relaxations import DiffracRelaxation, Partition

RELAXED = DiffracRelaxation.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    is_the_literal_program(r)


@CASES
def test_no_duals_give_a_bound_above_the_optimum(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    best = optimum(r.problem)
    for _ in range(120):
        scale = 10.0 ** rng.uniform(-6, 3)
        wild = {k: v + scale * rng.standard_normal(np.shape(v)) for k, v in duals.items()}
        bound = r.bound(wild)
        assert bound <= best
        assert bound <= value + 1e-6 * (1 + abs(value))


@CASES
def test_partition_is_never_below(r):
    p = Partition(r.problem)
    assert solved(p.offer(ConvexProgram).build(None).problem) >= program(r)[0] - 1e-6


def test_partition_is_above_somewhere():
    r = DiffracRelaxation(LeastSquares.examples()[1])
    above = solved(Partition(r.problem).offer(ConvexProgram).build(None).problem)
    assert above > program(r)[0] + 1e-3


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
        assert f.violation(r.recover(point)) == 0.0


def test_the_point_and_the_variable_are_the_same_matrix():
    r = RELAXED[0]
    assert r.lift.floor == 0.0 and r.lift.top == 1.0
    problem = r.to_cvxpy()
    assert solved(problem) == pytest.approx(program(r)[0], rel=1e-6)
    M = r.variables["M"].value
    np.testing.assert_allclose(np.diagonal(M), 1.0, atol=1e-7)
    np.testing.assert_allclose(M, program(r)[1], atol=1e-4)


def test_the_statement_names_its_cone():
    text = str(RELAXED[0])
    assert text.startswith("DiffracRelaxation: a lower bound on Diffrac\n")
    assert "M psd, diag M = 1, M >= 0" in text and "3 <= (Mw)_i <= 6, w'Mw <= 45" in text
    assert r"M \succeq 0,\ \operatorname{diag} M = 1" in RELAXED[0]._repr_latex_()


def test_it_is_registered_and_refuses_one_cluster():
    f = RELAXED[0].problem
    assert type(f.relax("diffrac")) is DiffracRelaxation
    assert "never better than partition" in str(f.relaxations())
    with pytest.raises(IncompatibleError, match="nothing to relax"):
        LeastSquares(f.X, 1).relax("diffrac")
