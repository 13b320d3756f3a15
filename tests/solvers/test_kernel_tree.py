"""KernelTree against all labelings in several kernels; its certificates; where it says no."""

import dataclasses
import itertools

import numpy as np
import pytest
from relaxed import parts
from scipy.optimize import minimize_scalar

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.bounds.margin_tree import tree_bound
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.modeling.result import Status
from mmcopt.solvers import KernelTree

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
    for _ in range(5):
        share = duals["share"] * rng.uniform(0.0, 2.0, duals["share"].shape)
        assert tree_bound(proved.formulation, {**duals, "share": share}) <= proved.objective


@pytest.mark.parametrize(("problem", "words"), [
    (MKC(DIGITS[:20], 3), "labels of two classes, and there are 3"),
    (MKC(DIGITS[:20], p=1.05), "p = 1 or p >= 1.1, and p is 1.05"),
    (MKC(DIGITS[:20], size_floor=0.5), "a floor on sizes"),
    (MKC(DIGITS[:20], balance=1.0, center=False), "an active balance"),
    (CPM3C(DIGITS[:20]), "several kernels")])
def test_it_says_why_not(problem, words):
    with pytest.raises(IncompatibleError, match=words):
        mm.solve(problem, KernelTree())
