"""What problems of margins with several kernels share: features side by side, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mmcopt.checks import Rule, real
from mmcopt.errors import ParameterError
from mmcopt.formulations.margin_problem import MarginProblem, Row
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial, as_kernel
from mmcopt.kernels.block_features import (
    BlockFeatures,
    BlockKernelFeatures,
    BlockStackedFeatures,
)
from mmcopt.kernels.features import Features, KernelFeatures, StackedFeatures
from mmcopt.modeling import cached
from mmcopt.types import Floats, RowBlocks

SPARSE = Rule("a list of at least one kernel", lambda v: isinstance(v, Sequence) and len(v) > 0)
PLAIN = (Linear(), Polynomial(2), Gaussian(width=0.5))


class SeveralKernels(MarginProblem):
    """Scores linear in the features of several kernels, whose weights s have |s|_p <= 1.

    The first term of the objective is ``sum_m |v_m|^2 / (2 s_m)`` over C; the best weights for
    given v are in proportion to |v_m|^(2/(p+1)), so a point is v, all kernels side by side.
    """

    def _take_kernels(self, kernels: Any, C: float, p: float) -> float:
        """Check and keep what is said of the kernels; the beta that C stands for."""
        owner = type(self).__name__
        SPARSE.check(owner, "kernels", kernels)
        real(0, open_low=True).check(owner, "C", C)
        real(1).check(owner, "p", p)
        self.kernels: tuple[Kernel, ...] = tuple(as_kernel(kernel) for kernel in kernels)
        self.C = float(C)
        self.p = float(p)
        return 1.0 / self.C

    def _check_blocks(self) -> None:
        """Refuse kernels that need all rows at once, where these come in blocks."""
        if isinstance(self.X, RowBlocks):
            for kernel in self.kernels:
                kernel.require_blocks(type(self).__name__)

    @cached
    def features(self) -> Any:
        """The features of all kernels side by side."""
        owner, blocked = type(self).__name__, isinstance(self.X, RowBlocks)
        kinds: Any = (BlockFeatures, BlockKernelFeatures, BlockStackedFeatures) if blocked \
            else (Features, KernelFeatures, StackedFeatures)
        (plain, of_kernel, stacked), parts = kinds, []
        for kernel in self.kernels:
            if isinstance(kernel, Linear):
                parts.append(plain(self.X, center=self.center, normalize=self.normalize,
                                   owner=owner))
                continue
            fitted = kernel.centered() if self.center else kernel
            fitted = fitted.normalized() if self.normalize else fitted
            parts.append(of_kernel(fitted.fit(self.X, owner=owner), owner))
        return stacked(parts, owner)

    def _weighed(self, least: float) -> tuple[str, float, str, str]:
        return "C", self.C, "large", f"most {1.0 / least:.2g}"

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The columns of each kernel."""
        return tuple(self.features.blocks)

    @property
    def scale(self) -> float:
        """C: the objective is counted in units of the first term."""
        return self.C

    def _lengths(self, W: Floats) -> Floats:
        return np.array([np.linalg.norm(W[:, block]) for block in self.blocks])

    def regulariser(self, W: Floats) -> float:
        """The first term over C."""
        lengths, q = self._lengths(W), 2.0 * self.p / (self.p + 1.0)
        top = float(lengths.max())
        if top == 0.0:
            return 0.0
        return float(0.5 * self.beta * top**2 * np.sum((lengths / top)**q)**(2.0 / q))

    def kernel_weights(self, point: Any) -> Floats:
        """The weights s of the kernels at a point, of |s|_p = 1."""
        lengths = self._lengths(self.weights(point))
        if not lengths.max() > 0:
            raise ParameterError(f"{type(self).__name__}: at W = 0 no kernel has a weight.")
        weights = (lengths / lengths.max())**(2.0 / (self.p + 1.0))
        return np.asarray(weights / np.sum(weights**self.p)**(1.0 / self.p))

    def rows(self) -> list[Row]:
        M = len(self.kernels)
        names = ", ".join(repr(kernel) for kernel in self.kernels)
        how = " and ".join(word for word, on in (("centred", self.center),
                                                 ("of mean diagonal 1", self.normalize)) if on)
        rows = [
            ("minimise", f"sum_m |v_m|^2 / (2 s_m) + C/n sum_i l(t1_i - t2_i),  l(m) = "
             f"{self.loss.formula()}",
             r"\sum_m \frac{\|v_m\|^2}{2 s_m} + \tfrac Cn \sum_i \ell(t^1_i - t^2_i)"),
            ("over", f"v_1..v_{M}, s >= 0; t1 >= t2 the largest of sum_m v_m Phi_m(x_i)",
             rf"v_1, \dots, v_{M},\ s \ge 0"),
            ("subject to", f"|s|_{self.p:g} <= 1", rf"\|s\|_{{{self.p:g}}} \le 1"),
            ("where", f"C = {self.C:g}; kernels {names}" + (f", {how}" if how else ""), ""),
        ]
        if self.balance is not None:
            rows.append(("balance", f"|sum_i (t_p - t_q)(x_i)| <= {self.balance:g}"
                         + self._emptied(), ""))
        return rows

    def literal_regulariser(self, W: Any) -> tuple[Any, list[Any]]:
        """The first term with the weights s as a variable: a second-order cone (MKC, eq. 2.14)."""
        import cvxpy as cp

        s = cp.Variable(len(self.blocks), nonneg=True, name="s")
        first = sum(cp.quad_over_lin(W[:, block], s[m]) for m, block in enumerate(self.blocks)) / 2
        return first, [cp.pnorm(s, cast(Any, self.p)) <= 1 if self.p > 1 else cp.sum(s) <= 1]
