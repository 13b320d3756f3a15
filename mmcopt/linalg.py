"""Dense linear algebra that the kernels, the bounds and the searches share."""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from mmcopt.errors import BackendError, DataError
from mmcopt.types import Floats

UNIT = 2.0**-53  # unit round-off of float64
STEPS = 60  # dimensions of a Krylov space that largest eigenvalues are sought in
KRYLOV = 40  # vectors that Lanczos keeps for many digits: it takes a third of the products less
EQUAL = 1e-3  # relative gap up to which eigenvalues share a basis
DENSE = 1500  # rows up to which one eigenvalue to all digits is faster dense than by Lanczos
FEW = 200  # rows up to which all eigenpairs are as fast as some
EXACT = 500  # rows up to which a largest eigenvalue is worth all its digits where it is proved
ONE_THREAD_SAMPLES = 1500  # up to which threads of BLAS wait for one another more than they work
LIBRARIES = ("scipy.linalg", "sklearn", "torch", "cvxopt", "scs")  # that bring threads of their own


class _OneThread(AbstractContextManager[None]):
    """BLAS and OpenMP work with one thread while anybody is inside; the last to leave ends that.

    Sums are then added in one order, however many threads there are. The limits are those of the
    process: kept by each who enters, they would be restored in another order than they were set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []  # libraries, and their threads
        self._known: tuple[bool, ...] | None = None
        self._libraries: list[Any] = []

    def __enter__(self) -> None:
        from threadpoolctl import ThreadpoolController

        with self._lock:
            known = tuple(name in sys.modules for name in LIBRARIES)
            new = known != self._known
            if new:  # finding the libraries takes milliseconds
                self._known, self._libraries = known, ThreadpoolController().lib_controllers
            if new or not self._inside:
                self._before += _limited(self._libraries)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _restore(self._before)

    @contextmanager
    def openmp_here(self) -> Iterator[None]:
        """OpenMP, which is limited thread by thread, also in this thread: for who is inside."""
        with self._lock:
            before = _limited([lib for lib in self._libraries if lib.user_api == "openmp"])
        try:
            yield
        finally:
            with self._lock:
                _restore(before)


def _limited(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Take one thread in each library; those that had more, and how many."""
    before = [(library, library.num_threads) for library in libraries]
    more = [(library, threads) for library, threads in before if threads and threads > 1]
    for library, _ in more:
        _set_threads(library, 1)
    return more


def _restore(before: list[tuple[Any, int]]) -> None:
    """Give libraries back the threads they had, the last that were taken first."""
    while before:
        _set_threads(*before.pop())


def _set_threads(library: Any, threads: int) -> None:
    """Set it from whichever thread: later versions of threadpoolctl listen to the first only."""
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)


one_thread = _OneThread()


def same_threads(n: int) -> AbstractContextManager[None]:
    """One thread where samples are few; for more, as many as the machine gives."""
    return one_thread if n <= ONE_THREAD_SAMPLES else nullcontext()


def are_largest(scores: Floats, labels: Floats, slack: Floats | float) -> bool:
    """Whether the score of each label is the largest in its row, up to ``slack`` (n,) or a number.

    >>> scores = np.array([[1.0, 1.0 + 1e-15], [0.0, 1.0]])
    >>> are_largest(scores, np.array([0, 1]), 1e-12), are_largest(scores, np.array([0, 0]), 1e-12)
    (True, False)
    """
    n, k = scores.shape
    labels = np.asarray(labels)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min(initial=0) < 0 \
            or labels.max(initial=0) >= k:
        return False
    return bool((scores[np.arange(n), labels] >= scores.max(axis=1) - slack).all())


def mirror_lower(A: Floats, block: int = 64) -> Floats:
    """Copy the lower triangle of a square array onto its upper one, in place."""
    n = A.shape[0]
    for i in range(0, n, block):
        rows = slice(i, min(i + block, n))
        corner = A[rows, rows]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        if rows.stop < n:
            A[rows, rows.stop:] = A[rows.stop:, rows].T
    return A


def spd_inverse(A: Floats) -> Floats:
    """Inverse of a symmetric positive definite array, which is overwritten by it.

    Cholesky (potrf) and inversion of its factor (potri): a fifth of the time of an eigenvalue
    decomposition.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    # A C-ordered symmetric array is its own Fortran-ordered transpose: no copy is made.
    upper, info = potrf(A.T, lower=0, overwrite_a=1, clean=0)
    if info > 0:
        raise BackendError(f"Cholesky failed at column {info}: the matrix is not positive "
                           "definite.")
    inverse, info = potri(upper, lower=0, overwrite_c=1)
    if info != 0:
        raise BackendError(f"LAPACK potri failed with info = {info}.")
    return mirror_lower(inverse.T)


def row_sum_norm(A: Floats, block: int = 512) -> float:
    """The largest sum of absolute values in a row: at least the spectral norm of a symmetric A."""
    return max(float(np.abs(A[i:i + block]).sum(axis=1).max()) for i in range(0, len(A), block))


def smallest_eigenvalue(K: Floats) -> float:
    """Smallest eigenvalue of a symmetric array."""
    return _eigenpair(K, 0)[0]


def largest_eigenvalue(K: Floats) -> float:
    """Largest eigenvalue of a symmetric array, about; 0 of an empty one."""
    n = K.shape[0]
    if n == 0:
        return 0.0
    if n <= DENSE:
        return _eigenpair(K, n - 1)[0]
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.random.default_rng(0).standard_normal(n)
    try:
        return float(eigsh(K, k=1, which="LA", v0=start, tol=1e-9, ncv=KRYLOV,
                           return_eigenvectors=False)[0])
    except ArpackError:  # as of a matrix of nothing but rounding
        return _eigenpair(K, n - 1)[0]


def krylov(S: Floats, first: Floats, steps: int) -> tuple[Floats, Floats]:
    """A symmetric array and a vector in an orthonormal basis of the span of v, Sv, S^2v, ..

    By Lanczos, each new vector made orthogonal to all before it twice. The space is that of
    S - t vv' for every t, too.
    """
    n = len(S)
    Q, T = np.zeros((steps, n)), np.zeros((steps, steps))
    size = float(np.linalg.norm(first))
    q = first / size
    for j in range(min(steps, n)):
        Q[j] = q
        q = S @ q
        for _ in range(2):
            along = Q[:j + 1] @ q
            q -= along @ Q[:j + 1]
            T[j, :j + 1] += along
        left = float(np.linalg.norm(q))
        if left <= n * UNIT * float(np.abs(T[j]).max()):  # nothing lies outside
            break
        q /= left
    kept = j + 1
    T = np.tril(T[:kept, :kept])
    return T + np.tril(T, -1).T, size * np.eye(1, kept)[0]


def proved_largest_eigenvalue(K: Floats) -> float:
    """A number that no eigenvalue of a symmetric array exceeds, by the proof of a factorisation.

    It is the largest one in a Krylov space and twice what the last quarter of the space has
    brought, raised until the Cholesky factorisation runs to its end.
    """
    n = len(K)
    if n <= EXACT:
        top, missed = _eigenpair(K, n - 1)[0], 0.0
    else:
        T, _ = krylov(K, np.random.default_rng(0).standard_normal(n), STEPS)
        top, before = (_eigenpair(T[:m, :m], m - 1)[0] for m in (len(T), -(-3 * len(T) // 4)))
        missed = top - before
    shifted = -K
    shifted[np.diag_indices(n)] += top
    guess = 2.0 * (missed + rump_margin(n, float(np.trace(shifted))))
    return top + proved_psd_shift(shifted, guess, missed)


def leading_dense(K: Floats) -> tuple[float, Floats]:
    """Largest eigenvalue and its vector, of a symmetric array, to all digits."""
    return _eigenpair(K, len(K) - 1, vector=True)


def _eigenpair(K: Floats, index: int, vector: bool = False) -> tuple[float, Floats]:
    """One eigenvalue, and its vector when asked for; of all, where LAPACK fails to find one.

    It does where almost all are equal but for rounding.
    """
    from scipy.linalg import eigh

    try:
        if not vector:
            found = eigh(K, eigvals_only=True, subset_by_index=[index, index])
            return float(found[0]), np.empty(0)
        values, vectors = eigh(K, subset_by_index=[index, index])
        return float(values[0]), np.asarray(vectors[:, 0])
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(K)
        return float(values[index]), np.asarray(vectors[:, index])


def leading_pairs(K: Floats, count: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues of a symmetric array, rising, and their vectors."""
    from scipy.linalg import eigh

    n = len(K)
    if count < n and n > FEW:
        try:
            w, V = eigh(K, subset_by_index=[n - count, n - 1], check_finite=False)
            return np.asarray(w), np.asarray(V)
        except np.linalg.LinAlgError:
            pass
    w, V = np.linalg.eigh(K)
    return w[n - count:], V[:, n - count:]


def roots(K: Floats, keep: Callable[[Floats], Any]) -> tuple[Floats, Floats]:
    """F and M with ``FF' = K`` and ``KM = F``, over the rising eigenvalues that ``keep`` picks.

    They are V w^1/2 and V w^-1/2, turned to where they do not depend on the BLAS that found V: to
    it is left which signs vectors have, and which of all bases those of equal eigenvalues are. Here
    vectors have positive products with one random vector, and those of eigenvalues equal within
    `EQUAL` a triangle of products with as many, its diagonal positive: only one basis has. Rounding
    turns vectors across a wider gap by too little to matter.
    """
    w, V = np.linalg.eigh(K)
    kept = keep(w)
    w, V = w[kept], V[:, kept]
    V = V * np.where(np.random.default_rng(0).standard_normal(len(K)) @ V < 0, -1.0, 1.0)
    F, M = V * np.sqrt(w), V / np.sqrt(w)
    apart = np.flatnonzero(np.diff(w) > EQUAL * w[1:]) + 1
    for a, b in itertools.pairwise([0, *apart.tolist(), len(w)]):
        if b - a > 1:
            same = np.random.default_rng(1).standard_normal((len(K), b - a))  # for any group
            Q, R = np.linalg.qr(V[:, a:b].T @ same)
            Q *= np.where(np.diagonal(R) < 0, -1.0, 1.0)
            F[:, a:b], M[:, a:b] = F[:, a:b] @ Q, M[:, a:b] @ Q
    return F, M


def cholesky_succeeds(A: Floats) -> bool:
    """Whether the Cholesky factorisation of a symmetric float64 array, which is lost, ends."""
    from scipy.linalg.lapack import dpotrf

    # A C-ordered symmetric array is its own Fortran-ordered transpose: no copy is made.
    return bool(dpotrf(A.T, overwrite_a=1, clean=0)[1] == 0)


def proved_psd_shift(S: Floats, guess: float, least: float = 0.0) -> float:
    """Smallest found d >= max(guess, 0) for which S + d I is *proved* positive semidefinite.

    It is sought in steps that double, the first no smaller than ``least``.

    The proof is a Cholesky factorisation of S + (d - c) I that runs to its end, where c bounds its
    rounding errors (Rump): c = 2 (n + 2) u / (1 - 2 (n + 2) u) tr(S + d I).
    """
    n, diagonal = S.shape[0], np.diagonal(S)
    trace = float(np.abs(diagonal).sum())
    d = max(guess, 0.0)
    # A zero S, as of one feature, needs a step above zero as well.
    largest = max(float(S.max()), -float(S.min()))
    step = max(rump_margin(n, trace + n * d + largest), least, 1e-290)
    for _ in range(60):
        c = rump_margin(n, trace + n * d)
        shifted = np.array(S, order="C")
        np.fill_diagonal(shifted, diagonal + (d - c))
        if cholesky_succeeds(shifted):
            return d
        d += step
        step *= 2.0
    raise BackendError("no shift was found that makes the matrix provably positive semidefinite.")


def rump_margin(n: int, trace: float) -> float:
    """Rounding margin under which a completed Cholesky factorisation proves semidefiniteness."""
    return 2 * (n + 2) * UNIT / (1 - 2 * (n + 2) * UNIT) * trace


def indefiniteness(K: Floats) -> float:
    """How far the lowest eigenvalue of a symmetric array lies below 0; 0 where rounding may say so.

    Of a semidefinite array a factorisation says it, in a tenth of the time of an eigenvalue.
    Infinity where not all entries are finite, of which a factorisation may say anything.
    """
    if not np.isfinite(K).all():
        return math.inf
    shifted = np.array(K, dtype=np.float64, order="C")
    shifted[np.diag_indices(len(K))] += rump_margin(len(K), float(np.abs(np.diagonal(K)).sum()))
    return 0.0 if cholesky_succeeds(shifted) else max(0.0, -float(np.linalg.eigvalsh(K)[0]))


def is_psd(K: Floats) -> bool:
    """Whether no eigenvalue of K lies below -1e-10 times its mean absolute diagonal times n."""
    n = K.shape[0]
    slack = 1e-10 * max(float(np.abs(np.diagonal(K)).mean()), math.ulp(1.0)) * n
    shifted = K.copy()
    shifted[np.diag_indices(n)] += slack
    return cholesky_succeeds(shifted)


def require_psd(K: Floats, owner: str) -> None:
    """Refuse a kernel matrix with a negative eigenvalue."""
    if not is_psd(K):
        raise DataError(f"{owner}: the kernel matrix is not positive semidefinite: its smallest "
                        f"eigenvalue is {smallest_eigenvalue(K):.6g}. Use another kernel, or "
                        "Precomputed(clip=True) to set negative ones to zero.")
