"""The lifted k-means problem: a semidefinite program over X, and the bound that duals prove.

Clusters of nodes of volumes m enter a size-normalised objective only through the matrix
X = sum_h z_h z_h' / m'z_h, whose entries are one over the volume of a cluster for nodes that share
it, and 0 otherwise. Peng and Wei (2007) put a positive semidefinite X >= 0 with Xm = e and
<diag m, X> = k in its place. Its rows allow cuts: X_ij <= X_ii, and X_ij + X_il <= X_ii + X_jl.
Where volumes are the weights that bounds on sizes speak of, these are bounds on X_ii.

Solvers see the arrays of one `RatioLift` and nothing else; `RatioLift.lower` is the only formula of
the bound.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.capabilities import Capability, LabelRatio
from mmcopt.errors import BackendError
from mmcopt.linalg import UNIT, indefiniteness, leading_pairs, proved_psd_shift
from mmcopt.types import Floats, Ints

Duals = dict[str, Any]
DUALS = ("v", "N", "d", "g", "cuts")  # by name
NO_CUTS = np.empty((0, 3), dtype=np.int64)
PAIR = -1  # in the place of the third node of a cut on two


@dataclass(frozen=True, eq=False)
class RatioLift(Capability):
    """Minimise ``base - scale <W, X>`` over X psd, X >= 0, Xm = e, <diag m, X> = k; n nodes.

    ``volumes`` holds m, all above 0. X_ij = 0 for the pairs ``apart``. When ``cuts``, all cuts
    (i, j, l) belong to the program, X_ij + X_il <= X_ii + X_jl, or X_ij <= X_ii where l is -1;
    solvers add those that are violated. ``least`` and ``most`` bound the volume of the cluster that
    holds a node, 1 / most <= X_ii <= 1 / least; without rules they say nothing. Node j of the label
    problem is node ``groups[j]``.
    """

    W: Floats
    volumes: Floats
    k: int
    base: float
    scale: float
    apart: Ints
    cuts: bool = False
    least: Any = None
    most: Any = None
    groups: Any = None

    def __post_init__(self) -> None:
        for name, default in (("least", self.volumes), ("most", np.full(self.n, np.inf)),
                              ("groups", np.arange(self.n))):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    def over(self, groups: Ints) -> RatioLift:
        """The lift of a problem of more nodes, of which ``groups`` says what they are here."""
        return dataclasses.replace(self, groups=self.groups[groups])

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.W.shape[0])

    @functools.cached_property
    def sized(self) -> bool:
        """Whether bounds on the volumes of clusters say something."""
        return bool((self.least > self.volumes).any() or np.isfinite(self.most).any())

    @functools.cached_property
    def root(self) -> Floats:
        """About m^-1/2: where X is scaled by 1 / root on both sides its eigenvalues are in [0, 1].

        They are for the X that labels give, whose k eigenvalues above 0 are 1, and as X >= 0 has
        the positive eigenvector m^1/2 at 1 then, for all X of the program.
        """
        return np.asarray(1.0 / np.sqrt(self.volumes))

    @functools.cached_property
    def scaled(self) -> Floats:
        """W scaled by ``root`` on both sides."""
        return self.W * np.outer(self.root, self.root)

    # ------------------------------------------------------------ values

    def objective(self, X: Floats) -> float:
        """The relaxed objective."""
        return float(self.base - self.scale * np.sum(self.W * X))

    def violation(self, X: Floats) -> float:
        """Largest violation of a constraint by X, the smallest eigenvalue included."""
        from mmcopt.compiled.ratio_cuts import most_violated

        scaled = X / np.outer(self.root, self.root)
        worst = [indefiniteness(scaled), -float(X.min()),
                 float(np.abs(X @ self.volumes - 1.0).max()),
                 abs(float(self.volumes @ np.diagonal(X)) - self.k)]
        if self.sized:  # relative to the bounds
            own = np.diagonal(X)
            worst += [float((own * self.least).max()) - 1.0,
                      1.0 - float((own * self.most)[np.isfinite(self.most)].min(initial=1.0))]
        if len(self.apart):
            worst.append(float(np.abs(X[self.apart[:, 0], self.apart[:, 1]]).max()))
        if self.cuts:  # relative to the entries of a cluster of one
            worst.append(float(most_violated(np.ascontiguousarray(X))) * float(self.volumes.min()))
        return max(0.0, *worst)

    # ------------------------------------------------------------ the bound

    def clean(self, duals: Duals) -> tuple[Floats, Floats, Floats, Floats, Ints]:
        """v, N, d, g and the cuts, of the right shapes and signs; what is absent is zero."""
        n = self.n
        v = np.asarray(duals.get("v", np.zeros(n)), dtype=np.float64)
        N = np.asarray(duals.get("N", np.zeros((n, n))), dtype=np.float64)
        d = np.asarray(duals.get("d", np.zeros(n)), dtype=np.float64)
        cuts = np.asarray(duals.get("cuts", NO_CUTS))
        if not cuts.size:
            cuts = NO_CUTS
        g = np.asarray(duals.get("g", np.zeros(len(cuts))), dtype=np.float64)
        if v.shape != (n,) or N.shape != (n, n) or d.shape != (n,):
            raise ValueError(f"duals v, N and d must have shapes ({n},), ({n}, {n}) and ({n},), "
                             f"got {v.shape}, {N.shape} and {d.shape}")
        if cuts.dtype.kind != "i" or cuts.ndim != 2 or cuts.shape[1] != 3 \
                or g.shape != (len(cuts),):
            raise ValueError("cuts must be rows of three whole numbers, with one dual g for each")
        i, j, h = cuts.T
        if cuts.size and (cuts[:, :2].min() < 0 or h.min() < PAIR or cuts.max() >= n
                          or (i == j).any() or (i == h).any() or (j == h).any()):
            raise ValueError("a cut is malformed")
        v, N, d, g = (np.nan_to_num(a, nan=0.0, posinf=0.0, neginf=0.0) for a in (v, N, d, g))
        a, b = self.apart.T
        free = N[a, b] + N[b, a]
        N = np.maximum(N, 0.0)
        N = N / 2 + N.T / 2
        N[a, b] = N[b, a] = free / 2
        return v, N, d, np.maximum(g, 0.0), cuts.astype(np.int64)

    @np.errstate(over="ignore", invalid="ignore")  # forged duals may be huge
    def lower(self, duals: Duals) -> float:
        """A lower bound on the objective of all labels, proved, for any duals whatever.

        With S = W - vm' - mv' + N - diag d - sum g_c A_c, where cut c is <A_c, X> <= 0, and d+ and
        d- the parts of d, <W, X> <= 2 e'v + e'(d+ / least - d- / most) + <S, X>, and <S, X> is at
        most the sum of the k largest eigenvalues of S scaled by ``root``. That sum is at most
        k t + tr Z for all t and psd Z for which t I + Z - S is psd, which a Cholesky factorisation
        proves. Rounding of S, Z, ``root`` and sums is added.
        """
        v, N, d, g, cuts = self.clean(duals)
        S, size = self._slack(v, N, d, g, cuts)
        if not (math.isfinite(size) and np.isfinite(S).all()):
            return -math.inf
        n, k = self.n, min(self.k, self.n)
        try:
            w, V = leading_pairs(S, k)
            t = float(w[0])
            F = V * np.sqrt(np.maximum(w - t, 0.0))
            Z = F @ F.T
            size += (k + 4) * UNIT * float((np.abs(F) @ np.abs(F).sum(axis=0)).max())
            size += 4 * UNIT * (abs(t) + float(np.abs(S).sum(axis=1).max()))
            Z -= S
            Z[np.diag_indices(n)] += t
            shift = proved_psd_shift(Z, 0.0)
        except (BackendError, np.linalg.LinAlgError):
            return -math.inf
        edge = np.maximum(d, 0.0) / self.least - np.maximum(-d, 0.0) / self.most
        parts = [2 * math.fsum(v), k * t, math.fsum(np.square(F).sum(axis=0)), k * (shift + size),
                 math.fsum(edge)]
        margin = 4 * (k + n + 4) * UNIT * (sum(map(abs, parts)) + float(np.abs(edge).sum()))
        upper = math.fsum(parts) + margin
        # Sums over W where nodes were merged, and those of the last line.
        margin = 2 * (n + 8) * UNIT * float(np.abs(self.scaled).sum()) + 8 * UNIT * abs(upper)
        bound = self.base - self.scale * (upper + margin) - 8 * UNIT * abs(self.base)
        return float(bound) if math.isfinite(bound) else -math.inf

    def _slack(self, v: Floats, N: Floats, d: Floats, g: Floats,
               cuts: Ints) -> tuple[Floats, float]:
        """S scaled by ``root``, and a bound on the spectral norm of its rounding error."""
        n, r = self.n, self.root
        vm = np.outer(v, self.volumes)
        S = self.W - (vm + vm.T) + N
        S[np.diag_indices(n)] -= d
        vm = np.abs(vm)
        size = np.abs(self.W) + (vm + vm.T) + np.abs(N)
        size[np.diag_indices(n)] += np.abs(d)
        terms = 14
        if len(cuts):
            i, j, coef = entries(cuts)
            weights = 0.5 * coef * np.tile(g, 4)
            flat = i * n + j
            for to, what in ((S, -weights), (size, np.abs(weights))):
                added = np.bincount(flat, weights=what, minlength=n * n).reshape(n, n)
                to += added + added.T
            terms += 2 * int(np.bincount(flat).max())
        outer = np.outer(r, r)
        return S * outer, float(terms * UNIT * (size * outer).sum(axis=1).max())


def ratio_lift(ratio: LabelRatio) -> RatioLift:
    """The lift of a size-normalised problem; nodes of different known labels are apart.

    Bounds on sizes are left out where volumes are not the weights, as they say nothing of volumes.
    """
    held = np.flatnonzero(ratio.fixed >= 0)
    a, b = np.triu_indices(held.size, 1)
    unlike = np.column_stack([held[a], held[b]])
    unlike = unlike[ratio.fixed[unlike[:, 0]] != ratio.fixed[unlike[:, 1]]]
    apart = np.unique(np.sort(np.concatenate([ratio.apart, unlike]), axis=1), axis=0)
    W = np.asarray(ratio.matrix.dense(), dtype=np.float64)
    least, most = _volumes_around(ratio)
    return RatioLift(W, ratio.volumes, ratio.k, ratio.constant, ratio.scale, apart, least=least,
                     most=most)


def _volumes_around(ratio: LabelRatio) -> tuple[Floats | None, Floats | None]:
    """Bounds on the volume of the cluster of each node, by the rules for sizes; None without.

    What the others must have at least a cluster cannot have, and what they may not have it must.
    """
    total = int(ratio.weights.sum())
    if not ratio.sized or not np.array_equal(ratio.volumes, ratio.weights):
        return None, None
    low = np.maximum(ratio.low, total - (ratio.high.sum() - ratio.high))
    high = np.minimum(ratio.high, total - (ratio.low.sum() - ratio.low))
    known = ratio.fixed >= 0
    least = np.where(known, low[ratio.fixed], low.min()).astype(np.float64)
    most = np.where(known, high[ratio.fixed], high.max()).astype(np.float64)
    return np.maximum(least, ratio.volumes), most


def inherited(parent: RatioLift, child: RatioLift, duals: Duals) -> Duals:
    """Duals of a lift with nodes merged or set apart that prove no less than those of the first.

    S becomes B'SB. Of cuts on merged nodes nothing is left, or 2 X_ij <= X_ii + X_jj, which is so
    of psd matrices and only in the way. An ``X`` beside the duals, at which a solver may begin, has
    the means of its entries.
    """
    from scipy.sparse import csr_matrix

    place = child.groups[np.unique(parent.groups, return_index=True)[1]]
    v, N, d, g, cuts = parent.clean(duals)
    B = csr_matrix((np.ones(parent.n), (place, np.arange(parent.n))), shape=(child.n, parent.n))
    rows = np.where(cuts == PAIR, PAIR, place[cuts])
    kept = (rows[:, 0] != rows[:, 1]) & (rows[:, 0] != rows[:, 2]) & (rows[:, 1] != rows[:, 2])
    rows, g = rows[kept], g[kept]
    three = rows[:, 2] != PAIR
    rows[three, 1:] = np.sort(rows[three, 1:], axis=1)
    rows, which = np.unique(rows, axis=0, return_inverse=True)
    out = {"v": B @ v, "N": np.asarray((B @ N) @ B.T), "d": B @ d, "cuts": rows,
           "g": np.bincount(which.reshape(-1), weights=g, minlength=len(rows))}
    if "X" in duals:
        mean = B.multiply(parent.volumes).multiply(1.0 / child.volumes[:, None]).tocsr()
        out["X"] = np.asarray((mean @ duals["X"]) @ mean.T)
    return out | {name: duals[name] for name in ("sigma", "least") if name in duals}


def entries(cuts: Ints) -> tuple[Ints, Ints, Floats]:
    """Where the matrices of cuts are not zero: all first entries, all second ones and so on.

    A cut on two nodes has its missing entries at (i, i), with coefficient 0.
    """
    i, j, h = cuts.T
    three = h != PAIR
    one, third, second = np.ones(len(cuts)), np.where(three, h, i), np.where(three, j, i)
    return (np.concatenate([i, i, i, second]), np.concatenate([j, third, i, third]),
            np.concatenate([one, 1.0 * three, -one, -1.0 * three]))


def violated(lift: RatioLift, X: Floats, most: int, least: float) -> Ints:
    """Up to ``most`` cuts that X violates by more than ``least``, the most violated first."""
    from mmcopt.compiled.ratio_cuts import collect

    room = 4 * most + 16
    out, by = np.empty((room, 3), dtype=np.int64), np.empty(room)
    found = collect(np.ascontiguousarray(X, dtype=np.float64), least, most, out, by)
    return out[np.argsort(-by[:found], kind="stable")[:most]]
