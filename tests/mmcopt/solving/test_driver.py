"""The driver: limits, seeds, restarts, what a solver may not do, and what it says."""

import dataclasses
import threading
import time
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import registry, solving
from mmcopt.errors import BackendError, IncompatibleError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import Memetic, Shaking, SteepestDescent, Tabu
from mmcopt.solving import Budget, Progress, Solver, run, runs

PROBLEM = LeastSquares.examples()[1]
X = np.random.default_rng(0).standard_normal((60, 2))
LARGER = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.2))


@pytest.fixture
def scratch():
    """A base class for solvers of a test, which are forgotten afterwards."""
    before = dict(registry._solvers)

    class _Scratch(Solver):
        needs = (mm.LabelQuadratic,)

        def begin(self, f, init, rng):
            c = f.offer(mm.LabelQuadratic).random_labels(rng) if init is None else init
            return Progress([c, 0], c, f.objective(c))

        def step(self, f, state, rng):
            state[1] += 1
            return Progress(state, state[0], f.objective(state[0]))

    yield _Scratch
    registry._solvers.clear()
    registry._solvers.update(before)


# ---------------------------------------------------------------- solvers that go wrong


@pytest.mark.parametrize("off", [1e-3, -1e-3])
def test_a_solver_that_lies_about_its_value_is_caught(scratch, off):
    class Liar(scratch):
        def step(self, f, state, rng):
            progress = super().step(f, state, rng)
            return dataclasses.replace(progress, value=progress.value - abs(off) * 2 + off)

    with pytest.raises(BackendError, match=r"^Liar reports .* for a point whose objective is .*; "
                                           r"its bookkeeping is wrong\.$"):
        mm.solve(PROBLEM, Liar(), seed=0, max_iter=3)


@pytest.mark.parametrize("times, honest", [(0.5, True), (-0.5, True), (40.0, False)])
def test_rounding_of_the_working_precision_is_no_lie(times, honest):
    """Relative to a small objective, single precision drifts by more than AGREEMENT."""
    rng = np.random.default_rng(0)
    D = np.vstack([rng.normal(-5, 0.1, (100, 2)), rng.normal(5, 0.1, (100, 2))])
    f = LeastSquares(D, 2, lam=1e-2)
    lq = f.offer(mm.LabelQuadratic)
    assert lq.dtype == np.float32
    true = f.objective(mm.solve(f, "Tabu", seed=0).point)
    drift = Tabu().drift(f, true)
    assert drift > 1e-6 * true

    class _Drifts(Tabu):
        def finish(self, f, state):
            end = super().finish(f, state)
            return dataclasses.replace(end, value=end.value - abs(times) * drift)

    if honest:
        assert mm.solve(f, _Drifts(), seed=0).objective == pytest.approx(true, rel=1e-12)
        return
    with pytest.raises(BackendError, match="its bookkeeping is wrong"):
        mm.solve(f, _Drifts(), seed=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("when", ["begin", "step", "finish"])
def test_a_value_that_is_not_finite_stops_the_run(scratch, value, when):
    class Broken(scratch):
        def begin(self, f, init, rng):
            progress = super().begin(f, init, rng)
            return dataclasses.replace(progress, value=value) if when == "begin" else progress

        def step(self, f, state, rng):
            progress = super().step(f, state, rng)
            return dataclasses.replace(progress, value=value) if when == "step" else progress

        def finish(self, f, state):
            return Progress(state, state[0], value) if when == "finish" else None

    with pytest.raises(BackendError) as e:
        mm.solve(PROBLEM, Broken(), seed=0, max_iter=2)
    assert str(e.value) == ("the solver's objective is no longer finite; its last step broke down.")


@pytest.mark.parametrize("when", ["begin", "step"])
def test_a_numerical_breakdown_keeps_the_best_so_far(scratch, when):
    class Breaks(scratch):
        def begin(self, f, init, rng):
            if when == "begin":
                raise np.linalg.LinAlgError("singular")
            return super().begin(f, init, rng)

        def step(self, f, state, rng):
            if state[1] == 2:
                raise np.linalg.LinAlgError("singular")
            return super().step(f, state, rng)

    if when == "begin":  # there is nothing to keep
        with pytest.raises(np.linalg.LinAlgError):
            mm.solve(PROBLEM, Breaks(), seed=0, max_iter=5)
        return
    result = mm.solve(PROBLEM, Breaks(), seed=0, max_iter=5, restarts=2)
    assert result.status is Status.FAILED and len(result.history) == 4  # the other restart ran too
    assert result.verify() and "numerical breakdown" in result.message


def test_a_solver_that_returns_infeasible_labels_gets_a_violation_and_no_gap(scratch):
    class Lawless(scratch):
        def begin(self, f, init, rng):
            c = np.zeros(f.n, dtype=np.int64)
            return Progress([c, 0], c, f.objective(c))

    result = mm.solve(PROBLEM, Lawless(), max_iter=1)
    assert result.violation == 2.0 and not result.feasible
    assert result.gap is None and result.absolute_gap is None and result.closed is None
    assert "infeasible: no gap" in repr(result)
    assert result.status is Status.ITERATION_LIMIT
    assert result.verify()


def test_an_error_of_a_solver_is_not_swallowed_in_threads(scratch):
    class Crash(scratch):
        def step(self, f, state, rng):
            raise ZeroDivisionError("of my own")

    for jobs in (1, 2):
        with pytest.raises(ZeroDivisionError, match="of my own"):
            mm.solve(PROBLEM, Crash(), restarts=3, n_jobs=jobs)


def test_an_error_of_a_callback_is_not_swallowed():
    def fail(row):
        raise RuntimeError("in the callback")

    for jobs in (1, 2):
        with pytest.raises(RuntimeError, match="in the callback"):
            mm.solve(PROBLEM, Shaking(), restarts=2, n_jobs=jobs, callback=fail)


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_in_a_step_keeps_the_best_and_does_not_touch_the_half_changed_state(scratch):
    class Slow(scratch):
        def step(self, f, state, rng):
            if state[1] == 3:
                state[0] = None  # half changed
                raise KeyboardInterrupt
            return super().step(f, state, rng)

        def finish(self, f, state):
            raise AssertionError("nothing may be built on a half changed state")

    result = mm.solve(PROBLEM, Slow(), seed=0, restarts=5)
    assert result.status is Status.INTERRUPTED
    assert result.verify() and len(result.history) == 3


def test_ctrl_c_before_there_is_a_point_is_passed_on(scratch):
    class Early(scratch):
        def begin(self, f, init, rng):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mm.solve(PROBLEM, Early())


def test_ctrl_c_in_an_inner_run_ends_the_outer_one(scratch):
    class Inner(scratch):
        def step(self, f, state, rng):
            raise KeyboardInterrupt

    class Outer(scratch):
        def step(self, f, state, rng):
            inner = run(Inner(), f, state[0], rng)
            assert inner.status is Status.INTERRUPTED
            return super().step(f, state, rng)

    result = mm.solve(PROBLEM, Outer(), seed=0, restarts=4)
    assert result.status is Status.INTERRUPTED and len(result.history) == 1


# ---------------------------------------------------------------- limits


def test_a_time_limit_holds_for_the_whole_of_a_solve(ticking):
    ticking(1e-3)
    for jobs in (1, 2):
        start = time.perf_counter()
        result = mm.solve(LARGER, Memetic(), seed=0, time_limit=0.3, restarts=3, n_jobs=jobs)
        assert 0.3 <= time.perf_counter() - start < 0.4
        assert result.status in (Status.TIME_LIMIT, Status.CONVERGED, Status.CERTIFIED)
        assert result.violation == 0.0 and result.verify()


def test_an_anytime_solver_uses_all_of_its_time(ticking):
    ticking(1e-4)
    start = time.perf_counter()
    result = mm.solve(LARGER, Memetic(), seed=0, time_limit=0.5)
    assert time.perf_counter() - start >= 0.5
    assert result.history["restart"].max() > 0
    assert result.status in (Status.TIME_LIMIT, Status.CONVERGED)


@pytest.mark.parametrize("solver, end", [(Memetic(), Status.CERTIFIED),  # by a proof
                                         (Shaking(), Status.CONVERGED)])  # it is not anytime
def test_what_is_done_does_not_wait_for_the_time_limit(solver, end, ticking):
    ticking(1e-6)
    start = time.perf_counter()
    assert mm.solve(PROBLEM, solver, seed=0, time_limit=30.0).status is end
    assert time.perf_counter() - start < 15.0


def test_a_solver_that_is_not_anytime_stops_when_it_has_converged():
    mm.solve(PROBLEM, Shaking(), max_iter=1)
    start = time.perf_counter()
    assert mm.solve(PROBLEM, Shaking(), time_limit=30).status is Status.CONVERGED
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("name", ["Tabu", "Annealing", "Continuation", "Memetic"])
def test_these_spend_a_time_limit_on_restarts(name):
    assert registry.solver(name).anytime


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_of_restarts_are_drawn_when_they_begin(jobs, monkeypatch):
    drawn = []
    spawn = np.random.SeedSequence.spawn

    class Counts(np.random.SeedSequence):
        def spawn(self, n):
            drawn.append(n)
            return spawn(self, n)

    monkeypatch.setattr("mmcopt.solving.driver._seed_sequence", Counts)
    ended = mm.solve(PROBLEM, Shaking(), seed=3, restarts=10**7, n_jobs=jobs,
                     callback=lambda row: True)
    assert sum(drawn) < 100
    monkeypatch.undo()
    assert ended.objective >= mm.solve(PROBLEM, Shaking(), seed=3, restarts=2).objective - 1e-9


def test_the_bound_can_be_left_out():
    full = mm.solve(PROBLEM, Shaking(), seed=0)
    bare = Shaking().solve(PROBLEM, seed=0, bound=False)
    assert full.lower_bound is not None and bare.lower_bound is None and bare.certificate is None
    assert np.array_equal(full.labels, bare.labels) and bare.verify()
    assert mm.solve(PROBLEM, "BruteForce", bound=False).status is Status.CERTIFIED  # its own


def test_a_bound_that_would_take_most_of_the_time_is_left_to_certify(monkeypatch):
    monkeypatch.setattr("mmcopt.bounds.certificates.RATE", 1.0)  # reckoned as years
    result = mm.solve(LARGER, Shaking(), seed=0, time_limit=20.0)
    assert result.certificate.kind == "trivial" and result.verify()
    assert mm.solve(LARGER, Shaking(), seed=0).certificate.kind == "eig"


def test_max_iter_counts_the_steps_of_each_restart():
    result = mm.solve(LARGER, Shaking(), seed=0, max_iter=4, restarts=3)
    assert result.status is Status.ITERATION_LIMIT
    assert result.history["iteration"].tolist() == [1, 2, 3, 4] * 3
    assert result.history["restart"].tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_a_budget_says_which_limit_was_reached():
    assert Budget().spent(10**9) is None
    assert Budget(max_iter=3).spent(2) is None
    assert Budget(max_iter=3).spent(3) is Status.ITERATION_LIMIT
    late = Budget(max_iter=3, deadline=0.0)
    assert late.spent(0) is Status.TIME_LIMIT
    inner = late.within(7)
    assert (inner.max_iter, inner.deadline, inner.stop) == (7, 0.0, late.stop)
    late.stop.set()
    assert inner.spent(0) is Status.INTERRUPTED


def test_runs_inside_a_step_share_its_deadline_and_stop_signal(scratch, ticking):
    seen = []

    class Endless(scratch):
        def step(self, f, state, rng):
            seen.append(threading.current_thread())
            return super().step(f, state, rng)

    class Outer(scratch):
        def step(self, f, state, rng):
            run(Endless(), f, state[0], rng)  # without a budget of its own
            return super().step(f, state, rng)

    ticking(1e-3)
    start = time.perf_counter()
    result = mm.solve(PROBLEM, Outer(), time_limit=0.2)
    assert time.perf_counter() - start < 0.3 and seen
    assert result.status is Status.TIME_LIMIT


def test_the_phases_add_up_to_the_wall_time():
    for jobs in (1, 2):
        start = time.perf_counter()
        result = mm.solve(LARGER.replace(lam=0.2), Tabu(), seed=0, restarts=4, n_jobs=jobs)
        wall = time.perf_counter() - start
        assert set(result.timing) == {"prepare", "begin", "steps", "bound", "finish", "compile"}
        assert min(result.timing.values()) >= 0
        assert sum(result.timing.values()) == pytest.approx(wall, rel=0.2, abs=0.02)


# ---------------------------------------------------------------- seeds and starts


def test_different_seeds_give_different_runs_and_the_same_bound():
    runs = [mm.solve(LARGER, Shaking(), seed=s) for s in range(6)]
    assert len({r.labels.tobytes() for r in runs}) > 1
    assert len({r.lower_bound for r in runs}) == 1
    assert runs[3].seed == 3


def test_seeds_may_be_integers_generators_and_sequences():
    bits = [np.random.default_rng(4) for _ in range(2)]
    first, second = (mm.solve(LARGER, Shaking(), seed=g).labels.tobytes() for g in bits)
    assert first == second
    assert mm.solve(LARGER, Shaking(), seed=bits[0]).seed != mm.solve(
        LARGER, Shaking(), seed=bits[0]).seed
    child = np.random.SeedSequence(1).spawn(2)[1]
    one, two = (mm.solve(LARGER, Shaking(), seed=child) for _ in range(2))
    assert one.labels.tobytes() == two.labels.tobytes()
    assert child.n_children_spawned == 0
    again = mm.solve(LARGER, Shaking(), seed=one.seed)
    assert again.seed == one.seed


def test_without_a_seed_runs_differ_and_name_the_seed_that_repeats_them():
    one, two = mm.solve(LARGER, Shaking()), mm.solve(LARGER, Shaking())
    assert one.seed != two.seed
    assert mm.solve(LARGER, Shaking(), seed=one.seed).labels.tobytes() == one.labels.tobytes()


def test_more_restarts_never_do_worse_and_contain_the_first():
    few = mm.solve(LARGER, SteepestDescent(), seed=0, restarts=2)
    many = mm.solve(LARGER, SteepestDescent(), seed=0, restarts=8)
    assert many.objective <= few.objective
    n = len(few.history)
    assert many.history["objective"][:n].tolist() == few.history["objective"].tolist()


def test_only_the_first_restart_begins_at_the_given_labels(scratch):
    begun = []

    class Watch(scratch):
        def begin(self, f, init, rng):
            begun.append(init)
            return super().begin(f, init, rng)

    labels = np.arange(9) % 3
    mm.solve(PROBLEM, Watch(), init=labels, restarts=3, max_iter=1)
    assert np.array_equal(begun[0], labels) and begun[1:] == [None, None]
    begun.clear()
    mm.solve(PROBLEM, Watch(), init="kmeans", restarts=2, max_iter=1)
    assert [b is None for b in begun] == [False, False]


def test_a_start_is_never_made_worse():
    best = mm.solve(PROBLEM, "BruteForce")
    for name in registry.solvers():
        if registry.solver(name)().refuses(PROBLEM) is None:
            again = mm.solve(PROBLEM, name, init=best, seed=0)
            assert again.objective == pytest.approx(best.objective, rel=1e-12), name
            short = mm.solve(PROBLEM, name, init=best.labels, seed=0, max_iter=1)
            assert short.objective == pytest.approx(best.objective, rel=1e-12), name


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("options, words", [
    ({"restarts": 0}, "solve: restarts must be an integer at least 1; got 0."),
    ({"restarts": 2.0}, "solve: restarts must be an integer at least 1; got 2.0."),
    ({"restarts": True}, "solve: restarts must be an integer at least 1; got True."),
    ({"max_iter": 0}, "solve: max_iter must be None or an integer at least 1; got 0."),
    ({"time_limit": -1}, "solve: time_limit must be None or a finite number at least 0; got -1."),
    ({"time_limit": float("nan")},
     "solve: time_limit must be None or a finite number at least 0; got nan."),
    ({"gap_tol": "1e-4"}, "solve: gap_tol must be a finite number at least 0; got '1e-4'."),
    ({"seed": -3}, "solve: seed must be None or an integer at least 0; got -3."),
    ({"seed": "x"}, "solve: seed must be None or an integer at least 0; got 'x'."),
    ({"n_jobs": "all"}, "solve: n_jobs must be None, -1 for as many as there are cores, "
                       "or an integer at least 1 (1: one at a time); got 'all'."),
    ({"init": "k-means"}, "init must be 'random', 'kmeans', 'spectral', 'sdp', a Result, labels "
                          "or a point; got 'k-means'."),
])
def test_options_out_of_range_are_refused_in_words(options, words):
    with pytest.raises(ParameterError) as e:
        mm.solve(PROBLEM, Shaking(), **options)
    assert str(e.value) == words


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_iters'"):
        mm.solve(PROBLEM, Shaking(), max_iters=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        Shaking(round=3)


def test_what_is_not_a_problem_or_a_solver_is_refused_in_words():
    with pytest.raises(ParameterError) as e:
        mm.solve(X)
    assert str(e.value) == ("solve: problem must be a Formulation such as LeastSquares(X); "
                            "got ndarray.")
    with pytest.raises(ParameterError) as e:
        mm.solve(PROBLEM, 3)
    assert str(e.value) == "solver must be a Solver such as Memetic(), its name, or None; got 3."
    with pytest.raises(ParameterError) as e:
        mm.solve(PROBLEM, "Shakin")
    assert str(e.value) == ("no solver is called 'Shakin'. Did you mean Shaking? There are: "
                            f"{', '.join(registry.solvers())}.")
    with pytest.raises(IncompatibleError, match="Direct cannot solve LeastSquares: it needs"):
        mm.solve(PROBLEM, "direct")


def test_a_solver_may_be_an_object_a_class_or_a_name_in_any_case():
    results = [mm.solve(PROBLEM, s, seed=0) for s in (Shaking(), Shaking, "Shaking", "shaking")]
    assert len({(r.objective, r.solver) for r in results}) == 1
    assert Shaking().solve(PROBLEM, seed=0).objective == results[0].objective


def test_solvers_are_frozen_comparable_and_hashable():
    assert Shaking(rounds=3) == Shaking(rounds=3) != Shaking()
    assert len({Shaking(), Shaking(), Tabu()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Shaking().rounds = 3
    assert mm.solve(PROBLEM, Shaking(rounds=3, polish=False), seed=0).solver == \
        "Shaking(rounds=3, polish=False)"


def test_the_progress_line_is_drawn_on_standard_error(capsys, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.progress_line.EVERY", 0.0)
    mm.solve(PROBLEM, Shaking(), seed=0, progress=True, time_limit=10)
    out, err = capsys.readouterr()
    assert out == "" and "Shaking" in err and "best" in err and err.endswith("\n")


def test_a_log_has_the_first_step_what_is_better_and_the_result(capsys, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.progress_line.SOONER", 0.0)
    r = mm.solve(PROBLEM, Shaking(), seed=0, verbose=True)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and lines[0] == "Shaking" and lines[-1] == str(r)
    assert lines[1].split() == ["seconds", "restart", "step", "objective", "best"]
    told = [line.split() for line in lines[2:-1]]
    best = [float(row[4]) for row in told]
    assert all(len(row) == 5 for row in told) and int(told[0][2]) <= 1
    assert best == sorted(best, reverse=True)
    assert best[-1] == pytest.approx(r.history["best"].min(), rel=1e-6)


def test_a_plain_class_without_hyper_parameters_is_a_solver(scratch):
    class Plain(scratch):
        pass

    assert "Plain" in registry.solvers()
    assert mm.solve(PROBLEM, "plain", max_iter=1).solver == "Plain"


def test_a_bound_of_zero_is_not_lost_to_a_smaller_one():
    best = solving.Run(np.inf, None, Status.CONVERGED, 0)
    runs._keep(best, Progress(None, 1, 5.0, lower_bound=0.0))
    runs._keep(best, Progress(None, 2, 4.0, lower_bound=-1.0))
    assert (best.value, best.point, best.lower_bound) == (4.0, 2, 0.0)


def test_no_warnings_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in registry.solvers():
            if registry.solver(name)().refuses(PROBLEM) is None:
                mm.solve(PROBLEM, name, seed=0, restarts=2, n_jobs=2)


def test_a_caution_points_at_the_line_that_asked():
    X, _ = mm.datasets.load("iris")
    with pytest.warns(mm.errors.MMCWarning, match="effective_dimension") as seen:
        mm.solve(LeastSquares(X, 3), "Tabu", seed=0)
    assert seen[0].filename == __file__
