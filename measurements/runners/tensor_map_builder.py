"""Encode tensor maps on the GPU instead of in the driver: a kernel with one thread writes the 128 bytes.

These tensor maps have no L2 promotion, because ``tensormap.replace`` cannot set it (PTX ISA 9.7.9.28). Encoding needs
NVRTC and a GPU of compute capability 9.0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from measurements.compiler.nvrtc import compile_source
from measurements.files.work_folders import temporary_folder
from search_spaces.arrays import Array
from search_spaces.launches.headers import Headers, package_headers
from search_spaces.launches.tensor_map import TensorMap

ARCH, ENTRY = "sm_90a", "autosched_fill_tensor_map"
SOURCE = f"""\
#include "autosched/ptx/tensor_map/fields.cuh"

extern "C" __global__ void {ENTRY}(autosched::ptx::TensorMap* map, const autosched::ptx::TensorMapFields fields) {{
  autosched::ptx::fill_tensor_map(map, fields);
}}
"""
# Same layout as TensorMapFields in the header. Enumerators have the numbers that tensormap.replace uses.
FIELDS = np.dtype(
    [
        ("address", "<u8"), ("strides", "<u8", 4),
        ("sizes", "<u4", 5), ("box", "<u4", 5), ("element_strides", "<u4", 5),
        ("rank", "<u4"), ("element", "<u4"), ("swizzle", "<u4"), ("fill", "<u4"),
    ],
    align=True,
)  # fmt: skip
_ELEMENTS = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT32_FTZ", "FLOAT64", "BFLOAT16",
    "TFLOAT32", "TFLOAT32_FTZ",
)  # fmt: skip
_SWIZZLES = ("NONE", "32B", "64B", "128B")
_FILLS = ("NONE", "NAN_REQUEST_ZERO_FMA")


def headers() -> Headers:
    """Return the headers that SOURCE includes."""
    return package_headers()


def fields_of(tensor_map: TensorMap, address: int) -> Array:
    """Return the kernel's parameters for the tensor map of an array at ``address``, as one element of FIELDS.

    Raises ValueError for maps that only the driver can encode.
    """
    if tensor_map.interleave != "NONE" or tensor_map.im2col is not None or max(tensor_map.sizes) >= 2**32:
        raise ValueError(f"{tensor_map.name}: only the driver encodes interleaved or im2col maps, or sizes of 2^32")
    fields = np.zeros(1, FIELDS)
    of = fields[0]
    of["address"], of["rank"] = address, len(tensor_map.sizes)
    for name in ("sizes", "strides", "box", "element_strides"):
        numbers = getattr(tensor_map, name)
        of[name][: len(numbers)] = numbers
    of["element"] = _ELEMENTS.index(tensor_map.element)
    of["swizzle"] = _SWIZZLES.index(tensor_map.swizzle)
    of["fill"] = _FILLS.index(tensor_map.fill)
    return fields


def build_tensor_map(cp: Any, tensor_map: TensorMap, address: int) -> Array:
    """Build the tensor map on the current GPU and stream of ``cp`` (cupy), and return its 128 bytes.

    Raises NvrtcMissing, ValueError as ``fields_of`` does, and cupy's errors if the GPU is not an sm_90.
    """
    # the address must be a multiple of 128; cupy allocates at multiples of 512
    tensor_map_bytes = cp.zeros(128, np.uint8)
    fields = fields_of(tensor_map, address).view(np.dtype((np.void, FIELDS.itemsize)))
    _builder(cp, int(cp.cuda.Device().id))((1,), (1,), (tensor_map_bytes, fields))
    return np.asarray(cp.asnumpy(tensor_map_bytes), np.uint8)


@cache
def _builder(cp: Any, gpu: int) -> Any:
    """Compile the kernel and load it on the current GPU. ``gpu`` is only needed as a key of this function's cache."""
    compiled = compile_source(SOURCE, ENTRY, ARCH, headers())
    if compiled.cubin is None:
        raise ValueError(f"the kernel that encodes tensor maps does not compile: {compiled.log}")
    with temporary_folder("tensor-map") as folder:
        path = folder / "fill_tensor_map.cubin"
        path.write_bytes(compiled.cubin)
        return cp.RawModule(path=str(path)).get_function(ENTRY)
