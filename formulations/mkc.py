"""Maximum-margin clustering with several kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from mmcopt.capabilities import KernelMargin
from mmcopt.checks import Rule, plural, real
from mmcopt.errors import ParameterError
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial, as_kernel
from mmcopt.kernels.features import Features, KernelFeatures, StackedFeatures
from mmcopt.margins import Hinge
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats

SPARSE = Rule("a list of at least one kernel", lambda v: isinstance(v, Sequence) and len(v) > 0)
PLAIN = (Linear(), Polynomial(2), Gaussian(width=0.5))


class MKC(CPM3C):
    """Classes told apart by a margin in a weighted sum of kernels, weights and labels unknown.

    Minimise over weights s >= 0 with |s|_p <= 1 and v_1..v_M, one for each kernel and with one row
    a class, ``sum_m |v_m|^2 / (2 s_m) + C/n sum_i l(t1_i - t2_i)``, t1 >= t2 the two largest of
    the scores ``sum_m v_m Phi_m(x_i)`` (MKC, eq. 2.7 and 4.33, with p = 2). The best weights for
    given v are in proportion to |v_m|^(2/(p+1)); so a point is v, all kernels side by side, and the
    first term ``(sum_m |v_m|^q)^(2/q) / 2``, q = 2p/(p+1). `kernel_weights` are the s of a point.

    Kernels are centred and scaled to a mean diagonal of 1 unless that is switched off: otherwise
    the one of largest values is preferred whatever it is worth.
    """

    paper = "Zhao et al., MKC, eq. 2.7 and 4.33"
    machine, step = "MultipleKernelMachine", "LinearizedMKC"

    def __init__(self, X: Any, n_clusters: int = 2, *,
                 kernels: Any = PLAIN, C: float = 50.0,
                 p: float = 2.0, loss: Any = None, balance: float | None = None,
                 center: bool = True, normalize: bool = True, size_floor: float = 0.0) -> None:
        owner = type(self).__name__
        SPARSE.check(owner, "kernels", kernels)
        real(0, open_low=True).check(owner, "C", C)
        real(1).check(owner, "p", p)
        super().__init__(X, n_clusters, beta=1.0 / float(C), loss=loss, balance=balance,
                         center=center, normalize=normalize, size_floor=size_floor)
        self.kernels: tuple[Kernel, ...] = tuple(as_kernel(kernel) for kernel in kernels)
        self.C = float(C)
        self.p = float(p)

    @cached
    def features(self) -> StackedFeatures:
        """The features of all kernels side by side."""
        owner = type(self).__name__
        parts = []
        for kernel in self.kernels:
            if isinstance(kernel, Linear):
                parts.append(Features(self.X, center=self.center, normalize=self.normalize,
                                      owner=owner))
                continue
            fitted = kernel.centered() if self.center else kernel
            fitted = fitted.normalized() if self.normalize else fitted
            parts.append(KernelFeatures(fitted.fit(self.X, owner=owner), owner))
        return StackedFeatures(parts, owner)

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

    def _lighter(self) -> str:
        return f"a larger C than {self.C:g}"

    def statement(self) -> Statement:
        k, M = self.n_clusters, len(self.kernels)
        names = ", ".join(repr(kernel) for kernel in self.kernels)
        how = " and ".join(word for word, on in (("centred", self.center),
                                                 ("of mean diagonal 1", self.normalize)) if on)
        return Statement(f"MKC: {plural(self.n, 'sample')}, {k} clusters, {plural(M, 'kernel')}", (
            ("minimise", f"sum_m |v_m|^2 / (2 s_m) + C/n sum_i l(t1_i - t2_i),  l(m) = "
             f"{self.loss.formula()}",
             r"\sum_m \frac{\|v_m\|^2}{2 s_m} + \tfrac Cn \sum_i \ell(t^1_i - t^2_i)"),
            ("over", f"v_1..v_{M}, s >= 0; t1 >= t2 the largest of sum_m v_m Phi_m(x_i)",
             rf"v_1, \dots, v_{M},\ s \ge 0"),
            ("subject to", f"|s|_{self.p:g} <= 1", rf"\|s\|_{{{self.p:g}}} \le 1"),
            ("where", f"C = {self.C:g}; kernels {names}" + (f", {how}" if how else ""), ""),
            *((("balance", f"|sum_i (t_p - t_q)(x_i)| <= {self.balance:g}"
                + (", which centring makes empty" if self.balance_rows is None else ""), ""),)
              if self.balance is not None else ()),
            *((("sizes", f"at least {self.least} samples in each class, {self.size_floor:g} of "
                "n / k, by labels beside v", ""),) if self.least else ()),
            ("non-convex", "the largest score may be any class's; convex for given labels", ""),
            ("paper", self.paper, ""),
        ))

    def offer(self, kind: type[Any]) -> Any:
        if kind is KernelMargin and type(self.loss) is Hinge and self.balance_rows is None:
            # A floor on sizes leaves fewer points, and margins of given labels are never larger.
            return KernelMargin(self.features.parts, self.n_clusters, self.beta, self.p, self.scale)
        return super().offer(kind)

    def literal_regulariser(self, W: Any) -> tuple[Any, list[Any]]:
        """The first term with the weights s as a variable: a second-order cone (MKC, eq. 2.14)."""
        import cvxpy as cp

        s = cp.Variable(len(self.blocks), nonneg=True, name="s")
        first = sum(cp.quad_over_lin(W[:, block], s[m]) for m, block in enumerate(self.blocks)) / 2
        return first, [cp.pnorm(s, cast(Any, self.p)) <= 1 if self.p > 1 else cp.sum(s) <= 1]

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((7, 2)) + 3.0 * (np.arange(7).reshape(-1, 1) % 2)
        Y = rng.standard_normal((6, 2)) + 4.0 * np.c_[np.arange(6) % 3 == 1, np.arange(6) % 3 == 2]
        near = [Linear(), Gaussian(width=0.5)]
        return [cls(X, 2, kernels=near, C=30.0), cls(Y, 3, kernels=near, C=40.0),
                cls(X, 2, kernels=near, C=30.0, p=1.0),
                cls(X, 2, kernels=[*near, Polynomial(2)], C=30.0, p=3.0)]
