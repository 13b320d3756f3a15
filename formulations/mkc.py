"""Maximum-margin clustering with several kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import KernelMargin
from mmcopt.checks import plural
from mmcopt.constraints import Balance
from mmcopt.formulations.cpm3c import CPM3C
from mmcopt.formulations.linearized import LinearizedMKC
from mmcopt.formulations.multiple_kernel_machine import MultipleKernelMachine
from mmcopt.formulations.several_kernels import PLAIN, SeveralKernels
from mmcopt.kernels import Gaussian, Kernel, Linear, Polynomial
from mmcopt.margins import Hinge, MarginLoss
from mmcopt.types import RowBlocks, Samples


class MKC(SeveralKernels, CPM3C):
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
    machine, majoriser = MultipleKernelMachine, LinearizedMKC

    def __init__(self, X: Samples, n_clusters: int = 2, *,
                 kernels: Sequence[Kernel | str] = PLAIN, C: float = 50.0, p: float = 2.0,
                 loss: MarginLoss | None = None, balance: float | Balance | None = None,
                 center: bool = True, normalize: bool = True, size_floor: float = 0.0) -> None:
        beta = self._take_kernels(kernels, C, p)
        super().__init__(X, n_clusters, beta=beta, loss=loss, balance=balance, center=center,
                         normalize=normalize, size_floor=size_floor)
        self._check_blocks()

    def _lighter(self) -> str:
        return f"a larger C than {self.C:g}"

    def _title(self) -> str:
        return f"{super()._title()}, {plural(len(self.kernels), 'kernel')}"

    def offer(self, kind: type[Any]) -> Any:
        if kind is KernelMargin and type(self.loss) is Hinge and self.balance_rows is None \
                and not isinstance(self.X, RowBlocks):
            # A floor on sizes leaves fewer points, and margins of given labels are never larger.
            return KernelMargin(self.features.parts, self.n_clusters, self.beta, self.p, self.scale,
                                max(1, self.least))
        return super().offer(kind)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((7, 2)) + 3.0 * (np.arange(7).reshape(-1, 1) % 2)
        Y = rng.standard_normal((6, 2)) + 4.0 * np.c_[np.arange(6) % 3 == 1, np.arange(6) % 3 == 2]
        near = [Linear(), Gaussian(width=0.5)]
        return [cls(X, 2, kernels=near, C=30.0), cls(Y, 3, kernels=near, C=40.0),
                cls(X, 2, kernels=near, C=30.0, p=1.0),
                cls(X, 2, kernels=[*near, Polynomial(2)], C=30.0, p=3.0)]
