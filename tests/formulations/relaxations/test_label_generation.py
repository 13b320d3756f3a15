"""Mixtures of labelings: the exact minimax of few samples, and bounds for any duals."""

import functools

import numpy as np
import pytest
from relaxed import hinge_problem, labelings, parts, program, solved

import mmcopt as mm
from mmcopt.bounds.label_hull import LabelHull
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.capabilities import ConvexProgram
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C
from mmcopt.formulations.relaxations import LGMMC
from mmcopt.solvers import CuttingPlane, InteriorPoint
from mmcopt.solving import run

RELAXED = LGMMC.examples()
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
EXACT = CuttingPlane(epsilon=1e-9)
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


@functools.cache
def optimum(f):
    """The least objective of the literal machines of all labels, compiled once."""
    import cvxpy as cp

    X, n = f.features.dense(), f.n
    w, y = cp.Variable(X.shape[1]), cp.Parameter(n)
    loss = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / n
    literal = cp.Problem(cp.Minimize(f.beta / 4 * cp.sum_squares(w) + loss))
    values = []
    for c in labelings(n, 2):
        y.value = 1.0 - 2.0 * c
        values.append(solved(literal))
    return min(values)


def instance(seed):
    """A hinge problem of two classes, with and without kernel, without a balance."""
    f = hinge_problem(seed, k=2)
    return f if f.balance is None else f.replace(balance=None)


# ---------------------------------------------------------------- the value


@CASES
def test_the_program_is_the_literal_one(r):
    value, point, duals = program(r)
    signs = r.signs()
    assert len(np.unique(signs, axis=0)) == 2 ** (r.n - 1)
    a, mu = r.hull.mixture(signs)
    M = (signs.T * mu) @ signs
    for other in (solved(r.reference()), r.objective(point), r.objective(M),
                  a.mean() - r.hull.squares(a, signs).max()):
        assert other == pytest.approx(value, rel=1e-5)
    assert r.violation(point) < 1e-6 and r.violation(M) < 1e-9
    assert mm.solve(r).objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("part", parts(3))
def test_the_value_is_between_mmc_and_brute_force_and_no_duals_prove_more(part):
    above = 0
    for seed in range(20 * part, 20 * part + 20):
        f, rng = instance(seed), np.random.default_rng(seed)
        r, best = f.relax("lg"), optimum(f) + 1e-8
        exact = r.objective((r.signs().T * r.hull.mixture(r.signs())[1]) @ r.signs())
        result = mm.solve(r)
        duals = result.certificate.duals
        plain = mm.solve(f.relax("lifted")).lower_bound  # of the value of mmc, and faster
        above += exact > plain + 1e-4 * best
        assert plain - 1e-8 <= exact <= best, seed
        assert exact - 1e-8 <= result.objective <= best, seed  # the estimate is an upper one
        assert result.lower_bound <= min(exact, plain + 1e-4) + 1e-8, seed
        for scale in (1e-6, 1e-3, 0.1, 10.0):
            other = {k: v * np.exp(scale * rng.standard_normal(v.shape)) for k, v in duals.items()}
            noisy = {k: v + scale * rng.standard_normal(v.shape) for k, v in duals.items()}
            for wild in (other, noisy, {**duals, "a": other["a"]}, {**duals, "u": noisy["u"]}):
                assert 0.0 <= r.bound(wild) <= exact + 1e-8, (seed, scale)
        for a in (np.ones(f.n), rng.random(f.n), np.zeros(f.n)):
            assert 0.0 <= r.bound({"a": a}) <= r.bound(r.hull.duals(a)) + 1e-9 <= exact + 1e-8, seed
            assert r.bound({**duals, "a": a, "t": 5.0, "g": np.ones(3)}) <= exact + 1e-8, seed
    assert above >= 6


@CASES
def test_the_literal_program_lies_between_as_well(r):
    value, _, duals = program(r)
    assert r.bound(duals) <= mm.solve(r.problem.relax("mmc")).lower_bound + 1e-5 < value
    assert mm.solve(r.problem.relax("joint")).lower_bound - 1e-6 <= value
    assert value <= optimum(r.problem) + 1e-6


def test_odd_duals_are_no_better():
    r = RELAXED[1]
    n, best = r.n, optimum(r.problem)
    assert r.bound({}) == r.bound({"a": np.full(n, np.nan)}) == 0.0
    for a in (np.full(n, 9.0), np.full(n, -1.0), np.full(n, 0.5)):
        for u in (np.zeros(n), np.full(n, 1e300), np.full(n, -1.0), np.full(n, np.inf)):
            assert 0.0 <= r.bound({"a": a, "u": u}) <= best
    with pytest.raises(ValueError, match="the dual a must have shape"):
        r.bound({"a": np.zeros(n + 1)})


def test_the_duals_of_shares_are_the_best_there_are():
    X = mm.datasets.load("digits:3,8")[0]
    for r in (*RELAXED, CPM3C(X[:40], 2, beta=0.1).relax("lg")):
        rng = np.random.default_rng(3)
        for a in (np.full(r.n, 0.1), rng.random(r.n), rng.random(r.n) * (np.arange(r.n) > 2)):
            lift = r.joint.at(a, 0.0)
            total = float(run(InteriorPoint(), lift, None, rng).duals["u"].sum())
            along = max(m * a.mean() - m * m * total for m in np.linspace(0, 1 / a.max(), 20001))
            assert r.bound(r.hull.duals(a)) == pytest.approx(along, rel=1e-5, abs=1e-7)


# ---------------------------------------------------------------- points and words


@CASES
def test_labels_are_points_and_are_recovered(r):
    rng = np.random.default_rng(2)
    for _ in range(5):
        c = rng.permutation(r.n) % 2
        point = r.from_labels(c)
        assert r.violation(point) < 1e-12
        exact = mm.solve(r.problem.restrict(c), EXACT).objective
        assert r.objective(point) == pytest.approx(exact, rel=1e-7)
    assert set(r.recover(program(r)[1])) == {0, 1}


def test_a_floor_on_sizes_is_met_by_the_labels_alone():
    f = RELAXED[0].problem
    for floor in (0.6, 1.0):
        held = mm.solve(f.replace(size_floor=floor).relax("lg"))
        assert held.objective == mm.solve(RELAXED[0]).objective
        assert np.bincount(held.labels, minlength=2).min() >= int(floor * 3.5)


def test_violations_are_seen():
    r = RELAXED[0]
    point = np.eye(r.n)
    point[:3, :3] += 0.45 * (np.eye(3) - 1.0)  # psd, and of three samples no two agree
    assert r.violation(point) == pytest.approx(0.35 / 2, rel=0.5)
    assert r.problem.relax("mmc").violation(point) < 1e-12
    assert r.violation(2.0 * np.eye(r.n)) >= 1.0


def test_refusals_and_words():
    X = np.random.default_rng(0).standard_normal((12, 2))
    with pytest.raises(IncompatibleError, match="it is for 2 clusters, and there are 3"):
        CPM3C(X, 3).relax("lg")
    with pytest.raises(IncompatibleError, match="it knows no balance of scores, and here is one; "
                                                r"relax\('lifted'\) takes it"):
        CPM3C(X, 2, center=False, balance=1.0).relax("lg")
    big = CPM3C(X, 2).relax("lg")
    assert big.offer(ConvexProgram) is None and big.offer(LabelHull) is big.hull
    assert mm.fits(big).names == ["LabelGeneration"]
    assert RELAXED[0].offer(JointLift) is None and not RELAXED[0].relaxations().kinds
    text = str(RELAXED[0])
    assert text.startswith("LGMMC: below CPM3C, and proved only as far as mmc\n")
    assert "all 2^6 labelings" in text and "max-cut" in text
    assert r"\sum_t \mu_t y_t y_t^\top" in RELAXED[0]._repr_latex_()
    assert {"Z", "mu"} <= set(RELAXED[0].variables)


def test_certify_does_not_climb_to_it():
    f = RELAXED[0].problem
    assert mm.solve(f, seed=0).certify(improve=False).certificate.kind in ("lifted", "margin-tree")
