"""Labels lifted beside the weights: programs, bounds for any duals, and what triangles bring."""

import dataclasses
import warnings

import numpy as np
import pytest
from relaxed import hinge_optimum as optimum
from relaxed import hinge_problem, parts, program, solved

import mmcopt as mm
from mmcopt.bounds.certificates import certified
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C
from mmcopt.formulations.relaxations import JointMMC, Lifted, XuMMC

RELAXED = [*XuMMC.examples(), *JointMMC.examples()]
CASES = pytest.mark.parametrize("r", RELAXED, ids=range(len(RELAXED)))
DIGITS = mm.datasets.load("digits:3,8")[0]
MIXED = DIGITS[np.random.default_rng(0).permutation(len(DIGITS))[:30]]
pytestmark = pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")


def floats(duals):
    """The duals that may be perturbed."""
    return {k: np.asarray(v) for k, v in duals.items() if np.asarray(v).dtype.kind == "f"}


@CASES
def test_the_program_is_the_literal_one_and_its_duals_prove_its_value(r):
    value, point, duals = program(r)
    assert solved(r.reference()) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.objective(point) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.violation(point) < 1e-6
    assert r.bound(duals) == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert r.bound(duals) <= optimum(r.problem) + 1e-9


@CASES
def test_no_duals_give_a_bound_above_the_optimum(r):
    rng, (value, _, duals) = np.random.default_rng(1), program(r)
    best = optimum(r.problem)
    for _ in range(120):
        scale = 10.0 ** rng.uniform(-6, 3)
        wild = {k: v + scale * rng.standard_normal(v.shape) for k, v in floats(duals).items()}
        bound = r.bound({**duals, **wild})
        assert 0.0 <= bound <= best + 1e-9
        assert bound <= value + 1e-6 * (1 + abs(value))


@pytest.mark.parametrize("part", parts(26))
def test_brute_force_over_labels_is_never_below(part):
    for seed in range(4 * part, 4 * part + 4):
        f, rng = hinge_problem(seed, k=2, biased=True), np.random.default_rng(seed)
        best, slack = optimum(f), 1e-8
        bounds = {}
        for kind in ("lifted", "mmc", "joint"):
            result = mm.solve(f.relax(kind), seed=0)
            bounds[kind] = result.lower_bound
            assert result.lower_bound <= best + slack, (seed, kind)
            duals = result.certificate.duals
            for scale in (0.01, 1.0):
                wild = {k: v * np.exp(scale * rng.standard_normal(v.shape))
                        for k, v in floats(duals).items()}
                assert result.formulation.bound({**duals, **wild}) <= best + slack, (seed, kind)
        assert bounds["mmc"] == pytest.approx(bounds["lifted"], rel=1e-4, abs=1e-6), seed
        assert bounds["joint"] >= bounds["lifted"] - 1e-6 - 1e-4 * best, seed


def test_without_cuts_the_value_is_that_of_the_lifted_margin():
    for r in XuMMC.examples():
        assert program(r)[0] == pytest.approx(program(Lifted(r.problem))[0], rel=1e-5, abs=1e-6)


def test_triangles_close_a_part_of_the_gap():
    f = CPM3C(MIXED, 2, beta=0.1)
    best = mm.solve(f, seed=0, restarts=10, init="kmeans").objective
    plain, cut = (mm.solve(f.relax(kind)).lower_bound for kind in ("lifted", "joint"))
    assert plain < cut <= best
    assert best - cut < 0.8 * (best - plain)


def test_it_is_the_problem_of_xu_et_al():
    import cvxpy as cp

    f, n = CPM3C(DIGITS[:8], 2, beta=0.3), 8
    X = f.features.dense()
    K = 2.0 / f.beta * X @ X.T
    M, d = cp.Variable((n, n), PSD=True), cp.Variable()
    low, high = (cp.Variable((n, 1), nonneg=True) for _ in range(2))
    right = 1.0 + low - high
    corner = cp.reshape(2 * (d - cp.sum(high) / n), (1, 1), order="C")
    big = cp.bmat([[cp.multiply(K, M), right], [right.T, corner]])
    value = solved(cp.Problem(cp.Minimize(d), [cp.diag(M) == 1, (big + big.T) / 2 >> 0]))
    assert program(XuMMC(f))[0] == pytest.approx(value, rel=1e-5)
    assert mm.solve(f.relax("lifted")).lower_bound == pytest.approx(value, rel=1e-5)


def test_odd_duals_are_no_better():
    r = RELAXED[7]
    best, n = optimum(r.problem), r.n
    assert r.bound({}) == r.bound({"a": np.full(n, np.nan)}) == 0.0
    for a in (np.full(n, 9.0), np.full(n, -1.0), np.full(n, 0.5)):
        for t in (0.0, np.inf, np.nan, -3.0, 1e300):
            for u in (np.zeros(n), np.full(n, 1e300), np.full(n, -1.0)):
                assert 0.0 <= r.bound({"a": a, "t": t, "u": u}) <= best
    with pytest.raises(ValueError, match="the dual a must have shape"):
        r.bound({"a": np.zeros(n + 1)})
    with pytest.raises(ValueError):
        r.bound({"a": np.ones(n), "g": np.ones(1), "triangles": np.array([[0, 1, n, 0]])})


@CASES
def test_labels_are_points_and_are_recovered(r):
    rng = np.random.default_rng(2)
    for _ in range(5):
        c = rng.permutation(r.n) % 2
        point = r.from_labels(c)
        assert r.violation(point) < 1e-12
        exact = mm.solve(r.problem.restrict(c), mm.solvers.CuttingPlane(epsilon=1e-9)).objective
        assert r.objective(point) == pytest.approx(exact, rel=1e-5, abs=1e-7)
    assert set(r.recover(program(r)[1])) == {0, 1}


def test_violations_are_seen():
    r = RELAXED[7]
    assert r.violation(2.0 * np.eye(r.n)) == pytest.approx(1.0)
    Y = r.from_labels(np.arange(r.n) % 2)
    Y[0, 1] = Y[1, 0] = 1.0
    assert r.violation(Y) > 0.5


def test_certificates_are_saved_and_forged_ones_found_out(tmp_path):
    f = CPM3C(MIXED, 2, beta=0.1)
    duals = mm.solve(f.relax("joint"), seed=0).certificate.duals
    sure = certified(mm.solve(f, seed=0), "joint", duals)
    assert sure.certificate.kind == "joint" and sure.verify()
    assert not dataclasses.replace(sure, lower_bound=1.001 * sure.lower_bound).verify()
    sure.save(tmp_path / "sure.npz", data=False)
    assert mm.load(tmp_path / "sure.npz", problem=f).verify()


def test_refusals_and_words():
    f = RELAXED[0].problem
    with pytest.raises(IncompatibleError, match="it is for 2 clusters, and there are 3"):
        CPM3C(DIGITS[:9], 3).relax("joint")
    with pytest.raises(IncompatibleError, match="a balance of 0 leaves its program no interior"):
        CPM3C(DIGITS[:9], 2, center=False, balance=0.0).relax("mmc")
    text = str(RELAXED[7])
    assert text.startswith("JointMMC: a lower bound on CPM3C\n")
    assert "[[W, H], [H', Y]] psd" in text and "s'Ws <= 1" in text and "Y_ij + Y_il" in text
    assert r"\operatorname{diag} Y = 1" in RELAXED[0]._repr_latex_()
    assert f.relax("mmc").offer(JointLift).cuts is False
    assert "Z" in f.relax("joint").variables


def test_the_program_takes_more_constraints():
    import cvxpy as cp

    r = RELAXED[1]
    Y = r.variables["Z"][-r.n:, -r.n:]
    problem = cp.Problem(r.to_cvxpy().objective, [*r.to_cvxpy().constraints, Y[0, 1] == -1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert solved(problem) >= program(r)[0] - 1e-6


def test_features_that_are_nearly_centred_prove_no_more():
    rng, seen = np.random.default_rng(0), 0
    for _ in range(60):
        A = rng.standard_normal((6, 2))
        A[-1] -= A.sum(axis=0)
        A[-1] += 2e-9 * rng.standard_normal(2) * np.abs(A).sum()
        f = CPM3C(A, 2, beta=1.0, center=False, normalize=False, balance=1e-20)
        K = f.features.dense() @ f.features.dense().T
        seen += K.sum() < 0
        for t in (1e10, 2.84e14, 1e20):
            for kind in ("mmc", "joint", "lifted"):
                duals = {"a": np.full(6, 0.5), "t": t, "u": np.zeros(6), "g": np.ones(6)}
                relaxed = f.relax(kind)
                duals = {name: duals[name] for name in relaxed.dual_names if name in duals}
                try:
                    assert relaxed.bound(duals) <= 1.0  # what W = 0 costs
                except ValueError:
                    assert kind == "joint"  # which asks for its cuts
    assert seen > 5
