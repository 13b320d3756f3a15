"""MarginTree against all labelings; its certificates, forged in every way; where it says no."""

import dataclasses
import itertools

import numpy as np
import pytest
from relaxed import parts

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.bounds.margin_metric import MarginMetric, sample_rows
from mmcopt.bounds.margin_tree import MarginProof, tree_bound
from mmcopt.capabilities import MarginRisk
from mmcopt.errors import DataError, IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian, Polynomial
from mmcopt.margins import SquaredHinge
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers import ClassTree, CuttingPlane, KernelTree, MarginTree, margin_tree
from mmcopt.solving import Budget, run, runs
from mmcopt.tolerances import LEVELS

# Optima of random points may lack a class, which is said; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore:CPM3C")
DIGITS = mm.datasets.load("digits:3,8")[0]


# ---------------------------------------------------------------- all labelings


def machines(problem):
    """Labels Y, scores, objectives and dual objectives of all machines, at once, in NumPy."""
    n, X = problem.n, problem.features.dense()
    K = X @ X.T / (problem.beta / 4.0)
    Y = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    a, T = np.zeros_like(Y), np.zeros_like(Y)
    for _ in range(4000):
        moved = 0.0
        for i in range(n):
            step = 2.0 * (1.0 - Y[:, i] * T[:, i]) / max(K[i, i], 1e-300)
            new = np.clip(a[:, i] + step, 0.0, 1.0 / n)
            d, a[:, i] = new - a[:, i], new
            T += 0.5 * np.outer(d * Y[:, i], K[i])
            moved = max(moved, float(np.abs(d).max()))
        if moved < 1e-13:
            break
    T = 0.5 * (a * Y) @ K
    square = 0.5 * (a * Y * T).sum(axis=1)
    loss = np.maximum(1.0 - np.abs(T), 0.0).mean(axis=1)
    return Y, T, square + loss, a.sum(axis=1) - square


def smallest(problem):
    """The least objective of any labels, and a bound on it."""
    _, _, objectives, below = machines(problem)
    return float(objectives.min()), float(below.min())


def instance(seed):
    """Few samples of any kind: kernels, more features than samples, equal ones, not centred."""
    rng = np.random.default_rng([13, seed])
    n, d = int(rng.integers(3, 11)), int(rng.integers(1, 7))
    X = rng.standard_normal((n, d)) + rng.integers(0, 4) * (rng.random((n, 1)) < 0.5)
    if rng.random() < 0.15:
        X[1] = X[0]
    if rng.random() < 0.1:
        X = np.column_stack([X, rng.standard_normal((n, 12))])
    kernels = (None, None, None, Gaussian(width=0.5), Gaussian(width=1.0), Polynomial(2))
    return CPM3C(X, beta=float(10 ** rng.uniform(-2.5, 0)), kernel=kernels[rng.integers(6)],
                 center=bool(rng.random() < 0.7), normalize=bool(rng.random() < 0.7))


# The second and the last have next to no g, so that nearly all labels must be fixed.
OPTIONS = ({}, {"share": 1e-3}, {"starts": 1, "share": 0.99}, {"gap": 1e-7},
           {"near": 10.0, "dive": 0.0}, {"share": 1e-9, "gap": 1e-6, "starts": 1})


def judge(seed):
    """Solve an instance and compare with all labelings; how many nodes ended with all labels."""
    problem, options = instance(seed), OPTIONS[seed % len(OPTIONS)]
    result = mm.solve(problem, MarginTree(**options), seed=seed)
    best, below = smallest(problem)
    assert result.lower_bound <= best * (1 + 1e-10)
    assert below * (1 - 1e-8) <= result.objective <= best * (1 + 1.2e-4) + 1e-12
    assert result.status is Status.CERTIFIED
    proof = MarginProof(problem.offer(MarginRisk), result.certificate.duals)
    return int((proof.tree.final[proof.tree.closed >= 0] != 0).all(axis=1).sum())


@pytest.mark.parametrize("part", parts(20, 1))
def test_it_proves_the_least_of_all_labelings(part):
    full = [judge(seed) for seed in range(10 * part, 10 * part + 10)]
    assert sum(full) >= 5  # nodes of which no label is free are among them


@pytest.mark.slow
def test_it_proves_the_least_of_all_labelings_of_many_instances():
    assert sum(judge(seed) for seed in range(200, 3200)) > 1000


@pytest.mark.parametrize("seed", parts(40, 15))
def test_a_tree_that_is_stopped_is_below_all_labelings(seed):
    problem = instance(seed)
    result = mm.solve(problem, MarginTree(share=0.3, gap=1e-9), seed=0, max_iter=1)
    assert result.lower_bound <= smallest(problem)[0] * (1 + 1e-10)


@pytest.mark.parametrize("seed", parts(30, 15))
def test_every_leaf_is_below_the_weights_of_its_labels(seed):
    problem = instance(seed)
    result = mm.solve(problem, MarginTree(share=0.5), seed=0)
    proof = MarginProof(problem.offer(MarginRisk), result.certificate.duals)
    Y, T, objectives, _ = machines(problem)
    own = (Y * T > 0).all(axis=1)  # whose w have the labels that they were made for
    Y, objectives = np.vstack([Y[own], -Y[own]]), np.tile(objectives[own], 2)
    for state, added, label, bound in zip(proof.tree.state, proof.tree.added, proof.tree.label,
                                          proof.values, strict=True):
        fixed = proof.tree.at[state].copy()
        if added >= 0:
            fixed[added] = label
        inside = ((Y == fixed) | (fixed == 0)).all(axis=1)
        assert not inside.any() or bound <= objectives[inside].min() * (1 + 1e-9)


# ---------------------------------------------------------------- the optimum of real problems


@pytest.fixture(scope="module")
def proved():
    """A problem whose root leaves a third of a gap."""
    problem = CPM3C(DIGITS[:100], beta=0.03)
    return mm.solve(problem, MarginTree(starts=3), seed=0)


def test_digits_are_proved_saved_and_checked_again(proved, tmp_path):
    assert proved.status is Status.CERTIFIED and proved.certificate.kind == "margin-tree"
    assert proved.gap <= 1e-4
    root = mm.solve(proved.formulation.relax("lifted"))
    assert root.lower_bound < 0.8 * proved.objective
    proved.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify(), str(back.verify())
    assert back.lower_bound == proved.lower_bound


def test_searches_end_no_lower(proved):
    found = mm.solve(proved.formulation, CuttingPlane(), seed=0, restarts=10)
    assert found.objective >= proved.lower_bound
    again = mm.solve(proved.formulation, MarginTree(starts=1), init=found, seed=1)
    assert again.objective == pytest.approx(proved.objective, rel=1e-4)


def test_certify_ends_certified():
    problem = CPM3C(DIGITS[:50], beta=0.05)
    result = mm.solve(problem, seed=0).certify()
    assert result.status is Status.CERTIFIED and result.verify()
    levels = [rung.level for rung in result.ladder]
    assert "lifted" in levels and levels[-1] == "margin-tree"


def test_a_bound_is_there_whenever_it_stops():
    problem = CPM3C(DIGITS[:200], beta=0.03)
    result = mm.solve(problem, MarginTree(gap=1e-7), seed=0,
                      callback=lambda row: row["iteration"] >= 1)
    assert result.status is Status.INTERRUPTED
    assert 0 < result.lower_bound < result.objective and result.verify()


def test_wide_features_and_samples_of_zeros():
    rng = np.random.default_rng(0)
    wide = CPM3C(rng.standard_normal((9, 40)), beta=1.0)
    zeros = CPM3C(np.vstack([np.zeros((2, 3)), rng.standard_normal((6, 3))]), beta=0.5,
                  center=False)
    for problem in (wide, zeros):
        result = mm.solve(problem, MarginTree(), seed=0)
        best = smallest(problem)[0]
        assert best * (1 - 1.1e-4) <= result.lower_bound <= best * (1 + 1e-10)
        assert result.verify()


@pytest.mark.parametrize("kind", [MarginTree, KernelTree])
@pytest.mark.parametrize("scale", [1e-8, 1e-10])
def test_margins_that_cost_next_to_nothing_are_booked_right(kind, scale):
    X = np.random.default_rng(3).standard_normal((8, 3))
    problem = CPM3C(X, beta=scale) if kind is MarginTree else MKC(X, 2, C=1.0 / scale)
    result = mm.solve(problem, kind(), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()


@pytest.mark.as_given
def test_pixels_as_they_are():
    raw = CPM3C(DIGITS[:40] * 15.9, 2, normalize=False)
    result = mm.solve(raw, MarginTree(), seed=0)
    assert result.status is Status.CERTIFIED and result.verify()


@pytest.mark.parametrize(("shape", "k"), [((6, 2), 2), ((6, 2), 3), ((4, 9), 2), ((4, 9), 3)])
def test_features_of_zeros_are_told(shape, k):
    problem = CPM3C(np.zeros(shape), k, normalize=False)
    with pytest.raises(DataError, match="all features are 0"):
        mm.solve(problem, MarginTree() if k == 2 else ClassTree(), seed=0)


@pytest.mark.parametrize("problem", [CPM3C(DIGITS[:40]), MKC(DIGITS[:40]), CPM3C(DIGITS[:40], 3)],
                         ids=["one kernel", "several", "three classes"])
def test_without_time_there_are_labels_and_no_more(problem, monkeypatch):
    kind = {2: MarginTree, 3: ClassTree}[problem.n_clusters]
    solver = KernelTree() if isinstance(problem, MKC) else kind()
    looked = []
    whole = type(solver)._improve
    monkeypatch.setattr(type(solver), "_improve",
                        lambda self, *rest: (looked.append(1), whole(self, *rest))[1])
    out = run(solver, problem, None, np.random.default_rng(0), Budget(deadline=0.0))
    assert out.status is Status.TIME_LIMIT and len(looked) == 1 and out.steps == 0
    assert out.value == pytest.approx(problem.objective(out.point), rel=1e-9)


def test_a_tree_ends_so_early_that_it_can_be_proved(monkeypatch):
    """By a clock that each look at moves on by a second."""
    ticks = itertools.count()
    for module in (runs, margin_tree):
        monkeypatch.setattr(module, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(margin_tree, "POPS", 1)
    problem = CPM3C(DIGITS[:200], beta=0.03)
    out = run(MarginTree(starts=1), problem, None, np.random.default_rng(0), Budget(deadline=400.0))
    left = 400.0 - next(ticks)
    assert out.status is Status.TIME_LIMIT and out.steps > 10 and margin_tree.PROVING > 1
    assert abs(left - margin_tree.PROVING * out.steps) <= 10  # looks since then, and the last step


# ---------------------------------------------------------------- inner products, two ways


@pytest.mark.parametrize("narrow", [True, False])
def test_squares_are_those_of_the_matrix(narrow):
    rng = np.random.default_rng(1)
    X = sample_rows(CPM3C(rng.standard_normal((12, 4))).features)
    g, c, n = rng.random(12), 1.0, 12
    metric = MarginMetric(X, c, g)
    metric.narrow = narrow
    drop = g * (rng.random((3, 12)) < 0.5)
    u = rng.standard_normal((3, 12)) / n
    found = metric.at(drop, u, np.ones((3, 12), dtype=bool))
    for b in range(3):
        inverse = np.linalg.inv(c * np.eye(4) - X.T @ ((g - drop[b])[:, None] * X) / n)
        K = X @ inverse @ X.T
        np.testing.assert_allclose(found.square[b], u[b] @ K @ u[b] / 4, rtol=1e-9)
        np.testing.assert_allclose(found.own[b], np.diagonal(K), rtol=1e-9)
        np.testing.assert_allclose(found.scores[b], K @ u[b] / 2, rtol=1e-8, atol=1e-10)
        assert found.square[b] >= u[b] @ K @ u[b] / 4 and (found.own[b] >= np.diagonal(K)).all()


def test_a_matrix_that_is_not_definite_is_told():
    X = np.random.default_rng(2).standard_normal((8, 3))
    A = X.T @ X / 8
    edge = 1.0 / np.linalg.eigvalsh(A)[-1]
    assert MarginMetric(X, 1.0, np.full(8, 0.999 * edge)).definite
    assert not MarginMetric(X, 1.0, np.full(8, edge)).definite
    assert not MarginMetric(X, 1.0, np.full(8, 1.001 * edge)).definite


# ---------------------------------------------------------------- forged


def forged(result, **changes):
    """The result with parts of its certificate replaced, and the bound that it wants."""
    duals = {**result.certificate.duals, **changes}
    c = Certificate("margin-tree", {}, duals, result.formulation.fingerprint)
    return dataclasses.replace(result, certificate=c, lower_bound=result.objective)


def test_an_honest_tree_does_not_prove_more_than_its_bound(proved):
    assert not forged(proved).verify()


def missing_leaves(duals):
    """Later points count on labels whose other sides nothing proves."""
    return {"implied": duals["implied"][:0], "which": duals["which"][:0]}


def only_child(duals):
    """One side of a branch is closed by its parent's word."""
    v = int(np.flatnonzero(duals["parent"] == 0)[1])
    sample = duals["sample"].copy()
    sample[v] = (sample[v] + 1) % len(duals["g"])
    return {"sample": sample}


def same_side(duals):
    """Both children take the same side, so that the other is covered by none."""
    sign = duals["sign"].copy()
    sign[np.flatnonzero(duals["parent"] == 0)] = 1
    return {"sign": sign}


def elsewhere(duals):
    """A node is closed by the dual point of another, with other labels."""
    closed = duals["closed"].copy()
    done = np.flatnonzero(closed >= 0)
    closed[done[0]] = closed[done[1]]
    return {"closed": closed}


def turned(duals):
    """A weight counts on the other label."""
    share = duals["share"].copy()
    q, i = np.argwhere(share != 0)[0]
    share[q, i] = -share[q, i]
    return {"share": share}


def unlabelled(duals):
    """A weight of a sample that is free at its dual point."""
    share = duals["share"].copy()
    q, i = np.argwhere((share == 0) & (duals["level"] == LEVELS))[0]
    share[q, i] = 0.5
    return {"share": share, "level": np.where(share != 0, 0, duals["level"]).astype(np.uint8)}


def both(duals):
    """A weight beside a g."""
    q, i = np.argwhere(duals["share"] != 0)[0]
    level = duals["level"].copy()
    level[q, i] = 1
    return {"level": level}


def above(duals):
    """More than the g of the root."""
    level = duals["level"].astype(np.int64)
    level[duals["share"] == 0] = 2 * LEVELS
    return {"level": level}


def endless(duals):
    """A weight that is no number."""
    share = duals["share"].copy()
    share[0, 0] = np.nan
    return {"share": share}


def longer(duals):
    """A g of the root with which S is not definite."""
    return {"g": 1.2 * duals["g"]}


def negative(duals):
    """A g below 0."""
    return {"g": -duals["g"]}


def circle(duals):
    """A node that is its own grandparent."""
    parent = duals["parent"].copy()
    parent[1] = len(parent) - 1
    return {"parent": parent}


def stranger(duals):
    """A branch on a sample that does not exist."""
    sample = duals["sample"].copy()
    sample[-2:] = len(duals["g"])
    return {"sample": sample}


def twice(duals):
    """A label that is implied again, as the other one."""
    return {"implied": np.append(duals["implied"], duals["implied"][-1]),
            "which": np.append(duals["which"], -duals["which"][-1])}


def headless(duals):
    """Leaves without what proves them: open nodes whose birth is not told."""
    closed = duals["closed"].copy()
    closed[:] = -1
    return {"closed": closed}


FORGERIES = (missing_leaves, only_child, same_side, elsewhere, turned, unlabelled, both, above,
             endless, longer, negative, circle, stranger, twice, headless)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forged_trees_are_refused(proved, forge):
    duals = proved.certificate.duals
    assert len(duals["parent"]) > 5
    with pytest.raises(ValueError, match=r"prove|tree is malformed"):
        tree_bound(proved.formulation, {**duals, **forge(duals)})
    report = forged(proved, **forge(duals)).verify()
    assert not report and "rebuild" in str(report)


def test_the_objective_and_the_problem_cannot_be_others(proved):
    assert not dataclasses.replace(proved, objective=proved.objective * 0.99).verify()
    other = proved.formulation.replace(beta=0.04)
    assert not dataclasses.replace(proved, formulation=other).verify()
    for wrong in (other.replace(size_floor=0.5), other.replace(loss=SquaredHinge())):
        with pytest.raises(ValueError, match="hinge problems only"):
            tree_bound(wrong, proved.certificate.duals)


def test_weights_move_the_bound_and_none_above_the_optimum(proved):
    rng, duals = np.random.default_rng(0), proved.certificate.duals
    for _ in range(10):
        share = duals["share"] * rng.uniform(0.0, 2.0, duals["share"].shape).astype(np.float32)
        level = np.minimum(duals["level"], rng.integers(0, LEVELS + 1, duals["level"].shape))
        bound = tree_bound(proved.formulation, {**duals, "share": share, "level": level,
                                                "g": duals["g"] * rng.uniform(0, 1)})
        assert bound <= proved.objective


# ---------------------------------------------------------------- in words


def test_a_person_can_read_it(proved):
    tree = proof_tree(proved)
    assert tree.lower_bound == proved.lower_bound
    assert tree.nodes[0].text.startswith("all labelings")
    assert any("labels follow" in node.end for node in tree.nodes)
    leaves = [tree.nodes[v] for v in tree.leaves]
    assert len(leaves) > 3 and all(leaf.end.startswith("none is better") for leaf in leaves)
    assert str(tree).count("\n") == len(tree.nodes)
    assert " in class 1" in str(tree)


# ---------------------------------------------------------------- where it says no


@pytest.mark.parametrize(("problem", "words"), [
    (CPM3C(DIGITS[:20], 3), "two classes, and there are 3; ClassTree is for more"),
    (CPM3C(DIGITS[:20], loss=SquaredHinge()), "bounds are those of the hinge"),
    (CPM3C(DIGITS[:20], size_floor=0.5), "a floor on sizes"),
    (CPM3C(DIGITS[:20], balance=1.0, center=False), "an active balance"),
    (CPM3C(DIGITS[:20], balance=2.0, bias=1.0), "an active balance"),
    (MKC(DIGITS[:20]), "one kernel")])
def test_it_says_why_not(problem, words):
    with pytest.raises(IncompatibleError, match=words):
        mm.solve(problem, MarginTree())


def test_settings_do_something():
    problem = CPM3C(DIGITS[:80], beta=0.03)
    base = mm.solve(problem, MarginTree(), seed=0)
    nodes = base.history["nodes"][-1]
    for options in ({"share": 0.3}, {"near": 0.0}, {"gap": 1e-2}, {"starts": 1}, {"least": 1.0}):
        other = mm.solve(problem, MarginTree(**options), seed=0)
        assert other.history["nodes"][-1] != nodes or options == {"starts": 1}
    assert mm.solve(problem, MarginTree(gap=1e-3), seed=0).gap > 1e-4
