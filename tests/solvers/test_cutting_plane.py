"""Cutting planes: when the objective rises, what each parameter does, starts and limits."""

import functools
import warnings

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import CutRisk
from mmcopt.formulations import CPM3C, MKC, CrammerSinger
from mmcopt.kernels import Gaussian, Linear, Polynomial
from mmcopt.kernels.features import Features
from mmcopt.margins import Logistic, SquaredHinge
from mmcopt.modeling.result import Status
from mmcopt.solvers import CuttingPlane


def draw(seed):
    """A small set of two to four clouds, some of them lying over one another."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    n, d = int(rng.integers(20, 60)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) + rng.uniform(0.5, 3) * rng.standard_normal((k, d))[
        rng.integers(k, size=n)]
    return X, k, float(10.0 ** rng.uniform(-2, -0.7))


def fit(f, solver=None, **options):
    """A fit whose cautions are not of interest."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="CPM3C: ")
        return mm.solve(f, solver or CuttingPlane(), **options)


def rises(seeds, cut, **options):
    """How many masters raised the objective, of how many."""
    solver, up, masters = CuttingPlane(cut=cut, epsilon=0.003), 0, 0
    for seed in seeds:
        X, k, beta = draw(seed)
        history = fit(CPM3C(X, k, beta=beta, **options), solver, seed=seed, max_iter=100).history
        up, masters = up + history["rises"][-1], masters + history["masters"][-1]
    return int(up), int(masters)


def test_the_objective_never_rises_over_pair_cuts():
    up, masters = rises(range(180), "pair")
    assert up == 0 and masters > 1000
    for loss in (SquaredHinge(), Logistic()):
        assert rises(range(30), "pair", loss=loss)[0] == 0
    assert rises(range(30), "pair", size_floor=0.7)[0] == 0
    assert rises(range(30), "pair", center=False, balance=1.0)[0] == 0


def test_the_objective_rises_over_the_papers_cuts():
    up, masters = rises(range(60), "paper")
    assert up > 5 and masters > up


@pytest.mark.slow
def test_a_thousand_fits_without_a_rise():
    assert rises(range(1000, 2200), "pair")[0] == 0
    assert rises(range(1000, 1300), "paper")[0] > 20


@functools.cache
def problem(k=3):
    rng = np.random.default_rng(0)
    y = np.arange(120) % k
    X = rng.standard_normal((120, 4)) + 3.0 * np.eye(4)[y]
    return CPM3C(X, k, beta=0.02), y


def test_the_end_is_within_epsilon_of_the_cuts():
    f, _ = problem()
    ends = {}
    for epsilon in (0.1, 0.01, 1e-3, 1e-6):
        result = fit(f, CuttingPlane(epsilon=epsilon), seed=1)
        assert result.status is Status.CONVERGED
        violation = result.history["violation"]
        assert violation[-1] <= epsilon and (violation[:-1] > epsilon).all()
        ends[epsilon] = (len(result.history), result.objective)
    assert ends[1e-6][0] > ends[0.1][0]
    assert ends[1e-6][1] <= ends[0.1][1] + 1e-3
    convex = f.restrict(np.arange(120) % 3)
    best = mm.solve(convex, CuttingPlane(epsilon=1e-9, alpha=0.0)).objective
    for epsilon in (0.1, 0.01, 1e-4):
        found = mm.solve(convex, CuttingPlane(epsilon=epsilon)).objective
        assert best - 1e-9 <= found <= best + epsilon


def test_alpha_and_max_masters_bound_the_masters_of_a_step():
    f, _ = problem()
    few = fit(f, CuttingPlane(max_masters=1), seed=1)
    assert (np.diff(few.history["masters"]) == 1).all()
    assert few.history["masters"][-1] == few.history["cuts"][-1] == len(few.history)
    loose = fit(f, CuttingPlane(max_masters=100, alpha=0.5), seed=1).history
    tight = fit(f, CuttingPlane(max_masters=100, alpha=0.0), seed=1).history
    assert tight["masters"][-1] / len(tight) > 1.2 * loose["masters"][-1] / len(loose)
    most = fit(f, CuttingPlane(max_masters=3, alpha=0.0), seed=1).history["masters"]
    assert np.diff(np.r_[0, most]).max() <= 3


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"size_floor": 0.9}, {"balance": 3.0, "center": False},
                                     {"loss": mm.margins.SquaredHinge()}], ids=str)
def test_the_compiled_step_is_the_same_as_the_one_in_numpy(k, options, monkeypatch):
    X = np.random.default_rng(k).standard_normal((90, 5)) + 2.0 * np.eye(5)[np.arange(90) % k] + 0.5
    for masters in (1, 4):
        points = []
        for rows in (Features.rows, property(lambda features: None)):
            monkeypatch.setattr(Features, "rows", rows)
            solver = CuttingPlane(max_masters=masters, epsilon=1e-9, alpha=0.0)
            f = CPM3C(X, k, beta=0.05, **options)
            state = solver.begin(f, None, np.random.default_rng(1)).state
            assert state.cuts.compiled is (rows is not None and rows.fget(f.features) is not None)
            for _ in range(5):
                solver.step(f, state, np.random.default_rng(0))
            points.append(state)
        fast, plain = points
        np.testing.assert_allclose(fast.W, plain.W, atol=1e-9)
        np.testing.assert_allclose(fast.T, plain.T, atol=1e-9)
        np.testing.assert_allclose(fast.cuts.G, plain.cuts.G, atol=1e-12)
        assert (fast.cuts.top == plain.cuts.top).all()
        assert (fast.masters, fast.rises) == (plain.masters, plain.rises)


@pytest.mark.parametrize("options", [{}, {"size_floor": 0.8}, {"center": False, "balance": 4.0}],
                         ids=str)
def test_patience_ends_what_has_nothing_to_tell_it_apart(options):
    X = np.random.default_rng(0).standard_normal((300, 8)) + 1.0
    f = CPM3C(X, 3, beta=0.02, **options)
    endless = fit(f, CuttingPlane(patience=10_000), seed=0)
    assert endless.status is Status.ITERATION_LIMIT and len(endless.history) == 300
    patient = fit(f, CuttingPlane(), seed=0)
    assert patient.status is Status.CONVERGED and len(patient.history) < 200
    assert patient.objective <= endless.objective + 1e-3
    held = patient.history["objective"][-1]
    assert held <= patient.history["objective"][:60].min() + 0.02  # it went on from the best W


def test_cuts_do_not_grow_with_the_number_of_samples():
    counts = []
    for n in (300, 3000, 30000):
        X = np.random.default_rng(0).standard_normal((n, 3)) + 4.0 * (np.arange(n)[:, None] % 2)
        counts.append(len(mm.solve(CPM3C(X, 2), seed=0).history))
    assert max(counts) <= 3 * min(counts) + 3 and max(counts) < 30


@pytest.mark.parametrize("k", [2, 3])
def test_starts(k):
    f, y = problem(k)
    solver = CuttingPlane(epsilon=1e-3, max_masters=100)
    right = fit(f, solver, init=y, seed=0)
    assert mm.metrics.accuracy(y, right.labels) > 0.9
    means = fit(f, solver, init="kmeans", seed=0)
    assert means.objective == pytest.approx(right.objective, rel=0.02)
    again = fit(f, solver, init=right, seed=3)
    assert again.objective <= right.objective + 1e-12
    from_W = fit(f, solver, init=right.point, seed=4)
    assert from_W.objective == again.objective and np.array_equal(from_W.point, again.point)
    elsewhere = fit(f.replace(beta=0.03), solver, init=right, seed=0)
    assert mm.metrics.accuracy(y, elsewhere.labels) > 0.9
    names = fit(f, solver, init=np.array(["r", "s", "t"])[y], seed=0)
    assert names.objective == right.objective
    kept = right.point.copy()
    fit(f, solver, init=right.point, seed=0)
    assert np.array_equal(right.point, kept)


def test_zero_is_a_poor_start_but_no_trap():
    f, _ = problem()
    for W in (np.zeros((3, 4)), np.ones((3, 4))):
        result = fit(f, init=W, seed=0)
        assert np.isfinite(result.objective) and result.verify()


def test_restarts_keep_the_lowest_and_are_repeatable():
    f, _ = problem()
    alone = [fit(f, seed=s).objective for s in np.random.SeedSequence(7).spawn(6)]
    best = fit(f, seed=7, restarts=6)
    again = fit(f, seed=7, restarts=6, n_jobs=2)
    assert np.array_equal(best.point, again.point)
    assert best.objective <= max(alone) and len(set(best.history["restart"])) == 6


def test_the_history_tells_cuts_masters_and_violation():
    f, _ = problem()
    result = fit(f, seed=0)
    rows = result.history
    assert rows["cuts"].tolist() == list(range(1, len(rows) + 1))
    assert (np.diff(rows["masters"]) >= 1).all() and (np.diff(rows["rises"]) >= 0).all()
    last = rows["objective"][-1]
    assert last >= result.objective and f.objective(result.point) == result.objective


def test_limits_and_ctrl_c_leave_the_best_so_far():
    f, _ = problem()
    slow = CuttingPlane(epsilon=1e-12, alpha=0.0)
    one = fit(f, slow, seed=0, max_iter=2)
    assert one.status is Status.ITERATION_LIMIT and len(one.history) == 2 and one.verify()
    none = fit(f, slow, seed=0, time_limit=0.0)
    assert none.status is Status.TIME_LIMIT and len(none.history) == 0 and none.verify()

    def stop(row):
        if row["iteration"] == 3:
            raise KeyboardInterrupt

    result = fit(f, slow, seed=0, callback=stop)
    assert result.status is Status.INTERRUPTED and len(result.history) == 3 and result.verify()
    # Masters add up scores in another order than the objective does.
    assert abs(result.objective - result.history["best"].min()) <= f.uncertainty(result.point)
    quiet = fit(f, slow, seed=0, callback=lambda row: row["iteration"] >= 4)
    assert quiet.status is Status.INTERRUPTED and len(quiet.history) == 4


def test_the_balance_holds_at_the_end():
    f, y = problem(2)
    free = CPM3C(f.X + 2.0, 2, center=False)
    for limit in (0.0, 1.0, 30.0):
        result = fit(free.replace(balance=limit), seed=0, restarts=5)
        assert result.violation <= 1e-9
        sums = free.features.scores(result.point).sum(axis=0)
        assert abs(sums[0] - sums[1]) <= limit + 1e-6


def test_it_solves_what_offers_separation_and_nothing_else():
    f, y = problem()
    assert f.offer(CutRisk).kinds == ("pair", "paper")
    assert f.restrict(y).offer(CutRisk).kinds == ("pair",)
    names = mm.fits(CuttingPlane()).names
    assert "CPM3C" in names and "CrammerSinger" in names and "LeastSquares" not in names
    assert "it needs CutRisk" in CuttingPlane().refuses(mm.formulations.LeastSquares(f.X, 2))
    assert CuttingPlane(cut="paper").refuses(CrammerSinger(f.X, y, 3)).endswith("'pair'.")


@pytest.mark.parametrize("seed", range(6))
def test_the_inner_gap_closes_where_weights_may_be_zero(seed):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    X = rng.standard_normal((60, 3)) + 2.5 * np.eye(3)[np.arange(60) % k]
    kernels = [Linear(), Gaussian(width=0.5), Polynomial(2), Gaussian(width=0.2)][:2 + seed % 3]
    for p in (1.0, 1.2, 2.0):
        f = MKC(X, k, kernels=kernels, C=20.0, p=p)
        result = mm.solve(f, "CuttingPlane", init="kmeans", seed=0)
        assert result.history["inner_gap"].max() <= 1e-6
    convex = MKC(X, k, kernels=kernels, C=20.0, p=1.0).restrict(np.arange(60) % k)
    exact = mm.solve(convex, CuttingPlane(epsilon=1e-6, alpha=0.0))
    assert exact.gap <= 2e-6
    assert exact.objective == pytest.approx(mm.solve(convex, "Conic").objective, rel=1e-5)
