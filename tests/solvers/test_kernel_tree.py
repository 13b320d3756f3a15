"""KernelTree against all labelings in several kernels; its certificates; where it says no."""

import dataclasses
import itertools

import numpy as np
import pytest
from literal import solved
from relaxed import parts
from scipy.optimize import minimize_scalar

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.bounds.kernel_tree import KernelProof, most_weight
from mmcopt.bounds.margin_metric import sample_rows
from mmcopt.bounds.margin_tree import tree_bound
from mmcopt.bounds.weight_lift import psi
from mmcopt.capabilities import KernelMargin
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling.result import Status
from mmcopt.solvers import KernelTree
from mmcopt.solvers.kernel_tree import common_g
from mmcopt.tolerances import LEVELS

pytestmark = pytest.mark.filterwarnings("ignore:MKC")
DIGITS = mm.datasets.load("digits:3,8")[0]


def machines(problem, Y, angle):
    """The least objective of the labels Y for two kernels of given weights, over C."""
    n, c = problem.n, problem.beta / 4.0
    s = np.array([np.cos(angle), np.sin(angle)]) ** (2 / problem.p)
    S = sum(weight * part.dense() @ part.dense().T / c
            for weight, part in zip(s, problem.features.parts, strict=True))
    a, T = np.zeros_like(Y), np.zeros_like(Y)
    for _ in range(300):
        moved = 0.0
        for i in range(n):
            step = 2.0 * (1.0 - Y[:, i] * T[:, i]) / max(S[i, i], 1e-300)
            new = np.clip(a[:, i] + step, 0.0, 1.0 / n)
            d, a[:, i] = new - a[:, i], new
            T += 0.5 * np.outer(d * Y[:, i], S[i])
            moved = max(moved, float(np.abs(d).max()))
        if moved < 1e-10:
            break
    T = 0.5 * (a * Y) @ S
    square = 0.5 * (a * Y * T).sum(axis=1)
    return float((square + np.maximum(1.0 - np.abs(T), 0.0).mean(axis=1)).min())


def smallest(problem):
    """An objective that is about the least of any labels and weights: nothing is below the least.

    For two kernels |s|_p = 1 is an arc: the weights are searched along it, in NumPy.
    """
    Y = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=problem.n - 1)])
    grid = np.linspace(0.0, np.pi / 2, 13)
    values = [machines(problem, Y, angle) for angle in grid]
    j = int(np.argmin(values))
    fine = minimize_scalar(lambda angle: machines(problem, Y, angle), method="bounded",
                           bounds=(grid[max(j - 1, 0)], grid[min(j + 1, 12)]),
                           options={"maxiter": 12})
    return problem.C * min(*values, float(fine.fun))


def instance(seed):
    """Few samples in two kernels."""
    rng = np.random.default_rng([17, seed])
    n, d = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) + rng.integers(0, 4) * (rng.random((n, 1)) < 0.5)
    other = (Gaussian(width=0.5), Polynomial(2))[seed % 2]
    return MKC(X, kernels=[Linear(), other], C=float(10 ** rng.uniform(0, 2)),
               p=1.0 if seed % 3 == 2 else float(rng.choice([1.2, 1.5, 2.0, 3.0])),
               center=bool(rng.random() < 0.7))


def judge(seed):
    """Solve an instance and compare with all labelings."""
    problem = instance(seed)
    result = mm.solve(problem, KernelTree(starts=(1, 50)[seed % 2]), seed=seed)
    best = smallest(problem)
    assert result.status is Status.CERTIFIED
    assert result.lower_bound <= best * (1 + 1e-9)
    assert result.objective <= best * (1 + 2e-4) + 1e-12
    assert seed % 5 or result.verify()


@pytest.mark.parametrize("part", parts(15, 1))
def test_it_proves_the_least_of_all_labelings(part):
    for seed in range(4 * part, 4 * part + 4):
        judge(seed)


def test_a_step_that_is_found_roughly_does_not_hold_the_others_up():
    judge(496)  # p = 1.2: after twelve halvings no step gained, 8 % from the optimum


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_kernels_that_are_alike_and_rows_that_are_equal(p):
    X = np.array([[0.0], [0.0], [3.0]])
    problem = MKC(X, kernels=[Linear(), Linear()], C=700.0, p=p)
    result = mm.solve(problem, KernelTree(starts=2), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()


@pytest.mark.parametrize("C", [1e-300, 245.6924866554322, 1e12])
def test_g_of_which_some_are_next_to_nothing(C):
    X = np.array([2.0, 0.0, -1.0, 1.0, -1.0, -1.0, 1.0])[:, None]
    problem = MKC(X, kernels=[Gaussian(width=3.0), Linear()], C=C, p=3.0)
    result = mm.solve(problem, KernelTree(starts=1), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()


@pytest.mark.slow
def test_it_proves_the_least_of_all_labelings_of_many_instances():
    for seed in range(60, 1000):
        judge(seed)


# ---------------------------------------------------------------- certificates


@pytest.fixture(scope="module")
def proved():
    """Three kernels."""
    return mm.solve(MKC(DIGITS[:60], C=50.0), KernelTree(starts=5), seed=0)


def test_digits_are_proved_saved_and_checked_again(proved, tmp_path):
    assert proved.status is Status.CERTIFIED and proved.certificate.kind == "margin-tree"
    proved.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify(), str(back.verify())
    assert back.lower_bound == proved.lower_bound
    assert "labels follow" in str(proof_tree(back))


def test_searches_end_no_lower(proved):
    found = mm.solve(proved.formulation, seed=0, restarts=5)
    assert found.objective >= proved.lower_bound
    again = mm.solve(proved.formulation, KernelTree(starts=1), init=found, seed=1)
    assert again.objective == pytest.approx(proved.objective, rel=1e-4)


def test_certify_ends_certified():
    result = mm.solve(MKC(DIGITS[:30], C=50.0), seed=0).certify()
    assert result.status is Status.CERTIFIED and result.verify()
    assert [rung.level for rung in result.ladder][-1] == "margin-tree"


def test_weights_of_sum_one_are_proved_as_well():
    result = mm.solve(MKC(DIGITS[:40], C=50.0, p=1.0), KernelTree(starts=5), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()
    found = mm.solve(result.formulation, seed=0)
    assert result.lower_bound <= found.objective <= result.objective * (1 + 1e-4)


def test_forged_trees_are_refused(proved):
    duals = proved.certificate.duals
    turned = {**duals, "share": -duals["share"]}
    bare = {**duals, "implied": duals["implied"][:0], "which": duals["which"][:0]}
    for forged in (turned, bare):
        with pytest.raises(ValueError, match="proves nothing"):
            tree_bound(proved.formulation, forged)
    assert not dataclasses.replace(proved, lower_bound=proved.objective * 1.01).verify()
    with pytest.raises(ValueError, match="two classes"):
        tree_bound(proved.formulation.replace(n_clusters=3), duals)


def test_weights_move_the_bound_and_none_above_the_optimum(proved):
    rng, duals = np.random.default_rng(0), proved.certificate.duals
    for _ in range(2):
        share = duals["share"] * rng.uniform(0.0, 2.0, duals["share"].shape)
        assert tree_bound(proved.formulation, {**duals, "share": share}) <= proved.objective


def test_a_g_that_is_too_large_is_refused(proved):
    duals = proved.certificate.duals
    assert (duals["g"] > 0.0).all() and (duals["level"] > 0).any()
    with pytest.raises(ValueError, match="S is not positive definite"):
        tree_bound(proved.formulation, {**duals, "g": 1.1 * duals["g"]})
    with pytest.raises(ValueError, match="no part of the root's g"):
        tree_bound(proved.formulation, {**duals, "level": np.maximum(duals["level"], 1)})


# ---------------------------------------------------------------- g of several kernels


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_g_of_all_kernels_are_those_of_the_conic_program(p):
    import cvxpy as cp

    margin = MKC(DIGITS[:25], C=20.0, p=p).offer(KernelMargin)
    rows, c = [sample_rows(part) for part in margin.parts], margin.beta / 4.0
    spread = most_weight(len(rows), p)
    g, a = cp.Variable(25, nonneg=True), cp.Variable(25)
    # psi(g) is the most of a - a^2 / (4g) over 0 <= a <= 1.
    fall = cp.sum([cp.quad_over_lin(a[i], 4 * g[i]) for i in range(25)])
    rooms = [c * np.eye(X.shape[1]) - spread / 25 * (X.T @ cp.diag(g) @ X) >> 0 for X in rows]
    program = cp.Problem(cp.Maximize((cp.sum(a) - fall) / 25), [*rooms, a >= 0, a <= 1])
    value = solved(program)
    ours = common_g(rows, c, spread)
    assert psi(ours).mean() == pytest.approx(value, rel=1e-3)
    assert psi(ours).mean() <= value * (1 + 1e-5)


def certificate(g, share, level, tree):
    """Duals as `KernelProof` reads them."""
    return {"g": g, "share": share, "level": level,
            **{name: np.array(values, dtype=np.int64) for name, values in tree.items()}}


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_a_leaf_is_worth_what_its_label_adds_to_a_dual_point(p):
    rng = np.random.default_rng(3)
    margin = MKC(DIGITS[:12], C=20.0, p=p).offer(KernelMargin)
    g = 0.99 * common_g([sample_rows(part) for part in margin.parts], margin.beta / 4.0,
                        most_weight(len(margin.parts), p))
    left = {"parent": [-1, 0, 0], "sample": [0, 5, 5], "sign": [1, 1, -1], "born": [-1, 0, 0],
            "closed": [-1] * 3, "last": [-1] * 3, "owner": [0], "implied": [], "which": []}
    ended = {**left, "closed": [-1, 1, 2], "born": [-1] * 3, "owner": [0, 1, 2]}
    for _ in range(4):
        share, level = np.zeros((3, 12)), rng.integers(8, 17, (3, 12))
        share[:, 0], level[:] = 3.0 * rng.random(), level[0]
        level[:, 0] = 0
        leaves = KernelProof(margin, certificate(g, share[:1], level[:1], left)).values
        level[1:, 5] = 0

        def ends(z, share=share, level=level):
            share[1, 5], share[2, 5] = z, -z
            return KernelProof(margin, certificate(g, share, level, ended)).values

        own = KernelProof(margin, certificate(g, share[:1], level[:1], {
            **left, "parent": [-1], "sample": [0], "sign": [1], "born": [-1], "closed": [0],
            "last": [-1]})).values[0]
        for leaf in range(2):
            best = minimize_scalar(lambda z, leaf=leaf: -ends(z)[leaf], bounds=(1e-9, 3.0),
                                   method="bounded", options={"xatol": 1e-7}).fun
            assert leaves[leaf] == pytest.approx(max(-best, own), rel=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_points_of_the_labels_cost_no_less_than_any_dual_point_says(p):
    """The inequality behind it all, at points and dual points drawn at random."""
    rng = np.random.default_rng(8)
    margin = MKC(DIGITS[:12], C=20.0, p=p).offer(KernelMargin)
    rows, c, n = [sample_rows(part) for part in margin.parts], margin.beta / 4.0, 12
    spread = most_weight(len(rows), p)
    g = 0.99 * common_g(rows, c, spread)
    alone = {"parent": [-1], "sample": [0], "sign": [1], "born": [-1], "closed": [0],
             "last": [-1], "owner": [0], "implied": [], "which": []}
    for draw in range(60):
        s = rng.random(len(rows)) ** (1, 6)[draw % 2]
        s /= (s**p).sum() ** (1 / p)
        share = np.zeros((1, n), np.float32)
        share[0, 0] = rng.random()
        level = np.where(share == 0.0, rng.integers(0, 17, (1, n)), 0)
        bound = KernelProof(margin, certificate(g, share, level, alone)).bounds[0]
        lifted = np.where(share[0] == 0.0, g * level[0] / LEVELS, 0.0)
        # About the least w of these weights for the bound itself, and others.
        S = [c * np.eye(X.shape[1]) - spread / n * X.T @ (lifted[:, None] * X) for X in rows]
        v = [np.linalg.solve(A, X[0]) * share[0, 0] / (2 * n) for A, X in zip(S, rows, strict=True)]
        low = [np.linalg.eigh(A)[1][:, 0] for A in S]
        v = [a + rng.normal() * b * 3.0 for a, b in zip(v, low, strict=True)]
        t = sum(weight * X @ a for weight, X, a in zip(s, rows, v, strict=True))
        cost = c * sum(weight * a @ a for weight, a in zip(s, v, strict=True)) \
            + np.maximum(1.0 - np.abs(t), 0.0).mean()
        assert bound <= margin.scale * cost * (1 + 1e-12)


@pytest.mark.parametrize(("problem", "words"), [
    (MKC(DIGITS[:20], 3), "labels of two classes, and there are 3"),
    (MKC(DIGITS[:20], p=1.05), "p = 1 or p >= 1.1, and p is 1.05"),
    (MKC(DIGITS[:20], size_floor=0.5), "a floor on sizes"),
    (MKC(DIGITS[:20], balance=1.0, center=False), "an active balance"),
    (CPM3C(DIGITS[:20]), "several kernels")])
def test_it_says_why_not(problem, words):
    with pytest.raises(IncompatibleError, match=words):
        mm.solve(problem, KernelTree())
