"""What convolution.cu computes."""

from typing import Any

import numpy as np


def convolution(input: Any, filter: Any, **sizes: int) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(input.astype("float64"), filter.shape)
    return np.einsum("yxij,ij->yx", windows, filter.astype("float64"), optimize=True)
