"""Several kernels and given labels: what `MKC` becomes when restricted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from mmcopt.constraints import Balance
from mmcopt.formulations.crammer_singer import GivenLabels
from mmcopt.formulations.several_kernels import PLAIN, SeveralKernels
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial
from mmcopt.margins import MarginLoss
from mmcopt.types import Floats, Labels, Samples


class MultipleKernelMachine(SeveralKernels, GivenLabels):
    """A multi-class machine that weighs kernels, for given labels y: a convex problem.

    Minimise over weights s >= 0 with |s|_p <= 1 and v_1..v_M ``sum_m |v_m|^2 / (2 s_m) + C/n sum_i
    l(t_y - max_{q != y} t_q)``, t the scores of sample i, with the options of `MKC`. With U_m the
    part of kernel m in the ``sum_iq s_iq (e_y - e_q) x_i' / n`` of `CrammerSinger`, its bound here
    is ``C (1/n sum_i l*(sum_q s_iq) - C/2 |(|U_1|^2, .., |U_M|^2)|_r)``, 1/p + 1/r = 1.
    """

    paper = "Zhao et al., MKC, eq. 2.14, once labels are given"

    def __init__(self, X: Samples, y: Labels, n_clusters: int = 2, *,
                 kernels: Sequence[Kernel | str] = PLAIN, C: float = 50.0, p: float = 2.0,
                 loss: MarginLoss | None = None, balance: float | Balance | None = None,
                 center: bool = True, normalize: bool = True) -> None:
        beta = self._take_kernels(kernels, C, p)
        super().__init__(X, n_clusters, beta=beta, loss=loss, balance=balance, kernel=None,
                         center=center, normalize=normalize, bias=0.0)
        self._check_blocks()
        self._settle(y)

    def _square(self, U: Floats) -> float:
        squares = np.array([np.sum(U[:, block] ** 2) for block in self.blocks])
        top = float(squares.max())
        if self.p == 1.0 or top == 0.0:
            return top
        r = self.p / (self.p - 1.0)
        return float(top * np.sum((squares / top) ** r) ** (1.0 / r))

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9, 2)) + 2.0 * (np.arange(9).reshape(-1, 1) % 3)
        y, near = np.arange(9) % 3, [Linear(), Gaussian(width=0.5)]
        return [cls(X, y, 3, kernels=near, C=20.0), cls(X, y % 2, 2, kernels=near, C=30.0, p=1.0),
                cls(X, y % 2, 2, kernels=[*near, Polynomial(2)], C=10.0, p=3.0),
                cls(X + 1.0, y % 2, 2, kernels=near, C=10.0, center=False, balance=2.0)]
