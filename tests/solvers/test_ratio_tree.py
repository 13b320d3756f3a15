"""Branch and bound on k-means and its kin: optima, trees that are re-checked, duals of children."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds import enumeration, proof_tree
from mmcopt.bounds.decision_tree import decided, inherited, leaf_bound, lift_of
from mmcopt.capabilities import LabelRatio
from mmcopt.constraints import Sizes
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import DiscriminativeKMeans, KernelKMeans
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Status
from mmcopt.solvers import BranchAndBound, Splitting
from mmcopt.solving import run


def small(seed):
    """Random problems with every kind of constraint, small enough for enumeration."""
    rng = np.random.default_rng([11, seed])
    k, n = 2 + seed % 2, int(rng.integers(7, 9))
    X = rng.standard_normal((n, 2))
    options = [{}, {"sizes": 0.5}, {"known": {0: 0, n - 1: 1}}, {"must_link": [(0, 1), (1, 4)]},
               {"cannot_link": [(0, 1), (2, 5)]}, {"must_link": [(0, 3)], "cannot_link": [(1, 2)],
                                                   "known": {5: 1}}][seed % 6]
    if seed % 4 == 1:
        return DiscriminativeKMeans(X, k, kernel=Gaussian(width=0.4), lam=0.1, **options)
    w = rng.uniform(0.5, 2.0, n) if seed % 4 == 2 else None
    return KernelKMeans(X, k, sample_weight=w, **options)


def hard(n=40, k=5):
    """A problem whose root leaves a gap."""
    return KernelKMeans(np.random.default_rng(3).standard_normal((n, 2)), k)


@pytest.mark.parametrize("seed", range(12))
def test_it_finds_and_proves_the_optimum(seed):
    problem = small(seed)
    best = enumeration.minimum(problem.offer(LabelRatio))[0]
    result = mm.solve(problem, BranchAndBound(enumerate=1), seed=0)
    assert result.status is Status.CERTIFIED
    assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert best - 1e-4 * abs(best) <= result.lower_bound <= best + 1e-12
    assert result.certificate.kind == "branch-and-bound"
    assert result.verify(), str(result.verify())


@pytest.mark.parametrize("seed", [pytest.param(range(0, 12), id="some"),
                                  pytest.param(range(12, 120), id="many", marks=pytest.mark.slow)])
def test_no_duals_of_a_leaf_prove_more_than_the_best_of_its_labels(seed):
    for at in seed:
        lq, rng = small(at).offer(LabelRatio), np.random.default_rng([12, at])
        path = [(*map(int, rng.choice(lq.n, 2, replace=False)), bool(rng.integers(2)))
                for _ in range(int(rng.integers(1, 4)))]
        try:
            node = decided(lq, path)
            best = enumeration.minimum(node)[0]
        except InfeasibleError:
            assert leaf_bound(lq, path, {}) == np.inf
            continue
        lift = lift_of(node)
        honest = run(Splitting(), lift, None, rng, max_iter=8).duals
        for size in 10.0 ** rng.uniform(-4, 4, 20):
            forged = {name: a if name == "cuts" else a + size * np.abs(a).max(initial=1e-3)
                      * rng.standard_normal(a.shape) for name, a in honest.items()}
            assert leaf_bound(lq, path, forged) <= best + 1e-12 * abs(best)
        assert leaf_bound(lq, path, {"enumerated": np.array(1)}) <= best


@pytest.mark.parametrize("k, same, sized", [(2, True, False), (3, True, False), (2, False, False),
                                            (3, False, False), (3, True, True), (3, False, True)])
def test_children_begin_at_the_bound_of_their_parent(k, same, sized):
    X, _ = mm.datasets.load("iris")
    options = {"sizes": Sizes(within=0.1)} if sized else {
        "sample_weight": np.random.default_rng(0).uniform(0.5, 2.0, 30)}
    lq = KernelKMeans(X[::5], k, cannot_link=[(1, 2)], **options).offer(LabelRatio)
    parent = lift_of(lq)
    assert parent.sized == sized
    out = run(Splitting(), parent, None, np.random.default_rng(0), max_iter=20)
    for pair in ((0, 7), (3, 29), (1, 20)):
        child = decided(lq, [(*pair, same)])
        lift = lift_of(child).over(child.groups)
        bound = lift.lower(inherited(parent, lift, out.duals))
        assert bound >= parent.lower(out.duals) * (1 - 1e-9)
        begun = run(Splitting(), lift, inherited(parent, lift, out.duals | {"X": out.point}),
                    np.random.default_rng(0), max_iter=1)
        assert begun.state.lower >= bound * (1 - 1e-6)
        X = inherited(parent, lift, out.duals | {"X": out.point})["X"]
        assert np.abs(X @ lift.volumes - 1.0).max() < 1e-6  # where only X >= 0 may be lost


def test_a_tree_of_several_nodes_is_proved_saved_and_checked_again(tmp_path):
    result = mm.solve(hard(), BranchAndBound(), seed=0)
    assert result.status is Status.CERTIFIED and len(result.certificate.duals["parent"]) >= 3
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify() and back.lower_bound == result.lower_bound
    assert "together" in str(proof_tree(back)) and "apart" in str(proof_tree(back))


def test_a_tampered_tree_is_refused():
    result = mm.solve(hard(), BranchAndBound(), seed=0)
    tree = result.certificate.duals
    leaf = max(v for v in range(len(tree["parent"])) if v not in set(tree["parent"].tolist()))
    cut = {**tree, "duals": [None if v == leaf else d for v, d in enumerate(tree["duals"])]}
    one_sided = {name: value[:-1] for name, value in tree.items()}
    other = tree["pair"].copy()
    other[leaf] = (0, 1) if tuple(other[leaf]) != (0, 1) else (0, 2)
    for forged in (cut, one_sided, {**tree, "pair": other},
                   {**tree, "same": np.ones(len(tree["parent"]), dtype=bool)}):
        claim = dataclasses.replace(result.certificate, duals=forged)
        assert not dataclasses.replace(result, certificate=claim).verify()


def test_a_climb_branches_where_the_relaxation_leaves_a_gap():
    problem = hard()
    root = mm.solve(problem.relax("peng-wei+cuts"), Splitting(patience=30), seed=0, max_iter=300)
    assert len(root.history) < 300 and root.history["added"][-1] > 0  # though cuts come and go
    result = mm.solve(problem, seed=0).certify()
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.lower_bound > root.lower_bound + 1e-4 * root.lower_bound
    more = mm.solve(problem, seed=0, max_iter=1).certify(time_limit=0.0)
    assert more.lower_bound < root.lower_bound
