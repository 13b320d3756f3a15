"""The lifted label problem: a semidefinite program over X, and the bound that any dual point gives.

Labels enter a `LabelQuadratic` only through the co-membership matrix M_ij = [c_i = c_j]. Convex
relaxations put a positive semidefinite X in its place, whose entries run from ``floor`` (apart) to
``top`` (together):

    two clusters   X = Y = yy',     floor = -1,   top = 1         (`binary_lift`)
    k clusters     X = M - J/k,     floor = -1/k, top = 1 - 1/k   (`partition_lift`)
    DIFFRAC        X = M,           floor = 0,    top = 1

Solvers see the arrays of one `Lift` and nothing else; `Lift.upper` is the only bound formula.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmcopt.capabilities import Capability, LabelQuadratic
from mmcopt.checks import require_memory
from mmcopt.constraints import square_sums
from mmcopt.errors import BackendError, InfeasibleError
from mmcopt.linalg import UNIT, indefiniteness, proved_psd_shift
from mmcopt.tables import spoken
from mmcopt.types import Floats, Ints

Duals = dict[str, Any]
DUALS = ("u", "t", "up", "down", "pairs", "g", "N", "triangles", "cliques", "odd")  # by name
NO_CUTS = np.empty((0, 4), dtype=np.int64)
NO_SETS = np.empty((0, 5), dtype=np.int64)
LARGEST_ODD = 99  # nodes of an odd set: it has half as many entries as their square
# Signs of the three entries (ij, ik, jl) of a triangle cut of each type.
SIGNS = np.array([[-1, -1, -1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]], dtype=np.float64)


@dataclass(frozen=True)
class Cuts:
    """Valid inequalities on entries of X: triangles, cliques of k + 1 nodes, and odd sets.

    A triangle (i, j, l, type) says in words of M: type 0 of the three nodes two are together (two
    clusters only); types 1-3 if two pairs are together, so is the third. A clique says that of
    k + 1 nodes two are together. A row of an odd set (two clusters only) holds b (node + 1), b = 1
    or -1, for an odd number s of nodes, of which some may be the same: as (sum b_p y_p)^2 is odd,
    ``-sum_{p<q} b_p b_q X_pq <= (s - 1) / 2`` (pentagonal where s = 5; triangles are s = 3). Rows
    of fewer nodes than others are filled up with zeros, which count for nothing.
    """

    triangles: Ints = dataclasses.field(default_factory=lambda: NO_CUTS)
    cliques: Ints = dataclasses.field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    odd: Ints = dataclasses.field(default_factory=lambda: NO_SETS)

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many there are of each kind."""
        return len(self.triangles), len(self.cliques), len(self.odd)

    @property
    def by_name(self) -> dict[str, Ints]:
        """The cuts as a certificate names them."""
        return {"triangles": self.triangles, "cliques": self.cliques, "odd": self.odd}

    def parted(self, values: Any) -> list[Any]:
        """Numbers of all cuts as those of each kind."""
        return np.split(values, np.cumsum(self.counts)[:-1])

    def take(self, keep: NDArray[np.bool_]) -> Cuts:
        """The cuts that a mask keeps."""
        t, c, o = self.parted(keep)
        return Cuts(self.triangles[t], self.cliques[c], self.odd[o])

    def join(self, other: Cuts) -> Cuts:
        """These cuts and, after them in each kind, the others that are not among them."""
        width = max(self.odd.shape[1], other.odd.shape[1])
        return Cuts(_new_rows(self.triangles, other.triangles),
                    _new_rows(self.cliques, other.cliques),
                    _new_rows(filled(self.odd, width), filled(other.odd, width)))

    def carry(self, values: Floats, cuts: Cuts) -> Floats:
        """Numbers of these as those of joined cuts, where each kind begins with these; else 0."""
        out = np.zeros(len(cuts))
        for new, kept in zip(cuts.parted(out), self.parted(values), strict=True):
            new[:len(kept)] = kept
        return out


def narrowed(odd: Ints) -> Ints:
    """Rows of odd sets with zeros behind, if any, and no more columns than the longest needs."""
    if odd.ndim != 2:
        raise ValueError("the cuts of odd sets must have a row each")
    if not odd.size:
        return NO_SETS
    sizes = np.count_nonzero(odd, axis=1)
    width = int(sizes.max())
    if width > LARGEST_ODD:
        raise ValueError(f"odd sets have {LARGEST_ODD} nodes at the most, got {width}")
    if width == 0 or (sizes == odd.shape[1]).all():
        return odd
    order = np.argsort(odd == 0, axis=1, kind="stable")[:, :width]
    return np.ascontiguousarray(np.take_along_axis(odd, order, axis=1))


def filled(odd: Ints, width: int) -> Ints:
    """Rows of odd sets, with zeros behind up to that width."""
    return np.pad(odd, ((0, 0), (0, width - odd.shape[1])))


def _new_rows(old: Ints, new: Ints) -> Ints:
    if not len(new):
        return old
    if not len(old):
        return new
    seen = {row.tobytes() for row in np.ascontiguousarray(old)}
    fresh = [row.tobytes() not in seen for row in np.ascontiguousarray(new)]
    return np.concatenate([old, new[fresh]])


@dataclass(frozen=True)
class Entries:
    """Cuts as entries: cut c is ``sum of coef X[i, j] over its entries <= right``."""

    cut: Ints
    i: Ints
    j: Ints
    coef: Floats
    right: Floats

    def __post_init__(self) -> None:
        start = np.searchsorted(self.cut, np.arange(self.right.size))
        object.__setattr__(self, "start", start)

    def of(self, X: Floats) -> Floats:
        """The left side of each cut at X."""
        if not self.right.size:
            return np.zeros(0)
        start: Any = self.__dict__["start"]
        return np.asarray(np.add.reduceat(self.coef * X[self.i, self.j], start))

    def add(self, S: Floats, g: Floats) -> None:
        """Add sum_c g_c A_c to S in place."""
        if self.right.size:
            flat = np.bincount(self.i * len(S) + self.j, weights=0.5 * self.coef * g[self.cut],
                               minlength=S.size).reshape(S.shape)
            S += flat + flat.T


@dataclass(frozen=True, eq=False)
class Lift(Capability):
    """Maximise <R, X> over X psd, diag X = top, and the linear rows below; m nodes.

    ``square_low <= b'Xb <= square``, ``row_low <= (Xb)_i <= row_high`` for i in ``rows``,
    X_ij >= floor for all pairs when ``bounded``, X_ij = floor for ``pairs``, and, when ``cuts``,
    all `Cuts`, of which solvers add those that are violated, odd sets only where ``odd``. The
    objective of the label problem is at least ``base - scale <R, X>``. Node j of the label problem
    is ``signs[j]`` times node ``groups[j]`` of the lift. ``mass`` is the sum of |W_ij|, to which
    rounding is relative.
    """

    R: Floats
    k: int
    top: float
    floor: float
    b: Floats
    square: float
    square_low: float
    base: float
    scale: float
    groups: Ints
    signs: Floats
    bounded: bool
    rows: Ints
    row_low: Floats
    row_high: Floats
    pairs: Ints
    mass: float
    cuts: bool = False
    odd: bool = False

    @property
    def m(self) -> int:
        """Number of nodes."""
        return int(self.R.shape[0])

    @property
    def binary(self) -> bool:
        """Whether X = Y = yy'."""
        return self.floor == -1.0

    @property
    def trace(self) -> float:
        """The trace of every feasible X."""
        return self.m * self.top

    @property
    def norm(self) -> float:
        """Bound on the Frobenius norm of X that labels give."""
        if self.binary:
            return float(self.m)
        per_node = min(float(self.m), math.sqrt(self.m * self.trace))
        return max(per_node, self.trace)

    @property
    def flat(self) -> bool:
        """Whether Xb = 0 for every feasible X and not by b = 0: clusters of equal size."""
        return self.square <= 1e-12 * float(np.abs(self.b).sum()) ** 2 and bool(self.b.any())

    @property
    def extras(self) -> str | None:
        """What there is besides the diagonal and ``b'Xb <= square``, as a refusal; or None."""
        if self.cuts:
            return "it handles no cuts; RegularizedDual does."
        if self.bounded or self.rows.size or self.pairs.size or self.square_low > 0:
            return ("it handles the diagonal and one balance only, and this program has more rows; "
                    "RegularizedDual and Conic take them.")
        return None

    # ------------------------------------------------------------ values

    def objective(self, X: Floats) -> float:
        """The relaxed objective in the units of the label problem."""
        return float(self.base - self.scale * np.sum(self.R * X))

    def entries(self, cuts: Cuts) -> Entries:
        """Cuts as entries of X with right sides; rows that are no valid cut raise ValueError."""
        t, q, o = np.asarray(cuts.triangles), np.asarray(cuts.cliques), np.asarray(cuts.odd)
        if t.size and (t.min() < 0 or t[:, :3].max() >= self.m or t[:, 3].max() > 3
                       or (t[:, 0] == t[:, 1]).any() or (t[:, 0] == t[:, 2]).any()
                       or (t[:, 1] == t[:, 2]).any() or (not self.binary and (t[:, 3] == 0).any())):
            raise ValueError("a triangle cut is malformed")
        s = SIGNS[t[:, 3]] if t.size else np.empty((0, 3))
        ti, tj, tl = (t[:, c] for c in range(3)) if t.size else (np.empty(0, np.int64),) * 3
        cut = [np.repeat(np.arange(len(t)), 3)]
        i = [np.column_stack([ti, ti, tj]).reshape(-1)]
        j = [np.column_stack([tj, tl, tl]).reshape(-1)]
        coef, right = [s.reshape(-1)], [np.full(len(t), self.top)]
        if q.size:
            size = self.k + 1
            ordered = np.sort(q, axis=1)
            if q.shape[1] != size or q.min() < 0 or q.max() >= self.m \
                    or (np.diff(ordered, axis=1) == 0).any():
                raise ValueError("a clique cut is malformed")
            a, b = np.triu_indices(size, 1)
            cut.append(np.repeat(len(t) + np.arange(len(q)), a.size))
            i.append(q[:, a].reshape(-1))
            j.append(q[:, b].reshape(-1))
            coef.append(np.full(len(q) * a.size, -1.0))
            span = self.top - self.floor
            right.append(np.full(len(q), -span - a.size * self.floor))
        if o.size:
            sizes = np.count_nonzero(o, axis=1)
            if not self.binary or (sizes % 2 == 0).any() or sizes.min() < 3 \
                    or o.min() < -self.m or o.max() > self.m:
                raise ValueError("a cut of an odd set is malformed")
            a, b = np.triu_indices(o.shape[1], 1)
            product = np.sign(o)[:, a] * np.sign(o)[:, b]
            row, pair = np.nonzero(product)
            cut.append(len(t) + len(q) + row)
            i.append(np.abs(o)[row, a[pair]] - 1)
            j.append(np.abs(o)[row, b[pair]] - 1)
            coef.append(-product[row, pair].astype(np.float64))
            right.append((sizes - 1) / 2)
        return Entries(np.concatenate(cut), np.concatenate(i), np.concatenate(j),
                       np.concatenate(coef), np.concatenate(right))

    def over(self, groups: Ints) -> Lift:
        """The lift of a problem of more nodes, of which ``groups`` says what they are here."""
        return dataclasses.replace(self, groups=self.groups[groups], signs=self.signs[groups])

    def violation(self, X: Floats, cuts: Cuts | None = None) -> float:
        """Largest violation of a constraint by X, the smallest eigenvalue included."""
        Xb = X @ self.b
        worst = [float(np.abs(np.diagonal(X) - self.top).max()),
                 indefiniteness(X),
                 (float(self.b @ Xb) - self.square) / max(1.0, self.square),
                 (self.square_low - float(self.b @ Xb)) / max(1.0, self.square_low)]
        if self.rows.size:
            worst += [float((self.row_low - Xb[self.rows]).max()),
                      float((Xb[self.rows] - self.row_high).max())]
        if self.bounded:
            worst.append(self.floor - float(X.min()))
        if self.pairs.size:
            worst.append(float(np.abs(X[self.pairs[:, 0], self.pairs[:, 1]] - self.floor).max()))
        if cuts is not None and len(cuts):
            entries = self.entries(cuts)
            worst.append(float((entries.of(X) - entries.right).max()))
        return max(0.0, *worst)

    # ------------------------------------------------------------ the bound

    def slack(self, duals: Duals, entries: Entries) -> Floats:
        """S = Diag(u) + sym((v+ - v-) b') + t bb' + sum g A + pairs - N - R for clean duals."""
        b, t = self.b, duals["t"]
        S = -self.R
        w = 0.5 * t * b
        if self.rows.size:
            w += 0.5 * np.bincount(self.rows, weights=duals["up"] - duals["down"],
                                   minlength=self.m)
        if w.any():
            wb = np.outer(w, b)
            S += wb
            S += wb.T
        if self.bounded:
            S -= duals["N"]
        entries.add(S, duals["g"])
        if self.pairs.size:
            i, j = self.pairs.T
            np.add.at(S, (i, j), 0.5 * duals["pairs"])
            np.add.at(S, (j, i), 0.5 * duals["pairs"])
        S[np.diag_indices(self.m)] += duals["u"]
        return S

    def clean(self, duals: Duals) -> tuple[Duals, Cuts]:
        """Dual arrays of the right shapes with the right signs; what is absent is zero."""
        def array(name: str, shape: tuple[int, ...]) -> Floats:
            given = duals.get(name)
            out = np.zeros(shape) if given is None else np.asarray(given, dtype=np.float64)
            if out.shape != shape:
                raise ValueError(f"dual {name} must have shape {shape}, got {out.shape}")
            return np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0)

        triangles = np.asarray(duals.get("triangles", NO_CUTS), dtype=np.int64).reshape(-1, 4)
        cliques = np.asarray(duals.get("cliques", np.empty((0, 0))), dtype=np.int64)
        odd = narrowed(np.asarray(duals.get("odd", NO_SETS), dtype=np.int64))
        cuts = Cuts(triangles, cliques.reshape(-1, self.k + 1) if cliques.size else cliques, odd)
        r, m = self.rows.size, self.m
        out = {"u": array("u", (m,)), "t": float(array("t", ())),
               "up": np.maximum(array("up", (r,)), 0.0),
               "down": np.maximum(array("down", (r,)), 0.0),
               "pairs": array("pairs", (len(self.pairs),)),
               "g": np.maximum(array("g", (len(cuts),)), 0.0)}
        if self.bounded:
            N = np.maximum(array("N", (m, m)), 0.0)
            N = (N + N.T) / 2
            N[np.diag_indices(m)] = 0.0
            out["N"] = N
        return out, cuts

    def linear(self, duals: Duals, right: Floats) -> list[Floats]:
        """The terms whose sum is the bound when S is positive semidefinite."""
        t = duals["t"]
        terms = [self.top * duals["u"], self.row_high * duals["up"], -self.row_low * duals["down"],
                 np.array([self.square * max(t, 0.0) - self.square_low * max(-t, 0.0)]),
                 right * duals["g"], self.floor * duals["pairs"]]
        if self.bounded:
            terms.append(-self.floor * duals["N"].reshape(-1))
        return terms

    @np.errstate(over="ignore", invalid="ignore")  # forged duals may be huge, and cuts NaN
    def upper(self, duals: Duals) -> float:
        """An upper bound on <R, X> over all feasible X, proved, for any duals whatever.

        With S = `slack`, <R, X> = <S + R, X> - <S, X> <= linear terms + tr(X) d for every d with
        S + d I psd, which a Cholesky factorisation proves; when Xb = 0 only the part of S
        orthogonal to b counts. Rounding of S and of the sums is added.
        """
        duals, cuts = self.clean(duals)
        entries = self.entries(cuts)
        S = self.slack(duals, entries)
        size = self._size(duals, entries)
        if self.flat:
            S = orthogonal(S, self.b)
        parts = np.concatenate([np.ravel(a) for a in self.linear(duals, entries.right)])
        spread = float(np.abs(parts).sum())
        if not (np.isfinite(S).all() and math.isfinite(size) and math.isfinite(spread)):
            return math.inf
        try:
            d = proved_psd_shift(S, max(0.0, -float(np.linalg.eigvalsh(S)[0])))
        except (BackendError, np.linalg.LinAlgError):
            return math.inf
        return math.fsum(parts) + 4 * UNIT * spread + self.trace * (d + size)

    def _size(self, duals: Duals, entries: Entries) -> float:
        """Bound on the spectral norm of the rounding error of S: a few ulps of each term."""
        b, m = np.abs(self.b), self.m
        rows = np.abs(duals["u"]) + np.abs(self.R).sum(axis=1) + abs(duals["t"]) * b * b.sum()
        if self.rows.size:
            v = np.bincount(self.rows, weights=duals["up"] + duals["down"], minlength=m)
            rows += 0.5 * (v * b.sum() + b * v.sum())
        if self.bounded:
            rows += duals["N"].sum(axis=1)
        flat = np.empty(0, dtype=np.int64)
        if entries.right.size:
            value = np.abs(entries.coef) * duals["g"][entries.cut]
            rows += np.bincount(entries.i, weights=value, minlength=m)
            rows += np.bincount(entries.j, weights=value, minlength=m)
            flat = np.minimum(entries.i, entries.j) * m + np.maximum(entries.i, entries.j)
        if self.pairs.size:
            rows += np.bincount(self.pairs.reshape(-1), minlength=m,
                                weights=np.repeat(np.abs(duals["pairs"]), 2))
        terms = 10 + (int(np.unique(flat, return_counts=True)[1].max()) if flat.size else 0)
        if self.flat:  # the projection adds sums over m terms
            terms += 4 * m
        return float(terms * UNIT * rows.max())

    def lower(self, duals: Duals) -> float:
        """The lower bound on the label problem that the duals prove."""
        upper = self.upper(duals)
        if not math.isfinite(upper):
            return -math.inf
        margin = 8 * UNIT * (abs(self.base) + self.scale * abs(upper))
        # Sums over W, in ``base`` and where nodes were merged.
        margin += 2 * (self.groups.size + 8) * UNIT * self.scale * self.mass
        return float(self.base - self.scale * upper - margin)


def orthogonal(S: Floats, b: Floats) -> Floats:
    """H S H with H = I - bb'/b'b."""
    q = b / np.linalg.norm(b)
    Sq = S @ q
    out = S - np.outer(q, Sq) - np.outer(Sq, q) + (q @ Sq) * np.outer(q, q)
    return np.asarray((out + out.T) / 2)


# ---------------------------------------------------------------- room and time


def _require_arrays(m: int) -> None:
    require_memory(8.0 * 4 * m**2, f"the matrix of the semidefinite relaxation over {m} nodes",
                   "use relax('eig').")


def require_room(lift: Lift, solver: str, matrices: int, seconds: float, way_out: str) -> None:
    """Refuse, before it starts, what needs more m x m matrices than there is memory for.

    ``seconds`` is what it would take, about.
    """
    require_memory(8.0 * matrices * lift.m**2, f"{solver} on {lift.m} x {lift.m} matrices "
                   f"(about {spoken(seconds)})", way_out)


# ---------------------------------------------------------------- from a label problem


def binary_lift(lq: LabelQuadratic) -> Lift:
    """Y = yy' for two clusters; fixed labels and cannot-links merge nodes up to a sign.

    sum_h z_h'Wz_h = (1'W1 + y'Wy) / 2.
    """
    groups, signs = signed_groups(lq)
    m = int(groups.max()) + 1
    _require_arrays(m)
    W = lq.matrix.dense()
    if m < lq.n or (signs < 0).any():
        from scipy.sparse import csr_matrix

        B = csr_matrix((signs, (np.arange(lq.n), groups)), shape=(lq.n, m))
        R = np.asarray(B.T @ (B.T @ W).T)
        R = (R + R.T) / 2
    else:
        R = W
    b = np.bincount(groups, weights=signs * lq.weights, minlength=m)
    n = int(lq.weights.sum())
    low, high = max(lq.low[0], n - lq.high[1]), min(lq.high[0], n - lq.low[1])
    if low > high:
        raise InfeasibleError("no sizes of the two clusters meet the bounds.")
    ends = (2 * int(low) - n, 2 * int(high) - n)
    square = float(max(abs(e) for e in ends)) ** 2
    if not b.any() and not low <= n // 2 <= high:
        raise InfeasibleError("the links pair all samples, which makes clusters of equal size, and "
                              "the sizes forbid these.")
    odd = n % 2
    least = 0 if ends[0] * ends[1] <= 0 else min(abs(e) for e in ends)
    total = float(W.sum())
    none = np.empty(0)
    return Lift(R=R, k=2, top=1.0, floor=-1.0, b=b, square=square,
                square_low=float(max(least, odd)) ** 2 if max(least, odd) > 1 else 0.0,
                base=lq.constant - lq.scale * total / 2, scale=lq.scale / 2, groups=groups,
                signs=signs, bounded=False, rows=np.empty(0, np.int64), row_low=none,
                row_high=none, pairs=np.empty((0, 2), np.int64), mass=float(np.abs(W).sum()))


def signed_groups(lq: LabelQuadratic) -> tuple[Ints, Floats]:
    """Merge nodes of two clusters whose labels determine one another: y_j = signs_j z_groups_j.

    In the graph of all y_j and -y_j what must be equal is joined: a group is two of its components,
    that of its first node and the opposite one.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    n = lq.n
    held = np.flatnonzero(lq.fixed >= 0)
    if not held.size and not len(lq.apart):
        return np.arange(n), np.ones(n)
    other = lq.fixed[held[1:]] != lq.fixed[held[:1]] if held.size else np.empty(0, bool)
    i = np.concatenate([np.repeat(held[:1], max(held.size - 1, 0)), lq.apart[:, 0]])
    j = np.concatenate([held[1:] + n * other, lq.apart[:, 1] + n])
    ends = np.concatenate([i, (i + n)]), np.concatenate([j, (j + n) % (2 * n)])
    graph = csr_matrix((np.ones(2 * i.size), ends), shape=(2 * n, 2 * n))
    label = connected_components(graph, directed=False)[1].astype(np.int64)
    own, opposite = label[:n], label[n:]
    if (own == opposite).any():
        raise InfeasibleError("cannot-links and fixed labels leave no labeling with two clusters.")
    _, first, groups = np.unique(np.minimum(own, opposite), return_index=True, return_inverse=True)
    groups = groups.reshape(-1).astype(np.int64)
    return groups, np.where(own == own[first][groups], 1.0, -1.0)


def partition_lift(lq: LabelQuadratic, *, cone: str = "centred") -> Lift:
    """X = M - J/k for k clusters (or X = M with ``cone="plain"``); equal fixed labels merge."""
    k = lq.k
    groups = np.arange(lq.n)
    for h in np.unique(lq.fixed[lq.fixed >= 0]):
        held = np.flatnonzero(lq.fixed == h)
        groups[held] = held[0]
    groups = np.unique(groups, return_inverse=True)[1].astype(np.int64).reshape(-1)
    m = int(groups.max()) + 1
    _require_arrays(m)
    if m < lq.n:
        merged = lq.contract(groups)
        W, weights, fixed, apart = merged.matrix.dense(), merged.weights, merged.fixed, merged.apart
    else:
        W, weights, fixed, apart = lq.matrix.dense(), lq.weights, lq.fixed, lq.apart
    held = np.flatnonzero(fixed >= 0)
    between = np.array([(held[a], held[c]) for a in range(held.size) for c in range(a)],
                       dtype=np.int64).reshape(-1, 2)
    pairs = np.unique(np.sort(np.concatenate([apart, between]), axis=1), axis=0)
    top, floor = (1.0 - 1.0 / k, -1.0 / k) if cone == "centred" else (1.0, 0.0)
    b = weights.astype(np.float64)
    n = float(b.sum())
    low, high = np.full(m, lq.low.min(), dtype=float), np.full(m, lq.high.max(), dtype=float)
    low[held], high[held] = lq.low[fixed[held]], lq.high[fixed[held]]
    least, most = square_sums(lq.low, lq.high, int(n))
    total = float(W.sum())
    return Lift(R=W, k=k, top=top, floor=floor, b=b, square=most + floor * n**2,
                square_low=max(0.0, least + floor * n**2),
                base=lq.constant + lq.scale * floor * total, scale=lq.scale, groups=groups,
                signs=np.ones(lq.n), bounded=True, rows=np.arange(m),
                row_low=np.maximum(low, b) + floor * n, row_high=high + floor * n, pairs=pairs,
                mass=float(np.abs(lq.matrix.dense()).sum()))
