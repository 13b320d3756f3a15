"""Gap arithmetic, merging, labels of one's own, and `verify` against forgeries."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import DataError, IncompatibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Certificate, Check, History, Report, Result, Status

PROBLEM = LeastSquares.examples()[1]
OTHER = LeastSquares.examples()[3]


@pytest.fixture(scope="module")
def result():
    return mm.solve(PROBLEM, "SteepestDescent", seed=0)


def made(**changes):
    base = Result(PROBLEM, "test", np.arange(9) % 3, np.arange(9) % 3, 10.0, 0.0, Status.CONVERGED)
    return dataclasses.replace(base, **changes)


@pytest.mark.parametrize("objective, bound, gap", [
    (10.0, 9.0, 0.1), (-10.0, -11.0, 0.1), (10.0, 10.0, 0.0), (0.0, -1e-10, 1.0),
    (1e-12, 0.0, 1e-2), (0.5, 0.25, 0.5)])
def test_the_gap_is_relative_to_the_objective_never_to_one(objective, bound, gap):
    r = made(objective=objective, lower_bound=bound)
    assert r.gap == pytest.approx(gap)
    assert r.absolute_gap == pytest.approx(objective - bound)


def test_there_is_no_gap_without_a_bound_or_without_feasibility():
    assert made().gap is None and made().absolute_gap is None and made().closed is None
    for violation, has in [(0.0, True), (1e-6, True), (1.1e-6, False), (2.0, False)]:
        r = made(lower_bound=9.0, trivial_bound=0.0, violation=violation)
        assert r.feasible == has
        assert (r.gap is not None) == (r.closed is not None) == has
    assert "no bound" in repr(made())
    assert "violation 2 (infeasible: no gap)" in repr(made(lower_bound=9.0, violation=2.0))
    assert "bound 9, gap 10 %" in repr(made(lower_bound=9.0))


@pytest.mark.parametrize("bound, trivial, closed", [
    (10.0, 0.0, 1.0), (0.0, 0.0, 0.0), (5.0, 0.0, 0.5), (7.0, 4.0, 0.5), (10.0, 10.0, 1.0)])
def test_closed_is_the_share_of_the_way_from_the_trivial_bound(bound, trivial, closed):
    assert made(lower_bound=bound, trivial_bound=trivial).closed == pytest.approx(closed)


@pytest.mark.parametrize("mine, yours, objective, bound", [
    ((10.0, 5.0), (9.0, 4.0), 9.0, 5.0), ((9.0, 4.0), (10.0, 5.0), 9.0, 5.0),
    ((10.0, None), (9.0, 4.0), 9.0, 4.0), ((9.0, None), (10.0, 4.0), 9.0, 4.0),
    ((9.0, 0.0), (10.0, -1.0), 9.0, 0.0), ((9.0, -1.0), (10.0, 0.0), 9.0, 0.0),
    ((9.0, None), (10.0, None), 9.0, None)])
def test_merging_keeps_the_smaller_objective_and_the_larger_bound(mine, yours, objective, bound):
    def one(objective, bound):
        kind = None if bound is None else Certificate("eig", {}, {"t": bound}, PROBLEM.fingerprint)
        return made(objective=objective, lower_bound=bound, certificate=kind)

    both = one(*mine).merge(one(*yours))
    assert (both.objective, both.lower_bound) == (objective, bound)
    assert both.certificate is None if bound is None else both.certificate.duals == {"t": bound}


def test_merging_prefers_feasible_points_and_refuses_other_problems():
    low = made(objective=1.0, violation=1.0)
    assert low.merge(made()).objective == 10.0 and made().merge(low).objective == 10.0
    with pytest.raises(IncompatibleError) as e:
        made().merge(made(formulation=OTHER))
    assert str(e.value) == ("only results for the same problem can be merged; "
                            "these have different fingerprints.")
    rebuilt = LeastSquares(**PROBLEM.params())
    assert made().merge(made(formulation=rebuilt, objective=3.0)).objective == 3.0


def test_a_genuine_result_verifies(result):
    report = result.verify()
    assert report and bool(report) is True
    assert [c.name for c in report.checks] == ["fingerprint", "objective", "violation", "labels",
                                               "bound", "status", "trivial bound", "record"]
    assert str(report).count("ok  ") == 8


def other_labels(r):
    return np.roll(r.labels, 1)


FORGERIES = {
    "objective": lambda r: {"objective": r.objective - 1e-6},
    "objective nan": lambda r: {"objective": np.nan},
    "bound raised": lambda r: {"lower_bound": r.lower_bound + 1e-6},
    "bound at the objective": lambda r: {"lower_bound": r.objective},
    "bound infinite": lambda r: {"lower_bound": np.inf},
    "bound nan": lambda r: {"lower_bound": np.nan},
    "bound without a certificate": lambda r: {"certificate": None},
    "violation": lambda r: {"violation": 1.0},
    "labels": lambda r: {"labels": other_labels(r)},
    "labels of another length": lambda r: {"labels": r.labels[:-1]},
    "no labels": lambda r: {"labels": None},
    "point": lambda r: {"point": other_labels(r)},
    "point and labels": lambda r: {"point": other_labels(r), "labels": other_labels(r)},
    "point too short": lambda r: {"point": r.point[:-1]},
    "point out of range": lambda r: {"point": r.point + 5, "labels": r.point + 5},
    "point below zero": lambda r: {"point": r.point - 3, "labels": r.point - 3},
    "classes": lambda r: {"classes": ["a", "b", "c"]},
    "too few classes": lambda r: {"classes": ["a"]},
    "formulation": lambda r: {"formulation": OTHER},
    "formulation of other lam": lambda r: {"formulation": PROBLEM.replace(lam=0.31)},
    "fingerprint": lambda r: {"certificate": dataclasses.replace(r.certificate,
                                                                 of="0" * 64)},
    "unknown certificate": lambda r: {"certificate": dataclasses.replace(r.certificate,
                                                                         kind="trust me")},
    "duals missing": lambda r: {"certificate": Certificate("eig", {}, {}, PROBLEM.fingerprint)},
    "duals of a wrong type": lambda r: {"certificate": Certificate(
        "eig", {}, {"t": "high"}, PROBLEM.fingerprint)},
    "duals infinite": lambda r: {"certificate": Certificate(
        "eig", {}, {"t": np.inf}, PROBLEM.fingerprint)},
    "another certificate": lambda r: {"lower_bound": r.lower_bound + 1e-3, "certificate":
                                      Certificate("own", {}, {}, PROBLEM.fingerprint)},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_results_do_not_verify(result, forgery):
    forged = dataclasses.replace(result, **FORGERIES[forgery](result))
    report = forged.verify()
    assert not report
    assert "FAIL" in str(report)


def test_a_problem_that_was_changed_behind_its_back_does_not_verify(result):
    X = np.array(PROBLEM.X)
    problem = PROBLEM.replace(X=X)
    r = mm.solve(problem, "SteepestDescent", seed=0)
    assert r.verify()
    X[0] += 1.0
    assert not r.verify()


def test_a_lower_bound_than_the_certificate_gives_is_honest(result):
    modest = dataclasses.replace(result, lower_bound=result.lower_bound - 1.0)
    assert modest.verify()


def test_a_report_is_true_when_every_check_holds():
    good, bad = Check("a", True, "fine"), Check("b", False, "wrong")
    assert Report((good, good)) and not Report((good, bad))
    assert str(Report((good, bad))) == "ok   a: fine\nFAIL b: wrong"


def test_labels_of_ones_own(result):
    named = result.with_labels(["x", "y", "z"])
    assert named.labels.tolist() == [["x", "y", "z"][c] for c in result.labels]
    assert set(named.predict(PROBLEM.X)) <= {"x", "y", "z"}
    assert named.verify()
    assert result.labels.dtype.kind == "i"
    with pytest.raises(DataError, match="has no labels"):
        made(labels=None).with_labels(["x", "y", "z"])


def test_predict_is_the_largest_decision_value_and_agrees_on_the_training_rows(result):
    scores = result.decision_function(PROBLEM.X)
    assert scores.shape == (9, 3)
    assert np.array_equal(result.predict(PROBLEM.X), scores.argmax(axis=1))
    P = np.where(np.eye(3)[result.labels] > 0, 1.0, -1.0)
    np.testing.assert_allclose(scores, PROBLEM.W @ P, atol=1e-10)
    assert result.predict(PROBLEM.X[:2]).shape == (2,)


def test_history_has_columns():
    h = History([{"a": 1.0}, {"a": 2.0, "b": 3.0}])
    assert h.columns == ["a", "b"] and len(h) == 2
    assert h["a"].tolist() == [1.0, 2.0] and np.isnan(h["b"][0])
    assert list(h.to_dict()) == ["a", "b"]
    assert repr(h) == "History(2 rows: a, b)"
    with pytest.raises(KeyError, match="history has no column 'c'; it has a, b"):
        h["c"]
    assert len(History()) == 0 and History().to_dict() == {}


def test_a_summary_is_one_line(result):
    assert result.summary() == str(result) == repr(result)
    assert "\n" not in result.summary()
    assert result.summary().startswith("SteepestDescent on LeastSquares: converged, objective ")
    assert str(Status.TIME_LIMIT) == "time limit"


def test_names_of_classes_must_differ(result):
    assert result.verify()
    forged = dataclasses.replace(result, labels=np.zeros(len(result.labels), int), classes=[0, 0])
    assert not forged.verify()


def test_duals_that_overflow_fail_and_raise_nothing(result):
    claim = dataclasses.replace(result.certificate, duals={"t": 10**400})
    assert not dataclasses.replace(result, certificate=claim).verify()


def test_a_result_as_a_dictionary_and_as_frames():
    r = mm.solve(PROBLEM, "Tabu", seed=3).certify(time_limit=5)
    told = r.to_dict()
    assert told["objective"] == r.objective and told["gap"] == r.gap and told["seed"] == 3
    assert np.array_equal(told["labels"], r.labels) and told["fingerprint"] == PROBLEM.fingerprint
    assert [rung["level"] for rung in told["ladder"]] == [rung.level for rung in r.ladder]
    frame = r.to_frame()
    assert len(frame) == 1 and frame["lower_bound"][0] == r.lower_bound
    history = r.history.to_frame()
    assert list(history.columns) == r.history.columns and len(history) == len(r.history)


def test_what_a_notebook_shows():
    r = mm.solve(PROBLEM, "Tabu", seed=0)
    shown = r._repr_html_()
    assert shown.startswith("<table>") and "Tabu" in shown and f"{r.objective:.6g}" in shown
    assert r.verify()._repr_html_().count("<tr>") == 1 + len(r.verify().checks)
