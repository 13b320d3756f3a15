"""Comparisons with equal budgets, with baselines, and those that grow."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.capabilities import LabelQuadratic
from mmcopt.comparing import Baseline, Comparison
from mmcopt.comparing.statistics import goal, sign_test, time_to, versus_rows
from mmcopt.comparing.table import COLUMNS, SUMMARY, time_to_best
from mmcopt.errors import DataError, IncompatibleError, ParameterError
from mmcopt.formulations import CPM3C, LeastSquares, OneClassHinge
from mmcopt.kernels import Precomputed
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver


@dataclass(frozen=True, kw_only=True)
class _Draw(Solver):
    """Random labels, a few, and then it is done."""

    needs: ClassVar = (LabelQuadratic,)
    draws: int = 2

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        return self.step(f, -1, rng)

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        lq = f.offer(LabelQuadratic)
        c = lq.random_labels(rng)
        return Progress(state + 1, lq.expand(c), lq.value(c))

    def outcome(self, f: Any, state: Any) -> Status | None:
        return Status.CONVERGED if state >= self.draws else None


@dataclass(frozen=True, kw_only=True)
class _Once(_Draw):
    """As Ctrl-C in its first run, and never again."""

    again: ClassVar[list[int]] = []

    def step(self, f: Any, state: Any, rng: np.random.Generator) -> Progress:
        if state == 1 and not self.again:
            self.again.append(1)
            raise KeyboardInterrupt
        return super().step(f, state, rng)


# ---------------------------------------------------------------- budgets


def test_a_budget_restarts_a_solver_until_it_is_spent(problem, ticking):
    ticking(0.001)
    one = mm.solve(problem, _Draw(), seed=0)
    many = mm.solve(problem, _Draw(), seed=0, budget=0.5)
    assert one.history["restart"].max() == 0 and many.history["restart"].max() > 20
    assert many.objective <= one.objective
    assert many.objective == pytest.approx(many.history["best"].min())
    assert many.objective == problem.objective(many.labels)
    assert many.history["seconds"].max() <= 0.51


@pytest.mark.parametrize("options", [
    {"budget": 1e6}, {"budget": 1e6, "restarts": 2, "n_jobs": 2}, {"restarts": 9},
    {"restarts": 9, "n_jobs": 2}])
def test_a_stop_as_a_restart_converges_is_an_interrupt(problem, options):
    result = mm.solve(problem, _Draw(), seed=0, **options,
                      callback=lambda row: row["restart"] == 3 and row["iteration"] == 2)
    assert result.status is Status.INTERRUPTED and result.history["restart"].max() < 8


def test_a_stop_after_all_is_done_changes_nothing(problem):
    result = mm.solve(problem, _Draw(), seed=0, restarts=4,
                      callback=lambda row: row["restart"] == 3 and row["iteration"] == 2)
    assert result.status is Status.CONVERGED


def test_a_budget_ends_with_a_proof(problem):
    assert mm.solve(problem, "BruteForce", budget=1e6).status is Status.CERTIFIED


@pytest.mark.parametrize(("call", "name"), [
    (lambda f, **o: mm.solve(f, _Draw(), **o), "solve"),
    (lambda f, **o: mm.compare(f, _Draw(), seeds=1, **o), "compare")])
def test_a_budget_and_a_time_limit_exclude_each_other(problem, call, name):
    with pytest.raises(ParameterError, match=f"{name}: time_limit and budget are two limits"):
        call(problem, time_limit=1, budget=1)
    with pytest.raises(ParameterError, match=f"{name}: budget must be None or a finite number"):
        call(problem, budget=-1)


def test_rows_of_a_budget(problem, data, ticking):
    ticking(0.001)
    table = mm.compare(problem, [_Draw(), _Draw(draws=50), "kmeans"], seeds=2, budget=0.3,
                       y=data[1])
    assert table.shown() == ["solver", "runs", "restarts", "best", "mean", "hits", "time_to_best",
                             "bound", "gap", "ari"]
    short, long, kmeans = (r["restarts"] for r in table.summary())
    assert short > 2 * long > 4 and kmeans > 1
    assert all(r["time_to_best"] <= r["seconds"] for r in table.rows)
    for row, result in zip(table.rows, table.results, strict=True):
        best = result.history["best"]
        assert (np.diff(best[:-1]) < 0).all() and best.min() == pytest.approx(row["objective"])


def test_columns_are_those_asked_for(problem):
    table = mm.compare(problem, _Draw(), seeds=1, columns=["solver", "mean"])
    assert str(table).splitlines()[0].split() == ["solver", "mean"]
    assert table.to_markdown().startswith("| solver | mean |")
    with pytest.raises(ParameterError, match="each of columns must be one of 'problem', 'solver'"):
        mm.compare(problem, _Draw(), seeds=1, columns=["means"])


# ---------------------------------------------------------------- baselines


@pytest.mark.parametrize("name", ["kmeans", "spectral", "gmm", "ward"])
def test_baselines_cluster_the_samples(name):
    X, y = mm.datasets.load("gaussians:n=40,distance=12,seed=0")
    problem = CPM3C(X, 2)
    table = mm.compare(problem, [name], seeds=2, y=y)
    assert [(r["solver"], r["status"], r["ari"]) for r in table.rows] \
        == [(name, "converged", 1.0)] * 2
    assert all(r["seconds"] > 0 for r in table.rows)
    assert table.rows[0]["objective"] == pytest.approx(mm.evaluate(problem, y).objective)


@pytest.mark.parametrize(("make", "words"), [
    (lambda X: LeastSquares(X @ X.T, kernel=Precomputed()), "it needs the samples as vectors"),
    (lambda X: OneClassHinge(X), "this OneClassHinge is convex"),
    (lambda X: mm.formulations.MaxCut(np.ones((4, 4)) - np.eye(4)), "it needs the samples")])
def test_baselines_refuse_what_has_no_samples_to_cluster(data, make, words):
    assert words in Baseline("kmeans").refuses(make(data[0]))


def test_dense_baselines_refuse_sparse_samples(data):
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(data[0])
    problem = CPM3C(sparse, 2)
    assert "it takes no sparse samples; kmeans" in Baseline("ward").refuses(problem)
    assert mm.compare(problem, "kmeans", seeds=1, y=data[1]).rows[0]["ari"] == 1.0


def test_a_baseline_that_gives_up_is_a_failed_row(problem, monkeypatch):
    class Model:
        def fit_predict(self, vectors):
            raise ValueError("ill-defined")

    monkeypatch.setattr(Baseline, "_model", lambda *args: Model())
    table = mm.compare(problem, ["gmm", _Draw()], seeds=1)
    assert [row["status"] for row in table.rows] == ["failed", "converged"]
    assert "GaussianMixture of scikit-learn gave up: ill-defined" in table.failures[0][2]


def test_waking_scikit_learn_is_not_charged(problem, monkeypatch):
    calls = []
    labels = Baseline._labels
    monkeypatch.setattr(Baseline, "prepare", lambda self, f: calls.append("prepare"))
    monkeypatch.setattr("mmcopt.comparing.baselines.clock", lambda: float(len(calls)))
    monkeypatch.setattr(Baseline, "_labels",
                        lambda self, *args: (calls.append("fit"), labels(self, *args))[1])
    _, rows, _ = Baseline("kmeans").search(problem, 0, None)
    assert calls == ["prepare", "fit"] and rows[0]["seconds"] == 1.0


def test_a_budget_is_charged_for_judging_the_starts(problem, monkeypatch):
    now = [0.0]
    judge = mm.evaluate
    monkeypatch.setattr("mmcopt.comparing.baselines.clock", lambda: now[0])

    def slowly(*args, **options):
        now[0] += 1.0
        assert now[0] < 9.0
        return judge(*args, **options)

    monkeypatch.setattr("mmcopt.comparing.baselines.evaluate", slowly)
    _, rows, _ = Baseline("kmeans").search(problem, 0, 2.5)
    assert [row["seconds"] for row in rows] == [1.0, 2.0, 3.0]
    assert Baseline("kmeans").search(problem, 0, None)[1][0]["seconds"] == 0.0


def test_labels_that_keep_the_rules_come_before_lower_ones(data, monkeypatch):
    problem = LeastSquares(data[0], sizes=(4, 6))
    drawn = iter([[0] * 9 + [1], [0, 1] * 5, [0] * 8 + [1, 1]])
    monkeypatch.setattr(Baseline, "prepare", lambda self, f: None)
    monkeypatch.setattr(Baseline, "_labels", lambda *args: np.array(next(drawn)))
    clock = iter(range(0, 90, 5))
    monkeypatch.setattr("mmcopt.comparing.baselines.clock", lambda: float(next(clock)))
    labels, rows, _ = Baseline("kmeans").search(problem, 0, 25.0)
    assert labels.tolist() == [0, 1] * 5
    assert [math.isinf(row["best"]) for row in rows] == [True, False, True]


@pytest.mark.parametrize("name", ["kmeans", "spectral", "gmm", "ward"])
def test_results_of_baselines_verify(problem, name):
    table = mm.compare(problem, [name], seeds=1)
    assert (table.results[0].solver, table.rows[0]["status"]) == (name, "converged")
    assert table.results[0].verify()
    table.certify(time_limit=5)
    assert all(result.verify() for result in table.results)


class _Stopped:
    """A signal to stop that is seen at the third look."""

    looks = 0

    def is_set(self):
        self.looks += 1
        return self.looks > 2

    def set(self):
        raise AssertionError


def test_a_baseline_stops_at_a_signal_with_the_best_so_far(problem):
    result = Baseline("kmeans").solve(problem, 0, 1e6, _Stopped())
    assert result.status is Status.INTERRUPTED and result.verify()
    assert len(result.history) == 3
    assert result.objective == pytest.approx(result.history["best"].min())


def test_ctrl_c_leaves_the_best_start_of_a_baseline(problem, tmp_path, monkeypatch, ticking):
    ticking(0.01)
    labels, calls = Baseline._labels, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return labels(self, *args)

    monkeypatch.setattr(Baseline, "prepare", lambda self, f: None)
    monkeypatch.setattr(Baseline, "_labels", interrupted)
    path = tmp_path / "table.ckpt"
    table = mm.compare(problem, "kmeans", seeds=2, budget=0.05, checkpoint=path)
    assert table.interrupted
    assert [(r["status"], r["restarts"]) for r in table.rows] == [("interrupted", 2)]
    table.extend(checkpoint=path)
    assert not table.interrupted and [r["status"] for r in table.rows] == ["converged"] * 2


@pytest.mark.parametrize("name", ["k-means", "K-Means", "kmeans"])
def test_baselines_have_one_name_everywhere(problem, name):
    from mmcopt.cli.parse import parse_rivals

    (typed,) = parse_rivals(name)
    assert typed == Baseline("kmeans") == mm.compare(problem, name, seeds=1).plan.solvers["kmeans"]


@pytest.mark.parametrize("resolve", ["python", "cli"])
def test_unknown_rivals_are_told_of_baselines(problem, resolve):
    from mmcopt.cli.parse import parse_rivals

    with pytest.raises(ParameterError, match=r"is called 'kmean'. Did you mean kmeans\?.*, ward"):
        parse_rivals("kmean") if resolve == "cli" else mm.compare(problem, "kmean", seeds=1)


def test_baselines_have_no_parameters():
    from mmcopt.cli.parse import parse_rivals

    with pytest.raises(ParameterError, match="kmeans has no parameter 'n_init'; it has none"):
        parse_rivals("kmeans,n_init=3")


def test_no_other_baseline_is_made():
    with pytest.raises(ParameterError, match="Baseline: name must be one of 'kmeans'"):
        Baseline("dbscan")


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_baselines_run_where_the_others_do(problem, executor):
    here = mm.compare(problem, ["kmeans", "gmm"], seeds=2)
    there = mm.compare(problem, ["kmeans", "gmm"], seeds=2, executor=executor, n_jobs=2)
    assert [r["objective"] for r in here.rows] == [r["objective"] for r in there.rows]


def test_a_checkpoint_keeps_baselines(problem, tmp_path, monkeypatch):
    path = tmp_path / "table.ckpt"
    first = mm.compare(problem, ["kmeans", _Draw()], seeds=2, checkpoint=path)
    monkeypatch.setattr(Baseline, "search", None)
    again = mm.compare(problem, ["kmeans", _Draw()], seeds=2, checkpoint=path)
    assert [r["objective"] for r in first.rows] == [r["objective"] for r in again.rows]


def test_a_checkpoint_keeps_baselines_of_their_problem_and_budget_alone(data, tmp_path, ticking):
    ticking(0.001)
    path, (X, y) = tmp_path / "table.ckpt", data
    first = mm.compare(LeastSquares(X), "kmeans", seeds=1, y=y, budget=0.1, checkpoint=path)
    order = np.random.default_rng(0).permutation(len(X))
    mixed = mm.compare(LeastSquares(X[order]), "kmeans", seeds=1, y=y[order], budget=0.1,
                       checkpoint=path)
    assert first.rows[0]["ari"] == mixed.rows[0]["ari"] == 1.0
    longer = mm.compare(LeastSquares(X), "kmeans", seeds=1, y=y, budget=0.5, checkpoint=path)
    assert longer.rows[0]["seconds"] >= 0.5 > 2 * first.rows[0]["seconds"]


def test_a_checkpoint_keeps_the_restarts_of_a_budget(problem, tmp_path, ticking):
    ticking(0.001)
    path = tmp_path / "table.ckpt"
    first = mm.compare(problem, _Draw(), seeds=2, budget=0.2, checkpoint=path)
    again = mm.compare(problem, _Draw(), seeds=2, budget=0.2, checkpoint=path)
    assert [(r["objective"], r["restarts"]) for r in first.rows] \
        == [(r["objective"], r["restarts"]) for r in again.rows]
    more = mm.compare(problem, _Draw(), seeds=2, budget=0.4, checkpoint=path)
    assert all(b["restarts"] > a["restarts"] for a, b in zip(first.rows, more.rows, strict=True))


# ---------------------------------------------------------------- more of it


class _Counted:
    """How many runs were done."""

    def __init__(self, monkeypatch):
        self.runs = 0
        solve = mm.solving.solve

        def counted(*args, **options):
            self.runs += 1
            return solve(*args, **options)

        monkeypatch.setattr("mmcopt.comparing.run.solve", counted)


def test_extend_runs_what_is_missing(problem, data, monkeypatch):
    counted = _Counted(monkeypatch)
    table = mm.compare(problem, [_Draw()], seeds=2, y=data[1])
    assert table.extend(seeds=4) is table and counted.runs == 4
    table.extend([_Draw(), _Draw(draws=5)])
    assert counted.runs == 8 and [r["seed"] for r in table.rows] == [0, 1, 2, 3] * 2
    other = problem.replace(lam=3.0)
    table.extend(problems=[problem, other], y={"LeastSquares n=10 k=2": data[1]})
    assert counted.runs == 16 and list(table.problems) == ["LeastSquares", "LeastSquares n=10 k=2"]
    assert all(tuple(r) == COLUMNS and r["ari"] is not None for r in table.rows)
    whole = mm.compare({"LeastSquares": problem, "LeastSquares n=10 k=2": other},
                       [_Draw(), _Draw(draws=5)], seeds=4)
    assert [(r["problem"], r["solver"], r["seed"], r["objective"]) for r in table.rows] \
        == [(r["problem"], r["solver"], r["seed"], r["objective"]) for r in whole.rows]


def test_extend_does_what_was_interrupted(problem):
    table = mm.compare(problem, [_Draw(), _Once()], seeds=2)
    assert table.interrupted and [r["status"] for r in table.rows] == ["converged", "interrupted"]
    table.extend()
    assert not table.interrupted and [r["status"] for r in table.rows] == ["converged"] * 4


def test_extend_keeps_bounds_and_labels_from_elsewhere(problem, data):
    table = mm.compare(problem, _Draw(), seeds=1).certify(time_limit=5)
    table.add("truth", mm.evaluate(problem, data[1]))
    bound = table.rows[0]["lower_bound"]
    table.extend(_Draw(draws=1))
    assert [r["solver"] for r in table.rows][-1] == "truth"
    new = next(r for r in table.rows if r["solver"] == "_Draw(draws=1)")
    assert new["lower_bound"] == bound and all(r.verify() for r in table.results)


def test_generators_are_seeds_of_their_own(problem):
    drawn = [np.random.default_rng(i) for i in range(4)]
    table = mm.compare(problem, [_Draw(), "kmeans"], seeds=drawn)
    seeds = [np.random.default_rng(i).integers(2**63) for i in range(4)]
    assert [r["seed"] for r in table.rows[:4]] == seeds
    alone = mm.solve(problem, _Draw(), seed=np.random.default_rng(2))
    assert table.rows[2]["objective"] == alone.objective
    pair = table.versus()[0]
    assert pair["wins"] + pair["ties"] + pair["losses"] == 4
    table.extend(seeds=[np.random.default_rng(9), np.random.SeedSequence(30), np.int64(7)])
    assert len(table) == 14 and len({r["seed"] for r in table.rows}) == 7


def test_extend_takes_classes_for_the_rows_that_are_there(problem, data):
    table = mm.compare(problem, _Draw(), seeds=2)
    table.extend(y=data[1])
    assert all(r["ari"] is not None for r in table.rows)
    other = problem.replace(lam=3.0)
    table = mm.compare({"a": problem}, _Draw(), seeds=1)
    table.extend(problems={"b": other}, y={"a": data[1], "b": data[1]})
    assert all(r["ari"] is not None for r in table.rows)


@pytest.mark.parametrize("wrong", [
    {"y": [1, 2]}, {"y": {"c": [1]}}, {"n_jobs": 0}, {"executor": "nowhere"}, {"seeds": [-1]},
    {"checkpoint": "x.npz", "executor": "processes"}])
def test_what_extend_refuses_changes_nothing(problem, wrong):
    table = mm.compare({"a": problem}, _Draw(), seeds=1)
    asked = {"problems": {"b": problem.replace(lam=3.0)}, "solvers": _Draw(draws=5), "seeds": 3}
    with pytest.raises((ParameterError, DataError)):
        table.extend(**{**asked, **wrong})
    assert (list(table.problems), list(table.plan.solvers), table.plan.seeds, table.y) \
        == (["a"], ["_Draw"], [0], {})
    assert len(table.extend()) == 1


def test_extend_refuses_other_things_of_the_same_name(problem, data):
    table = mm.compare({"p": problem}, {"s": _Draw()}, seeds=1)
    with pytest.raises(ParameterError, match="the problem 'p' of this comparison is another one"):
        table.extend(problems={"p": problem.replace(lam=2.0)})
    with pytest.raises(ParameterError, match="the solver 's' of this comparison is another one"):
        table.extend({"s": _Draw(draws=7)})
    with pytest.raises(ParameterError, match="was not made by mmcopt.compare"):
        Comparison({"p": problem}).extend(seeds=2)
    with pytest.raises(DataError, match="y holds 2 labels"):
        table.extend(seeds=2, y=[0, 1])
    with pytest.raises(IncompatibleError, match="no solver fits any problem"):
        mm.compare(problem, "Direct", seeds=1)


# ---------------------------------------------------------------- what it says


@pytest.fixture(scope="module")
def table(problem, data):
    return mm.compare(problem, [_Draw(), "BruteForce", "kmeans"], seeds=6, y=data[1])


def test_sign_test_is_that_of_scipy():
    binomtest = pytest.importorskip("scipy.stats").binomtest
    for wins in range(9):
        for losses in range(9):
            if wins + losses:
                assert sign_test(wins, losses) \
                    == pytest.approx(binomtest(wins, wins + losses).pvalue)
    assert sign_test(0, 0) == 1.0


def test_wins_ties_and_losses():
    def rows(solver, values):
        return [{"problem": "p", "solver": solver, "seed": i, "objective": v,
                 "violation": None if v is None else 0.0} for i, v in enumerate(values)]

    found = versus_rows([*rows("a", [1, 1, 2, None, -5]), *rows("b", [1 + 1e-9, 2, 1, 3, None])],
                        1e-6)
    assert found == [{"solver": "a", "against": "b", "wins": 2, "ties": 1, "losses": 2, "p": 1.0}]
    (loose,) = versus_rows([*rows("a", [1.0]), *rows("b", [1.05])], 0.1)
    assert loose["ties"] == 1


def test_versus_is_over_problems_and_seeds(table):
    pair = table.versus()[0]
    assert (pair["solver"], pair["against"]) == ("_Draw", "BruteForce")
    assert pair["wins"] == 0 and pair["ties"] + pair["losses"] == 6
    assert table.as_dict()["versus"] == table.versus()


def test_time_to_target(table):
    rows = {r["solver"]: r for r in table.time_to_target()}
    best = table.best("LeastSquares").objective
    assert rows["BruteForce"]["reached"] == 1.0 and rows["BruteForce"]["median"] > 0
    assert rows["BruteForce"]["expected"] == pytest.approx(
        np.mean([r["time_to_best"] for r in table.rows if r["solver"] == "BruteForce"]), rel=0.5)
    hit = np.mean([r["objective"] <= best * (1 + 1e-6) for r in table.rows[:6]])
    assert rows["_Draw"]["reached"] == hit
    assert rows["_Draw"]["expected"] is None or math.isfinite(rows["_Draw"]["expected"])
    easy = table.time_to_target(target=1e9)
    assert all(r["reached"] == 1.0 and r["target"] == 1e9 for r in easy)
    assert table.time_to_target(target={"LeastSquares": -1.0})[0]["expected"] is None
    assert table.time_to_target(within=1e9)[0]["reached"] == 1.0
    with pytest.raises(ParameterError, match="within must be a finite number at least 0"):
        table.time_to_target(within=-1)
    with pytest.raises(ParameterError, match=r"target\['LeastSquares'\] must be a finite number"):
        table.time_to_target(target={"LeastSquares": "a"})
    with pytest.raises(ParameterError, match="each problem of target must be .*'LeastSquares'"):
        table.time_to_target(target={"Least": 1.0})


@dataclass(frozen=True, kw_only=True)
class _Polish(_Draw):
    """As drawn, and the optimum in the end."""

    def finish(self, f: Any, state: Any) -> Progress:
        optimum = mm.solve(f, "BruteForce")
        return Progress(state, optimum.point, optimum.objective)


def test_what_a_finish_improves_is_timed_where_it_does(problem, ticking):
    ticking(0.001)
    table = mm.compare(problem, _Polish(), seeds=2, budget=0.5)
    best = problem.objective(mm.solve(problem, "BruteForce").point)
    for row, result in zip(table.rows, table.results, strict=True):
        assert result.history["best"].min() == pytest.approx(best, rel=1e-12)
        assert row["restarts"] > 5 and row["time_to_best"] < 0.2
    assert table.time_to_target()[0]["median"] < 0.2
    alone = mm.solve(problem, _Polish(), seed=0)
    assert alone.verify() and (np.diff(alone.history["best"]) <= 0).all()
    assert len(mm.solve(problem, _Draw(), seed=0).history) == len(alone.history)


@pytest.mark.parametrize("drift", [-2e-5, 2e-5])
def test_sums_in_single_precision_are_timed_as_exactly_as_they_are(problem, data, drift):
    from mmcopt.modeling.result import History

    result = mm.evaluate(problem, data[1])
    value = result.objective
    rows = [{"restart": 0.0, "iteration": float(i), "seconds": s, "objective": v, "best": v}
            for i, (s, v) in enumerate([(0.1, 2 * value), (0.2, value * (1 + drift)),
                                        (0.3, value * (1 + drift))])]
    result = dataclasses.replace(result, history=History(rows))
    assert time_to_best(result, 9.0) == 0.2
    row = {"objective": value, "violation": 0.0, "seconds": 9.0}
    assert time_to(row, result, goal(value)) == 0.2
    assert time_to(row, result, 3 * value) == 0.1


def test_expected_time_counts_what_failures_cost():
    from mmcopt.comparing.statistics import target_rows

    class Ended:
        history = mm.modeling.result.History()

    rows = [{"problem": "p", "solver": "s", "seed": i, "objective": v, "violation": 0.0,
             "seconds": 2.0} for i, v in enumerate([1.0, 5.0, 5.0])]
    (row,) = target_rows([(r, Ended()) for r in rows], {"p": 1.0})
    assert (row["reached"], row["median"], row["expected"]) == (1 / 3, None, 6.0)
    two = [{**rows[0], "seconds": s} for s in (1.0, 2.0)]
    assert target_rows([(r, Ended()) for r in two], {"p": 1.0})[0]["median"] == 1.5


def test_pictures_of_a_comparison(table):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = table.plot("data")
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert set(lines) == {"_Draw", "BruteForce", "kmeans"} or " _Draw" in lines
    assert lines["BruteForce"].get_ydata()[-1] == 1.0
    assert ax.get_xlabel() == "time (seconds)"
    ax = table.plot("profile", within=1e9)
    assert all(line.get_ydata()[-1] == 1.0 for line in ax.get_lines())
    ax = table.plot("time")
    assert len(ax.collections) == 3  # a band each
    plt.close("all")
    assert tuple(table.summary()[0]) == SUMMARY
