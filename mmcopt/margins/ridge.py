"""Regularised least squares on features: factorised once, then solved for any targets."""

from __future__ import annotations

import numpy as np

from mmcopt.kernels.features import Features
from mmcopt.types import Floats

ACCURACY = 1e-11  # relative, of conjugate gradients


class Ridge:
    """The weights w of least ``|v - Phi w|^2 + shift |w|^2`` for targets v.

    Dense rows by the Cholesky factor of Phi'Phi + shift I, or of Phi Phi' + shift I where there are
    fewer samples than features; sparse rows by conjugate gradients.

    >>> import numpy as np
    >>> from mmcopt.kernels.features import Features
    >>> phi = Features(np.eye(2), center=False, normalize=False, owner="example")
    >>> Ridge(phi, 1.0).weights(np.array([4.0, 2.0])).round(9).tolist()
    [2.0, 1.0]
    """

    def __init__(self, features: Features, shift: float) -> None:
        self.features, self.shift = features, shift
        if features.sparse:
            return
        from scipy.linalg import cho_factor

        X = features.dense()
        self._wide = features.d > features.n
        gram = X @ X.T if self._wide else X.T @ X
        gram[np.diag_indices(len(gram))] += shift
        self._factor = cho_factor(gram, overwrite_a=True, check_finite=False)

    def weights(self, v: Floats) -> Floats:
        """The weights (d,) for targets (n,)."""
        from scipy.linalg import cho_solve

        if self.features.sparse:
            return self._iterated(v)
        if self._wide:
            return self._sums(cho_solve(self._factor, v, check_finite=False))
        return np.asarray(cho_solve(self._factor, self._sums(v), check_finite=False))

    def values(self, v: Floats) -> Floats:
        """The values at the samples of the model for targets (n,)."""
        return self.features.scores(self.weights(v)[None])[:, 0]

    def _sums(self, v: Floats) -> Floats:
        return self.features.sums(v[None])[0]

    def _iterated(self, v: Floats) -> Floats:
        from scipy.sparse.linalg import LinearOperator, cg

        def product(w: Floats) -> Floats:
            return self._sums(self.features.scores(w.ravel()[None])[:, 0]) + self.shift * w.ravel()

        d = self.features.d
        operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
        return np.asarray(cg(operator, self._sums(v), rtol=ACCURACY, maxiter=1000)[0])
