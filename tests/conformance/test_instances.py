"""Searches on random instances against brute force, and what may not change an answer."""

import numpy as np
import pytest
from instances import (
    COUNTS,
    FIRST,
    INSTANCES,
    draw,
    judged,
    literal_objective,
    literal_violation,
)
from oracle import (
    EXACT,
    GOOD,
    LABEL_PROBLEMS,
    LABEL_SOLVERS,
    PROBLEMS,
    RAW,
    SOLVERS,
    hidden,
    label_problems,
    neighbours,
    optimum,
    solved,
)

import mmcopt as mm
from mmcopt.bounds import certificates, enumeration
from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import (
    LeastSquares,
)
from mmcopt.kernels import Linear
from mmcopt.modeling.result import Status


def permuted(f, order):
    """The same problem with its samples in another order."""
    place = np.argsort(order)
    known = f.known and {int(place[i]): h for i, h in f.known.labels.items()}
    links = [given and [(int(place[i]), int(place[j])) for i, j in given.pairs]
             for given in (f.must_link, f.cannot_link)]
    X = f.X[order]
    return f.replace(X=X, known=known, must_link=links[0], cannot_link=links[1])


# Nystroem landmarks are drawn by position.
@pytest.mark.parametrize("problem", [p for p in LABEL_PROBLEMS
                                     if isinstance(PROBLEMS[p], LeastSquares)
                                     and "nystroem" not in repr(PROBLEMS[p].kernel)])
def test_the_order_of_the_samples_does_not_matter(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(8)
    order = rng.permutation(f.n)
    g, lq = permuted(f, order), f.offer(LabelQuadratic)
    assert g.fingerprint != f.fingerprint
    for _ in range(10):
        c = lq.expand(rng.integers(lq.k, size=lq.n))
        assert g.objective(c[order]) == pytest.approx(f.objective(c), rel=GOOD)
        assert g.violation(c[order]) == f.violation(c)
    ours, theirs = mm.evaluate(f, c), mm.evaluate(g, c[order])
    assert theirs.lower_bound == pytest.approx(ours.lower_bound, rel=1e-6, abs=1e-9)
    best = mm.solve(g, "BruteForce")
    assert best.objective == pytest.approx(optimum(problem), rel=GOOD)
    assert best.lower_bound == pytest.approx(solved(problem, "BruteForce", 0).lower_bound, rel=GOOD)


@label_problems()
def test_the_names_of_the_clusters_do_not_matter(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(9)
    lq = f.offer(LabelProblem)
    for _ in range(10):
        c = lq.expand(rng.integers(lq.k, size=lq.n))
        renamed = rng.permutation(lq.k)[c]
        if not hidden(lq).size:
            assert f.objective(renamed) == pytest.approx(f.objective(c), rel=GOOD, abs=1e-12)
        if lq.symmetric:
            assert f.violation(renamed) == f.violation(c)
    values = np.array(["x", "why", "zed", "w"])[:lq.k]
    named = mm.evaluate(f, values[c])
    codes = np.unique(values[c], return_inverse=True)[1]
    assert named.objective == f.objective(codes)
    assert named.violation == f.violation(codes)
    assert named.labels.tolist() == values[c].tolist()
    assert named.status is Status.EVALUATED
    assert named.verify()
    assert (named.gap is None) == (named.violation > 1e-6)


@pytest.mark.parametrize("values", [[-1, 1], [1, 2], [0.5, 2.5], ["a", "b"], [True, False],
                                    [10**12, -10**12], [np.int8(3), np.int8(4)]])
def test_labels_may_have_any_values(values):
    f = PROBLEMS["LeastSquares-0"]
    labels = np.array([values[i % 2] for i in range(f.n)])
    result = mm.evaluate(f, labels)
    assert result.labels.tolist() == labels.tolist()
    assert result.objective == pytest.approx(f.objective(np.arange(f.n) % 2), rel=1e-12)
    assert result.violation == 0.0 and result.verify()
    assert set(np.unique(result.predict(f.X))) <= set(labels)
    again = mm.solve(f, "SteepestDescent", init=labels if labels.dtype.kind != "f" else None)
    assert again.objective <= result.objective + 1e-12 or labels.dtype.kind == "f"


def assert_literal_local_optimum(seed, labels, what):
    d, cost, _, _ = judged(seed)
    lq = d.problem().offer(LabelQuadratic)
    here = literal_objective(d, cost, labels)
    for near in neighbours(lq, lq.reduce(labels)):
        point = lq.expand(near)
        if literal_violation(d, point) == 0:
            value = literal_objective(d, cost, point)
            assert value >= here - 1e-8 * (1 + abs(here)), (seed, what)


BATCH = 12
BATCHES = [range(i, i + BATCH) for i in range(0, INSTANCES, BATCH)]


@pytest.mark.parametrize("count", COUNTS)
def test_the_instances_are_of_every_kind(count):
    options = [draw(s).options for s in range(count)]
    feasible = [len(judged(s)[2]) > 0 for s in range(count)]
    assert sum(feasible) >= 5 * count // 6
    assert count - sum(feasible) >= count // 24
    for name in ("known", "must_link", "cannot_link"):
        assert sum(ok and name in o for ok, o in zip(feasible, options, strict=True)) >= count // 6
    assert sum(o["sizes"] is not None for o in options) >= count // 3
    assert {type(o["kernel"]).__name__ for o in options} >= {
        "Gaussian", "Linear", "Polynomial", "Sum", "Product", "Nystroem", "Normalized"}


def check_instance(seed, solver, exact, local):
    d, cost, rows, values = judged(seed)
    if not len(rows):
        with pytest.raises(InfeasibleError):
            mm.solve(d.problem(), solver, seed=seed)
        return
    f = d.problem()
    result = mm.solve(f, solver, seed=seed)
    best, found = float(values.min()), literal_objective(d, cost, result.labels)
    what = (seed, solver, f)
    scale = max(abs(found), 1e-3)
    assert literal_violation(d, result.labels) == 0 == result.violation, what
    assert result.objective == pytest.approx(found, rel=1e-9, abs=1e-11), what
    assert found >= best - 1e-12 * scale, what
    assert result.lower_bound <= best + 1e-9 * scale, what
    if exact:
        assert found <= best + 1e-9 * scale, what
    if local:
        assert_literal_local_optimum(seed, result.labels, what)


def later(solver, batch):
    """A proof takes a hundred times as long as a search."""
    return batch.start >= FIRST or (solver == "BranchAndBound" and batch.start)


DUTIES = [pytest.param(s, b, id=f"{s}-{b.start}-{b.stop - 1}",
                       marks=pytest.mark.slow if later(s, b) else ())
          for s in LABEL_SOLVERS for b in BATCHES]


@pytest.mark.parametrize("solver, batch", DUTIES)
def test_label_searches_against_brute_force(solver, batch):
    for seed in batch:
        check_instance(seed, solver, exact=solver in EXACT, local=True)


@pytest.mark.slow
@pytest.mark.parametrize("solver", sorted(EXACT & set(LABEL_SOLVERS)))
def test_exact_searches_on_many_more_instances(solver):
    missed = []
    for seed in range(INSTANCES, 900):
        _, _, rows, values = judged.__wrapped__(seed)
        if len(rows):
            found = mm.solve(draw(seed).problem(), solver, seed=seed).objective
            if found > values.min() + 1e-9 * max(1e-3, abs(values.min())):
                missed.append(seed)
    assert not missed


@pytest.mark.parametrize("solver", RAW, ids=str)
def test_raw_searches_against_brute_force(solver):
    for seed in range(0, FIRST, 2):
        check_instance(seed, solver, exact=False, local=False)


def test_enumeration_sees_what_the_definition_allows():
    for seed in range(0, FIRST, 2):
        d, _, rows, values = judged(seed)
        if not len(rows):
            continue
        lq = d.problem().offer(LabelQuadratic)
        listed = np.vstack([lq.expand(c)[None] for r in enumeration.chunks(lq) for c in r])
        if lq.symmetric:
            assert len(rows) == len(listed) * lq.k
            assert {tuple(c) for c in listed} < {tuple(c) for c in rows}
        else:
            assert {tuple(c) for c in listed} == {tuple(c) for c in rows}
        assert enumeration.minimum(lq)[0] == pytest.approx(values.min(), rel=1e-9)


def test_bounds_hold_on_random_instances_for_any_t():
    rng = np.random.default_rng(11)
    for seed in range(0, FIRST, 2):
        _, _, rows, values = judged(seed)
        if not len(rows):
            continue
        f = draw(seed).problem()
        slack = 1e-9 * max(1e-3, abs(values.min()))
        assert certificates.trivial_bound(f, {}) <= values.min() + slack
        for t in [0.0, *10.0 ** rng.uniform(-3, 3, 4), 1e9]:
            assert certificates.eig_bound(f, {"t": t}) <= values.min() + slack, (seed, t)


@pytest.mark.parametrize("count", COUNTS)
def test_infeasible_draws_raise_and_brute_force_agrees(count):
    for seed in range(count):
        d, _, rows, _ = judged(seed)
        if len(rows):
            d.problem().offer(LabelQuadratic).random_labels(np.random.default_rng(seed))
        else:
            with pytest.raises(InfeasibleError):
                d.problem().offer(LabelQuadratic).random_labels(np.random.default_rng(seed))


@pytest.mark.nojit
@pytest.mark.parametrize("solver", LABEL_SOLVERS)
def test_a_few_steps_without_compiled_loops(solver):
    X = np.array([[0.0], [0.1], [0.3], [2.0], [2.1], [2.4], [2.5]])
    f = LeastSquares(X, 2, kernel=Linear(), lam=0.1, sizes=Sizes(low=2))
    small = {"Memetic": {"pool": 2, "sweeps": 3, "patience": 1}, "Annealing": {"sweeps": 3}}
    chosen = SOLVERS[solver](**small.get(solver, {}))
    result = mm.solve(f, chosen, seed=0, max_iter=2)
    assert result.violation == 0.0 and result.verify()
    assert result.objective >= mm.solve(f, "BruteForce").objective - 1e-9
