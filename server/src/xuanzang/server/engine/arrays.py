"""Types of arrays that the engine hands around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
"""Of any type: what a graph takes or gives."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
