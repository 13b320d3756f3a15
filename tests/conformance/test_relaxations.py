"""Relaxations and convex problems: bounds, points, and the literal programs."""

import literal
import numpy as np
import pytest
from oracle import (
    CLUSTERINGS,
    EXACTLY,
    LABEL_PROBLEMS,
    LATER,
    PROBLEMS,
    RELAXATIONS,
    SOLVERS,
    label_problems,
    literal_value,
    optimum,
    restricted,
    solved,
)

import mmcopt as mm
from mmcopt.capabilities import Bounded, ConvexProgram, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.modeling.result import Status


@pytest.mark.parametrize("problem", [
    pytest.param(p, marks=pytest.mark.slow if p in LATER else ())
    for p, f in PROBLEMS.items() if f.offer(Bounded)])
def test_own_bounds_hold_for_any_dual_point(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(5)
    bounded = f.offer(Bounded)
    result = solved(problem, f.default_solver, 0)
    relaxed = problem in RELAXATIONS
    best = optimum(problem) if relaxed else result.objective
    duals = result.certificate.duals if bounded.duals is None else bounded.duals(result.point)
    for _ in range(200):
        scale = 10.0 ** rng.uniform(-6, 6)
        other = {k: v + scale * rng.standard_normal(np.shape(v))
                 if np.asarray(v).dtype.kind == "f" else v for k, v in duals.items()}
        assert bounded.bound(other) <= best * (1 + 1e-12)
    if relaxed:
        assert bounded.bound(result.certificate.duals) == result.lower_bound
    elif problem in CLUSTERINGS:
        assert bounded.bound(duals) == result.lower_bound == bounded.trivial
    else:
        assert bounded.bound(duals) == pytest.approx(best,
            rel=SOLVERS[f.default_solver].promised_gap)


@pytest.mark.parametrize("problem", [
    pytest.param(p, marks=pytest.mark.slow if p in LATER else ()) for p in RELAXATIONS
    if PROBLEMS[p].of in (LabelQuadratic, LabelRatio)])
def test_labels_are_points_of_the_relaxation(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(13)
    lq = f.problem.offer(LabelProblem)
    for _ in range(10):
        c = lq.expand(lq.random_labels(rng))
        point = f.from_labels(c)
        assert f.violation(point) < 1e-12 * lq.n**2
        value = f.problem.objective(c) if f.bounds_problem else f.kmeans_cost(c)
        assert f.objective(point) == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("problem", [
    pytest.param(p, marks=pytest.mark.slow if p in LATER else ()) for p in PROBLEMS])
def test_the_fast_path_equals_the_literal_cvxpy_problem(problem):
    f = PROBLEMS[problem]
    if problem in RELAXATIONS:  # the literal program writes every cut out
        program = f.offer(ConvexProgram).build(None).problem
        value = solved(problem, "Conic", 0).objective
        assert literal_value(problem) == pytest.approx(value, rel=1e-5, abs=1e-5)
        assert program.size_metrics.num_scalar_variables < 3 * (f.n + 1)**2
        return
    if problem in LABEL_PROBLEMS:
        lq = f.offer(LabelProblem)
        labels = lq.expand(lq.random_labels(np.random.default_rng(7)))
        value = f.objective(labels)
    elif problem in CLUSTERINGS:
        labels = np.random.default_rng(7).integers(f.n_clusters, size=f.n)
        convex = restricted(f, labels)
        assert convex is not None
        value = mm.solve(convex, EXACTLY[convex.default_solver]).objective
    else:
        labels, value = None, mm.solve(f, EXACTLY.get(f.default_solver)).objective
    assert literal.solved(f.reference(labels)) == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("problem", [p for p in LABEL_PROBLEMS if hasattr(PROBLEMS[p], "restrict")])
def test_the_restricted_problem_has_the_objective_as_its_optimum(problem):
    f = PROBLEMS[problem]
    labels = solved(problem, "BruteForce", 0).labels
    rest = mm.solve(f.restrict(labels))
    assert rest.objective / f.unit == pytest.approx(f.objective(labels), rel=1e-8)
    assert rest.status is Status.CERTIFIED
    assert np.array_equal(rest.formulation.y, labels)


@label_problems()
def test_the_literal_mixed_integer_problem_allows_the_same_labels(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(12)
    literal = f.reference()
    Z = next(v for v in literal.variables() if v.name() == "Z")
    assert Z.attributes["boolean"] is True
    lq, seen = f.offer(LabelProblem), set()
    for i in range(40):
        c = lq.random_labels(rng) if i % 2 else rng.integers(lq.k, size=lq.n)
        point = lq.expand(c)
        if i % 5 == 0:
            point = rng.integers(lq.k, size=f.n)
        Z.value = np.eye(lq.k)[point]
        allowed = all(constraint.value() for constraint in literal.constraints)
        assert allowed == (f.violation(point) == 0.0)
        seen.add(allowed)
    assert True in seen
