"""Every fitting pair of a problem and a solver: answers, results, limits, refusals."""

import numpy as np
import pytest
from oracle import (
    CLUSTERINGS,
    EXACT,
    LABEL_PROBLEMS,
    LOOSE,
    PAIRS,
    PROBLEMS,
    RELAXATIONS,
    SHORT,
    SOLVERS,
    TIGHT,
    UNPROVED,
    assert_feasible,
    assert_local_optimum,
    bounds_of,
    example_of,
    least_of_labels,
    literal_value,
    optimum,
    pairs,
    point_of,
    restricted,
    solved,
)

import mmcopt as mm
from mmcopt import registry
from mmcopt.bounds.label_lift import Lift
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import (
    CPM3C,
    MKC,
    CrammerSinger,
    Hypersphere,
    KernelKMeans,
    LeastSquares,
    OneClassHinge,
)
from mmcopt.modeling.result import Status
from mmcopt.tolerances import FEASIBLE


def test_every_formulation_has_examples_and_a_default_solver_that_fits():
    for name, cls in registry.formulations().items():
        assert cls.examples(), name
        for f in cls.examples():
            assert registry.solver(cls.default_solver)().refuses(f) is None, name


def test_every_solver_fits_some_example():
    assert {s for _, s in PAIRS} == set(SOLVERS)


@pytest.mark.parametrize("seeds", [(0,), pytest.param((1, 2), marks=pytest.mark.slow)], ids=str)
@pairs([p for p in PROBLEMS if p not in RELAXATIONS])
def test_sandwich(problem, solver, seeds):
    f = PROBLEMS[problem]
    for seed in seeds:
        result = solved(problem, solver, seed)
        assert result.violation <= (0.0 if problem in LABEL_PROBLEMS else 1e-12)
        assert result.objective == f.objective(result.point)
        assert result.status in (Status.CONVERGED, Status.CERTIFIED)
        if problem in CLUSTERINGS:
            best = least_of_labels(problem)
            slack = 1e-6 * (1 + abs(best))
            assert result.lower_bound <= best <= result.objective + slack
            convex = restricted(f, result.labels) if solver in TIGHT else None
            if convex is not None:  # the best that its labels can do
                value = mm.solve(convex, TIGHT[solver]).objective
                assert value == pytest.approx(result.objective, rel=1e-6, abs=1e-6)
            continue
        if problem not in LABEL_PROBLEMS:
            best = literal_value(problem)
            slack = 1e-6 * (1 + abs(best))
            assert result.lower_bound <= best + slack and best <= result.objective + slack
            assert -1e-12 <= result.gap <= SOLVERS[solver].promised_gap
            continue
        best = optimum(problem)
        assert best - 1e-9 * (1 + abs(best)) <= result.objective
        for bound in bounds_of(f, result):
            assert bound <= best + 1e-12
        assert f.offer(LabelProblem).trivial_bound == result.trivial_bound
        if solver != "Lloyd":  # whose rounds end earlier
            assert_local_optimum(f, result.labels, (problem, solver, seed))
        if solver in EXACT:
            assert result.objective == pytest.approx(best, rel=1e-9)


@pairs(RELAXATIONS)
def test_a_relaxation_is_below_all_labels_and_has_the_value_of_its_literal_program(problem, solver):
    f, result = PROBLEMS[problem], solved(problem, solver, 0)
    best, literal = optimum(problem), literal_value(problem)
    unit = 1 + abs(literal)
    assert_feasible(result)
    assert result.objective == f.objective(result.point)
    assert result.violation == f.violation(result.point)
    assert result.status in (Status.CONVERGED, Status.CERTIFIED)
    assert result.lower_bound <= best + 1e-12 * (1 + abs(best))
    assert result.lower_bound <= literal + 1e-5 * unit
    if f.bounds_problem:
        assert result.lower_bound <= f.problem.objective(point_of(f, result.labels))
    assert (result.gap is None) == (not result.feasible)
    if solver not in LOOSE:
        assert result.feasible
        assert result.objective == pytest.approx(literal, rel=1e-5, abs=1e-5)
    if result.feasible:  # a violation of 1e-6 may be worth the sum of the multipliers times that
        assert result.lower_bound <= result.objective + 1e-5 * unit
    if solver in ("Conic", "InteriorPoint") and type(f).__name__ not in UNPROVED:
        assert result.lower_bound == pytest.approx(literal, rel=1e-5, abs=1e-5)
    heuristic = f.offer(Lift) is not None and f.cuts and f.n_clusters > 2  # separation of cliques
    if solver in LOOSE and heuristic:
        plain = solved(problem.replace("Cuts", ""), "Conic", 0).lower_bound
        assert result.lower_bound >= plain - 1e-4 * unit
    else:
        short = SHORT.get((type(f).__name__, solver), 1e-4)
        conic = solved(problem, "Conic", 0).lower_bound
        assert conic - short * unit <= result.lower_bound <= conic + 1e-4 * unit


@pairs()
def test_results_verify_and_mean_the_same_for_every_solver(problem, solver):
    result = solved(problem, solver, 0)
    report = result.verify()
    assert report, str(report)
    gap = (result.objective - result.lower_bound) / max(abs(result.objective), 1e-10)
    assert result.gap == (gap if result.violation <= FEASIBLE else None)
    caution = result.formulation.caution(result.point)
    assert caution is None or problem in CLUSTERINGS
    assert result.message == result.status.value + (f"; {caution}" if caution else "")
    assert (result.status is Status.CERTIFIED) == (result.gap is not None and 0.0 <= gap <= 1e-4)
    assert result.solver.startswith(solver)
    assert result.certificate.fingerprint == result.formulation.fingerprint
    rows = result.history
    assert len(rows) >= 1
    assert (np.diff(rows["seconds"]) >= 0).all()
    assert rows["iteration"].tolist() == list(range(1, len(rows) + 1))
    if SOLVERS[solver].keeps_last:  # the answer is the last point, not the lowest
        assert np.array_equal(rows["best"], rows["objective"])
        assert rows["best"][-1] == pytest.approx(result.objective, rel=1e-9, abs=1e-9)
    else:
        assert (np.diff(rows["best"]) <= 0).all()
        assert rows["best"].min() >= result.objective - 1e-9 * (1 + abs(result.objective))


def same(a, b):
    """Whether two nests of dicts and lists hold the same arrays and values."""
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b)


@pairs()
def test_a_saved_result_comes_back_whole(problem, solver, tmp_path):
    result = solved(problem, solver, 0)
    for data in (True, False):
        result.save(tmp_path / "run.npz", data=data)
        back = mm.load(tmp_path / "run.npz", problem=None if data else PROBLEMS[problem])
        assert back.formulation.fingerprint == result.formulation.fingerprint
        assert back.verify()
        for name in ("objective", "lower_bound", "violation", "status", "solver", "message",
                     "trivial_bound", "timing", "seed", "classes", "gap"):
            assert getattr(back, name) == getattr(result, name), name
        assert np.array_equal(back.point, result.point)
        assert np.array_equal(back.labels, result.labels)
        assert back.certificate.kind == result.certificate.kind
        assert same(back.certificate.duals, result.certificate.duals)
        for column, values in result.history.to_dict().items():
            np.testing.assert_array_equal(back.history[column], values)
        assert repr(back) == repr(result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bytes_for_any_number_of_jobs(solver):
    f = example_of(solver)
    slow = ("BranchAndBound", "FactorDual", "RegularizedDual", "JointDual", "KernelTree",
            "ClassTree")
    few = {"restarts": 3, "max_iter": 3 if solver in slow else None}
    runs = [mm.solve(f, solver, seed=5, n_jobs=jobs, **few) for jobs in (2, 1, None)]
    seed = np.random.SeedSequence(5)
    runs += [mm.solve(f, solver, seed=seed, **few) for _ in range(2)]  # spawning changes it not
    assert len({(r.labels.tobytes(), r.objective, r.lower_bound, r.status) for r in runs}) == 1
    assert len({r.history["objective"].tobytes() for r in runs[1:]}) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_inputs_are_never_changed_and_keep_their_flags(solver):
    rng = np.random.default_rng(3)
    X, labels = rng.standard_normal((9, 2)), np.arange(9) % 3
    problem, relaxed = LeastSquares(X, 3), LeastSquares(X, 2).relax("sdp")
    margins = CPM3C(X, 2, beta=0.01)
    others = (problem.restrict(labels), relaxed, OneClassHinge(X, C=20.0), Hypersphere(X),
              CrammerSinger(X, labels, 3), margins, margins.relax("lifted"), margins.relax("mmc"),
              margins.relax("lg"), MKC(X, 2, C=20.0).relax("mkc"), MKC(X, 2, C=50.0),
              KernelKMeans(X, 3), KernelKMeans(X, 3).relax("peng-wei"), CPM3C(X, 3, beta=0.05))
    f = next(f for f in (problem, *others) if SOLVERS[solver]().refuses(f) is None)
    before, given = X.copy(), labels.copy()
    init = labels if f is problem else None
    mm.solve(f, solver, init=init, seed=0)
    assert np.array_equal(X, before) and X.flags.writeable
    assert np.array_equal(labels, given) and labels.flags.writeable
    assert not (f.problem if isinstance(f, Relaxation) else f).X.flags.writeable


@pytest.mark.parametrize("solver", [s for s in SOLVERS if ("MaxCutRelaxation-0", s) in PAIRS])
def test_the_arrays_of_a_relaxation_are_never_changed(solver):
    f = type(PROBLEMS["MaxCutRelaxation-0"])(**PROBLEMS["MaxCutRelaxation-0"].params())
    arrays = {name: v.copy() for name, v in vars(f.lift).items() if isinstance(v, np.ndarray)}
    assert len(arrays) > 5
    W = f.problem.offer(LabelQuadratic).matrix.dense().copy()
    mm.solve(f, solver, seed=0)
    for name, value in arrays.items():
        assert np.array_equal(getattr(f.lift, name), value), name
    assert np.array_equal(f.problem.offer(LabelQuadratic).matrix.dense(), W)


@pytest.mark.parametrize("solver", SOLVERS)
def test_limits_are_limits(solver, monkeypatch):
    f = example_of(solver)
    one = mm.solve(f, solver, seed=0, max_iter=1)
    assert len(one.history) == 1
    assert one.status in (Status.ITERATION_LIMIT, Status.CONVERGED, Status.CERTIFIED)
    assert_feasible(one)
    assert one.verify()
    begun, begin = [], SOLVERS[solver].begin
    monkeypatch.setattr(SOLVERS[solver], "begin",
                        lambda *given: begun.append(given) or begin(*given))
    none = mm.solve(f, solver, seed=0, restarts=1000, time_limit=0.0)
    assert len(begun) == 1 >= len(none.history)
    assert none.objective == f.objective(none.point)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_stops_a_run(solver):
    f = example_of(solver)
    seen = []
    result = mm.solve(f, solver, seed=0, restarts=20, callback=lambda row: seen.append(row) or True)
    assert len(seen) == 1 == len(result.history)
    assert {"restart", "iteration", "seconds", "objective", "best"} <= set(seen[0])
    assert result.status in (Status.INTERRUPTED, Status.CONVERGED, Status.CERTIFIED)
    assert result.objective == f.objective(result.point)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_gives_the_best_so_far(solver, jobs):
    f = example_of(solver)

    def interrupt(row):
        raise KeyboardInterrupt

    result = mm.solve(f, solver, seed=0, restarts=4, n_jobs=jobs, callback=interrupt)
    assert result.status in (Status.INTERRUPTED, Status.CERTIFIED)
    assert_feasible(result)
    assert result.objective == f.objective(result.point)
    assert result.verify() and result.lower_bound is not None
    assert 1 <= len(result.history) <= jobs


@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_inside_any_step_gives_the_best_so_far(solver, monkeypatch):
    """Steps of solvers inside a solver as well: what an inner run leaves behind is not whole."""
    f, left = example_of(solver), [0]

    def interrupted(step):
        def wrapped(self, *given):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return step(self, *given)

        return wrapped

    for cls in SOLVERS.values():
        if "step" in vars(cls):
            monkeypatch.setattr(cls, "step", interrupted(cls.step))
    for count in (1, 2, 3, 5, 8, 13, 21):
        left[0] = count
        result = mm.solve(f, solver, seed=0, restarts=2)
        assert left[0] <= 0 or result.status is not Status.INTERRUPTED
        assert result.objective == f.objective(result.point)
        assert_feasible(result)
        assert result.verify()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_solvers_that_do_not_fit_are_refused_with_partners(problem):
    f = PROBLEMS[problem]
    kind, partners = type(f).__name__, ", ".join(s for p, s in PAIRS if p == problem)
    for solver in [s for s in SOLVERS if (problem, s) not in PAIRS]:
        chosen = SOLVERS[solver]()
        missing = [need.__name__ for need in chosen.needs if f.offer(need) is None]
        reason = chosen.refuses(f)
        assert reason.startswith("it") and reason.endswith("."), solver
        if missing:
            assert reason.startswith(f"it needs {missing[0]}, which this {kind} does not offer")
        with pytest.raises(IncompatibleError) as e:
            mm.solve(f, solver)
        assert str(e.value) == (
            f"{solver} cannot solve {kind}: {reason}\n"
            f"  Solvers that fit this {kind}: {partners}.")
