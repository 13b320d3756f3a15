"""Quadratic unconstrained binary optimisation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import is_sparse, read_only
from mmcopt.errors import DataError
from mmcopt.formulations.square_matrix import SquareMatrix, held, roundoff, total
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints, Samples


class QUBO(SquareMatrix):
    """A quadratic function of n numbers that are 0 or 1, at its least.

    Minimise over x in {0, 1}^n ``x'Qx + c'x``. A point is x, and so are its labels. Solvers see a
    graph with one more node, whose label is 0: with M_ij = [x_i = x_j], M_i0 = [x_i = 0] and
    S = (Q + Q')/2, ``x_i = 1 - M_i0`` and ``2 x_i x_j = 1 - M_i0 - M_j0 + M_ij`` for i != j, so
    that the function is a constant less ``(1/2) <W, M>`` with W_ij = -S_ij and
    ``W_i0 = sum_j S_ij + c_i``.

    Parameters
    ----------
    Q : array (n, n) or sparse matrix
        Symmetric or not (an upper triangle, say); only Q + Q' counts, and sparse ones stay sparse.
        To maximise x'Qx, as in the OR-Library, pass -Q.
    c : array (n,), optional
        The linear term, which may as well stand on the diagonal of Q.

    The trivial bound, behind ``Result.closed``, is the sum of all negative coefficients. Of whole
    numbers bounds are rounded up to values that the function can have.

    Examples
    --------
    >>> import numpy as np
    >>> import mmcopt as mm
    >>> problem = mm.formulations.QUBO(np.array([[1.0, -3.0], [0.0, 1.0]]), c=[0.5, 0.0])
    >>> result = mm.solve(problem, seed=0)
    >>> result.point.tolist(), round(result.objective, 6), result.status.name
    ([1, 1], -0.5, 'CERTIFIED')
    """

    paper = "Hammer and Rosenberg (1968); Boros and Hammer (2002)"

    def __init__(self, Q: Samples, c: ArrayLike | None = None) -> None:
        self.Q = held(Q, "QUBO", "Q")
        self.n = int(self.Q.shape[0])
        self.c = None if c is None else _vector(c, self.n)

    # ------------------------------------------------------------ values

    @property
    def _linear(self) -> Floats:
        return np.zeros(self.n) if self.c is None else self.c

    def objective(self, point: Ints) -> float:
        x = np.asarray(point) == 1
        return total(self.Q[x][:, x]) + total(self._linear[x])

    def uncertainty(self, point: Ints) -> float:
        x = np.asarray(point) == 1
        return self.doubt * (total(abs(self.Q[x][:, x])) + total(abs(self._linear[x])))

    @cached
    def over_labels(self) -> LabelQuadratic:
        """The graph of the class docstring, its extra node the last."""
        S, n = self.Q.astype(np.float64), self.n
        S = (S + S.T) / 2
        alone = np.asarray(S.diagonal()) + self._linear
        if is_sparse(S):
            from scipy.sparse import block_array, diags_array

            S = (S - diags_array(S.diagonal())).tocsr()
            S.eliminate_zeros()
            edges = (np.asarray(S.sum(axis=1)).reshape(-1) + alone).reshape(n, 1)
            W: Any = block_array([[-S, edges], [edges.T, None]]).tocsr()
            low = total(S.minimum(0.0))
        else:
            np.fill_diagonal(S, 0.0)
            edges = (S.sum(axis=1) + alone).reshape(n, 1)
            W = np.block([[-S, edges], [edges.T, np.zeros((1, 1))]])
            low = total(np.minimum(S, 0.0))
        fixed = np.append(np.full(n, -1), 0)
        lq = LabelQuadratic(W, const=total(S) / 2 + total(alone), k=2, scale=0.5, low=0,
                            fixed=fixed, groups=np.arange(n),
                            trivial=low + total(np.minimum(alone, 0.0)))
        return self._settled(lq, 2 * roundoff(n) * (total(abs(S)) + total(abs(alone))))

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n = self.n
        count = self.Q.nnz if is_sparse(self.Q) else np.count_nonzero(self.Q)
        rows = [
            ("minimise", "x'Qx" if self.c is None else "x'Qx + c'x",
             r"x^\top Q x" if self.c is None else r"x^\top Q x + c^\top x"),
            ("over", f"x in {{0, 1}}^{n}", rf"x \in \{{0, 1\}}^{{{n}}}"),
            ("where", f"Q has {count} entries that are not 0", ""),
            ("non-convex", "x is discrete", ""),
            ("bound", "the sum of all negative coefficients for nothing; relax('sdp+cuts')", ""),
            ("paper", self.paper, ""),
        ]
        return Statement(f"QUBO: {n} numbers that are 0 or 1", tuple(rows))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer program, or the linear one for given labels.

        A product is max(0, x_i + x_j - 1) = min(x_i, x_j).
        """
        import cvxpy as cp

        Q = self.Q.toarray() if is_sparse(self.Q) else self.Q
        i, j = (at.reshape(-1) for at in np.indices(Q.shape))
        x, rows = self.literal_side(labels)
        costs, gains = np.maximum(Q[i, j], 0.0), np.maximum(-Q[i, j], 0.0)
        value = costs @ cp.maximum(0.0, x[i] + x[j] - 1) - gains @ cp.minimum(x[i], x[j])
        return cp.Problem(cp.Minimize(value + self._linear @ x), rows)

    @classmethod
    def examples(cls) -> list[Self]:
        from scipy.sparse import csr_array

        rng = np.random.default_rng(0)
        real = rng.standard_normal((7, 7))
        whole = np.triu(rng.integers(-9, 10, (8, 8))).astype(float)
        thin = np.where(rng.random((8, 8)) < 0.4, whole, 0.0)
        return [cls(whole), cls(real, rng.standard_normal(7)), cls(csr_array(thin), np.arange(8.0)),
                cls(np.eye(5)), cls(-np.eye(5))]


def _vector(c: ArrayLike, n: int) -> Floats:
    given = np.asarray(c)
    if given.shape != (n,) or given.dtype.kind not in "fiub" or not np.isfinite(given).all():
        raise DataError(f"QUBO: c must hold {n} numbers, one for each row of Q; got shape "
                        f"{given.shape} of {given.dtype}.")
    return read_only(given.astype(np.float64))
