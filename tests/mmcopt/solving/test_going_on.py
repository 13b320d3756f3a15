"""What a certificate proves is gone on from: trees are taken up, levels below them left out."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.margin_tree import margin_proof
from mmcopt.formulations import CPM3C, MKC, KernelKMeans, LeastSquares
from mmcopt.solvers import BranchAndBound

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((18, 2)), RNG.standard_normal((40, 4))
IMPATIENT = BranchAndBound(root_rounds=2, node_rounds=1, enumerate=4)
TREES = [
    (LeastSquares(X[:12], 3), IMPATIENT, 2),
    pytest.param((LeastSquares(RNG.standard_normal((30, 5)), 3), "BranchAndBound", 10),
                 marks=pytest.mark.slow),
    (KernelKMeans(np.random.default_rng(3).standard_normal((30, 3)), 4), "BranchAndBound", 5),
    (CPM3C(Y, 2, beta=0.1), "MarginTree", 1),
    pytest.param((MKC(Y[:30], 2, C=10.0), "KernelTree", 1), marks=pytest.mark.slow),
]


def last(result, column):
    return result.history[column][-1] if len(result.history) else 0


@pytest.fixture(params=TREES, ids=lambda p: str(p[1])[:14])
def begun(request, tmp_path, monkeypatch):
    """A problem, its solver, and a run that was stopped with a tree, read from a file."""
    f, solver, steps = request.param
    monkeypatch.setattr("mmcopt.solvers.margin_tree.CHUNK", 1.0)  # steps of few nodes
    run = mm.solve(f, solver, seed=0, max_iter=steps)
    run.save(tmp_path / "run.npz")
    return f, solver, mm.load(tmp_path / "run.npz")


def test_a_tree_is_taken_up_where_it_was_left(begun):
    f, solver, before = begun
    assert len(before.certificate.duals["parent"]) > 1 and before.status is not mm.Status.CERTIFIED
    again = mm.solve(f, solver, seed=0, init=before, max_iter=1)
    slack = 1e-9 * abs(before.lower_bound)
    assert again.lower_bound >= before.lower_bound - slack and again.verify()
    assert len(again.certificate.duals["parent"]) >= len(before.certificate.duals["parent"])
    assert last(again, "lower") >= before.lower_bound - 1e-6
    end = mm.solve(f, solver, seed=0, init=before)
    whole = mm.solve(f, solver, seed=0)
    assert end.status is mm.Status.CERTIFIED and end.verify()
    assert len(end.history) < len(whole.history)
    assert end.objective == pytest.approx(whole.objective, rel=1e-4)


def test_certify_takes_no_level_again(begun, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.ladder.MAX_LABELINGS", 1)
    _, _, before = begun
    after = before.certify()
    kinds = {rung.level for rung in after.ladder}
    assert kinds <= {"branch-and-bound", "margin-tree", "partition+cuts"}
    assert after.ladder[0].level == before.certificate.kind
    assert after.status is mm.Status.CERTIFIED and after.verify()


def test_a_proof_that_claims_too_much_is_worth_what_it_proves(begun):
    f, solver, before = begun
    duals = dict(before.certificate.duals)
    if before.certificate.kind == "branch-and-bound":  # leaves without proofs of their own
        duals["duals"] = [duals["duals"][0]] + [None] * (len(duals["duals"]) - 1)
    else:
        duals["share"] = np.zeros_like(duals["share"])
        assert margin_proof(f, duals).bounds[0] < before.lower_bound
    forged = dataclasses.replace(before, certificate=dataclasses.replace(before.certificate,
                                                                         duals=duals))
    again = mm.solve(f, solver, seed=0, init=forged, max_iter=2)
    assert again.verify()
    whole = mm.solve(f, solver, seed=0)
    assert again.lower_bound <= whole.objective * (1 + 1e-9)


def test_what_is_no_tree_is_not_taken_up():
    f, solver, steps = TREES[0]
    before = mm.solve(f, solver, seed=0, max_iter=steps)
    duals = dict(before.certificate.duals)
    duals["same"] = np.ones_like(duals["same"])  # children that do not cover their parent
    forged = dataclasses.replace(before, certificate=dataclasses.replace(before.certificate,
                                                                         duals=duals))
    again = mm.solve(f, solver, seed=0, init=forged, max_iter=1)
    assert len(again.certificate.duals["parent"]) == 1 and again.verify()


def test_adopted_labels_verify_when_they_are_certified_again():
    f = LeastSquares(X, 2)
    first = mm.certify(f, np.arange(18) % 2, improve=True)
    assert first.adopted and first.certify().verify()
