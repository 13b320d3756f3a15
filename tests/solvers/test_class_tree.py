"""ClassTree against all labelings; its certificates, forged in every way; where it says no."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from literal import solved
from relaxed import parts

import mmcopt as mm
from mmcopt.bounds import proof_tree
from mmcopt.bounds.class_margin_tree import ClassProof, best_rows
from mmcopt.bounds.margin_tree import MarginProof, tree_bound
from mmcopt.capabilities import MarginRisk
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian, Polynomial
from mmcopt.margins import SquaredHinge
from mmcopt.modeling.result import Certificate, Status
from mmcopt.solvers import ClassTree, MarginTree
from mmcopt.tolerances import LEVELS

# Optima of random points may lack a class, which is said; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore:CPM3C")
IRIS = mm.datasets.load("iris")[0][::3]


# ---------------------------------------------------------------- all labelings


def labelings(n, k):
    """All labels of n samples by k classes, but for the names."""
    rows = [(0,)]
    for _ in range(n - 1):
        rows = [(*row, r) for row in rows for r in range(min(max(row) + 2, k))]
    return np.array(rows)


def machines(problem, Y):
    """Scores and objectives of Crammer and Singer's machines, of all labels at once, in NumPy.

    Pairs of a dual row are moved along lines: up, down, or from one class to another.
    """
    X, k, (L, n) = problem.features.dense(), problem.n_clusters, Y.shape
    K, each = X @ X.T / problem.beta, np.arange(L)
    u, T = np.zeros((L, n, k)), np.zeros((L, k, n))
    for _ in range(600):
        moved = 0.0
        for i, (p, q) in itertools.product(range(n), itertools.combinations(range(k), 2)):
            y, full = Y[:, i], u[each, i, Y[:, i]]
            d = ((y == p).astype(float) - (y == q) - (T[:, p, i] - T[:, q, i])) / (
                2.0 * max(K[i, i], 1e-300))
            other = np.where(y == p, u[:, i, q], u[:, i, p])  # what may go up to 0
            sign = np.where(y == q, -1.0, 1.0)  # p is the label, or neither is
            low = np.where((y == p) | (y == q), other, u[:, i, p] - 1e300)
            high = np.where((y == p) | (y == q), 1.0 / n - full, -u[:, i, p])
            low = np.where((y == p) | (y == q), low, u[:, i, q])
            d = sign * np.clip(sign * d, low, high)
            u[:, i, p] += d
            u[:, i, q] -= d
            T[:, p] += d[:, None] * K[i]
            T[:, q] -= d[:, None] * K[i]
            moved = max(moved, float(np.abs(d).max()))
        if moved < 1e-10:
            break
    rest = np.where(Y[:, None] == np.arange(k)[:, None], -np.inf, T).max(axis=1)
    loss = np.maximum(1.0 - (np.take_along_axis(T, Y[:, None], 1)[:, 0] - rest), 0.0)
    return T, 0.5 * problem.beta * np.einsum("lnk,lkn->l", u, T) / problem.beta + loss.mean(axis=1)


def instance(seed):
    """Few samples of any kind: kernels, more features than samples, equal ones, not centred."""
    rng = np.random.default_rng([19, seed])
    k = int(rng.integers(3, 5))
    n, d = int(rng.integers(k, 7)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d)) + rng.integers(0, 5) * rng.integers(0, k, (n, 1))
    if rng.random() < 0.15:
        X[1] = X[0]
    if rng.random() < 0.1:
        X = np.column_stack([X, rng.standard_normal((n, 12))])
    kernels = (None, None, None, Gaussian(width=0.5), Gaussian(width=1.0), Polynomial(2))
    return CPM3C(X, k, beta=float(10 ** rng.uniform(-2.5, 0)), kernel=kernels[rng.integers(6)],
                 center=bool(rng.random() < 0.7), normalize=bool(rng.random() < 0.7))


# The second and the last have next to no g, so that nearly all labels must be fixed.
OPTIONS = ({}, {"share": 1e-3}, {"starts": 1, "share": 0.99}, {"gap": 1e-7},
           {"near": 10.0, "dive": 0.0}, {"share": 1e-9, "gap": 1e-6, "starts": 1})


def judge(seed):
    """Solve an instance and compare with all labelings; how many nodes ended with all labels."""
    problem, options = instance(seed), OPTIONS[seed % len(OPTIONS)]
    result = mm.solve(problem, ClassTree(**options), seed=seed)
    best = machines(problem, labelings(problem.n, problem.n_clusters))[1].min()
    assert result.lower_bound <= min(best, result.objective) * (1 + 1e-9)
    if result.objective < best * (1 - 1e-6):  # the descent above ended early
        best = solved(problem.reference(result.labels))
    assert best * (1 - 1e-6) <= result.objective <= best * (1 + 1.2e-4) + 1e-12
    assert result.status is Status.CERTIFIED
    proof = ClassProof(problem.offer(MarginRisk), result.certificate.duals)
    left = proof.tree.at[proof.tree.closed[proof.tree.closed >= 0]]
    return int((left & (left - 1) == 0).all(axis=1).sum())


@pytest.mark.parametrize("part", parts(20, 1))
def test_it_proves_the_least_of_all_labelings(part):
    full = [judge(seed) for seed in range(5 * part, 5 * part + 5)]
    assert sum(full) >= 1  # nodes of which no label is free are among them


@pytest.mark.slow
def test_it_proves_the_least_of_all_labelings_of_many_instances():
    assert sum(judge(seed) for seed in range(100, 1100)) > 300


@pytest.mark.parametrize("seed", parts(30, 6))
def test_every_leaf_is_below_the_weights_of_its_labels(seed):
    problem = instance(seed)
    k = problem.n_clusters
    result = mm.solve(problem, ClassTree(share=0.5), seed=0, max_iter=1 + seed % 2)
    tree = ClassProof(problem.offer(MarginRisk), result.certificate.duals)
    Y = labelings(problem.n, k)
    T, objectives = machines(problem, Y)
    own = (np.take_along_axis(T, Y[:, None], 1)[:, 0] >= T.max(axis=1) - 1e-12).all(axis=1)
    names = np.array(list(itertools.permutations(range(k))))
    Y = np.concatenate([order[Y[own]] for order in names])  # whose W have the labels of the machine
    objectives = np.tile(objectives[own], len(names))
    signs = tree.tree
    for state, added, label, bound in zip(signs.state, signs.added, signs.label, tree.values,
                                          strict=True):
        left = signs.at[state].copy()
        free = left & (left - 1) != 0
        left[free] = (1 << k) - 1  # what is ruled out but not labelled is no part of the claim
        if added >= 0:
            left[added] = 1 << label
        inside = (left & (1 << Y) != 0).all(axis=1)
        assert not inside.any() or bound <= objectives[inside].min() * (1 + 1e-9)


def test_no_row_is_better_than_the_best():
    rng = np.random.default_rng(0)
    B, k = 200, 4
    costs, h = rng.normal(0, 0.7, (B, k)), rng.choice([0.1, 1.0, 10.0], B)
    label = rng.integers(0, k, B)
    costs[np.arange(B), label] = 0.0

    def worth(a):
        total = a.sum(axis=1)
        return np.minimum(total, 0.2) - (costs * a).sum(axis=1) \
            - h / 2 * (total**2 + (a**2).sum(axis=1))

    best = best_rows(costs, label, h, 0.2)
    assert (best >= 0).all() and not best[np.arange(B), label].any()
    for _ in range(300):
        other = np.maximum(best + rng.normal(0, rng.choice([1e-3, 0.1, 1.0]), (B, k)), 0.0)
        other[np.arange(B), label] = 0.0
        assert (worth(other) <= worth(best) + 1e-12).all()


# ---------------------------------------------------------------- two classes, both ways


def in_classes(duals):
    """The certificate of a tree of signs, in classes."""
    turn = dict(duals)
    turn["sign"] = (duals["sign"] < 0).astype(int)
    sample = np.abs(duals["which"]) - 1
    both = np.flatnonzero(duals["last"] >= 0)  # whose state rules both classes out
    q, i = duals["closed"][both], duals["last"][both]
    once = [int(duals["which"][(duals["implied"] == a) & (sample == b)][0] > 0)
            for a, b in zip(q, i, strict=True)]
    turn["implied"] = np.append(duals["implied"], q)
    turn["which"] = np.append(2 * sample + (duals["which"] > 0),
                              2 * i + 1 - np.array(once, dtype=int)).astype(int)
    turn["closed"] = np.where(duals["last"] >= 0, -1, duals["closed"])
    share = duals["share"]
    turn["share"] = np.stack([np.maximum(-share, 0.0), np.maximum(share, 0.0)], axis=2)
    return turn


def test_two_classes_have_the_bounds_of_a_tree_of_signs():
    problem = CPM3C(IRIS, 2, beta=0.1)
    duals = mm.solve(problem, MarginTree(share=0.6, starts=1), seed=0).certificate.duals
    risk = problem.offer(MarginRisk)
    signs, classes = MarginProof(risk, duals), ClassProof(risk, in_classes(duals))
    assert len(duals["parent"]) > 5 and (duals["last"] >= 0).any()
    done = np.isfinite(classes.bounds)
    np.testing.assert_allclose(np.array(classes.bounds)[done], np.array(signs.bounds)[done],
                               rtol=1e-9)


# ---------------------------------------------------------------- real problems


@pytest.fixture(scope="module")
def proved():
    """A problem whose root leaves a gap, and that is proved by a hundred nodes."""
    return mm.solve(CPM3C(IRIS, 3, beta=0.1), ClassTree(starts=5), seed=0)


def test_iris_is_proved_saved_and_checked_again(proved, tmp_path):
    assert proved.status is Status.CERTIFIED and proved.certificate.kind == "margin-tree"
    root = mm.solve(proved.formulation.relax("lifted"))
    assert root.lower_bound < 0.8 * proved.objective
    proved.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify(), str(back.verify())
    assert back.lower_bound == proved.lower_bound


def test_searches_end_no_lower(proved):
    found = mm.solve(proved.formulation, seed=0)
    assert found.objective >= proved.lower_bound
    again = mm.solve(proved.formulation, ClassTree(starts=1), init=found, seed=1)
    assert again.objective == pytest.approx(proved.objective, rel=1e-4)


def test_it_goes_on_where_it_was_stopped(monkeypatch):
    monkeypatch.setattr("mmcopt.solvers.margin_tree.CHUNK", 1.0)  # steps of few nodes
    problem = CPM3C(IRIS, 3, beta=0.1)
    part = mm.solve(problem, ClassTree(), seed=0, max_iter=3)
    assert 0 < part.lower_bound < part.objective and part.verify()
    rest = mm.solve(problem, ClassTree(), init=part, seed=0)
    assert rest.status is Status.CERTIFIED and rest.verify()


def test_certify_ends_certified():
    result = mm.solve(CPM3C(IRIS[::2], 3, beta=0.05), seed=0).certify()
    assert result.status is Status.CERTIFIED and result.verify()
    assert [rung.level for rung in result.ladder][-1] == "margin-tree"


def test_samples_of_zeros():
    rng = np.random.default_rng(0)
    problem = CPM3C(np.vstack([np.zeros((2, 3)), rng.standard_normal((5, 3))]), 3, beta=0.5,
                    center=False)
    result = mm.solve(problem, ClassTree(), seed=0)
    best = machines(problem, labelings(7, 3))[1].min()
    assert best * (1 - 1.1e-4) <= result.lower_bound <= best * (1 + 1e-9) and result.verify()


# ---------------------------------------------------------------- forged


def forged(result, **changes):
    """The result with parts of its certificate replaced, and the bound that it wants."""
    duals = {**result.certificate.duals, **changes}
    c = Certificate("margin-tree", {}, duals, result.formulation.fingerprint)
    return dataclasses.replace(result, certificate=c, lower_bound=result.objective)


def changed(duals, name, at, value):
    """A copy with one entry of one array changed."""
    copy = duals[name].copy()
    copy[at] = value
    return {name: copy}


def kids(duals):
    """The children of the root."""
    return np.flatnonzero(duals["parent"] == 0)


def missing_leaves(duals):
    """Later points count on labels of which nothing rules the others out."""
    return {"implied": duals["implied"][:0], "which": duals["which"][:0]}


def missing_class(duals):
    """A class of a sample is ruled out by nothing."""
    return {"implied": duals["implied"][1:], "which": duals["which"][1:]}


def other_sample(duals):
    """A child of another sample than its brothers."""
    v = kids(duals)[1]
    return changed(duals, "sample", v, (duals["sample"][v] + 1) % len(duals["g"]))


def same_class(duals):
    """Children of the same class, so that another is covered by none."""
    return changed(duals, "sign", kids(duals), duals["sign"][kids(duals)[0]])


def unnamed(duals):
    """A child of a class beyond the one that stands for all without labels."""
    return changed(duals, "sign", kids(duals)[-1], 2)


def disowned(duals):
    """A child that is given to another parent."""
    return changed(duals, "parent", kids(duals)[-1], kids(duals)[0])


def elsewhere(duals):
    """A node is closed by the dual point of another, with other labels."""
    done = np.flatnonzero(duals["closed"] >= 0)
    return changed(duals, "closed", done[0], duals["closed"][done[1]])


def ended(duals):
    """A node ends by a sample that has classes left."""
    v = np.flatnonzero(duals["closed"] >= 0)[0]
    return {**changed(duals, "closed", v, -1), **changed(duals, "last", v, 0)}


def turned(duals):
    """A weight below 0."""
    return {"share": -duals["share"]}


def own(duals):
    """A weight against the label itself."""
    q, i, r = np.argwhere(duals["share"] > 0)[0]
    return changed(duals, "share", (q, i), 0.5)


def unlabelled(duals):
    """A weight of a sample that is free at its dual point."""
    q, i = np.argwhere((duals["share"] == 0).all(axis=2) & (duals["level"] == LEVELS))[0]
    return {**changed(duals, "share", (q, i, 1), 0.5), **changed(duals, "level", (q, i), 0)}


def both(duals):
    """A weight beside a g."""
    q, i, _ = np.argwhere(duals["share"] != 0)[0]
    return changed(duals, "level", (q, i), 1)


def above(duals):
    """More than the g of the root."""
    level = duals["level"].astype(np.int64)
    level[(duals["share"] == 0).all(axis=2)] = 2 * LEVELS
    return {"level": level}


def endless(duals):
    """A weight that is no number."""
    return changed(duals, "share", (0, 0, 0), np.nan)


def flat(duals):
    """Weights of two classes."""
    return {"share": duals["share"][:, :, :2]}


def longer(duals):
    """A g of the root with which S is not definite."""
    return {"g": 1.2 * duals["g"]}


def twice(duals):
    """A class that is ruled out again."""
    return {"implied": np.append(duals["implied"], duals["implied"][-1]),
            "which": np.append(duals["which"], duals["which"][-1])}


def headless(duals):
    """Leaves without what proves them: open nodes whose birth is not told."""
    return {"closed": np.full_like(duals["closed"], -1), "last": np.full_like(duals["last"], -1)}


FORGERIES = (missing_leaves, missing_class, other_sample, same_class, unnamed, disowned, elsewhere,
             ended, turned, own, unlabelled, both, above, endless, flat, longer, twice, headless)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forged_trees_are_refused(proved, forge):
    duals = proved.certificate.duals
    assert len(duals["parent"]) > 5 and len(duals["which"]) > 5
    with pytest.raises(ValueError, match=r"prove|tree is malformed"):
        tree_bound(proved.formulation, {**duals, **forge(duals)})
    report = forged(proved, **forge(duals)).verify()
    assert not report and "rebuild" in str(report)


def test_an_honest_tree_does_not_prove_more_than_its_bound(proved):
    assert not forged(proved).verify()
    assert not dataclasses.replace(proved, objective=proved.objective * 0.99).verify()
    for wrong in (proved.formulation.replace(n_clusters=4), CPM3C(IRIS, 2, beta=0.1)):
        with pytest.raises(ValueError, match="proves nothing"):
            tree_bound(wrong, proved.certificate.duals)


def test_weights_move_the_bound_and_none_above_the_optimum(proved):
    rng, duals = np.random.default_rng(0), proved.certificate.duals
    for _ in range(10):
        share = duals["share"] * rng.uniform(0.0, 2.0, duals["share"].shape).astype(np.float32)
        level = np.minimum(duals["level"], rng.integers(0, LEVELS + 1, duals["level"].shape))
        bound = tree_bound(proved.formulation, {**duals, "share": share, "level": level,
                                                "g": duals["g"] * rng.uniform(0, 1)})
        assert bound <= proved.objective


def test_a_person_can_read_it(proved):
    tree = proof_tree(proved)
    assert tree.lower_bound == proved.lower_bound
    assert tree.nodes[0].text.startswith("all labelings")
    assert any("classes are ruled out" in node.end for node in tree.nodes)
    leaves = [tree.nodes[v] for v in tree.leaves]
    assert len(leaves) > 3 and all(leaf.end.startswith("none is better") for leaf in leaves)
    words = tree.statement
    said = [float(x) for x in re.findall(r"\d+\.\d+|\d+e-\d+", words)]
    assert said[0] <= tree.lower_bound and said[1] >= tree.objective
    assert "leaves, of which 0" in words
    assert " in class 1" in str(tree) and " in a new class" in str(tree)


# ---------------------------------------------------------------- where it says no


@pytest.mark.parametrize(("problem", "words"), [
    (CPM3C(IRIS, 2), "labels of 3 to 16 classes, and there are 2"),
    (CPM3C(IRIS, 17), "labels of 3 to 16 classes, and there are 17"),
    (CPM3C(IRIS, 3, loss=SquaredHinge()), "bounds are those of the hinge"),
    (CPM3C(IRIS, 3, size_floor=0.5), "a floor on sizes"),
    (MKC(IRIS, 3), "one kernel")])
def test_it_says_why_not(problem, words):
    with pytest.raises(IncompatibleError, match=words):
        mm.solve(problem, ClassTree())


def test_settings_do_something():
    rng = np.random.default_rng(0)
    problem = CPM3C(rng.standard_normal((24, 2)) + 2 * rng.integers(0, 3, (24, 1)), 3, beta=0.3)
    nodes = mm.solve(problem, ClassTree(), seed=0).history["nodes"][-1]
    for options in ({"share": 0.3}, {"near": 0.0}, {"gap": 1e-2}, {"least": 1.0}):
        other = mm.solve(problem, ClassTree(**options), seed=0)
        assert other.history["nodes"][-1] != nodes
