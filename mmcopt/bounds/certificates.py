"""Bounds that anyone can re-check: evaluate, and the certificates that `verify` judges.

Every bound is a function of a dual point that holds for *any* such point, so a certificate is the
point itself: `verify` evaluates it again on a rebuilt problem, in NumPy, without any solver.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mmcopt.bounds import enumeration
from mmcopt.bounds.decision_tree import tree_bound
from mmcopt.bounds.ratio_spectrum import ratio_eig_bound
from mmcopt.capabilities import Bounded, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.capabilities.matrices import LowRank
from mmcopt.checks import encode_labels
from mmcopt.constraints import square_sums
from mmcopt.errors import MMCWarning
from mmcopt.linalg import (
    STEPS,
    UNIT,
    krylov,
    leading_dense,
    proved_largest_eigenvalue,
    same_threads,
)
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Certificate, Result, Status
from mmcopt.registry import relaxations
from mmcopt.tolerances import CERTIFIED_GAP, FEASIBLE, SAME
from mmcopt.types import Labels

FEW = 100  # nodes up to which the best shift is sought with all of W, not in a Krylov space
TANGENTS = 12  # of the search for the best shift, at the most
FLAT = 1e-6  # relative: what a better shift must gain
RATE = 1.5e10  # operations a second that the eigenvalue bound is reckoned with
EIG_DENSE = 3000  # rows up to which the eigenvalue bound is attached to every result

Bound = Callable[[Any, dict[str, Any]], float]


def eig_bound(f: Any, duals: dict[str, Any]) -> float:
    """Eigenvalue bound of a `LabelQuadratic`, valid for any t >= 0; for `LabelRatio` see there.

    With M_ij = [c_i = c_j] over nodes of weights w, n = 1'w and D = diag(w), the matrix
    X = D^1/2 (M - J/k) D^1/2 is positive semidefinite with trace n - n/k, and w'Mw <= q. Hence
    <W, M> <= 1'(W - t ww')1 / k + (n - n/k) lambda_max(E) + t q,
    E = D^-1/2 (W - t ww') D^-1/2. The eigenvalue is raised until a Cholesky factorisation proves
    it. Merging nodes, as must-links do, leaves lambda_max(E) no larger than it was.
    """
    ratio, lq = f.offer(LabelRatio), f.offer(LabelQuadratic)
    if ratio is not None:
        return ratio_eig_bound(ratio)
    k, w = lq.k, lq.weights.astype(np.float64)
    n = float(w.sum())
    t = float(duals["t"]) if lq.matrix.is_dense else 0.0
    if math.isinf(t):
        return -math.inf
    t = t if t > 0.0 else 0.0
    E = _scaled(lq, t)
    top = proved_largest_eigenvalue(E)
    # Rounding of the entries and of the sums: a few ulps of everything that is added up.
    top += max(float(E.max()), -float(E.min())) * 4 * lq.n * UNIT
    ones = lq.matrix.total() - t * n**2
    q = square_sums(lq.low, lq.high, int(n))[1]
    upper = ones / k + (n - n / k) * top + t * q
    margin = (n + 8) * UNIT * (abs(lq.constant) + lq.scale * (lq.mass + t * n**2 + abs(upper)))
    return lq.safe(float(lq.constant - lq.scale * upper - margin))


def _scaled(lq: LabelQuadratic, t: float) -> Any:
    """D^-1/2 (W - t ww') D^-1/2, or, for W = Psi Psi', a smaller matrix of the same lambda_max."""
    root = np.sqrt(lq.weights.astype(np.float64))
    if isinstance(lq.matrix, LowRank):
        if (root == 1).all():
            return lq.matrix.gram()
        scaled = np.asarray(lq.matrix.factor() / root[:, None], dtype=np.float64)
        return scaled.T @ scaled
    W = lq.matrix.dense()
    if (root == 1).all() and t == 0.0:
        return W
    return W / np.outer(root, root) - t * np.outer(root, root)


def trivial_bound(f: Any, duals: dict[str, Any]) -> float:
    """The formulation's own bound that needs no dual point."""
    bounded, lq = f.offer(Bounded), f.offer(LabelProblem)
    bound = bounded.trivial if bounded is not None else lq.trivial_bound
    return -math.inf if bound is None else float(bound)


def enumeration_bound(f: Any, duals: dict[str, Any]) -> float:
    """The minimum over all labelings, less the rounding of the objective."""
    lq = f.offer(LabelProblem)
    return lq.safe(enumeration.lower(lq, enumeration.LIMIT))


def own_bound(f: Any, duals: dict[str, Any]) -> float:
    """The bound that the formulation itself computes from a dual point of its own."""
    return float(f.offer(Bounded).bound(duals))


def branching_bound(f: Any, duals: dict[str, Any]) -> float:
    """The bound of a branch-and-bound tree, recomputed leaf by leaf."""
    lq = f.offer(LabelProblem)
    return lq.safe(tree_bound(lq, duals))


def margin_tree_bound(f: Any, duals: dict[str, Any]) -> float:
    """The bound of a tree over the labels of a hinge problem, recomputed leaf by leaf."""
    from mmcopt.bounds.margin_tree import tree_bound

    return tree_bound(f, duals)


BOUNDS: dict[str, Bound] = {"trivial": trivial_bound, "eig": eig_bound, "own": own_bound,
                            "enumeration": enumeration_bound, "branch-and-bound": branching_bound,
                            "margin-tree": margin_tree_bound}


def bound_of(f: Any, certificate: Certificate) -> float:
    """The bound that a certificate proves for a problem: of a kind above, or of a relaxation.

    Where objectives are whole numbers, or multiples of a step, it is the next of them.
    """
    bound, lq = _proved_by(f, certificate), f.offer(LabelQuadratic)
    return bound if lq is None else lq.raised(bound)


def _proved_by(f: Any, certificate: Certificate) -> float:
    if certificate.kind in BOUNDS:
        if certificate.options:
            raise ValueError(f"a {certificate.kind} certificate has no options")
        return BOUNDS[certificate.kind](f, certificate.duals)
    relaxed = relaxations()[certificate.kind](f, **certificate.options)
    if not relaxed.bounds_problem:
        raise ValueError(f"{certificate.kind} does not bound {type(f).__name__}")
    return float(relaxed.bound(certificate.duals))


def certified(result: Result, kind: str, duals: dict[str, Any],
              value: float | None = None) -> Result:
    """Attach the bound of a dual point when it is better than the one there.

    ``value`` is that bound where it has just been computed: that of a large tree takes long.
    One above the objective of a feasible point, by more than rounding, is no bound: it is left out.
    """
    f = result.formulation
    found = Certificate(kind, {}, duals, f)
    value = bound_of(f, found) if value is None else value
    if result.feasible and value > result.objective:
        value = _not_above(result, value, kind)
    if not value > -math.inf or (result.lower_bound is not None and value <= result.lower_bound):
        return result
    return replace(result, lower_bound=value, certificate=found)


def capped(result: Result) -> Result:
    """The result without what rounding has put of its bound above the objective."""
    lower = result.lower_bound
    if lower is None or not result.feasible or lower <= result.objective:
        return result
    value = _not_above(result, lower, "certificate's" if result.certificate is None
                       else result.certificate.kind)
    if value > -math.inf:
        return replace(result, lower_bound=value)
    return replace(result, lower_bound=None, certificate=None)


def rounding_above(result: Result, doubt: float) -> float:
    """How far a bound may be above the objective by rounding."""
    return doubt + SAME * max(abs(result.objective), result.formulation.vanishing)


def room_above(result: Result, doubt: float) -> float:
    """How far a bound may be above the objective by rounding, or by what a point violates.

    By weak duality a violation lowers the objective by no more than it and its multipliers come to;
    these are taken to be up to 100 times the objective, so that a violation by rounding buys none.
    """
    size = max(abs(result.objective), result.formulation.magnitude)
    violated = CERTIFIED_GAP * size * min(1.0, result.violation / FEASIBLE)
    return rounding_above(result, doubt) + violated


def _not_above(result: Result, value: float, kind: str) -> float:
    """The objective, where a bound is above it by rounding; the bound by violation; or no bound.

    A point that is feasible to 1e-6 may cost less than the optimum, so its bound stays as proved,
    and as it then lies above the objective, it certifies nothing (`Result.proves`). Where the bound
    is what is asked for (`Formulation.asks_bound`), nothing is cut but for a feasible point.
    """
    f = result.formulation
    doubt, excess = f.uncertainty(result.point), value - result.objective
    feasible = result.violation <= 16 * (getattr(f, "n", 0) + 8) * UNIT
    if excess <= rounding_above(result, doubt) and (feasible or not f.asks_bound):
        return result.objective
    if excess <= room_above(result, doubt):
        return value
    warnings.warn(f"{type(f).__name__}: the {kind} bound {value!r} is above the objective "
                  f"{result.objective!r} of a feasible point, so one of them is wrong; the bound "
                  "is left out.", MMCWarning, stacklevel=2)
    return -math.inf


def bound_seconds(f: Any) -> float:
    """Seconds that `cheap_bound` takes for its eigenvalue, reckoned from the size alone.

    Of problems with bounds of their own: what judging the best point takes as well.
    """
    bounded = f.offer(Bounded)
    if bounded is not None:
        return float(bounded.seconds)
    lq = f.offer(LabelProblem)
    if lq is None or (lq.n > EIG_DENSE and lq.matrix.is_dense):
        return 0.0
    rank = lq.matrix.rank
    if rank is not None:
        return float(2.0 * rank**2 * (lq.n + rank)) / RATE
    return (2.0 * lq.n**3 + 1000.0 * lq.n**2) / RATE


def cheap_bound(result: Result, certificate: Certificate | None = None, *,
                eigenvalue: bool = True) -> Result:
    """Attach the certificate at hand, or the best of the bounds that cost next to nothing.

    ``eigenvalue=False`` leaves out the one that costs a Cholesky factorisation or two.
    """
    f = result.formulation
    bounded = f.offer(Bounded)
    if bounded is not None:
        result = replace(result, trivial_bound=bounded.trivial)
        duals = certificate.duals if certificate is not None else \
            None if bounded.duals is None else bounded.duals(result.point)
        kind = "own" if certificate is None else certificate.kind
        result = result if duals is None else certified(result, kind, duals)
        if bounded.trivial is not None and result.lower_bound is not None:
            result = certified(result, "trivial", {})  # where a poor dual point proves less
        return result
    lq = f.offer(LabelProblem)
    if lq is None:
        return result
    result = certified(replace(result, trivial_bound=lq.trivial_bound), "trivial", {})
    if certificate is not None:
        result = certified(result, certificate.kind, certificate.duals)
        if result.proves(CERTIFIED_GAP) and (result.closed or 0.0) > 0.0:
            return result
    if eigenvalue and (lq.n <= EIG_DENSE or not lq.matrix.is_dense):
        shift = best_shift(lq) if isinstance(lq, LabelQuadratic) else 0.0
        result = certified(result, "eig", {"t": shift})
    return result


def best_shift(lq: LabelQuadratic) -> float:
    """The t that minimises the convex bracket of `eig_bound`; 0 when W1 is about 0.

    Kelley's method: the bracket lies above its tangents, (n - n/k) lambda_max(E) has the slope
    -(n - n/k) (v'w^1/2)^2 with v the leading eigenvector, and the next t is where the tangents on
    both sides of the minimum meet. Often the bracket rises from t = 0 on; then one is all it takes.
    With many nodes E stands for its restriction to the span of w^1/2, Sw^1/2, S^2w^1/2, ..,
    S = D^-1/2 W D^-1/2, which is that of all E for every t.
    """
    if not lq.matrix.is_dense or np.abs(lq.matrix @ np.ones(lq.n)).max() < 1e-9:
        return 0.0
    n, S = float(lq.weights.sum()), _scaled(lq, 0.0)
    first = np.sqrt(lq.weights.astype(np.float64))
    if lq.n > FEW:
        S, first = krylov(S, first, STEPS)
    rest = square_sums(lq.low, lq.high, int(n))[1] - n**2 / lq.k
    spread = n - n / lq.k

    def tangent(t: float) -> tuple[float, float, float]:
        top, v = leading_dense(S - t * np.outer(first, first))
        return t, spread * top + t * rest, rest - spread * float(first @ v) ** 2

    left = tangent(0.0)
    if left[2] >= 0.0:
        return 0.0
    best = right = tangent(4.0 / n)
    for _ in range(TANGENTS if right[2] > 0.0 else 0):
        best = min(left, right, key=lambda p: p[1])
        t = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
        if best[1] - (left[1] + left[2] * (t - left[0])) <= FLAT * abs(best[1]):
            break
        middle = tangent(t)
        left, right = (middle, right) if middle[2] < 0.0 else (left, middle)
        best = min(best, middle, key=lambda p: p[1])
    return best[0]


# ---------------------------------------------------------------- what users call


def evaluate(problem: Formulation, labels: Labels, *, bound: bool = True) -> Result:
    """Somebody else's labels as a `Result`: objective, violation, bound and gap.

    The labels may have any values; they are kept in ``result.labels``, where they are the point of
    the problem; where scores are, the labels are made into scores first. Infeasible ones get a
    violation and no gap. ``bound=False`` leaves the bound out, to be asked for by `certify`.
    """
    name = type(problem).__name__
    _, values = encode_labels(labels, problem.n, owner=name)
    codes = problem.coded_labels(labels)
    classes = None if codes.tolist() == np.asarray(labels).tolist() else values
    point = problem.from_labels(codes)
    named = np.asarray(labels)
    if problem.offer(LabelProblem) is None:  # the classes that the scores of the point give
        own = problem.labels(point)
        named = own if classes is None else np.asarray(values)[own]
    with same_threads(problem.n):
        result = Result(problem, "evaluate", point, named, problem.settled(point),
                        problem.violation(point), Status.EVALUATED, Status.EVALUATED.value,
                        classes=classes)
        return cheap_bound(result) if bound else result
