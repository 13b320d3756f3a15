"""The pictures of a result by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmcopt.errors import ParameterError
from mmcopt.modeling.result import Result
from mmcopt.plot.domains import plot_domain
from mmcopt.plot.regions import plot_kernel, plot_regions, plot_sizes
from mmcopt.plot.results import plot_history, plot_ladder, plot_result, plot_tree

KINDS: dict[str, Callable[..., Any]] = {
    "clusters": plot_result, "regions": plot_regions, "sizes": plot_sizes, "kernel": plot_kernel,
    "domain": plot_domain, "history": plot_history, "ladder": plot_ladder, "tree": plot_tree}


def draw(result: Result, kind: str, ax: Any = None) -> Any:
    """Draw one of the pictures of a result, which `KINDS` names."""
    if kind not in KINDS:
        raise ParameterError(f"plot: kind must be one of {', '.join(map(repr, KINDS))}; "
                             f"got {kind!r}.")
    return KINDS[kind](result, ax=ax)
