"""The factored dual: its function literally, known optima, brute force, cuts, limits, stops."""

import functools
import itertools

import numpy as np
import pytest
from relaxed import optimum, parts

import mmcopt as mm
from mmcopt.bounds import relaxation, violated_cuts
from mmcopt.bounds.label_lift import Cuts
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError
from mmcopt.formulations import LeastSquares, MaxCut
from mmcopt.modeling.result import Status
from mmcopt.solvers import FactorDual, factor_cuts, factor_dual
from mmcopt.solvers.factor_lagrangian import FactorLagrangian, Prices
from mmcopt.solving.runs import Budget, under

X = np.random.default_rng(3).standard_normal((12, 2)) + np.arange(12).reshape(-1, 1) // 6
WIDE = np.random.default_rng(0).standard_normal((60, 2))
LINKED = {"known": {0: 0, 11: 1, 5: 2}, "must_link": [(1, 2)], "cannot_link": [(1, 8)]}


@functools.cache
def problem(k=2):
    return LeastSquares(X, k, lam=0.05)


# ---------------------------------------------------------------- the function


def drawn(kind, k, options, seed=0):
    """A lift with some cuts, prices and a factor, at random."""
    rng = np.random.default_rng(seed)
    lift = LeastSquares(X, k, lam=0.05, **options).relax(kind).lift
    V = rng.standard_normal((lift.m, 3))
    V *= np.sqrt(lift.top) / np.linalg.norm(V, axis=1)[:, None]
    cuts = violated_cuts.spread(lift, V @ V.T, 30, 0.01) if lift.cuts else Cuts()
    function = FactorLagrangian(lift, 0.7, np.float64, cuts, 4.0)
    size, r = function.right.size, lift.rows.size
    N = rng.random((lift.m, lift.m)) if lift.bounded else None
    if N is not None:
        N = (N + N.T) * (1 - np.eye(lift.m))
    return function, V, Prices(rng.random(2), rng.random(r), rng.random(r), rng.random(size), N)


def literally(function, V, old):
    """The penalties and their prices, row by row from the definitions."""
    lift, X, s = function.lift, V @ V.T, 0.7
    value, b = -np.sum(lift.R * X) / function.unit, lift.b
    rows = [(old.ends[0], b @ X @ b - lift.square, (b @ b)**2),
            (old.ends[1], lift.square_low - b @ X @ b, (b @ b)**2)]
    for a, i in enumerate(lift.rows):
        Xb = X[i] @ b
        rows.append((old.up[a], Xb - lift.row_high[a], b @ b / 2))
        rows.append((old.down[a], lift.row_low[a] - Xb, b @ b / 2))
    entries = lift.entries(function.cuts)
    off = entries.of(X) - entries.right
    sizes = np.bincount(entries.cut, weights=entries.coef**2, minlength=len(off))
    rows += list(zip(old.entries[len(lift.pairs):], off, sizes / 2, strict=True))
    if lift.bounded:
        rows += [(old.N[i, j], lift.floor - X[i, j], 1.0)
                 for i, j in itertools.permutations(range(lift.m), 2)]
    equations = [(old.entries[a], X[i, j] - lift.floor, 0.5)
                 for a, (i, j) in enumerate(lift.pairs)]
    prices = [max(0.0, p + s / norm * v) for p, v, norm in rows]
    prices += [p + s / norm * v for p, v, norm in equations]
    norms = [norm for *_, norm in (*rows, *equations)]
    return value + sum(p * p * norm / (2 * s) for p, norm in zip(prices, norms, strict=True))


CASES = [("sdp", 2, {}), ("sdp+cuts", 2, {"center": False, "sizes": 0.2}),
         ("sdp+cuts", 2, {"sizes": Sizes(exact=(4, 8))}), ("partition", 3, {"sizes": Sizes(low=3)}),
         ("partition+cuts", 3, {"sizes": Sizes(low=3), **LINKED}), ("partition+cuts", 4, {})]


@pytest.mark.parametrize("kind, k, options", CASES)
def test_value_and_slope_are_those_of_the_definition(kind, k, options):
    function, V, old = drawn(kind, k, options)
    here = function.at(V, old)
    assert here.value == pytest.approx(literally(function, V, old), rel=1e-10)
    step = 1e-5 * np.random.default_rng(1).standard_normal(V.shape)
    ends = [function.factor(V + sign * step) for sign in (1, -1)]
    change = literally(function, ends[0], old) - literally(function, ends[1], old)
    assert np.vdot(here.slope, ends[0] - ends[1]) == pytest.approx(change, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind, k, options", [*CASES, ("partition", 3, {"sizes": Sizes(exact=4)})])
def test_the_bound_on_the_way_is_the_one_that_is_proved(kind, k, options):
    function, V, old = drawn(kind, k, options)
    here = function.at(V, old)
    lowest = function.lowest(here)[0][0]
    duals, lift = function.duals(here), function.lift
    assert function.upper(here, lowest) == pytest.approx(lift.upper(duals), rel=1e-9)
    again = function.priced(duals)
    np.testing.assert_allclose(again.entries, here.prices.entries)
    if lift.bounded:
        np.testing.assert_allclose(again.N, here.prices.N)


# ---------------------------------------------------------------- cuts


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triangles_are_the_worst_between_two_nodes(binary, dtype):
    lift = problem(2 if binary else 3).relax("sdp+cuts" if binary else "partition+cuts").lift
    V = np.random.default_rng(2).standard_normal((12, 4))
    V *= np.sqrt(lift.top) / np.linalg.norm(V, axis=1)[:, None]
    A = V @ V.T
    found = violated_cuts.spread(lift, A.astype(dtype), 1000, 0.05).triangles
    all_of_them, by = violated_cuts.triangles(lift, A, 10_000, 0.05)
    worst = {}
    for (i, _, j, _), v in zip(all_of_them.tolist(), by, strict=True):
        worst[i, j] = max(v, worst.get((i, j), 0.0))
    entries = lift.entries(Cuts(found))
    off = entries.of(A) - entries.right
    ends = [(i, j) for i, _, j, _ in found.tolist()]
    assert set(ends) == set(worst) and len(found) == len(worst)
    np.testing.assert_allclose(off, [worst[pair] for pair in ends], atol=1e-5)
    assert (np.diff(off) <= 1e-5).all()
    few = violated_cuts.spread(lift, A.astype(dtype), 5, 0.05).triangles
    assert np.array_equal(few, found[:5])


def test_other_draws_find_other_odd_sets():
    lift = LeastSquares(WIDE, 2, lam=0.01).relax("sdp+cuts").lift
    V = np.random.default_rng(2).standard_normal((60, 8))
    V /= np.linalg.norm(V, axis=1)[:, None]
    first, again, other = (violated_cuts.odd_sets(lift, V @ V.T, 200, 0.1, draw)
                           for draw in (0, 0, 3))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    entries = lift.entries(Cuts(odd=other))
    assert (entries.of(V @ V.T) - entries.right > 0.1).all()


def searched(monkeypatch, lift, few):
    """A search, and what it asks for: (starts, size, least) of odd sets, "triangles"."""
    asked = []

    def odd_sets(lift, X, most, least, draw, starts, size, known):
        asked.append((starts, size, least, known.shape))
        return np.arange(1, size + 1) + np.arange(0 if few else most)[:, None] % (lift.m - size)

    def spread(lift, X, most, least):
        asked.append("triangles")
        count = 0 if few else most
        return Cuts(np.column_stack([np.zeros(count), np.arange(count) + 1, np.arange(count) + 2,
                                     np.zeros(count)]).astype(np.int64))

    monkeypatch.setattr(violated_cuts, "odd_sets", odd_sets)
    monkeypatch.setattr(violated_cuts, "spread", spread)
    return factor_cuts.CutSearch(lift.m, lift.m, 80, 3e-3), asked


def test_searches_try_harder_where_little_is_found(monkeypatch):
    lift = LeastSquares(WIDE, 2, lam=0.01).relax("sdp+cuts").lift
    search, asked = searched(monkeypatch, lift, few=True)
    for _ in range(9):
        assert len(search.found(lift, np.eye(60), Cuts())) == 0
    starts = [row[0] for row in asked if row != "triangles" and row[1] == 5]
    assert starts == [10, 20, 40, *[80] * 6]
    assert asked.count("triangles") == 3  # in every fourth search
    least = [row[2] for row in asked if row != "triangles"]
    assert least[0] == factor_cuts.MOST and least[-1] == 2 * 3e-3
    assert search.through
    priced = Cuts(odd=np.array([[1, 2, 3, 4, 5, 0, 0], [1, 2, 3, 4, 5, 6, 7]]))
    search.found(lift, np.eye(60), priced)
    assert asked[-1][3] == asked[-2][3] == (1, 5)


def test_searches_stay_short_where_much_is_found(monkeypatch):
    lift = LeastSquares(WIDE, 2, lam=0.01).relax("sdp+cuts").lift
    search, asked = searched(monkeypatch, lift, few=False)
    for _ in range(4):
        found = search.found(lift, np.eye(60), Cuts())
        assert found.counts[0] == 60 and found.counts[2] > 60 and found.odd.shape[1] == 7
    assert asked.count("triangles") == 4 and not search.through
    assert {row[0] for row in asked if row != "triangles"} == {factor_cuts.FEWEST}


def test_searches_for_odd_sets_begin_as_often_as_the_limit_allows(monkeypatch, ticking):
    lift = LeastSquares(WIDE, 2, lam=0.01).relax("sdp+cuts").lift
    search, asked = searched(monkeypatch, lift, few=True)
    search.starts = 80
    monkeypatch.setattr(factor_cuts, "SEARCH", 1.0)
    monkeypatch.setattr(factor_cuts, "SEARCH_ODD", 0.1 / (5 * 60**2))
    ticking(1e-3)
    with under(Budget().within(1, 1.05)):
        search.found(lift, np.eye(60), Cuts())
    assert [row[:2] for row in asked] == [(10, 5), (7, 7)]
    asked.clear()
    with under(Budget().within(1, -5.0)):
        assert len(search.found(lift, np.eye(60), Cuts())) == 0
    assert not asked


# ---------------------------------------------------------------- known optima


def agrees_with_clarabel(relaxed):
    ours, theirs = mm.solve(relaxed, FactorDual(), seed=0, max_iter=400), mm.solve(relaxed, "Conic")
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=5e-3)
    assert ours.lower_bound <= theirs.lower_bound * (1 + 1e-6)
    assert ours.verify() and relaxed.problem.violation(ours.labels) == 0.0


@pytest.mark.parametrize("options", [{}, {"sizes": Sizes(exact=6)}, {"sizes": Sizes(exact=(4, 8))},
                                     {"center": False, "sizes": 0.2},
                                     {"known": {0: 0, 11: 1}, "cannot_link": [(1, 8)]}])
@pytest.mark.parametrize("kind", ["sdp", "sdp+cuts"])
def test_it_agrees_with_clarabel_for_two_clusters(kind, options):
    agrees_with_clarabel(LeastSquares(X, 2, **options).relax(kind))


@pytest.mark.parametrize("options", [{}, {"sizes": Sizes(exact=4)}, {"sizes": Sizes(low=2)},
                                     LINKED])
@pytest.mark.parametrize("kind", ["partition", "partition+cuts"])
def test_it_agrees_with_clarabel_for_three_clusters(kind, options):
    agrees_with_clarabel(LeastSquares(X, 3, **options).relax(kind))


@pytest.mark.parametrize("seed", parts(60, quick=6))
def test_no_bound_is_above_the_optimum(seed, tmp_path):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    options = [{}, {"sizes": Sizes(low=2)}, {"center": False, "sizes": 0.3},
               {"known": {0: 0, 3: 1}, "must_link": [(1, 2)]}][seed // 2 % 4]
    A = rng.standard_normal((7, 2)) + rng.uniform(0, 2) * (np.arange(7) % k)[:, None]
    f = LeastSquares(A, k, lam=10.0 ** rng.uniform(-2, 0), **options)
    relaxed = f.relax("sdp+cuts" if k == 2 else "partition+cuts")
    solver = FactorDual(odd_per_node=2.0, every=1, weight=10.0 ** rng.uniform(-1, 3))
    for steps in (1, 4, 30):
        result = mm.solve(relaxed, solver, seed=seed, max_iter=steps)
        assert result.lower_bound <= optimum(f)
    result.save(tmp_path / "run.npz")
    back = mm.load(tmp_path / "run.npz")
    assert back.verify() and back.lower_bound == result.lower_bound
    duals = {name: np.copy(value) for name, value in result.certificate.duals.items()}
    for name in ("u", "t", "up", "down", "pairs", "g", "N"):
        if name in duals:  # forged, it proves what it proves, and is no reason for more
            forged = {**duals, name: duals[name] + rng.standard_normal(duals[name].shape)}
            assert relaxed.bound(forged) <= optimum(f)


def test_float32_proves_nearly_as_much(monkeypatch):
    f = LeastSquares(WIDE, 2, lam=0.05).relax("sdp+cuts")
    double = mm.solve(f, FactorDual(), seed=0, max_iter=60)
    monkeypatch.setattr(factor_dual, "SINGLE", 1)
    single = mm.solve(f, FactorDual(), seed=0, max_iter=60)
    assert single.lower_bound == pytest.approx(double.lower_bound, rel=1e-3)
    assert single.verify()


# ---------------------------------------------------------------- hyper-parameters


def test_cuts_and_odd_sets_are_added_as_many_as_wanted():
    f = LeastSquares(WIDE, 2, lam=0.01).relax("sdp+cuts")
    few, many = (mm.solve(f, FactorDual(cuts_per_node=c), seed=0, max_iter=12) for c in (0.5, 6.0))
    assert 0 < few.history["added"].max() <= 30 < many.history["added"].max() <= 360
    rugged = LeastSquares(np.random.default_rng(0).standard_normal((40, 20)), 2, lam=0.1)
    plain, odd = (mm.solve(rugged.relax("sdp+cuts"), FactorDual(odd_per_node=c), seed=0,
                           max_iter=60) for c in (0.0, 2.0))
    assert len(odd.certificate.duals["odd"]) and odd.verify()
    assert odd.lower_bound > 1.01 * plain.lower_bound
    none = mm.solve(f.problem.relax("sdp"), FactorDual(), seed=0, max_iter=12)
    assert none.history["cuts"].max() == 0
    often, seldom = (mm.solve(f, FactorDual(every=e), seed=0, max_iter=12).history["added"]
                     for e in (1, 6))
    assert np.count_nonzero(seldom) <= 2 < np.count_nonzero(often)


def test_more_evaluations_and_patience_prove_more_and_tol_less():
    f = problem(3).relax("partition")
    one, twenty = (mm.solve(f, FactorDual(evaluations=e), seed=0, max_iter=6) for e in (1, 20))
    assert one.lower_bound < twenty.lower_bound
    short, long = (mm.solve(f, FactorDual(patience=p), seed=0, max_iter=400) for p in (1, 20))
    assert len(short.history) < len(long.history)
    loose = mm.solve(f, FactorDual(tol=0.1), seed=0, max_iter=400)
    assert len(loose.history) < len(long.history)
    light, heavy = (mm.solve(f, FactorDual(weight=w), seed=0, max_iter=2) for w in (1e-3, 10.0))
    assert light.lower_bound != heavy.lower_bound


def test_a_target_stops_it_at_once():
    f = problem().relax("sdp+cuts")
    full = mm.solve(f, FactorDual(), seed=0)
    assert full.status in (Status.CONVERGED, Status.CERTIFIED)
    goal = 0.9 * full.lower_bound
    early = mm.solve(f, FactorDual(target=goal), seed=0)
    assert early.status is Status.CONVERGED and early.verify()
    assert len(early.history) < len(full.history)
    assert goal * (1 - 1e-9) <= early.lower_bound


def test_it_does_not_say_converged_where_no_point_came_near(monkeypatch):
    monkeypatch.setattr(factor_dual, "NEAR", 0.0)
    done = mm.solve(problem(3).relax("partition"), FactorDual(patience=2), seed=0, gap_tol=0.0)
    assert done.status is Status.ITERATION_LIMIT


# ---------------------------------------------------------------- starts, limits, stops


@pytest.mark.parametrize("kind, k", [("sdp", 2), ("sdp+cuts", 2), ("partition+cuts", 3)])
def test_a_warm_start_is_never_below_its_duals(kind, k):
    f = problem(k).relax(kind)
    first = mm.solve(f, "RegularizedDual", max_iter=6)
    for steps in (1, 3):
        again = mm.solve(f, FactorDual(), init=first.certificate.duals, seed=0, max_iter=steps)
        assert again.lower_bound >= first.lower_bound - 1e-9 * abs(first.lower_bound)
        assert again.verify()


@pytest.mark.parametrize("kind", ["sdp+cuts", "partition"])
def test_the_time_limit_holds_within_a_step(kind, ticking):
    f = LeastSquares(WIDE, 2, lam=1e-3).relax(kind)
    ticking(0.01)
    result = mm.solve(f, FactorDual(evaluations=2000), seed=0, time_limit=0.3)
    assert result.timing["begin"] + result.timing["steps"] < 0.4
    assert result.status is Status.TIME_LIMIT and len(result.history) == 1
    assert result.verify()


@pytest.mark.parametrize("cost, searched", [(1e-3, True), (0.2, False)])
def test_no_search_for_cuts_begins_that_would_outlast_the_limit(cost, searched, ticking,
                                                                monkeypatch):
    f = LeastSquares(WIDE, 2, lam=1e-3).relax("sdp+cuts")
    monkeypatch.setattr(factor_cuts, "SEARCH", cost / 60**3)
    ticking(1e-4)
    result = mm.solve(f, FactorDual(odd_per_node=1.0), seed=0, time_limit=0.15, max_iter=40)
    assert bool(result.history["added"].max() > 0) is searched
    assert result.verify()


@pytest.mark.parametrize("limit", [None, 1e3])
@pytest.mark.parametrize("waits", [1e-9, 1e9])
def test_no_cuts_are_sought_that_could_not_be_priced(waits, limit, ticking, monkeypatch):
    monkeypatch.setattr(factor_dual, "PRICED", waits)
    ticking(1e-4)
    f = LeastSquares(WIDE, 2, lam=1e-3).relax("sdp+cuts")
    result = mm.solve(f, FactorDual(), seed=0, time_limit=limit, max_iter=40)
    searches = np.count_nonzero(result.history["added"])
    assert searches > 1 if limit is None or waits < 1.0 else searches == 1


def test_a_limit_leaves_time_for_the_proof(monkeypatch):
    for seconds, steps in ((2e5, 0), (1.0, 3)):
        monkeypatch.setattr(relaxation, "TRIANGLES", seconds / 60**3)
        f = LeastSquares(WIDE, 2, lam=1e-3).relax("sdp+cuts")
        result = mm.solve(f, FactorDual(), seed=0, time_limit=1e5, max_iter=3)
        assert len(result.history) == steps
        assert (result.status is Status.TIME_LIMIT) is (steps == 0)
        assert result.lower_bound is not None and result.verify()


def test_ctrl_c_leaves_a_verified_bound():
    f = problem(3).relax("partition+cuts")

    def interrupt(row):
        if row["iteration"] == 5:
            raise KeyboardInterrupt

    result = mm.solve(f, FactorDual(), seed=0, callback=interrupt)
    assert result.status is Status.INTERRUPTED and len(result.history) == 5
    assert result.verify() and f.problem.violation(result.labels) == 0.0


def test_bounds_never_fall_and_one_run_is_like_another():
    f = problem(3).relax("partition+cuts")
    runs = [mm.solve(f, FactorDual(), seed=s, max_iter=8) for s in (0, 0)]
    assert len({r.point.tobytes() for r in runs}) == 1 == len({r.lower_bound for r in runs})
    assert (np.diff(runs[0].history["dual"]) >= 0).all()


def test_it_needs_a_lift():
    with pytest.raises(IncompatibleError, match="FactorDual cannot solve LeastSquares: it needs "
                                                "Lift, which this LeastSquares does not"):
        mm.solve(problem(), FactorDual())


@pytest.mark.parametrize("unit", [2.0**-80, 2.0**80])
def test_units_of_the_objective_change_nothing_in_float32(unit, monkeypatch):
    monkeypatch.setattr(factor_dual, "SINGLE", 1)
    W = np.random.default_rng(0).standard_normal((12, 12))
    one, other = (mm.solve(MaxCut(scale * (W + W.T)).relax("sdp+cuts"), FactorDual(), seed=0,
                           max_iter=20) for scale in (1.0, unit))
    assert other.lower_bound == pytest.approx(unit * one.lower_bound, rel=1e-6)
    assert other.verify()
