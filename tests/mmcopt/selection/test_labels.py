"""Selection without labels: what each criterion is, by hand, and what path and grid share."""

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


@pytest.fixture(scope="module")
def blobs():
    return mm.datasets.load("blobs:n=60,k=3,seed=1")


@pytest.fixture(scope="module")
def problem(blobs):
    return LeastSquares(blobs[0], 3, kernel=Gaussian(width=0.5))


@pytest.fixture(scope="module")
def cells(problem):
    return selection.path(problem, (0.1, 1.0, 0.01), seed=3)


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


# ---------------------------------------------------------------- path and grid


def test_a_path_keeps_the_order_of_lambdas_and_the_objective_of_the_formulation(problem, cells):
    assert [r.formulation.lam for r in cells] == [0.1, 1.0, 0.01]
    for r in cells:
        fresh = LeastSquares(problem.X, 3, kernel=Gaussian(width=0.5), lam=r.formulation.lam)
        assert r.objective == pytest.approx(fresh.objective(r.labels), rel=1e-9)
        assert r.violation == 0.0 and r.lower_bound is None and r.gap is None
        assert r.status is mm.Status.EVALUATED
        assert r.verify()


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
def test_a_path_finds_what_solving_each_cell_finds(cells):
    for r in cells:
        alone = mm.solve(r.formulation, seed=0)
        assert r.objective <= alone.objective * (1 + 1e-9)


def test_a_path_shares_the_kernel_and_forgets_each_matrix_r(problem, cells):
    assert all(r.formulation.K is problem.K for r in cells)
    assert all("W" not in r.formulation._cache or r.formulation.W is not problem.W for r in cells)
    many = selection.path(problem, np.geomspace(0.01, 1.0, 5), members=1)
    spectra = {id(r.formulation.spectrum) for r in many}
    assert len(spectra) == 1  # five lambdas pay for an eigendecomposition
    assert len(many) == 5


def test_same_seed_same_path(problem, cells):
    again = selection.path(problem, (0.1, 1.0, 0.01), seed=3)
    assert [r.labels.tobytes() for r in again] == [r.labels.tobytes() for r in cells]


def test_a_path_honours_constraints_and_low_rank_kernels(blobs):
    X, y = blobs
    i, j = np.flatnonzero(y == 0)[-2:]
    told = LeastSquares(X, 3, sizes=Sizes(exact=20), known={0: 2}, must_link=[(1, 2), (2, 3)],
                        cannot_link=[(int(i), int(j))])
    low = LeastSquares(X, 3, kernel=Gaussian(width=0.5).nystroem(15))
    for problem in (told, low):
        for r in selection.path(problem, (0.1, 1.0), members=2):
            assert r.violation == 0.0 and r.verify()
            assert r.objective == pytest.approx(problem.replace(lam=r.formulation.lam)
                                                .objective(r.labels), rel=1e-9)


def test_a_path_without_time_still_answers(problem):
    assert len(selection.path(problem, (0.1, 1.0), time_limit=0.0)) == 2


@pytest.mark.parametrize("call, words", [
    (lambda p: selection.path(p, []), "path: lams must be a list of at least one; got []."),
    (lambda p: selection.path(p, 0.1), "path: lams must be a list of at least one; got 0.1."),
    (lambda p: selection.path(p, [0.1, -1]),
     "LeastSquares: lam must be a finite number above 0; got -1.0."),
    (lambda p: selection.path(p, members=0), "path: members must be an integer at least 1; got 0."),
    (lambda p: selection.path(p, time_limit=-1),
     "path: time_limit must be None or a finite number at least 0; got -1."),
    (lambda p: selection.grid(p.X, 3, widths=()),
     "grid: widths must be a list of at least one; got ()."),
    (lambda p: selection.grid(p.X, 3, kernel="linear"),
     "grid: kernel and lam are what it varies, by widths= and lams=; for another kernel follow "
     "path(problem, lams)."),
    (lambda p: selection.most_central([]),
     "most_central: results must be a list of at least one; got []."),
    (lambda p: selection.lowest([]), "lowest: results must be a list of at least one; got []."),
])
def test_readable_refusals(problem, call, words):
    with pytest.raises(ParameterError) as e:
        call(problem)
    assert str(e.value) == words


def test_only_problems_with_a_lambda_have_a_path(problem, blobs):
    with pytest.raises(DataError) as e:
        selection.path(problem.restrict(blobs[1]))
    assert str(e.value) == ("LeastSquaresFit has no path of problems to follow; LeastSquares has.")


def test_a_grid_is_its_paths_and_prints_their_agreement(blobs):
    X, y = blobs
    grid = selection.grid(X, 3, widths=(0.5, 1.0), lams=(0.1, 1.0, 0.01), seed=3, members=2,
                          sizes=0.5)
    assert grid.widths == (0.5, 1.0) and grid.lams == (0.1, 1.0, 0.01)
    assert grid.scores.shape == (2, 3)
    found = [(r.formulation.kernel.width, r.formulation.lam) for r in grid.results]
    assert found == [(w, lam) for w in grid.widths for lam in grid.lams]
    assert all(r.formulation.sizes == Sizes(within=0.5) for r in grid.results)
    row = selection.path(LeastSquares(X, 3, kernel=Gaussian(width=0.5), sizes=0.5),
                         grid.lams, seed=3, members=2)
    assert all(np.array_equal(a.labels, b.labels)
               for a, b in zip(row, grid.results, strict=False))
    scores = selection.centrality([r.labels for r in grid.results])
    assert np.array_equal(grid.scores.ravel(), scores)
    assert grid.best is grid.results[int(np.argmax(scores))]
    assert ari(y, grid.best.labels) > 0.9
    lines = str(grid).splitlines()
    assert lines[0] == "agreement of each cell with all others (mean adjusted Rand index)"
    assert lines[1].split() == ["width", "\\", "lam", "0.1", "1", "0.01"]
    assert [line.split()[0] for line in lines[2:]] == ["0.5", "1"]
    assert lines[2].split()[1:] == [f"{s:.3f}" for s in grid.scores[0]]


def test_known_failure_agreement_is_not_truth():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((300, 2)), rng.standard_normal((20, 2)) + [7.0, 0.0]])
    y = np.repeat([0, 1], [300, 20])
    options = {"widths": (0.5, 1.0), "lams": (0.01, 0.1, 1.0)}
    grid = selection.grid(X, 2, **options)
    assert grid.scores.max() > 0.4 and ari(y, grid.best.labels) < 0.2  # all cut the large one
    told = selection.grid(X, 2, sizes=Sizes(exact=(300, 20)), **options)
    assert ari(y, told.best.labels) == 1.0  # what the notes of the estimator advise
