"""Claims of results, judged in hundreds of digits.

Everything here is written from the definitions, in mpmath, and shares no line with the package: the
kernel of the rows as they are stored, R or the features of it, the objective of every labeling.
`conftest.py` makes this module importable as ``exact``.
"""

import itertools
import math

import mpmath
import numpy as np
from mpmath import mpf

from mmcopt import kernels

BITS = 2400  # condition numbers reach 1e330
SHOWN = 5e-7  # relative: half a unit of the sixth digit, as results are printed
PROVED = 1e-4  # relative gap of CERTIFIED
FIXED = 2000  # bits behind the point of the integers that all labelings are summed in


def arithmetic():
    """The precision that all of this needs."""
    return mpmath.workprec(BITS)


# ---------------------------------------------------------------- kernels


def rows_of(X):
    """Rows as exact numbers."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return [[mpf(float(v)) for v in row] for row in X]


def inner(x, z):
    return sum((a * b for a, b in zip(x, z, strict=True)), mpf(0))


def distance(x, z, metric):
    parts = [a - b for a, b in zip(x, z, strict=True)]
    return sum((abs(p) if metric == 1 else p * p for p in parts), mpf(0))


def table(rows, entry):
    n = len(rows)
    K = [[mpf(0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            K[i][j] = K[j][i] = entry(rows[i], rows[j])
    return K


def matrix(kernel, rows):
    """The kernel matrix of exact rows."""
    k = kernels
    if isinstance(kernel, k.Precomputed):
        return rows
    if isinstance(kernel, k.Linear):
        return table(rows, inner)
    if isinstance(kernel, k.Cosine):
        return table(rows, lambda x, z: inner(x, z) / mpmath.sqrt(inner(x, x) * inner(z, z)))
    if isinstance(kernel, k.Polynomial):
        return table(rows, lambda x, z: (inner(x, z) + mpf(kernel.coef0))**kernel.degree)
    if isinstance(kernel, k.Gaussian | k.Laplacian):
        power = 2 if isinstance(kernel, k.Gaussian) else 1
        D = table(rows, lambda x, z: distance(x, z, power))
        rate = _rate(kernel, D, power)
        return [[mpmath.exp(-rate * v) for v in row] for row in D]
    if isinstance(kernel, k.descriptions.Sum | k.descriptions.Product):
        A, B = matrix(kernel.left, rows), matrix(kernel.right, rows)
        add = isinstance(kernel, k.descriptions.Sum)
        return [[a + b if add else a * b for a, b in zip(r, s, strict=True)]
                for r, s in zip(A, B, strict=True)]
    if isinstance(kernel, k.descriptions.Nystroem):  # its features as computed are the kernel
        X = np.array([[float(v) for v in row] for row in rows])
        return table(rows_of(kernel.fit(X).features()), inner)
    K = matrix(kernel.inner, rows)
    if isinstance(kernel, k.descriptions.Scaled):
        return [[mpf(kernel.factor) * v for v in row] for row in K]
    if isinstance(kernel, k.descriptions.Centered):
        return centred(K)
    if isinstance(kernel, k.descriptions.Normalized):
        mean = sum(K[i][i] for i in range(len(K))) / len(K)
        return [[v / mean for v in row] for row in K]
    raise TypeError(kernel)


def _rate(kernel, D, power):
    if kernel.gamma is not None:
        return mpf(kernel.gamma)
    if kernel.width is None:
        return 1 / (2 * mpf(kernel.sigma)**2)
    return 1 / (mpf(kernel.width)**power * max(map(max, D)))


def centred(K):
    n = len(K)
    mean = [sum(row) / n for row in K]
    whole = sum(mean) / n
    return [[K[i][j] - mean[i] - mean[j] + whole for j in range(n)] for i in range(n)]


def inverse(A):
    """Inverse of a symmetric positive definite matrix, by Gauss and Jordan."""
    n = len(A)
    M = [[*row, *(mpf(int(i == j)) for j in range(n))] for i, row in enumerate(A)]
    for c in range(n):
        pivot = max(range(c, n), key=lambda r, c=c: abs(M[r][c]))
        M[c], M[pivot] = M[pivot], M[c]
        top = 1 / M[c][c]
        M[c] = [v * top for v in M[c]]
        for r in range(n):
            if r != c and M[r][c]:
                f = M[r][c]
                M[r] = [a - f * b for a, b in zip(M[r], M[c], strict=True)]
    return [row[n:] for row in M]


# ---------------------------------------------------------------- label problems


class LabelForm:
    """``constant + sum_h z_h'A z_h`` of a `LeastSquares` or `Diffrac`."""

    def __init__(self, problem):
        self.problem, self.n, self.k = problem, problem.n, problem.n_clusters
        K = matrix(problem.kernel, rows_of(problem.X))
        n, k = self.n, self.k
        if hasattr(problem, "kappa"):
            shift = n * mpf(problem.kappa)
            factor, self.constant = 1 / mpf(n), mpf(0)
        else:
            mean = problem.scaling == "mean"
            shift = mpf(problem.lam) * (n if mean else 1)
            factor = mpf(4) / (n if mean else 1)
        K = centred(K) if problem.center else K
        G = inverse([[K[i][j] + (shift if i == j else 0) for j in range(n)] for i in range(n)])
        A = [[shift * v for v in row] for row in G]
        if hasattr(problem, "kappa"):
            A = centred(A)
        else:
            self.constant = (k - 4) * sum(map(sum, A)) * factor / 4
        self.A = [[factor * v for v in row] for row in A]

    def value(self, labels):
        c = np.asarray(labels).tolist()
        return self.constant + sum((self.A[i][j] for i in range(self.n) for j in range(self.n)
                                    if c[i] == c[j]), mpf(0))

    def least(self):
        """The smallest value of all feasible labelings."""
        n, k = self.n, self.k
        M = [[int(mpmath.nint(mpmath.ldexp(v, FIXED))) for v in row] for row in self.A]
        best = None
        for rest in itertools.product(range(k), repeat=n - 1):
            c = (0, *rest)
            if self.problem.violation(np.array(c)) > 0:
                continue
            total = sum(M[i][i] for i in range(n)) + 2 * sum(
                M[i][j] for i in range(n) for j in range(i) if c[i] == c[j])
            best = total if best is None else min(best, total)
        return self.constant + mpmath.ldexp(mpf(best), -FIXED)


# ---------------------------------------------------------------- problems of margins


def features_of(problem):
    """Features in exact numbers: of the rows, or, of a kernel's own, as the package has them."""
    if problem.kernel is not None:
        return rows_of(problem.features.dense())
    X = rows_of(problem.X)
    n = len(X)
    if problem.center:
        mean = [sum(column) / n for column in zip(*X, strict=True)]
        X = [[a - m for a, m in zip(row, mean, strict=True)] for row in X]
    if problem.normalize:
        scale = 1 / mpmath.sqrt(sum(inner(row, row) for row in X) / n)
        X = [[scale * a for a in row] for row in X]
    return X


def margin_value(problem, W):
    """The objective of CPM3C with the hinge at W."""
    X, W = features_of(problem), rows_of(W)
    loss = mpf(0)
    for row in X:
        t = sorted((inner(w, row) for w in W), reverse=True)
        loss += max(mpf(0), 1 - t[0] + t[1])
    return mpf(problem.beta) / 2 * sum(inner(w, w) for w in W) + loss / len(X)


def several_value(problem, W):
    """The objective of MKC at W, on the features of the package."""
    X, W = rows_of(problem.features.dense()), rows_of(W)
    loss = mpf(0)
    for row in X:
        t = sorted((inner(w, row) for w in W), reverse=True)
        loss += max(mpf(0), 1 - t[0] + t[1])
    q = 2 * mpf(problem.p) / (mpf(problem.p) + 1)
    lengths = [mpmath.sqrt(sum(inner(w[b], w[b]) for w in W)) for b in problem.blocks]
    first = sum((v**q for v in lengths if v), mpf(0))**(2 / q) / 2
    return first + mpf(problem.C) * loss / len(X)


def box_of(problem):
    """C times the share of each sample."""
    n = problem.n
    share = [mpf(1) / n] * n
    if problem.sample_weight is not None:
        w = [mpf(float(v)) for v in problem.sample_weight]
        share = [v / sum(w) for v in w]
    return [mpf(problem.C) * v for v in share]


def domain_value(problem, a):
    """The objective of OneClassHinge at a."""
    K = matrix(problem.kernel, rows_of(problem.X))
    a = [mpf(float(v)) for v in a]
    scores = [inner(row, a) for row in K]
    loss = sum(u * max(mpf(0), 1 - t) for u, t in zip(box_of(problem), scores, strict=True))
    return inner(a, scores) / 2 + loss


def sphere_value(problem, b):
    """The objective of Hypersphere at b, with the best R^2."""
    K = matrix(problem.kernel, rows_of(problem.X))
    b, n = [mpf(float(v)) for v in b], problem.n
    inside = [inner(row, b) for row in K]
    square = inner(b, inside)
    D = [K[i][i] - 2 * inside[i] + square for i in range(n)]
    return min(R + sum(u * max(mpf(0), v - R) for u, v in zip(box_of(problem), D, strict=True))
               for R in (mpf(0), *(v for v in D if v > 0)))


def fit_value(problem, A):
    """The objective of LeastSquaresFit at A, and its minimum."""
    K = matrix(problem.kernel, rows_of(problem.X))
    K = centred(K) if problem.center else K
    n, lam = problem.n, mpf(problem.lam)
    G = inverse([[K[i][j] + (lam if i == j else 0) for j in range(n)] for i in range(n)])
    value, least = mpf(0), mpf(0)
    for h, column in enumerate(zip(*rows_of(A), strict=True)):
        p = [mpf(1 if c == h else -1) for c in problem.y.tolist()]
        Ka = [inner(row, column) for row in K]
        value += sum((a - b)**2 for a, b in zip(p, Ka, strict=True)) + lam * inner(column, Ka)
        least += lam * inner(p, [inner(row, p) for row in G])
    return value, least


def most_of_box(Q, c, upper, guess, total=None):
    """The largest c'x - x'Qx/2 over 0 <= x <= upper, of sum ``total`` if given, by active sets.

    None where the conditions of an optimum are not met in the end: they are what proves it.
    """
    n, zero = len(c), mpf(0)
    where = [0 if g <= 1e-6 * u else 1 if g >= (1 - 1e-6) * u else None
             for g, u in zip(guess, upper, strict=True)]
    for _ in range(60):
        free = [i for i in range(n) if where[i] is None]
        x = [zero if w == 0 else u for w, u in zip(where, upper, strict=True)]
        base = [c[i] - sum((Q[i][j] * x[j] for j in range(n) if where[j] == 1), zero) for i in free]
        rows = [[Q[i][j] for j in free] + ([mpf(1)] if total is not None else []) for i in free]
        if total is not None:
            if not free:
                return None
            rows.append([mpf(1)] * len(free) + [zero])
            base.append(total - sum((x[j] for j in range(n) if where[j] == 1), zero))
        try:
            found = [inner(row, base) for row in inverse(rows)] if rows else []
        except ZeroDivisionError:
            return None
        level = found.pop() if total is not None else zero
        for i, v in zip(free, found, strict=True):
            x[i] = v
        slope = [c[i] - inner(Q[i], x) - level for i in range(n)]
        off = [(max(-x[i], x[i] - upper[i]), i, 0 if x[i] < 0 else 1) for i in free] \
            + [(slope[i] if where[i] == 0 else -slope[i], i, None) for i in range(n)
               if where[i] is not None]
        worst = max(off, key=lambda entry: entry[0])
        if worst[0] <= 0:
            if any(abs(slope[i]) > mpf(2)**(-BITS // 2) * abs(c[i]) for i in free):
                return None  # of a singular matrix, such as of a row that is there twice
            return inner(c, x) - inner(x, [inner(row, x) for row in Q]) / 2
        where[worst[1]] = worst[2]
    return None


def domain_least(problem, a):
    """The minimum of OneClassHinge; None where it was not found."""
    K = matrix(problem.kernel, rows_of(problem.X))
    return most_of_box(K, [mpf(1)] * problem.n, box_of(problem), a)


def sphere_least(problem, b):
    """The minimum of Hypersphere; None where it was not found."""
    K = matrix(problem.kernel, rows_of(problem.X))
    Q = [[2 * v for v in row] for row in K]
    return most_of_box(Q, [K[i][i] for i in range(problem.n)], box_of(problem), b, mpf(1))


# ---------------------------------------------------------------- claims


def judged(result, value, least):
    """What a result claims that is false, in words; ``least`` is no value below the minimum.

    The objective may be off by half a unit of the sixth digit and by the rounding that the problem
    admits, which is shown beside it; a bound by nothing.
    """
    false = []
    claim = mpf(result.objective)
    admitted = mpf(result.formulation.uncertainty(result.point))
    allowed = mpf(SHOWN) * abs(value) + admitted
    if abs(claim - value) > allowed:
        false.append(f"objective {result.objective!r} is {mpmath.nstr(value, 12)}, "
                     f"{mpmath.nstr(admitted, 3)} admitted")
    if admitted > mpf("2e-3") * abs(value) and admitted > 0:
        false.append(f"rounding of {mpmath.nstr(admitted, 3)} is admitted to "
                     f"{mpmath.nstr(value, 12)}: it should have been refused")
    for name, bound in (("bound", result.lower_bound), ("trivial bound", result.trivial_bound)):
        if bound is not None and mpf(bound) > least:
            false.append(f"{name} {bound!r} is above {mpmath.nstr(least, 18)}")
    if result.gap is not None:
        if result.gap < 0 or not math.isfinite(result.gap):
            false.append(f"gap {result.gap!r}")
        if (value - least) > mpf(result.gap) * abs(claim) + allowed + mpf(result.gap) * mpf(1e-10):
            false.append(f"gap {result.gap!r} is {mpmath.nstr((value - least) / abs(value), 6)}")
    if result.closed is not None and not 0.0 <= result.closed <= 1.0:
        false.append(f"closed {result.closed!r}")
    if result.status.name == "CERTIFIED" \
            and (value - least) > mpf(PROVED) * (1 + mpf(1e-3)) * abs(value):
        false.append(f"CERTIFIED at a gap of {mpmath.nstr((value - least) / abs(value), 6)}")
    return false
