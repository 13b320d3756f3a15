"""The conic back ends of cvxpy, against brute force and literal programs."""

import functools
import pickle

import numpy as np
import pytest
from literal import solved as literally_solved

import mmcopt as mm
from mmcopt.bounds import enumeration
from mmcopt.capabilities import Bounded, ConvexProgram, LabelQuadratic, Program
from mmcopt.constraints import Sizes
from mmcopt.errors import (
    BackendError,
    IncompatibleError,
    InfeasibleError,
    ParameterError,
    ResourceError,
)
from mmcopt.formulations import LeastSquares, LeastSquaresFit
from mmcopt.formulations.relaxations import (
    MaxCutRelaxation,
    MaxCutTriangles,
    Partition,
    PartitionCuts,
)
from mmcopt.modeling.result import Status
from mmcopt.solvers import conic
from mmcopt.solvers.conic import Conic
from mmcopt.solving import run

SDP = ("Clarabel", "SCS", "CVXOPT")
X = np.random.default_rng(1).standard_normal((9, 2)) + np.arange(9).reshape(-1, 1) // 3
EQUAL = [MaxCutRelaxation(LeastSquares(X[:8], sizes=Sizes(exact=(4, 4)))),  # Xb = 0: no interior
         Partition(LeastSquares(X, 3, sizes=Sizes(exact=(3, 3, 3))))]
LINKED = [kind(LeastSquares(X, 2, known={0: 0, 5: 1}, cannot_link=[(1, 2), (2, 7)],
                            must_link=[(3, 4)], sizes=Sizes(low=3)))
          for kind in (MaxCutRelaxation, MaxCutTriangles, Partition)]
PROBLEMS = {f"{type(f).__name__}-{i}": f for i, f in enumerate(
    [f for cls in (MaxCutRelaxation, MaxCutTriangles, Partition, PartitionCuts)
     for f in cls.examples()]
    + EQUAL + LINKED)}


@functools.cache
def literal(name):
    return literally_solved(PROBLEMS[name].reference())


class Toy:
    """A cvxpy problem in x, minimised, with no bound of its own."""

    def __init__(self, objective, *constraints):
        self.parts = objective, constraints

    def offer(self, kind):
        return ConvexProgram(self.build) if kind is ConvexProgram else None

    def build(self, cuts):
        import cvxpy as cp

        objective, constraints = self.parts
        x = cp.Variable(2, name="x")
        problem = cp.Problem(cp.Minimize(objective(x)), [c(x) for c in constraints])
        return Program(problem, lambda: np.asarray(x.value), dict)

    def objective(self, point):
        return float(np.sum(point))


def solved(f, backend):
    return run(Conic(backend), f, None, np.random.default_rng(0))


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("name, backend", [
    pytest.param(name, b, marks=pytest.mark.slow if i % 2 else ())
    for i, name in enumerate(PROBLEMS) for b in SDP])
def test_the_bound_is_the_value_of_the_literal_program(name, backend):
    f = PROBLEMS[name]
    result = mm.solve(f, Conic(backend))
    best = enumeration.minimum(f.problem.offer(LabelQuadratic))[0]
    assert result.lower_bound <= best + 1e-12
    assert result.lower_bound == pytest.approx(literal(name), abs=1e-5 * (1 + abs(literal(name))))
    assert result.status in (Status.CONVERGED, Status.CERTIFIED)
    assert result.violation < 1e-4
    assert f.problem.violation(result.labels) == 0.0
    assert result.verify(), str(result.verify())


@pytest.mark.parametrize("backend", ["Clarabel", "SCS", "ECOS"])
@pytest.mark.parametrize("f", LeastSquaresFit.examples())
def test_a_fit_is_solved_as_by_the_direct_method(f, backend):
    result, direct = mm.solve(f, Conic(backend)), mm.solve(f, "Direct")
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.objective == pytest.approx(direct.objective, rel=1e-6)
    assert result.gap < 1e-6


def test_the_back_end_that_needs_full_rank_solves_a_fit_of_full_rank():
    f = LeastSquaresFit.examples()[1]
    assert mm.solve(f, Conic("CVXOPT")).status is Status.CERTIFIED


def test_a_result_comes_back_from_disk(tmp_path):
    result = mm.solve(PartitionCuts.examples()[0], Conic("SCS"))
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify() and repr(back) == repr(result)
    assert np.array_equal(back.point, result.point)
    assert back.certificate.duals.keys() == result.certificate.duals.keys()


def test_a_problem_without_a_bound_of_its_own_has_none():
    out = solved(Toy(lambda x: x[0] + x[1], lambda x: x >= 1), "ECOS")
    assert out.status is Status.CONVERGED and out.lower_bound is None
    assert out.value == pytest.approx(2.0)


# ---------------------------------------------------------------- steps


def test_a_round_of_cuts_is_a_step():
    f = PartitionCuts.examples()[0]
    result = mm.solve(f, Conic())
    cuts = result.history["cuts"]
    assert cuts[0] == 0 and len(cuts) > 1 and (np.diff(cuts) > 0).all()
    assert (np.diff(result.history["objective"]) > -1e-7).all()
    assert (result.history["backend_seconds"] > 0).all()
    first = mm.solve(f, Conic(max_rounds=1))
    assert first.status is Status.ITERATION_LIMIT and len(first.history) == 1
    assert first.lower_bound < result.lower_bound


def test_it_begins_at_zero_or_where_it_is_told():
    f, rng = MaxCutRelaxation.examples()[0], np.random.default_rng(0)
    assert not Conic().begin(f, None, rng).point.any()
    labels = f.problem.offer(LabelQuadratic).random_labels(rng)
    point = f.from_labels(labels)
    start = Conic().begin(f, point, rng)
    assert start.point is point
    assert start.value == pytest.approx(f.problem.objective(labels))
    assert mm.solve(f, Conic(), init=labels).objective < start.value


@pytest.mark.parametrize("backend", ["Clarabel", "SCS"])
def test_a_path_is_compiled_once(backend):
    problem = LeastSquares(X, lam=0.1)
    f = problem.relax("sdp")
    mm.solve(f, Conic(backend))
    compiled = f.program.plain._cache.param_prog
    assert compiled is not None and f.program.plain.is_dpp()
    for lam in (0.3, 1.0):
        g = f.replace(problem=problem.replace(lam=lam))
        result = mm.solve(g, Conic(backend))
        assert g.program is f.program and g.program.plain._cache.param_prog is compiled
        alone = problem.replace(lam=lam).relax("sdp")
        assert alone.program is not f.program
        assert mm.solve(alone, Conic(backend)).objective == result.objective  # no warm start
    assert mm.solve(f, Conic(backend)).verify()


def test_compiling_takes_little_time_and_memory():
    # A matrix variable with a matrix parameter took 2 s and 400 MB here.
    import tracemalloc

    f = LeastSquares(np.random.default_rng(0).standard_normal((100, 2))).relax("sdp")
    problem = f.offer(ConvexProgram).build(None).problem
    tracemalloc.start()
    try:
        problem.get_problem_data("SCS")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_restarts_in_threads_share_a_program():
    f = MaxCutTriangles.examples()[0]
    one, many = (mm.solve(f, Conic("SCS"), restarts=4, n_jobs=jobs) for jobs in (1, 4))
    assert one.lower_bound == many.lower_bound and np.array_equal(one.point, many.point)


# ---------------------------------------------------------------- hyper-parameters


def test_names_are_accepted_in_any_case():
    assert Conic("scs") == Conic(backend="SCS") == Conic("Scs")
    assert [Conic(b.lower()).backend for b in conic.NAMES] == list(conic.NAMES)
    assert Conic().backend == "Clarabel" and pickle.loads(pickle.dumps(Conic("ecos"))).tol is None


@pytest.mark.parametrize("wrong", ["mosek", "", 3, None])
def test_other_names_are_refused(wrong):
    with pytest.raises(ParameterError) as e:
        Conic(wrong)
    assert str(e.value) == ("Conic: backend must be one of Clarabel, SCS, CVXOPT, ECOS in any "
                            f"case; got {wrong!r}.")


@pytest.mark.parametrize("backend", SDP)
def test_the_tolerance_reaches_the_back_end(backend):
    f = MaxCutRelaxation.examples()[0]
    loose, tight = (mm.solve(f, Conic(backend, tol=tol)) for tol in (1e-2, 1e-9))
    value = literal("MaxCutRelaxation-0")
    assert abs(loose.lower_bound - value) > 10 * abs(tight.lower_bound - value)
    assert loose.verify()


# ---------------------------------------------------------------- refusals


def test_a_back_end_that_is_absent_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(conic, "_installed", lambda: ["Clarabel", "SCS"])
    f = MaxCutRelaxation.examples()[0]
    assert Conic("CVXOPT").refuses(f) == ("the back end CVXOPT is not installed; pip install "
                                          "cvxopt, or use one that is: Clarabel, SCS.")
    assert Conic("SCS").refuses(f) is None


def test_semidefinite_programs_are_not_for_ecos():
    f = MaxCutRelaxation.examples()[0]
    with pytest.raises(IncompatibleError) as e:
        mm.solve(f, Conic("ECOS"))
    assert str(e.value).splitlines()[0] == (
        "Conic cannot solve MaxCutRelaxation: ECOS has no semidefinite cone, which this "
        "MaxCutRelaxation needs; these "
        "have: Clarabel, SCS, CVXOPT.")
    assert Conic("ECOS").refuses(LeastSquaresFit.examples()[0]) is None


def test_problems_without_a_convex_program_are_refused():
    reason = Conic().refuses(LeastSquares.examples()[0])
    assert reason == "it needs ConvexProgram, which this LeastSquares does not offer."


def test_semidefinite_cones_are_read_off_without_compiling():
    import cvxpy as cp

    Y, x = cp.Variable((4, 4), PSD=True), cp.Variable(3)
    rows = [cp.diag(x) >> 0, cp.norm(x) <= 1]
    assert conic.semidefinite_orders(cp.Problem(cp.Minimize(cp.trace(Y)), rows)) == [3, 4]
    assert conic.semidefinite_orders(cp.Problem(cp.Minimize(cp.lambda_max(cp.diag(x))))) == [3]
    assert conic.semidefinite_orders(cp.Problem(cp.Minimize(cp.sum(x)), rows[1:])) == []


@pytest.mark.parametrize("backend, needs, other", [
    ("Clarabel", "111 KiB", "; Conic('SCS') needs 176 KiB"), ("SCS", "176 KiB", ""),
    ("CVXOPT", "63.3 KiB", "; Conic('SCS') needs 176 KiB")])
def test_memory_is_asked_for_first(monkeypatch, backend, needs, other):
    f = MaxCutRelaxation.examples()[0]
    assert Conic(backend).begin(f, None, None).extras == {}
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 500)
    with pytest.raises(ResourceError) as e:
        Conic(backend).begin(f, None, None)
    assert str(e.value) == (
        f"{backend} on a semidefinite cone of order 9 needs {needs}, and 500 B are free{other}; "
        "InteriorPoint and RegularizedDual need little, and relax('eig') least.")


# ---------------------------------------------------------------- how back ends end


@pytest.mark.parametrize("backend", conic.NAMES)
def test_contradictions_are_named(backend):
    with pytest.raises(InfeasibleError) as e:
        solved(Toy(lambda x: x[0] + x[1], lambda x: x >= 1, lambda x: x <= -1), backend)
    assert str(e.value) == (f"{backend} finds that no point meets the constraints of this Toy "
                            "(cvxpy status 'infeasible'); loosen sizes, known labels or links.")


@pytest.mark.parametrize("backend", conic.NAMES)
def test_unbounded_problems_are_errors(backend):
    with pytest.raises(BackendError) as e:
        solved(Toy(lambda x: x[0] + x[1], lambda x: x <= 1), backend)
    others = ", ".join(b for b in conic.NAMES if b != backend)
    tol = "1e-07" if backend == "CVXOPT" else "1e-08"
    assert str(e.value) == (f"{backend} could not solve this Toy (cvxpy status 'unbounded'); try a "
                            f"larger tol than {tol}, or another back end: {others}.")


@pytest.mark.parametrize("status", ["infeasible_inaccurate", "unbounded_inaccurate",
                                    "infeasible_or_unbounded"])
def test_doubtful_endings_are_no_proof(monkeypatch, status):
    import cvxpy as cp

    monkeypatch.setattr(cp.Problem, "status", property(lambda self: status))
    with pytest.raises(BackendError, match=f"SCS .*'{status}'.*: Clarabel, CVXOPT.$"):
        mm.solve(MaxCutRelaxation.examples()[0], Conic("SCS"))


@pytest.mark.parametrize("status, end", [("optimal_inaccurate", Status.CONVERGED),
                                         ("user_limit", Status.ITERATION_LIMIT)])
def test_inaccurate_answers_are_kept_and_marked(monkeypatch, status, end):
    import cvxpy as cp

    monkeypatch.setattr(cp.Problem, "status", property(lambda self: status))
    f, marks = MaxCutRelaxation.examples()[0], []
    out = run(Conic("SCS"), f, None, np.random.default_rng(0),
              record=lambda row: marks.append(row["inaccurate"]))
    assert out.status is end and marks == [1.0]
    assert mm.solve(f, Conic("SCS")).verify()


def test_few_iterations_give_a_weak_bound_without_a_warning(monkeypatch):
    few = conic.Backend("SCS", ("eps_abs", "eps_rel"), options=(("max_iters", 3),))
    monkeypatch.setitem(conic.BACKENDS, "scs", few)
    f = MaxCutRelaxation.examples()[0]
    result = mm.solve(f, Conic("SCS"))
    assert result.history["inaccurate"].tolist() == [1.0]
    assert result.lower_bound < literal("MaxCutRelaxation-0") and result.verify()
    assert result.lower_bound == f.offer(Bounded).bound(result.certificate.duals)


def test_a_back_end_that_gives_up_is_asked_again(monkeypatch):
    import cvxpy as cp

    asked, solve = [], Conic._try

    def weak(self, problem, options):
        asked.append(dict(options))
        if len(asked) < failures + 1:
            raise cp.SolverError("Solver 'CVXOPT' failed.") if failures < 3 else ZeroDivisionError()
        return solve(self, problem, options)

    monkeypatch.setattr(Conic, "_try", weak)
    f = MaxCutRelaxation.examples()[0]
    for failures in (0, 1, 2, 3):
        asked.clear()
        result = mm.solve(f, Conic("CVXOPT"))
        assert len(asked) == failures + 1 and result.verify()
        assert result.lower_bound == pytest.approx(literal("MaxCutRelaxation-0"), abs=1e-4)
        assert result.history["inaccurate"].tolist() == [float(failures > 1)]
        tols = [options["abstol"] for options in asked]
        assert tols == pytest.approx([1e-7, 1e-7, 1e-6, 1e-5][:failures + 1])
        assert ["kktsolver" in options for options in asked] == [i > 0 for i in range(len(asked))]
    failures = 9
    with pytest.raises(BackendError, match="'solver_error'.*; try a larger tol than 1e-05, or"):
        mm.solve(f, Conic("CVXOPT"))


def test_the_error_of_a_back_end_is_the_cause(monkeypatch):
    import cvxpy as cp

    def broken(*args):
        raise cp.SolverError("Solver 'CLARABEL' failed.")

    monkeypatch.setattr(cp.Problem, "unpack_results", broken)
    with pytest.raises(BackendError, match="'solver_error'") as e:
        mm.solve(MaxCutRelaxation.examples()[0], Conic())
    assert isinstance(e.value.__cause__, cp.SolverError)


def test_ctrl_c_that_a_back_end_took_for_itself_interrupts_the_run(monkeypatch):
    monkeypatch.setattr(conic, "SCS_INTERRUPTED", 1)  # its code for an answer
    assert mm.solve(MaxCutRelaxation.examples()[0], Conic("SCS")).status is Status.INTERRUPTED
