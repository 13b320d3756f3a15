"""Selection without labels: what each criterion is, by hand."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import selection
from mmcopt.constraints import Sizes
from mmcopt.errors import DataError, IncompatibleError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solvers import Direct, StochasticDescent

ari = mm.metrics.adjusted_rand_index


# ---------------------------------------------------------------- one cell, many cells


def test_lowest_takes_the_lowest_feasible_objective(blobs):
    X, y = blobs
    problem = LeastSquares(X, 3, sizes=Sizes(exact=20))
    assert np.bincount(y).tolist() == [20, 20, 20]
    good = mm.evaluate(problem, y)
    swapped, moved = y.copy(), y.copy()
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    swapped[i], swapped[j] = 1, 0
    moved[j] = 0
    worse, infeasible = mm.evaluate(problem, swapped), mm.evaluate(problem, moved)
    assert selection.lowest([worse, infeasible, good]) is good
    assert selection.lowest([infeasible, worse]) is worse
    assert selection.lowest([infeasible]) is infeasible


def test_lowest_refuses_results_of_different_problems(problem, cells):
    equal = LeastSquares(problem.X, 3, kernel=Gaussian(width=0.5))  # another object, same problem
    again = mm.evaluate(equal, cells[0].labels)
    assert selection.lowest([cells[0], again]) is cells[0]
    with pytest.raises(DataError) as e:
        selection.lowest(cells)
    assert str(e.value) == ("lowest compares objectives, which only results for one problem share; "
                            "across problems use most_central.")


def test_centrality_by_hand():
    a, b, c = [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]  # b renames a; c shares no pair with them
    assert ari(a, c) == -0.5
    assert selection.centrality([a, b, c]).tolist() == [0.25, 0.25, -0.5]
    assert selection.centrality([a]).tolist() == [1.0]
    assert selection.centrality([a, b]).tolist() == [1.0, 1.0]


def test_most_central_takes_what_agrees_most_whatever_the_problems(problem, blobs):
    y = blobs[1]
    near = y.copy()
    near[:3] = (near[:3] + 1) % 3
    other = np.random.default_rng(0).permutation(y)
    results = [mm.evaluate(problem.replace(lam=lam), labels)
               for lam, labels in ((0.1, other), (1.0, y), (2.0, near), (3.0, y))]
    assert selection.most_central(results) is results[1]  # the first of two equal ones
    assert selection.most_central(results[::-1]) is results[3]
    assert selection.most_central(results[:1]) is results[0]


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
def test_stability_is_one_where_every_run_ends_alike_and_less_where_not(problem):
    assert selection.stability(problem, runs=3) == 1.0
    weak = StochasticDescent(swaps=False)
    first = selection.stability(problem, weak, runs=4, seed=1)
    assert -0.5 <= first < 1.0
    assert first == selection.stability(problem, weak, runs=4, seed=1)
    labels = [mm.solve(problem, weak, seed=s).labels for s in (1, 2, 3, 4)]
    pairs = [ari(labels[i], labels[j]) for i in range(4) for j in range(i)]
    assert first == pytest.approx(np.mean(pairs), rel=1e-12)


def test_stability_refuses_in_words(problem):
    with pytest.raises(ParameterError) as e:
        selection.stability(problem, runs=1)
    assert str(e.value) == "stability: runs must be an integer at least 2; got 1."
    with pytest.raises(IncompatibleError, match="Direct cannot solve LeastSquares"):
        selection.stability(problem, "Direct")


def test_objective_ratio_is_small_where_there_is_structure(problem, cells):
    ratio = selection.objective_ratio(cells[0])
    assert 0.0 < ratio < 0.7
    assert ratio == selection.objective_ratio(cells[0])
    rng = np.random.default_rng(0)
    noise = LeastSquares(rng.standard_normal((60, 40)), 3, kernel=Gaussian(width=0.5))
    assert ratio < selection.objective_ratio(mm.solve(noise, "Tabu", seed=0)) < 1.0
    lq = problem.offer(mm.LabelQuadratic)
    by_chance = mm.evaluate(problem, lq.random_labels(rng))
    assert selection.objective_ratio(by_chance, draws=50) == pytest.approx(1.0, abs=0.1)


def test_objective_ratio_refuses_in_words(problem, blobs, cells):
    fit = mm.solve(problem.restrict(blobs[1]), Direct())
    with pytest.raises(DataError) as e:
        selection.objective_ratio(fit)
    assert str(e.value) == ("objective_ratio needs LabelQuadratic, which LeastSquaresFit does not "
                            "offer.")
    with pytest.raises(ParameterError) as e:
        selection.objective_ratio(cells[0], draws=0)
    assert str(e.value) == "objective_ratio: draws must be an integer at least 1; got 0."


@pytest.mark.parametrize("call", [selection.most_central, selection.lowest])
def test_readable_refusals(call):
    with pytest.raises(ParameterError) as e:
        call([])
    assert str(e.value) == f"{call.__name__}: results must be a list of at least one; got []."
