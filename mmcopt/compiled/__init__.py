"""Every loop that numba compiles: functions of arrays and numbers that know nothing of problems.

It may import only single files such as `mmcopt.linalg`. A function and those that it calls share a
file, because numba's cache does not see changes elsewhere; import these modules inside functions,
since numba takes half a second.
"""

from __future__ import annotations

from typing import Any

# For loops that only loops of their own file call: without the wrappers for Python, which take as
# long to compile. Called from Python, such a loop ends the process.
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
