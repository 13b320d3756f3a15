"""What must hold for every registered formulation, every solver, and every fitting pair.

The judge is brute force. For random instances it is written from the definitions, in
`instances.py`; for the examples of formulations it is the smallest objective of all labels.
"""

import functools
import itertools
import math
import warnings

import literal
import numpy as np
import pytest

import mmcopt as mm
from mmcopt import registry
from mmcopt.bounds import certificates
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import CutRisk, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.errors import ParameterError

EXACT = {"BruteForce", "Memetic", "BranchAndBound"}  # must find the optimum of every tiny instance
SOLVERS = registry.solvers()
PROBLEMS = {f"{name}-{i}": f for name, cls in registry.formulations().items()
            for i, f in enumerate(cls.examples())}
PAIRS = [(p, s) for p, f in PROBLEMS.items() for s, cls in SOLVERS.items()
         if cls().refuses(f) is None]
LABEL_PROBLEMS = [p for p, f in PROBLEMS.items() if f.offer(LabelProblem) is not None]
LABEL_SOLVERS = [s for s, cls in SOLVERS.items()  # of quadratic ones
                 if {LabelQuadratic, LabelProblem} & set(cls.needs)]
RELAXATIONS = [p for p, f in PROBLEMS.items() if isinstance(f, Relaxation)]
# Neither convex nor a problem of labels alone, but convex once labels are given.
CLUSTERINGS = [p for p, f in PROBLEMS.items() if p not in LABEL_PROBLEMS + RELAXATIONS
               and any(row[0] == "non-convex" for row in f.statement().rows)]
# Relaxations are many, and made from the same few label problems, and of clusterings the literal
# programs of all labels are solved: the ordinary tests take the first two examples of each (every
# refusal and every problem is still judged), the slow tests the rest.
LATER = {p for p in RELAXATIONS + CLUSTERINGS if int(p.rpartition("-")[2]) >= 2}
GOOD = 1e-9  # relative: objectives from two formulas
# Solvers of the dual: their points are feasible only in the limit.
LOOSE = {"FactorDual", "JointDual", "RegularizedDual"}
# Where every X_ij >= floor has a multiplier and there are no cuts, the smoothed dual is so badly
# conditioned that steps end short of the optimum: up to 2 per mille on the examples.
SHORT = {("Partition", "RegularizedDual"): 3e-3, ("DiffracRelaxation", "RegularizedDual"): 3e-3}
# Relaxations whose duals prove less than their value.
UNPROVED = {"LGMMC"}
EXACTLY = {"DualCoordinate": mm.solvers.DualCoordinate(tol=1e-8),
           "CuttingPlane": mm.solvers.CuttingPlane(epsilon=1e-9, alpha=1e-13)}
# Solvers whose default is an absolute accuracy, too coarse for objectives of the examples.
TIGHT = {"CuttingPlane": EXACTLY["CuttingPlane"]}
RAW = [mm.solvers.Shaking(polish=False), mm.solvers.SteepestDescent(swaps=False),
       mm.solvers.StochasticDescent(swaps=False), mm.solvers.Evolutionary(stop="paper"),
       mm.solvers.Tabu(polish=False)]


def pairs(problems=PROBLEMS):
    """Every fitting pair of these; those of the later examples of costly problems are slow."""
    return pytest.mark.parametrize("problem, solver", [
        pytest.param(p, s, marks=pytest.mark.slow if p in LATER else ())
        for p, s in PAIRS if p in problems])


def relaxations():
    return pytest.mark.parametrize("problem", [
        pytest.param(p, marks=pytest.mark.slow if p in LATER else ()) for p in RELAXATIONS])


def label_problems():
    return pytest.mark.parametrize("problem", LABEL_PROBLEMS)


def example_of(solver):
    """A problem that a solver fits: the cheap max-cut relaxation, or else the first.

    Not a clustering that may collapse, and say so in a warning, if there is another.
    """
    pairs = [p for p, s in PAIRS if s == solver]
    fitting = [p for p in pairs if p not in CLUSTERINGS] or pairs
    return PROBLEMS["MaxCutRelaxation-0" if "MaxCutRelaxation-0" in fitting else fitting[0]]


def assert_feasible(result):
    """The point, or the labels recovered from the point of a relaxation."""
    f = result.formulation
    if isinstance(f, Relaxation):
        assert f.problem.violation(point_of(f, result.labels)) <= 1e-12
        assert f.problem.violation(point_of(f, f.recover(result.point))) <= 1e-12
    else:
        assert result.violation == 0.0


def point_of(f, labels):
    """A point of the relaxed problem with these labels: themselves, or with their best weights."""
    if f.problem.offer(LabelProblem) is not None:
        return labels
    convex = restricted(f.problem, labels)
    if convex is None:
        return f.problem.from_labels(labels)
    W = mm.solve(convex, mm.solvers.CuttingPlane(epsilon=1e-9)).point
    return f.problem.offer(CutRisk).point(W, labels)


@functools.cache
def solved(problem, solver, seed):
    with warnings.catch_warnings():
        if problem in CLUSTERINGS:  # some of these tiny ones lose a class or collapse, and say so
            warnings.filterwarnings("ignore", message=f"{type(PROBLEMS[problem]).__name__}: ")
        return mm.solve(PROBLEMS[problem], TIGHT.get(solver, solver), seed=seed)


def optimum(problem):
    """Smallest objective of a label problem, by the formulation's own objective and violation.

    For a relaxation that of the problem it relaxes; for one that bounds kernel k-means, the
    smallest cost of that over all labels, which need not meet the constraints.
    """
    f = PROBLEMS[problem]
    if isinstance(f, Relaxation) and not f.bounds_problem:
        return min(f.kmeans_cost(c) for c in all_labels(f) if c[0] == 0)
    f = f.problem if isinstance(f, Relaxation) else f
    return least_of(f) if f.offer(LabelProblem) is None else least_value(f)


def all_labels(f):
    return (np.array(c) for c in itertools.product(range(f.n_clusters), repeat=f.n))


def least_value(f, known={}):  # noqa: B006  (several relaxations are of one problem)
    if f.fingerprint not in known:
        lq = f.offer(LabelProblem)
        known[f.fingerprint] = min(lq.value(lq.reduce(c)) for c in all_labels(f)
                                   if f.violation(c) == 0.0)
    return known[f.fingerprint]


@functools.cache
def literal_value(problem):
    """Optimum of the literal convex program, by Clarabel."""
    return literal.solved(PROBLEMS[problem].reference())


def least_of_labels(problem):
    """Smallest optimum of the literal convex programs of all labels, up to the clusters' names."""
    return least_of(PROBLEMS[problem])


def least_of(f, known={}):  # noqa: B006  (several relaxations are of one problem)
    if f.fingerprint not in known:
        n, best = f.n, math.inf
        for c in itertools.product(range(f.n_clusters), repeat=n):
            if all(c[i] <= max(c[:i], default=-1) + 1 for i in range(n)):
                best = min(best, literal.solved(f.reference(np.array(c))))
        known[f.fingerprint] = best
    return known[f.fingerprint]


def restricted(f, labels):
    """The convex problem of given labels; None where there is only the literal program."""
    try:
        return f.restrict(labels)
    except ParameterError:
        return None


def bounds_of(f, result):
    """Every bound that is known for a problem."""
    kinds = {"trivial": {}, "eig": {"t": 0.0}, "enumeration": {}}
    return [certificates.BOUNDS[kind](f, duals) for kind, duals in kinds.items()] \
        + [result.lower_bound]


def hidden(lq):
    """Nodes that no point belongs to, whose labels are given."""
    return np.setdiff1d(np.arange(lq.n), np.arange(lq.n) if lq.groups is None else lq.groups)


def neighbours(lq, c):
    """All labels that differ from c by one move or, where searches swap, one swap of nodes."""
    for i in range(lq.n):
        for d in set(range(lq.k)) - {int(c[i])}:
            near = c.copy()
            near[i] = d
            yield near
    if isinstance(lq, LabelRatio) and not lq.ruled:
        return
    for i, j in itertools.combinations(range(lq.n), 2):
        if c[i] != c[j]:
            near = c.copy()
            near[i], near[j] = c[j], c[i]
            yield near


def assert_local_optimum(f, labels, what=""):
    lq = f.offer(LabelProblem)
    here, c = f.objective(labels), lq.reduce(labels)
    for near in neighbours(lq, c):
        point = lq.expand(near)
        if f.violation(point) == 0.0:
            assert f.objective(point) >= here - 1e-9 * (1 + abs(here)), (what, c, near)
