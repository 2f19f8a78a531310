"""Usage: numba_add.py FILE. Write Numba's PTX of an element-wise sum for sm_90."""

import sys

import numba
from numba import cuda


def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 2 * y[i]


array = numba.types.float32[::1]
ptx, _ = cuda.compile_ptx(add, (array, array, array), cc=(9, 0))
with open(sys.argv[1], "w") as file:
    file.write(ptx)
