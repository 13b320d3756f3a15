"""What capabilities mean, against the formulations that offer them."""

import math

import numpy as np
import pytest
from oracle import GOOD, LABEL_PROBLEMS, PROBLEMS, hidden, label_problems, optimum

from mmcopt.bounds import certificates
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.errors import IncompatibleError, InfeasibleError


@label_problems()
def test_the_offer_is_the_objective_at_every_point(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(1)
    lq = f.offer(LabelProblem)
    for _ in range(20):
        point = lq.expand(rng.integers(lq.k, size=lq.n))
        value = f.objective(point)
        assert lq.objective(point) == pytest.approx(value, rel=GOOD, abs=1e-12)
        assert lq.violation(point) == f.violation(point)
        assert np.array_equal(lq.expand(lq.reduce(point)), point)
        assert np.array_equal(f.labels(point), point)


# A move of a ratio changes the sizes that it divides by.
@pytest.mark.parametrize("problem", [p for p in LABEL_PROBLEMS
                                     if PROBLEMS[p].offer(LabelQuadratic) is not None])
def test_move_scores_are_differences_of_objectives(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(2)
    lq = f.offer(LabelQuadratic)
    W = lq.matrix.dense()
    for _ in range(10):
        c = rng.integers(lq.k, size=lq.n)
        c[hidden(lq)] = lq.fixed[hidden(lq)]
        G = W @ np.eye(lq.k)[c]
        j = int(rng.choice(np.setdiff1d(np.arange(lq.n), hidden(lq))))
        d = int(rng.integers(lq.k))
        moved = c.copy()
        moved[j] = d
        change = 0.0 if d == c[j] else 2 * lq.scale * (G[j, c[j]] - G[j, d] - W[j, j])
        difference = f.objective(lq.expand(moved)) - f.objective(lq.expand(c))
        assert change == pytest.approx(difference, rel=1e-8, abs=1e-10)


@label_problems()
def test_contraction_is_the_same_problem_on_fewer_labels(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(3)
    lq = f.offer(LabelProblem)
    for _ in range(10):
        groups = np.unique(rng.integers(lq.n, size=lq.n), return_inverse=True)[1]
        try:
            small = lq.contract(groups)
        except InfeasibleError:
            continue
        c = rng.integers(lq.k, size=small.n)
        c[groups[hidden(lq)]] = lq.fixed[hidden(lq)]
        assert np.array_equal(small.reduce(small.expand(c)), c)
        assert small.value(c) == pytest.approx(lq.value(small.expand(c)), rel=GOOD, abs=1e-12)
        assert small.violation(small.expand(c)) == lq.violation(lq.expand(small.expand(c)))
        assert small.weights.sum() == lq.weights.sum()


@label_problems()
def test_random_labels_and_repair_are_feasible(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(4)
    lq = f.offer(LabelProblem)
    seen = set()
    for _ in range(30):
        c = lq.random_labels(rng)
        seen.add(c.tobytes())
        assert f.violation(lq.expand(c)) == 0.0
        assert np.array_equal(lq.repair(c, rng), c)
        wild = rng.integers(lq.k, size=lq.n)
        kept = wild.copy()
        assert f.violation(lq.expand(lq.repair(wild, rng))) == 0.0
        assert np.array_equal(wild, kept)
    assert len(seen) > 3


@label_problems()
def test_decision_values_have_a_column_a_cluster(problem):
    f = PROBLEMS[problem]
    lq = f.offer(LabelProblem)
    if not hasattr(f, "X"):  # there are no samples, so none can be new
        with pytest.raises(IncompatibleError, match="knows no samples"):
            f.decision_function(lq.expand(lq.random_labels(np.random.default_rng(0))), np.eye(2))
        return
    scores = f.decision_function(lq.expand(lq.random_labels(np.random.default_rng(0))), f.X)
    assert scores.shape == (f.n, f.n_clusters) and np.isfinite(scores).all()


@label_problems()
def test_the_eigenvalue_bound_holds_for_any_t(problem):
    f, best = PROBLEMS[problem], optimum(problem)
    for t in [0.0, *10.0 ** np.random.default_rng(6).uniform(-8, 8, 12), 1e12, math.nan, -3.0]:
        assert certificates.eig_bound(f, {"t": t}) <= best + 1e-12
