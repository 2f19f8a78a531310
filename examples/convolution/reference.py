"""Reference for convolution.cu."""

from typing import Any

import numpy as np


def convolution(input: Any, filter: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(input, filter.shape)
    return np.einsum("yxij,ij->yx", windows, filter, optimize=True)
