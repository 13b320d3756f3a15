"""What must hold for every registered formulation, every solver, and every fitting pair.

The judge is brute force, written here from the definitions: regularised least squares solved with
`numpy.linalg.solve` for each cluster, and constraints read from what the user passed.
"""

import dataclasses
import functools
import itertools
import math
import time

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import certificates, enumeration, registry
from mmcopt.capabilities import Bounded, InnerFit, LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError, InfeasibleError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial
from mmcopt.modeling import Formulation
from mmcopt.result import Status

EXACT = {"BruteForce", "Memetic", "BranchAndBound"}  # must find the optimum of every tiny instance
SOLVERS = registry.solvers()
PROBLEMS = {f"{name}-{i}": f for name, cls in registry.formulations().items()
            for i, f in enumerate(cls.examples())}
PAIRS = [(p, s) for p, f in PROBLEMS.items() for s, cls in SOLVERS.items()
         if cls().refuses(f) is None]
LABEL_PROBLEMS = [p for p, f in PROBLEMS.items() if f.offer(LabelQuadratic) is not None]
LABEL_SOLVERS = [s for s, cls in SOLVERS.items() if LabelQuadratic in cls.needs]
SEEDS = range(3)
GOOD = 1e-9  # relative: objectives from two formulas
RAW = [mm.solvers.Shaking(polish=False), mm.solvers.SteepestDescent(swaps=False),
       mm.solvers.StochasticDescent(swaps=False), mm.solvers.Evolutionary(stop="paper"),
       mm.solvers.Tabu(polish=False)]


@functools.cache
def solved(problem, solver, seed):
    return mm.solve(PROBLEMS[problem], solver, seed=seed)


@functools.cache
def optimum(problem):
    """Smallest objective of a label problem, by the formulation's own objective and violation."""
    f = PROBLEMS[problem]
    points = (np.array(c) for c in itertools.product(range(f.n_clusters), repeat=f.n))
    lq = f.offer(LabelQuadratic)
    values = [lq.value(lq.reduce(c)) for c in points if f.violation(c) == 0.0]
    return min(values)


def bounds_of(f, result):
    """Every bound that is known for a problem."""
    kinds = {"trivial": {}, "eig": {"t": 0.0}, "enumeration": {}}
    return [certificates.BOUNDS[kind](f, {}, duals) for kind, duals in kinds.items()] \
        + [result.lower_bound]


def neighbours(lq, c):
    """All labels that differ from c by one move or one swap of nodes."""
    for i in range(lq.n):
        for d in set(range(lq.k)) - {int(c[i])}:
            near = c.copy()
            near[i] = d
            yield near
    for i, j in itertools.combinations(range(lq.n), 2):
        if c[i] != c[j]:
            near = c.copy()
            near[i], near[j] = c[j], c[i]
            yield near


def assert_local_optimum(f, labels, what=""):
    lq = f.offer(LabelQuadratic)
    here, c = f.objective(labels), lq.reduce(labels)
    for near in neighbours(lq, c):
        point = lq.expand(near)
        if f.violation(point) == 0.0:
            assert f.objective(point) >= here - 1e-9 * (1 + abs(here)), (what, c, near)


# ---------------------------------------------------------------- every fitting pair


def test_every_formulation_has_examples_and_a_default_solver_that_fits():
    for name, cls in registry.formulations().items():
        assert cls.examples(), name
        for f in cls.examples():
            assert registry.solver(cls.default_solver)().refuses(f) is None, name


def test_every_solver_fits_some_example():
    assert {s for _, s in PAIRS} == set(SOLVERS)


@pytest.mark.parametrize("problem, solver", PAIRS)
def test_sandwich(problem, solver):
    f = PROBLEMS[problem]
    for seed in SEEDS:
        result = solved(problem, solver, seed)
        assert result.violation == 0.0
        assert result.objective == f.objective(result.point)
        assert result.status in (Status.CONVERGED, Status.CERTIFIED)
        if problem not in LABEL_PROBLEMS:
            assert result.lower_bound <= result.objective
            assert result.gap < 1e-9
            continue
        best = optimum(problem)
        assert best - 1e-9 * (1 + abs(best)) <= result.objective
        for bound in bounds_of(f, result):
            assert bound <= best + 1e-12
        assert f.offer(LabelQuadratic).trivial_bound == result.trivial_bound
        assert_local_optimum(f, result.labels, (problem, solver, seed))
        if solver in EXACT:
            assert result.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("problem, solver", PAIRS)
def test_results_verify_and_mean_the_same_for_every_solver(problem, solver):
    result = solved(problem, solver, 0)
    report = result.verify()
    assert report, str(report)
    assert result.gap == (result.objective - result.lower_bound) / max(abs(result.objective), 1e-10)
    assert result.message == result.status.value
    assert (result.status is Status.CERTIFIED) == (result.gap <= 1e-4)
    assert result.solver.startswith(solver)
    assert result.certificate.fingerprint == result.formulation.fingerprint
    rows = result.history
    assert len(rows) >= 1
    assert (np.diff(rows["best"]) <= 0).all() and (np.diff(rows["seconds"]) >= 0).all()
    assert rows["iteration"].tolist() == list(range(1, len(rows) + 1))
    assert rows["best"].min() >= result.objective - 1e-9 * (1 + abs(result.objective))


@pytest.mark.parametrize("problem, solver", PAIRS)
def test_a_saved_result_comes_back_whole(problem, solver, tmp_path):
    result = solved(problem, solver, 0)
    for data in (True, False):
        result.save(tmp_path / "run.npz", data=data)
        back = mm.load(tmp_path / "run.npz", problem=None if data else PROBLEMS[problem])
        assert back.formulation.fingerprint == result.formulation.fingerprint
        assert back.verify()
        for name in ("objective", "lower_bound", "violation", "status", "solver", "message",
                     "trivial_bound", "timing", "seed", "classes"):
            assert getattr(back, name) == getattr(result, name), name
        assert np.array_equal(back.point, result.point)
        assert np.array_equal(back.labels, result.labels)
        for column, values in result.history.to_dict().items():
            np.testing.assert_array_equal(back.history[column], values)
        assert repr(back) == repr(result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bytes_for_any_number_of_jobs(solver):
    f = next(PROBLEMS[p] for p, s in PAIRS if s == solver)
    runs = [mm.solve(f, solver, seed=5, restarts=3, n_jobs=jobs) for jobs in (1, 2, None)]
    seeds = [5, np.random.SeedSequence(5)]
    seeds.append(seeds[1])  # the same object twice: spawning must not change it
    runs += [mm.solve(f, solver, seed=seed, restarts=3) for seed in seeds]
    assert len({(r.labels.tobytes(), r.objective, r.lower_bound, r.status) for r in runs}) == 1
    assert len({r.history["objective"].tobytes() for r in runs[:1] + runs[2:]}) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_inputs_are_never_changed_and_keep_their_flags(solver):
    rng = np.random.default_rng(3)
    X, labels = rng.standard_normal((9, 2)), np.arange(9) % 3
    problem = LeastSquares(X, 3)
    f = problem if SOLVERS[solver]().refuses(problem) is None else problem.restrict(labels)
    before, given = X.copy(), labels.copy()
    init = labels if f is problem else None
    mm.solve(f, solver, init=init, seed=0)
    assert np.array_equal(X, before) and X.flags.writeable
    assert np.array_equal(labels, given) and labels.flags.writeable
    assert not f.X.flags.writeable


@pytest.mark.parametrize("solver", SOLVERS)
def test_limits_are_limits(solver):
    f = next(PROBLEMS[p] for p, s in PAIRS if s == solver)
    one = mm.solve(f, solver, seed=0, max_iter=1)
    assert len(one.history) == 1
    assert one.status in (Status.ITERATION_LIMIT, Status.CONVERGED, Status.CERTIFIED)
    assert one.violation == 0.0
    start = time.perf_counter()
    none = mm.solve(f, solver, seed=0, restarts=1000, time_limit=0.0)
    assert time.perf_counter() - start < 5.0
    assert len(none.history) <= 1
    assert none.objective == f.objective(none.point)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_stops_a_run(solver):
    f = next(PROBLEMS[p] for p, s in PAIRS if s == solver)
    seen = []
    result = mm.solve(f, solver, seed=0, restarts=20, callback=lambda row: seen.append(row) or True)
    assert len(seen) == 1 == len(result.history)
    assert {"restart", "iteration", "seconds", "objective", "best"} <= set(seen[0])
    assert result.status in (Status.INTERRUPTED, Status.CONVERGED, Status.CERTIFIED)
    assert result.objective == f.objective(result.point)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_gives_the_best_so_far(solver, jobs):
    f = next(PROBLEMS[p] for p, s in PAIRS if s == solver)

    def interrupt(row):
        raise KeyboardInterrupt

    result = mm.solve(f, solver, seed=0, restarts=4, n_jobs=jobs, callback=interrupt)
    assert result.status in (Status.INTERRUPTED, Status.CERTIFIED)
    assert result.violation == 0.0
    assert result.objective == f.objective(result.point)
    assert 1 <= len(result.history) <= jobs


@pytest.mark.parametrize("problem, solver", [(p, s) for p in PROBLEMS for s in SOLVERS
                                             if (p, s) not in PAIRS])
def test_pairs_that_do_not_fit_are_refused_with_partners(problem, solver):
    f = PROBLEMS[problem]
    kind, needs = type(f).__name__, SOLVERS[solver].needs[0].__name__
    partners = ", ".join(s for p, s in PAIRS if p == problem)
    with pytest.raises(IncompatibleError) as e:
        mm.solve(f, solver)
    assert str(e.value) == (
        f"{solver} cannot solve {kind}: it needs {needs}, which this {kind} does not offer.\n"
        f"  Solvers that fit this {kind}: {partners}.")


# ---------------------------------------------------------------- what capabilities mean


def label_problems():
    return pytest.mark.parametrize("problem", LABEL_PROBLEMS)


@label_problems()
def test_label_quadratic_is_the_objective_at_every_point(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(1)
    lq = f.offer(LabelQuadratic)
    for _ in range(20):
        point = lq.expand(rng.integers(lq.k, size=lq.n))
        value = f.objective(point)
        assert lq.objective(point) == pytest.approx(value, rel=GOOD, abs=1e-12)
        assert lq.violation(point) == f.violation(point)
        assert np.array_equal(lq.expand(lq.reduce(point)), point)
        assert np.array_equal(f.labels(point), point)


@label_problems()
def test_move_scores_are_differences_of_objectives(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(2)
    lq = f.offer(LabelQuadratic)
    W = lq.matrix.dense()
    for _ in range(10):
        c = rng.integers(lq.k, size=lq.n)
        G = W @ np.eye(lq.k)[c]
        j, d = int(rng.integers(lq.n)), int(rng.integers(lq.k))
        moved = c.copy()
        moved[j] = d
        change = 0.0 if d == c[j] else 2 * lq.scale * (G[j, c[j]] - G[j, d] - W[j, j])
        difference = f.objective(lq.expand(moved)) - f.objective(lq.expand(c))
        assert change == pytest.approx(difference, rel=1e-8, abs=1e-10)


@label_problems()
def test_contraction_is_the_same_problem_on_fewer_labels(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(3)
    lq = f.offer(LabelQuadratic)
    for _ in range(10):
        groups = np.unique(rng.integers(lq.n, size=lq.n), return_inverse=True)[1]
        try:
            small = lq.contract(groups)
        except InfeasibleError:
            continue
        c = rng.integers(lq.k, size=small.n)
        assert np.array_equal(small.reduce(small.expand(c)), c)
        assert small.value(c) == pytest.approx(lq.value(small.expand(c)), rel=GOOD, abs=1e-12)
        assert small.violation(small.expand(c)) == lq.violation(lq.expand(small.expand(c)))
        assert small.weights.sum() == lq.weights.sum()


@label_problems()
def test_random_labels_and_repair_are_feasible(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(4)
    lq = f.offer(LabelQuadratic)
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
def test_inner_fit_attains_the_objective(problem):
    f = PROBLEMS[problem]
    fit = f.offer(InnerFit)
    if fit is None:
        pytest.skip("offers no InnerFit")
    labels = f.offer(LabelQuadratic).expand(f.offer(LabelQuadratic).random_labels(
        np.random.default_rng(0)))
    assert np.isfinite(fit.fit(labels)).all()
    rows = f.X
    scores = f.decision_function(labels, rows)
    assert scores.shape == (f.n, f.n_clusters)


@pytest.mark.parametrize("problem", [p for p, f in PROBLEMS.items() if f.offer(Bounded)])
def test_own_bounds_hold_for_any_dual_point(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(5)
    bounded = f.offer(Bounded)
    best = mm.solve(f)
    duals = bounded.duals(best.point)
    for _ in range(200):
        scale = 10.0 ** rng.uniform(-6, 6)
        other = {k: v + scale * rng.standard_normal(v.shape) for k, v in duals.items()}
        assert bounded.bound(other) <= best.objective * (1 + 1e-12)
    assert bounded.bound(duals) == pytest.approx(best.objective, rel=1e-9)


@label_problems()
def test_the_eigenvalue_bound_holds_for_any_t(problem):
    f, best = PROBLEMS[problem], optimum(problem)
    for t in [0.0, *10.0 ** np.random.default_rng(6).uniform(-8, 8, 30), 1e12, math.nan, -3.0]:
        assert certificates.eig_bound(f, {}, {"t": t}) <= best + 1e-12


# ---------------------------------------------------------------- stated twice


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_fast_path_equals_the_literal_cvxpy_problem(problem):
    f = PROBLEMS[problem]
    if problem in LABEL_PROBLEMS:
        lq = f.offer(LabelQuadratic)
        labels = lq.expand(lq.random_labels(np.random.default_rng(7)))
        value = f.objective(labels)
    else:
        labels, value = None, mm.solve(f).objective
    literal = f.reference(labels)
    literal.solve(solver="CLARABEL")
    assert literal.value == pytest.approx(value, rel=1e-6, abs=1e-6)


@label_problems()
def test_the_restricted_problem_has_the_objective_as_its_optimum(problem):
    f = PROBLEMS[problem]
    if not hasattr(f, "restrict"):
        pytest.skip("no restrict")
    labels = solved(problem, "BruteForce", 0).labels
    rest = mm.solve(f.restrict(labels))
    assert rest.objective / f.unit == pytest.approx(f.objective(labels), rel=1e-8)
    assert rest.status is Status.CERTIFIED
    assert np.array_equal(rest.formulation.y, labels)


@label_problems()
def test_the_literal_mixed_integer_problem_allows_the_same_labels(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(12)
    literal = f.reference()
    Z = next(v for v in literal.variables() if v.name() == "Z")
    assert Z.attributes["boolean"] is True
    lq, seen = f.offer(LabelQuadratic), set()
    for i in range(40):
        c = lq.random_labels(rng) if i % 2 else rng.integers(lq.k, size=lq.n)
        point = lq.expand(c)
        if i % 5 == 0:
            point = rng.integers(lq.k, size=f.n)
        Z.value = np.eye(lq.k)[point]
        allowed = all(constraint.value() for constraint in literal.constraints)
        assert allowed == (f.violation(point) == 0.0)
        seen.add(allowed)
    assert True in seen


# ---------------------------------------------------------------- invariance


def permuted(f, order):
    """The same problem with its samples in another order."""
    place = np.argsort(order)
    known = f.known and {int(place[i]): h for i, h in f.known.labels.items()}
    links = [given and [(int(place[i]), int(place[j])) for i, j in given.pairs]
             for given in (f.must_link, f.cannot_link)]
    X = f.X[order]
    return f.replace(X=X, known=known, must_link=links[0], cannot_link=links[1])


@pytest.mark.parametrize("problem", [p for p in LABEL_PROBLEMS if p.startswith("LeastSquares-")])
def test_the_order_of_the_samples_does_not_matter(problem):
    f, rng = PROBLEMS[problem], np.random.default_rng(8)
    if "nystroem" in repr(f.kernel):
        pytest.skip("Nystroem landmarks are drawn by position")
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
    lq = f.offer(LabelQuadratic)
    for _ in range(10):
        c = lq.expand(rng.integers(lq.k, size=lq.n))
        renamed = rng.permutation(lq.k)[c]
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


# ---------------------------------------------------------------- random instances


@dataclasses.dataclass(frozen=True)
class Draw:
    """A random problem as a user would write it."""

    X: np.ndarray
    k: int
    options: dict

    def problem(self):
        return LeastSquares(self.X, self.k, **self.options)


def draw(seed):
    """Instance number ``seed``: sizes, kernels, and every kind of constraint, mixed."""
    rng = np.random.default_rng([2024, seed])
    k = 2 + seed % 2
    n = int(rng.integers(k + 3, 11))
    X = rng.standard_normal((n, 2)) + 2.0 * rng.integers(0, k, (n, 1))
    kernels = [Gaussian(width=0.3), Gaussian(width=1.0), Linear(), Polynomial(2), Cosine(),
               Laplacian(width=0.5), Gaussian(width=0.5) + 0.3 * Linear(), Gaussian(gamma=1.0),
               Gaussian(width=0.5) * Polynomial(2), Gaussian(width=0.5).nystroem(4),
               Gaussian(width=0.4).normalized()]
    options = {"kernel": kernels[int(rng.integers(len(kernels)))],
               "lam": float(10.0 ** rng.uniform(-2, 1)), "center": bool(rng.random() < 0.6),
               "scaling": "mean" if rng.random() < 0.2 else "sum"}
    low = rng.integers(1, n // k + 1, k)
    options["sizes"] = [
        None, None, 0.0, float(rng.uniform(0, 0.6)), (int(low[0]), n // 2 + 1),
        Sizes(low=low.tolist(), high=(low + rng.integers(0, n, k)).tolist()),
        Sizes(exact=np.bincount(rng.permutation(np.arange(n) % k), minlength=k).tolist()),
    ][int(rng.integers(7))]
    if rng.random() < 0.4:
        some = rng.choice(n, int(rng.integers(1, 4)), replace=False)
        options["known"] = {int(i): int(rng.integers(k)) for i in some}
    for name in ("must_link", "cannot_link"):
        if rng.random() < 0.4:
            options[name] = [tuple(map(int, rng.choice(n, 2, replace=False)))
                             for _ in range(int(rng.integers(1, 4)))]
    return Draw(X, k, options)


def literal_cost(K, shift, members):
    """min_f sum_i (p_i - f_i)^2 + shift |f|^2 for p = +1 on the members and -1 elsewhere."""
    p = np.where(members, 1.0, -1.0)
    a = np.linalg.solve(K + shift * np.eye(len(K)), p)
    return float(np.sum((p - K @ a) ** 2) + shift * a @ K @ a)


def literal_violation(d, c):
    """Whether labels break any of the rules that the user wrote, and by how much in sizes."""
    n, k, sizes = len(c), d.k, d.options["sizes"]
    counts = [int((c == h).sum()) for h in range(k)]
    low, high = [1] * k, [n] * k
    if isinstance(sizes, float):
        low = [max(1, math.floor((1 - sizes) * n / k + 1e-9))] * k
        high = [min(n, math.ceil((1 + sizes) * n / k - 1e-9))] * k
    elif isinstance(sizes, tuple):
        low, high = [sizes[0]] * k, [sizes[1]] * k
    elif sizes is not None and sizes.exact is not None:
        low = high = list(sizes.exact)
    elif sizes is not None:
        low, high = list(sizes.low), list(sizes.high)
    worst = max(max(b - s, s - t, 0) for s, b, t in zip(counts, low, high, strict=True))
    broken = any(c[i] != h for i, h in d.options.get("known", {}).items())
    broken |= any(c[i] != c[j] for i, j in d.options.get("must_link", []))
    broken |= any(c[i] == c[j] for i, j in d.options.get("cannot_link", []))
    return max(worst, int(broken))


@functools.cache
def judged(seed):
    """All feasible labelings of an instance with their literal objectives, and its subsets."""
    d = draw(seed)
    n, k = len(d.X), d.k
    kernel = d.options["kernel"].centered() if d.options["center"] else d.options["kernel"]
    K = np.asarray(kernel.fit(d.X).matrix())
    mean = d.options["scaling"] == "mean"
    shift, unit = (d.options["lam"] * n, n) if mean else (d.options["lam"], 1)
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    cost = np.array([literal_cost(K, shift, s == 1) for s in subsets]) / unit
    rows = np.array(list(itertools.product(range(k), repeat=n)))
    ok = np.array([literal_violation(d, c) == 0 for c in rows[:, :]]) if len(rows) <= 3**8 \
        else fast_feasible(d, rows)
    rows = rows[ok]
    powers = 1 << np.arange(n)
    values = sum(cost[(rows == h) @ powers] for h in range(k)) if len(rows) else np.empty(0)
    return d, cost, rows, values


def fast_feasible(d, rows):
    """`literal_violation` == 0 for many rows: one row for each pattern of sizes is judged."""
    counts = np.stack([(rows == h).sum(axis=1) for h in range(d.k)], axis=1)
    patterns, which = np.unique(counts, axis=0, return_inverse=True)
    bare = Draw(d.X, d.k, {"sizes": d.options["sizes"]})
    good = [literal_violation(bare, np.repeat(np.arange(d.k), p)) == 0 for p in patterns]
    ok = np.array(good)[which.reshape(-1)]
    for i, h in d.options.get("known", {}).items():
        ok &= rows[:, i] == h
    for i, j in d.options.get("must_link", []):
        ok &= rows[:, i] == rows[:, j]
    for i, j in d.options.get("cannot_link", []):
        ok &= rows[:, i] != rows[:, j]
    return ok


def literal_objective(d, cost, c):
    return sum(cost[(c == h) @ (1 << np.arange(len(c)))] for h in range(d.k))


def assert_literal_local_optimum(seed, labels, what):
    d, cost, _, _ = judged(seed)
    lq = d.problem().offer(LabelQuadratic)
    here = literal_objective(d, cost, labels)
    for near in neighbours(lq, lq.reduce(labels)):
        point = lq.expand(near)
        if literal_violation(d, point) == 0:
            value = literal_objective(d, cost, point)
            assert value >= here - 1e-8 * (1 + abs(here)), (seed, what)


INSTANCES, BATCH = 240, 24
BATCHES = [range(i, i + BATCH) for i in range(0, INSTANCES, BATCH)]


def test_the_instances_are_of_every_kind():
    options = [draw(s).options for s in range(INSTANCES)]
    feasible = [len(judged(s)[2]) > 0 for s in range(INSTANCES)]
    assert sum(feasible) >= 200
    assert INSTANCES - sum(feasible) >= 10
    for name in ("known", "must_link", "cannot_link"):
        assert sum(ok and name in o for ok, o in zip(feasible, options, strict=True)) >= 40
    assert sum(o["sizes"] is not None for o in options) >= 100
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


@pytest.mark.parametrize("batch", BATCHES, ids=lambda b: f"{b.start}-{b.stop - 1}")
@pytest.mark.parametrize("solver", LABEL_SOLVERS)
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
    for seed in range(0, INSTANCES, 4):
        check_instance(seed, solver, exact=False, local=False)


def test_enumeration_sees_what_the_definition_allows():
    for seed in range(0, INSTANCES, 5):
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
    for seed in range(0, INSTANCES, 3):
        _, _, rows, values = judged(seed)
        if not len(rows):
            continue
        f = draw(seed).problem()
        slack = 1e-9 * max(1e-3, abs(values.min()))
        assert certificates.trivial_bound(f, {}, {}) <= values.min() + slack
        for t in [0.0, *10.0 ** rng.uniform(-3, 3, 4), 1e9]:
            assert certificates.eig_bound(f, {}, {"t": t}) <= values.min() + slack, (seed, t)


def test_infeasible_draws_raise_and_brute_force_agrees():
    for seed in range(INSTANCES):
        d, _, rows, _ = judged(seed)
        if len(rows):
            d.problem().offer(LabelQuadratic).random_labels(np.random.default_rng(seed))
        else:
            with pytest.raises(InfeasibleError):
                d.problem().offer(LabelQuadratic).random_labels(np.random.default_rng(seed))


# ---------------------------------------------------------------- without JIT


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


# ---------------------------------------------------------------- classes of one's own


@pytest.fixture
def notebook():
    """A formulation and a solver as a reader would type them; forgotten afterwards."""
    before = dict(registry._formulations), dict(registry._solvers)

    class MaxCut(Formulation):
        paper, default_solver = "a notebook", "Tabu"

        def __init__(self, A, n_clusters=2):
            self.A, self.n_clusters, self.n = np.asarray(A, dtype=float), n_clusters, len(A)

        def statement(self):
            return mm.Statement("MaxCut", (("minimise", "edges inside clusters", ""),))

        def objective(self, point):
            return float(sum(self.A[i, j] for i in range(self.n) for j in range(self.n)
                             if point[i] == point[j]))

        def violation(self, point):
            return float(len(set(np.asarray(point).tolist())) < self.n_clusters)

        def labels(self, point):
            return np.asarray(point)

        def reference(self, labels=None):
            raise NotImplementedError

        @classmethod
        def examples(cls):
            A = np.random.default_rng(0).integers(0, 3, (7, 7)).astype(float)
            return [cls(A + A.T), cls(A + A.T, 3)]

        def offer(self, kind):
            return LabelQuadratic(-self.A, k=self.n_clusters) if kind is LabelQuadratic else None

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Lottery(mm.Solver):
        needs = (LabelQuadratic,)
        tickets: int = 200

        def begin(self, f, init, rng):
            return self.step(f, None, rng)

        def step(self, f, state, rng):
            lq = f.offer(LabelQuadratic)
            c = min((lq.random_labels(rng) for _ in range(5)), key=lq.value)
            count = 1 if state is None else state + 1
            return mm.solving.Progress(count, lq.expand(c), lq.value(c))

        def outcome(self, f, state):
            return Status.CONVERGED if state >= self.tickets // 5 else None

    yield MaxCut, Lottery
    for table, kept in zip((registry._formulations, registry._solvers), before, strict=True):
        table.clear()
        table.update(kept)


def test_a_formulation_and_a_solver_of_ones_own_are_like_ours(notebook, tmp_path):
    MaxCut, Lottery = notebook
    for f in MaxCut.examples():
        assert set(mm.fits(f).names) == {*LABEL_SOLVERS, "Lottery"}
        best = mm.solve(f, "BruteForce")
        assert best.status is Status.CERTIFIED and best.verify()
        for name in [*LABEL_SOLVERS, "Lottery"]:
            result = mm.solve(f, name, seed=1)
            assert result.verify() and result.violation == 0.0
            assert result.lower_bound <= best.objective + 1e-9 <= result.objective + 2e-9
            if name in EXACT | {"Lottery"}:
                assert result.objective == pytest.approx(best.objective)
        assert mm.solve(f).solver == "Tabu"
        certified = mm.solve(f, Lottery(), seed=1).certify()
        assert certified.status is Status.CERTIFIED and certified.verify()
        result.save(tmp_path / "own.npz", data=False)
        assert mm.load(tmp_path / "own.npz", problem=f).objective == result.objective
        result.save(tmp_path / "own.npz")
        assert mm.load(tmp_path / "own.npz").objective == result.objective  # while it is defined
    assert mm.fits(Lottery) == {"LeastSquares": None, "MaxCut": None, **{
        name: f"it needs LabelQuadratic, which this {name} does not offer."
        for name, cls in registry.formulations().items()
        if all(g.offer(LabelQuadratic) is None for g in cls.examples())}}
    theirs = LeastSquares.examples()[0]
    assert mm.solve(theirs, "lottery", seed=0).objective >= optimum("LeastSquares-0") - 1e-9
    with pytest.raises(IncompatibleError, match="Lottery cannot solve LeastSquaresFit: it needs"):
        mm.solve(theirs.restrict(np.arange(9) % 2), Lottery())
    table = mm.compare([theirs, MaxCut.examples()[0]], [Lottery(), "Tabu"], seeds=2)
    assert len(table.to_frame()) == 8


def test_a_notebook_formulation_is_not_loaded_by_name_once_it_is_gone(notebook, tmp_path):
    MaxCut, _ = notebook
    f = MaxCut.examples()[0]
    mm.solve(f, "Tabu", seed=0).save(tmp_path / "own.npz")
    del registry._formulations["MaxCut"]
    with pytest.raises(mm.errors.ParameterError, match="no formulation is called 'MaxCut'"):
        mm.load(tmp_path / "own.npz")
    assert mm.load(tmp_path / "own.npz", problem=f).verify()
