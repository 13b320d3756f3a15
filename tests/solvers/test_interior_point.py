"""The interior point on max-cut relaxations: known optima, equal sizes, limits, Ctrl-C."""

import functools
import math

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.label_lift import Lift, binary_lift
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import InteriorPoint
from mmcopt.solving import Budget, run

X = np.random.default_rng(3).standard_normal((24, 2)) + np.arange(24).reshape(-1, 1) // 12


def cycle(n):
    A = np.zeros((n, n))
    A[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    return A + A.T


def maximised(R, solver=None, **options):
    """Bounds of <R, Y> over psd Y with unit diagonal: base 0, scale 1."""
    lift = binary_lift(LabelQuadratic(R, const=0.0, scale=2.0, **options))
    done = run(solver or InteriorPoint(), lift_only(lift), None, np.random.default_rng(0))
    return lift.upper(done.duals), done


@functools.cache
def lift_only(lift):
    class Only:
        def offer(self, kind):
            return lift if kind is Lift else None

    return Only()


@pytest.mark.parametrize("n", [3, 5, 7, 9, 31])
def test_odd_cycles_have_a_known_optimum(n):
    """The smallest <A, Y> of an odd cycle is -2 n cos(pi / n)."""
    upper, done = maximised(-cycle(n))
    assert upper == pytest.approx(2 * n * math.cos(math.pi / n), rel=1e-6)
    assert upper >= 2 * n * math.cos(math.pi / n)
    assert done.status is Status.CONVERGED and done.steps < 30


def test_matrices_whose_optimum_is_seen():
    y = np.array([1.0, 1, -1, 1, -1, -1, 1])
    upper, done = maximised(np.outer(y, y))
    assert upper == pytest.approx(49.0, rel=1e-6)
    np.testing.assert_allclose(done.point, np.outer(y, y), atol=1e-3)
    assert maximised(np.diag(np.arange(7.0)))[0] == pytest.approx(21.0, rel=1e-6)
    # the balance binds: y'Yy of the all-ones matrix is at most the square of 7 - 2
    assert maximised(np.ones((7, 7)))[0] == pytest.approx(25.0, rel=1e-6)


def test_equal_sizes_have_no_interior_and_are_solved_on_the_complement():
    upper, done = maximised(np.ones((8, 8)) - 2 * cycle(8), low=4, high=4)
    assert upper == pytest.approx(32.0, rel=1e-6)  # alternating signs, whose sum is 0
    np.testing.assert_allclose(done.point @ np.ones(8), 0.0, atol=1e-9)
    f = LeastSquares(X, 2, sizes=Sizes(exact=12), center=False).relax("sdp")
    assert f.lift.flat
    result, other = mm.solve(f, "InteriorPoint"), mm.solve(f, "Conic")
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.lower_bound == pytest.approx(other.lower_bound, rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"sizes": 0.2}, {"center": False, "sizes": 0.1},
                                     {"known": {0: 0, 23: 1, 5: 0}, "must_link": [(1, 2)],
                                      "cannot_link": [(3, 20), (20, 4)]}, {"lam": 1e-4}])
def test_it_agrees_with_clarabel(options):
    f = LeastSquares(X, 2, **options).relax("sdp")
    ours, theirs = mm.solve(f, InteriorPoint()), mm.solve(f, "Conic")
    assert ours.status is Status.CERTIFIED and ours.violation < 1e-8 and ours.verify()
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-5)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)
    assert ours.lower_bound <= f.problem.objective(ours.labels)
    assert ours.history["mu"][-1] < 1e-6 * ours.history["mu"][0]


def test_the_history_shows_objective_and_dual_closing_in():
    result = mm.solve(LeastSquares(X, 2, lam=0.5).relax("sdp"), InteriorPoint())
    rows = result.history
    assert {"dual", "mu"} <= set(rows.columns)
    gap = np.abs(rows["objective"] - rows["dual"])
    assert gap[-1] < 1e-6 * gap[0] and (rows["dual"] <= rows["objective"][-1] + 1e-7).all()


def test_a_tolerance_that_is_loose_takes_fewer_steps_and_still_proves_its_bound():
    f = LeastSquares(X, 2).relax("sdp")
    runs = [mm.solve(f, InteriorPoint(tol=tol)) for tol in (1e-1, 1e-4, 1e-9)]
    steps = [len(r.history) for r in runs]
    assert steps[0] < steps[1] < steps[2]
    bounds = [r.lower_bound for r in runs]
    assert bounds[0] < bounds[1] <= bounds[2] * (1 + 1e-9)
    assert all(r.verify() for r in runs)


def test_max_steps_stop_it():
    result = mm.solve(LeastSquares(X, 2).relax("sdp"), InteriorPoint(max_steps=3))
    assert len(result.history) == 3 and result.status is Status.ITERATION_LIMIT


@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_the_bound_of_every_iterate_holds(steps):
    f = LeastSquares(X[:10], 2).relax("sdp")
    best = mm.solve(f.problem, "BruteForce").objective
    result = mm.solve(f, InteriorPoint(), max_iter=steps)
    assert result.lower_bound <= best and result.verify()
    done = run(InteriorPoint(), f, None, np.random.default_rng(0), Budget(max_iter=steps))
    assert f.bound(done.duals) <= best


def test_a_time_limit_and_ctrl_c_leave_a_verified_bound(ticking):
    f = LeastSquares(np.random.default_rng(0).standard_normal((300, 2)), 2, lam=1e-2).relax("sdp")
    f.lift  # noqa: B018
    ticking(0.02)
    limited = mm.solve(f, InteriorPoint(), time_limit=0.2)
    assert limited.timing["begin"] + limited.timing["steps"] < 0.3
    assert limited.status is Status.TIME_LIMIT and limited.verify()
    small = LeastSquares(X, 2).relax("sdp")

    def interrupt(row):
        if row["iteration"] == 4:
            raise KeyboardInterrupt

    stopped = mm.solve(small, InteriorPoint(), callback=interrupt)
    assert stopped.status is Status.INTERRUPTED and len(stopped.history) == 4
    assert stopped.verify() and stopped.lower_bound <= mm.solve(small).lower_bound + 1e-9


@pytest.mark.parametrize("kind, k, reason", [
    ("sdp+cuts", 2, "it handles no cuts; RegularizedDual does."),
    ("partition+cuts", 2, "it handles no cuts; RegularizedDual does."),
    ("partition", 3, "it handles the diagonal and one balance only, and this program has more "
                     "rows; RegularizedDual and Conic take them."),
    ("eig", 2, "it needs Lift, which this Eigenvalue does not offer.")])
def test_programs_that_it_refuses(kind, k, reason):
    f = LeastSquares(X, k).relax(kind)
    assert InteriorPoint().refuses(f) == reason
    with pytest.raises(IncompatibleError) as e:
        mm.solve(f, InteriorPoint())
    assert str(e.value).startswith(f"InteriorPoint cannot solve {type(f).__name__}: {reason}\n")


def test_a_balance_from_below_is_refused():
    f = LeastSquares(X, 2, sizes=Sizes(exact=[4, 20])).relax("sdp")
    assert f.lift.square_low == 256.0
    assert InteriorPoint().refuses(f).startswith("it handles the diagonal and one balance only")


def test_two_nodes():
    """The smallest problem: two samples, one in each cluster."""
    f = LeastSquares(X[:2], 2).relax("sdp")
    result = mm.solve(f, InteriorPoint())
    assert result.lower_bound == pytest.approx(mm.solve(f.problem, "BruteForce").objective,
                                               rel=1e-6)
    assert sorted(result.labels) == [0, 1]
