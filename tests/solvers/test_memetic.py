"""The default search."""

import numpy as np
import pytest
from scipy.sparse import coo_array

import mmcopt as mm
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import LeastSquares
from mmcopt.modeling.result import Status
from mmcopt.solvers import Annealing, Continuation, Memetic, Tabu
from mmcopt.solvers.annealing import pilot_temperatures
from mmcopt.solvers.label_pool import combine
from mmcopt.solvers.memetic import LONG, WALK, _Pool, _Task
from mmcopt.solving.factor_search import factor_spread, on_factor
from mmcopt.solving.graph_search import on_graph, two_free_sides

X = np.random.default_rng(0).standard_normal((60, 2))
F = LeastSquares(X, 4, kernel=mm.kernels.Gaussian(width=0.15), lam=0.02)


@pytest.fixture(scope="module")
def default():
    return mm.solve(F, Memetic(), seed=0)


def test_it_is_the_default_and_beats_or_equals_the_simple_searches(default):
    assert mm.solve(F, seed=0).solver == "Memetic"
    assert default.status is Status.CONVERGED and default.verify()
    for name in ("Tabu", "Shaking", "KernighanLin", "SteepestDescent"):
        assert default.objective <= mm.solve(F, name, seed=0, restarts=3).objective + 1e-9


def test_iris_as_the_mathematics_page_says():
    D, y = mm.datasets.load("iris")
    f = LeastSquares(D, 3, kernel=mm.kernels.Gaussian(width=0.5), lam=0.1)
    for seed in range(3):
        r = mm.solve(f, seed=seed)
        assert mm.metrics.adjusted_rand_index(y, r.labels) == pytest.approx(0.96, abs=0.005)


def test_the_pool_is_made_first_then_children(default):
    members, pool = default.history["members"], 2 * Memetic().pool  # a small smoother's
    assert members[0] == 1 and (np.diff(members[:pool]) == 1).all()
    assert members[pool] == members[pool + 1] == pool  # later ones take the place of the worst
    assert default.history["idle"][-1] == Memetic().patience or len(default.history) == pool


def test_every_hyper_parameter_does_something():
    rugged = LeastSquares(np.random.default_rng(1).standard_normal((150, 4)), 5,
                          kernel=mm.kernels.Gaussian(width=0.1), lam=0.01)
    base = mm.solve(rugged, Memetic(pool=4, sweeps=50, patience=2, path_share=0.5), seed=0)
    for changed in (Memetic(pool=5, sweeps=50, patience=2, path_share=0.5),
                    Memetic(pool=4, sweeps=50, patience=2, path_share=1.0),
                    Memetic(pool=4, sweeps=20, patience=2, path_share=0.5),
                    Memetic(pool=4, sweeps=50, patience=2, path_share=0.5, large=30)):
        r = mm.solve(rugged, changed, seed=0)
        assert r.history["objective"].tobytes() != base.history["objective"].tobytes(), changed
        assert r.violation == 0
    patient = mm.solve(rugged, Memetic(pool=4, sweeps=50, patience=15, path_share=0.5), seed=0)
    assert len(patient.history) > len(base.history)


def test_a_start_is_one_of_the_pool(default):
    r = mm.solve(F, Memetic(pool=2, sweeps=1, patience=1), init=default)
    assert r.objective <= default.objective + 1e-12


def test_combining_moves_whole_blocks():
    lq = F.offer(mm.LabelQuadratic)
    rng = np.random.default_rng(0)
    a, b = (mm.solve(F, "Shaking", seed=s).labels for s in (0, 1))
    kept = a.copy(), b.copy()
    child, value = combine(lq, [a, b], rng)
    assert value == pytest.approx(lq.value(child), rel=1e-6)
    assert lq.value(child) <= min(lq.value(a), lq.value(b)) + 1e-9
    for block in np.unique(a * 4 + b):
        assert len(set(child[a * 4 + b == block])) == 1
    assert np.array_equal(a, kept[0]) and np.array_equal(b, kept[1])
    assert combine(lq, [a, (a + 1) % 4], rng) is None


def test_more_parents_leave_smaller_blocks():
    lq = F.offer(mm.LabelQuadratic)
    parents = [lq.random_labels(np.random.default_rng(s)) for s in range(3)]
    two = combine(lq, parents[:2], np.random.default_rng(0))
    three = combine(lq, parents, np.random.default_rng(0))
    assert three[1] < two[1]
    code = np.array(parents).T @ [1, 4, 16]
    assert all(len(set(three[0][code == block])) == 1 for block in np.unique(code))


@pytest.mark.parametrize("kernel", [mm.kernels.Gaussian(width=0.5),
                                    mm.kernels.Gaussian(width=0.5).nystroem(20)])
@pytest.mark.parametrize("options", [{}, {"sizes": 0.2, "known": {0: 1, 1: 0},
                                          "must_link": [(4, 5)], "cannot_link": [(2, 3)]}])
def test_large_problems_and_factors_obey_the_rules_too(kernel, options, monkeypatch):
    monkeypatch.setattr("mmcopt.solving.label_search.DENSE_LIMIT", 50)
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 50)
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", 50)
    D, _ = mm.datasets.load("blobs:n=150,k=3,seed=1")
    f = LeastSquares(D, 3, kernel=kernel, **options)
    r = mm.solve(f, Memetic(large=100), seed=0)
    assert r.violation == 0 and r.verify()
    if not options:
        whole = mm.solve(f, Memetic(), seed=0)
        assert r.objective == pytest.approx(whole.objective, rel=1e-3)


def middle(f, solver, **options):
    """The median objective of three seeds: one of them may end in a lesser basin."""
    return np.median([mm.solve(f, solver, seed=seed, **options).objective for seed in range(3)])


@pytest.mark.parametrize("large", [10, 200, 10_000])  # at no size a step down
def test_no_search_of_ours_is_better_at_any_size(large, monkeypatch):
    """Counted in steps of a fixed size, of three seeds: the default against restarts of others."""
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", large)
    for n in (100, 250):
        D, _ = mm.datasets.load(f"blobs:n={n},k=5,seed=1,sd=3.0")
        f = LeastSquares(D, 5, kernel=mm.kernels.Gaussian(width=0.3))
        ours = middle(f, Memetic(large=large))
        for name in ("Shaking", "Tabu", "KernighanLin", "Annealing"):
            assert ours <= middle(f, name, restarts=4) * 1.0005, (n, name)


def test_long_members_are_made_in_parts(monkeypatch):
    """Whatever a driver step is cut to, the labels are the same."""
    f = LeastSquares(X, 4, kernel=mm.kernels.Gaussian(width=0.1), lam=0.01)
    calls, advance = [], Memetic._advance
    monkeypatch.setattr(Memetic, "_advance", lambda *args: calls.append(0) or advance(*args))
    whole = mm.solve(f, Memetic(patience=2), seed=0)
    inner = len(calls)
    monkeypatch.setattr("mmcopt.solvers.memetic.WORK", 1)
    parts = mm.solve(f, Memetic(patience=2), seed=0)
    assert np.array_equal(whole.labels, parts.labels)
    assert len(parts.history) == inner == len(calls) - inner > len(whole.history)
    cut = mm.solve(f, Memetic(), seed=0, max_iter=2)  # within the first member
    assert cut.history["members"].max() == 0 and cut.violation == 0 and cut.verify()
    assert cut.objective < cut.history["objective"][0] + 1e-9


def test_two_samples_are_a_limit_case():
    r = mm.solve(LeastSquares(X[:2], 2), Memetic(), seed=0)
    assert sorted(r.labels) == [0, 1]


def test_the_first_members_are_of_every_quick_kind(monkeypatch):
    """One kind alone may find one basin only: here the walked ones do what the shaken cannot."""
    made = []
    kind = Memetic._kind

    def watched(self, lq, state):
        made.append(kind(self, lq, state))
        return made[-1]

    monkeypatch.setattr(Memetic, "_kind", watched)
    mm.solve(F, Memetic(large=10), seed=0)
    assert made[:5] == ["shaken", "descended", "shaken", "walked", "annealed"] and len(made) == 8
    made.clear()
    mm.solve(F.replace(n_clusters=2), Memetic(large=10), seed=0)  # of two, descents are poor
    assert made[:4] == ["shaken", "shaken", "walked", "annealed"]
    made.clear()
    mm.solve(F, Memetic(path_share=0.625), seed=0)
    assert made[:3] == ["shaken", "walked", "annealed"] and set(made[3:]) <= {"path", "annealed"}


def kinds_of(f, monkeypatch, **options):
    """The kinds of the members of a run, in the order in which they are made."""
    made = []
    kind = Memetic._kind
    with monkeypatch.context() as patch:
        patch.setattr(Memetic, "_kind", lambda *args: made.append(kind(*args)) or made[-1])
        mm.solve(f, Memetic(**options), seed=0)
    return made


def test_members_of_a_small_smoother_follow_paths(monkeypatch):
    """They find most in the least time, but for some walks; of any other W nobody knows."""
    made = kinds_of(F, monkeypatch)
    assert made[:5] == ["walked", "path", "path", "path", "walked"] and len(made) >= 16
    assert kinds_of(F.replace(must_link=[(0, 1)]), monkeypatch)[:3] \
        == ["shaken", "walked", "annealed"]  # its W is a contracted one


def test_where_walks_are_better_than_paths_they_are_most_of_the_members():
    """Some basins are reached by long walks only, which are no part of the first members."""
    solver, lq = Memetic(), F.offer(mm.LabelQuadratic)
    state, rng = solver.begin(F, None, np.random.default_rng(0)).state, np.random.default_rng(1)
    assert solver._walk(lq, state, rng).length == WALK
    state.made, state.lowest = 5, {"walked": 1.0, "path": 2.0}
    assert solver._kind(lq, state) == "walked" and solver._walk(lq, state, rng).length == LONG
    state.lowest = {"walked": 2.0, "path": 1.0}
    assert solver._kind(lq, state) == "path"


def test_no_path_is_followed_before_its_levels_are_little_of_the_work(monkeypatch):
    """They have no parts, and quick members and their children are worth more at first."""
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", 50)
    monkeypatch.setattr("mmcopt.solvers.memetic.LEVELS", 2.0)
    solver, lq = Memetic(path_share=0.625), F.offer(mm.LabelQuadratic)
    first = next(before for state, before in pool_of(F, solver, 1000) if "path" in state.lowest)
    assert first >= 2 * solver._cost(lq, "path") > 2 * solver._cost(lq, "shaken")


def test_half_of_the_later_shaken_members_of_two_clusters_keep_more_of_their_start():
    two = LeastSquares(X, 2, kernel=mm.kernels.Gaussian(width=0.15))
    solver, rng = Memetic(), np.random.default_rng(0)
    for f, both in ((two, True), (F, False)):
        state, lq = solver.begin(f, None, rng).state, f.offer(mm.LabelQuadratic)
        assert solver._shake(lq, state, rng).first == 0
        state.made = 1
        firsts = [solver._shake(lq, state, rng).first for _ in range(100)]
        assert 30 < sum(firsts) < 70 if both else sum(firsts) == 0


def test_a_gain_is_little_beside_what_members_differed_by_when_the_last_one_came():
    """Children take the place of their parents, beside which any gain would be large."""
    solver, lq = Memetic(), F.offer(mm.LabelQuadratic)
    state, rng = solver.begin(F, None, np.random.default_rng(0)).state, np.random.default_rng(1)
    for value in (100.0, 200.0, 50.0):
        solver._enter(lq, state, _Task(lq.random_labels(rng), [], kind="shaken", value=value))
    assert state.spread == 150.0
    for value, stale in ((49.0, 4), (47.0, 0), (46.5, 4)):
        state.values[:] = [51.0, 51.0, min(state.values)]  # as children leave them
        state.stale = 4
        solver._enter(lq, state, _Task(lq.random_labels(rng), [], child=True, kind="assembled",
                                       value=value))
        assert state.stale == stale and min(state.values) == value


def test_near_the_deadline_no_path_is_begun(monkeypatch):
    """The inverse of a smoothed problem has no parts."""
    for module in ("memetic", "continuation"):
        monkeypatch.setattr(f"mmcopt.solvers.{module}.too_late", lambda lq: True)
    fresh = F.replace(lam=0.03)
    for solver in (Memetic(patience=2), Continuation()):
        r = mm.solve(fresh, solver, seed=0)
        assert r.violation == 0 and r.verify()
    kept = fresh.offer(mm.LabelQuadratic)._memo
    assert not any(key[0] in ("smooth", "smoothing") for key in kept)


def test_running_out_of_time_within_a_path_leads_to_the_problem_itself(monkeypatch):
    monkeypatch.setattr("mmcopt.solvers.memetic.too_late", lambda lq: True)
    lq, rng = F.offer(mm.LabelQuadratic), np.random.default_rng(0)
    pool = Memetic().begin(lq, None, rng).state
    walk = Tabu(length=1.0)
    task = _Task(pool.best, [(3.0, walk), (2.0, walk), (1.0, walk)], value=-1e9)  # of a level
    Memetic()._advance(lq, pool, task, rng)
    assert len(task.stages) == 1 and task.state.value == pytest.approx(lq.value(pool.best))


def test_large_factors_are_compiled_before_the_clock_of_the_steps(monkeypatch):
    seen = []
    monkeypatch.setattr(Memetic, "warm", lambda self, toy: seen.append((on_factor(toy), toy.dtype)))
    monkeypatch.setattr("mmcopt.solving.label_search._warmed", set())
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 50)
    f = LeastSquares(np.random.default_rng(0).standard_normal((150, 2)), 3,
                     kernel=mm.kernels.Gaussian(width=0.5).nystroem(20))
    for _ in range(2):
        Memetic().prepare(f)
    assert seen == [(True, f.offer(mm.LabelQuadratic).dtype)]


def test_members_on_a_factor_are_annealed_in_few_sweeps_at_first(monkeypatch):
    """In more when more was done; no pilot is run, and two members descend before them."""
    monkeypatch.setattr("mmcopt.solving.factor_search.FACTOR_FROM", 50)
    monkeypatch.setattr("mmcopt.solvers.annealing._pilot", None)
    D, _ = mm.datasets.load("blobs:n=150,k=6,seed=1,sd=3.0")
    f = LeastSquares(D, 6, kernel=mm.kernels.Gaussian(width=0.3).nystroem(40))
    made, solver = [], Memetic(sweeps=50)
    solver.prepare(f)
    cooling = Memetic._cooling

    def watched(self, lq, state):
        made.append((state.made, state.work, cooling(self, lq, state)))
        return made[-1][2]

    monkeypatch.setattr(Memetic, "_cooling", watched)
    mm.solve(f, solver, seed=0)
    assert [index for index, _, _ in made] == list(range(2, 8))
    sweeps = [search.sweeps for _, _, search in made]
    assert sweeps == [max(8, min(50, round(work / 2))) for _, work, _ in made]
    assert sweeps[0] < 30 and sweeps[-1] > 2 * sweeps[0]
    spread = factor_spread(f.offer(mm.LabelQuadratic))
    assert all(0 < search.cold < spread < search.hot for _, _, search in made)


def test_a_small_gain_on_a_factor_is_none_to_wait_for(monkeypatch):
    """A new member takes hardly longer there than a child."""
    solver, lq = Memetic(), F.offer(mm.LabelQuadratic)
    for factor, stale in ((True, 4), (False, 0)):
        monkeypatch.setattr("mmcopt.solvers.memetic.on_factor", lambda lq, held=factor: held)
        state = _Pool(np.zeros(60, int), 200.0, None, False, [np.arange(60) % 4], [100.0],
                      spread=100.0, stale=4)
        solver._enter(lq, state, _Task(lq.random_labels(np.random.default_rng(0)), [], child=True,
                                       kind="assembled", value=80.0))
        assert state.stale == stale and state.idle == 0


def pool_of(f, solver, steps, seed=0):
    """The states of a run, step by step, as (members made by kind, work, idle)."""
    rng = np.random.default_rng(seed)
    progress = solver.begin(f, None, rng)
    for _ in range(steps):
        if solver.outcome(f, progress.state) is not None:
            return
        before = progress.state.work
        progress = solver.step(f, progress.state, rng)
        yield progress.state, before


def test_members_are_annealed_in_little_of_the_work_only(monkeypatch):
    """All of them together; but one is the last resort."""
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", 50)
    solver, lq = Memetic(large=50, sweeps=20), F.offer(mm.LabelQuadratic)
    dear, count = solver._cost(lq, "annealed"), 0
    for state, before in pool_of(F, solver, 1000):
        if state.anneals > count:
            last = count == 0 and state.made >= solver.pool
            assert state.anneals * dear <= 0.5 * before or last
            assert state.dear == pytest.approx(state.anneals * dear)
            count = state.anneals
    assert count > 1 and set(state.lowest) == {"shaken", "descended", "walked", "annealed"}


def test_children_are_made_as_has_turned_out_well():
    solver, lq = Memetic(path_share=0.5), F.offer(mm.LabelQuadratic)
    state, rng = solver.begin(F, None, np.random.default_rng(0)).state, np.random.default_rng(1)

    def shaken():
        return sum(solver._way(lq, state, rng) == "shaken" for _ in range(300))

    assert shaken() == 0  # nothing has failed yet
    state.idle = 1
    assert 100 < shaken() < 200
    state.tried["shaken"] += 30
    assert shaken() < 60
    state.tried["assembled"] += 30
    state.good["shaken"] += 20
    assert shaken() > 240
    assert Memetic()._way(lq, state, rng) == "assembled"  # of a small smoother


def test_a_new_member_has_a_child_first(monkeypatch):
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", 50)
    monkeypatch.setattr("mmcopt.solvers.label_pool.BLOCKS", 16)  # two parents
    solver, seen = Memetic(large=50), []
    monkeypatch.setattr("mmcopt.solvers.label_pool.combine",
                        lambda lq, parents, rng: seen.append(parents) or combine(lq, parents, rng))
    count = 0
    for state, _ in pool_of(F, solver, 60):
        if len(state.members) > max(count, 2):
            newest, seen[:] = state.members[-1], []
        elif seen and len(state.members) > 2:
            assert any(np.array_equal(newest, p) for p in seen[0])
        count = len(state.members)
    assert count > 3


def test_blocks_for_which_no_labels_of_the_right_sizes_are_found(monkeypatch):
    """The better parent is then all that their search begins with."""
    lq = LeastSquares(np.random.default_rng(0).standard_normal((12, 2)), 2).offer(mm.LabelQuadratic)
    parents = [np.arange(12) % 2, np.arange(12) // 6, np.arange(12) // 3 % 2]

    def none(self, rng):
        raise InfeasibleError("no labels were found")

    monkeypatch.setattr(type(lq), "random_labels", none)
    labels, value = combine(lq, parents, np.random.default_rng(0))
    assert value <= min(lq.value(c) for c in parents) + 1e-9 and len(labels) == 12


def test_a_pool_of_many_samples_is_renewed(monkeypatch):
    """After some children that were no better; that counts as none of them, and the worst goes."""
    monkeypatch.setattr("mmcopt.solvers.memetic.QUICK", 50)
    solver, renewed = Memetic(large=50, pool=4), 0
    before: dict[str, object] = {}
    for state, _ in pool_of(F, solver, 1500):
        now = {"made": state.made, "idle": state.idle, "stale": state.stale,
               "values": list(state.values), "anneals": state.anneals}
        if before and now["made"] > before["made"] >= solver.pool \
                and now["anneals"] == before["anneals"]:
            assert before["stale"] >= 3 and now["idle"] in (0, before["idle"])
            assert len(now["values"]) <= len(before["values"])
            renewed += now["idle"] == before["idle"] > 0
            if now["values"] != before["values"]:
                assert sorted(before["values"])[:-1] == sorted(now["values"][:-1])
        before = now
    assert renewed
    assert solver.outcome(F, state) is not None  # it ends all the same


@pytest.mark.parametrize("low", [0, 1])
def test_children_of_two_free_sides_are_annealed_and_their_pool_is_renewed(low, monkeypatch):
    """On lists of neighbours; where a side may not be empty, neither is done."""
    rng = np.random.default_rng(0)
    A = coo_array((rng.choice([-1.0, 1.0], 900), rng.integers(300, size=(2, 900))),
                  shape=(300, 300)).tocsr()
    lq, solver = mm.LabelQuadratic(A + A.T, k=2, low=low), Memetic(pool=4)
    assert on_graph(lq) and two_free_sides(lq) == (low == 0)
    hot, cold = pilot_temperatures(lq)
    begin, begun = Annealing.begin, []
    monkeypatch.setattr(Annealing, "begin",
                        lambda self, *args: begun.append(self) or begin(self, *args))
    *_, (state, _) = pool_of(lq, solver, 4000)
    warm = [s for s in begun if s.hot is not None]
    assert bool(warm) == (low == 0) and all(cold == s.cold < s.hot < hot for s in warm)
    assert (state.made > solver.pool) == (low == 0) and len(state.members) <= solver.pool
    assert solver.outcome(lq, state) is not None
