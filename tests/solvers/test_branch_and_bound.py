"""Proofs of optimality: the optimum of small problems, trees that are re-checked, limits."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration
from mmcopt.bounds.decision_tree import decided, inherited, lift_of, tree_bound
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import QUBO, KernelKMeans, LeastSquares, MaxCut
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Status
from mmcopt.solvers import BranchAndBound, RegularizedDual, branch_and_bound
from mmcopt.solvers.branch_and_bound import _Active
from mmcopt.solvers.tree_nodes import (
    FAR,
    LAST,
    FactorNodes,
    FreeNodes,
    QuadraticNodes,
    RefinedNodes,
    nodes_of,
)
from mmcopt.solving import run

DIGITS, _ = mm.datasets.load("digits:3,8")
WIDE = Gaussian(width=0.3)


def hard(n=40, seed=1):
    """A problem whose root leaves a gap."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(DIGITS))[:n])
    return LeastSquares(DIGITS[rows], 2, kernel=WIDE, lam=2.0**-5, center=False, sizes=0.1)


def small(seed):
    """Random problems with every kind of constraint, small enough for enumeration."""
    rng = np.random.default_rng([7, seed])
    k, n = 2 + seed % 2, int(rng.integers(7, 10))
    X = rng.standard_normal((n, 2))
    options = [{}, {"sizes": 0.5}, {"known": {0: 0, n - 1: 1}}, {"must_link": [(0, 1), (1, 4)]},
               {"cannot_link": [(0, 1), (2, 5)]}, {"must_link": [(0, 3)], "sizes": 0.7,
                                                   "cannot_link": [(1, 2)], "known": {5: 1}}]
    return LeastSquares(X, k, kernel=Gaussian(width=0.4), lam=0.1, **options[seed % 6])


@pytest.mark.parametrize("seed", range(12))
def test_it_finds_and_proves_the_optimum(seed):
    problem = small(seed)
    best = enumeration.minimum(problem.offer(LabelQuadratic))[0]
    result = mm.solve(problem, BranchAndBound(enumerate=1), seed=0)
    assert result.status is Status.CERTIFIED
    assert result.objective == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert best - 1e-4 * abs(best) <= result.lower_bound <= best + 1e-12
    assert result.certificate.kind == "branch-and-bound"
    assert result.verify(), str(result.verify())


def test_a_tree_of_several_nodes_is_proved_saved_and_checked_again(tmp_path):
    result = mm.solve(hard(), BranchAndBound(), seed=0)
    assert result.status is Status.CERTIFIED and result.gap <= 1e-5
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify() and back.lower_bound == result.lower_bound
    assert (np.diff(result.history["lower"]) >= -1e-12).all()


def test_a_tampered_tree_is_refused():
    result = mm.solve(hard(), BranchAndBound(root_rounds=1), seed=0)
    tree = result.certificate.duals
    count = len(tree["parent"])
    assert count >= 3
    lq = result.formulation.offer(LabelQuadratic)
    honest = tree_bound(lq, tree)
    assert honest >= result.lower_bound - 1e-9
    leaf = max(v for v in range(count) if v not in set(tree["parent"].tolist()))
    cut = {**tree, "duals": [None if v == leaf else d for v, d in enumerate(tree["duals"])]}
    one_sided = {name: value[:-1] for name, value in tree.items()}
    same = {**tree, "same": np.ones(count, dtype=bool)}
    other = tree["pair"].copy()
    other[leaf] = (0, 1) if tuple(other[leaf]) != (0, 1) else (0, 2)
    for forged in (cut, one_sided, same, {**tree, "pair": other}):
        assert tree_bound(lq, forged) < result.lower_bound
        claim = dataclasses.replace(result.certificate, duals=forged)
        assert not dataclasses.replace(result, certificate=claim).verify()
    loop = tree["parent"].copy()
    loop[-1] = count - 1
    for broken in ({**tree, "parent": loop}, {**tree, "duals": []}, {"parent": [0]}):
        claim = dataclasses.replace(result.certificate, duals=broken)
        assert not dataclasses.replace(result, certificate=claim).verify()


@pytest.mark.parametrize("make", [LeastSquares, KernelKMeans])
def test_children_that_decide_a_pair_alike_cover_nothing(make):
    problem = make(np.random.default_rng(0).standard_normal((8, 2)), 2)
    lq, both = problem.offer(LabelProblem), np.array([[0, 0], [0, 1], [0, 1]])
    tree = {"parent": np.array([-1, 0, 0]), "pair": both,
            "duals": [None, *[{"enumerated": np.array(1)}] * 2]}
    best = enumeration.minimum(lq)[0]
    assert tree_bound(lq, {**tree, "same": np.array([True, True, False])}) == pytest.approx(best)
    for same in (True, False):
        assert tree_bound(lq, {**tree, "same": np.array([True, same, same])}) == -np.inf
    assert tree_bound(lq, {**tree, "same": np.array([True, True, False]),
                           "pair": np.array([[0, 0], [0, 1], [0, 2]])}) == -np.inf


def test_limits_leave_the_best_bound_so_far(ticking):
    problem = hard(60)
    ticking(1e-3)
    result = mm.solve(problem, BranchAndBound(gap=1e-12), seed=0, time_limit=1.5)
    assert result.status in (Status.TIME_LIMIT, Status.CERTIFIED)
    assert sum(result.timing.values()) < 1.6
    assert 0 <= result.gap < 0.05 and result.verify()
    short = mm.solve(problem, BranchAndBound(), seed=0, max_iter=3)
    assert len(short.history) == 3 and short.verify()


@pytest.mark.parametrize("name", ["FIRST_STEP", "PROOF"])
def test_a_root_that_would_end_after_the_deadline_is_left_to_the_eigenvalue(
        name, monkeypatch, ticking):
    problem = hard()
    best = mm.solve(problem, seed=0)
    monkeypatch.setattr(branch_and_bound, name, 1.0)
    monkeypatch.setattr(BranchAndBound, "_work", None)
    ticking(1e-5)
    result = mm.solve(problem, BranchAndBound(), seed=0, time_limit=100)
    assert result.status is Status.TIME_LIMIT and len(result.history) == 0
    assert result.objective == pytest.approx(best.objective)
    assert result.certificate.kind == "eig" and result.verify()


def test_matrices_are_not_rounded_where_that_would_end_after_the_deadline(monkeypatch, ticking):
    monkeypatch.setattr(branch_and_bound, "LABELS", 1.0)
    monkeypatch.setattr(FactorNodes, "labels", None)
    ticking(1e-5)
    result = mm.solve(hard(), BranchAndBound(), seed=0, time_limit=100)
    assert result.status is Status.CERTIFIED and result.verify()


def test_a_wider_gap_needs_fewer_steps():
    X = np.random.default_rng(3).standard_normal((40, 3))
    problem = LeastSquares(X, 3, kernel=Gaussian(width=0.5), lam=0.1)
    tight = mm.solve(problem, BranchAndBound(gap=1e-6), seed=0)
    loose = mm.solve(problem, BranchAndBound(gap=0.05), seed=0)
    assert len(loose.history) < len(tight.history)
    assert loose.gap <= 0.05


def test_decisions_that_contradict_one_another_leave_nothing():
    lq = hard(10).offer(LabelQuadratic)
    with pytest.raises(InfeasibleError):
        lift_of(decided(lq, [(0, 1, True), (1, 2, True), (0, 2, False)]))
    with pytest.raises(InfeasibleError):  # two clusters cannot keep three samples apart
        lift_of(decided(lq, [(0, 1, False), (1, 2, False), (0, 2, False)]))


@pytest.mark.parametrize("k, same", [
    (2, True), (3, True), (2, False), pytest.param(3, False, marks=pytest.mark.slow)])
def test_children_begin_near_the_bound_of_their_parent(k, same):
    X, _ = mm.datasets.load("iris")
    lq = LeastSquares(X[::6], k, kernel=WIDE, lam=0.1).offer(LabelQuadratic)
    lift = lift_of(lq)
    out = run(RegularizedDual(), lift, None, np.random.default_rng(0), max_iter=25)
    child = decided(lq, [(0, 7, same)])
    below = lift_of(child)
    below = dataclasses.replace(below, groups=below.groups[child.groups],
                                signs=below.signs[child.groups])
    parent, start = lift.lower(out.duals), below.lower(inherited(lift, below, out.duals))
    random = below.lower({"u": np.full(below.m, np.abs(below.R).sum(axis=1).max())})
    assert start >= parent - 0.1 * (parent - random)
    best = lift_of(child).lower(run(RegularizedDual(), lift_of(child), None,
                                    np.random.default_rng(0)).duals)
    assert start <= best + 1e-3 * abs(best)


@pytest.mark.as_given
@pytest.mark.parametrize("seed", range(6))
def test_trees_of_free_sides_prove_what_enumeration_finds(seed):
    """Nodes that are bounded by factors, and split although they are small."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.integers(-9, 10, (14, 14)) if seed % 2 else rng.standard_normal((14, 14)), 1)
    problem = MaxCut(W + W.T) if seed < 3 else QUBO(W)
    lq = problem.offer(LabelQuadratic)
    assert isinstance(nodes_of(lq), FreeNodes)
    solver = BranchAndBound(enumerate=1, root_rounds=1, node_rounds=1)
    result = mm.solve(problem, solver, seed=0)
    assert result.status is Status.CERTIFIED and result.verify()
    best = enumeration.minimum(lq)[0]
    assert result.objective == pytest.approx(best)
    assert result.lower_bound <= best + 1e-9 * abs(best)


def test_factors_bound_all_nodes_of_label_quadratics_but_those_of_two_exact_sizes():
    assert type(nodes_of(hard(10).offer(LabelQuadratic))) is FactorNodes
    W = np.ones((6, 6))
    for rules, kind in (({"low": 0}, FreeNodes), ({"low": 1}, FactorNodes),
                        ({"low": 0, "high": 4}, FactorNodes), ({"low": 0, "k": 3}, FactorNodes),
                        ({"low": 3, "high": 3}, QuadraticNodes),
                        ({"low": 2, "high": 2, "k": 3}, FactorNodes)):
        assert type(nodes_of(LabelQuadratic(W, **rules))) is kind


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("seed", range(4))
def test_where_factors_gain_too_little_the_exact_solver_goes_on_from_their_duals(
        seed, batch, monkeypatch):
    """Two clusters or three, with sizes; nodes that are split although they are small."""
    begun, begin = [], RegularizedDual.begin
    monkeypatch.setattr(FactorNodes, "slow", lambda *args: True)
    monkeypatch.setattr(RegularizedDual, "begin", lambda solver, f, init, rng: (
        begun.append((solver.start, init)), begin(solver, f, init, rng))[1])
    X = np.random.default_rng(seed).standard_normal((9 + 3 * (seed % 2 == 0), 2))
    problem = LeastSquares(X, 2 + seed % 2, kernel=Gaussian(width=0.4), lam=0.1, sizes=0.5)
    solver = BranchAndBound(enumerate=1, root_rounds=3, node_rounds=2, gap=1e-9, batch=batch)
    result = mm.solve(problem, solver, seed=0)
    best = enumeration.minimum(problem.offer(LabelQuadratic))[0]
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.objective == pytest.approx(best)
    assert result.lower_bound <= best + 1e-9 * abs(best)
    fresh = [(start, init) for start, init in begun if isinstance(init, dict)]
    assert fresh and all("u" in init for _, init in fresh)
    assert {start for start, _ in fresh} <= {a * RegularizedDual().start for a in (LAST, FAR)}


def test_children_begin_with_what_was_worth_it_at_their_parent():
    at = _Active(0, 0.0, FactorNodes(), gains=[np.inf, 9.0])
    assert at.bequeathed(FactorNodes(), 1.0) == at.kind
    assert at.refined(1.0) and at.kind == RefinedNodes(LAST) and not at.gains  # little is left
    assert type(at.bequeathed(FactorNodes(), 0.9)) is FactorNodes
    assert at.bequeathed(FactorNodes(), 0.1) == RefinedNodes(LAST)
    assert not at.refined(0.1)  # there is no finer one
    far = _Active(0, 0.0, FactorNodes(), gains=[np.inf, 1.0])
    assert far.refined(1.0) and far.kind == RefinedNodes(FAR)
    free = _Active(0, 0.0, FreeNodes())
    assert not free.refined(1.0) and type(free.kind) is FreeNodes
