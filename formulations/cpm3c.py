"""Multi-class maximum-margin clustering: the hinge family's own problem."""

from __future__ import annotations

import itertools
from typing import Any, Self

import numpy as np

from mmcopt.capabilities import (
    Bounded,
    CutRisk,
    InnerFit,
    LiftedMargin,
    MarginRisk,
    Refit,
    Subgradient,
)
from mmcopt.checks import data_matrix, instance, integer, optional, plural, real, require_memory
from mmcopt.constraints import Balance
from mmcopt.errors import DataError, ParameterError
from mmcopt.kernels import Gaussian, Linear, as_kernel
from mmcopt.kernels.features import Features, KernelFeatures
from mmcopt.margins import Hinge, MarginLoss
from mmcopt.margins.cut_models import LabelCuts, PairCuts, PaperCuts, balanced, floored, top_two
from mmcopt.margins.ridge import Ridge
from mmcopt.modeling import Formulation, Statement, cached
from mmcopt.registry import formulation, solver
from mmcopt.types import Floats, Ints

COLLAPSED = 0.98  # of the trivial objective, from which a solution says next to nothing
TINY_CLASS = 200  # one class in so many samples is a class of next to none


class CPM3C(Formulation):
    """Scores of k classes that tell most samples apart by a margin, without labels.

    Minimise over W = (w_1..w_k), with t1 >= t2 the two largest of the scores w_p'x_i,
    ``beta/2 sum_p |w_p|^2 + 1/n sum_i l(t1_i - t2_i)`` subject to
    ``|sum_i (w_p - w_q)'x_i| <= l`` for all pairs of classes (CPM3C, eq. 6 and 7; for k = 2 it is
    CPMMC). A sample belongs to the class of its largest score. ``loss`` is l, the hinge by default.

    Features are centred and scaled to a mean square of 1 unless that is switched off; on centred
    features the balance holds by itself. ``kernel`` replaces features by those of a kernel. The
    trivial bound is 0, and W = 0 costs l(0).

    For three classes and more the balance does not keep a class from losing all samples.
    ``size_floor`` (ours, not the paper's) asks for that share of n / k in each: a point is then
    (W, labels), and the loss that of those labels, ``l(t_y - max_{q != y} t_q)``.

    ``bias`` is the value of one more feature, the same for all samples and not centred, whose
    weights are counted in |w_p|^2 like others: at 10 they cost next to nothing. It asks for a
    balance, without which a class of all samples would be best.
    """

    paper = "Zhao et al., CPM3C, eq. 6 and 7"
    default_solver = "CuttingPlane"
    machine, step = "CrammerSinger", "LinearizedCPM3C"  # what given labels make of it
    p = 2.0  # of the ball of kernel weights, where there are several kernels

    def __init__(self, X: Any, n_clusters: int = 2, *, beta: float = 0.03,
                 loss: MarginLoss | None = None, balance: float | Balance | None = None,
                 kernel: Any = None, center: bool = True, normalize: bool = True,
                 size_floor: float = 0.0, bias: float = 0.0) -> None:
        owner = type(self).__name__
        self.X = data_matrix(X, owner=owner)
        self.n = int(self.X.shape[0])
        integer(2).check(owner, "n_clusters", n_clusters)
        self.n_clusters = int(n_clusters)
        if self.n < self.n_clusters:
            raise DataError(f"{owner}: {plural(self.n, 'sample')} cannot fill "
                            f"{self.n_clusters} clusters.")
        real(0, open_low=True).check(owner, "beta", beta)
        if isinstance(balance, Balance):
            balance = balance.of(self.n)
        optional(real(0)).check(owner, "balance", balance)
        optional(instance(MarginLoss)).check(owner, "loss", loss)
        self.beta = float(beta)
        self.loss = Hinge() if loss is None else loss
        self.balance = None if balance is None else float(balance)
        self.kernel = None if kernel is None else as_kernel(kernel)
        self.center, self.normalize = bool(center), bool(normalize)
        real(0, 1).check(owner, "size_floor", size_floor)
        self.size_floor = float(size_floor)
        real(0).check(owner, "bias", bias)
        if bias and balance is None:
            raise ParameterError(f"{owner}: a bias without a balance puts all samples into one "
                                 "class; give a balance, such as .1 times the number of samples, "
                                 "or bias=0.")
        self.bias = float(bias)

    # ------------------------------------------------------------ data

    @cached
    def features(self) -> Features:
        """The features, centred and scaled as asked."""
        owner = type(self).__name__
        if self.kernel is None or isinstance(self.kernel, Linear):
            return Features(self.X, center=self.center, normalize=self.normalize, owner=owner,
                            bias=self.bias)
        kernel = self.kernel.centered() if self.center else self.kernel
        kernel = kernel.normalized() if self.normalize else kernel
        return KernelFeatures(kernel.fit(self.X, owner=owner), owner, self.bias)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Columns of W that have a weight of their own; none here."""
        return ()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes."""
        return list(itertools.combinations(range(self.n_clusters), 2))

    @cached
    def balance_rows(self) -> Floats | None:
        """Rows r with r W the sums of ``(w_p - w_q)'x_i``; None where the balance holds anyway."""
        if self.balance is None or (self.center and not self.bias):
            return None
        total, d = self.features.total(), self.features.d
        require_memory(24.0 * len(self.pairs) * self.n_clusters * d,
                       f"the balance of {len(self.pairs)} pairs of classes over {d} features",
                       "centre the features, which makes it empty.")
        rows = np.zeros((len(self.pairs), self.n_clusters, d))
        for row, (p, q) in zip(rows, self.pairs, strict=True):
            row[p], row[q] = total, -total
        return rows.reshape(len(rows), -1)

    @property
    def least(self) -> int:
        """Samples that a class must have: ``size_floor`` of the mean, rounded down."""
        return int(self.size_floor * self.n / self.n_clusters + 1e-9)

    def weights(self, point: Any) -> Floats:
        """W of a point, which has labels beside it when there is a floor on sizes."""
        try:
            W = np.asarray(self._parts(point)[0], dtype=np.float64)
        except (TypeError, ValueError):  # what is no array of numbers
            W = np.empty(0)
        if W.shape != (self.n_clusters, self.features.d) or not np.isfinite(W).all():
            raise DataError(f"{type(self).__name__}: a point is W, finite and of shape "
                            f"({self.n_clusters}, {self.features.d})"
                            + (", with labels beside it: (W, labels)" if self.least else "")
                            + f"; got {_shown(point)}.")
        return W

    def _parts(self, point: Any) -> tuple[Any, Any]:
        """W, and the labels beside it or None."""
        pair = self.least and isinstance(point, tuple | list) and len(point) == 2 \
            and np.ndim(point[0]) == 2
        return (point[0], point[1]) if pair else (point, None)

    def scores(self, point: Any) -> Floats:
        """Scores (n, k) of the samples."""
        return self.features.scores(self.weights(point))

    # ------------------------------------------------------------ the problem

    def statement(self) -> Statement:
        k, d = self.n_clusters, self.X.shape[1]
        rows = [
            ("minimise", f"beta/2 sum_p |w_p|^2 + 1/n sum_i l(t1_i - t2_i),  l(m) = "
             f"{self.loss.formula()}",
             r"\tfrac\beta2 \sum_p \|w_p\|^2 + \tfrac1n \sum_i \ell(t^1_i - t^2_i)"),
            ("over", f"w_1..w_{k} in R^{d}; t1 >= t2 the largest of w_p'x_i",
             rf"w_1, \dots, w_{k}"),
        ]
        if self.balance is not None:
            rows.append(("balance", f"|sum_i (w_p - w_q)'x_i| <= {self.balance:g}"
                         + (", which centring makes empty" if self.balance_rows is None else ""),
                         rf"|\sum_i (w_p - w_q)^\top x_i| \le {self.balance:g}"))
        if self.least:
            rows.append(("sizes", f"at least {self.least} samples in each class, "
                         f"{self.size_floor:g} of n / k, by labels beside W",
                         rf"|\{{i : y_i = p\}}| \ge {self.least}"))
        how = [word for word, on in (("centred", self.center), ("of mean square 1", self.normalize))
               if on]
        rows += [
            ("where", f"beta = {self.beta:g}; x " + (f"of the kernel {self.kernel!r}"
             if self.kernel is not None else "the features") + (", " if how else "")
             + " and ".join(how) + (f", and a constant one of value {self.bias:g}"
                                    if self.bias else ""), ""),
            ("non-convex", "the largest score may be any class's; convex for given labels", ""),
            ("paper", self.paper, ""),
        ]
        return Statement(f"CPM3C: {plural(self.n, 'sample')}, {k} clusters", tuple(rows))

    def objective(self, point: Any) -> float:
        W, T = self.weights(point), self.scores(point)
        margin = self._margins(T, self.labels(point)) if self.least else top_two(T)[2]
        return float(self.scale * (self.regulariser(W) + self.loss.value(margin).mean()))

    def _margins(self, T: Floats, y: Ints) -> Floats:
        """How far the scores of the labels y are above the best others."""
        rows, rest = np.arange(self.n), T.copy()
        rest[rows, y] = -np.inf
        return np.asarray(T[rows, y] - rest.max(axis=1))

    @property
    def scale(self) -> float:
        """What the objective is, beside regulariser and mean loss, a multiple of."""
        return 1.0

    def regulariser(self, W: Floats) -> float:
        """beta/2 |W|^2, in units of the mean loss."""
        return float(0.5 * self.beta * np.sum(W * W))

    def violation(self, point: Any) -> float:
        worst = 0.0
        if self.least:
            count = np.bincount(self.labels(point), minlength=self.n_clusters)
            worst = max(0.0, float(self.least - count.min()))
        if self.balance_rows is not None:
            sums = np.abs(self.balance_rows @ self.weights(point).ravel())
            worst = max(worst, (float(sums.max()) - float(self.balance or 0.0)) / self.n)
        return worst

    def labels(self, point: Any) -> Ints:
        if not self.least:
            return top_two(self.scores(point))[0]
        self.weights(point)
        y, k = self._parts(point)[1], self.n_clusters
        found = np.asarray([] if y is None else y)
        if found.shape != (self.n,) or found.dtype.kind not in "iu" or found.min() < 0 \
                or found.max() >= k:
            raise DataError(f"{type(self).__name__}: with a floor on sizes a point is (W, labels), "
                            f"one integer 0..{k - 1} for each of the {self.n} samples; got "
                            f"{_shown(point)}.")
        return found.astype(np.int64)  # a copy

    def caution(self, point: Floats, labels: Ints | None = None,
                value: float | None = None) -> str | None:
        """A class without samples, or an objective hardly below that of W = 0."""
        labels = self.labels(point) if labels is None else labels
        value = self.objective(point) if value is None else value
        found = np.bincount(labels, minlength=self.n_clusters)
        trivial = self.scale * float(self.loss.value(np.zeros(1))[0])
        if value > COLLAPSED * trivial:
            return (f"the solution has collapsed: its objective {value:.4g} is hardly below the "
                    f"{trivial:g} of W = 0; try {self._lighter()}, more restarts, or another "
                    "scaling of the features.")
        if (found == 0).any():
            lost = plural(int((found == 0).sum()), "class")
            return (f"{lost} of {self.n_clusters} lost all samples; ask for fewer clusters, give a "
                    "size_floor, or start from init='kmeans'.")
        if found.min() <= max(1, self.n / TINY_CLASS) and self.n >= 20 * self.n_clusters:
            return (f"a class holds only {plural(int(found.min()), 'sample')} of {self.n}; rows "
                    "that are far from all others may hold it: look at the scale of the features, "
                    "or give a size_floor.")
        return None

    def _lighter(self) -> str:
        """What makes the first term count less, in words."""
        return f"a smaller beta than {self.beta:g}"

    def decision_function(self, point: Floats, X: Any) -> Floats:
        return np.asarray(self.features.new(X) @ self.weights(point).T)

    def embedding(self) -> Floats | None:
        return self.features.X if self.features.sparse else self.features.dense()

    def from_labels(self, labels: Ints) -> Any:
        """Class means as scores, as long as the objective likes them best; with the labels."""
        k = self.n_clusters
        Z = np.zeros((k, self.n))
        Z[labels, np.arange(self.n)] = 1.0
        means = self.features.sums(Z) / np.maximum(Z.sum(axis=1), 1.0)[:, None]
        means -= means.mean(axis=0)
        W = self._stretched(means)
        return (W, np.asarray(labels)) if self.least else W

    def _stretched(self, W: Floats) -> Floats:
        """W at the length that the objective likes best, of many and its own, and balanced."""
        if not W.any():
            return W
        square, margin = self.regulariser(W), top_two(self.features.scores(W))[2]
        lengths = np.geomspace(1e-3, 1e3, 61) / max(float(np.linalg.norm(W)), 1e-300)
        lengths = np.append(lengths, 1.0)
        values = [s * s * square + self.loss.value(s * margin).mean() for s in lengths]
        return balanced(W * lengths[int(np.argmin(values))], self.balance_rows, self.balance or 0.0)

    @cached
    def _ridge(self) -> Ridge:
        """The regression on ``(w_1 - w_0)'x``, whose regulariser n times that of W is."""
        return Ridge(self.features, self.n * self.beta / 4.0)

    def _halves(self, rng: np.random.Generator) -> Ints:
        """The two halves of the samples along a random direction."""
        along = self.features.scores(rng.standard_normal((1, self.features.d)))[:, 0]
        return (along > np.median(along)).astype(np.int64)

    def _regressed(self, v: Floats, labels: Ints) -> Floats:
        """W of the regression on targets v."""
        w = self._ridge.weights(v) / 2.0
        return self._stretched(np.stack([-w, w]))

    def _machine(self, name: str, labels: Any) -> Any:
        """The convex problem of that name for given labels, with the features of this one."""
        given = {name: value for name, value in self.params().items() if name != "size_floor"}
        made = formulation(name)(given.pop("X"), labels, given.pop("n_clusters"), **given)
        made._cache["features"] = self.features
        return made

    def restrict(self, labels: Any) -> Any:
        """The convex problem once every sample has its label."""
        return self._machine(self.machine, labels)

    def linearize(self, point: Any) -> Any:
        """The convex problem of a step of the concave-convex procedure at a point (eq. 20).

        It is nowhere below this one and touches it at the point. With a floor on sizes, where the
        labels stand beside W, that is the problem of these labels.
        """
        labels = self.labels(point)
        return self.restrict(labels) if self.least else self._machine(self.step, labels)

    def fitted(self, labels: Ints) -> Floats:
        """The best W for given labels, to a relative gap of 1e-6."""
        from mmcopt.solving import solve

        exact = solver("CuttingPlane")(epsilon=1e-7, alpha=0.0)
        return np.asarray(solve(self.restrict(labels), exact, seed=0).point)

    # ------------------------------------------------------------ offers

    def offer(self, kind: type[Any]) -> Any:
        if kind is Bounded:
            return Bounded(lambda duals: 0.0, lambda point: {}, trivial=0.0)
        if kind is CutRisk:
            kinds = ("pair", "paper") if isinstance(self.loss, Hinge) and not self.least \
                else ("pair",)
            return CutRisk(self.features, self.n_clusters, self.beta, self._cuts, kinds,
                              self.balance_rows, float(self.balance or 0.0), self._joined,
                              self.weights, regulariser=self.regulariser, scale=self.scale,
                              blocks=self.blocks, p=self.p)
        if kind is InnerFit:
            return InnerFit(lambda labels: self._joined(self.fitted(labels), labels))
        if kind is LiftedMargin and type(self.loss) is Hinge and not self.blocks:
            # A floor on sizes leaves fewer points, and margins of given labels are never larger.
            limit = None if self.balance_rows is None else self.balance
            return LiftedMargin(self.features, self.n_clusters, self.beta, limit, self.weights)
        if self.least or self.blocks:
            return None
        if kind in (Subgradient, MarginRisk) and self.balance_rows is None:
            return MarginRisk(self.features, self.n_clusters, self.beta, self.loss)
        if kind is Refit and self.n_clusters == 2:
            return Refit(self._ridge.values, self._ridge.shift, self._regressed, self._halves,
                         lambda labels, rng: labels, restrict=self.restrict)
        return None

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        T = self.features.scores(W)
        if self.least:
            y = floored(T, self.least)
            if start is not None and self._parts(start)[1] is not None:
                given = self.labels(start)
                if np.bincount(given, minlength=self.n_clusters).min() >= self.least:
                    y = given
            return LabelCuts(self.features, self.n_clusters, self.loss, y, self.least)
        cls = PaperCuts if kind == "paper" else PairCuts
        return cls(self.features, self.n_clusters, self.loss, T.argmax(axis=1))

    def _joined(self, W: Floats, labels: Ints) -> Any:
        return (W, labels) if self.least else W

    def reference(self, labels: Ints | None = None) -> Any:
        """The convex problem of given labels."""
        import cvxpy as cp

        W = cp.Variable((self.n_clusters, self.features.d), name="W")
        first, limits = self.literal_regulariser(W)
        if self.balance_rows is not None:
            limits.append(cp.abs(self.balance_rows @ cp.vec(W, order="C")) <= self.balance)
        return cp.Problem(cp.Minimize(first + self.scale * self.literal_loss(W, labels)), limits)

    def literal_regulariser(self, W: Any) -> tuple[Any, list[Any]]:
        """The first term for a cvxpy variable, and the constraints it needs."""
        import cvxpy as cp

        return self.beta / 2 * cp.sum_squares(W), []

    def literal_loss(self, W: Any, labels: Ints | None) -> Any:
        """The mean loss of a cvxpy variable for given labels, class by class."""
        import cvxpy as cp

        if labels is None:
            raise DataError(f"{type(self).__name__}: the problem is not convex; give the labels "
                            "whose convex problem is meant.")
        T, k, y = self.features.dense() @ W.T, self.n_clusters, np.asarray(labels)
        losses = []
        for p in range(k):
            own = np.flatnonzero(y == p)
            if len(own):
                rest = cp.max(cp.vstack([T[own, q] for q in range(k) if q != p]), axis=0)
                losses.append(cp.sum(self.loss.atom(T[own, p] - rest)))
        return cp.sum(cp.hstack(losses)) / self.n

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((7, 2)) + 3.0 * (np.arange(7).reshape(-1, 1) % 2)
        Y = rng.standard_normal((6, 2)) + 4.0 * np.c_[np.arange(6) % 3 == 1, np.arange(6) % 3 == 2]
        return [cls(X, 2), cls(Y, 3, beta=0.02), cls(X, 2, beta=0.1, kernel=Gaussian(width=0.7)),
                cls(X + 2.0, 2, balance=1.0, center=False)]


def _shown(point: Any) -> str:
    """A point that is none, for a message."""
    if isinstance(point, np.ndarray):
        return f"an array of shape {point.shape}" \
            + (" with NaN or infinity" if point.dtype.kind == "f" and not np.isfinite(point).all()
               else "")
    if isinstance(point, tuple | list):
        return f"a {type(point).__name__} of {', '.join(_shown(part) for part in point[:3])}" \
            + (" ..." if len(point) > 3 else "")
    return type(point).__name__
