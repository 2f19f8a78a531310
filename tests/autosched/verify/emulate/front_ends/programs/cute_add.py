"""Usage: cute_add.py FILE. Write CuTe DSL's PTX of an element-wise sum for the GPU CUTE_DSL_ARCH."""

import sys

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 32 + thread
    if i < cute.size(c):
        c[i] = a[i] + b[i] * 2.0


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    add_kernel(a, b, c).launch(grid=[4, 1, 1], block=[32, 1, 1])


tensors = [make_fake_compact_tensor(cutlass.Float32, (100,)) for _ in range(3)]
compiled = cute.compile[cute.KeepPTX()](add, *tensors)
with open(sys.argv[1], "w") as file:
    file.write(compiled.__ptx__)
