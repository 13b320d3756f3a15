"""Whether a problem agrees with itself: its objective, and the value that its offer has."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mmcopt.capabilities import LabelProblem, LabelQuadratic
from mmcopt.tolerances import AGREEMENT

Wrong: TypeAlias = str | None  # what is wrong, in a sentence


def disagreement(f: Any, point: Any) -> Wrong:
    """How the objective of labels and their value by the offer of them differ, if so."""
    lq = f.offer(LabelProblem)
    if lq is None:
        return None
    ours, theirs = f.objective(point), lq.value(lq.reduce(np.asarray(point)))
    size = max(abs(ours), abs(theirs), abs(lq.constant), f.vanishing)
    if abs(ours - theirs) <= AGREEMENT * size + f.uncertainty(point):
        return None
    over = "" if isinstance(lq, LabelQuadratic) else " / v'z_h"
    return (f"objective(point) is {ours:.10g} where offer({type(lq).__name__}) has the value "
            f"{theirs:.10g} for the same labels; one of them is wrong: look at scale and const, "
            f"value = const - scale * sum_h z_h'W z_h{over}")
