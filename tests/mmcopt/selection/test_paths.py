"""A path of lambdas: what its cells are, and what they share."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import selection
from mmcopt.constraints import Sizes
from mmcopt.errors import DataError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian


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


def test_cells_of_a_path_are_solved_with_the_options_given(problem, cells):
    seen = []
    proved = selection.path(problem, (0.1, 1.0, 0.01), seed=3, solver="Shaking", restarts=2,
                            max_iter=5, callback=lambda row: seen.append(row["restart"]))
    assert set(seen) == {0, 1}
    assert all(r.solver == "Shaking" for r in proved)
    for r, followed in zip(proved, cells, strict=True):
        assert r.objective <= followed.objective * (1 + 1e-12)  # from where the path had come to
        assert r.lower_bound <= r.objective and r.verify()
    certain = selection.path(problem, (0.1,), members=1, gap_tol=1.0)
    assert certain[0].status is mm.Status.CERTIFIED


@pytest.mark.filterwarnings("ignore:.*effective_dimension")
def test_cells_share_the_time(problem, monkeypatch):
    limits = []

    def spy(cell, **options):
        limits.append(options["time_limit"])
        return mm.solve(cell, "Shaking", init=options["init"], seed=0)

    monkeypatch.setattr("mmcopt.selection.paths.solve", spy)
    selection.path(problem, (0.1, 1.0), members=1, time_limit=1e6, restarts=2)
    assert limits == [pytest.approx(5e5, rel=1e-3), pytest.approx(1e6, rel=1e-3)]
    selection.path(problem, (0.1,), members=1, restarts=2)
    assert limits[2] is None


def test_a_callback_that_says_stop_ends_a_path(problem):
    found = selection.path(problem, (0.1, 1.0, 0.01), members=1, callback=lambda row: True)
    assert [r.status for r in found] == [mm.Status.INTERRUPTED] * 3
    assert all(r.violation == 0.0 for r in found)


def test_restarts_of_cells_run_where_an_executor_puts_them(problem):
    paths = [selection.path(problem, (0.1, 1.0), members=2, solver="Tabu", restarts=3, max_iter=5,
                            **place)
             for place in ({}, {"executor": "threads", "n_jobs": 2}, {"n_jobs": -1})]
    for other in paths[1:]:
        assert [r.point.tobytes() for r in other] == [r.point.tobytes() for r in paths[0]]


@pytest.mark.parametrize("call, words", [
    (lambda p: selection.path(p, executor="nowhere"),
     "path: executor must be None, 'threads', 'processes', a concurrent.futures.Executor or a "
     "dask.distributed.Client; got 'nowhere'."),
    (lambda p: selection.path(p, n_jobs=0),
     "path: n_jobs must be None, -1 for as many as there are cores, or an integer at least 1 "
     "(1: one at a time); got 0."),
    (lambda p: selection.path(p, []), "path: lams must be a list of at least one; got []."),
    (lambda p: selection.path(p, 0.1), "path: lams must be a list of at least one; got 0.1."),
    (lambda p: selection.path(p, [0.1, -1]),
     "LeastSquares: lam must be a finite number above 0; got -1.0."),
    (lambda p: selection.path(p, members=0), "path: members must be an integer at least 1; got 0."),
    (lambda p: selection.path(p, time_limit=-1),
     "path: time_limit must be None or a finite number at least 0; got -1."),
    (lambda p: selection.path(p, init="kmeans"),
     "path: no option 'init'; beside lams, members, seed and time_limit it takes solver, restarts, "
     "n_jobs, executor, max_iter, gap_tol, callback, bound, as mmcopt.solve does."),
])
def test_readable_refusals(problem, call, words):
    with pytest.raises(ParameterError) as e:
        call(problem)
    assert str(e.value) == words


def test_only_problems_with_a_lambda_have_a_path(problem, blobs):
    with pytest.raises(DataError) as e:
        selection.path(problem.restrict(blobs[1]))
    assert str(e.value) == ("LeastSquaresFit has no path of problems to follow; LeastSquares has.")
