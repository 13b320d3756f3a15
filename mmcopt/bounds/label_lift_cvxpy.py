"""A `Lift` in cvxpy: data in parameters, so that a path of problems is compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from mmcopt.bounds.label_lift import Cuts, Lift
from mmcopt.capabilities import LabelQuadratic, Program
from mmcopt.types import Floats


class LiftedProgram:
    """Minimise ``base - <scale R, X>`` over the X of a lift; `at` sets the data of one instance.

    The variable is the upper triangle of X, row by row: with a matrix variable and a matrix
    parameter cvxpy took 27 s and 6 GB to compile m = 200, this way .04 s and 10 MB.
    """

    def __init__(self, lift: Lift) -> None:
        import cvxpy as cp

        m, b = lift.m, lift.b
        self.i, self.j = i, j = np.triu_indices(m)
        self.place = np.empty((m, m), dtype=np.int64)  # of X_ij in the triangle
        self.place[i, j] = self.place[j, i] = np.arange(i.size)
        self.double = np.where(i == j, 1.0, 2.0)  # how often X holds the entry
        self.x = x = cp.Variable(i.size, name="X")
        ones = csr_matrix((np.ones(m * m), (np.arange(m * m), self.place.reshape(-1))))
        self.X = X = cp.reshape(ones @ x, (m, m), order="C")
        self.R = cp.Parameter(i.size, name="scale R")
        self.base = cp.Parameter(name="base")
        self.objective = cp.Minimize(self.base - self.R @ x)
        self.named = {"S": X >> 0, "u": x[i == j] == lift.top}
        if lift.flat:
            self.named["flat"] = X @ b == 0
        else:
            bXb = (self.double * b[i] * b[j]) @ x
            if lift.square < b @ b * m:
                self.named["t_up"] = bXb <= lift.square
            if lift.square_low > 0:
                self.named["t_down"] = bXb >= lift.square_low
        if lift.rows.size and not lift.flat:
            Xb = (X @ b)[lift.rows]
            self.named["up"] = Xb <= lift.row_high
            self.named["down"] = Xb >= lift.row_low
        if lift.bounded and m > 1:
            self.named["N"] = x[i != j] >= lift.floor
        if lift.pairs.size:
            self.named["pairs"] = x[self.place[tuple(lift.pairs.T)]] == lift.floor
        self.plain = cp.Problem(self.objective, list(self.named.values()))

    def over_samples(self, lift: Lift, lq: LabelQuadratic) -> Any:
        """The matrix over the samples of the problem: Y, or M = X - floor."""
        node = lift.groups if lq.groups is None else lift.groups[lq.groups]
        sign = lift.signs if lq.groups is None else lift.signs[lq.groups]
        X: Any = self.X if lift.binary or lift.floor == 0 else self.X - lift.floor
        if np.array_equal(node, np.arange(lift.m)):
            return X
        import cvxpy as cp

        over = X[node][:, node]
        return over if (sign > 0).all() else cp.multiply(np.outer(sign, sign), over)

    def at(self, lift: Lift, cuts: Cuts) -> Program:
        """The program with the data of ``lift`` and some cuts."""
        import cvxpy as cp

        self.R.value = lift.scale * self.double * lift.R[self.i, self.j]
        self.base.value = lift.base
        problem, extra = self.plain, None
        if len(cuts):
            e = lift.entries(cuts)
            A = csr_matrix((e.coef, (e.cut, self.place[e.i, e.j])),
                           shape=(e.right.size, self.i.size))
            extra = A @ self.x <= e.right
            problem = cp.Problem(self.objective, [*self.named.values(), extra])
        return Program(problem, self._point, lambda: self._duals(lift, cuts, extra))

    def _point(self) -> Floats:
        return np.asarray(self.x.value)[self.place]

    def _duals(self, lift: Lift, cuts: Cuts, extra: Any) -> dict[str, Any]:
        """Dual values in the units of <R, X>; the signs are those of `Lift.slack`."""
        def value(name: str) -> Any:
            found = self.named[name].dual_value if name in self.named else None
            return 0.0 if found is None else np.asarray(found) / lift.scale

        duals: dict[str, Any] = {"u": value("u") + np.zeros(lift.m)}
        duals["t"] = float(value("t_up")) - float(value("t_down"))
        if lift.rows.size:
            zero = np.zeros(lift.rows.size)
            duals["up"], duals["down"] = value("up") + zero, value("down") + zero
        if lift.bounded:
            N = np.zeros(self.i.size)
            N[self.i != self.j] = value("N")
            duals["N"] = (N / self.double)[self.place]  # one row stands for X_ij and X_ji
        if lift.pairs.size:
            duals["pairs"] = value("pairs") + np.zeros(len(lift.pairs))
        if extra is not None:
            g = np.asarray(extra.dual_value) / lift.scale
            duals.update(cuts.by_name, g=g)
        return duals
