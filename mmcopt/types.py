"""Types of arrays that signatures name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float64; float32 where a search works on copies
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
