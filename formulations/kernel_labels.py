"""Labels of the samples of a kernel: what all problems over them share."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmcopt.capabilities.matrices import Dense, Symmetric
from mmcopt.checks import data_matrix, integer, is_sparse, require_memory
from mmcopt.constraints import (
    CannotLink,
    CannotLinkLike,
    Known,
    KnownLike,
    LabelRules,
    MustLink,
    MustLinkLike,
    SizesLike,
    as_sizes,
    resolve,
)
from mmcopt.datasets.blocks import as_blocks
from mmcopt.errors import DataError
from mmcopt.kernels import FittedKernel, Kernel, as_kernel
from mmcopt.kernels.block_features import BlockFeatures, all_rows_needed
from mmcopt.kernels.features import Features
from mmcopt.linalg import require_psd
from mmcopt.modeling import Formulation, cached
from mmcopt.types import Floats, Ints, RowBlocks, Samples


class KernelLabels(Formulation):
    """Labels c with rules, of the rows of X, and a kernel of these; a point is the labels."""

    negligible = 0.0
    takes_blocks = False  # whether rows may come in blocks

    def __init__(self, X: Samples, n_clusters: int, *, kernel: Kernel | str, sizes: SizesLike,
                 known: KnownLike, must_link: MustLinkLike, cannot_link: CannotLinkLike) -> None:
        owner, kernel = type(self).__name__, as_kernel(kernel)
        blocks = self._in_blocks(X, kernel) if self.takes_blocks else None
        self.X = data_matrix(X, owner=owner) if blocks is None else blocks
        self.n = int(self.X.shape[0])
        integer(1).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        self.kernel = kernel
        self.sizes = as_sizes(sizes)
        self.known = known if known is None or isinstance(known, Known) else Known(known)
        self.must_link = must_link if must_link is None or isinstance(must_link, MustLink) \
            else MustLink(must_link)
        self.cannot_link = cannot_link if cannot_link is None \
            or isinstance(cannot_link, CannotLink) else CannotLink(cannot_link)
        self.rules: LabelRules = resolve(self.n, self.n_clusters, sizes=self.sizes,
                                         known=self.known, must_link=self.must_link,
                                         cannot_link=self.cannot_link)

    def _in_blocks(self, X: Samples, kernel: Kernel) -> RowBlocks | None:
        """X in blocks, if that is how it comes."""
        blocks = as_blocks(X, type(self).__name__)
        if blocks is not None and isinstance(X, np.memmap) and kernel.blocking() is not None:
            return None  # what it maps is read as it is needed, as far as memory goes
        return blocks

    # ------------------------------------------------------------ the kernel

    @cached
    def fitted(self) -> Any:
        """The kernel fitted to the data, centred."""
        return self.kernel.centered().fit(self.X)

    def fit_like(self, fitted: FittedKernel) -> None:
        """Take over the parts of a kernel fitted to the same X that belong to this one, too."""
        self._cache["fitted"] = self.kernel.centered().fit(self.X, like=fitted)

    @property
    def _rows_agree(self) -> bool:
        """Whether all rows of X, not sparse, are one."""
        if isinstance(self.X, RowBlocks):
            ends = list(self.X.each(_ends))
            return all(found is not None and (found == ends[0]).all() for found in ends)
        return not is_sparse(self.X) and bool((self.X == self.X[0]).all())

    @cached
    def K(self) -> Floats:
        """The kernel matrix, checked to be positive semidefinite and not constant."""
        require_memory(20.0 * self.n**2, f"the {self.n} x {self.n} kernel matrix and its inverse",
                       "use a low-rank kernel: kernel.nystroem(500).")
        K = np.asarray(self.fitted.matrix())
        if float(K.max() - K.min()) <= 8 * self.fitted.accuracy()[0]:
            close = "" if self._rows_agree else f" {self.kernel!r}, whose values agree to the " \
                "last digit on these rows: rescale X, give a smaller width or a larger gamma"
            raise DataError(f"{type(self).__name__}: the kernel matrix is constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            f"kernel{close}.")
        if not self.fitted.psd:
            require_psd(K, type(self).__name__)
        return K

    @cached
    def low_rank(self) -> bool:
        """Whether R is held as a factor: where it takes no more room than a triangle of R.

        That of rows in blocks is always one.
        """
        count = self.fitted.feature_count
        return count is not None and (2 * count <= self.n + 1 or isinstance(self.X, RowBlocks))

    def _features(self) -> BlockFeatures:
        """Phi with K = Phi Phi', checked to tell the samples apart."""
        Phi = self.fitted.stored()
        self._require_differences(Phi)
        return Phi

    def _require_differences(self, Phi: Features) -> None:
        """Refuse features that do not tell the samples apart."""
        if not self.kernel.reads_matrix and self._rows_agree:
            raise DataError(f"{type(self).__name__}: all rows of X are identical, so nothing tells "
                            "the samples apart.")
        low, high = (np.array(ends) for ends in zip(*Phi.gathered(_range), strict=True))
        low, high = low.min(axis=0), high.max(axis=0)
        largest = max(-float(low.min(initial=0.0)), float(high.max(initial=0.0)))
        if float((high - low).max(initial=0.0)) <= 1e-12 * largest:
            raise DataError(f"{type(self).__name__}: the kernel features are constant, so nothing "
                            "tells the samples apart; check for identical rows, or change the "
                            "kernel.")

    def let_go(self) -> None:
        if isinstance(self.X, RowBlocks) and "_over_labels" in self._cache:
            self._cache["_over_labels"].let_go()

    def over_nodes(self, W: Symmetric) -> Symmetric:
        """A matrix of the samples as one of the nodes that must-links leave of them."""
        groups, m = self.rules.groups, self.rules.weights.size
        if m == self.n:
            return W
        return Contracted(W, groups, m) if W.is_dense else W.contract(groups, m)

    @property
    def node_rules(self) -> dict[str, Any]:
        """The rules of the labels, as a `LabelProblem` takes them."""
        rules = self.rules
        merged = rules.weights.size < self.n
        return {"k": self.n_clusters, "weights": rules.weights, "low": rules.low,
                "high": rules.high, "fixed": rules.fixed, "apart": rules.apart,
                "groups": rules.groups if merged else None}

    # ------------------------------------------------------------ points

    def literal_labels(self) -> tuple[Any, list[Any]]:
        """The indicators Z of labels as cvxpy variables, and the rules as their constraints."""
        import cvxpy as cp

        Z: Any = cp.Variable((self.n, self.n_clusters), boolean=True, name="Z")
        sizes = cp.sum(Z, axis=0)
        constraints = [cp.sum(Z, axis=1) == 1, sizes >= self.rules.low, sizes <= self.rules.high]
        node, fixed, apart = self.rules.groups, self.rules.fixed, self.rules.apart
        first = np.unique(node, return_index=True)[1]  # a sample of each must-linked group
        constraints += [Z[i] == Z[first[node[i]]] for i in range(self.n) if i != first[node[i]]]
        constraints += [Z[first[g], fixed[g]] == 1 for g in np.flatnonzero(fixed >= 0)]
        constraints += [Z[first[a]] + Z[first[b]] <= 1 for a, b in apart]
        return Z, constraints

    def violation(self, point: Ints) -> float:
        return self.rules.violation(np.asarray(point))

    def labels(self, point: Ints) -> Ints:
        return np.asarray(point)

    def embedding(self) -> Floats | None:
        if isinstance(self.X, RowBlocks):
            raise all_rows_needed(type(self).__name__, self.n)
        if self.kernel.reads_matrix or is_sparse(self.X):
            return None
        return np.asarray(self.X, dtype=np.float64)

    # ------------------------------------------------------------ words

    def kernel_words(self) -> str:
        """The kernel as a formula."""
        return str(self.fitted.formula())

    def _constraint_words(self) -> tuple[str, str]:
        low, high = self.rules.low, self.rules.high
        one = (low == low[0]).all() and (high == high[0]).all()
        lo, hi = (str(low[0]), str(high[0])) if one else (f"{low.tolist()}", f"{high.tolist()}")
        words = [f"{lo} <= |cluster h| <= {hi}"]
        for given, what in ((self.known, "known labels"), (self.must_link, "must-links"),
                            (self.cannot_link, "cannot-links")):
            if given is not None:
                count = len(given.labels if isinstance(given, Known) else given.pairs)
                words.append(f"{count} {what}")
        tex = rf"{lo} \le |\{{i : c_i = h\}}| \le {hi}" if one else ""
        return ", ".join(words), tex


def _ends(rows: Any) -> Any:
    """The one row that all of a block are; None where they differ, or are sparse."""
    return rows[0] if not is_sparse(rows) and (rows == rows[0]).all() else None


def _range(part: Features) -> tuple[Floats, Floats]:
    """The least and the largest of each feature."""
    return part.X.min(axis=0), part.X.max(axis=0)


class Contracted(Dense):
    """B'WB of a matrix that may not be built yet."""

    def __init__(self, W: Symmetric, groups: Ints, m: int) -> None:
        super().__init__(n=m, build=lambda: W.contract(groups, m).dense())
