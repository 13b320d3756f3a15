"""What runs say together: what counts as a case, and how often."""

import pytest

import mmcopt as mm
from mmcopt.comparing.statistics import performance_ratios, sorted_times, versus_rows
from mmcopt.errors import DataError
from mmcopt.formulations import LeastSquares


def rows(solver, values, problem="p"):
    return [{"problem": problem, "solver": solver, "seed": i, "objective": v, "violation": 0.0}
            for i, v in enumerate(values)]


def test_what_no_seed_changes_is_one_observation():
    (same,) = versus_rows([*rows("a", [1.0] * 10), *rows("b", [2.0] * 10)], 1e-6)
    assert (same["wins"], same["losses"], same["p"]) == (10, 0, 1.0)
    (drawn,) = versus_rows([*rows("a", [1.0] * 10), *rows("b", [2.0 + i for i in range(10)])], 1e-6)
    assert (drawn["wins"], drawn["p"]) == (10, 2 / 2**10)


def test_each_problem_that_no_seed_changes_is_an_observation():
    table = [row for p in "pqrst" for row in (*rows("a", [1.0] * 3, p), *rows("b", [2.0] * 3, p))]
    (pair,) = versus_rows(table, 1e-6)
    assert (pair["wins"], pair["p"]) == (15, 2 / 2**5)


def test_baselines_that_seeds_do_not_change_say_little():
    X, _ = mm.datasets.load("gaussians:n=30,distance=1,seed=0")
    pair = mm.compare(LeastSquares(X), ["ward", "spectral"], seeds=10).versus()[0]
    assert pair["wins"] + pair["losses"] == 10 and pair["p"] == 1.0


def test_shares_are_of_all_problems_and_seeds():
    times = {"a": {("p", 0): 1.0, ("q", 0): 4.0}, "b": {("p", 0): 2.0}}
    never = float("inf")
    assert {s: own.tolist() for s, own in sorted_times(times).items()} \
        == {"a": [1.0, 4.0], "b": [2.0, never]}
    assert {s: own.tolist() for s, own in performance_ratios(times).items()} \
        == {"a": [1.0, 1.0], "b": [2.0, never]}
    assert performance_ratios({"a": {("p", 0): never}})["a"].tolist() == [never]
    assert performance_ratios({}) == sorted_times({}) == {}


def test_a_rival_that_is_refused_on_a_problem_has_not_met_its_target():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, _ = mm.datasets.load("gaussians:n=10,distance=4,seed=0")
    matrix = LeastSquares(X @ X.T, kernel=mm.kernels.Precomputed())
    table = mm.compare({"p": LeastSquares(X), "q": matrix}, ["BruteForce", "kmeans"], seeds=1)
    for kind in ("data", "profile"):
        ends = {line.get_label(): line.get_ydata()[-1]
                for line in table.plot(kind, within=1e9).get_lines()}
        assert ends == {"BruteForce": 1.0, "kmeans": 0.5}
    plt.close("all")


@pytest.mark.parametrize("kind", ["data", "profile"])
def test_profiles_need_a_run_that_keeps_the_constraints(kind):
    pytest.importorskip("matplotlib")
    X, _ = mm.datasets.load("gaussians:n=10,distance=4,seed=0")
    table = mm.compare(LeastSquares(X, known={0: 0, 9: 0}), ["ward"], seeds=1)
    with pytest.raises(DataError, match="no run of this comparison kept the constraints"):
        table.plot(kind)
