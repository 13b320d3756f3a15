"""The lifted hinge problem of several kernels: its arrays, and the bound that any duals prove."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcopt.bounds.label_weight_lift import JointLift, box, shares
from mmcopt.bounds.weight_lift import margin_lift
from mmcopt.capabilities import Capability, KernelMargin, LiftedMargin
from mmcopt.linalg import UNIT
from mmcopt.types import Floats

TURNS = 50  # of the machine and the weights of the kernels


@dataclass(frozen=True, eq=False)
class KernelLift(Capability):
    """W_m psd of diagonal s_m, with |s|_p <= 1, in the place of s_m yy', y the signs of the scores.

    Two classes first. With w_m the difference of the two rows of v_m, which are w_m / 2 and
    - w_m / 2 without loss, ``|v_m|^2 = |w_m|^2 / 2``. For given s and y the dual of the machine,
    objective over ``scale``, is ``mean a - sum_m s_m a'(Q_m o yy')a`` over 0 <= a <= 1,
    ``Q_m = K_m / (4 c n^2)``, c = beta / 4. Only ``W_m = s_m yy'`` enters, and linearly, so W_m psd
    with diag W_m = s_m leaves a convex problem: the least, over W and s, of a maximum over a. As
    the order may be changed, any a and u prove

        mean a - | (max_Y <Q_m o aa', Y>)_m |_q  >=  mean a - | (sum u_m + ..)_m |_q,

    1/p + 1/q = 1 (q = inf: the largest), Y psd of diagonal 1, one for each kernel. That the Y agree
    is lost, but for p = 1, where s is a mean; on digits it is worth .5 %, the rank the rest.

    For k classes the scores t_m of a kernel, of mean 0, have ``t1 - t2 <= sum_m (k/(k-1)
    |t_m|^2)^1/2`` as `LiftedMargin` shows for one. The maximum over a of given W is that very sum
    with ``V_m`` for ``k/(k-1) sum_p v_mp v_mp'`` and c = beta (k-1) / (2k), so nothing else
    changes.
    """

    joints: tuple[JointLift, ...]
    p: float
    scale: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.joints[0].n

    @property
    def power(self) -> float:
        """q, of the norm that is dual to that of s."""
        return self.p / (self.p - 1.0) if self.p > 1.0 else math.inf

    @functools.cached_property
    def Q(self) -> Floats:
        """All Q_m, (M, n, n)."""
        return np.stack([joint.kernel(0.0) for joint in self.joints])

    # ------------------------------------------------------------ points

    def machine(self, W: Floats) -> tuple[float, Floats]:
        """The maximum over a for given W, and where it is."""
        value, a = box(np.einsum("mij,mij->ij", self.Q, W))
        return self.scale * value, a

    def point(self, Y: Floats) -> Floats:
        """The W_m = s_m Y of the best s, by turns with the machine of each s.

        Of a machine ``|v_m|`` is in proportion to ``s_m (a'(Q_m o Y)a)^1/2``, and the best s for
        given v to ``|v_m|^(2/(p+1))``.
        """
        s = np.full(len(self.joints), len(self.joints) ** (-1.0 / self.p))
        for _ in range(TURNS):
            a = self.machine(s[:, None, None] * Y)[1]
            squares = np.einsum("mij,ij,i,j->m", self.Q, Y, a, a)
            v = s * np.sqrt(np.maximum(squares, 0.0))
            if not v.max() > 0.0:
                break
            old, s = s, (v / v.max()) ** (2.0 / (self.p + 1.0))
            s /= norm(s, self.p)
            if np.abs(s - old).max() <= 1e-7:
                break
        return np.asarray(s[:, None, None] * Y)

    def weights(self, W: Floats) -> Floats:
        """The s of a point."""
        return np.asarray(np.einsum("mii->mi", W).mean(axis=1))

    def violation(self, W: Floats) -> float:
        """The negative part of the spectra, unequal diagonals, and what |s|_p is above 1."""
        s = self.weights(W)
        low = -min(float(np.linalg.eigvalsh(V)[0]) for V in W)
        uneven = float(np.abs(np.einsum("mii->mi", W) - s[:, None]).max())
        return max(0.0, low, uneven, norm(np.abs(s), self.p) - 1.0)

    # ------------------------------------------------------------ the bound

    def lower(self, duals: dict[str, Any]) -> float:
        """A lower bound, proved, for any duals a (n) and u (M, n) whatever; never below 0."""
        a, shape = shares(duals, self.n), (len(self.joints), self.n)
        u = np.asarray(duals.get("u", np.zeros(shape)), dtype=np.float64)
        if u.shape != shape:
            raise ValueError(f"the dual u must have shape {shape}, got {u.shape}")
        tops = [joint.most(a, 0.0, {"u": v}) for joint, v in zip(self.joints, u, strict=True)]
        if not np.isfinite(tops).all():
            return 0.0
        length = norm(np.maximum(tops, 0.0), self.power)
        length += 2 * (len(tops) + 16) * UNIT * length
        value = float(a.mean()) - length - 24 * UNIT * (1.0 + length)
        return max(0.0, self.scale * value * (1.0 - 4 * UNIT))


def norm(v: Floats, q: float) -> float:
    """The q-norm of numbers >= 0."""
    top = float(np.max(v))
    if math.isinf(q) or top == 0.0 or not math.isfinite(top):
        return top
    return float(top * np.sum((v / top) ** q) ** (1.0 / q))


def norms(V: Floats, q: float) -> Floats:
    """The q-norms of rows of numbers >= 0."""
    top = V.max(axis=1)
    if math.isinf(q):
        return np.asarray(top)
    share = V / np.maximum(top, 1e-300)[:, None]
    return np.asarray(top * np.sum(share**q, axis=1) ** (1.0 / q))


def correlation(P: Floats) -> Floats:
    """P over the roots of its diagonal; what has none is apart from all else."""
    root = np.sqrt(np.maximum(np.diagonal(P), 0.0))
    unit = np.divide(1.0, root, out=np.zeros_like(root), where=root > 1e-150)
    Y = P * np.outer(unit, unit)
    Y = (Y + Y.T) / 2
    Y[np.diag_indices(len(Y))] = 1.0
    return np.asarray(Y)


def kernel_lift(problem: KernelMargin) -> KernelLift:
    """The lift of a hinge problem of several kernels."""
    joints = tuple(JointLift(margin_lift(LiftedMargin(part, problem.k, problem.beta)))
                   for part in problem.parts)
    return KernelLift(joints, problem.p, problem.scale)
