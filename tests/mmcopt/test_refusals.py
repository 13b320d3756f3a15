"""Bad input is refused in one sentence: what came, what is allowed, and the way out."""

import datetime

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt.errors import DataError, MMCError, ParameterError
from mmcopt.formulations import CPM3C, MKC, Diffrac, Hypersphere, LeastSquares, OneClassHinge
from mmcopt.kernels import Gaussian, Linear
from mmcopt.modeling.result import Status

X = np.random.default_rng(0).standard_normal((12, 2))
PROBLEM = LeastSquares(X, 3)
HIDDEN = np.ma.masked_array(X, mask=np.arange(24).reshape(12, 2) == 7)


@pytest.mark.parametrize("make", [
    lambda: LeastSquares([[1, 2], [3]], 2), lambda: CPM3C([np.zeros(2), np.zeros(3)], 2),
    lambda: mm.solve(PROBLEM, n_jobs=0), lambda: mm.solve(PROBLEM, n_jobs=-2),
    lambda: mm.certify(PROBLEM, np.arange(12) % 3, time_limit=-3),
    lambda: mm.certify(PROBLEM, np.arange(12) % 3, time_limit=np.nan),
    lambda: mm.certify(PROBLEM, np.arange(12) % 3, improve="yes"),
    lambda: PROBLEM.relax("partition").bound({"U": np.zeros(12)}),
    lambda: PROBLEM.relax("partition").bound([1.0]), lambda: PROBLEM.relax("eig").bound({"x": 1}),
    lambda: LeastSquares(X, 3, known={0.0: 1e300}), lambda: LeastSquares(X, 3, known={0: 3.0}),
    lambda: LeastSquares(X, 3, known=[1e300] + [-1] * 11),
    lambda: mm.evaluate(PROBLEM, [b"a", b"b", b"c"] * 4),
    lambda: mm.evaluate(PROBLEM, [datetime.date(2020, 1, 1 + i % 3) for i in range(12)]),
    lambda: mm.evaluate(PROBLEM, np.array(["2020-01-01", "2020-01-02"] * 6, "datetime64[ns]")),
    lambda: mm.evaluate(PROBLEM, np.array([1j, 2, 3] * 4)),
])
def test_one_sentence_says_what_came_and_what_is_allowed(make):
    with pytest.raises(MMCError) as e:
        make()
    assert "\n" not in str(e.value) and str(e.value).endswith(".")
    assert "got" in str(e.value) or "takes" in str(e.value)


@pytest.mark.parametrize("make, name", [
    (lambda: LeastSquares(HIDDEN, 2), "X"), (lambda: MKC(HIDDEN, 2), "X"),
    (lambda: Hypersphere(HIDDEN), "X"),
    (lambda: OneClassHinge(X, sample_weight=np.ma.masked_less(np.arange(12.0), 1)),
     "sample_weight"),
    (lambda: mm.evaluate(PROBLEM, np.ma.masked_less(np.arange(12) % 3, 1)), "labels"),
    (lambda: LeastSquares(X, 3, known=np.ma.masked_less(np.arange(12) % 3, 1)), "labels")])
def test_masked_entries_are_not_lost_in_silence(make, name):
    with pytest.raises(DataError, match=f"{name} is a masked array with .* entries masked; drop"):
        make()


def test_masked_arrays_without_a_mask_are_arrays():
    plain = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    assert LeastSquares(plain, 3).fingerprint == PROBLEM.fingerprint


def test_whole_numbers_are_integers_in_known():
    assert LeastSquares(X, 3, known={0.0: 1.0}).rules.fixed[0] == 1


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_data_with_long_indices_come_back(kind, tmp_path):
    A = sp.random(12, 5, density=0.6, random_state=0, format="csr")
    B = kind(A)
    B.indices, B.indptr = B.indices.astype(np.int64), B.indptr.astype(np.int64)
    f, short = (LeastSquares(data, 2, kernel=Linear()) for data in (B, A))
    assert f.fingerprint == short.fingerprint
    mm.solve(f, seed=0).save(tmp_path / "run.npz")
    assert mm.load(tmp_path / "run.npz").verify()


# ---------------------------------------------------------------- edges that are no errors


@pytest.mark.parametrize("cls", [LeastSquares, Diffrac])
def test_one_cluster_is_solved_by_default(cls):
    result = mm.solve(cls(X, 1))
    assert result.status is Status.CERTIFIED and result.verify()
    assert result.closed == 1.0 and result.gap >= 0.0
    assert result.lower_bound >= result.trivial_bound - 1e-12


def test_the_bound_is_never_below_the_one_that_costs_nothing():
    domain = mm.solve(OneClassHinge(X, C=500.0), "SGD", seed=0, max_iter=1)
    same = np.vstack([X[:1]] * 5)
    points = [mm.solve(Hypersphere(rows, kernel="linear"), seed=0)
              for rows in (same, sp.csr_matrix(same))]
    assert [result.objective for result in points] == [0.0, 0.0]
    for result in (domain, *points):
        assert result.lower_bound >= result.trivial_bound and 0.0 <= result.closed <= 1.0
        assert result.verify()


def test_unpaired_defaults_still_refuse():
    with pytest.raises(ParameterError, match="n_clusters must be an integer at least 2"):
        CPM3C(X, 1)


@pytest.mark.parametrize("make, words", [
    (lambda: LeastSquares(X, kernel=Gaussian(sigma=1e-300)).offer(mm.LabelQuadratic).matrix.dense(),
     "a scale whose square no float holds"),
    (lambda: LeastSquares(X, kernel=Gaussian(sigma=1e200)).offer(mm.LabelQuadratic).matrix.dense(),
     "a scale whose square no float holds"),
    (lambda: LeastSquares(X, must_link=5), r"MustLink: links must be pairs .* got 5\."),
    (lambda: mm.solvers.Alternating(loss=np.ones(2)), "loss must be one of"),
    (lambda: mm.solve(PROBLEM, callback=3), r"callback must be None or a function; got 3\."),
    (lambda: mm.solve(PROBLEM, init={}), "init must be 'random', .* got {}"),
], ids=["narrow", "wide", "links", "choice", "callback", "init"])
def test_what_fuzzed_calls_met(make, words):
    with pytest.raises(MMCError, match=words):
        make()
