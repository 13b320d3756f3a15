"""The ladder of certificates: levels in order, better labels, limits, Ctrl-C, saving."""

import functools
import time

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import ResourceError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.modeling.result import Status
from mmcopt.solving import ladder

DIGITS, _ = mm.datasets.load("digits:3,8")
WIDE = Gaussian(width=0.3)
PROBLEM = LeastSquares(DIGITS[:60], 2, kernel=WIDE, lam=2.0**-5, center=False, sizes=0.1)


@functools.cache
def climbed():
    """A closed gap, and all that progress was told on the way."""
    seen = []
    return mm.solve(PROBLEM, seed=0).certify(progress=seen.append), tuple(seen)


def levels(result):
    return list(dict.fromkeys(rung.level for rung in result.ladder))


def test_it_climbs_until_the_gap_is_closed():
    result, seen = climbed()
    assert result.status is Status.CERTIFIED and result.gap <= 1e-4 and result.verify()
    assert levels(result)[:3] == ["eig", "sdp", "sdp+cuts"]
    assert seen == result.ladder
    lower = [rung.lower for rung in result.ladder]
    assert (np.diff([rung.seconds for rung in result.ladder]) >= 0).all()
    assert lower[0] < lower[-1] == result.lower_bound
    assert min(rung.upper for rung in result.ladder) >= max(lower) - 1e-9


def test_three_clusters_climb_the_partition_relaxation():
    X, _ = mm.datasets.load("iris")
    problem = LeastSquares(X[::4], 3, kernel=WIDE, lam=0.1)
    result = mm.solve(problem, seed=0).certify(time_limit=4)
    assert "partition+cuts" in levels(result)
    assert result.gap < 0.05 and result.verify()


def test_few_labelings_are_all_tried():
    result = mm.evaluate(PROBLEM.replace(X=DIGITS[:10]), np.arange(10) % 2).certify()
    assert levels(result) == ["eig", "enumeration"] and result.status is Status.CERTIFIED


def test_better_labels_are_offered_or_adopted():
    labels = np.arange(60) % 2
    asked = mm.certify(PROBLEM, labels, time_limit=0.5)
    assert asked.objective == PROBLEM.objective(labels)
    assert asked.incumbent.objective < asked.objective
    assert asked.incumbent.verify() and asked.verify()
    assert "result.incumbent" in asked.message
    assert asked.lower_bound <= asked.incumbent.objective
    adopted = mm.certify(PROBLEM, np.where(labels, "b", "a"), time_limit=0.5, improve=True)
    assert adopted.objective == asked.incumbent.objective
    assert set(adopted.labels) == {"a", "b"} and "adopted" in adopted.message


def test_infeasible_labels_get_a_bound_and_no_gap():
    result = mm.certify(PROBLEM, np.zeros(60, int), time_limit=0.5)
    assert result.gap is None and result.lower_bound > 1.4
    assert result.incumbent.feasible and result.verify()


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_a_time_limit_is_kept_and_said(limit, ticking):
    problem = LeastSquares(DIGITS[:150], 2)
    first = mm.solve(problem, seed=0)
    ticking(0.01)
    start = time.perf_counter()
    result = first.certify(time_limit=limit)
    assert time.perf_counter() - start < limit + 0.5
    assert result.lower_bound >= first.lower_bound and result.verify()
    assert result.message == "the time was up before the gap was closed"


def test_ctrl_c_keeps_the_best_so_far():
    def interrupt(rung):
        if rung.level == "sdp+cuts":
            raise KeyboardInterrupt

    result = mm.solve(PROBLEM, seed=0).certify(progress=interrupt)
    assert result.certificate.kind in ("sdp", "branch-and-bound") and result.verify()
    assert result.message == "interrupted; this is the best bound so far"


def test_many_samples_take_the_levels_that_fit_them(monkeypatch):
    monkeypatch.setattr(ladder, "FACTORED", 30)
    two, three = (LeastSquares(DIGITS[:36], k, kernel=WIDE) for k in (2, 3))
    result = mm.solve(two, seed=0).certify(time_limit=0.6)
    assert levels(result)[:2] == ["eig", "sdp+cuts"] and result.gap < 0.02
    result = mm.solve(three, seed=0).certify(time_limit=1e6)
    assert levels(result)[:2] == ["eig", "partition+cuts"]
    assert result.gap <= 1e-4 and result.verify()


def test_from_a_hundred_samples_on_a_factor_closes_the_gap():
    X, _ = mm.datasets.load("gaussians:n=104,distance=2,seed=0")
    result = mm.solve(LeastSquares(X, 2, lam=0.05), seed=0).certify()
    assert levels(result)[:2] == ["eig", "sdp+cuts"]
    assert result.status is Status.CERTIFIED and result.verify()


def test_fewer_samples_begin_with_the_mixing_method_where_they_are_many(monkeypatch):
    monkeypatch.setattr(ladder, "INTERIOR", 30)
    two = LeastSquares(DIGITS[:36], 2, kernel=WIDE)
    result = mm.solve(two, seed=0).certify(time_limit=0.6)
    assert levels(result)[:3] == ["eig", "sdp", "sdp+cuts"] and result.gap < 0.01


@pytest.mark.parametrize("interior", [1, 60])
def test_a_tree_goes_on_from_the_cuts_at_any_size(interior, monkeypatch):
    monkeypatch.setattr(ladder, "BRANCHING", 1)
    monkeypatch.setattr(ladder, "INTERIOR", interior)
    monkeypatch.setattr(ladder, "ANCHORED", ladder.ANCHORED | {"evaluations": 3, "tol": 1.0,
                                                              "patience": 1})
    X = np.random.default_rng(1).standard_normal((36, 6))
    result = mm.solve(LeastSquares(X, 2, lam=0.1), seed=0).certify()
    assert levels(result) == ["eig", "sdp", "sdp+cuts", "branch-and-bound"]
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.certificate.kind == "branch-and-bound"


def test_the_first_level_leaves_time_for_the_others(monkeypatch):
    monkeypatch.setattr(ladder, "INTERIOR", 1)
    monkeypatch.setattr(ladder, "FIRST", 1e-15)
    result = mm.solve(PROBLEM, seed=0).certify(time_limit=1e6)
    assert result.climb_end is mm.modeling.result.ClimbEnd.CLOSED and result.verify()
    monkeypatch.setattr(ladder, "_levels", lambda f: [ladder.Level("sdp", ladder._first)])
    result = mm.solve(PROBLEM, seed=0).certify(time_limit=1e6)
    assert result.climb_end is mm.modeling.result.ClimbEnd.EXHAUSTED  # there was time left


def test_no_level_begins_when_there_is_only_time_for_proofs(monkeypatch):
    monkeypatch.setattr(ladder, "CLOSING", 1.0)
    first = mm.solve(PROBLEM, seed=0)
    result = first.certify(time_limit=60.0**3)
    assert levels(result) == ["eig"] and result.lower_bound == first.lower_bound
    assert result.message == "the time was up before the gap was closed"
    assert len(levels(first.certify(time_limit=60.0**3 + 1e6))) > 1


def test_what_a_relaxation_keeps_for_its_end_is_kept_once(monkeypatch):
    limits, solve = [], ladder.solve

    def watched(f, *args, time_limit, **options):
        limits.append(time_limit)
        return solve(f, *args, time_limit=time_limit, **{**options, "max_iter": 1})

    monkeypatch.setattr(ladder, "_levels", lambda f: [ladder._dual("sdp+cuts", "FactorDual", {})])
    monkeypatch.setattr(ladder, "solve", watched)
    monkeypatch.setattr(ladder, "CLOSING", 5e5 / 60**3)
    for kept, expected in ((2e5, 7e5), (9e5, 1e6)):
        monkeypatch.setattr(ladder, "bound_seconds", lambda f, kept=kept: kept)
        limits.clear()
        mm.solve(PROBLEM, seed=0).certify(time_limit=1e6)
        assert limits[0] == pytest.approx(expected, abs=1e3)


def test_the_ladder_is_saved_and_the_bound_verified_elsewhere(tmp_path):
    result, _ = climbed()
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.ladder == result.ladder and back.verify()


def test_one_cluster_and_no_relaxation_are_no_errors():
    one = mm.solve(LeastSquares(DIGITS[:20], 1), "BruteForce")
    assert one.certify().lower_bound == one.lower_bound <= one.objective
    fit = mm.solve(PROBLEM.restrict(np.arange(60) % 2))
    assert fit.certify().lower_bound == fit.lower_bound


def test_progress_prints_lines(capsys):
    mm.solve(PROBLEM, seed=0).certify(time_limit=0.5, progress=True)
    assert "bound" in capsys.readouterr().err


def test_what_does_not_fit_is_refused_before_it_starts_with_a_way_out(monkeypatch):
    relaxed = {kind: PROBLEM.relax(kind) for kind in ("sdp", "sdp+cuts")}
    for problem in relaxed.values():
        problem.lift  # noqa: B018
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 300_000)
    with pytest.raises(ResourceError) as e:
        mm.solve(relaxed["sdp"], "InteriorPoint")
    assert str(e.value) == ("InteriorPoint on 60 x 60 matrices (about 0.043 s) needs 338 KiB, and "
                            "293 KiB are free; LowRank needs a tenth of that, and relax('eig') "
                            "least.")
    with pytest.raises(ResourceError, match=r"relax\('sdp'\) with LowRank"):
        mm.solve(relaxed["sdp+cuts"], "RegularizedDual")
    monkeypatch.setattr("mmcopt.checks.available_memory", lambda: 100_000)
    with pytest.raises(ResourceError, match=r"over 60 nodes needs 112 KiB.*; use relax\('eig'\)"):
        PROBLEM.replace(lam=0.2).relax("sdp").lift  # noqa: B018
    first = mm.evaluate(PROBLEM, np.arange(60) % 2)
    result = first.certify()
    assert result.lower_bound == first.lower_bound and "relax('eig')" in result.message


def test_a_climb_that_ends_by_itself_does_not_say_that_time_was_up(monkeypatch):
    monkeypatch.setattr(ladder, "_levels", lambda f: [ladder._dual("partition", "FactorDual", {})])
    problem = LeastSquares(DIGITS[:36], 3, kernel=WIDE)
    for limit in (None, 1e6):
        result = mm.solve(problem, seed=0, max_iter=1).certify(time_limit=limit)
        assert result.gap > 1e-3 and result.verify()
        assert result.climb_end is mm.modeling.result.ClimbEnd.EXHAUSTED
