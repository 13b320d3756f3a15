"""Calls of constructors, solvers and the command line with anything at all: 10,000 of them.

Each ends in an answer that verifies, or in an error of ours; never in a traceback from inside.
"""

import contextlib
import inspect
import io
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mmcopt as mm
from mmcopt import kernels, registry
from mmcopt.cli import main
from mmcopt.errors import MMCError
from mmcopt.formulations import (
    CPM3C,
    MKC,
    Diffrac,
    DiscriminativeKMeans,
    Hypersphere,
    KernelKMeans,
    LeastSquares,
    OneClassHinge,
)


class Odd:
    """Something that no parameter is."""

    def __repr__(self):
        return "something odd"


ODD = Odd()
RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 2)) + np.repeat([0.0, 4.0, 8.0], 3)[:, None]
DATA = [X, X.tolist(), X[:, :1], X[:3], X[:2], X[:1], X[:0], X[0], X @ X.T, 1e200 * X, 1e-200 * X,
        0 * X, np.ones((9, 2)), sp.csr_matrix(X), X.astype("float32"), (10 * X).astype(int), X > 0,
        X.astype(complex), X.astype(str), X.astype(object), np.where(X > 9, np.nan, X),
        np.where(X > 8, np.inf, X), X[None], None, "X", 3, [], [[]], [[1, 2], [3]], {}, ODD]
NUMBERS = [0, 1, 2, 3, 9, 10, -1, 0.1, 0.5, 1.0, 1e-30, 1e30, 1e-320, 1e308, -0.0, np.nan, np.inf,
           -np.inf, True, None, "2", "auto", [], [1, 2], np.int64(2), np.float32(0.3), np.ones(2),
           2 + 1j, 10**30, b"2", (), {}, ODD]
KERNELS = [None, "linear", "gaussian", "precomputed", "rbf", "", 3, X @ X.T, kernels.Gaussian,
           kernels.Linear(), kernels.Gaussian(width=0.5), kernels.Polynomial(2),
           kernels.Gaussian(gamma=1e300), kernels.Gaussian(sigma=1e-300), kernels.Precomputed(),
           kernels.Laplacian(width=1), kernels.Cosine(), kernels.Linear().centered().normalized(),
           kernels.Gaussian(width=1).nystroem(3), kernels.Linear().nystroem(99),
           "neighbors", kernels.Neighbors(3), kernels.Neighbors(2, "binary").unit(),
           0.3 * kernels.Linear() + kernels.Polynomial(2), kernels.Linear().pca(0.9),
           kernels.Linear().on([0]), kernels.Linear().on([7]), [kernels.Linear()], [], [None],
           [kernels.Linear(), "gaussian"], ["rbf"]]
LINKS = [None, [], [(0, 1)], [(0, 0)], [(0, 99)], [(0, 1), (1, 2), (2, 0)], {0: 1}, {0: 7}, {99: 0},
         {-1: 0}, "ab", 5, [0, 1], [[0]], [("a", "b")], np.arange(9) % 2, [-1] * 9, [(0, 1.5)]]
SIZES = [None, 0.2, 0.0, 1.0, -1, 2, [4, 5], [3, 3, 3], (1, 9), "a", np.nan, {}, [9, 9], []]
NAMED = {"kernel": KERNELS, "kernels": KERNELS, "known": LINKS, "must_link": LINKS,
         "cannot_link": LINKS, "sizes": SIZES, "scaling": ["sum", "mean", "", None, 3],
         "center": [True, False, None, 1, "no"], "normalize": [True, False, None, 1, "no"],
         "sample_weight": [None, np.ones(9), np.zeros(9), -np.ones(9), [1], "w", np.arange(9)],
         "init": ["random", "kmeans", "spectral", "sdp", "x", None, np.arange(9) % 2, [0] * 9,
                  np.full(9, 0.5), [1], 3, np.zeros((2, 3)), {}, ["a", "b", "a"] * 3],
         "callback": [None, 3, len], "n_jobs": [None, 1, 2, -1, 0, 1.5, "a"],
         "seed": [0, 7, None, -1, "a", 1.5, [1, 2], np.random.default_rng(0)],
         "time_limit": [0.05, 0, None, -1, "a", np.nan], "max_iter": [1, 3, 0, -1, 2.5, "a"],
         "bound": [True, False, None, 3], "progress": [False, 0]}
KINDS = [LeastSquares, CPM3C, MKC, OneClassHinge, Hypersphere, Diffrac, KernelKMeans,
         DiscriminativeKMeans]
SOLVERS = list(registry.solvers().values())


def some(names):
    """A few keywords with values from their lists; usual ones are as likely as all others."""
    return st.fixed_dictionaries({}, optional={
        name: st.sampled_from(NAMED.get(name, NUMBERS)) for name in names})


def parameters(taker):
    return [name for name in inspect.signature(taker).parameters if name not in ("self", "X")]


def ours(make):
    """What a call gives, or None where it ends in an error of ours; any other is a failure."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return make()
        except MMCError as e:
            text = str(e)
            assert text and "object at 0x" not in text and "Traceback" not in text, text
            assert len(text) < 2500, text
            return None


def judged(result):
    """An answer is finite, and holds what it claims."""
    assert np.isfinite(result.objective)
    assert result.lower_bound is None or not np.isnan(result.lower_bound)
    assert result.verify(), result.verify()


problems = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(
    st.just(kind), st.sampled_from([X] * 12 + DATA), some(parameters(kind.__init__))))
machines = st.sampled_from(SOLVERS).flatmap(lambda kind: st.tuples(
    st.just(kind), some(parameters(kind.__init__))))
OPTIONS = ("init", "seed", "n_jobs", "max_iter", "time_limit", "gap_tol", "callback", "bound")


def stated(kind, data, options):
    """Make a problem and print it, which fits its kernel."""
    problem = kind(data, **options)
    str(problem), repr(problem), problem.fingerprint
    return problem


@pytest.mark.slow
@settings(max_examples=4000)
@given(problems)
def test_constructors(drawn):
    ours(lambda: stated(*drawn))


@pytest.mark.slow
@settings(max_examples=2500)
@given(machines)
def test_solvers(drawn):
    kind, options = drawn
    made = ours(lambda: kind(**options))
    assert made is None or hash(made) == hash(kind(**options))


@pytest.mark.slow
@settings(max_examples=1500)
@given(problems, st.sampled_from([None, *SOLVERS]), some(OPTIONS))
def test_solves(drawn, solver, options):
    def answer():
        return mm.solve(stated(*drawn), solver, **{"max_iter": 2, "time_limit": 0.2, **options})

    result = ours(answer)
    if result is not None:
        judged(result)


WORDS = ["iris", "digits:3,8", "moons:n=30,noise=.1", "blobs", "moons:n=x", "moons:n=-3", "nope",
         "nope.csv", "", ":", "iris:", "digits:", "digits:99", "digits:a,b", "openml:", "/", "."]
FLAGS = ["--clusters", "--kernel", "--C", "--lam", "--kappa", "--sizes", "--scaling", "--beta",
         "--p", "--loss", "--size-floor", "--balance", "--bias", "--labels", "--columns",
         "--formulation", "--solver", "--seed", "--restarts", "--init", "--jobs"]
VALUES = ["1", "2", "3", "0", "-1", ".5", "nan", "inf", "1e400", "", "a", "x=1", "Tabu", "SGD",
          "neighbors:3.unit", "Memetic,pool=3", "Memetic,pool=x", "Tabu,,", "gaussian:width=.5",
          "gaussian:width=", "gaussian:", "linear+gaussian", "poly:3", "LeastSquares", "CPM3C",
          "MKC", "OneClassHinge", "MaxCut", "kmeans", "random", "3:8", "8:3", "a:b", "mean",
          "Hinge", "logistic", ",", "0,1"]
BARE = ["--no-labels", "--no-center", "--no-normalize", "--json", "-v"]
commands = st.tuples(
    st.sampled_from(["solve"] * 6 + ["describe", "reproduce", "nonsense", "compare"]),
    st.sampled_from(WORDS[:3] * 4 + WORDS),
    st.lists(st.one_of(st.tuples(st.sampled_from(FLAGS), st.sampled_from(VALUES)),
                       st.tuples(st.sampled_from(BARE))), max_size=3))


@pytest.mark.slow
@settings(max_examples=2000)
@given(commands)
def test_command_lines(drawn):
    command, data, options = drawn
    limit = {"solve": ["--time-limit", ".05"], "compare": [
        "--time-limit", ".05", "--seeds", "1", "--solvers", "Tabu"], "reproduce": ["--table", "9"]}
    argv = [command, data, *limit.get(command, []), *(word for part in options for word in part)]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), \
            contextlib.redirect_stderr(io.StringIO()) as e:
        warnings.simplefilter("ignore")
        code = main(argv)
    assert code in (0, 1, 2), argv
    assert "Traceback" not in e.getvalue() or "-v" in argv, argv
    assert code == 0 or e.getvalue().strip(), argv
