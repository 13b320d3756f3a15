"""Multi-class maximum-margin clustering: the hinge family's own problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mmcopt.capabilities import Bounded, CutRisk, LiftedMargin, MarginRisk, Refit, Subgradient
from mmcopt.checks import plural, real
from mmcopt.constraints import Balance
from mmcopt.errors import DataError
from mmcopt.formulations.crammer_singer import CrammerSinger, GivenLabels
from mmcopt.formulations.linearized import LinearizedCPM3C
from mmcopt.formulations.margin_problem import MarginProblem, Row, loss_sum, shown
from mmcopt.formulations.margin_regression import refit
from mmcopt.kernels import Gaussian, Kernel
from mmcopt.kernels.block_features import BlockFeatures
from mmcopt.margins import Hinge, MarginLoss
from mmcopt.margins.block_cuts import BlockCuts
from mmcopt.margins.block_floors import (
    FloorLabels,
    OwnRows,
    floor_labels,
    floored_in_blocks,
    label_loss,
    sizes_of,
    small_labels,
)
from mmcopt.margins.block_label_cuts import BlockLabelCuts
from mmcopt.margins.cut_models import LabelCuts, PairCuts, PaperCuts, floored
from mmcopt.margins.ridge import Ridge
from mmcopt.modeling import Statement, cached
from mmcopt.types import Floats, Ints, Labels, RowBlocks, Samples

COLLAPSED = 0.98  # of the trivial objective, from which a solution says next to nothing
TINY_CLASS = 200  # one class in so many samples is a class of next to none


class MarginPoint(NamedTuple):
    """A point where a floor holds the sizes of classes: W, and the labels beside it.

    Of rows in blocks they may be told by a rule, `FloorLabels`.
    """

    W: Floats
    labels: Ints | FloorLabels


class CPM3C(MarginProblem):
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
    `MarginPoint`, (W, labels), and the loss that of those labels, ``l(t_y - max_{q != y} t_q)``.

    ``bias`` is the value of one more feature, the same for all samples and not centred, whose
    weights are counted in |w_p|^2 like others: at 10 they cost next to nothing. It asks for a
    balance, without which a class of all samples would be best.
    """

    paper = "Zhao et al., CPM3C, eq. 6 and 7"
    default_solver = "MarginSearch"
    takes_blocks = True
    machine: ClassVar[Callable[..., GivenLabels]] = CrammerSinger  # what given labels make of it,
    majoriser: ClassVar[Callable[..., GivenLabels]] = LinearizedCPM3C  # and a step of the procedure

    def __init__(self, X: Samples, n_clusters: int = 2, *, beta: float = 0.03,
                 loss: MarginLoss | None = None, balance: float | Balance | None = None,
                 kernel: Kernel | str | None = None, center: bool = True, normalize: bool = True,
                 size_floor: float = 0.0, bias: float = 0.0) -> None:
        super().__init__(X, n_clusters, beta=beta, loss=loss, balance=balance, kernel=kernel,
                         center=center, normalize=normalize, bias=bias)
        real(0, 1).check(type(self).__name__, "size_floor", size_floor)
        self.size_floor = float(size_floor)

    # ------------------------------------------------------------ points

    @property
    def least(self) -> int:
        """Samples that a class must have: ``size_floor`` of the mean, rounded down."""
        return int(self.size_floor * self.n / self.n_clusters + 1e-9)

    @property
    def _beside(self) -> str:  # type: ignore[override]
        return ", with labels beside it: (W, labels)" if self.least else ""

    def _parts(self, point: Any) -> tuple[Any, Any]:
        """W, and the labels beside it or None."""
        pair = self.least and isinstance(point, tuple | list) and len(point) == 2 \
            and np.ndim(point[0]) == 2
        return (point[0], point[1]) if pair else (point, None)

    def as_point(self, given: Any) -> Any:
        W, labels = self._parts(given)
        return given if labels is None else self.joined(np.asarray(W), labels)

    def weights(self, point: Any) -> Floats:
        """W of a point, which has labels beside it when there is a floor on sizes."""
        return super().weights(self._parts(point)[0])

    def agrees(self, point: Any, labels: Ints) -> bool:
        if not self.least:
            return super().agrees(point, labels)
        return np.array_equal(self.labels(point), labels)

    def labels(self, point: Any) -> Ints:
        if not self.least:
            return super().labels(point)
        parts = self.features.gathered(small_labels, self._rule(point), along=self._told(point))
        return np.concatenate(parts).astype(np.int64)

    def _rule(self, point: Any) -> FloorLabels | None:
        """The rule that tells the labels beside W; None where they are given one by one."""
        return floor_labels(self._parts(point)[1], self.n_clusters, self.features.d)

    def _told(self, point: Any) -> OwnRows:
        """What each row needs to know beside the rule: its number, and labels that are given."""
        self.weights(point)
        if self._rule(point) is not None:
            return OwnRows(range(self.n))
        y, k = self._parts(point)[1], self.n_clusters
        found = np.asarray([] if y is None else y)
        if found.shape != (self.n,) or found.dtype.kind not in "iu" or found.min() < 0 \
                or found.max() >= k:
            raise DataError(f"{type(self).__name__}: with a floor on sizes a point is (W, labels), "
                            f"one integer 0..{k - 1} for each of the {self.n} samples; got "
                            f"{shown(point)}.")
        return OwnRows(range(self.n), found)

    def joined(self, W: Floats, labels: Any) -> Any:
        """The point of these weights and, where there is a floor on sizes, labels."""
        if not self.least:
            return W
        rule = floor_labels(labels, self.n_clusters, self.features.d)
        return MarginPoint(W, np.asarray(labels) if rule is None else rule)

    def from_labels(self, labels: Ints) -> Any:
        """Class means as scores, as long as the objective likes them best; with the labels."""
        return self.joined(super().from_labels(labels), labels)

    def objective(self, point: Any) -> float:
        W = self.weights(point)
        if self.least:
            sums = self.features.total_of(label_loss, W, self._rule(point), self.loss,
                                          along=self._told(point))
        else:
            sums = self.features.total_of(loss_sum, W, self.loss)
        return float(self.scale * (self.regulariser(W) + float(sums[0]) / self.n))

    def violation(self, point: Any) -> float:
        worst = super().violation(point)
        if self.least:
            sizes = self.features.total_of(sizes_of, self._rule(point), self.n_clusters,
                                           along=self._told(point))[0]
            worst = max(worst, float(self.least - sizes.min()))
        return worst

    # ------------------------------------------------------------ in words

    def statement(self) -> Statement:
        return Statement(f"{type(self).__name__}: {self._title()}",
                         (*self.rows(), *self._unlabelled(), ("paper", self.paper, "")))

    def _title(self) -> str:
        return f"{plural(self.n, 'sample')}, {self.n_clusters} clusters"

    def _unlabelled(self) -> list[Row]:
        rows = [("non-convex", "the largest score may be any class's; convex for given labels", "")]
        if self.least:
            rows.insert(0, ("sizes", f"at least {self.least} samples in each class, "
                            f"{self.size_floor:g} of n / k, by labels beside W",
                            rf"|\{{i : y_i = p\}}| \ge {self.least}"))
        return rows

    def caution(self, point: Any, labels: Ints | None = None,
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
            return (f"{lost} of {self.n_clusters} lost all samples; ask for fewer clusters or "
                    "give a size_floor, or start from init='kmeans'.")
        if found.min() <= max(1, self.n / TINY_CLASS) and self.n >= 20 * self.n_clusters:
            return (f"a class holds only {plural(int(found.min()), 'sample')} of {self.n}; rows "
                    "that are far from all others may hold it: look at the scale of the features, "
                    "or give a size_floor.")
        return None

    def _lighter(self) -> str:
        """What makes the first term count less, in words."""
        return f"a smaller beta than {self.beta:g}"

    # ------------------------------------------------------------ convex problems of given labels

    def restrict(self, labels: Labels) -> GivenLabels:
        """The convex problem once every sample has its label."""
        return self._given(self.machine, labels)

    def linearize(self, point: Any) -> GivenLabels:
        """The convex problem of a step of the concave-convex procedure at a point (eq. 20).

        It is nowhere below this one and touches it at the point. With a floor on sizes, where the
        labels stand beside W, that is the problem of these labels.
        """
        labels = self.labels(point)
        return self.restrict(labels) if self.least else self._given(self.majoriser, labels)

    def _given(self, cls: Callable[..., GivenLabels], labels: Any) -> GivenLabels:
        """A problem of given labels, with the parameters and features of this one."""
        params = {key: value for key, value in self.params().items() if key != "size_floor"}
        made = cls(params.pop("X"), labels, params.pop("n_clusters"), **params)
        made.share_features(self)
        return made

    # ------------------------------------------------------------ offers

    @property
    def shift(self) -> float:
        """What |w|^2 counts in a regression on ``w'x = (w_1 - w_0)'x``: beta/2 |W|^2 is n times."""
        return self.n * self.beta / 4.0

    @cached
    def ridge(self) -> Ridge:
        """The regression itself, factorised."""
        return Ridge(self.features, self.shift)

    def offer(self, kind: type[Any]) -> Any:
        if kind is Bounded:
            return Bounded(lambda duals: 0.0, lambda point: {}, trivial=0.0)
        blocked = isinstance(self.X, RowBlocks)
        if kind is CutRisk:
            printed = isinstance(self.loss, Hinge) and not self.least and not blocked
            return self.cut_risk(kinds=("pair", "paper") if printed else ("pair",),
                                 point=self.joined, weights=self.weights)
        if blocked:
            return None
        if kind is LiftedMargin and type(self.loss) is Hinge and not self.blocks:
            # A floor on sizes leaves fewer points, and margins of given labels are never larger.
            limit = None if self.balance_rows is None else self.balance
            return LiftedMargin(self.features, self.n_clusters, self.beta, limit, self.weights,
                                max(1, self.least))
        if self.least or self.blocks:
            return None
        if kind in (Subgradient, MarginRisk) and self.balance_rows is None:
            return MarginRisk(self.features, self.n_clusters, self.beta, self.loss)
        if kind is Refit and self.n_clusters == 2:
            return refit(self)
        return None

    def _cuts(self, W: Floats, kind: str, start: Any) -> PairCuts:
        if self.least:
            return self._label_cuts(W, start)
        if isinstance(self.features, BlockFeatures):
            return BlockCuts(self.features, self.n_clusters, self.loss, W)
        cls = PaperCuts if kind == "paper" else PairCuts
        return cls(self.features, self.n_clusters, self.loss,
                   self.features.scores(W).argmax(axis=1))

    def _label_cuts(self, W: Floats, start: Any) -> PairCuts:
        """Cuts whose anchor has the labels of a start, where these keep the floor."""
        k, features = self.n_clusters, self.features
        kept = start is not None and self._parts(start)[1] is not None \
            and self.violation(start) <= 0.0
        if isinstance(features, BlockFeatures):
            y = floored_in_blocks(features, W, self.least) if not kept else \
                self._rule(start) or self.labels(start)
            return BlockLabelCuts(features, k, self.loss, y, self.least)
        y = self.labels(start) if kept else floored(features.scores(W), self.least)
        return LabelCuts(features, k, self.loss, y, self.least)

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((7, 2)) + 3.0 * (np.arange(7).reshape(-1, 1) % 2)
        Y = rng.standard_normal((6, 2)) + 4.0 * np.c_[np.arange(6) % 3 == 1, np.arange(6) % 3 == 2]
        return [cls(X, 2), cls(Y, 3, beta=0.02), cls(X, 2, beta=0.1, kernel=Gaussian(width=0.7)),
                cls(X + 2.0, 2, balance=1.0, center=False)]
