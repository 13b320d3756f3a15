"""Maximum cuts of weighted graphs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mmcopt.capabilities import LabelQuadratic
from mmcopt.checks import is_sparse
from mmcopt.errors import DataError
from mmcopt.formulations.square_matrix import SquareMatrix, held, roundoff, total
from mmcopt.modeling import Statement, cached
from mmcopt.types import Ints, Samples


class MaxCut(SquareMatrix):
    """The two sides of a graph between which the edges weigh most.

    Minimise over labels c in {0, 1}^n, as everything here is minimised, the negative of the cut,
    ``-cut(c) = -sum_{i<j, c_i != c_j} W_ij = (1/2) sum_h z_h'W z_h - (1/2) 1'W1``, z_h the
    indicator of side h. A side may be empty. `cut` gives the weight itself.

    Parameters
    ----------
    W : array (n, n) or sparse matrix
        Symmetric weights of the edges, of any sign; sparse ones stay sparse. The diagonal is not
        looked at, as loops are never cut. `mmcopt.datasets.load` reads graphs.

    The trivial bound, behind ``Result.closed``, is the negative of all positive weights. Of whole
    weights bounds are rounded up to whole cuts.

    Examples
    --------
    >>> import mmcopt as mm
    >>> W, _ = mm.datasets.load("g05:n=20,seed=0")
    >>> problem = mm.formulations.MaxCut(W)
    >>> result = mm.solve(problem, "BranchAndBound", seed=0)
    >>> round(problem.cut(result.labels)), result.status.name
    (56, 'CERTIFIED')
    """

    paper = "Barahona, Groetschel, Juenger and Reinelt (1988); Rendl, Rinaldi and Wiegele (2010)"

    def __init__(self, W: Samples) -> None:
        self.W = held(W, "MaxCut", "W")
        self.n = int(self.W.shape[0])
        off = self.W - self.W.T
        if (off.nnz if is_sparse(off) else np.count_nonzero(off)):
            i, j = (int(at[0]) for at in off.nonzero())
            raise DataError(f"MaxCut: W must be symmetric; got W[{i}, {j}] = {self.W[i, j]:g} and "
                            f"W[{j}, {i}] = {self.W[j, i]:g}. Pass W + W.T where each edge was "
                            "given once.")

    # ------------------------------------------------------------ values

    def cut(self, labels: Ints) -> float:
        """The weight of the edges between the two sides."""
        c = np.asarray(labels) == np.asarray(labels)[0]
        return total(self.W[c][:, ~c])

    def objective(self, point: Ints) -> float:
        return 0.0 - self.cut(point)

    def uncertainty(self, point: Ints) -> float:
        c = np.asarray(point) == np.asarray(point)[0]
        return self.doubt * total(abs(self.W[c][:, ~c]))

    @cached
    def over_labels(self) -> LabelQuadratic:
        """W without its loops, as all label searches and bounds take it."""
        if is_sparse(self.W):
            from scipy.sparse import diags_array

            W = self.W - diags_array(self.W.diagonal()).tocsr()
            W.eliminate_zeros()
        else:
            W = self.W - np.diag(self.W.diagonal())
        positive = total(W.maximum(0.0) if is_sparse(W) else np.maximum(W, 0.0)) / 2
        lq = LabelQuadratic(-W, const=-total(W) / 2, k=2, scale=0.5, low=0, trivial=0.0 - positive)
        return self._settled(lq, roundoff(self.n) * total(abs(W)))

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        n = self.n
        count = self.over_labels.matrix.count // 2
        rows = [
            ("minimise", "-cut(c) = -sum_{i<j, c_i != c_j} W_ij\n"
             "        = (1/2) sum_h z_h'W z_h - (1/2) 1'W1",
             r"-\operatorname{cut}(c) = -\sum_{i<j,\ c_i \ne c_j} W_{ij}"
             r" = \tfrac12 \sum_h z_h^\top W z_h - \tfrac12 1^\top W 1"),
            ("over", f"c in {{0, 1}}^{n}; z_h indicates side h, and a side may be empty",
             rf"c \in \{{0, 1\}}^{{{n}}}"),
            ("where", f"W holds the weights of {count} edges", ""),
            ("non-convex", "the labels are discrete", ""),
            ("bound", "the negative of all positive weights for nothing; relax('sdp+cuts')", ""),
            ("paper", self.paper, ""),
        ]
        return Statement(f"MaxCut: {n} nodes", tuple(rows))

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal mixed-integer program, or the linear one for given labels.

        An edge is cut where |x_i - x_j| = min(x_i + x_j, 2 - x_i - x_j) is 1.
        """
        import cvxpy as cp

        W = self.W.toarray() if is_sparse(self.W) else self.W
        i, j = np.triu_indices(self.n, 1)
        x, rows = self.literal_side(labels)
        gain, loss = np.maximum(W[i, j], 0.0), np.maximum(-W[i, j], 0.0)
        apart = cp.minimum(x[i] + x[j], 2 - x[i] - x[j])
        value = loss @ cp.abs(x[i] - x[j]) - gain @ apart if i.size else cp.sum(0 * x)
        return cp.Problem(cp.Minimize(value), rows)

    @classmethod
    def examples(cls) -> list[Self]:
        from scipy.sparse import csr_array

        rng = np.random.default_rng(0)
        real = rng.standard_normal((7, 7))
        signs = np.triu(rng.choice([-1.0, 1.0], (8, 8)) * (rng.random((8, 8)) < 0.7), 1)
        ring = np.roll(np.eye(9), 1, axis=1)
        return [cls(ring + ring.T), cls(signs + signs.T), cls(real + real.T),
                cls(csr_array(ring + ring.T)), cls(-np.ones((6, 6)))]
