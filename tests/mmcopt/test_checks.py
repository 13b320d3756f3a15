"""Refusals of parameters, data and labels, word for word."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt import checks
from mmcopt.checks import choice, data_matrix, encode_labels, flag, integer, optional, real
from mmcopt.errors import DataError, KeywordError, ParameterError
from mmcopt.formulations import LeastSquares


@pytest.mark.parametrize("rule, good, bad, words", [
    (integer(1), [1, 5, np.int64(3)], [0, 1.0, True, "1", None, np.nan], "an integer at least 1"),
    (integer(0, 3), [0, 3], [-1, 4], "an integer at least 0 and at most 3"),
    (integer(), [-5, 0], [0.5], "an integer"),
    (real(0), [0, 0.5, np.float32(1)], [-1, np.nan, np.inf, True, "1", 1j],
     "a finite number at least 0"),
    (real(0, open_low=True), [1e-300], [0, -1], "a finite number above 0"),
    (real(0, 1), [0, 1], [1.1], "a finite number at least 0 and at most 1"),
    (choice("sum", "mean"), ["sum"], ["Sum", None], "one of 'sum', 'mean'"),
    (flag(), [True, False, np.True_], [0, 1, None, "yes"], "True or False"),
    (optional(integer(1)), [None, 2], [0], "None or an integer at least 1"),
])
def test_rules(rule, good, bad, words):
    assert rule.allowed == words
    for value in good:
        rule.check("Owner", "name", value)
    for value in bad:
        with pytest.raises(ParameterError) as e:
            rule.check("Owner", "name", value)
        assert str(e.value) == f"Owner: name must be {words}; got {value!r}."


OK = np.ones((3, 2))


@pytest.mark.parametrize("X, words", [
    (np.full((3, 2), np.nan), "F: X contains 6 NaN among 6 entries; drop or impute these rows "
                              "first."),
    ([[1.0, np.inf], [0, 1]], "F: X contains 1 infinity (inf) among 4 entries; drop or impute "
                              "these rows first."),
    ([[np.nan, np.inf], [-np.inf, 1]], "F: X contains 1 NaN and 2 infinity (inf) among 4 entries; "
                                       "drop or impute these rows first."),
    (np.ones(3), "F: X must be 2-D (samples x features); got 1-D of shape (3,). Reshape your data "
                 "with X.reshape(-1, 1) if it has one feature, or .reshape(1, -1) if it is one "
                 "sample."),
    (np.ones((2, 2, 2)), "F: X must be 2-D (samples x features); got 3-D of shape (2, 2, 2). "
                         "Reshape your data with X.reshape(-1, 1) if it has one feature, or "
                         ".reshape(1, -1) if it is one sample."),
    (np.ones((0, 2)), "F: X is empty: 0 sample(s) (shape=(0, 2)) while a minimum of 1 is "
                      "required."),
    (np.ones((2, 0)), "F: X is empty: 0 feature(s) (shape=(2, 0)) while a minimum of 1 is "
                      "required."),
    (np.ones((2, 2)) * 1j, "F: X holds complex numbers. Complex data not supported."),
    (sp.csr_matrix((0, 2)), "F: X is empty (shape (0, 2))."),
    (sp.csr_matrix([[np.nan, 1.0]]), "F: X contains 1 NaN among 2 entries; drop or impute these "
                                     "rows first."),
])
def test_bad_data_is_refused_in_words(X, words):
    with pytest.raises(DataError) as e:
        data_matrix(X, owner="F")
    assert str(e.value) == words


def test_text_and_sparse_data_are_refused_in_words():
    with pytest.raises(DataError, match=r"F: X must hold numbers; got dtype <U1 \(could not"):
        data_matrix([["a", "b"]], owner="F")
    with pytest.raises(DataError) as e:
        data_matrix(sp.csr_matrix(OK), owner="F", sparse=False)
    assert str(e.value) == ("F: X is sparse, which is not supported here; pass X.toarray() if it "
                            "fits in memory.")


def test_large_finite_values_are_not_taken_for_infinite():
    with np.errstate(over="ignore"):
        X = np.full((4, 2), 1e308)  # their sum is infinite
    with pytest.raises(DataError, match="reach 1e\\+308, and beyond 1e\\+150 their squares"):
        data_matrix(X, owner="F")


@pytest.mark.as_given
@pytest.mark.parametrize("X", [OK, OK.astype(np.float32), OK.astype(np.uint8), OK.tolist(),
                               OK.astype(bool), OK.astype(object), OK.astype(np.float16)])
def test_data_are_viewed_read_only_and_keep_their_flags(X):
    out = data_matrix(X, owner="F")
    assert not out.flags.writeable and out.dtype.kind in "fiu"
    if isinstance(X, np.ndarray):
        assert X.flags.writeable
        assert np.shares_memory(X, out) == (X.dtype in (np.float64, np.float32, np.uint8))


@pytest.mark.as_given
def test_data_frames_are_accepted():
    pd = pytest.importorskip("pandas")
    assert data_matrix(pd.DataFrame(OK), owner="F").tolist() == OK.tolist()


@pytest.mark.parametrize("labels, codes, values", [
    ([5, 3, 5], [1, 0, 1], [3, 5]), (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
    ([True, False, True], [1, 0, 1], [False, True]), ([0.5, 0.5, -1], [1, 1, 0], [-1.0, 0.5])])
def test_labels_become_codes_and_keep_their_values(labels, codes, values):
    got, names = encode_labels(labels, 3, owner="F")
    assert (got.tolist(), names) == (codes, values) and got.dtype == np.int64


def test_words():
    assert checks.plural(1, "cluster") == "1 cluster" and checks.plural(2, "step") == "2 steps"
    assert checks.listed(["a", "b"]) == "a, b" and checks.listed([]) == "none"


# ---------------------------------------------------------------- keywords


@pytest.mark.parametrize(("call", "words"), [
    (lambda X: mm.solvers.Tabu(tenuree=3),
     r"Tabu\(\) got an unexpected keyword argument 'tenuree'. Did you mean tenure\? It takes: "),
    (lambda X: LeastSquares(X, 2, lambda_=1), r"argument 'lambda_'. Did you mean lam\?"),
    (lambda X: LeastSquares(X, k=2), r"argument 'k'. Did you mean n_clusters\?"),
    (lambda X: mm.solve(LeastSquares(X), random_seed=0),
     r"solve\(\) got .* 'random_seed'. It takes: "),
    (lambda X: mm.compare(LeastSquares(X), ["Tabu"], seed=3), r"Did you mean seeds\?"),
    (lambda X: mm.certify(LeastSquares(X), [0, 1, 0, 1], timeout=3), r"Did you mean time_limit\?"),
    (lambda X: mm.solvers.BruteForce(colour=1), r"argument 'colour'. It takes: "),
])
def test_unknown_keywords_are_told_what_may_have_been_meant(call, words):
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(KeywordError, match=words) as e:
        call(X)
    assert isinstance(e.value, TypeError)  # as Python's own


def test_values_in_messages_are_short():
    X = np.arange(300.0).reshape(100, 3)
    with pytest.raises(ParameterError, match=r"n_clusters .*; got an array of shape \(100,\)\.$"):
        LeastSquares(X, np.zeros(100))
    with pytest.raises(ParameterError, match=r"shape \(100, 100\)\. For a matrix of kernel values"):
        LeastSquares(X, 2, kernel=X @ X.T)
    with pytest.raises(ParameterError, match=r"got 'rbf'\. Did you mean 'gaussian'\?"):
        LeastSquares(X, 2, kernel="rbf")
    with pytest.raises(ParameterError, match=r"got 'x{79}\.\.\.\.$"):
        LeastSquares(X, "x" * 1000)


def test_verbs_are_functions():
    problem = LeastSquares(np.arange(8.0).reshape(4, 2))
    with pytest.raises(AttributeError, match=r"no attribute 'solve'; write mmcopt\.solve\(problem"):
        problem.solve()
    with pytest.raises(AttributeError, match="no attribute 'sovle'$"):
        problem.sovle  # noqa: B018


def test_every_public_function_with_a_seed_takes_random_state():
    modules = (mm, mm.selection, mm.condensing, mm.datasets, mm.assignment, mm.streaming)
    public = {f for m in modules for name in getattr(m, "__all__", dir(m))
              if inspect.isfunction(f := getattr(m, name)) and not name.startswith("_")}
    seeded = [f for f in public if "seed" in inspect.signature(f).parameters]
    assert len(seeded) >= 8
    assert all(hasattr(f, "__wrapped__") for f in seeded), seeded


def test_a_seed_may_be_called_random_state():
    X = mm.datasets.load("blobs:n=60,k=3,seed=1")[0]
    problem = LeastSquares(X, 3)
    taken = {
        "solve": lambda **o: mm.solve(problem, "Shaking", max_iter=1, **o).labels,
        "path": lambda **o: mm.selection.path(problem, (0.1,), members=1, **o)[0].labels,
        "grid": lambda **o: mm.selection.grid(X, 3, widths=(1.0,), lams=(0.1,), **o).scores,
        "micro_cells": lambda **o: mm.condensing.micro_cells(np.hstack([X, X]), 9, **o).centres,
        "nystroem": lambda **o: mm.kernels.Gaussian(width=1.0).nystroem(5, **o).seed,
    }
    for name, call in taken.items():
        np.testing.assert_array_equal(call(seed=5), call(random_state=5), err_msg=name)
        with pytest.raises(ParameterError, match=f"{name}: seed and random_state are two names"):
            call(seed=5, random_state=5)
    drawn = np.random.RandomState(3).randint(2**31 - 1)
    assert taken["nystroem"](random_state=np.random.RandomState(3)) == drawn
    assert mm.solve(problem, "Shaking", random_state=5, max_iter=1).seed == 5
