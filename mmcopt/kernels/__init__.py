"""Kernels: small descriptions that combine with ``+``, ``*`` and a number, and are fitted to data.

It may import `mmcopt.compiled` and single files. Public are the descriptions below; `fitted`,
`on_demand` (rows of a kernel too large for memory) and `features` serve the problems above.

>>> kernel = Gaussian(width=0.5) + 0.3 * Polynomial(degree=2)
>>> kernel
Gaussian(width=0.5) + 0.3 * Polynomial(degree=2, coef0=1.0)
>>> fitted = kernel.centered().normalized().fit([[0.0, 1.0], [2.0, 1.0], [4.0, 3.0]])
>>> fitted.matrix().shape, bool(abs(fitted.matrix().trace() - 3) < 1e-12)
((3, 3), True)
"""

from mmcopt.kernels import approximations as approximations  # each registers what it fits
from mmcopt.kernels import neighbors as neighbors
from mmcopt.kernels.descriptions import (
    Centered,
    Columns,
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Neighbors,
    Normalized,
    Nystroem,
    Pivoted,
    Polynomial,
    Precomputed,
    Principal,
    Product,
    RandomFeatures,
    Scaled,
    Sum,
    Unit,
    as_kernel,
)
from mmcopt.kernels.fitted import FittedKernel

__all__ = [
    "Centered", "Columns", "Cosine", "FittedKernel", "Gaussian", "Kernel", "Laplacian", "Linear",
    "Neighbors", "Normalized", "Nystroem", "Pivoted", "Polynomial", "Precomputed", "Principal",
    "Product", "RandomFeatures", "Scaled", "Sum", "Unit", "as_kernel",
]
