"""Usage: cutile_add.py FILE. Write cuTile's cubin of an element-wise sum for sm_90."""

import sys

import cuda.tile as ct
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    export_kernel,
)


@ct.kernel
def add(a, b, c, tile: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(tile,))
    y = ct.load(b, index=(i,), shape=(tile,))
    ct.store(c, index=(i,), tile=x + y * 2)


array = ArrayConstraint(
    ct.float32,
    1,
    index_dtype=ct.int32,
    stride_lower_bound_incl=0,
    alias_groups=(),
    may_alias_internally=False,
    stride_constant=(1,),
)
parameters = [array, array, array, ConstantConstraint(256)]
signature = KernelSignature(parameters, CallingConvention.cutile_python_v1(), "add")
export_kernel(add, [signature], sys.argv[1], gpu_code="sm_90", output_format="cubin")
