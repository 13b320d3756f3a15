"""The language of problems and answers: `Formulation`, its `Statement`, and `Result`.

It may import capabilities, kernels, `mmcopt.registry` and single files. `Formulation` reaches the
relaxations, and `Result` certificates, ladder, files and pictures, only where a method is called.
"""

from mmcopt.modeling.formulation import Formulation, Statement, cached
from mmcopt.modeling.result import (
    Certificate,
    Check,
    ClimbEnd,
    History,
    Report,
    Result,
    Rung,
    Status,
)

__all__ = ["Certificate", "Check", "ClimbEnd", "Formulation", "History", "Report", "Result",
           "Rung", "Statement", "Status", "cached"]
