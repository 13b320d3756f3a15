"""The regularised dual: known optima, cuts, hyper-parameters, warm starts, limits, Ctrl-C."""

import functools
import math

import numpy as np
import pytest
from relaxed import parts

import mmcopt as mm
from mmcopt.bounds.label_lift import Cuts, Lift, binary_lift
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import RegularizedDual, regularized_dual
from mmcopt.solvers.regularized_dual import DualSpace
from mmcopt.solving import Budget, run

X = np.random.default_rng(3).standard_normal((12, 2)) + np.arange(12).reshape(-1, 1) // 6
WIDE = np.random.default_rng(0).standard_normal((120, 2))


@functools.cache
def problem(k=2):
    return LeastSquares(X, k, lam=0.05)


@functools.cache
def best(k=2):
    return mm.solve(problem(k), "Memetic", seed=0).objective


class Only:
    """A lift and nothing else."""

    def __init__(self, lift):
        self.lift = lift

    def offer(self, kind):
        return self.lift if kind is Lift else None


def dual_only(f, steps, **options):
    return run(RegularizedDual(**options), f, None, np.random.default_rng(0),
               Budget(max_iter=steps))


# ---------------------------------------------------------------- directions


def two_loops(pairs, g, free, scale):
    """The recursion of L-BFGS as it is in every textbook."""
    held, q = [], g.copy()
    for s, y in [(s[free], y[free]) for s, y in reversed(pairs)]:
        if s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            a = s @ q[free] / (s @ y)
            q[free] -= a * y
            held.append((s, y, a))
    q *= held[0][0] @ held[0][1] / (held[0][1] @ held[0][1]) if held else scale
    for s, y, a in reversed(held):
        q[free] += s * (a - y @ q[free] / (s @ y))
    return q


@pytest.mark.parametrize("n", [2, 7, 60])
@pytest.mark.parametrize("count", [0, 1, 4, 15])
def test_directions_are_those_of_the_two_loops(n, count):
    rng = np.random.default_rng([n, count])
    A = rng.standard_normal((n, n))
    A = A @ A.T + np.eye(n)
    pairs = [(s, (-1 if i == 3 else 1) * A @ s)  # one pair of negative curvature is left out
             for i, s in enumerate(rng.standard_normal((count, n)))]
    free = rng.random(n) < 0.7
    g = np.where(free, rng.standard_normal(n), 0.0)
    direction = regularized_dual._newton_direction(pairs, g, free, 0.3)
    np.testing.assert_allclose(direction, two_loops(pairs, g, free, 0.3), rtol=1e-7, atol=1e-9)
    nothing = regularized_dual._newton_direction(pairs, np.zeros(n), np.zeros(n, bool), 0.3)
    assert not nothing.any()


# ---------------------------------------------------------------- known optima


@pytest.mark.parametrize("n", [3, 5, 9])
def test_odd_cycles_have_a_known_optimum(n):
    A = np.zeros((n, n))
    A[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    lift = binary_lift(LabelQuadratic(-A - A.T, scale=2.0))
    done = run(RegularizedDual(), Only(lift), None, np.random.default_rng(0))
    assert lift.upper(done.duals) == pytest.approx(2 * n * math.cos(math.pi / n), rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"sizes": Sizes(exact=6)}, {"sizes": Sizes(exact=(4, 8))},
                                     {"center": False, "sizes": 0.2},
                                     {"known": {0: 0, 11: 1}, "cannot_link": [(1, 8)]}])
@pytest.mark.parametrize("kind", ["sdp", "sdp+cuts"])
def test_it_agrees_with_clarabel_for_two_clusters(kind, options):
    f = LeastSquares(X, 2, **options).relax(kind)
    ours, theirs = mm.solve(f, RegularizedDual()), mm.solve(f, "Conic")
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-4)
    assert ours.verify() and ours.violation < 0.1  # feasible in the limit
    assert f.problem.violation(ours.labels) == 0.0


@pytest.mark.parametrize("options", [{}, {"sizes": Sizes(exact=4)}, {"sizes": Sizes(low=2)},
                                     {"known": {0: 0, 11: 1, 5: 2}, "must_link": [(1, 2)],
                                      "cannot_link": [(1, 8)]}])
def test_it_agrees_with_clarabel_for_three_clusters(options):
    f = LeastSquares(X, 3, **options).relax("partition+cuts")
    ours, theirs = mm.solve(f, RegularizedDual()), mm.solve(f, "Conic")
    plain = mm.solve(f.problem.relax("partition"), "Conic").lower_bound
    assert plain * (1 - 1e-4) <= ours.lower_bound  # cliques are separated greedily
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-3)
    assert ours.verify() and f.problem.violation(ours.labels) == 0.0


@pytest.mark.parametrize("seed", parts(4))
@pytest.mark.parametrize("kind, k, options", [
    ("sdp+cuts", 2, {"sizes": Sizes(exact=(4, 10))}), ("partition", 3, {}), ("partition", 2, {})])
def test_it_has_converged_near_feasible_and_optimal_points(kind, k, options, seed):
    A = np.random.default_rng(seed).standard_normal((14, 2)) + np.arange(14)[:, None] // 5
    f = LeastSquares(A, k, lam=0.1, **options).relax(kind)
    result = mm.solve(f, RegularizedDual())
    assert result.status is Status.CONVERGED or result.gap <= 1e-4
    assert result.violation <= 0.02 * (f.lift.top - f.lift.floor)
    assert result.objective == pytest.approx(result.lower_bound, rel=0.02)
    assert result.lower_bound == pytest.approx(mm.solve(f, "Conic").lower_bound, rel=1e-3)


def test_it_does_not_say_converged_where_no_point_came_near(monkeypatch):
    monkeypatch.setattr(regularized_dual, "NEAR", 0.0)
    f = problem(3).relax("partition")
    alpha = []
    done = run(RegularizedDual(), f, None, np.random.default_rng(0),
               record=lambda row: alpha.append(row["alpha"]))
    assert done.status is Status.ITERATION_LIMIT
    assert (np.diff(alpha) > 0).sum() == regularized_dual.RAISES
    assert f.bound(done.duals) == pytest.approx(mm.solve(f, "Conic").lower_bound, rel=1e-3)


def test_clusters_of_equal_size():
    f = LeastSquares(X, 3, sizes=Sizes(exact=4), center=False).relax("partition")
    assert f.lift.flat
    result = mm.solve(f, RegularizedDual())
    np.testing.assert_allclose(result.point @ np.ones(12), 0.0, atol=1e-5)
    assert result.lower_bound == pytest.approx(mm.solve(f, "Conic").lower_bound, rel=1e-2)
    assert np.bincount(result.labels).tolist() == [4, 4, 4]


def test_cuts_close_most_of_the_gap():
    gaps = {}
    for kind in ("sdp", "sdp+cuts"):
        result = mm.solve(problem().relax(kind), RegularizedDual())
        gaps[kind] = (best() - result.lower_bound) / best()
    assert -1e-9 <= gaps["sdp+cuts"] < 0.5 * gaps["sdp"]


# ---------------------------------------------------------------- the vector of duals


@pytest.mark.parametrize("k", [2, 3])
def test_duals_and_their_vector_are_the_same(k):
    rng = np.random.default_rng(k)
    f = LeastSquares(X, k, sizes=0.3, cannot_link=[(0, 7)]).relax("sdp+cuts" if k == 2 else
                                                                  "partition+cuts")
    lift = f.lift
    cuts = Cuts(np.array([[0, 1, 2, 1], [3, 1, 2, 2]]),
                np.array([[0, 1, 2, 3]]) if k == 3 else np.empty((0, 0), dtype=np.int64))
    space = DualSpace(lift, cuts)
    z = np.clip(rng.standard_normal(space.size), space.low, space.high)
    duals = space.unpack(z)
    back = space.unpack(space.pack(duals))
    for name in duals:
        np.testing.assert_allclose(back[name], duals[name], atol=1e-12)
    A = rng.standard_normal((lift.m, lift.m))
    point = A @ A.T
    # <S + R, X> is linear in the duals, with the left sides of the constraints as coefficients
    assert np.sum((space.slack(z) + lift.R) * point) == pytest.approx(z @ space.rows_of(point))
    clean, _ = lift.clean(duals)
    linear = sum(float(np.sum(t)) for t in lift.linear(clean, space.entries.right))
    assert z @ space.linear == pytest.approx(linear)


# ---------------------------------------------------------------- hyper-parameters


def test_looser_tolerances_and_less_patience_stop_earlier():
    f = problem().relax("sdp")
    assert len(mm.solve(f, RegularizedDual(floor=1e-3)).history) < \
        len(mm.solve(f, RegularizedDual(floor=1e-8)).history)
    steps = [len(mm.solve(f, RegularizedDual(patience=p)).history) for p in (1, 6)]
    assert steps[0] < steps[1]
    f = problem(3).relax("partition")
    assert len(mm.solve(f, RegularizedDual(tol=1e-2)).history) <= \
        len(mm.solve(f, RegularizedDual(tol=1e-9)).history)


def test_more_evaluations_bring_a_step_further():
    f = problem().relax("sdp")
    bounds = [f.bound(dual_only(f, 1, evaluations=e).duals) for e in (2, 10, 100)]
    assert bounds[0] < bounds[1] < bounds[2]


def test_alpha_starts_and_falls_as_told():
    f = problem().relax("sdp")
    unit = np.linalg.norm(f.lift.R) / f.lift.m
    alpha = mm.solve(f, RegularizedDual(start=0.1, shrink=0.5), max_iter=4).history["alpha"]
    assert alpha[0] <= 0.1 * unit and (np.diff(alpha) < 0).all()
    assert alpha[1] == pytest.approx(0.5 * alpha[0])
    rows = mm.solve(f, RegularizedDual(start=0.1, shrink=0.9), max_iter=4).history
    assert rows["alpha"][-1] > alpha[-1]
    low = mm.solve(f, RegularizedDual(floor=1e-2)).history["alpha"]
    assert low.min() == pytest.approx(1e-2 * unit)


ANCHORED = {"anchored": True, "start": 0.01, "evaluations": 30}


@pytest.mark.parametrize("kind, k", [("sdp", 2), ("sdp+cuts", 2), ("partition", 3),
                                     ("partition+cuts", 3)])
def test_anchored_it_comes_to_the_same_bound(kind, k):
    relaxed = problem(k).relax(kind)
    falling = mm.solve(relaxed, RegularizedDual())
    anchored = mm.solve(relaxed, RegularizedDual(**ANCHORED))
    assert anchored.status is Status.CERTIFIED or anchored.status is Status.CONVERGED
    assert anchored.lower_bound == pytest.approx(falling.lower_bound, rel=2e-5)
    assert anchored.lower_bound <= best(k) * (1 + 1e-9) and anchored.verify()


def test_anchored_it_begins_at_the_last_x_and_keeps_alpha():
    relaxed = LeastSquares(WIDE, lam=0.05).relax("sdp+cuts")
    large = {**ANCHORED, "start": 1.0}
    out = dual_only(relaxed, 16, **large)
    assert out.state.alpha == dual_only(relaxed, 0, **large).state.alpha
    assert out.state.anchor is out.state.X
    held = dual_only(relaxed, 16, start=1.0, evaluations=30, shrink=1.0)
    assert relaxed.lift.lower(out.duals) == pytest.approx(out.lower_bound, rel=1e-6)
    assert out.lower_bound > 1.3 * held.lower_bound  # which without an anchor that alpha spoils


def test_cuts_per_node_limit_what_a_step_adds():
    f = LeastSquares(WIDE[:30], 2, lam=0.01).relax("sdp+cuts")
    few, many = (mm.solve(f, RegularizedDual(cuts_per_node=c), max_iter=3) for c in (0.5, 6.0))
    assert few.history["added"].max() <= 15 < many.history["added"].max() <= 180
    none = mm.solve(problem().relax("sdp"), RegularizedDual(), max_iter=3)
    assert none.history["cuts"].max() == 0


def test_a_target_stops_it_at_once():
    f = problem().relax("sdp+cuts")
    full = mm.solve(f, RegularizedDual())
    goal = 0.9 * full.lower_bound
    early = mm.solve(f, RegularizedDual(target=goal))
    assert early.status is Status.CONVERGED and early.verify()
    assert len(early.history) < len(full.history)
    assert goal * (1 - 1e-9) <= early.lower_bound < full.lower_bound
    at_once = mm.solve(f, RegularizedDual(target=-1e6))
    assert len(at_once.history) <= 1
    never = mm.solve(f, RegularizedDual(target=best() + 1.0))
    assert never.lower_bound <= best()


# ---------------------------------------------------------------- starts, limits, stops


@pytest.mark.parametrize("kind, k", [("sdp", 2), ("sdp+cuts", 2), ("partition", 3),
                                     ("partition+cuts", 3)])
def test_a_warm_start_is_never_below_its_duals(kind, k):
    f = problem(k).relax(kind)
    first = mm.solve(f, RegularizedDual(), max_iter=6)
    duals = first.certificate.duals
    for steps in (1, 3):
        again = mm.solve(f, RegularizedDual(), init=duals, max_iter=steps)
        assert again.lower_bound >= first.lower_bound - 1e-9 * abs(first.lower_bound)
        assert again.verify()
    nearby = f.problem.replace(lam=0.055).relax(kind)  # duals of a neighbour are duals too
    cold, warm = (mm.solve(nearby, RegularizedDual(), init=init, max_iter=1)
                  for init in (None, duals))
    assert warm.lower_bound > cold.lower_bound


def test_other_starts_are_taken_as_none():
    f = problem().relax("sdp")
    runs = [mm.solve(f, RegularizedDual(), init=init, max_iter=2)
            for init in (None, np.arange(12) % 2, np.eye(12))]
    assert len({r.lower_bound for r in runs}) == 1


@pytest.mark.parametrize("kind", ["sdp+cuts", "partition"])
def test_the_time_limit_holds_within_a_step(kind, ticking):
    f = LeastSquares(WIDE, 2, lam=1e-3).relax(kind)
    ticking(0.01)
    result = mm.solve(f, RegularizedDual(evaluations=2000), time_limit=0.3)
    assert result.timing["begin"] + result.timing["steps"] < 0.4
    assert result.status is Status.TIME_LIMIT and len(result.history) == 1
    assert result.verify()
    assert f.problem.violation(result.labels) == 0.0


@pytest.mark.parametrize("given", [False, True])
def test_it_begins_no_evaluation_that_would_end_after_the_deadline(given, monkeypatch, ticking):
    f = problem().relax("sdp+cuts")
    init = mm.solve(f, RegularizedDual(), max_iter=5).certificate.duals if given else None
    monkeypatch.setattr(regularized_dual, "EVALUATION", 1.0)
    monkeypatch.setattr(RegularizedDual, "_evaluate", None)
    ticking(1e-4)
    rng, lift = np.random.default_rng(0), f.offer(Lift)
    out = run(RegularizedDual(), lift, init, rng, time_limit=100.0)
    assert out.status is Status.TIME_LIMIT and out.steps == 0
    trivial = lift.lower({"u": np.full(lift.m, np.linalg.eigvalsh(lift.R)[-1])})
    bound = lift.lower(out.duals)
    assert bound == pytest.approx(lift.lower(init) if given else trivial)
    assert out.lower_bound == pytest.approx(bound)


@pytest.mark.parametrize("name", ["LOOK", "SEARCH"])
def test_it_skips_what_would_end_after_the_deadline(name, monkeypatch, ticking):
    f = problem().relax("sdp+cuts")
    monkeypatch.setattr(regularized_dual, name, 1.0)
    monkeypatch.setattr(RegularizedDual, {"LOOK": "_book", "SEARCH": "_recut"}[name], None)
    ticking(1e-4)
    out = run(RegularizedDual(), f.offer(Lift), None, np.random.default_rng(0), max_iter=2,
              time_limit=100.0)
    assert out.steps == 2 and f.bound(out.duals) == pytest.approx(out.lower_bound)


def test_ctrl_c_leaves_a_verified_bound():
    f = problem(3).relax("partition+cuts")

    def interrupt(row):
        if row["iteration"] == 5:
            raise KeyboardInterrupt

    result = mm.solve(f, RegularizedDual(), callback=interrupt)
    assert result.status is Status.INTERRUPTED and len(result.history) == 5
    assert result.verify() and 0 < result.lower_bound <= best(3)
    assert f.problem.violation(result.labels) == 0.0


def test_the_bound_reported_on_the_way_is_the_one_that_is_proved():
    f = problem().relax("sdp+cuts")
    result = mm.solve(f, RegularizedDual(), max_iter=7)
    assert result.lower_bound == pytest.approx(result.history["dual"].max(), rel=1e-9)
    assert (np.diff(result.history["dual"]) >= 0).all()


def test_one_run_is_like_another():
    f = problem(3).relax("partition+cuts")
    runs = [mm.solve(f, RegularizedDual(), seed=s, max_iter=8) for s in (0, 0, 1)]
    assert len({r.point.tobytes() for r in runs}) == 1 == len({r.lower_bound for r in runs})


def test_it_needs_a_lift():
    with pytest.raises(IncompatibleError, match="RegularizedDual cannot solve LeastSquares: it "
                                                "needs Lift, which this LeastSquares does not"):
        mm.solve(problem(), RegularizedDual())
