"""Label problems whose sizes are tight, first with sizes that are not: the searches' way there.

Where sizes are exact, or nearly so, one move of a sample breaks them and the next must mend them,
so that searches change little and slowly. Loosened by a tenth of a mean cluster the same problem is
searched with ease, and its labels need few moves to keep to the sizes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from mmcopt.capabilities import LabelQuadratic
from mmcopt.types import Ints

LOOSE = 0.1  # of a mean cluster, by which sizes are loosened
ALIKE = 2  # sizes up to so many times the least: any cluster may take any of them


def loosened(lq: LabelQuadratic) -> LabelQuadratic:
    """The problem with looser sizes, kept; itself where its own are loose.

    Where the sizes are about alike and no label is given, clusters may also exchange theirs.

    >>> import numpy as np
    >>> lq = LabelQuadratic(np.eye(60), k=3, low=[18, 20, 22], high=[18, 20, 22])
    >>> loose = loosened(lq)
    >>> loose.low, loose.high
    (array([16, 16, 16]), array([24, 24, 24]))
    """
    if "loosened" not in lq._memo:
        lq._memo["loosened"] = _loosened(lq)
    return lq if lq._memo["loosened"] is None else lq._memo["loosened"]


def _loosened(lq: LabelQuadratic) -> LabelQuadratic | None:
    total = int(lq.weights.sum())
    slack = int(LOOSE * total / lq.k)
    if slack <= lq.weights.max() or (np.minimum(lq.high, total) - lq.low).max() >= 2 * slack:
        return None
    low, high = (lq.low, lq.high) if _named(lq) else \
        (np.full(lq.k, lq.low.min()), np.full(lq.k, lq.high.max()))
    return replace(lq, const=lq.constant, low=np.maximum(low - slack, np.minimum(low, 1)),
                   high=high + slack)


def _named(lq: LabelQuadratic) -> bool:
    """Whether clusters keep their names, and so their sizes."""
    return bool((lq.fixed >= 0).any() or lq.high.max() > ALIKE * lq.low.min())


def tightened(lq: LabelQuadratic, c: Ints, rng: np.random.Generator) -> Ints:
    """Labels of the loosened problem that keep to the sizes: clusters named anew, few moves."""
    if not _named(lq):
        held = np.bincount(c, lq.weights, lq.k)[:, None]
        off = np.maximum(lq.low - held, 0) + np.maximum(held - lq.high, 0)
        c = linear_sum_assignment(off)[1][c]
    return lq.repair(c, rng)
