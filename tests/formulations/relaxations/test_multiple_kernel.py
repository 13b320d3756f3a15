"""The lifted margin of several kernels: programs, bounds for any duals, brute force, refusals."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest
from relaxed import labelings, parts, program, solved

import mmcopt as mm
from mmcopt.bounds.certificates import certified
from mmcopt.bounds.multi_kernel_lift import KernelLift
from mmcopt.capabilities import KernelMargin
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.formulations.relaxations import MKCLift
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.margins import SquaredHinge

RELAXED = MKCLift.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
DIGITS = mm.datasets.load("digits:3,8")[0]
MIXED = DIGITS[np.random.default_rng(0).permutation(len(DIGITS))[:30]]
SLACK = 1e-7  # relative, of Clarabel's optimum of given labels
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


@functools.cache
def optimum(f):
    """The least of the literal convex problems of all labels."""
    with warnings.catch_warnings():  # cvxpy's own, where a quotient is 0 / 0
        warnings.filterwarnings("ignore", message="divide by zero|invalid value")
        return min(solved(f.reference(c)) for c in labelings(f.n, f.n_clusters))


def problem(seed):
    """An MKC problem of few samples: p of 1, 2 or 3, two or three kernels, centred or not."""
    rng, k = np.random.default_rng(seed), 2 if seed % 4 else 3
    n = int(rng.integers(4, 6))
    kernels = [Linear(), Gaussian(width=rng.uniform(0.2, 1.0)), Polynomial(2)][-2 - seed % 2:]
    X = rng.standard_normal((n, int(rng.integers(1, 5))))
    X += rng.uniform(0, 3) * (np.arange(n) % k)[:, None]
    return MKC(X, k, kernels=kernels, C=10.0 ** rng.uniform(0, 2.5), p=1.0 + seed % 3,
               center=seed % 5 > 0, normalize=seed % 7 > 0)


def wild(duals, rng):
    """Duals that are perturbed, shaken, or of another a altogether."""
    scale, kind = 10.0 ** rng.uniform(-6, 1), rng.integers(3)
    if kind == 0:
        return {k: v * np.exp(scale * rng.standard_normal(v.shape)) for k, v in duals.items()}
    if kind == 1:
        return {k: v + scale * rng.standard_normal(v.shape) for k, v in duals.items()}
    return {"a": rng.uniform(0, 2) * duals["a"], "u": duals["u"] * rng.uniform(0, 4)}


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    assert solved(r.reference()) == pytest.approx(value, rel=1e-5)
    assert r.objective(point) == pytest.approx(value, rel=1e-5)
    assert r.violation(point) < 1e-9
    assert r.bound(duals) == pytest.approx(value, rel=1e-5)
    assert r.bound(duals) <= optimum(r.problem) * (1 + SLACK)


@pytest.mark.parametrize("part", parts(34))
def test_brute_force_over_labels_is_never_below(part):
    for seed in range(3 * part, 3 * part + 3):
        f, rng = problem(seed), np.random.default_rng(seed)
        best = optimum(f)
        result = mm.solve(f.relax("mkc"))
        assert 0.0 < result.lower_bound <= best * (1 + SLACK), seed
        assert result.gap < 1e-5 and result.violation < 1e-9, seed
        for _ in range(30):
            bound = result.formulation.bound(wild(result.certificate.duals, rng))
            assert 0.0 <= bound <= min(best, result.objective) * (1 + SLACK), seed


@CASES
def test_the_own_solver_agrees_with_the_conic_one(r):
    conic, own = mm.solve(r, "Conic"), mm.solve(r)
    assert own.solver.startswith("KernelBarrier") and own.status.name == "CERTIFIED"
    assert own.lower_bound == pytest.approx(conic.lower_bound, rel=2e-6)
    assert own.objective == pytest.approx(conic.objective, rel=2e-6)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(width=0.5)])
@pytest.mark.parametrize("k, C, p", [(2, 10.0, 2.0), (2, 50.0, 1.0), (3, 10.0, 3.0)])
def test_one_kernel_is_the_lifted_margin_of_it(kernel, k, C, p):
    one = mm.solve(MKC(MIXED, k, kernels=[kernel], C=C, p=p).relax("mkc")).lower_bound
    f = CPM3C(MIXED, k, beta=1.0 / C, kernel=kernel)
    kinds = ("lifted", "mmc") if k == 2 and C == 10.0 else ("lifted",)
    for kind in kinds:
        assert one == pytest.approx(C * mm.solve(f.relax(kind)).lower_bound, rel=1e-4)


def test_several_kernels_are_below_each_and_p_orders_them():
    near = [Linear(), Gaussian(width=0.5), Polynomial(2)]
    bounds = [mm.solve(MKC(MIXED, 2, kernels=near, C=20.0, p=p).relax("mkc")).lower_bound
              for p in (1.0, 1.01, 2.0, 6.0)]
    assert bounds == sorted(bounds, reverse=True)  # the ball of s grows with p
    assert bounds[1] == pytest.approx(bounds[0], rel=0.03)
    alone = [mm.solve(MKC(MIXED, 2, kernels=[kernel], C=20.0).relax("mkc")).lower_bound
             for kernel in near]
    assert bounds[0] <= min(alone) * (1 + 1e-5)


def test_that_labels_differ_between_kernels_loses_little():
    near, C = [Linear(), Gaussian(width=0.5)], 20.0
    r = MKC(MIXED, 2, kernels=near, C=C).relax("mkc")
    value, s = mm.solve(r).lower_bound, r.lift.weights(mm.solve(r).point)
    # One Y for all kernels, at these weights: the lifted margin of their sum.
    K = sum(w * joint.margin.K for w, joint in zip(s, r.lift.joints, strict=True))
    one = CPM3C(K, 2, beta=1.0 / C, kernel=mm.kernels.Precomputed(), center=False, normalize=False)
    assert value <= C * mm.solve(one.relax("lifted")).lower_bound <= 1.02 * value


@CASES
def test_labels_are_points_and_never_above_their_problem(r):
    for c in list(labelings(r.n, r.n_clusters))[1::7]:
        point, exact = r.from_labels(c), solved(r.problem.reference(c))
        assert r.violation(point) < 1e-12
        assert program(r)[0] <= r.objective(point) + 1e-7
        if r.n_clusters == 2:
            assert r.objective(point) == pytest.approx(exact, rel=1e-3)  # p = 1: slowly
        else:  # one of the duals of the machine
            assert r.objective(point) <= exact * (1 + 1e-4)
    assert set(r.recover(program(r)[1])) == set(range(r.n_clusters))


def test_what_has_no_margin_weighs_all_kernels_alike():
    even = MKC([[-1.0], [1.0], [-1.0], [1.0]], kernels=[Linear(), Linear()]).relax("mkc")
    point = even.from_labels(np.zeros(4, int))
    assert point == pytest.approx(0.5**0.5) and even.objective(point) == pytest.approx(50.0)


def test_violations_are_seen():
    r = RELAXED[0]
    W = r.from_labels(np.arange(6) % 2)
    assert r.violation(2.0 * W) == pytest.approx(1.0)
    assert r.violation(W - 0.1 * np.eye(6)) == pytest.approx(0.1)
    W[0, 0, 0] += 0.3
    assert r.violation(W) > 0.2


def test_odd_duals_are_no_better():
    r = RELAXED[1]
    best, shape = optimum(r.problem), (3, 6)
    assert r.bound({}) == r.bound({"a": np.full(6, np.nan)}) == 0.0
    for a in (np.full(6, 9.0), np.full(6, -1.0), np.full(6, 0.5)):
        for u in (np.zeros(shape), np.full(shape, 1e300), np.full(shape, -1e300),
                  np.full(shape, np.nan), np.full(shape, -1.0)):
            assert 0.0 <= r.bound({"a": a, "u": u}) <= best
    with pytest.raises(ValueError, match="the dual a must have shape"):
        r.bound({"a": np.zeros(7)})
    with pytest.raises(ValueError, match=r"the dual u must have shape \(3, 6\), got \(6,\)"):
        r.bound({"a": np.zeros(6), "u": np.zeros(6)})


def test_a_floor_on_sizes_is_left_out():
    f = MKC(MIXED[:12], 2, C=20.0)
    bounds = [mm.solve(g.relax("mkc")).lower_bound for g in (f, f.replace(size_floor=0.9))]
    assert bounds[0] == bounds[1]
    assert bounds[0] <= mm.solve(f.replace(size_floor=0.9), seed=0).objective


def test_results_are_certified_saved_and_forged_ones_found_out(tmp_path):
    f = MKC(MIXED, 2, C=20.0)
    duals = mm.solve(f.relax("mkc"), seed=0).certificate.duals
    sure = certified(mm.solve(f, seed=0), "mkc", duals)
    assert sure.certificate.kind == "mkc" and sure.lower_bound > 0.6 * sure.objective
    assert sure.verify() and not dataclasses.replace(
        sure, lower_bound=1.001 * sure.lower_bound).verify()
    sure.save(tmp_path / "sure.npz", data=False)
    back = mm.load(tmp_path / "sure.npz", problem=f)
    assert back.verify() and back.lower_bound == sure.lower_bound
    three = mm.solve(MKC(MIXED, 3, C=20.0, size_floor=0.5), seed=0).certify(time_limit=10)
    assert three.certificate.kind == "mkc" and three.lower_bound > 0 and three.verify()
    assert [rung.level for rung in three.ladder][:2] == ["own", "mkc"]


def test_refusals_and_words():
    why = ("it is for the hinge loss and scores without a balance of their own: use loss=None and "
           "center=True.")
    for f in (MKC(MIXED, loss=SquaredHinge()), MKC(MIXED, center=False, balance=1.0)):
        assert f.relaxations()["mkc"] == why and f.offer(KernelMargin) is None
        with pytest.raises(IncompatibleError, match="MKCLift cannot relax MKC: it is for the hing"):
            MKCLift(f)
    assert CPM3C(MIXED).relaxations()["mkc"] == \
        "it needs KernelMargin, which CPM3C does not offer."
    assert "mkc" in MKC(MIXED, balance=1.0).relaxations().kinds  # which centring makes empty
    assert "mkc" in MKC(MIXED, center=False).relaxations().kinds
    text = str(RELAXED[0])
    assert text.startswith("MKCLift: a lower bound on MKC\n")
    assert "V_m psd, s >= 0, |s|_2 <= 1" in text and "sqrt(s_m x_mi'V_m x_mi)" in text
    assert r"\operatorname{tr} V_m" in RELAXED[0]._repr_latex_()
    assert isinstance(RELAXED[0].offer(KernelLift), KernelLift)
    assert {"s", "V0", "V1"} <= set(RELAXED[0].variables)


def test_the_program_takes_more_constraints():
    import cvxpy as cp

    r = RELAXED[0]
    s, free = r.variables["s"], program(r)[0]
    base = r.to_cvxpy()
    assert solved(cp.Problem(base.objective, [*base.constraints, s[0] <= 0.1])) > free + 1e-3
