"""mmcopt: maximum-margin clustering as optimisation.

Declare a clustering problem, transform it into convex ones, solve it with any solver that fits,
and know how far from optimal the answer can be.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Name -> module: everything is imported on first use, so that `import mmcopt` stays light.
_EXPORTS = {
    "solve": "mmcopt.solving", "Solver": "mmcopt.solving",
    "Formulation": "mmcopt.modeling", "Statement": "mmcopt.modeling",
    "LabelQuadratic": "mmcopt.capabilities", "LabelRatio": "mmcopt.capabilities",
    "Result": "mmcopt.modeling", "Status": "mmcopt.modeling",
    "evaluate": "mmcopt.bounds", "certify": "mmcopt.solving",
    "check": "mmcopt.solving", "fits": "mmcopt.solving", "pairing_table": "mmcopt.solving",
    "compare": "mmcopt.comparing", "load": "mmcopt.saving", "save": "mmcopt.saving",
}
_MODULES = ("assignment", "condensing", "constraints", "datasets", "errors", "estimators",
            "formulations", "kernels", "metrics", "plot", "selection", "solvers", "streaming")

__all__ = sorted([*_EXPORTS, *_MODULES, "__version__"])

if TYPE_CHECKING:
    import mmcopt.assignment as assignment
    import mmcopt.condensing as condensing
    import mmcopt.constraints as constraints
    import mmcopt.datasets as datasets
    import mmcopt.errors as errors
    import mmcopt.estimators as estimators
    import mmcopt.formulations as formulations
    import mmcopt.kernels as kernels
    import mmcopt.metrics as metrics
    import mmcopt.plot as plot
    import mmcopt.selection as selection
    import mmcopt.solvers as solvers
    import mmcopt.streaming as streaming
    from mmcopt.bounds import evaluate
    from mmcopt.capabilities import LabelQuadratic, LabelRatio
    from mmcopt.comparing import compare
    from mmcopt.modeling import Formulation, Result, Statement, Status
    from mmcopt.saving import load, save
    from mmcopt.solving import Solver, certify, check, fits, pairing_table, solve


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"mmcopt.{name}")
    else:
        raise AttributeError(f"module 'mmcopt' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
