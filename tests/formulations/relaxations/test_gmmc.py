"""GMMC: below the problem for a slack of 1/2, above it for more, never above the lifted margin."""

import numpy as np
import pytest
from relaxed import hinge_optimum as optimum
from relaxed import hinge_problem, program, solved

import mmcopt as mm
from mmcopt.errors import ParameterError
from mmcopt.formulations.relaxations import GMMC, Lifted

RELAXED = GMMC.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    assert solved(r.reference()) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.objective(point) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.bound(duals) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.bound(duals) <= optimum(r.problem) + 1e-9
    assert value <= program(Lifted(r.problem))[0] + 1e-7


@CASES
def test_no_duals_give_a_bound_above_the_value(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    for _ in range(100):
        scale = 10.0 ** rng.uniform(-6, 3)
        wild = {k: v + scale * rng.standard_normal(np.shape(v)) for k, v in duals.items()}
        assert 0.0 <= r.bound(wild) <= value + 1e-6


def test_above_one_half_it_exceeds_the_optimum_and_proves_nothing():
    exceeded = 0
    for seed in range(0, 24, 2):
        f = hinge_problem(seed, k=2, biased=True)
        best = optimum(f)
        assert program(GMMC(f))[0] <= best + 1e-6
        paper = GMMC(f, slack=1.0)
        value, _, duals = program(paper)
        exceeded += value > best + 1e-3
        assert paper.bound(duals) == 0.0
        assert "GMMC: not a bound" in str(paper) and "bounds" in str(paper)
    assert exceeded >= 3


def test_the_slack_is_an_option():
    f = RELAXED[0].problem
    assert f.relax("gmmc", slack=0.25).slack == 0.25
    with pytest.raises(ParameterError, match="slack"):
        f.relax("gmmc", slack=0.0)
    small, large = (mm.solve(f.relax("gmmc", slack=b)).lower_bound for b in (0.25, 0.5))
    assert small <= large + 1e-8
    assert str(RELAXED[0]).startswith("GMMC: a lower bound on CPM3C\n")
    assert "0.5/n sum_i max(0, 1 - x_i'Vx_i)" in str(RELAXED[0])
