"""Array types shared by all of search_spaces."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]  # array of elements as a kernel stores them, of any type
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
