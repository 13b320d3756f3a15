"""The Peng-Wei relaxation of k-means and its kin, without cuts and with them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mmcopt.bounds.labels_from_matrix import clustered, clusters_cost, indicators, named
from mmcopt.bounds.ratio_lift import DUALS, NO_CUTS, RatioLift, entries, ratio_lift, violated
from mmcopt.bounds.relaxation import Relaxation
from mmcopt.capabilities import ConvexProgram, LabelProblem, LabelQuadratic, LabelRatio, Program
from mmcopt.errors import DataError
from mmcopt.formulations.diffrac import Diffrac
from mmcopt.formulations.kernel_kmeans import KernelKMeans
from mmcopt.formulations.least_squares import LeastSquares
from mmcopt.linalg import UNIT
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints


class PengWei(Relaxation):
    """k-means and its kin with a psd matrix Z in the place of ``sum_h z_h z_h' / v'z_h``.

    Minimise ``const - scale <W, Z>`` over psd Z >= 0 with Zv = e and <diag v, Z> = k, for a problem
    that offers `LabelRatio`: `KernelKMeans`, `DiscriminativeKMeans`, sample weights and must-links
    included. Cannot-links and known labels are entries of 0. Bounds on sizes, low and high, are
    ``1 / high <= Z_ii <= 1 / low``; with sample weights they are left out, as sizes count samples.

    Of a problem that offers `LabelQuadratic` and its kernel matrix K, such as `LeastSquares`, it
    relaxes kernel k-means, K centred where that problem centres it, sizes and links left out:
    ``tr K - <K, Z>`` is below the k-means cost of all labels, `kmeans_cost`, and says *nothing
    about the objective of the problem*: it is a baseline, and a start for searches.

    Any v, N >= 0 and d give a bound: ``<W, Z>`` is at most 2 e'v, ``d+ / low - d- / high`` and the
    k largest eigenvalues of ``W - vm' - mv' + N - diag d``, scaled by volumes m.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> problem = mm.formulations.KernelKMeans(X, 2)
    >>> bool(problem.relax("peng-wei").bound({}) <= problem.objective(y))
    True
    """

    kind: ClassVar[str] = "peng-wei"
    dual_names: ClassVar[tuple[str, ...]] = ("v", "N", "d")
    rank: ClassVar[float] = 70
    of = LabelRatio
    default_solver: ClassVar[str] = "Splitting"
    paper = "Peng and Wei (2007)"
    tightness: ClassVar[str] = "k-means; of other problems it bounds kernel k-means, not this " \
        "problem; for starts and comparison"
    bounds_problem = False  # but those that offer LabelRatio
    cuts: ClassVar[bool] = False

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.bounds_problem = problem.offer(LabelRatio) is not None

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        ratio, lq = problem.offer(LabelRatio), problem.offer(LabelQuadratic)
        if ratio is None and lq is None:
            return "it needs LabelQuadratic with a kernel, or LabelRatio, and " \
                f"{type(problem).__name__} offers neither."
        if ratio is None and lq.kernel is None:
            return f"it needs a kernel matrix, which {type(problem).__name__} does not offer."
        if problem.n_clusters < 2:
            return "with one cluster there is one labeling, and nothing to relax."
        return None

    @classmethod
    def memory(cls, problem: Any) -> float:
        return 8.0 * 20 * float(problem.n) ** 2

    @classmethod
    def seconds(cls, problem: Any) -> float:
        return max(0.01, (4e-7 if cls.cuts else 1e-7) * float(problem.n) ** 3)

    @cached
    def K(self) -> Any:
        """The kernel matrix of a problem that offers `LabelQuadratic`."""
        K = np.asarray(self.problem.offer(LabelQuadratic).kernel(), dtype=np.float64)
        if K.shape != (self.n, self.n):
            raise DataError(f"PengWei: the kernel that {type(self.problem).__name__} offers must "
                            f"have shape ({self.n}, {self.n}), one row a sample; got {K.shape}.")
        return (K + K.T) / 2

    @cached
    def lift(self) -> Any:
        """The arrays of the program: over nodes, or over all samples where it bounds k-means."""
        ratio = self.problem.offer(LabelRatio)
        if ratio is not None:
            return dataclasses.replace(ratio_lift(ratio), cuts=self.cuts)
        return RatioLift(self.K, np.ones(self.n), self.n_clusters, float(np.trace(self.K)), 1.0,
                         np.empty((0, 2), dtype=np.int64))

    # ------------------------------------------------------------ points and bounds

    @property
    def judging(self) -> float:
        """Triangles have three roles each, and eigenvalues of several matrices are computed."""
        return 1.8 * super().judging

    def kmeans_cost(self, labels: Ints) -> float:
        """What is relaxed, for labels of the samples: for k-means the sum of squared distances."""
        return clusters_cost(self.lift, self._over_nodes(labels))

    def _over_nodes(self, labels: Ints) -> Ints:
        ratio = self.problem.offer(LabelRatio)
        return np.asarray(labels) if ratio is None else np.asarray(ratio.reduce(labels))

    def objective(self, point: Floats) -> float:
        return float(self.lift.objective(np.asarray(point)))

    def uncertainty(self, point: Floats) -> float:
        """Rounding of sums over W, which may cancel, and of W itself."""
        lift, Z = self.lift, np.asarray(point)
        size = abs(lift.base) + lift.scale * float(np.sum(np.abs(lift.W * Z)))
        doubt = 4.0 * (lift.n + 8) * UNIT * size
        if self.bounds_problem:
            value = lift.objective(Z)
            doubt += value - self.problem.offer(LabelRatio).safe(value)
        return float(doubt)

    def violation(self, point: Floats) -> float:
        return float(self.lift.violation(np.asarray(point)))

    def from_labels(self, labels: Ints) -> Floats:
        """The Z that the labels give."""
        Z, sizes = indicators(self.lift, self._over_nodes(labels))
        return np.asarray((Z / sizes) @ Z.T)

    def recover(self, point: Floats) -> Ints:
        lp: LabelProblem = self.problem.offer(LabelRatio if self.bounds_problem else LabelQuadratic)
        rng = np.random.default_rng(0)
        c = clustered(self.lift, point, rng)
        c = named(c if self.bounds_problem else lp.reduce(c), lp.fixed, self.n_clusters)
        return np.asarray(lp.expand(lp.repair(c, rng)))

    def bound(self, duals: dict[str, Any]) -> float:
        """A lower bound on what is relaxed, for all labels, proved, for any duals whatever."""
        bound = float(self.lift.lower(duals))
        return self.problem.offer(LabelRatio).safe(bound) if self.bounds_problem else bound

    def offer(self, kind: type[Any]) -> Any:
        if kind is RatioLift:
            return self.lift
        if kind is ConvexProgram:
            return ConvexProgram(self._program, self._separate)
        return super().offer(kind)

    # ------------------------------------------------------------ cvxpy

    @cached
    def program(self) -> Any:
        """The program without cuts in cvxpy, over ``Z``."""
        return self._program(None)

    def _program(self, cuts: Ints | None) -> Program:
        """The program with some cuts."""
        import cvxpy as cp

        lift, cuts = self.lift, NO_CUTS if cuts is None else cuts
        Z = cp.Variable((lift.n, lift.n), PSD=True, name="Z")
        sums: Any = Z @ lift.volumes == np.ones(lift.n)
        nonnegative: Any = Z >= 0
        trace: Any = lift.volumes @ cp.diag(Z) == self.n_clusters
        value = lift.base - lift.scale * cp.sum(cp.multiply(lift.W, Z))
        a, b = lift.apart.T
        zero: list[Any] = [Z[a, b] == 0] if len(a) else []
        rows: list[Any] = [_cut_sides(Z, cuts) <= 0] if len(cuts) else []
        sizes: list[Any] = [cp.diag(Z) <= 1 / lift.least, cp.diag(Z) >= 1 / lift.most] \
            if lift.sized else []
        problem = cp.Problem(cp.Minimize(value), [sums, nonnegative, trace, *zero, *sizes, *rows])

        def point() -> Floats:
            found = np.asarray(Z.value)
            return (found + found.T) / 2

        def duals() -> dict[str, Any]:
            N = np.array(nonnegative.dual_value) / lift.scale
            for row in zero:
                np.add.at(N, (a, b), -np.asarray(row.dual_value) / lift.scale)
            out = {"v": np.asarray(sums.dual_value) / (2 * lift.scale), "N": N}
            if sizes:
                high, low = (np.asarray(row.dual_value) for row in sizes)
                out["d"] = (high - low) / lift.scale
            return out if not rows else {
                **out, "cuts": cuts, "g": np.asarray(rows[0].dual_value) / lift.scale}

        return Program(problem, point, duals)

    def _separate(self, point: Floats, cuts: Any) -> Any:
        """More cuts that the point violates, or None."""
        if not self.cuts:
            return None
        old = NO_CUTS if cuts is None else cuts
        new = np.unique(np.concatenate([old, violated(self.lift, point, 5 * self.lift.n, 1e-6)]),
                        axis=0)
        return new if len(new) > len(old) else None

    def reference(self, labels: Ints | None = None) -> Any:
        """Return the relaxation, literally."""
        import cvxpy as cp

        lift, n = self.lift, self.lift.n
        Z = cp.Variable((n, n), symmetric=True, name="Z")
        scaled = cp.multiply(np.outer(lift.volumes, lift.volumes) ** 0.5, Z)
        rows = [scaled >> 0, Z >= 0, Z @ lift.volumes == np.ones(n),
                cp.trace(cp.diag(lift.volumes) @ Z) == self.n_clusters]
        rows += [Z[a, b] == 0 for a, b in lift.apart]
        if lift.sized:
            rows += [row for i in range(n) for row in (Z[i, i] <= 1 / lift.least[i],
                                                       Z[i, i] >= 1 / lift.most[i])]
        for i in range(n if self.cuts else 0):
            others = [j for j in range(n) if j != i]
            rows += [Z[i, j] <= Z[i, i] for j in others]
            rows += [Z[i, j] + Z[i, h] <= Z[i, i] + Z[j, h] for j in others for h in others
                     if j < h]
        return cp.Problem(cp.Minimize(lift.base - lift.scale * cp.trace(lift.W @ Z)), rows)

    # ------------------------------------------------------------ words

    def statement(self) -> Statement:
        name, k, n = type(self.problem).__name__, self.n_clusters, self.lift.n
        over = f"Z, {n} x {n} symmetric", rf"Z \in \mathbb{{S}}^{{{n}}}"
        if self.bounds_problem:
            cuts = ", Z_ij <= Z_ii, Z_ij + Z_il <= Z_ii + Z_jl" if self.cuts else ""
            if self.lift.sized:
                cuts += ", 1 / high <= Z_ii <= 1 / low"
            left = self.problem.offer(LabelRatio).sized and not self.lift.sized
            bounds = f"the objective of {name}" + (", bounds on sizes left out" if left else "")
            return Statement(f"{type(self).__name__}: a lower bound on {name}", (
                ("minimise", f"{self.lift.base:.6g} - {self.lift.scale:g} <W, Z>",
                 r"\mathrm{const} - \langle W, Z\rangle"),
                ("over", *over),
                ("subject to", f"Z psd, Z >= 0, Zv = e, <diag v, Z> = {k}{cuts}",
                 rf"Z \succeq 0,\ Z \ge 0,\ Z v = e,\ v' \operatorname{{diag}} Z = {k}"),
                ("where", f"W and the volumes v are those of {name}", ""),
                ("bounds", bounds, ""),
                ("from", str(self.problem), "")))
        return Statement(f"PengWei: a lower bound on kernel k-means, not on {name}", (
            ("minimise", "tr K - <K, Z>",
             r"\operatorname{tr} K - \langle K, Z\rangle"),
            ("over", *over),
            ("subject to", f"Z psd, Z >= 0, Ze = e, tr Z = {k}",
             rf"Z \succeq 0,\ Z \ge 0,\ Z e = e,\ \operatorname{{tr}} Z = {k}"),
            ("where", f"K is the kernel matrix of {name}: {self._kernel_words()}", ""),
            ("bounds", "the k-means cost of all labels, without size bounds and links; it says "
             f"nothing about the objective of {name}", ""),
            ("from", str(self.problem), ""),
        ))

    def _kernel_words(self) -> str:
        lq: LabelQuadratic = self.problem.offer(LabelQuadratic)
        return lq.kernel_words() if callable(lq.kernel_words) else lq.kernel_words

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in (*LeastSquares.examples(), *Diffrac.examples()[1:3],
                                 *KernelKMeans.examples()[:7])]


class PengWeiCuts(PengWei):
    """The Peng-Wei relaxation of k-means and its kin, with valid inequalities.

    Row i of Z holds one over the volume of the cluster of i where a node shares it, and 0
    elsewhere; hence Z_ij <= Z_ii, and Z_ij + Z_il <= Z_ii + Z_jl: if both j and l share the cluster
    of i, they share one. With all of these the relaxation is often exact. `Splitting` adds those
    that are violated.

    Examples
    --------
    >>> import mmcopt as mm
    >>> X, y = mm.datasets.load("gaussians:n=20,distance=2,seed=0")
    >>> problem = mm.formulations.KernelKMeans(X, 2)
    >>> found = mm.solve(problem.relax("peng-wei+cuts"), seed=0)
    >>> round(found.lower_bound / problem.objective(found.labels), 3)
    1.0
    """

    kind: ClassVar[str] = "peng-wei+cuts"
    dual_names: ClassVar[tuple[str, ...]] = DUALS
    rank: ClassVar[float] = 71
    paper = "Peng and Wei (2007); cuts: Piccialli, Sudoso and Wiegele (2022)"
    tightness: ClassVar[str] = "k-means, with pairs and triangles; often exact"
    cuts: ClassVar[bool] = True

    @classmethod
    def refuses(cls, problem: Any) -> str | None:
        if problem.offer(LabelRatio) is None:
            return f"it needs LabelRatio, which {type(problem).__name__} does not offer."
        return super().refuses(problem)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(f) for f in KernelKMeans.examples()[:7]]


def _cut_sides(Z: Any, cuts: Ints) -> Any:
    """The left sides of cuts less their right ones, of a variable of cvxpy."""
    from scipy.sparse import csr_matrix

    n = int(Z.shape[0])
    i, j, coef = entries(cuts)
    rows: NDArray[np.int64] = np.tile(np.arange(len(cuts)), 4)
    A = csr_matrix((coef, (rows, i * n + j)), shape=(len(cuts), n * n))
    import cvxpy as cp

    return A @ cp.vec(Z, order="C")
