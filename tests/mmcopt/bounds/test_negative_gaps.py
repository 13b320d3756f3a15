"""A bound above the objective closes nothing, and no rung is shown above what is proved."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.certificates import capped
from mmcopt.formulations import CrammerSinger, LeastSquares
from mmcopt.formulations.relaxations import MaxCutRelaxation, PartitionCuts
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import ClimbEnd, Status
from mmcopt.solving.ladder import with_rungs


@pytest.fixture(scope="module")
def machine():
    """A convex problem with a balance, solved."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((18, 3)) + 2.0 * (np.arange(18) % 2)[:, None]
    f = CrammerSinger(X, np.arange(18) % 2, beta=0.05, center=False, balance=0.4)
    return mm.solve(f, mm.solvers.CuttingPlane(epsilon=1e-9, alpha=1e-13))


@pytest.fixture(scope="module")
def climbed():
    X = np.random.default_rng(1).standard_normal((26, 3))
    problem = LeastSquares(X, 2, kernel=Gaussian(width=0.3))
    return mm.evaluate(problem, np.arange(26) % 2).certify(time_limit=0.5, improve=False)


@pytest.mark.as_given
@pytest.mark.parametrize("relaxed", [*MaxCutRelaxation.examples()[:4], PartitionCuts.examples()[2]])
def test_a_point_that_is_nearly_feasible_and_cheaper_than_the_bound_is_not_certified(relaxed):
    result = mm.solve(relaxed, "RegularizedDual", seed=0)
    assert result.verify(), str(result.verify())
    forged = dataclasses.replace(result, status=Status.CERTIFIED)
    if result.lower_bound > result.objective:
        assert result.status is not Status.CERTIFIED and not forged.verify()
    assert result.status is not Status.CERTIFIED or result.gap >= 0.0


@pytest.mark.parametrize("violation", [0.0, 1e-16, 1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize("excess", [1e-14, 1e-8, 1e-6, 9e-5, 1e-3])
def test_no_negative_gap_proves_anything(machine, violation, excess):
    above = dataclasses.replace(machine, violation=violation,
                                lower_bound=machine.objective * (1 + excess))
    assert above.gap < 0.0 and not above.proves(1e-4)
    assert machine.status is Status.CERTIFIED and above.closing().status is Status.CONVERGED
    assert not dataclasses.replace(above, status=Status.CERTIFIED).verify()


def test_a_violation_by_rounding_buys_nothing(machine):
    value = machine.objective
    for violation in (0.0, 1e-16, 1e-14):
        rounded = dataclasses.replace(machine, violation=violation, lower_bound=value * (1 + 1e-13))
        assert capped(rounded).lower_bound == value and capped(rounded).gap == 0.0
        wrong = dataclasses.replace(rounded, lower_bound=value * (1 + 1e-6))
        with pytest.warns(mm.errors.MMCWarning, match="one of them is wrong"):
            assert capped(wrong).lower_bound is None
    near = dataclasses.replace(machine, violation=5e-7, lower_bound=value * (1 + 1e-6))
    assert capped(near).lower_bound == near.lower_bound


def test_the_bound_of_a_relaxation_stays_as_proved_where_its_point_is_nearly_feasible():
    result = mm.solve(MaxCutRelaxation.examples()[0], seed=0)
    for violation, excess, kept in ((0.0, 1e-12, False), (1e-10, 1e-12, True), (1e-7, 1e-6, True)):
        lower = result.objective * (1 + excess)
        above = capped(dataclasses.replace(result, violation=violation, lower_bound=lower))
        assert above.lower_bound == (lower if kept else result.objective)


def test_merging_leaves_no_bound_above_the_objective(machine):
    value = machine.objective
    for above, gap in ((1e-14, 0.0), (1e-6, None)):
        dual = dataclasses.replace(machine, objective=1.1 * value, lower_bound=value * (1 + above))
        if gap is None:
            with pytest.warns(mm.errors.MMCWarning, match="one of them is wrong"):
                merged = dataclasses.replace(machine, lower_bound=0.5 * value).merge(dual)
            assert merged.status is Status.CONVERGED
        else:
            merged = machine.merge(dual)
            assert merged.status is Status.CERTIFIED
        assert merged.gap == gap and merged.objective == value


def test_no_rung_is_above_the_bound_or_below_the_objective(climbed):
    assert climbed.verify(), str(climbed.verify())
    last = climbed.ladder[-1]
    assert last.lower <= climbed.lower_bound and last.upper >= climbed.incumbent.objective
    higher = dataclasses.replace(last, lower=climbed.lower_bound * (1 + 1e-12))
    better = dataclasses.replace(last, upper=climbed.incumbent.objective * (1 - 1e-12))
    for rung in (higher, better):
        rungs = (*climbed.ladder[:-1], rung)
        assert not dataclasses.replace(climbed, ladder=rungs).verify()
        mended = with_rungs(climbed, rungs)
        assert mended.verify() and mended.ladder[-1].lower <= climbed.lower_bound


def test_a_climb_past_the_objective_is_not_closed(climbed):
    value = climbed.incumbent.objective
    for lower, ok in ((value, True), (value * (1 + 1e-6), False)):
        fake = dataclasses.replace(climbed, climb_end=ClimbEnd.CLOSED, lower_bound=lower)
        check, = (c for c in fake.verify().checks if c.name == "ladder")
        assert check.ok is ok
