"""Usage: tilelang_add.py FILE. Write TileLang's CUDA source of an element-wise sum for sm_90."""

import sys

import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def add(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32"), C: T.Tensor((100,), "float32")):
    with T.Kernel(T.ceildiv(100, 32), threads=32) as block:
        for i in T.Parallel(32):
            C[block * 32 + i] = A[block * 32 + i] + 2.0 * B[block * 32 + i]


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    source = tilelang.lower(add, target=target).kernel_source
with open(sys.argv[1], "w") as file:
    file.write(source)
